"""Build the three tables of the corpus from ``data/source``: facts (TOML) through templates (Jinja2).

A template renders to blocks with a blank line between them; a block may open with a line ``@label``, which
names it for the questions and is not part of the text. The document's text is put together block by block,
and each block's offsets are recorded while it is put together, never searched for afterwards.

Run ``python data/build_corpus.py`` (or ``ragfin corpus build``); the same source gives the same content every time.
"""

import argparse
import hashlib
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

HERE = Path(__file__).resolve().parent
NO_ANSWER = "No consta"
MONTHS = (
    "enero",
    "febrero",
    "marzo",
    "abril",
    "mayo",
    "junio",
    "julio",
    "agosto",
    "septiembre",
    "octubre",
    "noviembre",
    "diciembre",
)


class SourceError(ValueError):
    """The source does not describe a corpus; the message names the file, the fault and the repair."""


@dataclass
class Document:
    """One rendered document: its text, its blocks' spans and the labels of the blocks that have one."""

    id: str
    title: str
    kind: str
    issuer: str
    year: int
    text: str
    context: dict[str, Any]
    spans: list[tuple[int, int]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)  # label -> position in spans

    def passage_id(self, label: str) -> str:
        """Return the id of the passage that a label names."""
        if label not in self.labels:
            raise SourceError(f"{self.id}: no block is labelled @{label}; labels are {', '.join(sorted(self.labels))}")
        return f"{self.id}-p{self.labels[label] + 1:03d}"


def build(source: str | Path = HERE / "source", out: str | Path = HERE) -> dict[str, str]:
    """Render the source and write the three tables.

    Parameters
    ----------
    source : path, optional
        Folder with ``corpus.toml``, ``facts/``, ``templates/`` and ``questions/``.
    out : path, optional
        Folder for ``documents.parquet``, ``passages.parquet`` and ``questions.csv``.

    Returns
    -------
    dict
        Table name to the SHA-256 of its content (not of the file: Parquet files carry their writer's version).

    Raises
    ------
    SourceError
        A template, a label or a question does not fit; the message names it.
    """
    tables = render(source)
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    tables["documents"].to_parquet(out / "documents.parquet", index=False)
    tables["passages"].to_parquet(out / "passages.parquet", index=False)
    tables["questions"].to_csv(out / "questions.csv", index=False, lineterminator="\n")
    return {name: content_hash(table) for name, table in tables.items()}


def render(source: str | Path = HERE / "source") -> dict[str, pd.DataFrame]:
    """Return the three tables as frames, without writing anything."""
    documents = render_documents(source)
    return {
        "documents": pd.DataFrame(
            [(d.id, d.title, d.text, d.kind, d.issuer, d.year) for d in documents.values()],
            columns=["doc_id", "title", "text", "kind", "issuer", "year"],
        ),
        "passages": pd.DataFrame(
            [
                (f"{d.id}-p{number:03d}", d.id, start, end)
                for d in documents.values()
                for number, (start, end) in enumerate(d.spans, 1)
            ],
            columns=["passage_id", "doc_id", "start", "end"],
        ),
        "questions": _questions(Path(source), documents),
    }


def render_documents(source: str | Path = HERE / "source") -> dict[str, Document]:
    """Render every document that ``corpus.toml`` lists, in its order."""
    source = Path(source)
    templates = _environment(source)
    contexts = {entry["id"]: _context(source, entry) for entry in _load(source / "corpus.toml")["document"]}
    for context in contexts.values():
        context["docs"] = contexts
    return {doc_id: _document(templates, context) for doc_id, context in contexts.items()}


def content_hash(table: pd.DataFrame) -> str:
    """Return the SHA-256 of a table's content, written as CSV."""
    return hashlib.sha256(table.to_csv(index=False, lineterminator="\n").encode()).hexdigest()


def es(value: Decimal | int | float | str, places: int = 1, *, sign: bool = False) -> str:
    """Write a number as Spanish does: period for thousands, comma for decimals, rounded half up.

    >>> es(Decimal("13668.94"), 1), es(-2), es(Decimal("2.25"), 1, sign=True)
    ('13.668,9', '-2,0', '+2,3')
    """
    quantum = Decimal(1).scaleb(-places)
    number = Decimal(str(value)).quantize(quantum, rounding=ROUND_HALF_UP)
    text = f"{number:{'+' if sign else ''},.{places}f}"
    return text.translate(str.maketrans(",.", ".,"))


def growth(now: Decimal, before: Decimal) -> Decimal:
    """Return the change from one value to the next, in per cent."""
    return (Decimal(now) / Decimal(before) - 1) * 100


