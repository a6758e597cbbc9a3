from itertools import permutations
from math import isnan
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragfin import CorpusError, load_corpus
from ragfin.chunking import Chunk, chunk_corpus, chunk_document
from ragfin.corpus import Passage, Question
from ragfin.metrics import (
    COVERED_FROM,
    abstains,
    citation_precision,
    contains_gold,
    coverage,
    exact,
    faithful,
    question_coverage,
)
from ragfin.retrieval import BM25Retriever

DATA = Path(__file__).parents[1] / "data"
GOLD = Passage("R01-p001", "R01", 0, 100)
ODD_ANSWERS = ["", " \n\t", "x" * 10_000, "9" * 10_000, "1.472,9 " * 1_250, "7", "[1]", "[1][99]", "[0]", "[", "\ud800"]


def chunk(*spans, doc_id="R01"):
    return Chunk(doc_id, "Título", "Sección", spans, "Título > Sección\n\ntexto")


def question(gold="20,5 %", text="¿Qué margen hubo en 2023?", *, answerable=True, passages=(GOLD,)):
    return Question("QA001", "R01", text, gold, "texto", answerable, passages if answerable else ())


MARGIN = question()
UNANSWERABLE = question("No consta", answerable=False)

# Coverage


def test_overlapping_chunks_count_once():
    assert coverage([chunk((0, 60)), chunk((40, 100))], GOLD) == 1.0


def test_the_covered_characters_are_those_of_the_union_over_the_passage_s_length():
    assert coverage([chunk((10, 30)), chunk((20, 40)), chunk((90, 300))], GOLD) == (30 + 10) / 100


def test_touching_is_not_overlapping():
    assert coverage([chunk((0, 10))], Passage("p", "R01", 10, 20)) == 0.0
    assert coverage([chunk((20, 30))], Passage("p", "R01", 10, 20)) == 0.0


@pytest.mark.parametrize("span", [(100, 120), (150, 300)])
def test_a_chunk_behind_the_passage_takes_nothing_away(span):
    assert coverage([chunk(span)], GOLD) == 0.0
    assert coverage([chunk((0, 60)), chunk(span)], GOLD) == 0.6


def test_a_chunk_before_the_passage_adds_nothing():
    assert coverage([chunk((0, 40))], Passage("p", "R01", 50, 60)) == 0.0
    assert coverage([chunk((0, 40)), chunk((50, 55))], Passage("p", "R01", 50, 60)) == 0.5


def test_a_chunk_of_several_spans_covers_with_all_of_them():
    assert coverage([chunk((0, 30), (70, 100))], GOLD) == 0.6


def test_a_chunk_of_another_document_covers_nothing():
    assert coverage([chunk((0, 100), doc_id="R02")], GOLD) == 0.0


def test_without_chunks_nothing_is_covered():
    assert coverage([], GOLD) == 0.0


@pytest.mark.parametrize("passage", [Passage("p", "R01", 5, 5), Passage("p", "R01", 9, 3)])
def test_an_empty_or_reversed_passage_is_refused(passage):
    with pytest.raises(ValueError, match="it must hold a character"):
        coverage([chunk((0, 10))], passage)


@pytest.mark.parametrize(("start", "end"), [(5, 5), (9, 3)])
def test_an_empty_or_reversed_passage_is_refused_at_load(small_tables, loaded, start, end):
    small_tables["passages"].loc[0, ["start", "end"]] = [start, end]
    with pytest.raises(CorpusError, match=r"passages.parquet, row 1: span"):
        loaded(small_tables)


spans = st.tuples(st.integers(0, 60), st.integers(1, 30)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(st.lists(spans, min_size=1, max_size=3), max_size=5), spans, st.randoms(use_true_random=False))
def test_coverage_is_the_share_of_the_passage_s_characters_in_any_order_of_chunks(all_spans, passage_span, random):
    passage = Passage("p", "R01", *passage_span)
    chunks = [chunk(*some) for some in all_spans]
    inside = set(range(*passage_span)) & {i for some in all_spans for span in some for i in range(*span)}
    random.shuffle(chunks)
    assert coverage(chunks, passage) == len(inside) / (passage.end - passage.start)


