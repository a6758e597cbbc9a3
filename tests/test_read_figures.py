"""The typed reader: kinds of notation, round trips, spans, totality, linear time."""

import json
from datetime import date
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ragfin.figures import Figure, read_figures, same_figure

CASES = json.loads((Path(__file__).parent / "cases" / "figures_typed.json").read_text(encoding="utf-8"))

OURS = {
    # plain Spanish notation
    "Ventas de 1.234.567,89 euros": "1234567.89 EUR",
    "Ventas de 13.668,9 millones de USD": "13668900000 USD",
    "Plantilla: 5.505 empleados": "5505",
    "BPA de 0,35 €": "0.35 EUR",
    "12,5": "12.5",
    "Ratio 1234,5": "1234.5",
    "0,1 y 0,25": "0.1; 0.25",
    "€ 1.234,50": "1234.50 EUR",
    "1.234,50€": "1234.50 EUR",
    "precio objetivo de 14,20 €/acción": "14.20 EUR",
    "200 dólares": "200 USD",
    "$ 1.500": "1500 USD",
    "US$ 3,5": "3.5 USD",
    "3,5 US$": "3.5 USD",
    "500 libras esterlinas": "500 GBP",
    "£250": "250 GBP",
    "GBP 12,5": "12.5 GBP",
    "12 £": "12 GBP",
    "900 francos suizos": "900 CHF",
    "12,5 CHF": "12.5 CHF",
    "25 céntimos": "0.25 EUR",
    "1.000 dólares estadounidenses": "1000 USD",
    "$.75": "0.75 USD",
    # one separator and three digits, and what overrides Spanish
    "El total es 12.345": "12345",
    "tipo de 1,234": "1.234",
    "0,125": "0.125",
    "0.5": "0.5",
    "12.50": "12.50",
    "Índice 12.5": "12.5",
    "1234.567": "1234.567",
    "1.2345": "1.2345",
    "1,234,567": "1234567",
    "1.234.567": "1234567",
    "1,234.56": "1234.56",
    "EUR 1,234.5": "1234.5 EUR",
    "NAV of 1,234,567.8": "1234567.8",
    # spaces
    "1 234 567,89 €": "1234567.89 EUR",
    "1\u2009234\u2009567,89\u2009€": "1234567.89 EUR",
    "1\u00a0234,5 %": "1234.5 %",
    "10 000 EUR": "10000 EUR",
    "12 345 €": "12345 EUR",
    "inversión de 10 000": "10000",
    "en 2023 100 empleados": "2023 año; 100",
    "2023 2022": "2023 año; 2022 año",
    "Ventas | 123 | 456": "123; 456",
    "10\u202f000,50": "10000.50",
    "2\u00a0500 acciones": "2500",
    "12,5\u202f%": "12.5 %",
    "1 234 567": "1234567",
    "12 345 acciones": "12345",
    "de 1 234": "1; 234",
    "Ventas 345 312": "345; 312",
    "1.250 980 270": "1250; 980; 270",
    # apostrophes
    "1´234´567": "1234567",
    "12'5 %": "12.5 %",
    "3’5 millones de euros": "3500000 EUR",
    "1’234’567.50 CHF": "1234567.50 CHF",
    "CHF 10'000": "10000 CHF",
    "1'234,5": "1234.5",
    # negative
    "−0,5 p.p.": "-0.5 pp",
    "-3,2 %": "-3.2 %",
    "variación: –3,2 %": "-3.2 %",
    "Resultado (1.234)": "-1234",
    "| Resultado | (12) |": "-12",
    "| Flujo | -869,8 |": "-869.8",
    "(1.234,5) miles de euros": "-1234500 EUR",
    "€(1.234)": "-1234 EUR",
    "EUR (12)": "-12 EUR",
    "-€5": "-5 EUR",
    "−5 €": "-5 EUR",
    "€-5": "-5 EUR",
    "5.000-": "-5000",
    "Saldo 1.234,00- EUR": "-1234.00 EUR",
    "12,5-": "-12.5",
    "12,5 %-": "-12.5 %",
    "(-5 %)": "-5 %",
    "(−3,2)": "-3.2",
    "+5 %": "5 %",
    "= -1,047 millones de USD": "-1047000 USD",
    "−1.234,56": "-1234.56",
    "cayó (3,1%)": "-3.1 %",
    "(1.234) €": "-1234 EUR",
    "(12,5)%": "-12.5 %",
    "pérdida de (3,2) millones de euros": "-3200000 EUR",
    "Pérdidas (45) millones": "-45000000",
    "Saldo 1.234,00- 5.678,00-": "-1234.00; -5678.00",
    "5\n-3": "5; -3",
    "| 5,1 % | -3,2 % |": "5.1 %; -3.2 %",
    "Variación 2023 (12,5 %)": "2023 año; -12.5 %",
    # not negative
    "10.530 (5,3 %)": "10530; 5.3 %",
    "10.530 EUR (5,3 %) | 9.470 EUR (-5,3 %)": "10530 EUR; 5.3 %; 9470 EUR; -5.3 %",
    "CHF 100.-": "100 CHF",
    "margen—12,5 %": "12.5 %",
    "(2023)": "2023 año",
    "dividendo(1) de 0,35 €": "0.35 EUR",
    "Ventas (1) 1.234": "1234",
    "Existencias (12)": "",
    "Ventas (1) (2) 1.234": "1234",
    "Ventas¹ (2) 1.234": "1234",
    "total (3,2 veces)": "3.2 x",
    "un total (1.234 €)": "1234 EUR",
    "(2.900 empleados)": "2900",
    "1T 2024 - Informe": "2024-Q1 periodo",
    "2023- informe": "2023 año",
    "(12,5 % en 2023)": "12.5 %; 2023 año",
    "869,8 -181,2": "869.8; 181.2",
    "(1) Incluye arrendamientos": "",
    "12,5 % (3)": "12.5 %",
    "12,5(3)": "12.5",
    "(1899) y (1900)": "-1899; 1900 año",
    "(+5,2 %)": "5.2 %",
    # footnote marks
    "12,5²": "12.5",
    "Ventas³ 1.234": "1234",
    "1.234¹ €": "1234 EUR",
    "1.234,5⁽²⁾ millones": "1234500000",
    "1,01 millones⁵": "1010000",
    "emisiones de CO₂": "",
    "879,1 [1].": "879.1",
    "[1][2]": "",
    # scale
    "1,2 billones de euros": "1200000000000 EUR",
    "USD 1,5 bn": "1500000000 USD",
    "$1.5bn": "1500000000 USD",
    "$1.5B": "1500000000 USD",
    "£3.2m": "3200000 GBP",
    "5 k€": "5000 EUR",
    "1.2B USD": "1200000000 USD",
    "¥100": "100 JPY",
    "3 ó 5 %": "3 %; 5 %",
    "12 K€": "12000 EUR",
    "5,5 M€": "5500000 EUR",
    "5,5M€": "5500000 EUR",
    "5 MM€": "5000000 EUR",
    "12 mill. de euros": "12000000 EUR",
    "12 mill. €": "12000000 EUR",
    "12 Mn EUR": "12000000 EUR",
    "12 mn€": "12000000 EUR",
    "3 Mio. EUR": "3000000 EUR",
    "2 millardos de euros": "2000000000 EUR",
    "un coste de 1 millardo": "1000000000",
    "3 miles de millones de dólares": "3000000000 USD",
    "2 billion dollars": "2000000000 USD",
    "2 trillion": "2000000000000",
    "1 billón": "1000000000000",
    "5 mil euros": "5000 EUR",
    "25 millones de acciones": "25000000",
    "2 millones y medio de euros": "2500000 EUR",
    "1.472,9 millones de USD": "1472900000 USD",
    "EUR 5 million": "5000000 EUR",
    "US$ 3,2 millones": "3200000 USD",
    "12 MUSD": "12000000 USD",
    "300 KEUR": "300000 EUR",
    "1 MILLÓN DE EUROS": "1000000 EUR",
    "2,5\nmillones de euros": "2500000 EUR",
    "2,5 millones de €": "2500000 EUR",
    "4,5 mil M€": "4500000000 EUR",
    "3 mil mill. de euros": "3000000000 EUR",
    "M€ 12,3": "12300000 EUR",
    "k€ 500": "500000 EUR",
    "MUSD 12,5": "12500000 USD",
    "mM€ 1,2": "1200000000 EUR",
    "M€ -5": "-5000000 EUR",
    "Importes en M€ 2023 2022": "2023 año; 2022 año",
    "20 millones de libras": "20000000 GBP",
    "**12,5** millones": "12500000",
    "12,0 mil millones": "12000000000",
    # per cent, points
    "5 por ciento": "5 %",
    "5 por 100": "5 %",
    "5 percent": "5 %",
    "1,2 p.p.": "1.2 pp",
    "1,2 pp": "1.2 pp",
    "1,2 puntos porcentuales": "1.2 pp",
    "un punto porcentual": "1 pp",
    "150 pb": "150 pb",
    "150 p.b.": "150 pb",
    "150 bps": "150 pb",
    "75 puntos base": "75 pb",
    "40.3%": "40.3 %",
    "TER 0,20 % anual": "0.20 %",
    "2 ‰": "0.2 %",
    "100 %": "100 %",
    # ranges
    "entre 3 y 5 millones": "3000000; 5000000",
    "entre 3 y 5 millones de euros": "3000000 EUR; 5000000 EUR",
    "del 1,5 % al 2,5 %": "1.5 %; 2.5 %",
    "del 3 al 5 %": "3 %; 5 %",
    "entre el 3 y el 5 %": "3 %; 5 %",
    "3 % - 5 %": "3 %; 5 %",
    "3–5 %": "3 %; 5 %",
    "3 – 5 %": "3 %; 5 %",
    "3 - 5 %": "3 %; 5 %",
    "10-12 M€": "10000000 EUR; 12000000 EUR",
    "€3-5bn": "3000000000 EUR; 5000000000 EUR",
    "de 2,9x a 3,2 veces": "2.9 x; 3.2 x",
    "de 2,9 a 3,2 veces": "2.9 x; 3.2 x",
    "-3-5 %": "-3 %; 5 %",
    "−3 % – −1 %": "-3 %; -1 %",
    "de 900.000 a 1,2 millones de euros": "900000 EUR; 1200000 EUR",
    "from 3 to 5 million": "3000000; 5000000",
    "25-50 pb": "25 pb; 50 pb",
    "1.000-2.000 euros": "1000 EUR; 2000 EUR",
    "2000-2500 euros": "2000 EUR; 2500 EUR",
    "ascendieron a 3,2 y 4,1 millones de euros": "3200000 EUR; 4100000 EUR",
    "5, 10 y 15 %": "5 %; 10 %; 15 %",
    "de 2022 a 2023": "2022 año; 2023 año",
    "entre 2022 y 2023": "2022 año; 2023 año",
    "en 2022 y 5 millones": "2022 año; 5000000",
    "4,25%-4,50%": "4.25 %; 4.50 %",
    "5,25-5,50 %": "5.25 %; 5.50 %",
    "entre -1 % y 2 %": "-1 %; 2 %",
    "entre 1.000 y 2.000 millones": "1000000000; 2000000000",
    "bajó de 12 a -3 %": "12 %; -3 %",
    "riesgo 4 de 7 y un TER de 0,20 %": "4; 7; 0.20 %",
    "1,5-2,0x": "1.5 x; 2.0 x",
    "3 % - 5 millones": "3 %; 5000000",
    "de un 5 % a 3 millones": "5 %; 3000000",
    "Ejercicio 2023 - 5 millones": "2023 año; 5000000",
    "EUR 3 - 5 millones": "3000000 EUR; 5000000 EUR",
    "€10-15m": "10000000 EUR; 15000000 EUR",
    "€10m-€15m": "10000000 EUR; 15000000 EUR",
    "$5-$10": "5 USD; 10 USD",
    "M€ 10-15": "10000000 EUR; 15000000 EUR",
    "€10 - 15 km": "10 EUR; 15 EUR",
    # dates and periods
    "31/12/2023": "2023-12-31 fecha",
    "31-12-2023": "2023-12-31 fecha",
    "31/12/23": "2023-12-31 fecha",
    "31.12.23": "2023-12-31 fecha",
    "2023-12-31": "2023-12-31 fecha",
    "2023/12/31": "2023-12-31 fecha",
    "1 de enero de 2024": "2024-01-01 fecha",
    "a 31 de diciembre de 2023,": "2023-12-31 fecha",
    "1.º de marzo de 2024": "2024-03-01 fecha",
    "31 diciembre 2023": "2023-12-31 fecha",
    "31-dic-2023": "2023-12-31 fecha",
    "31 dic. 2023": "2023-12-31 fecha",
    "31 de diciembre del 2023": "2023-12-31 fecha",
    "31 de diciembre de 2.023": "2023-12-31 fecha",
    "31 de diciembre de 2.023,5": "--12-31 fecha; 2023.5",
    "01/01/2024-31/12/2024": "2024-01-01 fecha; 2024-12-31 fecha",
    "31.12.2023-31.12.2024": "2023-12-31 fecha; 2024-12-31 fecha",
    "1T23-2T23": "2023-Q1 periodo; 2023-Q2 periodo",
    "31 de DICIEMBRE de 2023": "2023-12-31 fecha",
    "December 31, 2023": "2023-12-31 fecha",
    "31 December 2023": "2023-12-31 fecha",
    "a 30 de junio": "--06-30 fecha",
    "31 de diciembre de 2023 y 2022": "2023-12-31 fecha; 2022 año",
    "31/02/2023": "",
    "2022-2023": "2022-2023 periodo",
    "2022–2023": "2022-2023 periodo",
    "2019-2023": "2019-2023 periodo",
    "2022/2023": "2022-2023 periodo",
    "2023/24": "2023-2024 periodo",
    "1999-00": "1999-2000 periodo",
    "1T 2024": "2024-Q1 periodo",
    "3T23": "2023-Q3 periodo",
    "3T2023": "2023-Q3 periodo",
    "T3 2023": "2023-Q3 periodo",
    "Q1 2024": "2024-Q1 periodo",
    "1Q24": "2024-Q1 periodo",
    "4T'23": "2023-Q4 periodo",
    "1S 2024": "2024-S1 periodo",
    "1S24": "2024-S1 periodo",
    "H1 2024": "2024-S1 periodo",
    "9M 2024": "2024-9M periodo",
    "9M24": "2024-9M periodo",
    "FY2023": "2023 periodo",
    "FY23": "2023 periodo",
    "FY 2023/24": "2023-2024 periodo",
    "FY2023-2024": "2023-2024 periodo",
    "1T/2024": "2024-Q1 periodo",
    "diciembre de 2023": "2023-12 periodo",
    "dic-23": "2023-12 periodo",
    "06/2023": "2023-06 periodo",
    "primer semestre de 2024": "2024-S1 periodo",
    "3.er trimestre de 2023": "2023-Q3 periodo",
    "en 2023": "2023 año",
    "2024e": "2024 año",
    "2025E y 2026E": "2025 año; 2026 año",
    "2.023": "2023",
    "2000 empleados": "2000",
    "2023 euros": "2023 EUR",
    "2024-Q1": "2024-Q1 periodo",
    "en 2023 $ 500 millones": "2023 año; 500000000 USD",
    "en 2023\n€ 5": "2023 año; 5 EUR",
    "EUR/USD 1,0850": "1.0850",
    "2023-12": "2023-12 periodo",
    "2009-10": "2009-2010 periodo",
    "segundo trimestre de 2024": "2024-Q2 periodo",
    # identifiers
    "EURO STOXX Select Dividend 30": "",
    "el IBEX subió 30 puntos": "30",
    "3.2 Riesgos de mercado": "",
    "LEI 5493001KJTIIGC8Y1R12": "",
    "LEI: 959800TC8LFJ3YM0ZK95": "",
    "CIF A28000727": "",
    "NIF A-28.000.727": "",
    "NIF 12345678Z": "",
    "con CIF B-12345678": "",
    "DNI 12345678-Z": "",
    "ES0105066007": "",
    "ISIN: LU0274208692 (clase A)": "",
    "IBAN ES91 2100 0418 4502 0005 1332": "",
    "NASDAQ-100 y Nasdaq 100": "",
    "STOXX Europe 600": "",
    "FTSE 100, CAC 40, DAX 40, Nikkei 225": "",
    "el IBEX-35 subió un 1,2 %": "1.2 %",
    "S&P 500 cerró en 5.000 puntos": "5000",
    "Bonos Gobierno Euro 3-7 UCITS ETF": "",
    "COVID-19": "",
    "G-20 y Form 10-K": "",
    "R05-p025": "",
    "red 5G": "",
    "Euríbor 3M": "",
    "a las 10:30 h": "",
    "https://example.com/2023/05": "",
    # references
    "NIIF 16": "",
    "NIC 36 y NIIF 9": "",
    "NIIF 9 y 16": "",
    "IFRS 16": "",
    "artículo 5": "",
    "art. 5.1": "",
    "artículos 5 a 7": "",
    "nota 3": "",
    "Nota 12(a)": "",
    "notas 3, 4 y 5": "",
    "(véase nota 3)": "",
    "(nota 3.2)": "",
    "pág. 12": "",
    "págs. 12-15": "",
    "p. 12": "",
    "página 12 de 45.": "",
    "apartado 3.2": "",
    "sección 4": "",
    "§ 3.2 y §§ 3-5": "",
    "fig. 3": "",
    "Reglamento (UE) 2017/653": "",
    "Reglamento (UE) n.º 575/2013": "",
    "Directiva 2014/65/UE": "",
    "Ley 22/2015": "",
    "Real Decreto-ley 7/2021": "",
    "Circular 4/2017": "",
    "ISO 14001": "",
    "alcance 2": "",
    "alcances 1, 2 y 3": "",
    "nivel 3": "",
    "tabla 2: 1.234 €": "1234 EUR",
    "según la nota 5, 120 empleados": "120",
    "nota 5: 3 millones": "3000000",
    "n.º 15": "",
    "versión 2.0": "",
    # ordinals
    "1.er semestre": "",
    "2º y 3ª": "",
    "1.ª y 2.ª": "",
    "3rd and 4th": "",
    "el 5.º año": "",
    # multiples
    "1,5 veces": "1.5 x",
    "8,5×": "8.5 x",
    "PER de 12 x": "12 x",
    "EV/EBITDA 7,2x": "7.2 x",
    "10 x 20": "10; 20",
    # words
    "cinco millones de euros": "5000000 EUR",
    "tres mil millones de dólares": "3000000000 USD",
    "medio millón de euros": "500000 EUR",
    "un cinco por ciento": "5 %",
    "veinte puntos básicos": "20 pb",
    "treinta y cinco por ciento": "35 %",
    "mil euros": "1000 EUR",
    "veinticinco millones": "25000000",
    "veintiún por ciento": "21 %",
    "dos veces al año": "",
    "en miles de euros": "",
    # boundaries
    "El total fue 10.": "10",
    "12,5.": "12.5",
    "¿1.234?": "1234",
    "3, 4": "3; 4",
    "12,5, 13,5": "12.5; 13.5",
    "1,2,3": "1; 2; 3",
    "«1.234»": "1234",
    "1.234;": "1234",
    "6.3.2": "",
    "1. Introducción": "",
    "## 3.2 Riesgos": "",
    "5€.": "5 EUR",
    "total:1.234": "1234",
    "12,5%.": "12.5 %",
    "riesgo 4 de 7": "4; 7",
    "en 2023.": "2023 año",
    "en 2023, 1.234": "2023 año; 1234",
    "": "",
    "sin cifras": "",
    # full width and other digits
    "１．２３４，５６": "1234.56",
    "２０２３": "2023 año",
    "１２％": "12 %",
    "（１２，５％）": "-12.5 %",
    "١٢": "12",
    # areas and measures
    "10 m2": "10 m2",
    "1.200 m²": "1200 m2",
    "350 metros cuadrados": "350 m2",
    "12.500 tCO₂e": "12500",
    "100 MW": "100",
    "100MW": "100",
    "10 años": "10",
    "25 °C": "25",
}

