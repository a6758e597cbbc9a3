"""Compare readers of figures: what they read in 30 strings of Spanish financial text, and how fast.

Prints two tables. The score: strings whose values (after sign and scale, in order) are all right and no others are
given, and the same with units. The speed: seconds a megabyte over the same strings repeated, one call a string, and the
ratio to the lesson's rule, all measured in this run; then one megabyte of digits, periods and commas as a single text.

A reader is judged by what its documentation promises elsewhere: price-parser reads one price, inspect_ai one number a
word. inspect_ai is compared when it is installed.
"""

import importlib
import json
import random
import re
import time
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path

from price_parser import Price
from rich.console import Console
from rich.table import Table

from ragfin.figures import figures, read_figures

CASES = Path(__file__).parents[1] / "tests" / "cases" / "figures_typed.json"
MEGABYTE = 1_000_000
CURRENCY_NAMES = {"€": "EUR", "euro": "EUR", "euros": "EUR", "$": "USD", "£": "GBP"}

Reading = list[tuple[object, str]]
"""Values and units in order; a date's value is its ISO string."""


def typed(text: str) -> Reading:
    return [(figure.value, figure.unit) for figure in read_figures(text)]


def lesson(text: str) -> Reading:
    return [(Decimal(repr(number)), "") for number in sorted(figures(text))]


def price(text: str) -> Reading:
    found = Price.fromstring(text)
    return [] if found.amount is None else [(found.amount, CURRENCY_NAMES.get(found.currency, found.currency or ""))]


def inspect_reader() -> Callable[[str], Reading] | None:
    """Return how ``match(numeric=True, location="any")`` of inspect_ai reads numbers, None if it is not installed."""
    try:
        strip = importlib.import_module("inspect_ai._util.text").strip_numeric_punctuation
        parse = importlib.import_module("inspect_ai.scorer._common")._parse_number
    except (ImportError, AttributeError):
        return None

    def read(text: str) -> Reading:
        numbers = map(parse, re.split(r"\s+", strip(text.strip().casefold())))
        return [(Decimal(repr(number)), "") for number in numbers if number is not None]

    return read


READERS = {"read_figures": typed, "figures (lesson)": lesson, "price-parser": price, "inspect_ai": inspect_reader()}


def wanted(case: dict) -> Reading:
    calendar = {"fecha", "periodo"}
    return [(e["value"] if e["unit"] in calendar else Decimal(e["value"]), e["unit"]) for e in case["expected"]]


def values(reading: Reading, *, in_order: bool) -> list[object]:
    found = [value for value, _ in reading]
    return found if in_order else sorted(set(found), key=str)


def score(reader: Callable[[str], Reading], cases: list[dict]) -> tuple[int, int]:
    """Return how many strings are right in values, and in values and units. The lesson's rule gives a set: no order."""
    in_order = reader is not lesson
    right = [values(reader(c["input"]), in_order=in_order) == values(wanted(c), in_order=in_order) for c in cases]
    return sum(right), sum(reader(case["input"]) == wanted(case) for case in cases)


def seconds(read: Callable[[str], object], texts: Iterable[str]) -> float:
    start = time.perf_counter()
    for text in texts:
        read(text)
    return time.perf_counter() - start


def main() -> None:
    cases = json.loads(CASES.read_text(encoding="utf-8"))
    strings = [case["input"] for case in cases]
    repeats = MEGABYTE // sum(len(text.encode()) for text in strings) + 1
    soup = "".join(random.Random(0).choices("0123456789.,", k=MEGABYTE))
    base = seconds(lesson, strings * repeats)
    table = Table(title=f"Readers of figures, {len(cases)} strings")
    for column in (
        "reader",
        "values",
        "values and units",
        "s/MB",
        "to the lesson's",
        "s/MB, digits . ,",
    ):
        table.add_column(column, justify="left" if column == "reader" else "right")
    for name, reader in READERS.items():
        if reader is None:
            table.add_row(name, *["not installed"] + [""] * 4)
            continue
        by_value, by_unit = score(reader, cases)
        spent = base if reader is lesson else seconds(reader, strings * repeats)
        whole = f"{seconds(reader, [soup]):.2f}" if reader in (typed, lesson) else "-"
        table.add_row(name, f"{by_value}", f"{by_unit}", f"{spent:.2f}", f"{spent / base:.1f}", whole)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
