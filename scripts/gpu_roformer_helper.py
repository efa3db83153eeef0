#!/usr/bin/env python3
# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Helper of gpu_roformer.sh: splits the corpus, plans the stages, collects the results."""

import argparse
import json
import lzma
import shutil
from pathlib import Path

HELD_OUT = 40  # every so many documents


def lines_of(path):
    if not Path(path).exists():
        return []
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def unpack(given):
    with lzma.open(given.packed) as packed, open(given.unpacked, "wb") as out:
        shutil.copyfileobj(packed, out, 1 << 20)


def split(given):
    """Documents are separated by blank lines; every 40th is held out."""
    number = 0
    with (
        open(given.corpus, encoding="utf-8") as corpus,
        open(given.train, "w", encoding="utf-8") as train,
        open(given.held_out, "w", encoding="utf-8") as held_out,
    ):
        inside = False
        for line in corpus:
            empty = not line.strip()
            if inside and empty:
                number += 1
            inside = not empty
            (held_out if number % HELD_OUT == HELD_OUT - 1 else train).write(line)
    print(f"{number + inside} documents")


def stages(given):
    """Adds steps to '256x256:0.6 512x128:0.4' (length x rows : share of the time): the given number
    for each, or what fits into the time at the speed of a trial with equal steps for each."""
    shapes = [stage.split(":") for stage in given.stages.split()]
    parts = []
    for number, (shape, share) in enumerate(shapes):
        steps = given.steps
        if given.trial:
            length, rows = map(int, shape.split("x"))
            speed = speed_of_stage(lines_of(given.trial), number, len(shapes))
            steps = max(1, int(given.seconds * float(share) * speed / (length * rows)))
        parts.append(f"{shape}x{steps}")
    print(",".join(parts))


def speed_of_stage(lines, number, count):
    """Tokens per second: median over the second half of the reports of a stage."""
    reports = [line for line in lines if "tokens_per_second" in line]
    steps = reports[-1]["step"] // count
    middle, end = (number + 0.5) * steps, (number + 1) * steps
    speeds = sorted(r["tokens_per_second"] for r in reports if middle < r["step"] <= end)
    return speeds[len(speeds) // 2]


def warmup(given):
    steps = sum(int(stage.split("x")[2]) for stage in given.stages.split(","))
    print(max(1, steps // 16))


def collect(given):
    """Collects all results in one file; null for missing ones."""
    work = Path(given.work)
    metrics = lines_of(work / "run/metrics.jsonl")
    results = {
        "last_report": [line for line in metrics if "loss" in line][-1:],
        "evaluations": [line for line in metrics if "evaluation" in line],
        "masks": lines_of(work / "masks.jsonl"),
    }
    files = {"config": "run/config.json", "model": "run/model/config.json"}
    names = ["lengths", "reviews", "reviews-untrained", "cosine-512", "cosine-1024", "tfidf"]
    names += [f"cases-{length}-seed{seed}" for length in (512, 1024) for seed in (0, 1, 2)]
    for name, file in (files | {name: f"{name}.json" for name in names}).items():
        path = work / file
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        results[name] = json.loads(text) if text.strip() else None
    text = json.dumps(results, indent=1, ensure_ascii=False)
    Path(given.results).write_text(text + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(required=True)
    verb = verbs.add_parser("unpack")
    for name in ["packed", "unpacked"]:
        verb.add_argument(name)
    verb.set_defaults(call=unpack)
    verb = verbs.add_parser("split")
    for name in ["corpus", "train", "held_out"]:
        verb.add_argument(name)
    verb.set_defaults(call=split)
    verb = verbs.add_parser("stages")
    verb.add_argument("stages")
    verb.add_argument("--steps", type=int, default=1)
    verb.add_argument("--trial")
    verb.add_argument("--seconds", type=float)
    verb.set_defaults(call=stages)
    verb = verbs.add_parser("warmup")
    verb.add_argument("stages")
    verb.set_defaults(call=warmup)
    verb = verbs.add_parser("collect")
    verb.add_argument("work")
    verb.add_argument("results")
    verb.set_defaults(call=collect)
    given = parser.parse_args()
    given.call(given)


if __name__ == "__main__":
    main()
