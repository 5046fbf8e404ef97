"""Checkpoints put into a bucket, and what is there: without the product's own code where it is under test."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

obstore = pytest.importorskip("obstore", reason="needs obstore: pip install 'ckpt-prune[object]'")

from obstore.store import S3Store  # noqa: E402

from prune.settings.schema import Guards, Keep, ReplicaSettings, RunSettings  # noqa: E402
from prune.stores.object.address import Address  # noqa: E402
from tests.trees.build import torch_zip  # noqa: E402

SETTLED = Guards(in_flight=0)  # what was put a moment ago counts as written long ago


def store_of(url: str) -> S3Store:
    return S3Store(Address.of(url).bucket, client_options={"allow_http": True})


MOST_IN_ORDER = 64


def put(url: str, path: str, data: bytes) -> None:
    obstore.put(store_of(url), Address.of(url).key(path), data)


def put_all(url: str, files: dict[str, bytes]) -> None:
    """Step after step, as a trainer saves them: a store's times are whole seconds, and what was written last is held.

    Very many steps go at once; where they are many the oldest is hardly ever the last one written.
    """
    store, address = store_of(url), Address.of(url)
    steps: dict[int, list[str]] = {}
    for path in files:
        steps.setdefault(_number(path), []).append(path)
    ordered = [paths for _, paths in sorted(steps.items())]
    with ThreadPoolExecutor(8) as pool:
        for paths in ordered if len(ordered) <= MOST_IN_ORDER else [[*files]]:
            list(pool.map(lambda path: obstore.put(store, address.key(path), files[path]), paths))


def _number(path: str) -> int:
    found = re.search(r"\d+", path)
    return int(found[0]) if found else 0


def uploaded(root: Path, url: str) -> str:
    """A local tree as it looks after somebody uploaded it."""
    put_all(url, {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()})
    return url


def keys(url: str, *, ours: bool = False) -> list[str]:
    """Paths below a root, those of the control folder left out."""
    address = Address.of(url)
    found = [meta["path"] for chunk in obstore.list(store_of(url), address.prefix or None) for meta in chunk]
    paths = sorted(address.below(key) for key in found)
    return [path for path in paths if path.startswith(".prune/") == ours]


def step_keys(steps: range, *, size: int = 1024) -> dict[str, bytes]:
    """``step_0010.pt`` …, whole torch files."""
    return {f"step_{step:04d}.pt": torch_zip(size, fill=b"%d" % step) for step in steps}


def step_prefixes(steps: range, *, files: int = 3, size: int = 512) -> dict[str, bytes]:
    """``step-10/`` …, prefixes of whole torch files."""
    found = {}
    for step in steps:
        for number in range(files):
            found[f"step-{step}/rank_{number}.pt"] = torch_zip(size, fill=b"%d" % step)
        found[f"step-{step}/optim/state.pt"] = torch_zip(size)
    return found


def run_on(primary: str | Path, *mirrors: str | Path, last: int = 3, name: str = "tiny", capacity: int | None = None,
           guards: Guards = SETTLED, **more: object) -> RunSettings:  # fmt: skip
    """A run on these roots, any of which may be a URL."""
    replicas = [ReplicaSettings("primary", str(primary), "primary", capacity=capacity)]
    replicas += [ReplicaSettings("mirror" if not number else f"mirror-{number + 1}", str(root), "mirror")
                 for number, root in enumerate(mirrors)]  # fmt: skip
    return RunSettings(name, tuple(replicas), keep=Keep(last=last), guards=guards, **more)  # type: ignore[arg-type]
