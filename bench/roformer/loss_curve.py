#!/usr/bin/env python3
# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Draws the loss of a run over its tokens.

    loss_curve.py RUN/metrics.jsonl PICTURE.svg [FIRST-STEP:NAME ...]

Needs matplotlib. A name is written where its stage begins: 0:256 3000:512.
"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def main(metrics, picture, *stages):
    with open(metrics, encoding="utf-8") as lines:
        lines = [json.loads(line) for line in lines]
    reports = [line for line in lines if "loss" in line]
    tokens = {line["step"]: line["tokens"] / 1e6 for line in reports}
    measured = [line for line in lines if "evaluation" in line and line["step"] in tokens]
    matplotlib.rcParams["svg.hashsalt"] = "rotary"
    figure, axes = plt.subplots(figsize=(8, 4.5))
    axes.plot(tokens.values(), [line["loss"] for line in reports], lw=0.8, label="training")
    axes.plot(
        [tokens[line["step"]] for line in measured],
        [line["evaluation"]["loss"] for line in measured],
        "o-",
        ms=3,
        label="held-out documents",
    )
    top = axes.get_ylim()[1]
    for stage in stages:
        step, name = stage.split(":", 1)
        at = max([0.0] + [count for number, count in tokens.items() if number <= int(step)])
        axes.axvline(at, color="grey", lw=0.5)
        axes.text(at, top, f" rows of {name}", va="top", fontsize=8)
    axes.set_xlabel("million tokens")
    axes.set_ylabel("loss, nats a masked token")
    axes.legend(loc="right")
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(picture, metadata={"Date": None} if picture.endswith(".svg") else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
