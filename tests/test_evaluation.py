import json
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from math import inf, isnan, nan

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from ragfin.chunking import Chunk, chunk_corpus
from ragfin.corpus import Corpus, Passage, Question
from ragfin.evaluation import (
    LINKS,
    MEASURES,
    abstention,
    auc,
    baseline_report,
    baseline_rows,
    compare_pairs,
    comparison,
    comparison_table,
    corpus_report,
    cross_validated_threshold,
    evaluate,
    evaluate_baseline,
    failed_link,
    failures_by_link,
    gold_faults,
    lesson_sample,
    median_threshold,
    summarize,
)
from ragfin.generation import Answer, Request
from ragfin.retrieval import BM25Retriever


@dataclass(frozen=True)
class Said:
    question_id: str
    text: str
    cited: tuple[int, ...] = ()
    finish: str = "stop"


GOLD = Passage("D-p001", "D", 0, 10)
ASKED = Question("Q1", "D", "¿Qué margen hubo en 2023?", "20,5 %", "tabla", True, (GOLD,))
NOT_STATED = Question("Q2", "D", "¿Qué rating tiene?", "No consta", "no_respondible", False, ())
RIGHT = Chunk("D", "T", "S", ((0, 10),), "T > S\n\nMargen: 20,5 %")
WRONG = Chunk("D", "T", "S", ((20, 30),), "T > S\n\nMargen: 7 %")


def row(question: Question, text: str, context: Sequence[Chunk], cited=(), finish="stop") -> pd.Series:
    rows = evaluate([question], [Said(question.id, text, cited, finish)], {question.id: context})
    return rows.iloc[0]


@pytest.mark.parametrize(
    ("question", "text", "context", "cited", "finish", "link"),
    [
        (ASKED, "20,5 % [1]", [RIGHT, WRONG], (1,), "stop", "none"),
        (ASKED, "20,5 % [2][1]", [RIGHT, WRONG], (2, 1), "stop", "none"),
        (ASKED, "20,5 % [2]", [RIGHT, WRONG], (2,), "stop", "citation"),
        (ASKED, "20,5 %", [RIGHT, WRONG], (), "stop", "citation"),
        (ASKED, "20,5 % [1]", [WRONG], (1,), "stop", "citation"),
        (ASKED, "7 % [1]", [WRONG], (1,), "stop", "retriever"),
        (ASKED, "No consta.", [WRONG], (), "stop", "retriever"),
        (ASKED, "No consta.", [RIGHT], (), "stop", "wrong_abstention"),
        (ASKED, "21 % [1]", [RIGHT], (1,), "stop", "invented_figure"),
        (ASKED, "7 % [2]", [RIGHT, WRONG], (2,), "stop", "reading"),
        (ASKED, "Sube [1]", [RIGHT], (1,), "stop", "reading"),
        (NOT_STATED, "No consta.", [WRONG], (), "stop", "none"),
        (NOT_STATED, "A+ [1]", [WRONG], (1,), "stop", "missed_abstention"),
        (ASKED, "", [RIGHT], (), "failed", "failed"),
        (NOT_STATED, "", [WRONG], (), "failed", "failed"),
    ],
)
def test_the_first_link_that_broke_is_named(question, text, context, cited, finish, link):
    assert row(question, text, context, cited, finish).failed_link == link


def test_failed_link_knows_every_link_and_no_other():
    flags = [False, True]
    seen = {
        failed_link(answerable=a, exact=b, abstains=c, faithful=d, coverage=e, citation=f, failed=g)
        for a in flags
        for b in flags
        for c in flags
        for d in flags
        for e in (0.0, 0.5, 1.0, nan)
        for f in (0.0, 0.5, nan)
        for g in flags
    }
    assert seen == set(LINKS)


def test_a_row_keeps_the_measures_apart():
    found = row(ASKED, "20,5 % y no 7 % [1][2]", [RIGHT, WRONG], (1, 2))
    assert found[list(MEASURES)].to_dict() == pytest.approx(
        {
            "coverage": 1.0,
            "exact": 0.0,  # 7 is neither in the gold nor in the question
            "contains_gold": 1.0,
            "chunk": nan,
            "faithful": 1.0,
            "citation": 0.5,
            "cites": 1.0,
            "abstains": 0.0,
        },
        nan_ok=True,
    )
    assert (found.question_id, found.kind, found.answerable, found.cited) == ("Q1", "tabla", True, (1, 2))


