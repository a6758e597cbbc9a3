"""The five measures, each deterministic and each on its own.

| link | question it answers | function |
|---|---|---|
| coverage | did the retriever bring the gold passages? | `coverage`, `question_coverage` |
| accuracy | is the answer exactly the gold one, or does it contain it? | `exact`, `contains_gold` |
| faithfulness | is every figure of the answer in the context or the question? | `faithful` |
| citation | do the cited chunks cover a gold passage? | `citation_precision` |
| abstention | does the answer say that the documents do not say? | `abstains` |

Not applicable is ``nan``. None of them reads meaning: an answer without figures is faithful.
"""

from collections.abc import Iterable, Sequence
from math import nan

from ragfin.chunking import Chunk
from ragfin.corpus import Passage, Question
from ragfin.figures import figures
from ragfin.language import SPANISH, Language
from ragfin.text import words

COVERED_FROM = 0.5


def coverage(chunks: Iterable[Chunk], passage: Passage) -> float:
    """Return the fraction of a passage's characters that lie in the chunks.

    Parameters
    ----------
    chunks : iterable of Chunk
        Any order; overlapping spans count once; chunks of other documents count nothing.
    passage : Passage
        Half-open span in code points of its document, not empty.

    Returns
    -------
    float
        Between 0 and 1; 0.0 without chunks. A passage counts as covered from 0.5, inclusive.

    Raises
    ------
    ValueError
        The passage is empty or reversed; `ragfin.load_corpus` lets none in.

    Source
    ------
    The lesson's ``cubierta``.

    Examples
    --------
    >>> left = Chunk("R01", "", "", ((0, 60),), "")
    >>> right = Chunk("R01", "", "", ((40, 100),), "")
    >>> coverage([right, left], Passage("R01-p001", "R01", 0, 100))
    1.0
    """
    if passage.start >= passage.end:
        raise ValueError(f"passage {passage.id!r} is [{passage.start}, {passage.end}): it must hold a character")
    spans = sorted(
        (max(start, passage.start), min(end, passage.end))
        for chunk in chunks
        if chunk.doc_id == passage.doc_id
        for start, end in chunk.spans
    )
    inside, reached = 0, passage.start
    for start, end in spans:
        inside += max(end - max(start, reached), 0)
        reached = max(end, reached)
    return inside / (passage.end - passage.start)


def question_coverage(chunks: Sequence[Chunk], question: Question) -> float:
    """Return the fraction of a question's gold passages that the chunks cover together.

    Returns
    -------
    float
        Between 0 and 1; nan when the question has no gold passage.
    """
    if not question.gold_passages:
        return nan
    covered = [coverage(chunks, passage) >= COVERED_FROM for passage in question.gold_passages]
    return sum(covered) / len(covered)


def abstains(answer: str, *, language: Language = SPANISH) -> bool:
    """Tell whether an answer says that the documents do not say: it contains "no consta", in any case.

    Another language has its own phrase.

    Source
    ------
    The lesson's ``calla``. Blind spot: "no consta en 2022, pero en 2023 fueron 5 M€" abstains too.

    Examples
    --------
    >>> abstains("No consta."), abstains("No")
    (True, False)
    """
    return language.abstention.lower() in answer.lower()


def exact(answer: str, question: Question, *, language: Language = SPANISH) -> bool:
    """Tell whether an answer is exactly the gold one.

    An unanswerable question wants an abstention. An answerable one wants no abstention and, where the gold
    holds figures, those figures and no others but the question's own; without figures in the gold, all its words.

    Parameters
    ----------
    answer : str
        The text of the answer; any string.
    question : Question
        Its ``gold_answer``, ``text`` and ``answerable`` are read.
    language : Language, optional
        Its stop words, abstention and notation of numbers.

    Returns
    -------
    bool

    Source
    ------
    The lesson's ``exacta``.

    Examples
    --------
    >>> margin = Question("Q1", "R05", "¿Qué margen hubo en 2023?", "20,5 %", "tabla", True, ())
    >>> exact("En 2023, 20,5% [1]", margin), exact("20,5 % frente al 19,8 %", margin)
    (True, False)
    """
    silent = abstains(answer, language=language)
    if silent or not question.answerable:
        return silent and not question.answerable
    locale = language.locale
    gold = figures(question.gold_answer, locale=locale)
    if gold:
        return gold <= figures(answer, locale=locale) <= gold | figures(question.text, locale=locale)
    return _says_gold_words(answer, question, language)


def contains_gold(answer: str, question: Question, *, language: Language = SPANISH) -> bool:
    """Tell whether an answer contains the gold figures or, where the gold has none, the gold words.

    Source
    ------
    The lesson's ``contiene``. Blind spot: it does not look at abstention, so "No consta." contains the gold "No".

    Examples
    --------
    >>> margin = Question("Q1", "R05", "¿Qué margen hubo en 2023?", "20,5 %", "tabla", True, ())
    >>> contains_gold("20,5 % frente al 19,8 %", margin)
    True
    """
    gold = figures(question.gold_answer, locale=language.locale)
    if gold:
        return gold <= figures(answer, locale=language.locale)
    return _says_gold_words(answer, question, language)


def faithful(answer: str, context: str, question: Question, *, language: Language = SPANISH) -> bool | float:
    """Tell whether every figure of an answer is in the context or the question.

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

    Source
    ------
    The lesson's ``fiel``.

    Examples
    --------
    >>> margin = Question("Q1", "R05", "¿Qué margen hubo en 2023?", "20,5 %", "tabla", True, ())
    >>> faithful("20,5 % [1]", "Margen | 20,5 %", margin), faithful("21 %", "Margen | 20,5 %", margin)
    (True, False)
    """
    if abstains(answer, language=language):
        return nan
    said, read, asked = (figures(text, locale=language.locale) for text in (answer, context, question.text))
    return said <= read | asked


def citation_precision(cited_chunks: Sequence[Chunk], question: Question) -> float:
    """Return the fraction of the cited chunks that cover some gold passage.

    Parameters
    ----------
    cited_chunks : sequence of Chunk
        One entry per citation; a chunk cited twice stands twice.
    question : Question
        Its ``gold_passages`` are read.

    Returns
    -------
    float
        Between 0 and 1; nan when nothing is cited or the question is unanswerable.

    Source
    ------
    The lesson's ``citas_correctas``.
    """
    if not cited_chunks or not question.answerable:
        return nan
    right = [
        any(coverage([chunk], passage) >= COVERED_FROM for passage in question.gold_passages) for chunk in cited_chunks
    ]
    return sum(right) / len(right)


def _says_gold_words(answer: str, question: Question, language: Language) -> bool:
    """Tell whether all the words of the gold are among those of the answer."""
    gold, said = (set(words(text, stop_words=language.stop_words)) for text in (question.gold_answer, answer))
    return gold <= said
