"""`prune serve`: the daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prune.cli.options import Chosen, on_runs, verb
from prune.cli.output import Screen

if TYPE_CHECKING:
    from prune.service.daemon import Daemon


@verb("serve")
@on_runs
@click.option("--listen", metavar="HOST:PORT", help='Where HTTP answers, beside the configuration; "" for nowhere.')
def command(screen: Screen, chosen: Chosen, listen: str | None) -> int:
    """Run as a daemon: a pass when the schedule says so, a watch over free space, metrics, and a page.

    SIGHUP reads the configuration again, and a bad one changes nothing. SIGTERM finishes the step in hand.
    """
    from prune import logs
    from prune.service.daemon import Daemon, check_service
    from prune.service.source import Source

    logs.configure(quiet=screen.quiet, verbose=screen.verbose, daemon=True)
    daemon = Daemon(Source(chosen.load, check_service))
    address = _address(listen) if listen is not None else daemon.source.settings.service.listen
    return daemon.run(http=_http(daemon, address) if address else None)


def _address(listen: str) -> str:
    from prune.errors import UsageError
    from prune.settings import checks

    try:
        return checks.listen(listen)
    except ValueError as error:
        raise UsageError(f"--listen {listen!r}: {error}") from None


def _http(daemon: Daemon, address: str) -> Any:
    from prune.errors import Failed
    from prune.service.server import start

    def begin() -> Any:
        try:
            return start(daemon, address).stop
        except OSError as error:
            raise Failed(f"cannot listen on {address}: {error.strerror}",
                         mend='set service.listen to a free address, or to "" for no HTTP') from None  # fmt: skip

    return begin
