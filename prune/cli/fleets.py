"""Commands over many runs: told run by run, held in a few words, summed at the end."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import click

from prune.cli.output import Progress, Screen, write

if TYPE_CHECKING:
    from prune.fleet.dask import Cluster
    from prune.model import RunPlan
    from prune.settings.schema import Settings

T = TypeVar("T")
Function = Callable[..., object]

match_option: Callable[[Function], Function] = click.option(
    "--match", metavar="PATTERN", help="Only runs whose name fits, as in 'vision-*'."
)

shard_option: Callable[[Function], Function] = click.option(
    "--shard", metavar="I/N", help="Only the runs of this shard, 1 to N: each task of an array takes its own."
)

dask_option: Callable[[Function], Function] = click.option(
    "--dask", metavar="ADDRESS", help="Each run as a task on this Dask cluster, whose workers see the same roots."
)


@contextmanager
def crew(screen: Screen, address: str | None, settings: Settings) -> Iterator[Cluster | None]:
    """The cluster at an address, or None for the work to be done here. Raises UsageError."""
    if address is None:
        yield None
        return
    from prune.fleet.dask import cluster

    if settings.state is None or settings.state.startswith("sqlite:"):
        screen.note('prune: each worker keeps history where it runs; state = "postgresql://…" keeps it in one place')
    with cluster(address) as found:
        yield found


def matching(settings: Settings, pattern: str | None) -> Settings:
    """The settings with the runs whose names fit. Raises UsageError where none does."""
    from prune.errors import UsageError

    if pattern is None:
        return settings
    runs = tuple(run for run in settings.runs if fnmatch.fnmatchcase(run.name, pattern))
    if not runs:
        raise UsageError(f"--match {pattern!r}: none of {len(settings.runs)} runs is named so")
    return replace(settings, runs=runs)


def in_shard(settings: Settings, wanted: str | None) -> Settings:
    """The settings with the runs of one shard. Raises UsageError."""
    from prune.settings.shards import parse_shard, shard

    return settings if wanted is None else shard(settings, *parse_shard(wanted))


def counted(items: Iterable[T], count: int, progress: Progress, what: str) -> Iterator[T]:
    """The items as they come, with how many have come."""
    for done, item in enumerate(items, 1):
        progress(what, done, count)
        yield item


def plan_many(screen: Screen, settings: Settings, plans: Iterable[RunPlan], *, now_ns: int, out: str | None) -> int:
    """The preview of many runs. Returns the exit code."""
    from prune.cli.exits import BLOCKED, DONE, worst
    from prune.report.fleet import Fleet
    from prune.report.stream import plan_pieces

    fleet = Fleet()

    def told() -> Iterator[RunPlan]:
        for plan in plans:
            fleet.add(plan)
            yield plan

    pieces = plan_pieces(settings, told(), now_ns)
    if screen.json:
        pieces = _spoken(pieces)
    if out:
        from prune.cli.files import write_pieces_beside_roots

        write_pieces_beside_roots(out, pieces, settings)
    elif screen.json:
        for _ in pieces:
            pass
    else:
        for _ in told():
            pass
    show_fleet(screen, settings, fleet, now_ns=now_ns)
    codes = {BLOCKED if row.blocks else DONE for row in fleet.rows}
    attention = bool(settings.notices) or any(row.kinds for row in fleet.rows)
    return worst(codes, attention=attention, strict=screen.strict)


def show_fleet(screen: Screen, settings: Settings, fleet: object, *, now_ns: int, passes: bool = False) -> None:
    from prune.report.fleet import Fleet
    from prune.report.render import show
    from prune.report.tables import attention_lines

    assert isinstance(fleet, Fleet)
    report = fleet.report(now_ns=now_ns, all_rows=screen.verbose, passes=passes)
    show([*attention_lines(settings.notices), *report], screen)


def _spoken(pieces: Iterable[str]) -> Iterator[str]:
    """The pieces, each said on stdout too."""
    for piece in pieces:
        write(sys.stdout, piece)
        yield piece
