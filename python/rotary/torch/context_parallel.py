# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""One sequence across several ranks: each holds a shard of the tokens, and attention gathers keys
and values by PyTorch's collectives.

    across = rotary.torch.ContextParallel(group)        # a process group, or None for all ranks
    mine = across.shard(x, dim=1)
    attention = rotary.torch.Attention(512, 8, causal=True, context_parallel=across)
    y = across.gather(attention(mine), dim=1)

Results and gradients are those of one rank. Which tokens a rank holds, in 2 x ranks chunks (rank
numbers; 4 ranks):
    contiguous  [0 0 1 1 2 2 3 3]   tokens divide by ranks
    zigzag      [0 1 2 3 3 2 1 0]   tokens divide by 2 x ranks: under a causal mask every rank has
                                    the same number of scores to compute
"""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor

from ._library import ops

Shard = Literal["zigzag", "contiguous"]


class ContextParallel:
    """A group of ranks, and how a sequence is sharded over them. Holds the name of the process
    group, not the group itself, so that modules with it can be copied."""

    def __init__(self, group: Any = None, shard: Shard = "zigzag") -> None:
        import torch.distributed as dist

        if shard not in ("zigzag", "contiguous"):
            raise ValueError(f"[ContextParallel] shard must be zigzag or contiguous, got {shard!r}")
        group = dist.group.WORLD if group is None else group
        self.group: str = group.group_name
        self.rank: int = dist.get_rank(group)
        self.ranks: int = dist.get_world_size(group)
        self.layout = shard

    def positions(self, tokens: int, like: Tensor) -> Tensor:
        """Positions of this rank's tokens, of `tokens` in all: [tokens / ranks], int64."""
        result: Tensor = ops.shard_positions(like, tokens, self.rank, self.ranks, self.layout)
        return result

    def shard(self, x: Tensor, dim: int) -> Tensor:
        """This rank's part of x along `dim`."""
        result: Tensor = ops.shard_tokens(x, dim, self.rank, self.ranks, self.layout)
        return result

    def gather(self, x: Tensor, dim: int) -> Tensor:
        """The inverse of shard(); every rank calls it. Its backward sums the gradients of all
        ranks: a loss that every rank computes from the whole counts once per rank."""
        result: Tensor = ops.gather_tokens(x, dim, self.group, self.ranks, self.layout)
        return result

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        causal: bool = False,
        window: int | None = None,
        padding: Tensor | None = None,
        bias: Tensor | None = None,
        dropout: float = 0.0,
        scale: float | None = None,
    ) -> Tensor:
        """rotary.torch.attend() for shards: q, k, v and padding are this rank's; a bias is
        [.., this rank's queries, all keys]."""
        result: Tensor = ops.attend_across(
            q,
            k,
            v,
            group=self.group,
            rank=self.rank,
            ranks=self.ranks,
            shard=self.layout,
            causal=causal,
            window=window,
            padding=padding,
            bias=bias,
            dropout=dropout,
            scale=scale,
        )
        return result
