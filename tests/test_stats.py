from math import isnan, nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, bootstrap
from statsmodels.stats.proportion import proportion_confint

from ragfin.stats import (
    Detectable,
    Interval,
    bootstrap_mean,
    detectable_difference,
    mcnemar_exact,
    paired_bootstrap,
    questions_needed,
    wilson,
)

counts = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@pytest.mark.parametrize(
    ("successes", "n", "published"),
    [
        (6, 12, (0.50, 0.25, 0.75)),
        (6, 9, (0.67, 0.35, 0.88)),
        (6, 8, (0.75, 0.41, 0.93)),
        (1.5, 5, (0.30, 0.07, 0.70)),
        (5, 9, (0.56, 0.27, 0.81)),
        (2, 3, (0.67, 0.21, 0.94)),
        (3, 12, (0.25, 0.09, 0.53)),
        (2, 9, (0.22, 0.06, 0.55)),
        (7, 9, (0.78, 0.45, 0.94)),
        (0, 17, (0.00, 0.00, 0.18)),
        (17, 17, (1.00, 0.82, 1.00)),
    ],
)
def test_wilson_gives_the_published_intervals(successes, n, published):
    interval = wilson(successes, n)
    assert tuple(round(value, 2) for value in interval[:3]) == published
    assert interval.n == n


@given(counts)
def test_wilson_equals_statsmodels_and_the_formula(pair):
    successes, n = pair
    mean, low, high, _ = wilson(successes, n)
    assert (low, high) == pytest.approx(proportion_confint(successes, n, alpha=0.05, method="wilson"), abs=1e-4)
    z, p = 1.96, successes / n
    centre, half = p + z * z / (2 * n), z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert low == pytest.approx((centre - half) / (1 + z * z / n), abs=1e-12)
    assert high == pytest.approx((centre + half) / (1 + z * z / n), abs=1e-12)
    assert 0 <= low <= mean <= high <= 1
    assert low < high


def test_wilson_of_nothing_is_not_a_number_and_of_too_many_is_refused():
    interval = wilson(0, 0)
    assert all(isnan(value) for value in interval[:3])
    assert interval.n == 0
    with pytest.raises(ValueError, match=r"successes is 4, not between 0 and n = 3"):
        wilson(4, 3)
    with pytest.raises(ValueError, match="not between 0 and n"):
        wilson(-0.5, 3)


def test_a_mean_of_fractions_is_flagged_as_approximate():
    assert wilson(1.5, 5).approximate
    assert not wilson(2, 3).approximate
    assert not wilson(0, 0).approximate


@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=3, max_size=30).filter(lambda values: len(set(values)) > 1))
def test_bootstrap_mean_is_scipys_bca_over_the_values_that_apply(values):
    interval = bootstrap_mean([*values, nan], resamples=200, seed=3)
    rng = np.random.default_rng(3)
    expected = bootstrap((np.array(values),), np.mean, n_resamples=200, method="BCa", rng=rng).confidence_interval
    assert interval == pytest.approx((np.mean(values), expected.low, expected.high, len(values)), nan_ok=True)


def test_bootstrap_mean_of_equal_values_or_of_nothing():
    assert bootstrap_mean([1.0, 1.0]) == Interval(1.0, 1.0, 1.0, 2)
    assert bootstrap_mean([nan]).n == 0
    assert isnan(bootstrap_mean([]).mean)


def test_the_paired_bootstrap_is_seeded_and_changes_sign_with_the_order():
    first, second = [1, 0, 1, 1, 0, 0, 1, 0, nan], [1, 1, 1, 1, 0, 1, 1, 1, 1]
    difference = paired_bootstrap(first, second)
    assert difference == paired_bootstrap(first, second)
    assert difference.mean == pytest.approx(3 / 8)
    assert difference.n == 8
    assert difference.low < difference.mean < difference.high
    assert paired_bootstrap(second, first).mean == pytest.approx(-3 / 8)


def test_pairs_need_the_same_length():
    with pytest.raises(ValueError, match="3 values against 2: pair the systems by question first"):
        paired_bootstrap([1, 0, 1], [1, 0])
    with pytest.raises(ValueError, match="2 values against 1"):
        mcnemar_exact([1, 0], [1])


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_mcnemar_equals_the_exact_binomial_test_on_the_discordant_pairs(pairs):
    first, second = zip(*pairs, strict=True)
    result = mcnemar_exact(first, second)
    discordant = result.only_first + result.only_second
    assert result.only_first == sum(a and not b for a, b in pairs)
    assert result.only_second == sum(b and not a for a, b in pairs)
    expected = binomtest(result.only_first, discordant).pvalue if discordant else 1.0
    assert result.p_value == pytest.approx(expected)


def test_mcnemar_leaves_out_what_does_not_apply_and_refuses_fractions():
    assert mcnemar_exact([1, nan, 0], [1, 1, nan]).n == 1
    with pytest.raises(ValueError, match="compare fractions with paired_bootstrap"):
        mcnemar_exact([0.5], [1])


def test_twelve_questions_show_nothing_under_six_pairs():
    assert detectable_difference(12) == Detectable(6, 0.5)
    assert detectable_difference(5) is None
    assert detectable_difference(17) == Detectable(6, 6 / 17)
    assert detectable_difference(12, discordant=5) is None
    with pytest.raises(ValueError, match="discordant is 13, not between 0 and n = 12"):
        detectable_difference(12, discordant=13)


@given(st.integers(6, 80), st.integers(6, 80))
def test_the_detectable_difference_is_the_smallest_that_mcnemar_rejects(n, discordant):
    n = max(n, discordant)
    found = detectable_difference(n, discordant=discordant)
    rejected = [
        b - c
        for c in range(discordant + 1)
        if (b := discordant - c) >= c
        and mcnemar_exact(
            [1] * b + [0] * c + [1] * (n - discordant), [0] * b + [1] * c + [1] * (n - discordant)
        ).p_value
        <= 0.05
    ]
    assert found is not None
    assert found.pairs == min(rejected)
    assert found.difference == pytest.approx(found.pairs / n)


def test_the_number_of_questions_needed_reaches_the_power_it_promises():
    n = questions_needed(0.33, 0.50)
    rng = np.random.default_rng(0)
    first, second = rng.random((2000, n)) < 0.33, rng.random((2000, n)) < 0.50
    only_first, only_second = (first & ~second).sum(axis=1), (second & ~first).sum(axis=1)
    p_values = [binomtest(a, a + b).pvalue for a, b in zip(only_first.tolist(), only_second.tolist(), strict=True)]
    assert np.mean(np.array(p_values) <= 0.05) == pytest.approx(0.8, abs=0.06)
    assert questions_needed(0.33, 0.50, discordant=0.2) < n
    with pytest.raises(ValueError, match="they must differ"):
        questions_needed(0.5, 0.5)
