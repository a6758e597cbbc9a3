"""What leaves the machine before it does: which documents go to which host, and what it may cost; and what it did cost.

Tokens are estimated, since a provider's tokenizer is not here: one for every 2.5 characters, which is on the high
side for Spanish and English, and as many in each answer as may be. What answers took is kept beside the record, in a
CSV file of its own: the record's bytes depend on no clock.
"""

import csv
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import pandas as pd

from ragfin.chunking import Chunk
from ragfin.endpoints import Usage, is_loopback
from ragfin.generation import AnswerRecord, Generator, TransformersGenerator, answer_key
from ragfin.prompts import Request
from ragfin.settings import Prices

CHARS_A_TOKEN = 2.5

_COLUMNS = ("question_id", "model", "seconds", "attempts", "prompt_tokens", "completion_tokens", "cost", "currency")


@dataclass(frozen=True, slots=True)
class Departure:
    """What would be sent: the host, how many fragments of each document, questions, tokens and cost as estimated.

    ``cost`` is None without prices.
    """

    host: str
    fragments: Mapping[str, int]
    n_questions: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    currency: str

    @property
    def leaves(self) -> bool:
        """Whether any text leaves this machine."""
        return bool(self.n_questions) and not is_loopback(self.host)

    def lines(self) -> list[str]:
        """Say it, one fact a line."""
        if not self.n_questions:
            return ["nothing is sent: every answer is recorded"]
        named = ", ".join(f"{doc_id} ({n})" for doc_id, n in self.fragments.items())
        what = f"{self.n_questions} questions, and fragments of {len(self.fragments)} documents: {named or 'none'}"
        where = f"leaves this machine for {self.host}" if self.leaves else f"stays on this machine ({self.host})"
        cost = "" if self.cost is None else f", at most about {self.cost:.4f} {self.currency}"
        return [
            f"{where}: {what}",
            f"estimated: {self.prompt_tokens} tokens to read, at most {self.completion_tokens} to write{cost}",
        ]


def departure(
    host: str,
    requests: Sequence[Request],
    contexts: Sequence[Sequence[Chunk]],
    *,
    max_tokens: int,
    prices: Prices | None = None,
) -> Departure:
    """Estimate what sending some requests means.

    Parameters
    ----------
    host : str
        Where they go.
    requests : sequence of Request
        Those that are not recorded yet.
    contexts : sequence of sequence of Chunk
        What each was made from.
    max_tokens : int
        Longest answer.
    prices : Prices, optional
        Of a million tokens.
    """
    fragments = Counter(chunk.doc_id for context in contexts for chunk in context)
    reading = sum(ceil(sum(len(m.content) for m in request.messages) / CHARS_A_TOKEN) for request in requests)
    writing = max_tokens * len(requests)
    cost = None if prices is None else prices.cost(reading, writing)
    named = dict(sorted(fragments.items()))
    return Departure(host, named, len(requests), reading, writing, cost, prices.currency if prices else "")


def unanswered(generator: Generator, requests: Sequence[Request], record: str | Path) -> list[int]:
    """Return which requests the record holds no answer to, by position; a failed answer is none."""
    kept, identity = AnswerRecord(record), generator.identity
    answers = [kept.get(answer_key(identity, request.messages), request) for request in requests]
    return [i for i, answer in enumerate(answers) if answer is None or answer.finish == "failed"]


def host_of(generator: Generator) -> str:
    """Return where a generator sends text: ``localhost`` for one that runs here.

    A generator of your own says so with an attribute ``host``; without it, nobody knows.
    """
    if isinstance(generator, TransformersGenerator):
        return "localhost"
    return str(getattr(generator, "host", "") or f"wherever {type(generator).__name__} sends it")


def usage_file(record: str | Path) -> Path:
    """Return where the usage of a record's answers is kept: ``answers.jsonl`` has ``answers.usage.csv``."""
    return Path(record).with_suffix(".usage.csv")


def usage_writer(record: str | Path, model: str, prices: Prices | None = None) -> Callable[[Usage], None]:
    """Return what appends one line for each answer to the usage file of a record."""
    path = usage_file(record)

    def write(usage: Usage) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        cost = "" if prices is None else f"{prices.cost(usage.prompt_tokens, usage.completion_tokens):.8f}"
        row = (usage.question_id, model, f"{usage.seconds:.3f}", *usage[2:], cost, prices.currency if prices else "")
        with path.open("a", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            if not stream.tell():
                writer.writerow(_COLUMNS)
            writer.writerow(row)

    return write


def usage_totals(record: str | Path) -> dict[str, Any] | None:
    """Sum up the usage file of a record.

    Returns
    -------
    dict or None
        ``n_answers`` (those asked, failed ones included), ``attempts, prompt_tokens, completion_tokens``,
        ``seconds_median``, ``seconds_95`` (95th percentile), ``cost`` by currency. None when there is no such file.
    """
    path = usage_file(record)
    if not path.is_file():
        return None
    frame = pd.read_csv(path, dtype={"question_id": "str", "model": "str", "currency": "str"})
    priced = frame.dropna(subset=["cost"])
    return {
        "n_answers": len(frame),
        **{name: int(frame[name].sum()) for name in ("attempts", "prompt_tokens", "completion_tokens")},
        "seconds_median": float(frame["seconds"].median()),
        "seconds_95": float(frame["seconds"].quantile(0.95)),
        "cost": {str(currency): float(group["cost"].sum()) for currency, group in priced.groupby("currency")},
    }
