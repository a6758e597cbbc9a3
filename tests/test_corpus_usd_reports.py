"""The arithmetic of the annual reports R05 to R08, read from the tables and sentences that the documents print."""

import re
from collections import Counter
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal

import pytest

from ragfin import Corpus, load_corpus
from ragfin.chunking import FOOTNOTE_MARKS, chunk_corpus
from ragfin.metrics import question_coverage
from ragfin.retrieval import BM25Retriever
from ragfin.simulator import best_sentences

Table = dict[str, list[Decimal]]  # row label -> figures of the row, this year's before last year's
Report = dict[str, Table]  # section -> the first table of it

POVDO = {"R05": 2023, "R06": 2024}
ZAPTEC = {"R07": 2023, "R08": 2024}
ALL = POVDO | ZAPTEC
YEARS = (0, 1)  # positions of this year and of last year in a row

FLOWS = "Estado de flujos de efectivo"
OF_ONE_YEAR = {"Información por segmentos", "Deuda y liquidez", "Ingresos y EBITDA por área"}  # no comparison column


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_corpus()


@pytest.fixture(scope="module")
def reports(texts) -> dict[str, Report]:
    return {doc_id: dict(tables(texts[doc_id])) for doc_id in ALL}


def tables(text: str) -> Iterator[tuple[str, Table]]:
    """Yield the section and the rows of each table, footnote marks and header dropped."""
    section = ""
    for block in text.split("\n\n"):
        if block.startswith("## "):
            section = block.removeprefix("## ")
        elif block.startswith("|"):
            rows = [re.sub(f"[{FOOTNOTE_MARKS}]", "", line).strip("| ").split(" | ") for line in block.split("\n")]
            yield section, {label: [number(cell) for cell in cells] for label, *cells in rows[2:]}


def number(written: str) -> Decimal:
    """Read a Spanish number."""
    return Decimal(written.removesuffix(" %").replace(".", "").replace(",", "."))


def rounded(value: Decimal, places: int = 1) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)


def growth(row: list[Decimal], places: int = 1) -> Decimal:
    now, before = row
    return rounded((now / before - 1) * 100, places)


def stated(text: str, pattern: str) -> Decimal:
    """Return the only figure that a sentence states; ``#`` in the pattern stands for it."""
    [found] = re.findall(pattern.replace("#", r"(-?\d[\d.]*(?:,\d+)?)"), text)
    return number(found)


@pytest.mark.parametrize("doc_id", ALL)
def test_every_report_prints_eight_tables_each_in_a_section_of_its_own(texts, reports, doc_id):
    assert len(list(tables(texts[doc_id]))) == len(reports[doc_id]) == 8


@pytest.mark.parametrize("doc_id", POVDO)
def test_the_segments_of_povdo_add_up_to_the_group_and_its_margin(reports, doc_id):
    rows, main = reports[doc_id]["Información por segmentos"], reports[doc_id]["Principales magnitudes"]
    *segments, total = rows.values()
    assert sum(sales for sales, _ in segments) == total[0] == main["Ventas"][0]
    assert total[1] == rounded(main["EBITDA"][0] / main["Ventas"][0] * 100)


@pytest.mark.parametrize("doc_id", POVDO)
def test_the_segment_margins_of_povdo_leave_the_corporate_costs(texts, reports, doc_id):
    *segments, total = reports[doc_id]["Información por segmentos"].values()
    central = stated(texts[doc_id], "costes corporativos, de # millones")
    before_central = sum(sales * margin / 100 for sales, margin in segments)
    error = total[0] * Decimal("0.0005")  # margins are rounded to a tenth of a point
    assert abs(before_central - central - reports[doc_id]["Principales magnitudes"]["EBITDA"][0]) <= error