def test_exactly_half_is_covered_and_a_character_less_is_not():
    assert COVERED_FROM == 0.5
    assert question_coverage([chunk((0, 50))], MARGIN) == 1.0
    assert question_coverage([chunk((0, 49))], MARGIN) == 0.0
    assert citation_precision([chunk((50, 100)), chunk((51, 100))], MARGIN) == 0.5


def test_a_question_s_coverage_is_the_share_of_its_gold_passages_that_all_chunks_cover_together():
    both = question(passages=(GOLD, Passage("R02-p001", "R02", 0, 10)))
    assert question_coverage([chunk((0, 30)), chunk((30, 60))], both) == 0.5
    assert question_coverage([chunk((0, 60)), chunk((0, 5), doc_id="R02")], both) == 1.0
    assert question_coverage([], both) == 0.0


def test_coverage_does_not_apply_to_a_question_without_gold_passages():
    assert isnan(question_coverage([chunk((0, 100))], UNANSWERABLE))


def test_a_text_that_repeats_in_a_document_is_covered_only_where_the_chunk_is():
    paragraph = "El Consejo aprobó las cuentas. " * 20
    text = f"# T\n\n## A\n\n{paragraph}\n\n## B\n\n{paragraph}"
    first, second = chunk_document("R01", "T", text)
    start = text.rindex(paragraph)
    last = Passage("p", "R01", start, start + len(paragraph))
    assert text[slice(*first.spans[0])].strip() == text[slice(*second.spans[0])].strip()
    assert (coverage([first], last), coverage([second], last)) == (0.0, 1.0)


@pytest.mark.parametrize("before", ["😀𝛼", "e\u0301", "uno\r\ndos\r", "\u2028\u0085"])
def test_offsets_are_code_points_whatever_stands_before_the_passage(before):
    text = f"# T\n\n{before}\n\n## B\n\n| a | b |\n\nDeuda: 3."
    start = text.index("| a | b |")
    covering = [c for c in chunk_document("R01", "T", text) if c.body == "| a | b |"]
    assert len(covering) == 1
    assert coverage(covering, Passage("p", "R01", start, start + 9)) == 1.0
    assert text[start : start + 9] == "| a | b |"


def test_the_order_of_chunks_and_of_questions_changes_nothing(small_corpus):
    chunks = chunk_corpus(small_corpus)
    questions = [q for q in small_corpus if q.answerable]
    want = {q.id: question_coverage(chunks[:4], q) for q in questions}
    for some in permutations(chunks[:4]):
        assert {q.id: question_coverage(some, q) for q in reversed(questions)} == want


def shuffled_coverage(corpus, seeds, k=3):
    """Return the mean coverage with the right gold passages, with shuffled ones, and by chance."""
    questions = [q for q in corpus if q.answerable]
    chunks = chunk_corpus(corpus)
    found = BM25Retriever(chunks).search_many([q.text for q in questions], k=k)
    hits = [[hit.chunk for hit in some] for some in found]
    mean = np.mean([question_coverage(some, q) for some, q in zip(hits, questions, strict=True)])
    shuffled = []
    for seed in seeds:
        order = np.random.default_rng(seed).permutation(len(questions))
        shuffled += [question_coverage(some, questions[i]) for some, i in zip(hits, order, strict=True)]
    return mean, np.mean(shuffled)


def test_shuffled_gold_passages_bring_coverage_to_chance():
    blocks = {f"R{i:02d}": f"# T{i}\n\n## S\n\n| empresa{i} | magnitud{i} | {i} |" for i in range(40)}
    chunks = [c for doc_id, text in blocks.items() for c in chunk_document(doc_id, doc_id, text)]
    golds = [Passage(f"{c.doc_id}-p", c.doc_id, *c.spans[0]) for c in chunks]
    found = BM25Retriever(chunks).search_many([f"magnitud{i} empresa{i}" for i in range(40)], k=3)
    cases = [question(passages=(gold,)) for gold in golds]
    hits = [[hit.chunk for hit in some] for some in found]
    assert np.mean([question_coverage(some, case) for some, case in zip(hits, cases, strict=True)]) == 1.0
    chance = 3 / 40
    drawn = [
        question_coverage(some, cases[i])
        for seed in range(20)
        for some, i in zip(hits, np.random.default_rng(seed).permutation(40), strict=True)
    ]
    assert np.mean(drawn) == pytest.approx(chance, abs=3 * np.sqrt(chance * (1 - chance) / len(drawn)))


