"""`prune simulate`: how much room a policy needs, before the first save is written."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen

if TYPE_CHECKING:
    from prune.readings import Figures, Given


@verb("simulate")
@on_runs
@click.option("--size", metavar="SIZE", help="What one checkpoint takes; else as the run's recent ones.")
@click.option("--save-every", metavar="DURATION", help="Time between two saves; else as the run's recent ones.")
@click.option("--steps-per-save", type=click.IntRange(min=1), help="Steps between two saves, for --keep-every.")
@click.option("--volume", "volumes", metavar="[NAME=]SIZE", multiple=True,
              help="Room for checkpoints on one volume; repeatable; else as the run's volumes.")  # fmt: skip
@click.option("--pass-every", metavar="DURATION", default="10m", show_default=True, help="Time between two passes.")
def command(screen: Screen, chosen: Chosen, **options: Any) -> int:
    """Steady state, peak use and the first hour of trouble of a policy, for given figures or for a run's own.

    \b
        prune simulate --size 2.5GB --save-every 10m --volume 40GB --keep-last 12
        prune simulate --primary /data/ckpt/tiny --mirror /mnt/mirror/tiny --keep-last 12
    """
    from prune.cli.exits import worst
    from prune.report.render import show
    from prune.report.simulation import SIMULATION_SCHEMA, simulation_report, simulation_to_json
    from prune.simulate import simulate

    found = []
    for given in _given(chosen, _figures(options)):
        try:
            found.append((given, simulate(given.keep, given.workload, given.volumes, given.rhythm)))
        except ValueError as error:
            raise click.UsageError(str(error)) from None
    if screen.json:
        screen.emit({"schema": SIMULATION_SCHEMA, "runs": [simulation_to_json(*pair) for pair in found]})
    else:
        for pair in found:
            show(simulation_report(*pair), screen)
    trouble = any(not room.fits for _, simulation in found for room in simulation.rooms)
    return worst([], attention=trouble, strict=screen.strict)


def _given(chosen: Chosen, figures: Figures) -> list[Given]:
    """From figures alone where no run is named, else each run's own with the figures over them."""
    from prune.readings import given_by, read_off

    if _names_no_run(chosen) and (figures.bytes is not None or figures.interval_ns is not None):
        import os
        from dataclasses import replace

        from prune.settings.runs import ad_hoc

        nowhere = ad_hoc(replace(chosen.flags, primary=os.path.abspath("policy")))
        return [given_by(figures, nowhere)]
    now = time.time_ns()
    return [read_off(figures, run, now_ns=now) for run in chosen.load().runs]


def _names_no_run(chosen: Chosen) -> bool:
    return chosen.config is None and not chosen.runs and chosen.flags.primary is None


def _figures(options: dict[str, Any]) -> Figures:
    from prune.cli.arguments import duration_option, size_option
    from prune.readings import Figures, named_volumes

    volumes = [_volume(text) for text in options["volumes"]]
    return Figures(
        bytes=size_option("--size", options["size"]) if options["size"] else None,
        interval_ns=duration_option("--save-every", options["save_every"]) if options["save_every"] else None,
        steps_per_save=options["steps_per_save"],
        volumes=named_volumes(volumes),
        pass_every_ns=duration_option("--pass-every", options["pass_every"]),
    )


def _volume(text: str) -> tuple[str | None, int]:
    from prune.cli.arguments import size_option

    name, equals, size = text.rpartition("=")
    return (name if equals else None), size_option("--volume", size)
