"""ragfin.toml, and what a language changes: shown on a small English corpus."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragfin import CorpusError, load_corpus
from ragfin.checks import corpus_report
from ragfin.chunking import Chunk
from ragfin.evaluation import evaluate, evaluate_baseline
from ragfin.extraction import baseline_report
from ragfin.figures import figures
from ragfin.generation import generate
from ragfin.language import ENGLISH, SPANISH
from ragfin.metrics import abstains, contains_gold, exact, faithful
from ragfin.pipeline import chunks_of, generator_of, prompt_of, retriever_of, search_all
from ragfin.prompts import CLOSED_BOOK_PROMPT, RAG_PROMPT
from ragfin.records import Answer, Identity
from ragfin.retrieval import BM25Retriever, Hit
from ragfin.settings import Settings, SettingsError, load_settings

ENGLISH_CORPUS = Path(__file__).parent / "english"


@pytest.fixture(scope="module")
def english():
    pytest.importorskip("markdownify", reason="one document is HTML: pip install 'ragfin[convert]'")
    return load_corpus(ENGLISH_CORPUS)


@pytest.fixture
def settings_of(tmp_path):
    """Load settings from the text of the file."""

    def load(text: str) -> Settings:
        (tmp_path / "ragfin.toml").write_text(text, encoding="utf-8", newline="")
        return load_settings(tmp_path)

    return load


def test_without_a_file_everything_is_as_in_the_lesson(tmp_path, small_corpus):
    settings = load_settings(tmp_path)
    assert (settings.k, settings.max_chars, settings.retriever, settings.model) == (3, 800, "bm25", None)
    assert settings.spoken() == SPANISH == small_corpus.language
    assert (prompt_of(settings), prompt_of(settings, closed_book=True)) == (RAG_PROMPT, CLOSED_BOOK_PROMPT)


def test_every_setting_is_read(settings_of):
    settings = settings_of(
        '\ufeffk = 5\r\nmax_chars = 1200\r\nretriever = "own:Dense"\r\n'
        '[language]\nbase = "en"\nstop_words = ["The", "café"]\nabstention = "n/a"\nnumber_locale = "es"\n'
        '[prompt]\nsystem = "Be brief."\nquestion_label = "Q: "\n'
        '[model]\nname = "m"\nurl = "http://127.0.0.1:8080/v1/"\nkey_variable = "K"\nmax_tokens = 9\nconcurrency = 2\n'
        "timeout = 5\nretries = 0\n[model.options]\ntop_p = 0.5\n"
        '[prices]\ninput = 1\noutput = 2.5\ncurrency = "EUR"\n'
    )
    language, prompt = settings.spoken(), prompt_of(settings)
    assert (settings.k, settings.max_chars, settings.retriever) == (5, 1200, "own:Dense")
    assert (language.stop_words, language.abstention, language.locale) == (frozenset({"the", "cafe"}), "n/a", "es")
    assert (prompt.system, prompt.question_label, prompt.answer_label) == ("Be brief.", "Q: ", "Answer:")
    assert settings.model.url == "http://127.0.0.1:8080/v1"
    assert generator_of(settings.model).identity.settings == {
        "temperature": 0, "seed": 0, "max_tokens": 9, "top_p": 0.5,
    }  # fmt: skip
    assert settings.prices.cost(2_000_000, 1_000_000) == 4.5


def test_all_faults_are_told_at_once_each_with_name_and_repair(settings_of):
    with pytest.raises(SettingsError) as raised:
        settings_of(
            'k = 0\nmax_chars = "800"\nchunk = 3\nlanguage = "fr"\n[model]\nurl = "ftp://x"\n[prices]\ninput = 1\n'
        )
    told = sorted(str(fault) for fault in raised.value.faults)
    assert told == [
        "ragfin.toml: chunk is unknown; correct the name, or drop the line",
        "ragfin.toml: k is 0; input should be greater than or equal to 1",
        "ragfin.toml: language.base is 'fr'; input should be 'es' or 'en'",
        "ragfin.toml: max_chars is '800'; input should be a valid integer",
        "ragfin.toml: model.name is missing; add it",
        "ragfin.toml: model.url is 'ftp://x' is no address: write one like http://127.0.0.1:8080/v1; correct it",
        "ragfin.toml: prices.output is missing; add it",
    ]


@pytest.mark.parametrize("url", ["http://user:pw@host/v1", "http://host/v1?key=abc"])
def test_a_key_in_an_address_is_refused(settings_of, url):
    with pytest.raises(SettingsError, match="put the key into the environment instead") as raised:
        settings_of(f'[model]\nname = "m"\nurl = "{url}"\n')
    assert "pw" not in str(raised.value)
    assert "abc" not in str(raised.value)


def test_a_key_in_the_file_is_refused_and_not_repeated(settings_of):
    with pytest.raises(SettingsError, match=r"model\.api_key is unknown") as raised:
        settings_of('[model]\nname = "m"\napi_key = "sk-secret"\n')
    assert "sk-secret" not in str(raised.value)


@pytest.mark.parametrize(("data", "problem"), [("k = ", "is no TOML"), (b"# \xf3\n", "cannot be read")])
def test_what_is_no_toml_says_where(tmp_path, data, problem):
    (tmp_path / "ragfin.toml").write_bytes(data if isinstance(data, bytes) else data.encode())
    with pytest.raises(SettingsError, match=problem):
        load_settings(tmp_path)


def test_faults_of_settings_and_tables_come_together(small_folder):
    (small_folder / "ragfin.toml").write_text("k = 0\n", encoding="utf-8")
    (small_folder / "passages.parquet").unlink()
    with pytest.raises(CorpusError) as raised:
        load_corpus(small_folder)
    assert {fault.file for fault in raised.value.faults} >= {"ragfin.toml", "passages.parquet"}


def test_the_longest_chunk_is_a_setting(english, tmp_path):
    """The two paragraphs on the fund's income are one chunk of 117 characters, or two."""
    shutil.copytree(ENGLISH_CORPUS, tmp_path / "shorter")
    (tmp_path / "shorter" / "ragfin.toml").write_text('language = "en"\nmax_chars = 116\n', encoding="utf-8")
    shorter = load_corpus(tmp_path / "shorter")
    assert (len(chunks_of(english)), len(chunks_of(shorter))) == (10, 11)
    assert corpus_report(shorter)["n_chunks"] == baseline_report(shorter)["n_chunks"] == 11


