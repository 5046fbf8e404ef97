"""unsloth: the Hugging Face Trainer's directories; its Studio stages, and resumes from the newest that is whole.

Source: unslothai/unsloth, ``studio/backend/core/training/resume.py`` (validates newest first),
``studio/backend/core/training/diffusion_checkpoint.py`` (``.tmp-checkpoint-*`` and one rename).
"""

from __future__ import annotations

from collections.abc import Sequence

from prune.layouts.base import Claim, Entry, Glance, Kind, Part
from prune.layouts.hf_trainer import HfTrainer

STAGING = ".tmp-checkpoint-"


class Unsloth(HfTrainer):
    name = "unsloth"
    title = "unsloth"
    weight = 4

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        why = super().recognise(glance, claims)
        staged = any(entry.kind is Kind.DIR and entry.path.startswith(STAGING) for entry in glance.entries)
        return f"{why}, beside a {STAGING}* of unsloth Studio" if why and staged else None

    def claim(self, entry: Entry) -> Claim | None:
        found = super().claim(entry)
        if found is None and entry.kind is Kind.DIR and entry.path.startswith(STAGING) and "/" not in entry.path:
            return Claim(entry.path, entry.kind, Part.TEMPORARY)
        return found
