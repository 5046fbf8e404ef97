"""What mirroring copies, in what order, and what it leaves alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from prune.control import Control
from prune.errors import UsageError
from prune.journal import open_journal
from prune.model import Health, Pin
from prune.publish import publish
from prune.settings.schema import Keep, ReplicaSettings
from tests.mirror.helpers import copied, mirrored_now, seen, temporaries
from tests.runs import applied, planned, run_of
from tests.trees.build import age, mirrored, names, snapshot, step_dirs, step_files, torch_zip
from tests.trees.damage import DAMAGES, damage, flip, largest_file
from tests.trees.real import EXPECTED, unpack


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state" / "prune.db"


def empty(path: Path) -> Path:
    path.mkdir()
    return path


@pytest.mark.parametrize("tree", sorted(EXPECTED))
def test_a_mirror_of_every_stack_is_the_primary_again_times_links_and_all(
    tree: str, tmp_path: Path, state: Path
) -> None:
    root = unpack(tree, tmp_path)
    run = run_of(root, empty(tmp_path / "M"), last=100)

    done = mirrored_now(run, state)

    assert not done.failed
    assert not done.blocks
    usable = set(EXPECTED[tree]["complete"])
    assert usable - set(map(int, EXPECTED[tree]["damaged"])) <= {step for step, _ in copied(done)}
    ours, theirs = seen(root), seen(tmp_path / "M")
    for step in usable:
        for unit in EXPECTED[tree]["units"][str(step)]:
            below = {path for path in ours if path == unit or path.startswith(f"{unit}/")}
            assert below
            assert {path: ours[path] for path in below} == {path: theirs[path] for path in below}
    assert not {path for path in theirs if path not in ours}
    assert temporaries(tmp_path / "M") == []


@pytest.mark.parametrize("tree", sorted(EXPECTED))
def test_a_second_run_finds_nothing_to_do_and_writes_nothing(tree: str, tmp_path: Path, state: Path) -> None:
    run = run_of(unpack(tree, tmp_path), empty(tmp_path / "M"), last=100)
    mirrored_now(run, state)
    before = snapshot(tmp_path / "M")

    done = mirrored_now(run, state)

    assert copied(done) == []
    assert done.pointers == ()
    assert snapshot(tmp_path / "M") == before


def test_the_newest_missing_step_comes_first(tmp_path: Path, state: Path) -> None:
    run = run_of(step_files(tmp_path / "P", [8, 9, 10, 11]), empty(tmp_path / "M"))

    assert copied(mirrored_now(run, state)) == [(step, "mirror") for step in (11, 10, 9, 8)]


def test_only_what_the_plan_keeps_is_copied(tmp_path: Path, state: Path) -> None:
    run = run_of(step_files(tmp_path / "P", range(10, 110, 10)), empty(tmp_path / "M"), last=3)

    assert copied(mirrored_now(run, state)) == [(100, "mirror"), (90, "mirror"), (80, "mirror")]


def test_a_mirror_that_was_away_gets_the_newest_and_not_what_is_on_its_way_out(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", range(100, 700, 100))
    mirror = mirrored(primary, tmp_path / "M")
    for step in (400, 500, 600):
        (mirror / f"step_{step:04d}.pt").unlink()
    run = run_of(primary, mirror, last=2)

    assert copied(mirrored_now(run, state)) == [(600, "mirror"), (500, "mirror")]
    assert names(mirror) == {f"step_{step:04d}.pt" for step in (100, 200, 300, 500, 600)}

    applied(run, state)
    assert names(primary) == names(mirror) == {"step_0500.pt", "step_0600.pt"}


def test_other_rules_keep_their_steps_on_the_mirror_too(tmp_path: Path, state: Path) -> None:
    run = run_of(step_files(tmp_path / "P", range(10, 110, 10)), empty(tmp_path / "M"), keep=Keep(last=1, every=50))

    assert copied(mirrored_now(run, state)) == [(100, "mirror"), (50, "mirror")]


def test_a_pinned_step_is_copied_although_policy_would_delete_it(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20, 30])
    control = Control.make(str(primary / ".prune"))
    control.write_pin(Pin(10, "the paper", "me", 0))
    run = run_of(primary, empty(tmp_path / "M"), last=1)

    assert copied(mirrored_now(run, state)) == [(30, "mirror"), (10, "mirror")]


def test_steps_that_are_named_restrict_and_never_widen(tmp_path: Path, state: Path) -> None:
    run = run_of(step_files(tmp_path / "P", [10, 20, 30]), empty(tmp_path / "M"), last=2)

    done = mirrored_now(run, state, [10, 20])

    assert copied(done) == [(20, "mirror")]
    assert "not-kept" in {note.kind for note in done.attention}


def test_what_was_pruned_is_not_brought_back_from_another_replica(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20, 30])
    mirror = mirrored(primary, tmp_path / "M")
    run = run_of(primary, mirror, last=2)
    aside = tmp_path / "aside"
    shutil.copytree(primary, aside)
    applied(run, state)
    shutil.copy2(aside / "step_0010.pt", primary / "step_0010.pt")

    assert copied(mirrored_now(run_of(primary, mirror, last=3), state)) == []


def test_a_step_that_was_saved_again_after_it_was_pruned_is_a_new_one(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20, 30])
    mirror = mirrored(primary, tmp_path / "M")
    applied(run_of(primary, mirror, last=2), state)
    (primary / "step_0010.pt").write_bytes(torch_zip(9000))
    age(primary / "step_0010.pt", 8000)

    assert copied(mirrored_now(run_of(primary, mirror, last=3), state)) == [(10, "mirror")]


def test_the_mirror_gets_a_manifest_of_what_was_read_back(tmp_path: Path, state: Path) -> None:
    import hashlib

    run = run_of(step_files(tmp_path / "P", [10]), empty(tmp_path / "M"))

    done = mirrored_now(run, state)

    document = json.loads((tmp_path / "M" / ".prune" / "manifests" / "step_0010.pt.json").read_text())
    digest = hashlib.sha256((tmp_path / "P" / "step_0010.pt").read_bytes()).hexdigest()
    assert document["files"] == [{"path": "step_0010.pt", "size": 4444, "sha256": digest}]
    assert done.copied[0].sha256 == digest


def test_a_mirrored_step_keeps_the_time_at_which_it_was_saved(tmp_path: Path, state: Path) -> None:
    root = empty(tmp_path / "P")
    with publish(root / "step_0010.pt", step=10) as file:
        file.write(torch_zip())
    run = run_of(root, empty(tmp_path / "M"))

    mirrored_now(run, state)

    made = [json.loads((root / ".prune" / "manifests" / "step_0010.pt.json").read_text())["created_at"]
            for root in (tmp_path / "P", tmp_path / "M")]  # fmt: skip
    assert made[0] == made[1]
    copies = planned(run, state).steps[0].copies
    assert copies[0].content == copies[1].content != None  # noqa: E711
    assert [copy.health for copy in copies] == [Health.INTACT, Health.INTACT]


def test_a_broken_source_is_not_copied_and_told(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20], size=33 << 20)  # larger than what planning reads in full
    flip(primary / "step_0020.pt", 9000)  # only the CRC of its member tells

    done = mirrored_now(run_of(primary, empty(tmp_path / "M")), state)

    assert copied(done) == [(10, "mirror")]
    assert {"damaged"} <= {note.kind for note in done.attention}
    journal = open_journal(f"sqlite:///{state}", write=False)
    assert [event.step for event in journal.history(kinds=["damage"])] == [20]
    journal.close()


def test_a_sealed_source_that_rotted_is_found_by_copying_it(tmp_path: Path, state: Path) -> None:
    root = empty(tmp_path / "P")
    for step in (10, 20):
        with publish(root / f"step_{step:04d}.bin", step=step) as file:
            file.write(b"\x01opaque" * 3000)
    flip(root / "step_0020.bin")

    done = mirrored_now(run_of(root, empty(tmp_path / "M")), state)

    assert copied(done) == [(10, "mirror")]
    assert names(tmp_path / "M") == {"step_0010.bin"}
    assert temporaries(tmp_path / "M") == []


def test_an_older_step_takes_the_place_of_a_broken_one_among_the_last(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20, 30], size=20000)
    flip(primary / "step_0030.pt", 9000)

    assert copied(mirrored_now(run_of(primary, empty(tmp_path / "M"), last=2), state)) == [
        (20, "mirror"),
        (10, "mirror"),
    ]


@pytest.mark.parametrize("how", sorted(DAMAGES))
@pytest.mark.parametrize("build", [step_files, step_dirs])
def test_a_damaged_copy_is_replaced_and_waits_in_the_trash(tmp_path: Path, state: Path, build, how: str) -> None:  # type: ignore[no-untyped-def]
    primary = build(tmp_path / "P", [10, 20], size=20000)
    mirror = mirrored(primary, tmp_path / "M")
    run = run_of(primary, mirror)
    damage(largest_file(mirror / max(names(mirror))), how)
    from prune.checking import Means
    from prune.verify import verify
    from tests.runs import settings_of

    verify(settings_of(run, state=state), means=Means())  # what only a full read shows is remembered

    done = mirrored_now(run, state)

    assert [(copy.step, copy.repaired) for copy in done.copied] == [(20, True)]
    assert seen(mirror) == seen(primary)
    (withdrawn,) = Control.open(str(mirror / ".prune")).trashed()
    assert (withdrawn.why, withdrawn.state) == ("repaired", "withdrawn")
    applied(run, state)
    assert [w.id for w in Control.open(str(mirror / ".prune")).trashed()] == [withdrawn.id]


def test_a_damaged_set_of_files_is_replaced_whole(tmp_path: Path, state: Path) -> None:
    primary = unpack("tf_manager", tmp_path)
    mirror = mirrored(primary, tmp_path / "M")
    damage(mirror / "ckpt-120.data-00000-of-00001", "truncated to 50 %")

    done = mirrored_now(run_of(primary, mirror, last=100), state)

    assert [(copy.step, copy.repaired) for copy in done.copied] == [(120, True)]
    assert seen(mirror) == seen(primary)


def test_a_damaged_primary_never_takes_the_place_of_a_good_mirror(tmp_path: Path, state: Path) -> None:
    root = empty(tmp_path / "P")
    with publish(root / "step_0010.bin", step=10) as file:
        file.write(b"\x01opaque" * 3000)
    run = run_of(root, empty(tmp_path / "M"))
    mirrored_now(run, state)
    before = seen(tmp_path / "M")
    for keep_time in (True, False):
        flip(root / "step_0010.bin", keep_time=keep_time)
        assert copied(mirrored_now(run, state)) == []
        assert seen(tmp_path / "M") == before


def test_where_both_differ_and_nothing_decides_neither_is_overwritten(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20])
    mirror = mirrored(primary, tmp_path / "M")
    (primary / "step_0020.pt").write_bytes(torch_zip(8000))
    before = seen(mirror), seen(primary)

    done = mirrored_now(run_of(primary, mirror), state)

    assert copied(done) == []
    assert (seen(mirror), seen(primary)) == before
    assert "differs" in {note.kind for note in done.attention}


def test_a_step_that_was_saved_again_after_it_was_mirrored_is_told_with_the_command_that_settles_it(
    tmp_path: Path, state: Path
) -> None:
    """Training went back and came to the same step once more: the mirror still holds the first save."""
    primary, mirror = empty(tmp_path / "P"), empty(tmp_path / "M")
    run = run_of(primary, mirror)
    save_of(primary, b"first")
    mirrored_now(run, state)
    save_of(primary, b"again")

    (told,) = [note for note in mirrored_now(run, state).attention if note.kind == "differs"]
    assert "step 20 differs from what primary holds" in told.detail
    assert "primary holds the later save" in told.detail
    assert "prune mirror --from primary 20" in told.mend
    assert copied(mirrored_now(run, state, [20], source="primary")) == [(20, "mirror")]
    assert seen(mirror) == seen(primary)


def save_of(root: Path, fill: bytes) -> None:
    with publish(root / "step_0020.pt") as file:
        file.write(torch_zip(fill=fill))


def test_a_person_may_say_whose_copy_is_right(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20])
    mirror = mirrored(primary, tmp_path / "M")
    (primary / "step_0020.pt").write_bytes(torch_zip(8000))
    run = run_of(primary, mirror)

    assert copied(mirrored_now(run, state, [20], source="mirror")) == [(20, "primary")]
    assert seen(primary) == seen(mirror)


def test_whose_copy_is_right_is_said_for_named_steps_only(tmp_path: Path, state: Path) -> None:
    run = run_of(step_files(tmp_path / "P", [10]), empty(tmp_path / "M"))
    with pytest.raises(UsageError, match="needs steps"):
        mirrored_now(run, state, source="primary")
    with pytest.raises(UsageError, match="no replica"):
        mirrored_now(run, state, [10], source="other")


def test_a_step_that_only_a_mirror_has_is_not_put_back_on_the_primary(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20])
    mirror = mirrored(primary, tmp_path / "M")
    (primary / "step_0020.pt").unlink()

    mirrored_now(run_of(primary, mirror), state)

    assert names(primary) == {"step_0010.pt"}


def test_a_second_mirror_gets_from_the_first_what_the_primary_lost(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20])
    first = mirrored(primary, tmp_path / "M")
    (primary / "step_0020.pt").unlink()

    done = mirrored_now(run_of(primary, first, empty(tmp_path / "M2")), state)

    assert copied(done) == [(20, "mirror-2"), (10, "mirror-2")]


def test_what_is_being_written_on_the_mirror_is_left_to_its_writer(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20])
    mirror = mirrored(primary, tmp_path / "M")
    (mirror / "step_0020.pt").write_bytes(torch_zip()[:1000])

    assert copied(mirrored_now(run_of(primary, mirror), state)) == []
    assert (mirror / "step_0020.pt").stat().st_size == 1000


def test_a_temporary_that_another_process_writes_is_left_to_it(tmp_path: Path, state: Path) -> None:
    run = run_of(step_files(tmp_path / "P", [10]), empty(tmp_path / "M"))
    code = (
        "import sys; from prune.publish import publish\n"
        "with publish(sys.argv[1], step=10) as f: f.write(b'x'); f.flush(); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "M" / "step_0010.pt")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        done = mirrored_now(run, state)
        assert [failed.step for failed in done.failed] == [10]
        assert "written by" in done.failed[0].error
        assert (tmp_path / "M" / "step_0010.pt.part").stat().st_size == 1
        writer.kill()

    assert copied(mirrored_now(run, state)) == [(10, "mirror")]


def test_an_unmounted_mirror_gets_nothing(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20])
    mirror = empty(tmp_path / "M")
    run = run_of(primary, mirror)
    mirrored_now(run, state)
    shutil.rmtree(mirror)
    mirror.mkdir()

    done = mirrored_now(run, state)

    assert [block.block for block in done.blocks] == ["replica-vanished"]
    assert os.listdir(mirror) == []


def test_a_mirror_in_trouble_does_not_hold_back_another(tmp_path: Path, state: Path) -> None:
    primary = step_files(tmp_path / "P", [10, 20])
    run = run_of(primary, tmp_path / "nowhere", empty(tmp_path / "M2"), last=1)

    done = mirrored_now(run, state)

    assert copied(done) == [(20, "mirror-2")]
    assert [block.replica for block in done.blocks] == ["mirror"]


def test_an_optional_mirror_that_cannot_be_reached_is_no_block(tmp_path: Path, state: Path) -> None:
    run = run_of(step_files(tmp_path / "P", [10]))
    far = ReplicaSettings("far", str(tmp_path / "nowhere"), "mirror", optional=True)
    from dataclasses import replace

    done = mirrored_now(replace(run, replicas=(*run.replicas, far)), state)

    assert done.blocks == ()


def test_nothing_is_copied_while_another_pass_holds_the_lock(tmp_path: Path, state: Path) -> None:
    from prune.control.lock import acquire

    primary = step_files(tmp_path / "P", [10])
    control = Control.make(str(primary / ".prune"))
    with acquire(control.folder, file_system="ext4"):
        done = mirrored_now(run_of(primary, empty(tmp_path / "M")), state)

    assert [block.block for block in done.blocks] == ["locked"]
    assert names(tmp_path / "M") == set()


def test_a_stack_that_reads_every_entry_sees_no_temporary_in_its_root(tmp_path: Path, state: Path) -> None:
    primary = unpack("accelerate_auto", tmp_path)
    done = mirrored_now(run_of(primary, empty(tmp_path / "M"), last=100), state)

    assert done.copied
    folder = tmp_path / "M" / "checkpoints"
    assert names(folder) == {f"checkpoint_{step}" for step, _ in copied(done)}
    assert not [name for name in os.listdir(folder) if name.startswith(".")]


def test_holes_stay_holes(tmp_path: Path, state: Path) -> None:
    root = empty(tmp_path / "P")
    with open(root / "step_0010.bin", "wb") as file:
        file.write(b"\x01begin")
        file.truncate(64 << 20)
    age(root / "step_0010.bin", 7200)

    mirrored_now(run_of(root, empty(tmp_path / "M")), state)

    copy = tmp_path / "M" / "step_0010.bin"
    assert copy.stat().st_size == 64 << 20
    assert copy.stat().st_blocks * 512 < 1 << 20


def test_a_link_out_of_the_root_is_not_copied_as_if_it_were_a_checkpoint(tmp_path: Path, state: Path) -> None:
    primary = step_dirs(tmp_path / "P", [10, 20])
    (tmp_path / "elsewhere").write_bytes(b"weights")
    (primary / "step-20" / "model.bin").symlink_to(tmp_path / "elsewhere")
    age(primary / "step-20", 7200)

    done = mirrored_now(run_of(primary, empty(tmp_path / "M")), state)

    assert copied(done) == [(10, "mirror")]
    assert [note.kind for note in done.attention] == ["unreadable"]


def test_a_good_step_that_is_not_copied_for_a_link_out_of_the_root_is_told(tmp_path: Path, state: Path) -> None:
    primary = step_dirs(tmp_path / "P", [10, 20])
    (primary / "step-20" / "notes").symlink_to(tmp_path)
    age(primary / "step-20", 7200)

    done = mirrored_now(run_of(primary, empty(tmp_path / "M")), state)

    assert copied(done) == [(10, "mirror")]
    (note,) = done.attention
    assert note.detail.startswith("step 20 is not copied: step-20/notes leads out of the root")


def test_what_the_mirror_holds_is_known_to_its_peers_afterwards(tmp_path: Path, state: Path) -> None:
    run = run_of(step_files(tmp_path / "P", [10, 20]), empty(tmp_path / "M"))

    mirrored_now(run, state)

    volume = Control.open(str(tmp_path / "P" / ".prune")).volume()
    assert volume is not None
    assert volume.peers["mirror"].held.steps == 2
    assert planned(run, state).blocks == ()


def test_every_copy_is_in_history(tmp_path: Path, state: Path) -> None:
    mirrored_now(run_of(step_files(tmp_path / "P", [10, 20]), empty(tmp_path / "M")), state)

    journal = open_journal(f"sqlite:///{state}", write=False)
    assert [(event.step, event.replica) for event in journal.history(kinds=["mirrored"])] == [
        (10, "mirror"),
        (20, "mirror"),
    ]
    journal.close()


def test_without_a_mirror_there_is_nothing_to_mirror_to(tmp_path: Path, state: Path) -> None:
    with pytest.raises(UsageError, match="no run has a mirror"):
        mirrored_now(run_of(step_files(tmp_path / "P", [10])), state)
