"""The control folder: all that is ours in a root, in one hidden place that moves with it.

place.py where it stands · volume.py who this volume is · lock.py one deleter at a time · record.py what is being
withdrawn · tombstones.py what was pruned · holds.py pins and leases · folder.py the folder itself
"""

from prune.control.folder import Control
from prune.control.place import CONTROL_NAME, Place, find_place

__all__ = ["CONTROL_NAME", "Control", "Place", "find_place"]
