"""The catalogue of failures: each rule on the answers it is meant for, and on its near misses."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragfin.chunking import Chunk
from ragfin.corpus import Question
from ragfin.failures import (
    FAILURES,
    copied_header,
    copies_header,
    failure_labels,
    has_english,
    has_operator,
    has_unfaithful_figure,
    is_cut,
    is_faithful_but_wrong,
    takes_no_for_not_stated,
)
from ragfin.generation import Answer

TITLE = "Zaptec Capital, S.A. — Informe anual 2023"
HEADER = f"{TITLE} > Flujos"
CHUNK = Chunk("R02", TITLE, "Flujos", ((0, 10),), f"{HEADER}\n\nCompras | -869,8\nDividendos | 181,2")


def asked(gold="181,2", text="¿Cuánto pagó Zaptec en dividendos?", answerable=True):
    return Question("QA165", "R02", text, gold, "tabla" if answerable else "no_respondible", answerable, ())


def said(text, finish="stop"):
    return Answer.parse(_REQUEST, text, finish)


class _Asked(NamedTuple):
    question_id: str = "QA165"
    messages: tuple = ()
    k: int = 1


_REQUEST = _Asked()
NOT_STATED = asked("No consta", "¿Qué calificación tiene Zaptec?", answerable=False)

PUBLISHED = [  # the failures that the lesson names among its twelve answers
    ("English function words", "[2] Yes", asked("Sí, semestral", "¿Reparte dividendos?")),
    ("operator between figures", "-869,8 -181,2 = -1,047 millones de USD [3].", asked()),
    ("unfaithful figure", "1.143,821 USD", asked("1.472,9")),
    ('"no" taken for "not stated"', "No consta.", asked("No", "¿Incluye los arrendamientos?")),
    ("header copied", "[1]. Zaptec Capital, S.A. — Informe anual 2023", asked("39.640 toneladas")),
    ("faithful but wrong", "-869,8 millones", NOT_STATED),
]


@pytest.mark.parametrize(("label", "text", "question"), PUBLISHED, ids=[row[0] for row in PUBLISHED])
def test_each_failure_that_the_lesson_saw_is_found(label, text, question):
    assert label in failure_labels(said(text), question, [CHUNK])


def test_a_right_answer_shows_no_failure():
    assert failure_labels(said("181,2 millones [1]."), asked(), [CHUNK]) == ()


def test_a_right_abstention_shows_no_failure():
    assert failure_labels(said("No consta."), NOT_STATED, [CHUNK]) == ()


def test_a_failed_generation_shows_no_failure_whatever_it_holds():
    assert failure_labels(said("1,5 + 2 = the", "failed"), asked(), [CHUNK]) == ()


def test_an_answer_may_show_several_failures_in_the_order_of_the_catalogue():
    labels = failure_labels(said("the 1 + 1 = 3", "length"), asked(), [CHUNK])
    assert labels == (
        "unfaithful figure",
        "operator between figures",
        "English function words",
        "cut by the token limit",
    )
    assert [label for label in FAILURES if label in labels] == list(labels)


def test_a_figure_of_the_question_is_not_unfaithful():
    question = asked(text="¿Cuánto pagó en 2024?")
    assert not has_unfaithful_figure(said("En 2024, 181,2"), question, [CHUNK])
    assert has_unfaithful_figure(said("En 2025, 181,2"), question, [CHUNK])


def test_an_abstention_is_neither_unfaithful_nor_faithful_but_wrong():
    answer = said("No consta 99,9")
    assert not has_unfaithful_figure(answer, asked(), [CHUNK])
    assert not is_faithful_but_wrong(answer, asked(), [CHUNK])


def test_unfaithful_and_faithful_but_wrong_exclude_each_other():
    wrong = [said("869,8"), said("99,9"), said("sin cifras"), said("")]
    found = [(has_unfaithful_figure(a, asked(), [CHUNK]), is_faithful_but_wrong(a, asked(), [CHUNK])) for a in wrong]
    assert found == [(False, True), (True, False), (False, True), (False, True)]


@pytest.mark.parametrize(
    "text",
    [
        "10 + 5",
        "10+5",
        "20,5 % - 19,8 %",
        "869,8 −181,2",
        "100 × 3",
        "3 x 5",
        "12 / 4",
        "1.250,5 millones de euros + 3,2 millones",
        "15 % = 20 %",
        "4 € * 2",
    ],
)
def test_an_operator_between_figures_is_found(text):
    assert has_operator(said(text), asked(), [])


@pytest.mark.parametrize(
    "text",
    [
        "2023-2024",
        "31/12/2024",
        "Gobierno Euro 3-7 UCITS ETF",
        "181,2 [1] [2]",
        "-869,8 y -181,2",
        "De 10 a 20",
        "| 12,3 | -4,5 |",
        "+4,5 %",
        "entre 2023 – 2024",
        "Zaptec - 2023",
    ],
)
def test_a_range_a_date_a_sign_and_a_citation_are_no_operation(text):
    assert not has_operator(said(text), asked(), [])


def test_an_english_word_that_the_context_holds_is_not_the_models():
    named = Chunk("R11", "Bank of Povdo", "Gastos", (), "Bank of Povdo > Gastos\n\n0,20 %")
    assert not has_english(said("Bank of Povdo"), asked(), [named])
    assert has_english(said("Bank of Povdo"), asked(), [CHUNK])


def test_spanish_is_not_english():
    text = "El fondo no reparte dividendos a sus partícipes; como es de acumulación, son reinvertidos o no [1]."
    assert not has_english(said(text), asked(), [])


@pytest.mark.parametrize(
    ("text", "question", "expected"),
    [
        ("No consta.", asked("No"), True),
        ("«no consta»", asked("No, no los incluye"), True),
        ("No.", asked("No"), False),
        ("No consta.", asked("39.640 toneladas; no comprenden las participadas"), False),
        ("No consta.", NOT_STATED, False),
    ],
)
def test_no_is_taken_for_not_stated_only_where_the_gold_begins_with_no(text, question, expected):
    assert takes_no_for_not_stated(said(text), question, [CHUNK]) is expected


def test_a_header_counts_from_twenty_characters():
    assert copies_header(said(HEADER[:20]), asked(), [CHUNK])
    assert not copies_header(said(HEADER[:19]), asked(), [CHUNK])


def test_the_body_is_not_the_header():
    body = Chunk("R02", "Acme", "Deuda", (), "Acme > Deuda\n\nLa deuda financiera neta subió en el ejercicio.")
    assert not copies_header(said("La deuda financiera neta subió"), asked(), [body])


def test_the_longest_piece_of_any_header_is_returned():
    other = Chunk("R03", "Otro", "Otra", (), "Otro título mucho más largo > Otra")
    text = f"Otro título mucho más; {HEADER}"
    assert copied_header(text, [other, CHUNK]) == HEADER
    assert copied_header(text, [other]) == "Otro título mucho más"
    assert copied_header(text, []) == ""


def test_white_space_at_the_ends_does_not_make_up_the_twenty_characters():
    assert copied_header(HEADER[:14] + "x", [CHUNK]) == ""
    assert copied_header(TITLE[:20].rstrip() + " ", [CHUNK]) == TITLE[:20]


@pytest.mark.parametrize(("finish", "expected"), [("length", True), ("stop", False), ("failed", False)])
def test_only_the_token_limit_cuts(finish, expected):
    assert is_cut(said("Zaptec", finish), asked(), []) is expected


@given(st.text() | st.text(alphabet="0123456789.,+-= %[]x"), st.sampled_from(["stop", "length", "failed"]))
def test_no_text_raises_and_labels_come_from_the_catalogue(text, finish):
    assert set(failure_labels(said(text, finish), asked(), [CHUNK])) <= set(FAILURES)


@given(st.text(alphabet="ab >", max_size=60), st.text(alphabet="ab >", min_size=1, max_size=60))
def test_the_copied_piece_is_in_both_and_no_longer_one_is(text, header):
    chunk = Chunk("X01", "", "", (), header)
    piece = copied_header(text, [chunk])
    head = header.partition("\n\n")[0]
    common = [text[i:j].strip() for i in range(len(text)) for j in range(i + 20, len(text) + 1) if text[i:j] in head]
    assert len(piece) == max((len(c) for c in common if len(c) >= 20), default=0)
    assert piece in text
    assert piece in head
