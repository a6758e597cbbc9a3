"""Chunk a corpus that does not fit in memory: documents are read in batches, chunks go to Parquet as they come.

The table of documents is not checked here as `ragfin.load_corpus` checks it, only that it has the columns. Rows must
be whole documents; one document fits in memory.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ragfin import contract
from ragfin.chunking import Chunk, chunk_documents

_READ_ROWS = 4
_WRITE_ROWS = 8192
_SPAN = pa.struct([("start", pa.int64()), ("end", pa.int64())])
_SCHEMA = pa.schema(
    [
        ("doc_id", pa.string()),
        ("title", pa.string()),
        ("section", pa.string()),
        ("spans", pa.list_(_SPAN)),
        ("text", pa.string()),
    ]
)


def read_documents(path: str | Path) -> Iterator[tuple[str, str, str]]:
    """Yield id, title and text of each document of a Parquet table, a few rows in memory at a time.

    Raises
    ------
    ValueError
        A column is missing, or a cell is empty.
    """
    with pq.ParquetFile(path, buffer_size=1 << 20) as file:
        present = set(file.schema_arrow.names)
        columns = [name if name in present else alias for name, (alias, _) in contract.DOCUMENTS.columns.items()]
        if lacking := [name for name in columns if name not in present]:
            raise ValueError(f"{path} has no column {', '.join(lacking)}: it needs doc_id, title and text")
        row = 0
        for batch in file.iter_batches(batch_size=_READ_ROWS, columns=columns):
            for document in zip(*(batch.column(name).to_pylist() for name in columns), strict=True):
                row += 1
                if None in document:
                    raise ValueError(f"{path}, row {row} has an empty cell: every document needs an id, title and text")
                yield document


def chunk_to_parquet(
    documents: str | Path, out: str | Path, max_chars: int = 800, *, executor: Executor | None = None
) -> int:
    """Chunk a Parquet table of documents into a Parquet table of chunks.

    Parameters
    ----------
    documents : str or Path
        A table with ``doc_id, title, text``.
    out : str or Path
        Gets ``doc_id, title, section, spans, text``; it appears when it is whole.
    max_chars : int, optional
        As in `ragfin.chunking.chunk_document`.
    executor : concurrent.futures.Executor, optional
        As in `ragfin.chunking.chunk_documents`; the file has the same bytes with and without.

    Returns
    -------
    int
        The number of chunks.
    """
    return write_chunks(chunk_documents(read_documents(documents), max_chars, executor=executor), out)


def write_chunks(chunks: Iterable[Chunk], out: str | Path) -> int:
    """Write chunks to Parquet as they come, and return their number."""
    part, count, waiting = Path(f"{out}.part"), 0, iter(chunks)
    try:
        with pq.ParquetWriter(part, _SCHEMA, compression="zstd") as writer:
            while rows := list(islice(waiting, _WRITE_ROWS)):
                writer.write_table(pa.Table.from_pylist([_row(chunk) for chunk in rows], schema=_SCHEMA))
                count += len(rows)
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    return count


def read_chunks(path: str | Path) -> Iterator[Chunk]:
    """Yield the chunks of a Parquet table that `write_chunks` wrote."""
    with pq.ParquetFile(path, buffer_size=1 << 20) as file:
        for batch in file.iter_batches(batch_size=_WRITE_ROWS):
            for row in batch.to_pylist():
                spans = tuple((span["start"], span["end"]) for span in row["spans"])
                yield Chunk(row["doc_id"], row["title"], row["section"], spans, row["text"])


def _row(chunk: Chunk) -> dict[str, object]:
    """Return a chunk as a row of the table."""
    spans = [{"start": start, "end": end} for start, end in chunk.spans]
    return {"doc_id": chunk.doc_id, "title": chunk.title, "section": chunk.section, "spans": spans, "text": chunk.text}
