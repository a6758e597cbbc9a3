import html
import json
import re

import pandas as pd
import pytest
from bs4 import BeautifulSoup
from hypothesis import given
from hypothesis import strategies as st
from small_record import TEXTS, write_record
from typer.testing import CliRunner

from ragfin import load_corpus
from ragfin.cli import app
from ragfin.comparison import compare_pairs, comparison_table
from ragfin.evaluation import evaluate, evaluate_baseline, failures_by_link
from ragfin.generation import Answer
from ragfin.report import comparison_page
from ragfin.report_questions import baseline_contexts, marked
from ragfin.runs import fragments, load_run

HOSTILE = (
    "<script>window.hurt = 1</script>",
    '<img src=x onerror="window.hurt = 1">',
    "</details></main></body></html><h1 id=broken>",
    '" onmouseover="window.hurt = 1" x="',
    "' autofocus onfocus=window.hurt=1 '",
    "javascript:window.hurt=1 &lt;b&gt; &amp;#60;",
    "<!-- <![CDATA[ ]]> --> {{7*7}} ${1} \x00 \u202e abc",
    "<style>body { display: none }</style><base href=//example.org><iframe srcdoc='<script>parent.hurt=1</script>'>",
)


def answers_to(texts, finish="stop"):
    return [Answer(i, text, (1,) if "[1]" in text else (), finish) for i, text in texts.items()]


def system(corpus, texts, name="model", context="retrieved"):
    questions = [corpus.question(question_id) for question_id in texts]
    contexts = fragments(corpus, questions, context=context)
    return evaluate(corpus, answers_to(texts), contexts, system=name), contexts


def page_of(corpus, texts=TEXTS):
    rows, contexts = system(corpus, texts)
    return comparison_page(corpus, {"model": rows, "extraction": evaluate_baseline(corpus)}, {"model": contexts})


def soup_of(page):
    return BeautifulSoup(page, "html.parser")


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


# marks


def test_a_gold_part_is_marked_and_the_rest_is_not():
    assert marked("uno dos tres", (0, 12), [(4, 7)]) == 'uno <mark class="gold">dos</mark> tres'
    assert marked("uno dos tres", (4, 12), [(0, 7)]) == '<mark class="gold">dos</mark> tres'
    assert marked("uno", (0, 3), [(3, 9)]) == "uno"


def test_overlapping_gold_is_marked_once_and_touching_pieces_stay_whole():
    assert marked("abcdef", (0, 6), [(0, 3), (2, 5)]).count("gold") == 3
    assert re.sub("<[^>]*>", "", marked("abcdef", (0, 6), [(0, 3), (2, 5)])) == "abcdef"


@given(st.text(), st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=4), st.booleans())
def test_marks_never_change_the_text(text, gold, cited):
    shown = marked(text, (0, len(text)), gold, cited=cited)
    assert html.unescape(re.sub(r"</?mark[^>]*>", "", shown)) == html.unescape(html.escape(text))
    assert "<" not in re.sub(r"</?mark[^>]*>", "", shown)


def test_offsets_are_code_points_of_the_raw_text(small_corpus):
    texts = dict(zip(small_corpus.documents["doc_id"], small_corpus.documents["text"], strict=True))
    [passage] = small_corpus.question("QA004").gold_passages
    soup = soup_of(page_of(small_corpus))
    gold = [mark.get_text() for mark in soup.select("#QA004 mark.gold")]
    assert gold == [texts["R01"][passage.start : passage.end]]
    assert "😀" in gold[0]


# what the page shows


def test_the_headline_table_is_the_comparison_with_its_intervals(small_corpus):
    rows, contexts = system(small_corpus, TEXTS)
    extraction = evaluate_baseline(small_corpus)
    soup = soup_of(comparison_page(small_corpus, {"model": rows, "extraction": extraction}, {"model": contexts}))
    table = comparison_table({"model": rows, "extraction": extraction})
    shown = {tr.th.get_text(): [td.get_text() for td in tr.find_all("td")] for tr in soup.table.tbody.find_all("tr")}
    assert list(shown) == ["coverage", *table.index]
    for label, cells in table.iterrows():
        for text, expected in zip(shown[label], cells, strict=True):
            assert text.removeprefix("≈ ").startswith(expected)


