"""Who does the looking and the unlinking of a sweep: threads, more of them where calls wait, or helper processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from prune.control.record import Withdrawal
from prune.deletion import objects, trash
from prune.inventory.site import OpenReplica, Site
from prune.model import StepPlan
from prune.stores.crew import Crew
from prune.stores.local import LocalRoot
from prune.stores.pace import MANY, WORTH_FILES, Measured, measure_all

_LOCAL_THREADS = 2
Item = TypeVar("Item")


class Hands:
    """Use as a context manager; leaving it waits for all that was handed out.

    Looks do not queue behind purges: the next steps are looked at while the last ones' files still go.
    """

    def __init__(self, site: Site, victims: Sequence[StepPlan]) -> None:
        files = sum(copy.files or 0 for step in victims for copy in step.copies)
        self._remote = any(replica.waits for replica in site.replicas if replica.usable)
        trashes = [r.control.folder for r in site.replicas if r.usable and r.control is not None]
        self._crew = Crew(trashes) if files >= WORTH_FILES and not self._remote else None
        self._lookers = ThreadPoolExecutor(MANY if self._remote else 1)
        self._purgers = ThreadPoolExecutor(MANY if self._remote else _LOCAL_THREADS)

    def __enter__(self) -> Hands:
        if self._crew is not None:
            self._crew.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._lookers.shutdown()
        self._purgers.shutdown()
        if self._crew is not None:
            self._crew.__exit__()

    def each(self, work: Callable[[Item], None], items: Sequence[Item]) -> None:
        """Does the work for every item, in order, or at once where calls wait."""
        for _ in self._lookers.map(work, items) if self._remote else map(work, items):
            pass

    def look_at(self, root: LocalRoot, copies: Sequence[Sequence[str]]) -> list[Measured]:
        """What each copy below a root measures."""
        if self._remote:
            return list(self._lookers.map(lambda paths: measure_all(root, [paths])[0], copies))
        return measure_all(root, copies)

    def measure_all(self, root: LocalRoot, copies: Sequence[Sequence[str]]) -> list[Measured]:
        """What each copy in a trash folder measures."""
        if self._crew is not None:
            return list(self._crew.each(lambda helper, paths: helper.measure(root, paths), copies))
        return self.look_at(root, copies)

    def purge_all(self, replica: OpenReplica, withdrawals: Sequence[Withdrawal]) -> list[Future[trash.Purged]]:
        """Begins to remove what was withdrawn, in the order given; in an object store all of it in bulk."""
        if not replica.in_store:
            return [self.purge(replica, withdrawal) for withdrawal in withdrawals]
        together = self._purgers.submit(objects.purge, replica, withdrawals)
        return [self._purgers.submit(_of_one, together, withdrawal.id) for withdrawal in withdrawals]

    def purge(self, replica: OpenReplica, withdrawal: Withdrawal) -> Future[trash.Purged]:
        """Begins to remove what was withdrawn."""
        if self._crew is None or replica.in_store:
            return self._purgers.submit(trash.purge, replica, withdrawal)
        crew = self._crew
        return crew.submit(
            lambda: trash.purge(replica, withdrawal, lambda root, path: crew.helper().remove(root, path))
        )


def _of_one(together: Future[dict[str, trash.Purged]], id: str) -> trash.Purged:
    return together.result()[id]
