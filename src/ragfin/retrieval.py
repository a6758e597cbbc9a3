"""BM25 over the words of the chunk texts (SPEC 3)."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from rank_bm25 import BM25Okapi

from ragfin.chunking import Chunk
from ragfin.text import words


class Hit(NamedTuple):
    """A chunk with its score for one question."""

    chunk: Chunk
    score: float


class Retriever(Protocol):
    """Whatever has ``search`` can be measured."""

    def search(self, question: str, k: int = 3) -> list[Hit]: ...


class BM25Retriever:
    """Rank chunks by `rank_bm25.BM25Okapi` with its defaults, ties in chunk order."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = list(chunks)
        self._bm25 = BM25Okapi([words(chunk.text) for chunk in self.chunks])

    def search(self, question: str, k: int = 3) -> list[Hit]:
        """Return the k best chunks, best first."""
        return self.search_many([question], k)[0]

    def search_many(self, questions: Sequence[str], k: int = 3) -> list[list[Hit]]:
        """Return the k best chunks of each question."""
        found = []
        for question in questions:
            scores = self._bm25.get_scores(words(question))
            order = np.argsort(-scores, kind="stable")[:k]
            found.append([Hit(self.chunks[i], float(scores[i])) for i in order])
        return found
