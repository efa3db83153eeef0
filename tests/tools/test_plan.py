# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary plan: what to do for a context, and lines that are read back."""

import json
import math
import shlex

import pytest
from command import EXAMPLES, fail, inspect, llama, succeed, write_config

QWEN = EXAMPLES / "qwen2.5-7b-yarn.json"


def plan(path, context, *options):
    return json.loads(succeed("plan", path, "--context", context, *options, "--json"))


def merged(config, changes):
    for key, value in changes.items():
        nested = key.endswith("_config") and key in config
        config[key] = merged(config[key], value) if nested else value
    return config


def lines(option):
    return {line["dialect"].split("@")[0]: line for line in option["engines"]}


def test_coverage():
    assert plan(QWEN, 32768)["coverage"] == "trained"
    assert plan(QWEN, 131072)["coverage"] == "extended"
    found = plan(QWEN, 131073)
    assert found["coverage"] == "beyond" and found["trained"] == 32768
    assert "within the trained context of 32768" in succeed("plan", QWEN, "--context", 100)
    assert plan(QWEN, 1000)["options"] == []


def test_effects(tmp_path):
    options = {o["recipe"]: o for o in plan(QWEN, 262144)["options"]}
    assert list(options) == ["yarn", "llama3", "linear", "dynamic", "base"]
    assert options["linear"]["short_prompts"] == {"pairs_changed": 64, "score_factor": 1}
    assert options["dynamic"]["short_prompts"] == {"pairs_changed": 0, "score_factor": 1}
    scores = options["yarn"]["short_prompts"]["score_factor"]
    assert scores == pytest.approx((0.1 * math.log(8) + 1) ** 2)
    # Without a change, every pair that makes no whole turn in 32768 positions goes further.
    wavelengths = [2 * math.pi * 1e6 ** (i / 64) for i in range(64)]
    config = json.loads(QWEN.read_text())
    del config["rope_scaling"]
    plain = plan(write_config(tmp_path, config), 262144)
    assert plain["now"]["pairs_unseen"] == sum(length > 32768 for length in wavelengths)
    for name in ("yarn", "llama3", "linear"):
        assert options[name]["pairs_unseen"] == 0


def test_lines_are_read_back(tmp_path):
    """Applies the JSON of each line to the config and inspects it in the dialect."""
    for model in (QWEN, EXAMPLES / "llama-3.1-8b.json", EXAMPLES / "deepseek-v3.json"):
        found = plan(model, 1 << 18)
        assert found["coverage"] == "beyond"
        for option in found["options"]:
            expected = inspect(
                write_config(tmp_path, wanted(model, option), "wanted.json"), "--context", 1 << 18
            )["ropes"][0]
            for engine, line in lines(option).items():
                if not line["checked"]:
                    assert line["problem"]
                    continue
                if engine == "llama.cpp":
                    assert line["line"].startswith("llama-server -m MODEL.gguf -c 262144 ")
                    continue
                words = shlex.split(line["line"]) if engine != "hf" else [line["line"]]
                changes = json.loads(words[-1])
                config = merged(json.loads(model.read_text()), changes)
                path = write_config(tmp_path, config, "changed.json")
                got = inspect(path, "--dialect", engine, "--context", 1 << 18)["ropes"][0]
                flat = [value for row in got["frequencies"] for value in row]
                want = [value for row in expected["frequencies"] for value in row]
                assert flat == pytest.approx(want, rel=1e-6), (model, option["recipe"], engine)
                assert got["scale"] == pytest.approx(expected["scale"], rel=1e-6)


def wanted(model, option):
    """A config with the option's dictionary alone."""
    config = json.loads(model.read_text())
    config.pop("rope_scaling", None)
    config.pop("rope_theta", None)
    config["rope_parameters"] = option["rope_parameters"]
    if option["max_position_embeddings"]:
        config["max_position_embeddings"] = option["max_position_embeddings"]
    return config


def test_engines_that_read_it_otherwise():
    options = {o["recipe"]: lines(o) for o in plan(QWEN, 262144)["options"]}
    assert options["yarn"]["vllm"]["checked"] and options["yarn"]["llama.cpp"]["checked"]
    assert not options["dynamic"]["vllm"]["checked"]
    assert "drops factor" in options["dynamic"]["vllm"]["problem"]
    assert not options["dynamic"]["sglang"]["checked"]
    assert "no flags" in options["llama3"]["llama.cpp"]["problem"]
    # The old rope_scaling has precedence over rope_parameters, so that lines must remove it.
    assert json.loads(options["yarn"]["hf"]["line"])["rope_scaling"] is None


GEMMA = EXAMPLES / "gemma-3-4b.json"


