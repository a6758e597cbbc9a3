"""What a person sees without Quarto: the plain preview in a real browser, and the student's handout."""

import itertools
import tomllib

import nbformat
import pytest
import yaml

from book import build, handout, pages


@pytest.fixture(scope="module")
def preview(tmp_path_factory):
    return build.build(tmp_path_factory.mktemp("preview"))


def test_the_preview_has_a_page_for_every_chapter(preview):
    assert len(preview) == len(pages.chapters())
    assert len({path.name for path in preview}) == len(preview)


def test_the_preview_leaves_no_quarto_syntax_behind(preview):
    for path in preview:
        shown = path.read_text(encoding="utf-8")
        assert ":::" not in shown, path.name
        assert "{#" not in shown, path.name
        assert "\x00" not in shown, path.name
        assert "#| " not in shown, path.name


@pytest.mark.browser
def test_every_page_opens_without_errors_and_fits_a_phone(preview, chromium):
    for path in preview:
        page = chromium.new_page(viewport={"width": 380, "height": 800})
        faults = []
        page.on(
            "console", lambda message, faults=faults: faults.append(message.text) if message.type == "error" else None
        )
        page.on("requestfailed", lambda request, faults=faults: faults.append(request.url))
        page.on("pageerror", lambda error, faults=faults: faults.append(str(error)))
        page.goto(path.as_uri())
        assert faults == [], path.name
        images = page.evaluate("[...document.images].map(i => [i.complete && i.naturalWidth > 0, i.alt.length])")
        assert all(loaded and described > 20 for loaded, described in images), path.name
        assert page.evaluate("document.documentElement.scrollWidth") <= 380, path.name
        levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => +h.tagName[1])")
        assert levels[0] == 1, path.name
        assert levels.count(1) == 1, path.name
        assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(levels)), path.name
        headless = page.evaluate("[...document.querySelectorAll('table')].filter(t => !t.querySelector('th')).length")
        assert headless == 0, path.name
        links = page.evaluate("[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))")
        local = {link.split("#")[0] for link in links if link and ":" not in link} - {""}
        assert {link for link in local if not (path.parent / link).exists()} == set(), path.name
        page.close()


def test_the_handout_has_no_outputs_and_no_solutions(tmp_path):
    written = handout.write(tmp_path)
    assert [path.name for path in written] == [path.name for path in pages.NOTEBOOKS]
    assert not list(tmp_path.rglob("solutions"))
    for path in written:
        cells = nbformat.read(path, as_version=4).cells
        assert all(cell.get("outputs", []) == [] and cell.get("execution_count") is None for cell in cells)
    assert (tmp_path / "data" / "questions.csv").exists()


def test_the_handout_holds_what_its_environment_file_installs(tmp_path):
    handout.write(tmp_path)
    asked = yaml.safe_load((tmp_path / "environment.yml").read_text(encoding="utf-8"))["dependencies"][-1]["pip"]
    assert [line.split("[")[0] for line in asked] == ["-c constraints.txt", "-e ."]
    assert (tmp_path / "constraints.txt").exists()
    assert (tmp_path / "src" / "ragfin" / "__init__.py").exists()
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [project["readme"], *project["license-files"]]
    assert [name for name in named if not (tmp_path / name).exists()] == []


def test_the_reference_page_says_what_the_docstrings_say():
    from book import reference

    assert (pages.ROOT / "reference.qmd").read_text(encoding="utf-8") == reference.render(), (
        "run `python -m book.reference`"
    )
