"""Ask a model behind an endpoint that speaks OpenAI's chat completions: vLLM, llama.cpp's server, Ollama, a provider.

Many questions are open at once, a bounded number, and the answers come back in the order of the questions, so that the
record's bytes do not depend on who was faster. What may pass is tried again after a growing pause, or after the one
that the server asks for; what remains is a failed answer of that question alone. The key comes from the environment,
is in no message, and is sent to no other host: redirections are not followed.

It does not stream, and it trusts the server about the model: give different models different names.
"""

import os
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import anyio
import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal

from ragfin.messages_api import REDACTED
from ragfin.models import ModelError
from ragfin.prompts import Request
from ragfin.records import Answer, Finish, Identity
from ragfin.settings import ModelSettings

PREFIX = "endpoint:"
LONGEST_PAUSE = 60.0
"""Seconds: the back-off grows up to here, and a server that asks for more is not waited for."""

_FIRST_PAUSE = 0.5
_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_NOBODY_S_ANSWER = {401: "the key is refused", 403: "it is forbidden", 404: "there is no such model or address"}
_FINISH: Mapping[str, Finish] = {"stop": "stop", "length": "length"}
_BLOCK = 4096


class Usage(NamedTuple):
    """What one answer took: seconds from the first attempt to the last byte, pauses included, and the attempts."""

    question_id: str
    seconds: float
    attempts: int
    prompt_tokens: int
    completion_tokens: int