ENGLISH = {
    "1,234": "1234",
    "1.234": "1.234",
    "12,5 %": "12.5 %",
    "1.234.567,89": "1234567.89",
    "1,234.56": "1234.56",
    "0,125": "0.125",
    "Revenue of $1,234.5 million": "1234500000 USD",
    "EUR 2bn": "2000000000 EUR",
    "12/31/2023": "2023-12-31 fecha",
    "05/06/2023": "2023-05-06 fecha",
    "a 25 basis points rise": "25 pb",
    "net loss of (1,234)": "-1234",
    "between 3 and 5 million euros": "3000000 EUR; 5000000 EUR",
    "IFRS 16, note 5, page 12": "",
}


def spelled(figures: list[Figure]) -> str:
    return "; ".join(f"{figure.value} {figure.unit}".strip() for figure in figures)


def wanted(case: dict) -> list[tuple[Decimal | str, str]]:
    return [
        (e["value"] if e["unit"] in {"fecha", "periodo"} else Decimal(e["value"]), e["unit"]) for e in case["expected"]
    ]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_the_published_strings_are_read(case: dict) -> None:
    assert [(f.value, f.unit) for f in read_figures(case["input"])] == wanted(case)


@pytest.mark.parametrize(("text", "expected"), OURS.items())
def test_our_strings_of_the_same_kinds_are_read(text: str, expected: str) -> None:
    assert spelled(read_figures(text)) == expected


