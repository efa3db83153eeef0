# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""roformer finetune and evaluate: numbers, GLUE's files, and contexts longer than a row."""

import json
import math
import random

import pytest
import torch
import transformers
from tasks_command import CLS, FIRST_BYTE, SEP, byte_ids, run, save_model

BYTES = ("--tokenizer", "byte", "--device", "cpu")
QUICK = ("--dropout", 0, "--learning-rate", 3e-3, "--batch", 16)


def pair_ids(first, second):
    a, b = ([FIRST_BYTE + byte for byte in text.encode()] for text in (first, second))
    ids = [CLS, *a, SEP, *b, SEP]
    types = [0] * (len(a) + 2) + [1] * (len(b) + 1)
    return {"input_ids": torch.tensor([ids]), "token_type_ids": torch.tensor([types])}


def ranks(values):
    """Equal values share the mean of their ranks."""
    ordered = sorted(values)
    return [ordered.index(v) + (ordered.count(v) + 1) / 2 for v in values]


def pearson(x, y):
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    products = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    squares = sum((a - mean_x) ** 2 for a in x) * sum((b - mean_y) ** 2 for b in y)
    return products / math.sqrt(squares)


# ---- Numbers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("pairs", [False, True])
def test_finetune_regression(tmp_path, pairs):
    """The label is the share of the letter z; transformers predicts the same numbers."""
    save_model("RoFormerForMaskedLM", tmp_path / "base")
    draw = random.Random(4)
    rows = []
    for _ in range(160):
        text = "".join(draw.choices("abz", k=6))
        rows.append((text[:3], text[3:], text.count("z") / 2 - 1))
    table = tmp_path / "train.tsv"
    lines = [f"{a if pairs else a + b}\t{b}\t{number}" for a, b, number in rows]
    table.write_text("\n".join(["q\ta\tscore", *lines]))
    columns = ("--text", "q", "--label", "score", *(("--second-text", "a") if pairs else ()))
    got = run(
        *("finetune", tmp_path / "base", table, "--valid", table, "--task", "regression"),
        *("-o", tmp_path / "run", *columns, *BYTES, *QUICK, "--epochs", 6, "--json"),
    )
    valid = json.loads(got)["valid"]
    assert sorted(valid) == ["loss", "pearson", "spearman"]
    assert valid["spearman"] > 0.9
    assert valid["pearson"] > 0.9
    best = tmp_path / "run" / "best"
    config = json.loads((best / "config.json").read_text())
    assert config["problem_type"] == "regression"
    assert config["architectures"] == ["RoFormerForSequenceClassification"]
    model = transformers.RoFormerForSequenceClassification.from_pretrained(best).eval()
    assert model.config.num_labels == 1
    with torch.no_grad():
        inputs = [pair_ids(a, b) if pairs else {"input_ids": byte_ids(a + b)} for a, b, _ in rows]
        said = [model(**one).logits.item() for one in inputs]
        loss = model(**inputs[0], labels=torch.tensor([rows[0][2]])).loss.item()
    assert loss == pytest.approx((said[0] - rows[0][2]) ** 2, rel=1e-4)
    labels = [number for _, _, number in rows]
    predictions = tmp_path / "predictions.tsv"
    evaluate = ("evaluate", best, table, *columns, *BYTES)
    again = json.loads(run(*evaluate, "--predictions", predictions, "--json"))
    assert again["examples"] == 160
    mean = sum((a - b) ** 2 for a, b in zip(said, labels, strict=True)) / 160
    assert again["loss"] == pytest.approx(mean, rel=1e-3)
    assert again["pearson"] == pytest.approx(pearson(said, labels), abs=1e-4)
    assert again["spearman"] == pytest.approx(valid["spearman"])
    assert again["spearman"] == pytest.approx(pearson(ranks(said), ranks(labels)), abs=1e-3)
    assert "160 examples: loss" in run(*evaluate)
    header, *written = predictions.read_text().splitlines()
    assert header == "index\tprediction"
    assert [float(line.split("\t")[1]) for line in written] == pytest.approx(said, abs=6e-4)


def test_metric_chooses_the_best_epoch(tmp_path, reviews):
    save_model("RoFormerForMaskedLM", tmp_path / "base")
    train, dev, _ = reviews
    command = ("finetune", tmp_path / "base", train, "--valid", dev, *BYTES, *QUICK, "--epochs", 5)

    def best(metric):
        folder = tmp_path / metric
        got = run(*command, "--metric", metric, "-o", folder, "--json")
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").open()]
        epochs = [line["evaluation"] for line in lines if "evaluation" in line]
        assert len(epochs) == 5
        return json.loads(got)["valid"], epochs

    for metric in ("matthews", "f1", "loss"):
        chosen, epochs = best(metric)
        values = [epoch[metric] for epoch in epochs]
        wanted = min(values) if metric == "loss" else max(values)
        assert chosen == epochs[values.index(wanted)]
    message = run(*command, "--metric", "spearman", "-o", tmp_path / "no", code=2)
    assert "--metric must be auto or one of accuracy, f1, loss, macro_f1, matthews for " in message
    assert "--metric must be one of" in run(*command, "--metric", "best", code=2)


