import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragfin.text import SPANISH_STOP_WORDS, words

STOP = (
    "de la el en y a los las del que se por con un una para es al lo su sus o como fue cual cuanto cuantos cuales segun"
)


def words_as_the_rule_says(text: str) -> list[str]:
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.lower()) if not unicodedata.combining(c))
    return [word for word in re.findall(r"\w+", plain) if word not in STOP.split()]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t¿?", []),
        ("¿Cuál fue la deuda?", ["deuda"]),
        ("DIVIDENDO año Año", ["dividendo", "ano", "ano"]),
        ("1.250,5 M€", ["1", "250", "5", "m"]),
        ("dos_años S.A.", ["dos_anos", "s"]),
        ("deuda¹ ½ ﬁnal", ["deuda1", "1", "2", "final"]),
        ("sí, no; según él", ["si", "no"]),
        ("ｖｅｎｔａｓ ２０２３", ["ventas", "2023"]),
        ("a\u0301rbol = árbol", ["arbol", "arbol"]),
        ("İstanbul ß", ["istanbul", "ß"]),
    ],
)
def test_words_are_lower_case_without_accents_and_stop_words(text, expected):
    assert words(text) == expected
    assert words_as_the_rule_says(text) == expected


def test_the_stop_words_are_the_lessons():
    assert set(STOP.split()) == SPANISH_STOP_WORDS


def test_other_stop_words_can_be_given():
    assert words("La deuda de la empresa", stop_words=frozenset({"deuda"})) == ["la", "de", "la", "empresa"]


@given(st.text())
def test_no_text_raises_and_the_rule_holds(text):
    assert words(text) == words_as_the_rule_says(text)


@given(st.text(st.characters(codec=None), max_size=30))
def test_half_surrogate_pairs_raise_nothing(text):
    assert words(text + "\ud800 fin")[-1] == "fin"


@given(
    st.text(st.sampled_from("aΣσςİıÑ'\u00ad\u0301\u0345\u05b0\u1e9b\ufb01 \t\u00a0\u2028\x1c\x85\u00b4½."), max_size=12)
)
def test_what_lies_across_white_space_changes_no_word(text):
    assert words(text) == words_as_the_rule_says(text)


def test_more_pieces_than_are_kept_and_very_long_ones_give_the_same_words(monkeypatch):
    monkeypatch.setattr("ragfin.text._MOST_KEPT", 0)
    text = "palabrá" * 50 + " Única fin"
    assert words(text) == words_as_the_rule_says(text) == ["palabra" * 50, "unica", "fin"]
