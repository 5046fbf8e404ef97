"""Probes a replica: what its file system keeps of what it promises, and what that means for pruning."""

from prune.doctor.examine import examine
from prune.doctor.probes import Finding

__all__ = ["Finding", "examine"]
