# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Ropes from models: paths, dicts and configs of transformers, compared with transformers."""

import json

import numpy as np
import pytest
from definition import GOLDEN, MODELS

import rotary

ROWS = json.loads((GOLDEN / "scaling.json").read_text())["rows"]
FAMILIES = json.loads((GOLDEN / "families.json").read_text())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_scalings_as_transformers_computes_them(row):
    positions = np.array(row.get("positions", []), np.int64)
    context = int(positions.max(initial=-1)) + 1
    rope = rotary.Rope.from_pretrained({"model_type": "llama", **row["config"]}, context=context)
    ours, theirs = rope.frequencies.values[:, 0], np.array(row["inv_freq"])
    np.testing.assert_allclose(ours[: len(theirs)], theirs, rtol=1e-6)
    assert not ours[len(theirs) :].any()
    assert rope.frequencies.scale == pytest.approx(row["attention_scaling"], rel=1e-6)
    limit = 5e-6 + 2.5e-7 * positions[:, None]  # rounding error of float32 angles
    for ours, name in zip(rope.cos_sin(positions), ("cos", "sin")):
        theirs = np.array(row.get(name, np.empty((0, 2 * rope.frequencies.pairs))))
        assert (np.abs(ours - theirs[:, : rope.frequencies.pairs]) <= limit).all()


def rows_of_one_axis():
    for row in FAMILIES["rows"]:
        if row["positions"] == "t" and row["layer_type"] is None:
            yield pytest.param(row, id=row["module"])


@pytest.mark.parametrize("row", rows_of_one_axis())
def test_families_as_transformers_rotates_them(row):
    positions = np.array(FAMILIES["T"])
    model = rotary.Model.from_config(row["config"])
    of_one_axis = [rope for rope in model.ropes if len(rope.axes) == 1]
    rope = of_one_axis[0].make_rope(int(positions.max()) + 1)
    i = np.arange(8 * 2 * row["head_dim"])
    q = (((i * 7919 + 13) % 2003) / 1001.5 - 1).astype(np.float32).reshape(8, 2, row["head_dim"])
    if rope.layout.head_dim != q.shape[-1]:  # their function takes only the rotary part
        rope = rotary.Rope.from_frequencies(
            rope.frequencies,
            layout=rotary.HeadLayout(
                q.shape[-1], 0, rope.layout.pairing, rope.layout.output_pairing
            ),
        )
    theirs = np.array(row["q_out"]).reshape(q.shape)
    limit = 5e-6 + 2.5e-7 * positions[:, None, None]
    assert (np.abs(rope.rotate(q, positions=positions) - theirs) <= limit).all()


def test_a_config_of_transformers_or_a_module_that_has_one():
    class Config:
        def to_dict(self):
            return json.loads((MODELS / "llama-3.1-8b.json").read_text())

    class Module:
        config = Config()

    path = MODELS / "llama-3.1-8b.json"
    expected = rotary.Rope.from_pretrained(path)
    assert rotary.Rope.from_pretrained(str(path)) == expected
    assert rotary.Rope.from_pretrained(json.loads(path.read_text())) == expected
    assert rotary.Rope.from_pretrained(Config()) == expected
    assert rotary.Rope.from_pretrained(Module()) == expected
    assert rotary.Rope.from_pretrained(rotary.Model.read(path)) == expected


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.json")), ids=lambda path: path.stem)
def test_recipes_round_trip(path):
    model = rotary.Model.read(path)
    assert model.model_type == json.loads(path.read_text()).get("model_type", "")
    for rope in model.ropes:
        recipe = rope.recipe
        again = rotary.Rope(
            head_dim=rope.layout.head_dim,
            pairing=rope.layout.pairing,
            output_pairing=rope.layout.output_pairing,
            rotary_offset=rope.layout.rotary_offset,
            rotary_dim=recipe.rotary_dim,
            theta=recipe.theta,
            ladder_dim=recipe.ladder_dim,
            scaling=recipe.scaling,
            axes=recipe.axes,
            direction=recipe.direction,
            gain=recipe.gain,
            wavelengths=recipe.wavelengths,
        )
        assert again == rope.make_rope()


