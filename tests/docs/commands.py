# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""The commands of the pages: whether their verbs, flags, targets and files exist, and shorter forms
of those that take minutes."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re
import shlex
import subprocess

from pages import ROOT
from reader import COMMANDS

RUN = {"cd", "export", "roformer", "rotary", "torchrun"}  # commands of others are only checked

MODULES = {"rotary", "build"}  # that pages run with `python -m`
FLAGS_OF_OTHERS = {"--no-build-isolation"}  # that pages name without their program

# Flags that shorten a command, and values that replace those of a page; TARGET is a SIMD target of
# this machine.
SHORTER = {
    "rotary bench": ({"--quick": "", "--shape": "decode"}, {"--target": "TARGET"}),
    "roformer pretrain": ({"--stages": "32x4x2"}, {"--model": "tiny"}),
    "roformer evaluate": ({"--tokens": "2000"}, {}),
    "roformer bench": ({"--rows": "2", "--length": "16", "--steps": "1", "--warmup": "0"}, {}),
    "roformer lab": ({"--config": "lab.json", "--variants": "rope"}, {}),
    "torchrun": ({}, {"--nproc-per-node": "2"}),
}


def lines_of(text: str) -> list[str]:
    """The commands of a block of sh, or of a block of console: those after `$ `."""
    joined = text.replace("\\\n", " ")
    if re.search(r"^\$ ", text, re.M):
        return re.findall(r"^\$ (.*)$", joined, re.M)
    return [line for line in joined.splitlines() if shlex.split(line, comments=True)]


def words_of(line: str) -> list[str]:
    return shlex.split(line, comments=True)


def simple_commands(line: str) -> list[list[str]]:
    """The words of each command of a line; what follows `torchrun` is a command of its own."""
    found: list[list[str]] = [[]]
    for word in words_of(line):
        if word in ("|", "&&", ";"):
            found.append([])
        else:
            if word in COMMANDS and found[-1] and found[-1][0] == "torchrun":
                found.append([])
            found[-1].append(word)
    return found


# ---- What exists ---------------------------------------------------------------------------------


