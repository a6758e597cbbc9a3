"""Write a student copy of the notebooks into ``_handout/``: no outputs, no solutions, the data beside them."""

import argparse
import shutil
from pathlib import Path

import nbformat

from book import pages


def write(out: Path) -> list[Path]:
    """Copy every chapter without outputs and execution counts, and the data that they read.

    Returns
    -------
    list of Path
        The notebooks written.
    """
    folder = out / "notebooks"
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for path in pages.NOTEBOOKS:
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        nbformat.write(notebook, folder / path.name)
        written.append(folder / path.name)
    shutil.copytree(
        pages.ROOT / "data", out / "data", dirs_exist_ok=True, ignore=shutil.ignore_patterns("source", "__pycache__")
    )
    for name in ("environment.yml", "LICENSE", "LICENSE-TEXT"):
        shutil.copy(pages.ROOT / name, out / name)
    return written


def main() -> None:
    """Write the handout and say where it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=pages.ROOT / "_handout")
    written = write(parser.parse_args().out)
    print(f"{len(written)} notebooks without outputs and solutions in _handout/notebooks/")


if __name__ == "__main__":
    main()
