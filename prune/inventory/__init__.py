"""Replicas → Inventory: what stands where, listed once, looked into only as far as a decision needs."""

from prune.inventory.gather import gather
from prune.inventory.opening import open_site
from prune.inventory.site import OpenReplica, Site

__all__ = ["OpenReplica", "Site", "gather", "open_site"]
