"""The corpus that the source builds: its shape, the lesson's ids and answers, its gold, its calibration, its card."""

import re
import shutil
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from ragfin import Corpus, load_corpus
from ragfin.checks import gold_faults, gold_unit_faults
from ragfin.chunking import Chunk, blocks, chunk_corpus
from ragfin.extraction import baseline_report
from ragfin.figures import figures
from ragfin.metrics import question_coverage
from ragfin.retrieval import BM25Retriever

DATA = Path(__file__).resolve().parents[1] / "data"
TABLES = ("documents", "passages", "questions")
SAMPLED = "QA196 QA217 QA026 QA165 QA105 QA160 QA015 QA007 QA151 QA044 QA154 QA191".split()
SAMPLE_SIZES = {"texto": 3, "tabla": 3, "nota_pie": 1, "texto_y_nota": 1, "tabla_y_nota": 1, "no_respondible": 3}
KINDS = {
    "texto": 122,
    "tabla": 64,
    "nota_pie": 16,
    "texto_y_nota": 16,
    "tabla_y_nota": 13,
    "calculo": 8,
    "comparacion": 7,
    "no_respondible": 17,
}
PUBLISHED = {"coverage": 0.873, "chunk": 0.772, "line": 0.545, "line_exact": 0.382, "citation": 0.707}
PUBLISHED_AT = {"1": 0.688, "2": 0.787, "3": 0.873, "5": 0.892}


@pytest.fixture(scope="module")
def builder() -> Iterator[ModuleType]:
    """The build script, imported from its file."""
    spec = spec_from_file_location("corpus_builder_under_test", DATA / "build_corpus.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_corpus(DATA)


@pytest.fixture(scope="module")
def chunks(corpus: Corpus) -> list[Chunk]:
    return chunk_corpus(corpus)


@pytest.fixture(scope="module")
def report(corpus: Corpus, chunks: list[Chunk]) -> dict:
    return baseline_report(corpus, chunks)


@pytest.fixture(scope="module")
def card() -> str:
    return (DATA / "README.md").read_text(encoding="utf-8")


def card_rows(card: str, section: str) -> dict[str, list[str]]:
    """Return the rows of the table under a heading of the card: first cell to the others."""
    body = card.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines() if line[:1] == "|"]
    assert len(rows) > 2, section
    return {first: rest for first, *rest in rows[2:]}


# --- the build ---------------------------------------------------------------------------------------------------


def test_two_builds_have_the_same_content_and_the_card_states_its_hashes(builder, card, tmp_path):
    first = builder.build(out=tmp_path / "first")
    second = builder.build(out=tmp_path / "second")
    assert first == second
    stated = {name: cells[0].strip("`") for name, cells in card_rows(card, "Checksums").items()}
    assert {name.strip("`"): digest for name, digest in stated.items()} == first


def test_a_rebuild_gives_the_committed_tables(builder, tmp_path):
    builder.build(out=tmp_path)
    for name in ("documents", "passages"):
        pd.testing.assert_frame_equal(
            pd.read_parquet(tmp_path / f"{name}.parquet"), pd.read_parquet(DATA / f"{name}.parquet")
        )
    assert (tmp_path / "questions.csv").read_bytes() == (DATA / "questions.csv").read_bytes()


def test_the_content_hash_changes_with_a_single_fact(builder, tmp_path):
    shutil.copytree(DATA / "source", tmp_path / "source")
    facts = tmp_path / "source" / "facts" / "povdo.toml"
    text = facts.read_text(encoding="utf-8")
    assert text.count("headcount = 15307") == 1
    facts.write_text(text.replace("headcount = 15307", "headcount = 15308"), encoding="utf-8")
    changed = builder.build(tmp_path / "source", tmp_path / "out")
    kept = builder.build(out=tmp_path / "kept")
    assert changed["documents"] != kept["documents"]
    assert changed["passages"] == kept["passages"]


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("questions/R01.toml", 'passages = ["', 'passages = ["no_such_', "no block is labelled @no_such_"),
        ("facts/busmar.toml", "[years.2022]", "[years.2022", "busmar.toml: not valid TOML"),
        ("templates/report_busmar.md.j2", "# {{ title }}", "# Otro título", "the first block must be"),
        ("templates/report_busmar.md.j2", "{{ chair }}", "{{ chairs }}", "'chairs' is undefined"),
    ],
)
def test_a_broken_source_is_refused_with_the_file_and_the_fault(builder, tmp_path, file, old, new, message):
    shutil.copytree(DATA / "source", tmp_path / "source")
    path = tmp_path / "source" / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(builder.SourceError, match=re.escape(message)):
        builder.build(tmp_path / "source", tmp_path / "out")


