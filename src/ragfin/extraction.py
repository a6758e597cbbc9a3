"""The extractive baseline over a whole corpus: what it scores, and what a score threshold makes of it.

It invents nothing, so it is always faithful, and it always cites chunk 1. The rules for one question are
`ragfin.baseline`'s.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from ragfin.abstention import auc, median_threshold
from ragfin.baseline import best_line
from ragfin.chunking import Chunk, chunk_corpus
from ragfin.corpus import Corpus, Question
from ragfin.links import as_frame, failed_link
from ragfin.metrics import abstains, citation_precision, contains_gold, exact, question_coverage
from ragfin.retrieval import BM25Retriever, Retriever

K = 3
COVERAGE_AT = (1, 2, 3, 5)


def baseline_report(
    corpus: Corpus, chunks: Sequence[Chunk] | None = None, *, retriever: Retriever | None = None
) -> dict[str, Any]:
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
    retriever : Retriever, optional
        Another than BM25 over the chunks.

    Returns
    -------
    dict
        ``n_chunks, n_questions, n_unanswerable, coverage, chunk, line, line_exact, citation, auc, threshold,
        abstains_unanswerable, abstains_answerable, coverage_at {"1", "2", "3", "5"}, by_kind {kind: {n, coverage,
        chunk, line, citation}}``. Unrounded; None where nothing applies. ``by_kind`` holds the answerable kinds, by
        name.

    Source
    ------
    The lesson's table of the extractive baseline.
    """
    if chunks is None:
        chunks = chunk_corpus(corpus, corpus.settings.max_chars)
    rows = baseline_rows(corpus, chunks, retriever=retriever)
    answerable, unanswerable = rows[rows["answerable"]], rows[~rows["answerable"]]
    threshold = _or_none(median_threshold(unanswerable["score"]))
    return {
        "n_chunks": len(chunks),
        "n_questions": len(rows),
        "n_unanswerable": len(unanswerable),
        **{name: _or_none(answerable[name].mean()) for name in ("coverage", "chunk", "line", "line_exact", "citation")},
        "auc": _or_none(auc(answerable["score"], unanswerable["score"])),
        "threshold": threshold,
        "abstains_unanswerable": None if threshold is None else int((unanswerable["score"] < threshold).sum()),
        "abstains_answerable": None if threshold is None else int((answerable["score"] < threshold).sum()),
        "coverage_at": {str(k): _or_none(answerable[f"coverage_at_{k}"].mean()) for k in COVERAGE_AT},
        "by_kind": {
            str(kind): {
                "n": len(group),
                **{name: _or_none(group[name].mean()) for name in ("coverage", "chunk", "line", "citation")},
            }
            for kind, group in answerable.groupby("kind", sort=True)
        },
    }


def baseline_rows(corpus: Corpus, chunks: Sequence[Chunk], *, retriever: Retriever | None = None) -> pd.DataFrame:
    """Return one row per question with what the extractive baseline found for it.

    Parameters
    ----------
    corpus : Corpus
        What `ragfin.load_corpus` returns.
    chunks : sequence of Chunk
        What to search.
    retriever : Retriever, optional
        Another than BM25 over the chunks, whose words are those of the corpus's language.

    Returns
    -------
    DataFrame
        ``question_id, kind, answerable, score`` (of the best chunk), ``best_line``, ``chunk, line`` (contains the
        gold), ``line_exact``, ``citation`` and ``coverage``, ``coverage_at_1``, ``_2``, ``_3``, ``_5``. In file order.
    """
    questions, language = list(corpus), corpus.language
    texts = [question.text for question in questions]
    if retriever is None:
        found = BM25Retriever(chunks, stop_words=language.stop_words).search_many(texts, k=max(COVERAGE_AT))
    else:
        found = [retriever.search(text, k=max(COVERAGE_AT)) for text in texts]
    rows = []
    for question, hits in zip(questions, found, strict=True):
        best = [hit.chunk for hit in hits[:1]]
        line = best_line(best[0], question.text, stop_words=language.stop_words) if best else ""
        at = {k: question_coverage([hit.chunk for hit in hits[:k]], question) for k in COVERAGE_AT}
        rows.append(
            {
                "question_id": question.id,
                "kind": question.kind,
                "answerable": question.answerable,
                "score": hits[0].score if hits else 0.0,
                "best_line": line,
                "coverage": at[K],
                "chunk": float(contains_gold(best[0].body if best else "", question, language=language)),
                "line": float(contains_gold(line, question, language=language)),
                "line_exact": float(exact(line, question, language=language)),
                "citation": citation_precision(best, question),
                **{f"coverage_at_{k}": at[k] for k in COVERAGE_AT},
            }
        )
    return pd.DataFrame(rows)


def evaluate_baseline(
    corpus: Corpus,
    chunks: Sequence[Chunk] | None = None,
    *,
    questions: Iterable[Question] | None = None,
    threshold: float | None = None,
    system: str = "extraction",
    retriever: Retriever | None = None,
) -> pd.DataFrame:
    """Measure the extractive baseline: the best line of the best chunk, which it cites.

    The threshold decides only ``exact``, ``abstains`` and ``failed_link``; the other measures look at the line and
    the chunk whatever their score is, as in the lesson.

    Parameters
    ----------
    corpus : Corpus
        What `ragfin.load_corpus` returns.
    chunks : sequence of Chunk, optional
        By default those of `ragfin.chunking.chunk_corpus`.
    questions : iterable of Question, optional
        Those to return rows for; all by default.
    threshold : float, optional
        It abstains strictly below this score of the best chunk. By default the median of all unanswerable questions
        of the corpus; ``-inf`` never abstains.
    system : str, optional
        Its name, kept in each row.
    retriever : Retriever, optional
        Another than BM25 over the chunks.

    Returns
    -------
    DataFrame
        The columns of `ragfin.evaluation.evaluate`, and ``score`` and those of `baseline_rows` that are not among them.
    """
    if chunks is None:
        chunks = chunk_corpus(corpus, corpus.settings.max_chars)
    rows = baseline_rows(corpus, chunks, retriever=retriever)
    if threshold is None:
        threshold = median_threshold(rows.loc[~rows["answerable"], "score"])
    silent = rows["score"] < threshold
    answerable = rows["answerable"]
    rows["system"] = system
    rows["answer"] = rows["best_line"].mask(silent, corpus.language.abstaining_answer)
    rows["cited"] = [(1,)] * len(rows)
    rows["failed"] = False
    rows["finish"], rows["n_out_of_range"], rows["n_malformed"] = "stop", 0, 0
    rows["abstains"] = (silent | rows["best_line"].map(partial(abstains, language=corpus.language))).astype(float)
    rows["exact"] = rows["line_exact"].mask(silent, (~answerable).astype(float))
    rows["contains_gold"] = rows["line"].where(answerable)
    rows["chunk"] = rows["chunk"].where(answerable)
    rows["faithful"] = 1.0
    rows["cites"] = answerable.astype(float).where(answerable)
    rows["failed_link"] = [
        failed_link(
            answerable=is_answerable, exact=right == 1, abstains=quiet == 1, faithful=True, coverage=at, citation=cites
        )
        for is_answerable, right, quiet, at, cites in zip(
            *(rows[name].tolist() for name in ("answerable", "exact", "abstains", "coverage", "citation")), strict=True
        )
    ]
    if questions is not None:
        wanted = [question.id for question in questions]
        rows = rows.set_index("question_id", drop=False).loc[wanted].reset_index(drop=True)
    return as_frame(rows)


def _or_none(value: float) -> float | None:
    """Return a float for JSON: None for nan."""
    return None if np.isnan(value) else float(value)
