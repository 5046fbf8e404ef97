"""Probes a replica: what its file system keeps of what it promises, and what that means for pruning.

examine.py one replica · probes.py one question to a file system each · janitor.py whether the trainer deletes, too
"""

from prune.doctor.examine import examine
from prune.doctor.janitor import other_janitor
from prune.doctor.probes import Finding

__all__ = ["Finding", "examine", "other_janitor"]