@pytest.mark.parametrize("year", YEARS)
@pytest.mark.parametrize("doc_id", POVDO)
def test_the_income_statement_of_povdo_adds_up(reports, doc_id, year):
    rows, main = reports[doc_id]["Cuenta de resultados consolidada"], reports[doc_id]["Principales magnitudes"]
    ebitda, depreciation, operating, financial, tax, minorities, attributed = (row[year] for row in rows.values())
    assert operating == ebitda + depreciation
    assert attributed == operating + financial + tax + minorities
    assert (ebitda, attributed) == (main["EBITDA"][year], main["Resultado atribuido"][year])


@pytest.mark.parametrize("year", YEARS)
@pytest.mark.parametrize("doc_id", ZAPTEC)
def test_the_income_statement_of_zaptec_adds_up(reports, doc_id, year):
    rows, main = reports[doc_id]["Resultado consolidado"], reports[doc_id]["Cifras clave"]
    revenue, personnel, other, *below, net = (row[year] for row in rows.values())
    assert revenue + personnel + other == main["EBITDA"][year]
    assert main["EBITDA"][year] + sum(below) == net == main["Beneficio neto"][year]
    assert revenue == main["Ingresos"][year]


@pytest.mark.parametrize("doc_id", ZAPTEC)
def test_the_areas_of_zaptec_add_up_to_revenue_and_ebitda(reports, doc_id):
    *areas, total = reports[doc_id]["Ingresos y EBITDA por área"].values()
    assert [sum(column) for column in zip(*areas, strict=True)] == total
    main = reports[doc_id]["Cifras clave"]
    assert total == [main["Ingresos"][0], main["EBITDA"][0]]


@pytest.mark.parametrize("year", YEARS)
@pytest.mark.parametrize(
    ("doc_id", "section", "assets"),
    [
        *((doc_id, "Balance consolidado", 4) for doc_id in POVDO),
        *((doc_id, "Situación patrimonial", 4) for doc_id in ZAPTEC),
    ],
)
def test_the_balance_sheet_balances(reports, doc_id, section, assets, year):
    column = [row[year] for row in reports[doc_id][section].values()]
    assert sum(column[:assets]) == column[assets] == sum(column[assets + 1 :])


@pytest.mark.parametrize(
    ("doc_id", "balance"),
    [*((doc_id, "Balance consolidado") for doc_id in POVDO), *((doc_id, "Situación patrimonial") for doc_id in ZAPTEC)],
)
def test_the_cash_flows_add_up_to_the_change_in_cash_of_the_balance_sheet(reports, doc_id, balance):
    rows = reports[doc_id][FLOWS]
    change = rows["Variación del efectivo"]
    for year in YEARS:
        assert sum(row[year] for row in rows.values()) == 2 * change[year]
    now, before = reports[doc_id][balance]["Efectivo"]
    assert now - before == change[0]


@pytest.mark.parametrize(
    ("doc_id", "balance", "debt", "raised", "repaid"),
    [
        *((doc_id, "Balance consolidado", "Deuda financiera", "Disposición", "Devolución") for doc_id in POVDO),
        *((doc_id, "Situación patrimonial", "Deuda financiera bruta", "Nueva", "Amortización") for doc_id in ZAPTEC),
    ],
)
def test_the_debt_of_the_balance_sheet_moves_by_what_was_raised_and_repaid(
    reports, doc_id, balance, debt, raised, repaid
):
    now, before = reports[doc_id][balance][debt]
    flows = {label.split()[0]: row[0] for label, row in reports[doc_id][FLOWS].items() if label.endswith("deuda")}
    assert set(flows) == {raised, repaid}
    assert now - before == flows[raised] + flows[repaid]


@pytest.mark.parametrize("year", YEARS)
@pytest.mark.parametrize("doc_id", POVDO)
def test_the_net_debt_of_povdo_leaves_the_leases_out_and_is_the_stated_multiple(texts, reports, doc_id, year):
    balance, main = reports[doc_id]["Balance consolidado"], reports[doc_id]["Principales magnitudes"]
    net = main["Deuda financiera neta"][year]
    assert net == balance["Deuda financiera"][year] - balance["Efectivo"][year]
    pattern = ("USD, # veces el EBITDA", "frente a # veces un año antes")[year]
    assert stated(texts[doc_id], pattern) == rounded(net / main["EBITDA"][year])
    assert stated(texts[doc_id], "La deuda financiera neta¹ se situó en # millones") == main["Deuda financiera neta"][0]


