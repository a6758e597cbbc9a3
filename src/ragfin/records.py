"""Answers and the record that keeps them: one JSON line per answer, keyed by everything that the answer depends on.

The key is the SHA-256 over model, SHA-256 of its weights, messages, decoding settings and dtype, so an answer of
another prompt or model is never taken for this one. The file is only ever appended to. A line holds no time, host or
path: the same run gives the same bytes. A failed answer is recorded too; when it is asked again and another answer
comes, that one is appended, and the last line of a key counts.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BufferedWriter
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, cast

import filelock

from ragfin.models import lock
from ragfin.prompts import Message, Request, canonical_json

Finish = Literal["stop", "length", "failed"]

_BRACKETED = re.compile(r"\[(\d+)\]")
_BETWEEN = r"(?:\s*+[,;/–-]\s*+|\s++y\s++|\s++)"
_MALFORMED = re.compile(
    rf"\[\s*+(?:fragmentos?\s++)?\d++(?:{_BETWEEN}\d++)*\s*+\]"  # [1, 2]  [1-3]  [ 1 ]  [Fragmento 1]
    r"|\((\d+)\)"  # (1)
    r"|\[\d+(?![\d\]])(?=[^\[\]]*(?:\[|$))",  # [1 left open
    re.IGNORECASE,
)


class Citations(NamedTuple):
    """The citations of an answer: ``numbers`` from 1 to k, and how many could not be one of those."""

    numbers: tuple[int, ...]
    n_out_of_range: int
    n_malformed: int


def parse_citations(text: str, k: int) -> Citations:
    """Read the citations of an answer.

    Parameters
    ----------
    text : str
        The answer; no text raises.
    k : int
        Number of fragments that the model was given; 0 or more.

    Returns
    -------
    Citations
        ``[n]`` with n from 1 to k, in order, repeated ones kept; the number of other ``[n]``; the number of what looks
        like a citation and is none: ``[1, 2]``, ``[1-3]``, ``[ 1 ]``, ``[1`` left open, and ``(n)`` with n from 1 to k.

    Source
    ------
    The lesson's rule for the first two; the malformed ones are only counted.

    Examples
    --------
    >>> parse_citations("Ventas de 5 [2]. Y más [1][2] [9] (1) [1, 2]", k=3)
    Citations(numbers=(2, 1, 2), n_out_of_range=1, n_malformed=2)
    """
    values = [_small_int(digits) for digits in _BRACKETED.findall(text)]
    numbers = tuple(value for value in values if 1 <= value <= k)
    rest = _BRACKETED.sub(" ", text)
    odd = [match[1] for match in _MALFORMED.finditer(rest)]
    malformed = sum(digits is None or 1 <= _small_int(digits) <= k for digits in odd)
    return Citations(numbers, len(values) - len(numbers), malformed)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered to one question.

    ``text`` is stripped of white space at both ends. ``finish`` is ``stop``, ``length`` (cut by the token limit) or
    ``failed``: neither wrong nor an abstention, with the reason in ``error``. ``prompt_tokens`` counts the whole chat,
    ``completion_tokens`` what was generated, the stop token included. ``citations`` are those by offsets, as
    `ragfin.citations.citation_to_json` writes them; only an API that returns offsets gives any.
    """

    question_id: str
    text: str
    cited: tuple[int, ...]
    finish: Finish
    prompt_tokens: int = 0
    completion_tokens: int = 0
    n_out_of_range: int = 0
    n_malformed: int = 0
    error: str = ""
    citations: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def parse(
        cls,
        request: Request,
        text: str,
        finish: Finish,
        *,
        prompt_tokens: int = 0,
        completion_tokens: int = 0,
        error: str = "",
    ) -> Self:
        """Build an answer from a model's text: strip it and read its citations; half a surrogate pair becomes "?"."""
        text = text.encode("utf-8", "replace").decode().strip()
        cited = parse_citations(text, request.k)
        return cls(
            request.question_id,
            text,
            cited.numbers,
            finish,
            prompt_tokens,
            completion_tokens,
            cited.n_out_of_range,
            cited.n_malformed,
            error,
        )

    @classmethod
    def failure(cls, request: Request, error: str) -> Self:
        """Build the answer that stands for a generation that failed."""
        return cls.parse(request, "", "failed", error=error)


@dataclass(frozen=True, slots=True)
class Identity:
    """What an answer depends on besides the messages; ``settings`` are all decoding options, as JSON scalars."""

    model: str
    model_sha256: str
    dtype: str
    settings: Mapping[str, object]


def answer_key(identity: Identity, messages: tuple[Message, ...]) -> str:
    """Return the key of an answer: SHA-256 in hexadecimal over the identity and the messages."""
    content = {
        "model": identity.model,
        "model_sha256": identity.model_sha256,
        "dtype": identity.dtype,
        "settings": dict(identity.settings),
        "messages": [message._asdict() for message in messages],
    }
    return hashlib.sha256(canonical_json(content)).hexdigest()


class RecordError(ValueError):
    """A record cannot be read or written; the message names file, line and repair."""


class AnswerRecord:
    """The answers of one file by key.

    Parameters
    ----------
    path : str or Path
        A JSON Lines file; it need not exist yet. A last line without its newline was torn by a kill: it is dropped,
        and taken off the file before the next append.

    Raises
    ------
    RecordError
        A line other than a torn last one is no recorded answer.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._answers: dict[str, tuple[Answer, int]] = {}
        self._whole = 0  # length in bytes of the whole lines
        self._stream: BufferedWriter | None = None
        self._load()

    def __len__(self) -> int:
        """Return how many keys are recorded."""
        return len(self._answers)

    def get(self, key: str, request: Request) -> Answer | None:
        """Return the recorded answer, under the request's question id, or None."""
        answer, _ = self._answers.get(key, (None, 0))
        return answer and replace(answer, question_id=request.question_id)

    @contextmanager
    def writing(self) -> Iterator[Self]:
        """Hold the file for appending; what another run added since it was loaded is read first.

        Raises
        ------
        RecordError
            Another run is writing to the same file.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(str(self.path.resolve()).encode()).hexdigest()[:16]
        try:
            with lock(f"record-{name}", timeout=0):
                self._load()
                with self.path.open("ab") as self._stream:
                    self._stream.truncate(self._whole)
                    yield self
        except filelock.Timeout:
            raise RecordError(
                f"{self.path} is being written by another run: wait until it ends, or record to another file"
            ) from None
        finally:
            self._stream = None

    def append(self, key: str, identity: Identity, request: Request, answer: Answer) -> None:
        """Add one answer and force it to the disk; the same failure again adds nothing."""
        if self._stream is None:
            raise RecordError(f"{self.path} is not open: append inside `with record.writing():`")
        if (known := self._answers.get(key)) and known[0].finish == answer.finish == "failed":
            return
        line = {
            "key": key,
            "question_id": answer.question_id,
            "model": identity.model,
            "dtype": identity.dtype,
            "k": request.k,
            "finish": answer.finish,
            "text": answer.text,
            "prompt_tokens": answer.prompt_tokens,
            "completion_tokens": answer.completion_tokens,
        }
        if answer.error:
            line["error"] = answer.error
        if answer.citations:
            line["citations"] = [dict(citation) for citation in answer.citations]
        data = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        self._stream.write(data)
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._whole += len(data)
        self._answers[key] = (answer, request.k)

    def _load(self) -> None:
        """Read the whole lines of the file."""
        data = self.path.read_bytes() if self.path.exists() else b""
        self._whole = data.rfind(b"\n") + 1
        self._answers = {}
        for number, line in enumerate(data[: self._whole].split(b"\n")[:-1], start=1):
            try:
                key, answer, k = _parse_line(line)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise RecordError(
                    f"{self.path} line {number} is not a recorded answer ({type(error).__name__}: {error}): "
                    "restore the file, or delete that line to have its answer generated again"
                ) from None
            self._answers[key] = (answer, k)


def _parse_line(line: bytes) -> tuple[str, Answer, int]:
    """Return key, answer and number of fragments of one line."""
    fields = json.loads(line)
    key, finish, k = fields["key"], fields["finish"], fields["k"]
    if not re.fullmatch(r"[0-9a-f]{64}", key):
        raise ValueError(f"key {key!r} is no SHA-256")
    if finish not in ("stop", "length", "failed"):
        raise ValueError(f"finish is {finish!r}, not stop, length or failed")
    counts = (k, fields["prompt_tokens"], fields["completion_tokens"])
    if any(type(count) is not int or count < 0 for count in counts):
        raise ValueError("k and the token counts must be whole numbers from 0")
    texts = (*(fields[name] for name in ("question_id", "text", "model", "dtype")), fields.get("error", ""))
    if any(type(text) is not str for text in texts):
        raise TypeError("question_id, text, model, dtype and error must be strings")
    request = Request(fields["question_id"], (), k)
    answer = Answer.parse(
        request,
        fields["text"],
        cast(Finish, finish),
        prompt_tokens=fields["prompt_tokens"],
        completion_tokens=fields["completion_tokens"],
        error=fields.get("error", ""),
    )
    citations = fields.get("citations", [])
    if type(citations) is not list or any(type(citation) is not dict for citation in citations):
        raise TypeError("citations must be a list of objects")
    return key, replace(answer, citations=tuple(citations)), k


def _small_int(digits: str) -> int:
    """Return the number, or -1 for one that is too long to be a fragment's."""
    return int(digits) if len(digits) <= 9 else -1
