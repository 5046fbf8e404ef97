"""A plan and an outcome as a person reads them: what is done and why first, every number with its unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from prune.model import Attention, Block, Copy, Decision, GuardHold, OrphanPlan, Plan, Replica, RunPlan, StepPlan
from prune.planner.finished import keep_of
from prune.report.json import bytes_to_free
from prune.report.lines import Cell, Grid, Line, Report, Style, line, listed, printable
from prune.report.sentence import policy_sentence
from prune.settings.schema import Keep
from prune.settings.units import format_size

_DECISIONS: dict[Decision, Style] = {Decision.KEEP: "good", Decision.DELETE: "bad", Decision.GUARDED: "warn"}
_HEALTH: dict[str, Style] = {"broken": "bad", "suspect": "warn", "unknown": "warn", "in-flight": "warn"}
_GROUP_SHOWN = 5  # a stretch of like steps up to this long is shown whole
_ROWS_SHOWN = 120  # whatever they are like, more rows than this are cut in the middle


def plan_report(plan: Plan, *, verbose: bool = False) -> Report:
    """The whole plan, run by run."""
    report: Report = []
    named = {run.name: run for run in plan.settings.runs} if plan.settings else {}
    for run in plan.runs:
        keep = keep_of(run, named[run.run]) if run.run in named else Keep()
        report += run_report(run, keep, verbose=verbose)
        report.append(line())
    return report


def run_report(run: RunPlan, keep: Keep, *, verbose: bool = False) -> Report:
    """One run's plan: the policy as a sentence, what stands in its way, the steps, the room it would make."""
    report: Report = [_header(run, keep)]
    report += [_block(block) for block in run.blocks]
    report += attention_lines(run.attention)
    if run.steps:
        report += [line(), _grid(run, verbose=verbose), line()]
    report += [_orphans(run.orphans)] if run.orphans else []
    report.append(_summary(run))
    report += _volumes(run)
    report += [line(Cell(f"note: {printable(note)}", "dim"), indent=2) for note in run.notes]
    return report


def attention_lines(attention: Iterable[Attention]) -> list[Line]:
    """Each with its mend."""
    lines = []
    for item in attention:
        on = f" ({item.replica})" if item.replica else ""
        lines.append(line(Cell("attention ", "warn"), f"{item.kind}{on}: {printable(item.detail)}", indent=2))
        if item.mend:
            lines.append(line(Cell(f"→ {printable(item.mend)}", "strong"), indent=6))
    return lines


def _header(run: RunPlan, keep: Keep) -> Line:
    sentence = policy_sentence(keep, run.replicas)
    return line(Cell(printable(run.run), "strong"), f" ({run.layout}): {printable(sentence)}.")


def _block(block: Block) -> Line:
    on = f" ({block.replica})" if block.replica else ""
    return line(Cell("BLOCKED ", "bad"), f"{block.block}{on}: {printable(block.detail)}", indent=2)


def _grid(run: RunPlan, *, verbose: bool) -> Grid:
    names = [replica.name for replica in run.replicas]
    grid = Grid(("step", *names, "decision", "why"), right=frozenset({"step"}))
    for row in _rows(run, names, verbose=verbose):
        grid.rows.append(row)
    return grid


def _rows(run: RunPlan, names: Sequence[str], *, verbose: bool) -> list[tuple[Cell, ...]]:
    candidate = run.resume_candidate.step if run.resume_candidate else None
    if verbose:
        return [_row(step, names, candidate) for step in run.steps]
    rows: list[tuple[Cell, ...]] = []
    for _, stretch in groupby(run.steps, key=lambda step: _likeness(step, candidate)):
        rows += _elided(list(stretch), names, candidate)
    if len(rows) > _ROWS_SHOWN:
        half = _ROWS_SHOWN // 2
        rows[half:-half] = [_more(f"{len(rows) - 2 * half} more lines; --verbose shows all", names)]
    return rows


def _likeness(step: StepPlan, candidate: int | None) -> object:
    """Steps that look alike to a reader: the same fate, for the same reasons, in the same health."""
    healths = tuple((copy.replica, copy.health, copy.detail is None) for copy in step.copies)
    return step.decision, step.reasons, tuple(guard.guard for guard in step.guards), healths, step.step == candidate


def _elided(steps: list[StepPlan], names: Sequence[str], candidate: int | None) -> Iterator[tuple[Cell, ...]]:
    if len(steps) <= _GROUP_SHOWN:
        yield from (_row(step, names, candidate) for step in steps)
        return
    yield from (_row(step, names, candidate) for step in steps[:2])
    hidden = steps[2:-2]
    yield _more(f"{len(hidden)} more like these: {hidden[0].step} to {hidden[-1].step}", names)
    yield from (_row(step, names, candidate) for step in steps[-2:])


