"""Measure RAG over financial documents: coverage, accuracy, faithfulness, citation, abstention."""

from ragfin.corpus import Corpus, CorpusError, Passage, Question, load_corpus

__all__ = ["Corpus", "CorpusError", "Passage", "Question", "load_corpus"]
__version__ = "0.1.0"
