"""The data contract: documents, passages and questions as three tables."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ragfin import contract
from ragfin.convert import read_folder
from ragfin.language import Language
from ragfin.quotes import QUOTE, QUOTE_ALIAS, resolve_quotes
from ragfin.settings import Settings, SettingsError, load_settings
from ragfin.tables import Fault, Table, find_table, read_table

DATA_VARIABLE = "RAGFIN_DATA"


class CorpusError(ValueError):
    """The tables break the data contract.

    The message has one line for each fault: file, row, what is wrong and the repair. ``faults`` holds the same as
    `ragfin.tables.Fault`. A row is the file's own: the line of a CSV file, whose header is line 1; the record counted
    from 1 in a Parquet file.
    """

    def __init__(self, faults: list[Fault]) -> None:
        self.faults = tuple(faults)
        if len(faults) == 1:
            super().__init__(f"the corpus has a fault: {faults[0]}")
        else:
            super().__init__("\n".join([f"the corpus has {len(faults)} faults:", *(f"  {fault}" for fault in faults)]))

    def __reduce__(self) -> tuple[type["CorpusError"], tuple[list[Fault]]]:
        """Pickle by the faults, so that the error crosses processes."""
        return type(self), (list(self.faults),)


class Passage(NamedTuple):
    """A half-open span ``[start, end)`` of a document's raw text, in code points."""

    id: str
    doc_id: str
    start: int
    end: int


class Question(NamedTuple):
    """One question with its gold answer and gold passages (none when it is unanswerable)."""

    id: str
    doc_id: str
    text: str
    gold_answer: str
    kind: str
    answerable: bool
    gold_passages: tuple[Passage, ...]


