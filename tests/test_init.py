"""A corpus of one's own, from `ragfin init` to measured answers, by the commands."""

import errno
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from faulty_server import answer_to
from test_endpoints import serve  # noqa: F401
from typer.testing import CliRunner

from ragfin import load_corpus
from ragfin.checks import corpus_report
from ragfin.chunking import Chunk
from ragfin.cli import app
from ragfin.cli_own import confirm_departure
from ragfin.endpoints import Usage
from ragfin.extraction import baseline_report
from ragfin.outbound import Departure, departure, host_of, usage_file, usage_totals, usage_writer
from ragfin.prompts import Message, Request
from ragfin.records import AnswerRecord
from ragfin.retrieval import Hit
from ragfin.settings import Prices, load_settings
from ragfin.skeleton import write_skeleton

NOT_SUPERUSER = pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write to read-only folders")
PRICED = '\n[prices]\ninput = 10\noutput = 20\ncurrency = "EUR"\n'


def run(*arguments: object, code: int = 0, text: str | None = None):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=text)
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.fixture
def folder(tmp_path) -> Path:
    """Give a new corpus in a folder whose path has spaces and accents."""
    path = tmp_path / "mi año ñ" / "corpus"
    run("init", path)
    return path


@pytest.fixture
def endpoint_folder(folder, serve, monkeypatch):  # noqa: F811
    """Give a corpus whose model is a local server, and the server."""
    monkeypatch.setenv("RAGFIN_LIVE", "auto")
    server = serve()
    with (folder / "ragfin.toml").open("a", encoding="utf-8") as stream:
        stream.write(f'\n[model]\nname = "m"\nurl = "{server.url}"\nmax_tokens = 50\n{PRICED}')
    return folder, server


@pytest.mark.parametrize("language", ["es", "en"])
def test_the_skeleton_is_a_whole_corpus_without_fault(tmp_path, language):
    write_skeleton(tmp_path / language, language)
    corpus = load_corpus(tmp_path / language)
    report = corpus_report(corpus)
    assert {name: report[name] for name in ("n_documents", "n_passages", "n_questions", "n_unanswerable")} == {
        "n_documents": 2, "n_passages": 2, "n_questions": 2, "n_unanswerable": 1,
    }  # fmt: skip
    assert (report["gold_faults"], report["gold_in_no_chunk"]) == ([], [])
    assert baseline_report(corpus)["line_exact"] == 1
    assert corpus.language.code == language


def test_every_column_is_explained(folder):
    told = (folder / "README.md").read_text(encoding="utf-8")
    for name in ("documents", "passages", "questions"):
        for column in pd.read_csv(folder / f"{name}.csv").columns:
            assert f"`{column}`" in told


def test_every_commented_setting_can_be_used(folder):
    path = folder / "ragfin.toml"
    lines = path.read_text(encoding="utf-8").splitlines()
    used = [line.removeprefix("# ") for line in lines if not line.startswith(("# Instead", "# How", "language"))]
    path.write_text("\n".join(used), encoding="utf-8")
    with_all = load_settings(folder).model_dump()
    assert [name for name, value in with_all.items() if value is None] == []
    assert with_all["model"]["key_variable"] == "MY_KEY"


def test_nothing_is_overwritten(folder):
    (folder / "ragfin.toml").write_text("k = 5\n", encoding="utf-8")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert "already holds README.md, ragfin.toml" in run("init", folder, code=1).output
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_an_unknown_language_is_refused_in_one_line(tmp_path):
    result = run("init", tmp_path / "new", "--language", "fr", code=1)
    assert result.output == "ragfin: language 'fr' is not one of es, en: take one, and change its settings\n"
    assert not (tmp_path / "new").exists()


def test_check_tells_sizes_and_kinds(folder):
    told = run("corpus", "check", folder).output
    assert "2 documents, 2 passages, 3 chunks, 2 questions, 1 unanswerable" in told
    assert "characters in a document: 95 to 181, median 138, in all 276" in told
    assert "questions by kind: no_respondible 1, texto 1" in told
    assert json.loads(run("corpus", "check", folder, "--json").stdout)["document_chars"]["sum"] == 276


