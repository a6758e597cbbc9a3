"""Citations that code can verify: ask for them with offsets, then look each one up in the text that was sent.

Asking a model for ``[n]`` is fragile. The Anthropic Messages API cites a plain-text document by character offsets
(``char_location``): the text between them must be the text it quotes, and may touch a gold passage or not.
Offsets are taken as code points; whether the API counts characters outside the BMP as one cannot be told without
a key, so `verify` says when a quotation fits once offsets are read as UTF-16 units or UTF-8 bytes. It does not
correct a citation, and does not judge whether the quoted text supports the answer.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import nan
from typing import Any, NamedTuple

from ragfin.corpus import Passage
from ragfin.messages_api import Document as Document
from ragfin.messages_api import acollect, collect, get, plain, redacted, user_turn

CHAR_LOCATION = "char_location"
MAX_TOKENS = 1024

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


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """An answer with its citations, the documents by index, and the turns that a follow-up question needs.

    ``stop_reason`` is the API's (``end_turn``, ``max_tokens``, ...), None when the answer was cut off on the way.
    """

    text: str
    citations: tuple[Citation, ...]
    documents: tuple[Document, ...]
    stop_reason: str | None
    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    turns: tuple[Mapping[str, Any], ...] = ()

    @property
    def failed(self) -> bool:
        """Whether there is no answer to judge: cut off without a stop reason, or refused."""
        return self.stop_reason in (None, "refusal")


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


def cite(
    client: Any,
    documents: Documents,
    question: str,
    *,
    model: str,
    max_tokens: int = MAX_TOKENS,
    stream: bool = False,
    system: str | None = None,
    after: CitedAnswer | None = None,
) -> CitedAnswer:
    """Ask a question over documents sent verbatim, with citations enabled, and return the answer with its citations.

    Parameters
    ----------
    client : anthropic.Anthropic
        The official synchronous client; it does the retries. `ragfin.simulator.client` gives one that needs no key.
    documents : Document or sequence of Document
        Sent in this order as plain-text blocks, exactly as stored. May be empty in a follow-up.
    question : str
        Comes after the documents in the same turn.
    model : str
        The API's name of the model.
    max_tokens : int, optional
        Longest answer, in tokens; an answer that reaches it has the stop reason ``max_tokens``.
    stream : bool, optional
        Read the answer as a stream of events. The result is the same; a cut stream gives a failed answer.
    system : str, optional
        System message; None sends none.
    after : CitedAnswer, optional
        An earlier answer to follow up: its turns are sent again, and document indices count from its documents on.

    Returns
    -------
    CitedAnswer
        Without citations when the model gave none. ``failed`` when it has no stop reason.

    Raises
    ------
    ValueError
        Nothing to send, two texts under one id, or a text that UTF-8 cannot carry.
    anthropic.APIError
        What the client raises once its retries are used up, with the key redacted.
    """
    sent, request = _request(documents, question, model, max_tokens, system, after)
    with redacted(client):
        if not stream:
            return _answer(client.messages.create(**request), sent, request)
        with client.messages.create(**request, stream=True) as events:
            return _answer(collect(events), sent, request)


async def acite(
    client: Any,
    documents: Documents,
    question: str,
    *,
    model: str,
    max_tokens: int = MAX_TOKENS,
    stream: bool = False,
    system: str | None = None,
    after: CitedAnswer | None = None,
) -> CitedAnswer:
    """Do what `cite` does with the asynchronous client, `anthropic.AsyncAnthropic`."""
    sent, request = _request(documents, question, model, max_tokens, system, after)
    with redacted(client):
        if not stream:
            return _answer(await client.messages.create(**request), sent, request)
        async with await client.messages.create(**request, stream=True) as events:
            return _answer(await acollect(events), sent, request)


def parse_message(message: Any, documents: Documents) -> CitedAnswer:
    """Read a message of the API, a typed object or a raw dictionary, that answers about these documents.

    Text blocks are joined as they are; a citation supports the whole of its block. Other blocks hold no answer.

    Examples
    --------
    >>> block = {"type": "text", "text": "Sí.", "citations": [{"type": "char_location", "cited_text": "Reparte",
    ...          "document_index": 0, "document_title": "ETF", "start_char_index": 0, "end_char_index": 7}]}
    >>> etf = Document("R11", "ETF", "Reparte dividendos.")
    >>> answer = parse_message({"content": [block], "stop_reason": "end_turn"}, etf)
    >>> [citation] = answer.citations
    >>> citation.document, citation.start, citation.end, citation.answer_span, verify(citation, etf).status.value
    ('R11', 0, 7, (0, 3), 'sound')
    """
    sent = _as_documents(documents)
    text, citations = "", []
    for block in get(message, "content") or ():
        if get(block, "type") != "text":
            continue
        span = (len(text), len(text) + len(get(block, "text") or ""))
        text += get(block, "text") or ""
        citations += [_citation(plain(location), sent, span) for location in get(block, "citations") or ()]
    usage = get(message, "usage")
    return CitedAnswer(
        text,
        tuple(citations),
        sent,
        get(message, "stop_reason"),
        get(message, "model"),
        get(usage, "input_tokens"),
        get(usage, "output_tokens"),
    )


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
    sent = _as_documents(
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


def citation_to_json(citation: Citation) -> dict[str, Any]:
    """Return a citation as a JSON object for a record: the location as returned, our document's id, the span."""
    location = citation.location or {
        "type": citation.kind,
        "cited_text": citation.quoted,
        "document_index": citation.document_index,
        "document_title": citation.title,
        "start_char_index": citation.start,
        "end_char_index": citation.end,
    }
    return {"document": citation.document, "answer_span": [*citation.answer_span], "location": dict(location)}


