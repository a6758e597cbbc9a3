"""When to stay silent: the score of the best chunk as a signal, its threshold, and what abstaining costs.

The lesson's threshold is the median score of the unanswerable questions, chosen on the data that it is judged on;
`cross_validated_threshold` judges the same rule on questions that it has not seen. No other signal is learned here.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import mannwhitneyu

from ragfin.stats import Interval, wilson


class CrossValidated(NamedTuple):
    """Thresholds of the folds, and how many held-out questions fall below the threshold of the other folds."""

    thresholds: tuple[float, ...]
    abstains_unanswerable: int
    abstains_answerable: int
    n_unanswerable: int
    n_answerable: int


class Abstention(NamedTuple):
    """The confusion table of abstaining, and four rates with their Wilson intervals.

    ``recall``: unanswerable questions that were abstained on. ``precision``: abstentions that were right to be one.
    ``false_abstention``: answerable questions that were abstained on. ``accuracy_answered``: answers that are exact, of
    all questions that were answered, so an answer to an unanswerable question is a wrong one.
    """

    unanswerable_abstained: int
    unanswerable_answered: int
    answerable_abstained: int
    answerable_answered: int
    n_failed: int
    recall: Interval
    precision: Interval
    false_abstention: Interval
    accuracy_answered: Interval


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
    x, y = np.asarray(answerable_scores, dtype=float), np.asarray(unanswerable_scores, dtype=float)
    if not x.size or not y.size:
        return float("nan")
    return float(mannwhitneyu(x, y).statistic / (x.size * y.size))


def median_threshold(unanswerable_scores: ArrayLike) -> float:
    """Return the lesson's threshold, the median score of the unanswerable questions; nan without any."""
    scores = np.asarray(unanswerable_scores, dtype=float)
    return float(np.median(scores)) if scores.size else float("nan")


def cross_validated_threshold(
    answerable_scores: ArrayLike, unanswerable_scores: ArrayLike, *, folds: int = 5
) -> CrossValidated:
    """Judge the median rule on held-out questions.

    The i-th question of each group, in the order given, belongs to fold i modulo ``folds``. Each fold is judged,
    strictly below, by the median of the unanswerable questions of the other folds. Nothing is drawn at random.

    Parameters
    ----------
    answerable_scores, unanswerable_scores : array_like of float
        Score of the best chunk, in file order.
    folds : int, optional
        At most the number of unanswerable questions; more is cut to that, which leaves one out at a time.

    Returns
    -------
    CrossValidated
        Counts over all folds.

    Raises
    ------
    ValueError
        There are fewer than two unanswerable questions, so none could be held out.

    Examples
    --------
    >>> cross_validated_threshold([5.0, 9.0], [1.0, 2.0, 6.0], folds=3)
    CrossValidated(thresholds=(4.0, 3.5, 1.5), abstains_unanswerable=2, abstains_answerable=0, n_unanswerable=3, \
n_answerable=2)
    """
    x, y = np.asarray(answerable_scores, dtype=float), np.asarray(unanswerable_scores, dtype=float)
    if y.size < 2:
        raise ValueError(f"{y.size} unanswerable questions: holding some out needs at least 2")
    folds = min(folds, y.size)
    x_fold, y_fold = np.arange(x.size) % folds, np.arange(y.size) % folds
    thresholds = np.array([np.median(y[y_fold != fold]) for fold in range(folds)])
    return CrossValidated(
        tuple(thresholds.tolist()),
        int(np.sum(y < thresholds[y_fold])),
        int(np.sum(x < thresholds[x_fold])),
        int(y.size),
        int(x.size),
    )


def abstention(rows: pd.DataFrame) -> Abstention:
    """Return the confusion table of abstaining for the rows of one system.

    Parameters
    ----------
    rows : DataFrame
        Rows of `ragfin.evaluation.evaluate`; a failed generation is counted apart.

    Returns
    -------
    Abstention
        A rate over no question has n 0 and is nan.
    """
    judged = rows[~rows["failed"]]
    answerable = judged["answerable"].to_numpy(dtype=bool)
    abstained = judged["abstains"].to_numpy(dtype=float) == 1
    right = judged["exact"].to_numpy(dtype=float) == 1
    hits, misses = int(np.sum(~answerable & abstained)), int(np.sum(~answerable & ~abstained))
    false, answered = int(np.sum(answerable & abstained)), int(np.sum(answerable & ~abstained))
    return Abstention(
        hits,
        misses,
        false,
        answered,
        len(rows) - len(judged),
        wilson(hits, hits + misses),
        wilson(hits, hits + false),
        wilson(false, false + answered),
        wilson(int(np.sum(~abstained & right)), misses + answered),
    )
