"""The data contract: documents, passages and questions as three tables (SPEC 1)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pandas as pd


class CorpusError(ValueError):
    """The tables break the data contract; the message lists every fault with file, row and repair."""


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


@dataclass(frozen=True)
class Corpus:
    """Three pandas frames with English column names."""

    documents: pd.DataFrame
    passages: pd.DataFrame
    questions: pd.DataFrame

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
            raise KeyError(
                f"no question {question_id!r}: ids run from {min(self._by_id)} to {max(self._by_id)}"
            ) from None

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions in file order."""
        return iter(self._by_id.values())

    @cached_property
    def _by_id(self) -> dict[str, Question]:
        passages = {
            p.passage_id: Passage(p.passage_id, p.doc_id, int(p.start), int(p.end)) for p in self.passages.itertuples()
        }
        return {
            q.question_id: Question(
                q.question_id,
                q.doc_id,
                q.question,
                q.gold_answer,
                q.kind,
                bool(q.answerable),
                tuple(passages[i] for i in q.gold_passages.split(";") if i),
            )
            for q in self.questions.itertuples()
        }


def load_corpus(folder: str | Path) -> Corpus:
    """Load ``documents.parquet``, ``passages.parquet`` and ``questions.csv`` from a folder."""
    folder = Path(folder)
    return Corpus(
        pd.read_parquet(folder / "documents.parquet"),
        pd.read_parquet(folder / "passages.parquet"),
        pd.read_csv(folder / "questions.csv", dtype={"gold_passages": str}, keep_default_na=False),
    )