@pytest.mark.parametrize(("text", "expected"), ENGLISH.items())
def test_english_documents_are_read(text: str, expected: str) -> None:
    assert spelled(read_figures(text, locale="en")) == expected


def test_a_token_with_two_readings_keeps_the_other() -> None:
    for text, value, other in [("1.234", 1234, "1.234"), ("1,234", "1.234", 1234), ("(1.234)", -1234, "-1.234")]:
        (figure,) = read_figures(text)
        assert (figure.value, figure.ambiguous, figure.other) == (Decimal(value), True, Decimal(other))
    (scaled,) = read_figures("1.234 millones")
    assert scaled.other == Decimal("1234000")
    (lower,) = read_figures("5 m€")
    assert (lower.value, lower.other) == (5_000_000, 5_000)


@pytest.mark.parametrize("text", ["1.234,5", "0,125", "1.234.567", "12,5", "1234", "1 234 567,00", "1234.567", "2023"])
def test_a_token_with_one_reading_is_not_ambiguous(text: str) -> None:
    (figure,) = read_figures(text)
    assert (figure.ambiguous, figure.other) == (False, None)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("𝄞 e\u0301 −3,2 millones", ["3,2"]),
        ("a\r\nb 1.234,5 €", ["1.234,5"]),
        ("del 3-5 % en 2023", ["3", "5", "2023"]),
        ("１２，５ ％", ["１２，５"]),
        ("CHF 1'234'567.50", ["1'234'567.50"]),
        ("a 31 de diciembre de 2023,", ["31 de diciembre de 2023"]),
        ("dos millones y medio", ["dos"]),
        ("1,2,3", ["1", "2", "3"]),
    ],
)
def test_a_span_is_the_token_in_the_original_text(text: str, tokens: list[str]) -> None:
    assert [text[start:end] for start, end in (figure.span for figure in read_figures(text))] == tokens


