import pickle
import re
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ragfin.corpus
from ragfin import CorpusError, load_corpus

SPANISH = {
    "doc_id": "id_doc",
    "title": "titulo",
    "text": "texto",
    "passage_id": "id_pasaje",
    "start": "inicio",
    "end": "fin",
    "question_id": "id_pregunta",
    "question": "pregunta",
    "gold_answer": "respuesta_oro",
    "kind": "tipo_pregunta",
    "answerable": "respondible",
    "gold_passages": "pasajes_oro",
}


def faults_of(folder: Path) -> list[str]:
    with pytest.raises(CorpusError) as caught:
        load_corpus(folder)
    faults = [str(fault) for fault in caught.value.faults]
    assert all(fault.file and fault.problem and fault.repair for fault in caught.value.faults)
    if len(faults) == 1:
        assert str(caught.value) == f"the corpus has a fault: {faults[0]}"
    else:
        assert str(caught.value).splitlines() == [f"the corpus has {len(faults)} faults:", *(f"  {f}" for f in faults)]
    return faults


def test_a_question_carries_its_gold_passages_as_spans_of_the_raw_text(small_corpus):
    question = small_corpus.question("QA002")
    text = small_corpus.documents.set_index("doc_id").loc["R01", "text"]
    assert [text[p.start : p.end] for p in question.gold_passages] == [
        "La deuda financiera neta de Arven era de 312,4 millones de euros al cierre de 2023¹.",
        "¹ No incluye los pasivos por arrendamiento.",
    ]
    assert question[:4] == ("QA002", "R01", "¿Qué deuda financiera neta tenía Arven?", "312,4")
    assert question[4:6] == ("texto_y_nota", True)


def test_iterating_yields_the_questions_in_file_order(loaded, small_tables):
    small_tables["questions"] = small_tables["questions"].iloc[::-1]
    corpus = loaded(small_tables)
    assert [question.id for question in corpus] == [f"QA00{i}" for i in range(8, 0, -1)]
    assert len(corpus) == 8
    assert corpus.question("QA006").gold_passages == ()


def test_an_unknown_question_id_is_refused_with_the_ids_that_exist(small_corpus):
    with pytest.raises(KeyError, match=r"'QA999': ids run from QA001 to QA008"):
        small_corpus.question("QA999")


def test_the_lessons_own_files_and_spanish_columns_give_the_same_corpus(tmp_path, small_tables, small_corpus):
    spanish = {name: frame.rename(columns=SPANISH) for name, frame in small_tables.items()}
    spanish["documents"].to_parquet(tmp_path / "rag6_documentos.parquet")
    spanish["passages"].to_parquet(tmp_path / "rag6_pasajes.parquet")
    spanish["questions"].to_csv(tmp_path / "rag6_preguntas.csv", index=False)
    corpus = load_corpus(tmp_path)
    assert list(corpus) == list(small_corpus)
    pd.testing.assert_frame_equal(corpus.documents, small_corpus.documents)
    pd.testing.assert_frame_equal(corpus.passages, small_corpus.passages)
    pd.testing.assert_frame_equal(corpus.questions, small_corpus.questions)


@pytest.mark.parametrize("extension", ["csv", "jsonl", "parquet"])
def test_every_table_may_be_csv_json_lines_or_parquet(tmp_path, small_tables, small_corpus, extension):
    for name, frame in small_tables.items():
        if extension == "csv":
            frame.to_csv(tmp_path / f"{name}.csv", index=False)
        elif extension == "jsonl":
            frame.to_json(tmp_path / f"{name}.jsonl", orient="records", lines=True, force_ascii=False)
        else:
            frame.to_parquet(tmp_path / f"{name}.parquet")
    corpus = load_corpus(tmp_path)
    assert list(corpus) == list(small_corpus)
    assert list(corpus.documents["text"]) == list(small_corpus.documents["text"])


def test_the_final_types_are_text_int64_and_bool_and_other_columns_are_kept(loaded, small_tables):
    small_tables["documents"]["issuer"] = ["Arven", "Arven", None]
    small_tables["questions"]["dificultad"] = "alta"
    corpus = loaded(small_tables)
    assert str(corpus.passages["start"].dtype) == str(corpus.passages["end"].dtype) == "int64"
    assert str(corpus.questions["answerable"].dtype) == "bool"
    assert list(corpus.documents.columns) == ["doc_id", "title", "text", "issuer"]
    assert list(corpus.questions["dificultad"]) == ["alta"] * 8


@pytest.mark.parametrize(
    ("yes", "no"), [("True", "False"), (1, 0), ("1.0", "0.0"), ("sí", "no"), ("SI", "NO"), ("verdadero", "falso")]
)
def test_answerable_may_be_written_in_several_ways(loaded, small_tables, yes, no):
    flags = small_tables["questions"]["answerable"]
    small_tables["questions"]["answerable"] = [yes if flag else no for flag in flags]
    assert [question.answerable for question in loaded(small_tables)] == list(flags)


