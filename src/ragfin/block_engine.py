"""Answer several questions together with a Qwen2 model on the CPU, with the same text as one by one.

What is saved against a loop of ``generate`` calls: the keys and values of the shared beginning of the chats (system
message) are computed once; prompts are packed one behind the other, without padding, for every matrix product; the
last layer and the logits are computed for the last token only; decoding runs as one batch, so that each weight is read
once per step for all questions; keys and values are written in place into buffers that are allocated once, rows that
have ended are taken out. Sequences in the buffers are aligned at the left, each with its own length.

The weights are the transformers model's own tensors, not copies. Only the Qwen2 architecture is handled.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor

PACKED_TOKENS = 1024
"""Prompt tokens that go through the matrix products together: more gains nothing and takes memory."""


class _Layer(NamedTuple):
    """The weights of one decoder layer."""

    norm1: Tensor
    q: Tensor
    q_bias: Tensor
    k: Tensor
    k_bias: Tensor
    v: Tensor
    v_bias: Tensor
    o: Tensor
    norm2: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor


@dataclass
class _Cache:
    """Keys and values of a batch, one tensor a layer, (rows, kv heads, room, head width); and each row's length."""

    keys: list[Tensor]
    values: list[Tensor]
    lengths: Tensor

    def keep(self, rows: Tensor) -> "_Cache":
        """Return the cache of some rows."""
        return _Cache([k[rows] for k in self.keys], [v[rows] for v in self.values], self.lengths[rows])


def supports(model: Any) -> bool:
    """Tell whether a transformers model is one that `BlockEngine` computes: plain Qwen2 on the CPU."""
    config = model.config
    rope = getattr(config, "rope_parameters", None) or {}
    return (
        config.model_type == "qwen2"
        and config.hidden_act == "silu"
        and not config.use_sliding_window
        and rope.get("rope_type", "default") == "default"
        and model.device.type == "cpu"
    )


