# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The page under test, the command that it must agree with, and the golden models."""

import json
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = pathlib.Path(os.environ.get("ROTARY_EXPLORER_PAGE") or ROOT / "docs/explorer/index.html")
COMMAND = os.environ.get("ROTARY_COMMAND") or str(ROOT / "build/bin/rotary")
GOLDEN = ("families", "families_more", "legacy", "legacy_more")


def golden_models() -> dict[str, str]:
    """Name -> text of a config.json, each text once."""
    found: dict[str, str] = {}
    for name in GOLDEN:
        data = json.loads((ROOT / f"tests/golden/{name}.json").read_text(encoding="utf-8"))
        for row in data["rows"]:
            text = json.dumps(row["config"])
            label = row.get("name") or row["family"]
            if text not in found.values():
                found[f"{label}-{len(found)}"] = text
    return found


def hostile_files() -> dict[str, bytes]:
    """Files that the library refuses, or reads with warnings."""
    llama = b'{"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32'
    gguf = (ROOT / "tests/fuzz/corpus/gguf/llama.gguf").read_bytes()
    return {
        "empty.json": b"",
        "text.json": b"hello",
        "array.json": b"[1, 2]",
        "deep.json": b"[" * 100_000,
        "cut.json": llama,
        "no-theta.json": b'{"model_type": "no_such_model", "head_dim": 64}',
        "odd.json": llama + b', "head_dim": 7}',
        "huge.json": llama + b', "head_dim": 1e300}',
        "negative.json": llama + b', "head_dim": -64}',
        "markup.json": b'{"model_type": "<img src=x onerror=alert(1)>"}',
        "control.json": b'{"model_type": "\\u001b[31m", "rope_scaling": {"type": "\\u0007"}}',
        "bytes.json": bytes(range(256)),
        "type.json": llama + b', "rope_scaling": {"type": "nonsense", "factor": 2}}',
        "factor.json": llama + b', "rope_scaling": {"type": "linear", "factor": 0}}',
        "lists.json": llama + b', "rope_scaling": {"type": "longrope", "short_factor": [1],'
        b' "long_factor": [1]}}',
        "magic.gguf": b"GGUF",
        "version.gguf": b"GGUF" + b"\xff" * 20,
        "cut.gguf": gguf[: len(gguf) // 3],
        "counts.gguf": gguf[:8] + b"\xff" * 16 + gguf[24:],
        "strings.gguf": gguf[:24] + b"\xff" * 8 + gguf[32:],
    }


def run_command(*arguments: object) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        [COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=env,
        timeout=120,
        check=False,
    )


def command_json(*arguments: object) -> dict:
    done = run_command(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
