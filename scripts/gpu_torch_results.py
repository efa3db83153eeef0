# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Writes the results of scripts/gpu_torch.sh to <gpu>-pytorch.json and .txt.

python scripts/gpu_torch_results.py LOGS RESULTS
"""

import json
import os
import pathlib
import sys
from xml.etree import ElementTree

import torch
import transformers


def count_tests(logs: pathlib.Path) -> dict[str, int]:
    """Counts over all shards; tests with "[cuda" in their name ran on the device."""
    counts = {"passed": 0, "failed": 0, "skipped": 0, "on_cuda": 0}
    for report in logs.glob("tests.part*.xml"):
        for case in ElementTree.parse(report).iter("testcase"):
            kinds = {child.tag for child in case}
            kind = "failed" if kinds & {"failure", "error"} else "skipped"
            counts[kind if kinds & {"failure", "error", "skipped"} else "passed"] += 1
            name, group = case.get("name", ""), case.get("classname", "")
            counts["on_cuda"] += "[cuda" in name or "-cuda" in name or ".cuda." in group
    return counts


def main() -> None:
    logs, results = (pathlib.Path(folder) for folder in sys.argv[1:])
    about = {
        "gpu": torch.cuda.get_device_name(),
        "pytorch": torch.__version__,
        "transformers": transformers.__version__,
        "commit": os.environ["ROTARY_COMMIT"],
    }
    tests = count_tests(logs)
    arrays = (logs / "check_cuda.txt").read_text().splitlines()
    rows = [json.loads(line) for line in (logs / "bench.jsonl").read_text().splitlines()]
    name = about["gpu"].lower().replace(" ", "-") + "-pytorch"
    lines = [f'  "{key}": {json.dumps(value)},' for key, value in about.items()]
    lines += [f'  "tests": {json.dumps(tests)},', f'  "check_cuda": {json.dumps(arrays)},']
    body = ",\n".join(f"    {json.dumps(row)}" for row in rows)
    (results / f"{name}.json").write_text(
        "{\n" + "\n".join(lines) + f'\n  "bench": [\n{body}\n  ]\n}}\n'
    )
    said = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in tests.items())
    (results / f"{name}.txt").write_text(
        f"tests/torch: {said}\ntests/python/check_cuda.py: {', '.join(arrays)}\n\n"
        + (logs / "bench.txt").read_text()
    )
    print(f"Kept: {results / name}.json and .txt")


if __name__ == "__main__":
    main()
