from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragfin import load_corpus
from ragfin.chunking import Chunk, blocks, chunk_corpus, chunk_document

MARKS = "¹²³⁴⁵⁶⁷⁸⁹"


def reference(title: str, text: str, max_chars: int = 800) -> list[tuple[str, tuple[tuple[int, int], ...], str]]:
    """The rules of chunking, one after the other, without any care for speed: (section, spans, text) of each chunk."""
    found, i = [], 0
    while i < len(text):
        if text[i] == "\n":
            i += 1
            continue
        end = i
        while end < len(text) and not (text[end] == "\n" and text[end + 1 : end + 2] == "\n"):
            end += 1
        found.append((i, end))
        i = end
    notes = {}
    for start, end in found:
        if text[start] in MARKS:
            notes[text[start]] = (start, end)

    def section_at(offset: int) -> str:
        name, line_start = "", 0
        for line in text.split("\n"):
            hashes = len(line) - len(line.lstrip("#"))
            if line_start <= offset and hashes >= 2 and line[hashes : hashes + 1] == " ":
                name = line[hashes + 1 :]
            line_start += len(line) + 1
        return name

    chunks: list[dict] = []
    for start, end in found:
        if text[start] == "#" or text[start] in MARKS:
            continue
        marks: list[str] = []
        for character in text[start:end]:
            if character in notes and character not in marks:
                marks.append(character)
        fixed = text.startswith("|", start) or len(marks) > 0
        section = section_at(start)
        last = chunks[-1] if chunks else None
        if (
            last is not None
            and not fixed
            and not last["fixed"]
            and last["section"] == section
            and end - last["spans"][0][0] <= max_chars
        ):
            last["spans"] = [(last["spans"][0][0], end)]
        else:
            chunks.append({"section": section, "spans": [(start, end), *(notes[m] for m in marks)], "fixed": fixed})
    return [
        (
            chunk["section"],
            tuple(chunk["spans"]),
            f"{title} > {chunk['section']}\n\n" + "\n\n".join(text[a:b] for a, b in chunk["spans"]),
        )
        for chunk in chunks
    ]


def check(text: str, max_chars: int = 800) -> list[Chunk]:
    """Chunk a text, compare with the reference and check what holds for every text."""
    chunks = chunk_document("D", "T", text, max_chars)
    assert [(c.section, c.spans, c.text) for c in chunks] == reference("T", text, max_chars)
    assert all((c.doc_id, c.title) == ("D", "T") for c in chunks)
    for c in chunks:
        assert c.text == f"T > {c.section}\n\n{c.body}"
        assert c.body == "\n\n".join(text[start:end] for start, end in c.spans)
        assert all(0 <= start < end <= len(text) for start, end in c.spans)
    firsts = [c.spans[0] for c in chunks]
    assert all(left[1] < right[0] for left, right in pairwise(firsts))
    return chunks


piece = st.sampled_from(
    [
        "\n",
        "\n\n",
        "\n\n\n",
        "# Título",
        "## Uno",
        "### Dos",
        "##Sin espacio",
        "##  Dos espacios",
        "## Uno\nPegado",
        "Párrafo corto.",
        "Otro párrafo de texto con algo más de longitud. ",
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "Con marca¹ y otra² y la misma¹.",
        "Marca sin nota⁸.",
        "¹ Nota uno.",
        "¹ Nota uno, otra vez.",
        "² Nota dos, con marca³.",
        "³ Nota tres.",
        "texto\r\n\r\nmás",
        "\u2028",
        "\u0085",
        "😀",
        "e\u0301",
        " ",
        "#",
        "|",
        "¹",
    ]
)
documents = st.lists(piece, max_size=25).map("".join)


@settings(max_examples=400, deadline=None)
@given(documents, st.sampled_from([0, 20, 60, 800]))
def test_odd_documents_are_cut_as_the_rules_say(text, max_chars):
    check(text, max_chars)


@given(st.text())
def test_no_text_raises_and_spans_rebuild_the_text(text):
    check(text)


@given(st.text(st.sampled_from("a\n#|¹² \r"), max_size=60))
def test_short_texts_of_the_characters_that_matter_are_cut_as_the_rules_say(text):
    check(text, 10)