@pytest.mark.skipif(
    not (DATA / "documents.parquet").exists(), reason="the corpus is not built: run ragfin corpus build"
)
def test_shuffled_gold_passages_bring_the_corpus_s_coverage_down_too():
    right, shuffled = shuffled_coverage(load_corpus(DATA), range(5))
    assert right > 0.8
    assert shuffled < 0.1


# Accuracy


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("20,5 %", True),
        ("20.5%", True),
        ("En 2023, el 20,5 % [2].", True),  # 2023 is the question's own figure
        ("20,5 % frente al 19,8 %", False),  # one figure too many
        ("20,5 puntos en 2022", False),
        ("19,8 %", False),
        ("20,5 % (1)", False),  # (1) is no citation: its digit is a figure
        ("20,5 % [1, 2]", False),
        ("20,5 % [1-3]", False),
        ("20,5 % [1", False),
        ("20,5 % [99] [0]", True),
        ("20,5 %. [1][2]", True),
        ("No consta: 20,5 %", False),
        ("", False),
    ],
)
def test_an_answer_is_exact_with_the_gold_figures_and_no_others_but_the_question_s(answer, right):
    assert exact(answer, MARGIN) is right


def test_without_gold_figures_the_gold_words_must_be_in_the_answer_accents_and_case_aside():
    twice = question("Sí, semestral", "¿Reparte dividendos la clase A?")
    assert exact("SI: con periodicidad semestral [1]", twice)
    assert not exact("Sí", twice)
    assert not exact("Sí, semestrales", twice)


def test_no_is_an_answer_and_not_an_abstention():
    no = question("No", "¿Incluye la deuda los arrendamientos?")
    assert not abstains("No")
    assert exact("No, no los incluye.", no)
    assert not exact("No consta.", no)
    assert contains_gold("No consta.", no)  # a blind spot: it holds the word


def test_an_unanswerable_question_wants_an_abstention_and_nothing_else():
    assert exact("No consta.", UNANSWERABLE)
    assert not exact("20,5 %", UNANSWERABLE)
    assert not exact("", UNANSWERABLE)


def test_an_answer_contains_the_gold_among_whatever_else_it_says():
    assert contains_gold("20,5 % frente al 19,8 %", MARGIN)
    assert not contains_gold("19,8 %", MARGIN)
    assert contains_gold("No consta: 20,5 %", MARGIN)  # it does not look at abstention


def test_the_answer_to_another_question_is_not_exact(small_corpus):
    questions = [q for q in small_corpus if q.answerable]
    right = [exact(q.gold_answer, q) for q in questions]
    others = [exact(questions[i - 1].gold_answer, q) for i, q in enumerate(questions)]
    assert all(right)
    assert not any(others)


# Faithfulness


def test_every_figure_of_a_faithful_answer_is_in_the_context_or_the_question():
    context = "Povdo > Segmentos\n\n| Internacional | 1.472,9 | 20,5 % |"
    assert faithful("En 2023, 20,5 % de 1472,9 [3]", context, MARGIN) is True
    assert faithful("20,5 % de 1.500", context, MARGIN) is False
    assert faithful("20,5 % (1)", context, MARGIN) is False


def test_a_figure_of_the_chunk_s_header_counts_as_context():
    assert faithful("2019", "Informe anual 2019 > Deuda\n\ntexto", MARGIN) is True


def test_an_answer_without_figures_is_faithful_which_is_a_blind_spot():
    assert faithful("Creció muchísimo.", "", MARGIN) is True


