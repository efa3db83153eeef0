#!/usr/bin/env python3
# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""How training shares the CPU with other processes.

    bench_sharing.py PREFIX [--busy 0,1,2] [--rounds 5] [--wait NAME:VAR=VALUE,... ...]

PREFIX is a build folder, or where roformer is installed. Pretrains the model of examples/roformer
beside 0, 1, 2, ... processes that never wait, and prints tokens/s and CPU time per token (medians
over rounds):

    command   bin/roformer
    program   libexec/rotary/roformer: the same without what bin/roformer sets up, OpenMP's defaults
    NAME      the program with variables of --wait, such as passive:OMP_WAIT_POLICY=passive

With as many threads as cores, the fair share of training is cores / (cores + busy processes) of the
machine. `of share` is (tokens/s / the best tokens/s alone) / fair share.

`others` is the share of the machine that went to processes outside of the measurement. Rounds in
which it exceeds --max-others are repeated, up to three times as many rounds as asked for; with
--patience, each run first waits up to that many seconds for an idle machine.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "roformer"
FLAGS = ("--config", "pretrain.json", "--report-every", "1", "--device", "cpu")
WAIT_VARIABLES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")


def machine_seconds():
    """CPU time that all processes have used since the machine started."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system = stat.readline().split()[1:4]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


def wait_until_idle(patience, cores):
    """Returns when 95 % of the machine were idle for a second, or after `patience` seconds."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        before = machine_seconds()
        time.sleep(1)
        if machine_seconds() - before < 0.05 * cores:
            return


def child_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def train(command, environment, stages, busy, cores):
    """One run beside `busy` processes: its tokens/s, its CPU time per token, and `others`."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            machine, children, start = machine_seconds(), child_seconds(), time.monotonic()
            subprocess.run(
                [command, "pretrain", f"{folder}/run", *FLAGS, "--stages", stages],
                cwd=EXAMPLE,
                env=environment,
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            wall, trained = time.monotonic() - start, child_seconds() - children
            with open(f"{folder}/run/metrics.jsonl", encoding="utf-8") as lines:
                reports = [json.loads(line) for line in lines]
        for process in others:
            process.kill()
            process.wait()
        measured = child_seconds() - children
    finally:
        for process in others:
            process.kill()
    rates = [report["tokens_per_second"] for report in reports if "tokens_per_second" in report]
    rates = rates[len(rates) // 5 :]  # without the first steps, which allocate
    tokens = max(report.get("tokens", 0) for report in reports)
    outside = max(0.0, machine_seconds() - machine - measured) / (wall * cores)
    # The mean time of a step, not the mean rate: a descheduled step counts with its full time.
    return 1 / statistics.fmean(1 / rate for rate in rates), trained / tokens, outside


def median_of(runs, max_others):
    """Medians of the runs that others disturbed least; all of them if there are few such."""
    quiet = [run for run in runs if run[2] <= max_others] or runs
    return [statistics.median(values) for values in zip(*quiet)] + [len(quiet)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("prefix", type=Path, help="a build folder, or where roformer is installed")
    parser.add_argument("--busy", default="0,1,2", help="numbers of busy processes")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--stages", default="128x16x60", help="as of roformer pretrain")
    parser.add_argument("--wait", action="append", default=[], metavar="NAME:VAR=VALUE,...")
    parser.add_argument("--max-others", type=float, default=0.05)
    parser.add_argument("--patience", type=float, default=0, metavar="SECONDS")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    unset = {name: value for name, value in os.environ.items() if name not in WAIT_VARIABLES}
    program = str(options.prefix.resolve() / "libexec/rotary/roformer")
    variants = {
        "command": (str(options.prefix.resolve() / "bin/roformer"), unset),
        "program": (program, unset),
    }
    for wait in options.wait:
        name, _, settings = wait.partition(":")
        chosen = dict(pair.split("=", 1) for pair in settings.split(","))
        variants[name] = (program, unset | chosen)

    cases = [(int(busy), name) for busy in options.busy.split(",") for name in variants]
    runs = {case: [] for case in cases}
    for turn in range(3 * options.rounds):
        for busy, name in cases:
            quiet = sum(run[2] <= options.max_others for run in runs[busy, name])
            if turn < options.rounds or quiet < options.rounds:
                wait_until_idle(options.patience, cores)
                run = train(*variants[name], options.stages, busy, cores)
                runs[busy, name].append(run)
                print(f"# {busy} {name}: {run[0]:.0f} tokens/s, others {run[2]:.0%}", flush=True)

    print(f"{cores} cores")
    print("busy variant       tokens/s  CPU us/token  of alone  of share  others  runs")
    medians = {case: median_of(runs[case], options.max_others) for case in cases}
    alone = max((rate for (busy, _), (rate, *_) in medians.items() if busy == 0), default=None)
    for busy, name in cases:
        rate, cpu, others, count = medians[busy, name]
        of_alone = rate / alone if alone else float("nan")
        of_share = of_alone * (cores + busy) / cores
        print(f"{busy:>4} {name:<12} {rate:>9.0f} {1e6 * cpu:>13.1f} {of_alone:>9.2f}", end="")
        print(f" {of_share:>9.2f} {others:>7.1%} {count:>5}")


if __name__ == "__main__":
    main()