def test_an_unknown_locale_is_refused_with_the_repair() -> None:
    with pytest.raises(ValueError, match="locale 'fr' is not one of the notations read: use 'es' or 'en'"):
        read_figures("1", locale="fr")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("7 pb", "0,07 %", True),
        ("7 pb", "0,07 p.p.", True),
        ("1,2 p.p.", "1,2 %", False),
        ("12 %", "0,12", False),
        ("12,5 %", "12,50%", True),
        ("2,5 millones de euros", "2.500.000 €", True),
        ("2,5 millones de euros", "2.500.000", True),
        ("2,5 millones de euros", "2.500.000 USD", False),
        ("5 x", "5 veces", True),
        ("5 x", "5", False),
        ("-5 %", "5 %", False),
        ("31/12/2023", "31 de diciembre de 2023", True),
        ("31/12/2023", "30/12/2023", False),
        ("2022-2023", "2022/23", True),
        ("FY2023", "2023", True),
        ("2023", "2.023", False),
        ("10 m2", "10 m²", True),
    ],
)
def test_figures_are_the_same_by_value_and_unit_class(one: str, two: str, same: bool) -> None:
    (a,), (b,) = read_figures(one), read_figures(two)
    assert same_figure(a, b) is same_figure(b, a) is same


VALUES = st.builds(
    lambda whole, places: Decimal(whole).scaleb(-places), st.integers(0, 10**14), st.sampled_from([0, 1, 2, 4])
)
GROUPED = {
    "es": (".", ","),
    "en": (",", "."),
    "hard space": ("\u00a0", ","),
    "thin space": ("\u2009", ","),
    "narrow space": ("\u202f", ","),
    "Swiss": ("'", "."),
    "Swiss typographic": ("’", "."),
    "bare": ("", ","),
}
SIGNED = {"{}": 1, "-{}": -1, "−{}": -1, "–{}": -1, "({})": -1, "{}-": -1, "+{}": 1}
UNITS = {"{}": "", "{} €": "EUR", "{}%": "%", "{} %": "%", "{} p.p.": "pp", "{} pb": "pb", "{}x": "x", "{} m²": "m2",
         "CHF {}": "CHF", "£{}": "GBP", "US$ {}": "USD", "{} euros": "EUR"}  # fmt: skip
