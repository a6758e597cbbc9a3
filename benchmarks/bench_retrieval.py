"""Compare retrievers: a loop over BM25Okapi.get_scores, bm25s with both back ends, and ours, words included.

First the project's own corpus with all its questions in one call. Then 100,000 chunks of 60 words from a Zipf
vocabulary and 263 questions of 14 such words. Every contender runs in a process of its own, over the same texts, so
that its peak memory is its own; times are the best of several runs, and the ratios are of times measured in this run.
The loop is timed on every tenth question of the large corpus and scaled up; its scores and order are compared with
ours.

bm25s computes a close variant of the scores (method "atire", without BM25Okapi's floor), so only its speed is compared;
its numba back end is compiled before it is timed. Nothing is asserted here: the numbers are printed.
"""

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from ragfin.chunking import Chunk, chunk_corpus
from ragfin.corpus import load_corpus
from ragfin.retrieval import BM25Retriever, Hit
from ragfin.text import words

K = 3
N_CHUNKS, CHUNK_WORDS, N_QUESTIONS, QUESTION_WORDS, VOCABULARY = 100_000, 60, 263, 14, 50_000
TENTH = 10
LOOP = "loop over get_scores"
RUNS = {"corpus": 25, "zipf": 5}


class Result(NamedTuple):
    """Seconds to index and to answer all questions, MiB at most and of the input, best hits of every tenth question."""

    index: float
    search: float
    peak: float
    given: float
    hits: list[list[tuple[int, float]]]


def zipf_texts(n: int, length: int, seed: int) -> list[str]:
    """Return texts of words drawn with a chance of 1/rank."""
    chance = 1 / np.arange(1, VOCABULARY + 1)
    chance /= chance.sum()
    names, draw, texts = [f"w{rank}" for rank in range(VOCABULARY)], np.random.default_rng(seed), list[str]()
    while len(texts) < n:  # little by little, so that the peak memory before the index is that of the texts
        ranks = draw.choice(VOCABULARY, size=(min(1000, n - len(texts)), length), p=chance)
        texts += [" ".join(names[rank] for rank in row) for row in ranks.tolist()]
    return texts


def ragfin_retriever(texts: Sequence[str]) -> Callable[[Sequence[str]], Any]:
    retriever = BM25Retriever([Chunk("", "", "", ((i, i + 1),), text) for i, text in enumerate(texts)])
    return lambda questions: retriever.search_many(questions, K)


def okapi_loop(texts: Sequence[str]) -> Callable[[Sequence[str]], Any]:
    from rank_bm25 import BM25Okapi

    bm25 = BM25Okapi([words(text) for text in texts])

    def search(questions: Sequence[str]) -> Any:
        found = []
        for question in questions:
            scores = bm25.get_scores(words(question))
            order = np.argsort(-scores, kind="stable")[:K]
            found.append([(int(i), float(scores[i])) for i in order])
        return found

    return search


def bm25s_retriever(backend: str) -> Callable[[Sequence[str]], Callable[[Sequence[str]], Any]]:
    def build(texts: Sequence[str]) -> Callable[[Sequence[str]], Any]:
        import bm25s

        retriever = bm25s.BM25(method="atire", k1=1.5, b=0.75, backend=backend)
        retriever.index(bm25s.tokenize(list(texts), stopwords=None, show_progress=False), show_progress=False)

        def search(questions: Sequence[str]) -> Any:
            tokens = bm25s.tokenize(list(questions), stopwords=None, show_progress=False)
            retriever.retrieve(tokens, k=K, show_progress=False)
            return []

        return search

    return build


CONTENDERS: dict[str, Callable[[Sequence[str]], Callable[[Sequence[str]], Any]]] = {
    LOOP: okapi_loop,
    "bm25s, numpy": bm25s_retriever("numpy"),
    "bm25s, numba": bm25s_retriever("numba"),
    "ragfin": ragfin_retriever,
}


def best_of(runs: int, action: Callable[[], Any]) -> tuple[float, Any]:
    seconds, value = float("inf"), None
    for _ in range(runs):
        start = time.perf_counter()
        value = action()
        seconds = min(seconds, time.perf_counter() - start)
    return seconds, value


def measure(name: str, source: str) -> Result:
    """Build and search in this process; meant to be called in a fresh one."""
    texts, questions = inputs(source)
    given = peak_mib()
    runs = RUNS[source]
    is_sampled = name == LOOP and source == "zipf"
    asked = questions[::TENTH] if is_sampled else questions
    index, search = best_of(min(runs, 3), lambda: CONTENDERS[name](texts))
    search(asked[:TENTH])  # whatever is compiled or cached is so before it is timed
    seconds, found = best_of(1 if is_sampled else runs, lambda: search(asked))
    tenth = found if is_sampled else found[::TENTH]
    hits = [[(hit.chunk.spans[0][0], hit.score) if isinstance(hit, Hit) else hit for hit in row] for row in tenth]
    return Result(index, seconds * len(questions) / len(asked), peak_mib(), given, hits)


def inputs(source: str) -> tuple[list[str], list[str]]:
    """Return the texts of the chunks and the questions."""
    if source == "zipf":
        return zipf_texts(N_CHUNKS, CHUNK_WORDS, 0), zipf_texts(N_QUESTIONS, QUESTION_WORDS, 1)
    corpus = load_corpus()
    return [chunk.text for chunk in chunk_corpus(corpus)], [question.text for question in corpus]


def peak_mib() -> float:
    """Return the largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def compare(source: str, title: str) -> Table:
    """Measure all contenders, one process each, and return a table."""
    context = multiprocessing.get_context("spawn")
    results = {}
    for name in CONTENDERS:
        with ProcessPoolExecutor(1, mp_context=context) as process:
            results[name] = process.submit(measure, name, source).result()
    loop, ours = results[LOOP], results["ragfin"]
    table = Table("retriever", "index s", "index / ragfin", "search s", "search / ragfin", "peak MiB", title=title)
    for name, result in results.items():
        table.add_row(
            name,
            f"{result.index:.3f}",
            f"{result.index / ours.index:.2f}",
            f"{result.search:.4f}",
            f"{result.search / ours.search:.1f}",
            f"{result.peak:.0f} (input {result.given:.0f})",
        )
    pairs = [(a, b) for x, y in zip(loop.hits, ours.hits, strict=True) for a, b in zip(x, y, strict=True)]
    same = all(a[0] == b[0] for a, b in pairs)
    apart = max(abs(a[1] - b[1]) for a, b in pairs)
    table.caption = (
        f"{len(loop.hits)} questions compared with the loop: order {'equal' if same else 'DIFFERS'}, "
        f"largest difference of scores {apart:g}"
    )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--small", action="store_true", help="only the project's own corpus")
    arguments = parser.parse_args()
    console = Console(width=110)
    packages = ("rank-bm25", "bm25s", "numba", "numpy", "scipy")
    console.print("Retrieval with " + ", ".join(f"{name} {version(name)}" for name in packages))
    texts, questions = inputs("corpus")
    console.print(compare("corpus", f"The corpus: {len(texts)} chunks, {len(questions)} questions"))
    if not arguments.small:
        console.print(compare("zipf", f"Zipf words: {N_CHUNKS:,} chunks, {N_QUESTIONS} questions"))


if __name__ == "__main__":
    main()
