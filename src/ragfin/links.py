"""The measures of a row, and the first link of the pipeline that broke."""

from typing import Any

import pandas as pd

MEASURES = ("coverage", "exact", "contains_gold", "chunk", "faithful", "citation", "cites", "abstains")
LINKS = (
    "none",
    "citation",
    "retriever",
    "wrong_abstention",
    "invented_figure",
    "reading",
    "missed_abstention",
    "failed",
)


def failed_link(
    *,
    answerable: bool,
    exact: bool,
    abstains: bool,
    faithful: bool,
    coverage: float,
    citation: float,
    failed: bool = False,
) -> str:
    """Return the first link that broke, by the rules in `ragfin.evaluation.evaluate`.

    Parameters
    ----------
    answerable, exact, abstains, faithful, failed : bool
        Of the question and its answer.
    coverage, citation : float
        `ragfin.metrics.question_coverage` of the context and `ragfin.metrics.citation_precision`; nan is neither
        below 1 nor above 0.

    Returns
    -------
    str
        One of `LINKS`.

    Examples
    --------
    >>> failed_link(answerable=True, exact=False, abstains=False, faithful=False, coverage=1.0, citation=1.0)
    'invented_figure'
    """
    if failed:
        return "failed"
    if not answerable:
        return "none" if abstains else "missed_abstention"
    if exact:
        return "none" if citation > 0 else "citation"
    if coverage < 1:
        return "retriever"
    if abstains:
        return "wrong_abstention"
    return "reading" if faithful else "invented_figure"


def as_frame(rows: Any) -> pd.DataFrame:
    """Return rows as a frame with the columns of `ragfin.evaluation.evaluate` first and in order."""
    frame = pd.DataFrame(rows)
    first = ["question_id", "kind", "answerable", "system", "answer", "cited", "failed", *MEASURES, "failed_link"]
    frame = frame.reindex(columns=[*first, *(name for name in frame.columns if name not in first)])
    return frame.astype(dict.fromkeys(MEASURES, "float64"))
