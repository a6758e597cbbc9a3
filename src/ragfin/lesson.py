"""Execute the notebooks as a reader would: each in a fresh kernel, in order, cell by cell.

A copy is executed; the file changes only when asked to, and then keeps no time, version or path of this machine.
"""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

CELL_TIMEOUT = 900  # seconds

Progress = Callable[[str, int, int], None]
"""Called with the notebook's name, the number of code cells done and the number in all."""


class LessonError(RuntimeError):
    """A cell failed; the message names notebook and cell, and says what it raised."""


def find_notebooks(folder: Path, names: Sequence[str] = ()) -> list[Path]:
    """Return the notebooks of a folder, in order.

    Parameters
    ----------
    folder : Path
        The checkout's ``notebooks/``.
    names : sequence of str, optional
        Beginnings of file names, such as ``03`` or ``solutions/02``; by default every notebook of the folder itself.

    Raises
    ------
    LessonError
        The folder has no such notebook.
    """
    if not names:
        names = [""]
    found = []
    for name in names:
        matching = sorted(path for path in folder.glob(f"{name}*.ipynb") if path.is_file())
        if not matching:
            raise LessonError(f"no notebook {name}*.ipynb in {folder}: run this in a checkout of the project")
        found += matching
    return list(dict.fromkeys(found))


def run_notebook(path: Path, *, update: bool = False, progress: Progress | None = None) -> int:
    """Execute a copy of a notebook in a fresh kernel, in the notebook's folder.

    Parameters
    ----------
    path : Path
        The notebook.
    update : bool, optional
        Write the outputs back to the file.
    progress : callable, optional
        Called after each code cell.

    Returns
    -------
    int
        Number of code cells.

    Raises
    ------
    LessonError
        The file is no notebook, or a cell failed: nothing is written back.
    """
    try:
        notebook = nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.reader.NotJSONError) as error:
        raise LessonError(f"{path.name} is no notebook ({type(error).__name__}): restore it") from None
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    done = 0
    current: dict[str, Any] = {}

    def started(cell: Any, cell_index: int) -> None:
        current.update(cell=cell, index=cell_index)

    def executed(cell: Any, cell_index: int, execute_reply: Any) -> None:
        nonlocal done
        done += 1
        if progress:
            progress(path.stem, done, len(code))

    client = NotebookClient(
        notebook,
        timeout=CELL_TIMEOUT,
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
        on_cell_start=started,
        on_cell_executed=executed,
    )
    try:
        client.execute(stderr=subprocess.DEVNULL)  # a kernel's own warnings; what cells print is kept
    except CellExecutionError as error:
        reason = f"{error.ename}: {str(error.evalue).strip().splitlines()[0] if str(error.evalue).strip() else ''}"
        raise LessonError(f"{path.name}, {_cell_name(current)} failed: {reason}") from None
    except (CellTimeoutError, DeadKernelError) as error:
        reason = "it took too long" if isinstance(error, CellTimeoutError) else "the kernel died"
        raise LessonError(f"{path.name}, {_cell_name(current)} failed: {reason}") from None
    if update:
        _strip(notebook)
        nbformat.write(notebook, path)
    return len(code)


def _cell_name(current: dict[str, Any]) -> str:
    """Return what a reader would call a cell: its label, else its first line, with its place in the notebook."""
    lines = [line for line in current["cell"].source.splitlines() if line.strip()] if current else []
    labels = [line.partition(":")[2].strip() for line in lines if line.startswith("#| label:")]
    code = [line for line in lines if not line.startswith("#|")]
    name = labels[0] if labels else repr(code[0]) if code else "no cell"
    return f"cell {current['index'] + 1 if current else 0} ({name})"


def _strip(notebook: Any) -> None:
    """Drop what says on which machine or when a notebook was executed."""
    notebook.metadata.get("language_info", {}).pop("version", None)
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        for noise in ("execution", "collapsed", "scrolled", "ExecuteTime"):
            cell.metadata.pop(noise, None)
