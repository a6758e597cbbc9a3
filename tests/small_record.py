"""Answers to the questions of the small corpus, and a record of them as a model would have left it."""

from collections.abc import Collection
from pathlib import Path

from ragfin.corpus import load_corpus
from ragfin.generation import RAG_PROMPT, Answer, Identity, answer_key
from ragfin.records import AnswerRecord
from ragfin.runs import fragments

TEXTS = {
    "QA001": "El margen fue del 20,5 % [1].",
    "QA002": "312,4 millones [1].",
    "QA003": "No consta.",
    "QA004": "704 personas [2].",
    "QA005": "16 [3]",
    "QA006": "No consta.",
    "QA007": "Sí, semestral [1].",
    "QA008": "0,20 % [1]",
}


def write_record(
    path: Path,
    folder: Path,
    texts: dict[str, str],
    model: str = "endpoint/small",
    *,
    context: str = "retrieved",
    k: int = 3,
    failed: Collection[str] = (),
) -> Path:
    """Record answers to the small corpus; an empty text and those named as failed are failed generations."""
    corpus, identity = load_corpus(folder), Identity(model, "0" * 64, "float32", {})
    questions = [corpus.question(question_id) for question_id in texts]
    given = fragments(corpus, questions, context=context, k=k)
    with AnswerRecord(path).writing() as record:
        for question in questions:
            request = RAG_PROMPT.request(question, [chunk.text for chunk in given[question.id]])
            ended = "failed" if question.id in failed or not texts[question.id] else "stop"
            answer = Answer.parse(request, texts[question.id], ended)
            record.append(answer_key(identity, request.messages), identity, request, answer)
    return path
