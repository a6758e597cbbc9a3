"""What `ragfin` prints: tables of rates, pairs and failures for a terminal, and JSON."""

import json
import sys
from typing import Any

import pandas as pd
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ragfin.comparison import format_interval
from ragfin.stats import Interval, wilson

LESSON_SHAPE = (376, 263, 17)  # chunks, questions, unanswerable ones
PUBLISHED = {"coverage": 0.873, "chunk": 0.772, "line": 0.545, "line_exact": 0.382, "citation": 0.707}
MEANING = {
    "coverage": "gold passages in the 3 best chunks",
    "chunk": "best chunk contains the gold",
    "line": "its best line contains the gold",
    "line_exact": "that line is exactly the gold",
    "citation": "best chunk covers a gold passage",
}


def five_means(report: dict[str, Any]) -> Table:
    """Return the baseline's five means with their intervals; beside the published ones for the lesson's shape."""
    n = report["n_questions"] - report["n_unanswerable"]
    title = f"Extractive baseline: {report['n_questions']} questions, {n} answerable, {report['n_chunks']} chunks"
    lesson = (report["n_chunks"], report["n_questions"], report["n_unanswerable"]) == LESSON_SHAPE
    heads = ["measure", "mean [95 % Wilson]", *(["published"] if lesson else []), "what it says"]
    table = Table(*heads, title=title, title_justify="left")
    for name, published in PUBLISHED.items():
        interval = wilson(report[name] * n, n) if report[name] is not None else Interval(0, 0, 0, 0)
        beside = [f"{published:.3f}"] if lesson else []
        table.add_row(name, _three_interval(interval), *beside, MEANING[name])
    return table


def rate_table(summary: pd.DataFrame, by: str = "") -> Table:
    """Return rates as a table: interval, bootstrap interval of fractions, and the numbers of questions."""
    columns = [by] if by else []
    explained = "≈: a mean of fractions, for which Wilson's interval is an approximation"
    caption = explained if summary["approximate"].any() else ""
    table = Table(
        *columns, "measure", "mean [95 % Wilson]", "95 % bootstrap", "n", "not applicable", "failed", caption=caption
    )
    for row in summary.to_dict("records"):
        boot = f"[{row['boot_low']:.2f}, {row['boot_high']:.2f}]" if row["approximate"] else ""
        interval = format_interval(Interval(row["mean"], row["low"], row["high"], row["n"])).partition(" n=")[0]
        mark = "≈ " if row["approximate"] else ""
        counts = (str(row[name]) for name in ("n", "n_not_applicable", "n_failed"))
        table.add_row(*(escape(str(row[name])) for name in columns), row["measure"], mark + interval, boot, *counts)
    return table


def abstention_table(silent: Any) -> Table:
    """Return the confusion table of abstaining with its rates."""
    table = Table("abstention", "abstained", "answered", "rate [95 % Wilson]", title_justify="left")
    table.add_row(
        "unanswerable",
        str(silent.unanswerable_abstained),
        str(silent.unanswerable_answered),
        f"recall {format_interval(silent.recall)}",
    )
    table.add_row(
        "answerable",
        str(silent.answerable_abstained),
        str(silent.answerable_answered),
        f"false abstention {format_interval(silent.false_abstention)}",
    )
    table.add_row("", "", "", f"precision {format_interval(silent.precision)}")
    table.add_row("", "", "", f"exact of those answered {format_interval(silent.accuracy_answered)}")
    return table


def pair_table(pairs: list[Any], names: tuple[str, str]) -> Table:
    """Return the tests in pairs as a table."""
    table = Table(
        "in pairs", "n", escape(f"{names[1]} minus {names[0]} [95 % bootstrap]"), "only first", "only second",
        "McNemar p", "smallest detectable",
    )  # fmt: skip
    for pair in pairs:
        difference = f"{pair.difference.mean:+.2f} [{pair.difference.low:+.2f}, {pair.difference.high:+.2f}]"
        test, least = pair.mcnemar, pair.detectable
        table.add_row(
            pair.measure,
            str(pair.n),
            difference if pair.n else "-",
            str(test.only_first) if test else "-",
            str(test.only_second) if test else "-",
            (f"{test.p_value:.3f}" if test.p_value >= 0.001 else "< 0.001") if test else "-",
            f"{least.pairs} pairs ({least.difference:.2f})" if least else "-",
        )
    return table


