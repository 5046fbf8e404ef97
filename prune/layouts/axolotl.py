"""axolotl: the Hugging Face Trainer's directories, with a resume rule of its own.

Source: axolotl-ai-cloud/axolotl, ``utils/train.py`` (the greatest trailing number of any ``checkpoint-*``),
``core/builders/base.py`` (``save_total_limit`` is 4 where it is unset or 0).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from prune.layouts import rotation
from prune.layouts.base import Claim, Glance, Kind, Pick, RootView
from prune.layouts.hf_trainer import LIMIT, HfTrainer
from prune.layouts.naming import DIGITS
from prune.layouts.rotation import Rotation

CONFIG = "axolotl_config.yml"
DEFAULT_LIMIT = 4
_NUMBERED = re.compile(rf"checkpoint-(?:.*-)?(?P<step>{DIGITS})", re.DOTALL)


class Axolotl(HfTrainer):
    name = "axolotl"
    title = "axolotl"
    weight = 4

    def recognise(self, glance: Glance, claims: Sequence[Claim]) -> str | None:
        why = super().recognise(glance, claims)
        return f"{why}, beside {CONFIG}" if why and glance.has(CONFIG) else None

    def rotation(self, view: RootView) -> Rotation | None:
        """What its configuration says; unset or 0 means that it keeps four."""
        found = rotation.in_plain_text(view, [CONFIG], LIMIT)
        if found is None and CONFIG in {entry.name for entry in view.reader.scan(view.base)}:
            found = Rotation(None, LIMIT, view.at(CONFIG))
        return replace(found, keeps=found.keeps or DEFAULT_LIMIT) if found is not None else super().rotation(view)

    def trainer_pick(self, view: RootView) -> Pick | None:
        """``checkpoint-merged-900`` outranks ``checkpoint-800``: a directory that is no step of the run can win."""
        names = (entry.path for entry in view.reader.scan(view.base) if entry.kind is Kind.DIR)
        found = ((_NUMBERED.fullmatch(path.rpartition("/")[2]), path) for path in names)
        best = max(((int(match["step"]), path) for match, path in found if match), default=None)
        if best is None:
            return None
        claim = view.by_path.get(best[1])
        return Pick(claim.step if claim else None, best[1], "greatest trailing number of checkpoint-*")
