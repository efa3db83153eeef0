# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Every measured row of tests/golden through the command: frequencies, scale, rotated query."""

import json

import numpy as np
import pytest
from command import GOLDEN, inspect, succeed, write_config

TOKENS, HEADS = 8, 2


def load(name):
    return json.loads((GOLDEN / f"{name}.json").read_text())


def query(head_dim, tokens=TOKENS):
    i = np.arange(tokens * HEADS * head_dim)
    return (
        (((i * 7919 + 13) % 2003) / 1001.5 - 1).astype(np.float32).reshape(tokens, HEADS, head_dim)
    )


def measured_modules():
    for name in ("families", "legacy"):
        data = load(name)
        for row in data["rows"]:
            for module in row.get("modules", [row]):
                axes = {"t": "T", "thw": "THW"}.get(module["positions"], "HW")
                label = "-".join(
                    filter(
                        None,
                        [
                            row.get("name"),
                            row.get("family"),
                            module.get("module"),
                            module["layer_type"],
                        ],
                    )
                )
                yield pytest.param(row["config"], module, [data[axis] for axis in axes], id=label)


def choose(ropes, layer_type, axes):
    """The rope of a measured module: by layer type, else by the number of its axes."""
    if layer_type is not None:
        ropes = [r for r in ropes if r["name"].split(".")[-1] == layer_type]
    fitting = [r for r in ropes if len(r["axes"]) == axes]
    assert fitting, [(r["name"], r["axes"]) for r in ropes]
    return fitting[0]


def expect_frequencies(rope, measured):
    """As sorted lists, once an axis; which pair has which shows in the rotated query."""
    ours = np.sort(np.abs(np.array(rope["frequencies"])).sum(axis=1))
    times, rest = divmod(len(ours), len(measured))
    assert rest == 0
    np.testing.assert_allclose(ours, np.sort(np.tile(np.abs(measured), times)), rtol=1e-6)


@pytest.mark.parametrize("config, module, positions", list(measured_modules()))
def test_module(tmp_path, config, module, positions):
    path = write_config(tmp_path, config)
    if "family" in module:  # in the version that was measured; the command reads its own JSON
        in_version = succeed("inspect", path, "--dialect", "hf@5.17", "--json")
        path = write_config(tmp_path, json.loads(in_version), "in_version.json")
    rope = choose(
        inspect(path, "--context", np.max(positions) + 1)["ropes"],
        module["layer_type"],
        len(positions),
    )
    expect_frequencies(rope, module["inv_freq"])
    assert rope["scale"] == pytest.approx(module["attention_scaling"], rel=1e-6)

    np.save(tmp_path / "q.npy", query(module["head_dim"]))
    np.save(tmp_path / "p.npy", np.array(positions if len(positions) > 1 else positions[0]))
    succeed(
        "rotate",
        path,
        tmp_path / "q.npy",
        tmp_path / "out.npy",
        "--positions",
        tmp_path / "p.npy",
        "--rope",
        rope["name"],
    )
    out = np.load(tmp_path / "out.npy")
    wanted = np.array(module["q_out"]).reshape(out.shape)
    limit = 5e-6 + 2.5e-7 * np.max(positions, axis=0)[:, None, None]
    assert (np.abs(out - wanted) <= limit).all(), np.abs(out - wanted).max(axis=(1, 2))


@pytest.mark.parametrize("row", [pytest.param(r, id=r["name"]) for r in load("scaling")["rows"]])
def test_scaling(tmp_path, row):
    # These rows were measured with Llama's rotary module.
    path = write_config(tmp_path, {"model_type": "llama", **row["config"]})
    positions = row.get("positions")
    context = ["--context", max(positions) + 1] if positions else []
    (rope,) = inspect(path, *context)["ropes"]
    expect_frequencies(rope, row["inv_freq"])
    assert rope["scale"] == pytest.approx(row["attention_scaling"], rel=1e-6)
    if not positions:
        return
    q = query(rope["head_dim"], len(positions))
    np.save(tmp_path / "q.npy", q)
    np.save(tmp_path / "p.npy", np.array(positions))
    succeed(
        "rotate", path, tmp_path / "q.npy", tmp_path / "out.npy", "--positions", tmp_path / "p.npy"
    )
    half = rope["head_dim"] // 2
    rotated_half = np.concatenate([-q[..., half:], q[..., :half]], axis=-1)
    cos, sin = (np.array(row[key])[:, None, :] for key in ("cos", "sin"))
    limit = 5e-6 + 2.5e-7 * np.array(positions)[:, None, None]
    assert (np.abs(np.load(tmp_path / "out.npy") - (q * cos + rotated_half * sin)) <= limit).all()
