"""How an answer went wrong, by rules that code can apply: the catalogue of failures.

Each rule is a function of the answer, its question and the chunks it was made from, and tells what can be seen in the
text. None reads meaning, an answer may show several failures or none, and a failed generation shows none.
"""

import re
from collections.abc import Callable, Sequence
from math import isnan

from ragfin.chunking import Chunk
from ragfin.corpus import Question
from ragfin.evaluation import AnswerLike
from ragfin.figures import CITATION
from ragfin.metrics import abstains, exact, faithful
from ragfin.text import words

HEADER_CHARS = 20
ENGLISH_FUNCTION_WORDS = frozenset(
    "the an of and or is are was were be been in on at to for from with by as not yes it its this that these those "
    "there which what who would will can".split()
)

_FIGURE = r"\d(?:[\d.,]*\d)?"
_UNIT = r"(?:\s?[%€$£]|(?:\s(?:mil|miles|mill[oó]n|millones|de|euros?|d[oó]lar(?:es)?|EUR|USD|toneladas|puntos))+)?"
_OPERATOR = r"(?:\s*[+×*÷=]\s*|\s+[-−/x]\s*)"
_OPERATION = re.compile(rf"(?<![\d.,]){_FIGURE}{_UNIT}{_OPERATOR}[-−+]?{_FIGURE}")


Rule = Callable[[AnswerLike, Question, Sequence[Chunk]], bool]


def has_unfaithful_figure(answer: AnswerLike, question: Question, context: Sequence[Chunk]) -> bool:
    """Tell whether a figure of the answer stands neither in the context nor in the question."""
    return _faithful(answer, question, context) == 0


def has_operator(answer: AnswerLike, question: Question, context: Sequence[Chunk]) -> bool:
    """Tell whether an operator stands between two figures: arithmetic that nobody asked for.

    The first figure may carry a unit. ``+ × * ÷ =`` count anywhere, ``- − / x`` only after white space, so that
    neither ``3-7`` nor ``31/12/2024`` is an operation.

    Examples
    --------
    >>> from ragfin.generation import Answer
    >>> question = Question("Q1", "R01", "¿Cuánto se pagó?", "181,2", "tabla", True, ())
    >>> has_operator(Answer("Q1", "-869,8 -181,2 = -1,047 millones [3].", (3,), "stop"), question, [])
    True
    >>> has_operator(Answer("Q1", "De 2023-2024, un 3 % [1]", (1,), "stop"), question, [])
    False
    """
    return _OPERATION.search(CITATION.sub(" ", answer.text)) is not None


def has_english(answer: AnswerLike, question: Question, context: Sequence[Chunk]) -> bool:
    """Tell whether the answer holds an English function word that neither the context nor the question holds.

    Examples
    --------
    >>> from ragfin.generation import Answer
    >>> question = Question("Q1", "R11", "¿Reparte dividendos?", "Sí, semestral", "texto", True, ())
    >>> has_english(Answer("Q1", "[2] Yes", (2,), "stop"), question, [])
    True
    """
    own = ENGLISH_FUNCTION_WORDS.intersection(words(answer.text, stop_words=frozenset()))
    return bool(own.difference(words(f"{question.text}\n{_read(context)}", stop_words=frozenset())))


def takes_no_for_not_stated(answer: AnswerLike, question: Question, context: Sequence[Chunk]) -> bool:
    """Tell whether the gold answer begins with "no" and the answer says that the documents do not say.

    Examples
    --------
    >>> from ragfin.generation import Answer
    >>> question = Question("Q1", "R01", "¿Incluye los arrendamientos?", "No", "nota_pie", True, ())
    >>> takes_no_for_not_stated(Answer("Q1", "No consta.", (), "stop"), question, [])
    True
    """
    return question.answerable and words(question.gold_answer)[:1] == ["no"] and abstains(answer.text)


def copies_header(answer: AnswerLike, question: Question, context: Sequence[Chunk]) -> bool:
    """Tell whether the answer holds 20 characters or more of a chunk's header, as written there.

    A name that the question holds too counts as well.
    """
    return len(copied_header(answer.text, context)) >= HEADER_CHARS