def test_missing_gold_passages_may_be_null_and_offsets_may_be_whole_floats(
    tmp_path, write_tables, small_tables, small_corpus
):
    write_tables(tmp_path, small_tables)
    questions = small_tables["questions"].replace({"gold_passages": {"": None}})
    (tmp_path / "questions.csv").unlink()
    questions.to_parquet(tmp_path / "questions.parquet")
    small_tables["passages"].astype({"start": "float64"}).to_parquet(tmp_path / "passages.parquet")
    assert list(load_corpus(tmp_path)) == list(small_corpus)


def test_a_byte_order_mark_semicolons_and_categories_are_read(tmp_path, write_tables, small_tables, small_corpus):
    write_tables(tmp_path, small_tables)
    small_tables["passages"].astype({"doc_id": "category"}).to_parquet(tmp_path / "passages.parquet")
    small_tables["questions"].to_csv(tmp_path / "questions.csv", index=False, sep=";", encoding="utf-8-sig")
    assert list(load_corpus(tmp_path)) == list(small_corpus)


def test_an_empty_document_text_is_a_text(loaded, small_tables):
    small_tables["documents"].loc[3] = ["R04", "Vacío", ""]
    assert list(loaded(small_tables).documents["text"])[-1] == ""


def test_every_missing_file_is_reported_at_once(tmp_path):
    lines = faults_of(tmp_path)
    assert [line.partition(":")[0] for line in lines] == ["documents.parquet", "passages.parquet", "questions.csv"]
    assert all("file is missing" in line for line in lines)


def test_faults_of_all_tables_come_together_each_with_file_row_and_repair(tmp_path, write_tables, small_tables):
    documents, passages, questions = (small_tables[name] for name in ("documents", "passages", "questions"))
    documents.loc[1, "title"] = None
    passages.loc[0, ["start", "end"]] = [9, 9]
    passages.loc[1, ["start", "end"]] = [30, 20]
    passages.loc[2, "end"] = 10_000
    passages.loc[3, "start"] = -1
    passages.loc[4, "doc_id"] = "R99"
    passages.loc[6, "passage_id"] = "R01-p006"
    questions.loc[0, "gold_passages"] = "R01-p003;R01-p777"
    questions.loc[3, "gold_answer"] = ""
    questions.loc[4, "gold_passages"] = ""
    questions.loc[5, "gold_passages"] = "R01-p001"
    questions.loc[6, "question_id"] = "QA002"
    questions["answerable"] = questions["answerable"].astype(object)
    questions.loc[7, "answerable"] = "quizá"
    lines = faults_of(write_tables(tmp_path / "bad", small_tables))
    expected = [
        r"documents\.parquet, row 2: title is empty; fill in",
        r"passages\.parquet, row 1: span 9-9 is empty; make end greater",
        r"passages\.parquet, row 2: span 30-20 is reversed; make end greater",
        r"passages\.parquet, row 3: span \d+-10000 lies outside its document 'R01'; keep it within 0-\d+",
        r"passages\.parquet, row 4: span -1-\d+ lies outside its document 'R01'; keep",
        r"passages\.parquet, row 5: doc_id 'R99' is not in the documents; correct",
        r"passages\.parquet, row 7: passage_id 'R01-p006' is already in row 6; give",
        r"questions\.csv, row 2: gold passage 'R01-p777' does not exist; correct",
        r"questions\.csv, row 3: gold passage 'R01-p007' does not exist; correct",
        r"questions\.csv, row 4: gold passage 'R01-p007' does not exist; correct",
        r"questions\.csv, row 5: gold_answer is empty; fill in",
        r"questions\.csv, row 6: is answerable but has no gold passage; name",
        r"questions\.csv, row 7: is unanswerable but has gold passages 'R01-p001'; empty",
        r"questions\.csv, row 8: question_id 'QA002' is already in row 3; give",
        r"questions\.csv, row 9: answerable 'quizá' \(str\) is neither true nor false; write",
    ]
    assert len(lines) == len(expected)
    for line, pattern in zip(lines, expected, strict=True):
        assert re.match(pattern, line), (line, pattern)


