# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Rotations other than plain RoPE: trained, stretched, compared, and loaded by transformers."""

import json
import math

import pytest
import torch
import transformers
from pretrain_command import flags, metrics, pretrain
from tasks_command import byte_ids, run, save_model

TEXT = "a b c d e f g h i j k l m n o p q r s t u v w x y z. " * 30
YARN = {"rope_type": "yarn", "factor": 4}
DYNAMIC = {"rope_type": "dynamic", "factor": 1}
BYTES = ("--tokenizer", "byte")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A masked LM of bytes with 64 positions."""
    folder = tmp_path_factory.mktemp("model")
    save_model("RoFormerForMaskedLM", folder)
    return folder


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    return path


def rope(**keys):
    return ("--rope", json.dumps(keys))


# ---- Training -----------------------------------------------------------------------------------


def test_pretrains_with_other_ropes(corpus, tmp_path):
    longrope = {
        "rope_type": "longrope",
        "short_factor": [1] * 8,
        "long_factor": [1, 1, 1, 1, 2, 2, 4, 4],
        "original_max_position_embeddings": 16,
    }
    plain = tmp_path / "plain"
    pretrain(plain, *flags(corpus, 12))
    for parameters in (YARN, longrope):
        folder = tmp_path / parameters["rope_type"]
        pretrain(folder, *flags(corpus, 12), *rope(**parameters))
        losses = metrics(folder)
        assert losses[12] < losses[1] - 0.3
        assert losses[12] != metrics(plain)[12]
        kept = json.loads((folder / "model" / "config.json").read_text())
        assert kept["rope_parameters"].items() >= parameters.items()
        assert json.loads((folder / "config.json").read_text())["rope"] == parameters
    layers = {"layer_rope_theta": [100, 0], "position_encoding": "rope"}
    pretrain(tmp_path / "layers", *flags(corpus, 12, model=layers))
    kept = json.loads((tmp_path / "layers" / "model" / "config.json").read_text())
    assert kept["layer_rope_theta"] == [100, 0]


def test_pretrains_with_xpos(corpus, tmp_path):
    xpos = {"position_encoding": "xpos"}
    message = pretrain(tmp_path / "masked", *flags(corpus, 2, model=xpos), code=1)
    assert "xpos needs a causal model" in message
    pretrain(tmp_path / "causal", *flags(corpus, 12, model=xpos, objective="causal"))
    losses = metrics(tmp_path / "causal")
    assert losses[12] < losses[1] - 0.3
    flag = ("--temperature", 0, "--tokens", 20)
    assert run("generate", tmp_path / "causal" / "model", "the ", *BYTES, *flag).startswith("the ")


def test_rejects_wrong_ropes(corpus, model, tmp_path):
    message = pretrain(tmp_path / "r", *flags(corpus, 2), *rope(rope_type="yarm"), code=1)
    assert 'unknown rope_type "yarm"' in message
    for verb, more in (("fill-mask", ("[MASK]",)), ("embed", ("a",)), ("similar", ("a", "b"))):
        message = run(verb, model, *more, *BYTES, *rope(rope_type="linear"), code=2)
        assert 'rope_type "linear" needs the key "factor"' in message
        assert message.count("\n") == 1
    message = run("embed", model, "a", *BYTES, "--rope", tmp_path / "none.json", code=1)
    assert "none.json" in message


# ---- Stretching ---------------------------------------------------------------------------------


def yarn_table(config, factor):
    """sin and cos of YaRN as transformers computes it for other models."""
    other = transformers.LlamaConfig(
        head_dim=config.hidden_size // config.num_attention_heads,
        max_position_embeddings=config.max_position_embeddings,
        rope_parameters={
            "rope_type": "yarn",
            "factor": factor,
            "rope_theta": 10000.0,
            "original_max_position_embeddings": 64,
        },
    )
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    frequencies, scale = ROPE_INIT_FUNCTIONS["yarn"](other, torch.device("cpu"))
    angles = torch.arange(512.0)[:, None] * frequencies
    return scale * torch.cat([angles.sin(), angles.cos()], 1)


def test_yarn_matches_transformers_frequencies(model):
    theirs = transformers.RoFormerModel.from_pretrained(model).eval()
    table = yarn_table(theirs.config, 4.0)
    positions = theirs.encoder.embed_positions
    positions.weight = torch.nn.Parameter(table, requires_grad=False)
    with torch.no_grad():
        mean = theirs(byte_ids(TEXT[:300])).last_hidden_state[0].mean(0)
    printed = run("embed", model, TEXT[:300], *BYTES, *rope(**YARN))
    vector = torch.tensor(json.loads(printed)["vector"])
    assert (vector - mean).abs().max() < 2e-5
    plain = torch.tensor(json.loads(run("embed", model, TEXT[:300], *BYTES))["vector"])
    assert (vector - plain).abs().max() > 1e-3


# transformers reads the position table, so that it rotates by any recipe that all layers share.
@pytest.mark.parametrize(
    "parameters",
    [
        YARN,
        {"rope_type": "linear", "factor": 2},
        {"rope_type": "resonance"},
        {"rope_type": "default", "partial_rotary_factor": 0.5},
    ],
    ids=lambda one: one["rope_type"],
)
def test_transformers_loads_other_ropes(corpus, model, tmp_path, parameters):
    folder = tmp_path / "run"
    more = ("--init", model, "--learning-rate", 0, "--weight-decay", 0)
    pretrain(folder, *flags(corpus, 1), *more, *rope(**parameters))
    theirs, report = transformers.RoFormerForMaskedLM.from_pretrained(
        folder / "model", output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    ids = byte_ids(TEXT[:40])
    with torch.no_grad():
        logits = theirs.eval()(ids).logits
    reference = tmp_path / "reference.json"
    reference.write_text(json.dumps({"input_ids": ids.tolist(), "logits": logits.tolist()}))
    run("verify", folder / "model", reference)
    with pytest.raises(AssertionError):
        run("verify", model, reference)


def test_dynamic_ropes_follow_each_text(model):
    plain = run("embed", model, "short", TEXT[:200], *BYTES)
    dynamic = run("embed", model, "short", TEXT[:200], *BYTES, *rope(**DYNAMIC))
    vectors = [json.loads(line)["vector"] for line in (plain + dynamic).splitlines()]
    assert vectors[0] == vectors[2]  # it is shorter than the training length
    assert vectors[1] != vectors[3]
    fixed = run("embed", model, "short", *BYTES, *rope(**DYNAMIC), "--context", 256)
    assert json.loads(fixed)["vector"] != vectors[0]
    short = run("embed", model, "short", *BYTES, *rope(**DYNAMIC), "--context", 64)
    assert json.loads(short)["vector"] == vectors[0]


def test_other_verbs_take_ropes(model, tmp_path):
    file = tmp_path / "rope.json"
    file.write_text(json.dumps(YARN))
    fills = [
        run("fill-mask", model, TEXT[:100] + "[MASK]", *BYTES, *flag)
        for flag in ((), rope(**YARN), ("--rope", file))
    ]
    assert fills[0] != fills[1]
    assert fills[1] == fills[2]
    pair = ("similar", model, TEXT[:100], TEXT[1:101], *BYTES)
    assert run(*pair) != run(*pair, *rope(**YARN))
    save_model("RoFormerForCausalLM", tmp_path / "causal", is_decoder=True)
    for parameters in (YARN, DYNAMIC):
        continued = ("generate", tmp_path / "causal", TEXT[:80], *BYTES, "--tokens", 5)
        assert run(*continued, "--temperature", 0, *rope(**parameters)).startswith(TEXT[:70])


def test_finetunes_with_other_ropes(model, reviews, tmp_path):
    train, valid, _ = reviews
    out = tmp_path / "run"
    given = (
        "--valid",
        valid,
        "-o",
        out,
        *BYTES,
        "--device",
        "cpu",
        "--epochs",
        1,
        "--context",
        256,
    )
    run("finetune", model, train, *given, *rope(rope_type="dynamic", factor=1))
    kept = json.loads((out / "best" / "config.json").read_text())
    assert kept["max_position_embeddings"] == 256
    assert kept["rope_context"] == 256
    assert kept["rope_parameters"]["original_max_position_embeddings"] == 64
    run("evaluate", out / "best", valid, *BYTES, "--device", "cpu")
    message = run("finetune", model, train, *given, *rope(rope_type="linear", factor=2), code=2)
    assert "holds a run with another rope" in message


# ---- Tables of losses ---------------------------------------------------------------------------


def test_evaluate_compares_ropes(model, text):
    command = ("evaluate", model, text, *BYTES, "--device", "cpu", "--lengths", "32,256")
    ropes = ("--rope", "model", *rope(rope_type="default"), *rope(**YARN), *rope(**DYNAMIC))
    got = json.loads(run(*command, *ropes, "--json"))["ropes"]
    assert [one["name"] for one in got] == ["model", "default", "yarn x4", "dynamic x1"]
    losses = [[at["loss"] for at in one["lengths"]] for one in got]
    assert losses[0] == losses[1]
    assert losses[2][0] != losses[0][0]
    assert losses[3][0] == losses[0][0]  # up to the training length
    assert losses[3][1] != losses[0][1]
    single = json.loads(run(*command, *rope(**YARN), "--json"))["lengths"]
    assert [at["loss"] for at in single] == losses[2]
    table = run(*command, *ropes)
    assert "yarn x4" in table
    assert f"{losses[2][1]:.4f}" in table
    assert all(math.isfinite(loss) for row in losses for loss in row)


def test_learned_table_ends(corpus, text, tmp_path):
    learned = {"position_encoding": "learned", "max_position_embeddings": 32}
    pretrain(tmp_path / "run", *flags(corpus, 1, model=learned))
    folder = tmp_path / "run" / "model"
    command = ("evaluate", folder, text, *BYTES, "--device", "cpu", "--lengths", "16,32,64")
    table = run(*command).splitlines()
    assert table[-1].split(maxsplit=1) == ["64", "beyond its table"]
    got = json.loads(run(*command, "--json"))["lengths"]
    assert [one.get("error") for one in got] == [None, None, "beyond its table"]
    message = run(*command, *rope(**YARN), code=2)
    assert "--rope and --context are for models with rope" in message


def test_several_ropes_are_for_language_models(tmp_path, reviews):
    save_model("RoFormerForSequenceClassification", tmp_path / "m")
    ropes = ("--rope", "model", *rope(**YARN))
    message = run("evaluate", tmp_path / "m", reviews[1], *BYTES, "--device", "cpu", *ropes, code=2)
    assert "several --rope are for language models" in message
