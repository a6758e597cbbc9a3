"""A small corpus made of lists of blocks, so that every offset is known from how the text was joined."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from ragfin import Corpus, load_corpus

Tables = dict[str, pd.DataFrame]

REPORT = """# Arven, S.A. — Informe anual 2023

## Magnitudes

| Concepto | 2023 | 2022 |
| --- | --- | --- |
| Ventas (millones de EUR) | 1.250,5 | 1.190,0 |
| Margen EBITDA (%) | 20,5 | 19,8 |

## Deuda

La deuda financiera neta de Arven era de 312,4 millones de euros al cierre de 2023¹.

El plazo medio de la deuda era de 4,2 años.

¹ No incluye los pasivos por arrendamiento.

## Plantilla

Arven empleaba a 704 personas 😀 en España y Portugal."""

SISTER = """# Arven, S.A. — Informe anual 2022

## Magnitudes

| Concepto | 2022 | 2021 |
| --- | --- | --- |
| Ventas (millones de EUR) | 1.190,0 | 1.101,3 |

## Plantilla

Arven empleaba a 688 personas en España."""

FUND = """# Folleto — Sintético Bonos

## Clases de acciones

La clase A reparte dividendos con periodicidad semestral.

## Gastos

Los gastos corrientes de la clase A son del 0,20 % anual. La comisión de reembolso es nula."""


def _tables_of(documents: dict[str, str], questions: list[tuple[str, str, str, str, str, str]]) -> Tables:
    """Return the three tables; every block is a passage, numbered from p001."""
    passages = []
    for doc_id, text in documents.items():
        start = 0
        for number, block in enumerate(text.split("\n\n"), start=1):
            passages.append((f"{doc_id}-p{number:03d}", doc_id, start, start + len(block)))
            start += len(block) + 2
    return {
        "documents": pd.DataFrame(
            [(doc_id, text.partition("\n")[0].lstrip("# "), text) for doc_id, text in documents.items()],
            columns=["doc_id", "title", "text"],
        ),
        "passages": pd.DataFrame(passages, columns=["passage_id", "doc_id", "start", "end"]),
        "questions": pd.DataFrame(
            [(*row[:5], row[4] != "no_respondible", row[5]) for row in questions],
            columns=["question_id", "doc_id", "question", "gold_answer", "kind", "answerable", "gold_passages"],
        ),
    }


def _write_tables(folder: Path, tables: Tables) -> Path:
    """Write the tables as the project's own files."""
    folder.mkdir(parents=True, exist_ok=True)
    tables["documents"].to_parquet(folder / "documents.parquet")
    tables["passages"].to_parquet(folder / "passages.parquet")
    tables["questions"].to_csv(folder / "questions.csv", index=False)
    return folder


@pytest.fixture
def write_tables() -> Callable[[Path, Tables], Path]:
    """Write three tables to a folder as the project's own files, and return the folder."""
    return _write_tables


@pytest.fixture
def tables_of() -> Callable[[dict[str, str], list[tuple[str, str, str, str, str, str]]], Tables]:
    """Make the three tables of some documents, every block a passage, and of questions given as tuples."""
    return _tables_of


@pytest.fixture
def small_tables() -> Tables:
    """Three documents and eight questions."""
    return _tables_of(
        {"R01": REPORT, "R02": SISTER, "R03": FUND},
        [
            ("QA001", "R01", "¿Qué margen EBITDA tuvo Arven en 2023?", "20,5 %", "tabla", "R01-p003"),
            ("QA002", "R01", "¿Qué deuda financiera neta tenía Arven?", "312,4", "texto_y_nota", "R01-p005;R01-p007"),
            ("QA003", "R01", "¿Incluye la deuda neta los arrendamientos?", "No", "nota_pie", "R01-p007"),
            ("QA004", "R01", "¿Cuántas personas empleaba Arven en 2023?", "704", "texto", "R01-p009"),
            ("QA005", "R02", "¿Cuánto creció la plantilla de Arven en 2023?", "16", "calculo", "R01-p009;R02-p005"),
            ("QA006", "R01", "¿Qué calificación crediticia tiene Arven?", "No consta", "no_respondible", ""),
            ("QA007", "R03", "¿Reparte dividendos la clase A de Sintético?", "Sí, semestral", "texto", "R03-p003"),
            ("QA008", "R03", "¿Qué gastos tiene la clase Z de Sintético?", "No consta", "no_respondible", ""),
        ],
    )


@pytest.fixture
def small_folder(tmp_path: Path, small_tables: Tables) -> Path:
    """The small corpus as files."""
    return _write_tables(tmp_path / "small", small_tables)


@pytest.fixture
def small_corpus(small_folder: Path) -> Corpus:
    """The small corpus, loaded."""
    return load_corpus(small_folder)


@pytest.fixture
def loaded(tmp_path: Path) -> Callable[[Tables], Corpus]:
    """Write changed tables and load them."""
    return lambda tables: load_corpus(_write_tables(tmp_path / "changed", tables))


@pytest.fixture(scope="session")
def texts() -> dict[str, str]:
    """Give the raw text of each document of the project's own corpus, by id."""
    frame = load_corpus().documents
    return dict(zip(frame["doc_id"], frame["text"], strict=True))
