"""Words as the retriever and the word-based metrics see them.

The rule is the lesson's: lower case, no accents, runs of word characters, no stop words.
It does not stem, lemmatise or segment compounds.
"""

import re
import unicodedata

SPANISH_STOP_WORDS = frozenset(
    "de la el en y a los las del que se por con un una para es al lo su sus o como fue "
    "cual cuanto cuantos cuales segun".split()
)

_WORD = re.compile(r"\w+")


class _WithoutMarks(dict[int, int | None]):
    """A table for `str.translate` that drops combining marks, filled as characters are met."""

    def __missing__(self, code: int) -> int | None:
        self[code] = None if unicodedata.combining(chr(code)) else code
        return self[code]


_WITHOUT_MARKS = _WithoutMarks()


def words(text: str, *, stop_words: frozenset[str] = SPANISH_STOP_WORDS) -> list[str]:
    """Return the words of a text, in order, without accents and stop words.

    Parameters
    ----------
    text : str
        Any text; none raises.
    stop_words : frozenset of str, optional
        Words to drop, written as they come out of the normalisation (lower case, no accents).
        The default is the lesson's Spanish list.

    Returns
    -------
    list of str
        Lower-case words, repeated as often as they occur; empty for a text without words.

    Source
    ------
    The lesson's ``palabras``.

    Examples
    --------
    >>> words("¿Cuál fue la deuda financiera según el Informe?")
    ['deuda', 'financiera', 'informe']
    """
    lowered = text.lower()
    if not lowered.isascii():
        lowered = unicodedata.normalize("NFKD", lowered).translate(_WITHOUT_MARKS)
    return [word for word in _WORD.findall(lowered) if word not in stop_words]
