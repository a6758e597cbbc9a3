"""The arithmetic of the research notes R17 to R20, read from what the documents print."""

import re
from decimal import ROUND_HALF_UP, Decimal
from itertools import pairwise
from typing import NamedTuple

import pytest

from ragfin.chunking import FOOTNOTE_MARKS
from ragfin.figures import FIGURE_TOKEN

Table = dict[str, list[str]]  # row label -> cells; the header row stands under its first cell


class Note(NamedTuple):
    """Which report a note starts from, and how it names things."""

    report: str
    shares: Decimal  # millions
    target: str
    price: str
    potential: str
    cap: str
    value: str
    sales: str
    profit: str
    debt: str
    eps: str
    dps: str


NOTES = {
    "R17": Note(
        "R02",
        Decimal("95.0"),
        "Precio objetivo (EUR)",
        "Precio actual (EUR)",
        "Potencial (%)",
        "Capitalización (millones de EUR)",
        "Valor de empresa (millones de EUR)",
        "Ventas",
        "Resultado neto",
        "Deuda financiera neta",
        "BPA",
        "DPA",
    ),
    "R18": Note(
        "R04",
        Decimal("42.5"),
        "Precio objetivo (euros)",
        "Precio actual (euros)",
        "Recorrido hasta el objetivo (%)",
        "Valor en bolsa (millones de euros)",
        "Valor de empresa (millones de euros)",
        "Cifra de negocios",
        "Beneficio neto",
        "Deuda neta",
        "Beneficio por acción",
        "Dividendo por acción",
    ),
    "R19": Note(
        "R06",
        Decimal("142.5"),
        "Precio objetivo, diciembre de 2025",
        "Precio actual",
        "Diferencia (%)",
        "Capitalización (millones)",
        "EV, con deuda neta de 2024 (millones)",
        "Ventas",
        "Beneficio atribuido",
        "Deuda neta",
        "BPA",
        "Dividendo con cargo al año",
    ),
    "R20": Note(
        "R08",
        Decimal("116.9"),
        "Precio objetivo (USD)",
        "Precio actual (USD)",
        "Potencial (%)",
        "Capitalización (millones de USD)",
        "Valor de empresa (millones de USD)",
        "Ingresos",
        "Resultado neto",
        "Deuda financiera neta",
        "BPA",
        "DPA",
    ),
}


def value(cell: str) -> Decimal:
    """Read a number as Spanish writes it."""
    return Decimal(cell.replace(".", "").replace(",", "."))


def rounded(number: Decimal, places: int = 1) -> Decimal:
    return number.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)


def growth(now: Decimal, before: Decimal) -> Decimal:
    return (now / before - 1) * 100


def tables(text: str) -> list[Table]:
    """Return the tables of a document, footnote marks dropped from the labels."""
    found = []
    for block in text.split("\n\n"):
        if block.startswith("|"):
            lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
            found.append({re.sub(f"[{FOOTNOTE_MARKS}]", "", first): rest for first, *rest in lines})
    return found


def table(text: str, *labels: str) -> Table:
    """Return the only table that has all these rows."""
    [only] = [found for found in tables(text) if set(labels) <= set(found)]
    return only


def row(found: Table, label: str) -> list[Decimal]:
    return [value(cell) for cell in found[label]]


def sentence(text: str, start: str) -> list[Decimal]:
    """Return the figures of the text from ``start`` to the end of its paragraph."""
    assert text.count(start) == 1, start
    return [value(token) for token in FIGURE_TOKEN.findall(text[text.index(start) :].partition("\n\n")[0])]


def market(text: str, note: Note) -> Table:
    return table(text, note.target, note.price)


def estimates(text: str, note: Note) -> Table:
    return table(text, note.sales, "EBITDA", note.profit, note.debt)


def per_share(text: str, note: Note) -> Table:
    return table(text, note.eps, note.dps, "PER")


@pytest.mark.parametrize("doc_id", NOTES)
def test_the_potential_is_the_target_over_the_price(texts, doc_id):
    note = NOTES[doc_id]
    rows = market(texts[doc_id], note)
    [target], [price], [potential] = (row(rows, label) for label in (note.target, note.price, note.potential))
    assert potential == rounded(growth(target, price))


