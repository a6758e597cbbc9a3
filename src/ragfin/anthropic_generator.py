"""Ask a model of the Anthropic Messages API, through the same `generate` and the same record as a local model.

Without citations it is asked what any model is asked. With them, the prompt is a `CitationPrompt`: whole documents
are sent verbatim and the answer carries citations by offsets, kept in the record as they were returned. The API's
models do not answer the same twice; the record does.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import anthropic

from ragfin.citations import Citation, CitedAnswer, Document, citation_to_json, cite, parse_message
from ragfin.corpus import Corpus, Question
from ragfin.messages_api import KEY_VARIABLE, anthropic_client, redacted
from ragfin.models import ModelError
from ragfin.prompts import Message, Prompt, Request, canonical_json
from ragfin.records import Answer, Finish, Identity
from ragfin.retrieval import Hit

PREFIX = "anthropic:"
MAX_TOKENS = 256

_DOCUMENT = "document"  # the role of a message that carries a document
_SYSTEM = (
    "Eres analista financiero. Responde en español, con una sola frase corta, y usa únicamente los documentos que "
    "recibes, citando el pasaje que respalda la respuesta. Si los documentos no contienen la respuesta, responde "
    "exactamente: No consta."
)
_FINISH: dict[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
_NOBODY_S_ANSWER = (anthropic.AuthenticationError, anthropic.PermissionDeniedError, anthropic.NotFoundError)


@dataclass(frozen=True, slots=True)
class CitationPrompt(Prompt):
    """A prompt that sends whole documents: its fragments are ids of ``documents``, sent verbatim and in that order.

    No ``[n]`` is asked for, so none can be right: a request's ``k`` is 0.
    """

    documents: Mapping[str, Document] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, corpus: Corpus) -> "CitationPrompt":
        """Return the prompt over a corpus's documents."""
        columns = (corpus.documents[name] for name in ("doc_id", "title", "text"))
        return cls(_SYSTEM, documents={row[0]: Document(*row) for row in zip(*columns, strict=True)})

    def request(self, question: Question, fragments: Sequence[str]) -> Request:
        """Return what the API is asked about one question.

        Raises
        ------
        ValueError
            A fragment is no document's id, or there is none.
        """
        if unknown := [fragment for fragment in fragments if fragment not in self.documents]:
            raise ValueError(f"no document {unknown[0][:40]!r}: with citations, contexts hold ids of documents")
        if not fragments:
            raise ValueError(f"question {question.id} has no document to cite: name at least one")
        sent = [canonical_json(self.documents[i]._asdict()).decode() for i in dict.fromkeys(fragments)]
        documents = [Message(_DOCUMENT, content) for content in sent]
        return Request(question.id, (Message("system", self.system), *documents, Message("user", question.text)), 0)


def document_ids(hits: Sequence[Hit]) -> list[str]:
    """Return the documents of some hits, each once, best first: the context that `CitationPrompt` wants."""
    return list(dict.fromkeys(hit.chunk.doc_id for hit in hits))


class AnthropicGenerator:
    """A model of the Messages API as a generator.

    Parameters
    ----------
    model : str
        The API's name of the model, with or without the prefix ``anthropic:``.
    max_tokens : int, optional
        Longest answer, in tokens.
    stream : bool, optional
        Read the answers as streams; a stream that is cut is a failed answer.
    client : anthropic.Anthropic, optional
        By default the official client with the key of ``ANTHROPIC_API_KEY``; it retries rate limits,
        server errors and time-outs by itself.
    """

    block = 1

    def __init__(
        self, model: str, *, max_tokens: int = MAX_TOKENS, stream: bool = False, client: Any | None = None
    ) -> None:
        self.model = model.removeprefix(PREFIX)
        if not self.model:
            raise ModelError(f"{model!r} names no model: write {PREFIX}MODEL")
        self.max_tokens, self.stream, self._given = max_tokens, stream, client

    @property
    def identity(self) -> Identity:
        """Model and settings; weights and arithmetic are the API's own, so their fields say only that."""
        return Identity(PREFIX + self.model, "", "api", {"max_tokens": self.max_tokens})

    @property
    def host(self) -> str:
        """The host that the text goes to."""
        return urlsplit(os.environ.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com").hostname or ""

    @cached_property
    def client(self) -> Any:
        """The client that was given, or one with the key of the environment."""
        return self._given if self._given is not None else anthropic_client()

    def unavailable(self) -> str:
        """Return why the API cannot be asked here, with the repair; empty when it can."""
        if self._given is None and not os.environ.get(KEY_VARIABLE, "").strip():
            return f"{KEY_VARIABLE} is not set; export your key"
        return ""

    def answer(self, request: Request) -> Answer:
        """Answer one question; with citations when the request holds documents.

        Raises
        ------
        ModelError
            No question can be answered: the key is refused, or the model does not exist.
        """
        system = "\n\n".join(m.content for m in request.messages if m.role == "system") or None
        documents = [Document(**json.loads(m.content)) for m in request.messages if m.role == _DOCUMENT]
        turns = [m._asdict() for m in request.messages if m.role in ("user", "assistant")]
        try:
            if documents:
                found = cite(
                    self.client,
                    documents,
                    turns[-1]["content"],
                    model=self.model,
                    max_tokens=self.max_tokens,
                    stream=self.stream,
                    system=system,
                )
            else:
                found = self._plain(turns, system)
        except _NOBODY_S_ANSWER as error:
            raise ModelError(f"{PREFIX}{self.model} cannot be asked: {_one_line(error)}") from None
        except anthropic.APIError as error:
            return Answer.failure(request, f"{type(error).__name__}: {_one_line(error)}")
        return _recorded(request, found)

    def answer_many(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Answer several questions, in their order."""
        yield from map(self.answer, requests)

    def _plain(self, turns: Sequence[Mapping[str, str]], system: str | None) -> CitedAnswer:
        """Ask without documents."""
        options = {} if system is None else {"system": system}
        with redacted(self.client):
            message = self.client.messages.create(
                model=self.model, max_tokens=self.max_tokens, messages=list(turns), **options
            )
        return parse_message(message, ())


def _recorded(request: Request, found: CitedAnswer) -> Answer:
    """Turn what came back into an answer to record: text stripped, the citations' answer spans moved along."""
    n_in, n_out = found.input_tokens or 0, found.output_tokens or 0
    finish = _FINISH.get(found.stop_reason or "")
    if finish is None:
        reason = f"stop reason {found.stop_reason}" if found.stop_reason else "cut off: no stop reason came"
        return Answer.parse(request, "", "failed", prompt_tokens=n_in, completion_tokens=n_out, error=reason)
    answer = Answer.parse(request, found.text, finish, prompt_tokens=n_in, completion_tokens=n_out)
    margin = len(found.text) - len(found.text.lstrip())
    moved = [_moved(citation, margin, len(answer.text)) for citation in found.citations]
    return replace(answer, citations=tuple(citation_to_json(citation) for citation in moved))


def _moved(citation: Citation, margin: int, length: int) -> Citation:
    """Return a citation with its answer span counted from the first character that is not white space."""
    first, last = (min(max(offset - margin, 0), length) for offset in citation.answer_span)
    return replace(citation, answer_span=(first, last))


def _one_line(error: anthropic.APIError) -> str:
    """Return what the API said, on one line."""
    return " ".join(str(getattr(error, "api_message", None) or error.message).split())
