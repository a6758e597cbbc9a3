import asyncio
import json
from math import isnan
from pathlib import Path

import anthropic
import httpx2
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from ragfin import load_corpus, simulator
from ragfin.citations import Document, Status, acite, cite, verify
from ragfin.simulator import Misbehaviour, best_sentences, sentences, simulate_corpus
from ragfin.text import words

DATA = Path(__file__).parents[1] / "data"
HEADERS = {"x-api-key": "any", "anthropic-version": "2023-06-01"}
needs_corpus = pytest.mark.skipif(
    not (DATA / "documents.parquet").exists(), reason="the corpus is not built: run ragfin corpus build"
)
URL = "https://api.anthropic.com/v1/messages"
FUND_TITLE = "# Folleto — Sintético Bonos Gobierno Euro 3-7 UCITS ETF"
FUND = Document(
    "R11",
    "Folleto",
    f"{FUND_TITLE}\n\n## Clases\n\nLa clase A distribuye con periodicidad semestral.\n\nLa clase B acumula sus rentas.",
)
TABLE = Document(
    "R05",
    "Povdo",
    "# Povdo 😀 — Informe anual 2023\r\n\nEl grupo creció mucho. Empleaba a 3.120 personas en Lima.\n\n"
    "| Segmento | Ventas 2023 (millones de USD) | Margen EBITDA |\n|---|---|---|\n| Internacional | 1.472,9 | 20,5 % |",
)


@pytest.fixture
def no_wait(monkeypatch):
    """Record the waits between retries instead of waiting."""
    waits = []
    monkeypatch.setattr("anthropic._base_client.time.sleep", waits.append)
    return waits


def ask(*misbehaviours, documents=(FUND, TABLE), question="¿Distribuye la clase A?", stream=False, **options):
    with simulator.client(*misbehaviours, **options) as client:
        return cite(client, documents, question, model="m", stream=stream)


def post(body, headers=HEADERS, url=URL, method="POST"):
    with httpx2.Client(transport=simulator.transport()) as http:
        return http.request(method, url, json=body, headers=headers)


def body(**changes):
    turn = {"role": "user", "content": [{"type": "text", "text": "¿Qué?"}]}
    return {"model": "m", "max_tokens": 50, "messages": [turn], **changes}


def content(*blocks):
    return body(messages=[{"role": "user", "content": list(blocks)}])


def document(data="Un texto cualquiera, con su punto.", **changes):
    source = {"type": "text", "media_type": "text/plain", "data": data}
    return {"type": "document", "source": source, "citations": {"enabled": True}, **changes}


# The rule


def test_figures_stay_whole_and_rows_titles_and_lines_are_sentences():
    found = [TABLE.text[start:end] for start, end in sentences(TABLE.text)]
    assert found == [
        "# Povdo 😀 — Informe anual 2023",
        "El grupo creció mucho.",
        "Empleaba a 3.120 personas en Lima.",
        "| Segmento | Ventas 2023 (millones de USD) | Margen EBITDA |",
        "| Internacional | 1.472,9 | 20,5 % |",
    ]


def test_a_title_keeps_its_abbreviations_and_a_paragraph_splits_at_periods():
    text = "# Zaptec Capital, S.A. — Informe anual 2023\nZaptec Capital, S.A. pagó mucho más que nunca."
    assert [text[start:end] for start, end in sentences(text)] == [
        "# Zaptec Capital, S.A. — Informe anual 2023",
        "pagó mucho más que nunca.",
    ]


def test_a_piece_of_twenty_characters_is_dropped_and_one_of_twenty_one_is_kept():
    assert sentences("  " + "a" * 20 + "  \n") == []
    assert sentences("  " + "a" * 21 + "  \n") == [(2, 23)]
    assert sentences("") == sentences("\n\n \r\n") == []


