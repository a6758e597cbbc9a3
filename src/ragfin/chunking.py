"""Structure-aware chunking: headings give the header, tables stay whole, footnotes travel with their mark.

The rules are the lesson's and literal: offsets are code points of the raw text, only ``\\n``
ends a line, and text directly under a heading without a blank line is in no chunk.
It does not parse Markdown, count tokens or overlap chunks.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from ragfin.corpus import Corpus

Span = tuple[int, int]

FOOTNOTE_MARKS = "¹²³⁴⁵⁶⁷⁸⁹"

_HEADING_LINE = re.compile(r"^#{2,} (.*)", re.MULTILINE)
_MARK = re.compile(f"[{FOOTNOTE_MARKS}]")
_NOT_NEWLINE = re.compile(r"[^\n]")


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
    spans_of_blocks = list(blocks(text))
    footnotes = {text[start]: (start, end) for start, end in spans_of_blocks if text[start] in FOOTNOTE_MARKS}
    section_starts, section_names = _sections(text)

    drafts: list[tuple[str, list[Span], bool]] = []  # section, spans, fixed
    for start, end in spans_of_blocks:
        if text[start] == "#" or text[start] in FOOTNOTE_MARKS:
            continue
        position = bisect_right(section_starts, start)
        section = section_names[position - 1] if position else ""
        marks = [m for m in dict.fromkeys(_MARK.findall(text, start, end)) if m in footnotes]
        fixed = text[start] == "|" or bool(marks)
        if drafts and not fixed:
            last_section, last_spans, last_fixed = drafts[-1]
            opened = last_spans[0][0]
            if not last_fixed and last_section == section and end - opened <= max_chars:
                last_spans[0] = (opened, end)
                continue
        drafts.append((section, [(start, end), *(footnotes[m] for m in marks)], fixed))

    return [
        Chunk(
            doc_id, title, section, tuple(spans), "\n\n".join([f"{title} > {section}", *(text[a:b] for a, b in spans)])
        )
        for section, spans, _ in drafts
    ]


def chunk_corpus(corpus: Corpus, max_chars: int = 800) -> list[Chunk]:
    """Cut every document of a corpus, in file order.

    Parameters
    ----------
    corpus : Corpus
        What `ragfin.load_corpus` returns.
    max_chars : int, optional
        As in `chunk_document`.

    Returns
    -------
    list of Chunk
        The chunks of all documents, one document after the other.
    """
    frame = corpus.documents
    return [
        chunk
        for doc_id, title, text in zip(frame["doc_id"], frame["title"], frame["text"], strict=True)
        for chunk in chunk_document(doc_id, title, text, max_chars)
    ]


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


def _sections(text: str) -> tuple[list[int], list[str]]:
    """Return where each heading line starts and what it says, in order."""
    lines = list(_HEADING_LINE.finditer(text))
    return [line.start() for line in lines], [line[1] for line in lines]
