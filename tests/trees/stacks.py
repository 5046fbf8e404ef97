"""Checkpoints of stacks that cannot be trained here, built file by file as their sources write them.

Payload is small and real where its format matters: ZIP files as ``torch.save`` makes them, a directory of shards that
``torch.distributed.checkpoint`` wrote itself.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from tests.trees.real import unpack


def put(path: Path, data: bytes | str = b"payload" * 32) -> Path:
    """A file with these bytes, its directories made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def put_json(path: Path, document: Any) -> Path:
    return put(path, json.dumps(document))


def put_torch(path: Path, **values: Any) -> Path:
    """What ``torch.save`` writes for a dict of plain values: a ZIP with ``data.pkl`` and one storage."""
    return put(path, _archive(path.stem, pickle.dumps(values, protocol=2), [b"\0" * 64]))


def put_torch_tensors(path: Path, **numbers: int) -> Path:
    """What ``torch.save`` writes for a dict of 32-bit tensors of one element."""
    opcodes = io.BytesIO()
    opcodes.write(b"\x80\x02}(")
    for index, name in enumerate(numbers):
        opcodes.write(_text(name) + b"ctorch._utils\n_rebuild_tensor_v2\n((")
        opcodes.write(_text("storage") + b"ctorch\nIntStorage\n" + _text(str(index)) + _text("cpu") + b"K\x01tQ")
        opcodes.write(b"K\x00))\x89ccollections\nOrderedDict\n)RtR")
    opcodes.write(b"u.")
    storages = [number.to_bytes(4, "little", signed=True) for number in numbers.values()]
    return put(path, _archive(path.stem, opcodes.getvalue(), storages))


def put_shards(directory: Path) -> Path:
    """A directory as ``torch.distributed.checkpoint`` itself wrote it: shards and their ``.metadata``."""
    for name, data in _real_shards().items():
        put(directory / name, data)
    return directory


def cut(path: Path, share: float = 0.73) -> None:
    """Cuts a file to a share of its length, as a killed writer leaves it."""
    os.truncate(path, int(path.stat().st_size * share))


# --- stacks ------------------------------------------------------------------------------------------------------


def deepspeed(root: Path, step: int, *, ranks: int = 2, tag: str | None = None) -> Path:
    folder = root / (tag or f"global_step{step}")
    config = {"zero_optimization": {"stage": 1}}
    put_torch(folder / "mp_rank_00_model_states.pt", global_steps=step, dp_world_size=ranks, ds_config=config)
    for rank in range(ranks):
        put_torch(folder / f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt", partition_count=ranks)
    return folder


def megatron(root: Path, step: int) -> Path:
    """The distributed format: shards, ``.metadata``, then ``metadata.json``."""
    folder = put_shards(root / f"iter_{step:07d}")
    put_json(folder / "metadata.json", {"sharded_backend": "torch_dist", "sharded_backend_version": 1})
    return folder


def megatron_ranks(root: Path, step: int, *, tensor: int = 2, pipeline: int = 2) -> Path:
    """The older format: a directory for each model-parallel rank."""
    folder = root / f"iter_{step:07d}"
    for rank in range(tensor):
        for stage in range(pipeline):
            put_torch(folder / f"mp_rank_{rank:02d}_{stage:03d}" / "model_optim_rng.pt", iteration=step)
            put_torch(folder / f"mp_rank_{rank:02d}_{stage:03d}" / "distrib_optim.pt")
    return folder


def megatron_bridge(root: Path, step: int) -> Path:
    folder = megatron(root, step)
    put_torch_tensors(folder / "train_state.pt", step=step, consumed_train_samples=8 * step)
    shutil.copy(folder / "train_state.pt", root / "latest_train_state.pt")
    put(root / "latest_checkpointed_iteration.txt", str(step))
    put(folder / "run_config.yaml", "model: {}\n")
    return folder


def nemo(root: Path, name: str) -> Path:
    folder = root / name
    put_shards(folder / "weights")
    put_json(folder / "weights" / "metadata.json", {"sharded_backend": "torch_dist"})
    put(folder / "context" / "io.json", "{}")
    return folder


def composer(root: Path, *, epoch: int, batch: int, ranks: int = 2) -> list[Path]:
    return [put_torch(root / f"ep{epoch}-ba{batch}-rank{rank}.pt", rank=rank) for rank in range(ranks)]


def ray_snapshot(root: Path, names: list[str], *, indices: list[int] | None = None, latest: str | None = None) -> Path:
    """Ray Train's snapshot of these checkpoints, in this order; ``latest`` is the last of them unless said."""
    rows = [{"version": 0, "checkpoint_dir_name": name, "metrics": {"loss": 1.0 + at}} for at, name in enumerate(names)]
    named = latest or (names[-1] if names else None)
    document: dict[str, Any] = {"ray_version": "2.60.0", "checkpoint_results": rows}
    document["latest_checkpoint_result"] = {"checkpoint_dir_name": named, "metrics": {}} if named else None
    if indices is not None:
        document["checkpoint_report_indices"] = indices
    return put_json(root / "checkpoint_manager_snapshot.json", document)


def verl(root: Path, step: int, *, world: int = 2, roles: tuple[str, ...] = ("actor", "critic")) -> Path:
    folder = root / f"global_step_{step}"
    for role in roles:
        for rank in range(world):
            for family in ("model", "optim", "extra_state"):
                put_torch(folder / role / f"{family}_world_size_{world}_rank_{rank}.pt")
        put_json(folder / role / "fsdp_config.json", {"world_size": world})
    put_torch(folder / "data.pt")
    return folder


def llama_factory(root: Path, step: int, *, ranks: int = 2) -> Path:
    folder = root / f"checkpoint-{step}"
    put_json(folder / "metadata.json", {"global_step": step, "epoch": 1, "num_training_steps": 100})
    put_torch(folder / "model" / "pytorch_model.bin")
    put_torch(folder / "optimizer" / "state_dict.pt")
    for rank in range(ranks):
        put_torch(folder / "dataloader" / f"rank_{rank}.pt")
        put_torch(folder / "rng_state" / f"rank_{rank}.pt")
    put(folder / "CHECKPOINT_COMPLETE", b"")
    return folder


def hf(root: Path, step: int) -> Path:
    folder = root / f"checkpoint-{step}"
    put_torch(folder / "pytorch_model.bin")
    put_torch(folder / "optimizer.pt")
    put_json(folder / "trainer_state.json", {"global_step": step, "log_history": []})
    return folder


def _text(text: str) -> bytes:
    data = text.encode()
    return b"X" + len(data).to_bytes(4, "little") + data


def _archive(stem: str, opcodes: bytes, storages: list[bytes]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_STORED) as archive:
        records = [("data.pkl", opcodes), *((f"data/{at}", storage) for at, storage in enumerate(storages))]
        for name, data in (*records, ("version", b"3\n")):
            archive.writestr(zipfile.ZipInfo(f"{stem}/{name}"), data)
    return held.getvalue()


@cache
def _real_shards() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as scratch:
        step = unpack("dcp_sync", Path(scratch)) / "step-10"
        return {path.name: path.read_bytes() for path in step.iterdir() if path.is_file()}
