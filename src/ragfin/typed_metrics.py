"""Three of the measures with typed figures, beside the lesson's and never instead of them.

| typed | lesson's | what changes |
|---|---|---|
| `exact_typed` | `exact` | value after scale, unit and sign must agree; years and dates are not foreign |
| `contains_typed` | `contains_gold` | the gold figures with their unit and sign |
| `faithful_typed` | `faithful` | the same; table cells take unit and scale from their headers |

Two figures agree when their units are of one class and their values lie within half a unit of the last place of the
coarser one. The sign is free where a word of decrease or of payment carries it ("cayó un 3 %" says -3 %). A figure
without unit and scale leaves the scale open: "879,1" agrees with "879,1 millones de euros", not with "879,1 %".

They do not know what a figure measures, and an answer without figures is still faithful.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from math import isnan, nan
from typing import NamedTuple

from ragfin import figure_grammar as grammar
from ragfin.corpus import Question
from ragfin.figure_reader import CALENDAR_UNITS, Figure, read_figures, same_unit, shifted
from ragfin.figures import figures
from ragfin.metrics import abstains, contains_gold, exact, faithful
from ragfin.text import words

_EXACT = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_SENTENCE_END = re.compile(r"[.;?!]\s|\n")
_SIGN_WORDS = re.compile(
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


class Disagreement(NamedTuple):
    """A case where the lesson's measure and the typed one part. Values are bool, or nan where not applicable."""

    question_id: str
    measure: str
    lesson: bool | float
    typed: bool | float
    reason: str


def exact_typed(answer: str, question: Question) -> bool:
    """Tell whether an answer is exactly the gold one, with units, scale and sign.

    As the lesson's ``exact``, but figures are typed, and years and dates in the answer are not foreign. Years and dates
    of the gold are required only when it holds no other figure.

    Parameters
    ----------
    answer : str
        The text of the answer; any string.
    question : Question
        Its ``gold_answer``, ``text`` and ``answerable`` are read.

    Returns
    -------
    bool

    Examples
    --------
    >>> margin = Question("Q1", "R05", "¿Qué margen hubo?", "20,5 %", "tabla", True, ())
    >>> exact_typed("En 2023, el 20,5 % [1]", margin), exact_typed("20,5 millones", margin)
    (True, False)
    """
    if not question.answerable:
        return abstains(answer)
    return not abstains(answer) and contains_typed(answer, question) and not _foreign_to_gold(answer, question)


def contains_typed(answer: str, question: Question) -> bool:
    """Tell whether an answer contains the gold figures, typed, or, where the gold has none, the gold words.

    Examples
    --------
    >>> sales = Question("Q1", "R05", "¿Cuánto vendió?", "1.472,9 millones de USD", "tabla", True, ())
    >>> contains_typed("Fueron 1.473 millones de dólares", sales), contains_typed("1.472,9 miles de dólares", sales)
    (True, False)
    """
    gold = _required(question)
    if not gold:
        return set(words(question.gold_answer)) <= set(words(answer))
    said = list(_signed(read_figures(answer), answer))
    return all(any(_agree(g, s) for s in said) for g in gold)


def faithful_typed(answer: str, context: str, question: Question) -> bool | float:
    """Tell whether every figure of an answer, years and dates aside, agrees with one of the context or the question.

    Parameters
    ----------
    answer : str
        The text of the answer.
    context : str
        What the answer was made from: the chunk texts, header included, joined by newlines.
    question : Question
        Its ``text`` is read.

    Returns
    -------
    bool or float
        nan (not applicable) for an abstention. An answer without figures is faithful: a blind spot.

    Examples
    --------
    >>> debt = Question("Q1", "R05", "¿Cuánta deuda hay?", "3,2 millones de euros", "tabla", True, ())
    >>> table = "| | 2023 (millones de EUR) |\\n|---|---|\\n| Deuda | 3,2 |"
    >>> faithful_typed("3,2 millones de euros", table, debt), faithful_typed("3,2 miles de euros", table, debt)
    (True, False)
    """
    if abstains(answer):
        return nan
    return not _unsupported(answer, context, question)


def read_with_headers(text: str) -> list[Figure]:
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
    for figure in read_figures(text):
        at = bisect_right(starts, figure.span[0]) - 1
        if at >= 0 and figure.span[1] <= cells[at][1] and _open(figure) and isinstance(figure.value, Decimal):
            _, _, scale, unit = cells[at]
            value = shifted(figure.value, scale)
            figure = figure._replace(value=value, unit=unit, scale=scale, place=figure.place + scale)
        found.append(figure)
    return found


def gold_figure_faults(question: Question, passage_texts: Sequence[str]) -> list[str]:
    """Return what is wrong between the figures of a gold answer and its passages: value, unit or sign.

    Parameters
    ----------
    question : Question
        Nothing is checked for an unanswerable one. For kinds whose gold is computed from the passages (``calculo``,
        ``comparacion``) a fault only says that the figure is not written there.
    passage_texts : sequence of str
        The texts of its gold passages.

    Returns
    -------
    list of str
        One line for each fault, with the nearest figure of the passages; empty when all agree.

    Examples
    --------
    >>> growth = Question("Q1", "R05", "¿Cuánto crecieron las ventas?", "3,1 %", "texto", True, ())
    >>> gold_figure_faults(growth, ["Las ventas crecieron un 3,1 %."]), gold_figure_faults(growth, ["3,1 p.p."])
    ([], ["Q1: gold '3,1' is 3.1 %; the passages hold 3.1 pp (another unit)"])
    """
    if not question.answerable:
        return []
    held = [pair for text in passage_texts for pair in _signed(read_with_headers(text), text)]
    faults = []
    for figure, free in _required(question):
        if not any(_agree((figure, free), other) for other in held):
            start, end = figure.span
            near = _near_miss(figure, [other for other, _ in held])
            hint = f"the passages hold {_spell(near[0])} ({near[1]})" if near else "no passage holds it"
            faults.append(f"{question.id}: gold {question.gold_answer[start:end]!r} is {_spell(figure)}; {hint}")
    return faults