def test_an_abstention_has_no_faithfulness_and_cites_nothing():
    found = row(ASKED, "No consta en los fragmentos [1].", [RIGHT], (1,))
    assert isnan(found.faithful)
    assert isnan(found.citation)
    assert found.cites == 0
    assert found.abstains == 1
    assert found.exact == 0


def test_not_is_an_answer_and_not_an_abstention():
    question = ASKED._replace(gold_answer="No")
    assert row(question, "No [1].", [RIGHT], (1,)).failed_link == "none"
    silent = row(question, "No consta.", [RIGHT])
    assert (silent.exact, silent.contains_gold, silent.failed_link) == (0, 1, "wrong_abstention")


def test_what_does_not_apply_to_an_unanswerable_question_is_not_a_number():
    found = row(NOT_STATED, "A+ [1]", [WRONG], (1,))
    assert [name for name in MEASURES if isnan(found[name])] == [
        "coverage",
        "contains_gold",
        "chunk",
        "citation",
        "cites",
    ]
    assert found.faithful == 1


def test_a_failed_generation_is_neither_wrong_nor_an_abstention():
    rows = evaluate(
        [ASKED, NOT_STATED],
        [Said("Q1", "", (), "failed"), Said("Q2", "", (), "failed")],
        {"Q1": [RIGHT], "Q2": [WRONG]},
    )
    assert [name for name in MEASURES if rows[name].notna().any()] == ["coverage"]
    summary = summarize(rows).set_index("measure")
    assert summary.loc["exact", ["n", "n_not_applicable", "n_failed"]].tolist() == [0, 0, 2]
    assert summary.loc["coverage", ["n", "n_not_applicable", "n_failed"]].tolist() == [1, 0, 1]
    assert abstention(rows).n_failed == 2
    assert abstention(rows)[:4] == (0, 0, 0, 0)


def test_a_number_beyond_the_context_cites_nothing():
    found = row(ASKED, "20,5 % [9][0]", [RIGHT], (9, 0))
    assert found.cites == 0
    assert isnan(found.citation)


def test_figures_of_the_question_and_the_header_are_no_inventions():
    header = Chunk("D", "Informe 2022", "S", ((0, 10),), "Informe 2022 > S\n\nMargen: 20,5 %")
    assert row(ASKED, "En 2022 y 2023, 20,5 %", [header]).faithful == 1
    assert row(ASKED, "En 2021, 20,5 %", [header]).faithful == 0


@pytest.mark.parametrize("text", ["", " ", "9" * 400, "[1]", "a" * 10_000, "1,2,3.4.5", "[99999999999]", "\ud800"])
def test_odd_answers_raise_nothing(text):
    found = row(ASKED, text, [RIGHT], (1,))
    assert found.failed_link in LINKS
    assert found.exact == 0


def test_answers_to_unknown_questions_and_two_answers_to_one_are_refused():
    with pytest.raises(ValueError, match="an answer to 'Q7', which is not asked here"):
        evaluate([ASKED], [Said("Q7", "x")], {})
    with pytest.raises(ValueError, match="'Q1' is answered twice"):
        evaluate([ASKED], [Said("Q1", "x"), Said("Q1", "y")], {})


def test_no_answers_give_no_rows_but_all_columns():
    rows = evaluate([ASKED], [], {})
    assert len(rows) == 0
    assert set(MEASURES) < set(rows.columns)
    assert summarize(rows)["n"].tolist() == [0] * len(MEASURES)


@pytest.fixture
def answered(small_corpus: Corpus):
    """Answers of several kinds to the small corpus, with what was retrieved for them."""
    found = BM25Retriever(chunk_corpus(small_corpus)).search_many([q.text for q in small_corpus], k=3)
    contexts = {q.id: [hit.chunk for hit in hits] for q, hits in zip(small_corpus, found, strict=True)}
    texts = [
        "20,5 % [1]",
        "312,4 millones",
        "No consta.",
        "704 [2]",
        "16",
        "No consta.",
        "Sí, semestral [1]",
        "0,20 % [1]",
    ]
    cited = [(1,), (), (), (2,), (), (), (1,), (1,)]
    answers = [Said(q.id, text, c) for q, text, c in zip(small_corpus, texts, cited, strict=True)]
    return small_corpus, answers, contexts


