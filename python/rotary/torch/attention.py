# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Softmax attention: a function over queries, keys and values, a cache, and a module.

    y = rotary.torch.attend(q, k, v, rope=rope, causal=True)
    attention = rotary.torch.Attention(512, 8, causal=True, encoding=rotary.torch.Rotation(rope))

Runs on fused kernels wherever mask and bias allow; attention_backend() says which. The C++ module
of rotary/transformer/attention.h has the same parameters by the same names.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ._library import ops
from ._projections import Projections
from .context_parallel import ContextParallel
from .encodings import Encoding
from .text import rope_text, with_inverse_growth


@lru_cache(maxsize=256)
def _parse(text: str) -> tuple[str, float]:
    return with_inverse_growth(text), float(json.loads(text).get("softmax_scale", 1.0))


def _for_keys(text: str) -> tuple[str, float]:
    """The rope of keys, and its softmax_scale."""
    return _parse(text)


# What torch.compiler.assume_constant_result sets. That function imports torch._dynamo, which would
# make `import rotary.torch` take almost twice as long.
_for_keys._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _rotated(
    q: Tensor, k: Tensor, rope: Any, positions: Tensor | None, cu_seqlens: Tensor | None
) -> tuple[Tensor, Tensor, float]:
    text = rope if isinstance(rope, str) else rope_text(rope)
    key_text, softmax_scale = _for_keys(text)
    token_positions = (positions, cu_seqlens, 0, -2)
    if key_text == text:
        q, k = ops.rotate.default((q, k), text, *token_positions)
    else:
        (q,) = ops.rotate.default((q,), text, *token_positions)
        (k,) = ops.rotate.default((k,), key_text, *token_positions)
    return q, k, softmax_scale


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    rope: Any = None,
    positions: Tensor | None = None,
    first: int = 0,
    causal: bool = False,
    window: int | None = None,
    padding: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    cu_seqlens_k: Tensor | None = None,
    max_seqlen: int | None = None,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    scale: float | None = None,
    value_vectors: Tensor | None = None,
) -> Tensor:
    """softmax(scale q k^T + bias) v over [batch, heads, tokens, head_dim], with any strides. k and
    v may have fewer heads than q, a divisor of their number; v may have another head_dim.

    A query sees the keys that all of these allow; one that sees none gives 0:
        causal      only keys up to its own
        window      only keys less than `window` tokens away (with causal: `window` keys)
        padding     bool [batch, keys]: true where there is a token
        cu_seqlens  [sequences + 1]: packed sequences; only keys of its own. cu_seqlens_k where
                    keys have other lengths: the last query is aligned with the last key.
                    max_seqlen, the longest of them, saves a GPU work where it is known
        first       query t is aligned with key first + t: earlier keys come from a cache

    bias broadcasts to [batch, heads, queries, keys]. scale is 1/sqrt(head_dim) by default.
    value_vectors, [2 m + 1, head_dim of v], adds sum_j w_ij value_vectors[m + clip(j - i, -m, m)]
    to the outputs of the weights w, by token index (Shaw et al. 2018), with plain operations.
    rope rotates q and k first, both at `positions` (or those of cu_seqlens), and its softmax_scale
    is applied. Keys of a cache are rotated already: give no rope for them.
    """
    if rope is not None:
        if first != 0 or cu_seqlens_k is not None:
            raise ValueError(
                "[attend] a rope rotates queries and keys of the same tokens: with first or "
                "cu_seqlens_k rotate them before"
            )
        q, k, factor = _rotated(q, k, rope, positions, cu_seqlens)
        if factor != 1.0:
            scale = (q.shape[-1] ** -0.5 if scale is None else scale) * factor
    elif positions is not None:
        raise ValueError("[attend] positions need a rope")
    result: Tensor = ops.attend(
        q,
        k,
        v,
        first=first,
        causal=causal,
        window=window,
        padding=padding,
        cu_seqlens=cu_seqlens,
        cu_seqlens_k=cu_seqlens_k,
        max_seqlen=max_seqlen,
        bias=bias,
        dropout=dropout,
        scale=scale,
        value_vectors=value_vectors,
    )
    return result


