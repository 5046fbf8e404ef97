from pathlib import Path

from prune.layouts.base import Part
from prune.layouts.detect import detect
from prune.stores.local import LocalRoot
from tests.layouts.helpers import Seen, claims, sketch
from tests.trees.real import unpack

INDEX = "model.safetensors.index.json"


def test_only_step_and_a_number_is_a_step() -> None:
    assert claims("torchtitan", "step-100/", "step-100.trash/", "step_100/", "step-100") == {
        "step-100/": (Part.PAYLOAD, 100),
        "step-100.trash/": None,
        "step_100/": None,
        "step-100": None,
    }


def test_dataloader_state_of_replicas_belongs_to_its_step_and_is_withdrawn_after_it(tmp_path: Path) -> None:
    names = ["step-10/.metadata", "ft-replicat-0/step-10/a", "ft-replicat-1/step-10/a", "ft-replicat-0/notes"]
    seen = Seen(sketch(tmp_path, *names), "torchtitan")
    assert seen.members(10).paths == ("step-10", "ft-replicat-0/step-10", "ft-replicat-1/step-10")
    assert seen.listing.foreign == 1


def test_the_pick_passes_over_steps_without_metadata_or_index(tmp_path: Path) -> None:
    sketch(tmp_path, "step-10/.metadata", "step-20/__0_0.distcp", f"step-15/{INDEX}")
    pick = Seen(tmp_path, "torchtitan").pick
    assert pick is not None
    assert pick.step == 15
    assert Seen(sketch(tmp_path / "new", "step-20/__0_0.distcp"), "torchtitan").pick is None


def test_a_last_step_for_export_is_weights_only(tmp_path: Path) -> None:
    sketch(tmp_path, "step-10/.metadata", f"step-20/{INDEX}", "step-20/sharded/a.safetensors")
    seen = Seen(tmp_path, "torchtitan")
    assert (seen.weights_only(10), seen.weights_only(20)) == (False, True)


def test_it_is_told_from_plain_dcp_by_replicas_or_an_export(tmp_path: Path) -> None:
    with LocalRoot(str(unpack("dcp_sync", tmp_path))) as reader:
        plain = detect(reader)
    sketch(tmp_path / "dcp_sync", "ft-replicat-0/step-10/state")
    with LocalRoot(str(tmp_path / "dcp_sync")) as reader:
        replicas = detect(reader)
    assert plain.layout is not None
    assert replicas.layout is not None
    assert (plain.layout.name, replicas.layout.name) == ("dcp", "torchtitan")
    sketch(
        tmp_path / "export",
        "step-10/.metadata",
        "step-10/__0_0.distcp",
        f"step-20/{INDEX}",
        "step-20/sharded/a.safetensors",
    )
    with LocalRoot(str(tmp_path / "export")) as reader:
        export = detect(reader)
    assert export.layout is not None
    assert export.layout.name == "torchtitan"
