"""Endpoints, against a server that is a process of its own and misbehaves as planned."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import httpx2
import pytest
from faulty_server import FAULTS, answer_to

from ragfin.corpus import Question
from ragfin.endpoints import LONGEST_PAUSE, EndpointGenerator, _asked_pause, is_loopback
from ragfin.generation import MissingAnswersError, RecordError, generate
from ragfin.models import ModelError
from ragfin.records import AnswerRecord

HERE = Path(__file__).parent
RUN = """
import json, sys
sys.path.insert(0, sys.argv[1])
from test_endpoints import endpoint, questions
from ragfin.generation import generate
url, record, n, concurrency = sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
generate(questions(n), endpoint(url, concurrency=concurrency), [["Deuda: 3."]] * n, record=record,
         progress=lambda answer, done, total: print(done, flush=True))
"""


class Server:
    """A running server: its address, and what it has logged."""

    def __init__(self, process: subprocess.Popen, log: Path) -> None:
        self.process, self.path = process, log
        self.url = f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"

    @property
    def log(self) -> list[dict]:
        return [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def serve(tmp_path):
    """Start a server with a plan; every one is stopped at the end."""
    running = []

    def start(**plan) -> Server:
        log = tmp_path / f"server{len(running)}.log"
        log.touch()
        command = [sys.executable, str(HERE / "faulty_server.py"), json.dumps(plan), str(log)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        running.append(process)
        return Server(process, log)

    yield start
    for process in running:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(autouse=True)
def _live(monkeypatch):
    monkeypatch.setenv("RAGFIN_LIVE", "auto")


def questions(n: int) -> list[Question]:
    return [Question(f"Q{i:05d}", "R01", f"¿Cuánto es el dato {i}?", "3", "texto", True, ()) for i in range(n)]


def endpoint(url: str, **options) -> EndpointGenerator:
    return EndpointGenerator("m", url, **{"timeout": 2.0, "first_pause": 0.01, "concurrency": 4, **options})


def ask(url: str, n: int, record: Path | None = None, **options) -> list:
    return generate(questions(n), endpoint(url, **options), [["Deuda: 3."]] * n, record=record, progress=_quiet)


def _quiet(*_) -> None:
    """Show no bar."""


@pytest.mark.server
@pytest.mark.parametrize("fault", FAULTS[1:])
def test_each_fault_is_got_over(serve, fault):
    [question] = questions(1)
    server = serve(first={question.text: [fault, fault]}, slow=3, headers={"retry-after-ms": "5"})
    [answer] = ask(server.url, 1)
    assert (answer.text, answer.finish, answer.cited) == (answer_to(question.text), "stop", (1,))
    assert [line["fault"] for line in server.log] == [fault, fault, "none"]


@pytest.mark.server
def test_500_questions_at_concurrency_32_lose_nothing_and_ask_nothing_twice(serve, tmp_path):
    server = serve(mixed=True, slow=3, takes=0.02)
    answers = ask(server.url, 500, tmp_path / "mixed.jsonl", concurrency=32)
    assert [answer.text for answer in answers] == [answer_to(question.text) for question in questions(500)]
    log = server.log
    answered = Counter(line["question"] for line in log if line["fault"] == "none")
    assert answered == Counter(question.text for question in questions(500))
    assert Counter(line["fault"] for line in log)["none"] == 500
    assert {fault: n for fault, n in Counter(line["fault"] for line in log).items() if fault != "none"} == {
        fault: len([i for i in range(500) if i % 7 == FAULTS.index(fault)]) for fault in FAULTS[1:]
    }
    assert max(line["open"] for line in log) > 8


@pytest.mark.server
def test_never_more_requests_are_open_than_allowed(serve):
    server = serve(takes=0.05)
    ask(server.url, 40, concurrency=5)
    assert max(line["open"] for line in server.log) == 5


@pytest.mark.server
def test_the_record_does_not_depend_on_speed_or_faults(serve, tmp_path):
    ask(serve().url, 60, tmp_path / "plain.jsonl", concurrency=1)
    ask(serve(mixed=True, slow=3).url, 60, tmp_path / "mixed.jsonl", concurrency=32)
    assert (tmp_path / "plain.jsonl").read_bytes() == (tmp_path / "mixed.jsonl").read_bytes()


@pytest.mark.server
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_run_resumes_to_the_same_file_and_asks_no_recorded_question_again(serve, tmp_path, how):
    ask(serve().url, 200, tmp_path / "whole.jsonl", concurrency=8)
    server, record = serve(takes=0.01), tmp_path / "stopped.jsonl"
    command = [sys.executable, "-c", RUN, str(HERE), server.url, str(record), "200", "8"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        while int(run.stdout.readline()) < 60:
            pass
        run.send_signal(how)
        run.wait(timeout=30)
    recorded = len(AnswerRecord(record))
    assert 60 <= recorded < 200
    ask(server.url, 200, record, concurrency=8)
    assert record.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    asked = Counter(line["question"] for line in server.log)
    assert set(asked) == {question.text for question in questions(200)}
    assert all(asked[question.text] == 1 for question in questions(recorded))
    assert sum(asked.values()) - 200 <= 2 * 8, "more was lost than may be open"


@pytest.mark.server
def test_what_keeps_failing_is_failed_alone_and_asked_again_next_time(serve, tmp_path):
    bad = questions(6)[2]
    server, record = serve(always={bad.text: "500"}), tmp_path / "failing.jsonl"
    answers = ask(server.url, 6, record, retries=2)
    assert [answer.finish for answer in answers] == ["stop", "stop", "failed", "stop", "stop", "stop"]
    assert answers[2].error == "500: no luck with None (3 attempts)"
    healthy = serve()
    assert [answer.finish for answer in ask(healthy.url, 6, record)] == ["stop"] * 6
    assert [line["question"] for line in healthy.log] == [bad.text]


@pytest.mark.server
@pytest.mark.parametrize("status", ["400", "422", "redirect"])
def test_what_cannot_pass_is_not_tried_again(serve, status):
    server = serve(always={questions(1)[0].text: status})
    [answer] = ask(server.url, 1)
    assert answer.finish == "failed"
    assert len(server.log) == 1


@pytest.mark.server
@pytest.mark.parametrize("status", ["401", "403", "404"])
def test_a_refused_key_stops_the_run_and_is_never_shown(serve, monkeypatch, status):
    monkeypatch.setenv("OWN_KEY", "sk-very-secret")
    server = serve(always={questions(1)[0].text: status})
    generator = endpoint(server.url, key_variable="OWN_KEY")
    with pytest.raises(ModelError, match="cannot be asked") as raised:
        generate(questions(1), generator, [["x"]], progress=_quiet)
    assert server.log[0]["authorization"] == "Bearer sk-very-secret"
    assert "[redacted]" in str(raised.value)
    for shown in (str(raised.value), repr(raised.value), repr(generator), repr(raised.value.__cause__)):
        assert "sk-very-secret" not in shown


@pytest.mark.server
def test_a_key_echoed_in_an_error_does_not_reach_the_record(serve, tmp_path, monkeypatch):
    monkeypatch.setenv("OWN_KEY", "sk-very-secret")
    record, server = tmp_path / "keyed.jsonl", serve(always={questions(1)[0].text: "400"})
    generate(questions(1), endpoint(server.url, key_variable="OWN_KEY"), [["x"]], record=record, progress=_quiet)
    assert "no luck with Bearer [redacted]" in record.read_text(encoding="utf-8")
    assert "sk-very-secret" not in record.read_text(encoding="utf-8")


@pytest.mark.server
def test_the_server_s_pause_is_kept(serve):
    question = questions(1)[0].text
    server = serve(first={question: ["429"]}, headers={"retry-after-ms": "400"})
    ask(server.url, 1)
    first, second = server.log
    assert second["at"] - first["at"] >= 0.4


@pytest.mark.server
def test_a_pause_beyond_all_patience_fails_the_question(serve):
    server = serve(always={questions(1)[0].text: "429"}, headers={"retry-after": str(int(LONGEST_PAUSE) + 1)})
    [answer] = ask(server.url, 1)
    assert answer.finish == "failed"
    assert len(server.log) == 1


@pytest.mark.server
def test_a_server_that_is_not_there_stops_the_run_in_one_line(serve, tmp_path):
    server = serve()
    server.process.kill()
    server.process.wait()
    with pytest.raises(ModelError, match=r"^m cannot be asked: cannot connect to 127\.0\.0\.1 .*; start it") as raised:
        ask(server.url, 50, tmp_path / "none.jsonl", retries=1)
    assert "\n" not in str(raised.value)


@pytest.mark.server
def test_it_answers_inside_a_running_event_loop(serve):
    url = serve().url

    async def cell() -> list:
        return ask(url, 5)

    assert len(asyncio.run(cell())) == 5


@pytest.mark.server
def test_usage_comes_in_the_order_of_the_answers_with_attempts(serve):
    all_three, seen = questions(3), []
    server = serve(first={all_three[1].text: ["500"]})
    generate(all_three, endpoint(server.url, on_usage=seen.append), [["x"]] * 3, progress=_quiet)
    assert [(u.question_id, u.attempts, u.completion_tokens) for u in seen] == [
        ("Q00000", 1, 7), ("Q00001", 2, 7), ("Q00002", 1, 7),
    ]  # fmt: skip
    assert all(0 < u.seconds < 30 for u in seen)


@pytest.mark.server
def test_a_second_run_on_the_same_record_says_so(serve, tmp_path):
    server, record = serve(takes=0.05), tmp_path / "shared.jsonl"
    command = [sys.executable, "-c", RUN, str(HERE), server.url, str(record), "100", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as first:
        first.stdout.readline()
        with pytest.raises(RecordError, match=r"shared\.jsonl is being written by another run"):
            ask(server.url, 100, record)
        first.kill()


@pytest.mark.server
@pytest.mark.skipif(not hasattr(os, "fork"), reason="limits the size of a file, which only POSIX can")
def test_a_full_disk_ends_the_run_in_an_error_and_the_next_run_goes_on(serve, tmp_path):
    """A limit on the size of files stands for the full disk: a write then takes a part of the line and fails."""
    server, record = serve(), tmp_path / "full.jsonl"
    limited = "import resource, signal; resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))\n" + RUN
    command = [sys.executable, "-c", limited, str(HERE), server.url, str(record), "100", "4"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 1
    assert "File too large" in run.stderr.splitlines()[-1]
    kept = len(AnswerRecord(record))
    assert 0 < kept < 100
    ask(server.url, 100, record)
    ask(serve().url, 100, tmp_path / "whole.jsonl")
    assert record.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_a_missing_key_is_told_before_anything_is_sent(monkeypatch):
    monkeypatch.delenv("OWN_KEY", raising=False)
    generator = endpoint("http://127.0.0.1:9/v1", key_variable="OWN_KEY")
    with pytest.raises(MissingAnswersError, match="OWN_KEY is not set; export your key"):
        generate(questions(1), generator, [["x"]])


def test_the_identity_holds_all_that_an_answer_depends_on_and_no_address():
    here, there = endpoint("http://a.example/v1"), endpoint("http://b.example/v1", concurrency=9, retries=0)
    assert here.identity == there.identity
    assert endpoint("http://a.example/v1", options={"top_p": 0.9}).identity != here.identity
    assert endpoint("http://a.example/v1", max_tokens=9).identity != here.identity


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after": "-5"}, 0),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:40 GMT"}, 30),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, 0),
        ({}, None),
        ({"retry-after": "soon"}, None),
    ],
)
def test_a_pause_is_read_in_seconds_milliseconds_and_dates(headers, seconds):
    assert _asked_pause(httpx2.Response(429, headers=headers), now=70.0) == seconds


def test_only_this_machine_is_loopback():
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.8.8.8", "::1")))
    assert not any(map(is_loopback, ("localhost.example.com", "0.0.0.0", "192.168.1.2", "api.example.com", "")))