@pytest.mark.parametrize("year", YEARS)
@pytest.mark.parametrize("doc_id", ZAPTEC)
def test_the_net_debt_of_zaptec_is_the_stated_multiple_and_leaves_the_net_asset_value(texts, reports, doc_id, year):
    balance, assets = reports[doc_id]["Situación patrimonial"], reports[doc_id]["Valor de los activos"]
    gross_value, less_debt, net_value, discount = (row[year] for row in assets.values())
    assert -less_debt == balance["Deuda financiera bruta"][year] - balance["Efectivo"][year]
    assert net_value == gross_value + less_debt
    share = reports[doc_id]["La acción"]
    value_per_share = rounded(net_value / share["Acciones en circulación (millones)"][year], 2)
    assert discount == rounded((1 - share["Precio a cierre (USD)"][year] / value_per_share) * 100)
    pattern = ("equivalía a # veces", "frente a # veces en")[year]
    assert stated(texts[doc_id], pattern) == rounded(-less_debt / reports[doc_id]["Cifras clave"]["EBITDA"][year])
    if year == 0:
        assert stated(texts[doc_id], "es decir, # USD por acción") == value_per_share
        assert stated(texts[doc_id], "El valor neto de los activos era de # millones") == net_value


@pytest.mark.parametrize("doc_id", POVDO)
def test_the_maturities_of_povdo_add_up_to_its_debt(reports, doc_id):
    rows, year = reports[doc_id]["Deuda y liquidez"], POVDO[doc_id]
    *years, total = rows
    assert years == [str(year + 1), str(year + 2), str(year + 3), f"{year + 4} y siguientes"]
    assert sum(rows[label][0] for label in years) == rows[total][0]
    assert rows[total][0] == reports[doc_id]["Balance consolidado"]["Deuda financiera"][0]


def test_the_maturities_of_povdo_move_from_one_year_to_the_next_by_what_was_raised_and_repaid(reports):
    before, now = ([row[0] for row in reports[doc_id]["Deuda y liquidez"].values()][:4] for doc_id in POVDO)
    flows = reports["R06"][FLOWS]
    prepaid = -flows["Devolución de deuda"][0] - before[0]
    assert now[0] == before[1] - prepaid
    assert sum(now[1:]) == sum(before[2:]) + flows["Disposición de deuda"][0]


@pytest.mark.parametrize("year", YEARS)
@pytest.mark.parametrize(
    ("doc_id", "section"),
    [*((doc_id, "Accionistas y bolsa") for doc_id in POVDO), *((doc_id, "La acción") for doc_id in ZAPTEC)],
)
def test_shares_times_price_is_the_market_value_and_times_dividend_what_was_paid(reports, doc_id, section, year):
    shares, price, market_value, dividend = (row[year] for row in reports[doc_id][section].values())
    assert market_value == rounded(shares * price)
    assert reports[doc_id][FLOWS]["Dividendos pagados"][year] == -rounded(shares * dividend)


def test_what_the_boards_propose_in_2023_is_what_the_companies_pay_in_2024(texts, reports):
    proposed = stated(texts["R05"], "repartir # USD por acción")
    assert proposed == reports["R06"]["Accionistas y bolsa"]["Dividendo pagado por acción (USD)"][0]
    ordinary = stated(texts["R08"], "# USD de dividendo ordinario")
    assert ordinary == stated(texts["R07"], "un dividendo ordinario de # USD")
    extraordinary = stated(texts["R08"], "# USD de extraordinario")
    assert ordinary + extraordinary == reports["R08"]["La acción"]["Dividendo pagado por acción (USD)"][0]