# --- the shape ---------------------------------------------------------------------------------------------------


def test_the_corpus_has_the_lessons_shape(corpus, chunks):
    assert list(corpus.documents["doc_id"]) == [f"R{number:02d}" for number in range(1, 21)]
    assert len(chunks) == 376
    assert len(corpus.questions) == 263
    assert corpus.questions["kind"].value_counts().to_dict() == KINDS
    assert (~corpus.questions["answerable"]).sum() == 17


def test_questions_are_numbered_in_file_order_and_grouped_by_document(corpus):
    assert [question.id for question in corpus] == [f"QA{number:03d}" for number in range(1, 264)]
    assert corpus.questions["doc_id"].is_monotonic_increasing
    per_document = corpus.questions["doc_id"].value_counts().sort_index().tolist()
    assert per_document == [22] * 8 + [7, 7, 13, 15] + [4, 3, 3, 3] + [8] * 4


def test_every_question_is_asked_once(corpus):
    assert corpus.questions["question"].is_unique
    assert corpus.questions["question"].str.fullmatch(r"¿.+\?|.+, ¿.+\?").all()


def test_every_block_is_a_passage_numbered_from_the_title(corpus, texts):
    for doc_id, passages in corpus.passages.groupby("doc_id", sort=False):
        assert list(zip(passages["start"], passages["end"], strict=True)) == list(blocks(texts[doc_id]))
        assert list(passages["passage_id"]) == [f"{doc_id}-p{number:03d}" for number in range(1, len(passages) + 1)]


def test_passages_put_together_are_the_document(corpus, texts):
    for doc_id, passages in corpus.passages.groupby("doc_id", sort=False):
        parts = [texts[doc_id][start:end] for start, end in zip(passages["start"], passages["end"], strict=True)]
        assert "\n\n".join(parts) == texts[doc_id]


def test_every_document_opens_with_its_title(corpus, texts):
    for row in corpus.documents.itertuples():
        assert texts[row.doc_id].partition("\n")[0] == f"# {row.title}"
        assert len(re.findall(r"^# ", texts[row.doc_id], flags=re.MULTILINE)) == 1


def test_a_chunk_takes_the_space_that_the_lesson_pays_for(chunks):
    lengths = pd.Series([len(chunk.text) for chunk in chunks])
    assert 300 <= lengths.mean() <= 450
    assert lengths.max() <= 1000


# --- the lesson's ids and answers --------------------------------------------------------------------------------


def test_pandas_draws_the_lessons_twelve_questions_in_its_order(corpus):
    frame = corpus.questions
    drawn = [
        question_id
        for kind, n in SAMPLE_SIZES.items()
        for question_id in frame[frame["kind"] == kind].sample(n, random_state=0)["question_id"]
    ]
    assert drawn == SAMPLED


@pytest.mark.parametrize(
    ("question_id", "doc_id", "kind", "words", "gold"),
    [
        ("QA007", "R01", "texto_y_nota", ("variable", "2023"), {1.01}),
        ("QA015", "R01", "nota_pie", ("deuda financiera neta", "arrendamiento"), set()),
        ("QA026", "R02", "texto", ("Busmar",), {879.1}),
        ("QA105", "R05", "tabla", ("margen EBITDA", "Internacional", "Povdo", "2023"), {20.5}),
        ("QA151", "R07", "tabla_y_nota", ("alcance 2", "Zaptec", "2023"), None),
        ("QA160", "R08", "tabla", ("Zaptec", "2024", "millones de USD"), {1472.9}),
        ("QA165", "R08", "tabla", ("dividendos", "Zaptec"), {181.2}),
        ("QA196", "R11", "texto", ("clase A", "dividendos", "Sintético Bonos Gobierno Euro 3-7"), set()),
        ("QA217", "R12", "texto", ("valores",), {704}),
        ("QA230", "R16", "tabla", ("costes de operación", "Sintético Dividendo"), None),
    ],
)
def test_the_lessons_questions_keep_their_ids_subjects_and_answers(corpus, question_id, doc_id, kind, words, gold):
    question = corpus.question(question_id)
    assert (question.doc_id, question.kind) == (doc_id, kind)
    for word in words:
        assert word.casefold() in question.text.casefold()
    if gold is not None:
        assert figures(question.gold_answer) == gold


