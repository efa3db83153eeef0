# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Data that several tests of tasks use."""

import random

import pytest


@pytest.fixture
def reviews(tmp_path):
    """Texts of letters; the class is whether there is a 'z'."""
    draw = random.Random(7)

    def table(name, count):
        lines = ["label\ttext_a"]
        for n in range(count):
            letters = draw.choices("abcdefgh", k=draw.randint(4, 12))
            if n % 2:
                letters[draw.randrange(len(letters))] = "z"
            lines.append(f"{'with' if n % 2 else 'without'}\t{''.join(letters)}")
        path = tmp_path / f"{name}.tsv"
        path.write_text("\n".join(lines) + "\n")
        return path

    return table("train", 256), table("dev", 40), table("test", 60)
