"""Asking a model or replaying it: prompts, blocks against the plain loop, kill and resume, traces, token counts."""

import csv
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ragfin import local_llm, models
from ragfin.chunking import Chunk
from ragfin.corpus import Question, load_corpus
from ragfin.generation import (
    CLOSED_BOOK_PROMPT,
    RAG_PROMPT,
    Answer,
    AnswerRecord,
    BatchGenerator,
    Decoding,
    Generator,
    Identity,
    MissingAnswersError,
    Prompt,
    RecordError,
    Request,
    TransformersGenerator,
    generate,
    gold_fragments,
)
from ragfin.models import ModelError
from ragfin.retrieval import Hit

QUESTIONS = [Question(f"QA{i:03}", "R01", f"¿Cuánto {i}?", "", "texto", True, ()) for i in range(9)]
CONTEXTS = [[f"A > {i}\n\nDeuda: {i * i},5."] for i in range(9)]


@pytest.fixture(autouse=True)
def _live_and_own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests ask models: tiny ones, or made-up ones."""
    monkeypatch.setenv("RAGFIN_LIVE", "auto")
    monkeypatch.setenv(models.CACHE_VARIABLE, str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny random Qwen2, or a skip where PyTorch is missing."""
    pytest.importorskip("torch", reason="PyTorch is not installed; run `make llm`")
    pytest.importorskip("transformers", reason="transformers is not installed; run `make llm`")
    from tiny_qwen2 import save_tiny_qwen2

    return save_tiny_qwen2(tmp_path_factory.mktemp("tiny"))


class Parrot:
    """A generator without torch: it counts what it is asked, and fails where it is told to."""

    def __init__(self, block: int = 4, failing: Sequence[str] = (), reason: str = "") -> None:
        self.block, self.failing, self.reason = block, set(failing), reason
        self.asked: list[list[str]] = []
        self.identity = Identity("parrot", "f" * 64, "none", {"strategy": "echo"})

    def answer(self, request: Request) -> Answer:
        return next(self.answer_many([request]))

    def answer_many(self, requests: Sequence[Request]) -> Iterator[Answer]:
        self.asked.append([request.question_id for request in requests])
        for request in requests:
            if request.question_id in self.failing:
                yield Answer.failure(request, "RuntimeError: no memory")
            else:
                yield Answer.parse(request, f" {request.question_id} [1]\n", "stop", completion_tokens=3)

    def unavailable(self) -> str:
        return self.reason


class OneByOne:
    """The least that can be measured: an identity and ``answer``."""

    identity = Identity("one", "e" * 64, "none", {})

    def answer(self, request: Request) -> Answer:
        return Answer.parse(request, "No consta.", "stop")


def silent(answer: Answer, done: int, total: int) -> None:
    """Take the place of the progress bar."""


# The prompt


def test_the_user_message_is_the_lessons() -> None:
    first, second = "T > S\n\nDeuda: 3.\n\n¹ Nota.", "T > R\n\n| a | b |"
    assert RAG_PROMPT.user_message("¿Qué deuda hay?", [first, second]) == (
        "[1] T > S\n\nDeuda: 3.\n\n¹ Nota.\n\n[2] T > R\n\n| a | b |\n\nPregunta: ¿Qué deuda hay?\nRespuesta:"
    )


def test_the_system_message_asks_for_what_the_lesson_asks() -> None:
    for part in ("analista financiero", "una sola frase corta", "entre corchetes", "exactamente: No consta."):
        assert part in RAG_PROMPT.system
    assert RAG_PROMPT.system.count("\n[1] ") == RAG_PROMPT.system.count("\n[2] ") == 1
    assert RAG_PROMPT.system.endswith("[2].")


def test_a_closed_book_prompt_has_no_fragments_and_may_abstain() -> None:
    request = CLOSED_BOOK_PROMPT.request(QUESTIONS[3], [])
    assert request.messages[1].content == "Pregunta: ¿Cuánto 3?\nRespuesta:"
    assert request.k == 0
    assert "No consta." in CLOSED_BOOK_PROMPT.system