def link_table(links: pd.DataFrame) -> Table:
    """Return the failures by link as a table, links without failures left out."""
    shown = links.loc[:, links.sum() > 0]
    table = Table("first link that failed", *(str(name) for name in shown.columns))
    for system, row in shown.iterrows():
        table.add_row(escape(str(system)), *(str(count) for count in row))
    return table


def frame_table(frame: pd.DataFrame) -> Table:
    """Return a frame of text as a table."""
    table = Table(*(escape(str(name)) for name in (frame.index.name or "", *frame.columns)))
    for label, row in frame.iterrows():
        table.add_row(*(escape(str(cell)) for cell in (label, *row)))
    return table


def print_check(terminal: Console, report: dict[str, Any]) -> None:
    """Print what a corpus report says, with where to look."""
    counts = ("n_documents", "n_passages", "n_chunks", "n_questions", "n_unanswerable")
    terminal.print(", ".join(f"{report[name]} {name[2:]}" for name in counts))
    sizes, kinds = report["document_chars"], report["by_kind"]
    terminal.print(
        f"characters in a document: {sizes['min']} to {sizes['max']}, median {sizes['median']:g}, in all {sizes['sum']}"
    )
    terminal.print(escape(f"questions by kind: {', '.join(f'{kind} {n}' for kind, n in kinds.items())}"))
    outside, headings = report["share_in_no_chunk"], report["share_headings"]
    terminal.print(f"text in no chunk: {_percent(outside)}, of which headings {_percent(headings)}")
    under = report["under_heading"]
    places = ", ".join(f"{place.doc_id} at {place.start}" for place in under[:5])
    terminal.print(
        f"text directly under a heading, in no chunk: {len(under)} places{': ' + escape(places) if under else ''}"
    )
    returns = report["carriage_returns"]
    told = ", ".join(f"{doc_id} {count}" for doc_id, count in returns.items())
    terminal.print(f"carriage returns: {sum(returns.values())}{': ' + escape(told) if returns else ''}")
    terminal.print(
        f"gold passages: {report['n_gold_passages']}, cut by a chunk border {_percent(report['share_gold_cut'])}, "
        f"in no chunk {len(report['gold_in_no_chunk'])}{_ids(report['gold_in_no_chunk'])}"
    )
    terminal.print(
        f"answerable questions whose gold fits in no single chunk: {len(report['needs_several_chunks'])}"
        f"{_ids(report['needs_several_chunks'])}"
    )
    missing = len(report["gold_faults"])
    terminal.print(f"questions with gold figures that their gold passages do not hold: {missing}")
    units = report["gold_unit_faults"]
    terminal.print(
        f"questions whose gold differs from its passages in unit, scale or sign: {len(units)}{_ids([*units])}"
    )


def _ids(ids: list[str]) -> str:
    """Return the first ids in brackets."""
    return escape(f" ({', '.join(ids[:5])}{', ...' if len(ids) > 5 else ''})") if ids else ""


def console() -> Console:
    """Return a console that does not cut tables where output is not a terminal."""
    terminal = Console()
    return terminal if terminal.is_terminal else Console(width=140)


def print_json(value: Any) -> None:
    """Print a value as one JSON object; what is not a number is null. ASCII where output is not UTF-8."""
    escaped = "utf" not in (getattr(sys.stdout, "encoding", None) or "").lower()
    typer.echo(json.dumps(_plain(value), ensure_ascii=escaped, indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """Return a value in JSON's types."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if isinstance(value, float) and value != value else value


def two(value: float | None) -> str:
    """Return a rate with two decimals."""
    return "-" if value is None else f"{value:.2f}"


def three(value: float | None) -> str:
    """Return a rate with three decimals."""
    return "-" if value is None else f"{value:.3f}"


def _three_interval(interval: Interval) -> str:
    mean, low, high, n = interval
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]" if n else "-"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
