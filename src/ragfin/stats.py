"""Intervals for rates and tests for pairs: what a number of questions can and cannot show.

Wilson's interval and the exact McNemar test are statsmodels', the bootstrap is scipy's. Nothing here corrects for
several comparisons at once.
"""

from collections.abc import Sequence
from math import ceil, nan, sqrt
from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest, bootstrap, norm
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint


class Interval(NamedTuple):
    """A mean with its interval and the number of questions behind it."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def approximate(self) -> bool:
        """Whether the mean is of fractions, not a count out of n, so that Wilson's interval is an approximation."""
        return self.n > 0 and not np.isclose(self.mean * self.n, round(self.mean * self.n), rtol=0, atol=1e-9)


class McNemar(NamedTuple):
    """Two systems on the same questions: who alone was right how often, and the exact two-sided p-value."""

    n: int
    only_first: int
    only_second: int
    p_value: float


class Detectable(NamedTuple):
    """The smallest difference that a paired test can call significant: in pairs, and as a share of all questions."""

    pairs: int
    difference: float


def wilson(successes: float, n: int, z: float = 1.96) -> Interval:
    """Return a rate with its Wilson interval, which is right for 0 of n and n of n too.

    Parameters
    ----------
    successes : float
        Between 0 and n. A sum of fractions is accepted; the interval is then an approximation, which
        `Interval.approximate` tells, and `bootstrap_mean` belongs beside it.
    n : int
        Number of questions that the rate is over.
    z : float, optional
        Normal quantile; 1.96 gives 95 %.

    Returns
    -------
    Interval
        Within 0 and 1; nan in mean, low and high when n is 0.

    Raises
    ------
    ValueError
        ``successes`` is not between 0 and n.

    Source
    ------
    Wilson (1927), by `statsmodels.stats.proportion.proportion_confint`; the lesson's ``ic``.

    Examples
    --------
    >>> wilson(6, 12).n, [round(value, 2) for value in wilson(6, 12)[:3]]
    (12, [0.5, 0.25, 0.75])
    >>> [round(value, 2) for value in wilson(0, 17)[:3]]
    [0.0, 0.0, 0.18]
    """
    if not 0 <= successes <= n:
        raise ValueError(f"successes is {successes}, not between 0 and n = {n}; count over the same questions")
    if n == 0:
        return Interval(nan, nan, nan, 0)
    low, high = proportion_confint(successes, n, alpha=2 * norm.sf(z), method="wilson")
    return Interval(successes / n, 0.0 if successes == 0 else float(low), 1.0 if successes == n else float(high), n)