def test_a_prompts_hash_changes_with_any_of_its_parts() -> None:
    variants = [
        RAG_PROMPT,
        CLOSED_BOOK_PROMPT,
        replace(RAG_PROMPT, question_label="Q: "),
        replace(RAG_PROMPT, system=""),
    ]
    assert len({prompt.sha256 for prompt in variants}) == 4
    assert Prompt(RAG_PROMPT.system).sha256 == RAG_PROMPT.sha256


def test_gold_fragments_are_raw_passages_under_their_own_header(small_folder: Path) -> None:
    corpus = load_corpus(small_folder)
    assert gold_fragments(corpus, corpus.question("QA005")) == [
        "Arven, S.A. — Informe anual 2023 > Plantilla\n\nArven empleaba a 704 personas 😀 en España y Portugal.",
        "Arven, S.A. — Informe anual 2022 > Plantilla\n\nArven empleaba a 688 personas en España.",
    ]
    assert gold_fragments(corpus, corpus.question("QA006")) == []


def test_chunks_hits_and_strings_are_read_alike() -> None:
    chunk = Chunk("R01", "A", "0", ((0, 5),), CONTEXTS[0][0])
    kinds: list[Any] = [chunk, Hit(chunk, 1.0), chunk.text]
    texts = set()
    for fragment in kinds:
        parrot = Parrot()
        seen: list[Request] = []
        parrot.answer_many = lambda requests, seen=seen: seen.extend(requests) or map(OneByOne().answer, requests)  # type: ignore
        generate(QUESTIONS[:1], parrot, [[fragment]], progress=silent)
        texts.add(seen[0].messages)
    assert len(texts) == 1


# Records and going live


def test_recorded_answers_are_replayed_and_only_the_rest_is_asked(tmp_path: Path) -> None:
    record = tmp_path / "a.jsonl"
    first = generate(QUESTIONS[:5], Parrot(), CONTEXTS[:5], record=record, progress=silent)
    parrot = Parrot()
    both = generate(QUESTIONS, parrot, CONTEXTS, record=record, progress=silent)
    assert parrot.asked == [["QA005", "QA006", "QA007"], ["QA008"]]
    assert both[:5] == first
    assert [answer.question_id for answer in both] == [question.id for question in QUESTIONS]


