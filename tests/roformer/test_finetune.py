# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""roformer finetune: whole runs for every task, interrupted ones, and wrong calls."""

import json
import os
import random
import resource
import signal
import subprocess
import time

import pytest
import torch
import transformers
from fork_server import ENVIRONMENT
from tasks_command import byte_ids, run, save_model


def test_finetune_classification(tmp_path, reviews):
    save_model("RoFormerForMaskedLM", tmp_path / "base")
    train, dev, test = reviews
    command = (
        *("finetune", tmp_path / "base", train, "--valid", dev, "--test", test),
        *("-o", tmp_path / "run", "--tokenizer", "byte", "--device", "cpu", "--dropout", 0),
        *("--epochs", 6, "--learning-rate", 3e-3, "--batch", 16, "--json"),
    )
    got = json.loads(run(*command))
    assert got["steps"] == 96
    assert got["valid"]["accuracy"] > 0.9
    assert got["test"]["accuracy"] > 0.9
    best = tmp_path / "run" / "best"
    metrics = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").open()]
    assert sum("evaluation" in line for line in metrics) == 6
    again = run("evaluate", best, test, "--tokenizer", "byte", "--device", "cpu", "--json")
    assert json.loads(again)["accuracy"] == got["test"]["accuracy"]
    # What was learnt is transformers' model, too.
    model = transformers.RoFormerForSequenceClassification.from_pretrained(best).eval()
    with torch.no_grad():
        said = model(byte_ids("abczd")).logits.argmax().item()
    assert model.config.id2label[said] == "with"
    # A finished run has nothing left to do.
    assert json.loads(run(*command))["test"] == got["test"]


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_finetune_pairs(tmp_path, pooling):
    save_model("RoFormerForMaskedLM", tmp_path / "base")
    draw = random.Random(1)
    lines = []
    for _ in range(192):
        a, b = draw.choice("ab"), draw.choice("ab")
        lines.append(json.dumps({"q": a * 3, "a": b * 3, "label": int(a == b)}))
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    got = run(
        *("finetune", tmp_path / "base", tmp_path / "pairs.jsonl", "--text", "q"),
        *("--second-text", "a", "--valid", tmp_path / "pairs.jsonl", "-o", tmp_path / "run"),
        *("--tokenizer", "byte", "--device", "cpu", "--epochs", 8, "--learning-rate", 3e-3),
        *("--batch", 16, "--pooling", pooling, "--dropout", 0, "--json"),
    )
    assert json.loads(got)["valid"]["accuracy"] == 1.0
    config = json.loads((tmp_path / "run/best/config.json").read_text())
    assert config["architectures"] == ["RoFormerForPairMatching"]


def test_cross_validation_of_triples(tmp_path):
    save_model("RoFormerForMaskedLM", tmp_path / "base")
    draw = random.Random(2)
    lines = []
    for n in range(40):
        kind, other = draw.sample("xy", 2)
        a, b, c = (draw.choice("abcd") + k * 4 + str(n) for k in (kind, kind, other))
        lines.append(json.dumps({"A": a, "B": b, "C": c}))
    (tmp_path / "scm.jsonl").write_text("\n".join(lines))
    command = (
        *("finetune", tmp_path / "base", tmp_path / "scm.jsonl", "--format", "triples"),
        *("--tokenizer", "byte", "--device", "cpu", "--folds", 4, "--learning-rate", 2e-3),
    )
    got = json.loads(run(*command, "--epochs", 2, "--batch", 8, "--json"))
    assert [fold["test"] for fold in got["folds"]] == [10, 10, 10, 10]
    assert [fold["train"] for fold in got["folds"]] == [30, 30, 30, 30]
    right = sum(fold["measures"]["accuracy"] * fold["test"] for fold in got["folds"])
    assert got["accuracy"] == pytest.approx(right / 40)
    assert "--folds takes neither" in run(*command, "--test", tmp_path / "scm.jsonl", code=2)
    run(*command, "--epochs", 1, "--batch", 8, "-o", tmp_path / "run")
    assert len(json.loads((tmp_path / "run/folds.json").read_text())["folds"]) == 4
    assert json.loads((tmp_path / "run/config.json").read_text())["folds"] == 4
    # Without being tuned: the cosine of vectors.
    judge = ("evaluate", tmp_path / "base", tmp_path / "scm.jsonl", "--format", "triples")
    cosine = json.loads(run(*judge, "--tokenizer", "byte", "--device", "cpu", "--json"))
    assert cosine["triples"] == 40


