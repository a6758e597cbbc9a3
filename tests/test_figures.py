"""The lesson's rule for figures, against a second implementation written from the rule's words."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragfin.figures import figures


def by_the_rule(text: str) -> set[float]:
    """Read figures character by character, without regular expressions."""
    kept, at = [], 0
    while at < len(text):
        if text[at] == "[":
            end = at + 1
            while end < len(text) and is_digit(text[end]):
                end += 1
            if end > at + 1 and end < len(text) and text[end] == "]":
                kept.append(" ")
                at = end + 1
                continue
        kept.append(text[at])
        at += 1
    runs, run = [], ""
    for c in [*kept, " "]:
        if is_digit(c) or c in ".,":
            run += c
        else:
            runs.append(run.strip(".,"))
            run = ""
    found = set()
    for token in filter(None, runs):
        commas, periods = token.count(","), token.count(".")
        groups = token.split(".")
        if commas == 1:
            found.add(float(token.replace(".", "").replace(",", ".")))
        elif commas == 0 and periods and 1 <= len(groups[0]) <= 3 and all(len(g) == 3 for g in groups[1:]):
            found.add(float("".join(groups)))
        elif commas == 0 and periods <= 1:
            found.add(float(token))
        elif commas and english(token):
            found.add(float(token.replace(",", "")))
        else:
            found |= {float(part) for part in token.replace(",", ".").split(".") if part}
    return {round(number, 4) for number in found}


def is_digit(c: str) -> bool:
    return c.isdecimal()


def english(token: str) -> bool:
    whole, dot, fraction = token.partition(".")
    groups = whole.split(",")
    good = len(groups) >= 3 and 1 <= len(groups[0]) <= 3 and all(len(g) == 3 for g in groups[1:])
    return good and (not dot or (fraction != "" and "," not in fraction and "." not in fraction))


EXAMPLES = {
    "Ventas de 13.668,9 millones, un 2,2 % más [2]": {2.2, 13668.9},
    "40.3% de 5.505 en 2023": {40.3, 5505.0, 2023.0},
    "el 31.12.2024": {31.0, 12.0, 2024.0},
    "1,234.56": {1.2346},
    "12.34,5": {1234.5},
    "1,234,567": {1234567.0},
    "1,234,567.8": {1234567.8},
    "1,2,3": {1.0, 2.0, 3.0},
    "6.3.2": {6.0, 3.0, 2.0},
    "1.234.567": {1234567.0},
    "1.2345": {1.2345},
    "0.125": {125.0},
    "1234.567": {1234.567},
    "1.234,": {1234.0},
    "879,1.": {879.1},
    "[1, 2] (1) [3]": {1.0, 2.0},
    "[12][3].": set(),
    "5[1]6": {5.0, 6.0},
    "1.[2]5": {1.0, 5.0},
    "-869,8 -181,2 = -1,047": {869.8, 181.2, 1.047},
    "12,5²": {12.5},
    "0,00005": {0.0001},
    "0,00004": {0.0},
    "٣,٥": {3.5},
    "": set(),
    "sin cifras": set(),
    ".,.,": set(),
    "ES0105066007": {105066007.0},
}


@pytest.mark.parametrize(("text", "expected"), EXAMPLES.items())
def test_each_example_of_the_rule_is_read(text: str, expected: set[float]) -> None:
    assert figures(text) == expected == by_the_rule(text)


@given(st.text(alphabet="0123456789.,[] -%a\n²٣", max_size=60))
def test_the_rule_and_its_second_implementation_agree(text: str) -> None:
    assert figures(text) == by_the_rule(text)


@given(st.text(max_size=200))
def test_no_text_raises(text: str) -> None:
    assert figures(text) == by_the_rule(text)


@given(st.text(alphabet="0123456789.,[] -%a", max_size=60))
def test_english_notation_is_the_same_rule_with_the_marks_swapped(text: str) -> None:
    assert figures(text, locale="en") == by_the_rule(text.translate(str.maketrans(".,", ",.")))


def test_more_digits_than_a_float_holds_are_infinite() -> None:
    assert figures("9" * 400) == {math.inf}
    assert figures("[" + "9" * 400 + "]") == set()


REPEATED = {
    "1": {math.inf}, ".": set(), ",": set(), "1.": {1.0}, "1,": {1.0}, "1.234.": {1.0, 234.0}, "[1": {1.0}, "[": set(),
    "a1": {1.0}, "1 ": {1.0}, "(": set(), "1,234,": {1.0, 234.0}, "0123456789.,": {123456789.0}, "12,3.4 ": {12.34},
}  # fmt: skip


@pytest.mark.parametrize(("unit", "expected"), REPEATED.items())
def test_a_megabyte_of_one_thing_is_read(unit: str, expected: set[float]) -> None:
    assert figures(unit * (1_000_000 // len(unit))) == expected
