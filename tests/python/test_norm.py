"""Rope.norm_rotate against norms by their definition, in NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import rotary

ROPE = rotary.Rope(head_dim=16, theta=1e4, pairing="half", rotary_dim=12)


def normed(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, how: rotary.Norm
) -> np.ndarray:
    rows = x.astype(np.float64)
    if how.scope == "all_heads":
        rows = rows.reshape(*x.shape[:-2], -1)
    if how.kind == "layer":
        rows = rows - rows.mean(-1, keepdims=True)
    rows = rows / np.sqrt(np.square(rows).mean(-1, keepdims=True) + how.eps)
    rows = rows * (1 + weight if how.kind == "rms_one_plus" else weight)
    return (rows if bias is None else rows + bias).reshape(x.shape)


FAMILY = [
    rotary.Norm(kind=kind, scope=scope, order=order, inverse=inverse, eps=1e-5)
    for kind, scope, order, inverse in itertools.product(
        ["rms", "rms_one_plus", "layer"], ["head", "all_heads"], ["before", "after"], [False, True]
    )
]


@pytest.mark.parametrize("how", FAMILY, ids=repr)
def test_family(how: rotary.Norm) -> None:
    rng = np.random.default_rng(1)
    q, k = rng.normal(0.3, 1, (2, 5, 3, 16)).astype(np.float32)
    rows = rng.normal(0, 1, (4, 16 if how.scope == "head" else 48)).astype(np.float32)
    biases = rows[2:] if how.kind == "layer" else [None, None]
    rotate = ROPE.unrotate if how.inverse else ROPE.rotate
    options = {"weights": tuple(rows[:2]), "biases": tuple(biases), "norm": how, "positions": 7}
    results = ROPE.norm_rotate(q, k, **options)
    for x, w, b, got in zip((q, k), rows, biases, results):
        if how.order == "before":
            want = rotate(normed(x, w, b, how), positions=7)
        else:
            want = normed(rotate(x.astype(np.float64), positions=7), w, b, how)
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    copy = q.copy()
    one = options | {"weights": rows[0], "biases": biases[0]}
    assert ROPE.norm_rotate_(copy, **one) is copy
    np.testing.assert_array_equal(copy, results[0])


def test_rejects() -> None:
    x = np.ones((5, 3, 16), np.float32)
    before = x.copy()
    for options, message in [
        ({"norm": rotary.Norm(eps=-1.0)}, "eps must be finite"),
        ({"norm": rotary.Norm(kind="batch")}, "kind must be one of"),  # type: ignore[arg-type]
        ({"weights": np.ones(8, np.float32)}, r"weights and biases must be \[16\]"),
        ({"weights": (None, None)}, "weights must be one for each of 1 tensors, got 2"),
        ({"biases": np.ones(16, np.float32)}, "only NormKind::kLayer has a bias"),
    ]:
        with pytest.raises(ValueError, match=message):
            ROPE.norm_rotate_(x, **options)
    np.testing.assert_array_equal(x, before)
