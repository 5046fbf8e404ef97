"""`prune audit PATH…` and `prune audit --watch DIR`."""

from __future__ import annotations

import os
import sys

import click

from prune.cli.options import screen, verb
from prune.cli.output import Screen
from prune.errors import UsageError


@verb("audit")
@screen
@click.argument("paths", nargs=-1)
@click.option("--watch", metavar="DIR", help="Watch a checkpoint directory instead, and name who writes in place.")
@click.option("--for", "duration", metavar="DURATION", help="How long to watch; without it, until Ctrl-C.")
def command(shown: Screen, paths: tuple[str, ...], watch: str | None, duration: str | None) -> int:
    """Find writers that put half of something under a final name: in sources, or as they do it.

    PATHS are Python and shell sources and notebooks, or directories of them. Nothing is changed. Exit 5 when any
    writer was found.
    """
    if watch is not None and not paths:
        return _watch(shown, watch, duration)
    if duration is not None or watch is not None or not paths:
        raise UsageError("audit takes sources, or --watch DIR", mend="prune audit PATH…, or prune audit --watch DIR")
    return _sources(shown, paths)


def _sources(shown: Screen, paths: tuple[str, ...]) -> int:
    from prune.audit import audit
    from prune.audit.report import notes, sentences, to_json

    found = audit(paths)
    if shown.json:
        shown.emit(to_json(found))
    else:
        for line in sentences(found):
            shown.say(line)
    for line in notes(found):
        shown.note(line)
    return 1 if found.unread else 5 if found.findings else 0


def _watch(shown: Screen, directory: str, duration: str | None) -> int:
    from prune.audit.report import sight_sentence, watch_to_json
    from prune.audit.watch import watch
    from prune.cli.arguments import duration_option
    from prune.publish.claim import locks_are_local

    seconds = duration_option("--for", duration) / 1e9 if duration is not None else None
    if os.path.isdir(directory) and locks_are_local(os.path.realpath(directory)):
        shown.note(f"{directory} is shared with other machines: what they write is not seen from here")
    if sys.stderr.isatty():
        shown.note(f"watching {directory}; {'Ctrl-C ends it' if seconds is None else f'for {duration}'}")
    sights, lost = watch(directory, seconds=seconds, tell=lambda sight: shown.say(sight_sentence(sight)))
    if lost:
        shown.warn("the kernel dropped events: some writers may not have been seen")
    if shown.json:
        shown.emit(watch_to_json(directory, sights, lost))
    elif not sights:
        shown.say("no file was written under its final name")
    return 5 if sights else 0
