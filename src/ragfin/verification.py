"""Look each citation up in the text that was sent: whether the quoted text is there, and whether it touches the gold.

Offsets are taken as code points; whether the API counts characters outside the BMP as one cannot be told without a
key, so `verify` says when a quotation fits once its offsets are read as UTF-16 units or UTF-8 bytes. Nothing here
corrects a citation or judges whether the quoted text supports the answer. It asks nobody: recorded citations are
verified as fresh ones are.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import nan
from typing import Any, NamedTuple

from ragfin.corpus import Passage

CHAR_LOCATION = "char_location"


class Document(NamedTuple):
    """One text to send: ``id`` is ours, ``title`` is shown to the model (None sends none), ``text`` goes verbatim."""

    id: str
    title: str | None
    text: str


Documents = Document | Sequence[Document]


@dataclass(frozen=True, slots=True)
class Citation:
    """One citation as it was returned, unchecked: `verify` tells what it is worth.

    ``document`` is the id of the document that ``document_index`` names, None when no document sent has that index.
    ``start`` and ``end`` are half-open offsets into its text and ``quoted`` is the text that the API says lies there;
    both offsets are None for a kind of location without characters. ``answer_span`` is the half-open span of the
    answer that the citation supports; ``location`` holds every field as returned, for example page numbers.
    """

    document: str | None
    start: int | None
    end: int | None
    quoted: str
    answer_span: tuple[int, int] = (0, 0)
    kind: str = CHAR_LOCATION
    document_index: int | None = None
    title: str | None = None
    location: Mapping[str, Any] = field(default_factory=dict, hash=False)


class Status(StrEnum):
    """What `verify` finds; only `SOUND` and `NULL_TITLE` have the quoted text at their offsets."""

    SOUND = "sound"
    NULL_TITLE = "null title"
    TEXT_DIFFERS = "text differs"
    WRONG_DOCUMENT = "wrong document"
    OUTSIDE = "offsets outside the text"
    REVERSED = "offsets reversed or empty"
    NOT_INTEGER = "index not an integer"
    UNKNOWN_DOCUMENT = "unknown document"
    NOT_VERIFIABLE = "not verifiable by characters"

    @property
    def holds(self) -> bool:
        """Whether the quoted text is where the citation says."""
        return self in (Status.SOUND, Status.NULL_TITLE)


class Verdict(NamedTuple):
    """A status, and one line that says why."""

    status: Status
    reason: str


class CitationMeasures(NamedTuple):
    """How the citations of one answer meet the gold: see `measure`."""

    precision: float
    recall: float
    covered: float
    n_citations: int
    n_sound: int
    n_unverifiable: int


def verify(citation: Citation, documents: Documents | Mapping[str, str]) -> Verdict:
    """Tell whether the text that a citation quotes is what lies at its offsets.

    Parameters
    ----------
    citation : Citation
        As it was returned.
    documents : Document, sequence of Document, or mapping of id to text
        The documents as they were sent, looked up by index (by id for a citation without one), or the corpus's
        texts, looked up by id.

    Returns
    -------
    Verdict
        The first that holds: not verifiable by characters (another kind of location) · index not an integer · unknown
        document · offsets reversed or empty · outside the text · wrong document (the text is at these offsets of
        another document sent, or the title is another's) · text differs · null title (all is right but
        the title, which was sent, came back null) · sound.

    Examples
    --------
    >>> texts = {"R05": "Margen: 20,5 %"}
    >>> verify(Citation("R05", 8, 14, "20,5 %"), texts).status.value
    'sound'
    >>> print(verify(Citation("R05", 8, 14, "Margen"), texts).reason)
    'R05'[8:14] is '20,5 %', not 'Margen': the quoted text stands at 0
    """
    if citation.kind != CHAR_LOCATION:
        return Verdict(Status.NOT_VERIFIABLE, f"a {citation.kind} has no character offsets")
    has_index = citation.document_index is not None or citation.document is None
    for value in (citation.start, citation.end, *([citation.document_index] if has_index else [])):
        if type(value) is not int:
            return Verdict(Status.NOT_INTEGER, f"an index is {value!r}, not an integer")
    by_id = isinstance(documents, Mapping) or not has_index
    sent = as_documents(
        [Document(i, None, t) for i, t in documents.items()] if isinstance(documents, Mapping) else documents
    )
    document = _find(citation, sent, by_id)
    if document is None:
        named = f"id {citation.document!r}" if by_id else f"index {citation.document_index}"
        return Verdict(Status.UNKNOWN_DOCUMENT, f"no document has {named}: there are {len(sent)}")
    return _compare(citation, document, sent)


def touched_passages(citation: Citation, passages: Iterable[Passage]) -> tuple[Passage, ...]:
    """Return the passages of the cited document that share at least one character with the cited span.

    Returns
    -------
    tuple of Passage
        In the order given; empty for a citation without characters, a reversed or an empty span. Whether
        the citation is sound is not looked at: `measure` does.

    Examples
    --------
    >>> passages = [Passage("R05-p001", "R05", 0, 10), Passage("R05-p002", "R05", 12, 20)]
    >>> [passage.id for passage in touched_passages(Citation("R05", 10, 13, ""), passages)]
    ['R05-p002']
    """
    start, end = citation.start, citation.end
    if citation.kind != CHAR_LOCATION or type(start) is not int or type(end) is not int:
        return ()
    return tuple(p for p in passages if p.doc_id == citation.document and max(start, p.start) < min(end, p.end))


def measure(
    citations: Sequence[Citation],
    documents: Documents | Mapping[str, str],
    gold_passages: Sequence[Passage],
) -> CitationMeasures:
    """Measure the citations of one answer against its gold passages.

    Parameters
    ----------
    citations : sequence of Citation
        All those of the answer; one given twice weighs twice in the precision.
    documents : as in `verify`
        What the citations are verified against.
    gold_passages : sequence of Passage
        Empty for an unanswerable question.

    Returns
    -------
    CitationMeasures
        ``precision``: of the citations by characters, the fraction that holds and touches a gold passage; nan
        without any. ``recall``: the fraction of the gold passages touched by a citation that holds. ``covered``: the
        fraction of the gold passages' characters inside the union of the cited spans that hold. All three are nan
        without gold passages; recall and covered are 0 without citations.
        Citations of other kinds are not verifiable: counted, in no fraction.

    Examples
    --------
    >>> texts, gold = {"R05": "Margen: 20,5 %"}, [Passage("R05-p001", "R05", 0, 14)]
    >>> measure([Citation("R05", 8, 14, "20,5 %"), Citation("R05", 0, 6, "Ventas")], texts, gold)[:2]
    (0.5, 1.0)
    """
    statuses = [verify(citation, documents).status for citation in citations]
    by_characters = [s for s in statuses if s is not Status.NOT_VERIFIABLE]
    holding = [citation for citation, status in zip(citations, statuses, strict=True) if status.holds]
    touched = [touched_passages(citation, gold_passages) for citation in holding]
    precision = recall = covered = nan
    if gold_passages:
        found = {passage for passages in touched for passage in passages}
        recall = sum(passage in found for passage in gold_passages) / len(gold_passages)
        inside = sum(_inside(holding, passage) for passage in gold_passages)
        covered = inside / sum(passage.end - passage.start for passage in gold_passages)
        if by_characters:
            precision = sum(map(bool, touched)) / len(by_characters)
    n_sound = statuses.count(Status.SOUND)
    return CitationMeasures(precision, recall, covered, len(citations), n_sound, len(statuses) - len(by_characters))


def as_documents(documents: Documents) -> tuple[Document, ...]:
    """Return one document or several as a tuple."""
    if isinstance(documents, str):
        raise TypeError("documents are given as Document(id, title, text), not as bare text")
    return (documents,) if isinstance(documents, Document) else tuple(documents)


def _find(citation: Citation, sent: Sequence[Document], by_id: bool) -> Document | None:
    """Return the cited document, by id or by index (never from the end); None when there is none."""
    index = citation.document_index
    if by_id or index is None:
        return next((document for document in sent if document.id == citation.document), None)
    return sent[index] if 0 <= index < len(sent) else None


def _compare(citation: Citation, document: Document, sent: Sequence[Document]) -> Verdict:
    """Compare the quoted text with the characters at the offsets, integers both, of a document that exists."""
    start, end, quoted, text = citation.start or 0, citation.end or 0, citation.quoted, document.text
    if start >= end:
        return Verdict(Status.REVERSED, f"[{start}:{end}] holds no character")
    if citation.title in {other.title for other in sent} - {None, document.title}:
        return Verdict(Status.WRONG_DOCUMENT, f"index names {document.id!r}, title names {citation.title!r}")
    inside = start >= 0 and end <= len(text)
    if not inside or text[start:end] != quoted:
        for other in sent:
            if start >= 0 and end <= len(other.text) and other.text != text and other.text[start:end] == quoted:
                return Verdict(Status.WRONG_DOCUMENT, f"the quoted text is there in {other.id!r}, not {document.id!r}")
        if not inside:
            return Verdict(Status.OUTSIDE, f"[{start}:{end}] leaves {document.id!r}, which has {len(text)} characters")
        here = f"{document.id!r}[{start}:{end}] is {_short(text[start:end])}, not {_short(quoted)}"
        return Verdict(Status.TEXT_DIFFERS, f"{here}: {_hint(citation, text)}")
    if document.title is not None and citation.title is None and citation.document_index is not None:
        return Verdict(Status.NULL_TITLE, f"the text is there, but {document.id!r} was sent with a title")
    return Verdict(Status.SOUND, f"{document.id!r}[{start}:{end}] is the quoted text")


def _hint(citation: Citation, text: str) -> str:
    """Say where the quoted text is, or in which unit the offsets would fit."""
    start, end, quoted = citation.start or 0, citation.end or 0, citation.quoted
    for unit, encoding, width in (("UTF-16 units", "utf-16-le", 2), ("UTF-8 bytes", "utf-8", 1)):
        if text.encode(encoding, "surrogatepass")[start * width : end * width] == quoted.encode(
            encoding, "surrogatepass"
        ):
            return f"the offsets fit as {unit}"
    found = text.find(quoted)
    if found >= 0:
        return f"the quoted text stands at {found}"
    if _folded(quoted) in _folded(text):
        return "it is there but for the Unicode form or the line ends: send the text exactly as stored"
    return "the quoted text is nowhere in the document"


def _folded(text: str) -> str:
    """Return a text in one Unicode form (NFC) with ``\n`` as its only line end."""
    return unicodedata.normalize("NFC", text).replace("\r\n", "\n")


def _short(text: str, width: int = 40) -> str:
    """Return a text quoted and cut for a one-line message."""
    return repr(text if len(text) <= width else text[: width - 1] + "…")


def _inside(citations: Iterable[Citation], passage: Passage) -> int:
    """Return how many characters of a passage lie in the union of the cited spans."""
    spans = sorted(
        (max(c.start or 0, passage.start), min(c.end or 0, passage.end))
        for c in citations
        if touched_passages(c, [passage])
    )
    inside, reached = 0, passage.start
    for start, end in spans:
        inside += max(end - max(start, reached), 0)
        reached = max(end, reached)
    return inside
