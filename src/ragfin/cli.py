"""The command `ragfin`: what the library measures, from a terminal.

Measuring commands print a table, or one JSON object with ``--json``. Exit status 0: done; 1: bad input or a failed
check, with a one-line reason; 2: a mistake in the command line.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table

from ragfin import __version__
from ragfin.abstention import abstention, cross_validated_threshold
from ragfin.asking import ask as ask_question
from ragfin.checks import corpus_report
from ragfin.cli_models import choose_questions, generate_command, models_app
from ragfin.cli_own import chunk_command, convert_command, init_command, usage_line
from ragfin.cli_tables import (
    abstention_table,
    console,
    five_means,
    frame_table,
    link_table,
    pair_table,
    print_check,
    print_json,
    rate_table,
    three,
    two,
)
from ragfin.comparison import COMPARISON_ROWS, compare_pairs, comparison_table
from ragfin.corpus import Corpus, CorpusError, find_data, load_corpus
from ragfin.evaluation import evaluate as evaluate_answers
from ragfin.evaluation import failures_by_link, summarize
from ragfin.extraction import baseline_report, evaluate_baseline
from ragfin.generation import MissingAnswersError, RecordError
from ragfin.lesson import LessonError, find_notebooks, run_notebook
from ragfin.links import MEASURES
from ragfin.models import ModelError
from ragfin.outbound import usage_totals
from ragfin.pipeline import retriever_of
from ragfin.report import comparison_page
from ragfin.retrieval import Retriever
from ragfin.runs import Run, load_run

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Measure RAG over financial documents, link by link: coverage, accuracy, faithfulness, citation, abstention. "
    "Start with `ragfin baseline`, then `ragfin ask QA105`.",
)
corpus_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Check the corpus, or build it anew.")
app.add_typer(corpus_app, name="corpus")
app.add_typer(models_app, name="models")
app.command("generate", short_help="Ask a model the questions and record its answers; resumes.")(generate_command)
app.command("init", short_help="Start a corpus of your own: a documented skeleton.")(init_command)
corpus_app.command("convert")(convert_command)
corpus_app.command("chunk")(chunk_command)

Data = Annotated[
    Path | None,
    typer.Option("--data", help="Folder with the three tables; by default RAGFIN_DATA, else the project's own data."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, numbers unrounded.")]
HtmlPath = Annotated[
    Path | None,
    typer.Option("--html", help="Write one self-contained page, with every question, to this file."),
]
CsvPath = Annotated[Path | None, typer.Option("--csv", help="Write one row per question and system to this file.")]
Record = Annotated[
    str,
    typer.Argument(
        help="A .jsonl file of `ragfin generate`; @gold, @none or @k5 after it chooses the answers made from the gold "
        "passages, without context, or from 5 chunks (by default 3, or k of ragfin.toml). Or `baseline`, the "
        "extractive one."
    ),
]
Questions = Annotated[str, typer.Option("--questions", help="all, sample (the lesson's twelve), or ids: QA001,QA105")]
Measure = StrEnum("Measure", {name: name for name in MEASURES})  # type: ignore[misc]


@app.callback(invoke_without_command=True)
def main(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    """Take the options that belong to no command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that has no "·" or "ó" shows "?" instead
            stream.reconfigure(errors="replace")
    if version:
        typer.echo(f"ragfin {__version__}")
        raise typer.Exit


