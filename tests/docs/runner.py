# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""Runs blocks: one function per language. Each returns what is wrong, "" if nothing is."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import commands
import reader
from make_examples import hash_of
from pages import ROOT, Block

HERE = pathlib.Path(__file__).parent
PROJECTS = ["examples/c", "examples/consumer", "tests/torch/consumer"]  # built by package tests


TIMEOUT = 240  # seconds; on an idle machine every process takes less than 15


def process(command: list[str], folder: pathlib.Path, **more: str) -> subprocess.CompletedProcess:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=folder,
            env=reader.environment() | more, timeout=TIMEOUT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"not done after {TIMEOUT} seconds")


# ---- Python --------------------------------------------------------------------------------------


def run_python(blocks: list[Block], folder: pathlib.Path) -> dict[str, str]:
    """The errors of the Python blocks of one page, by name."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([[block.name, block.text, block.reason] for block in blocks], file)
        file.flush()
        done = process([sys.executable, str(HERE / "run_python.py"), file.name], folder,
                       **reader.rank_environment())  # fmt: skip
    errors = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            result = json.loads(line)
            errors[result["name"]] = result["error"] or ""
    return {block.name: errors.get(block.name, done.stderr or "died") for block in blocks}


# ---- C and C++ -----------------------------------------------------------------------------------


@functools.cache
def built_examples() -> dict[str, str]:
    """The blocks that the program docs_examples was built from, with the hash of their text."""
    done = subprocess.run([os.environ["ROTARY_DOCS_EXAMPLES"]], capture_output=True, text=True,
                          check=True)  # fmt: skip
    return dict(line.split() for line in done.stdout.splitlines())


def run_compiled(block: Block, folder: pathlib.Path) -> str:
    if block.name not in built_examples():
        return "is not part of docs_examples: name its page in tests/CMakeLists.txt, and build"
    if built_examples()[block.name] != hash_of(block):
        return "has changed since docs_examples was built"
    if block.reason:
        return ""
    done = process([os.environ["ROTARY_DOCS_EXAMPLES"], block.name], folder)
    return "" if done.returncode == 0 else done.stderr or f"exit code {done.returncode}"


# ---- CMake and JSON ------------------------------------------------------------------------------


def cmake_calls(text: str) -> list[tuple[str, list[str]]]:
    """Commands and their arguments; of a target's commands those after its name, which is free."""
    found = re.findall(r"(\w+)\(([^()]*)\)", re.sub(r"#.*", "", text))
    return [(name, words.split()[name.startswith(("target_", "add_")) :]) for name, words in found]


def check_cmake(block: Block) -> str:
    """Every command is one of a project that another test builds against the installed library."""
    known = [
        call for p in PROJECTS for call in cmake_calls((ROOT / p / "CMakeLists.txt").read_text())
    ]
    for name, words in cmake_calls(block.text):
        if not any(name == other and set(words) <= set(others) for other, others in known):
            return f"no project that is tested has {name}(.. {' '.join(words)})"
    return ""


def check_json(block: Block, folder: pathlib.Path) -> str:
    """A config.json of a model is read by the command, and by the commands below it on the page."""
    try:
        values = json.loads(block.text)
    except json.JSONDecodeError as error:
        return str(error)
    if not isinstance(values, dict) or "model_type" not in values:
        return "is no config.json, and there is no test for other JSON"
    path = folder / "config.json"
    path.write_text(block.text)
    done = process(["rotary", "inspect", str(path)], folder)
    return "" if done.returncode == 0 else done.stderr


# ---- Commands ------------------------------------------------------------------------------------


RUNS = ("", "takes minutes")  # reasons of blocks whose commands are run


def wrong_with_line(line: str, reason: str) -> str:
    for words in commands.simple_commands(line):
        wrong = commands.wrong_with(words)
        if wrong:
            return wrong
        program = pathlib.PurePath(words[0]).name
        if program not in commands.RUN and reason in RUNS:
            return f"{program} cannot be run here, and the block is not marked so"
    return ""


def run_commands(block: Block, folder: pathlib.Path) -> str:
    lines = commands.lines_of(block.text)
    for line in lines:
        wrong = wrong_with_line(line, block.reason)
        if wrong:
            return f"{line}\n{wrong}"
    if block.reason not in RUNS:
        return ""
    if block.language == "console":
        return run_console(block, folder)
    if block.reason:
        lines = [commands.shorter(line) for line in lines]
    script = "trap 'echo \"failed: $BASH_COMMAND\" >&2' ERR\n" + "\n".join(lines)
    done = process(["bash", "-e", "-o", "pipefail", "-c", script], folder)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def run_console(block: Block, folder: pathlib.Path) -> str:
    """Commands with what they print; a line [...] stands for any number of lines."""
    for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        command, expected = part.split("\n", 1)
        if block.reason:
            command = commands.shorter(command)
        done = process(["bash", "-c", command], folder)
        if done.returncode != 0:
            return done.stdout + done.stderr
        hide = hide_numbers if block.reason else str
        pattern = "".join(
            r"(.*\n)*" if line.strip() == "[...]" else re.escape(hide(line.rstrip())) + "\n"
            for line in expected.splitlines()
        )
        printed = "".join(hide(line.rstrip()) + "\n" for line in done.stdout.splitlines())
        if not expected.strip() or not re.fullmatch(pattern, printed):
            return f"$ {command}\nprints\n{done.stdout}"
    return ""


def hide_numbers(line: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"\d+(\.\d+)?", "#", line))
