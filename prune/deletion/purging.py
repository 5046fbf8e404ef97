"""The last step of a sweep: what was withdrawn and is as it was planned goes for good, while the sweep goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from prune.control import record
from prune.deletion import trash
from prune.deletion.hands import Hands
from prune.deletion.tally import Tally
from prune.deletion.withdraw import Going
from prune.inventory.site import OpenReplica
from prune.model import DeletedCopy, FailedCopy


@dataclass
class Purging:
    """What is on its way out for good, and the tally of what has gone."""

    hands: Hands
    tally: Tally
    told: Callable[[DeletedCopy], None]
    _pending: list[tuple[Going, Future[trash.Purged]]] = field(default_factory=list)

    def begin(self, out: Sequence[Going]) -> None:
        """The record learns what goes now, and the hands begin."""
        for replica in {id(g.replica): g.replica for g in out}.values():
            mine = [g for g in out if g.replica is replica]
            assert replica.control is not None
            try:
                replica.control.append_record(*(record.purging_line(g.withdrawal.id) for g in mine))
            except OSError as error:
                for going in mine:
                    detail = f"waits in the trash, {replica.control.path}: {error.strerror}"
                    self.tally.failed.append(FailedCopy(going.copy.step, going.copy.replica, detail))
                continue
            self._pending += zip(mine, self.hands.purge_all(replica, [g.withdrawal for g in mine]), strict=True)

    def collect(self, *, wait: bool) -> None:
        """Takes note of finished purges; with ``wait`` of all of them."""
        rest = []
        done: list[Going] = []
        for going, future in self._pending:
            if not wait and not future.done():
                rest.append((going, future))
                continue
            purged = future.result()
            if purged.error is None:
                done.append(going)
            else:
                self.tally.failed.append(FailedCopy(going.copy.step, going.copy.replica, purged.error))
        self._pending = rest
        for replica in {id(going.replica): going.replica for going in done}.values():
            self._record_purged(replica, [going for going in done if going.replica is replica])
        for going in done:
            self.went(going, purged=True)

    def went(self, going: Going, *, purged: bool) -> None:
        """Counts one copy that is out of sight, for good or until its grace ends."""
        copy = DeletedCopy(going.copy.step, going.copy.replica, going.freed, going.files, purged, going.held_elsewhere)
        of_its_kind = self.tally.thinned if going.withdrawal.why == record.THINNED else self.tally.deleted
        of_its_kind.append(copy)
        self.told(copy)

    def _record_purged(self, replica: OpenReplica, done: Sequence[Going]) -> None:
        assert replica.control is not None
        try:
            replica.control.append_record(*(record.purged_line(g.withdrawal.id) for g in done), sync=False)
        except OSError as error:
            detail = f"purged, not recorded: {error.strerror}"
            self.tally.failed += [FailedCopy(g.copy.step, g.copy.replica, detail) for g in done]
