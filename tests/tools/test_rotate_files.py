# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""rotary rotate and its files: OUT is complete or as it was."""

import fcntl
import os
import signal
import subprocess
import time

import numpy as np
import pytest
from command import COMMAND, fail, inspect, leftovers, llama, succeed, write_config
from oracle import rotate, values
from safetensors.numpy import load_file, save_file


def test_safetensors_by_name(tmp_path):
    model = write_config(tmp_path, llama())
    q, k = values(6, 2, 64), values(6, 1, 64)
    path = tmp_path / "qk.safetensors"
    save_file({"q": q, "k": k}, path)
    assert '"q"' in fail(1, "rotate", model, path, tmp_path / "out.npy", "--positions", "0:6")
    fail(1, "rotate", model, path, tmp_path / "out.npy", "--positions", "0:6", "--tensor", "v")
    succeed(
        "rotate", model, path, tmp_path / "out.safetensors", "--positions", "0:6", "--tensor", "k"
    )
    out = load_file(tmp_path / "out.safetensors")
    assert sorted(out) == ["k", "q"]
    np.testing.assert_array_equal(out["q"], q)
    np.testing.assert_allclose(
        out["k"], rotate(k, inspect(model)["ropes"][0], np.arange(6)), atol=1e-6
    )


@pytest.mark.parametrize("name", ["in.safetensors", "out.safetensors"])
def test_safetensors_keeps_all_else(tmp_path, name):
    """Other tensors, of any dtype, their order, and the metadata."""
    model = write_config(tmp_path, llama())
    tensors = {
        "a": np.arange(5, dtype=np.uint8),
        "k": values(6, 1, 64),
        "z": np.ones((2, 3), np.complex64),
        "empty": np.zeros((0, 4), np.float32),
    }
    path = tmp_path / "in.safetensors"
    save_file(tensors, path, metadata={"format": "pt", "note": "kept \u00e9"})
    before = path.read_bytes()
    succeed("rotate", model, path, tmp_path / name, "--positions", "3:9", "--tensor", "k")
    after = (tmp_path / name).read_bytes()
    header = 8 + int.from_bytes(before[:8], "little")
    assert after[:header] == before[:header] and len(after) == len(before)
    out = load_file(tmp_path / name)
    for other in ["a", "z", "empty"]:
        np.testing.assert_array_equal(out[other], tensors[other])
    np.testing.assert_allclose(
        out["k"], rotate(tensors["k"], inspect(model)["ropes"][0], np.arange(3, 9)), atol=1e-6
    )
    # Twice there and back again.
    succeed(
        "rotate", model, tmp_path / name, path, "--positions", "3:9", "--tensor", "k", "--inverse"
    )
    np.testing.assert_allclose(load_file(path)["k"], tensors["k"], atol=1e-6)


def test_out_keeps_its_mode_and_its_link(tmp_path):
    model = write_config(tmp_path, llama())
    np.save(tmp_path / "in.npy", values(6, 2, 64))
    (tmp_path / "real").mkdir()
    real, link = tmp_path / "real" / "out.npy", tmp_path / "link.npy"
    link.symlink_to("real/out.npy")  # dangling at first
    for mode in [0o600, 0o644]:
        succeed("rotate", model, tmp_path / "in.npy", link, "--positions", "0:6")
        assert link.is_symlink() and not real.is_symlink()
        real.chmod(mode)
        succeed("rotate", model, tmp_path / "in.npy", link, "--positions", "0:6")
        assert real.stat().st_mode & 0o7777 == mode
    assert leftovers(tmp_path) == leftovers(tmp_path / "real") == []


def test_out_must_be_a_regular_file(tmp_path):
    model = write_config(tmp_path, llama())
    np.save(tmp_path / "in.npy", values(6, 2, 64))
    os.mkfifo(tmp_path / "fifo.npy")
    (tmp_path / "null.npy").symlink_to("/dev/null")
    (tmp_path / "loop.npy").symlink_to("loop.npy")
    for name in ["fifo.npy", "null.npy", "loop.npy"]:
        fail(1, "rotate", model, tmp_path / "in.npy", tmp_path / name, "--positions", "0:6")
    assert (tmp_path / "fifo.npy").is_fifo()
    fail(1, "rotate", model, tmp_path / "fifo.npy", tmp_path / "out.npy", "--positions", "0:6")
    assert leftovers(tmp_path) == []


def test_out_may_be_in(tmp_path):
    model = write_config(tmp_path, llama())
    x = values(6, 2, 64)
    path = tmp_path / "x.npy"
    np.save(path, x)
    succeed("rotate", model, path, path, "--positions", "0:6")
    np.testing.assert_allclose(
        np.load(path), rotate(x, inspect(model)["ropes"][0], np.arange(6)), atol=1e-6
    )
    assert leftovers(tmp_path) == []


