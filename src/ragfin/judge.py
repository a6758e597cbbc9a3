"""A language model as judge of free text, claim by claim, and the measurements that it must pass before it may judge.

The reference answer is split into claims by hand. The judge reads question, one claim and the answer, and says «sí» or
«no». Its verdicts are recorded as any model's answers are. Nothing here makes a judge right: `calibrate` compares it
with a gold set, `position_bias` and `compare_verdicts` find what moves it though the truth stays, and
`corrected_rate` says what a known error rate allows. `misquoted` needs no judge.
"""

import re
from collections.abc import Callable, Sequence
from math import nan, sqrt
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from statsmodels.stats.inter_rater import cohens_kappa

from ragfin.corpus import Question
from ragfin.generation import Decoding, Generator, Prompt, generate
from ragfin.quotes import find_quote
from ragfin.stats import Interval, mcnemar_exact, wilson
from ragfin.text import words

Choice = Literal["A", "B"]
_Value = TypeVar("_Value")

_QUOTED = re.compile(r"«([^«»]+)»")
_CHOICE = re.compile(r"\W*([AB])\b")

_ROLE = "Eres corrector. Lees una pregunta, una referencia y la respuesta de un alumno. "

VERDICT_PROMPT = Prompt(
    f"{_ROLE}Contesta con una sola palabra, sí o no.",
    answer_label="¿La respuesta dice lo mismo que la referencia? ¿Sí o no?",
)
"""Does the answer say what the reference says? «sí» (yes) is named first."""

REVERSED_PROMPT = Prompt(
    f"{_ROLE}Contesta con una sola palabra, no o sí.",
    answer_label="¿La respuesta dice lo mismo que la referencia? ¿No o sí?",
)
"""`VERDICT_PROMPT` with the two options in the other order; the truth does not depend on it."""

PAIR_PROMPT = Prompt(
    "Eres corrector. Lees una pregunta, una referencia y dos respuestas, A y B. Contesta con una sola letra, A o B.",
    answer_label="¿Qué respuesta dice lo mismo que la referencia? ¿A o B?",
)
"""Which of two answers says what the reference says? Asked in both orders to find a position bias."""

JUDGE_DECODING = Decoding(max_new_tokens=4)
"""A verdict is one word."""


class Item(NamedTuple):
    """What the judge decides: whether ``answer`` says what ``reference`` says, a gold answer or one claim."""

    id: str
    question: str
    reference: str
    answer: str


class Pair(NamedTuple):
    """Two answers to the same question, in the order in which the judge reads them."""

    id: str
    question: str
    reference: str
    first: str
    second: str


class Calibration(NamedTuple):
    """How a judge's verdicts compare with known truth, each rate with its own n; ``unreadable`` ones count nowhere.

    ``says_yes`` is the share of «sí», whatever the truth; ``sensitivity`` is the share of right answers that it calls
    right, ``specificity`` the share of wrong answers that it calls wrong.
    """

    n: int
    unreadable: int
    says_yes: Interval
    agreement: Interval
    kappa: Interval
    sensitivity: Interval
    specificity: Interval


class Comparison(NamedTuple):
    """The same items judged twice: how many verdicts changed, in which direction, and the exact McNemar p-value."""

    changed: Interval
    to_yes: int
    to_no: int
    p_value: float


class PositionBias(NamedTuple):
    """Pairs judged in both orders.

    ``first`` is the share of all readable choices that fell on the answer shown first (0.5 without a bias);
    ``consistent`` the share of pairs whose choice stayed with the same answer, ``right`` of those that were right in
    both orders (0.25 for a coin).
    """

    first: Interval
    consistent: Interval
    right: Interval


def judge(
    items: Sequence[Item],
    generator: Generator | str,
    *,
    prompt: Prompt = VERDICT_PROMPT,
    record: str | Path | None = None,
) -> list[bool | None]:
    """Ask a model whether each answer says what its reference says.

    Parameters
    ----------
    items : sequence of Item
        Judged one by one: no item sees another.
    generator : Generator or str
        The judge, best with `JUDGE_DECODING`.
    prompt : Prompt, optional
        A calibration holds for the prompt that it was made with, and for no other.
    record : str or Path, optional
        The file that keeps the verdicts, as in `ragfin.generation.generate`.

    Returns
    -------
    list of bool or None
        None where the model said neither «sí» nor «no», or failed.

    Raises
    ------
    MissingAnswersError, RecordError
        As `ragfin.generation.generate`.
    """
    texts = [f"{item.question}\nReferencia: {item.reference}\nRespuesta: {item.answer}" for item in items]
    return _ask([item.id for item in items], texts, read_verdict, generator, prompt, record)


