"""The settings of a corpus: one file, ``ragfin.toml``, beside its tables, checked before anything runs.

Without the file, everything is as in the lesson. No key of an endpoint is ever written here: the file names the
environment variable that holds it. What the settings are built into is the business of `ragfin.pipeline`.
"""

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ragfin.language import LANGUAGES, Language
from ragfin.tables import Fault
from ragfin.text import words

SETTINGS_FILE = "ragfin.toml"

Text = Annotated[str, Field(min_length=1)]


class SettingsError(ValueError):
    """``ragfin.toml`` cannot be used; ``faults`` has one entry for each thing that is wrong."""

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(map(str, faults)))


class _Part(BaseModel):
    """A table of the file: unknown keys are refused, nothing is converted, nothing changes afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class LanguageSettings(_Part):
    """``[language]``: a language of `ragfin.language`, and what the corpus has otherwise."""

    base: Literal["es", "en"] = "es"
    stop_words: list[str] | None = None
    abstention: Text | None = None
    number_locale: Literal["es", "en"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        """Take ``language = "en"`` for ``[language]`` with ``base = "en"``."""
        return {"base": value} if isinstance(value, str) else value


class PromptSettings(_Part):
    """``[prompt]``: what the model is told instead of the language's own prompt."""

    system: Text
    question_label: str | None = None
    answer_label: str | None = None


class ModelSettings(_Part):
    """``[model]``: who answers. With ``url`` an endpoint that speaks OpenAI's chat completions, else a local model.

    ``key_variable`` names the environment variable with the endpoint's key; a server of your own needs none. Times are
    in seconds; ``options`` go into each request as they stand, and into the key of the recorded answers.
    """

    name: Text
    url: str | None = None
    key_variable: Text | None = None
    max_tokens: Annotated[int, Field(ge=1)] = 128
    concurrency: Annotated[int, Field(ge=1, le=1024)] = 8
    timeout: Annotated[float, Field(gt=0, strict=False)] = 120.0
    retries: Annotated[int, Field(ge=0, le=20)] = 5
    options: dict[str, Any] = {}

    @field_validator("url")
    @classmethod
    def _is_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{value!r} is no address: write one like http://127.0.0.1:8080/v1")
        if parts.username or parts.password or parts.query:
            raise ValueError("an address with a user, a password or a query: put the key into the environment instead")
        return value.rstrip("/")


class Prices(_Part):
    """``[prices]``: what a million tokens cost, read and written."""

    input: Annotated[float, Field(ge=0, strict=False)]
    output: Annotated[float, Field(ge=0, strict=False)]
    currency: Text = "USD"

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the price of some tokens, in the currency of the prices.

        Examples
        --------
        >>> Prices(input=0.15, output=0.6).cost(2_000_000, 500_000)
        0.6
        """
        return (prompt_tokens * self.input + completion_tokens * self.output) / 1e6


class Settings(_Part):
    """Everything in ``ragfin.toml``; the defaults are the lesson's.

    ``retriever`` is ``bm25``, or ``module:name`` of something that takes the chunks and has ``search``.
    """

    language: LanguageSettings = LanguageSettings()
    k: Annotated[int, Field(ge=1)] = 3
    max_chars: Annotated[int, Field(ge=1)] = 800
    retriever: str = "bm25"
    prompt: PromptSettings | None = None
    model: ModelSettings | None = None
    prices: Prices | None = None

    @field_validator("retriever")
    @classmethod
    def _is_retriever(cls, value: str) -> str:
        if value != "bm25" and not re.fullmatch(r"[\w.]+:[\w.]+", value):
            raise ValueError(f"{value!r}, neither bm25 nor like my_module:MyRetriever")
        return value

    def spoken(self) -> Language:
        """Return the language with what the file changes of it.

        Examples
        --------
        >>> Settings(language="en").spoken().abstention
        'not stated'
        """
        base, given = LANGUAGES[self.language.base], self.language
        stop_words = base.stop_words
        if given.stop_words is not None:
            stop_words = frozenset(word for text in given.stop_words for word in words(text, stop_words=frozenset()))
        return Language(base.code, stop_words, given.abstention or base.abstention, given.number_locale or base.locale)


def load_settings(folder: str | Path) -> Settings:
    """Read ``ragfin.toml`` of a folder.

    Parameters
    ----------
    folder : str or Path
        Where the tables of the corpus are.

    Returns
    -------
    Settings
        The lesson's where there is no such file.

    Raises
    ------
    SettingsError
        It is no TOML, or holds a wrong value or an unknown name: all faults at once.
    """
    path = Path(folder) / SETTINGS_FILE
    if not path.is_file():
        return Settings()
    try:
        table = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError([Fault(SETTINGS_FILE, None, f"cannot be read ({error})", "save it as UTF-8")]) from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([Fault(SETTINGS_FILE, None, f"is no TOML ({error})", "correct it there")]) from None
    try:
        return Settings.model_validate(table)
    except ValidationError as error:
        raise SettingsError([_fault(dict(entry)) for entry in error.errors()]) from None


def _fault(entry: dict[str, Any]) -> Fault:
    """Translate one of pydantic's errors."""
    where = ".".join(str(part) for part in entry["loc"]) or "the file"
    if entry["type"] == "extra_forbidden":
        return Fault(SETTINGS_FILE, None, f"{where} is unknown", "correct the name, or drop the line")
    if entry["type"] == "missing":
        return Fault(SETTINGS_FILE, None, f"{where} is missing", "add it")
    if entry["type"] == "value_error":
        return Fault(SETTINGS_FILE, None, f"{where} is {entry['ctx']['error']}", "correct it")
    told = entry["msg"][:1].lower() + entry["msg"][1:]
    return Fault(SETTINGS_FILE, None, f"{where} is {entry['input']!r:.60}", told)
