"""The arithmetic of the annual reports R01 to R04, read from the tables and sentences that the documents print."""

import re
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise

import pytest

from ragfin.chunking import FOOTNOTE_MARKS
from ragfin.figures import FIGURE_TOKEN

Table = dict[str, dict[str, Decimal]]  # row label -> column header -> value

BUSMAR = {"R01": 2023, "R02": 2024}
LORTEGA = {"R03": 2023, "R04": 2024}
ALL = BUSMAR | LORTEGA
TENTH = Decimal("0.1")


def value(cell: str) -> Decimal:
    """Read a Spanish number as a table prints it."""
    return Decimal(cell.replace(".", "").replace(",", "."))


def written(number: Decimal, places: int = 1) -> str:
    """Write a number as the reports do, rounded half up."""
    rounded = number.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
    return f"{rounded:,}".translate(str.maketrans(",.", ".,"))


def rounded(number: Decimal) -> Decimal:
    return number.quantize(TENTH, rounding=ROUND_HALF_UP)


def cells(line: str) -> list[str]:
    return [re.sub(f"[{FOOTNOTE_MARKS}]", "", cell).strip() for cell in line.strip("|").split("|")]


def tables(text: str, section: str) -> list[Table]:
    """Return the tables of a section in order; cells without a figure are left out, footnote marks dropped."""
    body = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    found = []
    for block in body.split("\n\n"):
        if block.strip().startswith("|"):
            header, _, *rows = (cells(line) for line in block.strip().splitlines())
            found.append(
                {
                    row[0]: {
                        column: value(cell)
                        for column, cell in zip(header[1:], row[1:], strict=True)
                        if FIGURE_TOKEN.search(cell)
                    }
                    for row in rows
                }
            )
    return found


def table(text: str, section: str) -> Table:
    [only] = tables(text, section)
    return only


def columns(rows: Table) -> list[str]:
    return list(dict.fromkeys(column for row in rows.values() for column in row))


def column(rows: Table, name: str) -> dict[str, Decimal]:
    return {label: row[name] for label, row in rows.items() if name in row}


def growth(now: Decimal, before: Decimal) -> Decimal:
    return (now / before - 1) * 100


def sections(text: str) -> list[str]:
    return re.findall(r"^## (.+)$", text, flags=re.MULTILINE)


@pytest.mark.parametrize("doc_id", BUSMAR)
def test_the_segments_of_busmar_add_up_to_the_group(texts, doc_id):
    rows = table(texts[doc_id], "Información por segmentos")
    sums = [name for name in columns(rows) if "Margen" not in name]
    assert len(sums) == 3
    for name in sums:
        parts = column(rows, name)
        assert parts.pop("Total") == sum(parts.values()), name


@pytest.mark.parametrize("doc_id", BUSMAR)
def test_the_segment_margins_of_busmar_are_ebitda_over_sales(texts, doc_id):
    rows = table(texts[doc_id], "Información por segmentos")
    year = ALL[doc_id]
    with_margin = column(rows, "Margen (%)")
    assert len(with_margin) == 4
    for label, margin in with_margin.items():
        assert margin == rounded(rows[label][f"EBITDA {year}"] / rows[label][f"Ventas {year}"] * 100), label


@pytest.mark.parametrize("doc_id", BUSMAR)
def test_the_main_figures_of_busmar_are_those_of_its_statements(texts, doc_id):
    text, year = texts[doc_id], ALL[doc_id]
    main, income = table(text, "Principales magnitudes"), table(text, "Cuenta de resultados consolidada")
    balance, segments = table(text, "Balance consolidado"), table(text, "Información por segmentos")
    assert columns(main) == [str(year), str(year - 1)]
    for name in columns(main):
        assert main["Ventas"][name] == segments["Total"][f"Ventas {name}"]
        assert main["EBITDA"][name] == income["EBITDA"][name]
        assert main["Margen EBITDA (%)"][name] == rounded(main["EBITDA"][name] / main["Ventas"][name] * 100)
        assert main["Resultado neto"][name] == income["Resultado neto"][name]
        assert main["Deuda financiera neta"][name] == balance["Deuda financiera"][name] - balance["Efectivo"][name]
    assert income["EBITDA"][str(year)] == segments["Total"][f"EBITDA {year}"]


@pytest.mark.parametrize("doc_id", BUSMAR)
def test_the_income_statement_of_busmar_adds_up(texts, doc_id):
    rows = table(texts[doc_id], "Cuenta de resultados consolidada")
    for name in columns(rows):
        ebitda, depreciation, ebit, financial, tax, net = column(rows, name).values()
        assert ebit == ebitda + depreciation
        assert net == ebit + financial + tax