def ratio(part: Decimal, whole: Decimal) -> Decimal:
    """Return a part of a whole, in per cent."""
    return Decimal(part) / Decimal(whole) * 100


def _environment(source: Path) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(source / "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
    )
    environment.filters["es"] = es
    environment.globals |= {
        "growth": growth,
        "ratio": ratio,
        "abs": abs,
        "D": Decimal,
        "round": round,
        "months": MONTHS,
    }
    return environment


def _context(source: Path, entry: dict[str, Any]) -> dict[str, Any]:
    """Merge a document's facts files, in order, and its entry in ``corpus.toml`` on top."""
    context: dict[str, Any] = {}
    for name in entry.get("facts", []):
        context |= _load(source / "facts" / name)
    return context | entry


def _document(templates: jinja2.Environment, context: dict[str, Any]) -> Document:
    title = templates.from_string(context["title"]).render(context)
    context["title"] = title
    try:
        rendered = templates.get_template(context["template"]).render(context)
    except jinja2.TemplateError as fault:
        raise SourceError(f"{context['id']}, {context['template']}: {type(fault).__name__}: {fault}") from fault
    document = Document(context["id"], title, context["kind"], context["issuer"], context["year"], "", context)
    parts: list[str] = []
    length = 0
    for label, block in _blocks(rendered):
        if label in document.labels:
            raise SourceError(f"{document.id}: two blocks are labelled @{label}; rename one")
        if label:
            document.labels[label] = len(document.spans)
        if parts:
            parts.append("\n\n")
            length += 2
        parts.append(block)
        document.spans.append((length, length + len(block)))
        length += len(block)
    document.text = "".join(parts)
    if not document.text.startswith(f"# {title}\n"):
        raise SourceError(f"{document.id}: the first block must be '# {title}'")
    return document


def _blocks(rendered: str) -> Iterator[tuple[str, str]]:
    """Yield label (or ``""``) and text of each block of a rendered template."""
    lines: list[str] = []
    for line in [*rendered.split("\n"), ""]:
        if line.strip():
            lines.append(line.rstrip())
        elif lines:
            label = lines.pop(0)[1:] if lines[0].startswith("@") else ""
            if lines:
                yield label, "\n".join(lines)
            lines = []


def _questions(source: Path, documents: Mapping[str, Document]) -> pd.DataFrame:
    """Render the questions of all documents, numbered in file order."""
    environment = _environment(source)
    rows: list[tuple[str, str, str, str, str, bool, str]] = []
    for document in documents.values():
        path = source / "questions" / f"{document.id}.toml"
        for entry in _load(path).get("question", []):
            number = len(rows) + 1
            fault = f"{path.name}, QA{number:03d} ({entry.get('question', '')!r})"
            if {"kind", "question"} - set(entry):
                raise SourceError(f"{fault}: 'kind' and 'question' are needed")
            answerable = entry["kind"] != "no_respondible"
            labels = entry.get("passages", [])
            if answerable != bool(labels):
                raise SourceError(f"{fault}: an answerable question needs passages, an unanswerable one has none")
            ids = [_passage_id(document, label, documents) for label in labels]
            text, answer = (
                environment.from_string(part).render(document.context)
                for part in (entry["question"], entry["answer"] if answerable else NO_ANSWER)
            )
            rows.append((f"QA{number:03d}", document.id, text, answer, entry["kind"], answerable, ";".join(ids)))
    columns = ["question_id", "doc_id", "question", "gold_answer", "kind", "answerable", "gold_passages"]
    return pd.DataFrame(rows, columns=columns)


def _passage_id(document: Document, label: str, documents: Mapping[str, Document]) -> str:
    """Resolve ``label`` (of the question's own document) or ``R02:label``."""
    doc_id, _, name = label.rpartition(":")
    return (documents[doc_id] if doc_id else document).passage_id(name)


def _load(path: Path) -> dict[str, Any]:
    """Read a TOML file, decimals kept exact."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file, parse_float=Decimal)
    except FileNotFoundError:
        raise SourceError(f"{path.name}: not in {path.parent.name}/; add it or take it out of corpus.toml") from None
    except tomllib.TOMLDecodeError as fault:
        raise SourceError(f"{path.name}: not valid TOML: {fault}") from fault


def main() -> None:
    """Build the tables and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, default=HERE / "source", help="folder with corpus.toml")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for the three tables")
    arguments = parser.parse_args()
    for name, digest in build(arguments.source, arguments.out).items():
        print(f"{name:10} {digest}")


if __name__ == "__main__":
    main()
