"""The commands for a corpus of your own: `ragfin init`, `ragfin corpus convert`, `ragfin corpus chunk`.

And what every command that sends text away has in common: it says what goes where, and asks.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ragfin.convert import write_documents
from ragfin.outbound import Departure
from ragfin.skeleton import write_skeleton
from ragfin.streaming import chunk_to_parquet


def init_command(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    language: Annotated[str, typer.Option(help="Of the example rows and the settings: es or en.")] = "es",
) -> None:
    """Start a corpus of your own: three tables with two example rows each, settings, and what every column means."""
    with _one_line_errors():
        for path in write_skeleton(folder, language):
            typer.echo(str(path))
        typer.echo(f"read {folder / 'README.md'}, replace the rows, then run: ragfin corpus check {_quoted(folder)}")


def convert_command(
    source: Annotated[Path, typer.Argument(help="A folder of .md, .txt, .html and .pdf files.")],
    corpus: Annotated[Path, typer.Argument(help="The corpus's folder; gets documents.parquet.")],
) -> None:
    """Convert a folder of files once into the table of documents, with the offsets at which pages begin."""
    with _one_line_errors():
        if not source.is_dir():
            raise ValueError(f"{source} is not a folder: name the one that holds the files")
        corpus.mkdir(parents=True, exist_ok=True)
        out = corpus / "documents.parquet"
        typer.echo(f"{out}: {write_documents(source, out)} documents")


def chunk_command(
    documents: Annotated[Path, typer.Argument(help="A Parquet table of documents, as large as it may be.")],
    out: Annotated[Path, typer.Argument(help="Gets the chunks, as Parquet.")],
    max_chars: Annotated[int, typer.Option(min=1, help="Longest chunk of merged paragraphs.")] = 800,
    workers: Annotated[int, typer.Option(min=1, help="Processes; the file is the same for any number.")] = 1,
) -> None:
    """Chunk a table of documents that need not fit in memory."""
    with _one_line_errors():
        if workers == 1:
            count = chunk_to_parquet(documents, out, max_chars)
        else:
            with ProcessPoolExecutor(workers) as pool:
                count = chunk_to_parquet(documents, out, max_chars, executor=pool)
        typer.echo(f"{out}: {count} chunks")


def confirm_departure(going: Departure, *, yes: bool) -> None:
    """Say what would be sent where, and go on only with consent; text that stays on this machine needs none.

    Raises
    ------
    ValueError
        Consent is needed and this is no terminal, or it is refused.
    """
    for line in going.lines():
        typer.echo(f"ragfin: {line}", err=True)
    if not going.leaves or yes:
        return
    if not sys.stdin.isatty():
        raise ValueError(f"text would leave this machine for {going.host}: add --yes to agree; nothing was sent")
    if not typer.confirm("send it?", err=True):
        raise ValueError("nothing was sent")


def usage_line(totals: dict[str, Any]) -> str:
    """Return the sums of a usage file in one line."""
    cost = "".join(f", {amount:.4f} {currency}" for currency, amount in totals["cost"].items())
    return (
        f"{totals['n_answers']} answers asked in {totals['attempts']} attempts, {totals['prompt_tokens']} tokens read, "
        f"{totals['completion_tokens']} written{cost}; seconds: median {totals['seconds_median']:.2f}, "
        f"95th percentile {totals['seconds_95']:.2f}"
    )


def _quoted(path: Path) -> str:
    """Return a path as a shell takes it."""
    return f'"{path}"' if " " in str(path) else str(path)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn what a user can mend into its reason and exit status 1."""
    try:
        yield
    except (ValueError, OSError) as error:
        typer.echo(f"ragfin: {error}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        typer.echo("ragfin: stopped", err=True)
        raise typer.Exit(130) from None