@pytest.mark.parametrize("doc_id", POVDO)
def test_the_rates_in_the_text_of_povdo_follow_from_the_tables(texts, reports, doc_id):
    text, main, income = texts[doc_id], *(list(reports[doc_id].values())[i] for i in (0, 2))
    assert stated(text, "Las ventas crecieron un # %") == growth(main["Ventas"])
    assert stated(text, "El EBITDA aumentó un # %") == growth(main["EBITDA"]) > growth(main["Ventas"])
    shares = reports[doc_id]["Accionistas y bolsa"]["Acciones (millones)"]
    for year, pattern in zip(YEARS, ("acción fue de # USD", "frente a # USD del ejercicio"), strict=True):
        assert stated(text, pattern) == rounded(main["Resultado atribuido"][year] / shares[year], 2)
    before_tax = income["Resultado de explotación"][0] + income["Resultado financiero"][0]
    assert stated(text, "efectivo fue del # %") == rounded(-income["Impuesto sobre beneficios"][0] / before_tax * 100)
    backlog = stated(text, "a 31 de diciembre era de # millones")
    assert stated(text, "equivalente a # meses") == rounded(backlog / main["Ventas"][0] * 12)


def test_the_segments_of_povdo_grew_as_the_second_report_says(texts, reports):
    before, now = (reports[doc_id]["Información por segmentos"] for doc_id in POVDO)
    for name, pattern in (("Internacional", "Internacional creció un # %"), ("Componentes", "con un alza del # %")):
        assert stated(texts["R06"], pattern) == growth([now[name][0], before[name][0]])
    assert now["Internacional"][1] < before["Internacional"][1]  # "pesó en su rentabilidad"
    assert before["Internacional"][0] * 3 > before["Total"][0]  # "más de un tercio de lo facturado"


def test_orders_less_sales_is_the_change_in_the_backlog_of_povdo(texts, reports):
    before, now = (stated(texts[doc_id], "a 31 de diciembre era de # millones") for doc_id in POVDO)
    orders = stated(texts["R06"], "contratación del ejercicio ascendió a # millones")
    assert now - before == orders - reports["R06"]["Principales magnitudes"]["Ventas"][0]


def test_both_companies_met_in_2024_what_they_expected_in_2023(texts, reports):
    expected = stated(texts["R05"], "Para 2024 se esperan ventas superiores a # millones")
    assert reports["R06"]["Principales magnitudes"]["Ventas"][0] > expected
    main = reports["R08"]["Cifras clave"]
    assert (
        main["Ingresos"][0] > stated(texts["R07"], "los ingresos superen en 2024 los # millones") > main["Ingresos"][1]
    )


@pytest.mark.parametrize("doc_id", ZAPTEC)
def test_the_rates_in_the_text_of_zaptec_follow_from_the_tables(texts, reports, doc_id):
    text, managed = texts[doc_id], reports[doc_id]["Cifras clave"]["Patrimonio gestionado"]
    assert stated(text, "de los fondos fue de # millones") + stated(text, "otros # millones") == managed[0] - managed[1]
    fees = reports[doc_id]["Ingresos y EBITDA por área"]["Gestión de activos"][0]
    assert stated(text, "equivalieron al # %") == rounded(fees / (sum(managed) / 2) * 100, 2)
    assert stated(text, "La cotización subió un # %") == growth(reports[doc_id]["La acción"]["Precio a cierre (USD)"])
    gains = reports[doc_id]["Resultado consolidado"]["Ganancias por desinversiones"][0]
    assert stated(text, "ganancia de # millones") == gains


def test_the_sale_that_the_letter_of_zaptec_tells_is_in_its_cash_flows(texts, reports):
    sold = reports["R08"][FLOWS]["Venta de participaciones"][0]
    assert stated(texts["R08"], "Cobramos # millones de USD") == sold
    assert stated(texts["R07"], "Pagamos # millones de USD") < -reports["R07"][FLOWS]["Compra de participaciones"][0]


