"""Answers and their record: citations, keys, torn and corrupt lines, two runs at once."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragfin import models
from ragfin.prompts import Message, Request
from ragfin.records import Answer, AnswerRecord, Citations, Identity, RecordError, answer_key, parse_citations

IDENTITY = Identity("tiny", "0" * 64, "float32", {"strategy": "greedy", "max_new_tokens": 40})
REQUESTS = [Request(f"QA{i:03}", (Message("system", "S"), Message("user", f"¿{i}?")), 3) for i in range(1, 6)]
KEYS = [answer_key(IDENTITY, request.messages) for request in REQUESTS]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(models.CACHE_VARIABLE, str(tmp_path / "cache"))


def answer_to(request: Request, text: str = "Son 5 [2].") -> Answer:
    return Answer.parse(request, text, "stop", prompt_tokens=431, completion_tokens=6)


def write(path: Path, n: int) -> bytes:
    record = AnswerRecord(path)
    with record.writing():
        for key, request in list(zip(KEYS, REQUESTS, strict=True))[:n]:
            record.append(key, IDENTITY, request, answer_to(request))
    return path.read_bytes()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Son 5 [2].", Citations((2,), 0, 0)),
        ("[1].", Citations((1,), 0, 0)),
        (". [1]", Citations((1,), 0, 0)),
        ("[1][2]", Citations((1, 2), 0, 0)),
        ("[3] y otra vez [3]", Citations((3, 3), 0, 0)),
        ("[0] [4] [99]", Citations((), 3, 0)),
        ("[1, 2]", Citations((), 0, 1)),
        ("[1-3]", Citations((), 0, 1)),
        ("[1–3] [2 y 3] [1;2]", Citations((), 0, 3)),
        ("(1)", Citations((), 0, 1)),
        ("(2023) y (99)", Citations((), 0, 0)),
        ("[1", Citations((), 0, 1)),
        ("[1 de la [2]", Citations((2,), 0, 1)),
        ("[ 1 ] [Fragmento 2]", Citations((), 0, 2)),
        ("[12,5 millones] [sic] []", Citations((), 0, 0)),
        ("", Citations((), 0, 0)),
        ("   \n", Citations((), 0, 0)),
        ("12345", Citations((), 0, 0)),
        (f"[{'9' * 5000}]", Citations((), 1, 0)),
        ("[" + "1 " * 5000, Citations((), 0, 1)),
    ],
)
def test_citations_are_read_by_the_lessons_rule_and_the_others_counted(text: str, expected: Citations) -> None:
    assert parse_citations(text, 3) == expected


def test_without_fragments_every_citation_is_out_of_range() -> None:
    assert parse_citations("5 [1] (1)", 0) == Citations((), 1, 0)


@given(st.text(alphabet="[]()0123456789,-–;y .²٣\n", max_size=200), st.integers(0, 5))
def test_no_text_raises_and_every_citation_is_within_range(text: str, k: int) -> None:
    found = parse_citations(text, k)
    assert all(1 <= number <= k for number in found.numbers)
    assert found.n_out_of_range >= 0
    assert found.n_malformed >= 0


def test_an_answer_is_stripped_at_both_ends() -> None:
    assert answer_to(REQUESTS[0], "\n  No consta. ").text == "No consta."


def test_the_key_changes_with_each_thing_that_an_answer_depends_on() -> None:
    messages = REQUESTS[0].messages
    others = [
        replace(IDENTITY, model="other"),
        replace(IDENTITY, model_sha256="1" * 64),
        replace(IDENTITY, dtype="bfloat16"),
        replace(IDENTITY, settings={**IDENTITY.settings, "repetition_penalty": 1.1}),
    ]
    keys = {answer_key(identity, messages) for identity in [IDENTITY, *others]}
    keys |= {answer_key(IDENTITY, (Message("system", "T"), messages[1]))}
    keys |= {answer_key(IDENTITY, (messages[0], Message("user", "¿1? ")))}
    assert len(keys) == 7


def test_the_key_does_not_depend_on_the_order_of_the_settings() -> None:
    turned = replace(IDENTITY, settings=dict(reversed(IDENTITY.settings.items())))
    assert answer_key(turned, REQUESTS[0].messages) == KEYS[0]


def test_what_is_appended_is_read_again(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", 2)
    record = AnswerRecord(tmp_path / "a.jsonl")
    assert len(record) == 2
    assert record.get(KEYS[1], REQUESTS[1]) == answer_to(REQUESTS[1])
    assert record.get(KEYS[2], REQUESTS[2]) is None


def test_an_answer_is_returned_under_the_id_of_the_question_that_asks(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", 1)
    found = AnswerRecord(tmp_path / "a.jsonl").get(KEYS[0], replace(REQUESTS[0], question_id="QA999"))
    assert found is not None
    assert found.question_id == "QA999"


def test_a_line_holds_no_time_host_or_path(tmp_path: Path) -> None:
    line = json.loads(write(tmp_path / "a.jsonl", 1))
    expected = "key question_id model dtype k finish text prompt_tokens completion_tokens".split()
    assert list(line) == expected


def test_unusual_separators_stay_inside_a_line(tmp_path: Path) -> None:
    odd = answer_to(REQUESTS[0], "uno\u2028dos\x85tres\ncuatro")
    record = AnswerRecord(tmp_path / "a.jsonl")
    with record.writing():
        record.append(KEYS[0], IDENTITY, REQUESTS[0], odd)
    assert AnswerRecord(tmp_path / "a.jsonl").get(KEYS[0], REQUESTS[0]) == odd


def test_half_a_surrogate_pair_of_an_endpoint_can_be_recorded(tmp_path: Path) -> None:
    odd = answer_to(REQUESTS[0], "uno \ud83d dos")
    record = AnswerRecord(tmp_path / "a.jsonl")
    with record.writing():
        record.append(KEYS[0], IDENTITY, REQUESTS[0], odd)
    assert odd.text == "uno ? dos"
    assert AnswerRecord(tmp_path / "a.jsonl").get(KEYS[0], REQUESTS[0]) == odd


def test_a_missing_file_is_an_empty_record(tmp_path: Path) -> None:
    assert len(AnswerRecord(tmp_path / "none.jsonl")) == 0


@pytest.mark.parametrize("kept", [1, 20, 200])
def test_a_torn_last_line_is_dropped_and_taken_off_before_the_next_append(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "a.jsonl"
    whole = write(path, 3)
    start_of_third = whole[:-1].rfind(b"\n") + 1
    path.write_bytes(whole[: start_of_third + kept])
    assert len(AnswerRecord(path)) == 2
    record = AnswerRecord(path)
    with record.writing():
        record.append(KEYS[2], IDENTITY, REQUESTS[2], answer_to(REQUESTS[2]))
    assert path.read_bytes() == whole


def test_a_last_line_torn_inside_a_letter_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    whole = write(path, 1)
    path.write_bytes(whole + '{"text": "ñ'.encode()[:-1])
    assert len(AnswerRecord(path)) == 1


@pytest.mark.parametrize(
    "bad",
    [b"{", b"[]", b"{}", b"\xff\xfe", b"", b'{"key": "short", "finish": "stop", "k": 3}', b"[" * 100_000],
    ids=lambda bad: bad[:9].decode("latin-1"),
)
def test_a_corrupt_middle_line_is_reported_with_its_number(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "a.jsonl"
    lines = write(path, 3).split(b"\n")
    path.write_bytes(b"\n".join([lines[0], bad, lines[2], b""]))
    with pytest.raises(RecordError, match=r"a\.jsonl line 2 is not a recorded answer.*delete that line"):
        AnswerRecord(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("finish", "done"), ("k", -1), ("k", True), ("prompt_tokens", 1.5), ("text", None), ("key", "A" * 64)],
        *[("model", None), ("model", ["a"]), ("dtype", 5)],
    ],
)
def test_a_field_of_the_wrong_kind_is_corrupt(tmp_path: Path, field: str, value: object) -> None:
    path = tmp_path / "a.jsonl"
    line = json.loads(write(path, 1))
    path.write_text(json.dumps({**line, field: value}) + "\n")
    with pytest.raises(RecordError, match="line 1"):
        AnswerRecord(path)


def test_a_failure_is_kept_once_and_the_answer_that_comes_later_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    record, failure = AnswerRecord(path), Answer.failure(REQUESTS[0], "RuntimeError: no memory")
    with record.writing():
        record.append(KEYS[0], IDENTITY, REQUESTS[0], failure)
        record.append(KEYS[0], IDENTITY, REQUESTS[0], failure)
    before = path.read_bytes()
    assert before.count(b"\n") == 1
    assert AnswerRecord(path).get(KEYS[0], REQUESTS[0]) == failure
    with record.writing():
        record.append(KEYS[0], IDENTITY, REQUESTS[0], answer_to(REQUESTS[0]))
    assert path.read_bytes().startswith(before)
    assert AnswerRecord(path).get(KEYS[0], REQUESTS[0]) == answer_to(REQUESTS[0])


def test_appending_outside_writing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"with record\.writing"):
        AnswerRecord(tmp_path / "a.jsonl").append(KEYS[0], IDENTITY, REQUESTS[0], answer_to(REQUESTS[0]))


def test_a_second_run_on_the_same_record_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    code = (
        "import sys; from ragfin.records import AnswerRecord, RecordError\n"
        "try:\n    AnswerRecord(sys.argv[1]).writing().__enter__()\n"
        "except RecordError as error:\n    print(error)\n"
    )
    with AnswerRecord(path).writing():
        other = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert other.stdout == f"{path} is being written by another run: wait until it ends, or record to another file\n"
    with AnswerRecord(path).writing() as record:
        record.append(KEYS[0], IDENTITY, REQUESTS[0], answer_to(REQUESTS[0]))
    assert len(AnswerRecord(path)) == 1


def test_what_another_run_added_meanwhile_is_read_before_writing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    early = AnswerRecord(path)
    write(path, 2)
    with early.writing():
        assert early.get(KEYS[1], REQUESTS[1]) == answer_to(REQUESTS[1])


def test_reading_a_record_imports_neither_torch_nor_transformers(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", 1)
    code = (
        "import sys; from ragfin.generation import AnswerRecord, TransformersGenerator\n"
        "TransformersGenerator('qwen2.5-coder-0.5b-instruct').identity; AnswerRecord(sys.argv[1])\n"
        "print(sorted({'torch', 'transformers', 'gguf'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "a.jsonl")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"
