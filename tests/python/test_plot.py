# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Curves match their formulas, and every plot is drawn."""

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from definition import MODELS

import rotary

ROPE = rotary.Rope(head_dim=128, theta=1e4, pairing="interleaved")
IMAGE = rotary.Rope(head_dim=64, theta=100.0, pairing="half", axes=rotary.Axial(axes=2))


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_decay_is_the_formula_of_the_paper():
    f = 1e4 ** -(np.arange(64) / 64)
    expected = [
        np.mean([abs(sum(np.exp(1j * m * f[i]) for i in range(j))) for j in range(1, 65)])
        for m in (0, 1, 17, 256)
    ]
    np.testing.assert_allclose(rotary.decay(ROPE, [0, 1, 17, 256]), expected, rtol=1e-12)
    curve = rotary.decay(ROPE)
    assert curve.shape == (257,)
    assert curve[0] == pytest.approx(32.5)  # the mean of 1 .. 64
    assert curve[200:].mean() < 0.4 * curve[0]  # the long-range decay


def test_relative_scores_are_scores_of_rotated_vectors():
    q = np.ones((1, 1, 128), np.float64)
    key = ROPE.rotate(q, positions=100)
    scores = [np.sum(key * ROPE.rotate(q, positions=100 + m)) / 128 for m in (0, 3, -50)]
    np.testing.assert_allclose(rotary.relative_scores(ROPE, [0, 3, -50]), scores, atol=1e-12)
    with pytest.raises(
        ValueError, match=r"^\[relative_scores\] positions must have 2 axes, got 1$"
    ):
        rotary.relative_scores(IMAGE, [1, 2])


def test_wavelengths():
    np.testing.assert_allclose(rotary.plot.wavelengths(ROPE).lines[0].get_ydata(),
                               2 * np.pi * 1e4 ** (np.arange(64) / 64), rtol=1e-12)  # fmt: skip
    ax = rotary.plot.wavelengths(MODELS / "llama-3.1-8b.json", context=8192, label="Llama 3.1")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "Llama 3.1",
        "8192 positions",
    ]


def test_phases():
    image = rotary.plot.phases(ROPE, 10).images[0].get_array()
    np.testing.assert_allclose(
        image, np.cos(np.outer(ROPE.frequencies.values[:, 0], np.arange(10))), atol=1e-12
    )
    assert rotary.plot.phases(IMAGE, 10).images[0].get_array().shape == (32, 10)


def test_decay():
    line = rotary.plot.decay(ROPE, 64, label="10000").lines[0]
    np.testing.assert_array_equal(line.get_ydata(), rotary.decay(ROPE, np.arange(65)))


def test_scores():
    image = rotary.plot.scores(ROPE, 16).images[0].get_array()
    assert image.shape == (16, 16)
    np.testing.assert_allclose(image.diagonal(), 1)
    np.testing.assert_allclose(image, image.T)
    np.testing.assert_allclose(image[1:, 1:], image[:-1, :-1])  # scores depend on the distance only
    around = rotary.plot.scores(IMAGE, 16).images[0].get_array()
    assert around.shape == (17, 17)
    assert around[8, 8] == pytest.approx(1)
    np.testing.assert_allclose(around, around[::-1, ::-1])


def test_plane():
    ax = rotary.plot.plane(ROPE, 64)
    points = ax.collections[0].get_offsets()
    np.testing.assert_allclose(points, rotary.position_plane(ROPE, np.arange(64)))


def test_compare(tmp_path):
    figure, ax = plt.subplots()
    yarn = rotary.Rope(
        head_dim=128,
        theta=1e4,
        pairing="half",
        scaling=rotary.Yarn(factor=8, original_context=4096),
    )
    assert rotary.plot.compare(ROPE, yarn, labels=("plain", "YaRN"), context=4096, ax=ax) is ax
    ratio = figure.axes[1].lines[0].get_ydata()
    assert ratio[0] == pytest.approx(1)
    assert ratio[-1] == pytest.approx(8)
    figure.savefig(tmp_path / "compare.png")
    assert len(rotary.plot.compare(ROPE, IMAGE).figure.axes) == 1  # other pairs: no ratio
