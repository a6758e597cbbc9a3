"""Intervals and paired tests."""

from typing import NamedTuple


class Interval(NamedTuple):
    """A mean with its interval and the number of questions behind it."""

    mean: float
    low: float
    high: float
    n: int
