"""The judge: what it is asked, how its word is read, and the arithmetic of its calibration; and the data it judges."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragfin import judge as judges
from ragfin import load_corpus
from ragfin.baseline import best_line
from ragfin.chunking import chunk_corpus
from ragfin.figures import figures
from ragfin.generation import Answer, Identity, MissingAnswersError, Request
from ragfin.judge import (
    Calibration,
    Item,
    Pair,
    calibrate,
    choose,
    compare_verdicts,
    corrected_rate,
    judge,
    misquoted,
    position_bias,
    read_choice,
    read_verdict,
)
from ragfin.metrics import exact
from ragfin.retrieval import BM25Retriever
from ragfin.stats import wilson

DATA = Path(__file__).parents[1] / "data"
CALLS = {"T01": ("R01", "R02"), "T02": ("R03", "R04"), "T03": ("R05", "R06"), "T04": ("R07", "R08")}
COMPUTED = {"T01": {5.8}, "T03": {20.0}}  # growth of the inventories; "above 20 %"


class Parrot:
    """A judge that always says the same word, and keeps what it was asked."""

    identity = Identity("parrot", "0" * 64, "float32", {"strategy": "greedy"})

    def __init__(self, word: str) -> None:
        self.word = word
        self.asked: list[Request] = []

    def answer(self, request: Request) -> Answer:
        self.asked.append(request)
        return Answer.parse(request, self.word, "stop")


ITEMS = [Item("J1", "¿Cuánto?", "312", "Son 312."), Item("J2", "¿Cuánto?", "312", "Son 48.")]


def verdicts(yes_yes: int, yes_no: int, no_yes: int, no_no: int) -> tuple[list[bool], list[bool | None]]:
    """Return truth and verdicts of a table: first word the truth, second the judge."""
    truth = [True] * (yes_yes + yes_no) + [False] * (no_yes + no_no)
    said: list[bool | None] = [True] * yes_yes + [False] * yes_no + [True] * no_yes + [False] * no_no
    return truth, said


def test_the_judge_reads_question_reference_and_answer_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGFIN_LIVE", "auto")
    parrot = Parrot("Sí.")
    assert judge(ITEMS, parrot) == [True, True]
    system, user = parrot.asked[0].messages
    assert (system.role, system.content) == ("system", judges.VERDICT_PROMPT.system)
    assert user.content == (
        "Pregunta: ¿Cuánto?\nReferencia: 312\nRespuesta: Son 312.\n"
        "¿La respuesta dice lo mismo que la referencia? ¿Sí o no?"
    )
    assert [request.question_id for request in parrot.asked] == ["J1", "J2"]
    assert {request.k for request in parrot.asked} == {0}


def test_a_pair_is_shown_in_the_order_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGFIN_LIVE", "auto")
    parrot = Parrot("B")
    assert choose([Pair("P1", "¿Cuánto?", "312", "Son 312.", "Son 48.")], parrot) == ["B"]
    assert "Respuesta A: Son 312.\nRespuesta B: Son 48.\n" in parrot.asked[0].messages[1].content


def test_verdicts_are_recorded_and_replayed_without_asking_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGFIN_LIVE", "auto")
    record = tmp_path / "judge.jsonl"
    judge(ITEMS, Parrot("no"), record=record)
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    assert [(line["question_id"], line["text"]) for line in lines] == [("J1", "no"), ("J2", "no")]
    monkeypatch.setenv("RAGFIN_LIVE", "never")
    silent = Parrot("sí")
    assert judge(ITEMS, silent, record=record) == [False, False]
    assert silent.asked == []
    with pytest.raises(MissingAnswersError, match="2 of 2"):
        judge(ITEMS, silent, prompt=judges.REVERSED_PROMPT, record=record)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("sí", True), ("Si", True), (" «SÍ». ", True), ("Sí, pero no del todo", True), ("No.", False),
        ("no consta", False), ("", None), ("La respuesta es sí", None), ("sino", None), ("1", None),
    ],
)  # fmt: skip
def test_a_verdict_is_the_first_word(text: str, verdict: bool | None) -> None:
    assert read_verdict(text) is verdict


@given(st.text())
def test_no_text_breaks_the_reading_of_a_verdict(text: str) -> None:
    assert read_verdict(text) in (True, False, None)
    assert read_choice(text) in ("A", "B", None)


@pytest.mark.parametrize(
    ("text", "choice"),
    [("A", "A"), (" B. ", "B"), ("(A)", "A"), ("Ambas", None), ("a", None), ("C", None), ("La A", None), ("", None)],
)
def test_a_choice_is_a_lone_capital_letter(text: str, choice: str | None) -> None:
    assert read_choice(text) == choice


def test_calibration_counts_as_done_by_hand() -> None:
    found = calibrate(*verdicts(20, 10, 5, 25))
    assert (found.n, found.unreadable) == (60, 0)
    assert found.says_yes == wilson(25, 60)
    assert found.agreement == wilson(45, 60)
    assert found.sensitivity == wilson(20, 30)
    assert found.specificity == wilson(25, 30)
    # chance agreement: 1/2 * 25/60 + 1/2 * 35/60 = 1/2, so kappa = (0.75 - 0.5) / (1 - 0.5)
    assert found.kappa.mean == pytest.approx(0.5)


@given(st.tuples(*[st.integers(1, 40)] * 4))
def test_kappa_and_its_interval_follow_the_formula_of_fleiss_cohen_and_everitt(cells: tuple[int, ...]) -> None:
    p = np.array(cells, dtype=float).reshape(2, 2) / sum(cells)
    rows, columns = p.sum(1), p.sum(0)
    observed, chance = np.trace(p), float(rows @ columns)
    kappa = (observed - chance) / (1 - chance)
    a = sum(p[i, i] * (1 - (rows[i] + columns[i]) * (1 - kappa)) ** 2 for i in range(2))
    b = (1 - kappa) ** 2 * sum(p[i, j] * (columns[i] + rows[j]) ** 2 for i in range(2) for j in range(2) if i != j)
    error = math.sqrt(max(0.0, a + b - (kappa - chance * (1 - kappa)) ** 2) / (sum(cells) * (1 - chance) ** 2))
    found = calibrate(*verdicts(*cells)).kappa
    assert found.mean == pytest.approx(kappa)
    assert found.low == pytest.approx(max(-1, kappa - 1.959964 * error), abs=1e-6)
    assert found.high == pytest.approx(min(1, kappa + 1.959964 * error), abs=1e-6)


def test_a_perfect_judge_has_kappa_one_and_a_contrary_one_minus_one() -> None:
    assert calibrate(*verdicts(10, 0, 0, 10)).kappa.mean == pytest.approx(1)
    assert calibrate(*verdicts(0, 10, 10, 0)).kappa.mean == pytest.approx(-1)


def test_a_judge_that_always_says_yes_has_kappa_zero_without_an_interval() -> None:
    found = calibrate(*verdicts(30, 0, 30, 0))
    assert found.kappa.mean == 0
    assert math.isnan(found.kappa.low)
    assert math.isnan(found.kappa.high)
    assert (found.sensitivity.mean, found.specificity.mean, found.agreement.mean) == (1, 0, 0.5)
    assert math.isnan(calibrate([True, True], [True, True]).kappa.mean)


def test_an_unreadable_verdict_counts_in_no_rate() -> None:
    truth, said = verdicts(20, 10, 5, 25)
    with_noise = calibrate([*truth, True, False], [*said, None, None])
    assert with_noise.unreadable == 2
    assert with_noise._replace(n=60, unreadable=0) == calibrate(truth, said)


def test_nothing_to_compare_gives_nan_and_sides_of_unequal_length_are_refused() -> None:
    assert math.isnan(calibrate([], []).agreement.mean)
    assert math.isnan(compare_verdicts([None], [True]).changed.mean)
    for measure in (calibrate, compare_verdicts, position_bias):
        with pytest.raises(ValueError, match="1 values against 2"):
            measure([True], [True, False])  # type: ignore[operator]


def test_changed_verdicts_are_counted_by_direction_with_the_exact_test() -> None:
    before = [False] * 8 + [True] * 12 + [None]
    after = [True] * 7 + [False] + [True] * 11 + [False] + [True]
    found = compare_verdicts(before, after)
    assert found.changed == wilson(8, 20)
    assert (found.to_yes, found.to_no) == (7, 1)
    assert found.p_value == pytest.approx(2 * (1 + 8) / 2**8)  # P(at most 1 of 8), both sides


def test_position_bias_of_a_coin_a_creature_of_habit_and_a_fair_judge() -> None:
    fair = position_bias(["A"] * 10, ["B"] * 10)
    assert (fair.first.mean, fair.consistent.mean, fair.right.mean) == (0.5, 1, 1)
    always_second = position_bias(["B"] * 10, ["B"] * 10)
    assert (always_second.first.mean, always_second.consistent.mean, always_second.right.mean) == (0, 0, 0)
    always_wrong = position_bias(["B"] * 10, ["A"] * 10)
    assert (always_wrong.consistent.mean, always_wrong.right.mean) == (1, 0)


def test_a_pair_with_an_unreadable_choice_counts_only_where_it_was_read() -> None:
    found = position_bias(["A", None, "A"], ["B", "B", "A"])
    assert found.first == wilson(3, 5)
    assert found.consistent == wilson(1, 2)
    assert found.right == wilson(1, 2)


def known(sensitivity: float, specificity: float, n: int) -> Calibration:
    """Return the calibration of a judge of known quality on n right and n wrong answers."""
    hits, rejections = round(sensitivity * n), round(specificity * n)
    return calibrate(*verdicts(hits, n - hits, n - rejections, rejections))


@given(st.integers(60, 100), st.integers(60, 100), st.integers(0, 100))
def test_the_correction_recovers_the_true_rate(sensitivity: int, specificity: int, right: int) -> None:
    calibration = known(sensitivity / 100, specificity / 100, 100)
    rate = right / 100
    observed = wilson(10_000 * (rate * sensitivity + (1 - rate) * (100 - specificity)) / 100, 10_000)
    assert corrected_rate(observed, calibration).mean == pytest.approx(rate, abs=1e-9)


def test_the_correction_is_worth_less_the_less_the_judge_knows() -> None:
    widths = []
    for quality in (0.95, 0.8, 0.6):
        interval = corrected_rate(wilson(50, 100), known(quality, quality, 100))
        widths.append(interval.high - interval.low)
    assert widths == sorted(widths)
    assert widths[-1] == 1


def test_a_judge_that_tells_nothing_apart_corrects_nothing() -> None:
    for calibration in (known(0.5, 0.5, 30), known(1, 0, 30), known(0.3, 0.3, 30)):
        interval = corrected_rate(wilson(20, 40), calibration)
        assert all(map(math.isnan, interval[:3]))
        assert interval.n == 40
    assert math.isnan(corrected_rate(wilson(0, 0), known(0.9, 0.9, 30)).mean)


def test_the_corrected_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        hits, rejections = rng.binomial(150, 0.85), rng.binomial(150, 0.8)
        calibration = calibrate(*verdicts(hits, 150 - hits, 150 - rejections, rejections))
        interval = corrected_rate(wilson(rng.binomial(200, 0.6 * 0.85 + 0.4 * 0.2), 200), calibration)
        held += interval.low <= 0.6 <= interval.high
    assert 0.92 <= held / 400 <= 0.98


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        ("Dijo «no hay prisa».", []),
        ("Dijo «No hay prisa».", ["No hay prisa"]),
        ("«no hay prisa» y «hay mucha prisa»", ["hay mucha prisa"]),
        ("Sin comillas.", []),
        ("«»", []),
        ("«no hay", []),
    ],
)
def test_a_quotation_must_stand_in_the_source_word_for_word(answer: str, missing: list[str]) -> None:
    assert misquoted(answer, "Pues no hay\nprisa ninguna.") == missing


# The transcripts, their labels and the calibration set


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    names = ("questions", "claims", "answers", "labels", "calibration")
    return {name: pd.read_csv(DATA / "transcripts" / f"{name}.csv") for name in names}


@pytest.fixture(scope="module")
def calls() -> dict[str, str]:
    return {path.name[:3]: path.read_text(encoding="utf-8") for path in (DATA / "transcripts").glob("T*.md")}


def ids(frame: pd.DataFrame, *columns: str) -> Sequence[tuple[str, ...]]:
    return list(frame[list(columns)].itertuples(index=False, name=None))


def test_every_call_has_the_length_of_a_short_one_and_three_questions(
    tables: dict[str, pd.DataFrame], calls: dict[str, str]
) -> None:
    assert set(calls) == set(CALLS)
    assert all(600 <= len(text.split()) <= 900 for text in calls.values())
    assert tables["questions"]["transcript_id"].value_counts().to_dict() == dict.fromkeys(CALLS, 3)


def test_what_a_call_says_in_figures_the_issuers_reports_say_too(calls: dict[str, str]) -> None:
    texts = load_corpus(DATA).documents.set_index("doc_id")["text"]
    for call, reports in CALLS.items():
        date = {26.0, 28.0, 20.0}  # days of February
        told = set().union(*(figures(texts[report]) for report in reports))
        assert figures(calls[call]) - told - date - COMPUTED.get(call, set()) == set(), call


def test_every_answer_is_labelled_once_for_every_claim_of_its_question(tables: dict[str, pd.DataFrame]) -> None:
    due = tables["answers"].merge(tables["claims"], on="question_id")
    assert sorted(ids(due, "answer_id", "claim_id")) == sorted(ids(tables["labels"], "answer_id", "claim_id"))
    assert set(tables["labels"]["label"]) == {"supported", "contradicted", "missing"}
    assert tables["answers"].groupby("question_id")["kind"].apply(set).map(len).eq(5).all()


def test_labels_agree_with_what_each_kind_of_answer_is(tables: dict[str, pd.DataFrame]) -> None:
    rows = tables["labels"].merge(tables["answers"], on="answer_id")
    held = rows.groupby("kind")["label"].apply(set).to_dict()
    assert held["good"] == {"supported"}
    assert held["off_topic"] == {"missing"}
    assert held["partial"] == held["padded"] == {"supported", "missing"}
    assert held["contradicting"] == {"contradicted", "missing"}
    each = rows.groupby(["answer_id", "kind"])["label"].apply(set).reset_index()
    assert each[each["kind"] == "partial"]["label"].map(lambda x: x == {"supported", "missing"}).all()
    assert each[each["kind"] == "contradicting"]["label"].map(lambda x: "contradicted" in x).all()


def test_padded_answers_are_the_longest_of_their_question(tables: dict[str, pd.DataFrame]) -> None:
    lengths = tables["answers"].assign(length=tables["answers"]["answer"].str.len())
    table = lengths.pivot_table(index="question_id", columns="kind", values="length")
    assert (table["padded"] > 1.5 * table.drop(columns="padded").max(axis=1)).all()


def test_good_answers_invent_no_figure_and_no_quotation(tables: dict[str, pd.DataFrame], calls: dict[str, str]) -> None:
    rows = tables["answers"].merge(tables["questions"], on="question_id")
    for row in rows[rows["kind"].isin(["good", "partial", "padded"])].itertuples():
        assert figures(row.answer) <= figures(calls[row.transcript_id]) | figures(row.question), row.answer_id
        assert misquoted(row.answer, calls[row.transcript_id]) == [], row.answer_id


def test_the_calibration_set_is_balanced_and_paired(tables: dict[str, pd.DataFrame]) -> None:
    frame = tables["calibration"]
    assert len(frame) == 60
    assert frame.groupby("question_id")["right"].apply(list).map(lambda x: x == [True, False]).all()


def test_the_truth_of_the_calibration_set_is_the_exact_measure(tables: dict[str, pd.DataFrame]) -> None:
    corpus = load_corpus(DATA)
    for row in tables["calibration"].itertuples():
        assert exact(row.answer, corpus.question(row.question_id)) == row.right, row.item_id


def test_each_calibration_answer_comes_from_where_it_says(tables: dict[str, pd.DataFrame]) -> None:
    corpus = load_corpus(DATA)
    retriever = BM25Retriever(chunk_corpus(corpus))
    golds = {question.gold_answer for question in corpus}
    path = DATA / "answers" / "qwen2.5-coder-0.5b-instruct.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    recorded = {(line["question_id"], line["text"]) for line in lines}
    for row in tables["calibration"].itertuples():
        question = corpus.question(row.question_id)
        match row.source:
            case "line":
                assert row.answer == best_line(retriever.search(question.text, 1)[0].chunk, question.text)
            case "model":
                assert (question.id, row.answer) in recorded
            case "other":
                assert row.answer in golds - {question.gold_answer}
            case source:
                assert source == "rule"
                assert row.right
                assert question.gold_answer.lower() in row.answer.lower()
