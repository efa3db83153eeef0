# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary inspect: JSON and text."""

import math
import os
import pty
import re
import subprocess

import gguf
import pytest
from command import COMMAND, EXAMPLES, fail, inspect, llama, phi3, run, succeed, write_config

KEYS = [
    "name",
    "head_dim",
    "rotary_dim",
    "rotary_offset",
    "pairing",
    "output_pairing",
    "axes",
    "frequencies",
    "scale",
    "softmax_scale",
    "recipe",
    "context",
    "assumed",
    "warnings",
]
EXAMPLE_FILES = sorted(EXAMPLES.glob("*.json"))


# ---- JSON --------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", EXAMPLE_FILES, ids=lambda path: path.stem)
def test_json_has_the_documented_keys_in_their_order(path):
    model = inspect(path)
    assert list(model) == ["model_type", "ropes"]
    for rope in model["ropes"]:
        assert list(rope)[: len(KEYS)] == KEYS
        assert len(rope["frequencies"]) == rope["rotary_dim"] // 2
        assert all(len(row) == len(rope["axes"]) for row in rope["frequencies"])
        assert rope["pairing"] in ("half", "interleaved")
        assert rope["output_pairing"] in ("half", "interleaved")
        assert list(rope["context"]) == ["trained", "extended"]
        assert rope["recipe"]["type"] and rope["recipe"]["theta"] == rope["theta"]
        assert all(isinstance(line, str) for line in rope["assumed"] + rope["warnings"])


def test_numbers_round_trip(tmp_path):
    theta = 12345.678901234567
    rope = inspect(write_config(tmp_path, llama(rope_theta=theta)))["ropes"][0]
    assert rope["recipe"]["theta"] == theta
    for i, (frequency,) in enumerate(rope["frequencies"]):
        assert math.isclose(frequency, theta ** (-2 * i / 64), rel_tol=1e-15)


def test_recipe_has_every_parameter():
    (rope,) = inspect(EXAMPLES / "deepseek-v3.json")["ropes"]
    recipe = rope["recipe"]
    assert (
        recipe["type"] == "yarn" and recipe["factor"] == 40 and recipe["original_context"] == 4096
    )
    assert (
        recipe["mscale"] == 1 and recipe["attention_factor"] is None and recipe["truncate"] is True
    )
    assert rope["pairing"] == "interleaved" and rope["output_pairing"] == "half"
    assert rope["softmax_scale"] == pytest.approx((0.1 * math.log(40) + 1) ** 2)
    assert rope["context"] == {"trained": 4096, "extended": 163840}


def test_several_axes():
    (rope,) = inspect(EXAMPLES / "qwen3-vl-text.json")["ropes"]
    assert rope["axes"] == ["t", "h", "w"]
    assert rope["axis_map"] == {"type": "mrope", "sections": [24, 20, 20], "order": "interleaved"}
    assert all(sum(f != 0 for f in row) == 1 for row in rope["frequencies"])


def test_composite_model_names_its_parts():
    model = inspect(EXAMPLES / "gemma-3-4b.json")
    names = [rope["name"] for rope in model["ropes"]]
    assert sorted(names) == ["text.full_attention", "text.sliding_attention"]
    assert [
        r["name"] for r in inspect(EXAMPLES / "gemma-3-4b.json", "--rope", names[1])["ropes"]
    ] == names[1:2]


def test_unknown_context_is_null(tmp_path):
    config = llama()
    del config["max_position_embeddings"]
    config["model_type"] = "a_model_that_nobody_knows"
    (rope,) = inspect(write_config(tmp_path, config))["ropes"]
    assert rope["context"]["trained"] is None
    assert rope["assumed"]


def test_context_chooses_the_regime(tmp_path):
    path = write_config(tmp_path, phi3())
    short = inspect(path)["ropes"][0]
    at = inspect(path, "--context", 4096)["ropes"][0]
    beyond = inspect(path, "--context", 4097)["ropes"][0]
    assert short["context_in_use"] is None and beyond["context_in_use"] == 4097
    assert short["frequencies"] == at["frequencies"]
    for i, ((low,), (high,)) in enumerate(
        zip(at["frequencies"], beyond["frequencies"], strict=True)
    ):
        assert low / high == pytest.approx((2.0 + i) / (1.0 + i / 100))


