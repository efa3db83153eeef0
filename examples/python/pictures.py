# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of docs/python.md: the effect of a longer context on the pairs of a model, and
the decay of scores with distance.

    python examples/python/pictures.py [FOLDER]      # docs/pictures, if none is given
"""

import pathlib
import sys

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

import rotary

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "models" / "llama-3.1-8b.json"


def context(folder: pathlib.Path) -> None:
    """Llama 3.1 with and without its scaling."""
    model = rotary.Model.read(MODEL).rope()
    plain = rotary.Rope(
        head_dim=model.layout.head_dim, theta=model.recipe.theta, pairing=model.layout.pairing
    )
    ax = rotary.plot.compare(
        plain,
        model,
        labels=("without scaling", "Llama 3.1"),
        context=model.context.trained,
    )
    ax.figure.savefig(folder / "context.png", dpi=100)


def scores(folder: pathlib.Path) -> None:
    """The bound of the RoFormer paper, and scores by position, for text and for images."""
    text = rotary.Rope(head_dim=128, theta=1e4, pairing="half")
    image = rotary.Rope(head_dim=64, theta=100.0, pairing="half", axes=rotary.Axial(axes=2))
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
    rotary.plot.decay(text, ax=axes[0]).set_title("long-range decay")
    rotary.plot.scores(text, 64, ax=axes[1]).set_title("text")
    rotary.plot.scores(image, 32, ax=axes[2]).set_title("image, two axes")
    figure.savefig(folder / "scores.png", dpi=80)


def main() -> None:
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    context(folder)
    scores(folder)
    print(f"drawn: {folder / 'context.png'}, {folder / 'scores.png'}")


if __name__ == "__main__":
    main()