@pytest.mark.parametrize("doc_id", NOTES)
def test_capitalisation_is_price_times_shares_and_enterprise_value_adds_the_net_debt(texts, doc_id):
    note = NOTES[doc_id]
    rows = market(texts[doc_id], note)
    [price], [cap], [enterprise] = (row(rows, label) for label in (note.price, note.cap, note.value))
    assert cap == rounded(price * note.shares)
    net_debt = row(estimates(texts[doc_id], note), note.debt)[0]
    assert abs(enterprise - (cap + net_debt)) <= Decimal("0.1")


@pytest.mark.parametrize("doc_id", NOTES)
def test_the_shares_of_a_note_are_those_of_the_annual_report(texts, doc_id):
    note = NOTES[doc_id]
    written = f"{note.shares:.1f}".replace(".", ",")
    assert written in FIGURE_TOKEN.findall(texts[note.report])


@pytest.mark.parametrize("doc_id", NOTES)
def test_the_year_2024_of_a_note_is_the_annual_report(texts, doc_id):
    note = NOTES[doc_id]
    rows = estimates(texts[doc_id], note)
    reported = set(FIGURE_TOKEN.findall(texts[note.report]))
    for label in (note.sales, "EBITDA", note.profit, note.debt):
        assert rows[label][0] in reported, label
    assert per_share(texts[doc_id], note)[note.dps][0] in reported


@pytest.mark.parametrize("doc_id", NOTES)
def test_the_tables_of_a_note_show_2024_and_two_estimated_years(texts, doc_id):
    note = NOTES[doc_id]
    for rows in (estimates(texts[doc_id], note), per_share(texts[doc_id], note)):
        assert next(iter(rows.values())) == ["2024", "2025e", "2026e"]


@pytest.mark.parametrize("doc_id", NOTES)
def test_earnings_per_share_are_profit_over_shares(texts, doc_id):
    note = NOTES[doc_id]
    profits = row(estimates(texts[doc_id], note), note.profit)
    earnings = row(per_share(texts[doc_id], note), note.eps)
    assert earnings == [rounded(profit / note.shares, 2) for profit in profits]


@pytest.mark.parametrize("doc_id", NOTES)
def test_multiples_follow_from_price_and_enterprise_value(texts, doc_id):
    note = NOTES[doc_id]
    rows, head = per_share(texts[doc_id], note), market(texts[doc_id], note)
    [price], [enterprise] = row(head, note.price), row(head, note.value)
    assert row(rows, "PER") == [rounded(price / earnings) for earnings in row(rows, note.eps)]
    ebitda = row(estimates(texts[doc_id], note), "EBITDA")
    assert row(rows, "EV/EBITDA") == [rounded(enterprise / part) for part in ebitda]


@pytest.mark.parametrize("doc_id", ["R17", "R19", "R20"])
def test_margins_are_ebitda_over_sales(texts, doc_id):
    note = NOTES[doc_id]
    rows = estimates(texts[doc_id], note)
    pairs = zip(row(rows, "EBITDA"), row(rows, note.sales), strict=True)
    assert row(rows, "Margen EBITDA (%)") == [rounded(ebitda / sales * 100) for ebitda, sales in pairs]


def test_the_growth_row_of_lortega_follows_from_the_revenue(texts):
    rows = estimates(texts["R18"], NOTES["R18"])
    [revenue, *_] = [found["Cifra de negocios"] for found in tables(texts["R18"]) if "Cifra de negocios" in found]
    now = [value(cell) for cell in revenue]
    assert row(rows, "Variación (%)")[1:] == [rounded(growth(b, a)) for a, b in pairwise(now)]


def test_the_dividend_yield_of_busmar_is_the_dividend_over_the_price(texts):
    rows, head = per_share(texts["R17"], NOTES["R17"]), market(texts["R17"], NOTES["R17"])
    [price] = row(head, "Precio actual (EUR)")
    assert row(rows, "Rentabilidad por dividendo (%)") == [rounded(paid / price * 100) for paid in row(rows, "DPA")]


