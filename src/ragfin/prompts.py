"""What a model is asked: the prompt as one frozen object, in Spanish as the corpus is, or in English.

A prompt turns a question and its numbered fragments into chat messages; the model's own chat template is applied
later, by the generator. Nothing here knows a model.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

from ragfin.corpus import Corpus, Question

_HEADING_LINE = re.compile(r"^#{2,} (.*)", re.MULTILINE)


class Message(NamedTuple):
    """One chat message; ``role`` is ``system``, ``user`` or ``assistant``."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Request:
    """What a generator gets: whose question it is, the messages, and how many fragments ``k`` can be cited."""

    question_id: str
    messages: tuple[Message, ...]
    k: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """A system message and the labels of the user message.

    The user message holds the fragments, each as ``[n]`` and its text, blank lines between; a blank line; the question
    after its label; a newline and the open answer label. Without fragments it begins with the question.
    """

    system: str
    question_label: str = "Pregunta: "
    answer_label: str = "Respuesta:"

    @property
    def sha256(self) -> str:
        """SHA-256 over everything that the prompt consists of, in hexadecimal."""
        return hashlib.sha256(canonical_json(asdict(self))).hexdigest()

    def user_message(self, question: str, fragments: Sequence[str]) -> str:
        r"""Return the content of the user message.

        Examples
        --------
        >>> RAG_PROMPT.user_message("¿Qué deuda hay?", ["A > B\n\nDeuda: 3.", "A > C\n\nNo hay."])
        '[1] A > B\n\nDeuda: 3.\n\n[2] A > C\n\nNo hay.\n\nPregunta: ¿Qué deuda hay?\nRespuesta:'
        """
        numbered = [f"[{n}] {text}" for n, text in enumerate(fragments, start=1)]
        return "\n\n".join([*numbered, f"{self.question_label}{question}\n{self.answer_label}"])

    def request(self, question: Question, fragments: Sequence[str]) -> Request:
        """Return what a generator is asked about one question."""
        messages = (Message("system", self.system), Message("user", self.user_message(question.text, fragments)))
        return Request(question.id, messages, len(fragments))


RAG_PROMPT = Prompt(
    "Eres analista financiero. Responde en español, con una sola frase corta, y usa únicamente los fragmentos "
    "numerados que recibes. Termina la frase con el número del fragmento que la respalda, entre corchetes. "
    "Si los fragmentos no contienen la respuesta, responde exactamente: No consta.\n"
    "\n"
    "Ejemplo:\n"
    "\n"
    "[1] Aceros Lumbre, S.A. — Informe anual 2019 > Plantilla\n"
    "\n"
    "La plantilla media del ejercicio fue de 312 personas.\n"
    "\n"
    "[2] Aceros Lumbre, S.A. — Informe anual 2019 > Inversiones\n"
    "\n"
    "La compañía invirtió 48,6 millones de euros, sobre todo en el horno eléctrico.\n"
    "\n"
    "Pregunta: ¿Cuánto invirtió Aceros Lumbre en 2019?\n"
    "Respuesta: Aceros Lumbre invirtió 48,6 millones de euros [2]."
)
"""Financial analyst: one short sentence from the fragments, the fragment's number, or ``No consta.``."""

CLOSED_BOOK_PROMPT = Prompt(
    "Eres analista financiero. Responde en español, con una sola frase corta, con lo que sabes: no tienes ningún "
    "documento delante. Si no sabes la respuesta, responde exactamente: No consta.\n"
    "\n"
    "Ejemplo:\n"
    "\n"
    "Pregunta: ¿En qué moneda presenta sus cuentas Aceros Lumbre?\n"
    "Respuesta: No consta."
)
"""The same without fragments: what the model says of its own knowledge."""

ENGLISH_RAG_PROMPT = Prompt(
    "You are a financial analyst. Answer in English, in one short sentence, using only the numbered fragments that "
    "you are given. End the sentence with the number of the fragment that supports it, in square brackets. "
    "If the fragments do not hold the answer, reply exactly: Not stated.\n"
    "\n"
    "Example:\n"
    "\n"
    "[1] Lumbre Steel plc — Annual report 2019 > Staff\n"
    "\n"
    "The average number of employees in the year was 312.\n"
    "\n"
    "[2] Lumbre Steel plc — Annual report 2019 > Capital expenditure\n"
    "\n"
    "The company invested £48.6 million, most of it in the electric furnace.\n"
    "\n"
    "Question: How much did Lumbre Steel invest in 2019?\n"
    "Answer: Lumbre Steel invested £48.6 million [2].",
    "Question: ",
    "Answer:",
)
"""`RAG_PROMPT` for English documents and questions."""

ENGLISH_CLOSED_BOOK_PROMPT = Prompt(
    "You are a financial analyst. Answer in English, in one short sentence, from what you know: you have no document "
    "before you. If you do not know the answer, reply exactly: Not stated.\n"
    "\n"
    "Example:\n"
    "\n"
    "Question: In which currency does Lumbre Steel report?\n"
    "Answer: Not stated.",
    "Question: ",
    "Answer:",
)
"""`CLOSED_BOOK_PROMPT` for English questions."""


def gold_fragments(corpus: Corpus, question: Question) -> list[str]:
    """Return the raw text of a question's gold passages, each under its ``title > section`` header.

    Returns
    -------
    list of str
        In the order of ``question.gold_passages``; empty for an unanswerable question.
    """
    documents = {
        doc_id: (title, text)
        for doc_id, title, text in zip(
            corpus.documents["doc_id"], corpus.documents["title"], corpus.documents["text"], strict=True
        )
    }
    fragments = []
    for passage in question.gold_passages:
        title, text = documents[passage.doc_id]
        sections = [line[1] for line in _HEADING_LINE.finditer(text) if line.start() <= passage.start]
        header = f"{title} > {sections[-1] if sections else ''}"
        fragments.append(f"{header}\n\n{text[passage.start : passage.end]}")
    return fragments


def canonical_json(value: Mapping[str, object]) -> bytes:
    """Return the one spelling of a JSON object that is hashed: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
