"""PyTorch Lightning: checkpoints that appear whole or not at all, and are mirrored and pruned behind training::

    from prune.integrations.lightning import PruneCallback, PublishedCheckpointIO, resume_checkpoint

    trainer = Trainer(
        callbacks=[ModelCheckpoint(dirpath, save_top_k=-1, every_n_train_steps=100), PruneCallback(keep_last=12)],
        plugins=[PublishedCheckpointIO()],
    )
    trainer.fit(model, ckpt_path=resume_checkpoint(dirpath))

Lightning's own save goes through the system's directory for temporaries; where that is another file system, it is a
plain copy onto the final name, and a kill leaves half a checkpoint there. Give ``save_top_k=-1``, so that there is one
janitor in the house. Strategies that write a directory of shards do so without the CheckpointIO: ``published`` is for
those.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from prune.checking import Check
from prune.errors import UsageError
from prune.integrations.background import LEAVING_SECONDS, Background, Failure, Work
from prune.integrations.ranks import published_together
from prune.integrations.torch import resume_together, save
from prune.layouts.base import Entry
from prune.layouts.lightning import Lightning
from prune.model import Kind
from prune.publish.target import StrPath

if TYPE_CHECKING:
    Callback: Any
    TorchCheckpointIO: Any
else:
    try:
        from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
        from lightning.pytorch.callbacks import Callback
    except ImportError:  # the same library under its older name
        from lightning_fabric.plugins.io.torch_io import TorchCheckpointIO
        from pytorch_lightning.callbacks import Callback

__all__ = ["PruneCallback", "PublishedCheckpointIO", "published", "resume_checkpoint"]
S = TypeVar("S", bound=Any)
_log = logging.getLogger("prune")


def resume_checkpoint(dirpath: StrPath, *, mirrors: Sequence[StrPath] = (), check: Check = "sha256") -> str | None:
    """What to give ``trainer.fit(ckpt_path=…)``: the newest checkpoint that verifies, None for a new run.

    It may be a path on a mirror. ``dirpath`` must be there already: a directory that is not may be on a disk that is
    not mounted, and is no new run. Raises as :func:`prune.resume` does otherwise.
    """
    found = resume_together(dirpath, mirrors=mirrors, check=check, layout="lightning")
    return None if found is None else found.path


class PublishedCheckpointIO(TorchCheckpointIO):  # type: ignore[misc, unused-ignore]
    """Writes each checkpoint file beside its final name, with its manifest, and renames it when it is on disk.

    ``root`` is the run's root, where checkpoints lie deeper than directly in it. A path of another file system
    (``s3://…``) is left to Lightning. Sharded directories never come here: see :func:`published`.
    """

    def __init__(self, root: StrPath | None = None) -> None:
        super().__init__()
        self._root = root

    def save_checkpoint(self, checkpoint: dict[str, Any], path: StrPath, storage_options: Any = None) -> None:
        text = os.fspath(path)
        text = os.fsdecode(text)
        if storage_options is not None or "://" in text:
            super().save_checkpoint(checkpoint, path, storage_options)
            return
        os.makedirs(os.path.dirname(text) or ".", exist_ok=True)
        save(checkpoint, text, step=_step(text, checkpoint), root=self._root)


def published(strategy: S, *, manifest: bool = True, root: StrPath | None = None) -> S:
    """The same strategy, whose directories of shards appear when every process has written its part::

        Trainer(strategy=published(FSDPStrategy(state_dict_type="sharded")), …)

    It is for FSDP, model parallelism and DeepSpeed, which write such directories in place. What the strategy saves as
    one file goes through the CheckpointIO as before. ``manifest``, ``root`` and errors are those of
    :func:`prune.integrations.torch.published_together`.
    """
    saves = strategy.save_checkpoint

    @functools.wraps(saves)
    def save_checkpoint(checkpoint: dict[str, Any], filepath: StrPath, storage_options: Any = None) -> None:
        text = os.fsdecode(strategy.broadcast(filepath))
        if not _shards(strategy) or storage_options is not None or "://" in text:
            saves(checkpoint, filepath, storage_options)
            return
        with published_together(text, step=_step(text, checkpoint), manifest=manifest, root=root) as folder:
            saves(checkpoint, folder)

    strategy.save_checkpoint = save_checkpoint
    return strategy


def _shards(strategy: Any) -> bool:
    """Whether a strategy writes a directory now. FSDP and model parallelism can do either, DeepSpeed only that."""
    kind = getattr(strategy, "_state_dict_type", None)
    together = getattr(strategy, "_save_distributed_checkpoint", False)
    return kind == "sharded" or bool(together) or hasattr(strategy, "deepspeed_engine")


def _step(path: str, checkpoint: dict[str, Any]) -> int:
    """The step that the name tells, as the layout reads it; else the trainer's."""
    claim = Lightning().claim(Entry(os.path.basename(path), Kind.FILE))
    if claim is not None and claim.step is not None:
        return claim.step
    return int(checkpoint.get("global_step", 0))


class PruneCallback(Callback):  # type: ignore[misc, unused-ignore]
    """After each save, in the background: seals the step, brings the mirrors up to date, prunes by policy.

    The run's root is ``dirpath``, by default that of the first checkpoint callback, unless ``config`` (a prune.toml)
    says more; ``work`` turns single works off. Only the first process works. Nothing is raised into training but
    UsageError at its beginning, for settings that cannot be; what failed is logged and stands in ``failures``. The end
    of fitting waits for the work.
    """

    def __init__(
        self,
        *,
        dirpath: StrPath | None = None,
        mirrors: Sequence[StrPath] = (),
        policy: str | None = None,
        keep_last: int | None = None,
        config: StrPath | None = None,
        run: str | None = None,
        work: Work | None = None,
    ) -> None:
        super().__init__()
        self._given: dict[str, Any] = {"policy": policy, "keep_last": keep_last, "config": config, "run": run}
        self._dirpath = dirpath
        self._mirrors = tuple(mirrors)
        self._work = work
        self._saving: int | None = None
        self.background: Background | None = None  # while fitting
        self.failures: list[Failure] = []

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        if not trainer.is_global_zero or self.background is not None:
            return
        root = self._dirpath or getattr(trainer.checkpoint_callback, "dirpath", None)
        if self._given["config"] is not None:
            root = None
        elif root is None:
            raise UsageError("no checkpoint callback says where checkpoints go", mend="give dirpath=… or config=…")
        elif "://" not in os.fsdecode(root):
            os.makedirs(root, exist_ok=True)
        layout = "lightning" if root is not None else None
        self.background = Background(root, mirrors=self._mirrors, layout=layout, work=self._work, **self._given)
        self.background.failures = self.failures
        self._warn_of_two_janitors(trainer)
        self.background.tell_candidate()

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """It is about to be written; by the next hook it is."""
        self._saving = int(checkpoint.get("global_step", trainer.global_step))

    def on_train_batch_start(self, *_: Any) -> None:
        self._saved()

    def on_train_epoch_start(self, *_: Any) -> None:
        self._saved()

    def on_validation_start(self, *_: Any) -> None:
        self._saved()

    def on_train_end(self, *_: Any) -> None:
        self._saved()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        self._saved()
        self._finish(None)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        self._finish(LEAVING_SECONDS)

    def _saved(self) -> None:
        step, self._saving = self._saving, None
        if step is not None and self.background is not None:
            self.background.saved(step)

    def _finish(self, seconds: float | None) -> None:
        if self.background is not None:
            self.background.finish(seconds)
            self.background = None

    def _warn_of_two_janitors(self, trainer: Any) -> None:
        assert self.background is not None
        last = self.background.settings.runs[0].keep.last
        for callback in trainer.checkpoint_callbacks:
            kept = getattr(callback, "save_top_k", -1)
            if 0 < kept <= last:
                _log.warning(
                    "save_top_k=%d: Lightning deletes what keep.last = %d counts on; give save_top_k=-1", kept, last
                )