@pytest.mark.parametrize("pool", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_an_executor_gives_the_same_rows(answered, pool):
    corpus, answers, contexts = answered
    expected = evaluate(corpus, answers, contexts, system="s")
    with pool(max_workers=2) as executor:
        found = evaluate(corpus, answers, contexts, system="s", executor=executor, block=3)
    pd.testing.assert_frame_equal(found, expected)


def test_the_order_of_questions_and_answers_changes_nothing_in_a_row(answered):
    corpus, answers, contexts = answered
    expected = evaluate(corpus, answers, contexts).set_index("question_id")
    found = evaluate(list(corpus)[::-1], answers[::-1], contexts).set_index("question_id")
    pd.testing.assert_frame_equal(found.loc[expected.index], expected)


def test_each_rate_says_how_many_questions_it_is_over(answered):
    corpus, answers, contexts = answered
    rows = evaluate(corpus, answers, contexts, system="s")
    summary = summarize(rows).set_index("measure")
    assert (summary["n"] + summary["n_not_applicable"] + summary["n_failed"] == len(rows)).all()
    exact = summary.loc["exact"]
    assert (exact.n, exact["mean"]) == (8, rows["exact"].mean())
    low, high = proportion_confint(rows["exact"].sum(), 8, method="wilson")
    assert (exact.low, exact.high) == pytest.approx((low, high), abs=1e-4)
    assert not exact.approximate
    assert isnan(exact.boot_low)
    assert summary.loc["faithful", ["n", "n_not_applicable"]].tolist() == [6, 2]
    coverage = summary.loc["coverage"]
    assert coverage.approximate == (((rows["coverage"] > 0) & (rows["coverage"] < 1)).any())


def test_means_of_fractions_are_flagged_and_bootstrapped():
    answers = [Said(f"Q{i}", "x", (1, 2) if i % 2 else (1,)) for i in range(8)]
    questions = [ASKED._replace(id=f"Q{i}") for i in range(8)]
    summary = summarize(evaluate(questions, answers, {q.id: [RIGHT, WRONG] for q in questions})).set_index("measure")
    assert summary.loc["citation", "mean"] == 0.75
    assert summary.loc["citation", "approximate"]
    assert 0.5 <= summary.loc["citation", "boot_low"] < 0.75 < summary.loc["citation", "boot_high"] <= 1


def test_rates_by_kind_and_system(answered):
    corpus, answers, contexts = answered
    rows = pd.concat([evaluate(corpus, answers, contexts, system="s"), evaluate_baseline(corpus)])
    summary = summarize(rows, by=["system", "kind"]).set_index(["system", "kind", "measure"])
    assert summary.loc[("s", "texto", "exact"), ["mean", "n"]].tolist() == [1, 2]
    assert summary.loc[("extraction", "no_respondible", "coverage"), "n_not_applicable"] == 2
    assert list(summarize(rows, by="system")["measure"]) == [*MEASURES, *MEASURES]
    counts = failures_by_link(rows)
    assert list(counts.columns) == list(LINKS)
    assert counts.sum(axis=1).tolist() == [8, 8]


def test_the_confusion_table_of_abstaining(answered):
    corpus, answers, contexts = answered
    table = abstention(evaluate(corpus, answers, contexts))
    assert table[:5] == (1, 1, 1, 5, 0)
    assert table.recall[:1] + table.recall[3:] == (0.5, 2)
    assert table.precision[:1] + table.precision[3:] == (0.5, 2)
    assert table.false_abstention.mean == pytest.approx(1 / 6)
    assert table.accuracy_answered.mean == pytest.approx(5 / 6)  # all but the answer to an unanswerable question


def test_citations_that_are_none_are_counted_apart():
    request = Request("Q1", (), 1)
    answer = Answer.parse(request, "20,5 % [9] (1) [1, 2]", "length")
    found = evaluate([ASKED], [answer], {"Q1": [RIGHT]}).iloc[0]
    assert (found.n_out_of_range, found.n_malformed, found.finish) == (1, 2, "length")
    assert found.cites == 0


# Negative controls


def test_shuffled_gold_passages_bring_coverage_down(small_corpus):
    answerable = [question for question in small_corpus if question.answerable]
    chunks = chunk_corpus(small_corpus)
    gold = [question.gold_passages for question in answerable]
    shuffled = gold[3:] + gold[:3]
    contexts = {
        q.id: [hit.chunk for hit in hits]
        for q, hits in zip(
            answerable, BM25Retriever(chunks).search_many([q.text for q in answerable], k=1), strict=True
        )
    }
    said = [Said(q.id, "x", (1,)) for q in answerable]
    right = evaluate(answerable, said, contexts)
    controls = [q._replace(gold_passages=g) for q, g in zip(answerable, shuffled, strict=True)]
    wrong = evaluate(controls, said, contexts)
    assert right["coverage"].mean() > 0.7
    assert wrong["coverage"].mean() < 0.3
    assert wrong["citation"].mean() < right["citation"].mean()


def test_the_answer_of_another_question_is_wrong(small_corpus):
    golds = [question.gold_answer for question in small_corpus]
    others = golds[3:] + golds[:3]
    said = [Said(q.id, text) for q, text in zip(small_corpus, others, strict=True)]
    assert evaluate(small_corpus, said, {})["exact"].sum() == 0


def test_the_top_chunk_as_the_answer_cites_well_and_is_not_exact(small_corpus):
    chunks = chunk_corpus(small_corpus)
    questions = [question for question in small_corpus if question.kind in {"tabla", "texto_y_nota"}]
    found = BM25Retriever(chunks).search_many([q.text for q in questions], k=1)
    contexts = {q.id: [hit.chunk for hit in hits] for q, hits in zip(questions, found, strict=True)}
    rows = evaluate(questions, [Said(q.id, contexts[q.id][0].body, (1,)) for q in questions], contexts)
    assert rows["citation"].tolist() == rows["faithful"].tolist() == rows["contains_gold"].tolist() == [1.0, 1.0]
    assert rows["exact"].tolist() == [0.0, 0.0]


# The extractive baseline


def test_the_report_has_the_agreed_keys_and_is_json(small_corpus):
    report = baseline_report(small_corpus)
    assert list(report) == (
        "n_chunks n_questions n_unanswerable coverage chunk line line_exact citation auc threshold "
        "abstains_unanswerable abstains_answerable coverage_at by_kind"
    ).split(" ")
    assert list(report["coverage_at"]) == ["1", "2", "3", "5"]
    assert report["coverage_at"]["3"] == report["coverage"]
    assert list(report["by_kind"]) == ["calculo", "nota_pie", "tabla", "texto", "texto_y_nota"]
    assert list(report["by_kind"]["texto"]) == ["n", "coverage", "chunk", "line", "citation"]
    assert json.loads(json.dumps(report)) == report


def test_the_report_agrees_with_the_rows_worked_out_one_by_one(small_corpus):
    chunks = chunk_corpus(small_corpus)
    rows = baseline_rows(small_corpus, chunks).set_index("question_id")
    assert rows.loc["QA001", "best_line"] == "| Margen EBITDA (%) | 20,5 | 19,8 |"
    assert rows.loc["QA001", ["chunk", "line", "line_exact", "citation"]].tolist() == [1, 1, 0, 1]
    assert rows.loc["QA004", "best_line"] == "Arven empleaba a 688 personas en España."  # the other year's report
    assert rows.loc["QA004", ["coverage_at_1", "coverage_at_2", "line", "citation"]].tolist() == [0, 1, 0, 0]
    report = baseline_report(small_corpus, chunks)
    answerable, unanswerable = rows[rows["answerable"]], rows[~rows["answerable"]]
    assert report["n_chunks"] == len(chunks) == 8
    assert report["line"] == pytest.approx(np.mean(answerable["line"]))
    assert report["threshold"] == pytest.approx(np.median(unanswerable["score"]))
    pairs = [(a > u) + (a == u) / 2 for a in answerable["score"] for u in unanswerable["score"]]
    assert report["auc"] == pytest.approx(np.mean(pairs))
    assert report["abstains_unanswerable"] == 1


@pytest.mark.parametrize("answerable", [True, False])
def test_a_corpus_with_only_one_sort_of_question_has_nulls(loaded, small_tables, answerable):
    questions = small_tables["questions"]
    small_tables["questions"] = questions[questions["answerable"] == answerable]
    report = baseline_report(loaded(small_tables))
    assert report["auc"] is None
    assert (report["threshold"] is None) == answerable
    assert (report["coverage"] is None) == (not answerable)
    assert (report["abstains_answerable"] is None) == answerable
    assert (report["coverage_at"]["1"] is None) == (not answerable)
    json.dumps(report, allow_nan=False)


def test_without_chunks_nothing_is_found(small_corpus):
    report = baseline_report(small_corpus, [])
    assert (report["n_chunks"], report["coverage"], report["line"], report["citation"]) == (0, 0.0, 0.0, None)


def test_the_threshold_decides_only_exactness_and_abstention(small_corpus):
    never = evaluate_baseline(small_corpus, threshold=-inf).set_index("question_id")
    always = evaluate_baseline(small_corpus, threshold=inf).set_index("question_id")
    untouched = ["coverage", "contains_gold", "chunk", "faithful", "citation", "cites"]
    pd.testing.assert_frame_equal(never[untouched], always[untouched])
    assert never["abstains"].sum() == 0
    assert always["abstains"].sum() == 8
    assert always["exact"].tolist() == [0, 0, 0, 0, 0, 1, 0, 1]
    assert set(always.loc[always["answerable"], "failed_link"]) <= {"retriever", "wrong_abstention"}
    assert set(never.loc[~never["answerable"], "failed_link"]) == {"missed_abstention"}
    middle = evaluate_baseline(small_corpus)
    assert middle.loc[~middle["answerable"], "abstains"].sum() == 1


def test_the_baseline_rows_are_those_of_its_answers(small_corpus):
    chunks = chunk_corpus(small_corpus)
    rows = evaluate_baseline(small_corpus, chunks, threshold=-inf)
    found = BM25Retriever(chunks).search_many([q.text for q in small_corpus], k=3)
    contexts = {q.id: [hit.chunk for hit in hits] for q, hits in zip(small_corpus, found, strict=True)}
    said = [Said(q, text, (1,)) for q, text in zip(rows["question_id"], rows["best_line"], strict=True)]
    expected = evaluate(small_corpus, said, contexts, system="extraction")
    columns = [name for name in expected.columns if name != "chunk"]
    assert set(columns) < set(rows.columns)
    pd.testing.assert_frame_equal(rows[columns], expected[columns])


def test_rows_of_some_questions_keep_the_threshold_of_all(small_corpus):
    some = [small_corpus.question("QA006"), small_corpus.question("QA001")]
    rows = evaluate_baseline(small_corpus, questions=some)
    assert rows["question_id"].tolist() == ["QA006", "QA001"]
    every = evaluate_baseline(small_corpus).set_index("question_id")
    assert rows["abstains"].tolist() == every.loc[["QA006", "QA001"], "abstains"].tolist()


scores = st.lists(st.integers(0, 9).map(float), min_size=1, max_size=12)


@given(scores, scores)
def test_the_auc_counts_pairs_with_ties_as_half(x, y):
    expected = np.mean([(a > b) + (a == b) / 2 for a in x for b in y])
    assert auc(x, y) == pytest.approx(expected)
    assert auc(x, y) + auc(y, x) == pytest.approx(1)
    assert isnan(auc(x, []))


@given(scores, st.lists(st.integers(0, 9).map(float), min_size=2, max_size=12), st.integers(2, 20))
def test_a_cross_validated_threshold_never_sees_the_question_it_judges(x, y, folds):
    result = cross_validated_threshold(x, y, folds=folds)
    folds = min(folds, len(y))
    assert len(result.thresholds) == folds
    silent = [v < np.median([w for j, w in enumerate(y) if j % folds != i % folds]) for i, v in enumerate(y)]
    assert result.abstains_unanswerable == sum(silent)
    expected = [v < np.median([w for j, w in enumerate(y) if j % folds != i % folds]) for i, v in enumerate(x)]
    assert result.abstains_answerable == sum(expected)
    assert (result.n_unanswerable, result.n_answerable) == (len(y), len(x))


def test_holding_out_the_only_unanswerable_question_is_refused():
    with pytest.raises(ValueError, match="1 unanswerable questions: holding some out needs at least 2"):
        cross_validated_threshold([1.0], [2.0])
    assert isnan(median_threshold([]))


# The comparison


def as_rows(columns: dict[str, list[float]], answerable: list[bool]) -> pd.DataFrame:
    n = len(answerable)
    base = {"question_id": [f"Q{i:02d}" for i in range(n)], "answerable": answerable, "failed": [False] * n}
    return pd.DataFrame(base | {name: columns.get(name, [nan] * n) for name in MEASURES})


def published() -> dict[str, pd.DataFrame]:
    """Rows with the published outcomes of the lesson's twelve questions; the last three are unanswerable."""
    answerable = [True] * 9 + [False] * 3
    llm = {
        "exact": [0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0],
        "contains_gold": [0, 1, 1, 1, 1, 0, 1, 1, 0, nan, nan, nan],
        "faithful": [1, 1, 1, 0, 1, 0, nan, 1, 1, nan, nan, 1],
        "citation": [0, nan, 1, 0, nan, nan, nan, 0, 0.5, nan, nan, nan],
        "cites": [1, 0, 1, 1, 0, 0, 0, 1, 1, nan, nan, nan],
        "abstains": [0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0],
    }
    extraction = {
        "exact": [0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0],
        "contains_gold": [0, 1, 1, 0, 0, 0, 0, 0, 0, nan, nan, nan],
        "chunk": [1, 1, 1, 1, 0, 1, 1, 1, 0, nan, nan, nan],
        "faithful": [1] * 12,
        "citation": [0, 1, 1, 1, 1, 1, 0, 1, 1, nan, nan, nan],
        "cites": [1] * 9 + [nan] * 3,
        "abstains": [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0],
    }
    return {"LLM": as_rows(llm, answerable), "extraction": as_rows(extraction, answerable)}


def test_the_table_of_the_published_outcomes_is_the_published_table():
    table = comparison_table(published())
    assert list(table.index) == [
        "exact",
        "contains gold",
        "whole chunk contains gold",
        "faithful",
        "correct citations",
        "cites something",
        "abstains if not stated",
    ]
    assert table["LLM"].tolist() == [
        "0.50 [0.25, 0.75] n=12",
        "0.67 [0.35, 0.88] n=9",
        "-",
        "0.75 [0.41, 0.93] n=8",
        "0.30 [0.07, 0.70] n=5",
        "0.56 [0.27, 0.81] n=9",
        "0.67 [0.21, 0.94] n=3",
    ]
    assert table["extraction"].tolist() == [
        "0.25 [0.09, 0.53] n=12",
        "0.22 [0.06, 0.55] n=9",
        "0.78 [0.45, 0.94] n=9",
        "1.00 (no generation)",
        "0.78 [0.45, 0.94] n=9",
        "1.00 (always [1])",
        "0.67 [0.21, 0.94] n=3",
    ]
    intervals = comparison(published())
    assert intervals["extraction"]["faithful"].n == 9
    assert intervals["LLM"]["whole chunk contains gold"].n == 0


def test_systems_are_compared_on_the_questions_that_both_answered():
    systems = published()
    result = compare_pairs(systems["extraction"], systems["LLM"].iloc[::-1].iloc[:10])
    assert result.n == 10
    assert (result.first, result.second) == (0.2, 0.5)  # the first two questions are left out
    assert result.difference.mean == pytest.approx(0.3)
    assert result.mcnemar is not None
    assert (result.mcnemar.only_first, result.mcnemar.only_second) == (0, 3)
    assert result.mcnemar.p_value == 0.25
    assert result.detectable is None  # three discordant pairs cannot be significant
    assert not result.worse


def test_a_system_that_is_worse_beyond_the_interval_is_said_to_be():
    good, bad = [1.0] * 30, [0.0] * 20 + [1.0] * 10
    answerable = [True] * 30
    result = compare_pairs(as_rows({"exact": good}, answerable), as_rows({"exact": bad}, answerable))
    assert result.worse
    assert result.detectable is not None
    assert result.detectable.pairs == 10
    assert not compare_pairs(as_rows({"exact": bad}, answerable), as_rows({"exact": good}, answerable)).worse


def test_fractions_are_compared_without_mcnemar():
    systems = published()
    result = compare_pairs(systems["LLM"], systems["extraction"], "citation")
    assert result.n == 5
    assert result.mcnemar is None
    assert result.detectable is None


def test_systems_without_a_question_in_common_and_unknown_measures_are_refused():
    systems = published()
    with pytest.raises(ValueError, match="no question in common"):
        compare_pairs(systems["LLM"].iloc[:3], systems["extraction"].iloc[3:])
    with pytest.raises(ValueError, match="no measure 'f1': choose from coverage, exact"):
        compare_pairs(systems["LLM"], systems["extraction"], "f1")


# Checks of a corpus


def test_gold_figures_must_stand_in_the_gold_passages(loaded, small_tables):
    assert gold_faults(loaded(small_tables)) == []
    small_tables["questions"].loc[0, "gold_answer"] = "20,5 % y 33 %"
    small_tables["questions"].loc[4, "gold_answer"] = "17"  # calculo: follows from figures, stands nowhere
    assert gold_faults(loaded(small_tables)) == [("QA001", (33.0,))]


def test_the_corpus_report_counts_what_no_chunk_holds(loaded, tables_of):
    text = "# Título\n\n## Uno\n\nDentro.\n\n## Dos\nPegado.\n\n¹ Nota sin marca."
    tables = tables_of({"R01": text}, [("Q1", "R01", "¿Qué?", "Dentro", "texto", "R01-p003;R01-p004")])
    report = corpus_report(loaded(tables))
    visible = len("#Título##UnoDentro.##DosPegado.¹Notasinmarca.")
    assert report["share_in_no_chunk"] == pytest.approx((visible - len("Dentro.")) / visible)
    assert report["share_headings"] == pytest.approx(len("#Título##Uno##Dos") / visible)
    [place] = report["under_heading"]
    assert text[place.start : place.end] == "Pegado."
    assert report["carriage_returns"] == {}
    assert report["gold_in_no_chunk"] == ["R01-p004"]
    assert report["needs_several_chunks"] == ["Q1"]
    assert (report["n_documents"], report["n_passages"], report["n_chunks"], report["n_gold_passages"]) == (1, 5, 1, 2)


def test_the_corpus_report_counts_carriage_returns_and_gold_cut_by_a_border(small_corpus):
    texts = ["# T\r\n\r\n## S\r\n\r\nTexto.\r\n", "uno dos tres cuatro"]
    documents = pd.DataFrame({"doc_id": ["R01", "R02"], "title": ["T", "T"], "text": texts})
    passages = pd.DataFrame({"passage_id": ["p1"], "doc_id": ["R02"], "start": [0], "end": [12]})
    columns = ["question_id", "doc_id", "question", "gold_answer", "kind", "answerable", "gold_passages"]
    questions = pd.DataFrame([("Q1", "R02", "¿?", "dos", "texto", True, "p1")], columns=columns)
    corpus = Corpus(documents, passages, questions)
    assert corpus_report(corpus)["carriage_returns"] == {"R01": 5}
    halves = [Chunk("R02", "T", "", (span,), f"T > \n\n{texts[1][slice(*span)]}") for span in ((0, 7), (8, 19))]
    report = corpus_report(corpus, halves)
    assert report["share_gold_cut"] == 1
    assert report["gold_in_no_chunk"] == []
    assert report["needs_several_chunks"] == []  # the first half covers 7 of 12 characters
    assert corpus_report(corpus)["share_gold_cut"] == 0


def test_the_lessons_sample_takes_the_positions_that_pandas_draws(tables_of, loaded):
    counts = {
        "texto": (122, [84, 97, 10]),
        "tabla": (64, [45, 29, 43]),
        "nota_pie": (16, [1]),
        "texto_y_nota": (16, [1]),
        "tabla_y_nota": (13, [6]),
        "no_respondible": (17, [1, 6, 8]),
    }
    kinds = [kind for kind, (n, _) in counts.items() for _ in range(n)]
    random.Random(1).shuffle(kinds)
    rows = [
        (f"QA{i:03d}", "R01", "¿Qué?", *(("No consta", k, "") if k == "no_respondible" else ("Sí", k, "R01-p001")))
        for i, k in enumerate(kinds, start=1)
    ]
    corpus = loaded(tables_of({"R01": "# T\n\nTexto."}, rows))
    expected = []
    for kind, (_, positions) in counts.items():
        of_kind = [question for question in corpus if question.kind == kind]
        expected += [of_kind[position] for position in positions]
    assert lesson_sample(corpus) == expected
    assert len(expected) == 12


def test_a_corpus_too_small_for_the_lessons_sample_is_refused(small_corpus):
    with pytest.raises(ValueError, match="2 questions of kind 'texto': the lesson's sample takes 3"):
        lesson_sample(small_corpus)
