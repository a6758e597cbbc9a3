import json
import shutil
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from small_record import TEXTS, write_record
from typer.testing import CliRunner

import ragfin.cli
from ragfin.cli import app
from ragfin.corpus import load_corpus
from ragfin.lesson import LessonError, find_notebooks, run_notebook
from ragfin.runs import load_run


def run(*arguments: str):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert "Traceback" not in result.output
    return result


def as_json(*arguments: str):
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def record(tmp_path, small_folder, monkeypatch):
    monkeypatch.setenv("RAGFIN_CACHE", str(tmp_path / "cache"))
    return write_record(tmp_path / "answers.jsonl", small_folder, TEXTS)


# baseline


def test_baseline_prints_one_json_object_with_the_agreed_keys(small_folder):
    report = as_json("baseline", "--data", small_folder)
    assert list(report) == (
        "n_chunks n_questions n_unanswerable coverage chunk line line_exact citation auc threshold "
        "abstains_unanswerable abstains_answerable coverage_at by_kind"
    ).split(" ")
    assert (report["n_chunks"], report["n_questions"], report["n_unanswerable"]) == (8, 8, 2)


def test_baseline_shows_the_means_beside_the_published_ones(small_folder):
    result = run("baseline", "--data", small_folder)
    assert result.exit_code == 0
    assert "8 questions, 6 answerable, 8 chunks" in result.output
    assert "published" not in result.output  # those are of a corpus of the lesson's shape
    assert "cross-validated in 2 folds" in result.output
    assert "0.873" in run("baseline").output


def test_the_data_folder_may_come_from_the_environment(small_folder, monkeypatch):
    monkeypatch.setenv("RAGFIN_DATA", str(small_folder))
    assert as_json("baseline")["n_questions"] == 8


def test_bad_input_is_one_line_and_status_1(tmp_path):
    result = run("baseline", "--data", tmp_path / "nowhere")
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert line.startswith("ragfin: the corpus has a fault: ")
    assert line.endswith("nowhere: is not a folder; name the folder of the tables")


def test_every_fault_of_a_corpus_is_listed(small_folder):
    (small_folder / "passages.parquet").unlink()
    questions = pd.read_csv(small_folder / "questions.csv")
    questions.loc[2, "doc_id"] = "R77"
    questions.to_csv(small_folder / "questions.csv", index=False)
    result = run("corpus", "check", "--data", small_folder)
    assert result.exit_code == 1
    assert "the corpus has 2 faults:" in result.stderr
    assert "passages.parquet: file is missing; put it in" in result.stderr
    assert "questions.csv, row 4: doc_id 'R77' is not in the documents" in result.stderr


@pytest.mark.parametrize(
    "arguments", [["baseline", "--nonsense"], ["nonsense"], ["evaluate"], ["compare", "a", "--fail-if-worse", "f1"]]
)
def test_a_mistake_in_the_command_line_is_status_2(arguments):
    assert run(*arguments).exit_code == 2


@pytest.mark.parametrize(
    "command", [[], *([name] for name in "ask baseline generate evaluate compare lesson".split()), ["corpus", "check"]]
)
def test_every_command_explains_itself(command):
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert len(result.output) > 200


def test_what_looks_like_markup_in_the_data_is_printed_as_it_is(small_folder):
    path = small_folder / "questions.csv"
    questions = pd.read_csv(path)
    path.write_text(questions.assign(kind="[/bold]" + questions["kind"]).to_csv(index=False))
    for command in (["baseline"], ["evaluate", "baseline", "--by", "kind"], ["corpus", "check"]):
        result = run(*command, "--data", small_folder)
        assert result.exit_code == 0
        assert "[/bold]tabla" in result.output


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_that_lacks_a_letter_shows_a_question_mark(small_folder, encoding):
    command = ["ask", "QA001", "--data", str(small_folder)]
    shown = CliRunner(charset=encoding).invoke(app, command)
    assert shown.exit_code == 0
    assert "[1] score" in shown.stdout
    whole = CliRunner(charset=encoding).invoke(app, [*command, "--json"])
    assert whole.stdout.isascii()
    assert json.loads(whole.stdout)["question"] == load_corpus(small_folder).question("QA001").text


