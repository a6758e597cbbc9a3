"""Models that run here: transformers, from the hub, a folder or a GGUF file, on the CPU.

Decoding is greedy and every option of it is set here; whatever a model's own generation config says (Qwen's carries a
repetition penalty of 1.1) does not act. The tokenizer and the float32 weights that a GGUF file unpacks to are kept in
the cache. Constructing a generator loads nothing: torch and transformers are imported when the first answer is asked.
"""

import hashlib
import importlib.util
import itertools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ragfin import models
from ragfin.models import ModelError
from ragfin.prompts import Message, Request
from ragfin.records import Answer, Identity

if TYPE_CHECKING:
    from torch import Tensor

    from ragfin.block_engine import BlockEngine

Dtype = Literal["float32", "bfloat16"]

_STOP_TOKENS = ("<|im_end|>", "<|endoftext|>")


@dataclass(frozen=True, slots=True)
class Decoding:
    """Greedy decoding: at most ``max_new_tokens``, each the most likely one.

    ``repetition_penalty`` other than 1.0 divides the positive logits of every token that was seen, prompt included,
    and multiplies the negative ones (transformers' rule). ``seed`` seeds torch, though nothing is sampled.
    """

    max_new_tokens: int = 40
    repetition_penalty: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Weights:
    """Where a model's files are: a folder that transformers loads, or a GGUF file; and what identifies it."""

    name: str
    sha256: str
    path: Path


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A transformers model with its tokenizer; ``stop_ids`` end an answer."""

    model: Any
    tokenizer: Any
    stop_ids: tuple[int, ...]

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """Return the token ids of a chat, by the tokenizer's own template, up to where the answer begins."""
        chat = [message._asdict() for message in messages]
        text = self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])