SCALED = {"{} mil millones de euros": 9, "{} M€": 6, "{} millones de euros": 6, "{} miles de euros": 3, "{} k€": 3,
          "EUR {} billion": 9, "{} billones de euros": 12, "{} MM EUR": 6, "{} mill. de euros": 6}  # fmt: skip


def written(value: Decimal, style: str) -> str:
    group, decimal = GROUPED[style]
    return f"{value:,f}".replace(",", "g").replace(".", decimal).replace("g", group)


def ends_like_words(text: str) -> str:
    return f"Así, {text} es el dato."


@given(VALUES, st.sampled_from(sorted(GROUPED)), st.sampled_from(sorted(SIGNED)), st.sampled_from(sorted(UNITS)))
def test_a_value_is_read_back_in_every_style_sign_and_unit(value: Decimal, style: str, sign: str, unit: str) -> None:
    number = written(value, style)
    assume(not (sign == "{}-" and unit == "{}x"))  # no minus between digits and a letter
    assume(not (UNITS[unit] == "" and number.isdigit() and 1900 <= value <= 2100))  # a year
    signed = unit.format(sign.format(number))
    (figure,) = read_figures(ends_like_words(signed), locale="en" if style == "en" else "es")
    assert (figure.value, figure.unit) == (SIGNED[sign] * value, UNITS[unit])
    start, end = figure.span
    assert ends_like_words(signed)[start:end] == number