@given(st.text(alphabet="ab .\n\r\t#|12,3😀\u0301", max_size=120))
def test_sentences_are_stripped_ordered_apart_and_never_cross_a_line(text):
    reached = 0
    for start, end in sentences(text):
        assert reached <= start < end <= len(text)
        assert text[start:end] == text[start:end].strip()
        assert end - start > 20
        assert "\n" not in text[start:end]
        reached = end


def test_the_best_sentence_is_that_of_rank_bm25():
    texts = [FUND.text, TABLE.text]
    pool = [(i, start, end) for i, text in enumerate(texts) for start, end in sentences(text)]
    for question in ("ventas del segmento", "¿Distribuye la clase A?", "personas empleadas en Lima", "grupo"):
        scores = BM25Okapi([words(texts[i][a:b]) for i, a, b in pool]).get_scores(words(question))
        assert best_sentences(texts, question) == [pool[int(np.argmax(scores))]]


def test_the_first_sentence_wins_a_tie():
    text = "Una frase que se repite entera.\nOtra cosa bien distinta aquí.\nUna frase que se repite entera."
    assert best_sentences([text], "frase repite") == [(0, 0, 31)]
    assert best_sentences([text], "xyzzy") == [(0, 0, 31)]
    many = "\n".join([text] * 50)
    tied = [span for span in sentences(many) if many[slice(*span)].startswith("Una frase")]
    assert best_sentences([many], "frase repite", n=100) == [(0, *span) for span in tied]


def test_texts_without_sentences_or_without_words_do_not_raise():
    assert best_sentences([], "q") == best_sentences(["", "corta"], "q") == []
    assert best_sentences(["-" * 30], "q") == [(0, 0, 30)]


# The published outcomes


def test_a_title_that_repeats_the_fund_s_name_wins_over_the_gold_passage():
    answer = ask(documents=FUND, question="¿Paga dividendos la clase A de Sintético Bonos Gobierno Euro 3-7 UCITS ETF?")
    [citation] = answer.citations
    assert (citation.start, citation.end, citation.quoted) == (0, 55, FUND_TITLE)
    assert verify(citation, FUND).status is Status.SOUND


def test_the_header_row_of_a_table_wins_and_offsets_count_code_points():
    answer = ask(documents=TABLE, question="¿Qué margen EBITDA tuvo el segmento en 2023 sobre ventas?")
    [citation] = answer.citations
    assert citation.quoted == "| Segmento | Ventas 2023 (millones de USD) | Margen EBITDA |"
    assert TABLE.text[citation.start : citation.end] == citation.quoted == answer.text
    assert citation.start == TABLE.text.index("| Segmento")


@pytest.mark.skipif(
    not (DATA / "documents.parquet").exists(), reason="the corpus is not built: run ragfin corpus build"
)
def test_the_three_published_questions_come_out_as_published():
    rows = simulate_corpus(load_corpus(DATA), question_ids=["QA196", "QA105", "QA230"]).set_index("question_id")
    assert rows["correct"].tolist() == [False, True, False]
    assert rows["touched"].tolist() == ["R11-p001", "R05-p025", "R16-p001"]
    assert rows["gold"].tolist() == ["R11-p030", "R05-p025", "R16-p016"]
    assert set(rows["status"]) == {"sound"}
    assert rows.loc[["QA196", "QA230"], ["start", "end"]].to_numpy().tolist() == [[0, 55], [0, 73]]
    assert rows.loc["QA105", "quoted"].startswith("| Segmento | Ventas 2023 (millones de USD) | Marge")


@pytest.mark.skipif(
    not (DATA / "documents.parquet").exists(), reason="the corpus is not built: run ragfin corpus build"
)
def test_every_question_of_the_corpus_gets_one_sound_citation():
    rows = simulate_corpus(load_corpus(DATA))
    assert len(rows) == 263
    assert (rows["n_citations"] == 1).all()
    assert set(rows["status"]) == {"sound"}
    assert rows.loc[rows["answerable"], "precision"].between(0, 1).all()
    assert rows.loc[~rows["answerable"], ["precision", "recall", "covered"]].isna().all(axis=None)
    assert (rows["correct"] == (rows["precision"] == 1)).all()


