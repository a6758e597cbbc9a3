"""Folders of files as documents, and passages given as quoted text."""

import re

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragfin import CorpusError, load_corpus
from ragfin.convert import page_of, read_folder, write_documents
from ragfin.quotes import find_quote

pytest.importorskip("pypdf", reason="converters are not installed: pip install 'ragfin[convert]'")

HTML = """<html><head><title>De la cabecera</title><script>var x = 1</script></head><body>
<nav>Inicio</nav><h2>Costes</h2><p>Gastos de <b>1.472,9</b> millones<sup>1</sup>, un 0,20&nbsp;%.</p>
<table><tr><th>Clase</th><th>Gastos</th></tr><tr><td>A_1</td><td>0,20</td></tr></table><p><sup>1</sup> Sin impuestos.
</p></body></html>"""


def pdf(*pages: str, title: str = "") -> bytes:
    """Return a PDF of one line a page, written by hand."""
    kids = " ".join(f"{3 + 2 * i} 0 R" for i in range(len(pages)))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>"]
    font = "<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >> >> >>"
    for i, text in enumerate(pages):
        content = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET" if text else ""
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources {font} /Contents {4 + 2 * i} 0 R >>"
        )
        objects.append(f"<< /Length {len(content.encode('cp1252'))} >>\nstream\n{content}\nendstream")
    objects.append(f"<< /Title ({title}) >>")
    data, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n".encode("cp1252")
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    head = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R >>\n"
    return data + f"{head}{trailer}startxref\n{len(data)}\n%%EOF".encode()


@pytest.fixture
def folder(tmp_path):
    """Give an empty folder whose path has spaces and accents."""
    path = tmp_path / "año 2023 ñ" / "documents"
    path.mkdir(parents=True)
    return path


def faults(folder) -> list[str]:
    return [str(fault) for fault in read_folder(folder).faults]


def test_markdown_and_text_are_read_as_they_are_but_for_line_ends(folder):
    (folder / "a.md").write_bytes("\ufeff# Título\r\n\r\nDeuda: 3,5.\rOtra".encode())
    (folder / "b.TXT").write_bytes("sin título 😀\n".encode())
    frame = read_folder(folder).frame
    assert frame["text"].tolist() == ["# Título\n\nDeuda: 3,5.\nOtra", "sin título 😀\n"]
    assert frame["title"].tolist() == ["Título", "b"]
    assert frame["doc_id"].tolist() == ["a", "b"]


def test_html_becomes_markdown_without_markup_inside_figures(folder):
    (folder / "kid.html").write_text(HTML, encoding="utf-8")
    [row] = read_folder(folder).frame.to_dict("records")
    assert row["title"] == "Costes"
    assert row["text"].replace("\u00a0", " ") == (
        "## Costes\n\nGastos de 1.472,9 millones¹, un 0,20 %.\n\n"
        "| Clase | Gastos |\n| --- | --- |\n| A_1 | 0,20 |\n\n¹ Sin impuestos.\n"
    )


def test_an_encoding_that_html_declares_is_used(folder):
    declared = '<meta charset="windows-1252"><p>Dotación de 3 €</p>'
    (folder / "old.htm").write_bytes(declared.encode("cp1252"))
    assert read_folder(folder).frame["text"][0] == "Dotación de 3 €\n"


def test_a_pdf_keeps_where_each_page_begins(folder):
    (folder / "report.pdf").write_bytes(pdf("Deuda de 312,4 millones", "Plantilla: 704", title="Informe anual"))
    [row] = read_folder(folder).frame.to_dict("records")
    assert row["text"] == "Deuda de 312,4 millones\n\nPlantilla: 704"
    assert (row["pages"], row["title"]) == ("0;25", "Informe anual")
    assert [page_of(row["pages"], row["text"].index(word)) for word in ("312", "704")] == [1, 2]


@given(st.lists(st.integers(1, 400), min_size=1, max_size=8), st.data())
def test_every_offset_lies_on_the_page_that_holds_it(lengths, data):
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    page = data.draw(st.integers(0, len(lengths) - 1))
    offset = data.draw(st.integers(starts[page], starts[page] + lengths[page] - 1))
    assert page_of(";".join(map(str, starts)), offset) == page + 1


