# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""SGLang's rotary classes on a CPU, before and after its own loader has applied the plugin."""

import importlib
import inspect
import pkgutil

import numpy as np
import pytest
import torch
from sglang.srt import plugins
from sglang.srt.layers import rotary_embedding as package
from sglang.srt.layers.rotary_embedding import base, factory, mrope

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
SHORT, LONG = [1.0 + i / 64 for i in range(32)], [1.0 + i for i in range(32)]
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
    "dynamic": (
        "DynamicNTKScalingRotaryEmbedding", {"rope_type": "dynamic", "factor": 2.0}, True,
        {"scaling": rotary.DynamicNtk(factor=2.0, original_context=ROWS), "context": 2 * ROWS},
    ),
    "gemma4": (
        "Gemma4RotaryEmbedding", {"rope_type": "proportional"}, True,
        {"scaling": rotary.Proportional(fraction=0.25)},
    ),
    "longrope": (
        "Phi3LongRoPEScaledRotaryEmbedding",
        {
            "rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG,
            "original_max_position_embeddings": 512,
        },
        True,
        {
            "scaling": rotary.LongRope(
                short_factor=SHORT, long_factor=LONG, original_context=512, factor=ROWS / 512
            ),
            "context": ROWS,
        },
    ),
    "bailing": (  # of text: positions of several axes go to a kernel for GPUs
        "BailingMRotaryEmbedding",
        {"rope_type": "default", "mrope_section": [12, 10, 10], "video_rope": True}, False, {},
    ),
    "ernie mrope": (
        "Ernie4_5_VLRotaryEmbedding", {"mrope_section": [10, 10, 12]}, False,
        {"axes": rotary.Mrope(sections=(12, 10, 10), order="spatial_first")},
    ),
    "mrope": ("MRotaryEmbedding", MROPE, True, {"axes": SECTIONS}),
    "mrope, yarn": (
        "YaRNScalingMRotaryEmbedding", {**YARN, "mrope_section": [8, 12, 12]}, True,
        {"axes": SECTIONS, "scaling": OUR_YARN},
    ),
}  # fmt: skip


def make(name, rows=ROWS):
    factory._ROPE_DICT.clear()
    cls, scaling, is_neox, _ = CASES[name]
    if cls == "Ernie4_5_VLRotaryEmbedding":  # its model constructs it
        section = scaling["mrope_section"]
        return mrope.Ernie4_5_VLRotaryEmbedding(
            HEAD, HEAD, rows, THETA, is_neox, torch.float32, mrope_section=section
        )
    return package.get_rope(
        HEAD, HEAD, rows, THETA, is_neox, scaling, torch.float32,
        partial_rotary_factor=0.25 if name == "gemma4" else 1.0,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def without_compiler():
    """ERNIE's class compiles a function."""
    with torch.compiler.set_stance("force_eager"):
        yield


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


def forward(module):
    """ERNIE's own is a kernel for GPUs."""
    return module.forward_native if "Ernie" in type(module).__name__ else module


def in_heads(name, *both):
    return tuple(x.unflatten(-1, (-1, HEAD)) for x in both) if name == "deepseek" else both


def test_every_class_is_named():
    """A class that SGLang adds is replaced, and each has a case."""
    import rotary_sglang

    found = set()
    for module in pkgutil.iter_modules(package.__path__):
        for name, cls in vars(importlib.import_module(f"{package.__name__}.{module.name}")).items():
            if inspect.isclass(cls) and hasattr(cls, "_compute_inv_freq"):
                found.add(name.removeprefix("Exact"))
    replaced = {name for names in rotary_sglang.REPLACED.values() for name in names}
    assert found == replaced
    # test_kept_forwards.py has the others.
    forwards_kept = {
        "FourierRotaryEmbedding", "DualChunkRotaryEmbedding", "Llama4VisionRotaryEmbedding",
    }  # fmt: skip
    assert {case[0] for case in CASES.values()} == replaced - forwards_kept


@pytest.mark.parametrize("name", CASES)
def test_same_rotation_nearby(name):
    """SGLang's own forward, which reads the exact table."""
    original, module = ORIGINAL[name], make(name)
    assert type(original).__name__ == CASES[name][0]
    assert type(module).__name__ == f"Exact{CASES[name][0]}"
    positions = places(name, 100)
    q, k = in_heads(name, *tensors())
    wanted = forward(original)(positions, q.clone(), k.clone())
    for ours, theirs in zip(forward(module)(positions, q, k), wanted, strict=True):
        assert (ours - theirs).abs().max() < 1e-4


@pytest.mark.parametrize("name", CASES)
def test_is_the_rotation_of_the_recipe(name):
    """To the end of the table, against rotary.Rope."""
    _, _, is_neox, options = CASES[name]
    module = make(name)
    positions = places(name, ROWS if name in ("bailing", "longrope") else len(module.cos_sin_cache))
    if name == "bailing":
        positions[:20] *= -1  # of images, around the text
    q, k = tensors()
    rope = rotary.Rope(
        head_dim=HEAD, theta=THETA, pairing="half" if is_neox else "interleaved", **options
    )
    at = positions[:, None].numpy() if positions.dim() == 2 else positions.numpy()
    right = rope.rotate(q.reshape(1, TOKENS, 4, HEAD).numpy(), positions=at)
    found, _ = forward(module)(positions, *in_heads(name, q, k))
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