@pytest.mark.parametrize("doc_id", BUSMAR)
def test_the_balance_sheet_of_busmar_balances(texts, doc_id):
    rows = table(texts[doc_id], "Balance consolidado")
    for name in columns(rows):
        amounts = list(column(rows, name).values())
        assert len(amounts) == 9
        assert amounts[4] == sum(amounts[:4]) == sum(amounts[5:])


@pytest.mark.parametrize(
    ("doc_id", "flows", "balance", "cash"),
    [(doc_id, "Estado de flujos de efectivo", "Balance consolidado", "Efectivo") for doc_id in BUSMAR]
    + [(doc_id, "Flujos de caja", "Situación patrimonial", "Tesorería") for doc_id in LORTEGA],
)
def test_the_cash_flows_add_up_to_the_change_in_cash_of_the_balance_sheet(texts, doc_id, flows, balance, cash):
    rows, year = table(texts[doc_id], flows), ALL[doc_id]
    changes = {}
    for name in columns(rows):
        *parts, changes[name] = column(rows, name).values()
        assert sum(parts) == changes[name], name
    held = table(texts[doc_id], balance)[cash]
    assert held[str(year)] - held[str(year - 1)] == changes[str(year)]


@pytest.mark.parametrize("doc_id", BUSMAR)
def test_the_maturities_of_busmar_add_up_to_the_debt_of_the_balance_sheet(texts, doc_id):
    parts = column(table(texts[doc_id], "Deuda y liquidez"), "Millones de euros")
    total = parts.pop("Total")
    year = ALL[doc_id]
    assert list(parts) == [str(year + 1), str(year + 2), str(year + 3), f"{year + 4} y siguientes"]
    assert sum(parts.values()) == total == table(texts[doc_id], "Balance consolidado")["Deuda financiera"][str(year)]


@pytest.mark.parametrize(
    ("doc_id", "section", "flows", "row"),
    [(doc_id, "Inversiones", "Estado de flujos de efectivo", "Pagos por inversiones") for doc_id in BUSMAR]
    + [(doc_id, "Plantas e inversiones", "Flujos de caja", "Inversiones") for doc_id in LORTEGA],
)
def test_the_investments_by_purpose_add_up_to_those_of_the_cash_flows(texts, doc_id, section, flows, row):
    rows, paid = table(texts[doc_id], section), table(texts[doc_id], flows)[row]
    for name in columns(rows):
        parts = column(rows, name)
        total = parts.pop("Total")
        assert sum(parts.values()) == total == -paid[name.removeprefix("Millones de euros en ")]


@pytest.mark.parametrize("doc_id", LORTEGA)
def test_the_product_lines_of_lortega_add_up_and_the_group_margin_follows(texts, doc_id):
    text, year = texts[doc_id], ALL[doc_id]
    rows, figures = table(text, "Líneas de producto"), table(text, "El ejercicio en cifras")
    for name in (year, year - 1):
        parts = column(rows, f"Cifra de negocios {name} (millones de euros)")
        total = parts.pop("Total Grupo")
        assert sum(parts.values()) == total == figures["Cifra de negocios"][str(name)]
        margin = figures["EBITDA"][str(name)] / total * 100
        assert rows["Total Grupo"][f"Margen EBITDA {name} (%)"] == rounded(margin)


@pytest.mark.parametrize("doc_id", LORTEGA)
def test_the_line_margins_of_lortega_leave_the_cost_of_the_central_services(texts, doc_id):
    rows, year = table(texts[doc_id], "Líneas de producto"), ALL[doc_id]
    revenue, margin = f"Cifra de negocios {year} (millones de euros)", f"Margen EBITDA {year} (%)"
    lines = [row for label, row in rows.items() if label != "Total Grupo"]
    before_central = sum(row[revenue] * row[margin] / 100 for row in lines)
    central = value(re.search(r"servicios centrales \w+ ([\d,]+) millones", texts[doc_id])[1])
    error = sum(row[revenue] for row in lines) * Decimal("0.0005")  # margins are rounded to a tenth of a point
    ebitda = table(texts[doc_id], "El ejercicio en cifras")["EBITDA"][str(year)]
    assert abs(before_central - central - ebitda) <= error