def test_resonance_has_whole_wavelengths():
    for scaling in (None, rotary.Yarn(factor=4, original_context=512)):
        rope = rotary.Rope(
            head_dim=64, theta=1e4, pairing="half", scaling=scaling, wavelengths="whole"
        )
        lengths = rotary.wavelengths(rope)
        np.testing.assert_allclose(lengths, np.round(lengths), rtol=1e-14)


def test_one_of_several_ropes():
    path = MODELS / "gemma-3-4b.json"
    names = [rope.name for rope in rotary.Model.read(path).ropes]
    assert len(names) > 1
    ropes = {name: rotary.Rope.from_pretrained(path, name) for name in names}
    assert len(set(ropes.values())) > 1
    assert rotary.Rope.from_pretrained(path) in ropes.values()
    with pytest.raises(ValueError, match=r"^\[Model::rope\] no rope named \"no\"; there are: "):
        rotary.Rope.from_pretrained(path, "no")


def test_a_gguf_file(tmp_path):
    import gguf

    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_embedding_length(256)
    writer.add_head_count(4)
    writer.add_context_length(4096)
    writer.add_rope_freq_base(1e6)
    writer.add_rope_dimension_count(64)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    rope = rotary.Rope.from_pretrained(path)
    assert rope.layout == rotary.HeadLayout(64, 0, "interleaved", "interleaved")
    assert rope == rotary.Model.from_gguf(path.read_bytes()).rope().make_rope()


RECIPES = [
    rotary.Plain(),
    rotary.Linear(factor=2),
    rotary.Ntk(factor=4, mixed_b=0.6),
    rotary.NtkAlpha(alpha=3),
    rotary.DynamicNtk(factor=2, original_context=64),
    rotary.Yarn(factor=4, original_context=64, mscale=1.0, mscale_all_dim=1.0,
                softmax_correction="mscale_all_dim_squared"),
    rotary.YarnPaper(factor=4, original_context=64),
    rotary.YarnWalkthrough(factor=4, original_context=64),
    rotary.LongRope(short_factor=[1.0] * 8, long_factor=np.arange(1.0, 9), original_context=64,
                    factor=4),
    rotary.Llama3(factor=8, original_context=64),
    rotary.Proportional(fraction=0.5),
    rotary.Divisors(divisor=[2.0] * 8),
    rotary.Learnable(log_gain=np.zeros(8, np.float32)),
    rotary.ReceptiveField(alpha=0.1),
    rotary.Xpos(),
]  # fmt: skip


@pytest.mark.parametrize("scaling", RECIPES, ids=lambda s: type(s).__name__)
def test_every_recipe(scaling):
    recipe = rotary.Recipe(rotary_dim=16, theta=1e4, scaling=scaling)
    short, long = rotary.make_frequencies(recipe), rotary.make_frequencies(recipe, 1000)
    assert short.values.shape == (8, 1)
    assert rotary.depends_on_context(recipe) == (short != long)
    assert hash(recipe) == hash(rotary.Recipe(rotary_dim=16, theta=1e4, scaling=scaling))
    if isinstance(scaling, rotary.Linear):
        plain = rotary.make_frequencies(rotary.Recipe(16, 1e4))
        np.testing.assert_allclose(short.values, plain.values / 2, rtol=1e-15)


@pytest.mark.parametrize(
    "axes, count",
    [
        (rotary.OneAxis(), 1),
        (rotary.Axial(axes=2), 2),
        (rotary.Axial(axes=2, order="alternating", ladder="strided", axis_order=[1, 0]), 2),
        (rotary.Mrope(sections=[4, 2, 2], order="interleaved"), 3),
        (rotary.Mixed(axes=2, frequencies=np.arange(16.0).reshape(8, 2)), 2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_axis_map(axes, count):
    f = rotary.make_frequencies(rotary.Recipe(rotary_dim=16, theta=1e4, axes=axes))
    assert f.values.shape == (8, count)
    if isinstance(axes, rotary.Mixed):
        np.testing.assert_array_equal(f.values, np.arange(16.0).reshape(8, 2))


def test_known_model_types():
    types = rotary.known_model_types()
    assert types == sorted(types)
    assert {"llama", "qwen2", "roformer"} <= set(types)
