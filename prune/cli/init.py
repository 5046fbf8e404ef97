"""`prune init`."""

from __future__ import annotations

import os

import click

from prune.cli.options import screen as with_screen
from prune.cli.options import verb
from prune.cli.output import Screen
from prune.errors import UsageError


@verb("init")
@with_screen
@click.argument("directory", metavar="[DIRECTORY]", default=".")
@click.option("--stack", metavar="NAME", help="The training stack; default: detected. `prune policies` lists them.")
@click.option("--mirror", "mirrors", metavar="ROOT", multiple=True, help="A mirror of it; repeatable.")
@click.option("--name", metavar="NAME", help="The run's name; default: the directory's.")
@click.option("--keep-last", metavar="N", default="12", show_default=True, help="How many steps to keep.")
@click.option("--output", metavar="FILE", help="Where to write; default: ./prune.toml, but never among checkpoints.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def command(
    screen: Screen, directory: str, stack: str | None, mirrors: tuple[str, ...], name: str | None, keep_last: str,
    output: str | None, force: bool,
) -> int:  # fmt: skip
    """Look at a checkpoint directory, or one that holds some, and write a commented prune.toml for it.

    Several runs in it become one table, whose primary stands for all of them: logs/version_{run}/checkpoints.
    It tells which stack wrote it, and whether N + 1 checkpoints fit on the disk.
    """
    from prune import beginning
    from prune.cli.exits import worst
    from prune.cli.files import write_whole
    from prune.report.json import attention_to_json
    from prune.report.render import show
    from prune.report.tables import attention_lines
    from prune.settings.flags import RunFlags
    from prune.settings.roots import tidy
    from prune.settings.runs import default_name, flag_mirrors

    last = RunFlags(keep_last=keep_last).keep()["last"]
    roots = tuple(mirror.root for mirror in flag_mirrors(RunFlags(mirrors=mirrors)))
    try:
        root = tidy(directory, relative_to=os.getcwd())
    except ValueError as error:
        raise UsageError(f"{directory!r} {error}", mend="Name the directory that holds the checkpoints.") from None
    found = beginning.look_at(root, stack=stack)
    path = _place(output, found.roots)
    if os.path.lexists(path) and not force:
        raise UsageError(f"{path} is there already", mend="Write elsewhere by --output, or over it by --force.")
    several = len(found.roots) > 1
    run = name or default_name(root if several else found.primary)
    attention = [item] if (item := beginning.room_for(found, last)) else []
    write_whole(path, beginning.document(found, name=run, last=last, mirrors=roots))
    if screen.json:
        screen.emit(
            {"schema": "prune.init/1", "file": path, "run": run, "primary": found.primary, "layout": found.layout,
             "runs": len(found.roots), "why": found.why, "policy": found.policy, "steps": found.steps,
             "checkpoint_bytes": found.checkpoint_bytes, "attention": attention_to_json(attention)}
        )  # fmt: skip
    elif not screen.quiet:
        screen.say(f"{found.primary}: {found.layout}: {found.why}")
        if attention:
            show([*attention_lines(attention)], screen)
        screen.say(f"wrote {path}; look at what it means by: prune plan{_how(path)}")
    return worst((), attention=bool(attention), strict=screen.strict)


def _place(output: str | None, roots: tuple[str, ...]) -> str:
    """Where the file goes: never in a root, since some trainers read every entry there as a checkpoint."""
    path = os.path.abspath(output or "prune.toml")
    real = os.path.realpath(os.path.dirname(path))
    root = next((at for at in map(os.path.realpath, roots) if real == at or real.startswith(at + os.sep)), None)
    if root is None:
        return path
    if output is not None:
        raise UsageError(f"--output {output}: lies among the checkpoints", mend="Write it somewhere else.")
    return os.path.join(os.path.dirname(root), "prune.toml")


def _how(path: str) -> str:
    return "" if path == os.path.abspath("prune.toml") else f" --config {os.path.relpath(path)}"
