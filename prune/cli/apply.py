"""`prune apply`: the plan, carried out."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from prune.cli.fleets import crew, dask_option, in_shard, shard_option
from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen
from prune.errors import UsageError

if TYPE_CHECKING:
    from prune.engine import Conduct
    from prune.fleet.dask import Cluster
    from prune.model import Outcome, Plan, RunOutcome
    from prune.settings.schema import Settings


_ALONE = "A plan file brings its own settings: leave those options out, or make a new plan with them."


@verb("apply")
@on_runs
@click.argument("plan_file", metavar="[PLAN.json]", required=False)
@click.option("--yes", "-y", is_flag=True, help="Do not ask; without a terminal nobody is asked.")
@click.option("--if-free-below", metavar="SIZE|PERCENT", help="Only where the primary has less free than this.")
@click.option("--allow-many", is_flag=True, help="Even where guards.max_delete says it is too many.")
@click.option("--allow-rewound", is_flag=True, help="Even steps written after all that would be kept.")
@shard_option
@click.option("--wait", metavar="DURATION", default="0s", help="How long to wait for another pass's lock.")
@click.option("--metrics-file", metavar="FILE", help="Write metrics there for a textfile collector.")
@dask_option
def command(screen: Screen, chosen: Chosen, plan_file: str | None, **options: Any) -> int:
    """Carry a plan out: look at everything again, then delete what a fresh plan deletes.

    With PLAN.json at most that reviewed plan is carried out, cut down to what a fresh one still deletes; it needs
    no other option.
    """
    from prune import engine
    from prune.cli.arguments import duration_option
    from prune.cli.exits import code_of_outcome
    from prune.stop import Stop, stopping_on_signals

    wait_ns = duration_option("--wait", options["wait"])
    if options["metrics_file"] == "":
        raise UsageError("--metrics-file '': is empty", mend="Name the file, or leave the option out.")
    chosen_settings, reviewed = _what(screen, chosen, plan_file, options["shard"])
    settings, spared = _only_where_short(chosen_settings, options["if_free_below"])
    if spared:
        names = ", ".join(run.run for run in spared[:12]) + (", …" if len(spared) > 12 else "")
        screen.note(f"prune: left alone, since {options['if_free_below']} or more is free on the primary: {names}")
    if not options["yes"]:
        reviewed, agreed = _asked(screen, settings, reviewed)
        if not agreed:
            screen.warn("prune: nothing was deleted")
            return 0
    stop = Stop()
    with (
        screen.progress() as progress,
        crew(screen, options["dask"], settings) as cluster,
        stopping_on_signals(stop, say="prune: finishing the step in hand"),
    ):
        conduct = engine.Conduct(
            wait_ns=wait_ns,
            allow_many=options["allow_many"],
            allow_rewound=options["allow_rewound"],
            stop=stop,
            progress=progress,
        )
        outcome = _carried_out(settings, reviewed, conduct, cluster, screen)
    _notify(settings, outcome)
    outcome = replace(outcome, runs=(*outcome.runs, *spared))
    if options["metrics_file"] is not None:
        from prune.service.textfile import write_metrics

        write_metrics(options["metrics_file"], chosen_settings, outcome, now_ns=time.time_ns())
    _tell(screen, outcome)
    if stop:
        screen.warn("prune: stopped on request after the step in hand; the rest stays for the next pass")
    return stop.exit_code or code_of_outcome(outcome, strict=screen.strict)


def _carried_out(
    settings: Settings, reviewed: Plan | None, conduct: Conduct, cluster: Cluster | None, screen: Screen
) -> Outcome:
    if cluster is None:
        from prune import engine

        return engine.apply(settings, reviewed=reviewed, conduct=conduct)
    from prune.fleet import work
    from prune.report.lines import printable

    def hear(run: RunOutcome) -> None:
        if screen.verbose or run.blocked or run.failed:
            said = f"blocked: {run.blocked.detail}" if run.blocked else f"{len(run.deleted)} copies deleted"
            screen.note(printable(f"{run.run}: {said}"))

    return work.apply(cluster, settings, reviewed=reviewed, conduct=conduct, hear=hear)


def _notify(settings: Settings, outcome: Outcome) -> None:
    """The channels of the configuration hear what a person at a terminal reads; without any, nothing is loaded."""
    if settings.service.notify.webhook or settings.service.notify.apprise:
        from prune.notified import tell_outcome

        tell_outcome(settings, outcome)


def _what(screen: Screen, chosen: Chosen, plan_file: str | None, shard: str | None) -> tuple[Settings, Plan | None]:
    """The settings to apply and the plan that limits it; a plan file brings its own settings, and where the
    configuration was changed since it was reviewed, no step goes that the changed one keeps."""
    if plan_file is not None and chosen.nothing_said:
        return _by_the_plan(screen, plan_file, shard)
    from prune.report.reviewed import check_same_roots, read_plan

    reviewed = read_plan(plan_file) if plan_file is not None else None
    try:
        settings = chosen.load()
    except UsageError as error:
        if reviewed is None:
            raise
        raise UsageError(f"{plan_file} and other options: {error.args[0]}", mend=_ALONE) from None
    if reviewed is not None:
        check_same_roots(reviewed, settings, source=str(plan_file))
    return in_shard(settings, shard), reviewed


def _by_the_plan(screen: Screen, plan_file: str, shard: str | None) -> tuple[Settings, Plan]:
    from prune.reviewing import reviewed_plan

    reviewed = reviewed_plan(plan_file)
    if reviewed.changed is not None:
        screen.note(f"prune: {reviewed.changed} was changed after {plan_file} was made: what it keeps now stays too")
    return in_shard(reviewed.settings, shard), reviewed.plan


def _only_where_short(settings: Settings, mark: str | None) -> tuple[Settings, list[Any]]:
    """The runs whose primary has less free than the mark, before anything is listed; and outcomes of the others."""
    if mark is None:
        return settings, []
    from prune.cli.arguments import room_option
    from prune.room import has_room, spared_outcome

    wanted = room_option("--if-free-below", mark)
    spared = [run for run in settings.runs if has_room(run.primary, wanted)]
    short = tuple(run for run in settings.runs if run not in spared)
    return replace(settings, runs=short), [spared_outcome(run) for run in spared]


def _asked(screen: Screen, settings: Settings, reviewed: Plan | None) -> tuple[Plan | None, bool]:
    """Shows a person what would go and asks; nothing beyond what was shown is deleted then."""
    import sys

    if not sys.stdin.isatty():
        return reviewed, True
    from prune import engine
    from prune.report.render import show
    from prune.report.tables import plan_report

    plan = reviewed or engine.plan(settings)
    victims, thinned = sum(len(run.victims) for run in plan.runs), sum(len(run.thinned) for run in plan.runs)
    if not victims and not thinned:
        return reviewed, True  # nothing to ask for; a fresh look may still clear what a dead pass left
    show(plan_report(plan, verbose=screen.verbose), screen)
    return plan, screen.agrees(f"Delete {victims} steps{f' and thin {thinned}' if thinned else ''}?", yes=False)


def _tell(screen: Screen, outcome: Outcome) -> None:
    from prune.report.json import result_to_json
    from prune.report.outcomes import outcome_report
    from prune.report.render import show

    if screen.json:
        screen.emit(result_to_json(outcome))
    else:
        show(outcome_report(outcome, verbose=screen.verbose), screen)
