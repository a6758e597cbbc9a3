"""Read typed figures: value after scale, unit, sign, ranges, dates, and what is no figure at all.

The method follows inline XBRL's ``num-comma-decimal``: the locale is decided for a document, not guessed for each
token, and sign and scale live outside the digits. The notation itself is in `ragfin.figure_grammar`.

It does not read numbers in words beyond a Spanish cardinal right before a scale or a unit ("dos millones y medio de
euros"): not "un millón doscientos mil", "tres veces", English number words, fractions (½, "un tercio") or exponents
(1e6). It does not know what a figure measures. Digits in irregular groups (``v1.2.3``, ``12.34.5``) are no figure.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from ragfin import figure_grammar as grammar
from ragfin.figure_calendar import iso_date, period
from ragfin.figure_digits import THOUSANDS_MARK, Locale, cardinal, read_digits, scaled, shifted

CALENDAR_UNITS = frozenset({"año", "fecha", "periodo"})
CURRENCIES = frozenset(grammar.BEFORE.groupindex)

_YEARS = range(1900, 2101)
_NEXT = re.compile(r"\s?\d")
_PERCENT = re.compile(r"\s?%")


class Figure(NamedTuple):
    """One figure of a text.

    ``value`` is a Decimal after sign and scale; for the units ``fecha`` and ``periodo`` it is a string: an ISO date
    (``2023-12-31``; ``--12-31`` without a year) or a period (``2022-2023``, ``2024-Q1``, ``2024-S1``, ``2024-9M``,
    ``2023-12``, ``2023``). ``unit`` is a currency code, ``%``, ``pp``, ``pb``, ``x``, ``m2``, ``año``, ``fecha``,
    ``periodo`` or ``""``. ``span`` is half-open, in code points of the original text, and covers the digits with their
    separators (the whole expression for dates, periods and words): sign, unit and scale lie outside. ``ambiguous``
    tells that the digits also read as ``other``. ``scale`` is the power of ten that a scale word contributed and
    ``place`` the power of ten of the last digit written.
    """

    value: Decimal | str
    unit: str
    span: tuple[int, int]
    ambiguous: bool = False
    other: Decimal | None = None
    scale: int = 0
    place: int = 0


@dataclass
class _Mark:
    """A number or entity while its neighbours may still change it. ``left`` and ``right`` bound all that it took."""

    span: tuple[int, int]
    left: int
    right: int
    digits: str
    other: str | None = None
    negative: bool = False
    scale: int = 0
    other_scale: int | None = None
    unit: str = ""
    entity: str = ""
    yearlike: bool = False
    coordinated: bool = False

    @property
    def bare(self) -> bool:
        return not (self.unit or self.scale or self.entity)


def read_figures(text: str, locale: Locale = "es") -> list[Figure]:
    """Return the figures of a text in order, with unit, scale and sign.

    Parameters
    ----------
    text : str
        Any text; none raises. Time grows linearly with its length.
    locale : {"es", "en"}, optional
        The notation of the whole document. It decides what one period (or comma) before exactly three digits means:
        thousands in "es" (``1.234``), a decimal in "en". The other reading is kept in ``other``.

    Returns
    -------
    list of Figure
        Empty for a text without figures. ISIN and other identifiers, index names, rules and references, ordinals,
        raised digits and ``[n]`` are none.

    Raises
    ------
    ValueError
        For another locale.

    Examples
    --------
    >>> [(str(f.value), f.unit) for f in read_figures("Pérdidas de −3,2 millones de euros (NIC 36) en 2023")]
    [('-3200000', 'EUR'), ('2023', 'año')]
    >>> [(str(f.value), f.unit) for f in read_figures("una comisión del 3-5 %, 7 pb más")]
    [('3', '%'), ('5', '%'), ('7', 'pb')]
    >>> read_figures("1.234")[0].ambiguous, str(read_figures("1.234")[0].other)
    (True, '1.234')
    """
    if locale not in THOUSANDS_MARK:
        raise ValueError(f"locale {locale!r} is not one of the notations read: use 'es' or 'en'")
    plain = grammar.fold(text)
    marks: list[_Mark] = []
    position = 0
    while token := grammar.TOKEN.search(plain, position):
        found = _read_token(token, plain, locale, marks[-1] if marks else None)
        marks += found
        position = max(token.end(), found[-1].right if found else 0)
    _share(marks, plain)
    return [_figure(mark) for mark in marks]


def same_figure(a: Figure, b: Figure) -> bool:
    """Tell whether two figures say the same: equal value and the same unit class.

    A basis point is a hundredth of ``%`` and of ``pp``, which differ from each other; no unit is compatible with any
    currency; a year equals a period that is that year. Ambiguity does not count: only ``value`` is compared.

    Examples
    --------
    >>> same_figure(read_figures("7 pb")[0], read_figures("0,07 %")[0])
    True
    >>> same_figure(read_figures("1,2 p.p.")[0], read_figures("1,2 %")[0])
    False
    """
    return same_unit(a.unit, b.unit) and _in_class(a, b) == _in_class(b, a)


def same_unit(a: str, b: str) -> bool:
    """Tell whether two units are of one class, so that values can be compared.

    Examples
    --------
    >>> same_unit("", "EUR"), same_unit("EUR", "USD"), same_unit("pb", "%"), same_unit("", "%")
    (True, False, True, False)
    """
    if a == b:
        return True
    pair = {a, b}
    return ("" in pair and bool(pair & CURRENCIES)) or pair in ({"pb", "%"}, {"pb", "pp"}, {"año", "periodo"})


def _in_class(figure: Figure, other: Figure) -> Decimal | str:
    """Return a value in the unit that it shares with another figure."""
    if figure.unit == "pb" != other.unit and isinstance(figure.value, Decimal):
        return shifted(figure.value, -2)
    return str(figure.value) if figure.unit in CALENDAR_UNITS else figure.value


def _read_token(token: re.Match[str], plain: str, locale: Locale, left: _Mark | None) -> list[_Mark]:
    """Return the marks of one token of the grammar: one for most, several for ``1,2,3``, none for what is no figure."""
    kind = token.lastgroup
    if kind == "date":
        return _entity(token, iso_date(token[0], locale), "fecha")
    if kind == "period":
        return _entity(token, period(token[0]), "periodo")
    if kind == "words":
        mark = _Mark(token.span(), token.start(), token.end(), cardinal(token[0]))
        _take_scale_and_unit(mark, plain, before="", amount=False)
        return [mark]
    if kind == "number":
        return _number(token, plain, locale, left)
    return []


def _entity(token: re.Match[str], value: str | None, unit: str) -> list[_Mark]:
    """Return a date or period, which no neighbour changes; nothing for a day that the calendar does not have."""
    return [] if value is None else [_Mark(token.span(), token.start(), token.end(), value, unit=unit, entity=unit)]


def _number(token: re.Match[str], plain: str, locale: Locale, left: _Mark | None) -> list[_Mark]:
    """Read a number token: digits, then sign and parentheses around them, then what follows."""
    digits, (start, end) = token["digits"], token.span("digits")
    reading = read_digits(digits, locale)
    if reading is None:
        separate = re.finditer(r"\d+", digits) if "." not in digits else ()
        return [_Mark((start + m.start(), start + m.end()), start + m.start(), start + m.end(), m[0]) for m in separate]
    sign = token["inner"] or token["sign"]
    sign_at = token.start("inner") if token["inner"] else token.start("sign")
    mark = _Mark((start, end), start, end, *reading)
    mark.yearlike = len(digits) == 4 and digits.isdigit() and int(digits) in _YEARS
    inside = bool(token["before"] and token["inner"])
    minus = inside or _is_minus(plain, sign_at, left.right if left else -1)
    mark.negative = sign not in (None, "+") and minus
    prefix = token["prefix"] or ""
    before = grammar.BEFORE.fullmatch((token["before"] or "").removeprefix(prefix))
    if prefix and mark.yearlike:  # the head of a column: M€ 2023
        before, prefix = None, ""
    mark.scale = grammar.PREFIX_POWERS.get(prefix, 0)
    if token["open"] or token["before"] or mark.negative:
        mark.left = token.start()
        if token["sign"] and not (mark.negative and not token["inner"]):
            mark.left = token.end("sign")
    opened = token["open2"] or (token["open"] and not token["before"])
    if opened and not sign and not _take_parenthesis(mark, plain, token, left):
        return []
    amount = bool(before) or (left is not None and _is_upper_end(left, mark, plain))
    _take_scale_and_unit(mark, plain, (before.lastgroup or "") if before else "", amount)
    if mark.bare and mark.right == end and not _take_rest(mark, plain, digits):
        return []
    return [mark]


def _is_minus(plain: str, at: int, left_end: int) -> bool:
    """Tell whether a dash is a minus: nothing glued to its left and no number there, up to three spaces away."""
    if at > 0 and (plain[at - 1].isalnum() or plain[at - 1] in "%)€$£"):
        return False
    gap = plain[left_end:at] if left_end >= 0 and at - left_end <= 3 else None
    return gap is None or bool(gap.strip(" \u00a0\t"))


def _is_upper_end(left: _Mark, mark: _Mark, plain: str) -> bool:
    """Tell whether a dash joins a number to one that only a currency sign precedes: the 15m of €10-15m."""
    lone = left.unit in CURRENCIES and not left.scale and left.right == left.span[1]
    return lone and grammar.DASH.fullmatch(plain, left.right, mark.left) is not None


def _take_parenthesis(mark: _Mark, plain: str, token: re.Match[str], left: _Mark | None) -> bool:
    """Read ``(number)`` or ``(number %)`` as negative; return False for a footnote call.

    A rate right after a number is an aside: 10.530 (5,3 %) is a gain.
    """
    percent = _PERCENT.match(plain, mark.right)
    close = grammar.CLOSE.match(plain, percent.end() if percent else mark.right)
    after_number = left is not None and not (left.entity or (left.yearlike and left.bare))
    aside = percent and left is not None and after_number and token.start("open") - left.right in (0, 1)
    if close is None or mark.yearlike or aside:
        return True
    call = not percent and len(mark.digits) <= 2 and mark.digits.isdigit() and not token["before"]
    if call and _after_word(plain, token.start("open")):
        unit = grammar.UNIT.match(plain, close.end()) or grammar.SCALE.match(plain, close.end())
        if unit is None:
            return False
    mark.negative, mark.right = True, close.end()
    if percent:
        mark.unit = "%"
    return True


def _after_word(plain: str, at: int) -> bool:
    """Tell whether a word, or another call, stands before an offset; glued, a unit counts as a word."""
    if at > 0 and (plain[at - 1].isalnum() or plain[at - 1] in "%€$£)\ue000\ue002"):
        return True
    before = plain[max(0, at - 2) : at].rstrip(" \u00a0")
    return bool(before) and (before[-1].isalpha() or before[-1] in "%€$£)\ue000\ue002")


def _take_scale_and_unit(mark: _Mark, plain: str, before: str, amount: bool) -> None:
    """Extend a mark over note marks, scale words, unit and trailing minus; an amount of money takes short scales."""
    for notes_or_minus in (grammar.NOTES, grammar.TRAILING_MINUS):
        if found := notes_or_minus.match(plain, mark.right):
            if notes_or_minus is grammar.TRAILING_MINUS and not _take_trailing(mark):
                break
            mark.right = found.end()
    if "." in mark.digits and grammar.COLUMN_MINUS.match(plain, mark.right):
        mark.negative, mark.right = True, mark.right + 1
    mark.unit = mark.unit or before
    scale = grammar.SCALE.match(plain, mark.right) or (amount and grammar.SHORT_SCALE.match(plain, mark.right))
    if scale and not mark.scale:
        name = next(name for name, form in scale.groupdict().items() if form and name != "half")
        mark.scale, mark.right = grammar.POWERS[name], scale.end()
        if name == "m":
            mark.other_scale = 3
        if scale.groupdict().get("half") and mark.digits.isdigit():
            mark.digits, mark.other = f"{mark.digits}.5", None
    unit = grammar.UNIT.match(plain, mark.right)
    taken = unit and unit.lastgroup in CURRENCIES and (mark.unit or (mark.yearlike and _NEXT.match(plain, unit.end())))
    if unit and not taken and mark.unit != "%":
        name = str(unit.lastgroup)
        mark.unit, mark.right = grammar.UNIT_NAMES.get(name, name), unit.end()
        mark.scale += grammar.UNIT_POWERS.get(name, 0)
    if (found := grammar.TRAILING_MINUS.match(plain, mark.right)) and mark.unit and not mark.negative:
        mark.negative, mark.right = True, found.end()


def _take_trailing(mark: _Mark) -> bool:
    """Make a number before a trailing minus negative; return False for a year."""
    mark.negative = mark.negative or not mark.yearlike
    return not mark.yearlike


def _take_rest(mark: _Mark, plain: str, digits: str) -> bool:
    """Judge a number without scale or unit by what is glued to it; return False if it is part of a name."""
    following = plain[mark.right : mark.right + 1]
    if mark.yearlike:
        if grammar.COUNTED.match(plain, mark.right):
            mark.yearlike = False
        if following in "eEpP" and not plain[mark.right + 1 : mark.right + 2].isalnum():
            mark.right += len(following)
            return True
    if not (following.isalnum() or following == "_"):
        return True
    physical = grammar.PHYSICAL.match(plain, mark.right)
    if physical:
        mark.right = physical.end()
    return physical is not None and (not following.isupper() or len(physical[0]) > 1)


def _share(marks: list[_Mark], plain: str) -> None:
    """Give unit and scale to the other end of a range, and to the members of "3, 4 y 5 millones"."""
    for left, right in zip(reversed(marks[:-1]), reversed(marks[1:]), strict=True):
        if left.entity or right.entity or right.left - left.right > 12 or right.left < left.right:
            continue
        gap = plain[left.right : right.left]
        is_range = grammar.RANGE.fullmatch(gap)
        joined = grammar.JOINED.fullmatch(gap) or (right.coordinated and gap in (", ", ",\u00a0"))
        if not (is_range or joined):
            continue
        between = bool(joined) and bool(grammar.BETWEEN.search(plain, max(0, left.left - 14), left.left))
        dash = bool(grammar.DASH.fullmatch(gap))
        like_a_year = len(right.digits) == 4 and right.digits.isdigit()
        if left.yearlike and left.bare and not (between or (dash and like_a_year)):
            continue
        if joined and not between and ("." in left.digits) != ("." in right.digits):
            continue
        said_before = left.right == left.span[1]
        if dash and right.bare and not right.yearlike and left.unit and (said_before or not left.scale):
            right.unit, right.scale = left.unit, left.scale
        if right.bare or (right.yearlike and not (right.unit or right.scale)):
            continue
        right.coordinated = right.coordinated or bool(joined)
        if left.unit and left.unit != right.unit and (right.unit or left.unit not in CURRENCIES):
            continue
        if left.scale == 0 and not (left.unit and joined) and _ascends(left, right, bool(is_range) or between):
            left.scale, left.other_scale = right.scale, right.other_scale
        left.unit, left.coordinated = left.unit or right.unit, bool(joined)
        right.unit = right.unit or left.unit


def _ascends(left: _Mark, right: _Mark, ordered: bool) -> bool:
    """Tell whether the scale of a range's upper end can hold for the lower: 900.000 a 1,2 millones cannot."""
    return not ordered or len(left.digits.partition(".")[0]) <= len(right.digits.partition(".")[0]) + 1


def _figure(mark: _Mark) -> Figure:
    if mark.entity:
        return Figure(mark.digits, mark.unit, mark.span)
    if mark.yearlike and not (mark.unit or mark.scale or mark.negative):
        return Figure(Decimal(mark.digits), "año", mark.span)
    value, other = scaled(mark.digits, mark.scale, mark.negative), None
    if mark.other is not None:
        other = scaled(mark.other, mark.scale, mark.negative)
    elif mark.other_scale is not None:
        other = scaled(mark.digits, mark.other_scale, mark.negative)
    place = mark.scale - len(mark.digits.partition(".")[2])
    return Figure(value, mark.unit, mark.span, other is not None, other, mark.scale, place)