def is_cut(answer: AnswerLike, question: Question, context: Sequence[Chunk]) -> bool:
    """Tell whether the limit of new tokens cut the answer."""
    return answer.finish == "length"


def is_faithful_but_wrong(answer: AnswerLike, question: Question, context: Sequence[Chunk]) -> bool:
    """Tell whether the answer invents no figure, does not abstain, and is not the gold one.

    Examples
    --------
    >>> from ragfin.generation import Answer
    >>> question = Question("Q1", "R11", "¿Qué TER tiene la clase en libras?", "No consta", "no_respondible", False, ())
    >>> chunk = Chunk("R11", "Folleto", "Gastos", (), "Folleto > Gastos\\n\\nClase A: 0,20 % anual")
    >>> is_faithful_but_wrong(Answer("Q1", "0,20 % anual", (), "stop"), question, [chunk])
    True
    """
    return _faithful(answer, question, context) == 1 and not exact(answer.text, question)


FAILURES: dict[str, Rule] = {
    "unfaithful figure": has_unfaithful_figure,
    "operator between figures": has_operator,
    "English function words": has_english,
    '"no" taken for "not stated"': takes_no_for_not_stated,
    "header copied": copies_header,
    "cut by the token limit": is_cut,
    "faithful but wrong": is_faithful_but_wrong,
}


def failure_labels(answer: AnswerLike, question: Question, context: Sequence[Chunk]) -> tuple[str, ...]:
    """Return the failures that an answer shows, in the order of `FAILURES`.

    Parameters
    ----------
    answer : Answer
        Whatever has ``text`` and ``finish``.
    question : Question
        The question that it answers.
    context : sequence of Chunk
        What the answer was made from; empty for a closed book.

    Returns
    -------
    tuple of str
        Empty when no rule holds, and for a failed generation.

    Examples
    --------
    >>> from ragfin.generation import Answer
    >>> question = Question("Q1", "R01", "¿Qué margen hubo?", "20,5 %", "tabla", True, ())
    >>> chunk = Chunk("R01", "Acme", "Márgenes", (), "Acme > Márgenes\\n\\nMargen | 20,5 %")
    >>> failure_labels(Answer("Q1", "20,5 + 1,5 = 22", (), "length"), question, [chunk])
    ('unfaithful figure', 'operator between figures', 'cut by the token limit')
    """
    if answer.finish == "failed":
        return ()
    return tuple(label for label, shows in FAILURES.items() if shows(answer, question, context))


def copied_header(text: str, context: Sequence[Chunk]) -> str:
    """Return the longest piece of a text, from 20 characters, that is written alike in a chunk's header.

    Returns
    -------
    str
        The first of the longest ones, without white space at its ends; empty when there is none of 20 characters.

    Examples
    --------
    >>> chunk = Chunk("R01", "Acme, S.A. — Informe anual 2023", "Deuda", (), "Acme, S.A. — Informe anual 2023 > Deuda")
    >>> copied_header("[1] Acme, S.A. — Informe anual 2022", [chunk])
    'Acme, S.A. — Informe anual 202'
    """
    longest = ""
    for header in dict.fromkeys(chunk.text.partition("\n\n")[0] for chunk in context):
        for start in range(len(text)):
            end = start + max(len(longest) + 1, HEADER_CHARS)
            while end <= len(text) and text[start:end] in header:
                longest = max(longest, text[start:end].strip(), key=len)
                end += 1
    return longest if len(longest) >= HEADER_CHARS else ""


def _faithful(answer: AnswerLike, question: Question, context: Sequence[Chunk]) -> float:
    """Return 1 or 0, or -1 where faithfulness does not apply."""
    value = float(faithful(answer.text, _read(context), question))
    return -1.0 if isnan(value) else value


def _read(context: Sequence[Chunk]) -> str:
    """Return what the answer was made from, headers included."""
    return "\n".join(chunk.text for chunk in context)
