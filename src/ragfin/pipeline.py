"""From the settings of a corpus to its parts: chunks, retriever, prompt, generator.

Whatever has ``search`` is a retriever and whatever has ``answer`` is a generator; the settings name one of yours as
``module:name``. Nothing is loaded or asked here.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name

from ragfin.chunking import Chunk, chunk_corpus
from ragfin.corpus import Corpus
from ragfin.endpoints import EndpointGenerator
from ragfin.generation import Generator, TransformersGenerator
from ragfin.local_llm import Decoding
from ragfin.prompts import (
    CLOSED_BOOK_PROMPT,
    ENGLISH_CLOSED_BOOK_PROMPT,
    ENGLISH_RAG_PROMPT,
    RAG_PROMPT,
    Prompt,
)
from ragfin.retrieval import BM25Retriever, Hit, Retriever
from ragfin.settings import ModelSettings, Settings

_PROMPTS = {
    ("es", False): RAG_PROMPT,
    ("es", True): CLOSED_BOOK_PROMPT,
    ("en", False): ENGLISH_RAG_PROMPT,
    ("en", True): ENGLISH_CLOSED_BOOK_PROMPT,
}


def chunks_of(corpus: Corpus) -> list[Chunk]:
    """Return the chunks of a corpus, no longer than its settings say."""
    return chunk_corpus(corpus, corpus.settings.max_chars)


def retriever_of(corpus: Corpus, chunks: Sequence[Chunk] | None = None) -> Retriever:
    """Return the retriever that the settings name, over the chunks of the corpus.

    Raises
    ------
    ValueError
        The settings name a module or something in it that cannot be imported.
    """
    chunks = chunks_of(corpus) if chunks is None else chunks
    name = corpus.settings.retriever
    if name == "bm25":
        return BM25Retriever(chunks, stop_words=corpus.language.stop_words)
    retriever: Retriever = _import(name)(chunks)
    if not hasattr(retriever, "search"):
        raise ValueError(f"retriever {name!r} has no search(question, k): see ragfin.retrieval.Retriever")
    return retriever


def search_all(retriever: Retriever, questions: Sequence[str], k: int) -> list[list[Hit]]:
    """Return the k best chunks of each question, together where the retriever can."""
    if isinstance(retriever, BM25Retriever):
        return retriever.search_many(questions, k)
    return [retriever.search(question, k) for question in questions]


def prompt_of(settings: Settings, *, closed_book: bool = False) -> Prompt:
    """Return the prompt of the settings, or of their language; without fragments for a closed book.

    Examples
    --------
    >>> prompt_of(Settings()) == RAG_PROMPT, prompt_of(Settings(language="en")).answer_label
    (True, 'Answer:')
    """
    base, given = _PROMPTS[settings.language.base, closed_book], settings.prompt
    if given is None or closed_book:
        return base
    labels = {"question_label": given.question_label, "answer_label": given.answer_label}
    return replace(base, system=given.system, **{name: label for name, label in labels.items() if label is not None})


def generator_of(model: ModelSettings) -> Generator:
    """Return the generator that the settings describe: an endpoint, a local model, or ``module:name`` of your own.

    Raises
    ------
    ValueError
        A module or something in it cannot be imported.
    """
    if model.url is not None:
        return EndpointGenerator.of(model)
    if ":" in model.name and not Path(model.name).exists():
        generator: Generator = _import(model.name)()
        return generator
    return TransformersGenerator(model.name, decoding=Decoding(max_new_tokens=model.max_tokens))


def _import(name: str):  # type: ignore[no-untyped-def]  # whatever the module holds
    """Return what a ``module:name`` stands for; modules of the working directory are found too."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        return resolve_name(name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"cannot import {name!r} ({error}): write module:name, importable from here") from None
