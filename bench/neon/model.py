# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""What a token would take on a Neoverse-V1, where none is at hand.

An emulator traces the instructions of one public call, and LLVM's model of the core says in how
many cycles they can be done: every branch predicted, everything in the first-level cache. It is a
floor, not a measurement. From the repository's root, with Debian's g++-aarch64-linux-gnu,
qemu-user, llvm-19 and an unpacked libhwy-dev:arm64:

    cmake -B build/arm -DCMAKE_TOOLCHAIN_FILE=... -DROTARY_BUILD_BENCHMARKS=ON ...
    python bench/neon/model.py build/arm/bin/one_call --libraries ROOT/usr/lib/aarch64-linux-gnu
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

GIGAHERTZ = 2.6
TYPES = ("fp32", "bf16", "fp16")
PAIRINGS = ("half", "interleaved")
DECODE = 1
IN_CACHE = 64
OUT_OF_CACHE = 160  # as few as the engine takes for tensors that come from memory
CASES = [
    *((t, p, z, DECODE) for t in TYPES for p in PAIRINGS for z in ("ready", "on_the_fly")),
    *(("fp32", p, "ready", IN_CACHE) for p in PAIRINGS),
    *((t, p, "ready", OUT_OF_CACHE) for t in TYPES for p in PAIRINGS),
]
MOST = 60_000  # instructions given to the model
LOADED_AT = 0x5500000000  # where qemu puts a program that may lie anywhere


def output_of(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def disassemble(program: str) -> dict[int, str]:
    """Instructions by their addresses."""
    lines = output_of(["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", program])
    found = re.finditer(r"^\s*([0-9a-f]+):\s+(.*?)\s*(?://.*)?$", lines, re.MULTILINE)
    return {int(line[1], 16): line[2] for line in found}


def trace(program: str, arguments: tuple[str, ...], libraries: str) -> list[int]:
    """Addresses of the instructions between the two marks."""
    emulate = ["qemu-aarch64", "-cpu", "max", "-L", "/usr/aarch64-linux-gnu"]
    emulate += ["-E", f"LD_LIBRARY_PATH={libraries}:/usr/aarch64-linux-gnu/lib"]
    emulate += ["-singlestep", "-d", "exec,nochain", "-D", "/dev/stdout", program, *arguments]
    addresses: list[int] = []
    inside = False
    with subprocess.Popen(emulate, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "mark_begin" in line:
                inside = True
            elif "mark_end" in line:
                break
            elif inside and line.startswith("Trace"):
                addresses.append(int(line.split("/")[1], 16) - LOADED_AT)
        process.kill()
    if not addresses:
        sys.exit(f"nothing was traced: does `{program} {' '.join(arguments)}` run?")
    return addresses


def assemble(instruction: str) -> str:
    """As an assembler takes it: addresses become distances, which cost nothing."""
    name = instruction.split()[0]
    if name == "b" or name.startswith("b."):
        return f"{name} #8"
    distance = "#4096" if name == "adrp" else "#8"
    return re.sub(r",\s*[0-9a-f]+ <.*", f", {distance}", instruction)


def cycles(instructions: list[str]) -> float:
    """Of instructions that follow others like them."""
    repeats = 10 if len(instructions) < MOST else 1
    calls = {"bl", "blr", "ret"}  # the model does not know where they lead
    text = "\n".join(assemble(i) for i in instructions if i.split()[0] not in calls)
    with tempfile.NamedTemporaryFile("w", suffix=".s", delete=False) as file:
        file.write(text + "\n")
    model = ["llvm-mca-19", "-mtriple=aarch64", "-mcpu=neoverse-v1", f"-iterations={repeats}"]
    report = output_of([*model, "-instruction-info=0", "-resource-pressure=0", file.name])
    os.unlink(file.name)
    total = re.search(r"Total Cycles:\s+(\d+)", report)
    assert total is not None
    return int(total[1]) / repeats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="one_call, built for AArch64")
    parser.add_argument("--libraries", default="", help="folder with libhwy.so for AArch64")
    arguments = parser.parse_args()
    code = disassemble(arguments.program)
    print(f"TOKENSx(32+8)x128 in place; Neoverse-V1 by LLVM's model, {GIGAHERTZ} GHz; a token:")
    print("type  pairing      tables      tokens  instructions  cycles     ns")
    for dtype, pairing, tables, tokens in CASES:
        call = (dtype, pairing, tables, str(tokens))
        addresses = trace(arguments.program, call, arguments.libraries)
        known = [code[address] for address in addresses if address in code]
        part = known[-MOST:]
        took = cycles(part) * len(known) / len(part) / tokens
        print(
            f"{dtype:5} {pairing:12} {tables:11} {tokens:6} {len(known) / tokens:13.0f} "
            f"{took:7.0f} {took / GIGAHERTZ:6.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