def bad_inputs():
    x = values(6, 2, 64)
    yield "too few positions", x, ["--positions", "0:5"]
    yield "too many positions", x, ["--positions", "0:7"]
    yield "wrong width", values(6, 2, 32), ["--positions", "0:6"]
    yield "one dimension", values(64), ["--positions", "0:6"]
    yield "five dimensions", values(1, 1, 6, 2, 64), ["--positions", "0:6"]
    yield "integers", np.ones((6, 2, 64), np.int64), ["--positions", "0:6"]
    yield "missing positions", x, ["--positions", "no_such_file.npy"]
    yield "unknown rope", x, ["--positions", "0:6", "--rope", "vision"]


@pytest.mark.parametrize("x, options", [pytest.param(x, o, id=name) for name, x, o in bad_inputs()])
def test_failure_leaves_out_untouched(tmp_path, x, options):
    model = write_config(tmp_path, llama())
    np.save(tmp_path / "in.npy", x)
    out = tmp_path / "out.npy"
    out.write_bytes(b"precious")
    fail(1, "rotate", model, tmp_path / "in.npy", out, *options)
    assert out.read_bytes() == b"precious" and leftovers(tmp_path) == []


@pytest.mark.parametrize(
    "positions",
    [
        np.zeros((2, 6), np.int64),
        np.zeros((1, 1, 1, 6), np.int64),
        np.zeros(5, np.int64),
        np.array([0, 1, 2, 3, 4, np.nan]),
        np.array([0, 1, 2, 3, 4, np.inf]),
        np.zeros(6, np.float16),
        np.zeros((), np.int64),
    ],
    ids=["2 axes", "rank 4", "short", "nan", "inf", "float16", "scalar"],
)
def test_bad_position_files(tmp_path, positions):
    model = write_config(tmp_path, llama())
    np.save(tmp_path / "in.npy", values(6, 2, 64))
    np.save(tmp_path / "p.npy", positions)
    fail(
        1,
        "rotate",
        model,
        tmp_path / "in.npy",
        tmp_path / "out.npy",
        "--positions",
        tmp_path / "p.npy",
    )
    assert not (tmp_path / "out.npy").exists() and leftovers(tmp_path) == []


def test_bad_places(tmp_path):
    model = write_config(tmp_path, llama())
    np.save(tmp_path / "in.npy", values(6, 2, 64))
    folder = tmp_path / "folder.npy"
    folder.mkdir()
    arguments = ["--positions", "0:6"]
    fail(1, "rotate", model, tmp_path / "no_such_file.npy", tmp_path / "out.npy", *arguments)
    fail(
        1, "rotate", model, tmp_path / "in.npy", tmp_path / "no_such_folder" / "out.npy", *arguments
    )
    fail(1, "rotate", model, tmp_path / "in.npy", folder, *arguments)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "in.npy").read_bytes()[:-1])
    fail(1, "rotate", model, tmp_path / "cut.npy", tmp_path / "out.npy", *arguments)
    assert leftovers(tmp_path) == []


def test_leftovers_of_killed_processes_are_removed(tmp_path):
    model = write_config(tmp_path, llama())
    np.save(tmp_path / "in.npy", values(6, 2, 64))
    other = tmp_path / "other"
    other.mkdir()
    (other / "precious").write_text("kept")
    stale, fresh, used = (tmp_path / f".rotary-{name}" for name in ["aaaaaa", "bbbbbb", "cccccc"])
    for folder in [stale, fresh, used]:
        folder.mkdir()
        (folder / "out.npy").write_bytes(b"part")
    for folder in [stale, used]:
        os.utime(folder, (0, 0))
    link = tmp_path / ".rotary-dddddd"
    link.symlink_to(other)
    lock = os.open(used, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    succeed("rotate", model, tmp_path / "in.npy", tmp_path / "out.npy", "--positions", "0:6")
    os.close(lock)
    assert not stale.exists() and fresh.exists() and used.exists()
    assert link.is_symlink() and (other / "precious").read_text() == "kept"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruption_leaves_nothing(tmp_path, number):
    model = write_config(tmp_path, llama())
    np.save(tmp_path / "in.npy", np.zeros((200_000, 4, 64), np.float32))
    before = sorted(os.listdir(tmp_path))
    with subprocess.Popen(
        [
            COMMAND,
            "rotate",
            model,
            tmp_path / "in.npy",
            tmp_path / "out.npy",
            "--positions",
            "0:200000",
        ],
        stderr=subprocess.PIPE,
    ) as process:
        # Once its folder is there the work has begun.
        while process.poll() is None and not leftovers(tmp_path):
            time.sleep(0.001)
        process.send_signal(number)
        assert process.wait(timeout=20) == -number
    assert sorted(os.listdir(tmp_path)) == before