def test_a_mean_of_fractions_has_its_bootstrap_interval_and_others_have_none(small_corpus):
    texts = TEXTS | {"QA001": "20,5 [1][2]", "QA002": "312,4 [1][2][3]"}
    contexts = fragments(small_corpus, list(small_corpus))
    answers = [Answer(i, text, tuple(map(int, re.findall(r"\[(\d)\]", text))), "stop") for i, text in texts.items()]
    rows = evaluate(small_corpus, answers, contexts)
    cells = {tr.th.get_text(): tr.td for tr in soup_of(comparison_page(small_corpus, {"m": rows})).tbody.find_all("tr")}
    assert "≈" in cells["correct citations"].get_text()
    assert "bootstrap [" in cells["correct citations"].get_text()
    assert "bootstrap" not in cells["exact"].get_text()


def test_the_pairs_and_the_links_are_those_of_the_library(small_corpus):
    rows, contexts = system(small_corpus, TEXTS)
    extraction = evaluate_baseline(small_corpus)
    soup = soup_of(comparison_page(small_corpus, {"model": rows, "extraction": extraction}, {"model": contexts}))
    pair = compare_pairs(rows, extraction, "exact")
    exact = next(tr for tr in soup.find_all("table")[1].tbody.find_all("tr") if tr.th.get_text() == "exact")
    cells = [td.get_text() for td in exact.find_all("td")]
    assert cells[0] == str(pair.n)
    assert cells[2] == f"{pair.mcnemar.only_first} and {pair.mcnemar.only_second}"
    counts = failures_by_link(rows).iloc[0]
    shown = {b["data-link"]: int(b.get_text()) for b in soup.select('button[data-system="0"]')}
    assert {link: n for link, n in shown.items() if n} == {link: n for link, n in counts.items() if n}
    assert sum(shown.values()) == len(TEXTS)


def test_each_question_shows_answer_gold_context_and_what_was_cited(small_corpus):
    soup = soup_of(page_of(small_corpus))
    assert [item["id"] for item in soup.select("details.question")] == list(TEXTS)
    for question in small_corpus:
        item = soup.find(id=question.id)
        assert item.select_one(".gold-answer").get_text() == question.gold_answer
        assert TEXTS[question.id] in [said.get_text() for said in item.select(".said")]
        assert len(item.select(".chunk:not(.missing)")) == 3
        assert bool(item.select("mark.gold")) is question.answerable
    cited = soup.select("#QA001 .chunk.is-cited")
    assert [chunk.select_one(".by").get_text() for chunk in cited] == ["cited by model and extraction"]
    assert cited[0].select("mark.cited")


def test_gold_that_the_context_lacks_is_quoted(small_corpus):
    rows, contexts = system(small_corpus, {"QA002": "Nada"}, context="none")
    soup = soup_of(comparison_page(small_corpus, {"closed": rows}, {"closed": contexts}))
    item = soup.find(id="QA002")
    assert "None: the question alone." in item.get_text()
    assert len(item.select(".chunk.missing")) == 2
    assert "La deuda financiera neta de Arven" in item.select_one(".chunk.missing").get_text()


def test_systems_that_read_other_things_show_their_own_context(small_corpus):
    a, retrieved = system(small_corpus, {"QA002": "312,4 [1]"}, "a")
    b, gold = system(small_corpus, {"QA002": "312,4 [1]"}, "b", context="gold")
    page = soup_of(comparison_page(small_corpus, {"a": a, "b": b}, {"a": retrieved, "b": gold}))
    assert [h.get_text() for h in page.select("#QA002 h3")][-2:] == ["Context of a", "Context of b"]