def test_folder_is_a_model(tmp_path):
    write_config(tmp_path, llama())
    assert inspect(tmp_path) == inspect(tmp_path / "config.json")


def test_gguf_is_the_model_it_was_made_from(tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_context_length(4096)
    writer.add_embedding_length(256)
    writer.add_head_count(4)
    writer.add_rope_dimension_count(64)
    writer.add_rope_freq_base(10000.0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (rope,) = inspect(tmp_path / "model.gguf")["ropes"]
    (same,) = inspect(write_config(tmp_path, llama()))["ropes"]
    assert rope["frequencies"] == same["frequencies"] and rope["head_dim"] == same["head_dim"]
    # llama.cpp permutes Llama's weights to interleaved pairs.
    assert rope["pairing"] == "interleaved" and same["pairing"] == "half"


# ---- Text --------------------------------------------------------------------------------------


def test_page_explains():
    page = succeed("inspect", EXAMPLES / "llama-3.1-8b.json")
    for words in (
        "llama3",
        "500000",
        "half",
        "pair i is elements i and i+64",
        "factor 8",
        "original_context 8192",
        "8192",
        "131072",
        "one position per token",
        "trained context",
        "█",
        "▒ added by scaling",
        "6.28 positions",
    ):
        assert words in page, words
    flat = " ".join(page.split())
    assert (
        "Pairs 32-63 (32 of 64) do not complete a turn within the trained context of 8192" in flat
    )
    assert "(without scaling: 35-63)" in flat


def pairs_without_a_full_turn(rope):
    limit = rope["context"]["trained"]
    return [
        i
        for i, row in enumerate(rope["frequencies"])
        if any(row) and 2 * math.pi / math.hypot(*row) > limit
    ]


@pytest.mark.parametrize("path", EXAMPLE_FILES, ids=lambda path: path.stem)
def test_page_fits_and_agrees_with_json(path):
    page = succeed("inspect", path)
    assert "\x1b" not in page
    assert max(map(len, page.splitlines()[1:])) <= 80  # the first names the file
    assert not any(line != line.rstrip() for line in page.splitlines())
    flat = " ".join(page.split())
    for rope in inspect(path)["ropes"]:
        assert f"Rope {rope['name']}" in page
        pairs = pairs_without_a_full_turn(rope)
        if pairs:
            assert (
                f"Pairs {pairs[0]}-{pairs[-1]} ({len(pairs)} of {len(rope['frequencies'])}) do "
                "not complete a turn" in flat
            )


@pytest.mark.parametrize("columns", [40, 60, 100, 200])
def test_page_follows_the_width(columns):
    page = succeed("inspect", EXAMPLES / "deepseek-v3.json", COLUMNS=str(columns))
    assert max(map(len, page.splitlines()[1:])) <= min(max(columns, 60), 100)


def test_page_is_ascii_without_utf8():
    page = succeed("inspect", EXAMPLES / "llama-3.1-8b.json", LC_ALL="C")
    assert page.isascii()
    assert "####" in page and "+ added by scaling" in page


def test_page_names_pairs_that_are_not_rotated(tmp_path):
    proportional = {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25}
    config = llama(rope_parameters=proportional)
    page = " ".join(succeed("inspect", write_config(tmp_path, config)).split())
    assert "as 32 pairs, 8 of them rotated" in page
    assert "Pairs 8-31 (24 of 32) are not rotated and carry no position." in page


def test_page_of_several_ropes_compares_them():
    page = succeed("inspect", EXAMPLES / "gemma-3-4b.json")
    assert "2 ropes" in page
    assert re.search(r"^  text\.full_attention +linear +1000000 +256/256", page, re.M)
    assert re.search(r"^  text\.sliding_attention +default +10000 +256/256", page, re.M)


def test_page_of_several_axes_and_slices(tmp_path):
    page = succeed("inspect", EXAMPLES / "qwen3-vl-text.json")
    assert "t 24, h 20, w 20" in page and "axis  thwthw" in page
    page = succeed(
        "inspect",
        write_config(
            tmp_path,
            {
                "model_type": "gpt_neox",
                "hidden_size": 768,
                "num_attention_heads": 8,
                "rotary_pct": 0.25,
                "rotary_emb_base": 10000,
                "max_position_embeddings": 2048,
            },
        ),
    )
    assert (
        "the first elements 0-23 are rotated, as 12 pairs; the other 72 pass through"
        in " ".join(page.split())
    )


def test_page_shows_the_regime(tmp_path):
    path = write_config(tmp_path, phi3())
    assert "up to 4096" in succeed("inspect", path)
    page = " ".join(succeed("inspect", path, "--context", 8192).split())
    assert "beyond 4096" in page and "the long_factor list" in page


def test_page_lists_assumptions_and_ignored_keys(tmp_path):
    config = llama(rope_scaling={"rope_type": "linear", "factor": 2.0, "factr": 3})
    del config["rope_theta"]
    page = succeed("inspect", write_config(tmp_path, config))
    assert re.search(r"^  assumed: .*theta", page, re.M)
    assert re.search(r"^  warning: .*factr", page, re.M)


def test_control_characters_of_a_file_are_escaped(tmp_path):
    path = write_config(tmp_path, llama(model_type="evil\x1b[31m\u009b2J\n"))
    page = succeed("inspect", path)
    assert "\x1b" not in page and "\u009b" not in page and "evil\\x1b[31m" in page
    assert inspect(path)["model_type"] == "evil\x1b[31m\u009b2J\n"


def in_terminal(**environment):
    """stdout of a run on a pseudo-terminal."""
    parent, child = pty.openpty()
    env = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color", **environment}
    if "NO_COLOR" not in environment:
        env.pop("NO_COLOR", None)
    with subprocess.Popen(
        [COMMAND, "inspect", str(EXAMPLES / "llama-3.1-8b.json")], stdout=child, env=env
    ) as process:
        os.close(child)
        output = b""
        try:
            while chunk := os.read(parent, 65536):
                output += chunk
        except OSError:  # EIO on Linux: the other side is closed
            pass
    os.close(parent)
    assert process.returncode == 0
    return output.decode()


def test_colours_need_a_terminal_without_no_color():
    coloured = in_terminal()
    assert "\x1b[" in coloured
    plain = in_terminal(NO_COLOR="1")
    assert "\x1b" not in plain and "\x1b" not in in_terminal(TERM="dumb")
    assert re.sub(r"\x1b\[\d*m", "", coloured).split() == plain.split()


def test_full_disk_is_an_error():
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [COMMAND, "inspect", str(EXAMPLES / "llama-3.1-8b.json")],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1 and "cannot write the output" in done.stderr


# ---- Errors ------------------------------------------------------------------------------------


def test_bad_models_are_one_line(tmp_path):
    assert "no_such_file" in fail(1, "inspect", tmp_path / "no_such_file.json")
    (tmp_path / "broken.json").write_text('{"model_type": "llama",')
    fail(1, "inspect", tmp_path / "broken.json")
    (tmp_path / "broken.gguf").write_bytes(b"GGUF\x03\x00\x00")
    fail(1, "inspect", tmp_path / "broken.gguf")
    empty = tmp_path / "folder"
    empty.mkdir()
    fail(1, "inspect", empty)
    fail(1, "inspect", write_config(tmp_path, llama(rope_scaling={"rope_type": "no\nsuch"})))
    fail(1, "inspect", write_config(tmp_path, llama(head_dim=7)))
    fail(1, "inspect", write_config(tmp_path, llama()), "--rope", "no_such_rope")


def test_models_lists_types():
    types = succeed("models").split()
    assert {"llama", "qwen2", "gemma3_text", "deepseek_v3"} <= set(types)
    assert run("models").stderr == ""
