"""The book holds together: every page, label, citation, image and stored output (what Quarto would not tell)."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from book import pages

ROOT = pages.ROOT
CHAPTERS = pages.chapters()
ALL = [*CHAPTERS, *pages.SOLUTIONS]
BOOKS = [*pages.NOTEBOOKS, *pages.SOLUTIONS]


def name_of(path):
    return str(path.relative_to(ROOT))


def code_cells(path):
    return [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]


def test_every_chapter_exists_and_every_notebook_is_a_chapter():
    assert [name_of(path) for path in CHAPTERS if not path.exists()] == []
    assert {path for path in CHAPTERS if path.suffix == ".ipynb"} == set(pages.NOTEBOOKS)
    instructor = pages.chapters("_quarto-instructor.yml")
    assert [name_of(path) for path in instructor if not path.exists()] == []
    assert {path for path in instructor if path.suffix == ".ipynb"} == set(pages.SOLUTIONS)


def test_quarto_never_executes_and_never_freezes():
    assert pages.config()["execute"] == {"enabled": False}
    tracked = subprocess.run(["git", "ls-files", "_freeze", "_book"], cwd=ROOT, capture_output=True, text=True).stdout
    assert tracked == ""


@pytest.mark.parametrize("path", BOOKS, ids=name_of)
class TestNotebook:
    def test_is_valid_and_keeps_what_quarto_needs(self, path):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
        assert notebook.metadata.kernelspec.name == "python3"
        assert "language_info" in notebook.metadata
        assert "version" not in notebook.metadata.language_info
        assert all("execution" not in cell.metadata for cell in notebook.cells), "timing is stored"

    def test_was_executed_from_top_to_bottom_in_one_go(self, path):
        counts = [cell.execution_count for cell in code_cells(path)]
        assert counts == list(range(1, len(counts) + 1))

    def test_stores_no_error_warning_widget_or_progress_bar(self, path):
        for cell in code_cells(path):
            for output in cell.outputs:
                assert output.output_type != "error"
                assert output.get("name") != "stderr"
                assert not any("widget" in mime for mime in output.get("data", {}))
                assert "\r" not in json.dumps(output.get("text", ""))
                assert "\x1b[" not in str(output)

    def test_stores_no_path_time_or_object_address(self, path):
        text = json.dumps([list(c.outputs) for c in code_cells(path)])
        text = re.sub(r'"image/(png|svg\+xml)": "[^"]*"', "", text)
        assert not re.search(r"ipykernel_\d|0x[0-9a-f]{8,}|/home/|/tmp/|/root/|site-packages", text)

    def test_has_one_title_with_a_label(self, path):
        titles = re.findall(r"^# .*$", pages.prose(path), flags=re.MULTILINE)
        assert len(titles) == 1
        assert re.search(r"\{#sec-[a-z-]+\}$", titles[0])

    def test_puts_cell_options_first_and_as_valid_yaml(self, path):
        for cell in code_cells(path):
            lines = cell.source.splitlines()
            marked = [i for i, line in enumerate(lines) if line.startswith("#|")]
            assert marked == list(range(len(marked)))
            assert not any(line.startswith("# |") for line in lines)
            assert isinstance(pages.options(cell.source), dict)

    def test_describes_every_figure(self, path):
        for cell in code_cells(path):
            if any("image/png" in output.get("data", {}) for output in cell.outputs):
                options = pages.options(cell.source)
                assert {"label", "fig-cap", "fig-alt"} <= set(options), cell.source[:80]
                assert options["label"].startswith("fig-")

    def test_keeps_code_cells_short_and_tables_small(self, path):
        for cell in code_cells(path):
            lines = [line for line in cell.source.splitlines() if line.strip() and not line.startswith("#|")]
            assert len(lines) <= 20, cell.source[:80]
            for output in cell.outputs:
                html = "".join(output.get("data", {}).get("text/html", ""))
                assert html.count("<tr") <= 20, cell.source[:80]

    def test_shows_the_same_numbers_in_html_as_in_text(self, path):
        """The book shows the HTML while only the text is compared on execution."""
        for cell in code_cells(path):
            for output in cell.outputs:
                data = output.get("data", {})
                if "text/html" not in data or "text/plain" not in data:
                    continue
                cells = re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", "".join(data["text/html"]))
                shown = re.findall(r"-?\d+\.\d+|\b\d+\b", " ".join(cells))
                plain = re.findall(r"-?\d+\.\d+|\b\d+\b", "".join(data["text/plain"]))
                if "..." not in "".join(data["text/plain"]):
                    assert sorted(shown) == sorted(plain), cell.source[:80]

    def test_balances_its_divs(self, path):
        for cell in [pages.as_qmd(path)]:
            depth = 0
            for line in cell.splitlines():
                if re.match(r"^:{3,}\s*\{", line) or re.match(r"^:{3,}\s+\w", line):
                    depth += 1
                elif re.match(r"^:{3,}\s*$", line):
                    depth -= 1
                assert depth >= 0
            assert depth == 0


CHAPTER_SHAPE = ("You will be able to", "## Checks", "## Limits", "## Recap", "## Exercises", "## Glossary")


@pytest.mark.parametrize("path", pages.NOTEBOOKS, ids=name_of)
def test_each_chapter_runs_from_goals_to_glossary(path):
    text = pages.as_qmd(path)
    positions = [text.find(part) for part in CHAPTER_SHAPE]
    assert -1 not in positions, CHAPTER_SHAPE[positions.index(-1)]
    assert positions == sorted(positions)


@pytest.mark.parametrize("path", BOOKS, ids=name_of)
def test_decimals_in_the_prose_are_asserted_or_printed(path):
    typed = re.findall(r"(?<![\w.,])\d+\.\d{2,3}(?![\w.,]*\d)", pages.prose(path))
    code = "\n".join(cell.source for cell in code_cells(path))
    printed = json.dumps([cell.outputs for cell in code_cells(path)])
    assert [number for number in typed if number not in code and number not in printed] == []


def test_labels_are_unique_and_every_reference_has_one():
    defined = [label for path in ALL for label in pages.labels(path)]
    assert sorted(label for label in set(defined) if defined.count(label) > 1) == []
    assert [label for label in defined if "_" in label] == []
    missing = {name_of(path): set(pages.references(path)) - set(defined) for path in ALL}
    assert {path: labels for path, labels in missing.items() if labels} == {}


def test_citations_are_in_the_bibliography_and_the_bibliography_is_cited():
    entries = set(re.findall(r"^@\w+\{([^,]+),", (ROOT / "references.bib").read_text(encoding="utf-8"), re.MULTILINE))
    cited = {key for path in ALL for key in pages.citation_keys(path)}
    assert cited - entries == set()
    assert entries - cited == set()


def test_every_exercise_has_a_solution_and_no_solution_is_alone():
    exercises = {label[4:] for path in pages.NOTEBOOKS for label in pages.labels(path) if label.startswith("exr-")}
    solutions = {label[4:] for path in pages.SOLUTIONS for label in pages.labels(path) if label.startswith("sol-")}
    assert exercises == solutions
    for path in pages.NOTEBOOKS:
        count = sum(label.startswith("exr-") for label in pages.labels(path))
        assert 2 <= count <= 4, name_of(path)


def test_no_student_chapter_holds_a_solution():
    assert [name_of(path) for path in pages.NOTEBOOKS if "sol-" in " ".join(pages.labels(path))] == []


def test_no_notebook_imports_another_and_notebooks_hold_only_notebooks():
    stray = [p.name for p in (ROOT / "notebooks").iterdir() if p.suffix != ".ipynb" and p.is_file()]
    assert stray == []


@pytest.mark.parametrize("path", [*CHAPTERS, ROOT / "README.md", ROOT / "INSTRUCTORS.md"], ids=name_of)
def test_local_links_and_images_exist(path):
    targets = re.findall(r"\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)", pages.prose(path))
    targets += re.findall(r"(?:src|href)=\"([^\"]+)\"", pages.prose(path))
    local = [t.split("#")[0] for t in targets if not re.match(r"[a-z]+:", t) and not t.startswith("#")]
    assert [t for t in local if t and not (path.parent / t).exists()] == []


def test_the_prose_is_spelt_right(tmp_path):
    for path in ALL:
        target = tmp_path / f"{name_of(path).replace('/', '-')}.md"
        target.write_text(re.sub(r"\*[^*\n]+\*|«[^»\n]+»|\"[^\"\n]+\"", "", pages.prose(path)), encoding="utf-8")
    codespell = Path(sys.executable).parent / "codespell"
    run = subprocess.run(
        [codespell, "--toml", ROOT / "pyproject.toml", "--skip", "", tmp_path], capture_output=True, text=True
    )
    assert run.stdout == ""


def lint(*arguments, cwd):
    panache = Path(sys.executable).parent / "panache"
    run = subprocess.run([panache, "lint", *arguments], cwd=cwd, capture_output=True, text=True)
    return run.returncode, run.stdout + run.stderr


def test_panache_finds_nothing_in_the_configuration(tmp_path):
    for name in ("_quarto.yml", "_quarto-instructor.yml"):
        shutil.copy(ROOT / name, tmp_path / "_quarto.yml")  # the only name that it reads as a project file
        code, report = lint("--extend-select", "quarto-schema-unknown-key", "_quarto.yml", cwd=tmp_path)
        assert code == 0, report
        assert "Skipping" not in report


def test_panache_finds_nothing_in_the_chapters(tmp_path):
    for path in ALL:
        target = tmp_path / path.relative_to(ROOT).with_suffix(".qmd")
        target.parent.mkdir(parents=True, exist_ok=True)
        text = pages.as_qmd(path)
        target.write_text(re.sub(r"\.ipynb\b", ".qmd", text), encoding="utf-8")
    for name in ("_quarto.yml", "references.bib"):
        text = (ROOT / name).read_text(encoding="utf-8")
        (tmp_path / name).write_text(re.sub(r"\.(ipynb|md)\b", ".qmd", text), encoding="utf-8")
    for folder in ("figures", "data"):
        shutil.copytree(ROOT / folder, tmp_path / folder, dirs_exist_ok=True)
    code, report = lint("--ignore", "missing-chunk-labels", "--ignore", "citation-nonbreaking-space", ".", cwd=tmp_path)
    assert code == 0, report