def test_parts_and_layer_types():
    """transformers has one dictionary per layer type, and would ignore one of all."""
    found = plan(GEMMA, 1 << 20)
    assert found["rope"] == "text.full_attention"
    line = lines(found["options"][0])
    changes = json.loads(line["hf"]["line"])
    assert line["hf"]["checked"] and list(changes) == ["text_config"]
    parameters = changes["text_config"]["rope_parameters"]
    assert list(parameters) == ["full_attention", "sliding_attention"]
    assert parameters["full_attention"]["rope_type"] == "yarn"
    assert parameters["sliding_attention"] == {"rope_type": "default", "rope_theta": 10000.0}
    assert "one layer type" in line["llama.cpp"]["problem"] and line["llama.cpp"]["line"] == ""


def test_a_model_that_was_trained_with_linear_scaling():
    """Gemma 3 saw the angles of 131072 / 8 unscaled positions: recipes begin there."""
    found = plan(GEMMA, 1 << 20)
    assert found["trained"] == 131072
    options = {o["recipe"]: o for o in found["options"]}
    for name in ("yarn", "llama3", "linear", "dynamic"):
        assert options[name]["rope_parameters"]["factor"] == 64.0
        assert options[name]["pairs_unseen"] == 0, name
    assert options["yarn"]["rope_parameters"]["original_max_position_embeddings"] == 16384


def kept(model, context, engine="hf"):
    """rope_parameters of the line for YaRN, and whether it was checked."""
    line = lines(plan(model, context)["options"][0])[engine]
    return json.loads(shlex.split(line["line"])[-1] if engine != "hf" else line["line"])[
        "rope_parameters"
    ]


def test_what_is_not_scaling_stays():
    deepseek = kept(EXAMPLES / "deepseek-v3.json", 1 << 20)
    assert (deepseek["mscale"], deepseek["mscale_all_dim"], deepseek["factor"]) == (1.0, 1.0, 256.0)
    assert kept(EXAMPLES / "gpt-oss-20b.json", 1 << 20)["truncate"] is False
    qwen = EXAMPLES / "qwen3-vl-text.json"
    own = json.loads(qwen.read_text())
    old = own.get("rope_parameters") or own["rope_scaling"]
    new = kept(qwen, 1 << 20)
    assert new["mrope_section"] == old["mrope_section"]
    assert new["rope_type"] == "yarn"


def test_llama_cpp_cannot_undo_factors_of_the_file():
    options = plan(EXAMPLES / "llama-3.1-8b.json", 1 << 20)["options"]
    for option in options:
        line = lines(option)["llama.cpp"]
        assert not line["checked"]
        assert "rope_freqs" in line["problem"] or "no flags" in line["problem"]


def test_flags_are_not_rounded(tmp_path):
    found = plan(write_config(tmp_path, llama()), 10_001, "--engine", "llama.cpp")
    line = lines(found["options"][2])["llama.cpp"]["line"]
    assert float(line.split("--rope-scale ")[1]) == 10_001 / 4096


def test_a_scaling_that_is_part_of_the_model(tmp_path):
    config = llama(rope_parameters={"rope_type": "proportional", "partial_rotary_factor": 0.5})
    path = write_config(tmp_path, config)
    found = plan(path, 100_000)
    assert found["options"] == [] and "rope type proportional" in found["no_options"]
    assert "no engine combines it" in succeed("plan", path, "--context", 100_000)


def test_one_engine():
    found = plan(QWEN, 262144, "--engine", "llama.cpp")
    for option in found["options"]:
        assert [line["dialect"] for line in option["engines"]] == ["llama.cpp@2026-08"]
    page = succeed("plan", QWEN, "--context", 262144, "--engine", "llama.cpp")
    assert "--rope-scaling yarn --rope-scale 8 --yarn-orig-ctx 32768" in page


def test_rejects(tmp_path):
    path = write_config(tmp_path, llama())
    assert "--engine must be one of" in fail(2, "plan", path, "--context", 9, "--engine", "ollama")
    assert "--context" in fail(2, "plan", path)
    assert "positive whole number" in fail(2, "plan", path, "--context", "many")
    config = llama()
    del config["max_position_embeddings"]
    config["model_type"] = "not_known"
    unknown = write_config(tmp_path, config, "unknown.json")
    assert "no trained context" in fail(1, "plan", unknown, "--context", 9000)


def test_one_pair_has_no_other_base(tmp_path):
    """Recipes that change the base leave a single pair as it is; the others serve it."""
    config = write_config(tmp_path, llama(hidden_size=8, head_dim=2))
    found = plan(config, 1 << 20)
    assert [option["recipe"] for option in found["options"]] == ["yarn", "llama3", "linear"]
    assert all(option["pairs_unseen"] == 0 for option in found["options"][2:])