@dataclass(frozen=True, eq=False)
class Corpus:
    """Three pandas frames with English column names; iterating gives the questions in file order.

    ``documents`` has ``doc_id, title, text``; ``passages`` has ``passage_id, doc_id, start, end`` (half-open, code
    points); ``questions`` has ``question_id, doc_id, question, gold_answer, kind, answerable, gold_passages`` (ids
    joined by ``;``). Other columns of the files are kept. ``settings`` is what ``ragfin.toml`` beside the tables says;
    without that file, as in the lesson.
    """

    documents: pd.DataFrame
    passages: pd.DataFrame
    questions: pd.DataFrame
    settings: Settings = field(default_factory=Settings)

    @cached_property
    def language(self) -> Language:
        """Stop words, abstention and notation of numbers, by the settings."""
        return self.settings.spoken()

    def question(self, question_id: str) -> Question:
        """Return one question by its id, for example ``"QA105"``.

        Raises
        ------
        KeyError
            No question has this id.
        """
        try:
            return self._by_id[question_id]
        except KeyError:
            known = f"ids run from {min(self._by_id)} to {max(self._by_id)}" if self._by_id else "there are none"
            raise KeyError(f"no question {question_id!r}: {known}") from None

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order."""
        return iter(self._by_id.values())

    def __len__(self) -> int:
        """Return the number of questions."""
        return len(self.questions)

    @cached_property
    def _by_id(self) -> dict[str, Question]:
        passages = {
            passage_id: Passage(passage_id, doc_id, int(start), int(end))
            for passage_id, doc_id, start, end in _records(self.passages, contract.PASSAGES)
        }
        return {
            question_id: Question(
                question_id,
                doc_id,
                text,
                gold,
                kind,
                bool(answerable),
                tuple(passages[i] for i in contract.as_ids(ids)),
            )
            for question_id, doc_id, text, gold, kind, answerable, ids in _records(self.questions, contract.QUESTIONS)
        }


def load_corpus(folder: str | Path | None = None) -> Corpus:
    """Load and check the three tables of a corpus.

    The files are ``documents``, ``passages`` and ``questions``, or the lesson's ``rag6_documentos``, ``rag6_pasajes``
    and ``rag6_preguntas``, each as Parquet, CSV (UTF-8) or JSON Lines, with English or the lesson's Spanish column
    names. Instead of the first there may be a folder ``documents`` of .md, .txt, .html and .pdf files
    (`ragfin.convert`), and passages may have a ``quote`` instead of ``start`` and ``end`` (`ragfin.quotes`).
    ``ragfin.toml`` beside them holds the settings (`ragfin.settings`).

    Parameters
    ----------
    folder : str or Path, optional
        Where the tables are. By default the folder that ``RAGFIN_DATA`` names, else ``data/`` of the checkout, else
        the tables that the installed package carries.

    Returns
    -------
    Corpus
        In file order, with English column names.

    Raises
    ------
    CorpusError
        Everything that breaks the contract, all at once.

    Examples
    --------
    >>> load_corpus("/no/such/folder")
    Traceback (most recent call last):
    ragfin.corpus.CorpusError: the corpus has a fault: /no/such/folder: is not a folder; name the folder of the tables
    """
    folder = find_data(folder)
    settings, unset = _settings(folder)
    contracts = (contract.DOCUMENTS, contract.PASSAGES, contract.QUESTIONS)
    tables = [_read(folder, expected) for expected in contracts]
    texts = _texts(tables[0])
    tables[1] = resolve_quotes(tables[1], texts)
    faults = [[*t.faults, *contract.column_faults(t, c)] for t, c in zip(tables, contracts, strict=True)]
    _, passages, questions = tables

    named = [doc_id for doc_id in tables[0].frame.get("doc_id", ()) if isinstance(doc_id, str)]
    lengths = {doc_id: len(texts[doc_id]) if doc_id in texts else None for doc_id in named}
    passage_ids = frozenset(passages.frame.get("passage_id", pd.Series(dtype=object)).dropna().map(str))
    faults[1] += contract.passage_faults(passages, lengths)
    faults[2] += contract.question_faults(questions, frozenset(lengths), passage_ids, settings.spoken())
    if unset or any(faults):
        raise CorpusError(
            [*unset, *(fault for group in faults for fault in sorted(group, key=lambda fault: fault.row or 0))]
        )
    frames = [contract.typed(table, expected) for table, expected in zip(tables, contracts, strict=True)]
    return Corpus(frames[0], frames[1], frames[2], settings)


def find_data(folder: str | Path | None = None) -> Path:
    """Return the folder of the corpus: the argument, ``RAGFIN_DATA``, the checkout's ``data/``, or the package's.

    Raises
    ------
    CorpusError
        The folder does not exist, or no folder is named and none of the others holds the tables.
    """
    named = folder if folder is not None else os.environ.get(DATA_VARIABLE)
    if named:
        if Path(named).is_dir():
            return Path(named)
        repair = "name the folder of the tables"
        raise CorpusError(
            [Fault(str(named), None, "is not a folder", repair if folder else f"correct {DATA_VARIABLE}")]
        )
    here = Path(__file__).resolve()
    for place in (here.parents[2] / "data", here.parent / "data"):
        if find_table(place, contract.QUESTIONS.stems):
            return place
    repair = f"name the folder of the three tables, or set {DATA_VARIABLE}, or run 'ragfin corpus build' in a checkout"
    raise CorpusError([Fault("data", None, "no corpus found", repair)])


def _read(folder: Path, expected: contract.Contract) -> Table:
    """Read one table of the folder under English names; a missing file is a fault."""
    path = find_table(folder, expected.stems)
    files = folder / expected.stems[0]
    if expected is contract.DOCUMENTS and files.is_dir():
        if path is None:
            return read_folder(files)
        both = Fault(f"{files.name}/", None, f"is there beside {path.name}", "keep one of the two")
        return Table(path.name, pd.DataFrame(), [], [both])
    if path is None:
        name = expected.stems[0] + expected.extension
        repair = f"put it in {folder} ({expected.stems[1]}{expected.extension} also does)"
        return Table(name, pd.DataFrame(), [], [Fault(name, None, "file is missing", repair)])
    table = contract.with_english_names(read_table(path), expected)
    if expected is contract.PASSAGES and QUOTE not in table.frame:
        table = Table(table.file, table.frame.rename(columns={QUOTE_ALIAS: QUOTE}), table.rows, table.faults)
    return table


def _records(frame: pd.DataFrame, expected: contract.Contract) -> Iterator[tuple[Any, ...]]:
    """Yield the contract's columns of a frame, row by row, in the contract's order."""
    return zip(*(frame[name].tolist() for name in expected.columns), strict=True)


def _settings(folder: Path) -> tuple[Settings, tuple[Fault, ...]]:
    """Return the settings of a folder, or the lesson's and what is wrong with its own."""
    try:
        return load_settings(folder), ()
    except SettingsError as error:
        return Settings(), error.faults


def _texts(documents: Table) -> dict[str, str]:
    """Return the text of each document whose id and text can be read."""
    if not {"doc_id", "text"} <= set(documents.frame.columns):
        return {}
    pairs = zip(documents.frame["doc_id"], documents.frame["text"], strict=True)
    return {doc_id: text for doc_id, text in pairs if isinstance(doc_id, str) and isinstance(text, str)}
