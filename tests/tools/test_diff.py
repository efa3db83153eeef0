# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary diff: differing parameters, frequency ratios and the position where phases diverge."""

import json
import math

import pytest
from command import EXAMPLES, fail, llama, phi3, succeed, write_config


@pytest.fixture(name="diff")
def make_diff(tmp_path):
    def diff(a, b, *options):
        a, b = write_config(tmp_path, a, "a.json"), write_config(tmp_path, b, "b.json")
        return json.loads(succeed("diff", a, b, *options, "--json")), succeed(
            "diff", a, b, *options
        )

    return diff


def parameters(rope):
    return {entry["parameter"]: (entry["a"], entry["b"]) for entry in rope["parameters"]}


def test_equal_models(diff):
    result, page = diff(llama(), llama())
    assert result["verdict"] == "same rotation"
    (rope,) = result["ropes"]
    assert rope["same"] and rope["parameters"] == [] and rope["phase_divergence"] is None
    assert rope["frequency_ratio"]["largest"] == 1 and rope["scale_ratio"] == 1
    assert page.splitlines()[-1] == "same rotation" and "\x1b" not in page


def test_other_spelling_is_the_same_rotation(diff):
    new = llama(rope_parameters={"rope_type": "default", "rope_theta": 10000.0})
    del new["rope_theta"]
    assert diff(llama(), new)[0]["verdict"] == "same rotation"


def test_other_context_is_the_same_rotation(diff):
    result, _ = diff(llama(), llama(max_position_embeddings=8192))
    assert result["verdict"] == "same rotation"
    assert parameters(result["ropes"][0])["context.trained"] == (4096, 8192)


def test_linear_scaling(diff):
    result, page = diff(llama(), llama(rope_scaling={"rope_type": "linear", "factor": 4.0}))
    assert result["verdict"] == "differ"
    (rope,) = result["ropes"]
    changed = parameters(rope)
    assert changed["recipe.type"] == ("default", "linear") and changed["recipe.factor"] == (
        None,
        4.0,
    )
    assert rope["frequency_ratio"]["largest"] == pytest.approx(4.0)
    # Pair 0 diverges first: |1 - 1/4| * p > 0.1 at p = 1.
    assert rope["phase_divergence"] == {"position": 1, "pair": 0, "axis": 0}
    last = page.splitlines()[-1]
    assert last.startswith("differ") and "position 1 " in last


@pytest.mark.parametrize("theta", [10001.0, 10100.0, 20000.0, 500000.0])
def test_divergence_position_is_the_smallest(diff, theta):
    result, page = diff(llama(), llama(rope_theta=theta))
    (rope,) = result["ropes"]
    gaps = [abs(10000.0 ** (-2 * i / 64) - theta ** (-2 * i / 64)) for i in range(32)]
    position, pair = rope["phase_divergence"]["position"], rope["phase_divergence"]["pair"]
    assert max(gaps) * position > 0.1 >= max(gaps) * (position - 1) * (1 - 1e-12)
    assert pair == gaps.index(max(gaps))
    ratio = rope["frequency_ratio"]
    assert ratio["pair"] == 31 and ratio["largest"] == pytest.approx((theta / 1e4) ** (62 / 64))
    assert f"from position {position} (pair {pair})" in page


def test_scale_of_yarn(diff):
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    result, _ = diff(llama(), llama(max_position_embeddings=16384, rope_scaling=yarn))
    assert result["ropes"][0]["scale_ratio"] == pytest.approx(0.1 * math.log(4) + 1)


def test_other_widths_are_not_comparable(diff):
    result, page = diff(llama(), llama(num_attention_heads=8))
    (rope,) = result["ropes"]
    assert result["verdict"] == "differ" and rope["frequency_ratio"] is None
    assert parameters(rope)["rotary_dim"] == (64, 32)
    assert "not comparable" in page


def test_context_crosses_the_regime(diff):
    other = phi3()
    other["rope_scaling"]["long_factor"] = [3.0] * 48
    assert diff(phi3(), other, "--context", 4096)[0]["verdict"] == "same rotation"
    assert diff(phi3(), other, "--context", 4097)[0]["verdict"] == "differ"


def test_ropes_are_matched_by_name(diff):
    gemma = json.loads((EXAMPLES / "gemma-3-4b.json").read_text())
    local = json.loads(json.dumps(gemma))
    local["text_config"]["rope_local_base_freq"] = 20000.0
    result, page = diff(gemma, local)
    assert {rope["name"]: rope["same"] for rope in result["ropes"]} == {
        "text.full_attention": True,
        "text.sliding_attention": False,
    }
    assert "text.sliding_attention from position" in page.splitlines()[-1]
    assert diff(gemma, local, "--rope", "text.full_attention")[0]["verdict"] == "same rotation"


def test_ropes_in_one_model_only(diff):
    gemma = json.loads((EXAMPLES / "gemma-3-4b.json").read_text())
    result, page = diff(gemma, llama())
    assert result["verdict"] == "differ"
    assert sorted(result["only_in_a"]) == ["text.full_attention", "text.sliding_attention"]
    assert result["only_in_b"] == ["default"]
    assert "Only in A: " in page and "Only in B: default" in page


def test_unreadable_model(tmp_path):
    assert "b.json" in fail(1, "diff", write_config(tmp_path, llama()), tmp_path / "b.json")
    path = write_config(tmp_path, llama())
    fail(1, "diff", path, path, "--rope", "no_such_rope")


def test_every_parameter_of_a_recipe_is_compared(diff):
    def hunyuan(alpha):
        scaling = {"type": "dynamic", "factor": 1.0, "alpha": alpha}
        return llama(model_type="hunyuan_v1_dense", rope_scaling=scaling)

    result, _ = diff(hunyuan(1000.0), hunyuan(50.0))
    assert parameters(result["ropes"][0]) == {"recipe.alpha": (1000.0, 50.0)}


def test_a_text_model_and_its_image_model(diff):
    vlm = {
        "model_type": "qwen2_vl",
        "text_config": llama(model_type="qwen2_vl_text", mrope_section=[8, 12, 12]),
        "vision_config": {"embed_dim": 1280, "num_heads": 16},
    }
    result, _ = diff(llama(), vlm)
    (rope,) = result["ropes"]
    assert parameters(rope)["name"] == ("default", "text.default")
    assert result["only_in_b"] == ["vision.default"]
