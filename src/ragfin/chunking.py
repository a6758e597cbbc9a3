"""Structure-aware chunking: headings give the header, tables stay whole, footnotes travel with their mark.

The rules are the lesson's and literal: offsets are code points of the raw text, only ``\\n``
ends a line, and text directly under a heading without a blank line is in no chunk.
It does not parse Markdown, count tokens or overlap chunks.
"""

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass

from ragfin.corpus import Corpus

Span = tuple[int, int]
_Cut = tuple[str, tuple[Span, ...]]  # section and spans of one chunk

FOOTNOTE_MARKS = "¹²³⁴⁵⁶⁷⁸⁹"

_HEADING_LINE = re.compile(r"^#{2,} (.*)", re.MULTILINE)
_MARK = re.compile(f"[{FOOTNOTE_MARKS}]")
_NOT_NEWLINE = re.compile(r"[^\n]")
_BLOCK_CHARS = 1_000_000  # code points of text that an executor's worker is given at a time
_WAITING_BLOCKS = 16


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of one document that is indexed and shown as a whole.

    ``spans`` are half-open code point offsets ``(start, end)`` into the document's raw text; ``text`` is
    what is indexed: the header ``title > section``, a blank line, and the texts of the spans.
    """

    doc_id: str
    title: str
    section: str
    spans: tuple[Span, ...]
    text: str

    @property
    def body(self) -> str:
        """The text after the first blank line, that is, without the header."""
        return self.text.partition("\n\n")[2]


def chunk_document(doc_id: str, title: str, text: str, max_chars: int = 800) -> list[Chunk]:
    """Cut one document into chunks along its structure.

    Parameters
    ----------
    doc_id, title : str
        Identifier and title; the title opens the header of every chunk.
    text : str
        Raw text of the document; any string, the empty one included.
    max_chars : int, optional
        Longest span, in code points, that merged paragraphs may reach. 800 as in the lesson.

    Returns
    -------
    list of Chunk
        Chunks in the order of the text; empty when no block makes one.

    Source
    ------
    The lesson's ``trocear``. The cost grows linearly with the length of the text.

    Examples
    --------
    >>> text = "# Informe\\n\\n## Deuda\\n\\nDeuda neta: 12,5 millones¹.\\n\\n¹ Incluye arrendamientos."
    >>> [chunk] = chunk_document("R01", "Informe", text)
    >>> chunk.spans
    ((21, 48), (50, 75))
    >>> print(chunk.text)
    Informe > Deuda
    <BLANKLINE>
    Deuda neta: 12,5 millones¹.
    <BLANKLINE>
    ¹ Incluye arrendamientos.
    """
    footnotes = {text[start]: (start, end) for start, end in blocks(text) if text[start] in FOOTNOTE_MARKS}
    section_starts, section_names = _sections(text)
    chunks = []
    section, spans, fixed = "", tuple[Span, ...](), True  # of the chunk that is open
    for start, end in blocks(text):
        if text[start] == "#" or text[start] in FOOTNOTE_MARKS:
            continue
        position = bisect_right(section_starts, start)
        here = section_names[position - 1] if position else ""
        marks = dict.fromkeys(_MARK.findall(text, start, end)) if footnotes else ()
        notes = [footnotes[mark] for mark in marks if mark in footnotes]
        is_fixed = text[start] == "|" or bool(notes)
        if spans and not fixed and not is_fixed and section == here and end - spans[0][0] <= max_chars:
            spans = ((spans[0][0], end),)
            continue
        if spans:
            chunks.append(_chunk(doc_id, title, section, spans, text))
        section, spans, fixed = here, ((start, end), *notes), is_fixed
    if spans:
        chunks.append(_chunk(doc_id, title, section, spans, text))
    return chunks


def chunk_corpus(corpus: Corpus, max_chars: int = 800, *, executor: Executor | None = None) -> list[Chunk]:
    """Cut every document of a corpus, in file order.

    Parameters
    ----------
    corpus : Corpus
        What `ragfin.load_corpus` returns.
    max_chars : int, optional
        As in `chunk_document`.
    executor : concurrent.futures.Executor, optional
        As in `chunk_documents`.

    Returns
    -------
    list of Chunk
        The chunks of all documents, one document after the other.
    """
    columns = (corpus.documents[name] for name in ("doc_id", "title", "text"))
    return list(chunk_documents(zip(*columns, strict=True), max_chars, executor=executor))


def chunk_documents(
    documents: Iterable[tuple[str, str, str]], max_chars: int = 800, *, executor: Executor | None = None
) -> Iterator[Chunk]:
    """Cut documents one after the other, holding only a few of them at a time.

    Parameters
    ----------
    documents : iterable of (str, str, str)
        Id, title and text; read as the chunks are taken.
    max_chars : int, optional
        As in `chunk_document`.
    executor : concurrent.futures.Executor, optional
        A process pool or Dask's ``client.get_executor(pure=False)``: gets blocks of about a million characters, of
        which a few wait at a time. Same chunks in the same order as without.

    Yields
    ------
    Chunk
        In the order of the documents and of their text.
    """
    if executor is None:
        for document in documents:
            yield from chunk_document(*document, max_chars)
        return
    waiting: deque[tuple[list[tuple[str, str, str]], Future[list[list[_Cut]]]]] = deque()
    for block in _blocks_of_documents(documents):
        waiting.append((block, executor.submit(_cut_block, [text for _, _, text in block], max_chars)))
        if len(waiting) >= _WAITING_BLOCKS:
            yield from _chunks_of_block(*waiting.popleft())
    while waiting:
        yield from _chunks_of_block(*waiting.popleft())


def blocks(text: str) -> Iterator[Span]:
    """Yield the spans of a text's blocks, half-open, in order.

    Examples
    --------
    >>> list(blocks("uno\\ndos\\n\\n\\ntres\\n"))
    [(0, 7), (10, 15)]
    """
    position = 0
    while match := _NOT_NEWLINE.search(text, position):
        start = match.start()
        end = text.find("\n\n", start)
        if end < 0:
            end = len(text)
        yield start, end
        position = end


def _chunk(doc_id: str, title: str, section: str, spans: tuple[Span, ...], text: str) -> Chunk:
    """Return a chunk with its text: header, blank line, the texts of the spans with blank lines between."""
    pieces = [f"{title} > {section}", *(text[start:end] for start, end in spans)]
    return Chunk(doc_id, title, section, spans, "\n\n".join(pieces))


def _sections(text: str) -> tuple[list[int], list[str]]:
    """Return where each heading line starts and what it says, in order."""
    starts, names = [], []
    for line in _HEADING_LINE.finditer(text):
        starts.append(line.start())
        names.append(line[1])
    return starts, names


def _blocks_of_documents(documents: Iterable[tuple[str, str, str]]) -> Iterator[list[tuple[str, str, str]]]:
    """Yield documents in blocks of about `_BLOCK_CHARS` characters."""
    block: list[tuple[str, str, str]] = []
    size = 0
    for document in documents:
        block.append(document)
        size += len(document[2])
        if size >= _BLOCK_CHARS:
            yield block
            block, size = [], 0
    if block:
        yield block


def _cut_block(texts: Sequence[str], max_chars: int) -> list[list[_Cut]]:
    """Cut some texts, which is what an executor's worker does: sections and spans cost less to send than chunks."""
    return [[(c.section, c.spans) for c in chunk_document("", "", text, max_chars)] for text in texts]


def _chunks_of_block(documents: Sequence[tuple[str, str, str]], cut: "Future[list[list[_Cut]]]") -> Iterator[Chunk]:
    """Yield the chunks of some documents from where a worker cut them."""
    for (doc_id, title, text), pieces in zip(documents, cut.result(), strict=True):
        for section, spans in pieces:
            yield _chunk(doc_id, title, section, spans, text)
