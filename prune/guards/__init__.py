"""Vetoes and blocks: what makes the product delete less than the policy would. Pure, one function each.

They live here, below every command: what one command spares, all of them spare.
"""

from prune.guards.blocks import standing_blocks, too_many, worst_first
from prune.guards.changes import changed
from prune.guards.orphans import orphans
from prune.guards.scene import Scene
from prune.guards.vetoes import vetoes

__all__ = ["Scene", "changed", "orphans", "standing_blocks", "too_many", "vetoes", "worst_first"]