def test_replaying_everything_asks_nothing_and_shows_no_bar(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "a.jsonl"
    live = generate(QUESTIONS, Parrot(), CONTEXTS, record=record)
    assert "parrot: 100%" in capsys.readouterr().err
    monkeypatch.setenv("RAGFIN_LIVE", "never")
    parrot = Parrot()
    assert generate(QUESTIONS, parrot, CONTEXTS, record=record) == live
    assert parrot.asked == []
    assert capsys.readouterr() == ("", "")


def test_another_prompt_or_model_is_never_taken_for_this_one(tmp_path: Path) -> None:
    record = tmp_path / "a.jsonl"
    generate(QUESTIONS, Parrot(), CONTEXTS, record=record, progress=silent)
    other_prompt = Parrot()
    generate(QUESTIONS, other_prompt, CONTEXTS, prompt=CLOSED_BOOK_PROMPT, record=record, progress=silent)
    other_model = Parrot()
    other_model.identity = replace(other_model.identity, model_sha256="a" * 64)
    generate(QUESTIONS, other_model, CONTEXTS, record=record, progress=silent)
    assert sum(map(len, other_prompt.asked)) == sum(map(len, other_model.asked)) == 9
    assert len(AnswerRecord(record)) == 27


def test_never_going_live_names_how_many_answers_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "a.jsonl"
    generate(QUESTIONS[:2], Parrot(), CONTEXTS[:2], record=record, progress=silent)
    monkeypatch.setenv("RAGFIN_LIVE", "never")
    parrot = Parrot()
    with pytest.raises(MissingAnswersError, match=r"^7 of 9 answers of parrot are not recorded in .*RAGFIN_LIVE=never"):
        generate(QUESTIONS, parrot, CONTEXTS, record=record)
    with pytest.raises(MissingAnswersError, match=r"^9 of 9 answers .*no record is given"):
        generate(QUESTIONS, parrot, CONTEXTS)
    assert parrot.asked == []


def test_without_the_model_the_message_names_the_command_that_brings_it(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed; run `make llm`")
    with pytest.raises(MissingAnswersError, match=r"run `ragfin models get qwen2\.5-coder-0\.5b-instruct`"):
        generate(QUESTIONS, "qwen2.5-coder-0.5b-instruct", CONTEXTS, record=tmp_path / "a.jsonl")


def test_an_unknown_setting_of_the_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGFIN_LIVE", "yes")
    with pytest.raises(ValueError, match="RAGFIN_LIVE is 'yes': set it to auto or never"):
        generate(QUESTIONS, Parrot(), CONTEXTS)


def test_without_a_record_everything_is_asked_each_time() -> None:
    parrot = Parrot(block=9)
    for _ in range(2):
        generate(QUESTIONS, parrot, CONTEXTS, progress=silent)
    assert list(map(len, parrot.asked)) == [9, 9]


def test_equal_requests_are_asked_once() -> None:
    parrot = Parrot()
    twins = [QUESTIONS[0], replace_id(QUESTIONS[0], "QA100")]
    answers = generate(twins, parrot, [CONTEXTS[0], CONTEXTS[0]], progress=silent)
    assert parrot.asked == [["QA000"]]
    assert [answer.question_id for answer in answers] == ["QA000", "QA100"]


def replace_id(question: Question, new: str) -> Question:
    return question._replace(id=new)


def test_blocks_are_cut_by_the_index_of_the_question(tmp_path: Path) -> None:
    record = tmp_path / "a.jsonl"
    generate([QUESTIONS[5]], Parrot(), [CONTEXTS[5]], record=record, progress=silent)
    parrot = Parrot(block=4)
    generate(QUESTIONS, parrot, CONTEXTS, record=record, progress=silent)
    assert parrot.asked == [["QA000", "QA001", "QA002", "QA003"], ["QA004", "QA006", "QA007"], ["QA008"]]


def test_a_failure_is_kept_replayed_and_asked_again_where_the_model_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "a.jsonl"
    answers = generate(QUESTIONS, Parrot(failing=["QA002"]), CONTEXTS, record=record, progress=silent)
    assert [a.question_id for a in answers if a.finish == "failed"] == ["QA002"]
    before = record.read_bytes()

    monkeypatch.setenv("RAGFIN_LIVE", "never")
    assert generate(QUESTIONS, Parrot(), CONTEXTS, record=record) == answers
    monkeypatch.setenv("RAGFIN_LIVE", "auto")
    assert generate(QUESTIONS, Parrot(reason="no model here"), CONTEXTS, record=record) == answers
    generate(QUESTIONS, Parrot(failing=["QA002"]), CONTEXTS, record=record, progress=silent)
    assert record.read_bytes() == before

    parrot = Parrot()
    mended = generate(QUESTIONS, parrot, CONTEXTS, record=record, progress=silent)
    assert parrot.asked == [["QA002"]]
    assert mended[2].text == "QA002 [1]"
    assert record.read_bytes().startswith(before)


def test_whatever_has_an_identity_and_answer_is_a_generator() -> None:
    assert isinstance(OneByOne(), Generator)
    assert not isinstance(OneByOne(), BatchGenerator)
    assert isinstance(Parrot(), BatchGenerator)
    assert isinstance(TransformersGenerator("qwen2.5-coder-0.5b-instruct"), BatchGenerator)
    assert [a.text for a in generate(QUESTIONS[:2], OneByOne(), CONTEXTS[:2], progress=silent)] == ["No consta."] * 2


def test_progress_is_told_what_there_is_and_what_there_will_be(tmp_path: Path) -> None:
    record = tmp_path / "a.jsonl"
    generate(QUESTIONS[:4], Parrot(), CONTEXTS[:4], record=record, progress=silent)
    seen: list[tuple[str, int, int]] = []
    generate(
        QUESTIONS, Parrot(), CONTEXTS, record=record, progress=lambda a, n, of: seen.append((a.question_id, n, of))
    )
    assert seen == [("QA004", 5, 9), ("QA005", 6, 9), ("QA006", 7, 9), ("QA007", 8, 9), ("QA008", 9, 9)]


def test_questions_and_contexts_must_match() -> None:
    with pytest.raises(ValueError, match="shorter"):
        generate(QUESTIONS, Parrot(), CONTEXTS[:3])


# The transformers generator, with a tiny model


def requests_of_many_lengths(n: int, seed: int = 0) -> list[Request]:
    """Return requests that share the system message and differ in length."""
    rng = random.Random(seed)
    letters = "abcdefghij 0123456789,.ñ€|\n"
    made = []
    for i in range(n):
        fragments = ["".join(rng.choices(letters, k=rng.randint(1, 150))) for _ in range(rng.randint(0, 3))]
        made.append(Prompt("Eres analista.").request(QUESTIONS[0]._replace(id=f"Q{i:03}", text=f"¿{i}?"), fragments))
    return made


@pytest.mark.parametrize("penalty", [1.0, 1.1])
@pytest.mark.parametrize("tied", [False, True])
def test_blocks_give_the_text_of_the_plain_loop(tiny: Path, tmp_path: Path, tied: bool, penalty: float) -> None:
    from tiny_qwen2 import save_tiny_qwen2

    folder = save_tiny_qwen2(tmp_path / "tied", tied=True, seed=1) if tied else tiny
    generator = TransformersGenerator(folder, decoding=Decoding(repetition_penalty=penalty))
    requests = requests_of_many_lengths(24)
    plain = [generator.answer(request) for request in requests]
    for size in (24, 5):
        blocks = [a for i in range(0, 24, size) for a in generator.answer_many(requests[i : i + size])]
        assert blocks == plain
    assert len({answer.text for answer in plain}) > 12
    assert {answer.finish for answer in plain} >= {"length"}


def test_rows_that_stop_early_leave_the_others_alone(tiny: Path) -> None:
    import torch

    generator = TransformersGenerator(tiny)
    requests = requests_of_many_lengths(12, seed=3)
    plain = [generator.answer(request) for request in requests]
    loaded = generator.loaded
    ids = [loaded.tokenizer(answer.text, add_special_tokens=False)["input_ids"] for answer in plain]
    common = torch.tensor([i for row in ids for i in row]).bincount().argmax().item()
    stopping = TransformersGenerator(tiny)
    stopping.__dict__["loaded"] = replace(loaded, stop_ids=(*loaded.stop_ids, int(common)))
    expected = [stopping.answer(request) for request in requests]
    assert list(stopping.answer_many(requests)) == expected
    lengths = {answer.completion_tokens for answer in expected}
    assert len(lengths) > 2, "the test needs rows that end at different steps"
    assert {answer.finish for answer in expected} >= {"stop"}


def test_the_models_own_generation_config_does_not_act(tiny: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    request = requests_of_many_lengths(1)[0]
    generator = TransformersGenerator(tiny)
    ids = generator.loaded.prompt_ids(request.messages)
    new, scores = generator.continue_with_scores(ids)
    model = AutoModelForCausalLM.from_pretrained(tiny).eval()
    assert model.generation_config.repetition_penalty == 1.1
    with torch.inference_mode():
        for step in range(5):
            logits = model(torch.tensor([ids + new[:step]])).logits[0, -1]
            assert int(logits.argmax()) == new[step]
            torch.testing.assert_close(scores[step], logits, rtol=1e-4, atol=1e-4)


def test_a_repetition_penalty_is_another_setting_and_another_answer(tiny: Path) -> None:
    request = requests_of_many_lengths(1)[0]
    plain, penalised = (
        TransformersGenerator(tiny),
        TransformersGenerator(tiny, decoding=Decoding(repetition_penalty=1.3)),
    )
    assert plain.identity.settings["repetition_penalty"] == 1.0
    assert penalised.identity.settings == {
        "strategy": "greedy",
        "max_new_tokens": 40,
        "repetition_penalty": 1.3,
        "seed": 0,
    }
    assert plain.answer(request).text != penalised.answer(request).text


def test_a_prompt_beyond_the_models_length_fails_alone(tiny: Path) -> None:
    requests = requests_of_many_lengths(3)
    requests[1] = RAG_PROMPT.request(QUESTIONS[1], ["x" * 5000])
    answers = list(TransformersGenerator(tiny).answer_many(requests))
    assert [answer.finish == "failed" for answer in answers] == [False, True, False]
    assert "exceed the model's 4096" in answers[1].error
    assert answers[1].text == ""


def test_a_block_without_memory_is_asked_one_by_one(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ragfin.block_engine import BlockEngine

    requests = requests_of_many_lengths(3)
    generator = TransformersGenerator(tiny)
    expected = list(generator.answer_many(requests))

    def no_memory(*args: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory at 0x7f00\nmore")

    monkeypatch.setattr(BlockEngine, "generate", no_memory)
    assert list(generator.answer_many(requests)) == expected
    monkeypatch.setattr(TransformersGenerator, "continue_with_scores", no_memory)
    failed = list(generator.answer_many(requests))
    assert {answer.finish for answer in failed} == {"failed"}
    assert failed[0].error == "RuntimeError: DefaultCPUAllocator: can't allocate memory at 0x…"


def test_bfloat16_runs_and_is_another_identity(tiny: Path) -> None:
    import torch

    generator = TransformersGenerator(tiny, dtype="bfloat16")
    assert generator.loaded.model.dtype == torch.bfloat16
    assert len(list(generator.answer_many(requests_of_many_lengths(4)))) == 4
    assert generator.identity != TransformersGenerator(tiny).identity


def test_torchs_former_setting_comes_back(tiny: Path) -> None:
    import torch

    assert not torch.are_deterministic_algorithms_enabled()
    list(TransformersGenerator(tiny).answer_many(requests_of_many_lengths(2)))
    assert not torch.are_deterministic_algorithms_enabled()


def test_another_architecture_is_answered_one_by_one(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = TransformersGenerator(tiny)
    expected = list(generator.answer_many(requests_of_many_lengths(3)))
    monkeypatch.setattr(generator.loaded.model.config, "hidden_act", "relu")
    other = TransformersGenerator(tiny)
    other.__dict__["loaded"] = generator.loaded
    assert list(other.answer_many(requests_of_many_lengths(3))) == expected
    assert other._engine_for is None


def test_a_folders_identity_changes_with_its_bytes(tiny: Path, tmp_path: Path) -> None:
    from tiny_qwen2 import save_tiny_qwen2

    same = save_tiny_qwen2(tmp_path / tiny.name)
    other = save_tiny_qwen2(tmp_path / "seed" / tiny.name, seed=2)
    assert TransformersGenerator(same).identity == TransformersGenerator(tiny).identity
    assert TransformersGenerator(other).identity != TransformersGenerator(tiny).identity


def test_what_cannot_be_a_model_is_refused_with_the_choices(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no model 'nothing': name one of qwen2\.5-0\.5b-instruct, .* or a hub id"):
        _ = TransformersGenerator("nothing").identity
    with pytest.raises(ValueError, match="dtype is 'float64': choose float32 or bfloat16"):
        TransformersGenerator("nothing", dtype="float64")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="block is 0"):
        TransformersGenerator("nothing", block=0)


def run_stepping(tiny: Path, record: Path) -> subprocess.Popen[str]:
    """Start the script that answers nine questions, one for each line that it is sent."""
    script = Path(__file__).with_name("tiny_qwen2.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, str(script), str(tiny), str(record)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_killed_in_the_middle_and_run_again_asks_nothing_twice_and_gives_the_same_file(
    tiny: Path, tmp_path: Path
) -> None:
    whole, killed = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    uninterrupted, _ = run_stepping(tiny, whole).communicate("\n" * 9)
    assert uninterrupted.split() == [question.id for question in QUESTIONS]

    process = run_stepping(tiny, killed)
    assert process.stdin is not None
    assert process.stdout is not None
    for _ in range(4):
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    recorded = killed.read_bytes().count(b"\n")
    assert 3 <= recorded <= 4  # the fourth may have been killed before it reached the file
    killed.write_bytes(killed.read_bytes() + b'{"key": "torn')

    resumed, _ = run_stepping(tiny, killed).communicate("\n" * 9)
    assert resumed.split() == [question.id for question in QUESTIONS[recorded:]]
    assert killed.read_bytes() == whole.read_bytes()


def test_a_gguf_file_is_unpacked_once_and_nothing_half_written_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Path] = []

    def unpack(gguf: Path, folder: Path) -> None:
        calls.append(folder)
        (folder / "half").write_text("")
        if len(calls) == 1:
            raise OSError(28, "No space left on device")
        (folder / "half").rename(folder / "model.safetensors")

    monkeypatch.setattr(local_llm, "_unpack", unpack)
    monkeypatch.setattr(local_llm, "_float32_bytes", lambda gguf: 1000)
    weights = local_llm.Weights("tiny", "a" * 64, tmp_path / "tiny.gguf")
    with pytest.raises(ModelError, match=r"cannot unpack tiny\.gguf to .*: No space left on device"):
        local_llm.unpack_gguf(weights)
    assert list((models.cache_folder() / "unpacked").iterdir()) == []
    folder = local_llm.unpack_gguf(weights)
    assert [path.name for path in folder.iterdir()] == ["model.safetensors"]
    assert local_llm.unpack_gguf(weights) == folder
    assert len(calls) == 2
    (other,) = {local_llm.unpack_gguf(replace(weights, sha256="b" * 64))} - {folder}
    assert other.name != folder.name


def test_a_disk_too_small_for_the_weights_is_told_before_unpacking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_llm, "_float32_bytes", lambda gguf: 10**18)
    weights = local_llm.Weights("huge", "a" * 64, tmp_path / "huge.gguf")
    with pytest.raises(ModelError, match=r"cannot unpack huge\.gguf .*: 1000000000\.00 GB needed, .* GB free"):
        local_llm.unpack_gguf(weights)


# Traces, token counts, the command


def test_a_trace_shows_each_step_and_is_read_again_without_a_model(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ragfin.traces import trace_answer

    record = tmp_path / "trace.json"
    generator = TransformersGenerator(tiny)
    made = trace_answer(QUESTIONS[0], generator, CONTEXTS[0], record=record)
    plain = generator.answer(RAG_PROMPT.request(QUESTIONS[0], CONTEXTS[0]))
    assert made.text == plain.text
    assert made.finish == plain.finish
    assert len(made.steps) == plain.completion_tokens
    assert len(made.prompt_ids) == len(made.prompt_pieces) == plain.prompt_tokens
    for step in made.steps:
        assert [c.logit for c in step] == sorted((c.logit for c in step), reverse=True)
        assert len(step) == 5
        assert sum(2.718281828459045**c.logprob for c in step) <= 1.001
    assert (
        generator.loaded.tokenizer.decode([step[0].id for step in made.steps], skip_special_tokens=True).strip()
        == made.text
    )

    monkeypatch.setenv("RAGFIN_LIVE", "never")
    again = TransformersGenerator(tiny)
    assert trace_answer(QUESTIONS[0], again, CONTEXTS[0], record=record) == made
    assert "loaded" not in again.__dict__
    with pytest.raises(MissingAnswersError, match="trace of QA001"):
        trace_answer(QUESTIONS[1], again, CONTEXTS[1], record=record)
    record.write_text("{}")
    with pytest.raises(ValueError, match=r"trace\.json holds no trace"):
        trace_answer(QUESTIONS[0], again, CONTEXTS[0], record=record)


def command() -> Any:
    """Return the two parts of the command line as one program."""
    import typer

    from ragfin.cli_models import generate_command, models_app

    app = typer.Typer(pretty_exceptions_enable=False)
    app.add_typer(models_app, name="models")
    app.command("generate")(generate_command)
    return app


def run_command(*arguments: object) -> Any:
    return CliRunner().invoke(command(), [str(argument) for argument in arguments])


def test_the_command_records_all_or_some_questions(tiny: Path, small_folder: Path, tmp_path: Path) -> None:
    record = tmp_path / "a.jsonl"
    common = ("generate", "--model", tiny, "--data", small_folder, "--record", record)
    some = run_command(*common, "--questions", "QA002,QA006")
    assert some.exit_code == 0, some.output
    assert len(AnswerRecord(record)) == 2
    everything = run_command(*common, "--k", 2, "--block", 3)
    assert everything.exit_code == 0, everything.output
    assert "8 answers" in everything.output
    assert "cut by the token limit, 0 failed" in everything.output
    assert len(AnswerRecord(record)) == 10
    for context in ("gold", "none"):
        assert run_command(*common, "--context", context).exit_code == 0
    assert run_command(*common, "--repetition-penalty", 1.1, "--dtype", "bfloat16").exit_code == 0


def test_a_users_mistake_is_one_line(small_folder: Path, tmp_path: Path) -> None:
    wrong = [
        (("generate", "--model", "nothing", "--data", small_folder), "no model 'nothing'"),
        (("generate", "--model", "nothing", "--data", small_folder, "--questions", "QA999"), "no question QA999"),
        (("generate", "--model", "nothing", "--data", tmp_path / "none"), "is not a folder"),
        (("models", "get", "nothing"), "no model is named 'nothing'"),
    ]
    for arguments, message in wrong:
        result = run_command(*arguments)
        assert result.exit_code == 1
        assert message in result.output
        assert "Traceback" not in result.output


def test_a_corrupt_record_stops_the_command(tiny: Path, small_folder: Path, tmp_path: Path) -> None:
    record = tmp_path / "a.jsonl"
    record.write_text("nonsense\n")
    result = run_command("generate", "--model", tiny, "--data", small_folder, "--record", record)
    assert result.exit_code == 1
    assert "a.jsonl line 1 is not a recorded answer" in result.output
    with pytest.raises(RecordError):
        AnswerRecord(record)


def test_the_list_says_what_is_in_the_cache() -> None:
    listed = run_command("models", "list").output
    assert "qwen2.5-coder-1.5b-instruct" in listed
    assert "1117 MB" in listed
    assert "yes" not in listed


def test_the_tokens_of_every_user_message_are_counted(tiny: Path, small_folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "counts.csv"
    result = run_command("generate", "--model", tiny, "--data", small_folder, "--token-counts", target)
    assert result.exit_code == 0, result.output
    rows = list(csv.DictReader(target.open(encoding="utf-8", newline="")))
    assert [row["k"] for row in rows[:4]] == ["1", "2", "3", "5"]
    assert len(rows) == 8 * 4
    corpus = load_corpus(small_folder)
    from ragfin.chunking import chunk_corpus
    from ragfin.retrieval import BM25Retriever

    question = corpus.question("QA004")
    [hit] = BM25Retriever(chunk_corpus(corpus)).search(question.text, k=1)
    message = RAG_PROMPT.user_message(question.text, [hit.chunk.text])
    [counted] = [int(row["tokens"]) for row in rows if (row["question_id"], row["k"]) == ("QA004", "1")]
    assert counted == len(message.encode())  # the tiny tokenizer has one token a byte
