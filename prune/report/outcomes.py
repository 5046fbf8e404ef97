"""What applying did, as a person reads it: measured figures, in the past tense."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prune.model import DeletedCopy, Outcome, RunOutcome
from prune.report.lines import Cell, Line, Report, line, listed, printable
from prune.report.tables import attention_lines
from prune.settings.units import format_size

_SHOWN = 10


def outcome_report(outcome: Outcome, *, verbose: bool = False) -> Report:
    """Every run's outcome; long lists are cut unless ``verbose``."""
    report: Report = []
    for run in outcome.runs:
        report += run_outcome_report(run, verbose=verbose)
    report.append(line(Cell(f"plan {outcome.plan}; `prune history` tells it later.", "dim")))
    return report


def run_outcome_report(run: RunOutcome, *, verbose: bool = False) -> Report:
    report: Report = [line(Cell(printable(run.run), "strong"), f": {_headline(run)}")]
    if run.blocked is not None:
        on = f" ({run.blocked.replica})" if run.blocked.replica else ""
        report.append(
            line(Cell("BLOCKED ", "bad"), f"{run.blocked.block}{on}: {printable(run.blocked.detail)}", indent=2)
        )
    report += [
        line(Cell("FAILED ", "bad"), f"step {copy.step} on {copy.replica}: {printable(copy.error)}", indent=2)
        for copy in run.failed
    ]
    report += _guarded(run, verbose=verbose)
    report += attention_lines(run.attention)
    report += _room(run)
    return report


def _headline(run: RunOutcome) -> str:
    parts = []
    if run.deleted:
        steps = {copy.step for copy in run.deleted}
        parts.append(f"deleted {count(len(steps), 'step')} ({_by_replica(run, run.deleted)})")
    if run.thinned:
        steps = {copy.step for copy in run.thinned}
        parts.append(f"thinned {count(len(steps), 'step')} to the weights ({_by_replica(run, run.thinned)})")
    if waiting := sum(not copy.purged for copy in (*run.deleted, *run.thinned)):
        parts.append(f"{count(waiting, 'copy', 'copies')} in the trash: `prune undo` puts back")
    if run.gone:
        parts.append(f"{count(len(run.gone), 'copy was', 'copies were')} already gone")
    if run.orphans_deleted:
        size = format_size(sum(size for _, _, size in run.orphans_deleted))
        parts.append(f"removed {count(len(run.orphans_deleted), 'temporary', 'temporaries')} of dead writers ({size})")
    return "; ".join(parts) if parts else "deleted nothing"


def _by_replica(run: RunOutcome, copies: Iterable[DeletedCopy]) -> str:
    freed: Counter[str] = Counter(dict.fromkeys(run.free_before, 0))  # in the order of the replicas
    for copy in copies:
        freed[copy.replica] += copy.bytes
    sizes = [f"{format_size(size)} on {replica}" for replica, size in freed.items() if size]
    return listed(sizes) if sizes else "which held nothing of their own"


def _guarded(run: RunOutcome, *, verbose: bool) -> list[Line]:
    holds = _holds(run)
    shown = holds if verbose else holds[:_SHOWN]
    lines = [line(Cell("held ", "warn"), printable(hold), indent=2) for hold in shown]
    if len(holds) > len(shown):
        lines.append(line(Cell(f"… and {len(holds) - len(shown)} more; --verbose shows all", "dim"), indent=2))
    return lines


def _holds(run: RunOutcome) -> list[str]:
    """A sentence for each reason that holds a step, told once however many replicas it speaks of."""
    replicas: dict[tuple[int, str, str], list[str]] = {}
    blocked = {held.step for held in run.guarded if held.guard == "blocked"} if run.blocked else set()
    for held in run.guarded:
        if held.guard == "blocked" and blocked:
            continue  # told in full above
        found = replicas.setdefault((held.step, held.guard, held.detail), [])
        if held.replica is not None and held.replica not in found:
            found.append(held.replica)
    several = len(run.free_before) > 1
    held_by_block = [f"{count(len(blocked), 'step')} that the policy would delete"] if blocked else []
    return held_by_block + [
        f"step {step}{f' on {listed(found)}' if several and found else ''}: {guard}: {detail}"
        for (step, guard, detail), found in replicas.items()
    ]


def _room(run: RunOutcome) -> list[Line]:
    lines = []
    for replica, after in run.free_after.items():
        before = run.free_before.get(replica)
        gained = f" ({_signed(after - before)})" if before is not None and after != before else ""
        lines.append(line(f"{replica}: {format_size(after)} free{gained}", indent=2))
    return lines


def _signed(size: int) -> str:
    return f"+{format_size(size)}" if size >= 0 else format_size(size)


def count(number: int, word: str, plural: str | None = None) -> str:
    """``1 step``, ``2 steps``."""
    return f"{number} {word if number == 1 else plural or word + 's'}"
