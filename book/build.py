"""Render the book: with Quarto if it is on the PATH, else as a plain HTML preview that anyone can open.

The preview in ``_preview/`` is for looking, not for publishing: nbconvert renders each notebook with its stored
outputs, Python-Markdown the other pages, latex2mathml the formulas; Quarto's cross-references, divs and citations
are rewritten into links. Nothing is fetched from a network.
"""

import argparse
import html
import re
import shutil
import subprocess
from pathlib import Path

import latex2mathml.converter
import markdown
import nbformat
from bs4 import BeautifulSoup
from nbconvert import HTMLExporter

from book import pages

HOW_TO_GET_QUARTO = (
    "Quarto is not on the PATH, so this is a plain preview. For the real book: `conda env create -f environment.yml`, "
    "or `pip install quarto-cli`, or the installer from quarto.org; then `make book` again."
)

MERMAID = "<p>(Quarto draws this diagram; here is its source.)</p><pre>{}</pre>"

STYLE = """
:root { color-scheme: light; }
body { font: 17px/1.55 system-ui, sans-serif; color: #1b1b1b; background: #fff; margin: 0; overflow-wrap: anywhere; }
header, main, footer { max-width: 54rem; margin: 0 auto; padding: .5rem 1rem; }
nav a { margin-right: .9rem; } a { color: #0a4f94; }
h1 { line-height: 1.2; } h2 { margin-top: 2rem; border-bottom: 1px solid #ddd; }
pre { background: #f5f5f5; padding: .6rem .8rem; overflow-x: auto; font-size: 14px; line-height: 1.4;
  overflow-wrap: normal; }
.jp-OutputPrompt, .jp-InputPrompt, .prompt { display: none; }
.output pre, .jp-OutputArea pre { background: #fff; border-left: 3px solid #bbb; }
.scroll { overflow-x: auto; }
table { overflow-wrap: normal; border-collapse: collapse; font-size: 15px; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid #ddd; padding: .2rem .6rem; text-align: left; } img { max-width: 100%; height: auto; }
figure { margin: 1rem 0; } figcaption { font-size: 15px; color: #333; }
.callout, .exercise { border-left: 4px solid #555; background: #f7f7f7; padding: .2rem 1rem; margin: 1rem 0; }
math[display="block"] { overflow-x: auto; display: block math; } math[display="inline"] { display: inline math; }
"""


def build(out: Path) -> list[Path]:
    """Write the preview of every page of the book and return the files, in order."""
    paths = [path for path in pages.chapters() if path.exists()]
    numbers = _numbers(paths)
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for path in paths:
        body = _notebook(path, numbers) if path.suffix == ".ipynb" else _markdown(path.read_text("utf-8"), numbers)
        target = out / _file_name(path)
        target.write_text(_page(path, _scrolling(body), paths, numbers), encoding="utf-8")
        written.append(target)
    shutil.copytree(pages.ROOT / "figures", out / "figures", dirs_exist_ok=True)
    return written


def _numbers(paths: list[Path]) -> dict[str, tuple[str, str]]:
    """Return for each label the text that a reference shows and the file that it links to."""
    found: dict[str, tuple[str, str]] = {}
    words = {"sec": "Section", "fig": "Figure", "tbl": "Table", "exr": "Exercise", "sol": "Solution", "eq": "Equation"}
    for chapter, path in enumerate(paths):
        counts: dict[str, int] = {}
        for position, label in enumerate(pages.labels(path)):
            kind = label.partition("-")[0]
            counts[kind] = counts.get(kind, 0) + 1
            first = kind == "sec" and position == 0
            text = f"Chapter {chapter}" if first else f"{words.get(kind, kind)} {chapter}.{counts[kind]}"
            found[label] = (text, f"{_file_name(path)}#{label}")
    return found


