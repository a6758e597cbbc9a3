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
from ragfin.anthropic_generator import PREFIX, AnthropicGenerator, CitationPrompt
from ragfin.checks import lesson_sample
from ragfin.cli_own import confirm_departure, usage_line
from ragfin.corpus import Corpus, CorpusError, Question, load_corpus
from ragfin.endpoints import EndpointGenerator
from ragfin.generation import (
    Answer,
    Decoding,
    Generator,
    MissingAnswersError,
    RecordError,
    TransformersGenerator,
    generate,
)
from ragfin.models import ModelError
from ragfin.outbound import departure, host_of, unanswered, usage_file, usage_totals, usage_writer
from ragfin.pipeline import generator_of, prompt_of
from ragfin.prompts import Prompt
from ragfin.runs import Context, fragments
from ragfin.tokens import TOKEN_COUNT_KS, count_tokens

models_app = typer.Typer(no_args_is_help=True, help="List and fetch the models.")


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
    """Fetch a model into the cache and check it; what is there already is only checked."""
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
    model: Annotated[
        str,
        typer.Option(
            help="A name of `ragfin models list`, a folder, a .gguf file, a hub id, or anthropic:MODEL; by default the "
            "model of ragfin.toml."
        ),
    ] = "",
    questions: Annotated[str, typer.Option(help="all, sample (the lesson's twelve), or ids: QA001,QA105")] = "all",
    k: Annotated[
        int | None, typer.Option(min=1, help="Fragments that the model is given; by default ragfin.toml's, or 3.")
    ] = None,
    context: Annotated[
        Context, typer.Option(help="Fragments: those retrieved, the gold passages, or none (closed book).")
    ] = Context.retrieved,
    record: Annotated[Path | None, typer.Option(help="Where the answers go; default data/answers/MODEL.jsonl.")] = None,
    dtype: Annotated[Dtype, typer.Option(help="Arithmetic of a local model.")] = Dtype.float32,
    block: Annotated[int, typer.Option(min=1, help="Questions decoded together; 1 is the plain loop.")] = 32,
    repetition_penalty: Annotated[float, typer.Option(min=0.01, help="1.0 is none.")] = 1.0,
    data: Annotated[Path | None, typer.Option(help="Folder with the three tables.")] = None,
    token_counts: Annotated[
        Path | None, typer.Option(help="Generate nothing: write the tokens of every user message to this CSV file.")
    ] = None,
    citations: Annotated[
        bool,
        typer.Option(
            "--citations",
            help="Send the documents of the fragments whole and have the answer cited by character offsets; "
            "anthropic:MODEL only.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Generate nothing: say what would be sent where, and estimate its cost.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Agree that text leaves this machine.")] = False,
) -> None:
    """Ask a model the questions and record its answers; what is recorded already is not asked again.

    Before any text leaves this machine, it says which documents go to which host, and asks.
    """
    with _one_line_errors():
        corpus = load_corpus(data)
        if token_counts is not None:
            counts = count_tokens(corpus, model)
            counts.to_csv(token_counts, index=False, lineterminator="\n")
            means = ", ".join(f"k={k} {counts.loc[counts['k'] == k, 'tokens'].mean():.0f}" for k in TOKEN_COUNT_KS)
            typer.echo(f"{token_counts}: {len(counts)} rows; mean tokens {means}")
            return
        settings = corpus.settings
        generator: Generator
        if settings.model is not None and model in ("", settings.model.name):
            generator = generator_of(settings.model)
        elif model.startswith(PREFIX):
            generator = AnthropicGenerator(model)
        elif model:
            decoding = Decoding(repetition_penalty=repetition_penalty)
            generator = TransformersGenerator(model, dtype=dtype.value, decoding=decoding, block=block)
        else:
            raise ValueError("no model is named: give --model, or describe one in ragfin.toml under [model]")
        chosen = choose_questions(corpus, questions)
        name = generator.identity.model.replace("/", "--").replace(":", "-")
        target = record or (data or Path("data")) / "answers" / f"{name}.jsonl"
        found = fragments(corpus, chosen, context=context, k=k or settings.k)
        contexts = [found[question.id] for question in chosen]
        prompt: Prompt = prompt_of(settings, closed_book=context is Context.none)
        given = [[chunk.text for chunk in context] for context in contexts]
        if citations:
            if not isinstance(generator, AnthropicGenerator):
                raise ValueError(
                    f"--citations needs {PREFIX}MODEL, not {generator.identity.model}: others cite no offsets"
                )
            prompt = CitationPrompt.of(corpus)
            given = [list(dict.fromkeys(chunk.doc_id for chunk in context)) for context in contexts]
        host = host_of(generator)
        if dry_run or host != "localhost":
            requests = [prompt.request(question, texts) for question, texts in zip(chosen, given, strict=True)]
            pending = unanswered(generator, requests, target)
            going = departure(
                host,
                [requests[i] for i in pending],
                [contexts[i] for i in pending],
                max_tokens=getattr(generator, "max_tokens", Decoding().max_new_tokens),
                prices=settings.prices,
            )
            if dry_run:
                typer.echo("\n".join(going.lines()))
                return
            confirm_departure(going, yes=yes)
        if isinstance(generator, EndpointGenerator):
            generator.on_usage = usage_writer(target, generator.identity.model, settings.prices)
        answers = generate(chosen, generator, given, prompt=prompt, record=target)
        typer.echo(f"{target}: {_summary(answers)}")
        if totals := usage_totals(target):
            typer.echo(f"{usage_file(target)}: {usage_line(totals)}")
        if any(answer.finish == "failed" for answer in answers):
            raise typer.Exit(1)


def choose_questions(corpus: Corpus, wanted: str) -> list[Question]:
    """Return all questions, the lesson's twelve sampled ones, or those with the given ids.

    Raises
    ------
    ValueError
        No id, or an id that no question has.
    """
    if wanted == "all":
        return list(corpus)
    if wanted == "sample":
        return lesson_sample(corpus)
    ids = [part.strip() for part in wanted.split(",") if part.strip()]
    if not ids:
        raise ValueError(f"no question is named by {wanted!r}: give all, sample, or ids like QA001,QA105")
    known = {question.id for question in corpus}
    if unknown := [question_id for question_id in ids if question_id not in known]:
        raise ValueError(f"no question {', '.join(unknown)}: give all, sample, or ids like QA001,QA105")
    return [corpus.question(question_id) for question_id in ids]


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
