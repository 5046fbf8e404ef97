"""Full paths and URLs: what is there, and roots opened by either."""

from __future__ import annotations

import os

from prune.stores.local import LocalRoot


def is_there(path: str) -> bool:
    """For a path without following its last link; for a URL an object of that key, or any below it.

    Raises OSError when a store cannot be asked.
    """
    if "://" not in path:
        return os.path.lexists(path)
    from prune.stores.object.address import Address
    from prune.stores.object.client import bucket

    address = Address.of(path)
    store = bucket(address)
    try:
        store.head(address.prefix)
        return True
    except FileNotFoundError:
        return any(page for page in store.pages(address.prefix))


def open_root(root: str) -> LocalRoot:
    """A root by its path or URL. Raises OSError when it cannot be opened."""
    if "://" not in root:
        return LocalRoot(root)
    from prune.stores.object.root import ObjectRoot

    return ObjectRoot(root)
