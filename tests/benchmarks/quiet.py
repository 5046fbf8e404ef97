"""The daemon's passes over very many idle runs, and its look at their volumes.

``python -m tests.benchmarks.quiet SCRATCH [--runs N …]``

Runs of 20 checkpoints on a primary and a mirror. The first pass over a run writes down its volumes, the second and
third look at everything and find nothing to do; from then on a pass over it is quiet.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import time
from pathlib import Path

from prune import logs
from prune.service.daemon import Daemon
from prune.service.source import Source
from prune.settings.load import load
from prune.settings.schema import Settings
from tests.benchmarks import make

STEPS = 20
PASSES = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--runs", type=int, nargs="+", default=[1000, 10_000])
    options = parser.parse_args()
    for runs in options.runs:
        _measured(options.scratch.resolve() / f"quiet-{runs}", runs)


def _measured(scratch: Path, runs: int) -> None:
    shutil.rmtree(scratch, ignore_errors=True)
    make.fleet(scratch / "P", runs, STEPS)
    subprocess.run(["cp", "-a", scratch / "P", scratch / "M"], check=True)
    daemon = Daemon(Source(lambda: _settings(scratch)))
    print(f"\n### {runs:,} runs × {STEPS} steps × 2 replicas\n")
    print("| pass | wall s | processor s | peak MiB |\n|---|---|---|---|")
    found = _found_by_find(scratch)
    quiet = 0.0
    for number in range(1, PASSES + 1):
        wall, cpu = time.perf_counter(), time.process_time()
        daemon.worker.pass_over("all", daemon.source.settings.runs)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"| {number} | {wall:.2f} | {cpu:.2f} | {peak:.0f} |", flush=True)
        quiet = wall
    wall = time.perf_counter()
    daemon.worker.look_at_volumes()
    print(f"| volumes | {time.perf_counter() - wall:.5f} | | |\n| find -printf | {found:.2f} | | |")
    print(f"\na quiet pass / find -printf: **{quiet / found:.2f}**, target ≤ 1.5", flush=True)


def _settings(scratch: Path) -> Settings:
    config = scratch / "prune.toml"
    config.write_text(
        f'state = "sqlite:///{scratch}/state.db"\n[[runs]]\nname = "{{run}}"\nprimary = "{scratch}/P/{{run}}"\n'
        f'mirrors = ["{scratch}/M/{{run}}"]\n[runs.keep]\nlast = {STEPS}\n'
    )
    return load(str(config))


def _found_by_find(scratch: Path) -> float:
    started = time.perf_counter()
    subprocess.run(
        ["find", scratch / "P", scratch / "M", "-printf", "%p %T@ %s\n"], stdout=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - started


if __name__ == "__main__":
    logs.configure(quiet=True)
    main()