def _notebook(path: Path, numbers: dict[str, tuple[str, str]]) -> str:
    """Return a notebook's cells and stored outputs as HTML."""
    notebook = nbformat.read(path, as_version=4)
    described, texts = [], []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            texts.append(_markdown(cell.source, numbers))
            cell.source = f"ragfintext{len(texts) - 1}"
            continue
        described.append(pages.options(cell.source))
        cell.source = "\n".join(line for line in cell.source.splitlines() if not line.startswith("#|"))
    exporter = HTMLExporter(template_name="basic")
    shown = exporter.from_notebook_node(notebook)[0]
    shown = re.sub(r"<p>ragfintext(\d+)</p>", lambda m: texts[int(m[1])], shown)
    soup = BeautifulSoup(shown, "html.parser")
    for style in soup.find_all(["style", "script"]):
        style.decompose()
    figures = [options for options in described if "fig-cap" in options]
    for image, options in zip(soup.select(".jp-OutputArea img, .output img"), figures, strict=True):
        image["alt"] = options["fig-alt"]
        frame = image.wrap(soup.new_tag("figure", id=options["label"]))
        caption = soup.new_tag("figcaption")
        caption.string = f"{numbers[options['label']][0]}. {options['fig-cap']}"
        frame.append(caption)
    return str(soup)


def _scrolling(body: str) -> str:
    """Return a page whose wide tables scroll in a box of their own, so that no word is broken to make them fit."""
    soup = BeautifulSoup(body, "html.parser")
    for table in soup.find_all("table"):
        table.wrap(
            soup.new_tag("div", attrs={"class": "scroll", "tabindex": "0", "role": "region", "aria-label": "table"})
        )
    return str(soup)


def _markdown(text: str, numbers: dict[str, tuple[str, str]]) -> str:
    """Return Quarto Markdown as HTML, with its divs, references, citations and formulas rewritten."""
    kept: list[str] = []

    def keep(piece: str) -> str:
        kept.append(piece)
        return f"\x00{len(kept) - 1}\x00"

    text = re.sub(r"^---\n.*?\n---\n", "", text, flags=re.DOTALL)
    text = re.sub(
        r"^```\{?mermaid\}?\n(.*?)^```", lambda m: keep(MERMAID.format(html.escape(m[1]))), text, flags=re.M | re.S
    )
    text = re.sub(r"^(```.*?^```)$", lambda m: "\n" + m[1], text, flags=re.M | re.S)
    text = re.sub(r"\$\$(.+?)\$\$(?: *\{[^}]*\})?", lambda m: keep(_math(m[1], "block")), text, flags=re.S)
    text = re.sub(r"(?<![\w$\\])\$([^$\n]+?)\$(?!\d)", lambda m: keep(_math(m[1], "inline")), text)
    text = re.sub(r"^:{3,} *\{#(exr|sol)-([\w-]+)[^}]*\}", lambda m: _opening(m[1], m[2], numbers), text, flags=re.M)
    text = re.sub(r"^:{3,} *\{#refs\}\s*\n:{3,}", lambda _: keep(_bibliography()), text, flags=re.M)
    text = re.sub(r"^:{3,} *\{([^}\n]*)\}", lambda m: _callout(m[1]), text, flags=re.M)
    text = re.sub(r"^:{3,} *$", "\n</div>\n", text, flags=re.M)
    text = re.sub(r"(?<![\w@.])@((?:sec|fig|tbl|exr|sol)-[\w-]*\w)", lambda m: _link(m[1], numbers), text)
    text = re.sub(r"\[(-?@[^\]]+)\]", lambda m: f"({_cite(m[1])})", text)
    text = re.sub(r"(?<![\w@.])@([a-z]+\d{4})\b", lambda m: _cite("@" + m[1]), text)
    page = r"\]\((?!\w+:)([^)#]+?\.(?:ipynb|qmd|md))(#[^)]*)?\)"
    text = re.sub(page, lambda m: f"]({_file_name(Path(m[1]))}{m[2] or ''})", text)
    text = re.sub(r"\]\((?:\.\./)*figures/", "](figures/", text)
    text = re.sub(r"^(#+ .*?)\s*\{#([\w-]+)[^}]*\}$", r"\1 {: #\2 }", text, flags=re.M)
    text = re.sub(r"^(#+ .*?)\s*\{\.unnumbered\}$", r"\1", text, flags=re.M)
    shown = markdown.markdown(text, extensions=["tables", "fenced_code", "attr_list", "md_in_html", "sane_lists"])
    return re.sub(r"\x00(\d+)\x00", lambda m: kept[int(m[1])], shown)


def _math(tex: str, display: str) -> str:
    return str(latex2mathml.converter.convert(tex.strip(), display=display))


def _opening(kind: str, name: str, numbers: dict[str, tuple[str, str]]) -> str:
    title = numbers.get(f"{kind}-{name}", ("Exercise", ""))[0]
    return f'<div class="exercise" id="{kind}-{name}" markdown="1">\n\n**{title}**\n'


