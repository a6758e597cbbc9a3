"""A Messages API that needs no key: the official client talks to it, and its "model" is a trivial rule.

The rule: BM25 over the sentences of the documents, the best one returned and cited. It tests the pipeline, not a
model. Answers have the documented shape, whole or as a stream, with token usage filled in; requests are checked as
the API checks them; and it misbehaves on demand. The same request always gets the same bytes.
Tokens are counted as words and marks, not with the API's tokenizer, and of the documents it reads plain text only.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import nan
from typing import Any, NamedTuple

import anthropic
import httpx2
import numpy as np
import pandas as pd
from rank_bm25 import BM25Okapi

from ragfin.citations import Document, cite, measure, touched_passages, verify
from ragfin.corpus import Corpus, Passage
from ragfin.messages_validation import document_blocks, fault
from ragfin.misbehaviour import ONCE, Misbehaviour, spoiled
from ragfin.text import words

MODEL = "simulator"
KEY = "simulated-key-0000"
NO_ANSWER = "No consta."
SHORTEST = 20  # a piece of this many characters or fewer is no sentence

_SENTENCE_END = re.compile(r"\.(?=\s|$)")
_LINE = re.compile(r"[^\n]+")
_TOKEN = re.compile(r"\w+|[^\w\s]")
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


class Found(NamedTuple):
    """A sentence: the index of its document and its half-open span there."""

    document_index: int
    start: int
    end: int


def transport(*misbehaviours: Misbehaviour) -> httpx2.MockTransport:
    """Return a transport that answers Messages API requests, for a synchronous or an asynchronous client.

    Parameters
    ----------
    *misbehaviours : Misbehaviour
        Those that happen once answer the first requests, in the order given (given twice, they happen twice);
        the others shape every answer.

    Returns
    -------
    httpx2.MockTransport

    Examples
    --------
    >>> http = httpx2.Client(transport=transport(), headers={"x-api-key": KEY, "anthropic-version": "2023-06-01"})
    >>> http.post("https://api.anthropic.com/v1/messages", json={"model": MODEL}).json()["error"]
    {'type': 'invalid_request_error', 'message': 'max_tokens: Field required'}
    """
    once = [m for m in misbehaviours if m in ONCE]
    always = frozenset(misbehaviours) - set(once)

    def handler(request: httpx2.Request) -> httpx2.Response:
        if once:
            status, message = ONCE[once.pop(0)]
            if not status:
                raise httpx2.ReadTimeout(message, request=request)
            return _error(status, message, request)
        return _respond(request, always)

    return httpx2.MockTransport(handler)


def client(*misbehaviours: Misbehaviour, **options: Any) -> anthropic.Anthropic:
    """Return the official synchronous client over the simulator; ``options`` go to the client."""
    http = httpx2.Client(transport=transport(*misbehaviours))
    return anthropic.Anthropic(**{"api_key": KEY, "base_url": "https://api.anthropic.com", **options}, http_client=http)


def async_client(*misbehaviours: Misbehaviour, **options: Any) -> anthropic.AsyncAnthropic:
    """Return the official asynchronous client over the simulator; ``options`` go to the client."""
    http = httpx2.AsyncClient(transport=transport(*misbehaviours))
    return anthropic.AsyncAnthropic(
        **{"api_key": KEY, "base_url": "https://api.anthropic.com", **options}, http_client=http
    )


def sentences(text: str) -> list[tuple[int, int]]:
    """Return the half-open spans of a text's sentences, in code points, without white space at the ends.

    A sentence ends with its line, or at a period that white space follows, so that figures stay whole. A heading and
    a row of a table are one sentence each. Pieces of 20 characters or fewer are dropped.

    Source
    ------
    The lesson's rule; its splitter also broke figures at the period of a thousands group.

    Examples
    --------
    >>> text = "# Informe — Zaptec, S.A. en 2024\\nVentas de 1.472,9 millones de USD. Fin."
    >>> [text[start:end] for start, end in sentences(text)]
    ['# Informe — Zaptec, S.A. en 2024', 'Ventas de 1.472,9 millones de USD.']
    """
    return [
        (start, end) for piece in _pieces(text) for start, end in [_stripped(text, *piece)] if end - start > SHORTEST
    ]


def best_sentences(texts: Sequence[str], question: str, n: int = 1) -> list[Found]:
    """Return the n sentences of the texts that BM25 ranks first for a question; the first wins a tie.

    Returns
    -------
    list of Found
        Shorter than n, or empty, when the texts have fewer sentences.
    """
    found, bm25 = _index(tuple(texts))
    if bm25 is None:
        return found[:n]
    order = np.argsort(-bm25.get_scores(words(question)), kind="stable")[:n]
    return [found[i] for i in order]


def simulate_corpus(
    corpus: Corpus, *misbehaviours: Misbehaviour, question_ids: Sequence[str] | None = None, stream: bool = False
) -> pd.DataFrame:
    """Ask the simulator every question of a corpus over the question's own document, and verify what it cites.

    Parameters
    ----------
    corpus : Corpus
        What `ragfin.load_corpus` returns.
    *misbehaviours : Misbehaviour
        As in `transport`.
    question_ids : sequence of str, optional
        The questions to ask; None asks all, in file order.
    stream : bool, optional
        Ask for streams of events.

    Returns
    -------
    DataFrame
        One row per question: ``question_id, kind, answerable, doc_id, answer, failed, n_citations, start, end, quoted,
        status, reason`` (of the first citation; None and "no citation" without one), ``touched, gold``
        (passage ids joined by ``;``), ``correct`` (the first citation holds and touches a gold passage; False
        when unanswerable) and ``precision, recall, covered`` of `ragfin.citations.measure`, nan where not applicable,
        those of a failed answer included.
    """
    titles = dict(zip(corpus.documents["doc_id"], corpus.documents["title"], strict=True))
    texts = dict(zip(corpus.documents["doc_id"], corpus.documents["text"], strict=True))
    passages: dict[str, list[Passage]] = {}
    for row in corpus.passages.itertuples(index=False):
        passages.setdefault(str(row.doc_id), []).append(
            Passage(str(row.passage_id), str(row.doc_id), int(str(row.start)), int(str(row.end)))
        )
    questions = list(corpus) if question_ids is None else [corpus.question(i) for i in question_ids]
    rows = []
    with client(*misbehaviours) as simulated:
        for question in questions:
            document = Document(question.doc_id, titles[question.doc_id], texts[question.doc_id])
            answer = cite(simulated, document, question.text, model=MODEL, stream=stream)
            first = answer.citations[0] if answer.citations else None
            verdict = verify(first, answer.documents) if first else None
            touched = touched_passages(first, passages.get(str(first.document), [])) if first else ()
            measures = measure(answer.citations, answer.documents, question.gold_passages)
            correct = verdict is not None and verdict.status.holds and bool({*touched} & {*question.gold_passages})
            rows.append(
                {
                    "question_id": question.id,
                    "kind": question.kind,
                    "answerable": question.answerable,
                    "doc_id": question.doc_id,
                    "answer": answer.text,
                    "failed": answer.failed,
                    "n_citations": len(answer.citations),
                    "start": first.start if first else None,
                    "end": first.end if first else None,
                    "quoted": first.quoted if first else None,
                    "status": str(verdict.status) if verdict else "no citation",
                    "reason": verdict.reason if verdict else "the answer cites nothing",
                    "touched": ";".join(passage.id for passage in touched),
                    "gold": ";".join(passage.id for passage in question.gold_passages),
                    "correct": correct and not answer.failed,
                    "precision": nan if answer.failed else measures.precision,
                    "recall": nan if answer.failed else measures.recall,
                    "covered": nan if answer.failed else measures.covered,
                }
            )
    return pd.DataFrame(rows)


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans between sentence ends, white space included."""
    for line in _LINE.finditer(text):
        start = line.start()
        if line[0].lstrip()[:1] not in ("#", "|"):
            for period in _SENTENCE_END.finditer(line[0]):
                yield start, line.start() + period.end()
                start = line.start() + period.end()
        yield start, line.end()


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without the white space at its ends."""
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())


@lru_cache(maxsize=64)
def _index(texts: tuple[str, ...]) -> tuple[list[Found], BM25Okapi | None]:
    """Return the sentences of the texts and their index, kept by content; no index where no sentence has a word."""
    found = [Found(i, start, end) for i, text in enumerate(texts) for start, end in sentences(text)]
    tokens = [words(texts[i][start:end]) for i, start, end in found]
    return found, BM25Okapi(tokens) if any(tokens) else None


def _respond(request: httpx2.Request, misbehaviours: frozenset[Misbehaviour]) -> httpx2.Response:
    """Answer one request: an error, a message, or a stream of events."""
    if (request.method, request.url.path) != ("POST", "/v1/messages"):
        return _error(404, "Not found", request)
    if not (request.headers.get("x-api-key") or request.headers.get("authorization")):
        return _error(401, "x-api-key header is required", request)
    if "anthropic-version" not in request.headers:
        return _error(400, "anthropic-version: header is required", request)
    try:
        body = json.loads(request.content)
    except ValueError as error:
        return _error(400, f"The request body is not valid JSON: {error}", request)
    if found := fault(body):
        return _error(400, found, request)
    message = _message(body, misbehaviours)
    headers = {"request-id": _id("req", request.content)}
    if not body.get("stream"):
        return httpx2.Response(200, headers=headers, json=message)
    events = _events(message)
    if Misbehaviour.TRUNCATED in misbehaviours:
        events = events[:-4]  # without the last piece of text, the end of its block and the end of the message
    lines = (f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events)
    return httpx2.Response(
        200, headers={**headers, "content-type": "text/event-stream"}, content="".join(lines).encode()
    )


def _error(status: int, message: str, request: httpx2.Request) -> httpx2.Response:
    """Return the documented error body; a retry is asked for after one millisecond."""
    request_id = _id("req", request.content)
    body = {"type": "error", "error": {"type": _ERROR_TYPES[status], "message": message}, "request_id": request_id}
    return httpx2.Response(status, headers={"request-id": request_id, "retry-after-ms": "1"}, json=body)


def _message(body: Mapping[str, Any], misbehaviours: frozenset[Misbehaviour]) -> dict[str, Any]:
    """Return the answer to a sound request."""
    documents = document_blocks(body)
    texts = [block["source"]["data"] for block in documents]
    last = body["messages"][-1]["content"]
    asked = last if isinstance(last, str) else "\n".join(block["text"] for block in last if block["type"] == "text")
    found = best_sentences(texts, asked, n=2 if Misbehaviour.SEVERAL_CITATIONS in misbehaviours else 1)
    text = texts[found[0].document_index][found[0].start : found[0].end] if found else NO_ANSWER
    limit = [token.end() for token in _TOKEN.finditer(text)][: body["max_tokens"]]
    cut = len(limit) == body["max_tokens"] and limit[-1] < len(text)
    block: dict[str, Any] = {"type": "text", "text": text[: limit[-1]] if cut else text}
    enabled = any((document.get("citations") or {}).get("enabled") for document in documents)
    if enabled and Misbehaviour.NO_CITATIONS not in misbehaviours and found:
        block["citations"] = [_location(sentence, documents, misbehaviours) for sentence in found]
    content = [block]
    if Misbehaviour.SEVERAL_BLOCKS in misbehaviours:
        content = [{"type": "text", "text": "El documento dice: "}, block, {"type": "text", "text": "\n"}]
    stop_reason: str | None = "max_tokens" if cut else "end_turn"
    return {
        "id": _id("msg", json.dumps(body, sort_keys=True).encode()),
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": None if Misbehaviour.TRUNCATED in misbehaviours else stop_reason,
        "stop_sequence": None,
        "usage": {
            "input_tokens": sum(map(_tokens, [*texts, asked, str(body.get("system", ""))])),
            "output_tokens": sum(_tokens(str(part["text"])) for part in content),
        },
    }


def _location(
    sentence: Found, documents: Sequence[Mapping[str, Any]], misbehaviours: frozenset[Misbehaviour]
) -> dict[str, Any]:
    """Return the citation of a sentence, right or wrong as ordered."""
    index, start, end = sentence
    text = documents[index]["source"]["data"]
    location = {
        "type": "char_location",
        "cited_text": text[start:end],
        "document_index": index,
        "document_title": documents[index].get("title"),
        "start_char_index": start,
        "end_char_index": end,
    }
    return spoiled(location, misbehaviours, text, len(documents))


def _events(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the documented stream of a message: each citation before its text, the text in pieces."""
    opened = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": opened}, {"type": "ping"}]
    for index, block in enumerate(message["content"]):
        start = {"type": "text", "text": "", **({"citations": []} if "citations" in block else {})}
        deltas = [{"type": "citations_delta", "citation": citation} for citation in block.get("citations", ())]
        deltas += [{"type": "text_delta", "text": piece} for piece in re.findall(r"(?s).{1,16}", block["text"])]
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": message["usage"]["output_tokens"]}
    return [*events, {"type": "message_delta", "delta": ended, "usage": usage}, {"type": "message_stop"}]


def _tokens(text: str) -> int:
    """Count words and marks: a stand-in for the API's tokenizer."""
    return sum(1 for _ in _TOKEN.finditer(text))


def _id(prefix: str, content: bytes) -> str:
    """Return an identifier that depends on the content alone."""
    return f"{prefix}_{hashlib.sha256(content).hexdigest()[:24]}"