def test_the_baseline_is_shown_with_the_chunks_that_it_searched(small_corpus):
    contexts = baseline_contexts(small_corpus)
    soup = soup_of(comparison_page(small_corpus, {"extraction": evaluate_baseline(small_corpus)}))
    head = soup.select_one("#QA004 .chunk .head").get_text()
    assert head.startswith(f"[1] {contexts['QA004'][0].doc_id} ")
    assert "cited by extraction" in head


def test_a_failed_answer_is_neither_wrong_nor_silent(small_corpus):
    contexts = fragments(small_corpus, list(small_corpus))
    rows = evaluate(small_corpus, [Answer("QA001", "", (), "failed")], contexts)
    item = soup_of(comparison_page(small_corpus, {"m": rows}, {"m": contexts})).find(id="QA001")
    assert item.select_one(".said").get_text() == "(the generation failed)"
    assert "exact n/a" in item.get_text()
    assert item["data-links"] == "0:failed"


def test_nothing_to_show_is_refused(small_corpus):
    with pytest.raises(ValueError, match="no answer to show"):
        comparison_page(small_corpus, {})
    with pytest.raises(ValueError, match="no answer to show"):
        comparison_page(small_corpus, {"m": evaluate_baseline(small_corpus).iloc[:0]})


# escaping


@pytest.mark.parametrize("text", HOSTILE)
def test_what_an_answer_contains_is_shown_and_not_obeyed(small_corpus, text):
    harmless = re.sub("[<>&\"']", " ", text)
    clean, hostile = (soup_of(page_of(small_corpus, TEXTS | {"QA001": value})) for value in (harmless, text))
    assert [tag.name for tag in hostile.find_all(True)] == [tag.name for tag in clean.find_all(True)]
    assert hostile.select_one("#QA001 .said").get_text() == text


def test_questions_documents_kinds_and_names_are_escaped_too(loaded, small_tables):
    bad = '<b onclick="x">"&'
    small_tables["questions"].loc[0, ["question", "gold_answer", "kind"]] = [f"¿{bad}?", bad, bad]
    small_tables["documents"].loc[0, "title"] = bad
    text = small_tables["documents"].loc[0, "text"]
    small_tables["documents"].loc[0, "text"] = text.replace("Ventas (", "<b>nta (")
    corpus = loaded(small_tables)
    rows, contexts = system(corpus, {"QA001": "x"}, bad)
    soup = soup_of(comparison_page(corpus, {bad: rows}, {bad: contexts}))
    assert [tag for tag in soup.find_all("b") if "gold-answer" not in tag.get("class", [])] == []
    assert soup.find(id="QA001")["data-kind"] == bad
    assert soup.h1.get_text() == bad
    assert "<b>nta (" in soup.select_one("#QA001").get_text()