def test_the_version_is_printed():
    assert run("--version").output.startswith("ragfin 0.")


# ask


def test_ask_shows_the_chunks_an_answer_and_its_citation_checked(small_folder):
    found = as_json("ask", "QA002", "--data", small_folder)
    assert found["question"] == "¿Qué deuda financiera neta tenía Arven?"
    assert [hit["doc_id"] for hit in found["hits"]][:1] == ["R01"]
    assert found["hits"][0]["score"] >= found["hits"][1]["score"]
    assert found["answer"].startswith("La deuda financiera neta de Arven era de 312,4")
    [citation] = found["citations"]
    assert citation["covers_gold"] is True
    assert citation["gold_passages"] == ["R01-p005", "R01-p007"]
    assert "gold answer: 312,4 (contains the gold)" in found["notes"]
    assert "every figure stands in the chunks" in found["notes"]


def test_ask_takes_any_question_and_says_that_there_is_no_gold(small_folder):
    result = run("ask", "¿Cuántas personas trabajan en Arven [sic]?", "-k", "2", "--data", small_folder)
    assert result.exit_code == 0
    assert "[2] score" in result.output
    assert "[3] score" not in result.output
    assert "no gold to compare with (the question is not one of the corpus)" in result.output
    text = as_json("ask", "¿Cuántas personas empleaba Arven en 2023?", "--data", small_folder)
    assert text["question_id"] == "QA004"


def test_ask_says_when_it_would_abstain(small_folder):
    found = as_json("ask", "QA006", "--data", small_folder)
    assert found["citations"][0]["covers_gold"] is None
    assert any("it would abstain" in note for note in found["notes"])


def test_an_empty_question_and_an_unknown_model_are_refused(small_folder, monkeypatch):
    monkeypatch.setenv("RAGFIN_LIVE", "never")
    result = run("ask", " ", "--data", small_folder)
    assert (result.exit_code, result.stderr.strip()) == (
        1,
        "ragfin: the question is empty: ask something, or give an id such as QA105",
    )
    assert run("ask", "QA001", "--model", "qwen2.5-coder-0.5b-instruct", "--data", small_folder).exit_code == 1


# evaluate


def test_evaluate_reports_rates_abstention_and_the_failed_link(record, small_folder, tmp_path):
    found = as_json("evaluate", record, "--data", small_folder, "--by", "kind", "--csv", tmp_path / "rows.csv")
    assert found["system"] == "endpoint/small k=3"
    rates = {row["measure"]: row for row in found["rates"]}
    assert (rates["exact"]["n"], rates["exact"]["n_failed"]) == (8, 0)
    assert rates["exact"]["mean"] == 6 / 8  # the note is missed, and the class that does not exist is answered
    assert rates["citation"]["n"] + rates["citation"]["n_not_applicable"] == 8
    assert rates["chunk"]["mean"] is None
    assert found["abstention"]["recall"]["mean"] == 0.5
    assert found["failed_link"]["missed_abstention"] == 1
    assert sum(found["failed_link"].values()) == 8
    assert {row["kind"] for row in found["by_kind"]} >= {"texto", "no_respondible"}
    rows = pd.read_csv(tmp_path / "rows.csv")
    assert list(rows["question_id"]) == list(TEXTS)
    assert str(rows["cited"].iloc[0]) == "1.0"
    table = run("evaluate", record, "--data", small_folder)
    assert "recall 0.50 [0.09, 0.91] n=2" in table.output


def test_a_failed_answer_is_counted_as_failed(tmp_path, small_folder, monkeypatch):
    monkeypatch.setenv("RAGFIN_CACHE", str(tmp_path / "cache"))
    path = write_record(tmp_path / "a.jsonl", small_folder, TEXTS | {"QA001": "", "QA002": "312,4 [9] (1)"})
    found = as_json("evaluate", path, "--data", small_folder)
    rates = {row["measure"]: row for row in found["rates"]}
    assert (rates["exact"]["n"], rates["exact"]["n_failed"]) == (7, 1)
    assert found["failed_link"]["failed"] == 1
    assert (found["n_cut"], found["n_out_of_range"], found["n_malformed"]) == (0, 1, 1)


