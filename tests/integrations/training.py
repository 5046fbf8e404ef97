"""Runs a training of its own process, and kills it in the middle of a save."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

KILL_AT = "KILL_AT"  # the end of the path of the file in whose writing the training dies
ROOT = Path(__file__).parent.parent.parent


def train(module: str, *words: str | Path, state: Path, kill_at: str | None = None) -> subprocess.CompletedProcess[str]:
    """``python -m tests.integrations.<module> words…``; with ``kill_at`` it must die by SIGKILL, else succeed."""
    environment = {**os.environ, "PRUNE_STATE": f"sqlite:///{state}", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTEST_CURRENT_TEST", None)
    if kill_at is not None:
        environment[KILL_AT] = kill_at
    done = subprocess.run(
        [sys.executable, "-m", f"tests.integrations.{module}", *map(str, words)],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    expected = -signal.SIGKILL if kill_at is not None else 0
    assert done.returncode == expected, (done.returncode, done.stdout[-2000:], done.stderr[-4000:])
    return done


def told(module: str, *words: str | Path, state: Path, kill_at: str | None = None) -> dict[str, Any]:
    """What a training says of itself in its last line, and its stderr; one that was killed says no more than that."""
    done = train(module, *words, state=state, kill_at=kill_at)
    said: dict[str, Any] = {} if kill_at else json.loads(done.stdout.strip().splitlines()[-1])
    return said | {"stderr": done.stderr}


def train_by_two(module: str, *words: str | Path, state: Path) -> list[tuple[str, str]]:
    """The same training in two processes of one group; what each of them wrote to stdout and stderr."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "ACCELERATE_USE_CPU": "true"}
    environment = {**os.environ, "PRUNE_STATE": f"sqlite:///{state}", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
    running = [
        subprocess.Popen(
            [sys.executable, "-m", f"tests.integrations.{module}", *map(str, words)],
            env={**environment, **group, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        told = [process.communicate(timeout=300) for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0, 0], told
    return told


def die_in_the_middle_of(path: str, data: bytes) -> None:
    """Where this is the file to die in: half of it, and no more of this process."""
    if os.environ.get(KILL_AT) and path.endswith(os.environ[KILL_AT]):
        with open(path, "wb") as file:
            file.write(data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)


def dying_torch_save(save: Callable[..., Any]) -> Callable[..., Any]:
    """``torch.save`` that dies in the middle of the file to die in."""
    import io

    def saved(obj: Any, file: Any, *args: Any, **more: Any) -> Any:
        name = str(file) if isinstance(file, str | Path) else str(getattr(file, "name", file))
        if os.environ.get(KILL_AT) and name.removesuffix(".part").endswith(os.environ[KILL_AT]):
            held = io.BytesIO()
            save(obj, held, *args, **more)
            data = held.getvalue()
            if hasattr(file, "write"):
                file.write(data[: len(data) // 2])
                file.flush()
            else:
                Path(file).write_bytes(data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return save(obj, file, *args, **more)

    return saved


def configure(root: Path, *, mirrors: Sequence[Path] = (), keep: str = "last = 3", layout: str = "auto") -> Path:
    """A prune.toml beside the root under which what was written a moment ago counts as done."""
    listed = ", ".join(f'"{mirror}"' for mirror in mirrors)
    path = root.parent / f"{root.name}.toml"
    path.write_text(
        f'[[runs]]\nname = "{root.name}"\nprimary = "{root}"\nmirrors = [{listed}]\nlayout = "{layout}"\n'
        f'[runs.keep]\n{keep}\n[runs.guards]\nin_flight = "0s"\n'
    )
    return path
