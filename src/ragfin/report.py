"""One self-contained page: rates with intervals, tests in pairs, failures by link, and every question to look at.

The page asks the network for nothing, and its own policy forbids it to; whatever comes from a corpus or from a model is
escaped. It computes no rate of its own: the numbers are those of `ragfin.comparison` and `ragfin.evaluation`.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import pandas as pd

from ragfin.comparison import COMPARISON_ROWS, Comparison, compare_pairs, comparison, comparison_table, format_interval
from ragfin.corpus import Corpus, Question
from ragfin.evaluation import failures_by_link
from ragfin.report_questions import Contexts, baseline_contexts, question_item, spoken
from ragfin.stats import Interval, bootstrap_mean, wilson


def comparison_page(
    corpus: Corpus, systems: Mapping[str, pd.DataFrame], contexts: Mapping[str, Contexts] | None = None
) -> str:
    """Return one HTML page about one system or several on the same questions.

    Parameters
    ----------
    corpus : Corpus
        Where the questions, the gold passages and the documents are.
    systems : mapping of str to DataFrame
        Rows of `ragfin.evaluation.evaluate` or of the extractive baseline, by the name of the system.
    contexts : mapping of str to mapping of str to sequence of Chunk, optional
        What each system's answers were made from, by system and question id. A system that is missing here is taken to
        be the extractive baseline, with `baseline_contexts`.

    Returns
    -------
    str
        HTML5 in UTF-8, style and script included. Gold passages are marked where the context holds them and quoted
        where it does not; a cited fragment is marked as a whole, for ``[n]`` names the fragment and no place in it.

    Raises
    ------
    ValueError
        There is no system, or one without rows.
    """
    if not systems or any(rows.empty for rows in systems.values()):
        raise ValueError("there is no answer to show: evaluate at least one question of each system")
    given = {name: (contexts or {}).get(name) or baseline_contexts(corpus) for name in systems}
    asked = {question_id for rows in systems.values() for question_id in rows["question_id"]}
    questions = [question for question in corpus if question.id in asked]
    texts = dict(zip(corpus.documents["doc_id"], corpus.documents["text"], strict=True))
    rows_by_id = {name: {row["question_id"]: row for row in _records(rows)} for name, rows in systems.items()}
    names = list(systems)
    title = " and ".join(names) if len(names) < 3 else f"{len(names)} systems"
    unanswerable = sum(not question.answerable for question in questions)
    style, script = _asset("report.css"), _asset("report.js")
    policy = f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(script)}"
    body = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{len(questions)} questions, {unanswerable} of them unanswerable. Every rate is a mean with its 95 % "
        "Wilson interval and the number n of questions that it is over; questions to which it does not apply, and "
        "failed generations, are not in n.</p>",
        _rates(systems),
        *([_pairs(systems)] if len(names) == 2 else []),
        _links(systems),
        "<h2>Questions</h2>",
        _form(questions, systems),
        '<p class="note">In a context: <mark class="gold">a gold passage</mark>, '
        '<mark class="cited">a cited fragment</mark>, <mark class="cited gold">both</mark>.</p>',
        '<p id="count" class="note" aria-live="polite"></p>',
        *(question_item(question, rows_by_id, given, texts) for question in questions),
    ]
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n'
        "<body>\n<main>\n" + "\n".join(body) + f"\n</main>\n<script>{script}</script>\n</body>\n</html>\n"
    )
    return page.encode("utf-8", "replace").decode()


def _rates(systems: Mapping[str, pd.DataFrame]) -> str:
    """Return the headline table."""
    intervals, cells = comparison(systems), comparison_table(systems)
    covered = {name: rows["coverage"].dropna() for name, rows in systems.items()}
    rates = {name: wilson(float(values.sum()), len(values)) for name, values in covered.items()}
    lines = [_row("coverage", [_cell(name, _rate(rate, covered[name])) for name, rate in rates.items()])]
    for label, measure in COMPARISON_ROWS.items():
        drawn = [
            _cell(name, _rate(intervals[name][label], rows[measure], str(cells.loc[label, name])))
            for name, rows in systems.items()
        ]
        lines.append(_row(label, drawn))
    note = "≈: a mean of fractions, for which Wilson's interval is an approximation; the bootstrap's is below it."
    return f'<h2>Rates</h2>{_table(["measure", *systems], lines)}<p class="note">{note}</p>'


def _rate(interval: Interval, values: pd.Series, text: str = "") -> str:
    """Return an interval as text and as a small drawing, with its bootstrap interval when it is of fractions."""
    text = text or format_interval(interval)
    if "[" not in text or "always" in text:
        return escape(text)  # nothing applies, or it is so by construction
    low, mean, high = (f"{200 * value:.1f}" for value in (interval.low, interval.mean, interval.high))
    drawing = (
        '<svg class="bar" viewBox="-4 0 208 12" aria-hidden="true"><line class="axis" x1="0" x2="200" y1="6" y2="6"/>'
        f'<line class="range" x1="{low}" x2="{high}" y1="6" y2="6"/><circle cx="{mean}" cy="6" r="3.5"/></svg>'
    )
    kept = values.dropna()
    if not ((kept > 0) & (kept < 1)).any():
        return escape(text) + drawing
    boot = bootstrap_mean(kept.tolist())
    return f'≈ {escape(text)}{drawing}<span class="boot">bootstrap [{boot.low:.2f}, {boot.high:.2f}]</span>'


def _pairs(systems: Mapping[str, pd.DataFrame]) -> str:
    """Return the tests in pairs of two systems."""
    (first, a), (second, b) = systems.items()
    columns = ["measure", "n", f"{second} minus {first}", "right alone", "McNemar p", "smallest detectable"]
    rows = []
    for label, measure in {"coverage": "coverage", **COMPARISON_ROWS}.items():
        pair = compare_pairs(a, b, measure)
        if pair.n:
            cells = [_cell(name, text) for name, text in zip(columns[1:], _pair(pair), strict=True)]
            rows.append(_row(label, cells))
    note = (
        "Over the questions that a measure applies to on both sides. Right alone: questions that only the first, and "
        "only the second, got right. Smallest detectable: the difference that McNemar's exact test would need, with as "
        "many such questions, to call it significant."
    )
    return f'<h2>In pairs</h2>{_table(columns, rows)}<p class="note">{note}</p>'


def _pair(pair: Comparison) -> list[str]:
    """Return the cells of one test in pairs."""
    difference = f"{pair.difference.mean:+.2f} [{pair.difference.low:+.2f}, {pair.difference.high:+.2f}]"
    test, least = pair.mcnemar, pair.detectable
    alone = f"{test.only_first} and {test.only_second}" if test else "-"
    detectable = f"{least.pairs} questions ({least.difference:.2f})" if least else "-"
    return [str(pair.n), difference, alone, _p(test.p_value) if test else "-", detectable]


def _links(systems: Mapping[str, pd.DataFrame]) -> str:
    """Return the failures by link; a number is a button that filters the questions."""
    both = pd.concat([rows.assign(system=name) for name, rows in systems.items()], ignore_index=True)
    counts = failures_by_link(both).loc[list(systems)]
    rows = []
    for link in counts.columns[counts.sum() > 0]:
        cells = [_cell(name, _button(link, i, str(counts[link].iloc[i]))) for i, name in enumerate(systems)]
        rows.append(_row(spoken(link), cells))
    return f"<h2>First link that failed</h2>{_table(['link', *systems], rows)}"


def _button(link: str, system: int, text: str) -> str:
    """Return a button that filters the questions by the link that failed in a system."""
    return f'<button type="button" data-link="{escape(link)}" data-system="{system}">{text}</button>'


def _form(questions: Sequence[Question], systems: Mapping[str, pd.DataFrame]) -> str:
    """Return the filter; the script shows it."""
    kinds = sorted({question.kind for question in questions})
    links = [link for rows in systems.values() for link in rows["failed_link"]]
    several = len(systems) > 1
    return "".join(
        [
            '<form hidden><label>text<input type="search" name="text" autocomplete="off"></label>',
            _select("kind", "any kind", [(kind, kind) for kind in kinds]),
            _select("link", "any link", [(link, spoken(link)) for link in dict.fromkeys(sorted(links))]),
            _select("system", "any system", [(str(i), name) for i, name in enumerate(systems)]) if several else "",
            '<label class="check"><input type="checkbox" name="split">only where exact differs</label>'
            if several
            else "",
            '<button type="reset">show all</button></form>',
        ]
    )


def _select(name: str, none: str, options: Iterable[tuple[str, str]]) -> str:
    """Return one choice of the filter."""
    inner = "".join(f'<option value="{escape(value)}">{escape(text)}</option>' for value, text in options)
    return f'<label>{name}<select name="{name}"><option value="">{none}</option>{inner}</select></label>'


def _table(columns: Sequence[str], rows: Iterable[str]) -> str:
    """Return a table that a narrow screen stacks."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    return f'<table class="stack"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _row(label: str, cells: Iterable[str]) -> str:
    return f'<tr><th scope="row">{escape(label)}</th>{"".join(cells)}</tr>'


def _cell(column: str, html: str) -> str:
    """Return a cell; its content is HTML already."""
    return f'<td data-column="{escape(column)}">{html}</td>'


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"


def _records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in rows.to_dict("records")]


def _asset(name: str) -> str:
    return files("ragfin").joinpath(name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return the source expression by which the policy lets this text in, and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
