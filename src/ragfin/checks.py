"""What a corpus is worth before anything is measured on it: gold that can be found, text that can be retrieved.

These are facts about the data and the chunks, not about a retriever or a model. A corpus that is at fault by the
data contract never gets here: `ragfin.load_corpus` refuses it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

from ragfin.chunking import Chunk, Span, blocks, chunk_corpus
from ragfin.corpus import Corpus, Passage, Question
from ragfin.figures import figures
from ragfin.metrics import COVERED_FROM, coverage
from ragfin.typed_metrics import gold_figure_faults

COMPUTED_KINDS = frozenset({"calculo", "comparacion", "calculation", "comparison"})
LESSON_SAMPLE = {"texto": 3, "tabla": 3, "nota_pie": 1, "texto_y_nota": 1, "tabla_y_nota": 1, "no_respondible": 3}

_HEADING_BLOCK = re.compile(r"#[^\n]*(?:\n#[^\n]*)*")
_VISIBLE = re.compile(r"\S")


class GoldFault(NamedTuple):
    """Gold figures of a question that are in none of its gold passages."""

    question_id: str
    missing: tuple[float, ...]


class Place(NamedTuple):
    """A half-open span of a document, in code points."""

    doc_id: str
    start: int
    end: int


def gold_faults(corpus: Corpus) -> list[GoldFault]:
    """Return the answerable questions whose gold figures their gold passages do not hold.

    Questions of the kinds ``calculo`` and ``comparacion`` (``calculation``, ``comparison``) are left out:
    their figures follow from the passages.

    Returns
    -------
    list of GoldFault
        In file order; empty for a sound corpus.
    """
    texts, locale = _texts(corpus), corpus.language.locale
    found = []
    for question in corpus:
        if not question.answerable or question.kind in COMPUTED_KINDS:
            continue
        gold = "\n".join(texts[p.doc_id][p.start : p.end] for p in question.gold_passages)
        if missing := figures(question.gold_answer, locale=locale) - figures(gold, locale=locale):
            found.append(GoldFault(question.id, tuple(sorted(missing))))
    return found


def gold_unit_faults(corpus: Corpus) -> dict[str, list[str]]:
    """Return where gold figures differ from their gold passages in unit, scale or sign, read by the typed reader.

    The same questions are left out as in `gold_faults`.

    Returns
    -------
    dict of str to list of str
        Question id to what `ragfin.typed_metrics.gold_figure_faults` says; empty for a sound corpus.
    """
    texts = _texts(corpus)
    found = {}
    for question in corpus:
        if question.kind not in COMPUTED_KINDS:
            gold = [texts[p.doc_id][p.start : p.end] for p in question.gold_passages]
            if faults := gold_figure_faults(question, gold, language=corpus.language):
                found[question.id] = faults
    return found


def corpus_report(corpus: Corpus, chunks: Sequence[Chunk] | None = None) -> dict[str, Any]:
    """Count what the chunks of a corpus hold and what they miss.

    Parameters
    ----------
    corpus : Corpus
        What `ragfin.load_corpus` returns.
    chunks : sequence of Chunk, optional
        By default those of `ragfin.chunking.chunk_corpus`.

    Returns
    -------
    dict
        ``n_documents``, ``n_passages``, ``n_questions``, ``n_unanswerable``, ``n_chunks``. ``document_chars``:
        smallest, median and largest size of a document and their sum, in code points. ``by_kind``: questions of each
        kind, by name.
        ``share_in_no_chunk``: visible (not white space) code points that are in no chunk, of all visible ones;
        ``share_headings``: heading lines, of all visible ones (no chunk holds them, but their words are in the
        headers). ``under_heading``: text directly under a heading without a blank line, in no chunk, as places.
        ``carriage_returns``: how many there are by document, where there are any.
        ``n_gold_passages``: distinct ones. ``share_gold_cut``: those that no single chunk holds whole although some
        chunk holds a part. ``gold_in_no_chunk``: ids of those that all chunks together do not cover (from 0.5).
        ``needs_several_chunks``: ids of answerable questions whose gold passages no single chunk covers all.
        ``gold_faults`` and ``gold_unit_faults``: what the functions of these names return. Shares are None without text
        or gold.
    """
    if chunks is None:
        chunks = chunk_corpus(corpus, corpus.settings.max_chars)
    texts, by_doc = _texts(corpus), _by_document(chunks)
    visible = outside = headings = 0
    under_heading = []
    for doc_id, text in texts.items():
        total = _visible(text, [(0, len(text))])
        visible += total
        outside += total - _visible(text, _union(span for chunk in by_doc.get(doc_id, []) for span in chunk.spans))
        for start, end in blocks(text):
            if text[start] == "#":
                heading = _HEADING_BLOCK.match(text, start, end)
                stop = heading.end() if heading else end
                headings += _visible(text, [(start, stop)])
                if text[stop:end].strip():
                    under_heading.append(Place(doc_id, stop + 1, end))
    sizes = [len(text) for text in texts.values()]
    gold = list(dict.fromkeys(passage for question in corpus for passage in question.gold_passages))
    cut = [p for p in gold if 0 < max((coverage([c], p) for c in by_doc.get(p.doc_id, [])), default=0) < 1]
    return {
        "n_documents": len(texts),
        "n_passages": len(corpus.passages),
        "n_questions": len(corpus),
        "n_unanswerable": sum(not question.answerable for question in corpus),
        "n_chunks": len(chunks),
        "document_chars": {
            "min": min(sizes, default=0),
            "median": median(sizes) if sizes else 0,
            "max": max(sizes, default=0),
            "sum": sum(sizes),
        },
        "by_kind": dict(sorted(Counter(question.kind for question in corpus).items())),
        "share_in_no_chunk": outside / visible if visible else None,
        "share_headings": headings / visible if visible else None,
        "under_heading": under_heading,
        "carriage_returns": {doc_id: text.count("\r") for doc_id, text in texts.items() if "\r" in text},
        "n_gold_passages": len(gold),
        "share_gold_cut": len(cut) / len(gold) if gold else None,
        "gold_in_no_chunk": [p.id for p in gold if coverage(by_doc.get(p.doc_id, []), p) < COVERED_FROM],
        "needs_several_chunks": [
            question.id for question in corpus if question.answerable and not _fits(question, by_doc)
        ],
        "gold_faults": gold_faults(corpus),
        "gold_unit_faults": gold_unit_faults(corpus),
    }


def lesson_sample(corpus: Corpus) -> list[Question]:
    """Return the lesson's sample: pandas ``sample(n, random_state=0)`` within each kind, in the lesson's order.

    Returns
    -------
    list of Question
        Twelve questions: texto 3, tabla 3, nota_pie 1, texto_y_nota 1, tabla_y_nota 1, no_respondible 3.

    Raises
    ------
    ValueError
        The corpus has too few questions of a kind.
    """
    frame = corpus.questions
    ids: list[str] = []
    for kind, n in LESSON_SAMPLE.items():
        of_kind = frame[frame["kind"] == kind]
        if len(of_kind) < n:
            raise ValueError(
                f"{len(of_kind)} questions of kind {kind!r}: the lesson's sample takes {n}; name ids instead"
            )
        ids += of_kind.sample(n, random_state=0)["question_id"].tolist()
    return [corpus.question(question_id) for question_id in ids]


def _texts(corpus: Corpus) -> dict[str, str]:
    """Return the raw text of each document by its id."""
    return dict(zip(corpus.documents["doc_id"], corpus.documents["text"], strict=True))


def _by_document(chunks: Iterable[Chunk]) -> dict[str, list[Chunk]]:
    """Return the chunks of each document."""
    groups: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        groups.setdefault(chunk.doc_id, []).append(chunk)
    return groups


def _union(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield disjoint spans that hold the same offsets, in order."""
    reached = 0
    for start, end in sorted(spans):
        if end > reached:
            yield max(start, reached), end
            reached = end


def _visible(text: str, spans: Iterable[Span]) -> int:
    """Return how many code points of disjoint spans are not white space."""
    return sum(len(_VISIBLE.findall(text, start, end)) for start, end in spans)


def _fits(question: Question, by_doc: dict[str, list[Chunk]]) -> bool:
    """Tell whether some single chunk covers every gold passage of a question."""
    passages: Sequence[Passage] = question.gold_passages
    candidates = by_doc.get(passages[0].doc_id, []) if passages else []
    return any(all(coverage([chunk], p) >= COVERED_FROM for p in passages) for chunk in candidates)
