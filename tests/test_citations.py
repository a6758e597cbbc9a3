import asyncio
import json
import logging
import time
import unicodedata
from math import isnan

import anthropic
import httpx2
import pytest
from anthropic.types import Message
from hypothesis import given
from hypothesis import strategies as st

from ragfin import messages_api, simulator
from ragfin.citations import (
    Citation,
    CitedAnswer,
    Document,
    Status,
    acite,
    cite,
    measure,
    parse_message,
    touched_passages,
    verify,
)
from ragfin.corpus import Passage

KEY = "sk-ant-a-key-that-must-never-be-seen"
REPORT = Document("R01", "Informe 2023", "# Informe 2023\n\nLas ventas fueron de 1.250,5 millones de euros en 2023.")
OTHER = Document("R02", "Informe 2022", "# Informe 2022\n\nLas ventas fueron de 1.190,0 millones de euros en 2022.")
SALES = (16, 71)
QUESTION = "¿Cuáles fueron las ventas?"


def location(document=REPORT, span=SALES, index=0, **changes):
    found = {
        "type": "char_location",
        "cited_text": document.text[slice(*span)],
        "document_index": index,
        "document_title": document.title,
        "start_char_index": span[0],
        "end_char_index": span[1],
    }
    return {**found, **changes}


def message(*blocks, stop_reason="end_turn"):
    content = [{"type": "text", "text": text, "citations": list(citations) or None} for text, *citations in blocks]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "some-model",
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 40, "output_tokens": 9},
    }


def typed(raw):
    """Return a message as the client builds it, without validation."""
    http = httpx2.Client(transport=httpx2.MockTransport(lambda request: httpx2.Response(200, json=raw)))
    client = anthropic.Anthropic(api_key=KEY, http_client=http)
    return client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "?"}])


def status_of(documents=REPORT, **changes):
    raw = message(("Fueron 1.250,5.", location(**changes)))
    statuses = [verify(parse_message(m, documents).citations[0], documents).status for m in (raw, typed(raw))]
    assert statuses[0] is statuses[1]
    return statuses[0]


# Reading what the API returns


@pytest.mark.parametrize("form", [lambda raw: raw, typed, Message.model_validate], ids=["raw", "typed", "validated"])
def test_an_answer_is_read_with_its_citations_and_the_spans_they_support(form):
    raw = message(("Según el informe, "), ("fueron 1.250,5", location(), location(OTHER, SALES, 1)), (".",))
    raw["content"][0] = {"type": "text", "text": "Según el informe, ", "citations": None}
    answer = parse_message(form(raw), [REPORT, OTHER])
    assert answer.text == "Según el informe, fueron 1.250,5."
    assert [(c.document, c.start, c.end, c.answer_span) for c in answer.citations] == [
        ("R01", 16, 71, (18, 32)),
        ("R02", 16, 71, (18, 32)),
    ]
    assert [c.quoted for c in answer.citations] == [d.text[16:71] for d in (REPORT, OTHER)]
    assert answer.text[slice(*answer.citations[0].answer_span)] == "fueron 1.250,5"
    assert (answer.stop_reason, answer.model, answer.input_tokens, answer.output_tokens) == (
        "end_turn",
        "some-model",
        40,
        9,
    )
    assert not answer.failed


def test_an_answer_without_citations_has_none():
    assert parse_message(message(("Hola.",)), REPORT).citations == ()
    assert parse_message(message(), REPORT).text == ""


def test_blocks_that_are_no_text_hold_no_answer_and_move_no_span():
    raw = message(("Fueron 1.250,5.", location()))
    raw["content"].insert(0, {"type": "thinking", "thinking": "mmm", "signature": "x"})
    for form in (raw, typed(raw)):
        answer = parse_message(form, REPORT)
        assert answer.text == "Fueron 1.250,5."
        assert answer.citations[0].answer_span == (0, 15)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("page_location", {"document_index": 0, "start_page_number": 3, "end_page_number": 4}),
        ("content_block_location", {"document_index": 0, "start_block_index": 0, "end_block_index": 2}),
        ("search_result_location", {"source": "s", "search_result_index": 0, "start_block_index": 0}),
        ("web_search_result_location", {"url": "https://example.org", "encrypted_index": "A"}),
        ("line_location", {"document_index": 0, "start_line": 1}),
    ],
)
def test_other_kinds_of_location_are_kept_and_reported_as_not_verifiable(kind, fields):
    raw = message(("Sí.", {"type": kind, "cited_text": "Las ventas", **fields}))
    for form in (raw, typed(raw)):
        [citation] = parse_message(form, REPORT).citations
        assert (citation.kind, citation.quoted, citation.start, citation.end) == (kind, "Las ventas", None, None)
        assert fields.items() <= citation.location.items()
        verdict = verify(citation, REPORT)
        assert verdict.status is Status.NOT_VERIFIABLE
        assert kind in verdict.reason
        assert touched_passages(citation, [Passage("p", "R01", 0, 99)]) == ()