def test_the_baseline_can_be_evaluated_too(small_folder):
    found = as_json("evaluate", "baseline", "--data", small_folder, "--questions", "QA001,QA006")
    assert (found["system"], found["n"]) == ("extraction", 2)


def test_the_runs_of_one_record_are_told_apart(record, small_folder, tmp_path):
    write_record(record, small_folder, dict(list(TEXTS.items())[:2]), context="gold")
    write_record(record, small_folder, {"QA001": "7 %"}, k=1)
    corpus = load_corpus(small_folder)
    assert [answer.question_id for answer in load_run(record, corpus).answers] == list(TEXTS)
    gold = load_run(record, corpus, context="gold")
    assert [answer.question_id for answer in gold.answers] == ["QA001", "QA002"]
    assert [chunk.spans for chunk in gold.contexts["QA002"]] == [
        ((p.start, p.end),) for p in corpus.question("QA002").gold_passages
    ]
    found = as_json("evaluate", f"{record}@gold", "--data", small_folder)
    assert found["system"] == "endpoint/small gold"
    assert {row["measure"]: row["mean"] for row in found["rates"]}["coverage"] == 1.0


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "no record"),
        ("", "holds no answer: record some with 'ragfin generate"),
        ("{}\n", "line 1 is not a recorded answer"),
        ("foreign", "answers none of the 8 questions of this corpus"),
        ("k", "has no answers made from 3 retrieved chunks; it has 1 with 2 fragments: choose with @gold"),
    ],
)
def test_a_record_that_cannot_be_evaluated_is_refused_with_a_reason(tmp_path, small_folder, content, reason):
    path = tmp_path / "record.jsonl"
    line = {"key": "0" * 64, "question_id": "QA001", "model": "m", "dtype": "float32", "k": 2}
    line |= {"finish": "stop", "text": "x", "prompt_tokens": 1, "completion_tokens": 1}
    if content == "foreign":
        content = json.dumps(line | {"question_id": "Z1"}) + "\n"
    elif content == "k":
        content = json.dumps(line) + "\n"
    if content is not None:
        path.write_text(content)
    result = run("evaluate", path, "--data", small_folder)
    assert result.exit_code == 1
    assert reason in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_answer_that_could_belong_to_two_runs_is_refused(record, small_folder):
    lines = record.read_text().splitlines(keepends=True)
    again = json.loads(lines[0]) | {"key": "f" * 64}
    record.write_text("".join(lines) + json.dumps(again) + "\n")
    result = run("evaluate", record, "--data", small_folder)
    assert result.exit_code == 1
    assert "answers QA001 twice from 3 fragments" in result.stderr


def test_a_record_of_two_models_wants_a_name(record, small_folder):
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    other = [json.dumps(line | {"model": "other", "key": f"{i:064x}"}) for i, line in enumerate(lines)]
    record.write_text(record.read_text() + "\n".join(other) + "\n")
    result = run("evaluate", record, "--data", small_folder)
    assert result.exit_code == 1
    assert "holds answers of endpoint/small, other: name one of them with --model" in result.stderr
    assert as_json("evaluate", record, "--model", "other", "--data", small_folder)["system"] == "other k=3"


# compare


def test_compare_takes_the_questions_that_both_answered(record, small_folder, tmp_path):
    few = write_record(tmp_path / "few.jsonl", small_folder, {"QA001": "7 %", "QA002": "312,4 [1]", "QA006": "AAA"})
    found = as_json("compare", record, few, "--data", small_folder)
    assert found["questions"] == {"first": 8, "second": 3, "common": 3}
    pairs = {pair["measure"]: pair for pair in found["pairs"]}
    assert pairs["exact"]["n"] == 3
    assert pairs["exact"]["mcnemar"]["only_first"] == 2
    assert pairs["exact"]["difference"]["mean"] == pytest.approx(-2 / 3)
    assert pairs["abstains"]["n"] == 1
    assert list(found["systems"]) == ["endpoint/small k=3 (1)", "endpoint/small k=3 (2)"]
    table = run("compare", record, few, "--data", small_folder)
    assert "questions: 8 and 3, 3 in common" in table.output


