"""What a context costs: the tokens of every user message (its content, no chat template)."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ragfin.chunking import chunk_corpus
from ragfin.corpus import Corpus
from ragfin.local_llm import find_weights, unpack_gguf
from ragfin.prompts import RAG_PROMPT, Prompt
from ragfin.retrieval import BM25Retriever

TOKEN_COUNT_KS = (1, 2, 3, 5)


def count_tokens(
    corpus: Corpus, model: str | Path, *, ks: Sequence[int] = TOKEN_COUNT_KS, prompt: Prompt = RAG_PROMPT
) -> pd.DataFrame:
    """Count the tokens of every question's user message with a model's tokenizer.

    Parameters
    ----------
    corpus : Corpus
        Its chunks are retrieved by BM25.
    model : str or Path
        Whose tokenizer counts; the one of a GGUF file lies in it and is unpacked on first use.
    ks : sequence of int, optional
        Numbers of fragments.
    prompt : Prompt, optional
        Writes the message.

    Returns
    -------
    DataFrame
        ``question_id, k, tokens``; questions in file order, each with every k.
    """
    from tokenizers import Tokenizer

    weights = find_weights(model)
    folder = unpack_gguf(weights) if weights.path.suffix == ".gguf" else weights.path
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    questions = list(corpus)
    found = BM25Retriever(chunk_corpus(corpus)).search_many([q.text for q in questions], k=max(ks))
    rows = [
        (question.id, k, prompt.user_message(question.text, [hit.chunk.text for hit in hits[:k]]))
        for question, hits in zip(questions, found, strict=True)
        for k in ks
    ]
    encoded = tokenizer.encode_batch([message for _, _, message in rows], add_special_tokens=False)
    return pd.DataFrame(
        [(question_id, k, len(tokens.ids)) for (question_id, k, _), tokens in zip(rows, encoded, strict=True)],
        columns=["question_id", "k", "tokens"],
    )
