import json
from dataclasses import replace

import anthropic
import httpx2
import pytest
from typer.testing import CliRunner

from ragfin import load_corpus, simulator
from ragfin.anthropic_generator import AnthropicGenerator, CitationPrompt, document_ids
from ragfin.chunking import chunk_corpus
from ragfin.citations import Document, Status, citation_from_json, citation_to_json, cite, verify
from ragfin.cli import app
from ragfin.generation import BatchGenerator, MissingAnswersError, generate
from ragfin.models import ModelError
from ragfin.prompts import RAG_PROMPT
from ragfin.records import Answer
from ragfin.retrieval import BM25Retriever
from ragfin.simulator import Misbehaviour

KEY = "sk-ant-a-key-that-must-never-be-seen"


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("RAGFIN_LIVE", raising=False)


def simulated(*misbehaviours, **options):
    return AnthropicGenerator("anthropic:simulator", client=simulator.client(*misbehaviours), **options)


def ask(corpus, generator, question_ids=("QA004",), record=None):
    questions = [corpus.question(i) for i in question_ids]
    contexts = [[question.doc_id] for question in questions]
    return generate(
        questions, generator, contexts, prompt=CitationPrompt.of(corpus), record=record, progress=lambda *_: None
    )


def texts_of(corpus):
    return dict(zip(corpus.documents["doc_id"], corpus.documents["text"], strict=True))


def refusing(status, kind):
    body = {"type": "error", "error": {"type": kind, "message": f"no,\n{KEY}"}}
    transport = httpx2.MockTransport(lambda request: httpx2.Response(status, json=body))
    return anthropic.Anthropic(api_key=KEY, max_retries=0, http_client=httpx2.Client(transport=transport))


def test_it_is_a_generator_that_answers_with_citations_by_offsets(small_corpus):
    generator = simulated()
    assert isinstance(generator, BatchGenerator)
    [answer] = ask(small_corpus, generator)
    assert (answer.finish, answer.cited) == ("stop", ())
    assert answer.text == "Arven empleaba a 704 personas 😀 en España y Portugal."
    assert answer.prompt_tokens > answer.completion_tokens > 0
    [citation] = map(citation_from_json, answer.citations)
    assert (citation.document, citation.quoted, citation.answer_span) == ("R01", answer.text, (0, len(answer.text)))
    assert verify(citation, texts_of(small_corpus)).status is Status.SOUND


def test_streaming_gives_the_same_answers(small_corpus):
    ids = [question.id for question in small_corpus]
    assert ask(small_corpus, simulated(stream=True), ids) == ask(small_corpus, simulated(), ids)


def test_without_documents_it_is_asked_what_any_model_is_asked(small_corpus):
    seen = []

    def handler(request):
        seen.append(json.loads(request.content))
        block = {"type": "text", "text": "\n704 personas [1] ", "citations": None}
        usage = {"input_tokens": 9, "output_tokens": 4}
        return httpx2.Response(200, json={"content": [block], "stop_reason": "end_turn", "usage": usage})

    client = anthropic.Anthropic(api_key=KEY, http_client=httpx2.Client(transport=httpx2.MockTransport(handler)))
    question = small_corpus.question("QA004")
    generator = AnthropicGenerator("some-model", client=client, max_tokens=40)
    [answer] = generate([question], generator, [["A > B\n\n704."]], progress=lambda *_: None)
    assert (answer.text, answer.cited, answer.prompt_tokens) == ("704 personas [1]", (1,), 9)
    user = RAG_PROMPT.user_message(question.text, ["A > B\n\n704."])
    assert seen == [
        {
            "model": "some-model",
            "max_tokens": 40,
            "system": RAG_PROMPT.system,
            "messages": [{"role": "user", "content": user}],
        }
    ]