@pytest.mark.parametrize("stop_reason", [None, "refusal"])
def test_an_answer_without_a_stop_reason_or_refused_is_failed(stop_reason):
    assert parse_message(message(("Fue", location()), stop_reason=stop_reason), REPORT).failed


@pytest.mark.parametrize("stop_reason", ["end_turn", "max_tokens", "stop_sequence", "model_context_window_exceeded"])
def test_an_answer_with_a_stop_reason_is_an_answer(stop_reason):
    assert not parse_message(message(("Fue", location()), stop_reason=stop_reason), REPORT).failed


# Verifying


def test_a_citation_whose_text_is_at_its_offsets_is_sound():
    assert status_of() is Status.SOUND


def test_a_quotation_that_is_not_at_its_offsets_is_told_with_both_texts_and_the_place_where_it_is():
    raw = message(("Fueron.", location(start_char_index=17, end_char_index=72 - 1)))
    verdict = verify(parse_message(raw, REPORT).citations[0], REPORT)
    assert verdict.status is Status.TEXT_DIFFERS
    assert verdict.reason.endswith("the quoted text stands at 16")
    assert "'R01'[17:71] is 'as ventas" in verdict.reason


def test_a_quotation_found_nowhere_is_told():
    verdict = verify(Citation("R01", 0, 5, "xyzzy"), REPORT)
    assert verdict == (
        Status.TEXT_DIFFERS,
        "'R01'[0:5] is '# Inf', not 'xyzzy': the quoted text is nowhere in the document",
    )


@pytest.mark.parametrize(("start", "end"), [(71, 16), (16, 16), (71, -1), (5, 4)])
def test_reversed_and_empty_offsets_are_told_apart_from_wrong_ones(start, end):
    assert status_of(start_char_index=start, end_char_index=end) is Status.REVERSED


@pytest.mark.parametrize(("start", "end"), [(16, 72), (-55, 71), (-5, -1), (500, 555)])
def test_offsets_outside_the_text_are_told_and_never_wrap_around(start, end):
    assert status_of(start_char_index=start, end_char_index=end) is Status.OUTSIDE


@pytest.mark.parametrize("index", [1, -1, 99])
def test_an_index_of_no_document_sent_is_unknown_and_never_counts_from_the_end(index):
    assert status_of(document_index=index) is Status.UNKNOWN_DOCUMENT
    [citation] = parse_message(message(("Fueron.", location(document_index=index))), REPORT).citations
    assert citation.document is None
    assert touched_passages(citation, [Passage("p", "R01", 0, 99)]) == ()


@pytest.mark.parametrize("field", ["document_index", "start_char_index", "end_char_index"])
@pytest.mark.parametrize("value", ["16", None, 16.0, True])
def test_an_index_that_is_no_integer_is_told(field, value):
    raw = message(("Fueron.", location(**{field: value})))
    citation = parse_message(raw, REPORT).citations[0]
    assert verify(citation, REPORT).status is Status.NOT_INTEGER
    assert touched_passages(citation, [Passage("p", "R01", 0, 99)]) == ()


@pytest.mark.parametrize("field", ["document_index", "start_char_index", "end_char_index"])
@pytest.mark.parametrize("value", ["char 16", 16.5, None])
def test_an_index_that_is_no_integer_is_told_through_the_client_too(field, value):
    assert status_of(**{field: value}) is Status.NOT_INTEGER


@pytest.mark.parametrize("title", [REPORT.title, None])
def test_a_wrong_document_index_is_told_by_the_title_or_by_the_text(title):
    assert status_of([REPORT, OTHER], index=1, document_title=title) is Status.WRONG_DOCUMENT