def test_compare_sets_a_record_beside_the_baseline_unless_told(record, small_folder, tmp_path):
    found = as_json("compare", record, "--data", small_folder, "--csv", tmp_path / "rows.csv")
    assert list(found["systems"]) == ["endpoint/small k=3", "extraction"]
    assert len(pd.read_csv(tmp_path / "rows.csv")) == 16
    table = run("compare", record, "--data", small_folder)
    assert "1.00 (always [1])" in table.output


def test_a_regression_beyond_the_interval_fails(record, small_folder, tmp_path):
    bad = write_record(tmp_path / "bad.jsonl", small_folder, dict.fromkeys(TEXTS, "Nada"))
    result = run("compare", record, bad, "--data", small_folder, "--fail-if-worse", "exact")
    assert result.exit_code == 1
    assert "is worse on exact: -0.750" in result.stderr
    assert run("compare", bad, record, "--data", small_folder, "--fail-if-worse", "exact").exit_code == 0
    assert run("compare", record, bad, "--data", small_folder).exit_code == 0


def test_an_unknown_choice_of_answers_is_refused(record, small_folder):
    result = run("compare", f"{record}@oracle", "--data", small_folder)
    assert result.exit_code == 1
    assert "ends in @oracle: write @gold, @none, or @k and a number" in result.stderr
    result = run("evaluate", record, "--questions", "QA001,QA999", "--data", small_folder)
    assert "no question QA999: give all, sample, or ids like QA001,QA105" in result.stderr


# corpus


def test_corpus_check_reports_what_the_chunks_miss(small_folder):
    report = as_json("corpus", "check", "--data", small_folder)
    assert report["n_chunks"] == 8
    assert report["gold_faults"] == []
    assert report["needs_several_chunks"] == ["QA005"]
    assert "text in no chunk:" in run("corpus", "check", "--data", small_folder).output


def test_a_gold_figure_outside_its_passages_is_a_warning_for_another_corpus(
    tmp_path, write_tables, small_tables, monkeypatch
):
    small_tables["questions"].loc[0, "gold_answer"] = "21,5 %"
    folder = write_tables(tmp_path / "checkout" / "data", small_tables)
    result = run("corpus", "check", "--data", folder)
    assert result.exit_code == 0
    message = "gold figures that are not, or not with this unit and sign, in the gold passages: QA001"
    assert f"warning: {message}" in result.stderr
    (tmp_path / "checkout" / "pyproject.toml").touch()
    monkeypatch.setattr(ragfin.cli, "__file__", str(tmp_path / "checkout" / "src" / "ragfin" / "cli.py"))
    result = run("corpus", "check", "--data", folder)
    assert result.exit_code == 1
    assert f"ragfin: {message}" in result.stderr


def test_corpus_build_runs_the_builder_of_the_checkout(tmp_path, monkeypatch):
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(ragfin.cli, "__file__", str(tmp_path / "src" / "ragfin" / "cli.py"))
    result = run("corpus", "build")
    assert result.exit_code == 1
    assert "build the corpus in a checkout of the project" in result.stderr
    code = "def build(source, out):\n    return {'documents': f'{source.name}>{out.name}'}\n"
    (data / "build_corpus.py").write_text(code)
    assert run("corpus", "build").output == "documents  source>data\n"
    (data / "build_corpus.py").write_text("def build(source, out):\n    raise ValueError('R01.toml: bad')\n")
    result = run("corpus", "build", "--out", tmp_path / "elsewhere")
    assert (result.exit_code, result.stderr) == (1, "ragfin: R01.toml: bad\n")


# lesson


def test_a_source_that_is_no_folder_is_refused(tmp_path):
    result = run("corpus", "build", "--source", tmp_path / "nowhere", "--out", tmp_path)
    assert result.exit_code == 1
    assert "nowhere is not a folder: name the one that holds corpus.toml" in result.stderr


