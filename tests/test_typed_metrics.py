"""The typed measures: units, scale, sign, rounding, years; where they part from the lesson's, and why."""

from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragfin.corpus import Question
from ragfin.figures import figures, read_figures
from ragfin.language import ENGLISH
from ragfin.metrics import contains_gold, exact, faithful
from ragfin.typed_figures import read_with_headers
from ragfin.typed_metrics import (
    contains_typed,
    disagreements,
    exact_typed,
    faithful_typed,
    gold_figure_faults,
)

TABLE = """| | 2023 (millones de EUR) | Margen (%) |
|---|---:|---:|
| Ventas | 1.234,5 | 20,5 |
| Dividendos pagados | -181,2 | |
| BPA (EUR) | 0,35 | |"""


def asked(gold: str, text: str = "¿Cuánto fue?", kind: str = "tabla") -> Question:
    return Question("Q1", "R01", text, gold, kind, kind != "no_respondible", ())


@pytest.mark.parametrize(
    ("gold", "answer", "right"),
    [
        ("20,5 %", "20,5% [1]", True),
        ("20,5 %", "20,5 p.p.", False),
        ("20,5 %", "20,5 millones", False),
        ("20,5 %", "20,5 % frente al 19,8 %", False),
        ("20,5 %", "En 2023, a 31/12/2023, el 20,5 %", True),
        ("20,5 %", "20,5 % (nota 3, NIC 36)", True),
        ("20,5 %", "El 21 %", True),  # half a unit of the coarser: |21 - 20,5| = 0,5
        ("20,5 %", "El 22 %", False),
        ("20,54 %", "20,5 %", True),
        ("20,56 %", "20,5 %", False),  # 0,06 > 0,05
        ("7 pb", "0,07 %", True),
        ("879,1", "879,1 millones de euros", True),
        ("879,1 millones de euros", "879,1", True),
        ("879,1 millones de euros", "879,1 miles de euros", False),
        ("879,1 millones de euros", "879.100.000 €", True),
        ("879,1 millones de euros", "879,1 millones de dólares", False),
        ("879,1 millones de euros", "879 M€", True),
        ("-3 %", "cayó un 3 %", True),
        ("-3 %", "subió un 3 %", False),
        ("-3 %", "No bajó el coste. Subió un 3 %", False),
        ("3 %", "-3 %", False),
        ("12 de marzo de 2025", "El 12/03/2025", True),
        ("12 de marzo de 2025", "El 13/03/2025", False),
        ("Fueron 5 en 2023", "5", True),
        ("2016", "El 12 de mayo de 2016", True),
        ("No", "No, no se incluyen", True),
        ("No", "Sí", False),
        ("5 %", "No consta.", False),
    ],
)
def test_an_answer_is_exactly_the_gold_with_its_unit_and_sign(gold: str, answer: str, right: bool) -> None:
    assert exact_typed(answer, asked(gold)) is right


def test_a_figure_of_the_question_is_not_foreign() -> None:
    question = asked("10.530 EUR", "¿Cuánto se recibe por 10.000 EUR?")
    assert exact_typed("De 10.000 EUR, 10.530 EUR", question)
    assert not exact_typed("De 9.000 EUR, 10.530 EUR", question)


def test_a_question_about_a_decrease_carries_the_sign() -> None:
    assert exact_typed("Un 3 %", asked("-3 %", "¿Cuánto cayeron las ventas?"))
    assert not exact_typed("Un 3 %", asked("-3 %", "¿Cuánto variaron las ventas?"))


def test_an_unanswerable_question_wants_an_abstention() -> None:
    assert exact_typed("No consta.", asked("No consta", kind="no_respondible"))
    assert not exact_typed("5 %", asked("No consta", kind="no_respondible"))


def test_containing_allows_other_figures_and_does_not_look_at_abstention() -> None:
    assert contains_typed("20,5 % frente al 19,8 %", asked("20,5 %"))
    assert not contains_typed("20,5 veces", asked("20,5 %"))
    assert contains_typed("No consta.", asked("No"))


def test_table_cells_take_their_unit_from_row_label_then_column_header() -> None:
    read = [(str(figure.value.normalize()), figure.unit) for figure in read_with_headers(TABLE)]
    assert read == [("2023", "año"), ("1.2345E+9", "EUR"), ("20.5", "%"), ("-1.812E+8", "EUR"), ("0.35", "EUR")]


def test_a_label_that_looks_like_an_abbreviation_gives_no_scale() -> None:
    table = "| Nombre | Valor |\n|---|---|\n| M. García | 12 |"
    assert [figure.value for figure in read_with_headers(table)] == [12]


@pytest.mark.parametrize(
    ("answer", "supported"),
    [
        ("1.234,5 millones de euros", True),
        ("1.234,5 miles de euros", False),
        ("1.234,5 millones de dólares", False),
        ("1.235 M€", True),
        ("1.234,5", True),
        ("20,5 %", True),
        ("20,5 p.p.", False),
        ("Se pagaron 181,2 millones de euros", True),
        ("En 2031, a 31/12/2031, 20,5 %", True),
        ("999 €", False),
        ("", True),
        ("No hay cifras", True),
    ],
)
def test_every_figure_of_an_answer_agrees_with_the_context(answer: str, supported: bool) -> None:
    assert faithful_typed(answer, TABLE, asked("1.234,5 millones de euros")) is supported


