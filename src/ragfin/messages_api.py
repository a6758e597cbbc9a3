"""The part of the Anthropic Messages API that `ragfin.citations` needs: requests, stream events, keys.

Everything reads the client's typed objects and raw dictionaries alike, because the client does not validate what
the API returns. It does not retry (the official client does) and it never stores a key.
"""

import os
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx2

from ragfin.verification import Document

KEY_VARIABLE = "ANTHROPIC_API_KEY"
REDACTED = "[redacted]"

_SECRET_HEADERS = ("authorization", "x-api-key", "proxy-authorization", "cookie")


class MissingKeyError(RuntimeError):
    """The environment holds no key."""


def anthropic_client(**options: Any) -> anthropic.Anthropic:
    """Return the official synchronous client, its key read from ``ANTHROPIC_API_KEY`` and nowhere else.

    Parameters
    ----------
    **options
        Passed on to `anthropic.Anthropic`, for example ``max_retries``, ``timeout`` or ``http_client``. Not the key.

    Raises
    ------
    MissingKeyError
        The variable is not set or empty.
    """
    return anthropic.Anthropic(api_key=_key(options), **options)


def async_anthropic_client(**options: Any) -> anthropic.AsyncAnthropic:
    """Return the official asynchronous client; otherwise as `anthropic_client`."""
    return anthropic.AsyncAnthropic(api_key=_key(options), **options)


def document_block(document: Document) -> dict[str, Any]:
    """Return the plain-text document block, citations enabled, that carries a document verbatim.

    Raises
    ------
    ValueError
        The text holds a lone surrogate, which no UTF-8 request can carry.
    """
    try:
        document.text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"document {document.id!r} has a lone surrogate at {error.start}, which UTF-8 cannot carry: mend the text"
        ) from None
    block: dict[str, Any] = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": document.text},
        "citations": {"enabled": True},
    }
    return block if document.title is None else {**block, "title": document.title}


def user_turn(documents: Sequence[Document], question: str) -> dict[str, Any]:
    """Return a user message: the documents in order, then the question."""
    return {"role": "user", "content": [*map(document_block, documents), {"type": "text", "text": question}]}


def get(value: Any, name: str, default: Any = None) -> Any:
    """Return a field of a typed object or of a raw dictionary.

    Examples
    --------
    >>> get({"type": "text"}, "type"), get({"type": "text"}, "text", "")
    ('text', '')
    """
    return value.get(name, default) if isinstance(value, Mapping) else getattr(value, name, default)


def plain(value: Any) -> dict[str, Any]:
    """Return a typed object or a raw dictionary as a dictionary of its own, unset fields left out."""
    if isinstance(value, Mapping):
        return dict(value)
    fields: dict[str, Any] = value.model_dump(mode="python", exclude_unset=True, warnings=False)
    return fields


class StreamedMessage:
    """A message put together from its stream of events, whole or cut.

    A citation may come before the text that it supports, so both are collected per block and read when
    the stream is over. Without a ``message_delta`` event the stop reason stays None: the stream was cut.
    """

    def __init__(self) -> None:
        self.message: dict[str, Any] = {"content": [], "stop_reason": None, "usage": {}, "model": None}
        self._blocks: dict[int, dict[str, Any]] = {}

    def add(self, event: Any) -> None:
        """Take the next event in; kinds that carry no text, citation, usage or stop reason change nothing."""
        kind = get(event, "type")
        if kind == "message_start":
            started = get(event, "message")
            self.message["model"] = get(started, "model")
            self._use(get(started, "usage"))
        elif kind == "content_block_start":
            block = get(event, "content_block")
            opened = {
                "type": get(block, "type"),
                "text": get(block, "text") or "",
                "citations": list(get(block, "citations") or ()),
            }
            self._blocks[get(event, "index")] = opened
            self.message["content"].append(opened)
        elif kind == "content_block_delta":
            delta, block = get(event, "delta"), self._blocks.get(get(event, "index"))
            if block is not None and get(delta, "type") == "text_delta":
                block["text"] += get(delta, "text") or ""
            elif block is not None and get(delta, "type") == "citations_delta":
                block["citations"].append(get(delta, "citation"))
        elif kind == "message_delta":
            self.message["stop_reason"] = get(get(event, "delta"), "stop_reason")
            self._use(get(event, "usage"))

    def _use(self, usage: Any) -> None:
        """Keep token counts: those of a later event are totals and replace, those it leaves out stay."""
        for name in ("input_tokens", "output_tokens"):
            if get(usage, name) is not None:
                self.message["usage"][name] = get(usage, name)


