"""From answers to evidence: the extractive baseline's report."""

from collections.abc import Sequence
from math import nan
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import mannwhitneyu

from ragfin.baseline import best_line
from ragfin.chunking import Chunk, chunk_corpus
from ragfin.corpus import Corpus
from ragfin.metrics import citation_precision, contains_gold, exact, question_coverage
from ragfin.retrieval import BM25Retriever

K = 3
COVERAGE_AT = (1, 2, 3, 5)


def baseline_report(corpus: Corpus, chunks: Sequence[Chunk] | None = None) -> dict[str, Any]:
    """Measure the extractive baseline on every question of a corpus.

    The means are over the answerable questions. The best chunk is judged on its body, the line is the best line
    of that chunk, and chunk 1 is always cited. ``threshold`` is the median score of the best chunk over the
    unanswerable questions, so it is chosen on the data that it is judged on; abstaining is strictly below it.

    Parameters
    ----------
    corpus : Corpus
        What `ragfin.load_corpus` returns.
    chunks : sequence of Chunk, optional
        The chunks to search; by default those of `ragfin.chunking.chunk_corpus`.

    Returns
    -------
    dict
        ``n_chunks, n_questions, n_unanswerable, coverage, chunk, line, line_exact, citation, auc, threshold,
        abstains_unanswerable, abstains_answerable, coverage_at {"1", "2", "3", "5"}, by_kind {kind: {n, coverage,
        chunk, line, citation}}``. Unrounded; None where nothing applies. ``by_kind`` holds
        the answerable kinds, by name.

    Source
    ------
    The lesson's table of the extractive baseline.
    """
    if chunks is None:
        chunks = chunk_corpus(corpus)
    rows = baseline_rows(corpus, chunks)
    answerable, unanswerable = rows[rows["answerable"]], rows[~rows["answerable"]]
    threshold = _or_none(unanswerable["score"].median())
    means = ["coverage", "chunk", "line", "line_exact", "citation"]
    return {
        "n_chunks": len(chunks),
        "n_questions": len(rows),
        "n_unanswerable": len(unanswerable),
        **{name: _or_none(answerable[name].mean()) for name in means},
        "auc": _or_none(auc(answerable["score"], unanswerable["score"])),
        "threshold": threshold,
        "abstains_unanswerable": None if threshold is None else int((unanswerable["score"] < threshold).sum()),
        "abstains_answerable": None if threshold is None else int((answerable["score"] < threshold).sum()),
        "coverage_at": {str(k): _or_none(answerable[f"coverage_at_{k}"].mean()) for k in COVERAGE_AT},
        "by_kind": {
            str(kind): {
                "n": len(group),
                **{name: _or_none(group[name].mean()) for name in ["coverage", "chunk", "line", "citation"]},
            }
            for kind, group in answerable.groupby("kind", sort=True)
        },
    }


def baseline_rows(corpus: Corpus, chunks: Sequence[Chunk]) -> pd.DataFrame:
    """Return one row per question with what the extractive baseline found for it.

    Returns
    -------
    DataFrame
        ``question_id, kind, answerable, score`` (of the best chunk), ``best_line``, ``chunk, line`` (contains the
        gold), ``line_exact``, ``citation`` and ``coverage``, ``coverage_at_1``, ``_2``, ``_3``, ``_5``. In file order.
    """
    questions = list(corpus)
    found = BM25Retriever(chunks).search_many([question.text for question in questions], k=max(COVERAGE_AT))
    rows = []
    for question, hits in zip(questions, found, strict=True):
        best = [hit.chunk for hit in hits[:1]]
        line = best_line(best[0], question.text) if best else ""
        at = {k: question_coverage([hit.chunk for hit in hits[:k]], question) for k in COVERAGE_AT}
        rows.append(
            {
                "question_id": question.id,
                "kind": question.kind,
                "answerable": question.answerable,
                "score": hits[0].score if hits else 0.0,
                "best_line": line,
                "coverage": at[K],
                "chunk": float(contains_gold(best[0].body if best else "", question)),
                "line": float(contains_gold(line, question)),
                "line_exact": float(exact(line, question)),
                "citation": citation_precision(best, question),
                **{f"coverage_at_{k}": at[k] for k in COVERAGE_AT},
            }
        )
    return pd.DataFrame(rows)


def auc(answerable_scores: ArrayLike, unanswerable_scores: ArrayLike) -> float:
    """Return the chance that an answerable question scores above an unanswerable one, ties counted half.

    Returns
    -------
    float
        Between 0 and 1, 0.5 for a score that tells nothing; nan when one side is empty.

    Source
    ------
    The Mann-Whitney U of `scipy.stats.mannwhitneyu` over the number of pairs.

    Examples
    --------
    >>> auc([3.0, 2.0], [2.0, 1.0])
    0.875
    """
    x, y = np.asarray(answerable_scores), np.asarray(unanswerable_scores)
    if not x.size or not y.size:
        return nan
    return float(mannwhitneyu(x, y).statistic / (x.size * y.size))


def _or_none(value: float) -> float | None:
    """Return a float for JSON: None for nan."""
    return None if np.isnan(value) else float(value)