def test_folders_in_the_folder_are_part_of_the_id_and_hidden_files_are_left_out(folder):
    for name in ("2023/annual.md", "2022/annual.md", ".cache/x.md", "2022/.DS_Store"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("# T\n\nuno", encoding="utf-8")
    table = read_folder(folder)
    assert table.frame["doc_id"].tolist() == ["2022/annual", "2023/annual"]
    assert not table.faults


def test_every_file_that_cannot_be_read_is_named_with_its_repair(folder):
    (folder / "latin.md").write_bytes("Dotación\nde 3 €".encode("cp1252"))
    (folder / "scan.pdf").write_bytes(pdf(""))
    (folder / "torn.pdf").write_bytes(pdf("uno")[:200])
    (folder / "sheet.xlsx").write_bytes(b"PK")
    (folder / "twice.md").write_text("uno", encoding="utf-8")
    (folder / "twice.txt").write_text("uno", encoding="utf-8")
    (folder / "void.md").write_text("\n\n", encoding="utf-8")
    (folder / "mixed.html").write_bytes(b'<meta charset="utf-8"><p>3 \x80 y 4</p>')
    told = "\n".join(faults(folder))
    for line in (
        r"documents/latin\.md, row 1: byte 0xf3 is not UTF-8 .*; save the file as UTF-8",
        r"documents/latin\.md, row 2: byte 0x80 is not UTF-8",
        r"documents/scan\.pdf: holds no text; scanned pages need OCR first",
        r"documents/torn\.pdf: cannot be read as PDF",
        r"documents/sheet\.xlsx: ends in '\.xlsx': it cannot be read; convert it to \.md, \.txt, \.html or \.pdf",
        r"documents/twice\.txt: is 'twice', as documents/twice\.md is; rename one of the two",
        r"documents/void\.md: holds no text; fill it or take it away",
    ):
        assert re.search(line, told), line


def test_html_with_bytes_outside_its_encoding_is_not_guessed(folder):
    (folder / "bad.html").write_bytes(b"<p>3 \x81\x8d y 4 \xe2\x82</p>")
    table = read_folder(folder)
    assert table.faults or "\N{REPLACEMENT CHARACTER}" not in table.frame["text"][0]


@pytest.fixture
def corpus_of(folder):
    """Write a corpus whose documents are files, with the given passages, and load it."""

    def load(passages: list[dict], text: str = "# T\n\nDeuda de 3 euros.\n\nDeuda de 4\neuros. Deuda de 3\neuros.\n"):
        (folder / "R01.md").write_text(text, encoding="utf-8", newline="")
        rows = [{"passage_id": f"p{i}", "doc_id": "R01", **row} for i, row in enumerate(passages)]
        pd.DataFrame(rows).to_csv(folder.parent / "passages.csv", index=False)
        (folder.parent / "questions.csv").write_text(
            "question_id,doc_id,question,gold_answer,kind,answerable,gold_passages\n"
            "Q1,R01,¿Deuda?,4,texto,True,p0\n", encoding="utf-8"
        )  # fmt: skip
        return load_corpus(folder.parent)

    return load


def test_a_quotation_is_resolved_to_its_offsets_whatever_its_line_ends(corpus_of):
    corpus = corpus_of([{"quote": "Deuda de 4\r\n euros."}])
    [passage] = corpus.question("Q1").gold_passages
    assert corpus.documents["text"][0][passage.start : passage.end] == "Deuda de 4\neuros."


def test_the_lesson_s_language_names_the_column_too(corpus_of):
    assert corpus_of([{"cita": "Deuda de 4 euros"}]).question("Q1").gold_passages[0].start == 24


def test_quotations_and_offsets_may_be_mixed(corpus_of):
    corpus = corpus_of([{"quote": "Deuda de 4 euros", "start": None, "end": None}, {"start": 0, "end": 3}])
    assert corpus.passages[["start", "end"]].to_numpy().tolist() == [[24, 40], [0, 3]]


def test_an_ambiguous_quotation_is_refused_with_both_places(corpus_of):
    with pytest.raises(CorpusError) as raised:
        corpus_of([{"quote": "Deuda de 3 euros."}])
    [fault] = raised.value.faults
    assert str(fault) == (
        "passages.csv, row 2: quote 'Deuda de 3 euros.' is ambiguous in 'R01': it is at 5-22 (after '# T') and 42-59 "
        "(after 'ros. Deuda de 4 euros.'); quote more of the passage, or give start and end"
    )


def test_a_quotation_that_is_not_there_is_one_fault(corpus_of):
    with pytest.raises(CorpusError, match=r"row 2: quote 'Deuda de 5' is not in 'R01'; copy it exactly") as raised:
        corpus_of([{"quote": "Deuda de 5"}])
    assert len(raised.value.faults) == 1


def test_a_quotation_that_contradicts_its_offsets_is_refused(corpus_of):
    with pytest.raises(CorpusError, match="is not what lies at 0-3 of 'R01'; keep the quotation or the offsets"):
        corpus_of([{"quote": "Deuda de 4", "start": 0, "end": 3}])


def test_a_passage_with_neither_is_told_to_give_one(corpus_of):
    with pytest.raises(CorpusError, match="start is empty"):
        corpus_of([{"quote": "Deuda de 4", "start": None, "end": None}, {"quote": None}])


@given(st.text("ab \n", max_size=30), st.data())
def test_whatever_is_quoted_is_found_where_it_was(text, data):
    start = data.draw(st.integers(0, len(text)))
    quote = text[start : data.draw(st.integers(start, len(text)))]
    if quote.strip():
        stripped = start + len(quote) - len(quote.lstrip())
        assert stripped in [a for a, _ in find_quote(text, quote)]


def test_a_folder_is_converted_once_to_the_same_corpus(folder, corpus_of, tmp_path):
    before = corpus_of([{"quote": "Deuda de 4 euros"}])
    assert write_documents(folder, folder.parent / "documents.parquet") == 1
    folder.rename(tmp_path / "elsewhere")
    pd.testing.assert_frame_equal(load_corpus(folder.parent).documents, before.documents)


def test_a_table_and_a_folder_of_documents_are_one_too_many(folder, corpus_of):
    corpus_of([{"quote": "Deuda de 4 euros"}])
    write_documents(folder, folder.parent / "documents.parquet")
    with pytest.raises(CorpusError, match=r"documents/: is there beside documents\.parquet; keep one of the two"):
        load_corpus(folder.parent)


def test_nothing_is_written_when_a_file_cannot_be_converted(folder):
    (folder / "a.md").write_text("uno", encoding="utf-8")
    (folder / "b.xlsx").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"documents/b\.xlsx: ends in"):
        write_documents(folder, folder.parent / "documents.parquet")
    assert not (folder.parent / "documents.parquet").exists()


def test_a_missing_converter_is_named_with_its_repair(folder, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (folder / "r.pdf").write_bytes(pdf("uno"))
    assert faults(folder) == ["documents/r.pdf: needs pypdf to be read; run `pip install 'ragfin[convert]'`"]
