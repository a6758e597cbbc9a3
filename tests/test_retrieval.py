import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

import ragfin.retrieval
from ragfin import load_corpus
from ragfin.chunking import Chunk, chunk_corpus
from ragfin.retrieval import BM25Retriever, Hit
from ragfin.text import words


def chunks_of(texts: list[str]) -> list[Chunk]:
    return [Chunk("D", "T", "S", ((i, i + 1),), text) for i, text in enumerate(texts)]


def reference(texts: list[str], questions: list[str]) -> np.ndarray:
    """The straightforward way: a loop over get_scores."""
    bm25 = BM25Okapi([words(text) for text in texts])
    return np.array([bm25.get_scores(words(question)) for question in questions])


@pytest.fixture(params=["together", "one by one"])
def way(request, monkeypatch):
    """Both ways of scoring, whatever the number of chunks."""
    monkeypatch.setattr(ragfin.retrieval, "_SMALL", 2**23 if request.param == "together" else -1)
    return request.param


TEXTS = [
    "Deuda neta de 12 millones",
    "Ventas de 100 millones",
    "Deuda neta de 12 millones",
    "Plantilla: 704 personas y deuda deuda deuda",
    "",
    "de la el",
]
QUESTIONS = ["deuda neta", "deuda deuda neta", "millones", "", "de la", "zzz", "personas ventas zzz deuda"]


@pytest.mark.usefixtures("way")
def test_scores_and_order_are_those_of_rank_bm25_bit_for_bit():
    scores = reference(TEXTS, QUESTIONS)
    retriever = BM25Retriever(chunks_of(TEXTS))
    assert np.array_equal(retriever.scores(QUESTIONS), scores)
    for k in (1, 3, 6):
        for row, hits in zip(scores, retriever.search_many(QUESTIONS, k), strict=True):
            order = np.argsort(-row, kind="stable")[:k]
            assert [(hit.chunk.spans[0][0], hit.score) for hit in hits] == [(i, row[i]) for i in order]


word = st.sampled_from(["deuda", "neta", "ventas", "casa", "millones", "2023", "de", "x"])
sentences = st.lists(word, max_size=9).map(" ".join)


@settings(deadline=None)
@given(st.lists(sentences, min_size=1, max_size=40), st.lists(sentences, max_size=6), st.integers(0, 45))
@pytest.mark.parametrize("small", [2**23, -1])
def test_any_corpus_is_ranked_as_rank_bm25_ranks_it(small, texts, questions, k):
    if not any(words(text) for text in texts):
        texts = [*texts, "algo"]  # rank_bm25 divides by zero without a word
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ragfin.retrieval, "_SMALL", small)
        retriever = BM25Retriever(chunks_of(texts))
        found = retriever.search_many(questions, k)
        scores = reference(texts, questions).reshape(len(questions), len(texts))
        assert np.array_equal(retriever.scores(questions), scores)
    for row, hits in zip(scores, found, strict=True):
        order = np.argsort(-row, kind="stable")[:k]
        assert [hit.chunk.spans[0][0] for hit in hits] == order.tolist()


def test_a_larger_corpus_agrees_in_both_ways(monkeypatch):
    rng = np.random.default_rng(1)
    names = np.array([f"w{i}" for i in range(400)])
    chance = 1 / np.arange(1, 401)
    texts = [" ".join(rng.choice(names, size=30, p=chance / chance.sum())) for _ in range(500)]
    questions = [" ".join(rng.choice(names, size=12, p=chance / chance.sum())) for _ in range(60)]
    expected = reference(texts, questions)
    assert np.array_equal(BM25Retriever(chunks_of(texts)).scores(questions), expected)
    monkeypatch.setattr(ragfin.retrieval, "_SMALL", 0)
    assert np.array_equal(BM25Retriever(chunks_of(texts)).scores(questions), expected)
    monkeypatch.setattr(ragfin.retrieval, "_DENSE_BYTES", 3 * 8 * 500)  # only three words may have a dense row
    assert np.array_equal(BM25Retriever(chunks_of(texts)).scores(questions), expected)


def test_a_term_in_most_chunks_gets_the_floor_of_okapi():
    texts = ["deuda a", "deuda b", "deuda c", "deuda ventas"]
    [row] = BM25Retriever(chunks_of(texts)).scores(["deuda"])
    bm25 = BM25Okapi([words(text) for text in texts])
    assert bm25.idf["deuda"] == 0.25 * bm25.average_idf
    assert row.tolist() == bm25.get_scores(["deuda"]).tolist()


@pytest.mark.usefixtures("way")
def test_ties_come_in_chunk_order():
    texts = ["gas x", "deuda x", "ventas y", "deuda z", "deuda w", "luz a", "sol b", "mar c"]
    hits = BM25Retriever(chunks_of(texts)).search("deuda", k=4)
    assert [hit.chunk.spans[0][0] for hit in hits] == [1, 3, 4, 0]
    assert hits[0].score == hits[1].score == hits[2].score > hits[3].score == 0.0


@pytest.mark.usefixtures("way")
def test_a_question_without_known_words_gets_the_first_chunks_at_zero():
    retriever = BM25Retriever(chunks_of(TEXTS))
    for question in ("", "de la el", "zzz", "¿?"):
        hits = retriever.search(question)
        assert hits == [Hit(chunk, 0.0) for chunk in retriever.chunks[:3]]


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("k", [5, 100])
def test_more_hits_than_chunks_are_all_chunks(k):
    retriever = BM25Retriever(chunks_of(["deuda", "ventas", "gas"]))
    assert [hit.chunk.text for hit in retriever.search("ventas", k)] == ["ventas", "deuda", "gas"]


@pytest.mark.usefixtures("way")
def test_an_empty_corpus_and_a_corpus_without_words_raise_nothing():
    assert BM25Retriever([]).search_many(["deuda", ""]) == [[], []]
    assert BM25Retriever([]).scores(["deuda"]).shape == (1, 0)
    wordless = BM25Retriever(chunks_of(["", "de la", "¿?"]))
    assert [hit.score for hit in wordless.search("deuda de", k=2)] == [0.0, 0.0]


def test_no_questions_give_no_hits():
    retriever = BM25Retriever(chunks_of(["deuda"]))
    assert retriever.search_many([]) == []
    assert retriever.scores([]).shape == (0, 1)


def test_no_hits_can_be_asked_for_but_not_fewer():
    retriever = BM25Retriever(chunks_of(["deuda"]))
    assert retriever.search("deuda", k=0) == []
    with pytest.raises(ValueError, match="k is -1: ask for 0 hits or more"):
        retriever.search("deuda", k=-1)


def test_one_search_is_the_same_as_many(small_corpus):
    retriever = BM25Retriever(chunk_corpus(small_corpus))
    questions = [question.text for question in small_corpus]
    assert [retriever.search(question) for question in questions] == retriever.search_many(questions)
    assert retriever.search_many(questions[::-1]) == retriever.search_many(questions)[::-1]


@pytest.mark.usefixtures("way")
def test_the_projects_own_questions_are_ranked_as_rank_bm25_ranks_them():
    corpus = load_corpus()
    chunks, questions = chunk_corpus(corpus), [question.text for question in corpus]
    scores = reference([chunk.text for chunk in chunks], questions)
    retriever = BM25Retriever(chunks)
    assert np.array_equal(retriever.scores(questions), scores)
    for row, hits in zip(scores, retriever.search_many(questions, 5), strict=True):
        assert [hit.chunk for hit in hits] == [chunks[i] for i in np.argsort(-row, kind="stable")[:5]]
