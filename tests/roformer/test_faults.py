# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Training under faults of the file system: killed, out of disk, without power. A resumed run ends
with the same bits as one that was never interrupted."""

import json
import os
import random
import re
from pathlib import Path

import disk
import faults
import fork_server
import pytest

COMMAND = os.environ["ROFORMER_COMMAND"]
MODEL = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 32,
    "initializer_range": 0.1,
}
TEXT = "the rotation of a pair by an angle keeps its length and adds to others"
WORDS = TEXT.split()
# Files that grow while a run goes on; nothing else is written under a name that a reader may open.
LOGS = re.compile(r"(.*/)?(lock|metrics\.jsonl|events\.out\.[^/]*)")


class Training:
    """A command that trains in `root / "run"`, and resumes if it is repeated."""

    def __init__(self, root, command, saves):
        self.root = root
        self.run = root / "run"
        self.command = command
        self.saves = saves  # the steps after which a checkpoint is written

    def at(self, root):
        """The same in another folder."""
        root.mkdir()
        command = [root / "run" if part == self.run else part for part in self.command]
        return Training(root, command, self.saves)


@pytest.fixture(scope="module", autouse=True)
def forked_commands():
    def execute(command, environment):
        assert command[0] == COMMAND
        return fork_server.run(*command[1:], preload=faults.SHIM, environment=environment)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faults, "execute", execute)
        yield


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    lines = [" ".join(WORDS[(i * j) % len(WORDS)] for j in range(1, 12)) for i in range(1, 40)]
    (folder / "corpus.txt").write_text("\n\n".join(lines))
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in [*special, *WORDS]))
    for name, count in [("train", 24), ("dev", 8)]:
        rows = [f"{n % 2}\t{' '.join(WORDS[n % 2 : n % 9 + 2])}" for n in range(count)]
        (folder / f"{name}.tsv").write_text("\n".join(["label\ttext_a", *rows, ""]))
    return folder


@pytest.fixture(scope="module")
def pretraining(texts, tmp_path_factory):
    """Two lengths, dropout, validation; saved every two steps and after each stage."""
    root = tmp_path_factory.mktemp("pretraining") / "whole"
    root.mkdir()
    options = {
        "corpus": texts / "corpus.txt",
        "validation": texts / "corpus.txt",
        "evaluate-every": 3,
        "tokenizer": "bert",
        "vocab": texts / "vocab.txt",
        "device": "cpu",
        "model": json.dumps(MODEL),
        "stages": "16x2x4,24x2x3",
        "learning-rate": 0.01,
        "warmup-steps": 2,
        "report-every": 1,
        "save-every": 2,
        "threads": 1,
    }
    flags = [part for name, value in options.items() for part in (f"--{name}", value)]
    return Training(root, [COMMAND, "pretrain", root / "run", "--resume", *flags], [2, 4, 6, 7])


@pytest.fixture(scope="module")
def whole_pretraining(pretraining, tmp_path_factory):
    """Uninterrupted, and what it did."""
    log = tmp_path_factory.mktemp("logs") / "pretraining"
    return pretraining, faults.record(pretraining.command, pretraining.root, log)


@pytest.fixture(scope="module")
def finetuning(whole_pretraining, texts, tmp_path_factory):
    """Two epochs of three steps, the best model of them, saved after each."""
    root = tmp_path_factory.mktemp("finetuning") / "whole"
    root.mkdir()
    base = whole_pretraining[0].run / "model"
    options = {"valid": texts / "dev.tsv", "device": "cpu", "epochs": 2, "batch": 8}
    options |= {"learning-rate": 0.01, "report-every": 1, "output": root / "run"}
    flags = [part for name, value in options.items() for part in (f"--{name}", value)]
    return Training(root, [COMMAND, "finetune", base, texts / "train.tsv", *flags], [3, 6])


@pytest.fixture(scope="module")
def whole_finetuning(finetuning, tmp_path_factory):
    log = tmp_path_factory.mktemp("logs") / "finetuning"
    return finetuning, faults.record(finetuning.command, finetuning.root, log)


@pytest.fixture(params=["pretraining", "finetuning"])
def whole(request):
    return request.getfixturevalue(f"whole_{request.param}")


# ---- What must be equal -------------------------------------------------------------------------


def without(data, *keys):
    return {key: value for key, value in data.items() if key not in keys}


def results(run):
    """Everything of a run that does not depend on the clock: files, metrics, and their names."""
    found = {}
    for path in sorted(run.rglob("*")):
        name = str(path.relative_to(run))
        if path.is_dir():
            found[name] = None
        elif name == "metrics.jsonl":
            lines = map(json.loads, path.read_text().splitlines())
            found[name] = [without(line, "tokens_per_second", "memory_bytes") for line in lines]
        elif path.name == "trainer.json":
            found[name] = without(json.loads(path.read_text()), "seconds")
        elif name == "config.json":
            pass  # has paths of the run
        elif not path.name.startswith("events.out."):
            found[name] = path.read_bytes()
    return found


def finish(training):
    """Resumes without faults; the results."""
    done = faults.run(training.command, training.root)
    assert done.returncode == 0, done.stdout + done.stderr
    return results(training.run)


# ---- Killed and out of disk ---------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_killed_run_resumes_bit_for_bit(whole, tmp_path, seed):
    reference, recording = whole
    training = reference.at(tmp_path / "killed")
    moments = random.Random(seed)
    kills = 0
    while kills < 5:
        at = moments.randint(1, len(recording.operations))
        if not faults.killed(training.command, training.root, at):
            break
        kills += 1
    assert kills > 0
    assert finish(training) == results(reference.run)


@pytest.mark.parametrize("action", ["full", "eio"])
def test_failing_disk_keeps_the_last_checkpoint(whole, tmp_path, action):
    """One line names the error, and the run resumes once there is space again."""
    reference, recording = whole
    training = reference.at(tmp_path / "failing")
    moments = random.Random(action)
    for _ in range(4):
        at = moments.randint(1, len(recording.operations))
        done = faults.run(training.command, training.root, at, action)
        if done.returncode == 0:
            continue
        assert faults.is_one_line(done), (at, done.stderr)
        kept = sorted(training.run.glob("checkpoints/step-*"))
        if kept and "cannot write" in done.stderr:
            assert f"{kept[-1]} is complete: " in done.stderr, at
    left, expected = finish(training), results(reference.run)
    # Where removing an old checkpoint failed, it stays.
    more = left.keys() - expected.keys()
    assert all(name.startswith("checkpoints/step-") for name in more), more
    assert {name: left[name] for name in expected} == expected


# ---- Without power ------------------------------------------------------------------------------


def is_hidden(path):
    return any(part.startswith(".") for part in Path(path).parts)


def steps_in(state):
    return sorted(
        int(found[1])
        for path in state
        if (found := re.fullmatch(r"run/checkpoints/step-(\d+)", path))
    )


def folders_of_models(state):
    """Folders that a reader may open, with their files."""
    found = {}
    for path, data in state.items():
        folder = str(Path(path).parent)
        if data is not None and not is_hidden(path) and folder not in (".", "run"):
            found.setdefault(folder, {})[Path(path).name] = data
    return found


def promised(training, seen):
    """The last step whose checkpoint had been written when the next step was reported, or 0."""
    lines = (seen.get("run/metrics.jsonl") or b"").decode().splitlines()
    last = max((json.loads(line)["step"] for line in lines), default=0)
    return max((step for step in training.saves if step < last), default=0)


def test_power_failure_at_every_operation(whole):
    training, recording = whole
    versions = {}  # path -> contents that it had
    complete = {}  # folder -> its files when it appeared
    states = 0
    for count, seen, left in recording.cuts:
        for path, data in seen.items():
            versions.setdefault(path, set()).add(data)
        complete = folders_of_models(seen) | complete
        for state in left:
            states += 1
            for path, data in state.items():
                if not is_hidden(path) and not LOGS.fullmatch(path):
                    assert data in versions[path], (count, path)
            for folder, files in folders_of_models(state).items():
                if folder == "run/best":  # its files are replaced one after the other
                    assert files.keys() >= complete[folder].keys(), count
                else:
                    assert files == complete[folder], (count, folder)
            # Without its description, a cache would be used for other texts as well.
            caches = [path for path in state if path.endswith(".tokens")]
            assert all(f"{path}.json" in state for path in caches), count
            assert max(steps_in(state), default=0) >= promised(training, seen), count
    assert states > 100


def test_files_are_written_under_other_names(whole):
    """A reader never finds half a file under a name that means something."""
    _, recording = whole
    for one in recording.operations:
        if one.kind in ("create", "write", "truncate"):
            assert is_hidden(one.path) or LOGS.fullmatch(one.path), one.path


@pytest.mark.parametrize("seed", range(3))
def test_run_resumes_after_a_power_failure(whole, tmp_path, seed):
    reference, recording = whole
    training = reference.at(tmp_path / "dark")
    draw = random.Random(seed)
    left = draw.choice([left for _, _, left in recording.cuts if left])
    disk.write_tree(training.root, draw.choice(left))
    assert finish(training) == results(reference.run)