BYTES = ("--tokenizer", "byte", "--device", "cpu")
QUICK = ("--dropout", 0, "--learning-rate", 3e-3, "--batch", 16)


def test_finetune_tokens(tmp_path):
    save_model("RoFormerForMaskedLM", tmp_path / "base")
    draw = random.Random(5)
    lines = []
    for _ in range(160):
        for _ in range(draw.randint(2, 5)):
            word = "".join(draw.choices("abcdz", k=3))
            lines.append(f"{word} x {'B-Z' if 'z' in word else 'O'}")
        lines.append("")
    path = tmp_path / "words.conll"
    path.write_text("\n".join(lines))
    got = run(
        *("finetune", tmp_path / "base", path, "--valid", path),
        *("-o", tmp_path / "run", *BYTES, *QUICK, "--epochs", 5, "--json"),
    )
    got = json.loads(got)
    assert got["valid"]["f1"] > 0.95
    assert got["valid"]["accuracy"] > 0.95
    best = tmp_path / "run" / "best"
    again = json.loads(run("evaluate", best, path, *BYTES, "--json"))
    assert again["f1"] == got["valid"]["f1"]
    assert again["words"] == sum(1 for line in lines if line)
    assert "entities: precision" in run("evaluate", best, path, *BYTES)
    model = transformers.RoFormerForTokenClassification.from_pretrained(best).eval()
    with torch.no_grad():
        said = model(byte_ids("abczad")).logits[0].argmax(-1)
    assert [model.config.id2label[said[at].item()] for at in (1, 4)] == ["O", "B-Z"]


def test_finetune_questions(tmp_path):
    save_model("RoFormerForMaskedLM", tmp_path / "base")
    draw = random.Random(6)
    lines = []
    for _ in range(320):
        left, answer, right = (
            "".join(draw.choices(letters, k=draw.randint(1, 4)))
            for letters in ("abc", "123", "abc")
        )
        one = {"question": "?", "context": left + answer + right, "answer": answer}
        lines.append(json.dumps(one | {"answer_start": len(left)}))
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(lines))
    got = run(
        *("finetune", tmp_path / "base", path, "--task", "questions", "--valid", path),
        *("-o", tmp_path / "run", *BYTES, *QUICK, "--epochs", 5, "--json"),
    )
    got = json.loads(got)
    assert got["valid"]["exact"] > 0.9
    assert got["valid"]["f1"] >= got["valid"]["exact"]
    best = tmp_path / "run" / "best"
    again = json.loads(run("evaluate", best, path, *BYTES, "--json"))
    assert again["exact"] == got["valid"]["exact"]
    assert "320 questions: exact" in run("evaluate", best, path, *BYTES)
    transformers.RoFormerForQuestionAnswering.from_pretrained(best)


