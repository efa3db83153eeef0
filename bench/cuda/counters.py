"""Hardware counters of single launches of src/cuda, by ncu: a table, and JSON lines.

    python3 counters.py <cuda_ladder> <file for JSON>

Clocks and caches are not controlled, and launches are warmed up. The cycles of a warp are its
issued instructions times the latency per instruction. Stall reasons: outstanding loads (memory),
instruction fetch (code), misses of the constant cache that holds the parameters (parameters),
barriers (barrier).
"""

import csv
import glob
import io
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
STALLS = {
    "waits_memory_percent": STALL.format("long_scoreboard"),
    "waits_code_percent": STALL.format("no_instruction"),
    "waits_parameters_percent": STALL.format("imc_miss"),
    "waits_barrier_percent": STALL.format("barrier"),
}
DIRECT = {
    "memory_percent": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "warps_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "issue_percent": "sm__inst_issued.avg.pct_of_peak_sustained_active",
}
METRICS = [
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "sm__cycles_active.avg",
    "sm__cycles_elapsed.max",
    "smsp__warps_launched.sum",
    "smsp__inst_executed.sum",
    LATENCY,
    *STALLS.values(),
    *DIRECT.values(),
]
HEADINGS = {
    "us": "us alone",
    "read_mb": "read MB",
    "written_mb": "written",
    "memory_percent": "memory %",
    "sm_percent": "SMs %",
    "warps_percent": "warps %",
    "issue_percent": "issue %",
    "warp_cycles": "warp cycles",
    "waits_memory_percent": "memory %",
    "waits_code_percent": "code %",
    "waits_parameters_percent": "parameters %",
    "waits_barrier_percent": "barrier %",
}


def find_ncu() -> str:
    """Path of ncu: on the PATH, or in a toolkit's folder."""
    candidates = glob.glob("/opt/nvidia/nsight-compute/*/ncu")
    candidates += glob.glob("/usr/local/cuda*/nsight-compute*/ncu")
    found = shutil.which("ncu") or (sorted(candidates)[-1] if candidates else None)
    if found is None:
        sys.exit("counters.py: ncu (Nsight Compute) not found")
    return found


def profile(ladder: str) -> tuple[list[str], list[dict[str, float]]]:
    """Names of the launches, and their metrics."""
    command = [find_ncu(), "--profile-from-start=off", "--clock-control=none", "--csv"]
    command += ["--cache-control=none", "--print-units=base", "--metrics=" + ",".join(METRICS)]
    with tempfile.TemporaryDirectory() as folder:
        log = pathlib.Path(folder) / "ncu.csv"
        command += [f"--log-file={log}", ladder, "counters"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        output = log.read_text() if log.exists() else ""
    if done.returncode != 0:
        sys.exit(output)
    rows = [line for line in output.splitlines() if line.startswith('"')]
    launches: list[dict[str, float]] = []
    for row in csv.DictReader(io.StringIO("\n".join(rows))):
        if int(row["ID"]) == len(launches):
            launches.append({})
        launches[-1][row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    return done.stdout.splitlines(), launches


def figures_of(m: dict[str, float]) -> dict[str, float]:
    """Columns of the table, from the metrics of a launch."""
    figures = {
        "us": m["gpu__time_duration.sum"] / 1e3,
        "read_mb": m["dram__bytes_read.sum"] / 1e6,
        "written_mb": m["dram__bytes_write.sum"] / 1e6,
        "sm_percent": 100 * m["sm__cycles_active.avg"] / m["sm__cycles_elapsed.max"],
        "warp_cycles": m[LATENCY] * m["smsp__inst_executed.sum"] / m["smsp__warps_launched.sum"],
    }
    figures |= {name: m[metric] for name, metric in DIRECT.items()}
    figures |= {name: 100 * m[metric] / m[LATENCY] for name, metric in STALLS.items()}
    return {name: round(value, 2) for name, value in figures.items()}


def main() -> None:
    names, launches = profile(sys.argv[1])
    if not names or len(names) != len(launches):
        sys.exit(f"counters.py: {len(names)} launches, counters of {len(launches)}")
    print("\nCounters of one launch, by ncu; shares of a warp's cycles by stall reason")
    print(" " * 34 + "".join(f"{h:>{len(h) + 2}}" for h in HEADINGS.values()))
    with open(sys.argv[2], "w") as lines:
        for name, launch in zip(names, launches, strict=True):
            figures = figures_of(launch)
            cells = (f"{figures[key]:>{len(h) + 2}.1f}" for key, h in HEADINGS.items())
            print(f"{name:<34}" + "".join(cells))
            lines.write(json.dumps({"launch": name, **figures}) + "\n")


if __name__ == "__main__":
    main()
