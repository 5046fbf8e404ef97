"""Several processes that write, or resume from, one checkpoint: one of them acts, the others hear of it.

Without a process group there is one process, and every function here does at once what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from prune.errors import Failed
from prune.publish import publish_directory
from prune.publish.target import StrPath

T = TypeVar("T")


@contextmanager
def published_together(
    path: StrPath, *, step: int | None = None, manifest: bool = True, root: StrPath | None = None, group: Any = None
) -> Iterator[Path]:
    """:func:`prune.publish_directory` for all processes of a group, which all enter the block::

        with published_together("/data/ckpt/tiny/step-810", step=810) as folder:
            dcp.save(state, checkpoint_id=folder)

    The first process makes the place and publishes it once all have left the block; each of them leaves only when the
    name is public. When any of them raises, nothing is published: that one raises its own error, the others Failed.
    ``group`` is a process group of torch.distributed (None: the default one). Arguments and errors are otherwise those
    of :func:`prune.publish_directory`.

    The manifest is hashes of every file, read by the first process while the others wait: where that takes long beside
    the group's timeout, ``manifest=False`` leaves it to be sealed behind training, by ``Background`` or ``prune seal``.
    """
    if not _is_distributed():
        with publish_directory(path, step=step, manifest=manifest, root=root) as folder:
            yield folder
        return
    opened = publish_directory(path, step=step, manifest=manifest, root=root)
    folder = Path(first_does(lambda: str(opened.__enter__()), group=group))
    try:
        yield folder
    except BaseException as error:
        own = error
        _all_well(own, group)
        first_does(lambda: _left(opened, own), group=group, quietly=True)
        raise
    trouble = _all_well(None, group)
    first_does(lambda: _left(opened, trouble), group=group, quietly=trouble is not None)
    if trouble is not None:
        raise trouble


def first_does(act: Callable[[], T], *, group: Any = None, quietly: bool = False) -> T:
    """What ``act`` returned in the first process, in all of them. It must be something that can be pickled.

    When it raises, the first process raises that, the others Failed with its words; ``quietly``: nobody raises.
    """
    if not _is_distributed():
        return act()
    import torch.distributed as dist  # type: ignore[import-not-found, unused-ignore]

    told: list[Any] = [None, None]
    error: BaseException | None = None
    if dist.get_rank(group) == 0:
        try:
            told[0] = act()
        except BaseException as raised:  # raised again below, once the others know
            error, told[1] = raised, f"{type(raised).__name__}: {raised}"
    dist.broadcast_object_list(told, src=_first_of(group), group=group)
    if error is not None and not quietly:
        raise error
    if told[1] is not None and not quietly:
        raise Failed(f"the first process failed: {told[1]}")
    return told[0]  # type: ignore[no-any-return]


def barrier(group: Any = None) -> None:
    """Waits until every process is here."""
    if _is_distributed():
        import torch.distributed as dist

        dist.barrier(group)


def _left(opened: Any, error: BaseException | None) -> None:
    """Leaves the block of the one publication: with an error it publishes nothing."""
    if error is None:
        opened.__exit__(None, None, None)
        return
    try:
        opened.__exit__(type(error), error, error.__traceback__)
    except BaseException as raised:
        if raised is not error:
            raise


def _all_well(error: BaseException | None, group: Any) -> Failed | None:
    """What another process met, once every one has told whether its part is written."""
    import torch.distributed as dist

    said: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(said, None if error is None else f"{type(error).__name__}: {error}", group=group)
    for rank, trouble in enumerate(said):
        if trouble is not None and error is None:
            return Failed(f"nothing was published: process {rank} failed with {trouble}")
    return None


def _first_of(group: Any) -> int:
    import torch.distributed as dist

    return 0 if group is None else int(dist.get_global_rank(group, 0))


def _is_distributed() -> bool:
    """Asked of torch only where the caller has it already: nothing here is worth importing it."""
    import sys

    if "torch" not in sys.modules:
        return False
    import torch.distributed as dist

    return bool(dist.is_available() and dist.is_initialized())