def test_an_abstention_has_no_faithfulness() -> None:
    value = faithful_typed("No consta.", TABLE, asked("5 %"))
    assert isinstance(value, float)
    assert isnan(value)


def test_gold_that_parts_from_its_passages_is_told_with_the_nearest_figure() -> None:
    assert gold_figure_faults(asked("1.234,5 millones de euros"), [TABLE]) == []
    assert gold_figure_faults(asked("181,2 millones de euros", "¿Qué dividendos pagó?"), [TABLE]) == []
    faults = gold_figure_faults(asked("20,5 millones de euros; 7 %"), [TABLE, "sin cifras"])
    assert faults == [
        "Q1: gold '20,5' is 20500000 EUR; the passages hold 20.5 % (another unit)",
        "Q1: gold '7' is 7 %; no passage holds it",
    ]
    (sign,) = gold_figure_faults(asked("1.234,5 millones de euros"), ["Resultado: -1.234,5 millones de euros"])
    assert sign.endswith("the passages hold -1234500000 EUR (another sign)")
    assert gold_figure_faults(asked("No consta", kind="no_respondible"), []) == []


@pytest.mark.parametrize(
    ("gold", "answer", "measure", "lesson", "reason"),
    [
        ("20,5 %", "20,5 p.p.", "exact", True, "another unit: 20.5 % against 20.5 pp"),
        ("5 millones", "5 miles", "exact", True, "another scale: 5000000 against 5000"),
        ("3 %", "-3 %", "exact", True, "another sign: 3 % against -3 %"),
        ("20,5 %", "20,5 % en 2023", "exact", False, "a year or a date is not foreign"),
        (
            "20,5 %",
            "20,5 % (nota 3)",
            "exact",
            False,
            "digits that are no figure: a reference, an ordinal, an identifier",
        ),
        ("20,54 %", "20,5 %", "contains", False, "the same value in another notation, scale or rounding"),
        ("12 %", "nota 12", "contains", True, "no typed figure agrees with 12 %"),
    ],
)
def test_disagreements_are_listed_with_their_reason(
    gold: str, answer: str, measure: str, lesson: bool, reason: str
) -> None:
    found = [d for d in disagreements([(asked(gold), answer, "")]) if d.measure == measure]
    assert [(d.question_id, d.lesson, d.typed, d.reason) for d in found] == [("Q1", lesson, not lesson, reason)]


def test_two_measures_that_agree_are_not_listed() -> None:
    assert disagreements([(asked("20,5 %"), "20,5 %", "20,5 %"), (asked("20,5 %"), "No consta.", "")]) == []


@given(
    st.text(alphabet="0123456789.,-() %€\n|noctaMp", max_size=60), st.text(alphabet="0123456789., %€|\n", max_size=40)
)
def test_no_text_raises_and_disagreements_are_those_of_the_measures(answer: str, gold: str) -> None:
    question = asked(gold)
    pairs = {
        "exact": (exact(answer, question), exact_typed(answer, question)),
        "contains": (contains_gold(answer, question), contains_typed(answer, question)),
        "faithful": (faithful(answer, gold, question), faithful_typed(answer, gold, question)),
    }
    parted = [name for name, (one, two) in pairs.items() if one != two and not (isnan(one) and isnan(two))]
    assert [d.measure for d in disagreements([(question, answer, gold)])] == parted


@given(st.text(alphabet="0123456789., %€x", max_size=40))
def test_an_answer_copied_from_the_gold_is_exact_and_faithful(gold: str) -> None:
    question = asked(gold)
    if read_figures(gold) or not figures(gold):
        assert exact_typed(gold, question)
        assert faithful_typed(gold, gold, question)


def test_another_language_has_its_notation_and_its_abstention() -> None:
    question = asked("1,234.5 million dollars", "How much?")
    table = "| | Sales ($ million) |\n|---|---|\n| 2023 | 1,234.5 |"
    assert exact_typed("$1,234.5 million in 2023", question, language=ENGLISH)
    assert not exact_typed("$1.2345 million", question, language=ENGLISH)
    assert faithful_typed("1,234.5 million", table, question, language=ENGLISH)
    assert isnan(faithful_typed(ENGLISH.abstention, table, question, language=ENGLISH))
    assert gold_figure_faults(question, ["Sales were 1,234.5 million dollars."], language=ENGLISH) == []


def test_huge_figures_are_compared() -> None:
    huge = "9" * 200_000 + " pb"
    assert exact_typed(huge, asked(huge))


def test_the_year_alone_does_not_say_a_date_but_a_date_says_its_year():
    launched = Question("Q1", "R09", "¿Cuándo empezó a cotizar?", "14 de mayo de 2015", "texto", True, ())
    assert contains_typed("El 14 de mayo de 2015", launched)
    assert not contains_typed("En 2015", launched)
    founded = launched._replace(gold_answer="2015")
    assert contains_typed("El 14 de mayo de 2015", founded)
