"""The data contract: which columns the three tables have, what they hold, and how they refer to each other.

pandera checks each column; rules across columns and tables, and the words of every fault, are ours. All faults
are found, not only the first.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, NamedTuple

import pandas as pd
import pandera.pandas as pandera

from ragfin.figures import FIGURE_TOKEN
from ragfin.language import SPANISH, Language
from ragfin.tables import Fault, Table
from ragfin.text import words

_YES = frozenset({"true", "1", "1.0", "sí", "si", "s", "yes", "y", "verdadero", "v"})
_NO = frozenset({"false", "0", "0.0", "no", "n", "falso", "f"})
_MISSING = frozenset({"nan", "NaN", "<NA>"})
_BEYOND_ANY_TEXT = 2**53  # up to here a float holds every whole number


def as_offset(value: Any) -> int | None:
    """Return a whole number written as an int, a float or digits; None for anything else, and beyond any text."""
    try:
        number = float(value) if not isinstance(value, bool) else float("nan")
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if number.is_integer() and abs(number) < _BEYOND_ANY_TEXT else None


def as_flag(value: Any) -> bool | None:
    """Return a truth value written as True/False, 1/0 or a Spanish or English yes/no; None for anything else."""
    written = str(value).strip().casefold()
    return True if written in _YES else False if written in _NO else None


def as_ids(value: Any) -> tuple[str, ...]:
    """Return the ids joined by ``;`` in a cell; none for a missing cell."""
    return tuple(part.strip() for part in value.split(";") if part.strip()) if isinstance(value, str) else ()


class Rule(NamedTuple):
    """What the cells of a column must hold, and what to say when one does not."""

    holds: Callable[[Any], bool]
    problem: str
    repair: str
    nullable: bool = False


_TEXT = Rule(
    lambda v: isinstance(v, str) and v.strip() not in {"", *_MISSING},
    "is not text",
    "fill in text",
)
_RAW = Rule(lambda v: isinstance(v, str) and v not in _MISSING, "is not text", "fill in the document's text")
_OFFSET = Rule(
    lambda v: as_offset(v) is not None, "is not a whole number", "write an offset in code points, such as 120"
)
_FLAG = Rule(lambda v: as_flag(v) is not None, "is neither true nor false", "write True or False")
_IDS = Rule(lambda v: isinstance(v, str), "is not text", "write passage ids joined by ';'", nullable=True)


class Contract(NamedTuple):
    """One table: the names of its file, its columns with the lesson's own names, and its key."""

    stems: tuple[str, ...]
    extension: str
    columns: Mapping[str, tuple[str, Rule]]
    key: str


DOCUMENTS = Contract(
    ("documents", "rag6_documentos"),
    ".parquet",
    {"doc_id": ("id_doc", _TEXT), "title": ("titulo", _TEXT), "text": ("texto", _RAW)},
    "doc_id",
)
PASSAGES = Contract(
    ("passages", "rag6_pasajes"),
    ".parquet",
    {
        "passage_id": ("id_pasaje", _TEXT),
        "doc_id": ("id_doc", _TEXT),
        "start": ("inicio", _OFFSET),
        "end": ("fin", _OFFSET),
    },
    "passage_id",
)
QUESTIONS = Contract(
    ("questions", "rag6_preguntas"),
    ".csv",
    {
        "question_id": ("id_pregunta", _TEXT),
        "doc_id": ("id_doc", _TEXT),
        "question": ("pregunta", _TEXT),
        "gold_answer": ("respuesta_oro", _TEXT),
        "kind": ("tipo_pregunta", _TEXT),
        "answerable": ("respondible", _FLAG),
        "gold_passages": ("pasajes_oro", _IDS),
    },
    "question_id",
)


def with_english_names(table: Table, contract: Contract) -> Table:
    """Return the table with the lesson's Spanish column names translated; other columns keep their names."""
    present = set(table.frame.columns)
    names = {alias: name for name, (alias, _) in contract.columns.items() if name not in present}
    return Table(table.file, table.frame.rename(columns=names), table.rows, table.faults)


def column_faults(table: Table, contract: Contract) -> list[Fault]:
    """Return the faults of one table's columns: a missing column or cell, a wrong type, a key that occurs twice.

    Parameters
    ----------
    table : Table
        With English column names.
    contract : Contract
        What the table must hold.

    Returns
    -------
    list of Fault
        In the order of the file; empty when the table keeps the contract.
    """
    frame = table.frame
    if table.faults and not len(frame.columns):
        return []
    if twice := sorted(set(frame.columns[frame.columns.duplicated()])):
        return [Fault(table.file, None, f"has two columns {twice[0]!r}", "rename or drop one")]
    faults = [
        Fault(table.file, None, f"column {name!r} is missing", f"add it ({alias!r} also does)")
        for name, (alias, _) in contract.columns.items()
        if name not in frame.columns
    ]
    if not len(frame):
        return faults if table.faults else [*faults, Fault(table.file, None, "has no rows", "add at least one")]
    try:
        _schema(contract, frame).validate(frame.reset_index(drop=True), lazy=True)
    except pandera.errors.SchemaErrors as error:
        cases = error.failure_cases
        faults += [
            fault for (column, check), group in cases.groupby(["column", "check"], sort=False)
            for fault in _translate(table, contract, column, check, [int(i) for i in group["index"]])
        ]  # fmt: skip
    return sorted(faults, key=lambda fault: fault.row or 0)


