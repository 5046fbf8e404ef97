"""`prune demo`."""

from __future__ import annotations

import shutil
import tempfile
import time
from typing import TYPE_CHECKING

import click

from prune.cli.options import screen as with_screen
from prune.cli.options import verb
from prune.cli.output import Screen

if TYPE_CHECKING:
    from prune.demo import Demo
    from prune.model import Outcome, Plan


@verb("demo")
@with_screen
@click.option("--keep", is_flag=True, help="Leave the directory behind, to look at it.")
def command(screen: Screen, keep: bool) -> int:
    """Build a small real run with a mirror in a temporary directory, and walk through plan and apply on it."""
    from prune import engine
    from prune.cli.exits import code_of_outcome
    from prune.demo import build
    from prune.report.json import plan_to_json, result_to_json

    folder = tempfile.mkdtemp(prefix="prune-demo-")
    try:
        demo = build(folder, now_ns=time.time_ns())
        plan = engine.plan(demo.settings)
        outcome = engine.apply(demo.settings, reviewed=plan)
        if screen.json:
            documents = {"plan": plan_to_json(plan), "result": result_to_json(outcome)}
            screen.emit({"schema": "prune.demo/1", "folder": folder if keep else None, **documents})
        else:
            _walk(screen, demo, plan, outcome)
        if keep:
            screen.note(f"it is left in {folder}")
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    return code_of_outcome(outcome, strict=screen.strict)


def _walk(screen: Screen, demo: Demo, plan: Plan, outcome: Outcome) -> None:
    from prune.demo import DAMAGED, KEEP_LAST, STEPS
    from prune.report.lines import Cell, line
    from prune.report.outcomes import outcome_report
    from prune.report.render import show
    from prune.report.tables import plan_report

    begin = (
        f"A run of {len(STEPS)} checkpoints, one an hour, on a primary and a mirror, made in {demo.folder}.",
        f"On the mirror step {DAMAGED} was cut short, as a full disk does; on the primary a save is in flight.",
        f"The policy keeps the last {KEEP_LAST} steps that restore from both, and lets what it prunes wait for a day.",
    )
    show([*(line(text) for text in begin), line()], screen)
    show([line(Cell("$ prune plan", "strong"), "      (the preview; it changes nothing)")], screen)
    show([line(), *plan_report(plan)], screen)
    middle = (
        f"Step {DAMAGED} is not whole on the mirror, so it does not count as one of the {KEEP_LAST}; it is told, and",
        "`prune mirror` would repair it. The file that is being written is nobody's business yet.",
    )
    show([*(line(text) for text in middle), line()], screen)
    show([line(Cell("$ prune apply", "strong"), "     (looks at everything again, then carries the plan out)")], screen)
    show([line(), *outcome_report(outcome), line()], screen)
    end = (
        "Every step was renamed into .prune/trash first, so that no name ever showed half a checkpoint;",
        "`prune undo` would put them back until the grace is over.",
        "",
        "On your own directory: prune plan --primary DIRECTORY",
    )
    show([line(text) for text in end], screen)