class TransformersGenerator:
    """Answer with a model on this machine.

    Parameters
    ----------
    model : str or Path
        A name of ``models.toml``; a folder that transformers loads; a ``.gguf`` file; or a hub id like ``org/name``.
    dtype : {"float32", "bfloat16"}, optional
        float32 unless told: its text is the same one by one and in blocks.
    decoding : Decoding, optional
        Greedy, 40 new tokens, no repetition penalty unless told.
    block : int, optional
        How many questions are decoded together. 1 runs transformers' own ``generate`` on each.
    revision : str, optional
        Commit of a hub id; ignored otherwise.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        dtype: Dtype = "float32",
        decoding: Decoding = Decoding(),
        block: int = 32,
        revision: str | None = None,
    ) -> None:
        if dtype not in ("float32", "bfloat16"):
            raise ValueError(f"dtype is {dtype!r}: choose float32 or bfloat16")
        if block < 1:
            raise ValueError(f"block is {block}: a block holds 1 question or more")
        self.model, self.dtype, self.decoding, self.block, self.revision = model, dtype, decoding, block, revision
        self._engine_for: tuple[tuple[Message, ...], BlockEngine] | None = None

    @cached_property
    def identity(self) -> Identity:
        """Model, SHA-256, dtype and every decoding option; known without loading a model of ``models.toml``."""
        if (name := str(self.model)) in models.specs():
            sha256 = models.spec(name).weights.sha256
        else:
            found = self._weights
            name, sha256 = found.name, found.sha256
        settings = {"strategy": "greedy", **asdict(self.decoding)}
        settings["repetition_penalty"] = float(self.decoding.repetition_penalty)
        return Identity(name, sha256, self.dtype, settings)

    @cached_property
    def loaded(self) -> LoadedModel:
        """The model in memory; loaded on first use.

        Raises
        ------
        ModelError
            The packages or the files are missing.
        """
        if reason := self.unavailable():
            raise ModelError(f"cannot run {self.model}: {reason}")
        return load(self._weights, self.dtype)

    def unavailable(self) -> str:
        """Return why the model cannot run here, with the repair; empty when it can."""
        lacking = [name for name in ("torch", "transformers", "gguf") if importlib.util.find_spec(name) is None]
        if lacking:
            return f"{' and '.join(lacking)} not installed; run `pip install 'ragfin[llm]'`"
        if (name := str(self.model)) in models.specs() and not models.is_cached(name):
            return f"the model is not in the cache; run `ragfin models get {name}`"
        return ""

    def answer(self, request: Request) -> Answer:
        """Answer one question with transformers' own ``generate``."""
        loaded = self.loaded
        ids = loaded.prompt_ids(request.messages)
        if reason := _too_long(loaded, ids, self.decoding):
            return Answer.failure(request, reason)
        try:
            return finished(loaded, request, len(ids), self.continue_with_scores(ids)[0])
        except (RuntimeError, MemoryError) as error:
            return Answer.failure(request, _failure_text(error))

    def answer_many(self, requests: Sequence[Request]) -> Iterator[Answer]:
        """Answer several questions, in their order: as one block where the model allows it, else one by one."""
        loaded = self.loaded
        engine = self._engine(requests[0].messages[:-1]) if self.block > 1 and requests else None
        if engine is None:
            yield from map(self.answer, requests)
            return
        prompts = [loaded.prompt_ids(request.messages) for request in requests]
        fitting = [i for i, ids in enumerate(prompts) if not _too_long(loaded, ids, self.decoding)]
        made: dict[int, list[int]] = {}
        if fitting:
            try:
                with deterministic(self.decoding.seed):
                    new = engine.generate(
                        [prompts[i] for i in fitting], self.decoding.max_new_tokens, self.decoding.repetition_penalty
                    )
                made = dict(zip(fitting, new, strict=True))
            except (RuntimeError, MemoryError):  # too much for one block: each alone says which one fails, and why
                pass
        for i, request in enumerate(requests):
            yield finished(loaded, request, len(prompts[i]), made[i]) if i in made else self.answer(request)

    def continue_with_scores(self, ids: Sequence[int]) -> "tuple[list[int], list[Tensor]]":
        """Continue token ids by transformers' ``generate``.

        Returns
        -------
        list of int, list of Tensor
            The new ids, the stop token included, and at each of them the scores that it was chosen by: the logits
            after the repetition penalty, shape (vocabulary,).
        """
        import torch
        from transformers import GenerationConfig

        loaded, decoding = self.loaded, self.decoding
        config = GenerationConfig(
            do_sample=False,
            num_beams=1,
            max_new_tokens=decoding.max_new_tokens,
            repetition_penalty=float(decoding.repetition_penalty),
            eos_token_id=list(loaded.stop_ids),
            pad_token_id=loaded.stop_ids[-1],
            use_cache=True,
            output_scores=True,
            return_dict_in_generate=True,
        )
        prompt = torch.tensor([list(ids)])
        with deterministic(decoding.seed), torch.inference_mode():
            out = loaded.model.generate(prompt, attention_mask=torch.ones_like(prompt), generation_config=config)
        return out.sequences[0, len(ids) :].tolist(), [row[0] for row in out.scores]

    def _engine(self, opening: tuple[Message, ...]) -> "BlockEngine | None":
        """Return the engine for chats that open with these messages; None for a model that it does not compute."""
        from ragfin.block_engine import BlockEngine, supports

        loaded = self.loaded
        if not supports(loaded.model):
            return None
        if self._engine_for is None or self._engine_for[0] != opening:
            probes = [loaded.prompt_ids((*opening, Message("user", text))) for text in ("a", "¿")]
            same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*probes, strict=False))
            prefix = [token for token, _ in same]
            with deterministic(self.decoding.seed):
                self._engine_for = (opening, BlockEngine(loaded.model, prefix, loaded.stop_ids))
        return self._engine_for[1]

    @cached_property
    def _weights(self) -> Weights:
        return find_weights(self.model, self.revision)


def find_weights(model: str | Path, revision: str | None = None) -> Weights:
    """Return where a model's files are, fetching those of a hub id.

    Raises
    ------
    ModelError
        There is no such model.
    """
    name, path = str(model), Path(model)
    if name in models.specs():
        spec = models.spec(name)
        folder = models.fetch(name)
        return Weights(name, spec.weights.sha256, folder / spec.weights.name if spec.format == "gguf" else folder)
    if path.is_file() and path.suffix == ".gguf":
        return Weights(path.stem, models.sha256_file(path), path)
    if path.is_dir():
        return Weights(path.name, _folder_sha256(path), path)
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        from huggingface_hub import snapshot_download

        try:
            folder = Path(snapshot_download(name, revision=revision))
        except Exception as error:  # the client raises errors of several libraries
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise ModelError(f"cannot get {name} from the hub: {reason}; name a local folder or .gguf file") from None
        return Weights(name, _folder_sha256(folder), folder)
    raise ModelError(
        f"no model {name!r}: name one of {', '.join(models.specs())}, a folder, a .gguf file or a hub id like org/name"
    )


def load(weights: Weights, dtype: Dtype = "float32") -> LoadedModel:
    """Load a model onto the CPU.

    Parameters
    ----------
    weights : Weights
        From `find_weights`.
    dtype : {"float32", "bfloat16"}, optional
        Of the weights and of the arithmetic.

    Returns
    -------
    LoadedModel
        In evaluation mode.
    """
    patient_threads()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = unpack_gguf(weights) if weights.path.suffix == ".gguf" else weights.path
    with _quiet_transformers():
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, dtype=getattr(torch, dtype)).eval()
    return LoadedModel(model, tokenizer, _stop_ids(model, tokenizer))


