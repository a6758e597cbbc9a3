"""What an installed wheel carries: the library and the lesson's four small tables, nothing else of the checkout."""

import tomllib

from book import pages
from ragfin.contract import DOCUMENTS, PASSAGES, QUESTIONS

WHEEL = tomllib.loads((pages.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"][
    "wheel"
]


def test_a_wheel_carries_the_corpus_where_the_library_looks_for_it():
    carried = WHEEL["force-include"]
    assert [source for source in carried if not (pages.ROOT / source).is_file()] == []
    assert all(target == f"ragfin/{source}" for source, target in carried.items())
    names = {source.removeprefix("data/").partition(".")[0] for source in carried}
    assert all(set(table.stems) & names for table in (DOCUMENTS, PASSAGES, QUESTIONS))


def test_a_wheel_stays_small():
    size = sum((pages.ROOT / source).stat().st_size for source in WHEEL["force-include"])
    assert size < 200_000
