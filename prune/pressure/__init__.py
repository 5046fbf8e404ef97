"""Room on disk: water marks, the cheap look whether they are crossed, and the order in which room is made.

Low water (``free_below``) starts it and high water (``free_target``) ends it. What is let go of, and when it stops,
is :mod:`prune.pressure.relief`; how free space is read between two victims is :mod:`prune.pressure.gate`.
"""

from prune.pressure.marks import Wish, low_water, wish_of
from prune.pressure.relief import Relief, make_room, relieve

__all__ = ["Relief", "Wish", "low_water", "make_room", "relieve", "wish_of"]