def test_a_wrong_document_index_is_told_even_where_that_document_is_shorter():
    short = Document("R03", "Nota", "Nada.")
    assert status_of([short, REPORT], index=0, document_title=None) is Status.WRONG_DOCUMENT


@pytest.mark.parametrize("quoted", ["", "Nad", "Nada."])
def test_offsets_outside_every_document_are_no_matter_of_the_wrong_one(quoted):
    sent = [Document("R03", None, "Poco."), Document("R04", None, "Nada.")]
    assert verify(Citation("R03", 0, 6, quoted, document_index=0), sent).status is Status.OUTSIDE


def test_a_null_title_is_told_where_a_title_was_sent_and_only_there():
    assert status_of(document_title=None) is Status.NULL_TITLE
    assert status_of(Document("R01", None, REPORT.text), document_title=None) is Status.SOUND


def test_a_document_sent_twice_is_found_by_either_index():
    raw = message(("Fueron.", location(), location(index=1), location(index=2)))
    answer = parse_message(raw, [REPORT, REPORT])
    statuses = [verify(citation, answer.documents).status for citation in answer.citations]
    assert statuses == [Status.SOUND, Status.SOUND, Status.UNKNOWN_DOCUMENT]
    assert [citation.document for citation in answer.citations] == ["R01", "R01", None]


def test_in_an_empty_document_every_offset_is_outside():
    assert verify(Citation("R01", 0, 1, "L"), {"R01": ""}).status is Status.OUTSIDE


def test_a_citation_can_be_verified_against_the_corpus_by_id():
    citation = parse_message(message(("Fueron.", location())), REPORT).citations[0]
    assert verify(citation, {"R02": OTHER.text, "R01": REPORT.text}).status is Status.SOUND
    assert verify(citation, {"R02": OTHER.text}).status is Status.UNKNOWN_DOCUMENT
    assert verify(Citation("R01", *SALES, REPORT.text[16:71]), [OTHER, REPORT]).status is Status.SOUND


def test_offsets_are_code_points_before_which_any_character_may_stand():
    text = "😀𝛼 e\u0301 \r\n\u2028Ventas: 12,5"
    start = text.index("Ventas")
    assert verify(Citation("R01", start, len(text), "Ventas: 12,5"), {"R01": text}).status is Status.SOUND


