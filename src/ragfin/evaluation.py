"""From answers to evidence: one row per question with the five measures and the link that broke, then rates.

A row keeps every measure apart, and not applicable (nan) apart from wrong (0). Rates come with their interval and with
how many questions they are over, how many they do not apply to, and how many failed. Nothing here asks a model.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from itertools import chain
from math import nan
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from ragfin.abstention import Abstention, CrossValidated, abstention, auc, cross_validated_threshold, median_threshold
from ragfin.checks import corpus_report, gold_faults, lesson_sample
from ragfin.chunking import Chunk
from ragfin.comparison import Comparison, compare_pairs, comparison, comparison_table, format_interval
from ragfin.corpus import Corpus, Question
from ragfin.extraction import baseline_report, baseline_rows, evaluate_baseline
from ragfin.language import SPANISH, Language
from ragfin.links import LINKS, MEASURES, as_frame, failed_link
from ragfin.metrics import abstains, citation_precision, contains_gold, exact, faithful, question_coverage
from ragfin.stats import Interval, bootstrap_mean, wilson

__all__ = [
    "LINKS",
    "MEASURES",
    "Abstention",
    "Comparison",
    "CrossValidated",
    "abstention",
    "auc",
    "baseline_report",
    "baseline_rows",
    "compare_pairs",
    "comparison",
    "comparison_table",
    "corpus_report",
    "cross_validated_threshold",
    "evaluate",
    "evaluate_baseline",
    "failed_link",
    "failures_by_link",
    "format_interval",
    "gold_faults",
    "lesson_sample",
    "median_threshold",
    "summarize",
]


class AnswerLike(Protocol):
    """What an answer must tell to be measured: `ragfin.generation.Answer` does."""

    @property
    def question_id(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def cited(self) -> Sequence[int]: ...
    @property
    def finish(self) -> str: ...


class _Task(NamedTuple):
    """What one row is made from; it pickles, so that blocks of them can be shipped to other processes."""

    question: Question
    text: str
    cited: tuple[int, ...]
    finish: str
    context: tuple[Chunk, ...]
    n_out_of_range: int
    n_malformed: int


def evaluate(
    questions: Iterable[Question],
    answers: Iterable[AnswerLike],
    contexts: Mapping[str, Sequence[Chunk]],
    *,
    system: str = "",
    executor: Executor | None = None,
    block: int = 64,
    language: Language | None = None,
) -> pd.DataFrame:
    """Measure answers: one row per answer, in the order of the answers.

    ``failed_link`` is the first of these rules that holds. The generation failed: ``failed``. Answerable question:
    exact and a cited chunk covers a gold passage: ``none``; exact: ``citation``; coverage below 1: ``retriever``;
    the answer abstains: ``wrong_abstention``; it is not faithful: ``invented_figure``; otherwise ``reading``.
    Unanswerable question: the answer abstains: ``none``; otherwise ``missed_abstention``.

    Parameters
    ----------
    questions : iterable of Question
        A `Corpus`, or those questions of it that were asked.
    answers : iterable of Answer
        Whatever has ``question_id``, ``text``, ``cited`` (chunk numbers from 1) and ``finish``; ``n_out_of_range`` and
        ``n_malformed``, the citations that are none, are kept where there are any.
    contexts : mapping of str to sequence of Chunk
        What each question's answer was made from, by question id, numbered from 1 in that order; none or an empty
        sequence for an answer without context.
    system : str, optional
        Name of the system, kept in each row.
    executor : concurrent.futures.Executor, optional
        Process pool, Dask's ``client.get_executor(pure=False)``, MPI pool. Same rows as without.
    block : int, optional
        Number of answers that are shipped to the executor at a time.
    language : Language, optional
        By default that of the corpus, when ``questions`` is one, else Spanish.

    Returns
    -------
    DataFrame
        ``question_id, kind, answerable, system, answer, cited, failed, coverage, exact, contains_gold, chunk,
        faithful, citation, cites, abstains, failed_link``. Measures are float64 between 0 and 1, nan where they do not
        apply: ``coverage``, ``contains_gold``, ``citation`` and ``cites`` to an unanswerable question, ``faithful``
        and ``citation`` to an abstention (which cites nothing), ``citation`` to an answer without citation, ``chunk``
        to any but the extractive baseline, and all but ``coverage`` to a failed generation. Then ``finish``,
        ``n_out_of_range`` and ``n_malformed`` of the answer.

    Raises
    ------
    ValueError
        An answer to an unknown question, or two answers to one question.
    """
    if language is None:
        language = questions.language if isinstance(questions, Corpus) else SPANISH
    known = {question.id: question for question in questions}
    tasks, seen = [], set()
    for answer in answers:
        if answer.question_id not in known:
            raise ValueError(f"an answer to {answer.question_id!r}, which is not asked here; use this corpus's answers")
        if answer.question_id in seen:
            raise ValueError(f"{answer.question_id!r} is answered twice; evaluate one system at a time")
        seen.add(answer.question_id)
        context = tuple(contexts.get(answer.question_id, ()))
        odd = (getattr(answer, "n_out_of_range", 0), getattr(answer, "n_malformed", 0))
        tasks.append(_Task(known[answer.question_id], answer.text, tuple(answer.cited), answer.finish, context, *odd))
    blocks = [tasks[i : i + block] for i in range(0, len(tasks), block)]
    measure = partial(_rows, language=language)
    rows = chain.from_iterable(map(measure, blocks) if executor is None else executor.map(measure, blocks))
    return as_frame([{**row, "system": system} for row in rows])


def summarize(rows: pd.DataFrame, by: str | Sequence[str] | None = None) -> pd.DataFrame:
    """Return each rate with its interval and its numbers of questions.

    Parameters
    ----------
    rows : DataFrame
        Rows of `evaluate` or `evaluate_baseline`, of one system or several.
    by : str or sequence of str, optional
        Columns to group by, such as ``"kind"`` or ``["system", "kind"]``; all rows together by default.

    Returns
    -------
    DataFrame
        One row per group and measure: ``measure, mean, low, high`` (95 % Wilson), ``n`` applicable,
        ``n_not_applicable``, ``n_failed``, ``approximate`` (a mean of fractions, for which Wilson is an approximation)
        and, for those, ``boot_low, boot_high`` (95 % BCa bootstrap, seed 0), else nan. Groups by name, measures in the
        order of `MEASURES`.
    """
    columns = [by] if isinstance(by, str) else list(by or [])
    groups = rows.groupby(columns, sort=True) if columns else [((), rows)]
    summary = []
    for key, group in groups:
        for measure in MEASURES:
            values = group[measure].to_numpy(dtype=float)
            kept = values[~np.isnan(values)]
            n_failed = int((np.isnan(values) & group["failed"].to_numpy(dtype=bool)).sum())
            interval = wilson(float(kept.sum()), len(kept))
            fractional = bool(np.any((kept > 0) & (kept < 1)))
            boot = bootstrap_mean(kept.tolist()) if fractional else Interval(nan, nan, nan, 0)
            summary.append(
                {
                    **dict(zip(columns, key, strict=True)),
                    "measure": measure,
                    **interval._asdict(),
                    "n_not_applicable": len(values) - len(kept) - n_failed,
                    "n_failed": n_failed,
                    "approximate": fractional,
                    "boot_low": boot.low,
                    "boot_high": boot.high,
                }
            )
    return pd.DataFrame(summary)


def failures_by_link(rows: pd.DataFrame, by: str | Sequence[str] = "system") -> pd.DataFrame:
    """Count the questions by the link that failed.

    Returns
    -------
    DataFrame
        A row per group, a column per link in the order of `LINKS`, zeros included.
    """
    columns = [by] if isinstance(by, str) else list(by)
    counts = pd.crosstab([rows[column] for column in columns], rows["failed_link"])
    return counts.reindex(columns=pd.Index(LINKS, name="failed_link"), fill_value=0)


def _rows(tasks: Sequence[_Task], language: Language) -> list[dict[str, Any]]:
    """Measure a block of answers."""
    return [_row(task, language) for task in tasks]


def _row(task: _Task, language: Language) -> dict[str, Any]:
    """Measure one answer."""
    question, text, cited, finish, context = task[:5]
    failed, silent = finish == "failed", abstains(text, language=language)
    chunks = [] if silent else [context[number - 1] for number in cited if 1 <= number <= len(context)]
    covered, citation = question_coverage(context, question), citation_precision(chunks, question)
    right = exact(text, question, language=language)
    grounded = faithful(text, "\n".join(chunk.text for chunk in context), question, language=language)
    row = {
        "question_id": question.id,
        "kind": question.kind,
        "answerable": question.answerable,
        "answer": text.encode("utf-8", "replace").decode(),  # a frame cannot hold half of a surrogate pair
        "cited": cited,
        "failed": failed,
        "finish": finish,
        "n_out_of_range": task.n_out_of_range,
        "n_malformed": task.n_malformed,
        "coverage": covered,
        "exact": float(right),
        "contains_gold": float(contains_gold(text, question, language=language)) if question.answerable else nan,
        "faithful": float(grounded),
        "citation": citation,
        "cites": float(bool(chunks)) if question.answerable else nan,
        "abstains": float(silent),
        "failed_link": failed_link(
            answerable=question.answerable,
            exact=right,
            abstains=silent,
            faithful=silent or bool(grounded),
            coverage=covered,
            citation=citation,
            failed=failed,
        ),
    }
    return row | dict.fromkeys(set(MEASURES) & set(row) - {"coverage"}, nan) if failed else row
