"""Compare typed figures in their context: who carries the sign, where a cell's unit stands, how far rounding may go.

Two figures agree when their units are of one class and their values lie within half a unit of the last place of the
coarser one. The sign is free where a word of decrease or of payment in the clause carries it ("cayó un 3 %" says -3 %).
A figure without unit and scale leaves the scale open. It does not parse sentences: a clause is the text up to the next
stop, 100 code points before and 25 after.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

from ragfin import figure_grammar as grammar
from ragfin.figure_digits import Locale, shifted
from ragfin.figure_reader import CALENDAR_UNITS, Figure, read_figures, same_unit

_EXACT = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_SENTENCE_END = re.compile(r"[.;?!]\s|\n")
SIGN_WORDS = re.compile(
    r"""(?ix)\b(?:
      ca(?:e|en|í|er|yó|yeron|ído|ída|ídas|yendo)\b | descen\w+ | baj(?:a|an|ó|aron|ado|ada|adas|ar|ando)\b | disminu\w+
    | redu[cjz]\w+ | retro\w+ | contra(?:jo|cción|ído|ída)\b | merm\w+ | recort\w+ | desplom\w+ | pérdidas? | perd\w+
    | perdi\w+ | pierd\w+ | menos | inferior(?:es)? | negativ\w+ | ced(?:e|en|ió|ieron|ido)\b | deterior\w+ | d[ée]ficit
    | pag(?:a|ó|os?|aron|ados?|adas?|an)\b | desembols\w+ | salidas? | invert\w+ | invirti\w+ | inversi\w+ | gast\w+
    | costes? | amortiz\w+ | devol\w+ | impuest\w+ | abon\w+ | dedic\w+ | adqui\w+ | compr(?:a|as|ó|aron)\b
    | fell | decreas\w+ | declin\w+ | loss(?:es)? | paid | dropped | tax(?:es)?
    )"""
)
_BEFORE_CLAUSE, _AFTER_CLAUSE = 100, 25
_UNIT_STARTS = re.compile(r"^\s*|\(\s*(?:en\s)?|,\s*(?:en\s)?|\ben\s")


def read_with_headers(text: str, locale: Locale = "es") -> list[Figure]:
    """Return the typed figures of a text, in which bare table cells take unit and scale from their headers.

    In a pipe table the row label's unit comes first, then the column header's: ``| Ventas (millones de EUR) |``.

    Examples
    --------
    >>> [(str(f.value), f.unit) for f in read_with_headers("| Año | Margen (%) |\\n|---|---|\\n| 2023 | 20,5 |")]
    [('2023', 'año'), ('20.5', '%')]
    """
    cells = list(_cells_with_units(text))
    starts = [start for start, _, _, _ in cells]
    found = []
    for figure in read_figures(text, locale):
        at = bisect_right(starts, figure.span[0]) - 1
        if at >= 0 and figure.span[1] <= cells[at][1] and _open(figure) and isinstance(figure.value, Decimal):
            _, _, scale, unit = cells[at]
            value = shifted(figure.value, scale)
            figure = figure._replace(value=value, unit=unit, scale=scale, place=figure.place + scale)
        found.append(figure)
    return found


Signed = tuple[Figure, bool]
"""A figure, and whether a word in its clause carries the sign."""


def signed(found: Iterable[Figure], text: str) -> Iterator[Signed]:
    """Yield each figure found in a text with whether a word of decrease or payment in its clause carries the sign.

    Examples
    --------
    >>> text = "Cayó un 3 %. Subió un 5 %."
    >>> [free for _, free in signed(read_figures(text), text)]
    [True, False]
    """
    for figure in found:
        start, end = figure.span
        before = _SENTENCE_END.split(text[max(0, start - _BEFORE_CLAUSE) : start])[-1]
        after = _SENTENCE_END.split(text[end : end + _AFTER_CLAUSE], maxsplit=1)[0]
        yield figure, bool(SIGN_WORDS.search(before) or SIGN_WORDS.search(after))


def near_miss(figure: Figure, pool: Iterable[Figure]) -> tuple[Figure, str] | None:
    """Return the first figure of a pool with the same digits but another unit, sign or scale, and which of these.

    Examples
    --------
    >>> near_miss(read_figures("3 %")[0], read_figures("3 p.p."))[1]
    'another unit'
    """
    for other in pool:
        if not (isinstance(figure.value, Decimal) and isinstance(other.value, Decimal)):
            continue
        mine, theirs = shifted(figure.value, -figure.scale), shifted(other.value, -other.scale)
        if mine.copy_abs() != theirs.copy_abs():
            continue
        if not same_unit(figure.unit, other.unit):
            return other, "another unit"
        if mine != theirs:
            return other, "another sign"
        if figure.scale != other.scale:
            return other, "another scale"
    return None


def spell(figure: Figure) -> str:
    """Return value and unit as one writes them: ``20.5 %``."""
    return f"{figure.value} {figure.unit}".strip()


def agree(a: Signed, b: Signed) -> bool:
    """Tell whether two figures agree within half a unit of the coarser last place, up to a sign that a word carries.

    Years, dates and periods agree when one is the other or a part of it.

    Examples
    --------
    >>> agree((read_figures("1,47 M€")[0], False), (read_figures("1.472,9 miles de euros")[0], False))
    True
    """
    (one, one_free), (two, two_free) = a, b
    if not (isinstance(one.value, Decimal) and isinstance(two.value, Decimal)) or one.unit == two.unit == "año":
        return {one.unit, two.unit} <= CALENDAR_UNITS and _same_time(str(one.value), str(two.value))
    if not same_unit(one.unit, two.unit):
        return False
    (left, left_place), (right, right_place) = _comparable(one, two), _comparable(two, one)
    if one_free or two_free:
        left, right = left.copy_abs(), right.copy_abs()
    distance = _EXACT.abs(_EXACT.subtract(left, right))
    return bool(_EXACT.compare(distance, Decimal((0, (5,), max(left_place, right_place) - 1))) <= 0)


def _same_time(a: str, b: str) -> bool:
    """Tell whether one point or span in time is the other, or a part of it: 2016 agrees with 2016-05-12."""
    return a.startswith(b) or b.startswith(a)


def _comparable(figure: Figure, other: Figure) -> tuple[Decimal, int]:
    """Return value and last place in the scale and unit that two figures can be compared in."""
    value = figure.value if isinstance(figure.value, Decimal) else Decimal(0)
    power = -2 if figure.unit == "pb" != other.unit else 0
    if _open(figure) != _open(other):
        power -= figure.scale
    return shifted(value, power), figure.place + power


def _open(figure: Figure) -> bool:
    """Tell whether a figure has neither unit nor scale, so that a header or the question supplies them."""
    return figure.unit == "" and figure.scale == 0


def _cells_with_units(text: str) -> Iterator[tuple[int, int, int, str]]:
    """Yield start, end, scale and unit of the data cells of pipe tables whose row label or column header has a unit."""
    header: list[tuple[int, str]] | None = None
    at = 0
    for line in text.split("\n"):
        if not line.lstrip().startswith("|"):
            header = None
        else:
            cells = _split_cells(line)
            types = [_header_type(cell) for _, cell in cells]
            if header is None:
                header = types
            else:
                for index, (start, cell) in enumerate(cells[1:], start=1):
                    column = header[index] if index < len(header) else (0, "")
                    scale, unit = types[0] if types[0][1] else (types[0][0] or column[0], column[1])
                    if scale or unit:
                        yield at + start, at + start + len(cell), scale, unit
        at += len(line) + 1


def _split_cells(line: str) -> list[tuple[int, str]]:
    """Return the cells of a table line with their offsets."""
    start, cells = line.index("|") + 1, []
    for cell in line[start:].rstrip().removesuffix("|").split("|"):
        cells.append((start, cell))
        start += len(cell) + 1
    return cells


def _header_type(cell: str) -> tuple[int, str]:
    """Return scale and unit that a header cell announces: "Ventas (millones de USD)" is 6 and USD."""
    announced = (0, "")
    for place in _UNIT_STARTS.finditer(cell):
        before = grammar.BEFORE.match(cell, place.end())
        scale = grammar.SCALE.match(cell, before.end() if before else place.end())
        unit = before or grammar.UNIT.match(cell, scale.end() if scale else place.end())
        power = next((grammar.POWERS[k] for k, v in scale.groupdict().items() if v and k != "half"), 0) if scale else 0
        if unit or (scale and place[0].strip()):
            name = str(unit.lastgroup) if unit else ""
            announced = (power + grammar.UNIT_POWERS.get(name, 0), grammar.UNIT_NAMES.get(name, name))
    return announced
