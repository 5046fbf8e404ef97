"""The nouns. Frozen values only: no clock, no disk, no environment.

Times are integers of nanoseconds since the epoch, sizes are bytes, paths are relative to their replica's root
(``str`` with ``surrogateescape`` for names that are not UTF-8).
"""

from __future__ import annotations

from prune.model.checkpoints import EMPTY as EMPTY
from prune.model.checkpoints import SECOND as SECOND
from prune.model.checkpoints import Copy as Copy
from prune.model.checkpoints import Health as Health
from prune.model.checkpoints import Identity as Identity
from prune.model.checkpoints import Kind as Kind
from prune.model.checkpoints import Pick as Pick
from prune.model.checkpoints import Pointer as Pointer
from prune.model.checkpoints import PointerState as PointerState
from prune.model.checkpoints import Spare as Spare
from prune.model.checkpoints import Temporary as Temporary
from prune.model.checkpoints import Verdict as Verdict
from prune.model.checkpoints import nothing as nothing
from prune.model.inventory import Attention as Attention
from prune.model.inventory import Block as Block
from prune.model.inventory import GuardHold as GuardHold
from prune.model.inventory import Inventory as Inventory
from prune.model.inventory import Lease as Lease
from prune.model.inventory import Pin as Pin
from prune.model.inventory import Replica as Replica
from prune.model.outcomes import DeletedCopy as DeletedCopy
from prune.model.outcomes import FailedCopy as FailedCopy
from prune.model.outcomes import GuardedStep as GuardedStep
from prune.model.outcomes import Outcome as Outcome
from prune.model.outcomes import RunOutcome as RunOutcome
from prune.model.plans import Candidate as Candidate
from prune.model.plans import Decision as Decision
from prune.model.plans import OrphanPlan as OrphanPlan
from prune.model.plans import Plan as Plan
from prune.model.plans import RunPlan as RunPlan
from prune.model.plans import StepPlan as StepPlan
from prune.model.plans import Thin as Thin