def test_white_space_around_an_answer_moves_the_spans_of_its_citations(small_corpus):
    text = small_corpus.documents["text"].iloc[0]
    location = {
        "type": "char_location",
        "cited_text": text[:5],
        "document_index": 0,
        "document_title": None,
        "start_char_index": 0,
        "end_char_index": 5,
    }
    blocks = [{"type": "text", "text": "\n\nSon "}, {"type": "text", "text": "704 \n", "citations": [location]}]
    raw = {"content": blocks, "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}
    http = httpx2.Client(transport=httpx2.MockTransport(lambda request: httpx2.Response(200, json=raw)))
    client = anthropic.Anthropic(api_key=KEY, http_client=http)
    [answer] = ask(small_corpus, AnthropicGenerator("m", client=client))
    [citation] = map(citation_from_json, answer.citations)
    assert answer.text == "Son 704"
    assert answer.text[slice(*citation.answer_span)] == "704"


@pytest.mark.parametrize("stream", [False, True])
def test_a_cut_answer_is_failed_and_a_long_one_is_cut_by_its_limit(small_corpus, stream):
    [cut] = ask(small_corpus, simulated(Misbehaviour.TRUNCATED, stream=stream))
    assert (cut.finish, cut.text, cut.error) == ("failed", "", "cut off: no stop reason came")
    [long] = ask(small_corpus, simulated(max_tokens=3, stream=stream))
    assert (long.finish, long.text, long.completion_tokens) == ("length", "Arven empleaba a", 3)


def test_an_error_that_stays_is_a_failed_answer_without_the_key(small_corpus):
    [answer] = ask(small_corpus, AnthropicGenerator("m", client=refusing(529, "overloaded_error")))
    assert (answer.finish, answer.error) == ("failed", "OverloadedError: no, [redacted]")


@pytest.mark.parametrize(
    ("status", "kind"), [(401, "authentication_error"), (403, "permission_error"), (404, "not_found_error")]
)
def test_a_refused_key_or_an_unknown_model_stops_the_run_in_one_line_without_the_key(small_corpus, status, kind):
    with pytest.raises(ModelError) as caught:
        ask(small_corpus, AnthropicGenerator("m", client=refusing(status, kind)))
    assert str(caught.value) == "anthropic:m cannot be asked: no, [redacted]"


def test_without_a_key_nothing_is_asked_and_the_repair_is_named(small_corpus):
    with pytest.raises(MissingAnswersError, match="ANTHROPIC_API_KEY is not set; export your key"):
        ask(small_corpus, AnthropicGenerator("m"))


def test_the_key_of_the_environment_is_used_and_is_in_no_identity(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    generator = AnthropicGenerator("m")
    assert generator.unavailable() == ""
    assert generator.client.api_key == KEY
    assert KEY not in repr(generator.identity)


def test_a_name_without_a_model_is_refused():
    with pytest.raises(ModelError, match="'anthropic:' names no model: write anthropic:MODEL"):
        AnthropicGenerator("anthropic:")


def test_a_citation_prompt_sends_each_document_once_and_refuses_what_is_none(small_corpus):
    prompt, question = CitationPrompt.of(small_corpus), small_corpus.question("QA005")
    request = prompt.request(question, ["R02", "R01", "R02"])
    assert [message.role for message in request.messages] == ["system", "document", "document", "user"]
    assert [json.loads(m.content)["id"] for m in request.messages[1:3]] == ["R02", "R01"]
    assert request.k == 0
    with pytest.raises(ValueError, match="no document 'R99': with citations, contexts hold ids of documents"):
        prompt.request(question, ["R99"])
    with pytest.raises(ValueError, match="QA005 has no document to cite"):
        prompt.request(question, [])


def test_the_documents_of_hits_come_once_each_best_first(small_corpus):
    hits = BM25Retriever(chunk_corpus(small_corpus)).search("plantilla de Arven en 2022", k=5)
    ids = document_ids(hits)
    assert ids[0] == hits[0].chunk.doc_id
    assert len(ids) == len(set(ids)) <= len(hits)
    assert document_ids([]) == []


def test_answers_are_recorded_without_the_key_and_replayed_without_one(small_corpus, tmp_path):
    record, ids = tmp_path / "answers.jsonl", [question.id for question in small_corpus]
    asked = AnthropicGenerator("simulator", client=simulator.client(api_key=KEY))
    answers = ask(small_corpus, asked, ids, record)
    data = record.read_bytes()
    assert KEY.encode() not in data
    assert len(data.splitlines()) == len(ids)
    replayed = ask(small_corpus, AnthropicGenerator("simulator"), ids, record)
    assert [a.text for a in replayed] == [a.text for a in answers]
    assert record.read_bytes() == data


def test_another_text_under_the_same_id_is_another_question_to_the_record(small_corpus, tmp_path):
    record = tmp_path / "answers.jsonl"
    ask(small_corpus, simulated(), record=record)
    documents = small_corpus.documents.assign(text=small_corpus.documents["text"] + " ")
    with pytest.raises(MissingAnswersError):
        ask(replace(small_corpus, documents=documents), AnthropicGenerator("simulator"), record=record)


@pytest.mark.skipif(not hasattr(Answer, "citations"), reason="the record keeps no citations yet")
def test_the_record_keeps_citations_as_they_were_returned(small_corpus, tmp_path):
    record, ids = tmp_path / "answers.jsonl", [question.id for question in small_corpus]
    answers = ask(small_corpus, simulated(Misbehaviour.SEVERAL_CITATIONS), ids, record)
    replayed = ask(small_corpus, AnthropicGenerator("simulator"), ids, record)
    assert [a.citations for a in replayed] == [a.citations for a in answers]
    assert all(len(answer.citations) == 2 for answer in replayed)
    for answer in replayed:
        for citation in map(citation_from_json, answer.citations):
            assert verify(citation, texts_of(small_corpus)).status is Status.SOUND


@pytest.mark.parametrize("misbehaviour", [m for m in Misbehaviour if "once" not in m])
def test_a_citation_of_any_kind_survives_json(misbehaviour):
    document = Document("R01", "T", "Una frase bastante larga del documento.")
    with simulator.client(misbehaviour) as client:
        for citation in cite(client, document, "frase", model="m").citations:
            assert citation_from_json(json.loads(json.dumps(citation_to_json(citation)))) == citation


def generate_by_command(monkeypatch, folder, *arguments):
    monkeypatch.setattr("ragfin.cli_models.AnthropicGenerator", SimulatedGenerator)
    command = ["generate", "--data", str(folder), "--questions", "QA001,QA004", *arguments]
    return CliRunner().invoke(app, command)


class SimulatedGenerator(AnthropicGenerator):
    def __init__(self, model):
        super().__init__(model, client=simulator.client())


def test_the_command_records_citations_by_offsets_that_hold(monkeypatch, small_folder, tmp_path):
    record = tmp_path / "answers.jsonl"
    options = ("--model", "anthropic:simulator", "--citations", "--record", str(record))
    refused = generate_by_command(monkeypatch, small_folder, *options)
    assert refused.exit_code == 1
    assert "add --yes to agree; nothing was sent" in refused.stderr
    assert not record.exists()
    done = generate_by_command(monkeypatch, small_folder, *options, "--yes")
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    assert [line["question_id"] for line in lines] == ["QA001", "QA004"]
    texts = texts_of(load_corpus(small_folder))
    statuses = [verify(citation_from_json(c), texts).status for line in lines for c in line["citations"]]
    assert statuses == [Status.SOUND, Status.SOUND]


def test_the_command_refuses_citations_of_other_models(monkeypatch, small_folder):
    result = generate_by_command(monkeypatch, small_folder, "--model", "qwen2.5-coder-0.5b-instruct", "--citations")
    assert result.exit_code == 1
    assert result.stderr.startswith("ragfin: --citations needs anthropic:MODEL, not qwen2.5-coder-0.5b-instruct")


@pytest.mark.parametrize("nobody", ["", " , "])
def test_the_command_refuses_to_ask_nothing(monkeypatch, small_folder, nobody):
    result = generate_by_command(monkeypatch, small_folder, "--model", "anthropic:simulator", "--questions", nobody)
    assert result.exit_code == 1
    assert result.stderr.startswith("ragfin: no question is named by")