# The shape


def test_a_message_has_the_documented_fields_and_counted_tokens():
    answer = post(content(document(TABLE.text, title="Povdo"), {"type": "text", "text": "¿Margen EBITDA?"})).json()
    assert list(answer) == [
        "id", "type", "role", "model", "content", "stop_reason", "stop_sequence", "usage"
    ]  # fmt: skip
    [block] = answer["content"]
    [citation] = block["citations"]
    assert citation == {
        "type": "char_location",
        "cited_text": block["text"],
        "document_index": 0,
        "document_title": "Povdo",
        "start_char_index": TABLE.text.index(block["text"]),
        "end_char_index": TABLE.text.index(block["text"]) + len(block["text"]),
    }
    tokens = len("Segmento Ventas 2023 millones de USD Margen EBITDA".split()) + len("| | ( ) | |".split())
    assert answer["usage"]["output_tokens"] == tokens
    assert answer["usage"]["input_tokens"] > tokens
    assert (answer["stop_reason"], answer["role"], answer["type"]) == ("end_turn", "assistant", "message")


def test_the_same_request_gets_the_same_bytes():
    request = content(document(), {"type": "text", "text": "¿?"})
    assert post(request).content == post(request).content
    assert post({**request, "stream": True}).content == post({**request, "stream": True}).content
    assert post(request).headers["request-id"].startswith("req_")