def citation_from_json(recorded: Mapping[str, Any]) -> Citation:
    """Return the citation that `citation_to_json` wrote.

    Examples
    --------
    >>> location = {"type": "page_location", "cited_text": "Deuda", "document_index": 0, "start_page_number": 3}
    >>> citation = citation_from_json({"document": "R01", "answer_span": [0, 9], "location": location})
    >>> citation.kind, citation.document, citation.answer_span, citation_to_json(citation)["location"] == location
    ('page_location', 'R01', (0, 9), True)

    Raises
    ------
    KeyError, TypeError, ValueError
        The object is no recorded citation.
    """
    first, last = recorded["answer_span"]
    return _located(dict(recorded["location"]), recorded["document"], (int(first), int(last)))


def _request(
    documents: Documents,
    question: str,
    model: str,
    max_tokens: int,
    system: str | None,
    after: CitedAnswer | None,
) -> tuple[tuple[Document, ...], dict[str, Any]]:
    """Return the documents by index, those of the earlier turns first, and the arguments of the call."""
    new = _as_documents(documents)
    sent = (*(after.documents if after else ()), *new)
    if not sent:
        raise ValueError("there is no document to cite: pass at least one")
    texts: dict[str, str] = {}
    for document in sent:
        if texts.setdefault(document.id, document.text) != document.text:
            raise ValueError(f"two different texts have the id {document.id!r}: give each document its own")
    messages = [*(after.turns if after else ()), user_turn(new, question)]
    request: dict[str, Any] = {"model": model, "max_tokens": max_tokens, "messages": messages}
    return sent, request if system is None else {**request, "system": system}


def _answer(message: Any, sent: tuple[Document, ...], request: Mapping[str, Any]) -> CitedAnswer:
    """Return the parsed answer together with the turns so far, its own included."""
    answer = parse_message(message, sent)
    spoken = [{"role": "assistant", "content": answer.text}] if answer.text.strip() else []
    return CitedAnswer(
        answer.text,
        answer.citations,
        sent,
        answer.stop_reason,
        answer.model,
        answer.input_tokens,
        answer.output_tokens,
        (*request["messages"], *spoken),
    )


def _citation(location: Mapping[str, Any], sent: Sequence[Document], span: tuple[int, int]) -> Citation:
    """Read one location; its document is the one that its index names, never counted from the end."""
    index = location.get("document_index")
    known = type(index) is int and 0 <= index < len(sent)
    return _located(location, sent[index].id if known and type(index) is int else None, span)


def _located(location: Mapping[str, Any], document: str | None, span: tuple[int, int]) -> Citation:
    """Read one location by the name of its kind; indices stay as they came."""
    kind = str(location.get("type"))
    characters = kind == CHAR_LOCATION
    return Citation(
        document=document,
        start=location.get("start_char_index") if characters else None,
        end=location.get("end_char_index") if characters else None,
        quoted=str(location.get("cited_text") or ""),
        answer_span=span,
        kind=kind,
        document_index=location.get("document_index"),
        title=location.get("document_title") or location.get("title"),
        location=location,
    )


def _as_documents(documents: Documents) -> tuple[Document, ...]:
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
            if start >= 0 and other.text != text and other.text[start:end] == quoted:
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
