"""Rewrite the tables of the data card that hold numbers, from the committed tables.

Run ``python data/update_card.py`` after building the corpus. Prose is left alone.
"""

from pathlib import Path

from build_corpus import content_hash

from ragfin import Corpus, load_corpus
from ragfin.chunking import chunk_corpus
from ragfin.extraction import baseline_report

HERE = Path(__file__).resolve().parent
Row = list[str]

PLACES = {
    "texto": "a paragraph",
    "tabla": "a table",
    "nota_pie": "a footnote",
    "texto_y_nota": "a paragraph, explained by its footnote",
    "tabla_y_nota": "a table, explained by its footnote",
    "calculo": "two or more places, and has to be computed",
    "comparacion": "two companies, funds or years, and has to be compared",
    "no_respondible": "no document",
}
PUBLISHED = {
    "coverage": "0.873",
    "chunk": "0.772",
    "line": "0.545",
    "line_exact": "0.382",
    "citation": "0.707",
    "coverage at k = 1": "0.688",
    "coverage at k = 2": "0.787",
    "coverage at k = 3": "0.873",
    "coverage at k = 5": "0.892",
    "AUC of the score": "0.742",
    "threshold": "9.39",
    "abstains, unanswerable": "8",
    "abstains, answerable": "16",
}
PUBLISHED_BY_KIND = {
    "calculo": ("0.00", "0.00", "0.00", "0.00"),
    "comparacion": ("0.11", "0.00", "0.00", "0.14"),
    "nota_pie": ("0.75", "1.00", "0.50", "0.50"),
    "tabla": ("0.88", "0.67", "0.20", "0.67"),
    "tabla_y_nota": ("1.00", "0.92", "0.38", "0.54"),
    "texto": ("0.99", "0.84", "0.75", "0.81"),
    "texto_y_nota": ("0.75", "1.00", "1.00", "1.00"),
}


def card_tables(corpus: Corpus) -> dict[str, list[Row]]:
    """Return the body rows of each numeric table of the card, by its heading."""
    chunks = chunk_corpus(corpus)
    report = baseline_report(corpus, chunks)
    documents, passages, questions = corpus.documents, corpus.passages, corpus.questions
    own = [
        *(f"{report[name]:.3f}" for name in ("coverage", "chunk", "line", "line_exact", "citation")),
        *(f"{value:.3f}" for value in report["coverage_at"].values()),
        f"{report['auc']:.3f}",
        f"{report['threshold']:.3f}",
        str(report["abstains_unanswerable"]),
        str(report["abstains_answerable"]),
    ]
    kinds = questions["kind"].value_counts()
    return {
        "Documents": [
            [
                doc_id,
                title,
                str((passages["doc_id"] == doc_id).sum()),
                str(sum(chunk.doc_id == doc_id for chunk in chunks)),
                str((questions["doc_id"] == doc_id).sum()),
            ]
            for doc_id, title in zip(documents["doc_id"], documents["title"], strict=True)
        ],
        "Questions": [[kind, str(kinds[kind]), place] for kind, place in PLACES.items()],
        "Calibration": [[name, value, mine] for (name, value), mine in zip(PUBLISHED.items(), own, strict=True)],
        "By kind": [
            [kind, str(row["n"])]
            + [
                f"{published} / {row[name]:.2f}"
                for published, name in zip(
                    PUBLISHED_BY_KIND[kind], ("coverage", "chunk", "line", "citation"), strict=True
                )
            ]
            for kind, row in report["by_kind"].items()
        ],
        "Checksums": [
            [f"`{name}`", f"`{content_hash(table)}`"]
            for name, table in (("documents", documents), ("passages", passages), ("questions", questions))
        ],
    }


def update(card: str, tables: dict[str, list[Row]]) -> str:
    """Return the card with the body rows of the tables replaced; header rows and prose stay."""
    lines: list[str] = []
    heading, seen = "", 0
    for line in card.splitlines():
        heading = line.removeprefix("## ") if line.startswith("## ") else heading
        seen = seen + 1 if line.startswith("|") else 0
        if heading in tables and seen > 2:
            continue
        lines.append(line)
        if heading in tables and seen == 2:
            lines += [f"| {' | '.join(row)} |" for row in tables[heading]]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    path = HERE / "README.md"
    path.write_text(update(path.read_text(encoding="utf-8"), card_tables(load_corpus(HERE))), encoding="utf-8")