def disagreements(rows: Iterable[tuple[Question, str, str]]) -> list[Disagreement]:
    """Return where the lesson's rule and the typed one part, with the reason.

    Parameters
    ----------
    rows : iterable of (Question, str, str)
        Question, answer, and the context that the answer was made from.

    Returns
    -------
    list of Disagreement
        In the order of the rows; for each row ``exact``, ``contains`` and ``faithful``. Two nan do not disagree.

    Examples
    --------
    >>> margin = Question("Q1", "R05", "¿Qué margen hubo?", "20,5 %", "tabla", True, ())
    >>> disagreements([(margin, "20,5 millones", "Margen: 20,5 %")])[0].reason
    'another unit: 20.5 % against 20500000'
    """
    found = []
    for question, answer, context in rows:
        pairs = {
            "exact": (exact(answer, question), exact_typed(answer, question)),
            "contains": (contains_gold(answer, question), contains_typed(answer, question)),
            "faithful": (faithful(answer, context, question), faithful_typed(answer, context, question)),
        }
        for measure, (lesson, typed) in pairs.items():
            if lesson != typed and not (isnan(lesson) and isnan(typed)):
                reason = _reason(measure, question, answer, context, stricter=bool(lesson))
                found.append(Disagreement(question.id, measure, lesson, typed, reason))
    return found


_Signed = tuple[Figure, bool]
"""A figure, and whether a word in its clause carries the sign."""


def _signed(found: Iterable[Figure], text: str) -> Iterator[_Signed]:
    for figure in found:
        start, end = figure.span
        before = _SENTENCE_END.split(text[max(0, start - _BEFORE_CLAUSE) : start])[-1]
        after = _SENTENCE_END.split(text[end : end + _AFTER_CLAUSE], maxsplit=1)[0]
        yield figure, bool(_SIGN_WORDS.search(before) or _SIGN_WORDS.search(after))


def _required(question: Question) -> list[_Signed]:
    """Return the gold figures, without years and dates if there are others; the question's words carry a sign too."""
    gold = list(_signed(read_figures(question.gold_answer), question.gold_answer))
    core = [pair for pair in gold if pair[0].unit not in CALENDAR_UNITS]
    asked = bool(_SIGN_WORDS.search(question.text))
    return [(figure, free or asked) for figure, free in core or gold]


def _foreign_to_gold(answer: str, question: Question) -> list[Figure]:
    gold = list(_signed(read_figures(question.gold_answer), question.gold_answer))
    if not gold:
        return []
    return _without_support(answer, gold + _required(question) + list(_signed(read_figures(question.text), "")))


def _unsupported(answer: str, context: str, question: Question) -> list[Figure]:
    return _without_support(
        answer, [*_signed(read_with_headers(context), context), *_signed(read_figures(question.text), question.text)]
    )


def _without_support(answer: str, known: list[_Signed]) -> list[Figure]:
    said = _signed(read_figures(answer), answer)
    return [s[0] for s in said if s[0].unit not in CALENDAR_UNITS and not any(_agree(s, k) for k in known)]


def _agree(a: _Signed, b: _Signed) -> bool:
    """Tell whether two figures agree within half a unit of the coarser last place, up to a sign that a word carries."""
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
        scale = grammar.SCALE.match(cell, place.end())
        unit = grammar.UNIT.match(cell, scale.end() if scale else place.end())
        power = next((grammar.POWERS[k] for k, v in scale.groupdict().items() if v and k != "half"), 0) if scale else 0
        if unit or (scale and place[0].strip()):
            name = str(unit.lastgroup) if unit else ""
            announced = (power + grammar.UNIT_POWERS.get(name, 0), grammar.UNIT_NAMES.get(name, name))
    return announced


def _reason(measure: str, question: Question, answer: str, context: str, *, stricter: bool) -> str:
    """Say why the two rules part on one answer."""
    said, asked = read_figures(answer), read_figures(question.text)
    if stricter:
        pairs = list(_signed(said, answer))
        lost = [g for g, free in _required(question) if not any(_agree((g, free), s) for s in pairs)]
        pool = said
        if measure == "faithful":
            lost, pool = _unsupported(answer, context, question), read_with_headers(context) + asked
        elif not lost:
            lost, pool = _foreign_to_gold(answer, question), read_figures(question.gold_answer) + asked
        for figure in lost:
            if near := _near_miss(figure, pool):
                return f"{near[1]}: {_spell(figure)} against {_spell(near[0])}"
        return f"no typed figure agrees with {_spell(lost[0])}" if lost else "the gold words are not said"
    calendar = {n for f in said if f.unit in CALENDAR_UNITS for n in figures(answer[slice(*f.span)])}
    typed = {n for f in said for n in figures(answer[slice(*f.span)])}
    known = figures(question.text) | figures(context if measure == "faithful" else question.gold_answer)
    foreign = figures(answer) - known
    if measure != "contains" and foreign and foreign <= calendar:
        return "a year or a date is not foreign"
    if foreign - typed:
        return "digits that are no figure: a reference, an ordinal, an identifier"
    return "the same value in another notation, scale or rounding"


def _near_miss(figure: Figure, pool: Iterable[Figure]) -> tuple[Figure, str] | None:
    """Return a figure with the same digits, and in what it differs."""
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


def _spell(figure: Figure) -> str:
    return f"{figure.value} {figure.unit}".strip()