@pytest.mark.parametrize("answer", ["No consta.", "NO CONSTA", "No consta: 99,9 % [1]"])
def test_an_abstention_has_no_faithfulness(answer):
    assert isnan(faithful(answer, "", MARGIN))


def test_faithful_does_not_mean_that_it_answers_the_question():
    ter = question("No consta", "¿Qué TER tiene la clase cubierta a libra?", answerable=False)
    assert faithful("0,20 % anual", "Clase A: 0,20 % anual", ter) is True
    assert not exact("0,20 % anual", ter)


# Citation


def test_citation_precision_is_the_share_of_cited_chunks_that_cover_a_gold_passage():
    assert citation_precision([chunk((0, 80)), chunk((90, 200)), chunk((200, 300))], MARGIN) == pytest.approx(1 / 3)


def test_a_chunk_cited_twice_weighs_twice():
    right, wrong = chunk((0, 80)), chunk((200, 300))
    assert citation_precision([right, right, wrong], MARGIN) == pytest.approx(2 / 3)


def test_a_chunk_must_cover_a_gold_passage_by_itself():
    assert citation_precision([chunk((0, 40)), chunk((40, 80))], MARGIN) == 0.0


def test_citing_nothing_and_citing_for_an_unanswerable_question_do_not_apply():
    assert isnan(citation_precision([], MARGIN))
    assert isnan(citation_precision([chunk((0, 80))], UNANSWERABLE))


def test_the_top_chunk_as_the_answer_scores_high_on_citation_and_low_on_exactness(small_corpus):
    questions = [small_corpus.question(i) for i in ("QA001", "QA002", "QA003", "QA004", "QA007")]
    chunks = chunk_corpus(small_corpus)
    tops = [BM25Retriever(chunks).search(q.text, k=1)[0].chunk for q in questions]
    citation = np.mean([citation_precision([top], q) for top, q in zip(tops, questions, strict=True)])
    whole = np.mean([exact(top.body, q) for top, q in zip(tops, questions, strict=True)])
    assert citation >= 0.8
    assert whole <= 0.2


# Abstention


@pytest.mark.parametrize(
    "answer",
    [
        "No consta.",
        "no consta",
        "NO CONSTA",
        "«No consta.»",
        '"No consta"',
        "**No consta.**",
        "No consta. [1]",
        "[2] No consta.",
        "No consta. Los fragmentos hablan de otra clase.",
        "En los fragmentos no consta la calificación.",
        "no consta en 2022, pero en 2023 fueron 5 M€",  # a near miss: the rule's documented blind spot
    ],
)
def test_what_contains_no_consta_abstains(answer):
    assert abstains(answer)
    assert exact(answer, UNANSWERABLE)
    assert not exact(answer, MARGIN)


@pytest.mark.parametrize(
    "answer", ["No", "No.", "No se indica", "Consta", "No  consta", "noconsta", "", "No hay constancia"]
)
def test_what_does_not_say_no_consta_does_not_abstain(answer):
    assert not abstains(answer)


# Nothing raises


@pytest.mark.parametrize("answer", ODD_ANSWERS)
@pytest.mark.parametrize("case", [MARGIN, UNANSWERABLE, question("No"), question("")])
def test_an_odd_answer_raises_nothing(answer, case):
    assert isinstance(exact(answer, case), bool)
    assert isinstance(contains_gold(answer, case), bool)
    assert faithful(answer, answer, case) is True
    assert abstains(answer) is False


@given(st.text(), st.text(), st.text(), st.booleans())
def test_no_text_makes_a_metric_raise(answer, gold, text, answerable):
    case = question(gold, text, answerable=answerable)
    right = exact(answer, case)
    assert right in (True, False)
    assert contains_gold(answer, case) in (True, False)
    score = faithful(answer, text, case)
    assert isnan(score) == abstains(answer)
    if right and answerable:
        assert contains_gold(answer, case)
        assert not abstains(answer)


@given(st.text())
def test_an_answer_that_repeats_its_context_is_faithful(answer):
    score = faithful(answer, answer, MARGIN)
    assert score is True or abstains(answer)