def passage_faults(passages: Table, lengths: Mapping[str, int | None]) -> Iterator[Fault]:
    """Yield the passages whose document is unknown or whose span does not lie in it.

    ``lengths`` are in code points by document id, None for a document whose text cannot be read.
    """
    for position, (doc_id, start, end) in enumerate(_cells(passages, "doc_id", "start", "end")):
        start, end = as_offset(start), as_offset(end)
        if lengths and isinstance(doc_id, str) and doc_id not in lengths:
            yield passages.fault(
                position, f"doc_id {doc_id!r} is not in the documents", "correct it or add the document"
            )
        if start is None or end is None:
            continue
        size = lengths.get(doc_id) if isinstance(doc_id, str) else None
        if end == start:
            yield passages.fault(position, f"span {start}-{end} is empty", "make end greater than start")
        elif end < start:
            yield passages.fault(position, f"span {start}-{end} is reversed", "make end greater than start")
        if start < 0 or (size is not None and max(start, end) > size):
            inside = "0" if size is None else f"0-{size}"
            problem = f"span {start}-{end} lies outside its document {doc_id!r}"
            yield passages.fault(position, problem, f"keep it within {inside}, in code points of the text")


def question_faults(
    questions: Table, doc_ids: frozenset[str], passage_ids: frozenset[str], language: Language = SPANISH
) -> Iterator[Fault]:
    """Yield the questions whose document or gold passages are unknown, or whose gold contradicts ``answerable``."""
    names = ("doc_id", "gold_answer", "answerable", "gold_passages")
    for position, (doc_id, gold, answerable, cell) in enumerate(_cells(questions, *names)):
        if doc_ids and isinstance(doc_id, str) and doc_id not in doc_ids:
            yield questions.fault(
                position, f"doc_id {doc_id!r} is not in the documents", "correct it or add the document"
            )
        ids = as_ids(cell)
        for passage_id in dict.fromkeys(ids):
            if passage_ids and passage_id not in passage_ids:
                yield questions.fault(
                    position, f"gold passage {passage_id!r} does not exist", "correct the id or add the passage"
                )
            if ids.count(passage_id) > 1:
                yield questions.fault(position, f"gold passage {passage_id!r} is named twice", "name it once")
        flag = None if answerable is None else as_flag(answerable)
        if flag is False and ids:
            problem = f"is unanswerable but has gold passages {';'.join(ids)!r}"
            yield questions.fault(position, problem, "empty gold_passages or set answerable to True")
        if flag is True and not ids and "gold_passages" in questions.frame:
            problem = "is answerable but has no gold passage"
            yield questions.fault(
                position, problem, "name the passages that hold the answer or set answerable to False"
            )
        if not isinstance(gold, str) or not _TEXT.holds(gold) or flag is None:
            continue
        if flag != (language.abstention.lower() not in gold.lower()):
            state = "answerable" if flag else "unanswerable"
            yield questions.fault(position, f"is {state} but its gold answer is {gold!r}", "correct one of the two")
        elif not words(gold, stop_words=language.stop_words) and not FIGURE_TOKEN.search(gold):
            problem = f"gold_answer {gold!r} has no word and no figure"
            yield questions.fault(position, problem, "write an answer that can be looked up")


def typed(table: Table, contract: Contract) -> pd.DataFrame:
    """Return the frame of a faultless table with its final types: str, int64, bool; extra columns as they are."""
    frame = table.frame.infer_objects()
    for name, (_, rule) in contract.columns.items():
        cells = table.frame[name]
        if rule is _OFFSET:
            frame[name] = pd.Series([as_offset(v) for v in cells], index=frame.index, dtype="int64")
        elif rule is _FLAG:
            frame[name] = pd.Series([as_flag(v) for v in cells], index=frame.index, dtype="bool")
        elif rule is _IDS:
            frame[name] = pd.Series([";".join(as_ids(v)) for v in cells], index=frame.index, dtype="str")
        else:
            frame[name] = pd.Series(list(cells), index=frame.index, dtype="str")
    return frame


def _schema(contract: Contract, frame: pd.DataFrame) -> pandera.DataFrameSchema:
    """Return the pandera schema of the columns that are there; lists and objects are no text, so no keys either."""
    key = contract.key if all(isinstance(value, Hashable) for value in frame.get(contract.key, ())) else None
    return pandera.DataFrameSchema(
        {
            name: pandera.Column(
                checks=pandera.Check(rule.holds, element_wise=True, name="rule"),
                nullable=rule.nullable,
                unique=name == key,
                report_duplicates="exclude_first",
            )
            for name, (_, rule) in contract.columns.items()
            if name in frame.columns
        }
    )


def _translate(table: Table, contract: Contract, column: str, check: str, positions: list[int]) -> Iterator[Fault]:
    """Yield pandera's failure cases of one column and check in our words."""
    rule = contract.columns[column][1]
    values = list(table.frame[column])
    if check == "field_uniqueness":
        for position in positions:
            if values[position] is not None:
                first = table.rows[values.index(values[position])]
                problem = f"{column} {values[position]!r} is already in row {first}"
                yield table.fault(position, problem, "give each record its own id")
        return
    if len(positions) == len(values) > 3:
        yield table.fault(positions[0], f"{column} {_told(values[positions[0]], rule)}, as in every row", rule.repair)
        return
    for position in positions:
        yield table.fault(position, f"{column} {_told(values[position], rule)}", rule.repair)


def _told(value: Any, rule: Rule) -> str:
    """Return what is wrong with one cell."""
    if value is None or value != value or (isinstance(value, str) and value.strip() in {"", *_MISSING}):
        return "is empty"
    return f"{value!r:.60} ({type(value).__name__}) {rule.problem}"


def _cells(table: Table, *names: str) -> Iterator[tuple[Any, ...]]:
    """Yield the cells of some columns, row by row; None where the column or the cell is missing."""
    columns = [table.frame[name] if name in table.frame else [None] * len(table.frame) for name in names]
    for cells in zip(*columns, strict=True):
        yield tuple(None if value is None or value != value else value for value in cells)
