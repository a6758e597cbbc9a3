"""Write a student copy into ``_handout/``: notebooks without outputs and solutions, data, library."""

import argparse
import shutil
from pathlib import Path

import nbformat

from book import pages

# What `conda env create -f environment.yml` or `pip install -c constraints.txt -e .` needs, beside the licences.
FILES = ("environment.yml", "constraints.txt", "pyproject.toml", "README.md", "LICENSE", "LICENSE-TEXT")


def write(out: Path) -> list[Path]:
    """Copy every chapter without outputs and execution counts, the data that they read and the library.

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
    for name in ("data", "src", "figures"):
        left_out = shutil.ignore_patterns("source", "__pycache__", "*.egg-info")
        shutil.copytree(pages.ROOT / name, out / name, dirs_exist_ok=True, ignore=left_out)
    for name in FILES:
        shutil.copy(pages.ROOT / name, out / name)
    return written


def main() -> None:
    """Write the handout and say where it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=pages.ROOT / "_handout")
    out = parser.parse_args().out
    written = write(out)
    print(f"{len(written)} notebooks without outputs and solutions in {out.name}/notebooks/")
    print(
        f"to use them: cd {out.name}, pip install -c constraints.txt -e . jupyterlab (or environment.yml), jupyter lab"
    )


if __name__ == "__main__":
    main()
