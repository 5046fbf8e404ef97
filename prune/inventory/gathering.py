"""What a gathering works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from prune.inventory.judging import Evidence
from prune.inventory.site import Site
from prune.model import Inventory
from prune.stores.open_files import OpenFiles

Progress = Callable[[str, int, int], None]


@dataclass
class Gathering:
    """What a gathering works with."""

    site: Site
    now_ns: int
    evidence: Evidence
    keep_last: int | None
    progress: Progress
    imagine: Callable[[Inventory], Inventory] = lambda found: found
    courtesy: bool = True
    open_files: OpenFiles = field(default_factory=OpenFiles)

    @property
    def fresh_ns(self) -> int:
        return self.site.run.guards.in_flight


def silent(_what: str, _done: int, _of: int) -> None:
    pass