def collect(events: Iterable[Any]) -> dict[str, Any]:
    """Return the message that a stream of events builds, its ``stop_reason`` None when it was cut.

    A connection that breaks after the first event cuts the stream too; nothing is raised for it.
    """
    streamed = StreamedMessage()
    try:
        for event in events:
            streamed.add(event)
    except httpx2.TransportError:
        streamed.message["stop_reason"] = None
    return streamed.message


async def acollect(events: AsyncIterable[Any]) -> dict[str, Any]:
    """Return what `collect` returns, from an asynchronous stream."""
    streamed = StreamedMessage()
    try:
        async for event in events:
            streamed.add(event)
    except httpx2.TransportError:
        streamed.message["stop_reason"] = None
    return streamed.message


@contextmanager
def redacted(client: Any) -> Iterator[None]:
    """Take the key out of whatever is raised inside: headers, messages, bodies, causes and contexts.

    The exception stays what it is and keeps its status, its body and its request without the secret headers.
    """
    try:
        yield
    except Exception as error:
        secrets = {s for s in (get(client, "api_key"), get(client, "auth_token")) if isinstance(s, str) and s.strip()}
        _redact(error, secrets, set())
        raise


def _key(options: Mapping[str, Any]) -> str:
    """Return the key from the environment, stripped: a line end in it would be quoted by the HTTP library's error."""
    if {"api_key", "auth_token"} & set(options):
        raise TypeError(f"the key is not an argument: set {KEY_VARIABLE} in the environment")
    key = os.environ.get(KEY_VARIABLE, "").strip()
    if not key:
        raise MissingKeyError(
            f"{KEY_VARIABLE} is not set: export your key, or run against ragfin.simulator, which needs none"
        )
    return key


def _redact(error: BaseException | None, secrets: set[str], seen: set[int]) -> None:
    """Redact an exception and, through its causes and contexts, every one behind it."""
    if error is None or id(error) in seen:
        return
    seen.add(id(error))
    response = getattr(error, "response", None)
    found = [_request_of(error), _request_of(response)]
    found += [_request_of(earlier) for earlier in getattr(response, "history", None) or ()]
    for request in found:
        for name in _SECRET_HEADERS:
            value = request.headers.get(name) if request is not None else None
            if value and value != REDACTED:
                secrets.update({value, value.removeprefix("Bearer ")} - {""})
                request.headers[name] = REDACTED
    error.args = tuple(_scrub(arg, secrets) for arg in error.args)
    for name in ("message", "body", "api_message", "object"):
        if hasattr(error, name):
            setattr(error, name, _scrub(getattr(error, name), secrets))
    _redact(error.__cause__, secrets, seen)
    _redact(error.__context__, secrets, seen)
    for inner in getattr(error, "exceptions", None) or ():
        _redact(inner, secrets, seen)


def _request_of(holder: Any) -> Any:
    """Return the request of an exception or a response; None without one (httpx2 raises when it was never set)."""
    try:
        return getattr(holder, "request", None)
    except RuntimeError:
        return None


def _scrub(value: Any, secrets: set[str]) -> Any:
    """Return a value with every secret in its strings replaced, however deep they lie."""
    if isinstance(value, str):
        for secret in sorted(secrets, key=len, reverse=True):
            value = value.replace(secret, REDACTED)
        return value
    if isinstance(value, Mapping):
        return {_scrub(name, secrets): _scrub(item, secrets) for name, item in value.items()}
    if isinstance(value, list | tuple):
        scrubbed = [_scrub(item, secrets) for item in value]
        return scrubbed if isinstance(value, list) else tuple(scrubbed)
    return value
