"""The questions of a report page: answer, gold, and the context with its gold and cited parts marked.

Everything that comes from a corpus or a model is escaped.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

import numpy as np

from ragfin.chunking import Chunk, chunk_corpus
from ragfin.corpus import Corpus, Passage, Question
from ragfin.extraction import K
from ragfin.links import MEASURES
from ragfin.metrics import COVERED_FROM, coverage
from ragfin.retrieval import BM25Retriever

Contexts = Mapping[str, Sequence[Chunk]]
Span = tuple[int, int]


def question_item(
    question: Question,
    rows: Mapping[str, Mapping[str, dict[str, Any]]],
    contexts: Mapping[str, Contexts],
    texts: Mapping[str, str],
) -> str:
    """Return one question with its gold, its answers, and the contexts that they were made from."""
    answers = {name: by_id[question.id] for name, by_id in rows.items() if question.id in by_id}
    links = [f"{number}:{answers[name]['failed_link']}" for number, name in enumerate(rows) if name in answers]
    split = len({str(row["exact"]) for row in answers.values()}) > 1
    chips = "".join(_chip(name, row["failed_link"]) for name, row in answers.items())
    shared: dict[tuple[Any, ...], list[str]] = {}
    for name in answers:
        key = tuple((chunk.doc_id, chunk.spans) for chunk in contexts[name].get(question.id, ()))
        shared.setdefault(key, []).append(name)
    several = len(shared) > 1
    read = "".join(
        _context(question, contexts[readers[0]].get(question.id, ()), {n: answers[n] for n in readers}, texts, several)
        for readers in shared.values()
    )
    said = "".join(_answer(name, row) for name, row in answers.items())
    ids = ", ".join(passage.id for passage in question.gold_passages) or "none: the documents do not say"
    return (
        f'<details class="question" id="{escape(question.id)}" data-kind="{escape(question.kind)}" '
        f'data-links="{escape(" ".join(links))}" data-split="{"yes" if split else "no"}">'
        f'<summary><span class="id">{escape(question.id)}</span> <span class="kind">{escape(question.kind)}</span><br>'
        f'<span lang="es">{escape(question.text)}</span><br>{chips}</summary><div class="inside">'
        f'<p>Gold answer: <b class="gold-answer">{escape(question.gold_answer)}</b> '
        f'<span class="note">gold passages: {escape(ids)}</span></p>{said}{read}</div></details>'
    )


def marked(text: str, span: Span, gold: Iterable[Span], *, cited: bool = False) -> str:
    """Return a span of a document as HTML, escaped, with the gold parts of it marked.

    Parameters
    ----------
    text : str
        Raw text of the document.
    span : (start, end)
        What is shown: half-open, in code points, as the gold spans are.
    gold : iterable of (start, end)
        Of the same document; they may overlap and may reach beyond ``span``.
    cited : bool, optional
        Mark the whole as cited.

    Returns
    -------
    str
        Without the tags and unescaped it is ``text[start:end]``.

    Examples
    --------
    >>> marked("Ventas: <5>", (0, 11), [(8, 11)])
    'Ventas: <mark class="gold">&lt;5&gt;</mark>'
    >>> marked("abc", (0, 3), [(1, 9)], cited=True)
    '<mark class="cited">a</mark><mark class="cited gold">bc</mark>'
    """
    start, end = span
    inside = [(max(a, start), min(b, end)) for a, b in gold if max(a, start) < min(b, end)]
    edges = sorted({start, end, *(edge for piece in inside for edge in piece)})
    html = []
    for left, right in pairwise(edges):
        classes = ["cited"] * cited + ["gold"] * any(a <= left and right <= b for a, b in inside)
        piece = escape(text[left:right])
        html.append(f'<mark class="{" ".join(classes)}">{piece}</mark>' if classes else piece)
    return "".join(html)


def baseline_contexts(corpus: Corpus) -> dict[str, list[Chunk]]:
    """Return the chunks that the extractive baseline found for each question, by question id, best first."""
    chunks = chunk_corpus(corpus, corpus.settings.max_chars)
    retriever = BM25Retriever(chunks, stop_words=corpus.language.stop_words)
    found = retriever.search_many([question.text for question in corpus], K)
    return {question.id: [hit.chunk for hit in hits] for question, hits in zip(corpus, found, strict=True)}


def spoken(name: str) -> str:
    """Return a name of a link or a measure as words."""
    return name.replace("_", " ")


def _answer(name: str, row: Mapping[str, Any]) -> str:
    """Return one answer with its measures."""
    measures = ", ".join(f"{spoken(measure)} {_value(row[measure])}" for measure in MEASURES)
    said = "(the generation failed)" if row["failed"] else escape(row["answer"]) or "(empty)"
    return (
        f'<div class="answer"><h3>{escape(name)}</h3><p class="said">{said}</p>'
        f'<p class="measures">{_chip("", row["failed_link"])}{measures}</p></div>'
    )


def _context(
    question: Question,
    chunks: Sequence[Chunk],
    answers: Mapping[str, dict[str, Any]],
    texts: Mapping[str, str],
    several: bool,
) -> str:
    """Return what some answers were made from, gold and cited parts marked, and the gold that it lacks."""
    whose = f" of {escape(' and '.join(answers))}" if several else ""
    html = [f"<h3>Context{whose}</h3>"]
    if not chunks:
        html.append('<p class="note">None: the question alone.</p>')
    for number, chunk in enumerate(chunks, start=1):
        citing = [name for name, row in answers.items() if number in row["cited"] and not row["failed"]]
        gold = [(p.start, p.end) for p in question.gold_passages if p.doc_id == chunk.doc_id]
        spans = [marked(texts[chunk.doc_id], span, gold, cited=bool(citing)) for span in chunk.spans]
        by = f' <span class="by">cited by {escape(" and ".join(citing))}</span>' if citing else ""
        html.append(
            f'<div class="chunk{" is-cited" if citing else ""}"><div class="head">[{number}] {escape(chunk.doc_id)} '
            f"{escape(chunk.title)} &gt; {escape(chunk.section)}{by}</div>"
            f'<div class="text" lang="es">{"<br><br>".join(spans)}</div></div>'
        )
    missing = [p for p in question.gold_passages if coverage(chunks, p) < COVERED_FROM]
    return "".join([*html, *(_missing(passage, texts) for passage in missing)])


def _missing(passage: Passage, texts: Mapping[str, str]) -> str:
    """Return a gold passage that the context does not cover."""
    place = f"{passage.doc_id}, characters {passage.start} to {passage.end}"
    span = (passage.start, passage.end)
    return (
        f'<div class="chunk missing"><div class="head">Not covered by this context: gold passage {escape(passage.id)} '
        f'<span class="note">{escape(place)}</span></div>'
        f'<div class="text" lang="es">{marked(texts[passage.doc_id], span, [span])}</div></div>'
    )


def _chip(name: str, link: str) -> str:
    """Return the first link that failed as a label."""
    text = ": ".join(filter(None, [name, "all links hold" if link == "none" else spoken(link)]))
    return f'<span class="chip {"sound" if link == "none" else "broken"}">{escape(text)}</span>'


def _value(value: float) -> str:
    """Return a measure as a word, or as a fraction."""
    return "n/a" if np.isnan(value) else {0.0: "no", 1.0: "yes"}.get(value, f"{value:.2f}")