def _callout(attributes: str) -> str:
    title = re.search(r'title="([^"]*)"', attributes)
    return f'<div class="callout" markdown="1">\n\n{f"**{title[1]}**" if title else ""}\n\n'


def _link(label: str, numbers: dict[str, tuple[str, str]]) -> str:
    text, target = numbers.get(label, (label, "#"))
    return f"[{text}]({target})"


def _entries() -> dict[str, dict[str, str]]:
    """Return the fields of each bibliography entry that a preview shows."""
    text = (pages.ROOT / "references.bib").read_text(encoding="utf-8")
    found = {}
    for key, body in re.findall(r"^@\w+\{([^,]+),\n(.*?)^\}", text, flags=re.M | re.S):
        fields = dict(re.findall(r"(\w+) = (\{(?:[^{}]|\{[^{}]*\})*\})", body))
        found[key] = {name: re.sub(r"[{}]", "", value) for name, value in fields.items()}
    return found


def _cite(keys: str) -> str:
    entries = _entries()
    shown = []
    for key in re.findall(r"@([\w:.-]*\w)", keys):
        entry = entries.get(key, {"author": key, "year": ""})
        first = re.split(r",| and ", entry["author"])[0]
        others = " et al." if " and " in entry["author"] else ""
        shown.append(f"[{first}{others} {entry['year']}](references.html#ref-{key})")
    return "; ".join(shown)


def _bibliography() -> str:
    items = [
        f'<li id="ref-{key}">{html.escape(e["author"].replace(" and ", "; "))} ({e["year"]}). '
        f"{html.escape(e['title'])}. {html.escape(e.get('journal') or e.get('booktitle') or e.get('note') or '')}</li>"
        for key, e in sorted(_entries().items())
    ]
    return f"<ol>{''.join(items)}</ol>"


def _file_name(path: Path) -> str:
    return f"{'data-card' if path.parent.name == 'data' else path.stem}.html"


def _title(path: Path) -> str:
    match = re.search(r"^# (.*?)\s*(?:\{.*\})?$", pages.prose(path), flags=re.M) or re.search(
        r"^title: \"?(.*?)\"?$", pages.as_qmd(path), flags=re.M
    )
    return match[1] if match else path.stem


def _page(path: Path, body: str, paths: list[Path], numbers: dict[str, tuple[str, str]]) -> str:
    here = paths.index(path)
    around = [("contents", 0), ("previous", here - 1), ("next", here + 1)]
    links = "".join(
        f'<a href="{_file_name(paths[i])}">{html.escape(name if i == 0 else f"{name}: {_title(paths[i])}")}</a>'
        for name, i in around
        if 0 <= i < len(paths) and i != here
    )
    contents = ""
    if here == 0:
        items = "".join(f'<li><a href="{_file_name(p)}">{html.escape(_title(p))}</a></li>' for p in paths[1:])
        contents = f"<h2>Contents</h2><ol>{items}</ol>"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f'<link rel="icon" href="data:,"><title>{html.escape(_title(path))}</title><style>{STYLE}</style></head>'
        f"<body><header><nav>{links}</nav></header><main>{body}{contents}</main>"
        f"<footer><nav>{links}</nav></footer></body></html>"
    )


def main() -> None:
    """Render with Quarto, or write the preview and say how to get Quarto."""
    parser = argparse.ArgumentParser(description="Render the book.")
    parser.add_argument("--preview", action="store_true", help="the plain preview even where Quarto is installed")
    parser.add_argument("--profile", help="a Quarto profile, for example instructor (adds the solutions)")
    parser.add_argument("--out", type=Path, default=pages.ROOT / "_preview", help="folder of the preview")
    arguments = parser.parse_args()
    quarto = shutil.which("quarto")
    if quarto and not arguments.preview:
        profile = ["--profile", arguments.profile] if arguments.profile else []
        raise SystemExit(subprocess.run([quarto, "render", *profile], cwd=pages.ROOT, check=False).returncode)
    written = build(arguments.out)
    print(f"{len(written)} pages in {arguments.out.name}/; open {arguments.out.name}/{written[0].name}")
    if not quarto:
        print(HOW_TO_GET_QUARTO)


if __name__ == "__main__":
    main()
