"""Loading the newest checkpoint that loads."""

from __future__ import annotations

from pathlib import Path

import pytest

import prune
from prune.errors import Blocked, Damaged, NothingYet
from prune.journal import open_journal
from prune.model import Health
from tests.trees.build import mirrored, step_files
from tests.trees.damage import damage


@pytest.fixture(autouse=True)
def _state_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNE_STATE", f"sqlite:///{tmp_path}/state/prune.db")


def refusing(*refused: Path):  # type: ignore[no-untyped-def]
    """A loader that gives back the path, and raises for some."""

    def load(path: str) -> str:
        if Path(path) in refused:
            raise RuntimeError(f"size mismatch in {path}")
        return path

    return load


def test_the_newest_that_verifies_is_loaded(tmp_path: Path) -> None:
    root = step_files(tmp_path / "P", [10, 20, 30])
    damage(root / "step_0030.pt", "truncated to 50 %")

    loaded, candidate = prune.load_latest(root, refusing())

    assert loaded == candidate.path == str(root / "step_0020.pt")
    assert candidate.health is Health.INTACT


def test_a_loader_that_raises_gets_the_next_one_another_replica_of_the_step_first(tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20])
    mirror = mirrored(primary, tmp_path / "M")

    loaded, candidate = prune.load_latest(primary, refusing(primary / "step_0020.pt"), mirrors=[mirror])
    assert loaded == str(mirror / "step_0020.pt")
    assert [(skipped.step, skipped.replica) for skipped in candidate.skipped] == [(20, "primary")]

    both = refusing(primary / "step_0020.pt", mirror / "step_0020.pt")
    assert prune.load_latest(primary, both, mirrors=[mirror])[0] == str(primary / "step_0010.pt")


def test_a_failed_load_is_told_as_any_fallback(tmp_path: Path) -> None:
    root = step_files(tmp_path / "P", [10, 20])
    told = []

    prune.load_latest(root, refusing(root / "step_0020.pt"), notify=told.append)

    assert [(skipped.step, "size mismatch" in str(skipped.detail)) for skipped in told] == [(20, True)]
    journal = open_journal(f"sqlite:///{tmp_path}/state/prune.db", write=False)
    assert [event.step for event in journal.history(kinds=["fallback"])] == [20]


def test_when_all_fail_the_list_is_raised_with_what_the_loader_said_of_each(tmp_path: Path) -> None:
    root = step_files(tmp_path / "P", [10, 20])

    with pytest.raises(Damaged, match="none of 2 checkpoints could be loaded") as raised:
        prune.load_latest(root, refusing(root / "step_0010.pt", root / "step_0020.pt"))

    group = raised.value.__cause__
    assert isinstance(group, ExceptionGroup)
    assert ["0020" in str(error) for error in group.exceptions] == [True, False]


def test_a_new_run_and_an_unreachable_one_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "P").mkdir()
    with pytest.raises(NothingYet):
        prune.load_latest(tmp_path / "P", refusing())
    with pytest.raises(Blocked):
        prune.load_latest(tmp_path / "not mounted", refusing())


def test_an_interrupt_is_no_reason_to_try_the_next(tmp_path: Path) -> None:
    root = step_files(tmp_path / "P", [10, 20])

    def interrupted(_path: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prune.load_latest(root, interrupted)


def test_without_a_loader_torch_loads_and_runs_nothing_out_of_the_file(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    root = tmp_path / "P"
    root.mkdir()
    marker = tmp_path / "it ran"

    class Planted:
        def __reduce__(self):  # type: ignore[no-untyped-def]
            return marker.touch, ()

    torch.save({"step": 10}, root / "step_10.pt")
    torch.save(Planted(), root / "step_20.pt")

    state, candidate = prune.load_latest(root)

    assert (state, candidate.step) == ({"step": 10}, 10)
    assert not marker.exists()