class BlockEngine:
    """Greedy decoding of several token sequences at once.

    Parameters
    ----------
    model : transformers.Qwen2ForCausalLM
        On the CPU, in float32 or bfloat16.
    prefix : sequence of int
        Token ids with which chats begin; a sequence that begins otherwise is answered all the same, without the gain.
    stop_ids : sequence of int
        A sequence ends after the first of these.
    """

    def __init__(self, model: Any, prefix: Sequence[int], stop_ids: Sequence[int]) -> None:
        config = model.config
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.width = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.eps = config.rms_norm_eps
        self.stop_ids = torch.tensor(list(stop_ids))
        self.embedding, self.head = model.model.embed_tokens.weight, model.lm_head.weight
        self.norm, self.rotary = model.model.norm.weight, model.model.rotary_emb
        self.layers = [_layer(layer) for layer in model.model.layers]
        self.dtype = self.embedding.dtype
        self.prefix = list(prefix)
        with torch.inference_mode():
            self._prefix_cache = self._compute_prefix()

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def generate(
        self, prompts: Sequence[Sequence[int]], max_new_tokens: int, repetition_penalty: float = 1.0
    ) -> list[list[int]]:
        """Continue each prompt greedily.

        Parameters
        ----------
        prompts : sequence of sequence of int
            Token ids, at least one each.
        max_new_tokens : int
            At least 1.
        repetition_penalty : float, optional
            As in transformers: seen tokens' positive logits are divided by it, negative ones multiplied.

        Returns
        -------
        list of list of int
            The new token ids of each prompt, the stop token included; at most ``max_new_tokens``.
        """
        cache, hidden = self.prefill(prompts, max_new_tokens)
        new: list[list[int]] = [[] for _ in prompts]
        rows = list(range(len(prompts)))  # which prompt each row of the cache belongs to
        while True:
            logits = F.linear(hidden, self.head).float()
            if repetition_penalty != 1.0:
                for row, prompt in enumerate(rows):
                    _penalise(logits[row], [*prompts[prompt], *new[prompt]], repetition_penalty)
            tokens = logits.argmax(-1)
            for prompt, token in zip(rows, tokens.tolist(), strict=True):
                new[prompt].append(token)
            ended = torch.isin(tokens, self.stop_ids)
            if len(new[rows[0]]) == max_new_tokens or bool(ended.all()):
                return new
            if bool(ended.any()):
                going = torch.nonzero(~ended)[:, 0]
                cache, tokens = cache.keep(going), tokens[going]
                rows = [rows[i] for i in going.tolist()]
            hidden = self.step(tokens, cache)

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def prefill(self, prompts: Sequence[Sequence[int]], room: int) -> tuple[_Cache, Tensor]:
        """Compute the cache of the prompts, with ``room`` free places a row, and the last hidden state of each.

        Returns
        -------
        _Cache, Tensor
            The cache, and float hidden states after the final norm, shape (n_prompts, hidden width).
        """
        lengths = [len(prompt) for prompt in prompts]
        shape = (len(prompts), self.kv_heads, max(lengths) + room, self.width)
        cache = _Cache(
            [torch.zeros(shape, dtype=self.dtype) for _ in self.layers],
            [torch.zeros(shape, dtype=self.dtype) for _ in self.layers],
            torch.tensor(lengths),
        )
        shared = [self.shared(prompt) for prompt in prompts]
        for row, start in enumerate(shared):
            if start:
                for buffers, prefix in (
                    (cache.keys, self._prefix_cache.keys),
                    (cache.values, self._prefix_cache.values),
                ):
                    for buffer, known in zip(buffers, prefix, strict=True):
                        buffer[row, :, :start] = known[0, :, :start]
        packs: list[list[int]] = [[]]
        for row in range(len(prompts)):
            if packs[-1] and sum(lengths[i] - shared[i] for i in [*packs[-1], row]) > PACKED_TOKENS:
                packs.append([])
            packs[-1].append(row)
        hidden = [self._prefill_pack(prompts, pack, shared, cache) for pack in packs]
        return cache, torch.cat(hidden)

    def shared(self, prompt: Sequence[int]) -> int:
        """Return how many tokens of the prompt are the known prefix: all of it or none; one token must remain."""
        n = len(self.prefix)
        return n if 0 < n < len(prompt) and list(prompt[:n]) == self.prefix else 0

    def prefill_multiply_adds(self, prompts: Sequence[Sequence[int]]) -> int:
        """Return the multiply-adds of the weight matrices that `prefill` computes; attention itself not counted."""
        per_layer = [{name: w.numel() for name, w in layer._asdict().items() if w.dim() == 2} for layer in self.layers]
        tokens: int = sum(len(prompt) - self.shared(prompt) for prompt in prompts)
        last = per_layer[-1]
        keys_and_values = last["k"] + last["v"]  # for the last layer's other tokens nothing else is computed, but q
        rest = sum(last.values()) - keys_and_values - last["q"]
        full = sum(sum(layer.values()) for layer in per_layer[:-1])
        total: int = tokens * (full + keys_and_values + last["q"]) + len(prompts) * rest
        return total

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def step(self, tokens: Tensor, cache: _Cache) -> Tensor:
        """Take in one token a row, writing its keys and values in place; return the last hidden states."""
        n = len(tokens)
        groups = self.heads // self.kv_heads
        x = self.embedding[tokens]
        cos, sin = self._angles(cache.lengths)
        rows, reach = torch.arange(n), int(cache.lengths.max()) + 1
        mask = (torch.arange(reach) <= cache.lengths[:, None])[:, None, None, :]
        for layer, keys, values in zip(self.layers, cache.keys, cache.values, strict=True):
            q, k, v = self._project(layer, x, cos, sin)
            keys[rows, :, cache.lengths] = k
            values[rows, :, cache.lengths] = v
            # the query heads that share a key head stand where positions would: no copy of the keys is made
            found = F.scaled_dot_product_attention(
                q.view(n, self.kv_heads, groups, self.width), keys[:, :, :reach], values[:, :, :reach], attn_mask=mask
            )
            x = self._mix(layer, x, found.reshape(n, -1))
        cache.lengths += 1
        return self._rms(x, self.norm)

    def _prefill_pack(
        self, prompts: Sequence[Sequence[int]], pack: Sequence[int], shared: Sequence[int], cache: _Cache
    ) -> Tensor:
        """Run some prompts through the layers, one behind the other; return each one's last hidden state."""
        pieces = [torch.tensor(prompts[row][shared[row] :]) for row in pack]
        sizes = [len(piece) for piece in pieces]
        ends = torch.tensor(sizes).cumsum(0)
        x = self.embedding[torch.cat(pieces)]
        positions = torch.cat([torch.arange(shared[row], len(prompts[row])) for row in pack])
        cos, sin = self._angles(positions)
        for number, (layer, keys, values) in enumerate(
            zip(self.layers, cache.keys, cache.values, strict=True), start=1
        ):
            q, k, v = self._project(layer, x, cos, sin)
            last = number == len(self.layers)
            found = []
            parts = zip(pack, q.split(sizes), k.split(sizes), v.split(sizes), strict=True)
            for row, own_q, own_k, own_v in parts:
                start, end = shared[row], len(prompts[row])
                keys[row, :, start:end] = own_k.transpose(0, 1)
                values[row, :, start:end] = own_v.transpose(0, 1)
                found.append(self._attend(own_q[-1:] if last else own_q, keys[row, :, :end], values[row, :, :end]))
            x = self._mix(layer, x[ends - 1] if last else x, torch.cat(found))
        return self._rms(x, self.norm)

    def _attend(self, q: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Attend causally: the queries (tokens, heads, width) are the last ones of the keys (heads, tokens, width)."""
        n, reach = len(q), keys.shape[1]
        groups = self.heads // self.kv_heads
        mask = None if n == 1 else torch.ones(n, reach, dtype=torch.bool).tril(reach - n)
        found = F.scaled_dot_product_attention(
            q.transpose(0, 1)[None],
            keys.repeat_interleave(groups, dim=0)[None],
            values.repeat_interleave(groups, dim=0)[None],
            attn_mask=mask,
        )
        return found[0].transpose(0, 1).reshape(n, -1)

    def _project(self, layer: _Layer, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return rotated queries, rotated keys and values, shape (tokens, heads, width)."""
        x = self._rms(x, layer.norm1)
        q = F.linear(x, layer.q, layer.q_bias).view(len(x), -1, self.width)
        k = F.linear(x, layer.k, layer.k_bias).view(len(x), -1, self.width)
        v = F.linear(x, layer.v, layer.v_bias).view(len(x), -1, self.width)
        return _rotate(q, cos, sin), _rotate(k, cos, sin), v

    def _mix(self, layer: _Layer, x: Tensor, found: Tensor) -> Tensor:
        """Add what attention found, then what the feed-forward part makes of it."""
        x = x + F.linear(found, layer.o)
        y = self._rms(x, layer.norm2)
        gate = F.silu(F.linear(y, layer.gate), inplace=True)
        return x + F.linear(gate.mul_(F.linear(y, layer.up)), layer.down)

    def _rms(self, x: Tensor, weight: Tensor) -> Tensor:
        """Normalise by the root mean square, in float32 whatever the dtype."""
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.eps)
        return weight * y.to(x.dtype)

    def _angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosine and sine of the rotary embedding, shape (tokens, 1, width)."""
        cos, sin = self.rotary(self.embedding[:1], positions[None])
        return cast(Tensor, cos[0, :, None]), cast(Tensor, sin[0, :, None])

    def _compute_prefix(self) -> _Cache:
        """Compute the cache of the prefix."""
        prefix, self.prefix = self.prefix, []
        empty = _Cache([], [], torch.tensor([0]))
        self._prefix_cache = empty
        cache = self.prefill([prefix], 0)[0] if prefix else empty
        self.prefix = prefix
        return cache


def _layer(layer: Any) -> _Layer:
    """Collect the weights of a transformers decoder layer."""
    attention, mlp = layer.self_attn, layer.mlp
    return _Layer(
        layer.input_layernorm.weight,
        *(attention.q_proj.weight, attention.q_proj.bias),
        *(attention.k_proj.weight, attention.k_proj.bias),
        *(attention.v_proj.weight, attention.v_proj.bias),
        attention.o_proj.weight,
        layer.post_attention_layernorm.weight,
        *(mlp.gate_proj.weight, mlp.up_proj.weight, mlp.down_proj.weight),
    )


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Apply the rotary embedding."""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cos + turned * sin


def _penalise(logits: Tensor, seen: Sequence[int], penalty: float) -> None:
    """Weaken the tokens that were seen, in place."""
    ids = torch.tensor(seen)
    scores = logits[ids]
    logits[ids] = torch.where(scores < 0, scores * penalty, scores / penalty)