def _more(text: str, names: Sequence[str]) -> tuple[Cell, ...]:
    return (Cell("…", "dim"), *(Cell("…", "dim") for _ in names), Cell("…", "dim"), Cell(text, "dim"))


def _row(step: StepPlan, names: Sequence[str], candidate: int | None) -> tuple[Cell, ...]:
    copies = {copy.replica: copy for copy in step.copies}
    return (
        Cell(str(step.step)),
        *(_copy(copies.get(name)) for name in names),
        Cell(step.decision.value, _DECISIONS[step.decision]),
        Cell(printable(_why(step, candidate))),
    )


def _copy(copy: Copy | None) -> Cell:
    if copy is None:
        return Cell("-", "dim")
    size = copy.size
    health = copy.health.value if copy.health else "not looked at"
    text = f"{format_size(size)} {health}" if size is not None else health
    if copy.weights_only:
        text += ", weights only"
    return Cell(text, _HEALTH.get(health, ""))


def _hold(guard: GuardHold) -> str:
    """A block is told in full above the table, and named in its rows."""
    detail = guard.detail.partition(":")[0] if guard.guard == "blocked" else guard.detail
    return f"{guard.guard}: {detail}" if detail else guard.guard


def _why(step: StepPlan, candidate: int | None) -> str:
    parts = list(step.reasons)
    parts += [_hold(guard) for guard in step.guards]
    if step.thin is not None:
        parts += [f"thin held by {guard.guard}: {guard.detail}" for guard in step.thin.guards[:1]]
    if step.step == candidate:
        parts.append("training would resume here")
    parts += [f"{copy.replica}: {copy.detail}" for copy in step.copies if copy.detail]
    if not parts and step.decision is Decision.DELETE:
        parts.append("no rule keeps it")
    return ", ".join(dict.fromkeys(parts))


def _orphans(orphans: Sequence[OrphanPlan]) -> Line:
    going = [orphan for orphan in orphans if orphan.decision is Decision.DELETE]
    staying = Counter(orphan.reason for orphan in orphans if orphan.decision is not Decision.DELETE)
    parts = []
    if going:
        size = format_size(sum(orphan.bytes for orphan in going))
        shown = ", ".join(printable(orphan.path) for orphan in going[:3]) + (", …" if len(going) > 3 else "")
        parts.append(f"{len(going)} to delete, {size} ({shown})")
    parts += [f"{count} stay{'s' if count == 1 else ''} ({reason})" for reason, count in staying.items()]
    return line(f"temporaries of unfinished saves: {'; '.join(parts)}", indent=2)


def _summary(run: RunPlan) -> Line:
    fates = Counter(step.decision for step in run.steps)
    parts = [f"{fates[fate]} {word}" for fate, word in _FATES.items() if fates[fate]]
    if run.thinned:
        parts.append(f"{len(run.thinned)} of the kept to thin to their weights")
    others = "1 other entry is" if run.foreign == 1 else f"{run.foreign} other entries are"
    foreign = f"; {others} not touched" if run.foreign else ""
    cutoff = f"; the cutoff is step {run.cutoff}" if run.cutoff is not None else ""
    return line(f"{listed(parts) if parts else 'no steps'}{cutoff}{foreign}", indent=2)


_FATES = {Decision.DELETE: "to delete", Decision.KEEP: "to keep", Decision.GUARDED: "held by guards"}


def _volumes(run: RunPlan) -> list[Line]:
    freed = bytes_to_free(run)
    return [_volume(replica, freed[replica.name]) for replica in run.replicas]


def _volume(replica: Replica, freed: int) -> Line:
    frees = f"would free {format_size(freed)}" if freed else "nothing to free"
    room = "free space is not known"
    if replica.free_bytes is not None:
        room = f"{format_size(replica.free_bytes)} free"
        if freed:
            room += f", then {format_size(replica.free_bytes + freed)}"
        if replica.total_bytes:
            share = 100 * (replica.free_bytes + freed) // replica.total_bytes
            room += f" of {format_size(replica.total_bytes)} ({share}%)"
    trash = f"; {format_size(replica.trash_bytes)} in the trash" if replica.trash_bytes else ""
    return line(f"{replica.name} {printable(replica.root)}: {frees}; {room}{trash}", indent=2)