@pytest.mark.parametrize(
    ("table", "column", "value", "pattern"),
    [
        ("documents", "text", None, r"documents\.parquet, row 1: text is empty"),
        ("documents", "text", "NaN", r"documents\.parquet, row 1: text is empty"),
        ("documents", "doc_id", " ", r"documents\.parquet, row 1: doc_id is empty"),
        ("passages", "start", "12a", r"passages\.parquet, row 1: start '12a' \(str\) is not a whole number"),
        ("passages", "end", "1.5", r"passages\.parquet, row 1: end '1.5' \(str\) is not a whole number"),
        ("questions", "question", None, r"questions\.csv, row 2: question is empty"),
        ("questions", "gold_answer", "de la", r"questions\.csv, row 2: gold_answer 'de la' has no word and no figure"),
        (
            "questions",
            "gold_answer",
            "No consta",
            r"questions\.csv, row 2: is answerable but its gold answer is 'No co",
        ),
        ("questions", "answerable", "", r"questions\.csv, row 2: answerable is empty"),
        ("questions", "doc_id", "R77", r"questions\.csv, row 2: doc_id 'R77' is not in the documents"),
        ("questions", "gold_passages", "R01-p003;R01-p003", r"questions\.csv, row 2: gold passage .* is named twice"),
    ],
)
def test_one_bad_cell_is_named_with_its_row(tmp_path, write_tables, small_tables, table, column, value, pattern):
    frame = small_tables[table]
    frame[column] = frame[column].astype(str if column in {"start", "end"} else object)
    frame.loc[0, column] = value
    lines = faults_of(write_tables(tmp_path / "bad", small_tables))
    assert any(re.match(pattern, line) for line in lines), lines


@pytest.mark.parametrize(
    ("table", "column"), [("documents", "text"), ("passages", "end"), ("questions", "gold_passages")]
)
def test_a_missing_column_is_one_fault_without_noise(tmp_path, write_tables, small_tables, table, column):
    small_tables[table] = small_tables[table].drop(columns=column)
    [line] = faults_of(write_tables(tmp_path / "bad", small_tables))
    assert line.startswith(f"{table}.")
    assert f"column {column!r} is missing; add it ({SPANISH[column]!r} also does)" in line


def test_a_column_of_the_wrong_type_is_one_fault(tmp_path, write_tables, small_tables):
    small_tables["passages"]["passage_id"] = range(len(small_tables["passages"]))
    small_tables["questions"]["gold_passages"] = ""
    small_tables["questions"]["answerable"] = False
    small_tables["questions"]["gold_answer"] = "No consta"
    [line] = faults_of(write_tables(tmp_path / "bad", small_tables))
    assert line.startswith("passages.parquet, row 1: passage_id 0 (int) is not text, as in every row; fill in")


@pytest.mark.parametrize("table", ["documents", "passages", "questions"])
def test_an_empty_table_is_refused(tmp_path, write_tables, small_tables, table):
    small_tables[table] = small_tables[table].iloc[:0]
    lines = faults_of(write_tables(tmp_path / "bad", small_tables))
    assert any(line.startswith(f"{table}.") and "has no rows; add at least one" in line for line in lines)


def test_an_empty_file_is_refused(small_folder):
    (small_folder / "questions.csv").write_bytes(b"")
    (small_folder / "passages.parquet").write_bytes(b"")
    lines = faults_of(small_folder)
    assert any(line.startswith("passages.parquet: cannot be read (") for line in lines)
    assert any(line.startswith("questions.csv") for line in lines)


def test_every_line_that_is_not_utf8_is_named(small_folder):
    path = small_folder / "questions.csv"
    path.write_bytes(path.read_bytes().replace(b"dividendos", b"dividendos \xf3").replace(b"704", b"70\xff"))
    lines = faults_of(small_folder)
    assert [line.split(":")[0] for line in lines] == ["questions.csv, row 5", "questions.csv, row 8"]
    assert "byte 0xff is not UTF-8" in lines[0]
    assert "byte 0xf3 is not UTF-8" in lines[1]
    assert lines[0].endswith("save the file as UTF-8")


def test_text_in_parquet_that_is_not_utf8_is_named(small_folder, small_tables):
    texts = [text.encode() for text in small_tables["documents"]["text"]]
    texts[1] = texts[1].replace("ñ".encode(), b"\xf1")
    column = pa.array(texts, pa.binary()).view(pa.string())
    table = pa.table({"doc_id": ["R01", "R02", "R03"], "title": ["a", "b", "c"], "text": column})
    pq.write_table(table, small_folder / "documents.parquet")
    assert any(
        re.match(r"documents\.parquet, row 2: text: byte 0xf1 is not UTF-8", line) for line in faults_of(small_folder)
    )


def test_half_a_surrogate_pair_in_json_is_not_text(tmp_path, write_tables, small_tables):
    write_tables(tmp_path, small_tables)
    (tmp_path / "documents.parquet").unlink()
    small_tables["documents"].to_json(tmp_path / "documents.jsonl", orient="records", lines=True)
    path = tmp_path / "documents.jsonl"
    path.write_text(path.read_text().replace("Folleto", r"\ud800") + "[1]\n{bad\n")
    lines = faults_of(tmp_path)
    assert "documents.jsonl, row 3: holds half of a surrogate pair; write the text as UTF-8" in lines
    assert "documents.jsonl, row 4: is not a JSON object; write one object a line" in lines
    assert "documents.jsonl, row 5: is not a JSON object; write one object a line" in lines


