"""BM25 over the words of the chunk texts: the lesson's retriever, many questions at once.

The model is `rank_bm25.BM25Okapi` with its defaults, formula by formula, so the scores are its scores bit for bit.
What differs is that the weight of every term in every chunk is computed once, into a sparse matrix, and that a question
adds up the rows of its words. It has no index on disk and no other variant of BM25.
"""

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from ragfin.chunking import Chunk
from ragfin.text import SPANISH_STOP_WORDS, words

K1, B, EPSILON = 1.5, 0.75, 0.25  # the defaults of rank_bm25.BM25Okapi

Scores = NDArray[np.float64]

_SMALL = 2**23  # up to so many weights, zeros included, a corpus is kept as a dense matrix too (64 MiB)
_TOGETHER = 2**14  # scores of so many chunks are added up together: they stay in the processor's cache
_FREQUENT = 1 / 8  # a word in more than this share of the chunks is added as a dense row
_DENSE_BYTES = 256 * 2**20  # at most, for the dense rows of frequent words
_ROUNDS = 32  # up to this k, the best are taken one by one instead of sorting all chunks


class Hit(NamedTuple):
    """A chunk with its score for one question."""

    chunk: Chunk
    score: float


class Retriever(Protocol):
    """Whatever has ``search`` can be measured."""

    def search(self, question: str, k: int = 3) -> list[Hit]:
        """Return the k best chunks of one question, best first."""
        ...