@pytest.mark.parametrize(("doc_id", "wacc"), [("R17", "El WACC que empleamos"), ("R20", "con un WACC")])
def test_the_printed_flows_discount_to_the_printed_value_per_share(texts, doc_id, wacc):
    note = NOTES[doc_id]
    rows = table(texts[doc_id], "Flujo de caja libre", "Flujo descontado")
    flows, discounted = row(rows, "Flujo de caja libre"), row(rows, "Flujo descontado")
    rate, g = (part / 100 for part in sentence(texts[doc_id], wacc)[:2])
    assert discounted == [rounded(flow / (1 + rate) ** year) for year, flow in enumerate(flows, 1)]
    terminal = rounded(flows[-1] * (1 + g) / (rate - g) / (1 + rate) ** 5)
    net_debt = row(estimates(texts[doc_id], note), note.debt)[0]
    a_share = rounded((sum(discounted) + terminal - net_debt) / note.shares, 2)
    printed = sentence(texts[doc_id], "os cinco flujos suman" if doc_id == "R17" else "los flujos suman")
    assert {sum(discounted), terminal, a_share} <= set(printed)


def test_the_terminal_value_of_busmar_is_the_printed_share_of_the_total(texts):
    explicit, terminal, share = sentence(texts["R17"], "Los cinco flujos suman")[:3]
    equity, a_share, target = sentence(texts["R17"], "quedan ")
    assert share == rounded(terminal / (explicit + terminal) * 100)
    assert equity == explicit + terminal - row(estimates(texts["R17"], NOTES["R17"]), "Deuda financiera neta")[0]
    assert a_share == rounded(equity / NOTES["R17"].shares, 2)
    assert [target] == row(market(texts["R17"], NOTES["R17"]), "Precio objetivo (EUR)")


def test_the_bridge_of_lortega_adds_up_to_the_value_per_share(texts):
    rows = table(texts["R18"], "Valor de los fondos propios")
    explicit, terminal, enterprise, debt, equity = (row(rows, label)[0] for label in list(rows)[2:])
    assert enterprise == explicit + terminal
    assert equity == enterprise + debt
    assert -debt == row(estimates(texts["R18"], NOTES["R18"]), "Deuda neta")[0]
    shares, a_share, target = sentence(texts["R18"], "Entre 42,5 millones de acciones")[:3]
    assert a_share == rounded(equity / shares, 2)
    assert [target] == row(market(texts["R18"], NOTES["R18"]), "Precio objetivo (euros)")


def test_the_bridge_of_povdo_adds_up_to_the_value_per_share(texts):
    rows = table(texts["R19"], "Valor por acción (USD)")
    explicit, terminal, debt, minorities, a_share = (row(rows, label)[0] for label in list(rows)[2:])
    assert a_share == rounded((explicit + terminal + debt + minorities) / NOTES["R19"].shares, 2)
    assert -debt == row(estimates(texts["R19"], NOTES["R19"]), "Deuda neta")[0]


def test_the_segments_of_povdo_add_up_to_its_estimates_of_2025(texts):
    note = NOTES["R19"]
    rows = table(texts["R19"], "Internacional")
    parts = [row(rows, label) for label in list(rows)[2:]]
    [sales, ebitda] = [row(estimates(texts["R19"], note), label)[1] for label in ("Ventas", "EBITDA")]
    assert sum(part for part, _ in parts) == sales
    [central] = sentence(texts["R19"], "que estimamos en")
    assert rounded(sum(part * margin / 100 for part, margin in parts) - central) == ebitda


def test_the_net_asset_value_of_zaptec_adds_up(texts):
    rows = table(texts["R20"], "Valor liquidativo")
    gross, debt, nav, a_share, discounted = (row(rows, label)[0] for label in list(rows)[2:])
    assert nav == gross + debt
    assert -debt == row(estimates(texts["R20"], NOTES["R20"]), "Deuda financiera neta")[1]
    assert a_share == rounded(nav / NOTES["R20"].shares, 2)
    discount, mean, target = sentence(texts["R20"], "Le aplicamos un descuento")
    assert discounted == rounded(a_share * (1 - discount / 100), 2)
    by_flows = sentence(texts["R20"], "resultan ")[0]
    assert abs(mean - (by_flows + discounted) / 2) <= Decimal("0.005")
    assert [target] == row(market(texts["R20"], NOTES["R20"]), "Precio objetivo (USD)")


