"""Time chunking against the straightforward way, which looks a section up by searching the text's prefix again.

A report is made 4 and 16 times as long by repeating its sections; the shorter ones are cut several times in a row, so
that every time is of the same amount of text. Then one report of 2 MB, and one paragraph of 2 MB. Times are the best of
several runs; ratios are of times measured in this run. Both ways must give the same chunks.
"""

import re
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from ragfin.chunking import FOOTNOTE_MARKS, Chunk, blocks, chunk_document

SECTION = """## Deuda y liquidez, apartado {n}

La deuda financiera neta cerró el ejercicio en 879,1 millones de euros¹, frente a los 912,4 millones del año anterior.

El plazo medio de los vencimientos es de 4,2 años, y el coste medio, del 3,1 %.

| Vencimiento | Importe (millones de euros) |
|---|---:|
| 2025 | 120,4 |
| 2026 | 310,0 |

La compañía mantiene líneas de crédito sin disponer por 400 millones, repartidas entre seis entidades.

¹ No incluye los pasivos por arrendamiento.

"""
UNIT = 60  # sections of the shortest report, about 30,000 characters
LONGEST = 16
MAX_CHARS = 800


def report(times: int) -> str:
    """Return a report of ``times`` times the shortest one's length."""
    return "# Informe anual\n\n" + "".join(SECTION.format(n=n) for n in range(UNIT * times))


def chunk_by_prefix_search(doc_id: str, title: str, text: str) -> list[Chunk]:
    """Cut a document by the same rules, finding each section by searching the text before it."""
    spans_of_blocks = list(blocks(text))
    notes = {text[start]: (start, end) for start, end in spans_of_blocks if text[start] in FOOTNOTE_MARKS}
    drafts: list[tuple[str, list[tuple[int, int]], bool]] = []
    for start, end in spans_of_blocks:
        if text[start] == "#" or text[start] in FOOTNOTE_MARKS:
            continue
        names = re.findall(r"^#{2,} (.*)", text[:start], re.MULTILINE)
        section = names[-1] if names else ""
        marks = [mark for mark in dict.fromkeys(re.findall(f"[{FOOTNOTE_MARKS}]", text[start:end])) if mark in notes]
        fixed = text[start] == "|" or bool(marks)
        if drafts and not fixed and not drafts[-1][2] and drafts[-1][0] == section:
            opened = drafts[-1][1][0][0]
            if end - opened <= MAX_CHARS:
                drafts[-1][1][0] = (opened, end)
                continue
        drafts.append((section, [(start, end), *(notes[mark] for mark in marks)], fixed))
    return [
        Chunk(
            doc_id, title, section, tuple(spans), "\n\n".join([f"{title} > {section}", *(text[a:b] for a, b in spans)])
        )
        for section, spans, _ in drafts
    ]


def best_of(runs: int, action: Callable[[], Any], *, times: int = 1) -> float:
    """Return the seconds of one action, the best of some runs of so many actions in a row."""
    seconds = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        for _ in range(times):
            action()
        seconds = min(seconds, time.perf_counter() - start)
    return seconds / times


def peak_mib(action: Callable[[], Any]) -> float:
    """Return the memory that an action allocates at most."""
    tracemalloc.start()
    action()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def main() -> None:
    console = Console(width=110)
    table = Table(
        "length", "characters", "ragfin s", "against 1x", "prefix search s", "against 1x", "prefix / ragfin",
        title="Chunking a report",
    )  # fmt: skip
    first: tuple[float, float] | None = None
    for times in (1, 4, LONGEST):
        text = report(times)
        if chunk_document("R", "Informe", text) != chunk_by_prefix_search("R", "Informe", text):
            raise AssertionError("the two ways cut differently")
        ours = best_of(9, lambda text=text: chunk_document("R", "Informe", text), times=LONGEST // times)
        theirs = best_of(1, lambda text=text: chunk_by_prefix_search("R", "Informe", text))
        first = first or (ours, theirs)
        table.add_row(
            f"{times}x",
            f"{len(text):,}",
            f"{ours:.4f}",
            f"{ours / first[0]:.1f}",
            f"{theirs:.3f}",
            f"{theirs / first[1]:.1f}",
            f"{theirs / ours:.0f}",
        )
    console.print(table)
    large = Table("2 MB of text", "chunks", "ragfin s", "peak MiB", title="One large document")
    sections = report(2_000_000 // len(report(1)) + 1)[:2_000_000]
    for name, text in {"a report": sections, "one paragraph": "palabra " * 250_000}.items():
        chunks = chunk_document("R", "Informe", text)
        seconds = best_of(3, lambda text=text: chunk_document("R", "Informe", text))
        peak = peak_mib(lambda text=text: chunk_document("R", "Informe", text))
        large.add_row(name, f"{len(chunks):,}", f"{seconds:.3f}", f"{peak:.0f}")
    console.print(large)


if __name__ == "__main__":
    main()
