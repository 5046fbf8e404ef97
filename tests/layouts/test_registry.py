import subprocess
import sys

import pytest

from prune import layouts
from prune.errors import UsageError
from prune.layouts.base import Entry, Kind

HOSTILE = [
    "", "step_10.pt\n", "\n", "10\n", "checkpoint-10\n", "\udcff", "checkpoint-\udcff10", "a" * 255,
    "checkpoint-" + "9" * 200, "step_" + "9" * 200 + ".pt", "epoch=1-step=" + "1" * 200 + ".ckpt", "²", "step_٣.pt",
    "=" * 255, "-" * 200 + "1.pt", "tmp-" * 60, ".tmp" * 60, "a=1-" * 60 + ".ckpt", "1-of-" * 50,
]  # fmt: skip


@pytest.mark.parametrize("name", layouts.names())
def test_every_layout_of_the_table_can_be_had_and_bears_its_name(name: str) -> None:
    assert layouts.get(name, {"pattern": "x{step}"} if name == "custom" else None).name == name


def test_the_table_is_sorted() -> None:
    assert list(layouts.LAYOUTS) == sorted(layouts.LAYOUTS) == layouts.names()


@pytest.mark.parametrize("name", layouts.names())
def test_hostile_names_are_foreign_and_never_an_error(name: str) -> None:
    layout = layouts.get(name, {"pattern": "x{step}"} if name == "custom" else None)
    for entry in (Entry(one, kind) for one in HOSTILE for kind in Kind):
        claim = layout.claim(entry)
        assert claim is None or claim.step is None or claim.step < 10**18, entry


def test_an_unknown_name_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(UsageError, match="there is no layout 'hf-trianer'") as refusal:
        layouts.get("hf-trianer")
    assert "Did you mean 'hf-trainer'?" in str(refusal.value)


def test_getting_one_layout_imports_no_other_stack() -> None:
    code = "import sys; from prune import layouts; layouts.get('step-file'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    others = {path.partition(":")[0] for name, path in layouts.LAYOUTS.items() if name != "step-file"}
    assert not others & set(loaded)


def test_no_layout_imports_its_stack() -> None:
    modules = sorted({path.partition(":")[0] for path in layouts.LAYOUTS.values()})
    stacks = {"torch", "transformers", "accelerate", "lightning", "orbax", "jax", "tensorflow", "deepspeed", "ray"}
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not stacks & set(loaded)
