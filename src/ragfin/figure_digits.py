"""Turn the digits of a token, or its number words, into exact decimals.

Digits are handled as strings, so that a figure of a million digits is neither rounded nor slow.
"""

import re
from decimal import Decimal
from typing import Literal

from ragfin import figure_grammar as grammar

Locale = Literal["es", "en"]

_GROUPS = {mark: re.compile(rf"[1-9]\d{{0,2}}(?:\{mark}\d{{3}})+") for mark in ".,"}
_SPACE_OR_APOSTROPHE = re.compile("[ \u00a0']")
THOUSANDS_MARK = {"es": ".", "en": ","}


def read_digits(digits: str, locale: Locale) -> tuple[str, str | None] | None:
    """Return digits as Python writes them with their other reading, or None if their groups are irregular."""
    spaced = _SPACE_OR_APOSTROPHE.sub("", digits)
    periods, commas = spaced.count("."), spaced.count(",")
    if "'" in digits and len(digits) - digits.rfind("'") <= 3:
        return digits.replace("'", "."), None
    if spaced != digits or not (periods or commas):
        return spaced.replace(",", "."), None
    if periods and commas:
        decimal, group = (",", ".") if spaced.rfind(",") > spaced.rfind(".") else (".", ",")
        whole, _, fraction = spaced.rpartition(decimal)
        return (f"{whole.replace(group, '')}.{fraction}", None) if _GROUPS[group].fullmatch(whole) else None
    mark = "." if periods else ","
    grouped, dotted = spaced.replace(mark, ""), spaced.replace(mark, ".")
    if not _GROUPS[mark].fullmatch(spaced):
        return (dotted, None) if periods + commas == 1 else None
    if periods + commas > 1:
        return grouped, None
    return (grouped, dotted) if mark == THOUSANDS_MARK[locale] else (dotted, grouped)


def scaled(digits: str, scale: int, negative: bool) -> Decimal:
    """Return digits times a power of ten, written out in full: no exponent in its string."""
    whole, _, fraction = digits.partition(".")
    if scale < 0:
        whole, fraction = whole.zfill(1 - scale)[:scale], whole.zfill(1 - scale)[scale:] + fraction
    elif scale:
        whole, fraction = whole + fraction[:scale].ljust(scale, "0"), fraction[scale:]
    return Decimal(f"{'-' if negative else ''}{whole}{'.' if fraction else ''}{fraction}")


def cardinal(phrase: str) -> str:
    """Return the number that Spanish cardinal words say: "treinta y dos mil" is 32000, "medio" is 0.5."""
    total = 0
    words = [word for word in grammar.bare(phrase).split() if word != "y"]
    if words[-1] == "medio":
        return "0.5"
    if len(words) > 1 and words[0] in ("un", "una"):
        del words[0]
    for word in words:
        total = max(total, 1) * 1000 if word == "mil" else total + grammar.NUMBER_WORDS[word]
    return str(total)


def shifted(value: Decimal, power: int) -> Decimal:
    """Return a value times a power of ten, exactly, whatever its number of digits.

    Examples
    --------
    >>> shifted(Decimal("7"), -2)
    Decimal('0.07')
    """
    sign, digits, exponent = value.as_tuple()
    return Decimal((sign, digits, int(exponent) + power))