@pytest.mark.parametrize(
    ("before", "now", "size", "more"),
    [("R05", "R06", "con # empleados", "empleados, # más"), ("R07", "R08", "éramos # prof", "profesionales, # más")],
)
def test_the_staff_grew_by_what_the_second_report_says(texts, before, now, size, more):
    assert stated(texts[now], size) - stated(texts[before], size) == stated(texts[now], more)


@pytest.mark.parametrize(("before", "now", "compared"), [("R05", "R06", 6), ("R07", "R08", 7)])
def test_last_years_column_equals_last_years_report(reports, before, now, compared):
    by_year = [name for name in reports[now] if name not in OF_ONE_YEAR]
    assert len(by_year) == compared
    for section in by_year:
        old, new = reports[before][section], reports[now][section]
        assert {label: row[1] for label, row in new.items()} == {label: row[0] for label, row in old.items()}, section


@pytest.mark.parametrize("doc_id", ALL)
def test_the_footnote_marks_restart_in_povdo_and_number_through_in_zaptec(texts, doc_id):
    notes = Counter(block[0] for block in texts[doc_id].split("\n\n") if block[0] in FOOTNOTE_MARKS)
    body = "\n\n".join(block for block in texts[doc_id].split("\n\n") if block[0] not in FOOTNOTE_MARKS)
    assert Counter(re.findall(f"[{FOOTNOTE_MARKS}]", body)) == notes
    assert dict(notes) == ({"¹": 5, "²": 2} if doc_id in POVDO else dict.fromkeys("¹²³⁴⁵⁶⁷", 1))


@pytest.mark.parametrize(
    ("question_id", "doc_id", "kind", "answer"),
    [
        ("QA105", "R05", "tabla", "20,5 %"),
        ("QA151", "R07", "tabla_y_nota", "3.846 toneladas de CO₂ equivalente, con base de localización"),
        ("QA154", "R07", "no_respondible", "No consta"),
        ("QA160", "R08", "tabla", "1.472,9 millones de USD"),
        ("QA165", "R08", "tabla", "181,2 millones de USD"),
    ],
)
def test_the_questions_known_by_number_keep_their_answers(corpus, question_id, doc_id, kind, answer):
    question = corpus.question(question_id)
    assert (question.doc_id, question.kind, question.gold_answer) == (doc_id, kind, answer)


def test_three_chunks_hold_the_gold_passages_of_the_questions_known_by_number(corpus):
    retriever = BM25Retriever(chunk_corpus(corpus))
    questions = [corpus.question(question_id) for question_id in ("QA105", "QA151", "QA160", "QA165")]
    found = retriever.search_many([question.text for question in questions], 3)
    assert [
        question_coverage([hit.chunk for hit in hits], question)
        for question, hits in zip(questions, found, strict=True)
    ] == [1, 1, 1, 1]


def test_the_answers_known_by_number_stand_in_their_tables(reports):
    assert reports["R05"]["Información por segmentos"]["Internacional"][1] == Decimal("20.5")
    assert reports["R07"]["Huella ambiental"]["Emisiones de alcance 2 (electricidad)"][0] == 3846
    assert reports["R08"]["La acción"]["Capitalización bursátil (millones de USD)"][0] == Decimal("1472.9")
    labels = list(reports["R08"][FLOWS])
    above, row = labels[labels.index("Dividendos pagados") - 1 :][:2]
    assert [reports["R08"][FLOWS][label][0] for label in (above, row)] == [Decimal("-869.8"), Decimal("-181.2")]


def test_the_best_sentence_for_the_margin_of_internacional_is_the_header_of_its_table(corpus, texts):
    question = corpus.question("QA105")
    [passage] = question.gold_passages
    assert passage.id == "R05-p025"
    assert 2800 <= passage.start <= 2940
    [best] = best_sentences([texts["R05"]], question.text)
    assert best.start == passage.start
    assert texts["R05"][best.start : best.end] == "| Segmento | Ventas 2023 (millones de USD) | Margen EBITDA |"
