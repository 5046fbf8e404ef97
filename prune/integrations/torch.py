"""Plain PyTorch, DCP and Accelerate: saves that appear whole or not at all, and loading that falls back::

    from prune.integrations import torch as whole

    whole.save(state, "/data/ckpt/tiny/step_0810.pt", step=810)
    state, found = whole.load_latest("/data/ckpt/tiny", mirrors=["/mnt/mirror/tiny"])

With a process group of torch.distributed, what concerns a whole directory is called by every process, as
``dcp.save`` is; ``save`` and ``load_latest`` belong to one process. Nothing here runs in the background: see
:class:`prune.integrations.background.Background` for sealing, mirroring and pruning behind training.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from prune.checking import Check
from prune.control import Control
from prune.control.place import beside, find_place
from prune.errors import NothingYet, UsageError
from prune.integrations.background import Background
from prune.integrations.ranks import first_does, published_together
from prune.layouts.accelerate import AUTOMATIC
from prune.load import load_latest
from prune.publish import publish
from prune.publish.target import StrPath
from prune.resume import Usable, resume

__all__ = [
    "Background", "dcp_load_latest", "dcp_save", "load_latest", "published_together", "resume_together", "save",
    "save_state",
]  # fmt: skip


def save(
    obj: Any, path: StrPath, *, step: int | None = None, sidecar: bool = False, root: StrPath | None = None, **how: Any
) -> None:
    """``torch.save(obj, path)`` that gives the name only to a whole file; ``how`` goes to ``torch.save``.

    Arguments and errors are those of :func:`prune.publish`.
    """
    import torch  # type: ignore[import-not-found, unused-ignore]

    with publish(path, step=step, sidecar=sidecar, root=root) as file:
        torch.save(obj, file, **how)


def dcp_save(
    state: dict[str, Any],
    path: StrPath,
    *,
    step: int | None = None,
    manifest: bool = True,
    root: StrPath | None = None,
    process_group: Any = None,
    **how: Any,
) -> None:
    """``dcp.save(state, checkpoint_id=path)`` into a directory that appears when every rank's shards are written.

    Called by all processes of ``process_group`` (None: the default one); ``how`` goes to ``dcp.save``. A directory that
    stands under the name is replaced in one instant, so none is ever half old and half new. Raises as
    :func:`published_together` does.
    """
    import torch.distributed.checkpoint as dcp  # type: ignore[import-not-found, unused-ignore]

    with published_together(path, step=step, manifest=manifest, root=root, group=process_group) as folder:
        dcp.save(state, checkpoint_id=os.fspath(folder), process_group=process_group, **how)


def save_state(
    accelerator: Any,
    path: StrPath,
    *,
    step: int | None = None,
    manifest: bool = True,
    root: StrPath | None = None,
    **how: Any,
) -> None:
    """``accelerator.save_state(path)`` into a directory that appears when every process has written its part.

    Called by all processes; ``how`` goes to ``save_state``, the rest to :func:`published_together`. Accelerate's
    automatic names cannot be published: it makes those directories itself, under their final names. Raises UsageError
    where they are turned on.
    """
    if accelerator.project_configuration.automatic_checkpoint_naming:
        raise UsageError(
            "Accelerate names its checkpoints itself (automatic_checkpoint_naming), so none can be published whole",
            mend="turn it off and give a path for each, such as f'{project_dir}/checkpoints/checkpoint_{step}'",
        )
    first_does(lambda: _keep_apart(path))
    with published_together(path, step=step, manifest=manifest, root=root) as folder:
        accelerator.save_state(os.fspath(folder), **how)


def dcp_load_latest(
    state: dict[str, Any],
    root: StrPath,
    *,
    mirrors: Sequence[StrPath] = (),
    check: Check = "sha256",
    layout: str = "auto",
    process_group: Any = None,
    **how: Any,
) -> Usable | None:
    """Loads into ``state`` the newest checkpoint under ``root`` that verifies; None for a new run.

    Called by all processes. ``how`` goes to ``dcp.load``; errors are those of :func:`prune.resume`, and ``dcp.load``'s.
    """
    import torch.distributed.checkpoint as dcp

    found = resume_together(root, mirrors=mirrors, check=check, layout=layout, group=process_group)
    if found is not None:
        dcp.load(state, checkpoint_id=found.path, process_group=process_group, **how)
    return found


def resume_together(
    root: StrPath,
    *,
    mirrors: Sequence[StrPath] = (),
    check: Check = "sha256",
    layout: str = "auto",
    group: Any = None,
) -> Usable | None:
    """:func:`prune.resume` asked by the first process and told to all others; None for a new run.

    They wait for it no longer than the group's timeout. Where reading a checkpoint in full takes longer than that,
    ``check="structure"`` looks at heads and tails alone, or ask before there is a group.
    """

    def ask() -> Usable | None:
        try:
            return resume(root, mirrors=mirrors, check=check, layout=layout)
        except NothingYet:
            return None

    return first_does(ask, group=group)


def _keep_apart(path: StrPath) -> None:
    """Accelerate reads every entry of ``checkpoints/`` and stops at a name without a number: what is ours stands
    beside that folder."""
    folder = os.path.dirname(os.path.abspath(os.fsdecode(path)))
    if os.path.basename(folder) != AUTOMATIC or not os.path.isdir(folder):
        return
    real = os.path.realpath(folder)
    place = find_place(real, stand_beside=True)
    if place.trouble is None and not place.exists:
        Control.make(beside(real)).close()
