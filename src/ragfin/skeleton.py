"""The skeleton of a corpus of your own: three tables with two example rows each, settings, and what every column means.

`ragfin init` writes it. It is a whole corpus: every command runs on it before anything is changed.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ragfin.contract import DOCUMENTS, PASSAGES, QUESTIONS
from ragfin.language import LANGUAGES
from ragfin.quotes import QUOTE
from ragfin.settings import SETTINGS_FILE


class _Example(NamedTuple):
    """The two rows of each table in one language."""

    titles: tuple[str, str]
    texts: tuple[str, str]
    quote: str
    answer: tuple[str, str, str]  # question, gold answer, kind
    silence: tuple[str, str]  # question, kind


_EXAMPLES = {
    "es": _Example(
        ("Aceros Lumbre, S.A. — Informe anual 2023", "Aceros Lumbre, S.A. — Informe anual 2022"),
        (
            "# Aceros Lumbre, S.A. — Informe anual 2023\n\n## Deuda\n\n"
            "La deuda financiera neta era de 312,4 millones de euros al cierre de 2023.\n\n"
            "## Plantilla\n\nLa compañía empleaba a 704 personas.\n",
            "# Aceros Lumbre, S.A. — Informe anual 2022\n\n## Plantilla\n\nLa compañía empleaba a 688 personas.\n",
        ),
        "La deuda financiera neta era de 312,4 millones de euros al cierre de 2023.",
        ("¿Qué deuda financiera neta tenía Aceros Lumbre al cierre de 2023?", "312,4 millones de euros", "texto"),
        ("¿Qué calificación crediticia tiene Aceros Lumbre?", "no_respondible"),
    ),
    "en": _Example(
        ("Lumbre Steel plc — Annual report 2023", "Lumbre Steel plc — Annual report 2022"),
        (
            "# Lumbre Steel plc — Annual report 2023\n\n## Debt\n\n"
            "Net financial debt was £1,312.4 million at the end of 2023.\n\n"
            "## Staff\n\nThe company employed 704 people.\n",
            "# Lumbre Steel plc — Annual report 2022\n\n## Staff\n\nThe company employed 688 people.\n",
        ),
        "Net financial debt was £1,312.4 million at the end of 2023.",
        ("What was the net financial debt of Lumbre Steel at the end of 2023?", "£1,312.4 million", "text"),
        ("What is the credit rating of Lumbre Steel?", "unanswerable"),
    ),
}

_README = """# A corpus to measure

Three tables and a file of settings. All are UTF-8; a table may be `.csv`, `.parquet` or `.jsonl`. Each holds two
example rows: replace them by yours, then run `ragfin corpus check .` here. It names every fault with its file and row.

## documents

| column | what it holds |
|---|---|
| `doc_id` | a short id of your own, such as `R01` |
| `title` | shown above every chunk; name the company, the kind of report and the year |
| `text` | the text, best in light Markdown: `#` title, `##` sections, blank lines between paragraphs, pipe tables |

Instead of this table there may be a folder `documents` of `.md`, `.txt`, `.html` and `.pdf` files: a document's id is
then its file's name without the ending. PDF and HTML are converted each time (`pip install 'ragfin[convert]'`); to
convert once and keep the text, call the folder something else and run `ragfin corpus convert filings .`

## passages

The places where answers stand: the gold. Give a passage in one of two ways.

| column | what it holds |
|---|---|
| `passage_id` | a short id of your own |
| `doc_id` | the document it lies in |
| `start`, `end` | where it begins and ends, counted in characters (code points) of `text`, the end not included |
| `quote` | or its text, copied from the document; it must occur there once (line breaks and spaces aside) |

## questions

| column | what it holds |
|---|---|
| `question_id` | a short id of your own |
| `doc_id` | the document that it is about |
| `question` | name company, measure and year, as a reader would |
| `gold_answer` | the right answer; figures with their unit; "{abstention}" when the documents do not say |
| `kind` | any word of your own; rates are reported by it |
| `answerable` | `True`, or `False` when the documents do not say |
| `gold_passages` | ids of the passages that hold the answer, joined by `;`; empty when there is none |

