"""Read the dates and periods that the grammar finds, each in one spelling.

A date is ISO 8601. A period follows the codes that statistical offices use (SDMX): ``2024-Q1``, ``2024-S1`` for a half
year, ``2024-T1`` for four months; beside them ``2024-9M`` for the first nine months and ``2022-2023`` for a span of
years. Which date 05/06/2023 is depends on the locale of the document.
"""

import re
from datetime import date

from ragfin import figure_grammar as grammar

_DOTTED_YEAR = re.compile(r"(?<=\b[12])\.(?=\d{3}\b)")


def iso_date(phrase: str, locale: str) -> str | None:
    """Return a date in ISO form, ``--MM-DD`` without a year, None if the calendar has no such day.

    Examples
    --------
    >>> iso_date("31 de diciembre de 2023", "es"), iso_date("05/06/2023", "en"), iso_date("31/02/2023", "es")
    ('2023-12-31', '2023-05-06', None)
    """
    numbers = [int(number) for number in re.findall(r"\d+", _DOTTED_YEAR.sub("", phrase))]
    if month := grammar.MONTH.search(phrase):
        return _day(numbers[1] if len(numbers) > 1 else None, grammar.MONTHS[month[0][:3].lower()], numbers[0])
    if numbers[0] > 31:
        return _day(numbers[0], numbers[1], numbers[2])
    first, second, year = numbers
    european, american = _day(year, second, first), _day(year, first, second)
    return (american or european) if locale == "en" else (european or american)


def _day(year: int | None, month: int, day: int) -> str | None:
    full = _full_year(2000 if year is None else year)
    try:
        iso = date(full, month, day).isoformat()
    except ValueError:
        return None
    return f"-{iso[4:]}" if year is None else iso


def _full_year(year: int) -> int:
    return year if year > 99 else year + (2000 if year < 70 else 1900)


def period(phrase: str) -> str:
    """Return a period in one spelling.

    Examples
    --------
    >>> period("2022/23"), period("3T23"), period("diciembre de 2023"), period("9M 2024"), period("FY2023")
    ('2022-2023', '2023-Q3', '2023-12', '2024-9M', '2023')
    """
    numbers = re.findall(r"\d+", phrase)
    year, lowered = _full_year(int(numbers[-1])), phrase.lower()
    if month := grammar.MONTH.match(phrase):
        return f"{year}-{grammar.MONTHS[month[0][:3].lower()]:02d}"
    if kind := grammar.PERIOD_KIND.search(lowered):
        nth = next(n for n, words in grammar.NTH.items() if lowered.startswith(words))
        return f"{year}-{grammar.PERIOD_LETTERS[kind[0]]}{nth}"
    if lowered.startswith("fy") and len(numbers) == 1:
        return str(year)
    if part := re.match(r"(?:\d{4}[\s-]?)?(\d{0,2})([TQSHM])(\d?)", phrase):
        nth_digits = part[1] or part[3]
        year = year if part[1] or len(numbers[0]) < 4 else int(numbers[0])
        return f"{year}-{nth_digits}M" if part[2] == "M" else f"{year}-{grammar.PERIOD_LETTERS[part[2]]}{nth_digits}"
    first, last = numbers
    if len(first) <= 2:
        return f"{year}-{int(first):02d}"
    if len(last) == 2 and 1 <= int(last) <= 12 and int(last) < int(first) % 100:
        return f"{first}-{last}"
    end = int(last) if len(last) == 4 else int(first) - int(first) % 100 + int(last)
    return f"{first}-{end + 100 if end <= int(first) and len(last) == 2 else end}"
