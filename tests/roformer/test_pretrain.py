# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""roformer pretrain: whole runs, killed, interrupted, out of disk, and with two processes."""

import json
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import time

import pytest
import torch
import transformers
from safetensors.torch import load_file

MODEL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
    "initializer_range": 0.1,
}
# Long enough that a kill finds them at work.
STAGES = "32x4x9,48x2x91"
STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    text = "the rotation of a pair by an angle keeps its length and adds to others"
    words = text.split()
    lines = [" ".join(words[(i * j) % 14] for j in range(1, 30)) for i in range(1, 120)]
    path = tmp_path_factory.mktemp("texts") / "corpus.txt"
    path.write_text("\n\n".join(lines))
    return path


def flags(corpus, steps=12, model=None, **others):
    given = {
        "corpus": corpus,
        "tokenizer": "byte",
        "device": "cpu",
        "model": json.dumps(MODEL | (model or {})),
        "stages": f"32x4x{steps}",
        "learning-rate": 0.01,
        "warmup-steps": 2,
        "report-every": 1,
        "save-every": 4,
        "threads": 1,
    }
    given |= {name.replace("_", "-"): value for name, value in others.items()}
    return [text for name, value in given.items() for text in (f"--{name}", str(value))]


def start(run, *arguments, environment=None, **options):
    return subprocess.Popen(
        [os.environ["ROFORMER_COMMAND"], "pretrain", str(run), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | (environment or {}),
        **options,
    )


def pretrain(run, *arguments, code=0, **options):
    """Output of the command; its one-line error if it fails."""
    process = start(run, *arguments, **options)
    out, error = process.communicate()
    assert process.returncode == code, out + error
    if code == 0:
        assert error == ""
        return out
    assert error.startswith("roformer: ")
    assert error.count("\n") == 1
    return error


def metrics(run, name="loss"):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {line["step"]: line[name] for line in lines if name in line}


def weights(run):
    return load_file(run / "model/model.safetensors")


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


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


def wait_for_step(run, step):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        path = run / "metrics.jsonl"
        if path.exists() and f'"step":{step},' in path.read_text():
            return
        time.sleep(0.005)
    raise TimeoutError


def kill(process):
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL


@pytest.fixture(scope="module")
def whole(corpus, tmp_path_factory):
    """An uninterrupted run with two lengths and dropout."""
    run = tmp_path_factory.mktemp("runs") / "whole"
    pretrain(run, *flags(corpus), "--stages", STAGES)
    return run


def test_killed_run_resumes_bit_for_bit(corpus, tmp_path, whole):
    run = tmp_path / "run"
    for step in (6, 11):
        process = start(run, *flags(corpus), "--stages", STAGES, "--resume")
        wait_for_step(run, step)
        kill(process)
    out = pretrain(run, "--resume")
    assert "resuming after step " in out
    assert metrics(run) == metrics(whole)
    assert same(weights(run), weights(whole))


def test_one_process_at_a_time(corpus, tmp_path):
    run = tmp_path / "run"
    process = start(run, *flags(corpus), "--stages", STAGES)
    wait_for_step(run, 1)
    process.send_signal(signal.SIGSTOP)
    error = pretrain(run, *flags(corpus), "--resume", code=1)
    assert f"{run}: another process trains in this folder: wait for it, or choose" in error
    kill(process)
    pretrain(run, *flags(corpus, 2), "--resume")  # a lock does not outlive its process


def test_ctrl_c_saves_and_prints_how_to_resume(corpus, tmp_path, whole):
    run = tmp_path / "run"
    process = start(run, *flags(corpus), "--stages", STAGES, "--save-every", 0)
    wait_for_step(run, 3)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate()
    assert process.returncode == 0, out + error
    assert f"to resume: roformer pretrain {run} --resume" in out
    pretrain(run, "--resume")
    assert metrics(run) == metrics(whole)
    assert same(weights(run), weights(whole))


def test_full_disk_keeps_the_last_checkpoint(corpus, tmp_path, whole):
    run = tmp_path / "run"
    arguments = [*flags(corpus), "--stages", STAGES]
    process = start(run, *arguments)
    wait_for_step(run, 5)
    kill(process)

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    error = pretrain(run, "--resume", code=1, preexec_fn=limit, restore_signals=False)
    assert "safetensors: cannot write: File too large; " in error
    assert f"step-00000004 is complete: roformer pretrain {run} --resume" in error
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-00000004"]
    pretrain(run, "--resume")
    assert same(weights(run), weights(whole))


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
        (["--config", "no.json"], "no.json: cannot be read", 1),
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


def test_damaged_corpus_keeps_the_last_checkpoint(corpus, tmp_path):
    run = tmp_path / "run"
    pretrain(run, *flags(corpus, 4))
    path = run / "corpus.tokens"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    error = pretrain(run, "--resume", "--stages", "32x4x8", code=1)
    assert "corpus.tokens: " in error
    assert f"step-00000004 is complete: roformer pretrain {run} --resume" in error


def test_damaged_checkpoint_is_named(corpus, tmp_path, whole):
    run = tmp_path / "run"
    process = start(run, *flags(corpus), "--stages", STAGES)
    wait_for_step(run, 10)
    kill(process)
    *_, before, last = sorted((run / "checkpoints").iterdir())
    path = last / "optimizer.safetensors"
    path.write_bytes(path.read_bytes()[:3000])
    error = pretrain(run, "--resume", code=1)
    assert f"remove {last} to resume from {before.name}: roformer pretrain {run} --resume" in error
    shutil.rmtree(last)
    pretrain(run, "--resume")
    assert same(weights(run), weights(whole))


def test_non_finite_loss(corpus, tmp_path):
    error = pretrain(
        tmp_path / "run",
        *flags(corpus, 20),
        *("--learning-rate", "1e38", "--warmup-steps", 0, "--clip-norm", 0, "--save-every", 1),
        code=1,
    )
    assert "not a finite number: " in error
