# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Data that several tests use."""

import random
import shutil

import pytest

# Imported where they are used: some tests do without PyTorch and transformers, which take 7 s.


@pytest.fixture(scope="session")
def text_model(tmp_path_factory):
    """Random weights over the real vocabulary."""
    import torch
    import transformers
    from roformer_command import GOLDEN, config

    folder = tmp_path_factory.mktemp("text")
    torch.manual_seed(6)
    shape = transformers.RoFormerConfig(**config(vocab_size=50000, hidden_size=16))
    transformers.RoFormerForMaskedLM(shape).eval().save_pretrained(folder)
    for name in ["vocab.txt", "dict.txt"]:
        shutil.copy(GOLDEN / name, folder / name)
    return folder


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


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    text = "the rotation of a pair by an angle keeps its length and adds to others"
    words = text.split()
    lines = [" ".join(words[(i * j) % 14] for j in range(1, 30)) for i in range(1, 120)]
    path = tmp_path_factory.mktemp("texts") / "corpus.txt"
    path.write_text("\n\n".join(lines))
    return path


@pytest.fixture(scope="session")
def whole(corpus, tmp_path_factory):
    """An uninterrupted run with two lengths and dropout."""
    from pretrain_command import STAGES, flags, pretrain

    run = tmp_path_factory.mktemp("runs") / "whole"
    pretrain(run, *flags(corpus), "--stages", STAGES)
    return run
