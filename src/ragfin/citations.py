"""Citations that code can verify: ask for them with offsets, over documents that are sent verbatim.

Asking a model for ``[n]`` is fragile. The Anthropic Messages API cites a plain-text document by character offsets
(``char_location``): the text between them must be the text it quotes, and touches a gold passage or not. Here is the
asking and the reading, synchronous, asynchronous and streamed; `verify`, `touched_passages` and `measure` come from
`ragfin.verification`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragfin.messages_api import acollect, collect, get, plain, redacted, user_turn
from ragfin.verification import (
    CHAR_LOCATION,
    Citation,
    CitationMeasures,
    Document,
    Documents,
    Status,
    Verdict,
    as_documents,
    measure,
    touched_passages,
    verify,
)

__all__ = [
    "Citation",
    "CitationMeasures",
    "CitedAnswer",
    "Document",
    "Status",
    "Verdict",
    "acite",
    "citation_from_json",
    "citation_to_json",
    "cite",
    "measure",
    "parse_message",
    "touched_passages",
    "verify",
]

MAX_TOKENS = 1024


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
    sent = as_documents(documents)
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
    new = as_documents(documents)
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
