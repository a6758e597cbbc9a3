"""Rules for comparing stored notebook outputs: text is compared to the letter, HTML and images are not."""

from typing import Any

import pytest


def pytest_collectstart(collector: Any) -> None:
    """Skip HTML in nbval's comparison; a test of ours checks that HTML tables agree with their text."""
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += ("text/html",)


@pytest.fixture(autouse=True)
def _replay_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests from asking a model unasked; a test that goes live says so itself."""
    monkeypatch.setenv("RAGFIN_LIVE", "never")
