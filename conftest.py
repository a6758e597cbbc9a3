"""Rules for comparing stored notebook outputs, and what tests share: replay only, a browser where there is one."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

# Without these, a headless Chromium without a network logs failed look-ups of its own.
CHROMIUM_ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


def pytest_collectstart(collector: Any) -> None:
    """Skip HTML in nbval's comparison; a test of ours checks that HTML tables agree with their text."""
    if hasattr(collector, "skip_compare"):
        collector.skip_compare += ("text/html",)


@pytest.fixture(autouse=True)
def _replay_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tests from asking a model unasked; a test that goes live says so itself."""
    monkeypatch.setenv("RAGFIN_LIVE", "never")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Give a headless Chromium, or skip and say how to get one.

    A module at most, since playwright keeps an event loop running in this thread, in which others cannot start theirs.
    """
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed: pip install playwright"
    )
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no Chromium on the PATH: on Debian, apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=CHROMIUM_ARGUMENTS)
        yield browser
        browser.close()
