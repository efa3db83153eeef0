# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""roformer pretrain: runs that end early, by signals, errors and damage, and are resumed."""

import json
import os
import resource
import shutil
import signal

import pytest
from pretrain_command import (
    STAGES,
    flags,
    kill,
    metrics,
    pretrain,
    same,
    start,
    wait_for_step,
    weights,
)


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


def test_damaged_corpus_keeps_the_last_checkpoint(corpus, tmp_path):
    run = tmp_path / "run"
    pretrain(run, *flags(corpus, 4), "--schedule", "constant")
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


def contents(folder):
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def once(corpus, tmp_path_factory):
    """A complete run of 8 steps with checkpoints at steps 4 and 8."""
    run = tmp_path_factory.mktemp("runs") / "once"
    pretrain(run, *flags(corpus, 8))
    return run


@pytest.fixture
def stopped(once, tmp_path):
    """The same run as if it had been killed after step 4: a copy, which a test may change."""
    run = tmp_path / "run"
    shutil.copytree(once, run)
    shutil.rmtree(run / "checkpoints/step-00000008")
    shutil.rmtree(run / "model")
    return run


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("learning-rate", 0.02),
        ("model", "tiny"),
        ("corpus", "other.txt"),
        ("stages", "32x4x6"),
        ("stages", "32x4x16"),
        ("seed", 5),
        ("tokenizer", "character"),
        ("precision", "bfloat16"),
    ],
)
def test_resume_refuses_another_run_by_name(corpus, stopped, tmp_path, flag, value):
    (tmp_path / "other.txt").write_text(corpus.read_text()[:3000])
    if flag == "corpus":
        value = tmp_path / value
    more = ["--vocab", tmp_path / "vocab.txt"] if flag == "tokenizer" else []
    if more:
        more[1].write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdef"]))
    before = contents(stopped)
    error = pretrain(stopped, "--resume", f"--{flag}", value, *more, code=2)
    key = flag.replace("-", "_")
    assert (
        f"{stopped} holds a run with another value of {key}: leave it as it is to resume, or"
        in error
    )
    assert contents(stopped) == before


def test_resume_may_change_what_does_not_change_the_weights(stopped, once):
    pretrain(stopped, "--resume", "--save-every", 2, "--keep", 3, "--report-every", 2)
    assert json.loads((stopped / "config.json").read_text())["save_every"] == 2
    assert same(weights(stopped), weights(once))


def test_constant_schedule_may_get_more_steps(corpus, tmp_path):
    run = tmp_path / "run"
    pretrain(run, *flags(corpus, 4), "--schedule", "constant")
    pretrain(run, "--resume", "--stages", "32x4x6,48x2x2")
    pretrain(
        tmp_path / "once", *flags(corpus), "--schedule", "constant", "--stages", "32x4x6,48x2x2"
    )
    assert same(weights(run), weights(tmp_path / "once"))


def test_replaced_token_cache_is_refused(corpus, stopped, tmp_path):
    """Also one of the same tokenizer and the same number of documents and tokens."""
    text = corpus.read_text()
    other = tmp_path / "other.txt"
    other.write_text(text.replace("angle", "ELGNA"))
    pretrain(tmp_path / "other", *flags(other, 1))
    cache = (tmp_path / "other/corpus.tokens").read_bytes()
    (stopped / "corpus.tokens").write_bytes(cache)
    before = contents(stopped)
    error = pretrain(stopped, "--resume", code=1)
    assert "the saved position belongs to other data" in error
    assert contents(stopped) == before


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "config.json"])
def test_flipped_bit_in_a_checkpoint_is_found(stopped, name):
    checkpoint = stopped / "checkpoints/step-00000004"
    data = bytearray((checkpoint / name).read_bytes())
    data[-3] ^= 1
    (checkpoint / name).write_bytes(data)
    error = pretrain(stopped, "--resume", code=1)
    assert f"{name}: is damaged: its checksum is not the one in trainer.json" in error


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("step", 5),
        ("step", -4),
        ("step", "4"),
        ("tokens", -1),
        ("seconds", -1.0),
        ("data", {}),
        ("files", {"../../config.json": "0"}),
        ("files", None),
        ("format", 1),
    ],
)
def test_impossible_state_is_refused(stopped, key, value):
    path = stopped / "checkpoints/step-00000004/trainer.json"
    state = json.loads(path.read_text()) | {key: value}
    path.write_text(json.dumps(state))
    assert "trainer.json: " in pretrain(stopped, "--resume", code=1)


def nested(depth):
    return "[" * depth + "]" * depth


def test_deeply_nested_json_is_an_error(corpus, stopped, tmp_path):
    (tmp_path / "deep.json").write_text(f'{{"model": {nested(100_000)}}}')
    error = pretrain(tmp_path / "new", "--config", tmp_path / "deep.json", code=1)
    assert "deep.json: nested deeper than 64 levels" in error
    state = stopped / "checkpoints/step-00000004/trainer.json"
    state.write_text(nested(100_000))
    assert "trainer.json: nested deeper than 64 levels" in pretrain(stopped, "--resume", code=1)


def test_hangup_saves(corpus, tmp_path, whole):
    run = tmp_path / "run"
    process = start(run, *flags(corpus), "--stages", STAGES, "--save-every", 0)
    wait_for_step(run, 3)
    process.send_signal(signal.SIGHUP)
    out, error = process.communicate()
    assert process.returncode == 0, out + error
    assert "saved in " in out
    pretrain(run, "--resume")
    assert same(weights(run), weights(whole))


@pytest.mark.parametrize("output", ["closed", "full"])
def test_run_goes_on_without_its_output(corpus, tmp_path, whole, output):
    run = tmp_path / "run"
    process = start(
        run,
        *(*flags(corpus), "--stages", STAGES),
        **({"output": os.open("/dev/full", os.O_WRONLY)} if output == "full" else {}),
    )
    if output == "closed":
        wait_for_step(run, 1)
        process.stdout.close()
    error = process.stderr.read()
    assert process.wait() == 0, error
    assert same(weights(run), weights(whole))


def test_vocabulary_may_move_during_a_run(corpus, tmp_path):
    vocab = tmp_path / "vocab.txt"
    letters = sorted(set(corpus.read_text()) - {" ", "\n"})
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters]
    vocab.write_text("\n".join(tokens) + "\n")
    run = tmp_path / "run"
    process = start(run, *flags(corpus, tokenizer="character", vocab=vocab), "--stages", "32x4x60")
    wait_for_step(run, 1)
    vocab.unlink()
    out, error = process.communicate()
    assert process.returncode == 0, out + error
    assert (run / "model/vocab.txt").read_text().split() == tokens


def test_pipe_as_corpus_is_an_error(tmp_path):
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)
    error = pretrain(tmp_path / "run", *flags(pipe, 2), code=1)
    assert "pipe.txt: is not a regular file" in error
