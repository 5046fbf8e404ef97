"""The command line: one verb a file, loaded when it is called; no decisions in here."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click

from prune.cli.verbs import SECTIONS, VERBS

_EPILOG = """\b
Exit codes: 0 done · 1 something failed, the rest was done · 2 usage or configuration
3 blocked, nothing deleted in a run · 4 wanted room not reached · 5 damage found
6 a new run, nothing to resume · 7 with --strict: done, but there is attention"""


class _Verbs(click.Group):
    """Lists every verb from the table; imports a command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(VERBS[cmd_name].module).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], VERBS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else " `prune --help` lists the commands."
            raise click.UsageError(f"There is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, verbs in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, verb.help) for name, verb in verbs.items()])


@click.group(cls=_Verbs, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=lambda *args: _version(*args))
def cli() -> None:
    """Decide which training checkpoints live and which die, on a primary and its mirrors.

    \b
    Begin with a preview; it changes nothing:
        prune plan --primary DIRECTORY [--mirror DIRECTORY]
    """


def _version(ctx: click.Context, _option: click.Parameter, asked: bool) -> None:
    if asked:
        from prune import __version__

        click.echo(f"prune {__version__}")
        ctx.exit()


def main(args: Sequence[str] | None = None) -> Any:
    """The ``prune`` command: runs a verb and ends the process with its exit code."""
    from prune.cli.exits import run

    sys.exit(run(cli, args))
