# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""roformer evaluate, and the example that pretrains the model that it evaluates."""

import json
from pathlib import Path

import pytest
import torch
from tasks_command import byte_ids, run, save_model

EXAMPLE = Path(__file__).parents[2] / "examples" / "roformer"


# ---- evaluate -----------------------------------------------------------------------------------


def test_class_metrics_match_transformers(tmp_path, reviews):
    names = {0: "with", 1: "without"}
    model = save_model(
        "RoFormerForSequenceClassification",
        tmp_path / "m",
        id2label=names,
        label2id={name: n for n, name in names.items()},
    )
    right, loss = 0, 0.0
    rows = [line.split("\t") for line in reviews[1].read_text().splitlines()[1:]]
    for name, text in rows:
        with torch.no_grad():
            logits = model(byte_ids(text)).logits
        label = torch.tensor([{"with": 0, "without": 1}[name]])
        right += int(logits.argmax() == label)
        loss += torch.nn.functional.cross_entropy(logits, label).item() / len(rows)
    flags = ("--tokenizer", "byte", "--device", "cpu")
    got = json.loads(run("evaluate", tmp_path / "m", reviews[1], *flags, "--json"))
    assert got["examples"] == 40
    assert got["accuracy"] == pytest.approx(right / 40)
    assert got["loss"] == pytest.approx(loss, abs=1e-5)
    assert [one["label"] for one in got["classes"]] == ["with", "without"]
    assert "40 examples: accuracy" in run("evaluate", tmp_path / "m", reviews[1], *flags)


def test_language_model_loss_by_length(tmp_path):
    save_model("RoFormerForMaskedLM", tmp_path / "m")
    text = tmp_path / "text.txt"
    text.write_text("a b c d e f g h i j k l m n o p q r s t u v w x y z. " * 30 + "\n\nshort\n")
    command = ("evaluate", tmp_path / "m", text, "--tokenizer", "byte", "--device", "cpu")
    got = json.loads(run(*command, "--train-length", 64, "--json"))
    assert [one["length"] for one in got["lengths"]] == [16, 32, 64, 128, 256, 512]
    assert got["texts"] == 3
    assert len({one["tokens"] for one in got["lengths"]}) == 1
    assert all(one["perplexity"] > 100 for one in got["lengths"])  # it learnt nothing
    table = run(*command, "--lengths", "16,100")
    assert "perplexity" in table
    assert table.count("%") == 2
    message = run(*command, "--lengths", 5000, code=1)
    assert "no document has 4998 tokens" in message
    assert json.loads(run(*command, "--lengths", 1600, "--texts", "joined", "--json"))["texts"] == 1
    assert "16" in run(*command, "--lengths", "16", "--dtype", "bfloat16")


def test_evaluate_rejects(tmp_path, reviews):
    save_model("RoFormerModel", tmp_path / "m")
    command = ("evaluate", tmp_path / "m", reviews[0], "--tokenizer", "byte")
    assert "has no head to evaluate" in run(*command, code=2)
    assert "--device must be" in run(*command, "--device", "tpu", code=2)


# ---- The example --------------------------------------------------------------------------------


def test_example_script(tmp_path):
    command = ("pretrain", tmp_path / "run", "--config", "pretrain.json", "--device", "cpu")
    run(*command, "--stages", "64x8x12", "--warmup-steps", 2, cwd=EXAMPLE)
    model = tmp_path / "run" / "model"
    flags = ("--tokenizer", "byte")
    lengths = run(
        "evaluate",
        model,
        "held_out.txt",
        *flags,
        *("--train-length", 128, "--tokens", 2000),
        cwd=EXAMPLE,
    )
    assert "1024" in lengths
    guesses = run("fill-mask", model, "To be, or not to b[MASK]", *flags, "--json", cwd=EXAMPLE)
    assert len(json.loads(guesses)["masks"]) == 1