def test_the_baseline_takes_the_retriever_of_the_settings(folder, monkeypatch):
    """A retriever that always brings the wrong document covers nothing."""
    monkeypatch.setitem(sys.modules, "own_wrong", SimpleNamespace(Wrong=Wrong))
    path = folder / "ragfin.toml"
    path.write_text('retriever = "own_wrong:Wrong"\n' + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert json.loads(run("baseline", "--data", folder, "--json").stdout)["coverage"] == 0


class Wrong:
    """Bring the second document's chunks, whatever is asked."""

    def __init__(self, chunks: list[Chunk]) -> None:
        self.chunks = [chunk for chunk in chunks if chunk.doc_id == "R02"]

    def search(self, question: str, k: int = 3) -> list[Hit]:
        return [Hit(chunk, 1.0) for chunk in self.chunks[:k]]


def test_windows_line_ends_in_the_tables_change_nothing(folder):
    before = load_corpus(folder)
    for name in ("passages.csv", "questions.csv", "ragfin.toml"):
        path = folder / name
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    after = load_corpus(folder)
    assert list(after) == list(before)


def test_a_folder_of_filings_is_converted_by_the_command(folder, tmp_path):
    filings = tmp_path / "informes 2023"
    filings.mkdir()
    (filings / "R01.md").write_bytes(b"# Uno\r\n\r\nDeuda de 3.")
    assert "1 documents" in run("corpus", "convert", filings, tmp_path / "nuevo").output
    assert pd.read_parquet(tmp_path / "nuevo" / "documents.parquet")["text"][0] == "# Uno\n\nDeuda de 3."
    assert "is not a folder" in run("corpus", "convert", tmp_path / "none", folder, code=1).output


@pytest.mark.parametrize("workers", [1, 2])
def test_a_table_of_documents_is_chunked_by_the_command(folder, tmp_path, workers):
    pd.read_csv(folder / "documents.csv").to_parquet(tmp_path / "d.parquet")
    assert (
        "3 chunks"
        in run("corpus", "chunk", tmp_path / "d.parquet", tmp_path / "c.parquet", "--workers", workers).output
    )
    assert len(pd.read_parquet(tmp_path / "c.parquet")) == 3


@pytest.mark.server
def test_from_init_to_a_comparison(endpoint_folder):
    folder, server = endpoint_folder
    result = run("generate", "--data", folder)
    record = folder / "answers" / "endpoint-m.jsonl"
    assert (
        "stays on this machine (127.0.0.1): 2 questions, and fragments of 2 documents: R01 (4), R02 (2)"
        in result.output
    )
    assert {answer_to(q.text) for q in load_corpus(folder)} == {
        json.loads(line)["text"] for line in record.read_text(encoding="utf-8").splitlines()
    }
    assert len(server.log) == 2
    measured = json.loads(run("evaluate", record, "--data", folder, "--json").stdout)
    assert (measured["system"], measured["n"]) == ("endpoint:m k=3", 2)
    compared = run("compare", record, "baseline", "--data", folder, "--html", folder / "page.html").output
    assert "2 in common" in compared
    assert "Aceros Lumbre" in (folder / "page.html").read_text(encoding="utf-8")
    again = run("generate", "--data", folder)
    assert "nothing is sent: every answer is recorded" in again.output
    assert len(server.log) == 2


@pytest.mark.server
def test_tokens_latency_and_cost_are_summed(endpoint_folder):
    """Two questions: the server counts a token per character of each, and 7 written; 10 and 20 EUR a million."""
    folder, _ = endpoint_folder
    told = run("generate", "--data", folder).output
    read = sum(len(question.text) for question in load_corpus(folder))
    assert (
        f"2 answers asked in 2 attempts, {read} tokens read, 14 written, {(read * 10 + 14 * 20) / 1e6:.4f} EUR" in told
    )
    record = folder / "answers" / "endpoint-m.jsonl"
    totals = usage_totals(record)
    assert totals["cost"] == {"EUR": pytest.approx((read * 10 + 14 * 20) / 1e6)}
    assert 0 < totals["seconds_median"] <= totals["seconds_95"] < 60
    assert "seconds" not in record.read_text(encoding="utf-8")
    assert "2 answers asked in 2 attempts" in run("evaluate", record, "--data", folder).output


@pytest.mark.server
def test_a_dry_run_estimates_and_sends_nothing(endpoint_folder):
    folder, server = endpoint_folder
    told = run("generate", "--data", folder, "--dry-run").output
    assert "at most 100 to write, at most about 0." in told
    assert (server.log, list(folder.glob("answers*"))) == ([], [])


@pytest.mark.server
def test_text_leaves_only_with_consent(endpoint_folder, monkeypatch):
    folder, server = endpoint_folder
    monkeypatch.setattr("ragfin.outbound.is_loopback", lambda host: False)
    refused = run("generate", "--data", folder, code=1).output
    assert "leaves this machine for 127.0.0.1: 2 questions" in refused
    assert "add --yes to agree; nothing was sent" in refused
    assert server.log == []
    run("generate", "--data", folder, "--yes")
    assert len(server.log) == 2


@pytest.mark.server
def test_a_folder_that_cannot_be_written_is_said_in_one_line(endpoint_folder, tmp_path):
    folder, server = endpoint_folder
    (tmp_path / "file").write_text("", encoding="utf-8")
    told = run("generate", "--data", folder, "--record", tmp_path / "file" / "answers.jsonl", code=1).output
    assert told.splitlines()[-1].startswith("ragfin: [Errno")
    assert server.log == []


@pytest.mark.server
@NOT_SUPERUSER
def test_a_read_only_folder_is_said_in_one_line(endpoint_folder):
    folder, server = endpoint_folder
    folder.chmod(0o500)
    try:
        told = run("generate", "--data", folder, code=1).output
    finally:
        folder.chmod(0o700)
    assert "Permission denied" in told.splitlines()[-1]
    assert server.log == []


@pytest.mark.server
def test_a_full_disk_is_said_in_one_line_and_the_next_run_goes_on(endpoint_folder, monkeypatch):
    folder, _ = endpoint_folder
    real = os.fsync

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    told = run("generate", "--data", folder, code=1).output
    assert told.splitlines()[-1] == "ragfin: [Errno 28] No space left on device"
    monkeypatch.setattr(os, "fsync", real)
    run("generate", "--data", folder)
    assert len(AnswerRecord(folder / "answers" / "endpoint-m.jsonl")) == 2


@pytest.mark.server
def test_a_read_only_disk_is_said_in_one_line(endpoint_folder, monkeypatch):
    folder, server = endpoint_folder

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    told = run("generate", "--data", folder, code=1).output
    assert told.splitlines()[-1].startswith("ragfin: [Errno 30] Read-only file system")
    assert server.log == []


@NOT_SUPERUSER
def test_a_corpus_in_a_read_only_folder_can_be_measured(folder):
    for path in folder.iterdir():
        path.chmod(0o400)
    folder.chmod(0o500)
    try:
        run("baseline", "--data", folder)
        run("ask", "Q001", "--data", folder)
    finally:
        folder.chmod(0o700)


GOING = Departure("api.example.com", {"R01": 2}, 1, 900, 128, None, "")


def test_a_terminal_is_asked(monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    with pytest.raises(ValueError, match="nothing was sent"):
        confirm_departure(GOING, yes=False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: True)
    confirm_departure(GOING, yes=False)
    assert "leaves this machine for api.example.com: 1 questions, and fragments of 1 documents: R01 (2)" in (
        capsys.readouterr().err
    )


def test_an_estimate_is_arithmetic():
    """Two requests of 5 and 6 characters: 2 and 3 tokens; 10 to write each; 1 and 2 a million."""
    requests = [Request(f"Q{n}", (Message("user", "x" * (5 + n)),), 1) for n in (0, 1)]
    chunk = Chunk("R01", "", "", ((0, 1),), "x")
    going = departure("h", requests, [[chunk], [chunk]], max_tokens=10, prices=Prices(input=1, output=2))
    assert (going.prompt_tokens, going.completion_tokens, going.fragments) == (5, 20, {"R01": 2})
    assert going.cost == pytest.approx(45e-6)


def test_nobody_knows_where_an_unknown_generator_sends_text():
    assert host_of(type("Own", (), {})()) == "wherever Own sends it"
    assert Departure(host_of(type("Own", (), {})()), {}, 1, 0, 0, None, "").leaves


def test_usage_is_kept_beside_the_record_without_prices_too(tmp_path):
    record = tmp_path / "a b" / "r.jsonl"
    assert usage_totals(record) is None
    write = usage_writer(record, "m")
    for n in (1, 2, 3):
        write(Usage(f"Q{n}", n / 10, 1, 100, n))
    assert usage_file(record).name == "r.usage.csv"
    assert usage_totals(record) == {
        "n_answers": 3, "attempts": 3, "prompt_tokens": 300, "completion_tokens": 6,
        "seconds_median": 0.2, "seconds_95": pytest.approx(0.29), "cost": {},
    }  # fmt: skip
