"""A folder of files as the table of documents: Markdown, plain text, HTML and PDF, with where each page begins.

pypdf reads the PDF, markdownify writes HTML as Markdown; both come with ``pip install 'ragfin[convert]'``. Line ends
become ``\\n``. Text that cannot be read is a fault, never guessed: no OCR, no guessed encoding. Offsets belong to the
text as converted, so convert once (`write_documents`) and keep the table; another version of a converter may write
another text.
"""

import importlib.util
import logging
import re
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from ragfin.tables import Fault, Table, decode

PAGES, SOURCE = "pages", "source"

_HEADING = re.compile(r"^#+ +(.*\S)", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n{3,}")
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_WITHOUT_MARKUP = ["a", "b", "strong", "i", "em", "u", "img", "code", "del", "sub"]
_EXTRA = "run `pip install 'ragfin[convert]'`"


class Converted(NamedTuple):
    """The text of a file, what is wrong with it, and the offset at which each page begins (one page: 0)."""

    text: str
    faults: list[Fault]
    pages: tuple[int, ...] = (0,)
    title: str = ""


def read_folder(folder: Path) -> Table:
    """Read a folder of files, and the folders in it, as the table of documents.

    Parameters
    ----------
    folder : Path
        Files that end in ``.md``, ``.txt``, ``.html``, ``.htm`` or ``.pdf``; hidden ones are left out.

    Returns
    -------
    Table
        ``doc_id`` (the file's name without its ending, after its folder's: ``2023/annual``), ``title`` (the first
        heading, else the title that a PDF or HTML file states, else the file's name), ``text``, ``pages`` (the offsets
        at which the pages begin, joined by ``;``) and ``source`` (the file), in the order of the files' names.
    """
    records: list[tuple[str, ...]] = []
    faults: list[Fault] = []
    owner: dict[str, str] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        source = path.relative_to(folder)
        if any(part.startswith(".") for part in source.parts):
            continue
        file, doc_id = f"{folder.name}/{source.as_posix()}", source.with_suffix("").as_posix()
        reader = _READERS.get(path.suffix.lower())
        if reader is None:
            told = f"ends in {path.suffix!r}" if path.suffix else "has no ending"
            faults.append(Fault(file, None, f"{told}: it cannot be read", "convert it to .md, .txt, .html or .pdf"))
            continue
        if doc_id in owner:
            faults.append(Fault(file, None, f"is {doc_id!r}, as {owner[doc_id]} is", "rename one of the two"))
            continue
        owner[doc_id] = file
        converted = _read(reader, file, path)
        faults += converted.faults
        heading = _HEADING.search(converted.text)
        title = heading[1] if heading else converted.title or path.stem
        pages = ";".join(map(str, converted.pages))
        records.append((doc_id, title, converted.text, pages, source.as_posix()))
    columns = ["doc_id", "title", "text", PAGES, SOURCE]
    return Table(
        f"{folder.name}/", pd.DataFrame(records, columns=columns, dtype=object), range(1, len(records) + 1), faults
    )


def page_of(pages: str, offset: int) -> int:
    """Return the page, from 1, on which an offset of a document lies.

    Parameters
    ----------
    pages : str
        A cell of the column ``pages``.
    offset : int
        In code points, 0 or more.

    Examples
    --------
    >>> page_of("0;1200;2950", 1199), page_of("0;1200;2950", 1200)
    (1, 2)
    """
    return bisect_right([int(start) for start in pages.split(";")], offset)


def write_documents(folder: Path, out: Path) -> int:
    """Convert a folder once and keep the table; return the number of documents.

    Raises
    ------
    ValueError
        Some file cannot be converted: every fault, one a line. Nothing is written.
    """
    table = read_folder(folder)
    if table.faults or table.frame.empty:
        raise ValueError("\n".join(map(str, table.faults)) or f"{folder} holds no document: put some files there")
    table.frame.to_parquet(out, index=False)
    return len(table.frame)


def _read(reader: Callable[[str, bytes], Converted], file: str, path: Path) -> Converted:
    """Convert one file; one without any text is a fault, and so is one that cannot be opened."""
    try:
        converted = reader(file, path.read_bytes())
    except OSError as error:
        return Converted("", [Fault(file, None, f"cannot be read ({error.strerror or error})", "mend its permissions")])
    if not converted.text.strip() and not converted.faults:
        repair = "scanned pages need OCR first" if path.suffix.lower() == ".pdf" else "fill it or take it away"
        return converted._replace(faults=[Fault(file, None, "holds no text", repair)])
    return converted


def _read_text(file: str, data: bytes) -> Converted:
    """Read Markdown or plain text, which must be UTF-8."""
    text, faults = decode(file, data)
    return Converted(_newlines(text), faults)


def _read_html(file: str, data: bytes) -> Converted:
    """Write HTML as Markdown: headings and tables; no emphasis, links, scripts or navigation; ``<sup>1</sup>`` as ¹."""
    if lacking := _lacking(file, "bs4", "markdownify"):
        return lacking
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(data, "html.parser")
    if soup.contains_replacement_characters:
        problem = f"holds bytes that are not {soup.original_encoding or 'of one encoding'}"
        return Converted("", [Fault(file, None, problem, "save it as UTF-8 and declare that")])
    for name in ("script", "style", "noscript", "nav", "template"):
        for element in soup.find_all(name):
            element.decompose()
    for element in soup.find_all("sup"):  # a raised 1 is a footnote's mark, not another digit of the figure before it
        element.replace_with(element.get_text().translate(_RAISED))
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    markdown = MarkdownConverter(
        heading_style="atx",
        bullets="-",
        strip=_WITHOUT_MARKUP,
        escape_misc=False,
        escape_asterisks=False,
        escape_underscores=False,
    ).convert_soup(soup.body or soup)
    lines = "\n".join(line.rstrip() for line in _newlines(str(markdown)).split("\n"))
    return Converted(_BLANK_LINES.sub("\n\n", lines).strip() + "\n" if lines.strip() else "", [], title=title)


def _read_pdf(file: str, data: bytes) -> Converted:
    """Read the text layer of a PDF, page after page, with a blank line between pages."""
    if lacking := _lacking(file, "pypdf"):
        return lacking
    from io import BytesIO

    import pypdf
    from pypdf.errors import PyPdfError

    logging.getLogger("pypdf").setLevel(logging.ERROR)
    try:
        reader = pypdf.PdfReader(BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            return Converted("", [Fault(file, None, "is locked by a password", "save it without one")])
        texts = [_newlines(page.extract_text()).strip("\n") for page in reader.pages]
        title = str(reader.metadata.title or "").strip() if reader.metadata else ""
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError, NotImplementedError) as error:
        told = f"cannot be read as PDF ({type(error).__name__}: {error})"
        return Converted("", [Fault(file, None, told, "open it and save it again")])
    pages, start = [], 0
    for text in texts:
        pages.append(start)
        start += len(text) + 2
    return Converted("\n\n".join(texts), [], tuple(pages) or (0,), title)


def _lacking(file: str, *modules: str) -> Converted | None:
    """Return a fault when a converter is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    return Converted("", [Fault(file, None, f"needs {' and '.join(missing)} to be read", _EXTRA)])


def _newlines(text: Any) -> str:
    """Return a text whose only line end is ``\\n`` and that UTF-8 can hold."""
    whole: str = text.replace("\r\n", "\n").replace("\r", "\n")
    return whole.encode("utf-8", "replace").decode()


_READERS: dict[str, Callable[[str, bytes], Converted]] = {
    ".md": _read_text,
    ".txt": _read_text,
    ".html": _read_html,
    ".htm": _read_html,
    ".pdf": _read_pdf,
}