@given(documents)
def test_blocks_and_the_newlines_between_rebuild_the_text(text):
    spans = list(blocks(text))
    assert all(text[start] != "\n" and end > start for start, end in spans)
    edges = [0, *(edge for span in spans for edge in span), len(text)]
    between = [text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
    assert set("".join(between)) <= {"\n"}


def spans_of(text: str, max_chars: int = 800) -> list[tuple[tuple[int, int], ...]]:
    return [c.spans for c in check(text, max_chars)]


def bodies_of(text: str, max_chars: int = 800) -> list[str]:
    return [c.body for c in check(text, max_chars)]


@pytest.mark.parametrize("text", ["", "\n", "\n\n\n", "# Solo título", "## Solo sección\n", "¹ Solo una nota."])
def test_texts_without_a_block_of_their_own_give_no_chunk(text):
    assert chunk_document("D", "T", text) == []


def test_a_text_without_sections_has_an_empty_section():
    [only] = check("Uno.\n\nDos.")
    assert only.section == ""
    assert only.text == "T > \n\nUno.\n\nDos."


def test_a_lone_newline_at_the_end_stays_in_the_block():
    assert spans_of("Uno.\n") == [((0, 5),)]
    assert spans_of("Uno.\n\n") == [((0, 4),)]


def test_text_directly_under_a_heading_is_in_no_chunk():
    assert bodies_of("## S\nPegado.\n\nSuelto.") == ["Suelto."]


def test_a_document_with_carriage_returns_that_opens_with_a_heading_has_no_chunks():
    assert check("# T\r\n\r\n## S\r\n\r\nTexto.\r\n") == []
    assert len(check("Texto.\r\n\r\n## S\r\n\r\nMás.\r\n")) == 1


def test_a_heading_needs_two_hashes_and_a_space_at_the_start_of_a_line():
    text = "# No\n\nuno\n\n##No\n\ndos\n\n ## No\n\ntres\n\n## Sí\n\ncuatro"
    assert [(c.section, c.body) for c in check(text)] == [
        ("", "uno\n\n##No\n\ndos\n\n ## No\n\ntres"),
        ("Sí", "cuatro"),
    ]


def test_a_heading_inside_a_paragraph_names_the_blocks_after_it():
    assert [c.section for c in check("uno\n## Dentro\nmás\n\ndos")] == ["", "Dentro"]


def test_a_title_of_level_one_does_not_reset_the_section():
    assert [c.section for c in check("## S\n\nuno\n\n# Otro\n\ndos")] == ["S"]


def test_only_a_newline_ends_a_heading_line():
    assert [c.section for c in check("## S\u2028T\rU\n\nuno")] == ["S\u2028T\rU"]


def test_paragraphs_merge_up_to_the_longest_span_counted_from_the_chunks_start():
    text = "a" * 10 + "\n\n" + "b" * 8
    assert spans_of(text, max_chars=20) == [((0, 20),)]
    assert spans_of(text, max_chars=19) == [((0, 10),), ((12, 20),)]


def test_two_sections_of_the_same_name_in_a_row_merge_with_what_lies_between():
    text = "## S\n\nuno\n\n¹ nota\n\n## S\n\ndos"
    assert spans_of(text) == [((6, len(text)),)]
    assert len(check("## S\n\nuno\n\n## R\n\ndos")) == 2


def test_a_table_stays_alone_even_next_to_a_table():
    text = "uno\n\n| a |\n| 1 |\n\n| b |\n| 2 |\n\ndos\n\ntres"
    assert bodies_of(text) == ["uno", "| a |\n| 1 |", "| b |\n| 2 |", "dos\n\ntres"]


def test_footnotes_travel_with_their_mark_in_order_of_appearance_once_each():
    text = "Uno² dos¹ tres².\n\n¹ Primera.\n\n² Segunda."
    assert bodies_of(text) == ["Uno² dos¹ tres².\n\n² Segunda.\n\n¹ Primera."]


def test_nine_footnotes_travel_together():
    text = "Todo" + MARKS + ".\n\n" + "\n\n".join(f"{m} Nota {i}." for i, m in enumerate(MARKS, start=1))
    [only] = check(text)
    assert len(only.spans) == 10


def test_a_mark_without_a_footnote_fixes_nothing():
    assert bodies_of("Uno⁴.\n\nDos.") == ["Uno⁴.\n\nDos."]


def test_the_last_of_several_notes_with_one_mark_counts():
    assert bodies_of("Uno¹.\n\n¹ Primera.\n\nDos¹.\n\n¹ Última.") == [
        "Uno¹.\n\n¹ Última.",
        "Dos¹.\n\n¹ Última.",
    ]


def test_a_note_may_come_before_its_mark():
    assert bodies_of("¹ Nota.\n\nUno¹.") == ["Uno¹.\n\n¹ Nota."]


def test_offsets_are_code_points_also_outside_the_bmp():
    text = "😀 e\u0301\n\n| 😀 |"
    assert spans_of(text) == [((0, 4),), ((6, 11),)]


def test_a_paragraph_of_two_million_characters_is_one_chunk():
    text = "## S\n\n" + "palabra " * 250_000
    [only] = chunk_document("D", "T", text)
    assert only.spans == ((6, len(text)),)


def test_the_chunks_of_a_corpus_follow_the_documents(small_corpus):
    chunks = chunk_corpus(small_corpus)
    expected = []
    for document in small_corpus.documents.to_dict("records"):
        expected += chunk_document(document["doc_id"], document["title"], document["text"])
    assert chunks == expected
    assert [c.doc_id for c in chunks] == ["R01"] * 4 + ["R02"] * 2 + ["R03"] * 2
    assert len(chunk_corpus(small_corpus, max_chars=10)) >= len(chunks)


def test_the_projects_own_documents_are_cut_as_the_rules_say():
    corpus = load_corpus()
    for title, text in zip(corpus.documents["title"], corpus.documents["text"], strict=True):
        found = chunk_document("D", title, text)
        assert [(c.section, c.spans, c.text) for c in found] == reference(title, text)
    assert len(chunk_corpus(corpus)) == 376
