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
    return [word for piece in text.split() for word in _WORDS_OF[piece] if word not in stop_words]


class _WordsOf(dict[str, tuple[str, ...]]):
    """The words of a piece of text without white space; the short ones met first are kept.

    White space neither belongs to a word nor changes what is beside it, so a text can be taken piece by piece.
    """

    def __missing__(self, piece: str) -> tuple[str, ...]:
        lowered = piece.lower()
        if not lowered.isascii():
            decomposed = unicodedata.normalize("NFKD", lowered)
            lowered = "".join(c for c in decomposed if not unicodedata.combining(c))
        found = tuple(_WORD.findall(lowered))
        if len(piece) <= _LONGEST_KEPT and len(self) < _MOST_KEPT:
            self[piece] = found
        return found


_LONGEST_KEPT, _MOST_KEPT = 40, 2**16
_WORDS_OF = _WordsOf()
