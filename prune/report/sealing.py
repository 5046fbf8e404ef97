"""What sealing did, as the JSON that programs rely on and as lines: ``prune.seal/1``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prune.planner.words import count
from prune.report.json import block_to_json
from prune.report.lines import Cell, Report, line, printable
from prune.seal import Refused, Sealing
from prune.settings.units import format_size

SEAL_SCHEMA = "prune.seal/1"
_SHOWN = 12


def sealed_to_json(found: Sequence[Sealing]) -> dict[str, Any]:
    return {"schema": SEAL_SCHEMA, "runs": [_run_to_json(run) for run in found]}


def _run_to_json(run: Sealing) -> dict[str, Any]:
    return {
        "run": run.run,
        "sealed": [
            {"step": each.step, "replica": each.replica, "paths": list(each.paths), "files": each.files,
             "bytes": each.bytes, "manifest": each.manifest, "sidecar": each.sidecar}
            for each in run.sealed
        ],
        "already": run.already,
        "refused": [_refused_to_json(each) for each in run.refused],
        "failed": [_refused_to_json(each) for each in run.failed],
        "blocks": [block_to_json(block) for block in run.blocks],
    }  # fmt: skip


def _refused_to_json(each: Refused) -> dict[str, Any]:
    health = each.health.value if each.health else None
    return {"step": each.step, "replica": each.replica, "path": each.path, "health": health, "detail": each.detail}


def sealed_report(found: Sequence[Sealing], *, verbose: bool = False) -> Report:
    report: Report = []
    for run in found:
        report += _run_report(run, verbose=verbose)
    return report


def _run_report(run: Sealing, *, verbose: bool) -> Report:
    report: Report = [line(Cell(printable(run.run), "strong"), f": {_headline(run)}")]
    for each in run.sealed if verbose else run.sealed[:_SHOWN]:
        text = f"sealed step {each.step} on {each.replica}: {count(each.files, 'file')}, {format_size(each.bytes)}"
        report.append(line(text, indent=2))
    if not verbose and len(run.sealed) > _SHOWN:
        report.append(line(Cell(f"… and {len(run.sealed) - _SHOWN} more; --verbose shows all", "dim"), indent=2))
    for word, several in (("REFUSED ", run.refused), ("FAILED ", run.failed)):
        for copy in several:
            what = f"step {copy.step} on {copy.replica}: {printable(copy.detail)}"
            report.append(line(Cell(word, "bad"), what, indent=2))
    for block in run.blocks:
        on = f" ({block.replica})" if block.replica else ""
        report.append(line(Cell("BLOCKED ", "bad"), f"{block.block}{on}: {printable(block.detail)}", indent=2))
    return report


def _headline(run: Sealing) -> str:
    if run.blocks:
        return "nothing sealed"
    parts = [f"{len(run.sealed)} sealed", f"{run.already} already"]
    parts += [f"{len(run.refused)} refused"] if run.refused else []
    parts += [f"{len(run.failed)} failed"] if run.failed else []
    return ", ".join(parts)