class BM25Retriever:
    """Rank chunks by BM25 over the words of their texts, header included; ties in chunk order.

    Parameters
    ----------
    chunks : sequence of Chunk
        What is searched; may be empty.
    stop_words : frozenset of str, optional
        Words that count nothing, as in `ragfin.text.words`; the lesson's Spanish ones unless told.

    Source
    ------
    `rank_bm25.BM25Okapi` with its defaults (k1 1.5, b 0.75, epsilon 0.25); the lesson's ``buscar``.

    Examples
    --------
    >>> texts = ["Deuda > 2023\\n\\nDeuda neta de 12 millones.", "Ventas > 2023\\n\\nVentas de 100 millones.",
    ...          "Plantilla > 2023\\n\\nHay 704 personas."]
    >>> retriever = BM25Retriever([Chunk("R01", "", "", (), text) for text in texts])
    >>> [(hit.chunk.body, round(hit.score, 3)) for hit in retriever.search("¿Cuál es la deuda neta?", k=1)]
    [('Deuda neta de 12 millones.', 1.185)]
    """

    def __init__(self, chunks: Sequence[Chunk], *, stop_words: frozenset[str] = SPANISH_STOP_WORDS) -> None:
        self.chunks = list(chunks)
        self.stop_words = stop_words
        self._terms, self._weights = _term_weights(words(chunk.text, stop_words=stop_words) for chunk in self.chunks)

    def search(self, question: str, k: int = 3) -> list[Hit]:
        """Return the k best chunks of one question, best first; all of them when there are fewer."""
        return self.search_many([question], k)[0]

    def search_many(self, questions: Sequence[str], k: int = 3) -> list[list[Hit]]:
        """Return the k best chunks of each question, best first.

        Parameters
        ----------
        questions : sequence of str
            Any texts; a question without a known word scores 0 everywhere and gets the first k chunks.
        k : int, optional
            3 as in the lesson.

        Returns
        -------
        list of list of Hit
            One list per question, in order, of min(k, number of chunks) hits.

        Raises
        ------
        ValueError
            k is negative.
        """
        if k < 0:
            raise ValueError(f"k is {k}: ask for 0 hits or more")
        found = []
        for scores in self._score(questions):
            for order, best in zip(*_best(scores, k), strict=True):
                hits = zip(order.tolist(), best.tolist(), strict=True)
                found.append([Hit(self.chunks[i], score) for i, score in hits])
        return found

    def scores(self, questions: Sequence[str]) -> Scores:
        """Return the score of every chunk for every question: float64, shape (n_questions, n_chunks)."""
        scored = [scores.copy() for scores in self._score(questions)]
        return np.concatenate(scored) if scored else np.zeros((0, len(self.chunks)))

    def _score(self, questions: Sequence[str]) -> Iterator[Scores]:
        """Yield scores of the questions, some rows at a time; a row may be overwritten by the next ones."""
        asked = [
            [term for word in words(text, stop_words=self.stop_words) if (term := self._terms.get(word)) is not None]
            for text in questions
        ]
        n_terms, n_chunks = self._weights.shape
        if not 0 < n_terms * n_chunks <= _SMALL:
            yield from self._score_one_by_one(asked)
            return
        rows = max(1, _TOGETHER // n_chunks)
        for start in range(0, len(asked), rows):
            yield self._score_together(asked[start : start + rows])

    def _score_together(self, asked: Sequence[Sequence[int]]) -> Scores:
        """Return the scores of questions given as terms: the first word of all, then the second of all, and so on."""
        longest_first = sorted(range(len(asked)), key=lambda i: -len(asked[i]))
        scores = np.zeros((len(asked), len(self.chunks)))
        added = np.empty_like(scores)
        active = len(asked)
        for position in range(len(asked[longest_first[0]])):
            while len(asked[longest_first[active - 1]]) <= position:
                active -= 1
            terms = [asked[i][position] for i in longest_first[:active]]
            np.take(self._dense, terms, axis=0, out=added[:active], mode="clip")
            scores[:active] += added[:active]
        added[longest_first] = scores
        return added

    @cached_property
    def _dense(self) -> Scores:
        """The weights of a small corpus with their zeros."""
        dense: Scores = self._weights.toarray()
        return dense

    def _score_one_by_one(self, asked: Sequence[Sequence[int]]) -> Iterator[Scores]:
        """Yield the scores of each question: a frequent word adds a dense row, any other its own chunks."""
        dense = self._dense_rows(asked)
        start, chunk_of, weight = self._weights.indptr.tolist(), self._weights.indices, self._weights.data
        scores = np.zeros((1, len(self.chunks)))
        for terms in asked:
            scores.fill(0)
            row = scores[0]
            for term in terms:
                if term in dense:
                    np.add(row, dense[term], out=row)
                else:
                    row[chunk_of[start[term] : start[term + 1]]] += weight[start[term] : start[term + 1]]
            yield scores

    def _dense_rows(self, asked: Sequence[Sequence[int]]) -> dict[int, Scores]:
        """Return dense rows of the frequent words that are asked more than once, within the memory for them."""
        n = len(self.chunks)
        used = Counter(chain.from_iterable(asked))
        size = np.diff(self._weights.indptr)
        frequent = [term for term, count in used.most_common() if count > 1 and size[term] > n * _FREQUENT]
        frequent = frequent[: _DENSE_BYTES // (8 * max(1, n))]
        return dict(zip(frequent, self._weights[frequent].toarray(), strict=True))


def _term_weights(texts: Iterable[Sequence[str]]) -> tuple[dict[str, int], Any]:
    """Return the number of each term, and the weight of each term in each chunk, shape (n_terms, n_chunks).

    A weight is what `BM25Okapi.get_scores` adds for one word of a query. Terms are numbered as they first appear.
    """
    terms: defaultdict[str, int] = defaultdict()
    terms.default_factory = terms.__len__
    ids, ends = array("i"), array("q", [0])
    for text in texts:
        ids.extend(map(terms.__getitem__, text))
        ends.append(len(ids))
    terms.default_factory = None
    n_chunks = len(ends) - 1
    if not terms:
        return {}, csr_array((0, n_chunks))
    numbers = np.frombuffer(ids, dtype=np.int32)
    boundaries = np.frombuffer(ends, dtype=np.int64)
    ones = np.ones(len(numbers), dtype=np.int32)
    counts = csr_array((ones, numbers, boundaries), shape=(n_chunks, len(terms))).tocsc()
    counts.sum_duplicates()
    return dict(terms), _weigh(counts, np.diff(boundaries))


def _weigh(counts: Any, length: NDArray[np.int64]) -> Any:
    """Return BM25Okapi's weights from its counts of terms (n_chunks, n_terms) and its lengths of chunks."""
    n_chunks = len(length)
    idf = _idf(np.diff(counts.indptr), n_chunks)
    frequency = counts.data
    mean_length = int(length.sum()) / n_chunks
    saturation = K1 * (1 - B + B * length / mean_length)
    weight = frequency * (K1 + 1) / (frequency + saturation[counts.indices])
    weight *= np.repeat(idf, np.diff(counts.indptr))
    return csc_array((weight, counts.indices, counts.indptr), shape=counts.shape).T


def _idf(n_holding: NDArray[np.int64], n_chunks: int) -> Scores:
    """Return the inverse document frequency of each term, with BM25Okapi's floor where it would be negative.

    The logarithms and the order of the sum are those of BM25Okapi, so that the last bit is the same.
    """
    logarithm = {n: math.log(n_chunks - n + 0.5) - math.log(n + 0.5) for n in set(n_holding.tolist())}
    idf = np.array([logarithm[n] for n in n_holding.tolist()])
    mean = float(np.add.accumulate(idf)[-1]) / len(idf)
    return np.where(idf < 0, EPSILON * mean, idf)


def _best(scores: Scores, k: int) -> tuple[NDArray[np.int64], Scores]:
    """Return columns and scores of the k best of each row, best first, ties in column order; scores may be spoilt."""
    k = min(k, scores.shape[1])
    if k > _ROUNDS:
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return order, np.take_along_axis(scores, order, axis=1)
    rows = np.arange(len(scores))
    order, best = np.empty((len(scores), k), dtype=np.int64), np.empty((len(scores), k))
    for i in range(k):
        order[:, i] = scores.argmax(axis=1)
        best[:, i] = scores[rows, order[:, i]]
        scores[rows, order[:, i]] = -np.inf
    return order, best
