"""Time two processes against one: chunking and evaluating through a process pool and a local Dask cluster.

Every way must give the serial run's result; times are the best of several runs, ratios are of times measured in this
run. Then two peaks of memory, each in a process of its own: retrieval over 100,000 chunks, and chunking to Parquet a
table that is larger than what the process may grow by.
"""

import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from ragfin.chunking import Chunk, chunk_documents
from ragfin.corpus import Passage, Question
from ragfin.evaluation import evaluate
from ragfin.records import Answer
from ragfin.retrieval import BM25Retriever
from ragfin.streaming import chunk_to_parquet

WORKERS = 2
N_DOCUMENTS, N_SECTIONS = 16, 2_000
N_ANSWERS = 6_000
N_CHUNKS = 100_000
BIG_BYTES = 150_000_000
LIMIT_MIB = 2048
SECTION = (
    "## Apartado {n}\n\nLa deuda financiera neta cerró el ejercicio en {n},5 millones de euros¹, frente a los 912,4 "
    "millones del año anterior; el plazo medio es de 4,2 años y el coste medio del 3,1 %.\n\n"
    "| Vencimiento | Importe |\n|---|---:|\n| 2025 | {n},4 |\n\n¹ No incluye los pasivos por arrendamiento.\n\n"
)


def text(sections: int, first: int = 0) -> str:
    """Return a report of so many sections."""
    return "".join(SECTION.format(n=n) for n in range(first, first + sections))


def best_of(runs: int, action: Callable[[], Any]) -> tuple[float, Any]:
    """Return the shortest time and the result."""
    times, result = [], None
    for _ in range(runs):
        started = time.perf_counter()
        result = action()
        times.append(time.perf_counter() - started)
    return min(times), result


@contextmanager
def executors() -> Iterator[dict[str, Executor]]:
    """Give the executors to compare, their workers started."""
    from distributed import Client, LocalCluster

    with ProcessPoolExecutor(WORKERS) as pool, LocalCluster(
        n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, host="127.0.0.1", memory_limit=0
    ) as cluster, Client(cluster) as client:  # fmt: skip
        found = {"process pool": pool, "Dask": client.get_executor(pure=False)}
        for executor in found.values():
            list(executor.map(abs, range(2 * WORKERS)))
        yield found


def compare(title: str, work: Callable[[Executor | None], Any], found: dict[str, Executor]) -> Table:
    """Return a table of the serial run and the others; raise when one gives another result."""
    table = Table("way", "seconds", "serial / it", title=f"{title}, {WORKERS} workers")
    serial, expected = best_of(2, lambda: work(None))
    table.add_row("serial", f"{serial:.2f}", "1.00")
    for name, executor in found.items():
        seconds, result = best_of(2, lambda executor=executor: work(executor))
        if result != expected:
            raise AssertionError(f"{title}: {name} gives another result than the serial run")
        table.add_row(name, f"{seconds:.2f}", f"{serial / seconds:.2f}")
    return table


def questions_and_answers() -> tuple[list[Question], list[Answer], dict[str, list[Chunk]]]:
    """Return many questions with three chunks each and an answer that cites one."""
    made = list(chunk_documents([("R01", "Informe", text(N_SECTIONS))]))
    gold = (Passage("p1", "R01", *made[0].spans[0]),)
    ids = [f"Q{n:05d}" for n in range(N_ANSWERS)]
    questions = [Question(i, "R01", "¿Qué deuda había en 2023?", "912,4 millones", "texto", True, gold) for i in ids]
    answers = [Answer(i, f"Eran {n},5 millones, antes 912,4 [2].", (2,), "stop") for n, i in enumerate(ids)]
    drawn = random.Random(0)
    return questions, answers, {i: drawn.sample(made, 3) for i in ids}


def retrieval_peak() -> None:
    """Print the peak of memory, in MiB, of searching 100,000 chunks of about 400 characters for 263 questions."""
    drawn = random.Random(0)
    vocabulary = [f"palabra{n}" for n in range(50_000)]
    weights = list(accumulate(1 / (n + 1) for n in range(len(vocabulary))))
    chunks = [
        Chunk(
            f"R{n // 100}",
            "Informe",
            "Sección",
            ((0, 1),),
            " ".join(drawn.choices(vocabulary, cum_weights=weights, k=40)),
        )
        for n in range(N_CHUNKS)
    ]
    asked = [" ".join(drawn.choices(vocabulary, cum_weights=weights, k=12)) for _ in range(263)]
    BM25Retriever(chunks).search_many(asked, 3)
    print(peak_mib())


def streaming_growth(folder: str) -> None:
    """Print by how much chunking to Parquet made the process grow, in MiB."""
    before = peak_mib()
    chunk_to_parquet(Path(folder, "documents.parquet"), Path(folder, "chunks.parquet"))
    print(peak_mib() - before)


def peak_mib() -> float:
    """Return this process's peak of resident memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_a_process(*arguments: str) -> float:
    """Run this file with arguments in a process of its own, and return the number that it prints."""
    command = [sys.executable, __file__, *arguments]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def write_big_table(folder: Path) -> float:
    """Write a table of documents to stream, one row at a time; return the size of its text in MiB."""
    schema = pa.schema([("doc_id", pa.string()), ("title", pa.string()), ("text", pa.large_string())])
    written = number = 0
    with pq.ParquetWriter(folder / "documents.parquet", schema, use_dictionary=False) as writer:
        while written < BIG_BYTES:
            long = text(N_SECTIONS, number * N_SECTIONS)
            writer.write_table(pa.Table.from_pydict({"doc_id": [f"R{number}"], "title": ["I"], "text": [long]}, schema))
            written, number = written + len(long.encode()), number + 1
    return written / 2**20


def main() -> None:
    """Print the tables."""
    console = Console(width=110)
    documents = [(f"R{n}", f"Informe {n}", text(N_SECTIONS, n)) for n in range(N_DOCUMENTS)]
    questions, answers, contexts = questions_and_answers()
    with executors() as found:
        size = sum(len(document[2]) for document in documents) / 1e6
        console.print(
            compare(
                f"Chunking {size:.0f} million characters", lambda e: list(chunk_documents(documents, executor=e)), found
            )
        )
        console.print(
            compare(
                f"Evaluating {N_ANSWERS:,} answers",
                lambda e: evaluate(questions, answers, contexts, executor=e, block=500).to_csv(),
                found,
            )
        )
    memory = Table("what", "peak MiB", "limit MiB", title="Memory")
    peak = in_a_process("retrieval")
    memory.add_row(f"retrieval over {N_CHUNKS:,} chunks, the whole process", f"{peak:.0f}", str(LIMIT_MIB))
    with tempfile.TemporaryDirectory() as folder:
        size = write_big_table(Path(folder))
        grown = in_a_process("streaming", folder)
    memory.add_row(f"chunking {size:.0f} MiB of text to Parquet, growth", f"{grown:.0f}", f"{size / 2:.0f}")
    console.print(memory)
    if peak > LIMIT_MIB or grown > size / 2:
        raise SystemExit("a limit of memory is passed")


if __name__ == "__main__":
    if sys.argv[1:2] == ["retrieval"]:
        retrieval_peak()
    elif sys.argv[1:2] == ["streaming"]:
        streaming_growth(sys.argv[2])
    else:
        main()
