# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""roformer pretrain: whole runs, options, and two processes."""

import json
import os
import socket
import struct
import subprocess

import pytest
import torch
import transformers
from pretrain_command import STILL, flags, metrics, pretrain, start, weights


def test_pretraining_run(corpus, tmp_path):
    run = tmp_path / "run"
    out = pretrain(run, *flags(corpus, 40), "--validation", corpus, "--gradients-every", 20)
    assert "going on" not in out
    assert "step 40/40  loss " in out
    losses = metrics(run)
    assert list(losses) == list(range(1, 41))
    assert losses[40] < losses[1] - 1
    assert 0 < metrics(run, "evaluation")[40]["accuracy"] <= 1
    layers = ["embeddings", "layer.0", "layer.1", "head"]
    assert list(metrics(run, "gradients")) == [20, 40]
    assert list(metrics(run, "gradients")[40]) == layers
    assert sorted(path.name for path in (run / "checkpoints").iterdir()) == [
        "step-00000036",
        "step-00000040",
    ]
    kept = json.loads((run / "config.json").read_text())
    assert kept["corpus"] == [str(corpus)]
    assert kept["stages"] == [{"length": 32, "batch": 4, "steps": 40}]
    loaded, report = transformers.RoFormerForMaskedLM.from_pretrained(
        run / "model", output_loading_info=True
    )
    assert not report["missing_keys"]
    assert loaded.config.vocab_size == 261
    done = subprocess.run(
        [
            os.environ["ROFORMER_COMMAND"],
            "fill-mask",
            run / "model",
            "--tokenizer",
            "byte",
            "th[MASK]",
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout


def test_checkpointing_and_bfloat16_give_the_same_losses(corpus, tmp_path):
    pretrain(tmp_path / "plain", *flags(corpus, 6))
    pretrain(tmp_path / "again", *flags(corpus, 6), "--checkpointing", "on")
    assert metrics(tmp_path / "again") == metrics(tmp_path / "plain")
    pretrain(tmp_path / "exact", *flags(corpus, 6, model=STILL))
    pretrain(tmp_path / "short", *flags(corpus, 6, model=STILL), "--precision", "bfloat16")
    assert metrics(tmp_path / "short") == pytest.approx(metrics(tmp_path / "exact"), rel=0.02)
    assert metrics(tmp_path / "short") != metrics(tmp_path / "exact")


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def read_events(path):
    """An independent reader of TensorBoard's files: [(step, {tag: value})]."""

    def fields(data):
        at = 0

        def varint():
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value

        while at < len(data):
            tag = varint()
            kind = tag & 7
            size = {1: 8, 5: 4}.get(kind)
            if kind == 0:
                yield tag >> 3, varint()
                continue
            if kind == 2:
                size = varint()
            yield tag >> 3, data[at : at + size]
            at += size

    data, at, events = path.read_bytes(), 0, []
    while at < len(data):
        length, checksum = struct.unpack_from("<QI", data, at)
        assert checksum == masked_crc32c(data[at : at + 8])
        (checksum,) = struct.unpack_from("<I", data, at + 12 + length)
        assert checksum == masked_crc32c(data[at + 12 : at + 12 + length])
        event = dict(fields(data[at + 12 : at + 12 + length]))
        scalars = {}
        for _, value in fields(event.get(5, b"")):
            parts = dict(fields(value))
            scalars[parts[1].decode()] = struct.unpack("<f", parts[2])[0]
        events.append((event[2], event.get(3), scalars))
        at += 16 + length
    return events


def test_event_files_hold_the_same_metrics(corpus, tmp_path):
    run = tmp_path / "run"
    pretrain(run, *flags(corpus.parent, 3))
    (path,) = run.glob("events.out.tfevents.*")
    version, begin, *events = read_events(path)
    assert version[1] == b"brain.Event:2"
    assert begin[0] == 1
    assert {step: scalars["loss"] for step, _, scalars in events} == pytest.approx(metrics(run))


def test_two_processes_match_one(corpus, tmp_path):
    arguments = flags(corpus, 6, model=STILL)
    pretrain(tmp_path / "one", *arguments)
    for shard in ("off", "on"):
        run = tmp_path / shard
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        ranks = [
            start(
                run,
                *arguments,
                *("--shard-optimizer", shard, "--micro-batch", 1),
                environment={
                    "RANK": str(rank),
                    "WORLD_SIZE": "2",
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                },
            )
            for rank in range(2)
        ]
        for process in ranks:
            out, error = process.communicate(timeout=60)
            assert process.returncode == 0, out + error
        assert metrics(run) == pytest.approx(metrics(tmp_path / "one"), rel=1e-5)
        for name, tensor in weights(tmp_path / "one").items():
            torch.testing.assert_close(weights(run)[name], tensor, rtol=0, atol=2e-4)
    assert pretrain(tmp_path / "off", "--resume")  # one process resumes a run of two


@pytest.mark.parametrize(
    ("more", "message", "code"),
    [
        (["--tokenizer", "bert"], "there is no vocabulary: name one with vocab", 1),
        (["--tokenizer", "bert", "--vocab", "no.txt"], "no.txt: ", 1),
        (["--corpus", "no.txt"], "no.txt: No such file or directory", 1),
        (["--config", "no.json"], "no.json: cannot open: No such file or directory", 1),
        (["--stages", "32x4"], '--stages must be "LENGTHxROWSxSTEPS, ..."', 2),
        (["--micro-batch", "3"], "a batch of 4 rows is not a multiple of 1 processes", 1),
        (["--model", "huge"], "model must be base, small, tiny, a config.json", 1),
    ],
)
def test_rejects_wrong_options(corpus, tmp_path, more, message, code):
    assert message in pretrain(tmp_path / "run", *flags(corpus, 2), *more, code=code)


def test_rejects_unknown_key(corpus, tmp_path):
    config = tmp_path / "config.json"
    config.write_text('{"learning_rat": 1}')
    error = pretrain(tmp_path / "run", "--config", config, code=1)
    assert 'config.json: there is no key "learning_rat"; did you mean "learning_rate"?' in error


def test_rejects_existing_run(corpus, tmp_path):
    pretrain(tmp_path / "run", *flags(corpus, 1))
    error = pretrain(tmp_path / "run", *flags(corpus, 1), code=2)
    assert "holds a run already: resume it (--resume), or choose another folder" in error


def test_run_without_checkpoint_starts_again(corpus, tmp_path):
    """With other texts: the cache of the first attempt is not reused."""
    run = tmp_path / "run"
    error = pretrain(run, *flags(corpus, 3), "--validation", "no.txt", code=1)
    assert "no.txt: No such file or directory" in error
    before = (run / "corpus.tokens").stat().st_size
    other = tmp_path / "other.txt"
    other.write_text(corpus.read_text()[:6000])
    pretrain(run, *flags(other, 3))
    assert (run / "corpus.tokens").stat().st_size < before
    assert list(metrics(run)) == [1, 2, 3]


def test_non_finite_loss(corpus, tmp_path):
    error = pretrain(
        tmp_path / "run",
        *flags(corpus, 20),
        *("--learning-rate", "1e38", "--warmup-steps", 0, "--clip-norm", 0, "--save-every", 1),
        code=1,
    )
    assert "not a finite number: " in error
