# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Every form of positions matches one call per token."""

import numpy as np
import pytest
from definition import values

import rotary

ROPE = rotary.Rope(head_dim=16, theta=1e4, pairing="interleaved")


def one_by_one(x, at):
    """x [tokens, heads, 16], each token in a call of its own."""
    return np.concatenate([ROPE.rotate(x[t : t + 1], positions=int(p)) for t, p in enumerate(at)])


@pytest.mark.parametrize(
    "positions, at",
    [
        (None, range(6)),
        (7, range(7, 13)),
        (np.int32(7), range(7, 13)),
        (-2, range(-2, 4)),
        ([3, 1, 4, 1, 5, 9], [3, 1, 4, 1, 5, 9]),
        (range(0, 12, 2), range(0, 12, 2)),
        (np.array([3, 1, 4, 1, 5, 9], np.int32), [3, 1, 4, 1, 5, 9]),
        (np.array([[3, 1, 4, 1, 5, 9]]), [3, 1, 4, 1, 5, 9]),
        (np.array([0.0, 1, 2, 3, 4, 5], np.float32), range(6)),
        (np.arange(12)[::2], range(0, 12, 2)),
        (rotary.positions(7), range(7, 13)),
        (rotary.at(5), [5] * 6),
        (rotary.packed([0, 2, 6]), [0, 1, 0, 1, 2, 3]),
        (rotary.packed(np.array([0, 2, 6], np.int32), first=np.array([9, 4], np.int32)),
         [9, 10, 4, 5, 6, 7]),
        (rotary.packed_at([0, 2, 6], [9, 4]), [9, 9, 4, 4, 4, 4]),
    ],
    ids=str,
)  # fmt: skip
def test_positions(positions, at):
    x = values(6, 2, 16)
    np.testing.assert_array_equal(ROPE.rotate(x, positions=positions), one_by_one(x, at))


def test_packed_keeps_the_boundaries_that_it_checked():
    x = values(6, 2, 16)
    want = one_by_one(x, [0, 1, 0, 1, 2, 3])
    for dtype in (np.int32, np.int64):
        boundaries = np.array([0, 2, 6], dtype)
        held = rotary.packed(boundaries)
        shifted = rotary.packed_at(boundaries, np.array([9, 4], dtype))
        boundaries[:] = [2**30, -(2**30), 2**30]
        np.testing.assert_array_equal(ROPE.rotate(x, positions=held), want)
        np.testing.assert_array_equal(
            ROPE.rotate(x, positions=shifted), one_by_one(x, [9, 9, 4, 4, 4, 4])
        )


def test_positions_that_differ_between_batch_rows():
    x = values(2, 4, 1, 16)
    ids = np.array([[[0, 1, 2, 3], [10, 10, 12, 99]]])
    for positions, rows in (
        (ids, ids[0]),
        (rotary.ranges([5, 50]), [range(5, 9), range(50, 54)]),
        (rotary.at([5, 50]), [[5] * 4, [50] * 4]),
    ):
        result = ROPE.rotate(x, positions=positions)
        for b in range(2):
            np.testing.assert_array_equal(result[b], one_by_one(x[b], rows[b]))


def test_real_positions():
    x = values(3, 1, 16, dtype=np.float64)
    result = ROPE.rotate(x, positions=[0.5, -1.25, 7.75])
    z = np.exp(1j * np.outer([0.5, -1.25, 7.75], ROPE.frequencies.values[:, 0]))[:, None, :]
    expected = (x[..., ::2] + 1j * x[..., 1::2]) * z
    np.testing.assert_allclose(result[..., ::2], expected.real, atol=1e-14)


def test_several_axes():
    rope = rotary.Rope(
        head_dim=16, theta=1e4, pairing="half", axes=rotary.Mrope(sections=[4, 2, 2])
    )
    x = values(5, 2, 16)
    text = np.arange(5)
    same = rope.rotate(x, positions=np.stack([text, text, text]))
    one = rotary.Rope(head_dim=16, theta=1e4, pairing="half").rotate(x)
    np.testing.assert_array_equal(same, one)
    np.testing.assert_array_equal(rope.rotate(x, positions=rotary.positions().on_all_axes()), one)
    with pytest.raises(ValueError, match=r"^\[rotate\] positions must have 3 axes, got 1$"):
        rope.rotate(x)


def test_properties_and_repr():
    p = rotary.packed([0, 2, 6])
    assert (p.axes, p.batch, p.tokens) == (1, None, 6)
    assert rotary.ranges([1, 2, 3]).batch == 3
    assert rotary.positions().tokens is None
    assert [
        repr(p),
        repr(rotary.positions(4)),
        repr(rotary.at(4)),
        repr(rotary.ranges([1, 2])),
    ] == [
        "Positions(packed, 2 sequences)",
        "Positions(from 4)",
        "Positions(at 4)",
        "Positions(from one for each of 2 batch rows)",
    ]


def test_positions_keep_their_arrays_alive_and_see_changes():
    ids = np.arange(4)
    p = rotary.positions(ids)
    ids += 10
    x = values(4, 1, 16)
    expected = one_by_one(x, range(10, 14))
    del ids
    np.testing.assert_array_equal(ROPE.rotate(x, positions=p), expected)