def unpack_gguf(weights: Weights) -> Path:
    """Unpack a GGUF file to float32 weights and a tokenizer in the cache, unless they are there.

    Returns
    -------
    Path
        The folder, which transformers loads in seconds.

    Raises
    ------
    ModelError
        The disk has no room for it.
    """
    target = models.cache_folder() / "unpacked" / f"{weights.name}-{weights.sha256[:12]}-float32"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with models.lock(f"unpack-{weights.sha256[:12]}"):
            if not target.is_dir():
                models.require_free(target.parent, _float32_bytes(weights.path))
                for stale in target.parent.glob(f"{target.name}.*"):
                    shutil.rmtree(stale)
                draft = Path(tempfile.mkdtemp(prefix=f"{target.name}.", dir=target.parent))
                try:
                    _unpack(weights.path, draft)
                    draft.replace(target)
                except BaseException:
                    shutil.rmtree(draft, ignore_errors=True)
                    raise
    except OSError as error:
        raise ModelError(f"cannot unpack {weights.path.name} to {target}: {error.strerror or error}") from None
    return target


def patient_threads() -> None:
    """Let OpenMP's threads sleep while they wait, unless the environment says otherwise.

    By default they spin. Where another process takes one of the cores, every one of the thousands of small parallel
    steps of decoding then waits for the scheduler: 2.7 s a token were measured instead of 0.2. It acts only before
    torch is imported.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@contextmanager
def deterministic(seed: int) -> Iterator[None]:
    """Seed torch and let it use deterministic algorithms only; the former setting comes back afterwards."""
    import torch

    before = torch.are_deterministic_algorithms_enabled()
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


def finished(loaded: LoadedModel, request: Request, n_prompt: int, ids: Sequence[int]) -> Answer:
    """Turn generated token ids into an answer: cut at the first stop token, or by the limit when there is none."""
    stop = next((i for i, token in enumerate(ids) if token in loaded.stop_ids), None)
    text = loaded.tokenizer.decode(ids[:stop], skip_special_tokens=True)
    return Answer.parse(
        request,
        text,
        "length" if stop is None else "stop",
        prompt_tokens=n_prompt,
        completion_tokens=len(ids) if stop is None else stop + 1,
    )


def _unpack(gguf: Path, folder: Path) -> None:
    """Write tokenizer and float32 weights of a GGUF file into a folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with _quiet_transformers():
        where: dict[str, Any] = {"gguf_file": gguf.name, "local_files_only": True}
        AutoTokenizer.from_pretrained(gguf.parent, **where).save_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **where)
        model.hf_quantizer.remove_quantization_config(model)
        model.save_pretrained(folder)


def _float32_bytes(gguf: Path) -> int:
    """Return how many bytes the weights of a GGUF file take as float32."""
    from gguf import GGUFReader

    return sum(4 * int(tensor.n_elements) for tensor in GGUFReader(gguf).tensors)


def _failure_text(error: BaseException) -> str:
    """Return type and first line of an error, without what differs from run to run."""
    line = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {re.sub(r'0x[0-9a-f]+', '0x…', line)}".rstrip(": ")


def _folder_sha256(folder: Path) -> str:
    """Return one SHA-256 for what a folder's model depends on: weights, configuration and tokenizer."""
    kinds = {".safetensors", ".bin", ".json", ".txt", ".jinja", ".model"}
    files = sorted(path for path in folder.iterdir() if path.suffix in kinds)
    return hashlib.sha256(json.dumps([[p.name, models.sha256_file(p)] for p in files]).encode()).hexdigest()


def _stop_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Return the ids that end an answer: the tokenizer's and the model's own, and the chat's closing marks."""
    configured = [tokenizer.eos_token_id, model.config.eos_token_id]
    flat = [i for entry in configured for i in (entry if isinstance(entry, list) else [entry])]
    vocabulary = tokenizer.get_vocab()
    return tuple(
        dict.fromkeys([i for i in flat if i is not None] + [vocabulary[t] for t in _STOP_TOKENS if t in vocabulary])
    )


def _too_long(loaded: LoadedModel, ids: Sequence[int], decoding: Decoding) -> str:
    """Return why a prompt does not fit the model; empty when it does."""
    limit = getattr(loaded.model.config, "max_position_embeddings", None)
    if limit is None or len(ids) + decoding.max_new_tokens <= limit:
        return ""
    return f"prompt of {len(ids)} tokens and {decoding.max_new_tokens} new ones exceed the model's {limit}"


@contextmanager
def _quiet_transformers() -> Iterator[None]:
    """Keep transformers' own bars and notices off the screen while it loads."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()
