"""Real trees of the frameworks: what structure and content can see of the damage in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from prune.model import Health
from tests.integrity.copies import examined
from tests.trees.real import EXPECTED, unpack

BEYOND_STRUCTURE = {  # told by content, or by the layout's own markers
    ("hf_trainer_damaged", "40"),
    ("hf_trainer_damaged", "90"),
    ("orbax_killed_sync", "30"),
}


@pytest.mark.parametrize("tree", sorted(EXPECTED))
def test_no_complete_step_is_called_anything_but_restorable(tree: str, tmp_path: Path) -> None:
    root = unpack(tree, tmp_path)
    for step in EXPECTED[tree]["complete"]:
        verdict = examined(root, *EXPECTED[tree]["units"][str(step)])
        assert verdict.health.restorable, (step, verdict)


@pytest.mark.parametrize("tree", sorted(t for t in EXPECTED if EXPECTED[t]["layout"] != "orbax"))
def test_a_complete_step_of_known_formats_is_whole(tree: str, tmp_path: Path) -> None:
    root = unpack(tree, tmp_path)
    for step in EXPECTED[tree]["complete"]:
        assert examined(root, *EXPECTED[tree]["units"][str(step)]).health is Health.WHOLE, step


@pytest.mark.parametrize("tree", sorted(t for t in EXPECTED if EXPECTED[t]["damaged"]))
def test_what_was_cut_or_taken_away_is_broken(tree: str, tmp_path: Path) -> None:
    root = unpack(tree, tmp_path)
    for step in EXPECTED[tree]["damaged"]:
        if (tree, step) in BEYOND_STRUCTURE:
            continue
        verdict = examined(root, *EXPECTED[tree]["units"][step])
        assert verdict.health is Health.BROKEN, step
        assert verdict.detail