class Backwards:
    """A retriever of one's own, the last chunks first."""

    def __init__(self, chunks: list[Chunk]) -> None:
        self.chunks = list(chunks)

    def search(self, question: str, k: int = 3) -> list[Hit]:
        return [Hit(chunk, 1.0) for chunk in self.chunks[::-1][:k]]


class Parrot:
    """A generator of one's own: it repeats the first fragment's first line."""

    identity = Identity("parrot", "", "none", {})

    def answer(self, request):
        return Answer.parse(request, request.messages[-1].content.partition("\n")[0], "stop")


def test_a_retriever_of_one_s_own_is_named_in_the_file(small_folder):
    (small_folder / "ragfin.toml").write_text(f'retriever = "{__name__}:Backwards"\n', encoding="utf-8")
    corpus = load_corpus(small_folder)
    [[hit]] = search_all(retriever_of(corpus), ["¿?"], 1)
    assert hit.chunk == chunks_of(corpus)[-1]


def test_a_generator_of_one_s_own_is_named_in_the_file(settings_of, small_corpus, monkeypatch):
    monkeypatch.setenv("RAGFIN_LIVE", "auto")
    generator = generator_of(settings_of(f'[model]\nname = "{__name__}:Parrot"\n').model)
    [answer] = generate(list(small_corpus)[:1], generator, [["uno\n\ndos"]], progress=lambda *_: None)
    assert (answer.text, answer.cited) == ("[1] uno", (1,))


@pytest.mark.parametrize("name", ["no_such_module:X", f"{__name__}:Nothing"])
def test_what_cannot_be_imported_is_said_in_one_line(small_folder, name):
    (small_folder / "ragfin.toml").write_text(f'retriever = "{name}"\n', encoding="utf-8")
    with pytest.raises(ValueError, match=rf"^cannot import '{name}' .*: write module:name, importable from here$"):
        retriever_of(load_corpus(small_folder))


def test_an_english_corpus_is_found_sound(english):
    report = corpus_report(english)
    assert (report["n_questions"], report["n_unanswerable"], report["gold_faults"]) == (12, 3, [])
    assert report["needs_several_chunks"] == ["E006"]
    assert report["by_kind"] == {"calculation": 1, "footnote": 1, "table": 2, "text": 5, "unanswerable": 3}


def test_english_answers_are_measured_in_english(english):
    """Arithmetic: 9 answerable questions right, 3 abstentions, all by the gold's own words and figures."""
    chunks = chunks_of(english)
    contexts = {q.id: chunks for q in english}
    answers = [Answer(q.id, f"{q.gold_answer}.", (), "stop") for q in english]
    rows = evaluate(english, answers, contexts)
    assert rows["exact"].mean() == 1
    assert rows.loc[~rows["answerable"], "abstains"].mean() == 1
    assert rows.set_index("question_id").loc["E006", "faithful"] == 0  # 115 is computed, and stands nowhere
    assert rows["faithful"].sum() == 8
    spanish = evaluate(list(english), answers, contexts, language=SPANISH)
    assert spanish["abstains"].sum() == 0


def test_the_english_baseline_leaves_stop_words_out_and_abstains_in_english(english):
    report, rows = baseline_report(english), evaluate_baseline(english)
    assert report["coverage"] == pytest.approx(17 / 18)  # E006 has one of two passages among the three best
    assert set(rows.loc[rows["abstains"] == 1, "answer"]) == {"Not stated."}
    chunks = chunks_of(english)
    question = english.question("E005").text
    ours = retriever_of(english).search(question, 3)
    assert ours == BM25Retriever(chunks, stop_words=ENGLISH.stop_words).search(question, 3)
    assert ours != BM25Retriever(chunks).search(question, 3)


def test_an_english_prompt_asks_in_english(english):
    request = prompt_of(english.settings).request(english.question("E001"), ["Halden > Key figures\n\nRevenue 1."])
    assert "reply exactly: Not stated." in request.messages[0].content
    assert request.messages[1].content.endswith(
        "Question: What was the revenue of Halden Marine in 2023?\nAnswer:"
    )  # fmt: skip


def test_measures_follow_the_language(english):
    people = english.question("E005")
    assert exact("They were 5,505 in 2023 [1].", people, language=ENGLISH)
    assert exact("5505 people", people, language=ENGLISH)
    assert not exact("5.505 people", people, language=ENGLISH)
    assert not exact("5505", people)  # read as Spanish, the gold 5,505 is 5.505
    assert contains_gold("5,505 of 6,000.5", people, language=ENGLISH)
    assert faithful("1,204.7", "debt of 1204.70", people, language=ENGLISH)
    assert abstains("It is NOT STATED.", language=ENGLISH)
    assert not abstains("No consta.", language=ENGLISH)
    assert abstains("Sin datos", language=replace(SPANISH, abstention="Sin datos"))


@given(st.text("0123456789.,[] a", max_size=30))
def test_english_figures_are_the_spanish_ones_with_the_marks_swapped(text):
    assert figures(text, locale="en") == figures(text.translate(str.maketrans(".,", ",.")))