class _AttemptError(Exception):
    """An attempt without an answer: whether it may pass, the pause asked for in seconds, whether nobody was there."""

    def __init__(self, reason: str, *, passing: bool = True, pause: float | None = None, nobody: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.passing, self.pause, self.nobody = reason, passing, pause, nobody


@dataclass
class EndpointGenerator:
    """A model behind an endpoint, as a generator.

    Parameters
    ----------
    model : str
        The server's name of the model.
    url : str
        Address up to and including ``/v1``.
    key_variable : str, optional
        The environment variable that holds the key; a server of your own needs none.
    max_tokens : int, optional
        Longest answer, in tokens.
    concurrency : int, optional
        Questions open at once. At most twice as many are answered ahead of the slowest one, so this is what a kill
        can cost.
    timeout : float, optional
        Seconds for one attempt as a whole.
    retries : int, optional
        Attempts after the first.
    options : mapping, optional
        Further fields of each request, such as ``{"top_p": 0.9}``; part of the key of an answer.
    on_usage : callable, optional
        Called with a `Usage` after each answer, in the order of the answers.
    """

    model: str
    url: str
    key_variable: str = ""
    max_tokens: int = 128
    concurrency: int = 8
    timeout: float = 120.0
    retries: int = 5
    options: Mapping[str, Any] = field(default_factory=dict)
    on_usage: Callable[[Usage], None] | None = None
    first_pause: float = _FIRST_PAUSE
    block: int = field(default=_BLOCK, init=False)

    @classmethod
    def of(cls, settings: ModelSettings) -> "EndpointGenerator":
        """Return the endpoint that the settings describe."""
        return cls(
            settings.name,
            settings.url or "",
            settings.key_variable or "",
            settings.max_tokens,
            settings.concurrency,
            settings.timeout,
            settings.retries,
            settings.options,
        )

    @property
    def host(self) -> str:
        """The host that the text goes to."""
        return urlsplit(self.url).hostname or ""

    @property
    def identity(self) -> Identity:
        """Model and settings; the address is left out, so that a server may move."""
        settings = {"temperature": 0, "seed": 0, "max_tokens": self.max_tokens, **self.options}
        return Identity(PREFIX + self.model, "", "endpoint", settings)

    def unavailable(self) -> str:
        """Return why the endpoint cannot be asked, with the repair; whether it is there shows when it is asked."""
        return f"{self.key_variable} is not set; export your key" if self.key_variable and not self._key else ""

    def answer(self, request: Request) -> Answer:
        """Answer one question."""
        return next(self.answer_many([request]))

    def answer_many(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Answer several questions at once, yielding in their order.

        Raises
        ------
        ModelError
            No question can be answered: the server is not there, the key is refused, or the model does not exist.
        """
        open_questions: deque[Any] = deque()
        waiting = iter(requests)
        with self._portal() as (portal, client):
            while True:
                while len(open_questions) < 2 * self.concurrency and (request := next(waiting, None)) is not None:
                    open_questions.append(portal.start_task_soon(self._answer, client, request))
                if not open_questions:
                    return
                answer, usage = open_questions.popleft().result()
                if self.on_usage is not None:
                    self.on_usage(usage)
                yield answer

    @contextmanager
    def _portal(self) -> Iterator[tuple[BlockingPortal, httpx2.AsyncClient]]:
        """Run an event loop beside this thread, with one client whose connections are bounded."""
        if reason := self.unavailable():
            raise ModelError(f"{self.model} at {self.host} cannot be asked: {reason}")
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        client = httpx2.AsyncClient(
            headers=headers,
            timeout=httpx2.Timeout(self.timeout, pool=None),
            limits=httpx2.Limits(max_connections=self.concurrency, max_keepalive_connections=self.concurrency),
            trust_env=not is_loopback(self.host),  # nothing that stays here goes through a proxy
        )
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(client):
            self._places = portal.call(anyio.CapacityLimiter, self.concurrency)
            yield portal, client

    async def _answer(self, client: httpx2.AsyncClient, request: Request) -> tuple[Answer, Usage]:
        """Ask until there is an answer, or until the attempts are used up."""
        async with self._places:
            started = time.perf_counter()
            for attempt in range(1, self.retries + 2):
                try:
                    answer = await self._attempt(client, request)
                    break
                except _AttemptError as fault:
                    pause = self._pause(fault, attempt)
                    if pause is None and fault.nobody:
                        raise ModelError(
                            f"{self.model} cannot be asked: {fault.reason}; start it, then go on"
                        ) from None
                    if pause is None:
                        tried = f" ({attempt} attempts)" if attempt > 1 else ""
                        answer = Answer.failure(request, self._safe(fault.reason) + tried)
                        break
                    await anyio.sleep(pause)
        took = time.perf_counter() - started
        tokens = answer.prompt_tokens, answer.completion_tokens
        return answer, Usage(request.question_id, took, attempt, *tokens)

    async def _attempt(self, client: httpx2.AsyncClient, request: Request) -> Answer:
        """Ask once."""
        body = {
            "model": self.model,
            "messages": [message._asdict() for message in request.messages],
            **self.identity.settings,
        }
        try:
            with anyio.fail_after(self.timeout):
                response = await client.post(f"{self.url}/chat/completions", json=body)
        except TimeoutError:
            raise _AttemptError(f"no answer within {self.timeout:g} s") from None
        except httpx2.ConnectError as error:
            raise _AttemptError(f"cannot connect to {self.host} ({_one_line(error)})", nobody=True) from None
        except httpx2.TransportError as error:
            raise _AttemptError(f"the connection broke ({type(error).__name__}: {_one_line(error)})") from None
        if response.status_code in _NOBODY_S_ANSWER:
            told = f"{_NOBODY_S_ANSWER[response.status_code]} ({response.status_code}: {_told(response)})"
            raise ModelError(self._safe(f"{self.model} at {self.host} cannot be asked: {told}"))
        if not response.is_success:
            status = f"{response.status_code}: {_told(response)}"
            raise _AttemptError(
                status, passing=response.status_code in _PASSING, pause=_asked_pause(response, time.time())
            )
        return _read(request, response)

    def _pause(self, fault: _AttemptError, attempt: int) -> float | None:
        """Return the seconds to wait before the next attempt; None when there is to be none."""
        if not fault.passing or attempt > self.retries or (fault.pause or 0) > LONGEST_PAUSE:
            return None
        if fault.pause is not None:
            return fault.pause
        return float(min(LONGEST_PAUSE, self.first_pause * 2 ** (attempt - 1)) * random.uniform(0.5, 1))

    def _safe(self, text: str) -> str:
        """Return a text without the key."""
        return text.replace(self._key, REDACTED) if self._key else text

    @property
    def _key(self) -> str:
        """The key, from the environment and kept nowhere."""
        return os.environ.get(self.key_variable, "").strip() if self.key_variable else ""


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine, by its name or address alone.

    Examples
    --------
    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("::1"), is_loopback("10.0.0.7")
    (True, True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _read(request: Request, response: httpx2.Response) -> Answer:
    """Read an answer; what cannot be read may be whole the next time."""
    try:
        data = response.json()
        choice, usage = data["choices"][0], data.get("usage") or {}
        text, reason = choice["message"].get("content"), choice.get("finish_reason")
        counts = [int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")]
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise _AttemptError(f"not a chat completion: {response.text[:80]!r}") from None
    finish = _FINISH.get(reason)
    if finish is None or not isinstance(text, str):
        why = f"finish reason {reason}" if finish is None else "the answer holds no text"
        failed = Answer.failure(request, why)
        return Answer.parse(
            request, "", "failed", prompt_tokens=counts[0], completion_tokens=counts[1], error=failed.error
        )
    return Answer.parse(request, text, finish, prompt_tokens=counts[0], completion_tokens=counts[1])


def _asked_pause(response: httpx2.Response, now: float) -> float | None:
    """Return how many seconds the server asks to wait: ``retry-after`` in seconds or as a date, or ``-ms``."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = response.headers.get(name)
        if value is None:
            continue
        try:
            return max(0.0, float(value) * unit)
        except ValueError:
            pass
        try:
            return max(0.0, parsedate_to_datetime(value).timestamp() - now)
        except ValueError:
            continue
    return None


def _told(response: httpx2.Response) -> str:
    """Return what a server says of an error, on one line."""
    try:
        error = response.json()["error"]
        told = error["message"] if isinstance(error, dict) else error
    except (ValueError, KeyError, TypeError):
        told = response.text or response.reason_phrase
    return " ".join(str(told).split())[:200]


def _one_line(error: Exception) -> str:
    """Return an error's words on one line."""
    return " ".join(str(error).split()) or type(error).__name__