@pytest.mark.parametrize("doc_id", LORTEGA)
def test_the_income_statement_of_lortega_adds_up(texts, doc_id):
    rows = table(texts[doc_id], "Resultados")
    figures = table(texts[doc_id], "El ejercicio en cifras")
    for name in columns(rows):
        ebitda, depreciation, ebit, financial, before_tax, tax, net = column(rows, name).values()
        assert ebit == ebitda + depreciation
        assert before_tax == ebit + financial
        assert net == before_tax + tax
        assert (ebitda, net) == (figures["EBITDA"][name], figures["Beneficio neto"][name])


@pytest.mark.parametrize("doc_id", LORTEGA)
def test_the_balance_sheet_of_lortega_balances(texts, doc_id):
    rows = table(texts[doc_id], "Situación patrimonial")
    for name in columns(rows):
        *parts, total, equity, liabilities = column(rows, name).values()
        assert len(parts) == 4
        assert total == sum(parts) == equity + liabilities


@pytest.mark.parametrize("doc_id", LORTEGA)
def test_the_net_debt_of_lortega_counts_leases_and_deducts_cash(texts, doc_id):
    rows = table(texts[doc_id], "Financiación")
    cash = table(texts[doc_id], "Situación patrimonial")["Tesorería"]
    figures = table(texts[doc_id], "El ejercicio en cifras")
    for name in columns(rows):
        bank, leases, less_cash, net = column(rows, name).values()
        assert net == bank + leases + less_cash == figures["Deuda financiera neta"][name]
        assert less_cash == -cash[name]


@pytest.mark.parametrize("doc_id", LORTEGA)
def test_the_staff_of_lortega_adds_up(texts, doc_id):
    rows = table(texts[doc_id], "Personas")
    for name in columns(rows):
        *parts, total = column(rows, name).values()
        assert sum(parts) == total > 3000


@pytest.mark.parametrize(
    ("doc_id", "section", "flows"),
    [(doc_id, "Accionistas y bolsa", "Estado de flujos de efectivo") for doc_id in BUSMAR]
    + [(doc_id, "Acción y dividendo", "Flujos de caja") for doc_id in LORTEGA],
)
def test_shares_times_price_is_the_market_value_and_last_years_dividend_is_what_was_paid(texts, doc_id, section, flows):
    shares, price, market_value, dividend = table(texts[doc_id], section).values()
    for name in shares:
        assert market_value[name] == rounded(shares[name] * price[name])
    now, before = shares
    [paid] = [row[now] for label, row in table(texts[doc_id], flows).items() if label.startswith("Dividendos")]
    assert paid == -rounded(dividend[before] * shares[before])


@pytest.mark.parametrize(("before", "now"), [*pairwise(BUSMAR), *pairwise(LORTEGA)])
def test_last_years_column_equals_last_years_report(texts, before, now):
    year = str(ALL[before])
    compared = 0
    for section in sections(texts[now]):
        for old, new in zip(tables(texts[before], section), tables(texts[now], section), strict=True):
            for name in columns(new):
                if year in name and any(str(int(year) + 1) in other for other in columns(new)):
                    assert name in columns(old), f"{section}: {name}"
                    for label, amount in column(new, name).items():
                        assert column(old, name).get(label, 0) == amount, f"{section}: {label}, {name}"
                        compared += 1
    assert compared >= 30


@pytest.mark.parametrize("doc_id", ALL)
def test_net_debt_in_the_text_is_the_stated_multiple_of_ebitda(texts, doc_id):
    section = "Principales magnitudes" if doc_id in BUSMAR else "El ejercicio en cifras"
    rows, (now, before) = table(texts[doc_id], section), (str(ALL[doc_id]), str(ALL[doc_id] - 1))
    debt, ebitda = rows["Deuda financiera neta"], rows["EBITDA"]
    paragraph = next(block for block in texts[doc_id].split("\n\n") if re.search("deuda financiera neta[¹³]", block))
    assert f"{written(debt[now])} millones" in paragraph
    assert f"{written(debt[now] / ebitda[now])} veces" in paragraph
    if doc_id == "R02":
        assert "la misma proporción" in paragraph
        assert rounded(debt[now] / ebitda[now]) == rounded(debt[before] / ebitda[before])
    else:
        assert written(debt[before] / ebitda[before]) in paragraph


