"""Attention that the keep rules call for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prune.evidence import Evidence
from prune.guards import Scene
from prune.model import Attention, Copy, StepPlan
from prune.planner.words import count, name_steps
from prune.retention import BestBy
from prune.settings.units import format_duration


def not_aligned(scene: Scene, _steps: Sequence[StepPlan]) -> Iterator[Attention]:
    """Fewer than N steps restore on every required replica, so nothing is deleted."""
    if scene.kept.cutoff is not None:
        return
    stand = f"{len(scene.kept.counted)} of the wanted {scene.keep.last}"
    detail = f"{stand} restore on every required replica: nothing is deleted{_full_when(scene.evidence)}"
    yield Attention("not-aligned", None, detail, _mend_alignment(scene))


def _mend_alignment(scene: Scene) -> str:
    evidence = scene.evidence
    unlisted = [name for name in evidence.required if name not in evidence.listed]
    if unlisted:
        others = {block.replica for block in evidence.inventory.blocks if block.block != "replica-unreachable"}
        away = " and ".join(name for name in unlisted if name not in others)
        return f"make {away} reachable" if away else f"mend what blocks {' and '.join(unlisted)}"
    primary, mirrors = evidence.required[:1], evidence.required[1:]
    lacking = [step for step in evidence.steps if step not in scene.kept.counted]
    to_copy = [s for s in lacking if _good_on(evidence, s, primary) and not _good_on(evidence, s, mirrors)]
    wanted = sorted({*scene.kept.counted, *to_copy})[-scene.keep.last :]
    to_copy = [step for step in to_copy if step in wanted]
    links = {step: link for step in to_copy if (link := evidence.copies[step][primary[0]].link) is not None}
    if links and len(links) == len(to_copy):
        return f"no mirror is given {name_steps(links)}: {links[to_copy[0]]}"
    if to_copy:
        copied = [step for step in to_copy if step not in links]
        return f"prune mirror (it copies {name_steps(copied)} to where they are missing or damaged)"
    if len(evidence.steps) < scene.keep.last:
        missing = scene.keep.last - len(scene.kept.counted)
        return f"nothing, while the run is young: {count(missing, 'more save')} will do"
    weights = [step for step in lacking if evidence.aligned(step) and not evidence.full(step)]
    if weights:
        counts = "; with keep.full thinned ones count" if scene.keep.full is None else ""
        return f"further saves replace {name_steps(weights)}: weights alone bring no run back{counts}"
    return "prune verify tells what is wrong with each; further saves replace them"


def _good_on(evidence: Evidence, step: int, replicas: Iterable[str]) -> bool:
    """Whether every one of these replicas holds the step and nothing is known against it."""
    copies = [evidence.copies[step].get(name) for name in replicas]
    return all(copy is not None and (copy.health is None or copy.health.restorable) for copy in copies)


def _full_when(evidence: Evidence) -> str:
    """When the primary is full of further saves, as far as that can be told."""
    from prune.forecast import RECENT, Save, forecast  # its arithmetic is seldom needed: not on the way to every plan

    primary = next((replica for replica in evidence.replicas if replica.name == evidence.primary), None)
    copies = evidence.on(evidence.primary)[-RECENT:]
    size = max((_bytes(copy) for copy in copies), default=0)
    saves = [Save(time, size) for copy in copies if (time := evidence.known_written(copy)) is not None]
    if primary is None or primary.free_bytes is None or not size:
        return ""
    left = forecast(saves, free_bytes=primary.free_bytes, now_ns=evidence.now_ns).seconds_to_full
    if left is None:
        return f"; room is left for {count(primary.free_bytes // size, 'more save')}"
    return f"; the disk is full in about {format_duration(round(left) * 1_000_000_000)}"


def _bytes(copy: Copy) -> int:
    return max(copy.bytes or 0, copy.size or 0)


def metric_missing(scene: Scene, _steps: Sequence[StepPlan]) -> Iterator[Attention]:
    """Nobody can tell which steps are best, so all stay."""
    best = scene.keep.best
    if best is None or not scene.evidence.steps or BestBy(best).known(scene.evidence):
        return
    known = sorted({name for step in scene.evidence.steps for name in scene.evidence.inventory.metrics.get(step, {})})
    mend = (
        f"name one that there is: {', '.join(known)}"
        if known
        else "let the trainer evaluate, or take `best` out of the policy"
    )
    detail = f"no step has the metric {best.metric}, so nobody can tell which is best, and all stay"
    yield Attention("metric-missing", None, detail, mend)


def window_without_end(scene: Scene, _steps: Sequence[StepPlan]) -> Iterator[Attention]:
    """`within` counts from a step whose time is unknown."""
    newest = scene.evidence.candidate
    if (
        scene.keep.within is None
        or scene.kept.cutoff is None
        or newest is None
        or scene.evidence.time(newest.step) is not None
    ):
        return
    detail = f"step {newest.step}, from which `within` counts, has no time that can be trusted: all stay"
    yield Attention("unknown-mtime", newest.replica, detail, "prune seal writes a manifest that holds the time")


def cannot_thin(scene: Scene, _steps: Sequence[StepPlan]) -> Iterator[Attention]:
    """Thinning was asked for where nothing of a step can be dropped."""
    inventory, full = scene.evidence.inventory, scene.keep.full
    if full is not None and inventory.unthinnable is not None and scene.evidence.steps:
        detail = f"keep.full = {full}, and nothing is thinned in layout {inventory.layout}: {inventory.unthinnable}"
        yield Attention("cannot-thin", None, detail, "take keep.full out of the policy, or keep fewer steps")
