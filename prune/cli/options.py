"""The options that commands share, as tables, and the decorators that hand them over as values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from prune import logs
from prune.cli.output import Screen
from prune.errors import UsageError

if TYPE_CHECKING:
    from prune.settings.flags import RunFlags
    from prune.settings.schema import Settings

Function = Callable[..., Any]


class Grouped(click.Option):
    """An option that `--help` shows under a title of its own."""

    def __init__(self, *args: Any, section: str = "Options", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section


class Verb(click.Command):
    """A command whose help shows its own options first, and the common ones by section."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(parameter, "section", "Options"), []).append(record)
        for title in sorted(sections, key=_ORDER.index):
            with formatter.section(title):
                formatter.write_dl(sections[title])


_ORDER = ["Options", "Which run", "What is kept", "Output"]


def _option(section: str, *names: str, **kwargs: Any) -> Function:
    return click.option(*names, cls=Grouped, section=section, **kwargs)


OUTPUT = (
    _option("Output", "--json", "json", is_flag=True, help="The result as JSON on stdout, and nothing else there."),
    _option("Output", "--quiet", "-q", is_flag=True, help="Only errors."),
    _option("Output", "--verbose", "-v", is_flag=True, help="Everything, long lists too."),
    _option("Output", "--no-color", is_flag=True, help="No colours; $NO_COLOR does the same."),
    _option("Output", "--strict", is_flag=True, help="Exit 7 when all is done but something needs attention."),
)
_WHICH = "Which run"
RUNS = (
    _option(
        _WHICH, "--config", metavar="FILE", help="Configuration; else $PRUNE_CONFIG, ./prune.toml, user's, system's."
    ),
    _option(_WHICH, "--run", "runs", metavar="NAME", multiple=True, help="Only this run of it; repeatable."),
    _option(_WHICH, "--primary", metavar="ROOT", help="One run right here: where training writes."),
    _option(_WHICH, "--mirror", "mirrors", metavar="ROOT", multiple=True, help="A mirror of it; repeatable."),
    _option(_WHICH, "--layout", metavar="NAME", help="How its stack names things; default: detected."),
)
_KEPT = "What is kept"
KEPT = (
    _option(_KEPT, "--policy", metavar="NAME_OR_FILE", help="A ready policy (`prune policies`) or a file."),
    _option(_KEPT, "--keep-last", metavar="N", help="The newest N aligned steps; 12 if nothing says otherwise."),
    _option(_KEPT, "--keep-every", metavar="STEPS", help="Multiples of so many steps."),
    _option(_KEPT, "--keep-every-time", metavar="DURATION", help="One step per so much time."),
    _option(_KEPT, "--keep-within", metavar="DURATION", help="All steps this close to the newest restorable one."),
    _option(_KEPT, "--keep-hourly", metavar="N", help="One step of each of N hours."),
    _option(_KEPT, "--keep-daily", metavar="N", help="One step of each of N days."),
    _option(_KEPT, "--keep-weekly", metavar="N", help="One step of each of N weeks."),
    _option(_KEPT, "--keep-best", metavar="METRIC:min|max[:COUNT]", help="The best restorable steps by a metric."),
    _option(_KEPT, "--keep-full", metavar="K", help="Older kept steps than the K newest lose all but their weights."),
    _option(
        _KEPT, "--in-flight", metavar="DURATION", help="What was modified less than this ago is being written; 5m."
    ),
    _option(_KEPT, "--grace", metavar="DURATION", help="How long the trash waits; `undo` works until then."),
)
_SCREEN = ("json", "quiet", "verbose", "no_color", "strict")


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which runs the command line names, and what it says about them."""

    config: str | None
    runs: tuple[str, ...]
    flags: RunFlags

    def load(self) -> Settings:
        """The settings of the chosen runs. Raises UsageError for what is wrong."""
        from prune.settings.load import load

        return load(self.config, self.flags, self.runs)

    def load_one(self) -> Settings:
        """The settings, of exactly one run. Raises UsageError when several are chosen."""
        settings = self.load()
        if len(settings.runs) == 1:
            return settings
        names = ", ".join(run.name for run in settings.runs[:20])
        raise UsageError(f"{len(settings.runs)} runs are configured: {names}", mend="Choose one by --run.")

    def state_and_names(self) -> tuple[str | None, tuple[str, ...]]:
        """Where the journal is and which runs are asked for (none: all): needs no configuration to be there."""
        from prune.settings.load import state_of

        if not self.nothing_said:
            settings = self.load()
            named = self.runs or self.flags.primary is not None
            return settings.state, tuple(run.name for run in settings.runs) if named else ()
        return state_of(None), ()

    @property
    def nothing_said(self) -> bool:
        """True when the command line describes no run at all."""
        from prune.settings.flags import RunFlags

        return self.config is None and not self.runs and self.flags == RunFlags()


def screen(function: Function) -> Function:
    """Adds the options on output; the command gets a :class:`Screen` as its first argument."""

    @functools.wraps(function)
    def command(*args: Any, **options: Any) -> Any:
        shown = Screen(**{name: options.pop(name) for name in _SCREEN})
        logs.configure(quiet=shown.quiet, verbose=shown.verbose, color=_stderr_color(shown))
        return function(shown, *args, **options)

    return _with(command, OUTPUT)


def on_runs(function: Function) -> Function:
    """Adds the options on runs and on output; the command gets a Screen and a :class:`Chosen` first."""

    @functools.wraps(function)
    def command(shown: Screen, *args: Any, **options: Any) -> Any:
        from prune.settings.flags import from_options

        flags = from_options(options)
        chosen = Chosen(options.pop("config"), tuple(options.pop("runs")), flags)
        for name in type(flags).__dataclass_fields__:
            options.pop(name, None)
        return function(shown, chosen, *args, **options)

    return screen(_with(command, RUNS + KEPT))


def verb(name: str) -> Callable[[Function], click.Command]:
    """Makes a function the command of a verb; its docstring is the help."""
    return click.command(name, cls=Verb, context_settings={"help_option_names": ["-h", "--help"]})


def _with(function: Function, options: tuple[Function, ...]) -> Function:
    for option in reversed(options):
        function = option(function)
    return function


def _stderr_color(shown: Screen) -> bool:
    import os
    import sys

    return sys.stderr.isatty() and not shown.no_color and not os.environ.get("NO_COLOR")