@pytest.mark.parametrize(("unit", "encoding", "width"), [("UTF-16 units", "utf-16-le", 2), ("UTF-8 bytes", "utf-8", 1)])
def test_offsets_in_another_unit_are_no_match_and_the_unit_is_named(unit, encoding, width):
    text = "😀 Las ventas crecieron mucho, según el informe de la compañía."
    start, end = (len(part.encode(encoding)) // width for part in ("😀 ", "😀 Las ventas"))
    verdict = verify(Citation("R01", start, end, "Las ventas"), {"R01": text})
    assert verdict.status is Status.TEXT_DIFFERS
    assert verdict.reason.endswith(f"the offsets fit as {unit}")


def test_composed_and_decomposed_accents_are_different_texts():
    composed, decomposed = (unicodedata.normalize(form, "Compañía, según él") for form in ("NFC", "NFD"))
    verdict = verify(Citation("R01", 0, len(composed), composed), {"R01": decomposed})
    assert verdict.status is Status.TEXT_DIFFERS
    assert verdict.reason.endswith(
        "it is there but for the Unicode form or the line ends: send the text exactly as stored"
    )
    assert verify(Citation("R01", 0, len(decomposed), decomposed), {"R01": decomposed}).status is Status.SOUND


def test_a_quotation_with_other_line_ends_is_a_different_text():
    text = "Ventas\r\nDeuda y más cosas"
    assert verify(Citation("R01", 0, 13, "Ventas\nDeuda "), {"R01": text}).status is Status.TEXT_DIFFERS
    assert verify(Citation("R01", 0, 13, "Ventas\r\nDeuda"), {"R01": text}).status is Status.SOUND


@given(st.text(max_size=40), st.integers(-5, 45), st.integers(-5, 45), st.text(max_size=5))
def test_no_citation_raises_and_only_the_text_at_the_offsets_holds(text, start, end, quoted):
    there = text[start:end] if 0 <= start < end <= len(text) else None
    assert verify(Citation("R01", start, end, quoted), {"R01": text}).status.holds == (
        there is not None and there == quoted
    )
    if there is not None:
        assert verify(Citation("R01", start, end, there), {"R01": text}).status is Status.SOUND


def test_three_megabytes_are_verified_in_the_time_that_the_text_takes_to_read():
    text = "Las ventas de Añover fueron de 1.250,5 millones. 😀\n" * 60_000
    assert len(text.encode()) > 3_000_000
    last = Citation("R01", len(text) - 20, len(text), text[-20:])
    missing = Citation("R01", 7, 27, "no está en ningún sitio")
    began = time.process_time()
    assert [verify(c, {"R01": text}).status for c in (last, missing)] == [Status.SOUND, Status.TEXT_DIFFERS]
    assert touched_passages(last, [Passage("p", "R01", 0, len(text))])
    assert time.process_time() - began < 5


# Passages and measures


GOLD = [Passage("R01-p001", "R01", 0, 10), Passage("R01-p002", "R01", 10, 30), Passage("R02-p001", "R02", 0, 10)]
TEXTS = {"R01": "abcdefghij" * 3, "R02": "abcdefghij"}


def quoting(document, start, end):
    return Citation(document, start, end, TEXTS[document][start:end])


def test_touching_is_sharing_a_character_of_the_same_document():
    assert touched_passages(quoting("R01", 9, 11), GOLD) == tuple(GOLD[:2])
    assert touched_passages(quoting("R01", 5, 10), GOLD) == (GOLD[0],)
    assert touched_passages(quoting("R02", 9, 10), GOLD) == (GOLD[2],)
    assert touched_passages(Citation("R03", 0, 10, ""), GOLD) == ()
    assert touched_passages(Citation("R01", 11, 9, ""), GOLD) == ()


def test_precision_recall_and_covered_fraction_by_hand():
    citations = [quoting("R01", 8, 12), quoting("R01", 20, 25), quoting("R02", 0, 5)]
    measures = measure(citations, TEXTS, GOLD[:2])
    assert measures.precision == pytest.approx(2 / 3)
    assert measures.recall == 1.0
    assert measures.covered == pytest.approx((2 + 2 + 5) / 30)
    assert measures[3:] == (3, 3, 0)


def test_a_citation_given_twice_weighs_twice_in_precision_and_once_in_the_covered_fraction():
    measures = measure([quoting("R01", 0, 5), quoting("R01", 0, 5), quoting("R01", 10, 12)], TEXTS, GOLD[:1])
    assert (measures.precision, measures.recall, measures.covered) == (pytest.approx(2 / 3), 1.0, 0.5)


def test_overlapping_citations_cover_their_union():
    assert measure([quoting("R01", 0, 6), quoting("R01", 2, 4), quoting("R01", 4, 10)], TEXTS, GOLD[:1]).covered == 1.0


def test_a_citation_that_does_not_hold_touches_nothing():
    wrong = Citation("R01", 0, 10, "not the text")
    measures = measure([wrong, quoting("R01", 0, 10)], TEXTS, GOLD[:1])
    assert measures == (0.5, 1.0, 1.0, 2, 1, 0)
    assert measure([wrong], TEXTS, GOLD[:1])[:3] == (0.0, 0.0, 0.0)


def test_a_citation_of_another_kind_is_counted_and_in_no_fraction():
    page = Citation("R01", None, None, "abc", kind="page_location")
    assert measure([page, quoting("R01", 0, 10)], TEXTS, GOLD[:1]) == (1.0, 1.0, 1.0, 2, 1, 1)
    only = measure([page], TEXTS, GOLD[:1])
    assert isnan(only.precision)
    assert only[1:] == (0.0, 0.0, 1, 0, 1)


def test_without_citations_precision_does_not_apply_and_without_gold_nothing_does():
    none = measure([], TEXTS, GOLD[:1])
    assert isnan(none.precision)
    assert (none.recall, none.covered) == (0.0, 0.0)
    assert all(map(isnan, measure([quoting("R01", 0, 5)], TEXTS, [])[:3]))


# Asking


def test_documents_are_sent_verbatim_in_order_with_citations_enabled():
    seen = []
    nasty = Document("R09", None, "  e\u0301 😀\r\n\n| a |\t\n")

    def handler(request):
        seen.append(json.loads(request.content))
        return httpx2.Response(200, json=message(("Sí.",)))

    client = anthropic.Anthropic(api_key=KEY, http_client=httpx2.Client(transport=httpx2.MockTransport(handler)))
    answer = cite(client, [nasty, REPORT], QUESTION, model="some-model", max_tokens=77, system="Responde.")
    assert seen == [
        {
            "model": "some-model",
            "max_tokens": 77,
            "system": "Responde.",
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "document",
                            "source": {"type": "text", "media_type": "text/plain", "data": nasty.text},
                            "citations": {"enabled": True},
                        },
                        {
                            "type": "document",
                            "source": {"type": "text", "media_type": "text/plain", "data": REPORT.text},
                            "citations": {"enabled": True},
                            "title": "Informe 2023",
                        },
                        {"type": "text", "text": QUESTION},
                    ],
                }
            ],
        }
    ]
    assert answer.documents == (nasty, REPORT)


