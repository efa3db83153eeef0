# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Recipes as JSON text."""

import json

import pytest

import rotary

RECIPES = [
    rotary.Recipe(rotary_dim=64, theta=1e6, scaling=rotary.Yarn(factor=4, original_context=4096)),
    rotary.Recipe(rotary_dim=8, theta=100.0, axes=rotary.Mrope(sections=(2, 1, 1))),
    rotary.Recipe(rotary_dim=4, theta=1.0, axes=rotary.Mixed(axes=2, frequencies=(1, 2, 3, 4))),
    rotary.Recipe(rotary_dim=64, theta=1e4, direction="backward", wavelengths="whole", gain=0.3),
    rotary.Recipe(
        rotary_dim=64,
        theta=1e4,
        scaling=rotary.YarnWalkthrough(factor=4, original_context=64, ramp="prose"),
    ),
]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: type(recipe.scaling).__name__)
def test_round_trip(recipe):
    text = recipe.to_json()
    again = rotary.Recipe.from_json(text)
    assert again.to_json() == text
    for context in (0, 100000):
        made = rotary.make_frequencies(again, context)
        assert made == rotary.make_frequencies(recipe, context)
    assert json.loads(text)["rotary_dim"] == recipe.rotary_dim


def test_rejects():
    with pytest.raises(ValueError, match="unknown type"):
        rotary.Recipe.from_json('{"type": "yarm"}')
    with pytest.raises(rotary.IoError):
        rotary.Recipe.from_json("{")