@pytest.mark.parametrize("doc_id", NOTES)
def test_the_target_is_the_valuation_rounded_to_half_a_unit(texts, doc_id):
    note = NOTES[doc_id]
    [target] = row(market(texts[doc_id], note), note.target)
    valuation = {
        "R17": lambda text: sentence(text, "millones para el accionista")[0],
        "R18": lambda text: sentence(text, "Entre 42,5 millones de acciones")[1],
        "R19": lambda text: row(table(text, "Valor por acción (USD)"), "Valor por acción (USD)")[0],
        "R20": lambda text: sentence(text, "La media de ambos")[0],
    }[doc_id](texts[doc_id])
    assert target % Decimal("0.5") == 0
    assert abs(target - valuation) <= Decimal("0.25")


@pytest.mark.parametrize("doc_id", NOTES)
def test_the_mean_of_the_peers_is_theirs_and_the_issuer_has_its_own_multiples(texts, doc_id):
    note = NOTES[doc_id]
    rows = [found for found in tables(texts[doc_id]) if next(iter(found.values())) == ["PER", "EV/EBITDA"]]
    [peers] = rows
    named = {label: row(peers, label) for label in list(peers)[2:]}
    [mean] = [named[label] for label in named if label.startswith("Media")]
    others = [
        cells
        for label, cells in named.items()
        if not label.startswith(("Media", "Busmar", "Lortega", "Povdo", "Zaptec"))
    ]
    assert len(others) == 3
    assert mean == [rounded(sum(column) / 3) for column in zip(*others, strict=True)]
    own = [cells for label, cells in named.items() if label.startswith(("Busmar", "Lortega", "Povdo", "Zaptec"))]
    multiples = per_share(texts[doc_id], note)
    assert own in ([], [[row(multiples, "PER")[1], row(multiples, "EV/EBITDA")[1]]])


@pytest.mark.parametrize(
    ("doc_id", "start"), [("R17", "El descuento en PER"), ("R19", "con una prima"), ("R20", "El descuento en PER")]
)
def test_the_discount_or_premium_is_that_of_the_printed_multiples(texts, doc_id, start):
    [peers] = [found for found in tables(texts[doc_id]) if next(iter(found.values())) == ["PER", "EV/EBITDA"]]
    mean = row(peers, "Media")[0]
    own = row(per_share(texts[doc_id], NOTES[doc_id]), "PER")[1]
    assert sentence(texts[doc_id], start)[0] == rounded(abs(growth(own, mean)))


def test_the_notes_dare_to_differ_from_the_companies_plans(texts):
    for doc_id, start in {"R17": "Creemos que Busmar Hogar invertirá", "R18": "Prevemos que Lortega"}.items():
        figures = [figure for figure in sentence(texts[doc_id], start) if figure != 2025]
        own, planned = figures[:2]
        assert own != planned
        assert f"{planned}".replace(".", ",") in FIGURE_TOKEN.findall(texts[NOTES[doc_id].report])


def test_growth_rates_in_prose_follow_from_the_reported_figures(texts):
    pairs = {
        ("R17", "vendió un"): ("2.441,3", "2.318,9"),
        ("R17", "Las existencias subieron un"): ("446,3", "421,9"),
        ("R19", "millones de USD (+"): ("676,2", "624,3"),
        ("R20", "no las incluye, creció un"): ("387,2", "354,9"),
    }
    for (doc_id, start), (now, before) in pairs.items():
        reported = FIGURE_TOKEN.findall(texts[NOTES[doc_id].report])
        assert {now, before} <= set(reported), start
        assert sentence(texts[doc_id], start)[0] == rounded(growth(value(now), value(before))), start


def test_the_orders_of_povdo_stand_in_the_printed_relation_to_sales(texts):
    orders, relation = sentence(texts["R19"], "pedidos por ")[:2]
    assert relation == rounded(orders / row(estimates(texts["R19"], NOTES["R19"]), "Ventas")[0], 2)
