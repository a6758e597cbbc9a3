"""The command `ragfin`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ragfin.corpus import CorpusError, load_corpus
from ragfin.evaluation import baseline_report

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__)


@app.callback()
def main() -> None:
    """Measure RAG over financial documents."""


@app.command()
def baseline(
    data: Annotated[Path, typer.Option(help="Folder with the three tables.")] = Path("data"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, unrounded.")] = False,
) -> None:
    """Measure the extractive baseline on all questions."""
    try:
        report = baseline_report(load_corpus(data))
    except (CorpusError, OSError) as error:
        typer.echo(f"ragfin: {error}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False, indent=2))
        return
    for name, value in report.items():
        typer.echo(f"{name}: {value}")
