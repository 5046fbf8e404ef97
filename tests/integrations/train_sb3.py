"""A tiny DQN that stable-baselines3 trains and checkpoints: python -m tests.integrations.train_sb3 ROOT TO [MODEL.zip].

With KILL_AT set it dies in the middle of that file.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from stable_baselines3 import DQN
from stable_baselines3.common import save_util
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from tests.integrations.training import KILL_AT

EVERY = 100


def learn(root: Path, to: int, model: Path | None = None) -> DQN:
    """Trains up to so many steps, anew or from what belongs to one checkpointed model."""
    torch.set_num_threads(1)
    agent = begun() if model is None else resumed(model)
    saving = CheckpointCallback(EVERY, str(root), save_replay_buffer=True, save_vecnormalize=True)
    agent.learn(to - agent.num_timesteps, callback=saving, reset_num_timesteps=False)
    return agent


def begun() -> DQN:
    environment = VecNormalize(make_vec_env("CartPole-v1", seed=0))
    return DQN("MlpPolicy", environment, buffer_size=500, learning_starts=10, policy_kwargs={"net_arch": [8]}, seed=0)


def resumed(model: Path) -> DQN:
    """As its documentation says: the model, and the two files of the same step."""
    environment = VecNormalize.load(str(beside(model, "vecnormalize")), make_vec_env("CartPole-v1", seed=0))
    agent = DQN.load(model, env=environment)
    agent.load_replay_buffer(beside(model, "replay_buffer"))
    return agent


def beside(model: Path, what: str) -> Path:
    """The replay buffer's or the normalisation's file of a model."""
    prefix, step = model.name.removesuffix("_steps.zip").rsplit("_", 1)
    return model.with_name(f"{prefix}_{what}_{step}_steps.pkl")


def dying_pickles() -> None:
    """The replay buffer is pickled right onto its final name: half of it, and no more of this process."""
    real = pickle.dump

    def dump(held: Any, file: Any, *args: Any, **more: Any) -> None:
        if str(getattr(file, "name", "")).endswith(os.environ[KILL_AT]):
            data = pickle.dumps(held, *args, **more)
            file.write(data[: len(data) // 2])
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        real(held, file, *args, **more)

    save_util.pickle.dump = dump


if __name__ == "__main__":
    if os.environ.get(KILL_AT):
        dying_pickles()
    learn(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