def test_answers_without_a_figure_are_the_lessons_words(corpus):
    assert corpus.question("QA015").gold_answer == "No"
    assert "semestral" in corpus.question("QA196").gold_answer
    assert corpus.question("QA217").gold_answer == "704 valores"


@pytest.mark.parametrize(
    ("question_id", "words"),
    [
        ("QA044", ("Busmar Hogar", "2024")),
        ("QA154", ("Zaptec", "2023")),
        ("QA191", ("Sintético", "libra")),
    ],
)
def test_the_lessons_unanswerable_questions_name_their_subject(corpus, question_id, words):
    question = corpus.question(question_id)
    assert not question.answerable
    for word in words:
        assert word in question.text


def test_the_variable_pay_of_the_management_carries_its_mark_and_its_note(corpus, texts):
    paragraph, note = (texts[p.doc_id][p.start : p.end] for p in corpus.question("QA007").gold_passages)
    assert "1,01" in paragraph
    assert "⁵" in paragraph
    assert note.startswith("⁵ ")


def test_three_places_are_where_the_lesson_has_them(corpus, texts):
    [margin] = corpus.question("QA105").gold_passages
    assert margin.id == "R05-p025"
    assert texts["R05"][margin.start :].startswith("| Segmento | Ventas 2023 (millones de USD) | Marge")
    assert abs(margin.start - 2870) <= 300
    [dividend] = corpus.question("QA196").gold_passages
    assert dividend.id == "R11-p030"
    assert texts["R11"].startswith("# Folleto — Sintético Bonos Gobierno Euro 3-7 UCITS ETF\n")
    assert texts["R11"].index("\n") == 55
    [costs] = corpus.question("QA230").gold_passages
    assert costs.id == "R16-p016"
    assert texts["R16"].index("\n") == 73


def test_the_figures_that_draw_a_model_astray_stand_near_the_right_ones(corpus, texts):
    [flows] = corpus.question("QA165").gold_passages
    assert "-869,8" in texts["R08"][flows.start : flows.end]
    classes = [texts["R11"][p.start : p.end] for p in _passages(corpus, "R11")]
    assert any("0,20" in block for block in classes)
    assert not any("GBP" in block for block in classes)


def test_a_prospectus_states_the_risk_indicator(texts):
    assert "indicador resumido de riesgo" in texts["R10"].casefold()


# --- the gold ----------------------------------------------------------------------------------------------------


def test_gold_figures_stand_in_the_gold_passages(corpus):
    assert gold_faults(corpus) == []
    assert gold_unit_faults(corpus) == {}


def test_an_unanswerable_question_has_no_passage_and_says_so(corpus):
    for question in corpus:
        assert (question.gold_answer == "No consta") == (not question.answerable)
        assert bool(question.gold_passages) == question.answerable
        assert (question.kind == "no_respondible") == (not question.answerable)


def test_questions_of_several_places_have_several_passages(corpus, texts):
    for question in corpus:
        kinds = [_block_kind(texts[p.doc_id][p.start : p.end]) for p in question.gold_passages]
        assert "heading" not in kinds, question.id
        if question.kind in {"calculo", "comparacion"}:
            assert len(set(question.gold_passages)) >= 2, question.id
        if question.kind in {"texto", "tabla", "nota_pie"}:
            assert set(kinds) == {{"texto": "paragraph", "tabla": "table", "nota_pie": "note"}[question.kind]}
        if question.kind in {"texto_y_nota", "tabla_y_nota"}:
            first = {"texto_y_nota": "paragraph", "tabla_y_nota": "table"}[question.kind]
            assert kinds == [first, "note"], question.id


def test_a_question_belongs_to_a_document_that_holds_some_of_its_gold(corpus):
    for question in corpus:
        if question.answerable and question.kind != "comparacion":
            assert question.doc_id in {passage.doc_id for passage in question.gold_passages}, question.id


def test_three_chunks_cover_the_gold_of_the_lessons_answerable_sample(corpus, chunks):
    retriever = BM25Retriever(chunks)
    for question_id in SAMPLED[:9]:
        question = corpus.question(question_id)
        found = [hit.chunk for hit in retriever.search(question.text, k=3)]
        assert question_coverage(found, question) == 1.0, question_id


