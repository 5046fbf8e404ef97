"""Which layouts are worth importing for a directory: what at least one name in it must look like.

A hint is searched for in names whose numbers are ``#``, with ``/`` at the end for all but plain files. It may be too
wide, at the price of an import; a layout without a hint is always asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_CHECKPOINT_DIR = r"checkpoint-.*/\Z"
_NUMBERED_DIR = r"#.*/\Z"

HINTS: dict[str, str] = {
    "accelerate": r"(?:checkpoint|step|epoch)[_-]#.*/\Z",
    "axolotl": _CHECKPOINT_DIR,
    "composer": r"ba#|\Alatest",
    "dcp": _NUMBERED_DIR,
    "deepspeed": _NUMBERED_DIR,
    "fairseq": r"checkpoint.*\.pt",
    "hf-trainer": _CHECKPOINT_DIR,
    "keras": r"\.(?:keras|h#|hdf#|weights\.json|weights)",
    "lightning": r"\.ckpt",
    "llama-factory": _CHECKPOINT_DIR,
    "megatron-bridge": r"iter_#|release|train_state|latest_checkpointed",
    "megatron-lm": r"iter_#|release|latest_checkpointed",
    "megatron-non-persistent": r"iter_#|release|latest_checkpointed",
    "nanogpt": r"ckpt\.pt",
    "nemo": r"/\Z|\.ckpt",
    "olmo-core": r"step#.*/\Z",
    "orbax": _NUMBERED_DIR,
    "ray-train": r"/\Z",
    "stable-baselines3": r"_#_steps\.",
    "step-dir": _NUMBERED_DIR,
    "step-file": r"#",
    "tensorflow": r"\.index|\.data-#|_temp|\Acheckpoint\Z",
    "torchtitan": r"step-#.*/\Z",
    "ultralytics": r"epoch#\.pt|last\.pt|best\.pt",
    "unsloth": r"checkpoint-.*/\Z",
    "verl": r"global_step_#.*/\Z",
}


def worth_asking(layout: str, shapes: Iterable[str]) -> bool:
    """Whether a layout may know one of these names."""
    hint = HINTS.get(layout)
    return hint is None or any(re.search(hint, shape) for shape in shapes)