@app.command(short_help="One question from start to end: chunks, answer, citations checked.")
def ask(
    question: Annotated[str, typer.Argument(help="A question in Spanish, or the id of one: QA105")],
    k: Annotated[
        int | None, typer.Option("-k", "--k", min=1, help="Chunks to retrieve; by default ragfin.toml's, or 3.")
    ] = None,
    model: Annotated[
        str, typer.Option(help="Who answers: a name of `ragfin models list`; by default extraction.")
    ] = "",
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Ask one question: the chunks with their scores, an answer, and its citations checked.

    The answer is the line of the best chunk that shares most words with the question, or a model's with --model.
    Each citation is looked up: does the quoted line stand there, and does the chunk cover a gold passage?
    """
    with _one_line_errors():
        asked = ask_question(load_corpus(data), question, k=k, model=model)
        if as_json:
            print_json(asked)
            return
        terminal = console()
        for number, hit in enumerate(asked["hits"], start=1):
            title = f"[{number}] score {hit['score']:.2f} · {hit['doc_id']} · {hit['title']} > {hit['section']}"
            terminal.print(Panel(escape(hit["text"]), title=escape(title), title_align="left"))
        terminal.print(f"[bold]Answer[/bold] ({escape(asked['answered_by'])}): {escape(asked['answer'])}")
        for note in asked["notes"]:
            terminal.print(f"  {escape(note)}", highlight=False)


@app.command(short_help="Measure the extractive baseline over all questions.")
def baseline(data: Data = None, as_json: AsJson = False) -> None:
    """Measure the extractive baseline on all questions: what retrieval alone is worth, without any model.

    Its answer is the best line of the best chunk. A model that does not beat it adds nothing.
    """
    with _one_line_errors():
        corpus = load_corpus(data)
        retriever = _own_retriever(corpus)
        report = baseline_report(corpus, retriever=retriever)
        if as_json:
            print_json(report)
            return
        terminal = console()
        terminal.print(five_means(report))
        kinds = Table("kind", "n", "coverage", "chunk", "line", "citation")
        for kind, row in report["by_kind"].items():
            kinds.add_row(
                escape(kind), str(row["n"]), *(two(row[name]) for name in ("coverage", "chunk", "line", "citation"))
            )
        terminal.print(kinds)
        at_k = ", ".join(f"k={k} {three(value)}" for k, value in report["coverage_at"].items())
        terminal.print(f"coverage by k: {at_k}")
        if report["auc"] is not None:
            terminal.print(_abstention_line(corpus, report, retriever))


@app.command(short_help="Measure recorded answers: rates with intervals, by failed link.")
def evaluate(
    record: Record,
    model: Annotated[str, typer.Option(help="Which model, in a record of several.")] = "",
    questions: Questions = "all",
    by: Annotated[str, typer.Option(help="Also by this column: kind")] = "",
    data: Data = None,
    as_json: AsJson = False,
    csv: CsvPath = None,
    html: HtmlPath = None,
) -> None:
    """Measure recorded answers: each rate with its interval, abstention, and the link that failed."""
    with _one_line_errors():
        corpus = load_corpus(data)
        rows, run = _rows(corpus, record, model)
        rows = _select(corpus, rows, questions)
        if by and by not in ("kind", "answerable"):
            raise ValueError(f"cannot group by {by!r}: choose kind or answerable")
        _write_csv(csv, rows)
        _write_page(html, corpus, {str(rows["system"].iloc[0]): rows}, [run])
        rates, links = summarize(rows), failures_by_link(rows)
        groups = summarize(rows, by) if by else None
        silent = abstention(rows)
        if as_json:
            print_json(
                {
                    "system": rows["system"].iloc[0],
                    "n": len(rows),
                    "rates": rates.to_dict("records"),
                    **({} if groups is None else {f"by_{by}": groups.to_dict("records")}),
                    "abstention": silent,
                    "failed_link": links.iloc[0].to_dict(),
                    **_oddities(rows),
                }
            )
            return
        terminal = console()
        odd = "{n_cut} answers cut; citations ignored: {n_out_of_range} out of range, {n_malformed} malformed"
        counts = f"{len(rows)} questions; {odd.format(**_oddities(rows))}"
        terminal.print(escape(f"{rows['system'].iloc[0]}: {counts}"))
        terminal.print(rate_table(rates))
        if groups is not None:
            terminal.print(rate_table(groups, by))
        terminal.print(abstention_table(silent))
        terminal.print(link_table(links))
        if totals := usage_totals(record.partition("@")[0]):
            terminal.print(usage_line(totals), highlight=False)


@app.command(short_help="Compare two systems in pairs; can gate a change.")
def compare(
    first: Record,
    second: Record = "baseline",
    questions: Questions = "all",
    data: Data = None,
    as_json: AsJson = False,
    csv: CsvPath = None,
    html: HtmlPath = None,
    fail_if_worse: Annotated[
        Measure | None,
        typer.Option("--fail-if-worse", help="Exit with 1 when SECOND is worse beyond the paired interval."),
    ] = None,
) -> None:
    """Compare two systems on the same questions: rates with intervals, tests in pairs, failures by link.

    Only the questions that both answered count; the counts are said.

    As a gate in continuous integration, after the record of the change has been made:
    ragfin compare main.jsonl change.jsonl --fail-if-worse exact. It exits with 1 when the whole 95 % interval of the
    paired difference lies below 0, when the second has more failed generations, and when there is no pair to judge by.
    """
    with _one_line_errors():
        corpus = load_corpus(data)
        (a, a_run), (b, b_run) = _rows(corpus, first), _rows(corpus, second)
        a, b = _select(corpus, a, questions), _select(corpus, b, questions)
        common = set(a["question_id"]) & set(b["question_id"])
        if not common:
            raise ValueError("the two systems have no question in common; compare records of the same corpus")
        counts = {"first": len(a), "second": len(b), "common": len(common)}
        a, b = (side[side["question_id"].isin(common)].reset_index(drop=True) for side in (a, b))
        names = _names(a, b)
        systems = dict(zip(names, (a.assign(system=names[0]), b.assign(system=names[1])), strict=True))
        pairs = [compare_pairs(a, b, measure) for measure in dict.fromkeys(COMPARISON_ROWS.values())]
        both = pd.concat(systems.values(), ignore_index=True)
        _write_csv(csv, both)
        _write_page(html, corpus, systems, [a_run, b_run])
        links = failures_by_link(both).loc[list(names)]
        if as_json:
            print_json(
                {
                    "questions": counts,
                    "systems": {
                        name: {"rates": summarize(rows).to_dict("records"), "failed_link": links.loc[name].to_dict()}
                        for name, rows in systems.items()
                    },
                    "pairs": pairs,
                }
            )
        else:
            terminal = console()
            terminal.print("questions: {first} and {second}, {common} in common".format(**counts))
            terminal.print(frame_table(comparison_table(systems)))
            terminal.print(pair_table(pairs, names))
            terminal.print(link_table(links))
        if fail_if_worse is not None:
            _gate(a, b, names, fail_if_worse.value)


@corpus_app.command("check", short_help="Every fault at once, and what the chunks miss.")
def corpus_check(
    folder: Annotated[Path | None, typer.Argument(help="The same as --data.")] = None,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    """Check the tables and say what the chunks miss: all faults with file, row and repair.

    A gold figure that its gold passages do not hold fails the check of the project's own corpus; of another corpus it
    is a warning.
    """
    with _one_line_errors():
        data = folder or data
        report = corpus_report(load_corpus(data))
        if as_json:
            print_json(report)
        else:
            print_check(console(), report)
        ids = [fault.question_id for fault in report["gold_faults"]] + [*report["gold_unit_faults"]]
        if ids:
            told = ", ".join(sorted(set(ids)))
            message = f"gold figures that are not, or not with this unit and sign, in the gold passages: {told}"
            if _is_own(data):
                raise ValueError(message)
            typer.echo(f"ragfin: warning: {message}", err=True)


@corpus_app.command("build", short_help="Build the three tables from facts and templates.")
def corpus_build(
    source: Annotated[Path | None, typer.Option(help="Facts and templates; by default data/source.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where the tables go; by default data.")] = None,
) -> None:
    """Build the three tables from facts (TOML) and templates (Jinja2). The same source gives the same content."""
    with _one_line_errors():
        folder = _checkout() / "data"
        build = _builder(folder / "build_corpus.py")
        if source and not source.is_dir():
            raise ValueError(f"{source} is not a folder: name the one that holds corpus.toml, facts and templates")
        for name, digest in build(source or folder / "source", out or folder).items():
            typer.echo(f"{name}  {digest}")


@app.command(short_help="Execute the notebooks and print the headline table.")
def lesson(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which notebooks: 03, solutions/02; all by default.")
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Write the outputs back to the notebooks.")] = False,
) -> None:
    """Execute copies of the notebooks in order, stop at the first cell that fails, and print the headline table."""
    with _one_line_errors():
        notebooks = find_notebooks(_checkout() / "notebooks", names or ())
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("cells"))
        with Progress(*columns, console=Console(stderr=True)) as bars:
            for path in notebooks:
                task = bars.add_task(path.stem, total=None)

                def show(_: str, done: int, total: int, task: Any = task) -> None:
                    bars.update(task, completed=done, total=total)

                cells = run_notebook(path, update=update, progress=show)
                bars.update(task, completed=cells, total=cells)
        typer.echo(f"{len(notebooks)} notebooks executed{', outputs written back' if update else ''}")
        if not names:
            _print_headline(load_corpus())


def _rows(corpus: Corpus, record: str, model: str = "") -> tuple[pd.DataFrame, Run | None]:
    """Return the rows of a record, or of the extractive baseline, and the run they were made from."""
    if record == "baseline":
        return evaluate_baseline(corpus, retriever=_own_retriever(corpus)), None
    path, _, choice = record.rpartition("@") if "@" in record else (record, "", "")
    if choice in ("gold", "none"):
        run = load_run(path, corpus, context=choice, model=model)
    elif not choice or (choice.startswith("k") and choice[1:].isdecimal()):
        run = load_run(path, corpus, k=int(choice[1:] or corpus.settings.k), model=model)
    else:
        raise ValueError(f"{record!r} ends in @{choice}: write @gold, @none, or @k and a number")
    return evaluate_answers(corpus, run.answers, run.contexts, system=run.system), run


def _own_retriever(corpus: Corpus) -> Retriever | None:
    """Return the retriever that ragfin.toml names; None for BM25, which the baseline takes by itself."""
    return None if corpus.settings.retriever == "bm25" else retriever_of(corpus)


def _select(corpus: Corpus, rows: pd.DataFrame, questions: str) -> pd.DataFrame:
    """Return the rows of the questions that were chosen."""
    if questions == "all":
        return rows
    wanted = {question.id for question in choose_questions(corpus, questions)}
    chosen = rows[rows["question_id"].isin(wanted)].reset_index(drop=True)
    if chosen.empty:
        raise ValueError("none of the chosen questions is answered: choose others, or record them first")
    return chosen


def _names(a: pd.DataFrame, b: pd.DataFrame) -> tuple[str, str]:
    """Return the names of two systems, told apart."""
    first, second = str(a["system"].iloc[0]), str(b["system"].iloc[0])
    return (first, second) if first != second else (f"{first} (1)", f"{second} (2)")


def _oddities(rows: pd.DataFrame) -> dict[str, int]:
    """Count the answers that were cut, and what looks like a citation and is none."""
    return {
        "n_cut": int((rows["finish"] == "length").sum()),
        "n_out_of_range": int(rows["n_out_of_range"].sum()),
        "n_malformed": int(rows["n_malformed"].sum()),
    }


def _write_csv(path: Path | None, rows: pd.DataFrame) -> None:
    """Write rows as CSV, the cited numbers joined by spaces."""
    if path is not None:
        cited = [" ".join(map(str, numbers)) for numbers in rows["cited"]]
        rows.assign(cited=cited).to_csv(path, index=False, lineterminator="\n")


def _write_page(
    path: Path | None, corpus: Corpus, systems: dict[str, pd.DataFrame], runs: Sequence[Run | None]
) -> None:
    """Write the page that shows every question with its answers."""
    if path is not None:
        contexts = {name: run.contexts for name, run in zip(systems, runs, strict=True) if run is not None}
        path.write_text(comparison_page(corpus, systems, contexts), encoding="utf-8")


def _gate(a: pd.DataFrame, b: pd.DataFrame, names: tuple[str, str], measure: str) -> None:
    """Refuse the second system when it is worse than the first, or cannot be judged."""
    failures = [int(rows["failed"].sum()) for rows in (a, b)]
    if failures[1] > failures[0]:
        raise ValueError(f"{names[1]} has {failures[1]} failed generations, {names[0]} {failures[0]}: record it again")
    result = compare_pairs(a, b, measure)
    if not result.n:
        raise ValueError(f"{measure} applies to no question of both systems: choose another measure")
    if result.worse:
        change = f"{result.difference.mean:+.3f} [{result.difference.low:+.3f}, {result.difference.high:+.3f}]"
        raise ValueError(f"{names[1]} is worse on {measure}: {change} over {result.n} questions")


def _print_headline(corpus: Corpus) -> None:
    """Print the five means of the baseline, and the comparison with every recorded model."""
    terminal = console()
    terminal.print(five_means(baseline_report(corpus)))
    extraction = evaluate_baseline(corpus)
    for path in sorted((find_data() / "answers").glob("*.jsonl")):
        try:
            rows, _ = _rows(corpus, str(path))
        except RecordError:
            continue  # a record of another sort, such as one of token probabilities
        if len(rows) < len(corpus):
            continue  # a few questions are no headline
        systems = {str(rows["system"].iloc[0]): rows, "extraction": extraction}
        terminal.print(frame_table(comparison_table(systems)))


def _abstention_line(corpus: Corpus, report: dict[str, Any], retriever: Retriever | None) -> str:
    """Say what the score of the best chunk is worth as a signal to abstain."""
    answerable = report["n_questions"] - report["n_unanswerable"]
    lines = [
        f"score of the best chunk as an abstention signal: AUC {report['auc']:.3f}",
        f"below the median of the unanswerable ones ({report['threshold']:.2f}, chosen on these very questions) it "
        f"abstains on {report['abstains_unanswerable']} of {report['n_unanswerable']} unanswerable and on "
        f"{report['abstains_answerable']} of {answerable} answerable questions",
    ]
    if report["n_unanswerable"] > 1:
        rows = evaluate_baseline(corpus, retriever=retriever)
        scores = [rows.loc[rows["answerable"] == flag, "score"] for flag in (True, False)]
        held_out = cross_validated_threshold(*scores)
        lines.append(
            f"cross-validated in {len(held_out.thresholds)} folds: {held_out.abstains_unanswerable} of "
            f"{held_out.n_unanswerable} and {held_out.abstains_answerable} of {held_out.n_answerable}"
        )
    return "\n".join(lines)


def _checkout() -> Path:
    """Return the folder of the checkout that this library runs from, or the working directory."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() else Path.cwd()


def _is_own(data: Path | None) -> bool:
    """Tell whether the corpus is the project's own, which has to be without fault."""
    try:
        own = (_checkout() / "data").resolve(), (Path(__file__).resolve().parent / "data")
        return find_data(data).resolve() in own
    except CorpusError:
        return False


def _builder(path: Path) -> Callable[[Path, Path], dict[str, str]]:
    """Load the builder of a checkout; an installed wheel has none."""
    spec = importlib.util.spec_from_file_location("build_corpus", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise ValueError(f"no {path}: build the corpus in a checkout of the project")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    build: Callable[[Path, Path], dict[str, str]] = module.build
    return build


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn what a user can mend into its reason and exit status 1."""
    try:
        yield
    except (CorpusError, LessonError, MissingAnswersError, ModelError, RecordError, ValueError, OSError) as error:
        typer.echo(f"ragfin: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("ragfin: stopped", err=True)
        raise typer.Exit(130) from None
