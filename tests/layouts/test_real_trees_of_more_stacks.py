"""What further stacks themselves wrote: steps, pointers, foreign files, verdicts, picks, and the way to be found."""

from pathlib import Path

import pytest

from prune.layouts.detect import detect
from prune.model import Health
from prune.stores.local import LocalRoot
from tests.layouts.helpers import Seen, check_real_tree
from tests.trees.real import EXPECTED, unpack
from tests.trees.stacks import cut

TREES = [
    ("deepspeed_zero1", "deepspeed", ""),
    ("tf_manager", "tensorflow", ""),
    ("keras_epochs", "keras", ""),
    ("keras_weights", "keras", ""),
    ("keras_sharded", "keras", ""),
    ("ray_train", "ray-train", ""),
    ("sb3_callback", "stable-baselines3", ""),
    ("composer_rank0", "composer", ""),
    ("olmo_core", "olmo-core", ""),
    ("ultralytics_run", "ultralytics", "weights"),
]


@pytest.mark.parametrize(("name", "layout", "base"), TREES)
def test_a_real_tree_is_read_as_it_is_known_to_be(name: str, layout: str, base: str, tmp_path: Path) -> None:
    seen = check_real_tree(name, layout, tmp_path, base)
    assert {seen.verdict(step).health for step in seen.steps} == {Health.WHOLE}


@pytest.mark.parametrize(("name", "layout", "base"), TREES)
def test_a_real_tree_is_detected_with_its_base(name: str, layout: str, base: str, tmp_path: Path) -> None:
    with LocalRoot(str(unpack(name, tmp_path))) as reader:
        found = detect(reader)
    assert found.layout is not None, found.why
    assert (found.layout.name, found.base, found.sure, found.rivals) == (layout, base, "certain", ())


@pytest.mark.parametrize(("name", "layout", "base"), TREES)
def test_a_file_cut_short_breaks_its_step_and_no_other(name: str, layout: str, base: str, tmp_path: Path) -> None:
    root = unpack(name, tmp_path)
    newest, before = sorted(map(int, EXPECTED[name]["units"]))[-1:-3:-1]
    largest = max(Seen(root, layout, base).members(newest).files.items(), key=lambda item: item[1].size)[0]
    cut(root / largest)
    seen = Seen(root, layout, base)
    assert seen.verdict(newest).health is Health.BROKEN
    assert seen.verdict(before).health is Health.WHOLE
