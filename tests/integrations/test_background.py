"""What is done behind a training, without any stack: it is told, never raised, and waited for at the end."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from prune.errors import UsageError
from prune.integrations import background as behind
from prune.integrations.background import Background, Work
from tests.integrations.training import configure
from tests.trees.build import names, step_files


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNE_STATE", f"sqlite:///{tmp_path / 'state.db'}")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return step_files(tmp_path / "run", range(1, 7))


def test_after_a_save_the_step_is_sealed_and_the_run_mirrored_and_pruned(root: Path, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    with Background(root, mirrors=[mirror], keep_last=2) as background:
        background.saved(6)
    assert background.failures == []
    assert names(root) == names(mirror) == {"step_0005.pt", "step_0006.pt"}
    assert "step_0006.pt.json" in os.listdir(root / ".prune" / "manifests")


@pytest.mark.parametrize("work", ["seal", "mirror", "prune"])
def test_each_work_can_be_left_to_others(root: Path, tmp_path: Path, work: str) -> None:
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    alone = Work(**{name: name == work for name in ("seal", "mirror", "prune")})
    with Background(root, mirrors=[mirror], keep_last=2, work=alone) as background:
        background.saved(6)
    assert background.failures == []
    assert (len(names(mirror)) > 0) == (work == "mirror")
    assert os.path.exists(root / ".prune" / "manifests" / "step_0006.pt.json") == (work == "seal")
    assert len(names(root)) == 6, "nothing is pruned while the mirror has nothing"


@pytest.mark.parametrize("error", [RuntimeError("no such thing"), MemoryError(), OSError(5, "Input/output error")])
def test_whatever_goes_wrong_is_logged_and_never_raised(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def fail(*_: object) -> list[str]:
        raise error

    monkeypatch.setattr(behind, "prune_run", fail)
    with caplog.at_level(logging.WARNING, logger="prune"), Background(root, keep_last=2) as background:
        background.saved(5)
        background.wait()
        background.saved(6)
    assert [failure.work for failure in background.failures] == ["prune", "prune"]
    assert type(error).__name__ in background.failures[0].detail
    assert "prune of run" in caplog.text


def test_a_mirror_that_is_not_there_is_told_by_name(root: Path, tmp_path: Path) -> None:
    with Background(root, mirrors=[tmp_path / "unmounted"], keep_last=2) as background:
        background.saved(6)
    assert all("unmounted" in failure.detail for failure in background.failures)
    assert len(names(root)) == 6


def test_saving_does_not_wait_for_the_work(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    seen: list[list[int]] = []

    def slow(_settings: object, steps: list[int], _stop: object) -> list[str]:
        seen.append(steps)
        go_on.wait(30)
        return []

    monkeypatch.setattr(behind, "seal_steps", slow)
    background = Background(root, keep_last=2, work=Work(prune=False))
    background.saved(1)
    while not seen:
        pass
    for step in (2, 3, 4):
        background.saved(step)
    assert not background.wait(0)
    go_on.set()
    assert background.finish(60)
    assert seen == [[1], [2, 3, 4]], "saves that come faster are done together"


def test_what_training_would_be_resumed_from_is_told_in_the_log(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "prune")
    (root / "step_0006.pt").write_bytes(b"PK\x03\x04 cut")
    with Background(root, keep_last=2) as background:
        background.tell_candidate()
    assert f"training could be resumed from {root / 'step_0005.pt'}" in caplog.text
    assert background.failures == []


def test_where_nothing_will_do_that_is_told_and_raises_nothing(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    for path in root.iterdir():
        path.write_bytes(b"PK\x03\x04 cut")
    with Background(root, keep_last=2) as background:
        background.tell_candidate()
    assert "there is nothing to resume from" in caplog.text
    assert background.failures == []


def test_after_the_end_a_save_changes_nothing(root: Path) -> None:
    background = Background(root, keep_last=2)
    assert background.finish()
    background.saved(6)
    assert background.wait(0)
    assert len(names(root)) == 6


def test_a_step_that_went_before_it_could_be_sealed_is_no_failure(root: Path) -> None:
    with Background(root, keep_last=2, work=Work(prune=False)) as background:
        background.saved(99)
    assert background.failures == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "neither a root nor a configuration"),
        ({"root": "/", "keep_last": 2}, "/"),
        ({"root": "run", "keep_last": 0}, "keep-last"),
        ({"root": "run", "policy": "no-such-policy"}, "no-such-policy"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_training_begins(given: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as refused:
        Background(**given)  # type: ignore[arg-type]
    assert said in str(refused.value)


def test_of_a_configuration_of_several_runs_one_must_be_named(root: Path, tmp_path: Path) -> None:
    config = configure(root)
    other = step_files(tmp_path / "other", range(3))
    config.write_text(config.read_text() + f'[[runs]]\nname = "other"\nprimary = "{other}"\n')
    with pytest.raises(UsageError, match="name it"):
        Background(config=config)
    assert Background(config=config, run="other").settings.runs[0].primary.root == str(other)


def test_a_process_that_ends_without_saying_so_ends_soon_and_leaves_nothing_half(root: Path) -> None:
    program = (
        "from prune.integrations.background import Background\n"
        f"background = Background({str(root)!r}, keep_last=2)\n"
        "background.saved(6)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    with Background(root, keep_last=2) as background:
        background.saved(6)
    assert background.failures == []
    assert names(root) == {"step_0005.pt", "step_0006.pt"}


def test_no_stack_is_imported_by_importing_prune_or_the_hooks_of_another() -> None:
    program = (
        "import sys, prune, prune.integrations, prune.integrations.background, prune.integrations.torch\n"
        "print(sorted({'torch', 'transformers', 'lightning', 'accelerate'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr
