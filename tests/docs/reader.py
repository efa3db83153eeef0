# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The folder of a reader: the files that the pages name, as small as they can be, and the
environment in which commands and programs run there."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import torch
from pages import ROOT
from safetensors.numpy import load_file, save_file
from safetensors.torch import load_file as load_torch_file

GOLDEN = ROOT / "tests" / "roformer" / "golden"
COMMANDS = {"rotary": "ROTARY_COMMAND", "roformer": "ROFORMER_COMMAND"}
TINY = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}


# Copied once: pages run in threads, and pytest changes a variable of os.environ for each test.
ENVIRONMENT = dict(os.environ)


def environment() -> dict[str, str]:
    """The built commands are found first; Python is the one that runs the tests."""
    commands = {str(pathlib.Path(os.environ[name]).parent) for name in COMMANDS.values()}
    binaries = [*commands, str(pathlib.Path(sys.executable).parent)]
    return ENVIRONMENT | {
        "PATH": os.pathsep.join([*binaries, os.environ["PATH"]]),
        "COLUMNS": "80",
        "LC_ALL": "C.UTF-8",
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": "1",
    }


def rank_environment() -> dict[str, str]:
    """As torchrun sets it for a single process."""
    return {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}  # fmt: skip


def json_lines(path: pathlib.Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_texts(folder: pathlib.Path) -> None:
    """Texts, jieba's dictionary, and the part of RoFormer's vocabulary that the texts need."""
    lines = json.loads((GOLDEN / "texts.json").read_text(encoding="utf-8"))["lines"][:8]
    document = "".join(line + "\n" for line in lines)
    for name in ("zhwiki.txt", "corpus.txt"):
        (folder / name).write_text("\n".join([document] * 8), encoding="utf-8")
    (folder / "held_out.txt").write_text(document * 64, encoding="utf-8")
    shutil.copy(GOLDEN / "dict.txt", folder / "dict.txt")
    tokens = (GOLDEN / "vocab.txt").read_text(encoding="utf-8").splitlines()
    kept = [t for t in tokens if t.startswith("[") or len(t.encode()) == 1 or t in document]
    (folder / "vocab.txt").write_text("".join(t + "\n" for t in kept), encoding="utf-8")


def write_tasks(folder: pathlib.Path) -> None:
    for name in ("train", "dev", "test"):
        rows = [f"{n % 2}\t{'很好' if n % 2 else '不好'}" for n in range(8)]
        (folder / f"{name}.tsv").write_text("\n".join(["label\ttext_a", *rows, ""]))
    pairs = [{"q": "天气", "a": "很好" if n % 2 else "北京", "label": n % 2} for n in range(8)]
    answer = {"question": "谁", "context": "他说的确实在理", "answer": "他", "answer_start": 0}
    for suffix in ("", "-dev"):
        json_lines(folder / f"pairs{suffix}.jsonl", pairs)
        json_lines(folder / f"squad{suffix}.jsonl", [answer] * 8)
    json_lines(
        folder / "scm.jsonl",
        [{"A": f"第{n}天", "B": f"{n}天气", "C": f"北京{n}"} for n in range(10)],
    )
    for name in ("stars", "stars-dev"):
        rows = [f"{n % 4 + 0.5}\t{'很好' if n % 2 else '不好'}" for n in range(8)]
        (folder / f"{name}.tsv").write_text("\n".join(["stars\ttext_a", *rows, ""]))
    for name in ("cola", "cola-dev"):
        rows = [f"ab\t{n % 2}\t\t{'天气' if n % 2 else '北京'}" for n in range(8)]
        (folder / f"{name}.tsv").write_text("\n".join([*rows, ""]))
    (folder / "cola-test.tsv").write_text("index\tsentence\n0\t天气\n1\t北京\n")
    (folder / "GLUE" / "MRPC").mkdir(parents=True)
    for name in ("train", "dev"):
        rows = [f"{n % 2}\t1\t2\t天气\t{'很好' if n % 2 else '北京'}" for n in range(8)]
        table = "\n".join(["\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", *rows, ""])
        (folder / "GLUE" / "MRPC" / f"{name}.tsv").write_text(table, encoding="utf-8")
    for name in ("names", "dev", "test"):
        (folder / f"{name}.conll").write_text("王 B-PER\n来 O\n北京 B-LOC\n\n" * 4)


def write_models(folder: pathlib.Path) -> None:
    """base/, a masked LM with random weights; published/, the same as pytorch_model.bin;
    bert-base-chinese/, the same as a BERT; and roformer_chinese_base/ with reference.json, results
    of transformers."""
    pretrain = {
        "model": TINY, "corpus": ["zhwiki.txt"], "vocab": "vocab.txt", "dict": "dict.txt",
        "stages": "32x4x2", "warmup_steps": 1, "device": "cpu",
    }  # fmt: skip
    (folder / "pretrain.json").write_text(json.dumps(pretrain))
    (folder / "tune.json").write_text(json.dumps({"checkpoint": "base/", "train": "train.tsv"}))
    subprocess.run(
        [os.environ["ROFORMER_COMMAND"], "pretrain", "run", "--config", "pretrain.json"],
        check=True, cwd=folder, env=environment(), stdout=subprocess.DEVNULL,
    )  # fmt: skip
    shutil.move(folder / "run" / "model", folder / "base")
    shutil.rmtree(folder / "run")

    published = folder / "published"
    published.mkdir()
    shutil.copy(folder / "base" / "config.json", published)
    torch.save(
        load_torch_file(folder / "base" / "model.safetensors"), published / "pytorch_model.bin"
    )

    bert = folder / "bert-base-chinese"
    bert.mkdir()
    config = json.loads((folder / "base" / "config.json").read_text())
    config |= {"model_type": "bert", "architectures": ["BertForMaskedLM"]}
    weights = {
        name.replace("roformer.", "bert."): value
        for name, value in load_file(folder / "base" / "model.safetensors").items()
    }
    weights["bert.embeddings.position_embeddings.weight"] = np.zeros((64, 32), np.float32)
    (bert / "config.json").write_text(json.dumps(config))
    shutil.copy(folder / "vocab.txt", bert)
    save_file(weights, bert / "model.safetensors")

    golden = folder / "roformer_chinese_base"
    golden.mkdir()
    shutil.copy(GOLDEN / "checkpoints" / "mlm-small.config.json", golden / "config.json")
    shutil.copy(GOLDEN / "checkpoints" / "mlm-small.safetensors", golden / "model.safetensors")
    shutil.copy(GOLDEN / "checkpoints" / "mlm-small.io.json", folder / "reference.json")


def make_folder(folder: pathlib.Path) -> pathlib.Path:
    shutil.copytree(ROOT / "examples", folder / "examples")
    (folder / "build" / "bin").mkdir(parents=True)
    for name, variable in COMMANDS.items():
        (folder / "build" / "bin" / name).symlink_to(os.environ[variable])
    (folder / "Qwen2.5-7B").mkdir()
    shutil.copy(
        ROOT / "examples" / "models" / "qwen2.5-7b-yarn.json", folder / "Qwen2.5-7B" / "config.json"
    )
    np.save(folder / "q.npy", np.ones((4096, 1, 128), np.float32))
    write_texts(folder)
    write_tasks(folder)
    write_models(folder)
    tiny = {"steps": 2, "rows": 2, "lengths": [64, 128], "model": {"hidden_size": 16}}
    (folder / "lab.json").write_text(json.dumps(tiny))
    return folder
