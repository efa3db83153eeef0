# Copyright 2026 The rotary authors.
# SPDX-License-Identifier: Apache-2.0
"""`roformer lab` as a command: results, report, errors, and what Ctrl-C leaves."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

from roformer_command import run

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = {
    "steps": 3,
    "rows": 2,
    "lengths": [16, 32],
    "train_length": 16,
    "encoder_training": {"steps": 2},
    "decode_tokens": 2,
    "cost_steps": 2,
    "model": {"hidden_size": 16, "num_hidden_layers": 1, "intermediate_size": 16},
}


def lab(tmp_path, *arguments, code=0, **changes):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(TINY | changes))
    return run("lab", "length", "-o", tmp_path / "out", "--quick", "--device", "cpu",
               "--config", config, *arguments, code=code)  # fmt: skip


def test_results_and_report(tmp_path):
    said = lab(tmp_path, "--variants", "rope,alibi", "--seeds", "2")
    assert "rope, seed 1" in said
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert list(results) == ["lab", "machine", "commit", "settings", "rows"]
    assert results["settings"]["steps"] == 3
    rows = [r for r in results["rows"] if r["metric"] == "perplexity"]
    assert [(r["variant"], r["seed"], r["at"]["length"]) for r in rows] == [
        (variant, seed, length)
        for variant in ("rope", "alibi")
        for seed in (0, 1)
        for length in (16, 32)
    ]
    report = tmp_path / "out" / "report.md"
    before = report.read_text()
    report.unlink()
    plots = sorted(tmp_path.glob("out/*.png"))
    for plot in plots:
        plot.unlink()
    run("lab", "report", tmp_path / "out", "--no-png")
    assert report.read_text() == before and not any(plot.exists() for plot in plots)
    run("lab", "report", tmp_path / "out")
    assert sorted(tmp_path.glob("out/*.png")) == plots


def test_errors_are_one_line(tmp_path):
    assert "perhaps length" in run("lab", "lenght", "-o", tmp_path / "x", code=2)
    assert "-o DIR" in run("lab", "length", code=2)
    assert "results.json" in run("lab", "report", tmp_path, code=1)
    assert "no setting of this lab" in lab(tmp_path, code=1, stepz=1)
    said = lab(tmp_path, code=1, encoder_training={"step": 1})
    assert "encoder_training.step: no setting of this lab; perhaps steps" in said
    assert "no variant ropes; perhaps rope" in lab(tmp_path, "--variants", "ropes", code=2)
    lab(tmp_path, "--variants", "rope")
    assert "steps: 3 there, 4 here" in lab(tmp_path, code=2, steps=4)


def test_interrupt_and_continue(tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(TINY | {"steps": 100000}))
    arguments = ["-o", tmp_path / "out", "--quick", "--device", "cpu", "--config", config]
    command = [os.environ["ROFORMER_COMMAND"], "lab", "length", *arguments, "--variants", "rope"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    lock = tmp_path / "out" / "lock"
    until = time.monotonic() + 60
    while not lock.exists() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    said, _ = child.communicate(timeout=120)
    assert child.returncode == 0
    assert "the same command continues" in said
    checkpoints = list((tmp_path / "out" / "runs" / "rope-0").glob("model/checkpoints/step-*"))
    assert len(checkpoints) == 1


def kept_reports(folder):
    """Reports of the kept results."""
    for results in sorted((ROOT / "bench" / "results" / "lab").glob("*/results.json")):
        lab_folder = folder / results.parent.name
        lab_folder.mkdir()
        shutil.copy(results, lab_folder)
        run("lab", "report", lab_folder, "--no-png")  # the page has none


def check_page(reports):
    command = [sys.executable, ROOT / "scripts" / "lab_docs.py", reports, "--check"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_page_holds_the_kept_numbers(tmp_path):
    """Tables, sentences, claims and plots of docs/lab.md are those that the kept results give."""
    kept_reports(tmp_path)
    done = check_page(tmp_path)
    assert done.returncode == 0, done.stderr
    # Other results are noticed in all of them.
    results = tmp_path / "length" / "results.json"
    kept = json.loads(results.read_text())
    for row in kept["rows"]:
        if row["variant"] == "rope" and row["metric"] == "perplexity":
            row["value"] = 60.0
    results.write_text(json.dumps(kept))
    run("lab", "report", results.parent, "--no-png")
    done = check_page(tmp_path)
    assert done.returncode == 1
    for message in (
        "'length, Perplexity, disjoint rows' is not as in the report",
        "not so: length: all(mean(v",
        "length-perplexity.svg is not the plot",
    ):
        assert message in done.stderr


def test_plots_on_a_machine_without_fonts(tmp_path):
    """No message of fontconfig, and text all the same, by cairo's own font."""
    lab(tmp_path, "--variants", "rope")
    plot = tmp_path / "out" / "perplexity.svg"
    assert plot.exists()
    plot.unlink()
    environment = os.environ | {"FONTCONFIG_FILE": str(tmp_path / "none.conf")}
    command = [os.environ["ROFORMER_COMMAND"], "lab", "report", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "ontconfig" not in done.stdout + done.stderr
    assert len(plot.read_text()) > 20_000  # glyphs are paths


# Stands in for the command: notes its arguments, and runs until it is interrupted where it is told.
STUB = """#!/bin/bash
[[ $2 != --help ]] || { printf 'NAME is one of\\n  length  x\\n  image   y\\n\\nend\\n'; exit; }
printf '%s ' "$@" >>"$STUB_LOG"; echo >>"$STUB_LOG"
if [[ $STUB_ENDLESS == "$2" ]]; then
  trap 'echo "stopped; the same command continues"; exit 0' INT
  while :; do sleep 0.1; done
fi
echo "report: done"
"""


def gpu_lab(tmp_path, *arguments, **environment):
    stub = tmp_path / "roformer"
    stub.write_text(STUB)
    stub.chmod(0o755)
    log = tmp_path / "log"
    log.write_text("")
    env = os.environ | {
        "ROFORMER": str(stub),
        "STUB_LOG": str(log),
        "STUB_ENDLESS": "",
        "DEVICE": "cpu",
    }
    command = ["bash", ROOT / "scripts/gpu_lab.sh", "--results", tmp_path / "out", *arguments]
    env |= environment
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=60)
    return done, [line.split() for line in log.read_text().splitlines()]


