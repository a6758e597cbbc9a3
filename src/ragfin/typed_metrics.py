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

from collections.abc import Iterable, Sequence
from math import isnan, nan
from typing import NamedTuple

from ragfin.corpus import Question
from ragfin.figure_digits import Locale
from ragfin.figure_reader import CALENDAR_UNITS, Figure, read_figures
from ragfin.figures import figures
from ragfin.language import SPANISH, Language
from ragfin.metrics import abstains, contains_gold, exact, faithful
from ragfin.text import words
from ragfin.typed_figures import SIGN_WORDS, Signed, agree, near_miss, read_with_headers, signed, spell


class Disagreement(NamedTuple):
    """A case where the lesson's measure and the typed one part. Values are bool, or nan where not applicable."""

    question_id: str
    measure: str
    lesson: bool | float
    typed: bool | float
    reason: str


def exact_typed(answer: str, question: Question, *, language: Language = SPANISH) -> bool:
    """Tell whether an answer is exactly the gold one, with units, scale and sign.

    As the lesson's ``exact``, but figures are typed, and years and dates in the answer are not foreign. Years and dates
    of the gold are required only when it holds no other figure.

    Parameters
    ----------
    answer : str
        The text of the answer; any string.
    question : Question
        Its ``gold_answer``, ``text`` and ``answerable`` are read.
    language : Language, optional
        Decides the notation of figures, the phrase that abstains and the stop words; Spanish by default.

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
        return abstains(answer, language=language)
    if abstains(answer, language=language) or not contains_typed(answer, question, language=language):
        return False
    return not _foreign_to_gold(answer, question, language.locale)


def contains_typed(answer: str, question: Question, *, language: Language = SPANISH) -> bool:
    """Tell whether an answer contains the gold figures, typed, or, where the gold has none, the gold words.

    Examples
    --------
    >>> sales = Question("Q1", "R05", "¿Cuánto vendió?", "1.472,9 millones de USD", "tabla", True, ())
    >>> contains_typed("Fueron 1.473 millones de dólares", sales), contains_typed("1.472,9 miles de dólares", sales)
    (True, False)
    """
    gold = _required(question, language.locale)
    if not gold:
        wanted, said_words = (set(words(t, stop_words=language.stop_words)) for t in (question.gold_answer, answer))
        return wanted <= said_words
    said = _read(answer, language.locale)
    return all(any(_says(s, g) for s in said) for g in gold)


def faithful_typed(answer: str, context: str, question: Question, *, language: Language = SPANISH) -> bool | float:
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
    if abstains(answer, language=language):
        return nan
    return not _unsupported(answer, context, question, language.locale)


def gold_figure_faults(question: Question, passage_texts: Sequence[str], *, language: Language = SPANISH) -> list[str]:
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
    held = [pair for text in passage_texts for pair in signed(read_with_headers(text, language.locale), text)]
    faults = []
    for figure, free in _required(question, language.locale):
        if not any(agree((figure, free), other) for other in held):
            start, end = figure.span
            near = near_miss(figure, [other for other, _ in held])
            hint = f"the passages hold {spell(near[0])} ({near[1]})" if near else "no passage holds it"
            faults.append(f"{question.id}: gold {question.gold_answer[start:end]!r} is {spell(figure)}; {hint}")
    return faults


def disagreements(rows: Iterable[tuple[Question, str, str]], *, language: Language = SPANISH) -> list[Disagreement]:
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
        pairs: dict[str, tuple[bool | float, bool | float]] = {
            "exact": (exact(answer, question, language=language), exact_typed(answer, question, language=language)),
            "contains": (
                contains_gold(answer, question, language=language),
                contains_typed(answer, question, language=language),
            ),
            "faithful": (
                faithful(answer, context, question, language=language),
                faithful_typed(answer, context, question, language=language),
            ),
        }
        for name, (lesson, typed) in pairs.items():
            if lesson != typed and not (isnan(lesson) and isnan(typed)):
                reason = _reason(name, question, answer, context, language.locale, stricter=bool(lesson))
                found.append(Disagreement(question.id, name, lesson, typed, reason))
    return found


def _says(said: Signed, gold: Signed) -> bool:
    """Tell whether a figure of an answer says a gold one; the year alone does not say a date."""
    vague = gold[0].unit in CALENDAR_UNITS and not str(said[0].value).startswith(str(gold[0].value))
    return agree(gold, said) and not vague


def _read(text: str, locale: Locale) -> list[Signed]:
    return list(signed(read_figures(text, locale), text))


def _required(question: Question, locale: Locale) -> list[Signed]:
    """Return the gold figures, without years and dates if there are others; the question's words carry a sign too."""
    gold = _read(question.gold_answer, locale)
    core = [pair for pair in gold if pair[0].unit not in CALENDAR_UNITS]
    asked = bool(SIGN_WORDS.search(question.text))
    return [(figure, free or asked) for figure, free in core or gold]


def _foreign_to_gold(answer: str, question: Question, locale: Locale) -> list[Figure]:
    gold = _read(question.gold_answer, locale)
    if not gold:
        return []
    asked = [(figure, False) for figure in read_figures(question.text, locale)]
    return _without_support(answer, gold + _required(question, locale) + asked, locale)


def _unsupported(answer: str, context: str, question: Question, locale: Locale) -> list[Figure]:
    held = list(signed(read_with_headers(context, locale), context))
    return _without_support(answer, held + _read(question.text, locale), locale)


def _without_support(answer: str, known: list[Signed], locale: Locale) -> list[Figure]:
    distinct = {(figure._replace(span=(0, 0)), free) for figure, free in known}
    said = _read(answer, locale)
    return [s[0] for s in said if s[0].unit not in CALENDAR_UNITS and not any(agree(s, k) for k in distinct)]


def _reason(measure: str, question: Question, answer: str, context: str, locale: Locale, *, stricter: bool) -> str:
    """Say why the two rules part on one answer."""
    if stricter:
        return _reason_for_no(measure, question, answer, context, locale)
    said = read_figures(answer, locale)
    calendar = {n for f in said if f.unit in CALENDAR_UNITS for n in figures(answer[slice(*f.span)], locale=locale)}
    typed = {n for f in said for n in figures(answer[slice(*f.span)], locale=locale)}
    known = figures(context if measure == "faithful" else question.gold_answer, locale=locale)
    foreign = figures(answer, locale=locale) - known - figures(question.text, locale=locale)
    if measure != "contains" and foreign and foreign <= calendar:
        return "a year or a date is not foreign"
    if foreign - typed:
        return "digits that are no figure: a reference, an ordinal, an identifier"
    return "the same value in another notation, scale or rounding"


def _reason_for_no(measure: str, question: Question, answer: str, context: str, locale: Locale) -> str:
    """Say which figure the typed rule misses, and what comes nearest."""
    pool, asked, pairs = read_figures(answer, locale), read_figures(question.text, locale), _read(answer, locale)
    lost = [g for g, free in _required(question, locale) if not any(_says(s, (g, free)) for s in pairs)]
    if measure == "faithful":
        lost, pool = _unsupported(answer, context, question, locale), read_with_headers(context, locale) + asked
    elif not lost:
        lost, pool = _foreign_to_gold(answer, question, locale), read_figures(question.gold_answer, locale) + asked
    for figure in lost:
        if near := near_miss(figure, pool):
            return f"{near[1]}: {spell(figure)} against {spell(near[0])}"
    return f"no typed figure agrees with {spell(lost[0])}" if lost else "the gold words are not said"
