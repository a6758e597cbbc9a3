"""Ask one question and check the answer: what `ragfin ask` shows."""

from collections.abc import Sequence
from math import isnan
from typing import Any

from ragfin.abstention import median_threshold
from ragfin.baseline import best_line
from ragfin.chunking import Chunk
from ragfin.corpus import Corpus, Question
from ragfin.extraction import baseline_rows
from ragfin.figures import figures
from ragfin.generation import generate
from ragfin.language import Language
from ragfin.metrics import COVERED_FROM, abstains, contains_gold, coverage, exact
from ragfin.pipeline import chunks_of, prompt_of, retriever_of


def ask(corpus: Corpus, question: str, *, k: int | None = None, model: str = "") -> dict[str, Any]:
    """Answer one question over a corpus, and say what can be checked of the answer.

    Parameters
    ----------
    corpus : Corpus
        What is searched.
    question : str
        A question, or the id or the exact text of one of the corpus, whose gold is then known.
    k : int, optional
        Number of chunks; by default that of the corpus's settings.
    model : str, optional
        A name of ``models.toml``, asked live; by default the extractive baseline answers.

    Returns
    -------
    dict
        ``question``, ``question_id`` (None for one of your own), ``hits`` (doc_id, title, section, spans, score, text),
        ``answered_by``, ``answer``, ``citations`` (number, doc_id, spans, covers_gold: None where no gold is known),
        ``notes``: what was checked, one line each.

    Raises
    ------
    ValueError
        The question is empty.
    """
    if not question.strip():
        raise ValueError("the question is empty: ask something, or give an id such as QA105")
    known = next((q for q in corpus if question.strip() in (q.id, q.text)), None)
    asked = known or Question("", "", question, "", "", True, ())
    chunks, language = chunks_of(corpus), corpus.language
    hits = retriever_of(corpus, chunks).search(asked.text, k or corpus.settings.k)
    found = [hit.chunk for hit in hits]
    if model:
        [answer] = generate([asked], model, [found], prompt=prompt_of(corpus.settings))
        text, numbers, notes = answer.text, answer.cited, []
        if answer.finish != "stop":
            notes.append(f"generation: {answer.error or 'cut by the token limit'}")
        if answer.n_out_of_range or answer.n_malformed:
            notes.append(f"citations ignored: {answer.n_out_of_range} out of range, {answer.n_malformed} malformed")
    else:
        line = best_line(found[0], asked.text, stop_words=language.stop_words) if found else ""
        text, numbers = line, (1,) if found else ()
        notes = [_score_note(corpus, chunks, hits[0].score)] if hits else []
    citations = [_citation(number, found[number - 1], known) for number in numbers]
    notes += [_faithful_note(text, found, asked, language), *(_citation_note(c, known) for c in citations)]
    if known:
        right, near = (rule(text, known, language=language) for rule in (exact, contains_gold))
        verdict = "exact" if right else "contains the gold" if near else "wrong"
        notes.append(f"gold answer: {known.gold_answer} ({verdict})")
    return {
        "question": asked.text,
        "question_id": known.id if known else None,
        "hits": [
            {
                "doc_id": hit.chunk.doc_id,
                "title": hit.chunk.title,
                "section": hit.chunk.section,
                "spans": hit.chunk.spans,
                "score": hit.score,
                "text": hit.chunk.text,
            }
            for hit in hits
        ],
        "answered_by": model or "extraction",
        "answer": text,
        "citations": citations,
        "notes": [note for note in notes if note],
    }


def _citation(number: int, chunk: Chunk, known: Question | None) -> dict[str, Any]:
    """Return one citation with what it points to and whether that covers gold."""
    gold = known.gold_passages if known else ()
    covers = [passage.id for passage in gold if coverage([chunk], passage) >= COVERED_FROM]
    return {
        "number": number,
        "doc_id": chunk.doc_id,
        "spans": chunk.spans,
        "covers_gold": bool(covers) if known and known.answerable else None,
        "gold_passages": covers,
    }


def _citation_note(citation: dict[str, Any], known: Question | None) -> str:
    """Say in one line what a citation is worth."""
    where = ", ".join(f"{start}-{end}" for start, end in citation["spans"])
    place = f"[{citation['number']}] {citation['doc_id']}, characters {where}"
    if citation["covers_gold"] is None:
        reason = "the documents do not say" if known else "the question is not one of the corpus"
        return f"{place}: no gold to compare with ({reason})"
    covered = ", ".join(citation["gold_passages"])
    return f"{place}: covers gold {covered}" if covered else f"{place}: covers no gold passage"


def _faithful_note(text: str, found: Sequence[Chunk], asked: Question, language: Language) -> str:
    """Say whether every figure of the answer stands in the chunks or the question."""
    if abstains(text, language=language):
        return "abstains: it has no figures to check"
    texts = text, "\n".join(chunk.text for chunk in found), asked.text
    said, read, question = (figures(each, locale=language.locale) for each in texts)
    foreign = said - read - question
    told = ", ".join(f"{value:g}" for value in sorted(foreign))
    return f"figures found nowhere in the chunks: {told}" if foreign else "every figure stands in the chunks"


def _score_note(corpus: Corpus, chunks: Sequence[Chunk], score: float) -> str:
    """Say on which side of the lesson's threshold the best chunk's score lies."""
    rows = baseline_rows(corpus, chunks)
    threshold = median_threshold(rows.loc[~rows["answerable"], "score"])
    if isnan(threshold):
        return ""
    side = "below: it would abstain" if score < threshold else "not below: it would answer"
    return f"score {score:.2f} against the threshold {threshold:.2f} ({side})"
