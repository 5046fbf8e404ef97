"""What checking copies found, as the JSON that programs rely on and as lines: ``prune.verify/1``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from prune.model import Copy, Health
from prune.report.json import attention_to_json, block_to_json
from prune.report.lines import Cell, Grid, Line, Report, Style, line, listed, printable
from prune.report.tables import attention_lines
from prune.report.times import iso
from prune.verify import DAMAGE, Verified

VERIFY_SCHEMA = "prune.verify/1"
STYLES: dict[Health, Style] = {
    Health.INTACT: "good",
    Health.WHOLE: "good",
    Health.UNVERIFIED: "",
    Health.SUSPECT: "bad",
    Health.BROKEN: "bad",
    Health.UNKNOWN: "warn",
    Health.IN_FLIGHT: "dim",
}


def verified_to_json(found: Sequence[Verified], *, check: str) -> dict[str, Any]:
    return {"schema": VERIFY_SCHEMA, "check": check, "runs": [_run_to_json(run) for run in found]}


def _run_to_json(run: Verified) -> dict[str, Any]:
    return {
        "run": run.run,
        "copies": [_copy_to_json(copy) for copy in run.copies],
        "blocks": [block_to_json(block) for block in run.unseen],
        "attention": attention_to_json(run.attention),
    }


def _copy_to_json(copy: Copy) -> dict[str, Any]:
    return {
        "step": copy.step,
        "replica": copy.replica,
        "paths": list(copy.paths),
        "health": copy.health.value if copy.health else None,
        "detail": copy.detail,
        "bytes": copy.size,
        "verified_at": iso(copy.verified_ns),
    }


def verified_report(found: Sequence[Verified], *, verbose: bool = False) -> Report:
    """Every run's counts; copies that are not well each with its reason, all of them when ``verbose``."""
    report: Report = []
    for run in found:
        report += _run_report(run, verbose=verbose)
    return report


def _run_report(run: Verified, *, verbose: bool) -> Report:
    counts = Counter(copy.health for copy in run.copies)
    words = [f"{counts[health]} {health.value}" for health in Health if counts[health]]
    report: Report = [line(Cell(printable(run.run), "strong"), f": {listed(words) if words else 'no copies'}")]
    shown = [copy for copy in run.copies if verbose or copy.health in DAMAGE or copy.health is Health.UNKNOWN]
    if shown:
        report.append(_table(shown))
    report += [_unseen(block.block, block.replica, block.detail) for block in run.unseen]
    report += attention_lines(run.attention)
    return report


def _table(copies: Sequence[Copy]) -> Grid:
    grid = Grid(("step", "replica", "health", "path", "why"), right=frozenset({"step"}))
    for copy in copies:
        assert copy.health is not None
        health = Cell(copy.health.value, STYLES[copy.health])
        path = printable(copy.paths[0]) + (f" +{len(copy.paths) - 1}" if len(copy.paths) > 1 else "")
        row = (Cell(str(copy.step)), Cell(copy.replica), health, Cell(path), Cell(printable(copy.detail or "")))
        grid.rows.append(row)
    return grid


def _unseen(block: str, replica: str | None, detail: str) -> Line:
    on = f" ({replica})" if replica else ""
    return line(Cell("NOT SEEN ", "bad"), f"{block}{on}: {printable(detail)}", indent=2)
