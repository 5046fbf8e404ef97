"""What mirroring did, as the JSON that programs rely on and as lines: ``prune.mirror/1``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prune.mirror import Mirrored
from prune.report.json import attention_to_json, block_to_json
from prune.report.lines import Cell, Report, line, listed, printable
from prune.report.tables import attention_lines
from prune.settings.units import format_size

MIRROR_SCHEMA = "prune.mirror/1"
_SHOWN = 12


def mirrored_to_json(found: Sequence[Mirrored]) -> dict[str, Any]:
    return {"schema": MIRROR_SCHEMA, "runs": [_run_to_json(run) for run in found]}


def _run_to_json(run: Mirrored) -> dict[str, Any]:
    return {
        "run": run.run,
        "copied": [
            {"step": c.step, "replica": c.replica, "bytes": c.bytes, "sha256": c.sha256, "repaired": c.repaired}
            for c in run.copied
        ],
        "failed": [{"step": f.step, "replica": f.replica, "error": f.error} for f in run.failed],
        "pointers": [{"replica": replica, "path": path} for replica, path in run.pointers],
        "blocks": [block_to_json(block) for block in run.blocks],
        "attention": attention_to_json(run.attention),
    }


def mirrored_report(found: Sequence[Mirrored], *, verbose: bool = False) -> Report:
    report: Report = []
    for run in found:
        report += _run_report(run, verbose=verbose)
    return report


def _run_report(run: Mirrored, *, verbose: bool) -> Report:
    report: Report = [line(Cell(printable(run.run), "strong"), f": {_headline(run)}")]
    for copy in run.copied if verbose else run.copied[:_SHOWN]:
        word = "repaired" if copy.repaired else "copied"
        text = f"{word} step {copy.step} on {copy.replica}: {format_size(copy.bytes)}, SHA-256 {copy.sha256[:12]}…"
        report.append(line(text, indent=2))
    if not verbose and len(run.copied) > _SHOWN:
        report.append(line(Cell(f"… and {len(run.copied) - _SHOWN} more; --verbose shows all", "dim"), indent=2))
    for failed in run.failed:
        what = f"step {failed.step}" if failed.step >= 0 else "a pointer"
        report.append(line(Cell("FAILED ", "bad"), f"{what} on {failed.replica}: {printable(failed.error)}", indent=2))
    for block in run.blocks:
        on = f" ({block.replica})" if block.replica else ""
        report.append(line(Cell("BLOCKED ", "bad"), f"{block.block}{on}: {printable(block.detail)}", indent=2))
    return report + attention_lines(run.attention)


def _headline(run: Mirrored) -> str:
    if run.copied:
        size = format_size(sum(copy.bytes for copy in run.copied))
        on = listed(sorted({copy.replica for copy in run.copied}))
        return f"{len(run.copied)} {'copy' if len(run.copied) == 1 else 'copies'} ({size}) to {on}"
    if run.failed or run.blocks:
        return "nothing copied"
    return "nothing to copy"