def test_the_page_loads_nothing_and_lets_in_only_its_own_script(small_corpus):
    page = page_of(small_corpus)
    soup = soup_of(page)
    policy = soup.find("meta", attrs={"http-equiv": "Content-Security-Policy"})["content"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert list(soup.find_all(src=True)) == []
    assert [tag["href"] for tag in soup.find_all(href=True)] == ["data:,"]
    assert "http:" not in page
    assert "https:" not in page
    assert not [name for tag in soup.find_all(True) for name in tag.attrs if name.startswith("on") or name == "style"]


# the commands


def test_both_commands_write_the_page(tmp_path, small_folder):
    record = write_record(tmp_path / "a.jsonl", small_folder, TEXTS)
    one, two = tmp_path / "one.html", tmp_path / "two.html"
    assert run("evaluate", record, "--data", small_folder, "--html", one).exit_code == 0
    assert run("compare", record, "baseline", "--data", small_folder, "--html", two).exit_code == 0
    assert soup_of(one.read_text(encoding="utf-8")).h1.get_text() == "endpoint/small k=3"
    assert soup_of(two.read_text(encoding="utf-8")).h1.get_text() == "endpoint/small k=3 and extraction"
    again = one.read_bytes()
    run("evaluate", record, "--data", small_folder, "--html", one)
    assert one.read_bytes() == again


def test_the_page_json_and_csv_of_a_comparison_are_about_the_same_questions(tmp_path, small_folder):
    a = write_record(tmp_path / "a.jsonl", small_folder, TEXTS)
    b = write_record(tmp_path / "b.jsonl", small_folder, {i: TEXTS[i] for i in ("QA001", "QA006")}, "other")
    page, table = tmp_path / "p.html", tmp_path / "rows.csv"
    result = run("compare", a, b, "--data", small_folder, "--html", page, "--csv", table, "--json")
    assert json.loads(result.stdout)["questions"] == {"first": 8, "second": 2, "common": 2}
    assert {item["id"] for item in soup_of(page.read_text(encoding="utf-8")).select("details")} == {"QA001", "QA006"}
    assert set(pd.read_csv(table)["question_id"]) == {"QA001", "QA006"}


def test_the_gate_passes_when_the_change_is_no_worse_and_fails_when_it_is(tmp_path, small_folder):
    good = write_record(tmp_path / "good.jsonl", small_folder, TEXTS)
    bad = write_record(tmp_path / "bad.jsonl", small_folder, dict.fromkeys(TEXTS, "Nada"))
    gate = ("--data", small_folder, "--fail-if-worse", "exact")
    assert run("compare", good, good, *gate).exit_code == 0
    assert run("compare", bad, good, *gate).exit_code == 0
    worse = run("compare", good, bad, *gate)
    assert worse.exit_code == 1
    assert re.search(r"is worse on exact: -0\.\d+ \[-\d\.\d+, -0\.\d+\] over 8 questions$", worse.stderr.strip())


def test_the_gate_does_not_fire_within_the_interval(tmp_path, small_folder):
    good = write_record(tmp_path / "good.jsonl", small_folder, TEXTS)
    slightly = write_record(tmp_path / "slightly.jsonl", small_folder, TEXTS | {"QA001": "7 %"})
    result = run("compare", good, slightly, "--data", small_folder, "--fail-if-worse", "exact")
    assert result.exit_code == 0
    corpus = load_corpus(small_folder)
    runs = [load_run(path, corpus) for path in (good, slightly)]
    rows = [evaluate(corpus, kept.answers, kept.contexts) for kept in runs]
    assert compare_pairs(*rows, "exact").difference.mean < 0


def test_the_gate_judges_nothing_by_no_pair_and_does_not_overlook_failures(tmp_path, small_folder):
    good = write_record(tmp_path / "good.jsonl", small_folder, TEXTS)
    broken = write_record(tmp_path / "broken.jsonl", small_folder, TEXTS, failed=["QA004"])
    result = run("compare", good, good, "--data", small_folder, "--fail-if-worse", "chunk")
    assert result.exit_code == 1
    assert "chunk applies to no question of both systems" in result.stderr
    result = run("compare", good, broken, "--data", small_folder, "--fail-if-worse", "exact")
    assert result.exit_code == 1
    assert "has 1 failed generations" in result.stderr
    assert run("compare", broken, good, "--data", small_folder, "--fail-if-worse", "exact").exit_code == 0


# in a browser


@pytest.fixture
def opened(chromium, tmp_path):
    """Open a page as a file; whatever it logs, raises or asks for is kept."""

    def open_page(content, width=1000):
        path = tmp_path / "page.html"
        path.write_text(content, encoding="utf-8")
        page = chromium.new_page(viewport={"width": width, "height": 800})
        page.set_default_timeout(10_000)
        page.problems = []
        page.on("console", lambda message: page.problems.append(message.text))
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("request", lambda request: page.problems.append(request.url) if request.url != path.as_uri() else None)
        page.goto(path.as_uri())
        return page

    return open_page


@pytest.mark.browser
def test_the_filter_narrows_the_questions_and_says_how_many_are_left(small_corpus, opened):
    page = opened(page_of(small_corpus))
    shown = page.locator("details.question:visible")
    assert shown.count() == 8
    assert page.inner_text("#count") == "8 of 8 questions"
    page.fill("input[name=text]", "PLANTILLA")
    assert [item.get_attribute("id") for item in shown.all()] == ["QA005"]
    page.fill("input[name=text]", "semestral")
    assert page.inner_text("#count") == "1 of 8 questions"
    page.click("text=show all")
    page.wait_for_function("document.getElementById('count').textContent === '8 of 8 questions'")
    page.select_option("select[name=kind]", "no_respondible")
    assert [item.get_attribute("id") for item in shown.all()] == ["QA006", "QA008"]
    page.select_option("select[name=link]", "missed_abstention")
    page.select_option("select[name=system]", "0")
    assert [item.get_attribute("id") for item in shown.all()] == ["QA008"]
    assert page.problems == []


@pytest.mark.browser
def test_a_count_of_failures_leads_to_its_questions(small_corpus, opened):
    rows, contexts = system(small_corpus, TEXTS)
    extraction = evaluate_baseline(small_corpus)
    page = opened(comparison_page(small_corpus, {"model": rows, "extraction": extraction}, {"model": contexts}))
    for number, frame in enumerate((rows, extraction)):
        for link, group in frame.groupby("failed_link"):
            page.click(f'button[data-link="{link}"][data-system="{number}"]')
            visible = [item.get_attribute("id") for item in page.locator("details.question:visible").all()]
            assert visible == list(group["question_id"])
    page.click("text=show all")
    page.check("input[name=split]")
    differ = [i for i, x, y in zip(rows["question_id"], rows["exact"], extraction["exact"], strict=True) if x != y]
    assert [item.get_attribute("id") for item in page.locator("details.question:visible").all()] == differ
    assert page.problems == []


@pytest.mark.browser
def test_gold_and_cited_parts_are_marked_to_the_eye(small_corpus, opened):
    page = opened(page_of(small_corpus))
    page.click("#QA004 summary")
    gold = page.locator("#QA004 mark.gold").first
    assert gold.is_visible()
    colours = [
        page.locator(f"#QA004 {name}").first.evaluate("node => getComputedStyle(node).backgroundColor")
        for name in ("mark.gold", "mark.cited:not(.gold)", ".said")
    ]
    assert len(set(colours)) == 3
    assert page.problems == []


@pytest.mark.browser
@pytest.mark.parametrize("text", HOSTILE)
def test_no_answer_runs_or_breaks_out_in_a_browser(small_corpus, opened, text):
    page = opened(page_of(small_corpus, dict.fromkeys(TEXTS, text)))
    page.evaluate("document.querySelectorAll('details').forEach(item => { item.open = true; })")
    page.hover("#QA001 .said")
    assert page.evaluate("window.hurt") is None
    assert page.locator("#broken").count() == 0
    assert page.locator("details.question:visible").count() == 8
    assert page.locator("main details.question").count() == 8
    assert page.problems == []


@pytest.mark.browser
def test_the_policy_stops_a_script_that_got_in_all_the_same(small_corpus, opened):
    page = opened(page_of(small_corpus).replace("<h2>Questions</h2>", "<script>window.hurt = 1</script>"))
    assert page.evaluate("window.hurt") is None
    assert any("Content Security Policy" in problem for problem in page.problems)


@pytest.mark.browser
def test_the_page_fits_a_narrow_screen(small_corpus, opened):
    page = opened(page_of(small_corpus, TEXTS | {"QA001": "x" * 3000}), width=380)
    page.evaluate("document.querySelectorAll('details').forEach(item => { item.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    assert page.locator("table td").first.evaluate("node => getComputedStyle(node, '::before').content") != "none"
    assert page.problems == []


@pytest.mark.browser
def test_an_address_with_an_id_opens_that_question(small_corpus, opened, tmp_path):
    page = opened(page_of(small_corpus))
    page.goto((tmp_path / "page.html").as_uri() + "#QA004")
    page.wait_for_function("document.getElementById('QA004').open")
    assert page.locator("details[open]").count() == 1
