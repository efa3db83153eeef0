# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""--freeze and --thaw-at of pretrain and finetune."""

import json

import torch
from pretrain_command import flags, pretrain, same, weights
from safetensors.torch import load_file
from tasks_command import run, save_model


def is_frozen(name):
    return ".embeddings." in name or ".layer.0." in name


def test_pretrain_thaws_and_resumes(tmp_path, corpus):
    frozen = ["--freeze", "embeddings", "layer.0", "--thaw-at", 5]
    pretrain(tmp_path / "whole", *flags(corpus, steps=8, save_every=1, keep=9), *frozen)
    steps = [
        load_file(tmp_path / f"whole/checkpoints/step-0000000{n}/model.safetensors")
        for n in range(1, 9)
    ]
    for name in steps[0]:
        if "embed_positions" in name:
            continue
        assert torch.equal(steps[0][name], steps[3][name]) == is_frozen(name), name
        assert not torch.equal(steps[3][name], steps[4][name]), name
    # The same bits where the run is resumed before and after the thaw.
    for stop in [3, 6]:
        parts = tmp_path / f"parts-{stop}"
        whole = tmp_path / "whole"
        parts.mkdir()
        for file in ["config.json", "metrics.jsonl", "corpus.tokens", "corpus.tokens.json"]:
            (parts / file).write_bytes((whole / file).read_bytes())
        kept = parts / "checkpoints" / f"step-0000000{stop}"
        kept.mkdir(parents=True)
        for file in (whole / "checkpoints" / kept.name).iterdir():
            (kept / file.name).write_bytes(file.read_bytes())
        pretrain(parts, "--resume", "--cache", parts / "corpus.tokens")
        assert same(weights(parts), weights(whole)), stop
    message = pretrain(tmp_path / "whole", "--resume", "--thaw-at", 6, code=2)
    assert "thaw_at" in message


def test_finetune_freezes_by_name(tmp_path, reviews):
    save_model("RoFormerForMaskedLM", tmp_path / "base")
    config = tmp_path / "tune.json"
    config.write_text(
        json.dumps(
            {
                "checkpoint": str(tmp_path / "base"),
                "train": str(reviews[0]),
                "freeze": ["embeddings", "layer.0-1"],
                "tokenizer": "byte",
                "device": "cpu",
                "epochs": 1,
            }
        )
    )
    run("finetune", "--config", config, "-o", tmp_path / "run")
    before = load_file(tmp_path / "base/model.safetensors")
    after = load_file(tmp_path / "run/best/model.safetensors")
    for name, tensor in after.items():
        if name.startswith("roformer."):
            assert torch.equal(tensor, before[name]), name
    for wrong in ["layer.7", "nothing"]:
        error = run(
            *("finetune", "--config", config, "-o", tmp_path / wrong, "--freeze", wrong), code=1
        )
        assert "freeze must name" in error
        assert f'got "{wrong}"' in error
        assert error.count("\n") == 1