def test_binary_metrics_by_hand(tmp_path, reviews):
    names = {0: "with", 1: "without"}
    ids = {name: n for n, name in names.items()}
    kind = "RoFormerForSequenceClassification"
    model = save_model(kind, tmp_path / "m", id2label=names, label2id=ids)
    table = [[0, 0], [0, 0]]
    for line in reviews[2].read_text().splitlines()[1:]:
        name, text = line.split("\t")
        with torch.no_grad():
            table[ids[name]][model(byte_ids(text)).logits.argmax().item()] += 1
    (tn, fp), (fn, tp) = table
    got = json.loads(run("evaluate", tmp_path / "m", reviews[2], *BYTES, "--json"))
    assert got["f1"] == pytest.approx(2 * tp / (2 * tp + fp + fn))
    scale = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    assert got["matthews"] == pytest.approx((tp * tn - fp * fn) / scale if scale else 0.0)
    assert got["classes"][1]["f1"] == got["f1"]


# ---- GLUE ---------------------------------------------------------------------------------------


def write_glue(folder):
    """Five tasks in the layouts of GLUE's files; a text of class 1 has an x."""
    draw = random.Random(9)

    def text(label):
        letters = draw.choices("abcd ", k=6)
        letters[draw.randrange(6)] = "x" if label else "y"
        return "".join(letters)

    def write(task, name, lines):
        (folder / task).mkdir(parents=True, exist_ok=True)
        (folder / task / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")

    pairs = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2"
    rte = ("entailment", "not_entailment")
    for name, count in (("train", 128), ("dev", 24)):
        both = [n % 2 for n in range(count)]
        write("CoLA", name, [f'ab\t{y}\t{"" if y else "*"}\t"{text(y)}' for y in both])
        lines = [f'{y}\t1\t2\t{text(y)}\t" {text(0)}' for y in both]
        write("MRPC", name, ["\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", *lines])
        lines = [f"{n}\t{text(y)}\t{text(0)}\t{rte[y]}" for n, y in enumerate(both)]
        write("RTE", name, ["index\tsentence1\tsentence2\tlabel", *lines])
        write("SST-2", name, ["sentence\tlabel", *[f"{text(y)} \t{y}" for y in both]])
        lines = [f"{n}\tg\tf\t2012\t1\tn\tn\t{text(y)}\t{text(0)}\t{4.5 * y + 0.25}"
                 for n, y in enumerate(both)]  # fmt: skip
        write("STS-B", name, [f"{pairs}\tscore", *lines])
    write("CoLA", "test", ["index\tsentence", *[f"{n}\t{text(n % 2)}" for n in range(6)]])
    lines = [f"{n}\tg\tf\t2012\t1\tn\tn\t{text(n % 2)}\t{text(0)}" for n in range(6)]
    write("STS-B", "test", [pairs, *lines])
    lines = [f"{n}\t{text(n % 2)}\t{text(0)}" for n in range(6)]
    write("RTE", "test", ["index\tsentence1\tsentence2", *lines])


JUDGED = {
    "CoLA": ["matthews"],
    "MRPC": ["accuracy", "f1"],
    "RTE": ["accuracy"],
    "SST-2": ["accuracy"],
    "STS-B": ["pearson", "spearman"],
}


@pytest.mark.parametrize("task", JUDGED)
def test_glue(tmp_path, task):
    save_model("RoFormerForMaskedLM", tmp_path / "base")
    write_glue(tmp_path / "GLUE")
    folder = tmp_path / "GLUE" / task
    command = ("finetune", tmp_path / "base", folder, "-o", tmp_path / "run", *BYTES, *QUICK)
    got = json.loads(run(*command, "--epochs", 6, "--json"))
    assert set(JUDGED[task]) <= set(got["valid"])
    for metric in JUDGED[task]:
        assert got["valid"][metric] > 0.8
    kept = json.loads((tmp_path / "run/config.json").read_text())
    assert kept["task"] == task.lower()
    assert kept["valid"] == str(folder / "dev.tsv")
    best = tmp_path / "run" / "best"
    again = json.loads(
        run("evaluate", best, folder / "dev.tsv", "--format", "glue", *BYTES, "--json")
    )
    for metric in JUDGED[task]:
        assert again[metric] == pytest.approx(got["valid"][metric])
    transformers.RoFormerForSequenceClassification.from_pretrained(best)
    test = folder / "test.tsv"
    if not test.exists():
        assert "predictions" not in got
        return
    written = (tmp_path / "run/predictions.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in written] == ["index", *"012345"]
    said = [line.split("\t")[1] for line in written[1:]]
    if task == "STS-B":
        assert [float(number) > 2.5 for number in said] == [False, True] * 3
    else:
        names = ("entailment", "not_entailment") if task == "RTE" else ("0", "1")
        assert said == [*names] * 3
    evaluate = ("evaluate", best, test, "--task", task.lower(), *BYTES)
    assert "test.tsv has no labels: name a file for the --predictions" in run(*evaluate, code=2)
    copy = tmp_path / "copy.tsv"
    assert f"6 examples: predictions in {copy}" in run(*evaluate, "--predictions", copy)
    assert copy.read_text().splitlines() == written


def test_glue_files_and_wrong_calls(tmp_path):
    save_model("RoFormerForMaskedLM", tmp_path / "base")
    write_glue(tmp_path / "GLUE")
    other = tmp_path / "elsewhere"
    (tmp_path / "GLUE" / "CoLA").rename(other)
    command = ("finetune", tmp_path / "base", *BYTES, "--epochs", 1, "--json")
    # A file in another folder: by name, or by its first line.
    for flags in (("--task", "cola"), ("--format", "glue")):
        run_folder = tmp_path / f"run{flags[1]}"
        run(*command, other / "train.tsv", *flags, "-o", run_folder)
        assert json.loads((run_folder / "config.json").read_text())["task"] == "cola"
    output = ("-o", tmp_path / "no")
    message = run(*command, tmp_path, *output, code=2)
    assert "neither its folder nor its first line tells the task of GLUE" in message
    assert "cola, mrpc, rte, sst-2, sts-b" in message
    message = run(*command, other, "--format", "tsv", *output, code=2)
    assert "--format must be glue for " in message
    message = run(*command, other, "--task", "questions", *output, code=2)
    assert "--task must be one of texts or pairs for files of GLUE, got questions" in message
    message = run(*command, other, "--valid", other / "test.tsv", *output, code=1)
    assert "test.tsv: it has no labels" in message
    one = tmp_path / "one.tsv"
    one.write_text("label\ttext_a\nyes\ta\nyes\tb\n")
    message = run(*command, one, *output, code=1)
    assert 'one.tsv: all examples are of class "yes": there must be at least two' in message
    triples = ("--format", "triples", "--task", "classification", *output)
    assert "--task must be matching for triples" in run(*command, one, *triples, code=2)
    # Data of the other kind.
    folder = tmp_path / "GLUE" / "STS-B"
    run(*command, folder, "-o", tmp_path / "numbers")
    message = run(
        *("evaluate", tmp_path / "numbers/best", tmp_path / "GLUE/RTE/dev.tsv"),
        *("--format", "glue", *BYTES),
        code=2,
    )
    assert "the model predicts a number, but " in message


# ---- Long contexts ------------------------------------------------------------------------------


def test_answers_beyond_max_length_are_found(tmp_path):
    """Contexts of 60 bytes in rows of 28: most answers are in a later window."""
    save_model("RoFormerForMaskedLM", tmp_path / "base")
    draw = random.Random(8)
    lines, late = [], 0
    for _ in range(160):
        answer = "".join(draw.choices("123", k=draw.randint(1, 3)))
        at = draw.randint(0, 60 - len(answer))
        context = "".join(draw.choices("abc", k=at)) + answer
        context += "".join(draw.choices("abc", k=60 - len(context)))
        late += at + len(answer) > 24
        lines.append(json.dumps({"question": "?", "context": context, "answer": answer}))
    assert late > 80
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(lines))
    command = (
        *("finetune", tmp_path / "base", path, "--task", "questions", "--valid", path),
        *(*BYTES, *QUICK, "--epochs", 4, "--max-length", 28, "--stride", 12, "--json"),
    )
    got = json.loads(run(*command, "-o", tmp_path / "run"))
    # Windows of 24 tokens, 12 apart: four for each question.
    assert got["steps"] == 4 * 4 * 160 // 16
    assert got["valid"]["exact"] > 0.9
    best = tmp_path / "run" / "best"
    evaluate = ("evaluate", best, path, *BYTES, "--json", "--max-length", 28)
    assert json.loads(run(*evaluate, "--stride", 12))["exact"] == got["valid"]["exact"]
    assert json.loads(run(*evaluate))["exact"] > 0.8
    message = run(*command, "-o", tmp_path / "run", "--stride", 8, code=2)
    assert "holds a run with another stride" in message
