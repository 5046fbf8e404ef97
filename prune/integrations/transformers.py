"""The Hugging Face Trainer: checkpoints sealed, mirrored and pruned behind training, and resuming that falls back::

    from prune.integrations.transformers import PruneCallback, resume_checkpoint

    trainer = Trainer(..., callbacks=[PruneCallback(mirrors=["/mnt/mirror/tiny"], keep_last=12)])
    trainer.train(resume_from_checkpoint=resume_checkpoint(args.output_dir, mirrors=["/mnt/mirror/tiny"]))

The Trainer's own ``get_last_checkpoint`` takes the highest number, whole or not; ``resume_checkpoint`` takes the newest
that verifies. Leave ``save_total_limit`` unset, so that there is one janitor in the house.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any

from transformers import TrainerCallback  # type: ignore[import-not-found, unused-ignore]

from prune.checking import Check
from prune.integrations.background import Background, Failure, Work
from prune.integrations.ranks import barrier
from prune.integrations.torch import resume_together
from prune.publish.target import StrPath

__all__ = ["PruneCallback", "resume_checkpoint"]
_log = logging.getLogger("prune")


def resume_checkpoint(output_dir: StrPath, *, mirrors: Sequence[StrPath] = (), check: Check = "sha256") -> str | None:
    """What to give ``trainer.train(resume_from_checkpoint=…)``: the newest checkpoint that verifies; None: a new run.

    It may be a path on a mirror. Ask once the Trainer is made, which makes ``output_dir``. Called by every process of
    a job, one of them looks and tells the others where a process group is there already. Raises Damaged when there are
    checkpoints and none is usable, Blocked when a replica could not be looked at and nothing was found: neither is a
    new run.
    """
    found = resume_together(output_dir, mirrors=mirrors, check=check)
    return None if found is None else found.path


class PruneCallback(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """After each save, in the background: seals the step, brings the mirrors up to date, prunes by policy.

    The run's root is the Trainer's ``output_dir``, unless ``config`` (a prune.toml) says more; ``work`` turns single
    works off. Every process of a job must have one, since they wait for one another at a save; only the first works.
    Nothing is raised into training but UsageError at its beginning, for settings that cannot be; what failed is logged
    and stands in ``failures``. The end of training waits for the work.
    """

    def __init__(
        self,
        *,
        mirrors: Sequence[StrPath] = (),
        policy: str | None = None,
        keep_last: int | None = None,
        config: StrPath | None = None,
        run: str | None = None,
        work: Work | None = None,
    ) -> None:
        self._given: dict[str, Any] = {"policy": policy, "keep_last": keep_last, "config": config, "run": run}
        self._mirrors = tuple(mirrors)
        self._work = work
        self.background: Background | None = None  # while training
        self.failures: list[Failure] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if not state.is_world_process_zero or self.background is not None:
            return
        root = args.output_dir if self._given["config"] is None else None
        os.makedirs(args.output_dir, exist_ok=True)
        layout = "hf-trainer" if root is not None else None
        self.background = Background(root, mirrors=self._mirrors, layout=layout, work=self._work, **self._given)
        self.background.failures = self.failures
        self._warn_of_two_janitors(args)
        self.background.tell_candidate()

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        barrier()  # the state file may be there before the random states of all others are
        if self.background is not None:
            self.background.saved(state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.background is not None:
            self.background.finish()
            self.background = None

    def _warn_of_two_janitors(self, args: Any) -> None:
        assert self.background is not None
        last = self.background.settings.runs[0].keep.last
        limit = args.save_total_limit
        if limit is not None and 0 < limit <= last:
            _log.warning(
                "save_total_limit=%d: the Trainer deletes what keep.last = %d counts on; leave it unset", limit, last
            )