@given(VALUES, st.sampled_from(sorted(GROUPED)), st.sampled_from(sorted(SCALED)))
def test_a_value_is_read_back_with_its_scale(value: Decimal, style: str, scale: str) -> None:
    (figure,) = read_figures(scale.format(written(value, style)), locale="en" if style == "en" else "es")
    assert (figure.value, figure.unit) == (value.scaleb(SCALED[scale]), "EUR")


@given(VALUES, VALUES, st.sampled_from(["{}-{} %", "{} – {} %", "entre {} y {} %", "del {} al {} %", "{} % - {} %"]))
def test_a_range_is_read_back_with_its_unit(low: Decimal, high: Decimal, form: str) -> None:
    both = read_figures(form.format(written(low, "es"), written(high, "es")))
    assert [(f.value, f.unit) for f in both] == [(low, "%"), (high, "%")]


@given(
    st.dates(date(1900, 1, 1), date(2099, 12, 31)),
    st.sampled_from(["%d/%m/%Y", "%d-%m-%Y", "%d.%m.%Y", "%Y-%m-%d", "{d} de {m} de {y}"]),
)
def test_a_date_is_read_back(day: date, form: str) -> None:
    text = spelled_date(day) if "{" in form else day.strftime(form)
    assert [(f.value, f.unit, f.span) for f in read_figures(text)] == [(day.isoformat(), "fecha", (0, len(text)))]


