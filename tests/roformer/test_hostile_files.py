# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints, vocabularies and dictionaries that nobody meant well with: one line of error."""

import json
import os
import resource
import shutil
import subprocess
import time

import pytest
import torch
from roformer_command import make, run
from safetensors.torch import load_file, save_file

NESTED = "[" * 50_000 + "]" * 50_000
LETTERS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    make("RoFormerForMaskedLM").save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(LETTERS) + "\n")
    return folder


def change_config(model, **changes):
    path = model / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def fill_mask(model, *more, code=1):
    return run("fill-mask", model, "ab[MASK]", "--tokenizer", "character", *more, code=code)


def test_deeply_nested_config(model, tmp_path):
    (model / "config.json").write_text(f'{{"model_type": "roformer", "a": {NESTED}}}')
    assert "config.json: nested deeper than 64 levels" in fill_mask(model)
    error = run("convert", model, tmp_path / "out", code=1)
    assert "config.json: nested deeper than 64 levels" in error
    assert not (tmp_path / "out").exists()
    (model / "config.json").write_text(NESTED[:50_000])
    assert "config.json: nested deeper than 64 levels" in fill_mask(model)


def test_deeply_nested_index(model):
    (model / "model.safetensors").unlink()
    (model / "model.safetensors.index.json").write_text(f'{{"weight_map": {NESTED}}}')
    assert "index.json: nested deeper than 64 levels" in fill_mask(model)


@pytest.mark.parametrize(
    "change",
    [
        {"vocab_size": 20_000_000},
        {"hidden_size": 1 << 20, "num_attention_heads": 1 << 10},
        {"intermediate_size": 1 << 30},
        {"num_hidden_layers": 10_000},
        {"type_vocab_size": 1 << 30},
    ],
)
def test_sizes_beyond_the_weights_allocate_nothing(model, change):
    change_config(model, **change)

    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))

    started = time.monotonic()
    done = subprocess.run(
        [os.environ["ROFORMER_COMMAND"], "fill-mask", model, "[MASK]", "--tokenizer", "character"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 1
    assert "model.safetensors: has " in done.stderr
    assert "needs at least " in done.stderr
    assert time.monotonic() - started < 20  # most of it is loading PyTorch


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_labels": 1 << 20}, "num_labels must be 1 to 2^16, got 1048576"),
        ({"max_position_embeddings": 1 << 30}, "max_position_embeddings must be 1 to 2^20"),
        ({"vocab_size": 1 << 63}, "vocab_size must be a whole number, got 9223372036854775808"),
        ({"hidden_act": "x" * 5000}, "hidden_act must be one of gelu, "),
    ],
)
def test_limits_of_the_config(model, change, message):
    change_config(model, **change)
    error = fill_mask(model)
    assert message in error
    assert len(error) < 400


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_named(model, tmp_path, value):
    path = model / "model.safetensors"
    tensors = load_file(path)
    name = "roformer.encoder.layer.1.output.dense.weight"
    tensors[name][3, 4] = value
    save_file(tensors, path)
    texts = tmp_path / "texts.txt"
    texts.write_text("abc\n\nbcd\n")
    message = f'tensor "{name}" has NaN or infinity'
    assert message in fill_mask(model)
    for verb in [["evaluate", model, texts], ["embed", model, "ab"], ["convert", model, "out"]]:
        tokenizer = [] if verb[0] == "convert" else ["--tokenizer", "character"]
        assert message in run(*verb, *tokenizer, code=1)


def test_long_words_of_a_dictionary(model):
    (model / "dict.txt").write_text("ab 3\n" + "a" * 300_000 + " 2\n")
    error = run("fill-mask", model, "a" * 1000 + "[MASK]", code=1)
    assert "dict.txt: line 2: a word of 300000 characters; at most 256 are allowed" in error


def test_pipes_are_not_waited_for(model, tmp_path):
    for name in ["config.json", "vocab.txt", "model.safetensors"]:
        copy = tmp_path / f"with-{name}"
        shutil.copytree(model, copy)
        (copy / name).unlink()
        os.mkfifo(copy / name)
        assert run("fill-mask", copy, "[MASK]", "--tokenizer", "character", code=1)


def test_bench_needs_no_gpu(model):
    if torch.cuda.is_available():
        arguments = ["--device", "cpu"]
    else:
        arguments = []
        error = run("bench", model, "--device", "cuda", code=2)
        assert "there is no GPU that PyTorch can use here" in error
    sizes = ["--rows", 2, "--length", 8, "--steps", 1, "--warmup", 0]
    assert "tokens/s" in run("bench", model, *sizes, *arguments)
