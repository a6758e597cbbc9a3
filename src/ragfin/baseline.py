"""The extractive baseline: the best chunk, its best line, and the first figure of that line.

It invents nothing and reads nothing: a lone table row loses its column header.
"""

import re

from ragfin.chunking import Chunk
from ragfin.figures import CITATION, FIGURE_TOKEN
from ragfin.text import SPANISH_STOP_WORDS, words

_PIECE_END = re.compile(r"\n|(?<=\.) ")
_ASKS_FOR_FIGURE = ("¿Cuánto", "¿Cuál", "¿Qué porcentaje")
_YEAR = re.compile(r"20\d\d")


def best_line(chunk: Chunk, question_text: str, *, stop_words: frozenset[str] = SPANISH_STOP_WORDS) -> str:
    """Return the line of a chunk's body that shares most distinct words with the question.

    The body is split at newlines and after a period that a space follows.

    Parameters
    ----------
    chunk : Chunk
        Usually the best hit.
    question_text : str
        The question as asked.
    stop_words : frozenset of str, optional
        Words that are not counted, as in `ragfin.text.words`.

    Returns
    -------
    str
        The line as it stands in the body, the first one on a tie; ``""`` for a body of white space.

    Source
    ------
    The lesson's ``mejor_linea``.

    Examples
    --------
    >>> chunk = Chunk("R01", "T", "S", (), "T > S\\n\\nVentas: 10. Deuda neta: 4.")
    >>> best_line(chunk, "¿Cuál es la deuda?")
    'Deuda neta: 4.'
    """
    asked = set(words(question_text, stop_words=stop_words))
    lines = [piece for piece in _PIECE_END.split(chunk.body) if piece.strip()]
    return max(lines, key=lambda line: len(asked.intersection(words(line, stop_words=stop_words))), default="")


def first_figure(chunk: Chunk, question_text: str) -> str:
    """Return only the first figure of the best line, as written, if the question asks for a figure.

    A line without ``|`` is first cut to what follows its first colon. Citations ``[n]`` do not count; a year
    20xx is skipped where another figure stands.

    Parameters
    ----------
    chunk : Chunk
        Usually the best hit.
    question_text : str
        Asks for a figure when it starts with "¿Cuánto", "¿Cuál" or "¿Qué porcentaje".

    Returns
    -------
    str
        A figure token, or the cut line when no figure is asked for or found.

    Source
    ------
    The lesson's ``primera_cifra``.

    Examples
    --------
    >>> chunk = Chunk("R01", "T", "S", (), "T > S\\n\\nDeuda neta en 2023: 4,5 millones.")
    >>> first_figure(chunk, "¿Cuál es la deuda?")
    '4,5'
    """
    line = best_line(chunk, question_text)
    if "|" not in line and ":" in line:
        line = line.partition(":")[2]
    if not question_text.startswith(_ASKS_FOR_FIGURE):
        return line
    tokens = FIGURE_TOKEN.findall(CITATION.sub(" ", line))
    others = [token for token in tokens if not _YEAR.fullmatch(token)]
    return str((others or tokens or [line])[0])
