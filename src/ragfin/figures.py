"""Read figures in text: the lesson's rule, `figures`, and the typed reader, `read_figures`.

For the lesson a figure is a number without sign, unit or scale; the rule here is made total. The typed reader
(`ragfin.figure_reader`, with its notation in `ragfin.figure_grammar`) stands beside it and never replaces it.
"""

import re

from ragfin.figure_digits import Locale
from ragfin.figure_reader import Figure, read_figures, same_figure

__all__ = ["CITATION", "FIGURE_TOKEN", "Figure", "figures", "read_figures", "same_figure"]

CITATION = re.compile(r"\[\d+\]")
FIGURE_TOKEN = re.compile(r"\d(?:[\d.,]*\d)?")

_SPANISH_THOUSANDS = re.compile(r"\d{1,3}(?:\.\d{3})+")
_ENGLISH_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3}){2,}(?:\.\d+)?")
_DIGITS = re.compile(r"\d+")
_SWAPPED = str.maketrans(".,", ",.")


def figures(text: str, *, locale: Locale = "es") -> set[float]:
    """Return the figures of a text by the lesson's rule.

    Citations ``[n]`` are taken out first. With one comma, periods group thousands and the comma is decimal;
    without a comma, ``1.234.567`` is grouped and any other single period is decimal. Signs, units and
    scale words are ignored on purpose.

    Parameters
    ----------
    text : str
        Any text; none raises.
    locale : {"es", "en"}, optional
        The notation. "en" is the same rule with periods and commas in each other's place.

    Returns
    -------
    set of float
        Values rounded to 4 decimals; empty when the text has no digit. A digit run beyond what a float
        holds is ``inf``.

    Source
    ------
    The lesson's ``cifras``, with what it left undefined fixed: several commas, irregular periods, huge numbers.

    Examples
    --------
    >>> sorted(figures("Ventas de 13.668,9 millones, un 2,2 % más [2]"))
    [2.2, 13668.9]
    >>> sorted(figures("40.3% de 5.505 en 2023"))
    [40.3, 2023.0, 5505.0]
    >>> sorted(figures("el 31.12.2024"))
    [12.0, 31.0, 2024.0]
    >>> sorted(figures("Sales of 13,668.9 million, up 2.2 % [2]", locale="en"))
    [2.2, 13668.9]
    """
    plain = CITATION.sub(" ", text)
    if locale == "en":
        plain = plain.translate(_SWAPPED)
    return {round(float(number), 4) for token in FIGURE_TOKEN.findall(plain) for number in _numbers(token)}


def _numbers(token: str) -> list[str]:
    """Return the numbers that a token stands for, written as Python writes them."""
    commas = token.count(",")
    if commas == 1:
        return [token.replace(".", "").replace(",", ".")]
    if commas == 0 and _SPANISH_THOUSANDS.fullmatch(token):
        return [token.replace(".", "")]
    if commas == 0 and token.count(".") <= 1:
        return [token]
    if _ENGLISH_THOUSANDS.fullmatch(token):
        return [token.replace(",", "")]
    return _DIGITS.findall(token)
