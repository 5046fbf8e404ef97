"""Finds writers that put half of something under a final name: in sources, or as they do it.

python.py, shell.py what a source says · scopes.py names in Python · words.py what speaks of checkpoints · sources.py
which files are read · inotify.py, watch.py what happens in a directory · finding.py what is found
"""

from prune.audit.finding import Audited, Finding
from prune.audit.sources import audit

__all__ = ["Audited", "Finding", "audit"]