Ask some questions that the documents do not answer: without them nobody learns whether a system knows when to be
silent. Figures of a gold answer must stand in its passages, except for the kinds `calculo`, `comparacion`,
`calculation` and `comparison`, whose figures follow from them.

## {settings}

Language, number of chunks, model, prices. What is not there is as in the lesson. No key belongs into it.
"""

_SETTINGS = """# How this corpus is measured. Lines that begin with # show the default, or an example.

language = "{code}"  # stop words, abstention, notation of numbers, prompt: "es" or "en"
# k = 3  # chunks that a model is given
# max_chars = 800  # longest chunk of merged paragraphs, in characters
# retriever = "bm25"  # or "my_module:MyRetriever", built from the chunks, with search(question, k)

# Instead of language = "{code}":
# [language]
# base = "{code}"
# stop_words = ["the", "of"]
# abstention = "{abstention}"  # an answer that contains it says that the documents do not say
# number_locale = "{locale}"  # "es": 1.234,5   "en": 1,234.5

# [prompt]
# system = "You are ..."
# question_label = "Question: "
# answer_label = "Answer:"

# [model]
# name = "qwen2.5-7b-instruct"
# url = "http://127.0.0.1:8080/v1"  # an OpenAI-compatible server: vLLM, llama.cpp, Ollama. Without it, a local model
# key_variable = "MY_KEY"  # the environment variable that holds the key, where one is needed
# max_tokens = 128
# concurrency = 8  # questions open at once
# timeout = 120.0  # seconds for one attempt
# retries = 5

# [prices]  # of a million tokens
# input = 0.15
# output = 0.60
# currency = "USD"
"""


def write_skeleton(folder: str | Path, language: str = "es") -> list[Path]:
    """Write the skeleton of a corpus.

    Parameters
    ----------
    folder : str or Path
        Made where it does not exist.
    language : {"es", "en"}, optional
        Of the example rows and the settings.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    ValueError
        An unknown language, or a file that is there already: nothing is overwritten, nothing is written.
    """
    if language not in _EXAMPLES:
        raise ValueError(
            f"language {language!r} is not one of {', '.join(_EXAMPLES)}: take one, and change its settings"
        )
    folder, example, spoken = Path(folder), _EXAMPLES[language], LANGUAGES[language]
    silence = spoken.abstaining_answer.rstrip(".")
    second = example.texts[1]
    start = second.rindex("\n\n") + 2
    files = {
        "README.md": _README.format(abstention=silence, settings=SETTINGS_FILE),
        SETTINGS_FILE: _SETTINGS.format(code=language, abstention=spoken.abstention, locale=spoken.locale),
        "documents.csv": _csv(
            DOCUMENTS.columns, [(f"R0{n}", example.titles[n - 1], example.texts[n - 1]) for n in (1, 2)]
        ),
        "passages.csv": _csv(
            [*PASSAGES.columns, QUOTE],
            [("R01-p01", "R01", "", "", example.quote), ("R02-p01", "R02", start, len(second) - 1, "")],
        ),
        "questions.csv": _csv(
            QUESTIONS.columns,
            [
                ("Q001", "R01", *example.answer, True, "R01-p01"),
                ("Q002", "R01", example.silence[0], silence, example.silence[1], False, ""),
            ],
        ),
    }
    paths = [folder / name for name in files]
    if there := [path.name for path in paths if path.exists()]:
        raise ValueError(f"{folder} already holds {', '.join(there)}: name a new folder; nothing was written")
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in zip(paths, files.values(), strict=True):
        path.write_text(text, encoding="utf-8", newline="\n")
    return paths


def _csv(header: Iterable[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as CSV."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerows([list(header), *rows])
    return stream.getvalue()
