"""Ropes of the package rotary in PyTorch: from models and recipes, with the bits of the engine."""

import copy
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import rotary
import rotary.torch as rt

ROOT = Path(__file__).resolve().parents[2]
MODELS = sorted((ROOT / "examples" / "models").glob("*.json"))


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_every_model_has_the_bits_of_the_engine(path: Path, device: str) -> None:
    for found in rotary.Model.read(path).ropes:
        rope = found.make_rope()
        head_dim, axes = found.layout.head_dim, len(found.axes)
        module = rt.RotaryEmbedding.from_pretrained(path, found.name, token_dim=-2)
        at = np.random.default_rng(0).integers(0, 100_000, (axes, 2, 5))
        x = torch.randn(2, 5, 3, head_dim, dtype=torch.float32)
        expected = rope.rotate(x.numpy(), positions=at)
        out = module(x.to(device).transpose(1, 2), positions=torch.from_numpy(at).to(device))
        assert torch.equal(out.transpose(1, 2).cpu(), torch.from_numpy(expected))


def test_configs_in_memory() -> None:
    config = json.loads((ROOT / "examples" / "models" / "llama-3.1-8b.json").read_text())
    by_dict = rt.RotaryEmbedding.from_pretrained(config)
    by_path = rt.RotaryEmbedding.from_pretrained(ROOT / "examples" / "models" / "llama-3.1-8b.json")
    assert by_dict.rope == by_path.rope
    assert by_dict.rope == rt.rope_text(rotary.Model.from_config(config).rope())


def test_text_tokens_of_mrope() -> None:
    module = rt.RotaryEmbedding.from_pretrained(ROOT / "examples/models/qwen3-vl-text.json")
    x = torch.randn(1, 4, 2, json.loads(module.rope)["head_dim"])
    ids = torch.arange(4)
    assert torch.equal(module(x), module(x, positions=ids.expand(3, 1, 4)))


@pytest.mark.parametrize(
    "rope",
    [
        rotary.Rope(head_dim=64, theta=1e4, pairing="interleaved", output_pairing="half"),
        rotary.Rope(head_dim=64, theta=1e4, pairing="half", axes=rotary.Axial(axes=2)),
        rotary.Rope(head_dim=96, theta=1e2, pairing="half", axes=rotary.Axial(axes=3)),
        rotary.Rope(head_dim=64, rotary_dim=32, rotary_offset=8, theta=1e4, pairing="half"),
        rotary.Rope(
            head_dim=64,
            theta=1e4,
            pairing="half",
            scaling=rotary.Yarn(factor=4, original_context=64),
        ),
        rotary.Rope(head_dim=64, theta=1e4, pairing="half", scaling=rotary.Xpos()),
        rotary.Rope(head_dim=64, theta=1e4, pairing="half", precision="reference"),
    ],
    ids=["reordering", "axial 2-D", "axial 3-D", "partial", "yarn", "xpos", "reference"],
)
def test_recipes_have_the_bits_of_the_engine(rope: rotary.Rope) -> None:
    x = torch.randn(2, 5, 3, rope.layout.head_dim)
    at = np.random.default_rng(0).integers(0, 400, (rope.frequencies.axes, 2, 5))
    expected = rope.rotate(x.numpy(), positions=at)
    module = rt.RotaryEmbedding(rope)
    assert torch.equal(module(x, positions=torch.from_numpy(at)), torch.from_numpy(expected))


def test_rope_text_of_the_docs() -> None:
    page = (ROOT / "docs" / "pytorch.md").read_text()
    source, shown = re.search(r">>> (.*)\n(.*)\n", page).groups()
    assert repr(eval(source, {"rotary": rotary})) == shown


def test_a_rope_keeps_its_text() -> None:
    """The text is made once: a call with a Rope costs as much as a call with its text."""
    rope = rotary.Rope(head_dim=16, theta=1e4, pairing="half")
    text = rt.rope_text(rope)
    assert rt.rope_text(rope) is text
    assert rt.rope_text(copy.deepcopy(rope)) == text
    assert "on_all_axes" in rt.rope_text(rope, one_axis="on_all_axes")
    assert rt.rope_text(rope) is text
    assert rope == copy.deepcopy(rope)
    x = torch.randn(2, 3, 16)
    assert torch.equal(rt.rotate(x, rope=rope), rt.rotate(x, rope=text))