def test_config_file(tmp_path, reviews):
    save_model("RoFormerForMaskedLM", tmp_path / "base")
    train, dev, _ = reviews
    config = tmp_path / "tune.json"
    config.write_text(
        json.dumps(
            {"checkpoint": "base", "train": train.name, "valid": dev.name, "tokenizer": "byte"}
            | {"device": "cpu", "epochs": 2, "batch": 64}
        )
    )
    command = ("finetune", "--config", "tune.json", "-o", "run", "--batch", 32, "--json")
    got = json.loads(run(*command, cwd=tmp_path))
    assert got["steps"] == 16  # the flag won
    kept = json.loads((tmp_path / "run/config.json").read_text())
    assert kept["batch"] == 32
    assert kept["epochs"] == 2
    assert kept["train"] == str(train)
    assert kept["learning_rate"] == 2e-5
    # The copy means the same from elsewhere.
    copy = ("finetune", "--config", tmp_path / "run/config.json", "-o", tmp_path / "run", "--json")
    assert json.loads(run(*copy))["valid"] == got["valid"]
    message = run(*copy, "--learning-rate", 1e-3, code=2)
    assert "run holds a run with another learning_rate: choose another folder" in message
    config.write_text('{"learning_rat": 1}')
    message = run("finetune", "--config", config, "-o", tmp_path / "other", code=1)
    assert 'tune.json: there is no key "learning_rat"; did you mean "learning_rate"?' in message
    config.write_text('{"epochs": 0}')
    message = run("finetune", "--config", config, "-o", tmp_path / "other", code=1)
    assert "tune.json: epochs must be from 1 to 100000, got 0" in message


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_interrupted_run_resumes(tmp_path, reviews, how):
    save_model("RoFormerForMaskedLM", tmp_path / "base")
    train, dev, _ = reviews

    def command(name):
        return (
            *("finetune", tmp_path / "base", train, "--valid", dev, "-o", tmp_path / name, *BYTES),
            *("--learning-rate", 3e-3, "--epochs", 8, "--batch", 16, "--report-every", 1),
            "--json",
        )

    whole = json.loads(run(*command("whole")))
    killed = subprocess.Popen(
        [os.environ["ROFORMER_COMMAND"], *map(str, command("run"))],
        stdout=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    metrics = tmp_path / "run" / "metrics.jsonl"
    while not (metrics.exists() and '"step":40,' in metrics.read_text()):
        assert killed.poll() is None
        time.sleep(0.005)
    # Nobody else may work there meanwhile.
    killed.send_signal(signal.SIGSTOP)
    assert "another process trains in this folder" in run(*command("run"), code=1)
    killed.send_signal(how)
    killed.send_signal(signal.SIGCONT)
    killed.communicate()
    assert killed.returncode == (0 if how == signal.SIGINT else -how)
    assert json.loads(run(*command("run")))["valid"] == whole["valid"]
    same = [tmp_path / name / "best" / "model.safetensors" for name in ("run", "whole")]
    assert same[0].read_bytes() == same[1].read_bytes()


def test_failures_are_reported_and_keep_the_best(tmp_path, reviews):
    base = tmp_path / "base"
    save_model("RoFormerForMaskedLM", base)
    train, dev, _ = reviews
    command = ("finetune", base, train, "--valid", dev, "-o", tmp_path / "run", "--device", "cpu")
    message = run(*command, code=2)
    assert "there is no vocab.txt with the model: name one with --vocab" in message
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n" + "\n".join("abcdefghz"))
    message = run(*command, "--vocab", tmp_path / "no.txt", code=1)
    assert "no.txt: cannot open: No such file or directory" in message
    large = tmp_path / "large.txt"
    large.write_text(vocabulary.read_text() + "\n" + "\n".join(f"w{n}" for n in range(300)))
    assert "large.txt: 314 tokens, but the model has 261" in run(*command, "--vocab", large, code=1)
    command = (*command, *("--tokenizer", "byte", "--epochs", 2, "--batch", 64))
    message = run(*command, "--learning-rate", "1e38", "--warmup", 0, "--clip-norm", 0, code=1)
    assert "not a finite number: " in message
    assert "no checkpoint was written yet" in message

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = subprocess.run(
        [os.environ["ROFORMER_COMMAND"], *map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
        preexec_fn=limit,
        restore_signals=False,
    )
    assert done.returncode == 1
    assert "safetensors: cannot write: File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    run(*command)
    (base / "model.safetensors").write_bytes((base / "model.safetensors").read_bytes()[:5000])
    message = run(*command[:5], "-o", tmp_path / "other", "--tokenizer", "byte", code=1)
    assert "model.safetensors: " in message


def test_wrong_usage(tmp_path, reviews):
    save_model("RoFormerForMaskedLM", tmp_path / "base")
    command = ("finetune", tmp_path / "base", reviews[0], "--tokenizer", "byte", "--device", "cpu")
    assert "--output" in run(*command, code=2)
    assert "CHECKPOINT" in run("finetune", code=2)
    assert "TRAIN" in run("finetune", tmp_path / "base", code=2)
    assert "--batch must be from 1" in run(*command, "--batch", 0, code=2)
    assert "--schedule must be one of" in run(*command, "--schedule", "wavy", code=2)
    other = tmp_path / "other.tsv"
    other.write_text("label\ttext_a\nmaybe\tabc\n")
    message = run(*command, "--valid", other, "-o", tmp_path / "run", code=1)
    assert "other.tsv" in message
    assert "maybe" in message
    for verb in ["evaluate", "finetune"]:
        assert "Examples" in run(verb, "--help")
