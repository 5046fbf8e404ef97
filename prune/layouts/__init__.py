"""One file per training stack, imported when a run of that stack is looked at.

A new stack is one line here, one small file beside it, one policy and one test.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from prune.errors import UsageError

if TYPE_CHECKING:
    from prune.layouts.base import Layout

LAYOUTS: dict[str, str] = {
    "accelerate": "prune.layouts.accelerate:Accelerate",
    "axolotl": "prune.layouts.axolotl:Axolotl",
    "composer": "prune.layouts.composer:Composer",
    "custom": "prune.layouts.custom:Custom",
    "dcp": "prune.layouts.dcp:Dcp",
    "deepspeed": "prune.layouts.deepspeed:DeepSpeed",
    "fairseq": "prune.layouts.fairseq:Fairseq",
    "hf-trainer": "prune.layouts.hf_trainer:HfTrainer",
    "keras": "prune.layouts.keras:Keras",
    "lightning": "prune.layouts.lightning:Lightning",
    "llama-factory": "prune.layouts.llama_factory:LlamaFactory",
    "megatron-bridge": "prune.layouts.megatron_bridge:MegatronBridge",
    "megatron-lm": "prune.layouts.megatron_lm:MegatronLM",
    "megatron-non-persistent": "prune.layouts.megatron_lm:MegatronNonPersistent",
    "nanogpt": "prune.layouts.nanogpt:NanoGPT",
    "nemo": "prune.layouts.nemo:NeMo",
    "olmo-core": "prune.layouts.olmo_core:OlmoCore",
    "orbax": "prune.layouts.orbax:Orbax",
    "ray-train": "prune.layouts.ray_train:RayTrain",
    "stable-baselines3": "prune.layouts.stable_baselines3:StableBaselines3",
    "step-dir": "prune.layouts.step_dir:StepDir",
    "step-file": "prune.layouts.step_file:StepFile",
    "tensorflow": "prune.layouts.tensorflow:TensorFlow",
    "torchtitan": "prune.layouts.torchtitan:Torchtitan",
    "ultralytics": "prune.layouts.ultralytics:Ultralytics",
    "unsloth": "prune.layouts.unsloth:Unsloth",
    "verl": "prune.layouts.verl:Verl",
}


def names() -> list[str]:
    """Every layout's name, sorted."""
    return sorted(LAYOUTS)


def get(name: str, options: Mapping[str, Any] | None = None) -> Layout:
    """The layout of that name with the user's options. Raises UsageError for an unknown name or option."""
    if name not in LAYOUTS:
        raise UsageError(f"there is no layout {name!r}", mend=_suggestion(name))
    module, _, attribute = LAYOUTS[name].partition(":")
    layout: Layout = getattr(importlib.import_module(module), attribute).configured(options or {})
    return layout


def _suggestion(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, LAYOUTS, n=1)
    known = f"Known layouts: {', '.join(names())}."
    return f"Did you mean {close[0]!r}? {known}" if close else known
