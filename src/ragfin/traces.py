"""One answer taken apart: the prompt's tokens, and at each step the tokens that were likely to come next.

A trace is kept as a small JSON file, so that a notebook shows it without a model.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from ragfin.corpus import Question
from ragfin.generation import Fragment, MissingAnswersError, fragment_text, why_not_live
from ragfin.local_llm import TransformersGenerator
from ragfin.prompts import RAG_PROMPT, Prompt
from ragfin.records import answer_key


class Candidate(NamedTuple):
    """A token that could come next: its id, its text, its logit and its natural log-probability."""

    id: int
    text: str
    logit: float
    logprob: float


@dataclass(frozen=True, slots=True)
class Trace:
    """An answer token by token.

    ``prompt_ids`` and ``prompt_pieces`` are the whole chat; ``steps`` holds, for each generated token, the likeliest
    candidates, best first: greedy decoding takes the first. The stop token is the last step's.
    """

    question_id: str
    key: str
    text: str
    finish: str
    prompt_ids: tuple[int, ...]
    prompt_pieces: tuple[str, ...]
    steps: tuple[tuple[Candidate, ...], ...]


def trace_answer(
    question: Question,
    generator: TransformersGenerator | str,
    context: Sequence[Fragment],
    *,
    prompt: Prompt = RAG_PROMPT,
    record: str | Path | None = None,
    top: int = 5,
) -> Trace:
    """Answer one question and keep every step, or read what was kept.

    Parameters
    ----------
    question, generator, context, prompt
        As in `ragfin.generation.generate`, for one question.
    record : str or Path, optional
        A JSON file. What it holds is returned when it is of the same question, model, prompt and settings; otherwise
        the answer is generated, under the same rules as any, and the file is written anew.
    top : int, optional
        How many candidates to keep of each step.

    Returns
    -------
    Trace
        Logits and log-probabilities rounded to four decimals.

    Raises
    ------
    MissingAnswersError
        It is not recorded and may not, or cannot, be generated here.
    """
    model = TransformersGenerator(generator) if isinstance(generator, str) else generator
    request = prompt.request(question, [fragment_text(fragment) for fragment in context])
    key = answer_key(model.identity, request.messages)
    path = None if record is None else Path(record)
    if path is not None and path.exists():
        kept = _read(path)
        if kept.key == key and all(len(step) == top for step in kept.steps):
            return kept
    if reason := why_not_live(model):
        raise MissingAnswersError(
            f"the trace of {question.id} with {model.identity.model} is not in {record}: {reason}"
        )
    made = _make(model, key, request.question_id, model.loaded.prompt_ids(request.messages), top)
    if path is not None:
        _write(path, made)
    return made


def _make(model: TransformersGenerator, key: str, question_id: str, ids: list[int], top: int) -> Trace:
    """Generate with transformers and keep the best candidates of each step."""
    tokenizer, stops = model.loaded.tokenizer, model.loaded.stop_ids
    new, scores = model.continue_with_scores(ids)
    steps = []
    for row in scores:
        logits = row.float()
        logprobs = logits.log_softmax(-1)
        best = logits.topk(top).indices.tolist()
        steps.append(
            tuple(
                Candidate(i, tokenizer.decode([i]), round(float(logits[i]), 4), round(float(logprobs[i]), 4))
                for i in best
            )
        )
    stopped = bool(new) and new[-1] in stops
    return Trace(
        question_id,
        key,
        tokenizer.decode(new, skip_special_tokens=True).strip(),
        "stop" if stopped else "length",
        tuple(ids),
        tuple(tokenizer.decode([i]) for i in ids),
        tuple(steps),
    )


def _read(path: Path) -> Trace:
    """Read a trace.

    Raises
    ------
    ValueError
        The file holds none.
    """
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return Trace(
            **{name: fields[name] for name in ("question_id", "key", "text", "finish")},
            prompt_ids=tuple(fields["prompt_ids"]),
            prompt_pieces=tuple(fields["prompt_pieces"]),
            steps=tuple(tuple(Candidate(*candidate) for candidate in step) for step in fields["steps"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} holds no trace ({error}): delete it to have it made again") from None


def _write(path: Path, trace: Trace) -> None:
    """Write a trace, whole or not at all."""
    draft = path.with_name(path.name + ".draft")
    path.parent.mkdir(parents=True, exist_ok=True)
    draft.write_text(json.dumps(asdict(trace), ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(path)
