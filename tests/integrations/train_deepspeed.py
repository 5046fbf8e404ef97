"""A tiny model that DeepSpeed trains on one CPU: python -m tests.integrations.train_deepspeed ROOT STEPS …

Without ``--tag`` DeepSpeed resumes by itself, from the one that ``latest`` names. With KILL_AT set it dies in the
middle of that file.
"""

from __future__ import annotations

import argparse
import json
import os
import socket

import deepspeed
import torch
from torch import nn

from tests.integrations.training import KILL_AT, dying_torch_save

CONFIG = {
    "train_batch_size": 2,
    "zero_optimization": {"stage": 1},
    "zero_allow_untested_optimizer": True,
    "bf16": {"enabled": True},
}


def alone() -> None:
    """A group of this one process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE="1", RANK="0", LOCAL_RANK="0")
    deepspeed.init_distributed(dist_backend="gloo", auto_mpi_discovery=False, verbose=False)


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("root")
    words.add_argument("steps", type=int)
    words.add_argument("--tag")
    words.add_argument("--weights-alone", action="store_true")
    given = words.parse_args()
    alone()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=CONFIG)
    path, _ = engine.load_checkpoint(given.root, tag=given.tag, load_module_only=given.weights_alone)
    begun, weights = engine.global_steps, engine.module.weight.float().flatten().tolist()
    if os.environ.get(KILL_AT):
        torch.save = dying_torch_save(torch.save)
    while engine.global_steps < given.steps:
        loss = engine(torch.randn(2, 4, dtype=torch.bfloat16)).square().mean()
        engine.backward(loss)
        engine.step()
        if engine.global_steps % 2 == 0:
            engine.save_checkpoint(given.root)
    print(json.dumps({"resumed": path, "start": begun, "ended": engine.global_steps, "weights": weights}))


if __name__ == "__main__":
    main()
