# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""roformer pretrain with linear attention: flags, packed rows, a resumed run, generation."""

import json
import os
import subprocess

import pytest
from pretrain_command import flags, metrics, pretrain, same, weights


@pytest.mark.parametrize("rotation", ["before", "after"])
def test_resumed_run_has_the_bits_of_a_whole_one(corpus, tmp_path, rotation):
    given = {
        "linear_kernel": "favor",
        "favor_rotation": rotation,
        "linear_decay": "learned",
        "schedule": "constant",
    }
    pretrain(tmp_path / "whole", *flags(corpus, 8, **given))
    pretrain(tmp_path / "run", *flags(corpus, 4, **given))
    pretrain(tmp_path / "run", *flags(corpus, 8, **given), "--resume")
    assert metrics(tmp_path / "run") == metrics(tmp_path / "whole")
    assert same(weights(tmp_path / "run"), weights(tmp_path / "whole"))
    prefix = "roformer.encoder.layer.1.attention.self.linear."
    found = weights(tmp_path / "whole")
    assert found[f"{prefix}projection"].shape == (64, 16)
    assert found[f"{prefix}log_decay"].shape == (2,)
    config = json.loads((tmp_path / "whole/model/config.json").read_text())
    assert config["attention_type"] == "linear"
    assert config["linear_kernel"] == "favor"
    assert config.get("favor_rotation", "after") == rotation
    assert config["linear_decay"] == "learned"


@pytest.mark.parametrize("decay", ["off", "0.1"])
@pytest.mark.parametrize("kernel", ["elu", "relu", "cosine", "rotated", "favor"])
def test_causal_models_learn_and_generate(corpus, tmp_path, kernel, decay):
    run = tmp_path / "run"
    given = {"linear_kernel": kernel, "linear_decay": decay, "objective": "causal", "save_every": 0}
    pretrain(run, *flags(corpus, 30, **given))
    losses = metrics(run)
    assert losses[30] < losses[1] - 0.5
    command = [os.environ["ROFORMER_COMMAND"], "generate", run / "model", "th", "--tokens", "5"]
    done = subprocess.run(
        [*command, "--tokenizer", "byte"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_rejects_with_one_line(corpus, tmp_path):
    def refusal(code, **given):
        return pretrain(tmp_path / "run", *flags(corpus, 2, **given), code=code)

    assert "--linear-kernel must be one of model|elu|relu|cosine|rotated|favor" in refusal(
        2, linear_kernel="selu"
    )
    assert 'favor_rotation and favor_features are for linear_kernel "favor", got "elu"' in refusal(
        1, linear_kernel="elu", favor_rotation="before"
    )
    assert "linear_decay must be true, false" in refusal(1, linear_kernel="elu", linear_decay="x")
    assert 'are for attention_type "linear"' in refusal(1, linear_decay="on")
