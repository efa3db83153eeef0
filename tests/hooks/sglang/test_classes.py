# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""SGLang's rotary classes on a CPU, before and after its own loader has applied the plugin."""

import numpy as np
import pytest
import torch
from sglang.srt import plugins
from sglang.srt.layers import rotary_embedding as package
from sglang.srt.layers.rotary_embedding import base, factory

import rotary

HEAD, ROWS, THETA, TOKENS, MILLION = 64, 4096, 10000.0, 40, 1_000_000
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
OUR_YARN = rotary.Yarn(factor=4.0, original_context=512)
DEEPSEEK = {
    "rope_type": "deepseek_yarn", "factor": 8.0, "original_max_position_embeddings": 512,
    "mscale": 1.0, "mscale_all_dim": 0.707,
}  # fmt: skip
OUR_DEEPSEEK = rotary.Yarn(factor=8.0, original_context=512, mscale=1.0, mscale_all_dim=0.707)
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 512,
    "low_freq_factor": 1.0, "high_freq_factor": 4.0,
}  # fmt: skip
OUR_LLAMA3 = rotary.Llama3(
    factor=8.0, original_context=512, low_freq_factor=1.0, high_freq_factor=4.0
)
MROPE = {"rope_type": "default", "mrope_section": [8, 12, 12]}
ALPHA = {"rope_type": "dynamic", "alpha": 1000.0}
LINEAR = {"rope_type": "linear", "factor": 4.0}
SECTIONS = rotary.Mrope(sections=(8, 12, 12))
#   name: (class, rope_scaling, is_neox, the same in rotary)
CASES = {
    "plain": ("RotaryEmbedding", None, True, {}),
    "interleaved": ("RotaryEmbedding", None, False, {}),
    "linear": (
        "LinearScalingRotaryEmbedding", LINEAR, True, {"scaling": rotary.Linear(factor=4.0)},
    ),
    "llama3": ("Llama3RotaryEmbedding", LLAMA3, True, {"scaling": OUR_LLAMA3}),
    "yarn": ("YaRNScalingRotaryEmbedding", YARN, True, {"scaling": OUR_YARN}),
    "deepseek": (
        "DeepseekScalingRotaryEmbedding", DEEPSEEK, False, {"scaling": OUR_DEEPSEEK},
    ),
    "dynamic, alpha": (
        "DynamicNTKAlphaRotaryEmbedding", ALPHA, True,
        {"scaling": rotary.NtkAlpha(alpha=1000.0)},
    ),
    "mrope": ("MRotaryEmbedding", MROPE, True, {"axes": SECTIONS}),
    "mrope, yarn": (
        "YaRNScalingMRotaryEmbedding", {**YARN, "mrope_section": [8, 12, 12]}, True,
        {"axes": SECTIONS, "scaling": OUR_YARN},
    ),
}  # fmt: skip


def make(name, rows=ROWS):
    factory._ROPE_DICT.clear()
    _, scaling, is_neox, _ = CASES[name]
    return package.get_rope(HEAD, HEAD, rows, THETA, is_neox, scaling, torch.float32)


def own_table(rows):
    """Of SGLang's class, which after the replacement is the base of another."""
    return make("plain", rows).cos_sin_cache


ORIGINAL = {name: make(name) for name in CASES}
OWN_TABLE = own_table(MILLION + 64)
plugins.load_plugins()


def tensors():
    torch.manual_seed(0)
    return torch.randn(TOKENS, 4 * HEAD), torch.randn(TOKENS, 2 * HEAD)


def places(name, limit):
    shape = (3, TOKENS) if "mrope" in name else (TOKENS,)
    return torch.randint(0, limit, shape, generator=torch.Generator().manual_seed(1))


def in_heads(name, *both):
    return tuple(x.unflatten(-1, (-1, HEAD)) for x in both) if name == "deepseek" else both


@pytest.mark.parametrize("name", CASES)
def test_same_rotation_nearby(name):
    """SGLang's own forward, which reads the exact table."""
    original, module = ORIGINAL[name], make(name)
    assert type(original).__name__ == CASES[name][0]
    assert type(module).__name__ == f"Exact{CASES[name][0]}"
    positions = places(name, 100)
    q, k = in_heads(name, *tensors())
    wanted = original(positions, q.clone(), k.clone())
    for ours, theirs in zip(module(positions, q, k), wanted, strict=True):
        assert (ours - theirs).abs().max() < 1e-4


@pytest.mark.parametrize("name", CASES)
def test_is_the_rotation_of_the_recipe(name):
    """To the end of the table, against rotary.Rope."""
    _, _, is_neox, options = CASES[name]
    module = make(name)
    positions = places(name, module.cos_sin_cache.shape[0])
    q, k = tensors()
    rope = rotary.Rope(
        head_dim=HEAD, theta=THETA, pairing="half" if is_neox else "interleaved", **options
    )
    at = positions[:, None].numpy() if positions.dim() == 2 else positions.numpy()
    right = rope.rotate(q.reshape(1, TOKENS, 4, HEAD).numpy(), positions=at)
    found, _ = module(positions, *in_heads(name, q, k))
    assert np.abs(found.reshape(right.shape).numpy() - right).max() < 4e-6


def test_table_at_a_million():
    """Also of the rows that are added later."""
    angles = np.arange(MILLION, MILLION + 64)[:, None] * np.asarray(
        make("plain").exact_frequencies, np.longdouble
    )
    right = np.concatenate((np.cos(angles), np.sin(angles)), -1).astype(np.float64)

    def error(table):
        return float(np.abs(table[MILLION : MILLION + 64].double().numpy() - right).max())

    grown = make("plain")
    grown._ensure_cos_sin_cache_length(MILLION + 63)
    found = error(make("plain", MILLION + 64).cos_sin_cache)
    print(f"error at position {MILLION}: SGLang {error(OWN_TABLE):.1e}, exact {found:.1e}")
    assert error(OWN_TABLE) > 1e-2 and found < 1.5e-7 and error(grown.cos_sin_cache) < 1.5e-7


def test_classes_are_replaced_everywhere(caplog):
    """Also where SGLang's modules had imported them."""
    import rotary_sglang

    for name in ("RotaryEmbedding", "LinearScalingRotaryEmbedding"):
        assert getattr(base, name) is getattr(factory, name)
        assert issubclass(getattr(factory, name), rotary_sglang.ExactTable)
    assert package.RotaryEmbedding is base.RotaryEmbedding


def test_modes(monkeypatch, caplog):
    import rotary_sglang

    caplog.set_level("INFO")
    monkeypatch.setenv("ROTARY_SGLANG", "off")
    rotary_sglang.register()
    assert "nothing replaced (ROTARY_SGLANG=off)" in caplog.text
    monkeypatch.setenv("ROTARY_SGLANG", "table")
    with pytest.raises(ValueError, match=r"must be one of .* got 'table'"):
        rotary_sglang.register()
