"""Two systems side by side: the lesson's table, and tests in pairs.

Nothing is corrected for looking at several measures at once.
"""

from collections.abc import Mapping
from math import nan
from typing import NamedTuple

import numpy as np
import pandas as pd

from ragfin.links import MEASURES
from ragfin.stats import Detectable, Interval, McNemar, detectable_difference, mcnemar_exact, paired_bootstrap, wilson

COMPARISON_ROWS = {
    "exact": "exact",
    "contains gold": "contains_gold",
    "whole chunk contains gold": "chunk",
    "faithful": "faithful",
    "correct citations": "citation",
    "cites something": "cites",
    "abstains if not stated": "abstains",
}


class Comparison(NamedTuple):
    """Two systems on one measure, in pairs: the second minus the first, over the questions that both apply to."""

    measure: str
    n: int
    first: float
    second: float
    difference: Interval
    mcnemar: McNemar | None
    detectable: Detectable | None

    @property
    def worse(self) -> bool:
        """Whether the second is worse beyond the paired interval."""
        return self.difference.high < 0


def comparison(systems: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, Interval]]:
    """Return the lesson's comparison as intervals: by system, by row.

    ``exact`` is over all questions, ``abstains if not stated`` over the unanswerable ones, every other row over the
    answerable ones to which it applies.

    Parameters
    ----------
    systems : mapping of str to DataFrame
        Rows of one system each, over the same questions.

    Returns
    -------
    dict of str to dict of str to Interval
        A row that does not apply to any question has n 0 and is nan.
    """
    table: dict[str, dict[str, Interval]] = {}
    for system, rows in systems.items():
        table[system] = {}
        for label, measure in COMPARISON_ROWS.items():
            values = _concerned(rows, measure)[measure].dropna()
            table[system][label] = wilson(float(values.sum()), len(values))
    return table


def comparison_table(systems: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the lesson's comparison as text: a mean with its 95 % Wilson interval and n in each cell.

    Parameters
    ----------
    systems : mapping of str to DataFrame
        As in `comparison`; for the lesson's table ``{"LLM": evaluate(...), "extraction": evaluate_baseline(...)}``.

    Returns
    -------
    DataFrame
        Rows in the lesson's order, a column per system. A cell that does not apply is ``-``; those in which extraction
        is right by construction say so.
    """
    table = comparison(systems)
    for_granted = {"faithful": "1.00 (no generation)", "cites something": "1.00 (always [1])"}
    cells = {}
    for system, intervals in table.items():
        extractive = intervals["whole chunk contains gold"].n > 0
        cells[system] = [
            for_granted[label] if extractive and label in for_granted else format_interval(interval)
            for label, interval in intervals.items()
        ]
    return pd.DataFrame(cells, index=pd.Index(list(COMPARISON_ROWS), name="measure"))


def format_interval(interval: Interval) -> str:
    """Return an interval as text with two decimals and n; ``-`` when nothing applies.

    Examples
    --------
    >>> format_interval(wilson(6, 12))
    '0.50 [0.25, 0.75] n=12'
    """
    mean, low, high, n = interval
    return f"{mean:.2f} [{low:.2f}, {high:.2f}] n={n}" if n else "-"


def compare_pairs(first: pd.DataFrame, second: pd.DataFrame, measure: str = "exact") -> Comparison:
    """Compare two systems question by question, on the questions that both answered.

    Parameters
    ----------
    first, second : DataFrame
        Rows of one system each.
    measure : str, optional
        One of `MEASURES`, over the same questions as in `comparison`; one to which it does not apply on either side is
        left out.

    Returns
    -------
    Comparison
        The difference with its paired bootstrap interval; McNemar's exact test and the smallest detectable difference
        at this number of discordant pairs, for a measure that is right or wrong (None for fractions).

    Raises
    ------
    ValueError
        An unknown measure, or no question in common.
    """
    if measure not in MEASURES:
        raise ValueError(f"no measure {measure!r}: choose from {', '.join(MEASURES)}")
    if not set(first["question_id"]) & set(second["question_id"]):
        raise ValueError("the two systems have no question in common; compare records of the same corpus")
    sides = [_concerned(rows, measure)[["question_id", measure]].dropna() for rows in (first, second)]
    both = sides[0].merge(sides[1], on="question_id", suffixes=("_first", "_second"))
    x, y = (both[f"{measure}_{side}"].tolist() for side in ("first", "second"))
    counted = all(value in (0.0, 1.0) for value in x + y)
    mcnemar = mcnemar_exact(x, y) if counted and x else None
    discordant = mcnemar.only_first + mcnemar.only_second if mcnemar else 0
    return Comparison(
        measure,
        len(x),
        float(np.mean(x)) if x else nan,
        float(np.mean(y)) if y else nan,
        paired_bootstrap(x, y),
        mcnemar,
        detectable_difference(len(x), discordant=discordant) if mcnemar else None,
    )


def _concerned(rows: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the rows that a measure is about: all for exact, unanswerable for abstains, else answerable ones."""
    if measure == "exact":
        return rows
    return rows[rows["answerable"] == (measure != "abstains")]