def attention_backend(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> str:
    """The kernel that attend() of these runs: "rotary", the library's own, or PyTorch's "flash",
    "cudnn", "efficient" or "math"."""
    options.pop("rope", None)
    options.pop("positions", None)
    return str(ops.attention_backend(q, k, v, **options))


def last_attention_backend() -> str:
    """The kernel of the last attend() of this thread; empty before the first."""
    return str(ops.last_attention_backend())


class KeyValueCache:
    """Keys and values of the tokens so far, [batch, heads, tokens, head_dim]. Capacity is allocated
    ahead and doubles when it is full. For inference: tensors that require gradients are refused."""

    def __init__(self, capacity: int = 0) -> None:
        self.capacity = capacity
        self.tokens = 0
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Adds tokens; returns all keys and values, as views that live until the cache grows."""
        self._check(k, v)
        with torch.no_grad():
            end = self.tokens + k.shape[2]
            if self._keys is None or self._values is None:
                self.capacity = max(end, self.capacity)
                self._keys, self._values = self._empty(k), self._empty(v)
            elif end > self.capacity:
                self.capacity = max(end, 2 * self.capacity)
                self._keys, self._values = self._grown(self._keys), self._grown(self._values)
            self._keys[:, :, self.tokens : end] = k
            self._values[:, :, self.tokens : end] = v
        self.tokens = end
        return self._keys[:, :, :end], self._values[:, :, :end]

    def truncate(self, tokens: int) -> None:
        """Drops the tokens from `tokens` on; keeps the memory."""
        if not 0 <= tokens <= self.tokens:
            raise ValueError(
                f"[KeyValueCache] tokens must be from 0 to {self.tokens}, got {tokens}"
            )
        self.tokens = tokens

    def reorder(self, rows: Tensor) -> None:
        """Row b becomes the former row rows[b]: beam search."""
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._keys[rows], self._values[rows]

    def _empty(self, like: Tensor) -> Tensor:
        batch, heads, _, head_dim = like.shape
        return like.new_empty(batch, heads, self.capacity, head_dim)

    def _grown(self, old: Tensor) -> Tensor:
        grown = self._empty(old)
        grown[:, :, : self.tokens] = old[:, :, : self.tokens]
        return grown

    def _check(self, k: Tensor, v: Tensor) -> None:
        if torch.is_grad_enabled() and (k.requires_grad or v.requires_grad):
            raise ValueError(
                "[KeyValueCache] keys and values must not need gradients, got some that do"
            )
        if k.dim() != 4 or v.dim() != 4 or k.shape[2] != v.shape[2]:
            raise ValueError(
                "[KeyValueCache] k and v must be [batch, heads, tokens, head_dim] with the same "
                f"tokens, got {list(k.shape)} and {list(v.shape)}"
            )
        for new, old in ((k, self._keys), (v, self._values)):
            if old is not None and _all_but_tokens(new) != _all_but_tokens(old):
                raise ValueError(
                    "[KeyValueCache] k and v must be as those before but for their tokens, got "
                    f"{list(k.shape)} and {list(v.shape)}"
                )


def _all_but_tokens(x: Tensor) -> tuple[Any, ...]:
    return (x.shape[0], x.shape[1], x.shape[3], x.dtype, x.device)


class Attention(Projections):
    """Linear layers `query`, `key`, `value` and `output` around attend(), and the submodule
    `encoding`: [batch, tokens, model_dim] to the same.

    kv_heads: heads of keys and values, by default as many as `heads`.
    kv_dim: the width of `memory`, the source of keys and values, by default model_dim.
    encoding: position encoding; may be shared by several modules. The model itself applies
        encodings of the input: encoding.embed(x).
    rotate_values: values are rotated with the keys (RoFormer's rotary_value).
    scale: by default 1/sqrt(head_dim); multiplied by the encoding's softmax_scale.
    context_parallel: the sequence is sharded across ranks, and x is this rank's shard.

    `backend` names the kernel of the last call outside torch.compile; empty before the first.
    """

    def __init__(
        self,
        model_dim: int,
        heads: int,
        *,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        kv_dim: int | None = None,
        bias: bool = True,
        output_bias: bool = True,
        causal: bool = False,
        window: int | None = None,
        dropout: float = 0.0,
        rotate_values: bool = False,
        scale: float | None = None,
        encoding: Encoding | None = None,
        context_parallel: ContextParallel | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            model_dim,
            heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            kv_dim=kv_dim,
            bias=bias,
            output_bias=output_bias,
            device=device,
            dtype=dtype,
        )
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"[Attention] dropout must be at least 0 and below 1, got {dropout}")
        self.causal, self.window, self.dropout = causal, window, dropout
        self.rotate_values = rotate_values
        self.scale = self.head_dim**-0.5 if scale is None else scale
        self.context_parallel = context_parallel
        self.backend = ""
        self.encoding = encoding

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        *,
        padding: Tensor | None = None,
        positions: Tensor | None = None,
        memory_positions: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        memory_cu_seqlens: Tensor | None = None,
        max_seqlen: int | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """memory: [batch, tokens, kv_dim], the source of keys and values instead of x.
        padding: bool [batch, keys], those of the cache included: true where there is a token.
        positions: of the tokens of x, as in rotary.torch.rotate(); by default from 0, or from the
            end of the cache on. memory_positions: the same for the memory.
        cache: keys and values are appended to it, and queries attend to all of it."""
        self._check(x, memory, memory_positions, cu_seqlens, memory_cu_seqlens, cache)
        q, k, v = self.project(x, x if memory is None else memory)
        first = 0 if cache is None else cache.tokens
        across, encoding = self.context_parallel, self.encoding
        given = positions is not None
        if across is not None and positions is None:
            positions = across.positions(x.shape[1] * across.ranks, x)
        of_keys = None if memory is None else (memory_positions, memory_cu_seqlens)
        if encoding is not None and "query_key" in encoding.targets:
            q, k, *values = encoding.rotate(
                [q],
                [k, v] if self.rotate_values else [k],
                positions,
                cu_seqlens=cu_seqlens,
                first=0 if given else first,
                key_positions=of_keys,
            )
            v = values[0] if self.rotate_values else v
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if cache is not None:
            k, v = cache.append(k, v)
        options: dict[str, Any] = {
            "causal": self.causal,
            "window": self.window,
            "padding": padding,
            "dropout": self.dropout if self.training else 0.0,
            "scale": self.scale * (1.0 if encoding is None else encoding.softmax_scale),
        }
        if encoding is not None and "score" in encoding.targets:
            by_index = cache is not None or not (given or memory is not None)
            of_queries = None if by_index else (positions, cu_seqlens)
            options["bias"] = self._bias(encoding, q, k, first, of_queries, of_keys)
        if encoding is not None and "content" in encoding.targets:
            if across is not None or given or memory is not None:
                raise ValueError(
                    "[Attention] an encoding of the content supports no positions, memory or "
                    "ranks: its distances are those of token indices"
                )
            content = encoding.content_bias(q, k, first)
            if content is not None:
                content = content * options["scale"]
                bias = options.get("bias")
                options["bias"] = content if bias is None else bias + content
            options["value_vectors"] = encoding.value_vectors(q)
        if across is not None:
            y = across.attend(q, k, v, **options)
        else:
            packed = {"cu_seqlens": cu_seqlens, "cu_seqlens_k": memory_cu_seqlens}
            y = ops.attend(q, k, v, first=first, max_seqlen=max_seqlen, **packed, **options)
        if not torch.compiler.is_compiling():
            self.backend = last_attention_backend()
        return self.join(y)

    def _bias(
        self,
        encoding: Encoding,
        q: Tensor,
        k: Tensor,
        first: int,
        of_queries: tuple[Tensor | None, Tensor | None] | None,
        of_keys: tuple[Tensor | None, Tensor | None] | None,
    ) -> Tensor | None:
        """By positions and cu_seqlens of queries, and those of keys where they differ. Where
        of_queries is None distances are those of token indices, also in a cache and within packed
        sequences."""
        across = self.context_parallel
        queries, keys = q.shape[2], k.shape[2]
        given: dict[str, Any] = {"first": first}
        if across is not None:
            keys *= across.ranks
            if of_queries is None:
                given["query_positions"] = across.positions(keys, q)
            else:
                mine = given["query_positions"] = ops.token_positions(q, queries, *of_queries)
                given["key_positions"] = across.gather(mine, mine.dim() - 1)
        elif of_queries is not None:
            given["query_positions"] = ops.token_positions(q, queries, *of_queries)
            given["key_positions"] = ops.token_positions(k, keys, *(of_keys or of_queries))
        return encoding.bias(queries, keys, like=q, **given)

    def _check(
        self,
        x: Tensor,
        memory: Tensor | None,
        memory_positions: Tensor | None,
        cu_seqlens: Tensor | None,
        memory_cu_seqlens: Tensor | None,
        cache: KeyValueCache | None,
    ) -> None:
        if x.dim() != 3 or x.shape[2] != self.model_dim:
            raise ValueError(
                f"[Attention] x must be [batch, tokens, {self.model_dim}], got {list(x.shape)}"
            )
        if memory is not None and (memory.dim() != 3 or memory.shape[2] != self.kv_dim):
            raise ValueError(
                f"[Attention] memory must be [batch, tokens, {self.kv_dim}], "
                f"got {list(memory.shape)}"
            )
        if memory is None and not (memory_positions is None and memory_cu_seqlens is None):
            raise ValueError("[Attention] memory_positions and memory_cu_seqlens need memory")
        more_than_x = memory is not None or cu_seqlens is not None
        if cache is not None and more_than_x:
            raise ValueError("[Attention] a cache supports neither memory nor packed sequences")
        if self.context_parallel is not None and (cache is not None or more_than_x):
            raise ValueError(
                "[Attention] cache, memory and packed sequences are not supported across ranks"
            )

    def extra_repr(self) -> str:
        parts = [super().extra_repr()]
        parts += ["causal=True"] if self.causal else []
        parts += [f"window={self.window}"] if self.window is not None else []
        return ", ".join(parts)