@pytest.mark.parametrize("stream", [False, True])
def test_synchronous_asynchronous_and_streamed_answers_are_the_same(stream):
    async def ask():
        async with simulator.async_client(simulator.Misbehaviour.SEVERAL_BLOCKS) as client:
            return await acite(client, [REPORT, OTHER], QUESTION, model="m", stream=stream)

    with simulator.client(simulator.Misbehaviour.SEVERAL_BLOCKS) as client:
        plain = cite(client, [REPORT, OTHER], QUESTION, model="m")
        assert cite(client, [REPORT, OTHER], QUESTION, model="m", stream=stream) == plain
    assert asyncio.run(ask()) == plain
    assert plain.text.startswith("El documento dice: Las ventas")
    assert plain.citations[0].answer_span == (19, 19 + 55)
    assert plain.input_tokens > plain.output_tokens > 0


def test_a_citation_that_streams_before_its_text_supports_the_whole_block():
    streamed = messages_api.collect(
        [
            {"type": "message_start", "message": message()},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "", "citations": []}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Fueron "}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": location()}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "1.250,5"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 8}},
        ]
    )
    answer = parse_message(streamed, REPORT)
    assert answer.citations[0].answer_span == (0, 14)
    assert (answer.input_tokens, answer.output_tokens, answer.stop_reason) == (40, 8, "end_turn")


def test_a_connection_that_breaks_in_a_stream_makes_a_failed_answer():
    def body():
        for event in simulator._events(message(("Las ventas fueron de 1.250,5 millones.", location())))[:6]:
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        raise httpx2.ReadError("connection reset")

    headers = {"content-type": "text/event-stream"}
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, headers=headers, content=body()))
    client = anthropic.Anthropic(api_key=KEY, http_client=httpx2.Client(transport=transport))
    answer = cite(client, REPORT, QUESTION, model="m", stream=True)
    assert answer.failed
    assert answer.text
    assert "Las ventas fueron de 1.250,5 millones.".startswith(answer.text)


def test_a_follow_up_sends_the_turns_again_and_its_indices_count_from_the_first_document():
    fund = Document("R03", "Folleto", "La clase A reparte dividendos.\nLa clase B los acumula.\nNo hay clase C alguna.")
    with simulator.client() as client:
        first = cite(client, REPORT, QUESTION, model="m")
        second = cite(client, fund, "¿Reparte dividendos?", model="m", after=first)
        third = cite(client, (), QUESTION, model="m", after=second)
    assert [turn["role"] for turn in third.turns] == ["user", "assistant"] * 3
    assert second.documents == third.documents == (REPORT, fund)
    cited = [citation for answer in (first, second, third) for citation in answer.citations]
    assert [(c.document_index, c.document) for c in cited] == [(0, "R01"), (1, "R03"), (0, "R01")]
    assert {verify(citation, third.documents).status for citation in cited} == {Status.SOUND}


def test_a_follow_up_of_an_empty_answer_sends_no_empty_turn():
    empty = CitedAnswer("", (), (REPORT,), None, "m", 1, 0, (messages_api.user_turn([REPORT], QUESTION),))
    with simulator.client() as client:
        answer = cite(client, (), QUESTION, model="m", after=empty)
    assert [turn["role"] for turn in answer.turns] == ["user", "user", "assistant"]


def test_what_cannot_be_sent_is_refused_before_it_is_sent():
    with pytest.raises(ValueError, match="no document to cite"):
        cite(None, [], QUESTION, model="m")
    with pytest.raises(ValueError, match="two different texts have the id 'R01'"):
        cite(None, [REPORT, Document("R01", None, "otro")], QUESTION, model="m")
    with pytest.raises(ValueError, match="lone surrogate at 1"):
        cite(None, Document("R01", None, "a\ud800"), QUESTION, model="m")
    with pytest.raises(TypeError, match="not as bare text"):
        cite(None, "texto", QUESTION, model="m")