def test_a_json_line_nested_too_deep_is_a_fault(tmp_path, write_tables, small_tables):
    write_tables(tmp_path, small_tables)
    (tmp_path / "passages.parquet").unlink()
    (tmp_path / "passages.jsonl").write_text('{"start": ' + "[" * 100_000 + "]" * 100_000 + "}\n")
    assert "passages.jsonl, row 1: is not a JSON object; write one object a line" in faults_of(tmp_path)


def test_an_id_that_is_a_list_is_a_fault(tmp_path, write_tables, small_tables):
    small_tables["passages"]["passage_id"] = [[name] for name in small_tables["passages"]["passage_id"]]
    write_tables(tmp_path, small_tables)
    lines = faults_of(tmp_path)
    assert lines[0].startswith("passages.parquet, row 1: passage_id ['R01-p001'] (list) is not text, as in every row")


@pytest.mark.parametrize("end", ["1" + "0" * 400, "1e300", "9007199254740992"])
def test_an_offset_beyond_any_text_is_a_fault(tmp_path, write_tables, small_tables, end):
    write_tables(tmp_path, small_tables)
    (tmp_path / "passages.parquet").unlink()
    small_tables["passages"].to_json(tmp_path / "passages.jsonl", orient="records", lines=True)
    path = tmp_path / "passages.jsonl"
    path.write_text(re.sub(r'"end":\d+', f'"end":{end}', path.read_text(), count=1))
    [line] = faults_of(tmp_path)
    assert line.startswith("passages.jsonl, row 1: end ")
    assert line.endswith("is not a whole number; write an offset in code points, such as 120")


def test_a_document_without_text_is_not_also_missing(tmp_path, write_tables, small_tables):
    small_tables["documents"].loc[0, "text"] = None
    write_tables(tmp_path, small_tables)
    [line] = faults_of(tmp_path)
    assert line == "documents.parquet, row 1: text is empty; fill in the document's text"


def test_rows_of_a_csv_are_counted_as_its_lines_even_after_a_cell_with_line_breaks(
    tmp_path, write_tables, small_tables
):
    small_tables["questions"].loc[0, "question"] = "¿Qué\nmargen\ntuvo Arven?"
    small_tables["questions"].loc[1, "doc_id"] = "R77"
    [line] = faults_of(write_tables(tmp_path / "bad", small_tables))
    assert line.startswith("questions.csv, row 5: doc_id 'R77'")


def test_rows_with_too_many_cells_and_an_open_quote_are_named(small_folder):
    path = small_folder / "questions.csv"
    path.write_text(path.read_text() + 'QA009,R01,a,b,texto,True,R01-p003,de más\nQA010,"R01')
    lines = faults_of(small_folder)
    assert any(line.startswith("questions.csv, row 11: is not CSV from here on") for line in lines), lines
    path.write_text(path.read_text().replace('QA010,"R01', ""))
    assert faults_of(small_folder) == [
        "questions.csv, row 10: has 8 cells, the header has 7; quote the cells that hold a comma or a quote"
    ]


def test_an_error_crosses_processes_with_its_faults(tmp_path):
    with pytest.raises(CorpusError) as caught:
        load_corpus(tmp_path)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.faults == caught.value.faults


def test_the_folder_is_the_argument_then_the_variable_then_the_checkout_then_the_package(
    tmp_path, write_tables, small_tables, monkeypatch
):
    def library_in(place: Path) -> None:
        monkeypatch.setattr(ragfin.corpus, "__file__", str(place / "src" / "ragfin" / "corpus.py"))

    monkeypatch.delenv("RAGFIN_DATA", raising=False)
    library_in(tmp_path / "clone")
    with pytest.raises(CorpusError, match="no corpus found; name the folder of the three tables, or set RAGFIN_DATA"):
        load_corpus()
    packaged = write_tables(tmp_path / "clone" / "src" / "ragfin" / "data", small_tables)
    assert ragfin.corpus.find_data() == packaged
    checkout = write_tables(tmp_path / "clone" / "data", small_tables)
    assert ragfin.corpus.find_data() == checkout
    named = write_tables(tmp_path / "named", small_tables)
    monkeypatch.setenv("RAGFIN_DATA", str(named))
    assert ragfin.corpus.find_data() == named
    assert ragfin.corpus.find_data(checkout) == checkout
    monkeypatch.setenv("RAGFIN_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(CorpusError, match="nowhere: is not a folder; correct RAGFIN_DATA"):
        load_corpus()
