import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragfin.baseline import best_line, first_figure
from ragfin.chunking import Chunk
from ragfin.text import words


def chunk(body: str) -> Chunk:
    return Chunk("D", "T", "deuda", (), f"T > deuda\n\n{body}")


def lines_as_the_rule_says(body: str) -> list[str]:
    pieces = []
    for line in body.split("\n"):
        sentences = line.split(". ")
        pieces += [sentence + "." for sentence in sentences[:-1]] + sentences[-1:]
    return [piece for piece in pieces if piece.strip()]


def test_the_line_that_shares_most_distinct_words_wins():
    body = "La deuda y la deuda suben. La deuda neta baja.\nVentas: 3."
    assert best_line(chunk(body), "¿Cómo va la deuda neta?") == "La deuda neta baja."


def test_the_first_line_wins_a_tie_and_the_header_is_not_a_line():
    assert best_line(chunk("Uno.\nDos."), "¿Qué deuda hay?") == "Uno."


def test_only_a_newline_and_a_period_with_one_space_cut():
    body = "Son 1.250 EUR.Más deuda.\tY más; fin?  Sí. No deuda neta"
    assert best_line(chunk(body), "deuda neta") == "No deuda neta"
    assert best_line(chunk(body), "EUR") == "Son 1.250 EUR.Más deuda.\tY más; fin?  Sí."


def test_white_space_is_kept_in_a_line_and_dropped_alone():
    assert best_line(chunk("  \n  La deuda  \n"), "deuda") == "  La deuda  "
    assert best_line(chunk(" \n\n "), "deuda") == ""
    assert best_line(chunk(""), "") == ""


def test_a_lone_table_row_loses_its_header():
    body = "| Segmento | Margen |\n| --- | --- |\n| Internacional | 20,5 |"
    assert best_line(chunk(body), "margen de Internacional") == "| Segmento | Margen |"
    assert best_line(chunk(body), "Internacional") == "| Internacional | 20,5 |"


@given(st.text(st.sampled_from("ab .\n|:5,"), max_size=80), st.text(st.sampled_from("ab ?"), max_size=12))
def test_the_best_line_is_the_first_of_the_best(body, question):
    lines = lines_as_the_rule_says(body)
    shared = [len(set(words(question)) & set(words(line))) for line in lines]
    expected = lines[shared.index(max(shared))] if lines else ""
    assert best_line(chunk(body), question) == expected


@pytest.mark.parametrize(
    ("line", "question", "expected"),
    [
        ("Deuda neta en 2023: 4,5 millones.", "¿Cuál es la deuda?", "4,5"),
        ("Deuda neta en 2023 de 1.250,5 millones.", "¿Cuánto es la deuda?", "1.250,5"),
        ("Deuda: de 3 a 5 millones.", "¿Cuánto es la deuda?", "3"),
        ("Deuda: subió: a 5.", "¿Cuánto subió la deuda?", "5"),
        ("Deuda de 2023.", "¿Cuál es el año de la deuda?", "2023"),
        ("Deuda: en 2023 y 2024.", "¿Cuál es el año de la deuda?", "2023"),
        ("Deuda [2] de 7 millones [1].", "¿Cuánto es la deuda?", "7"),
        ("Deuda: sin cifra [3].", "¿Cuánto es la deuda?", " sin cifra [3]."),
        ("| deuda: | 12,5 |", "¿Qué porcentaje es la deuda?", "12,5"),
        ("| deuda en 2023: 9 | x |", "¿Quién tiene deuda?", "| deuda en 2023: 9 | x |"),
        ("Deuda: la de 2023, 9.", "¿Qué deuda hay?", " la de 2023, 9."),
        ("Deuda sin dos puntos 9.", "¿Hay deuda?", "Deuda sin dos puntos 9."),
        ("Deuda: 20230 y 1999.", "¿Cuál es la deuda?", "20230"),
        ("Deuda: 2.023 y 2023.", "¿Cuál es la deuda?", "2.023"),
    ],
)
def test_the_first_figure_is_a_token_as_written(line, question, expected):
    assert first_figure(chunk(line), question) == expected


def test_the_question_must_start_by_asking_for_a_figure():
    body = "Deuda: 5."
    for start in ("¿Cuánto", "¿Cuántos", "¿Cuál", "¿Cuáles", "¿Qué porcentaje"):
        assert first_figure(chunk(body), f"{start} de deuda?") == "5"
    for start in ("¿Cuánta", "¿Qué", "Cuánto", "¿cuánto", " ¿Cuánto", "¿Qué  porcentaje", "En 2023, ¿cuánto"):
        assert first_figure(chunk(body), f"{start} de deuda?") == " 5."


@given(st.text(), st.text())
def test_no_text_raises(body, question):
    text = first_figure(chunk(body), "¿Cuál es " + question)
    assert text in body
    assert re.sub(r"\s", "", best_line(chunk(body), question)) in re.sub(r"\s", "", body)
