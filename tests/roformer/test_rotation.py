# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Training what a model learns of its rotation, and roformer rotation."""

import json
import xml.etree.ElementTree as ElementTree

import pytest
import torch
from pretrain_command import flags, kill, metrics, pretrain, same, start, wait_for_step, weights
from roformer_command import run as roformer

NAME = "roformer.encoder.layer.{}.attention.self.rotation.{}"
LEARN = {
    "gain": (8,),
    "frequencies": (8, 1),
    "per_head": (2, 8, 1),
    "receptive_field": (1,),
}


@pytest.mark.parametrize("learn", LEARN)
def test_pretraining_learns_it(learn, corpus, tmp_path):
    run = tmp_path / "run"
    pretrain(run, *flags(corpus, 12, rope_learn=learn))
    losses = metrics(run)
    assert losses[12] < 0.9 * losses[1]
    assert json.loads((run / "model/config.json").read_text())["rope_learn"] == learn
    learned = [weights(run)[NAME.format(i, "frequencies.learned")] for i in range(2)]
    assert [tuple(x.shape) for x in learned] == [LEARN[learn]] * 2
    assert all(x.abs().max() > 1e-3 for x in learned)
    assert not torch.equal(*learned)
    assert "roformer.encoder.embed_positions.weight" not in weights(run)

    plot = tmp_path / "plot.svg"
    table = roformer("rotation", run / "model", "-o", plot)
    assert [line.split()[0] for line in table.splitlines()] == ["layer", "0", "1"]
    lines = ElementTree.parse(plot).getroot().findall("{http://www.w3.org/2000/svg}polyline")
    assert [len(line.get("points").split()) for line in lines] == [8, 8]

    report = json.loads(roformer("rotation", run / "model", "--json"))
    assert report["rope_learn"] == learn
    f = torch.tensor([10000 ** (-i / 8) for i in range(8)], dtype=torch.float64)
    for i, layer in enumerate(report["layers"]):
        d = learned[i].double()
        expected = {
            "gain": lambda d=d: f * d.exp(),
            "frequencies": lambda d=d: f + d[:, 0],
            "per_head": lambda d=d: f + d[..., 0],
            "receptive_field": lambda d=d: d / 10000 + (1 - d) * f,
        }[learn]()
        got = torch.tensor([rope["frequencies"] for rope in layer["ropes"]], dtype=torch.float64)
        torch.testing.assert_close(got, expected.reshape(-1, 8))
        change = ((got - f) / f).abs()
        assert layer["mean_change"] == pytest.approx(change.mean().item())
        assert layer["max_change"] == pytest.approx(change.max().item())


@pytest.mark.parametrize(
    "model",
    [
        {"rope_learn": "per_head", "rotary_output": True},
        {"position_steps": "token", "rope_learn": "gain"},
        {"position_steps": "head"},
    ],
    ids=lambda model: "+".join(model),
)
def test_resumes_bit_for_bit(model, corpus, tmp_path):
    whole, run = tmp_path / "whole", tmp_path / "run"
    pretrain(whole, *flags(corpus, 60, model=model))
    process = start(run, *flags(corpus, 60, model=model))
    wait_for_step(run, 6)
    kill(process)
    pretrain(run, "--resume")
    assert metrics(run) == metrics(whole)
    assert same(weights(run), weights(whole))


def test_a_checkpoint_begins_to_learn(corpus, reviews, tmp_path):
    """A model trained with a fixed rotation, then with a learned one, in both kinds of training."""
    first, second, tuned = (tmp_path / name for name in ("first", "second", "tuned"))
    pretrain(first, *flags(corpus, 2))
    pretrain(second, *flags(corpus, 3, init=first / "model", rope_learn="gain"))
    learned = weights(second)[NAME.format(0, "frequencies.learned")]
    assert 0 < learned.abs().max() < 0.1
    train, dev, _ = reviews
    roformer(
        "finetune", first / "model", train, "--valid", dev, "-o", tuned, "--tokenizer", "byte",
        "--epochs", 1, "--device", "cpu", "--rope-learn", "per_head",
    )  # fmt: skip
    report = json.loads(roformer("rotation", tuned / "best", "--json"))
    assert [len(layer["ropes"]) for layer in report["layers"]] == [2, 2]
    assert all(layer["max_change"] > 0 for layer in report["layers"])


def test_says_that_nothing_was_learned(corpus, tmp_path):
    pretrain(tmp_path / "run", *flags(corpus, 1))
    error = roformer("rotation", tmp_path / "run/model", code=1)
    assert "the model has learned nothing of its rotation: rope_learn is none" in error
    error = pretrain(tmp_path / "other", *flags(corpus, 1, rope_learn="all"), code=2)
    assert (
        "--rope-learn must be one of auto|none|gain|frequencies|per_head|receptive_field" in error
    )
