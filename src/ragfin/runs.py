"""Find in a record the answers of one run over a corpus, with the context that each answer was made from.

A record may hold several runs: other numbers of chunks, the gold passages as context, no context at all. A recorded
answer belongs to a run when its key is that of the run's prompt. For a model whose settings are not known here, the
number of fragments it was given decides, and an answer that could belong to two runs is refused.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from ragfin.chunking import Chunk
from ragfin.corpus import Corpus, Question
from ragfin.endpoints import PREFIX
from ragfin.generation import (
    Answer,
    AnswerRecord,
    Decoding,
    RecordError,
    Request,
    TransformersGenerator,
    answer_key,
    gold_fragments,
)
from ragfin.models import specs
from ragfin.pipeline import generator_of, prompt_of, retriever_of, search_all
from ragfin.settings import Settings


class Context(StrEnum):
    """What the model was given to read: the retrieved chunks, the gold passages, or nothing (closed book)."""

    retrieved = "retrieved"
    gold = "gold"
    none = "none"


class Run(NamedTuple):
    """The answers of one system, in the order of the corpus, and what each was made from, by question id."""

    system: str
    answers: list[Answer]
    contexts: dict[str, list[Chunk]]


class _Line(NamedTuple):
    """One recorded answer: its key and the fields that tell runs apart."""

    key: str
    question_id: str
    model: str
    dtype: str
    k: int


def load_run(path: str | Path, corpus: Corpus, *, context: str = "retrieved", k: int = 3, model: str = "") -> Run:
    """Read the answers of one run from a record.

    Parameters
    ----------
    path : str or Path
        A JSON Lines file that `ragfin.generation.generate` wrote.
    corpus : Corpus
        What was asked.
    context : {"retrieved", "gold", "none"}, optional
        What the model was given: the k best chunks, the gold passages, or nothing.
    k : int, optional
        Number of retrieved chunks.
    model : str, optional
        Which model's answers, in a record of several.

    Returns
    -------
    Run
        The questions that are not recorded are left out; there is at least one answer.

    Raises
    ------
    RecordError
        The file is missing, empty or corrupt, is of another corpus, or does not hold such a run.
    """
    if not Path(path).is_file():
        raise RecordError(f"no record {path}: name a .jsonl file that 'ragfin generate' wrote, or 'baseline'")
    record, lines = AnswerRecord(path), _lines(Path(path))
    if not lines:
        raise RecordError(f"{path} holds no answer: record some with 'ragfin generate --record {path}'")
    models = sorted({line.model for line in lines})
    if model not in models and (model or len(models) > 1):
        raise RecordError(f"{path} holds answers of {', '.join(models)}: name one of them with --model")
    lines = [line for line in lines if line.model == (model or models[0])]
    questions = [question for question in corpus if context != Context.gold or question.answerable]
    if not {line.question_id for line in lines} & {question.id for question in questions}:
        raise RecordError(f"{path} answers none of the {len(questions)} questions of this corpus: use its own record")

    contexts = fragments(corpus, questions, context=context, k=k)
    prompt = prompt_of(corpus.settings, closed_book=context == Context.none)
    requests = [prompt.request(question, [chunk.text for chunk in contexts[question.id]]) for question in questions]
    keys = _keys_of_prompt(lines, requests, corpus.settings) or _keys_of_size(path, lines, requests)
    answers = [record.get(keys[r.question_id], r) for r in requests if r.question_id in keys]
    if not answers:
        held = ", ".join(f"{n} with {size} fragments" for size, n in sorted(Counter(line.k for line in lines).items()))
        wanted = {"retrieved": f"{k} retrieved chunks", "gold": "the gold passages", "none": "no context"}[context]
        raise RecordError(f"{path} has no answers made from {wanted}; it has {held}: choose with @gold, @none or @k5")
    label = f"k={k}" if context == Context.retrieved else context
    return Run(f"{model or models[0]} {label}", [answer for answer in answers if answer is not None], contexts)


def fragments(
    corpus: Corpus, questions: Sequence[Question], *, context: str = "retrieved", k: int = 3
) -> dict[str, list[Chunk]]:
    """Return what a model is given to read for each question, by question id, numbered from 1 in that order."""
    if context == Context.none:
        return {question.id: [] for question in questions}
    if context == Context.gold:
        return {question.id: gold_chunks(corpus, question) for question in questions}
    found = search_all(retriever_of(corpus), [question.text for question in questions], k)
    return {question.id: [hit.chunk for hit in hits] for question, hits in zip(questions, found, strict=True)}


def gold_chunks(corpus: Corpus, question: Question) -> list[Chunk]:
    """Return the gold passages of a question as chunks, each under its header, in the order of ``gold_passages``."""
    chunks = []
    for passage, text in zip(question.gold_passages, gold_fragments(corpus, question), strict=True):
        title, _, section = text.partition("\n\n")[0].rpartition(" > ")
        chunks.append(Chunk(passage.doc_id, title, section, ((passage.start, passage.end),), text))
    return chunks


def _lines(path: Path) -> list[_Line]:
    """Return the whole lines of a record that was found sound, the last one of each key."""
    data = path.read_bytes()
    found = {}
    for text in data[: data.rfind(b"\n") + 1].splitlines():
        fields = json.loads(text)
        found[fields["key"]] = _Line(*(fields[name] for name in _Line._fields))
    return list(found.values())


def _keys_of_prompt(lines: Iterable[_Line], requests: Sequence[Request], settings: Settings) -> dict[str, str]:
    """Return the keys of the answers to exactly these prompts, by question id; none for a model not known here."""
    recorded = {line.key for line in lines}
    keys: dict[str, str] = {}
    for model, dtype in sorted({(line.model, line.dtype) for line in lines}):
        if settings.model is not None and settings.model.url and model == f"{PREFIX}{settings.model.name}":
            identity = generator_of(settings.model).identity
        elif model in specs():
            identity = TransformersGenerator(model, dtype=dtype, decoding=Decoding()).identity  # type: ignore[arg-type]
        else:
            continue
        for request in requests:
            if (key := answer_key(identity, request.messages)) in recorded:
                keys.setdefault(request.question_id, key)
    return keys


def _keys_of_size(path: str | Path, lines: Iterable[_Line], requests: Sequence[Request]) -> dict[str, str]:
    """Return the keys of the answers that were made from as many fragments, by question id."""
    sizes = {request.question_id: request.k for request in requests}
    keys: dict[str, str] = {}
    for line in lines:
        if sizes.get(line.question_id) == line.k:
            if line.question_id in keys:
                raise RecordError(f"{path} answers {line.question_id} twice from {line.k} fragments: one run a file")
            keys[line.question_id] = line.key
    return keys
