"""The book's pages, read once: which there are, and each as Quarto Markdown.

`_quarto.yml` is the only list of chapters. A notebook becomes Markdown by keeping its text as it is and
fencing its code as ``{python}``, which is what a linter of Quarto files can read.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import yaml

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
SOLUTIONS = sorted((ROOT / "notebooks" / "solutions").glob("[0-9]*.ipynb"))


def config(name: str = "_quarto.yml") -> dict[str, Any]:
    """Return a Quarto configuration file as a dictionary."""
    return dict(yaml.safe_load((ROOT / name).read_text(encoding="utf-8")))


def chapters(name: str = "_quarto.yml") -> list[Path]:
    """Return the pages that a configuration lists, in the order of the book, appendices last."""
    book = config(name)["book"]
    return [ROOT / path for path in [*_flat(book["chapters"]), *_flat(book.get("appendices", []))]]


def as_qmd(path: Path) -> str:
    """Return a page as Quarto Markdown, without outputs."""
    if path.suffix != ".ipynb":
        return path.read_text(encoding="utf-8")
    parts = []
    for cell in nbformat.read(path, as_version=4).cells:
        parts.append(f"```{{python}}\n{cell.source}\n```" if cell.cell_type == "code" else cell.source)
    return "\n\n".join(parts) + "\n"


def prose(path: Path) -> str:
    """Return a page's Markdown without code: no fences, no code cells, no inline code."""
    text = re.sub(r"^(`{3,})[^\n]*\n.*?^\1`*$", "", as_qmd(path), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def options(source: str) -> dict[str, Any]:
    """Return the ``#|`` options at the top of a code cell."""
    lines = []
    for line in source.splitlines():
        if not line.startswith("#|"):
            break
        lines.append(line[2:])
    return dict(yaml.safe_load("\n".join(lines)) or {})


def labels(path: Path) -> list[str]:
    """Return every label that a page defines: headings, divs and code cells."""
    found = re.findall(r"\{#([a-z]+-[\w-]+)[^}]*\}", prose(path))
    if path.suffix == ".ipynb":
        cells = nbformat.read(path, as_version=4).cells
        found += [opts["label"] for c in cells if c.cell_type == "code" and "label" in (opts := options(c.source))]
    return found


def references(path: Path) -> list[str]:
    """Return every label that a page refers to with ``@``."""
    return re.findall(r"(?<![\w@.])@((?:sec|fig|tbl|lst|eq|exr|sol)-[\w-]*\w)", prose(path))


def citation_keys(path: Path) -> list[str]:
    """Return every bibliography key that a page cites."""
    keys = re.findall(r"(?<![\w@.])-?@([a-zA-Z][\w:.-]*\w)", prose(path))
    return [key for key in keys if not re.match(r"(sec|fig|tbl|lst|eq|exr|sol)-", key)]


def _flat(entries: list[Any]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            if str(entry.get("part", "")).endswith((".qmd", ".md")):
                yield entry["part"]
            yield from _flat(entry.get("chapters", []))
