"""The page: what stands where, what would go, what is wrong; one HTML document with nothing beside it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

from prune.journal.base import Event
from prune.model import Attention, Decision, RunPlan
from prune.report.lines import printable
from prune.report.times import ago, iso
from prune.service.board import Board, RunView
from prune.service.health import Health
from prune.service.tanks import Tank, tanks_of
from prune.service.timeline import Column, State, columns
from prune.service.totals import in_words, totals
from prune.settings.schema import Pressure, RunSettings, Settings
from prune.settings.units import format_size

FEW = 12  # up to so many runs are shown whole; more are a list, worst first
ROWS = 100
NOTES = 60

GLYPHS = {State.KEPT: "■", State.WOULD_GO: "□", State.GUARDED: "▣", State.BROKEN: "✕", State.IN_FLIGHT: "◔",
          State.MISSING: "·", State.UNSEEN: "?"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Note:
    """One attention line."""

    run: str
    kind: str
    where: str
    detail: str
    mend: str
    blocked: bool


@dataclass(frozen=True, slots=True)
class Card:
    """One run."""

    run: str
    layout: str
    policy: str
    seen: str
    success: str
    counts: str
    resume: str
    error: str | None
    notes: tuple[Note, ...]
    tanks: tuple[Tank, ...]
    columns: tuple[Column, ...]
    rows: str
    temporaries: tuple[str, ...]


def page(
    settings: Settings,
    board: Board,
    health: Health,
    passes: Sequence[Event],
    *,
    now_ns: int,
    query: str = "",
    number: int = 1,
    trouble: str | None = None,
) -> str:
    """The overview. With many runs a list that ``query`` filters by name, page ``number`` of it."""
    views = board.views()
    chosen = sorted((view for view in views if query.lower() in view.run.lower()), key=_worst_first)
    whole = len(chosen) <= FEW
    pages = max(1, -(-len(chosen) // ROWS))
    number = min(max(1, number), pages)
    shown = chosen if whole else chosen[(number - 1) * ROWS : number * ROWS]
    runs = {run.name: run for run in settings.runs}
    return _render(
        title="Training checkpoints",
        health=health,
        notes=_first_notes(chosen),
        more_notes=sum(len(view.blocks) + len(view.attention) for view in chosen) - NOTES,
        volumes=() if whole else tuple(map(in_words, totals(views))),
        cards=[card_of(view, runs.get(view.run), board, now_ns=now_ns, steps=whole) for view in shown],
        whole=whole,
        single=False,
        query=query,
        number=number,
        pages=pages,
        runs=len(chosen),
        passes=[_pass(event, now_ns) for event in passes],
        now=iso(now_ns),
        trouble=trouble,
    )


def run_page(
    settings: Settings, board: Board, view: RunView, health: Health, passes: Sequence[Event], *, now_ns: int
) -> str:
    """One run by itself."""
    run = next((run for run in settings.runs if run.name == view.run), None)
    card = card_of(view, run, board, now_ns=now_ns, steps=True)
    return _render(
        title=printable(view.run),
        health=health,
        notes=card.notes[:NOTES],
        more_notes=len(card.notes) - NOTES,
        volumes=(),
        cards=[card],
        whole=True,
        single=True,
        query="",
        number=1,
        pages=1,
        runs=1,
        passes=[_pass(event, now_ns) for event in passes],
        now=iso(now_ns),
        trouble=None,
    )


def _worst_first(view: RunView) -> tuple[object, ...]:
    blocks = len(view.blocks)
    return -blocks - bool(view.error), -blocks - len(view.attention), -sum(view.counts.bytes_to_free.values()), view.run


def _first_notes(views: Iterable[RunView]) -> list[Note]:
    """As many as are shown, of the views in their order."""
    return list(islice((note for view in views for note in _notes(view)), NOTES))


def card_of(view: RunView, run: RunSettings | None, board: Board, *, now_ns: int, steps: bool) -> Card:
    """A run as the page shows it; ``steps``: with its timeline."""
    plan = view.plan
    pressure = run.pressure if run else Pressure()
    decisions = view.counts.decisions
    candidate = plan.resume_candidate if plan else None
    return Card(
        run=view.run,
        layout=plan.layout if plan else "",
        policy=", ".join(f"{key} {value}" for key, value in plan.keep.items() if value is not None) if plan else "",
        seen=ago(view.seen_ns, now_ns) if view.seen_ns else "not yet",
        success=ago(view.last_success_ns, now_ns) if view.last_success_ns else "never",
        counts=", ".join(
            f"{decisions[key]} {words}"
            for key, words in (("keep", "kept"), ("delete", "would go"), ("guarded", "guarded"))
            if decisions.get(key)
        )
        or "no steps",
        resume=f"step {candidate.step} on {candidate.replica}" if candidate else "nothing yet",
        error=view.error,
        notes=tuple(_notes(view)),
        tanks=tuple(tanks_of(view, board, pressure, now_ns)),
        columns=tuple(columns(plan, now_ns=now_ns)) if plan and steps else (),
        rows=", then ".join(replica.name for replica in plan.replicas) if plan else "",
        temporaries=tuple(_temporaries(plan)) if plan and steps else (),
    )


def _notes(view: RunView) -> Iterable[Note]:
    for block in view.blocks:
        yield Note(view.run, block.block, block.replica or "", printable(block.detail), "", True)
    for note in view.attention:
        yield _note(view.run, note)


def _temporaries(plan: RunPlan) -> Iterable[str]:
    for orphan in plan.orphans[:10]:
        fate = "would go" if orphan.decision is Decision.DELETE else orphan.reason
        yield f"Temporary on {orphan.replica}: {printable(orphan.path)}, {format_size(orphan.bytes)}, {fate}."


def _note(run: str, note: Attention) -> Note:
    return Note(run, note.kind, note.replica or "", printable(note.detail), printable(note.mend), False)


def _pass(event: Event, now_ns: int) -> dict[str, Any]:
    data = event.data
    blocked = data.get("blocked")
    failed = int(data.get("failed") or 0)
    return {
        "ago": ago(event.at_ns, now_ns),
        "at": iso(event.at_ns),
        "run": event.run,
        "what": f"blocked: {blocked}" if blocked else f"{data.get('deleted', 0)} copies deleted",
        "bytes": format_size(int(data.get("bytes") or 0)),
        "guarded": int(data.get("guarded") or 0),
        "failed": failed,
        "bad": bool(blocked or failed),
    }


def _render(**values: Any) -> str:
    template, style = _template()
    return str(template.render(style=style, glyphs=GLYPHS, states=list(State), **values))


@cache
def _template() -> tuple[Any, str]:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("prune.service"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["printable"] = printable
    environment.filters["path"] = _path
    source, _, _ = environment.loader.get_source(environment, "style.css")  # type: ignore[union-attr]
    return environment.get_template("page.html"), source


@cache
def style_hash() -> str:
    """The style sheet's hash, by which the content security policy allows it and no other."""
    return base64.b64encode(hashlib.sha256(_template()[1].encode()).digest()).decode()


def _path(text: str) -> str:
    from urllib.parse import quote

    return quote(text.encode("utf-8", "surrogateescape"), safe="")
