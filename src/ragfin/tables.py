"""Read one table of a corpus, whatever its file format, and keep each record's row in the file.

CSV (UTF-8, comma or semicolon), Parquet and JSON Lines. Nothing is judged here but the file itself: what the
columns mean is the business of `ragfin.contract`.
"""

import csv
import io
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

_SURROGATE = re.compile("[\ud800-\udfff]")
EXTENSIONS = (".parquet", ".csv", ".jsonl")


class Fault(NamedTuple):
    """One thing that is wrong, where, and what to do about it.

    ``row`` is the file's own: the line of a CSV or JSON Lines file (a CSV's header is line 1), and for Parquet the
    record counted from 1. It is None when the fault is the whole file's.
    """

    file: str
    row: int | None
    problem: str
    repair: str

    def __str__(self) -> str:
        """Return the fault in one line."""
        place = self.file if self.row is None else f"{self.file}, row {self.row}"
        return f"{place}: {self.problem}; {self.repair}"


@dataclass(frozen=True, eq=False)
class Table:
    """A table as read: values untouched in columns of objects, and the file's row of each record."""

    file: str
    frame: pd.DataFrame
    rows: Sequence[int]
    faults: list[Fault] = field(default_factory=list)

    def fault(self, position: int, problem: str, repair: str) -> Fault:
        """Return a fault at a record, given by its position from 0."""
        return Fault(self.file, self.rows[position], problem, repair)


def find_table(folder: Path, stems: Sequence[str]) -> Path | None:
    """Return the first file of a folder named after one of the stems; None when there is none."""
    names = [folder / f"{stem}{extension}" for stem in stems for extension in EXTENSIONS]
    return next((path for path in names if path.is_file()), None)


def read_table(path: Path) -> Table:
    """Read a table by its extension; what cannot be read is a fault of the result, never an exception.

    Parameters
    ----------
    path : Path
        A ``.parquet``, ``.csv`` or ``.jsonl`` file.

    Returns
    -------
    Table
        Empty cells are None. Text that is not UTF-8 is a fault, and read with replacement characters so that
        the rest of the file can be checked too.
    """
    try:
        if path.suffix == ".parquet":
            return _read_parquet(path)
        data = path.read_bytes()
    except (OSError, pa.ArrowException) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return _unreadable(path.name, None, f"cannot be read ({reason})", "write the file again")
    text, faults = decode(path.name, data)
    read = _read_csv if path.suffix == ".csv" else _read_jsonl
    table = read(path.name, text)
    return Table(table.file, table.frame, table.rows, faults + table.faults)


def _read_parquet(path: Path) -> Table:
    """Read a Parquet file; a pandas index in it is a column like any other."""
    table = pq.read_table(path)
    faults, columns = [], {}
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            values: list[Any] = []
            for row, value in enumerate(column.cast(pa.large_binary()).to_pylist(), start=1):
                values.append(None if value is None else value.decode("utf-8", "replace"))
                if value is not None and (problem := _not_utf8(value)):
                    faults.append(Fault(path.name, row, f"{name}: {problem}", "write the text as UTF-8"))
        else:
            values = column.to_pylist()
        columns[name] = pd.Series(values, dtype=object)
    frame = pd.DataFrame(columns)
    return Table(path.name, frame, range(1, len(frame) + 1), faults)


def _read_csv(file: str, text: str) -> Table:
    """Read a CSV file with a header line."""
    header = text.partition("\n")[0]
    delimiter = ";" if ";" in header and "," not in header else ","
    limit = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        names: list[str] = []
        records, rows, faults, line = [], [], [], 1
        try:
            for record in reader:
                if not names:
                    names = [name.strip() for name in record]
                elif record:
                    if len(record) != len(names):
                        problem = f"has {len(record)} cells, the header has {len(names)}"
                        faults.append(Fault(file, line, problem, "quote the cells that hold a comma or a quote"))
                    padded = [*record, *[""] * len(names)][: len(names)]
                    records.append([cell if cell.strip() else None for cell in padded])
                    rows.append(line)
                line = reader.line_num + 1
        except csv.Error as error:
            return _unreadable(file, line, f"is not CSV from here on ({error})", "close or double the quotes")
    finally:
        csv.field_size_limit(limit)
    return Table(file, pd.DataFrame(records, columns=names, dtype=object), rows, faults)


def _read_jsonl(file: str, text: str) -> Table:
    """Read a file of one JSON object a line."""
    records, rows, faults = [], [], []
    for row, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            record = error
        if isinstance(record, dict):
            if _SURROGATE.search(json.dumps(record, ensure_ascii=False)):
                faults.append(Fault(file, row, "holds half of a surrogate pair", "write the text as UTF-8"))
            records.append({name: _plain(value) for name, value in record.items()})
            rows.append(row)
        else:
            faults.append(Fault(file, row, "is not a JSON object", "write one object a line"))
    names = list(dict.fromkeys(name for record in records for name in record))
    columns = {name: pd.Series([record.get(name) for record in records], dtype=object) for name in names}
    return Table(file, pd.DataFrame(columns), rows, faults)


def _plain(value: Any) -> Any:
    """Return a JSON value as a cell: text that UTF-8 can hold, and lists and objects as their text."""
    text = value if isinstance(value, str) else json.dumps(value) if isinstance(value, list | dict) else None
    return value if text is None else _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def decode(file: str, data: bytes) -> tuple[str, list[Fault]]:
    """Return the text of a file, and a fault for each line that is not UTF-8."""
    try:
        return data.decode("utf-8-sig"), []
    except UnicodeDecodeError:
        faults = [
            Fault(file, row, problem, "save the file as UTF-8")
            for row, line in enumerate(data.split(b"\n"), start=1)
            if (problem := _not_utf8(line))
        ]
        return data.decode("utf-8-sig", "replace"), faults


def _not_utf8(data: bytes) -> str:
    """Return what is wrong with some bytes as UTF-8; empty when nothing is."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"byte 0x{data[error.start]:02x} is not UTF-8 (after {data[: error.start].decode()[-20:]!r})"
    return ""


def _unreadable(file: str, row: int | None, problem: str, repair: str) -> Table:
    """Return an empty table with one fault."""
    return Table(file, pd.DataFrame(), [], [Fault(file, row, problem, repair)])