@functools.cache
def help_of(program: str, verb: str = "") -> str:
    command = [os.environ[COMMANDS[program]], *([verb] if verb else []), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def section(text: str, title: str) -> str:
    found = re.search(rf"^{title}:\n(.*?)(\n\n|\Z)", text, re.M | re.S)
    return found[1] if found else ""


def verbs_of(program: str) -> set[str]:
    return set(re.findall(r"^  ([a-z-]+) ", section(help_of(program), "Verbs"), re.M))


def flags_of(program: str, verb: str = "") -> set[str]:
    options = section(help_of(program, verb), "Options")
    first = re.findall(r"^  (-[-\w]+)(?:,(--[-\w]+))?", options, re.M)
    return {flag for flags in first for flag in flags if flag}


@functools.cache
def make_targets() -> set[str]:
    rules = re.findall(r"^([a-z][a-z -]*):(?!=)", (ROOT / "Makefile").read_text(), re.M)
    return {target for rule in rules for target in rule.split()}


@functools.cache
def cmake_options() -> set[str]:
    files = [ROOT / "CMakeLists.txt", *ROOT.glob("*/CMakeLists.txt"), *ROOT.glob("cmake/*.cmake")]
    text = "\n".join(file.read_text() for file in files)
    return set(re.findall(r"(?:option|set)\(\s*(ROTARY_\w+)", text))


# ---- What is wrong with a command ----------------------------------------------------------------


def wrong_with(words: list[str]) -> str:
    """What a command names that does not exist; "" if it is all there."""
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    if not words:
        return ""
    program = pathlib.PurePath(words[0]).name
    if program in COMMANDS:
        return wrong_with_ours(program, words[1:])
    check = {"make": wrong_with_make, "pip": wrong_with_pip, "cmake": wrong_with_cmake,
             "ctest": wrong_with_cmake, "torchrun": wrong_with_torchrun}.get(program)  # fmt: skip
    if check:
        return check(words[1:])
    if program in ("cd", "export"):
        return ""
    if program == "python":
        words = words[1:]
        if words[:1] == ["-m"]:
            return "" if words[1] in MODULES else f"no module {words[1]}"
    return wrong_with_script(words)


def flags_in(words: list[str]) -> list[str]:
    return [word.split("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)]


def wrong_with_ours(program: str, words: list[str]) -> str:
    verb = words[0] if words and not words[0].startswith("-") else ""
    if verb and verb != "VERB" and verb not in verbs_of(program):
        return f"{program} has no verb {verb}"
    known = flags_of(program, "" if verb == "VERB" else verb)
    unknown = [flag for flag in flags_in(words) if flag not in known]
    return f"{program} {verb} has no flag {unknown[0]}" if unknown else ""


def wrong_with_make(words: list[str]) -> str:
    for word in words:
        name, is_variable, _ = word.partition("=")
        if is_variable and not re.search(rf"\b{name}\b", (ROOT / "Makefile").read_text()):
            return f"make: no variable {name}"
        if not is_variable and name not in make_targets():
            return f"make: no target {name}"
    return ""


def wrong_with_pip(words: list[str]) -> str:
    if words[:1] != ["install"]:
        return "pip: expected install"
    project = (ROOT / "pyproject.toml").read_text()
    extras = re.search(r"^\[project.optional-dependencies\]\n(.*?)^\[", project, re.M | re.S)[1]
    for extra in re.findall(r"\.\[(.*?)\]", " ".join(words)):
        if not re.search(rf"^{extra} = ", extras, re.M):
            return f"pip: pyproject.toml has no extra {extra}"
    defined = re.findall(r"(?:define\.|-D)(\w+)", " ".join(words))
    return wrong_with_cmake([f"-D{name}" for name in defined])


def wrong_with_cmake(words: list[str]) -> str:
    for option in re.findall(r"-D\s?(ROTARY_\w+)", " ".join(words)):
        if option not in cmake_options():
            return f"CMake: no option {option}"
    presets = json.loads((ROOT / "CMakePresets.json").read_text())
    names = {preset["name"] for preset in presets["configurePresets"]}
    for preset in re.findall(r"--preset[ =](\S+)", " ".join(words)):
        if preset not in names:
            return f"CMake: no preset {preset}"
    return ""


def wrong_with_torchrun(words: list[str]) -> str:
    from torch.distributed.run import get_args_parser

    known = get_args_parser()._option_string_actions
    unknown = [flag for flag in flags_in(words) if flag not in known]
    return f"torchrun has no flag {unknown[0]}" if unknown else ""


def wrong_with_script(words: list[str]) -> str:
    """A script of ours: its file, and that its text has the flags."""
    path = ROOT / words[0]
    if not path.is_file():
        return f"no file {words[0]}"
    if path.suffix != ".py" and not os.access(path, os.X_OK):
        return f"{words[0]} is not executable"
    text = path.read_text()
    unknown = [flag for flag in flags_in(words[1:]) if flag not in text and "-D" not in flag]
    return f"{words[0]} has no flag {unknown[0]}" if unknown else ""


# ---- Shorter forms -------------------------------------------------------------------------------


@functools.cache
def scalar_target() -> str:
    """The last of the targets that `rotary bench` lists: every machine has it."""
    command = [os.environ[COMMANDS["rotary"]], "bench", "--target", "none"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    return re.search(r"\(([^)]*)\)", listed)[1].split(", ")[-1]


def with_flag(words: list[str], flag: str, value: str) -> list[str]:
    """The words with this value of a flag, at the end if there was none; value "" is a switch."""
    if flag in words:
        at = words.index(flag)
        return [*words[: at + 1], value, *words[at + 2 :]] if value else words
    return [*words, flag, value] if value else [*words, flag]


def shorter(line: str) -> str:
    """A command that takes minutes, in a form that takes seconds."""
    found = simple_commands(line)
    forms = [SHORTER.get(" ".join(words[:2]), SHORTER.get(words[0])) for words in found]
    if not any(forms):
        return line
    if "|" in line:
        raise ValueError(f"no shorter form of a pipe: {line}")
    parts = []
    for words, form in zip(found, forms):
        always, if_given = form or ({}, {})
        if "--resume" in words:
            always = {}
        for flag, value in always.items():
            words = with_flag(words, flag, value)
        for flag, value in if_given.items():
            if flag in words and not words[words.index(flag) + 1].startswith("{"):
                words = with_flag(words, flag, scalar_target() if value == "TARGET" else value)
        parts.append(shlex.join(words))
    return " ".join(parts)