def test_a_stream_has_the_documented_events_with_each_citation_before_its_text():
    request = content(document(TABLE.text), {"type": "text", "text": "¿Margen EBITDA?"})
    response = post({**request, "stream": True})
    assert response.headers["content-type"] == "text/event-stream"
    events = [json.loads(line[6:]) for line in response.text.split("\n") if line.startswith("data: ")]
    kinds = [event["type"] for event in events]
    assert kinds[:3] == ["message_start", "ping", "content_block_start"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    deltas = [event["delta"]["type"] for event in events if event["type"] == "content_block_delta"]
    assert deltas == ["citations_delta"] + ["text_delta"] * 4
    assert events[0]["message"]["stop_reason"] is None
    assert events[-2]["delta"]["stop_reason"] == "end_turn"


@pytest.mark.parametrize("name", ["stream", "raw events"])
def test_the_client_s_own_helpers_read_the_stream(name):
    arguments = {
        "model": "m",
        "max_tokens": 50,
        "messages": content(document(), {"type": "text", "text": "¿?"})["messages"],
    }
    with simulator.client() as client:
        whole = client.messages.create(**arguments)
        if name == "stream":
            with client.messages.stream(**arguments) as events:
                assert [event.type for event in events].count("citation") == 1
                final = events.get_final_message()
            assert (final.content[0].text, final.usage.output_tokens) == (
                whole.content[0].text,
                whole.usage.output_tokens,
            )
            assert final.content[0].citations == whole.content[0].citations
        else:
            kinds = [event.type for event in client.messages.create(**arguments, stream=True)]
            assert kinds[-1] == "message_stop"


def test_an_answer_longer_than_max_tokens_is_cut_and_says_so():
    with simulator.client() as client:
        answer = cite(client, FUND, "¿Distribuye la clase A semestral?", model="m", max_tokens=3)
    assert (answer.text, answer.stop_reason, answer.output_tokens) == ("La clase A", "max_tokens", 3)
    assert verify(answer.citations[0], FUND).status is Status.SOUND
    assert answer.citations[0].answer_span == (0, 10)


def test_documents_without_citations_enabled_are_answered_without_any():
    block = document()
    del block["citations"]
    [answer] = post(content(block, {"type": "text", "text": "¿?"})).json()["content"]
    assert answer == {"type": "text", "text": "Un texto cualquiera, con su punto."}


def test_an_empty_document_is_answered_with_no_consta_and_cites_nothing():
    answer = ask(documents=Document("R01", None, ""))
    assert (answer.text, answer.citations, answer.failed) == ("No consta.", (), False)
    assert ask(documents=[Document("R00", None, ""), FUND]).citations[0].document_index == 1


def test_a_document_sent_twice_is_cited_at_the_first():
    assert ask(documents=[FUND, FUND]).citations[0].document_index == 0


def test_the_question_is_that_of_the_last_turn():
    turns = [
        {"role": "user", "content": [document(TABLE.text), {"type": "text", "text": "¿Personas en Lima?"}]},
        {"role": "assistant", "content": "3.120"},
        {"role": "user", "content": "¿Y el segmento internacional?"},
    ]
    [block] = post(body(messages=turns)).json()["content"]
    assert block["text"].startswith("| Internacional")


# What the API refuses


@pytest.mark.parametrize(
    ("request_body", "message"),
    [
        ({k: v for k, v in body().items() if k != "max_tokens"}, "max_tokens: Field required"),
        ({k: v for k, v in body().items() if k != "messages"}, "messages: Field required"),
        ({k: v for k, v in body().items() if k != "model"}, "model: Field required"),
        (body(max_tokens="50"), "max_tokens: Input should be a valid integer"),
        (body(max_tokens=True), "max_tokens: Input should be a valid integer"),
        (body(max_tokens=0), "max_tokens: Input should be greater than or equal to 1"),
        (body(model=""), "model: Input should be a valid string"),
        (body(messages=[]), "messages: at least one message is required"),
        (body(messages={}), "messages: Input should be a valid list"),
        (body(messages=["hola"]), "messages.0: Input should be an object"),
        (body(system=3), "system: Input should be a valid string"),
        (body(messages=[{"role": "system", "content": "a"}]), "messages.0.role: Input should be 'user' or 'assistant'"),
        (body(messages=[{"role": "assistant", "content": "a"}]), 'messages: first message must use the "user" role'),
        (body(messages=[{"role": "user"}]), "messages.0.content: Field required"),
        (body(messages=[{"role": "user", "content": ""}]), "messages: text content blocks must be non-empty"),
        (body(messages=[{"role": "user", "content": 3}]), "messages.0.content: Input should be a valid list"),
        (content(), "messages.0: user messages must have non-empty content"),
        (content("a"), "messages.0.content.0: Input should be an object"),
        (content({"type": "text", "text": 3}), "messages.0.content.0.text.text: Input should be a valid string"),
        (content({"type": "text"}), "messages.0.content.0.text.text: Field required"),
        (content({"type": "document"}), "messages.0.content.0.document.source: Field required"),
        (content(document(3)), "messages.0.content.0.document.source.text.data: Input should be a valid string"),
        (content(document(title=3)), "messages.0.content.0.document.title: Input should be a valid string"),
        (content(document(citations=True)), "messages.0.content.0.document.citations: Input should be an object"),
        (
            content(document(), document(citations={"enabled": False})),
            "messages: citations must be enabled on all documents or on none of them",
        ),
    ],
)
def test_a_bad_request_gets_the_documented_error_body(request_body, message):
    response = post(request_body)
    assert response.status_code == 400
    told = response.json()
    assert told.pop("request_id") == response.headers["request-id"]
    assert told == {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


def test_an_unknown_block_type_is_refused_with_the_types_that_exist():
    told = post(content({"type": "sound"})).json()["error"]["message"]
    assert told.startswith(
        "messages.0.content.0: Input tag 'sound' found using 'type' does not match any of the expected"
    )
    assert "'document'" in told


def test_a_source_that_the_simulator_does_not_read_is_refused():
    pdf = document(source={"type": "base64", "media_type": "application/pdf", "data": "AA"})
    assert "reads plain text only" in post(content(pdf)).json()["error"]["message"]
    html = document(source={"type": "text", "media_type": "text/html", "data": "a"})
    assert "Input should be 'text/plain'" in post(content(html)).json()["error"]["message"]


def test_a_request_without_key_version_route_or_json_is_refused():
    assert post(body(), headers={}).status_code == 401
    assert post(body(), headers={"x-api-key": "any"}).status_code == 400
    assert post(body(), url=URL + "/batches").status_code == post(body(), method="GET").status_code == 404
    with httpx2.Client(transport=simulator.transport()) as http:
        response = http.post(URL, content=b"{", headers=HEADERS)
    assert "not valid JSON" in response.json()["error"]["message"]


def test_the_client_raises_its_own_error_for_a_bad_request():
    with simulator.client() as client, pytest.raises(anthropic.BadRequestError) as caught:
        client.post("/v1/messages", body={"model": "m"}, cast_to=object)
    assert caught.value.type == "invalid_request_error"
    assert caught.value.api_message == "max_tokens: Field required"


# Misbehaviour


@pytest.mark.parametrize(
    ("misbehaviour", "error"),
    [
        (Misbehaviour.RATE_LIMIT, anthropic.RateLimitError),
        (Misbehaviour.SERVER_ERROR, anthropic.InternalServerError),
        (Misbehaviour.OVERLOADED, anthropic.OverloadedError),
        (Misbehaviour.TIME_OUT, anthropic.APITimeoutError),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_the_client_retries_what_passes_and_raises_what_stays(misbehaviour, error, stream, no_wait):
    assert ask(misbehaviour, stream=stream) == ask()
    assert len(no_wait) == 1
    assert ask(misbehaviour, misbehaviour, stream=stream) == ask()
    with pytest.raises(error):
        ask(*[misbehaviour] * 3, stream=stream)
    with pytest.raises(error):
        ask(misbehaviour, stream=stream, max_retries=0)
    if misbehaviour is not Misbehaviour.TIME_OUT:
        assert set(no_wait) == {0.001}


def test_the_asynchronous_client_retries_too():
    async def ask_once():
        async with simulator.async_client(Misbehaviour.RATE_LIMIT, Misbehaviour.OVERLOADED) as client:
            return await acite(client, [FUND, TABLE], "¿Distribuye la clase A?", model="m")

    assert asyncio.run(ask_once()) == ask()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("misbehaviour", "status"),
    [
        (Misbehaviour.WRONG_OFFSET, Status.TEXT_DIFFERS),
        (Misbehaviour.WRONG_DOCUMENT, Status.WRONG_DOCUMENT),
        (Misbehaviour.UNKNOWN_DOCUMENT, Status.UNKNOWN_DOCUMENT),
        (Misbehaviour.BEYOND_THE_END, Status.OUTSIDE),
        (Misbehaviour.REVERSED, Status.REVERSED),
        (Misbehaviour.NOT_INTEGER, Status.NOT_INTEGER),
        (Misbehaviour.NULL_TITLE, Status.NULL_TITLE),
        (Misbehaviour.PAGE_LOCATION, Status.NOT_VERIFIABLE),
        (Misbehaviour.CONTENT_BLOCK_LOCATION, Status.NOT_VERIFIABLE),
        (Misbehaviour.SEARCH_RESULT_LOCATION, Status.NOT_VERIFIABLE),
        (Misbehaviour.WEB_SEARCH_RESULT_LOCATION, Status.NOT_VERIFIABLE),
        (Misbehaviour.UNKNOWN_LOCATION, Status.NOT_VERIFIABLE),
    ],
)
def test_each_wrong_citation_is_caught_for_what_it_is(misbehaviour, status, stream):
    answer = ask(misbehaviour, stream=stream)
    [citation] = answer.citations
    assert verify(citation, answer.documents).status is status
    assert citation.quoted == answer.text
    assert not answer.failed


@pytest.mark.parametrize("text", ["La clase A distribuye rentas.", "x La clase A distribuye rentas."])
def test_a_wrong_offset_is_wrong_at_the_end_and_at_the_beginning_of_a_text_too(text):
    only = Document("R01", None, text)
    answer = ask(Misbehaviour.WRONG_OFFSET, documents=only)
    assert verify(answer.citations[0], only).status in (Status.TEXT_DIFFERS, Status.OUTSIDE)


def test_a_truncated_stream_raises_nothing_and_is_a_failed_answer_with_a_part_of_the_text():
    whole, cut = ask(), ask(Misbehaviour.TRUNCATED, stream=True)
    assert cut.failed
    assert cut.stop_reason is None
    assert whole.text.startswith(cut.text)
    assert 0 < len(cut.text) < len(whole.text)
    assert cut.citations[0].answer_span == (0, len(cut.text))
    assert ask(Misbehaviour.TRUNCATED).failed


def test_an_answer_may_cite_nothing_several_times_or_in_one_of_several_blocks():
    assert ask(Misbehaviour.NO_CITATIONS).citations == ()
    first, second = ask(Misbehaviour.SEVERAL_CITATIONS).citations
    assert first.answer_span == second.answer_span
    assert (first.document, first.start) != (second.document, second.start)
    answer = ask(Misbehaviour.SEVERAL_BLOCKS)
    assert answer.text[slice(*answer.citations[0].answer_span)] == answer.citations[0].quoted != answer.text


# A whole corpus


def test_a_corpus_gives_one_row_per_question_in_file_order(small_corpus):
    rows = simulate_corpus(small_corpus)
    assert rows["question_id"].tolist() == [question.id for question in small_corpus]
    assert set(rows["status"]) == {"sound"}
    assert not rows["failed"].any()
    texts = small_corpus.documents.set_index("doc_id")["text"]
    for row in rows.itertuples():
        assert texts[row.doc_id][row.start : row.end] == row.quoted == row.answer
    staff = rows.set_index("question_id").loc["QA004"]
    assert (staff["touched"], staff["gold"], staff["correct"]) == ("R01-p009", "R01-p009", True)
    assert (staff["precision"], staff["recall"]) == (1.0, 1.0)
    start, end = small_corpus.question("QA004").gold_passages[0][2:]
    assert staff["covered"] == (staff["end"] - staff["start"]) / (end - start)


def test_an_unanswerable_question_has_no_measure_and_is_never_correct(small_corpus):
    row = simulate_corpus(small_corpus, question_ids=["QA006"]).iloc[0]
    assert isnan(row["precision"])
    assert isnan(row["recall"])
    assert isnan(row["covered"])
    assert not row["correct"]


def test_streaming_a_corpus_changes_nothing_and_order_changes_nothing(small_corpus):
    rows = simulate_corpus(small_corpus)
    pd.testing.assert_frame_equal(rows, simulate_corpus(small_corpus, stream=True))
    backwards = simulate_corpus(small_corpus, question_ids=rows["question_id"].tolist()[::-1])
    pd.testing.assert_frame_equal(rows, backwards.iloc[::-1].reset_index(drop=True))


def test_misbehaviour_shows_in_every_row_and_a_failed_answer_has_no_measure(small_corpus):
    wrong = simulate_corpus(small_corpus, Misbehaviour.REVERSED)
    assert set(wrong["status"]) == {"offsets reversed or empty"}
    assert not wrong["correct"].any()
    assert (wrong.loc[wrong["answerable"], ["precision", "recall", "covered"]] == 0).all(axis=None)
    none = simulate_corpus(small_corpus, Misbehaviour.NO_CITATIONS)
    assert set(none["status"]) == {"no citation"}
    assert none["precision"].isna().all()
    cut = simulate_corpus(small_corpus, Misbehaviour.TRUNCATED, stream=True)
    assert cut["failed"].all()
    assert cut[["precision", "recall", "covered"]].isna().all(axis=None)
    assert not cut["correct"].any()


def test_three_megabytes_are_answered_in_linear_time():
    text = "".join(
        f"En {year} las ventas fueron de 1.250,5 millones 😀 en la región {year % 97}.\n" for year in range(48_000)
    )
    assert len(text.encode()) > 3_000_000
    answer = ask(documents=Document("R01", "Largo", text), question="¿Ventas en 47321?")
    assert answer.text.startswith("En 47321 las ventas")
    assert verify(answer.citations[0], answer.documents).status is Status.SOUND
