# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary permute: which tensors move, what is refused, what is left of a failed run."""

import json
import os
import resource
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from command import COMMAND, fail, leftovers, llama, run, succeed, write_config
from safetensors.numpy import load_file, save_file

HEADS, KV_HEADS, HEAD, HIDDEN = 4, 2, 64, 256


def interleave(rows, head_dim=HEAD, rotary_dim=None, offset=0):
    """Rows [heads * head_dim, ...] of half pairing as interleaved ones, by NumPy's reshape."""
    rotary_dim = rotary_dim or head_dim
    heads = rows.reshape(-1, head_dim, *rows.shape[1:]).copy()
    slice_ = heads[:, offset : offset + rotary_dim]
    pairs = slice_.reshape(len(heads), 2, rotary_dim // 2, *rows.shape[1:])
    heads[:, offset : offset + rotary_dim] = pairs.swapaxes(1, 2).reshape(slice_.shape)
    return heads.reshape(rows.shape)


def values(*shape, dtype=np.float32):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def attention(layer=0, **more):
    at = f"model.layers.{layer}.self_attn."
    return {
        at + "q_proj.weight": values(HEADS * HEAD, HIDDEN),
        at + "k_proj.weight": values(KV_HEADS * HEAD, HIDDEN),
        at + "v_proj.weight": values(KV_HEADS * HEAD, HIDDEN),
        **{at + name.replace("__", "."): value for name, value in more.items()},
    }


def write_model(folder, tensors, config=None, name="model.safetensors"):
    folder.mkdir(exist_ok=True)
    save_file(tensors, folder / name, metadata={"format": "pt"})
    write_config(folder, config or llama(num_key_value_heads=KV_HEADS))
    return folder


def test_rows_biases_and_norms(tmp_path):
    config = llama(num_key_value_heads=KV_HEADS, model_type="qwen3", head_dim=HEAD)
    tensors = attention(
        q_proj__bias=values(HEADS * HEAD, dtype=np.float16),
        k_proj__bias=values(KV_HEADS * HEAD, dtype=ml_dtypes.bfloat16),
        q_norm__weight=values(HEAD),
        k_norm__weight=values(KV_HEADS, HEAD, dtype=np.float64),
    )
    model = write_model(tmp_path / "model", tensors, config)
    (model / "tokenizer.json").write_text("{}")
    out = tmp_path / "out"
    done = run("permute", model, "--to", "interleaved", "-o", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "6 tensors of q and k in 1 attention layers: half -> interleaved\n"
    assert "no key for the pairing of qwen3" in done.stderr
    assert "is_neox_style=False" in done.stderr and done.stderr.count("\n") == 1
    moved = load_file(out / "model.safetensors")
    assert moved.keys() == tensors.keys()
    for name, before in tensors.items():
        flat = before.reshape(-1) if "norm" in name else before
        expected = before if "v_proj" in name else interleave(flat).reshape(before.shape)
        assert moved[name].dtype == before.dtype
        assert moved[name].tobytes() == expected.tobytes(), name
    assert (out / "config.json").read_bytes() == (model / "config.json").read_bytes()
    assert (out / "tokenizer.json").read_text() == "{}"
    # And back: the same bytes, metadata and all.
    back = tmp_path / "back"
    succeed("permute", out, "--from", "interleaved", "--to", "half", "-o", f"{back}/")
    for path in model.iterdir():
        assert (back / path.name).read_bytes() == path.read_bytes()
    assert leftovers(tmp_path) == []


def test_partial_rotation(tmp_path):
    config = llama(num_key_value_heads=KV_HEADS, model_type="phi", partial_rotary_factor=0.5)
    tensors = attention()
    model = write_model(tmp_path / "model", tensors, config)
    succeed("permute", model, "--to", "interleaved", "-o", tmp_path / "out")
    moved = load_file(tmp_path / "out" / "model.safetensors")
    q = "model.layers.0.self_attn.q_proj.weight"
    assert np.array_equal(moved[q], interleave(tensors[q], rotary_dim=HEAD // 2))


@pytest.mark.parametrize(
    ("model_type", "module", "per_head"),
    [("gpt_neox", "attention.query_key_value", True), ("phi3", "self_attn.qkv_proj", False)],
)
def test_fused(tmp_path, model_type, module, per_head):
    config = llama(model_type=model_type, rotary_pct=1.0)
    fused = values(3 * HEADS * HEAD, HIDDEN)
    name = f"layers.0.{module}.weight"
    model = write_model(tmp_path / "model", {name: fused}, config)
    succeed("permute", model, "--to", "interleaved", "-o", tmp_path / "out")
    parts = fused.reshape((HEADS, 3, HEAD, HIDDEN) if per_head else (3, HEADS, HEAD, HIDDEN)).copy()
    for i in (0, 1):
        part = parts[:, i] if per_head else parts[i]
        part[...] = interleave(part.reshape(-1, HIDDEN)).reshape(part.shape)
    moved = load_file(tmp_path / "out" / "model.safetensors")[name]
    assert np.array_equal(moved, parts.reshape(fused.shape))


def latent(**changes):
    return {
        "model_type": "deepseek_v3",
        "hidden_size": HIDDEN,
        "num_attention_heads": HEADS,
        "qk_nope_head_dim": 32,
        "qk_rope_head_dim": 16,
        "kv_lora_rank": 24,
        "max_position_embeddings": 4096,
        "rope_theta": 10000.0,
        "rope_interleave": True,
        **changes,
    }


def test_latent_attention_and_its_config(tmp_path):
    at = "model.layers.0.self_attn."
    tensors = {
        at + "q_b_proj.weight": values(HEADS * 48, 20),
        at + "kv_a_proj_with_mqa.weight": values(24 + 16, HIDDEN),
        at + "kv_b_proj.weight": values(HEADS * 64, 24),
    }
    model = write_model(tmp_path / "model", tensors, latent())
    done = run("permute", model, "--to", "half", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "config.json now has rope_interleave: false" in done.stderr
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config == latent(rope_interleave=False)
    moved = load_file(tmp_path / "out" / "model.safetensors")
    for name, head_dim, offset in [("q_b_proj", 48, 32), ("kv_a_proj_with_mqa", 40, 24)]:
        name = f"{at}{name}.weight"
        again = interleave(moved[name], head_dim=head_dim, rotary_dim=16, offset=offset)
        assert np.array_equal(again, tensors[name]) and not np.array_equal(
            moved[name], tensors[name]
        )
    assert np.array_equal(moved[at + "kv_b_proj.weight"], tensors[at + "kv_b_proj.weight"])
    # The config now tells the pairing: no flag is needed to convert back.
    succeed("permute", tmp_path / "out", "--to", "interleaved", "-o", tmp_path / "back")
    assert (tmp_path / "back" / "model.safetensors").read_bytes() == (
        model / "model.safetensors"
    ).read_bytes()


def test_shards_of_the_index_and_nothing_stale(tmp_path):
    model = tmp_path / "model"
    names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    layers = [attention(layer) for layer in (0, 1)]
    # k of layer 0 lies in the second shard.
    k = "model.layers.0.self_attn.k_proj.weight"
    layers[1][k] = layers[0].pop(k)
    for name, tensors in zip(names, layers, strict=True):
        write_model(model, tensors, name=name)
    weight_map = {key: name for name, tensors in zip(names, layers, strict=True) for key in tensors}
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    (model / "consolidated.safetensors").write_bytes(b"of another format")
    (model / "pytorch_model.bin").write_bytes(b"old weights")
    (model / "original").mkdir()
    done = run("permute", model, "--to", "interleaved", "-o", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    for name in ("consolidated.safetensors", "original", "pytorch_model.bin"):
        assert f"rotary: not copied: {name}\n" in done.stderr
    out = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert out == sorted([*names, "config.json", "model.safetensors.index.json"])
    for name, tensors in zip(names, layers, strict=True):
        for key, value in load_file(tmp_path / "out" / name).items():
            expected = tensors[key] if "v_proj" in key else interleave(tensors[key])
            assert np.array_equal(value, expected), key


LLAMA = {"num_key_value_heads": KV_HEADS}
Q = "model.layers.0.self_attn.q_proj."
REFUSED = {
    "quantised weight": ({Q + "weight": values(HEADS * HEAD, 8).astype(np.uint8)}, LLAMA, "U8"),
    "quantised block": (
        {Q + "weight_scale": values(HEADS, 2)},
        LLAMA,
        "neither weight nor bias: quantised",
    ),
    "gptq": ({Q + "qweight": values(8, HEADS * HEAD)}, LLAMA, "neither weight nor bias"),
    "adapter": ({Q + "lora_A.weight": values(8, HIDDEN)}, LLAMA, "neither weight nor bias"),
    "quantization_config": ({}, {**LLAMA, "quantization_config": {"bits": 4}}, "quantised"),
    "gated query": (
        {Q + "weight": values(2 * HEADS * HEAD, HIDDEN)},
        LLAMA,
        "must have 256 rows by config.json (heads of 64), got the shape [512, 256]",
    ),
    "no rows": ({Q + "weight": np.zeros((HEADS * HEAD, 0), np.float32)}, LLAMA, "the shape"),
    "unknown fusion": (
        {"model.layers.1.self_attn.qkv_proj.weight": values(3 * HEADS * HEAD, HIDDEN)},
        LLAMA,
        "is fused in a layout that is not known for llama",
    ),
    "key without query": (
        {"model.layers.1.self_attn.k_proj.weight": values(KV_HEADS * HEAD, HIDDEN)},
        LLAMA,
        '"model.layers.1.self_attn." has a projection to k, but none to q',
    ),
    "adapter beside": (
        {"model.layers.0.self_attn.linear_q_adapter_list.0.weight": values(8, HIDDEN)},
        LLAMA,
        "is a part of the attention that is not known",
    ),
    "values of the keys": (
        {
            "model.layers.1.self_attn.q_proj.weight": values(HEADS * HEAD, HIDDEN),
            "model.layers.1.self_attn.k_proj.weight": values(KV_HEADS * HEAD, HIDDEN),
        },
        LLAMA,
        '"model.layers.1.self_attn." has no projection to v of its own',
    ),
    "unknown family": ({}, {**LLAMA, "model_type": "mine"}, "`rotary models` lists"),
    "no heads": ({}, {"num_attention_heads": None, "head_dim": 64}, "num_attention_heads"),
    "many heads": ({}, {"num_key_value_heads": 1 << 40}, "num_key_value_heads"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path, case):
    tensors, changes, message = REFUSED[case]
    model = write_model(tmp_path / "model", {**attention(), **tensors}, llama(**changes))
    assert message in fail(1, "permute", model, "--to", "interleaved", "-o", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_refused_folders(tmp_path):
    def refused(code, message, to="interleaved", out=tmp_path / "out", *more):
        line = fail(code, "permute", tmp_path / "model", "--to", to, "-o", out, *more)
        assert message in line, line

    refused(1, "must be the folder of a model")
    model = write_model(tmp_path / "model", {"model.norm.weight": values(HIDDEN)})
    refused(1, "has no projections to q and k")
    write_model(model, attention())
    refused(1, "the pairing is already half by model_type llama", "half")
    refused(1, "the pairing is already interleaved", "interleaved", tmp_path / "out",
            "--from", "interleaved")  # fmt: skip
    refused(2, "OUT must not exist", "interleaved", model)
    refused(2, "--to must be interleaved or half, got 'pairs'", "pairs")
    for text in ("{}", '{"weight_map": 3}', '{"weight_map": {"a": "../x.safetensors"}}'):
        (model / "model.safetensors.index.json").write_text(text)
        refused(1, "weight_map")
    (model / "model.safetensors.index.json").unlink()
    whole = (model / "model.safetensors").read_bytes()
    (model / "model.safetensors").write_bytes(whole[:-1])
    refused(1, "model.safetensors: ")
    (model / "model.safetensors").unlink()
    refused(1, "has no .safetensors file")
    assert leftovers(tmp_path) == []


def test_full_disk_leaves_nothing(tmp_path):
    model = write_model(tmp_path / "model", attention())
    size = (model / "model.safetensors").stat().st_size

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))

    limited = ["/bin/sh", "-c", 'trap "" XFSZ; exec "$@"', "sh"]
    done = subprocess.run(
        [*limited, COMMAND, "permute", model, "--to", "interleaved", "-o", tmp_path / "out"],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_memory_is_bounded(tmp_path):
    """A model of 128 MiB in at most 48 MiB more than the command takes by itself."""
    big = {"lm_head.weight": np.zeros((64 << 10, 512), np.float32), **attention()}
    model = write_model(tmp_path / "model", big)
    out = tmp_path / "out"
    peak = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); "
    peak += "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"

    def memory(*arguments):
        command = [sys.executable, "-c", peak, COMMAND, *arguments]
        # The address sanitizer would keep freed memory.
        options = f"{os.environ.get('ASAN_OPTIONS', '')}:quarantine_size_mb=0".lstrip(":")
        environment = {**os.environ, "ASAN_OPTIONS": options}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        return int(done.stdout.splitlines()[-1]) / 1024  # MiB

    used = memory("permute", model, "--to", "interleaved", "-o", out)
    assert used < memory("models") + 48
    assert os.path.getsize(out / "model.safetensors") > 128 << 20
