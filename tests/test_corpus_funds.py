"""The four ETF prospectuses and their KIDs: arithmetic and agreement, read from what the documents print."""

import re
from decimal import ROUND_HALF_UP, Decimal

import pytest
from rank_bm25 import BM25Okapi

from ragfin import Corpus, load_corpus
from ragfin.chunking import chunk_corpus
from ragfin.figures import figures
from ragfin.metrics import question_coverage
from ragfin.retrieval import BM25Retriever
from ragfin.text import words

PROSPECTUS_OF = {"R13": "R09", "R14": "R12", "R15": "R11", "R16": "R10"}  # by KID
PROSPECTUSES = ("R09", "R10", "R11", "R12")
FUNDS = (*PROSPECTUSES, *PROSPECTUS_OF)
INVESTED = 10000
ISIN = re.compile(r"\bLU\d{10}\b")


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_corpus()


def number(written: str) -> Decimal:
    """Read a Spanish number."""
    return Decimal(written.replace(".", "").replace(",", "."))


def rounded(value: Decimal, places: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)


def table(text: str, header: str) -> list[list[str]]:
    """Return the rows, cell by cell and header first, of the only table whose header row begins so."""
    [block] = [block for block in text.split("\n\n") if block.startswith(f"| {header}")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
    return [rows[0], *rows[2:]]


def printed(text: str, pattern: str) -> str:
    """Return the only match of a pattern's group."""
    [found] = re.findall(pattern, text)
    return found


def years(kid: str) -> int:
    return int(printed(kid, r"El período de mantenimiento recomendado es de (\d) años"))


def scenario(cell: str) -> tuple[Decimal, Decimal]:
    """Return final value and yearly return of a cell such as ``8.240 (-17,6 %)``."""
    value, percent = re.fullmatch(r"([\d.]+) \((-?[\d,]+) %\)", cell).groups()
    return number(value), number(percent)


def compound(final: Decimal, periods: int) -> Decimal:
    """Return the yearly return, in per cent, of the example investment."""
    return ((final / INVESTED) ** (Decimal(1) / periods) - 1) * 100


def check_digit(isin: str) -> int:
    """Return the check digit (Luhn over the letters turned into numbers) of an ISIN's first eleven characters."""
    digits = "".join(str(int(character, 36)) for character in isin[:11])
    doubled = [int(digit) * (2 - position % 2) for position, digit in enumerate(reversed(digits))]
    return -sum(value // 10 + value % 10 for value in doubled) % 10


def test_the_check_digit_is_the_standard_one():
    published = ("US0378331005", "AU0000XVGZA3", "GB0002634946")  # the usual worked examples
    assert [check_digit(isin) for isin in published] == [5, 3, 6]


@pytest.mark.parametrize("doc_id", FUNDS)
def test_every_isin_has_its_check_digit(texts, doc_id):
    isins = ISIN.findall(texts[doc_id])
    assert len(isins) == (3 if doc_id in PROSPECTUSES else 1)
    assert [check_digit(isin) for isin in isins] == [int(isin[-1]) for isin in isins]


def test_no_isin_serves_two_share_classes(texts):
    isins = [isin for doc_id in PROSPECTUSES for isin in ISIN.findall(texts[doc_id])]
    assert len(set(isins)) == len(isins) == 12


@pytest.mark.parametrize(("doc_id", "chunks"), [(d, 20 if d in PROSPECTUSES else 15) for d in FUNDS])
def test_each_fund_document_has_its_number_of_chunks(corpus, doc_id, chunks):
    assert sum(chunk.doc_id == doc_id for chunk in chunk_corpus(corpus)) == chunks


@pytest.mark.parametrize("doc_id", PROSPECTUSES)
def test_the_index_weights_add_up_to_one_hundred_and_the_named_ones_fall(texts, doc_id):
    [heading] = re.findall(r"^\| (\w+) \| Peso en el índice", texts[doc_id], re.MULTILINE)
    weights = [number(row[1]) for row in table(texts[doc_id], heading)[1:]]
    assert sum(weights) == 100
    named = weights[:-1]  # the last row is the rest
    assert named == sorted(named, reverse=True)
    assert weights[-1] > 0


@pytest.mark.parametrize("doc_id", PROSPECTUSES)
def test_the_fees_add_up_to_the_ter_of_table_and_prose(texts, doc_id):
    text = texts[doc_id]
    *parts, total = [number(row[1]) for row in table(text, "Concepto")[1:]]
    header, class_a, *_ = table(text, "Clase")
    assert sum(parts) == total == number(class_a[header.index("TER (% anual)")])
    assert number(printed(text, r"gastos totales \(TER\) del ([\d,]+) % anual")) == total


@pytest.mark.parametrize("doc_id", ["R09", "R11"])
def test_the_price_of_hedging_is_the_difference_of_the_two_ters(texts, doc_id):
    ter = {row[0]: number(row[-1]) for row in table(texts[doc_id], "Clase")[1:]}
    assert number(printed(texts[doc_id], r"soporta ([\d,]+) puntos porcentuales más")) == ter["H"] - ter["A"] > 0


@pytest.mark.parametrize("doc_id", ["R10", "R12"])
def test_the_institutional_class_is_the_cheapest(texts, doc_id):
    ter = {row[0]: number(row[-1]) for row in table(texts[doc_id], "Clase")[1:]}
    assert ter["I"] < min(ter[name] for name in ter if name != "I")


@pytest.mark.parametrize("doc_id", PROSPECTUSES)
def test_the_tracking_error_of_2023_is_below_the_expected_maximum(texts, doc_id):
    expected = number(printed(texts[doc_id], r"error de seguimiento anual de hasta el ([\d,]+) %"))
    assert 0 < number(printed(texts[doc_id], r"el realizado fue del ([\d,]+) %")) < expected


def test_the_yield_of_the_dividend_fund_implies_a_plausible_price(texts):
    paid = number(printed(texts["R10"], r"abonó ([\d,]+) euros por acción"))
    percent = number(printed(texts["R10"], r"una rentabilidad del ([\d,]+) %"))
    assert 90 < paid / percent * 100 < 110


def test_a_rise_of_one_point_costs_the_bond_fund_its_duration(texts):
    duration = printed(texts["R11"], r"La duración media de la cartera era de ([\d,]+) años")
    assert printed(texts["R11"], r"el valor de la cartera en torno al ([\d,]+) %") == duration


@pytest.mark.parametrize(("kid", "prospectus"), PROSPECTUS_OF.items())
def test_kid_and_prospectus_agree(texts, kid, prospectus):
    kid_text, text = texts[kid], texts[prospectus]
    [ter_in_kid] = [number(row[1]) for row in table(kid_text, "Composición")[1:] if "gestión" in row[0]]
    class_a = table(text, "Clase")[1]
    assert ter_in_kid == number(class_a[-1])
    assert printed(kid_text, r"\| ISIN \| (LU\d{10}) \|") == class_a[2]
    launched = printed(text, r"El Compartimento se lanzó el (\d+ de \w+ de \d{4})")
    assert printed(kid_text, r"inició su actividad el (\d+ de \w+ de \d{4})") == launched
    assert printed(kid_text, r"reproducir el índice ([^,]+),") == printed(text, r"rentabilidad del índice ([^(]+) \(")
    assert ("riesgo de cambio" in kid_text) == (class_a[1] == "USD")


@pytest.mark.parametrize(("kid", "prospectus"), [("R16", "R10"), ("R14", "R12")])
def test_the_risk_indicator_is_the_same_in_kid_and_prospectus(texts, kid, prospectus):
    risk = printed(texts[prospectus], r"El indicador resumido de riesgo de la clase A es (\d) en una escala de 1 a 7")
    assert printed(texts[kid], r"en la clase de riesgo (\d) en una escala de 7") == risk
    held = printed(texts[prospectus], r"mantiene las acciones durante (\d) años")
    assert years(texts[kid]) == int(held)


@pytest.mark.parametrize("kid", PROSPECTUS_OF)
def test_the_risk_class_is_called_what_the_regulation_calls_it(texts, kid):
    names = {"1": "el más bajo", "2": "bajo", "3": "medio bajo", "4": "medio", "5": "medio alto", "6": "alto"}
    risk = printed(texts[kid], r"en la clase de riesgo (\d) en una escala de 7")
    assert printed(texts[kid], r"significa «un riesgo ([^»]+)»") == names[risk]
    assert f"en la que {risk} significa" in texts[kid]


@pytest.mark.parametrize("kid", PROSPECTUS_OF)
def test_every_scenario_pays_what_its_yearly_return_says(texts, kid):
    mark = "¹" if kid == "R13" else ""
    header, *rows = table(texts[kid], f"Inversión: 10.000 EUR{mark} | Si sale después de 1 año (EUR)")
    periods = (1, years(texts[kid]))
    assert f"después de {periods[1]} años" in header[2]
    assert [row[0] for row in rows] == ["Tensión", "Desfavorable", "Moderado", "Favorable"]
    for column, count in enumerate(periods, 1):
        cells = [scenario(row[column]) for row in rows]
        assert [percent for _, percent in cells] == [rounded(compound(final, count), 1) for final, _ in cells]
        finals = [final for final, _ in cells]
        assert finals == sorted(finals)


@pytest.mark.parametrize("kid", PROSPECTUS_OF)
def test_the_costs_of_one_year_are_the_sum_of_their_composition(texts, kid):
    composition = table(texts[kid], "Composición")[1:]
    percent = [number(row[1]) for row in composition]
    euros = [number(row[2]) for row in composition]
    assert euros == [INVESTED * value / 100 for value in percent]
    totals, incidence = costs_over_time(texts[kid])
    assert totals[0] == sum(euros)
    assert incidence == [sum(percent)] * 2


@pytest.mark.parametrize("kid", PROSPECTUS_OF)
def test_the_costs_of_the_recommended_period_follow_the_moderate_scenario(texts, kid):
    text = texts[kid]
    yearly = compound(final_of(text, "Moderado"), years(text)) / 100
    totals, [rate, _] = costs_over_time(text)
    expected = sum(INVESTED * rate / 100 * (1 + yearly) ** year for year in range(years(text)))
    assert totals[1] == rounded(expected, 0) > totals[0]


@pytest.mark.parametrize("kid", PROSPECTUS_OF)
def test_the_return_before_costs_is_the_one_after_costs_plus_their_incidence(texts, kid):
    text = texts[kid]
    before = number(printed(text, r"del ([\d,]+) % antes de costes"))
    after = number(printed(text, r"del ([\d,]+) % después de costes"))
    assert before - after == costs_over_time(text)[1][1]
    assert after == rounded(compound(final_of(text, "Moderado"), years(text)), 2)


@pytest.mark.parametrize("kid", PROSPECTUS_OF)
def test_the_fund_trails_its_index_every_year_by_about_its_costs(texts, kid):
    rows = [[number(cell) for cell in row] for row in table(texts[kid], "Año")[1:]]
    assert [int(row[0]) for row in rows] == [2019, 2020, 2021, 2022, 2023]
    costs = costs_over_time(texts[kid])[1][0]
    assert all(0 < index - fund <= 2 * costs for _, fund, index in rows)


def test_the_family_shares_its_boilerplate_word_for_word(texts):
    for group, shared in ((PROSPECTUSES, 9), (tuple(PROSPECTUS_OF), 5)):
        blocks = [{block for block in texts[doc_id].split("\n\n") if len(block) > 100} for doc_id in group]
        assert len(set.intersection(*blocks)) >= shared


def test_the_ids_that_the_lesson_fixed_have_their_answers(corpus):
    hedged, paying, number_of, costs = (corpus.question(q) for q in ("QA191", "QA196", "QA217", "QA230"))
    assert (hedged.doc_id, hedged.kind, hedged.gold_answer) == ("R11", "no_respondible", "No consta")
    assert (paying.doc_id, paying.kind, [p.id for p in paying.gold_passages]) == ("R11", "texto", ["R11-p030"])
    assert "semestral" in paying.gold_answer
    assert figures(paying.gold_answer) == set()
    assert (number_of.doc_id, number_of.kind, number_of.gold_answer) == ("R12", "texto", "704 valores")
    assert (costs.doc_id, costs.kind, [p.id for p in costs.gold_passages]) == ("R16", "tabla", ["R16-p016"])
    assert "0,20 % anual" in corpus.documents.set_index("doc_id").loc["R11", "text"]


def test_no_share_class_is_hedged_to_the_pound(texts):
    for doc_id in PROSPECTUSES:
        assert not re.search(r"libra|GBP", texts[doc_id])


@pytest.mark.parametrize(("doc_id", "length"), [("R11", 55), ("R16", 73)])
def test_the_two_titles_are_as_long_as_the_lesson_prints(texts, doc_id, length):
    assert texts[doc_id].index("\n") == length


@pytest.mark.parametrize("question_id", ["QA196", "QA217"])
def test_three_chunks_cover_the_sampled_questions_of_the_funds(corpus, question_id):
    question = corpus.question(question_id)
    hits = BM25Retriever(chunk_corpus(corpus)).search(question.text, 3)
    assert question_coverage([hit.chunk for hit in hits], question) == 1.0


@pytest.mark.parametrize("question_id", ["QA196", "QA230"])
def test_the_title_wins_among_the_sentences_of_the_document(corpus, texts, question_id):
    question = corpus.question(question_id)
    lines = texts[question.doc_id].split("\n")
    pieces = [piece for line in lines for piece in re.split(r"(?<=\.) ", line) if len(piece.strip()) > 20]
    scores = BM25Okapi([words(piece) for piece in pieces]).get_scores(words(question.text))
    assert pieces[int(scores.argmax())] == lines[0]


def costs_over_time(kid: str) -> tuple[list[Decimal], list[Decimal]]:
    """Return the total costs in EUR and their yearly incidence in per cent, each for one year and the whole period."""
    totals = printed(kid, r"\| Costes totales \(EUR\) \| ([\d.]+ \| [\d.]+) \|").split(" | ")
    incidence = printed(kid, r"\| Incidencia anual de los costes \(%\) \| ([\d,]+ \| [\d,]+) \|").split(" | ")
    return [number(cell) for cell in totals], [number(cell) for cell in incidence]


def final_of(kid: str, name: str) -> Decimal:
    """Return what a scenario pays at the end of the recommended period."""
    return scenario(printed(kid, rf"\| {name} \| [^|]+ \| ([^|]+) \|"))[0]