def bootstrap_mean(values: Sequence[float], *, resamples: int = 10_000, seed: int = 0) -> Interval:
    """Return a mean with its 95 % bootstrap interval, for means of fractions such as citation precision.

    Parameters
    ----------
    values : sequence of float
        One value per question; nan (not applicable) is left out.
    resamples, seed : int, optional
        The same seed gives the same interval.

    Returns
    -------
    Interval
        Bias-corrected and accelerated (BCa). All values equal: low and high are that value, for a resampling of
        equal values knows no other. nan when nothing is left.

    Source
    ------
    Efron (1987), by `scipy.stats.bootstrap`.

    Examples
    --------
    >>> bootstrap_mean([0.0, 0.5, 1.0, float("nan")]).n
    3
    """
    kept = _without_nan(values)
    if not kept.size:
        return Interval(nan, nan, nan, 0)
    if np.ptp(kept) == 0:
        return Interval(float(kept[0]), float(kept[0]), float(kept[0]), kept.size)
    rng = np.random.default_rng(seed)
    batch = max(1, 4_000_000 // kept.size)
    interval = bootstrap((kept,), np.mean, n_resamples=resamples, batch=batch, method="BCa", rng=rng)
    return Interval(
        float(kept.mean()),
        float(interval.confidence_interval.low),
        float(interval.confidence_interval.high),
        int(kept.size),
    )


def paired_bootstrap(
    first: Sequence[float], second: Sequence[float], *, resamples: int = 10_000, seed: int = 0
) -> Interval:
    """Return the mean difference, second minus first, with its 95 % interval over resampled questions.

    Parameters
    ----------
    first, second : sequence of float
        One value per question, in the same order; a question with nan on either side is left out.
    resamples, seed : int, optional
        As in `bootstrap_mean`, whose BCa interval this is, over the differences.

    Returns
    -------
    Interval
        Between -1 and 1 for rates. ``high`` below 0: the second is worse beyond the interval.

    Raises
    ------
    ValueError
        The two sides differ in length.

    Examples
    --------
    >>> paired_bootstrap([1, 0, 1, 0], [1, 1, 1, 1]).mean
    0.5
    """
    x, y = _pairs(first, second)
    return bootstrap_mean((y - x).tolist(), resamples=resamples, seed=seed)


def mcnemar_exact(first: Sequence[float], second: Sequence[float]) -> McNemar:
    """Test whether two systems are right on the same questions equally often.

    Parameters
    ----------
    first, second : sequence of bool
        Right or wrong, one per question, in the same order; a question with nan on either side is left out.

    Returns
    -------
    McNemar
        Only the discordant pairs decide; p is 1.0 when there are none.

    Raises
    ------
    ValueError
        The two sides differ in length, or a value is neither 0 nor 1.

    Source
    ------
    McNemar (1947), exact binomial form, by `statsmodels.stats.contingency_tables.mcnemar`.

    Examples
    --------
    >>> mcnemar_exact([1, 1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0, 0])
    McNemar(n=7, only_first=6, only_second=0, p_value=0.03125)
    """
    x, y = _pairs(first, second)
    if not set(np.unique(np.concatenate([x, y]))) <= {0.0, 1.0}:
        raise ValueError("McNemar's test takes right or wrong (1 or 0); compare fractions with paired_bootstrap")
    only_first, only_second = int(np.sum(x > y)), int(np.sum(y > x))
    table = [[int(np.sum(x * y)), only_first], [only_second, int(np.sum((1 - x) * (1 - y)))]]
    p_value = float(mcnemar(table, exact=True).pvalue) if only_first + only_second else 1.0
    return McNemar(len(x), only_first, only_second, min(1.0, p_value))


def detectable_difference(n: int, *, discordant: int | None = None, alpha: float = 0.05) -> Detectable | None:
    """Return the smallest difference that the exact McNemar test can reject with n questions.

    Parameters
    ----------
    n : int
        Number of questions that both systems answered.
    discordant : int, optional
        Number of questions on which only one of them is right. By default the most favourable number: all of
        them in favour of one system.
    alpha : float, optional
        Level of the two-sided test.

    Returns
    -------
    Detectable or None
        ``pairs`` is how many more questions one system alone must get right; None when no outcome is significant.

    Raises
    ------
    ValueError
        ``discordant`` is not between 0 and n.

    Examples
    --------
    >>> detectable_difference(12)
    Detectable(pairs=6, difference=0.5)
    >>> detectable_difference(246, discordant=60).pairs
    18
    >>> detectable_difference(5) is None
    True
    """
    if discordant is not None and not 0 <= discordant <= n:
        raise ValueError(f"discordant is {discordant}, not between 0 and n = {n}; count pairs of the same questions")
    totals = range(1, n + 1) if discordant is None else [discordant]
    for total in totals:
        smallest = [total] if discordant is None else range(total % 2, total + 1, 2)
        for difference in smallest:
            if total and binomtest((total + difference) // 2, total).pvalue <= alpha:
                return Detectable(difference, difference / n)
    return None


def questions_needed(
    first: float, second: float, *, discordant: float | None = None, power: float = 0.8, alpha: float = 0.05
) -> int:
    """Return about how many questions a paired test needs to tell one rate from another.

    Parameters
    ----------
    first, second : float
        The two systems' rates, which differ.
    discordant : float, optional
        Share of the questions on which only one of them is right; by default what two independent systems
        of these rates would show.
    power : float, optional
        Chance of finding the difference.
    alpha : float, optional
        Level of the two-sided test.

    Returns
    -------
    int
        By the normal approximation; the exact test needs a few more.

    Raises
    ------
    ValueError
        The rates are equal, or differ by more than ``discordant``.

    Source
    ------
    Connor (1987), sample size for testing differences in proportions for the paired-sample design.

    Examples
    --------
    >>> questions_needed(0.33, 0.50)
    134
    """
    share = first * (1 - second) + second * (1 - first) if discordant is None else discordant
    difference = abs(second - first)
    if not 0 < difference <= share:
        raise ValueError(f"rates {first} and {second} with {share} discordant: they must differ, by at most that share")
    spread = norm.isf(alpha / 2) * sqrt(share) + norm.isf(1 - power) * sqrt(share - difference**2)
    return ceil((spread / difference) ** 2)


def _without_nan(values: Sequence[float]) -> np.ndarray:
    """Return the values that apply."""
    array = np.asarray(values, dtype=float)
    kept: np.ndarray = array[~np.isnan(array)]
    return kept


def _pairs(first: Sequence[float], second: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return both sides without the pairs that have a nan."""
    x, y = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if x.shape != y.shape:
        raise ValueError(f"{len(x)} values against {len(y)}: pair the systems by question first")
    both = ~(np.isnan(x) | np.isnan(y))
    return x[both], y[both]
