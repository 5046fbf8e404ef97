"""A small training loop that can be killed anywhere: it publishes, mirrors, prunes, and resumes from what verifies.

What it computes is a chain of hashes, so that a run that resumed from the wrong state ends with another result.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from pathlib import Path

import prune
from prune import engine
from prune.mirror import mirror
from prune.settings.schema import Guards, Keep, ReplicaSettings, RunSettings, Settings

STEPS, EVERY = 60, 10


def load(path: str) -> dict[str, object]:
    state = json.loads(Path(path).read_bytes())
    assert isinstance(state, dict)
    return state


def settings_of(out: Path, keep: int) -> Settings:
    replicas = (
        ReplicaSettings("primary", str(out / "ckpt"), "primary"),
        ReplicaSettings("mirror", str(out / "mirror"), "mirror"),
    )
    run = RunSettings("chaos", replicas, keep=Keep(last=keep), guards=Guards(in_flight=0))
    return Settings((run,), state=f"sqlite:///{out}/state.db")


def begin(out: Path) -> tuple[int, str]:
    """The step and the state to go on from."""
    try:
        state, candidate = prune.load_latest(out / "ckpt", load, mirrors=[out / "mirror"])
    except prune.NothingYet:
        return 0, "begin"
    print(f"resumed from step {candidate.step}", flush=True)
    return int(str(state["step"])), str(state["chain"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--keep", type=int, default=3)
    options = parser.parse_args()
    out: Path = options.out
    for name in ("ckpt", "mirror"):
        (out / name).mkdir(parents=True, exist_ok=True)
    os.environ["PRUNE_STATE"] = f"sqlite:///{out}/state.db"
    settings = settings_of(out, options.keep)
    step, chain = begin(out)
    while step < STEPS:
        step += 1
        chain = hashlib.sha256(f"{chain} {step}".encode()).hexdigest()
        if step % EVERY == 0:
            with prune.publish(out / "ckpt" / f"step_{step:04d}.bin", step=step) as file:
                file.write(json.dumps({"step": step, "chain": chain, "ballast": "x" * 5000}).encode())
            mirror(settings)
            engine.apply(settings)
    with prune.publish(out / "final.json", manifest=False) as file:
        file.write(json.dumps({"step": step, "chain": chain}).encode())


if __name__ == "__main__":
    main()