def choose(
    pairs: Sequence[Pair], generator: Generator | str, *, record: str | Path | None = None
) -> list[Choice | None]:
    """Ask a model which of two answers says what the reference says.

    Returns
    -------
    list of {"A", "B"} or None
        "A" is the answer shown first; None where the model named neither.

    Raises
    ------
    MissingAnswersError, RecordError
        As `ragfin.generation.generate`.
    """
    texts = [f"{p.question}\nReferencia: {p.reference}\nRespuesta A: {p.first}\nRespuesta B: {p.second}" for p in pairs]
    return _ask([pair.id for pair in pairs], texts, read_choice, generator, PAIR_PROMPT, record)


def read_verdict(text: str) -> bool | None:
    """Read a verdict from its first word.

    Returns
    -------
    bool or None
        True for «sí», with or without its accent, False for «no», None for anything else.

    Examples
    --------
    >>> read_verdict("Sí."), read_verdict("no, falta"), read_verdict("Quizá sí"), read_verdict("")
    (True, False, None, None)
    """
    first = words(text)[:1]
    return {"si": True, "no": False}.get(first[0]) if first else None


def read_choice(text: str) -> Choice | None:
    """Read a choice from its first word.

    Examples
    --------
    >>> read_choice("B."), read_choice("**A**"), read_choice("Ambas")
    ('B', 'A', None)
    """
    found = _CHOICE.match(text)
    return None if found is None else "A" if found[1] == "A" else "B"


def calibrate(truth: Sequence[bool], verdicts: Sequence[bool | None]) -> Calibration:
    """Compare a judge's verdicts with known truth.

    Parameters
    ----------
    truth : sequence of bool
        Whether each answer is right, by a measure that needs no judge or by a human label.
    verdicts : sequence of bool or None
        What the judge said, in the same order.

    Returns
    -------
    Calibration
        Rates with 95 % Wilson intervals, nan where n is 0. ``kappa`` is between -1 and 1, 0 for chance; its interval
        is nan when judge or truth knows only one value, and so is kappa itself when both do.

    Raises
    ------
    ValueError
        The two sides differ in length.

    Source
    ------
    Cohen (1960), with the large-sample standard error, by `statsmodels.stats.inter_rater.cohens_kappa`.

    Examples
    --------
    >>> found = calibrate([True, True, True, False], [True, True, False, None])
    >>> found.n, found.unreadable, round(found.sensitivity.mean, 2), found.specificity.n
    (4, 1, 0.67, 0)
    """
    read = _paired(truth, verdicts)
    yes_yes, yes_no = _count(read, True, True), _count(read, True, False)
    no_yes, no_no = _count(read, False, True), _count(read, False, False)
    return Calibration(
        n=len(truth),
        unreadable=len(truth) - len(read),
        says_yes=wilson(yes_yes + no_yes, len(read)),
        agreement=wilson(yes_yes + no_no, len(read)),
        kappa=_kappa(yes_yes, yes_no, no_yes, no_no),
        sensitivity=wilson(yes_yes, yes_yes + yes_no),
        specificity=wilson(no_no, no_yes + no_no),
    )


def compare_verdicts(before: Sequence[bool | None], after: Sequence[bool | None]) -> Comparison:
    """Compare two verdicts on the same items, between which something changed that leaves the truth alone.

    The order of the options and the length of the answer are such things: a judge without a bias changes nothing.

    Parameters
    ----------
    before, after : sequence of bool or None
        In the same order; items with an unreadable verdict on either side are left out.

    Returns
    -------
    Comparison
        ``changed`` is nan and the p-value 1 when nothing is left.

    Raises
    ------
    ValueError
        The two sides differ in length.

    Examples
    --------
    >>> compare_verdicts([True, False, False, None], [True, True, True, True])[1:]
    (2, 0, 0.5)
    """
    read = _paired(before, after)
    to_yes, to_no = _count(read, False, True), _count(read, True, False)
    test = mcnemar_exact([a for a, _ in read], [b for _, b in read])
    return Comparison(wilson(to_yes + to_no, len(read)), to_yes, to_no, test.p_value)


def position_bias(right_first: Sequence[Choice | None], right_second: Sequence[Choice | None]) -> PositionBias:
    """Measure how much the order of two answers decides which one is chosen.

    Parameters
    ----------
    right_first, right_second : sequence of {"A", "B"} or None
        The choices on the same pairs, once with the right answer shown first and once shown second.

    Returns
    -------
    PositionBias
        95 % Wilson intervals. A pair with an unreadable choice counts in ``first`` only, with its other choice.

    Raises
    ------
    ValueError
        The two sides differ in length.

    Source
    ------
    Zheng et al. (2023) judge each pair in both orders and count the consistent ones.

    Examples
    --------
    >>> always_the_first = position_bias(["A"] * 4, ["A"] * 4)
    >>> always_the_first.first.mean, always_the_first.consistent.mean
    (1.0, 0.0)
    """
    shown = [choice for choice in (*right_first, *right_second) if choice is not None]
    both = _paired(right_first, right_second)
    return PositionBias(
        wilson(shown.count("A"), len(shown)),
        wilson(sum(a != b for a, b in both), len(both)),
        wilson(both.count(("A", "B")), len(both)),
    )


