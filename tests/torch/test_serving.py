"""Exact angles in front of a rotary class as inference engines have them; the engines themselves
are tested by `make hooks`."""

from typing import Any

import numpy as np
import pytest
import torch

import rotary
import rotary.torch
from rotary.torch.serving import ExactAngles, InDouble, exact_rows, layout_text

PAIRS, ROWS, THETA = 16, 300, 10000.0


class Engine(torch.nn.Module):
    """The two methods of the engines' classes, in float32."""

    def __init__(self, factors: list[float] | None = None, mscale: float = 1.0) -> None:
        super().__init__()
        self.mscale = mscale
        self.scaling_factors = factors or [1.0]
        self.register_buffer("table", self._compute_cos_sin_cache(), persistent=False)

    def _compute_inv_freq(self, base: float) -> torch.Tensor:
        exponents = torch.arange(0, 2 * PAIRS, 2, dtype=torch.float) / (2 * PAIRS)
        return torch.tensor(1.0) / base ** exponents.float()

    def _compute_cos_sin_cache(self) -> torch.Tensor:
        positions = torch.arange(ROWS, dtype=torch.float) / self.scaling_factors[0]
        angles = positions[:, None] * self._compute_inv_freq(THETA)
        return torch.cat((angles.cos(), angles.sin()), -1) * self.mscale


class Exact(ExactAngles, Engine):
    pass


def right(rope: rotary.Rope, first: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.concatenate(rope.cos_sin(first, tokens=ROWS), -1))


def test_the_table_is_that_of_the_recipe() -> None:
    rope = rotary.Rope(head_dim=2 * PAIRS, theta=THETA, pairing="half")
    exact = Exact()
    assert exact.exact_frequencies == pytest.approx(rope.frequencies.values[:, 0], rel=1e-15)
    assert (exact.table - right(rope)).abs().max() < 1e-7
    assert (Engine().table - right(rope)).abs().max() > 3e-6  # what float32 makes of it
    interpolated = rotary.Rope(
        head_dim=2 * PAIRS, theta=THETA, pairing="half", scaling=rotary.Linear(factor=4.0)
    )
    assert (Exact([4.0]).table - right(interpolated)).abs().max() < 1e-7
    assert (Exact(mscale=1.25).table - 1.25 * right(rope)).abs().max() < 2e-7
    far = exact_rows(exact.exact_frequencies, 1.0, 10**9, ROWS)
    assert (far - right(rope, 10**9)).abs().max() < 1e-6


def test_a_construction_without_numbers() -> None:
    with torch.device("meta"):
        exact = Exact()
    assert exact.table.is_meta and len(exact.exact_frequencies) == PAIRS


def test_rejects_a_table_of_other_angles() -> None:
    class Other(ExactAngles, Engine):
        def scale_of_table(self, *args: Any, **kwargs: Any) -> float:
            return 1.01

    with pytest.raises(ValueError, match="Other cannot have exact angles: its table differs by"):
        Other()
    with pytest.raises(ValueError, match=r"one scaling factor is supported, got \[2.0, 4.0\]"):
        Exact([2.0, 4.0])


def test_in_double() -> None:
    with InDouble():
        made = [
            torch.arange(3, dtype=torch.float32),
            torch.arange(3).float(),
            torch.arange(3).to(torch.float32),
            torch.tensor(0.1),
        ]
        assert torch.tensor(3).dtype == torch.int64
    assert {x.dtype for x in made} == {torch.float64}
    assert float(made[-1]) == 0.1


def test_text_of_several_axes() -> None:
    rope = rotary.Rope(
        head_dim=2 * PAIRS, theta=THETA, pairing="half", axes=rotary.Mrope(sections=(6, 5, 5))
    )
    axis_of_pair = [0] * 6 + [1] * 5 + [2] * 5
    frequencies = rope.frequencies.values.sum(-1).tolist()
    text = layout_text(2 * PAIRS, frequencies, pairing="half", axis_of_pair=axis_of_pair)
    x = torch.randn(7, 3, 2 * PAIRS)
    positions = torch.randint(0, 10**6, (3, 1, 7))
    wanted = rope.rotate(x[None].numpy(), positions=positions.numpy())[0]
    found = rotary.torch.rotate(x, rope=text, positions=positions)
    assert torch.equal(found, torch.from_numpy(wanted))
    one = rotary.torch.rotate(x, rope=text, positions=positions[0, 0])
    same = rotary.torch.rotate(x, rope=text, positions=positions[:1].expand(3, 1, 7))
    assert torch.equal(one, same)
