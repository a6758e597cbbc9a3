"""The README tells the truth: its numbers, its commands, its files."""

import re
import shlex

import pytest
from typer.testing import CliRunner

from book import pages
from ragfin import load_corpus
from ragfin.cli import app
from ragfin.evaluation import comparison_table, evaluate, evaluate_baseline
from ragfin.extraction import baseline_report
from ragfin.runs import load_run

README = (pages.ROOT / "README.md").read_text(encoding="utf-8")
ANSWERS = pages.ROOT / "data" / "answers"


@pytest.fixture(scope="module")
def corpus():
    return load_corpus(pages.ROOT / "data")


def headline(corpus):
    """Return the headline table as Markdown."""
    systems = {}
    for name, label in (("qwen2.5-coder-0.5b-instruct", "0.5B"), ("qwen2.5-coder-1.5b-instruct", "1.5B")):
        run = load_run(ANSWERS / f"{name}.jsonl", corpus)
        systems[label] = evaluate(corpus, run.answers, run.contexts)
    systems["extraction"] = evaluate_baseline(corpus)
    table = comparison_table(systems)
    lines = [f"| {' | '.join(['measure', *table.columns])} |", f"|{'---|' * (len(table.columns) + 1)}"]
    lines += [f"| {' | '.join([str(label), *row])} |" for label, row in zip(table.index, table.to_numpy(), strict=True)]
    return "\n".join(lines)


def test_the_headline_table_is_what_the_records_give(corpus):
    match = re.search(r"<!-- headline: [^>]*-->\n(.*?)\n<!-- headline end -->", README, flags=re.DOTALL)
    assert match
    assert match[1].strip() == headline(corpus)


def test_the_prose_around_the_headline_holds(corpus):
    report = baseline_report(corpus)
    assert f"is {report['coverage']:.2f}: the evidence is usually there" in README
    assert 0.70 < report["chunk"] < 0.80
    table = headline(corpus)
    small, large, line = map(float, re.findall(r"(\d\.\d\d) \[", table.splitlines()[2]))
    assert 0.2 < small < 0.3
    assert 0.45 < large < 0.55
    assert 0.3 < line < 0.4


@pytest.mark.parametrize(
    "line",
    sorted(set(re.findall(r"`(ragfin [a-z][^`]*)`", README)) | set(re.findall(r"^ragfin .*$", README, re.M))),
)
def test_every_command_in_it_exists(line):
    words = [word for word in shlex.split(line)[1:] if re.fullmatch(r"[a-z]+", word)]
    name = words[:2] if words[0] in ("corpus", "models") else words[:1]
    result = CliRunner().invoke(app, [*name, "--help"])
    assert result.exit_code == 0, result.output
    for option in re.findall(r"--[a-z-]+", line):
        assert option in result.output


def test_every_target_of_make_in_it_exists():
    makefile = (pages.ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"`?make ([a-z]+)", README)) - {"sure"}
    assert {target for target in targets if not re.search(rf"^{target}:", makefile, re.M)} == set()


def test_it_and_the_book_carry_the_same_table_of_names():
    rows = [
        line for line in (pages.ROOT / "names.qmd").read_text(encoding="utf-8").splitlines() if line.startswith("|")
    ]
    assert "\n".join(rows) in README