def corrected_rate(observed: Interval, calibration: Calibration, *, z: float = 1.96) -> Interval:
    """Estimate the share of right answers from a judge's share of «sí» and its known errors.

    Parameters
    ----------
    observed : Interval
        The judge's share of «sí» on new items; its mean and n are read.
    calibration : Calibration
        Of the same judge, with the same prompt, on items like the new ones.
    z : float, optional
        Normal quantile; 1.96 gives 95 %.

    Returns
    -------
    Interval
        Mean and bounds clipped to 0 and 1. The interval carries the uncertainty of the calibration too and grows
        without limit as sensitivity plus specificity approaches 1; at 1 or below all is nan: such a judge tells
        nothing apart.

    Source
    ------
    Rogan and Gladen (1978), Estimating prevalence from the results of a screening test, with their variance.

    Examples
    --------
    >>> judge = calibrate([True] * 100 + [False] * 100, [True] * 90 + [False] * 90 + [True] * 20)
    >>> [round(value, 2) for value in corrected_rate(wilson(55, 100), judge)[:3]]
    [0.5, 0.34, 0.66]
    """
    sensitivity, specificity = calibration.sensitivity, calibration.specificity
    power = sensitivity.mean + specificity.mean - 1
    if not power > 1e-12 or not observed.n:
        return Interval(nan, nan, nan, observed.n)
    rate = min(1.0, max(0.0, (observed.mean + specificity.mean - 1) / power))
    variance = _variance(observed) + rate**2 * _variance(sensitivity) + (1 - rate) ** 2 * _variance(specificity)
    half = z * sqrt(variance) / power
    return Interval(rate, max(0.0, rate - half), min(1.0, rate + half), observed.n)


def misquoted(answer: str, source: str) -> list[str]:
    """Return the quotations of an answer that do not stand in the source word for word.

    Parameters
    ----------
    answer : str
        What stands between « and » is a quotation.
    source : str
        The text that it claims to quote; runs of white space match each other, nothing else is forgiven.

    Returns
    -------
    list of str
        In order; empty when all are found, or when nothing is quoted.

    Examples
    --------
    >>> misquoted("Dijo «no hay prisa» y «ya veremos».", "Pues no hay\\nprisa, la verdad.")
    ['ya veremos']
    """
    return [quote for quote in _QUOTED.findall(answer) if next(find_quote(source, quote), None) is None]


def _ask(
    ids: Sequence[str],
    texts: Sequence[str],
    read: Callable[[str], _Value],
    generator: Generator | str,
    prompt: Prompt,
    record: str | Path | None,
) -> list[_Value]:
    """Put each text as a question without fragments, and read what comes back."""
    questions = [Question(id_, "", text, "", "juicio", True, ()) for id_, text in zip(ids, texts, strict=True)]
    answers = generate(questions, generator, [[] for _ in questions], prompt=prompt, record=record)
    return [read(answer.text) for answer in answers]


def _paired(first: Sequence[_Value | None], second: Sequence[_Value | None]) -> list[tuple[_Value, _Value]]:
    """Return the pairs without None on either side."""
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values against {len(second)}: give both sides of the same items")
    return [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]


def _count(pairs: Sequence[tuple[bool, bool]], first: bool, second: bool) -> int:
    """Count the pairs of two given values."""
    return sum(bool(a) is first and bool(b) is second for a, b in pairs)


def _kappa(yes_yes: int, yes_no: int, no_yes: int, no_no: int) -> Interval:
    """Return Cohen's kappa of the table of truth and verdicts."""
    n = yes_yes + yes_no + no_yes + no_no
    truth_varies, judge_varies = yes_yes + yes_no not in (0, n), yes_yes + no_yes not in (0, n)
    if not (truth_varies and judge_varies):
        return Interval(0.0 if truth_varies or judge_varies else nan, nan, nan, n)
    found = cohens_kappa([[yes_yes, yes_no], [no_yes, no_no]])
    return Interval(float(found.kappa), max(-1.0, float(found.kappa_low)), min(1.0, float(found.kappa_upp)), n)


def _variance(rate: Interval) -> float:
    """Return the variance of an observed rate."""
    return rate.mean * (1 - rate.mean) / rate.n
