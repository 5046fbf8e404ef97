"""Sums and temporaries around the names of any stack, and names that only look like one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prune import layouts
from prune.layouts.base import Entry, Kind, Part

STACKS = {
    "deepspeed": ("global_step10", Kind.DIR),
    "megatron-lm": ("iter_0000010", Kind.DIR),
    "megatron-bridge": ("iter_0000010", Kind.DIR),
    "nemo": ("m--val_loss=0.1-step=10-consumed_samples=80.0", Kind.DIR),
    "tensorflow": ("ckpt-10.index", Kind.FILE),
    "composer": ("ep1-ba10-rank0.pt", Kind.FILE),
    "fairseq": ("checkpoint_1_10.pt", Kind.FILE),
    "verl": ("global_step_10", Kind.DIR),
    "llama-factory": ("checkpoint-10", Kind.DIR),
    "axolotl": ("checkpoint-10", Kind.DIR),
    "unsloth": ("checkpoint-10", Kind.DIR),
    "stable-baselines3": ("rl_model_10_steps.zip", Kind.FILE),
    "ultralytics": ("epoch10.pt", Kind.FILE),
    "keras": ("model.10-0.21.keras", Kind.FILE),
    "olmo-core": ("step10", Kind.DIR),
}

FREE_PREFIX = ("tensorflow", "stable-baselines3", "keras", "nemo")  # the user's own words are part of the name


def read(layout: str, path: str, kind: Kind) -> tuple[Part, int | None] | None:
    claim = layouts.get(layout).claim(Entry(path, kind))
    return claim and (claim.part, claim.step)


@pytest.mark.parametrize(("layout", "name", "kind"), [(key, *value) for key, value in STACKS.items()])
def test_a_step_its_sum_and_its_temporaries_belong_together(layout: str, name: str, kind: Kind) -> None:
    assert read(layout, name, kind) == (Part.PAYLOAD, 10)
    assert read(layout, f"{name}.sha256", Kind.FILE) == (Part.SIDECAR, 10)
    assert read(layout, f"{name}.part", kind) == (Part.TEMPORARY, 10)
    assert read(layout, f"{name}.tmp", kind) == (Part.TEMPORARY, 10)


@pytest.mark.parametrize(("layout", "name", "kind"), [(key, *value) for key, value in STACKS.items()])
@pytest.mark.parametrize("form", ["{}\n", "{}.bak", "{}-copy", "{}\udcff", "{} 2"])
def test_a_name_with_something_after_a_step_is_foreign(layout: str, name: str, kind: Kind, form: str) -> None:
    assert read(layout, form.format(name), kind) is None


@pytest.mark.parametrize(("layout", "name", "kind"), [(key, *value) for key, value in STACKS.items()])
@pytest.mark.parametrize("form", ["old {}", "\n{}", "\udcff{}"])
def test_a_name_with_something_before_a_step_is_foreign_or_of_another_series(
    layout: str, name: str, kind: Kind, form: str
) -> None:
    claim = layouts.get(layout).claim(Entry(form.format(name), kind))
    if layout in FREE_PREFIX:
        assert claim is None or claim.series != layouts.get(layout).claim(Entry(name, kind)).series or layout == "nemo"
    else:
        assert claim is None


@pytest.mark.parametrize(("layout", "name", "kind"), [(key, *value) for key, value in STACKS.items()])
def test_more_digits_than_a_counter_has_are_foreign(layout: str, name: str, kind: Kind) -> None:
    long = name.replace("0000010", "10").replace("10", "1" * 19, 1)
    claim = layouts.get(layout).claim(Entry(long, kind))
    assert claim is None or claim.step is None or claim.step < 10**18


@pytest.mark.parametrize("layout", sorted(STACKS))
def test_the_wrong_kind_of_entry_is_no_step(layout: str) -> None:
    name, kind = STACKS[layout]
    other = Kind.DIR if kind is Kind.FILE else Kind.FILE
    assert (read(layout, name, other) or (None,))[0] is not Part.PAYLOAD
    assert (read(layout, name, Kind.OTHER) or (None,))[0] in (None, Part.PAYLOAD)


@pytest.mark.parametrize("layout", sorted(set(layouts.names()) - {"custom"}))
@given(name=st.text(st.characters(exclude_characters="/\0"), min_size=1), kind=st.sampled_from(list(Kind)))
def test_any_name_is_claimed_or_foreign_and_raises_nothing(layout: str, name: str, kind: Kind) -> None:
    claim = layouts.get(layout).claim(Entry(name, kind))
    assert claim is None or claim.step is None or 0 <= claim.step < 10**18


@pytest.mark.parametrize("layout", sorted(set(layouts.names()) - {"custom"}))
@pytest.mark.parametrize("piece", ["-0.1-shard1", "a=1-", "1.", "--a=0.1", "-1", "_steps1", "checkpoint_1_", "\udcff1"])
@pytest.mark.parametrize("form", ["{}", "x{}.keras", "{}.weights.h5", "{}.index", "{}_steps.zip", "{}.pt"])
def test_a_name_as_long_as_names_can_be_is_read_in_one_go(layout: str, piece: str, form: str) -> None:
    """A pattern with two readings of one name would not come back from these."""
    for kind in (Kind.FILE, Kind.DIR):
        layouts.get(layout).claim(Entry(form.format(piece * (240 // len(piece))), kind))


def test_no_layout_imports_its_stack() -> None:
    stacks = {"torch", "deepspeed", "megatron", "nemo", "tensorflow", "composer", "ray", "fairseq", "verl", "keras"}
    for path in Path(layouts.__file__).parent.glob("*.py"):
        imported = {line.split()[1].partition(".")[0] for line in path.read_text().splitlines() if line[:5] == "from "}
        assert not imported & stacks, path
