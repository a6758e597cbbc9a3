"""The commands that fetch models and ask them: `ragfin models list | get`, `ragfin generate`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Column, Table

from ragfin import models
from ragfin.checks import lesson_sample
from ragfin.chunking import chunk_corpus
from ragfin.corpus import Corpus, CorpusError, Question, load_corpus
from ragfin.generation import (
    CLOSED_BOOK_PROMPT,
    RAG_PROMPT,
    Answer,
    Decoding,
    MissingAnswersError,
    RecordError,
    TransformersGenerator,
    generate,
    gold_fragments,
)
from ragfin.models import ModelError
from ragfin.retrieval import BM25Retriever
from ragfin.tokens import TOKEN_COUNT_KS, count_tokens

models_app = typer.Typer(no_args_is_help=True, help="List and fetch the models.")


class Context(StrEnum):
    """What the model is given to read."""

    retrieved = "retrieved"
    gold = "gold"
    none = "none"


class Dtype(StrEnum):
    """The arithmetic that a model runs in."""

    float32 = "float32"
    bfloat16 = "bfloat16"


@models_app.command("list")
def list_models() -> None:
    """List the models: size, licence, whether they are in the cache, where they come from."""
    table = Table(Column("name", no_wrap=True), "size", "licence", "in the cache", "comes from")
    for name, model in models.specs().items():
        places = ["hub", "mirror"] if model.mirror else ["hub"]
        cached = "yes" if models.is_cached(name) else "no"
        table.add_row(name, f"{model.bytes / 1e6:.0f} MB", model.licence, cached, ", ".join(places))
    Console().print(table)


@models_app.command("get")
def get_model(name: Annotated[str, typer.Argument(help="A name of `ragfin models list`.")]) -> None:
    """Fetch a model into the cache, check it, and unpack it for use."""
    with _one_line_errors():
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bars:
            tasks: dict[str, int] = {}

            def report(what: str, done: int, total: int) -> None:
                if what not in tasks:
                    tasks[what] = bars.add_task(what, total=total)
                bars.update(tasks[what], completed=done)  # type: ignore[arg-type]

            folder = models.fetch(name, progress=report)
        typer.echo(f"{name}: {models.spec(name).bytes / 1e6:.0f} MB at {folder}, SHA-256 as published")


def generate_command(
    model: Annotated[str, typer.Option(help="A name of `ragfin models list`, a folder, a .gguf file or a hub id.")],
    questions: Annotated[str, typer.Option(help="all, sample (the lesson's twelve), or ids: QA001,QA105")] = "all",
    k: Annotated[int, typer.Option(min=1, help="Fragments that the model is given.")] = 3,
    context: Annotated[
        Context, typer.Option(help="Fragments: those retrieved, the gold passages, or none (closed book).")
    ] = Context.retrieved,
    record: Annotated[Path | None, typer.Option(help="Where the answers go; default data/answers/MODEL.jsonl.")] = None,
    dtype: Annotated[Dtype, typer.Option(help="Arithmetic of the model.")] = Dtype.float32,
    block: Annotated[int, typer.Option(min=1, help="Questions decoded together; 1 is the plain loop.")] = 32,
    repetition_penalty: Annotated[float, typer.Option(min=0.01, help="1.0 is none.")] = 1.0,
    data: Annotated[Path | None, typer.Option(help="Folder with the three tables.")] = None,
    token_counts: Annotated[
        Path | None, typer.Option(help="Generate nothing: write the tokens of every user message to this CSV file.")
    ] = None,
) -> None:
    """Ask a model the questions and record its answers; what is recorded already is not asked again."""
    with _one_line_errors():
        corpus = load_corpus(data)
        if token_counts is not None:
            counts = count_tokens(corpus, model)
            counts.to_csv(token_counts, index=False, lineterminator="\n")
            means = ", ".join(f"k={k} {counts.loc[counts['k'] == k, 'tokens'].mean():.0f}" for k in TOKEN_COUNT_KS)
            typer.echo(f"{token_counts}: {len(counts)} rows; mean tokens {means}")
            return
        generator = TransformersGenerator(
            model,
            dtype=dtype.value,
            decoding=Decoding(repetition_penalty=repetition_penalty),
            block=block,
        )
        chosen = choose_questions(corpus, questions)
        target = record or Path("data", "answers", f"{generator.identity.model.replace('/', '--')}.jsonl")
        answers = generate(
            chosen,
            generator,
            _fragments(corpus, chosen, context, k),
            prompt=CLOSED_BOOK_PROMPT if context is Context.none else RAG_PROMPT,
            record=target,
        )
        typer.echo(f"{target}: {_summary(answers)}")
        if any(answer.finish == "failed" for answer in answers):
            raise typer.Exit(1)


def choose_questions(corpus: Corpus, wanted: str) -> list[Question]:
    """Return all questions, the lesson's twelve sampled ones, or those with the given ids.

    Raises
    ------
    ValueError
        An id that no question has.
    """
    if wanted == "all":
        return list(corpus)
    if wanted == "sample":
        return lesson_sample(corpus)
    ids = [part.strip() for part in wanted.split(",") if part.strip()]
    known = {question.id for question in corpus}
    if unknown := [question_id for question_id in ids if question_id not in known]:
        raise ValueError(f"no question {', '.join(unknown)}: give all, sample, or ids like QA001,QA105")
    return [corpus.question(question_id) for question_id in ids]


def _fragments(corpus: Corpus, questions: Sequence[Question], context: Context, k: int) -> list[list[str]]:
    """Return what the model is given to read for each question."""
    if context is Context.none:
        return [[] for _ in questions]
    if context is Context.gold:
        return [gold_fragments(corpus, question) for question in questions]
    retriever = BM25Retriever(chunk_corpus(corpus))
    found = retriever.search_many([question.text for question in questions], k=k)
    return [[hit.chunk.text for hit in hits] for hits in found]


def _summary(answers: Sequence[Answer]) -> str:
    """Count the answers by how they ended."""
    cut, failed = (sum(answer.finish == how for answer in answers) for how in ("length", "failed"))
    return f"{len(answers)} answers, {cut} cut by the token limit, {failed} failed"


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn what a user can mend into one line and exit status 1."""
    try:
        yield
    except (ModelError, RecordError, MissingAnswersError, CorpusError, ValueError, OSError) as error:
        typer.echo(f"ragfin: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("ragfin: stopped; run the same command again and it goes on from here", err=True)
        raise typer.Exit(130) from None