def spelled_date(day: date) -> str:
    months = "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre".split()
    return f"{day.day} de {months[day.month - 1]} de {day.year}"


@given(st.one_of(st.text(max_size=200), st.text(alphabet="0123456789.,-−() %€kMx²º/[]'\u00a0\ne", max_size=80)))
def test_no_text_raises_and_spans_are_ordered(text: str) -> None:
    for locale in ("es", "en"):
        spans = [figure.span for figure in read_figures(text, locale)]
        assert all(0 <= start < end <= len(text) for start, end in spans)
        assert all(first[1] <= second[0] for first, second in pairwise(spans))


@given(st.text(alphabet="0123456789.,-() %€Mx\n", max_size=60))
def test_what_is_read_is_equal_to_itself(text: str) -> None:
    assert all(same_figure(figure, figure) for figure in read_figures(text))


def test_more_digits_than_a_context_holds_are_kept() -> None:
    (figure,) = read_figures("9" * 1_000_001 + " pb")
    assert figure.unit == "pb"
    assert same_figure(figure, figure)
    assert len(figure.value.as_tuple().digits) == 1_000_001


REPEATED = {
    **dict.fromkeys([".", ",", "(", "-", "−", " ", "\u00a0", "\n", "a", "[", "#", "*", "²", "a1", "1a", "1."], 0),
    **dict.fromkeys(["mil ", "nota 1, "], 0),
    **dict.fromkeys(["1", "123'", "123\u00a0"], 1),
    "0123456789.,": 83_333,
}


@pytest.mark.parametrize(("unit", "count"), REPEATED.items())
def test_a_megabyte_of_one_thing_is_read(unit: str, count: int) -> None:
    assert len(read_figures(unit * (1_000_000 // len(unit)))) == count


@pytest.mark.parametrize("unit", ["1 ", "1\u00a0", "1,", "1-", "1% ", "(1 ", "1²", "3 y ", "12 "])
def test_a_long_list_of_figures_is_read(unit: str) -> None:
    assert len(read_figures(unit * 50_000)) == 50_000