# --- the calibration ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_five_means_are_near_the_published_ones(report, name):
    assert abs(report[name] - PUBLISHED[name]) <= 0.05


@pytest.mark.parametrize("k", PUBLISHED_AT)
def test_coverage_by_k_is_near_the_published_one(report, k):
    assert abs(report["coverage_at"][k] - PUBLISHED_AT[k]) <= 0.06


def test_the_score_tells_answerable_from_unanswerable_about_as_well_as_published(report):
    assert 0.65 <= report["auc"] <= 0.85


def test_questions_of_several_places_stay_hard(report):
    for kind in ("calculo", "comparacion"):
        assert all(report["by_kind"][kind][name] <= 0.25 for name in ("coverage", "chunk", "line", "citation")), kind


def test_tables_have_the_worst_line_and_text_is_well_above_them(report):
    line = {kind: row["line"] for kind, row in report["by_kind"].items() if kind not in {"calculo", "comparacion"}}
    assert min(line, key=line.__getitem__) == "tabla"
    assert line["texto"] >= line["tabla"] + 0.3


# --- the card ----------------------------------------------------------------------------------------------------


def test_the_card_states_the_figures_that_the_corpus_gives(card, report):
    own = {
        **{name: report[name] for name in PUBLISHED},
        **{f"coverage at k = {k}": value for k, value in report["coverage_at"].items()},
        "AUC of the score": report["auc"],
        "threshold": report["threshold"],
        "abstains, unanswerable": report["abstains_unanswerable"],
        "abstains, answerable": report["abstains_answerable"],
    }
    rows = card_rows(card, "Calibration")
    assert set(rows) == set(own)
    for name, value in own.items():
        assert rows[name][1] == (str(value) if isinstance(value, int) else f"{value:.3f}"), name


def test_the_prose_of_the_card_repeats_the_abstentions_of_its_table(card, report):
    assert f"it also silences {report['abstains_answerable']} answerable questions" in card


def test_the_card_states_the_published_figures(card):
    rows = card_rows(card, "Calibration")
    published = PUBLISHED | {f"coverage at k = {k}": value for k, value in PUBLISHED_AT.items()}
    for name, value in published.items():
        assert rows[name][0] == f"{value:.3f}", name


def test_the_card_states_the_figures_by_kind(card, report):
    rows = card_rows(card, "By kind")
    assert set(rows) == set(report["by_kind"])
    for kind, values in report["by_kind"].items():
        own = [f"{values[name]:.2f}" for name in ("coverage", "chunk", "line", "citation")]
        assert rows[kind][0] == str(values["n"])
        assert [cell.split(" / ")[1] for cell in rows[kind][1:]] == own, kind


def test_the_card_lists_the_documents_with_their_counts(card, corpus, chunks):
    rows = card_rows(card, "Documents")
    assert list(rows) == list(corpus.documents["doc_id"])
    for document in corpus.documents.itertuples():
        title, *counts = rows[document.doc_id]
        assert title == document.title
        assert [int(count) for count in counts] == [
            len(_passages(corpus, document.doc_id)),
            sum(chunk.doc_id == document.doc_id for chunk in chunks),
            (corpus.questions["doc_id"] == document.doc_id).sum(),
        ]


def test_the_card_counts_the_questions_by_kind(card, corpus):
    rows = card_rows(card, "Questions")
    counts = corpus.questions["kind"].value_counts().to_dict()
    assert {kind: int(cells[0]) for kind, cells in rows.items()} == counts


def test_the_restarting_marks_are_where_the_card_says(card, texts):
    restarted = {
        doc_id
        for doc_id, text in texts.items()
        if len(notes := re.findall(r"(?m)^[¹²³⁴⁵⁶⁷⁸⁹]", text)) != len(set(notes))
    }
    assert restarted == {"R03", "R04", "R05", "R06"}
    assert "R03 to R06" in card


def _passages(corpus: Corpus, doc_id: str) -> list:
    """Return the passages of a document, in order."""
    return list(corpus.passages[corpus.passages["doc_id"] == doc_id].itertuples())


def _block_kind(block: str) -> str:
    """Tell what a block is by its first character."""
    return {"#": "heading", "|": "table"}.get(block[0], "note" if block[0] in "¹²³⁴⁵⁶⁷⁸⁹" else "paragraph")
