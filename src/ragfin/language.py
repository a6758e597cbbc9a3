"""What depends on the language of a corpus: words to drop, the phrase that abstains, and how numbers are written.

The prompt depends on it too; those are in `ragfin.prompts`. It does not detect a language: a corpus says its own, in
its ``ragfin.toml``, and Spanish is the lesson's.
"""

from dataclasses import dataclass

from ragfin.figure_digits import Locale
from ragfin.text import SPANISH_STOP_WORDS


@dataclass(frozen=True, slots=True)
class Language:
    """The language of questions, documents and answers.

    ``stop_words`` are written as they come out of `ragfin.text.words` (lower case, no accents). An answer that contains
    ``abstention``, in any case, says that the documents do not say. ``locale`` is the notation of numbers: ``1.234,5``
    in "es", ``1,234.5`` in "en".
    """

    code: str
    stop_words: frozenset[str]
    abstention: str
    locale: Locale

    @property
    def abstaining_answer(self) -> str:
        """What a system answers when it abstains.

        Examples
        --------
        >>> SPANISH.abstaining_answer, ENGLISH.abstaining_answer
        ('No consta.', 'Not stated.')
        """
        return f"{self.abstention[:1].upper()}{self.abstention[1:]}."


SPANISH = Language("es", SPANISH_STOP_WORDS, "no consta", "es")
ENGLISH = Language(
    "en",
    frozenset(
        "the a an of in on at and or to for by with from as is are was were be been has have had it its their this "
        "that these those which what who when where how much many did does do according".split()
    ),
    "not stated",
    "en",
)
LANGUAGES = {language.code: language for language in (SPANISH, ENGLISH)}
