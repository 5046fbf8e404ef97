import re

import pytest

from prune import layouts
from prune.layouts import hints
from prune.layouts.base import Entry, Kind, Part

NAMES = [
    "checkpoint-10/", "tmp-checkpoint-10/", "checkpoint_3/", "checkpoint_000003/",
    "checkpoint_2026-11-29_16-38-24.467664/", "step_10/", "step-10/", "step10/", "epoch_3/", "global_step10/",
    "global_step_10/", "bf16_step10/", "iter_0001000/", "release/", "10/", "run_10/", "10.orbax-checkpoint-tmp/",
    "000400/", ".staging-000400/", ".tmp-checkpoint-10/", "checkpoint-foo-12/", "ep1-ba10/", "ep1-ba10-rank0.pt",
    "ep1-ba10.tar.gz", "ba10/", "latest-rank0.pt", "model--val_loss=0.2-epoch=1-step=10/",
    "model--val_loss=0.2-epoch=1-step=10-last/", "epoch=0-step=10.ckpt", "epoch=0-step=10.ckpt/",
    "epoch=0-step=10-v1.ckpt", "last.ckpt", "step_0010.pt", "step_10.safetensors", "step_10.pt.part",
    "model.01-0.21.keras", "m.01.weights.h5", "m-3.h5", "m-3.hdf5", "m-3.weights.json", "m-3_00001.weights.h5",
    "latest.weights.h5", "cp-0001.ckpt.index", "cp-0001.ckpt.data-00000-of-00001", "ckpt-10.index",
    "ckpt-10.data-00000-of-00001", "model.ckpt-10.meta", "ckpt-10_temp/", "ckpt-10.index.tempstate123",
    "rl_model_100_steps.zip", "rl_model_replay_buffer_100_steps.pkl", "epoch3.pt", "last.pt", "best.pt", "ckpt.pt",
    "checkpoint3.pt", "checkpoint_1_500.pt", "checkpoint_last.pt", "checkpoint_1_500-shard0.pt",
    "checkpoint.best_loss_1.2345.pt", "checkpoint3.pt.tmp", "checkpoint_manager_snapshot.json",
]  # fmt: skip


@pytest.mark.parametrize("name", sorted(hints.HINTS))
def test_a_hint_lets_every_name_through_that_its_layout_knows(name: str) -> None:
    layout = layouts.get(name)
    known = []
    for shown in NAMES:
        claim = layout.claim(Entry(shown.rstrip("/"), Kind.DIR if shown.endswith("/") else Kind.FILE))
        if claim is not None and (
            claim.part is Part.PAYLOAD or (claim.part is Part.TEMPORARY and claim.step is not None)
        ):
            known.append(shown)
            assert hints.worth_asking(name, [re.sub("[0-9]+", "#", shown)]), shown
    assert known, "no name of the list is known to this layout"


def test_a_layout_without_a_hint_is_always_asked() -> None:
    assert hints.worth_asking("unheard-of", ["anything"])


def test_plain_numbered_files_bring_in_few_layouts() -> None:
    assert [name for name in layouts.names() if hints.worth_asking(name, ["step_#.pt", "config.json"])] == [
        "custom",
        "step-file",
    ]
