"""A reader's claim on a checkpoint: while it holds, no prune of any run takes it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from prune import holds, logs
from prune.callable_module import make_callable
from prune.errors import PruneError, UsageError
from prune.inventory.gather import survey
from prune.inventory.opening import open_site
from prune.inventory.site import Site
from prune.model import SECOND
from prune.publish.target import root_of
from prune.settings.schema import ReplicaSettings, RunSettings
from prune.stores.there import is_there

_DEEPEST = 6  # how far above a checkpoint its root may be: lightning_logs/version_0/checkpoints/NAME, and a little more


@contextmanager
def lease(
    path: str | os.PathLike[str], *, seconds: float = 3600, holder: str | None = None, root: str | None = None
) -> Iterator[str]:
    """Holds the checkpoint at ``path`` against pruning while the block runs::

        with prune.lease("/data/ckpt/tiny/step_0810.pt"):
            state = torch.load("/data/ckpt/tiny/step_0810.pt", weights_only=True)

    The lease is renewed while the block runs; when this process dies, it ends by itself within ``seconds``. Gives the
    lease's name. ``holder`` says who holds it, for people; ``root`` is the run's root, for a checkpoint that lies
    deeper in it than directly and a root that no prune has worked on yet.

    Raises UsageError when ``path`` is no checkpoint of any layout, Failed when the lease cannot be written.
    """
    if seconds <= 0:
        raise UsageError(f"a lease of {seconds} seconds holds nothing")
    run, step = _run_and_step(_whole(path), root)
    length_ns = int(seconds * SECOND)
    name = holds.lease(run, step, until_ns=time.time_ns() + length_ns, holder=holder)
    ended = threading.Event()
    keeper = threading.Thread(target=_renew, args=(run, step, name, length_ns, holder, ended), daemon=True)
    keeper.start()
    try:
        if not is_there(_whole(path)):
            raise UsageError(f"{os.fsdecode(path)} is not there any more")
        yield name
    finally:
        ended.set()
        keeper.join()
        holds.release(run, name)


def _renew(run: RunSettings, step: int, name: str, length_ns: int, holder: str | None, ended: threading.Event) -> None:
    while not ended.wait(length_ns / 3 / SECOND):
        try:
            holds.lease(run, step, until_ns=time.time_ns() + length_ns, holder=holder, name=name)
        except PruneError as error:  # it still holds for two thirds of its time: tried again before that is over
            logs.warning(f"the lease on step {step} could not be renewed: {error}")


def _run_and_step(path: str, root: str | None) -> tuple[RunSettings, int]:
    """The run whose root holds the path, as one of its own, and the step the path belongs to."""
    for place in [_whole(root)] if root is not None else _places(path):
        run = RunSettings(os.path.basename(place), (ReplicaSettings("primary", place, "primary"),))
        with open_site(run) as site:
            survey(site, now_ns=time.time_ns())
            step = _step_at(site, path if "://" in path else os.path.realpath(path))
        if step is not None:
            return run, step
    raise UsageError(f"{path} is no checkpoint of a known layout", mend="name its run's root: root=…")


def _whole(path: str | os.PathLike[str]) -> str:
    """A path from the top, or a URL as it is."""
    text = os.fsdecode(path)
    return text if "://" in text else os.path.abspath(text)


def _places(path: str) -> list[str]:
    """Directories that may be the root: one that is known as one, else those above the path, the nearest first."""
    above = os.path.dirname(path)
    if "://" in path:
        parts = path.split("/")
        return ["/".join(parts[:end]) for end in range(len(parts) - 1, 2, -1)][:_DEEPEST]
    found = [root_of(above)] if os.path.isdir(above) else []
    for _ in range(_DEEPEST):
        if os.path.ismount(above) or not os.path.isdir(above):
            break
        found.append(above)
        above = os.path.dirname(above)
    return list(dict.fromkeys(found))


def _step_at(site: Site, real: str) -> int | None:
    replica = site.primary
    if replica.root is None or replica.listing is None:
        return None
    for step, claims in replica.listing.steps.items():
        for claim in claims:
            entry = os.path.join(replica.root.real, claim.path)
            if real == entry or real.startswith(entry + os.sep):
                return step
    return None


make_callable(__name__)
