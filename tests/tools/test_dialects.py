# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary diff --dialect and inspect --dialect: the numbers of what frameworks make of a config.

The numbers were computed from the sources of the frameworks, formula by formula, apart from this
library.
"""

import json
import re

import pytest
from command import EXAMPLES, GOLDEN, fail, inspect, llama, phi3, succeed, write_config

DIALECTS = [
    "hf@5.17",
    "vllm@0.32",
    "vllm@2026-08",
    "sglang@0.5.23",
    "llama.cpp@2026-08",
    "mlx-lm@0.32",
    "tensorrt-llm@000a01de",
    "onnxruntime-genai@0.18",
    "onnxruntime-genai@2026-08",
    "megatron@0.16",
    "megatron@d98e8a64",
    "torchtitan@0.3",
    "torchtitan@b5bcd76c",
    "deepseek@2026-08",
    "tgi@db931fcf",
    "paper@arXiv",
]


def yarn(factor, original, head_dim=128, theta=1e6, longest=None, **keys):
    return llama(
        model_type="qwen2",
        head_dim=head_dim,
        rope_theta=theta,
        max_position_embeddings=longest or int(factor * original),
        rope_scaling={
            "rope_type": "yarn",
            "factor": factor,
            "original_max_position_embeddings": original,
            **keys,
        },
    )


BETAS = {"beta_fast": 32.0, "beta_slow": 1.0}
CONFIGS = {
    "qwen2.5": yarn(4.0, 32768),
    "gpt-oss": yarn(32.0, 4096, 64, 150000.0, truncate=False, **BETAS),
    "deepseek-v3": yarn(40.0, 4096, 64, 1e4, mscale=1.0, mscale_all_dim=1.0, **BETAS),
    "deepseek-v2": yarn(40.0, 4096, 64, 1e4, mscale=0.707, mscale_all_dim=0.707, **BETAS),
    "ministral-3": yarn(16.0, 16384, mscale=1.0, mscale_all_dim=1.0, **BETAS),
    "attention_factor": yarn(64.0, 4096, theta=5e5, attention_factor=1.0, **BETAS),
    "mscale": yarn(40.0, 4096, 64, 1e4, mscale=0.707, **BETAS),
    "beta_fast": yarn(4.0, 32768, beta_fast=64.0, beta_slow=1.0),
}
SAME = (None, 1.0, None, None, None)
# config -> factor in hf, then by dialect: factor (None: hf's), factor on scores, largest relative
# difference of a frequency in %, its pair, first position 0.1 rad apart.
TABLE = {
    "qwen2.5": (
        1.1386,
        {"onnxruntime-genai@2026-08": (1.0, 0.771, 300, 40, 192)},
    ),
    "gpt-oss": (
        1.3466,
        dict.fromkeys(["llama.cpp", "mlx-lm", "tensorrt-llm"], (None, 1.0, 76, 17, 453)),
    ),
    "deepseek-v3": (
        1.0,
        {
            "vllm@2026-08": (1.3689, 1.874, None, None, None),
            "llama.cpp": (1.3689, 1.874, None, None, None),  # a model without latent attention
            "onnxruntime-genai@2026-08": (None, 1.0, 33, 22, 74),
        },
    ),
    "deepseek-v2": (
        1.0,
        {
            "vllm@2026-08": (1.3689, 1.874, None, None, None),
            "llama.cpp": (1.3689, 1.874, None, None, None),
            "onnxruntime-genai@2026-08": (None, 1.0, 33, 22, 74),
        },
    ),
    "ministral-3": (
        1.0,
        {
            "vllm@2026-08": (1.2773, 1.631, None, None, None),
            "llama.cpp": (1.2773, 1.631, None, None, None),  # without yarn_log_multiplier
            "onnxruntime-genai@2026-08": (None, 1.0, 25, 36, 484),
        },
    ),
    "attention_factor": (
        1.0,
        {
            **dict.fromkeys(
                ["vllm@2026-08", "sglang", "llama.cpp", "mlx-lm", "tensorrt-llm", "megatron"],
                (1.4159, 2.005, None, None, None),
            ),
            "onnxruntime-genai@2026-08": (1.4159, 2.005, 28, None, None),
        },
    ),
    "mscale": (
        1.3689,
        {
            **dict.fromkeys(
                ["mlx-lm", "tensorrt-llm", "megatron"], (1.2608, 0.848, None, None, None)
            ),
            "onnxruntime-genai@2026-08": (0.7070, 0.267, 33, 22, 74),
        },
    ),
    "beta_fast": (
        1.1386,
        {
            "llama.cpp": (None, 1.0, 12.7, 23, 128),
            "onnxruntime-genai@2026-08": (None, 1.0, 4.2, None, None),
        },
    ),
}
MEASURED = [
    "vllm@0.32",
    "vllm@2026-08",
    "sglang",
    "llama.cpp",
    "mlx-lm",
    "tensorrt-llm",
    "onnxruntime-genai@2026-08",
    "megatron",
]


def diff(path, *options):
    return json.loads(succeed("diff", path, *options, "--json"))


@pytest.mark.parametrize("name", TABLE)
def test_yarn(tmp_path, name):
    path = write_config(tmp_path, CONFIGS[name])
    factor, rows = TABLE[name]
    for dialect in MEASURED:
        (rope,) = diff(path, "--dialect", dialect)["ropes"]
        own, scores, percent, pair, position = rows.get(dialect, SAME)
        where = f"{name} {dialect}"
        assert rope["scale"]["a"] == pytest.approx(factor, abs=6e-5), where
        assert rope["scale"]["b"] == pytest.approx(own or factor, abs=6e-5), where
        assert rope["score_factor"] == pytest.approx(scores, abs=6e-4), where
        if percent is None:
            assert rope["pairs"] == [] and rope["first_position"] is None, where
        else:
            digits = 0.05 if percent < 20 else 0.5
            assert 100 * rope["relative_difference"] == pytest.approx(percent, abs=digits), where
            assert pair is None or rope["relative_pair"] == pair, where
            assert position is None or rope["first_position"] == position, where


STORED = json.loads((GOLDEN / "dialects.json").read_text())


@pytest.mark.parametrize(
    "stored", STORED, ids=[f"{entry['dialect']}-{entry['name']}" for entry in STORED]
)
def test_tables_of_the_packages(tmp_path, stored):
    """What the packages themselves compute (scripts/dialect_tables.py)."""
    keys = ("head_dim", "rope_theta", "max_position_embeddings", "rope_scaling")
    path = write_config(tmp_path, llama(model_type="qwen2", **{key: stored[key] for key in keys}))
    dialect = re.sub(r"(hf@\d+\.\d+)\.0", r"\1", stored["dialect"])
    found = inspect(path, "--dialect", dialect)["ropes"][0]
    assert ("refused" in found) == ("error" in stored)
    if "error" in stored:
        return
    values = [sum(row) for row in found["frequencies"]]  # of M-RoPE, one axis each
    # float32, and powers of float32: a few ulp.
    assert values == pytest.approx(stored["frequencies"], rel=3e-6)
    assert found["scale"] == pytest.approx(stored["scale"], rel=1e-6)


def test_rows_that_were_run_have_tables():
    found = json.loads(succeed("diff", EXAMPLES / "llama-3.1-8b.json", "--all", "--json"))
    run = {entry["b"] for entry in found["dialects"] if entry["evidence"]["b"] == "run"}
    stored = {entry["dialect"] for entry in STORED}
    assert (run - {"hf@5.17"}) | {"hf@5.17.0", "hf@5.23.0"} == stored


@pytest.mark.parametrize(
    ("model_type", "keys", "same"),
    [
        ("minimax_m3_vl_vision", {}, False),
        ("step3p5_vision", {}, False),
        ("cohere_compass_text", {"rope_theta": 1e4}, False),
        ("llama", {}, True),
    ],
)
def test_versions_of_transformers(tmp_path, model_type, keys, same):
    """Towers that 5.17 rotated otherwise; tests/golden has what both versions compute."""
    path = write_config(tmp_path, {"model_type": model_type, **keys})
    assert diff(path, "--dialect", "hf@5.17")["same"] is same
    assert diff(path, "--dialect", "hf@5.23")["same"]


def test_refused(tmp_path):
    path = write_config(tmp_path, CONFIGS["qwen2.5"])
    (rope,) = diff(path, "--dialect", "onnxruntime-genai@0.18")["ropes"]
    assert rope["refused"] == "YaRN without beta_fast" and not rope["same"]
    assert rope["notice"] == "It fails with an error: YaRN without beta_fast is refused."
    assert "refused" in succeed("diff", path, "--all")
    assert "YaRN without beta_fast" in succeed(
        "inspect", path, "--dialect", "onnxruntime-genai@0.18"
    )


def test_all_is_every_dialect_against_hf(tmp_path):
    path = write_config(tmp_path, CONFIGS["attention_factor"])
    found = diff(path, "--all")
    assert [entry["b"] for entry in found["dialects"]] == DIALECTS
    for entry in found["dialects"]:
        assert entry == diff(path, "--dialect", entry["b"])
        assert (
            entry["a"] == "hf@5.23"
            and entry["source"]["b"]
            and entry["evidence"]["b"] in ("run", "read")
        )
    page = succeed("diff", path, "--all")
    assert all(name.split("@")[0][:10] in page for name in DIALECTS)


def test_names_are_never_shortened(tmp_path):
    """Two versions of one name would look the same, also for models with several ropes."""
    for path in (write_config(tmp_path, CONFIGS["attention_factor"]), EXAMPLES / "gemma-3-4b.json"):
        page = succeed("diff", path, "--all").splitlines()
        for name in DIALECTS:
            assert any(line.split()[:1] == [name] for line in page), name
        assert max(map(len, page[1:])) <= 80
    page = " ".join(succeed("diff", tmp_path / "config.json", "--all").split())
    assert "dropped: attention_factor (vllm@2026-08, sglang@0.5.23, llama.cpp@2026-08," in page


def test_a_release_of_a_known_version(tmp_path):
    path = write_config(tmp_path, llama())
    for name, row in {"vllm@0.32.1": "vllm@0.32", "hf@5.23.0": "hf@5.23"}.items():
        assert inspect(path, "--dialect", name)["dialect"] == row
    for name in ("vllm@0.3", "vllm@0.320", "vllm@0.32.", "vllm@", "VLLM", ""):
        assert "unknown dialect" in fail(1, "inspect", path, "--dialect", name)
        assert "unknown dialect" in fail(1, "diff", path, "--dialect", name)


def test_dropped_keys_and_notice(tmp_path):
    path = write_config(tmp_path, CONFIGS["attention_factor"])
    (rope,) = diff(path, "--dialect", "vllm@2026-08")["ropes"]
    assert rope["dropped_keys"] == {"a": [], "b": ["attention_factor"]}
    assert rope["cache_compatible"] is False
    assert rope["notice"].startswith("Attention scores are 2.00474 times as large")
    (qwen,) = diff(
        write_config(tmp_path, CONFIGS["qwen2.5"], "qwen.json"),
        "--dialect",
        "onnxruntime-genai@2026-08",
    )["ropes"]
    assert qwen["dropped_keys"]["b"] == ["factor", "original_max_position_embeddings"]
    assert "the context is not extended: text beyond 32768 positions degrades" in qwen["notice"]
    page = succeed("diff", path, "--dialect", "vllm@2026-08")
    assert "keys dropped by B         attention_factor" in page
    assert "A half, B half: not compatible" in page


def test_two_dialects_and_the_newest_version(tmp_path):
    path = write_config(tmp_path, CONFIGS["attention_factor"])
    found = diff(path, "--dialect", "vllm", "--dialect", "vllm@2026-08")
    assert (found["a"], found["b"]) == ("vllm@0.32", "vllm@2026-08")
    assert found["ropes"][0]["score_factor"] == pytest.approx(2.005, abs=1e-3)
    assert diff(path, "--dialect", "sglang", "--dialect", "mlx-lm")["same"]


def base_of(path, dialect, context):
    """The base that the frequency of pair 1 says, d = 128."""
    found = inspect(path, "--dialect", dialect, "--context", context)
    return found["ropes"][0]["frequencies"][1][0] ** -64.0


def test_dynamic_ntk(tmp_path):
    config = llama(
        head_dim=128,
        rope_theta=1e6,
        max_position_embeddings=32768,
        rope_scaling={"rope_type": "dynamic", "factor": 2.0},
    )
    path = write_config(tmp_path, config)
    for dialect, bases in {
        "hf": (1e6, 3.05e6, 7.22e6),
        "vllm": (1e6, 1e6, 1e6),
        "sglang": (3.05e6, 3.05e6, 3.05e6),
        "llama.cpp": (1e6, 1e6, 1e6),
        "onnxruntime-genai@2026-08": (1e6, 1e6, 1e6),
    }.items():
        for context, base in zip((32768, 65536, 131072), bases, strict=True):
            assert base_of(path, dialect, context) == pytest.approx(base, rel=2e-3), dialect


def test_longrope_list(tmp_path):
    path = write_config(tmp_path, phi3())
    short = inspect(path)["ropes"][0]["frequencies"]
    long = inspect(path, "--context", 100000)["ropes"][0]["frequencies"]
    for dialect in ("vllm", "sglang", "llama.cpp", "mlx-lm"):  # the long list for every prompt
        assert inspect(path, "--dialect", dialect)["ropes"][0]["frequencies"] == long
    for dialect in ("hf", "onnxruntime-genai"):
        assert inspect(path, "--dialect", dialect)["ropes"][0]["frequencies"] == short


def test_yarn_on_mrope(tmp_path):
    config = yarn(4.0, 32768)
    config["rope_scaling"]["mrope_section"] = [16, 24, 24]
    path = write_config(tmp_path, {**config, "model_type": "qwen2_vl_text"})
    (rope,) = diff(path, "--dialect", "vllm")["ropes"]
    assert rope["relative_difference"] == pytest.approx(1.235, abs=5e-4)
    assert rope["relative_pair"] == 40
    assert inspect(path, "--dialect", "mlx-lm")["ropes"][0]["axes"] == ["t"]


def test_llama3_of_megatron(tmp_path):
    keys = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    scaling = {"rope_type": "llama3", "original_max_position_embeddings": 8192, **keys}
    path = write_config(tmp_path, llama(max_position_embeddings=131072, rope_scaling=scaling))
    assert diff(path, "--dialect", "megatron")["same"]
    scaling.update(high_freq_factor=32.0, original_max_position_embeddings=4096)
    path = write_config(tmp_path, llama(max_position_embeddings=131072, rope_scaling=scaling))
    (rope,) = diff(path, "--dialect", "megatron")["ropes"]
    assert rope["dropped_keys"]["b"] == ["high_freq_factor", "original_max_position_embeddings"]
    assert rope["pairs"]


def test_cache_of_latent_attention():
    path = EXAMPLES / "deepseek-v3.json"
    for dialect in ("vllm", "sglang", "mlx-lm"):
        (rope,) = diff(path, "--dialect", dialect)["ropes"]
        assert rope["cache_pairing"] == {"a": "half", "b": "interleaved"}
        assert not rope["cache_compatible"] and rope["score_factor"] == 1
        assert rope["notice"] == "The same text, but neither can use the other's KV cache."


def test_inspect_has_the_same_form_and_three_keys_more(tmp_path):
    path = write_config(tmp_path, CONFIGS["attention_factor"])
    plain = inspect(path)
    assert inspect(path, "--dialect", "hf") == {
        **plain,
        "dialect": "hf@5.23",
        "ropes": [{**plain["ropes"][0], "dropped_keys": [], "cache_pairing": "half"}],
    }
    found = inspect(path, "--dialect", "vllm@2026-08")
    assert found["dialect"] == "vllm@2026-08"
    assert found["ropes"][0]["dropped_keys"] == ["attention_factor"]
    assert found["ropes"][0].keys() == plain["ropes"][0].keys() | {"dropped_keys", "cache_pairing"}
    page = succeed("inspect", path, "--dialect", "vllm@2026-08")
    assert "In the dialect vllm@2026-08" in page and "dropped keys" in page


@pytest.mark.parametrize(
    ("code", "arguments", "text"),
    [
        (1, ["inspect", "--dialect", "ollama"], 'unknown dialect "ollama"; known are hf@5.23'),
        (1, ["diff", "--dialect", "vllm@1"], "unknown dialect"),
        (1, ["diff", "--dialect", "vllm", "--rope", "no_such"], "no rope named"),
        (2, ["diff"], "give two models"),
        (2, ["diff", "--all", "--dialect", "vllm"], "one --dialect"),
        (2, ["diff", *["--dialect", "vllm"] * 3], "one --dialect"),
    ],
)
def test_rejects(tmp_path, code, arguments, text):
    path = write_config(tmp_path, llama())
    assert text in fail(code, arguments[0], path, *arguments[1:])


def test_a_dialect_needs_one_config(tmp_path):
    path = write_config(tmp_path, llama())
    assert "one model" in fail(2, "diff", path, path, "--all")
    gguf = tmp_path / "model.gguf"
    gguf.write_bytes(b"GGUF" + bytes(60))
    assert "a dialect reads a config.json" in fail(1, "inspect", gguf, "--dialect", "vllm")