def test_the_growth_rates_in_the_text_of_busmar_follow_from_the_tables(texts):
    sales = table(texts["R01"], "Principales magnitudes")["Ventas"]
    assert (
        f"{written(sales['2023'])} millones de euros de ventas, un {written(growth(*sales.values()))} % más"
        in (texts["R01"])
    )
    segments = table(texts["R01"], "Información por segmentos")
    rates = {
        label: growth(row["Ventas 2023"], row["Ventas 2022"]) for label, row in segments.items() if "Ventas 2023" in row
    }
    fastest = max(rates, key=rates.__getitem__)
    assert f"{fastest} fue el segmento que más creció, un {written(rates[fastest])} %" in texts["R01"]
    textile, furniture = segments["Textil y decoración"], segments["Mueble"]
    assert textile["EBITDA 2023"] > furniture["EBITDA 2023"]
    margins = [column(table(texts[doc_id], "Información por segmentos"), "Margen (%)") for doc_id in BUSMAR]
    assert all(margins[1][label] > margins[0][label] for label in margins[0])  # "los tres segmentos mejoraron"
    leases = [table(texts[doc_id], "Balance consolidado")["Pasivos por arrendamiento"] for doc_id in BUSMAR]
    for doc_id, row in zip(BUSMAR, leases, strict=True):
        assert f"que ascendían a {written(row[str(ALL[doc_id])])} millones" in texts[doc_id]


def test_what_the_second_report_of_busmar_says_of_2023_is_what_the_first_said(texts):
    online = [re.search(r"(?:facturó|vendimos) ([\d,]+) millones", texts[doc_id])[1] for doc_id in BUSMAR]
    assert f"frente a {online[0]} en 2023" in texts["R02"]
    margins = [value(re.search(r"margen bruto fue del ([\d,]+) %", texts[doc_id])[1]) for doc_id in BUSMAR]
    assert f"{written(margins[1] - margins[0])} puntos porcentuales más que en 2023" in texts["R02"]
    network = r"abrimos (\d+) tiendas y cerramos (\d+)\. La red sumaba (\d+) establecimientos"
    (_, _, stores), (opened, closed, end) = (map(int, re.search(network, texts[doc_id]).groups()) for doc_id in BUSMAR)
    assert stores + opened - closed == end
    assert f"abrir {opened} tiendas" in texts["R01"]
    income = table(texts["R02"], "Cuenta de resultados consolidada")
    before_tax = income["Resultado de explotación"]["2024"] + income["Resultado financiero"]["2024"]
    rate = -income["Impuesto sobre beneficios"]["2024"] / before_tax * 100
    assert f"El tipo efectivo del impuesto quedó en el {written(rate)} %" in texts["R02"]


def test_the_growth_rates_in_the_text_of_lortega_follow_from_the_tables(texts):
    profit = [table(texts[doc_id], "Resultados")["Beneficio neto"] for doc_id in LORTEGA]
    assert f"retrocedió un {written(-growth(*profit[0].values()))} %" in texts["R03"]
    assert f"El beneficio neto crece un {written(growth(*profit[1].values()))} %" in texts["R04"]
    operating = table(texts["R04"], "Resultados")["Resultado operativo"]
    assert f"de {written(operating['2024'] - operating['2023'])} millones de euros" in texts["R04"]
    lines = table(texts["R04"], "Líneas de producto")
    now, before, *_ = lines["Platos preparados"].values()
    assert f"Platos preparados creció un {written(growth(now, before))} %" in texts["R04"]
    total = lines["Total Grupo"]["Cifra de negocios 2024 (millones de euros)"]
    assert now / total > Decimal("0.2")  # "más de una quinta parte del Grupo"
    exports = [
        value(re.search(r"(?:exportaciones sumaron|exteriores aportaron) ([\d,]+) millones", texts[doc_id])[1])
        for doc_id in LORTEGA
    ]
    assert f"un {written(growth(exports[1], exports[0]))} % más" in texts["R04"]


def test_the_parser_keeps_signs_drops_marks_and_would_show_a_wrong_total():
    rows = table("# T\n\n## S\n\n| EUR | 2023 |\n|---|---|\n| x¹ | -1.000,5 |\n| y | - |\n| Total | 1,0 |\n\n## U", "S")
    assert rows == {"x": {"2023": Decimal("-1000.5")}, "y": {}, "Total": {"2023": Decimal("1.0")}}
    parts = column(rows, "2023")
    assert parts.pop("Total") != sum(parts.values())


@pytest.mark.parametrize(
    ("number", "places", "text"), [("1234.55", 1, "1.234,6"), ("0.44", 2, "0,44"), ("2", 1, "2,0")]
)
def test_numbers_are_written_as_the_reports_write_them(number, places, text):
    assert written(Decimal(number), places) == text