# The key


def everything_in(error):
    """Return all that can be read from an exception and those behind it, the request's headers included."""
    parts, seen = [], []
    while error is not None and error not in seen:
        seen.append(error)
        parts += [str(error), repr(error), str(vars(error))]
        for holder in (error, getattr(error, "response", None)):
            try:
                parts.append(str(list(holder.request.headers.raw)))
            except (AttributeError, RuntimeError):
                continue
        error = error.__cause__ or error.__context__
    return "\n".join(parts)


def client_that(handler, **options):
    http = httpx2.Client(transport=httpx2.MockTransport(handler))
    return anthropic.Anthropic(http_client=http, max_retries=0, **options)


def sent_key(request):
    sent = request.headers.get("x-api-key") or request.headers["authorization"]
    assert KEY in sent
    return sent


def echo_key(request):
    body = {"type": "error", "error": {"type": "authentication_error", "message": f"invalid key {sent_key(request)}"}}
    return httpx2.Response(401, json=body)


def time_out(request):
    raise httpx2.ReadTimeout(f"no answer for {sent_key(request)}", request=request)


@pytest.mark.parametrize("credential", ["api_key", "auth_token"])
@pytest.mark.parametrize(
    ("handler", "kind"), [(echo_key, anthropic.AuthenticationError), (time_out, anthropic.APITimeoutError)]
)
@pytest.mark.parametrize("stream", [False, True])
def test_whatever_is_raised_keeps_its_kind_and_loses_the_key(credential, handler, kind, stream, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    client = client_that(handler, **{credential: KEY})
    with pytest.raises(kind) as caught:
        cite(client, REPORT, QUESTION, model="m", stream=stream)
    told = everything_in(caught.value)
    assert KEY not in told
    assert messages_api.REDACTED in told
    assert client.api_key == KEY or client.auth_token == KEY


def test_a_key_in_the_other_header_is_redacted_too():
    client = client_that(echo_key, api_key="another", default_headers={"x-api-key": KEY})
    with pytest.raises(anthropic.AuthenticationError) as caught:
        cite(client, REPORT, QUESTION, model="m")
    assert caught.value.request.headers["x-api-key"] == messages_api.REDACTED
    assert KEY not in everything_in(caught.value)


def test_an_error_that_carries_the_key_in_its_arguments_loses_it_behind_the_client_s_error_too():
    def refuse(request):
        raise UnicodeEncodeError("ascii", sent_key(request), 0, 1, "no header can carry it")

    with pytest.raises(anthropic.APIConnectionError) as caught:
        cite(client_that(refuse, api_key=KEY), REPORT, QUESTION, model="m")
    assert isinstance(caught.value.__cause__, UnicodeEncodeError)
    assert KEY not in everything_in(caught.value)
    assert KEY not in str(caught.value.__cause__.object)


def test_the_asynchronous_client_loses_the_key_too():
    async def ask():
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(echo_key))
        async with anthropic.AsyncAnthropic(api_key=KEY, max_retries=0, http_client=http) as client:
            await acite(client, REPORT, QUESTION, model="m")

    with pytest.raises(anthropic.AuthenticationError) as caught:
        asyncio.run(ask())
    assert KEY not in everything_in(caught.value)


def test_the_key_comes_from_the_environment_and_from_nowhere_else(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY + "\n")
    assert messages_api.anthropic_client().api_key == KEY
    assert messages_api.async_anthropic_client().api_key == KEY
    with pytest.raises(TypeError, match="the key is not an argument: set ANTHROPIC_API_KEY"):
        messages_api.anthropic_client(api_key=KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", " ")
    with pytest.raises(messages_api.MissingKeyError, match="ANTHROPIC_API_KEY is not set"):
        messages_api.anthropic_client()


def test_the_key_is_in_no_log_and_no_answer(caplog):
    with caplog.at_level(logging.DEBUG), simulator.client(api_key=KEY) as client:
        answer = cite(client, REPORT, QUESTION, model="m")
    assert "HTTP Request" in caplog.text
    assert KEY not in caplog.text
    assert KEY not in repr(answer)
