"""Generation: ask a model, or replay what it answered before.

One mechanism, memoisation by content: `generate` takes from the record what is recorded there and asks the model only
for the rest. With ``RAGFIN_LIVE=never`` a missing answer is an error; with ``auto``, the default, it is generated when
the model is in the cache. Replaying needs neither a model nor torch.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Protocol, runtime_checkable

from tqdm import tqdm

from ragfin.chunking import Chunk
from ragfin.corpus import Question
from ragfin.local_llm import Decoding, TransformersGenerator
from ragfin.prompts import CLOSED_BOOK_PROMPT, RAG_PROMPT, Message, Prompt, Request, gold_fragments
from ragfin.records import Answer, AnswerRecord, Citations, Identity, RecordError, answer_key, parse_citations
from ragfin.retrieval import Hit

__all__ = [
    "CLOSED_BOOK_PROMPT",
    "RAG_PROMPT",
    "Answer",
    "AnswerRecord",
    "BatchGenerator",
    "Citations",
    "Decoding",
    "Generator",
    "Identity",
    "Message",
    "MissingAnswersError",
    "Prompt",
    "RecordError",
    "Request",
    "TransformersGenerator",
    "answer_key",
    "fragment_text",
    "generate",
    "gold_fragments",
    "parse_citations",
    "why_not_live",
]

LIVE_VARIABLE = "RAGFIN_LIVE"

Fragment = str | Chunk | Hit
Progress = Callable[[Answer, int, int], None]
"""Called with a new answer, the number of answers there are now, and the number in all."""


class MissingAnswersError(LookupError):
    """Answers are not recorded and may not, or cannot, be generated here."""


@runtime_checkable
class Generator(Protocol):
    """Whatever has ``answer`` can be measured; ``identity`` says what its answers depend on.

    A failure that belongs to one question is returned (`Answer.failure`), not raised.
    """

    @property
    def identity(self) -> Identity:
        """Model, SHA-256, dtype and decoding settings: with the messages, the key of an answer."""
        ...

    def answer(self, request: Request) -> Answer:
        """Answer one question."""
        ...


@runtime_checkable
class BatchGenerator(Generator, Protocol):
    """A generator that gains from several questions at once: a batch on one machine, or many open connections.

    ``block`` is how many requests it is handed at a time, cut by the index of the question so that a resumed run
    cuts alike. It yields the answers in the order of the requests.
    """

    block: int

    def answer_many(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Answer several questions, in their order."""
        ...

    def unavailable(self) -> str:
        """Return why nothing can be generated here, with the repair; empty when it can."""
        ...


def generate(
    questions: Sequence[Question],
    generator: Generator | str,
    contexts: Sequence[Sequence[Fragment]],
    *,
    prompt: Prompt = RAG_PROMPT,
    record: str | Path | None = None,
    progress: Progress | None = None,
) -> list[Answer]:
    """Answer questions: from the record where it has them, from the model for the rest.

    Parameters
    ----------
    questions : sequence of Question
        Answered and recorded in this order.
    generator : Generator or str
        The model; a name of ``models.toml`` stands for `TransformersGenerator` with its defaults.
    contexts : sequence of sequence of str, Chunk or Hit
        The fragments of each question, best first; an empty one for a closed-book prompt.
    prompt : Prompt, optional
        `RAG_PROMPT` unless told.
    record : str or Path, optional
        A JSON Lines file that keeps the answers. None generates everything and keeps nothing.
    progress : callable, optional
        Called as ``progress(answer, done, total)`` after each new answer, instead of the progress bar that is shown
        while answers are generated. Replaying shows nothing.

    Returns
    -------
    list of Answer
        One per question, in order. A recorded failure is asked again where the model can run, and returned where not.

    Raises
    ------
    MissingAnswersError
        Some answers are not recorded and may not (``RAGFIN_LIVE=never``) or cannot be generated here.
    RecordError
        The record is corrupt, or another run is writing to it.
    """
    model: Generator = TransformersGenerator(generator) if isinstance(generator, str) else generator
    requests = [
        prompt.request(question, [fragment_text(fragment) for fragment in context])
        for question, context in zip(questions, contexts, strict=True)
    ]
    identity = model.identity
    keys = [answer_key(identity, request.messages) for request in requests]
    kept = None if record is None else AnswerRecord(record)
    answers = [kept.get(key, request) if kept else None for key, request in zip(keys, requests, strict=True)]

    missing = sum(answer is None for answer in answers)
    reason = why_not_live(model)
    if missing and reason:
        where = f"not recorded in {record}" if record else "to be generated and no record is given"
        raise MissingAnswersError(f"{missing} of {len(requests)} answers of {identity.model} are {where}: {reason}")
    wanted = [i for i, answer in enumerate(answers) if answer is None or (answer.finish == "failed" and not reason)]
    if not wanted:
        return [answer for answer in answers if answer is not None]

    made = _ask(model, identity, requests, keys, wanted, kept, progress)
    return [
        replace(made.get(key) or answer or Answer.failure(request, "no answer"), question_id=request.question_id)
        for key, answer, request in zip(keys, answers, requests, strict=True)
    ]


def why_not_live(model: Generator) -> str:
    """Return why nothing may or can be generated, with the repair; empty when it can."""
    live = os.environ.get(LIVE_VARIABLE) or "auto"
    if live == "never":
        name = model.identity.model
        return f"{LIVE_VARIABLE}=never forbids it; unset it, or record them with `ragfin generate --model {name}`"
    if live != "auto":
        raise ValueError(f"{LIVE_VARIABLE} is {live!r}: set it to auto or never, or unset it")
    return model.unavailable() if isinstance(model, BatchGenerator) else ""


def fragment_text(fragment: Fragment) -> str:
    """Return what the model reads of a fragment."""
    if isinstance(fragment, Hit):
        return fragment.chunk.text
    return fragment.text if isinstance(fragment, Chunk) else fragment


def _ask(
    model: Generator,
    identity: Identity,
    requests: Sequence[Request],
    keys: Sequence[str],
    wanted: Sequence[int],
    kept: AnswerRecord | None,
    progress: Progress | None,
) -> dict[str, Answer]:
    """Generate the wanted answers, each distinct request once, recording them as they come; return them by key."""
    made: dict[str, Answer] = {}
    pending = list({keys[i]: i for i in reversed(wanted)}.values())[::-1]
    done, total = len(requests) - len(wanted), len(requests)
    hidden = progress is not None
    with (
        kept.writing() if kept is not None else nullcontext(),
        tqdm(total=total, initial=done, unit=" answers", desc=identity.model, smoothing=0, disable=hidden) as bar,
    ):
        for group in _blocks(pending, getattr(model, "block", 1)):
            for i, answer in zip(group, _answers(model, [requests[i] for i in group]), strict=True):
                made[keys[i]] = answer
                if kept is not None:
                    kept.append(keys[i], identity, requests[i], answer)
                done += 1
                bar.update()
                if progress is not None:
                    progress(answer, done, total)
    return made


def _blocks(pending: Sequence[int], size: int) -> Iterator[list[int]]:
    """Cut what is pending at the multiples of the block size, so that a resumed run has the same blocks."""
    for _, group in groupby(pending, key=lambda index: index // size):
        yield list(group)


def _answers(model: Generator, requests: Sequence[Request]) -> Iterator[Answer]:
    """Ask for several answers at once where the generator can."""
    if isinstance(model, BatchGenerator):
        return model.answer_many(requests)
    return map(model.answer, requests)
