"""Outgrowing one process: executors give the same bytes as the serial run, and chunking streams."""

import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ragfin.chunking import chunk_corpus, chunk_document, chunk_documents
from ragfin.evaluation import evaluate, summarize
from ragfin.records import Answer
from ragfin.retrieval import BM25Retriever
from ragfin.streaming import chunk_to_parquet, read_chunks, read_documents

SECTION = "## Apartado {n}\n\nLa deuda era de {n},5 millones¹.\n\n| a | b |\n|---|---|\n| {n} | 2 |\n\n¹ Nota {n}.\n\n"


@pytest.fixture(scope="module")
def executors():
    """Give a process pool and a Dask cluster of processes, both of two workers."""
    distributed = pytest.importorskip("distributed", reason="dask is not installed: pip install 'ragfin[dask]'")
    with ProcessPoolExecutor(2) as pool, distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1", memory_limit=0
    ) as cluster, distributed.Client(cluster) as client:  # fmt: skip
        yield {"process pool": pool, "Dask": client.get_executor(pure=False)}


def documents(n: int, sections: int = 40) -> list[tuple[str, str, str]]:
    return [(f"R{i:04d}", f"Informe {i}", "".join(SECTION.format(n=n) for n in range(i % 7, sections)))
            for i in range(n)]  # fmt: skip


@pytest.mark.server
@pytest.mark.parametrize("name", ["process pool", "Dask"])
def test_an_executor_gives_the_same_chunks_and_the_same_file(executors, name, tmp_path, monkeypatch, small_corpus):
    monkeypatch.setattr("ragfin.chunking._BLOCK_CHARS", 5000)
    executor = executors[name]
    assert chunk_corpus(small_corpus, executor=executor) == chunk_corpus(small_corpus)
    pd.DataFrame(documents(200), columns=["doc_id", "title", "text"]).to_parquet(tmp_path / "documents.parquet")
    n = chunk_to_parquet(tmp_path / "documents.parquet", tmp_path / "serial.parquet")
    assert chunk_to_parquet(tmp_path / "documents.parquet", tmp_path / "parallel.parquet", executor=executor) == n
    assert (tmp_path / "serial.parquet").read_bytes() == (tmp_path / "parallel.parquet").read_bytes()


@pytest.mark.server
@pytest.mark.parametrize("name", ["process pool", "Dask"])
def test_an_executor_gives_the_same_rows(executors, name, small_corpus):
    retriever = BM25Retriever(chunk_corpus(small_corpus))
    contexts = {q.id: [hit.chunk for hit in retriever.search(q.text)] for q in small_corpus}
    answers = [Answer(q.id, f"{q.gold_answer} [1]", (1,), "stop") for q in small_corpus]
    serial = evaluate(small_corpus, answers, contexts, system="gold")
    parallel = evaluate(small_corpus, answers, contexts, system="gold", executor=executors[name], block=3)
    assert serial.to_csv() == parallel.to_csv()
    assert summarize(serial).to_csv() == summarize(parallel).to_csv()


def test_chunks_survive_the_file(tmp_path):
    made = documents(30)
    pd.DataFrame(made, columns=["doc_id", "title", "text"]).to_parquet(tmp_path / "documents.parquet")
    n = chunk_to_parquet(tmp_path / "documents.parquet", tmp_path / "chunks.parquet")
    expected = [chunk for document in made for chunk in chunk_document(*document)]
    assert n == len(expected) > 1000
    assert list(read_chunks(tmp_path / "chunks.parquet")) == expected


def test_documents_are_read_only_as_chunks_are_taken():
    read = []

    def source():
        for document in documents(1000, sections=10):
            read.append(document[0])
            yield document

    chunks = chunk_documents(source())
    next(chunks)
    assert read == ["R0000"]


def test_an_executor_is_not_handed_the_whole_corpus_at_once(monkeypatch):
    monkeypatch.setattr("ragfin.chunking._BLOCK_CHARS", 1)
    read = []

    def source():
        for document in documents(1000, sections=10):
            read.append(document[0])
            yield document

    with ThreadPoolExecutor(1) as pool:
        chunks = chunk_documents(source(), executor=pool)
        next(chunks)
        assert len(read) == 16
        chunks.close()


def test_chunking_to_parquet_needs_far_less_memory_than_the_corpus(tmp_path):
    """60 MB of text in one row group; the process may grow by half as much over what its imports take."""
    text = "".join(f"## Apartado {n}\n\n{'palabra ' * 90}\n\n" for n in range(600))
    schema = pa.schema([("doc_id", pa.string()), ("title", pa.string()), ("text", pa.large_string())])
    n = 60_000_000 // len(text)
    with pq.ParquetWriter(tmp_path / "documents.parquet", schema, use_dictionary=False) as writer:
        rows = [{"doc_id": f"R{i}", "title": "Informe", "text": f"{i} {text}"} for i in range(n)]
        writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    script = """
import resource, sys
from ragfin.streaming import chunk_to_parquet
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
chunks = chunk_to_parquet(sys.argv[1], sys.argv[2])
print(chunks, (peak() - before) / 1024)
"""
    command = [sys.executable, "-c", script, str(tmp_path / "documents.parquet"), str(tmp_path / "chunks.parquet")]
    chunks, grown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert int(chunks) == pq.ParquetFile(tmp_path / "chunks.parquet").metadata.num_rows
    assert float(grown) < 30


def test_a_failed_run_leaves_no_half_file(tmp_path):
    pd.DataFrame({"doc_id": ["R1", "R2"], "title": ["a", "b"], "text": ["uno", None]}).to_parquet(
        tmp_path / "d.parquet"
    )
    with pytest.raises(ValueError, match="row 2 has an empty cell"):
        chunk_to_parquet(tmp_path / "d.parquet", tmp_path / "chunks.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.parquet"]


def test_the_lesson_s_column_names_are_read_too(tmp_path):
    pd.DataFrame({"id_doc": ["R1"], "titulo": ["a"], "texto": ["uno"]}).to_parquet(tmp_path / "d.parquet")
    assert list(read_documents(tmp_path / "d.parquet")) == [("R1", "a", "uno")]


def test_another_table_is_refused(tmp_path):
    pd.DataFrame({"id": [1]}).to_parquet(tmp_path / "d.parquet")
    with pytest.raises(ValueError, match="has no column id_doc, titulo, texto: it needs doc_id, title and text"):
        list(read_documents(tmp_path / "d.parquet"))


def test_ten_thousand_questions_are_evaluated_in_order(loaded, tables_of):
    rows = [(f"QA{i:05d}", "R01", f"¿Cuánto es el dato {i}?", f"{i},5", "texto", "R01-p001") for i in range(10_000)]
    corpus = loaded(tables_of({"R01": "Datos del 0,5 al 9999,5."}, rows))
    chunks = chunk_corpus(corpus)
    answers = [Answer(q.id, f"{q.gold_answer} [1]", (1,), "stop") for q in corpus]
    measured = evaluate(corpus, answers, {q.id: chunks for q in corpus})
    assert measured["question_id"].tolist() == [row[0] for row in rows]
    assert measured["exact"].mean() == 1
    assert measured["faithful"].sum() == 2  # 0,5 and 9999,5 alone are written in the document