def notebook(path: Path, *cells: str) -> Path:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell, id=f"c{i}") for i, cell in enumerate(cells)])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(book, path)
    return path


@pytest.fixture
def checkout(tmp_path, small_folder, monkeypatch):
    """A checkout with two notebooks and the small corpus."""
    root = tmp_path / "checkout"
    shutil.copytree(small_folder, root / "data")
    (root / "pyproject.toml").touch()
    notebook(root / "notebooks" / "01_one.ipynb", "import os\nprint(os.path.basename(os.getcwd()))", "1 + 1")
    notebook(root / "notebooks" / "02_two.ipynb", "print('two')")
    monkeypatch.setattr(ragfin.cli, "__file__", str(root / "src" / "ragfin" / "cli.py"))
    monkeypatch.setenv("RAGFIN_DATA", str(root / "data"))
    return root


def test_the_lesson_executes_copies_in_order_and_prints_the_headline(checkout):
    before = (checkout / "notebooks" / "01_one.ipynb").read_bytes()
    result = run("lesson")
    assert result.exit_code == 0, result.output
    assert result.stderr.index("01_one") < result.stderr.index("02_two")
    assert "2 notebooks executed" in result.stdout
    assert "Extractive baseline: 8 questions" in result.stdout
    assert (checkout / "notebooks" / "01_one.ipynb").read_bytes() == before


def test_the_headline_leaves_out_records_of_a_few_questions(checkout):
    answers = checkout / "data" / "answers"
    answers.mkdir()
    write_record(answers / "part.jsonl", checkout / "data", dict(list(TEXTS.items())[:3]))
    assert "n=3" not in run("lesson").stdout
    write_record(answers / "whole.jsonl", checkout / "data", TEXTS)
    shown = run("lesson").stdout
    assert "n=8" in shown
    assert "n=3 " not in shown


def test_update_writes_outputs_back_without_time_or_version(checkout):
    path = checkout / "notebooks" / "01_one.ipynb"
    assert run("lesson", "01", "--update").exit_code == 0
    book = nbformat.read(path, as_version=4)
    assert book.cells[0].outputs[0].text == "notebooks\n"
    assert book.cells[1].outputs[0].data["text/plain"] == "2"
    assert [cell.execution_count for cell in book.cells] == [1, 2]
    assert "version" not in book.metadata["language_info"]
    assert all("execution" not in cell.metadata for cell in book.cells)
    first = path.read_bytes()
    assert run("lesson", "01", "--update").exit_code == 0
    assert path.read_bytes() == first


def test_the_first_failing_cell_stops_the_lesson_and_is_named(checkout):
    path = notebook(checkout / "notebooks" / "01_one.ipynb", "x = 1", "#| label: broken\ny = x / 0", "print('never')")
    before = path.read_bytes()
    result = run("lesson", "--update")
    assert result.exit_code == 1
    assert "01_one.ipynb, cell 2 (broken) failed: ZeroDivisionError: division by zero" in result.stderr
    assert "02_two" not in result.stderr
    assert path.read_bytes() == before
    notebook(path, "z = missing")
    with pytest.raises(LessonError, match=r"01_one.ipynb, cell 1 \('z = missing'\) failed: NameError"):
        run_notebook(path)


def test_notebooks_are_found_by_their_number(checkout):
    folder = checkout / "notebooks"
    solution = notebook(folder / "solutions" / "01_one.ipynb", "1")
    assert [path.name for path in find_notebooks(folder)] == ["01_one.ipynb", "02_two.ipynb"]
    assert find_notebooks(folder, ["solutions/"]) == [solution]
    assert find_notebooks(folder, ["02", "01"]) == [folder / "02_two.ipynb", folder / "01_one.ipynb"]
    result = run("lesson", "09")
    assert result.exit_code == 1
    assert "no notebook 09*.ipynb in" in result.stderr
    (folder / "01_one.ipynb").write_text("{")
    assert "01_one.ipynb is no notebook" in run("lesson", "01").stderr