def test_script_for_gpus_passes_variants_on(tmp_path):
    out = str(tmp_path / "out")
    done, calls = gpu_lab(tmp_path, "--quick")
    assert done.returncode == 0, done.stderr
    assert calls == [["lab", name, "-o", f"{out}/{name}", "--device", "cpu", "--quick"]
                     for name in ("length", "image")]  # fmt: skip
    done, calls = gpu_lab(
        tmp_path, "--quick", "--labs", "length", "--variants", "learned,shaw", "--rerun"
    )
    assert done.returncode == 0, done.stderr
    assert calls[0][-3:] == ["--variants", "learned,shaw", "--rerun"]
    done, calls = gpu_lab(tmp_path, "--quick", "--labs", "length", "--no-graphs")
    assert done.returncode == 0, done.stderr
    assert calls == [
        ["lab", "length", "-o", f"{out}/length", "--device", "cpu", "--no-graphs", "--quick"]
    ]
    for wrong in (["--rerun"], ["--variants", "a"], ["--labs", "length,image", "--variants", "a"]):
        done, calls = gpu_lab(tmp_path, "--quick", *wrong)
        assert done.returncode == 2 and calls == [] and "--variants" in done.stderr


def test_script_for_gpus_begins_no_lab_where_tests_fail(tmp_path):
    tests = tmp_path / "lab_test"
    arguments = ["--quick", "--labs", "length", "--tests", "--no-build"]
    done, calls = gpu_lab(tmp_path, *arguments, ROFORMER_LAB_TEST=str(tests))
    assert done.returncode == 2 and calls == [] and f"no program {tests}" in done.stderr
    for status in (0, 1):
        tests.write_text(f"#!/bin/sh\nexit {status}\n")
        tests.chmod(0o755)
        done, calls = gpu_lab(tmp_path, *arguments, ROFORMER_LAB_TEST=str(tests))
        assert done.returncode == status and len(calls) == 1 - status
        assert ("no lab is begun" in done.stderr) == (status == 1)


def test_script_for_gpus_keeps_a_time_limit(tmp_path):
    """The lab is interrupted as by Ctrl-C; one whose turn comes too late is not begun."""
    began = time.monotonic()
    done, calls = gpu_lab(tmp_path, "--quick", "--limit", "1", STUB_ENDLESS="length")
    assert time.monotonic() - began < 30
    assert [call[1] for call in calls] == ["length"]
    assert "length" in done.stdout and "did not end" in done.stdout
    assert "image      not begun: no time left" in done.stdout
    assert done.returncode == 2  # two labs are to be continued
