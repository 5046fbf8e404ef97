from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from prune.audit.inotify import CREATE, DELETE, IS_DIRECTORY, MODIFY, MOVED_TO, OVERFLOW, Event
from prune.audit.watch import Sight, Watcher, watch
from prune.errors import UsageError


def watcher() -> Watcher:
    return Watcher(size_of=lambda _: 7, writer_of=lambda _: "process 1")


def take(of: Watcher, *events: tuple[int, str]) -> list[str]:
    """What is seen, as 'path: what', after these events."""
    for mask, path in events:
        of.take(Event(mask, path))
    return [f"{sight.path}: {sight.what}" for sight in of.result()]


def test_a_file_that_appears_under_a_final_name_and_grows_is_seen_once() -> None:
    of = watcher()
    events = [Event(CREATE, "/r/step_1.pt"), Event(MODIFY, "/r/step_1.pt"), Event(MODIFY, "/r/step_1.pt")]
    assert [of.take(event) is not None for event in events] == [False, True, False]
    assert of.result() == [Sight("/r/step_1.pt", "appeared and then grew", 7, 7, "process 1")]


def test_a_file_that_is_renamed_onto_its_name_is_not_seen() -> None:
    events = [(CREATE, "/r/step_1.pt.part"), (MODIFY, "/r/step_1.pt.part"), (MOVED_TO, "/r/step_1.pt")]
    assert take(watcher(), *events) == []


def test_a_file_that_was_there_and_is_written_over_is_seen() -> None:
    assert take(watcher(), (MODIFY, "/r/last.ckpt")) == ["/r/last.ckpt: was there, and was written over in place"]


@pytest.mark.parametrize(
    "name",
    ["train.log", "config.json", "events.out.tfevents.1", ".tmpAb12Cd", "step_1.pt.tmp", "tmp-checkpoint-5/a.pt"],
)
def test_logs_configurations_and_temporaries_may_grow(name: str) -> None:
    assert take(watcher(), (CREATE, f"/r/{name}"), (MODIFY, f"/r/{name}")) == []


def test_a_pointer_that_is_rewritten_in_place_is_seen() -> None:
    assert len(take(watcher(), (MODIFY, "/r/latest"))) == 1
    assert len(take(watcher(), (MODIFY, "/r/latest_checkpointed_iteration.txt"))) == 1


def test_a_step_directory_that_is_filled_under_its_name_is_seen() -> None:
    seen = take(
        watcher(), (CREATE | IS_DIRECTORY, "/r/checkpoint-10"), (MOVED_TO, "/r/checkpoint-10/model.safetensors")
    )
    assert seen == ["/r/checkpoint-10: appeared and was filled under its final name"]


def test_a_directory_that_is_renamed_to_its_name_is_not_seen() -> None:
    assert take(watcher(), (MOVED_TO | IS_DIRECTORY, "/r/checkpoint-10")) == []


def test_a_name_that_went_away_and_came_back_whole_is_not_seen() -> None:
    events = [(CREATE, "/r/step_1.pt"), (DELETE, "/r/step_1.pt"), (MOVED_TO, "/r/step_1.pt")]
    assert take(watcher(), *events) == []


def test_events_that_the_kernel_dropped_are_told() -> None:
    of = watcher()
    take(of, (OVERFLOW, ""))
    assert of.lost


IN_PLACE = """
import os, sys, time
root = sys.argv[1]
with open(os.path.join(root, "step_1.pt"), "wb") as file:
    for _ in range(20):
        file.write(b"x" * 10000)
        file.flush()
        time.sleep(0.02)
os.makedirs(os.path.join(root, "sub", "checkpoint-7"))
with open(os.path.join(root, "sub", "checkpoint-7", "optimizer.pt"), "wb") as file:
    for _ in range(20):
        file.write(b"x" * 10000)
        file.flush()
        time.sleep(0.02)
"""
PUBLISHED = """
import os, sys, prune
with prune.publish(os.path.join(sys.argv[1], "step_2.pt")) as file:
    file.write(b"x" * 3_000_000)
with prune.publish_directory(os.path.join(sys.argv[1], "step-3")) as folder:
    (folder / "model.pt").write_bytes(b"x" * 1000)
"""


def watched(root: Path, script: str) -> tuple[list[Sight], list[Sight], int]:
    """All sights while a process runs a script, those told at once, and the process's number."""
    told: list[Sight] = []
    done = threading.Event()
    number = []

    def write() -> None:
        time.sleep(0.3)  # the watch stands before the first write
        with subprocess.Popen([sys.executable, "-c", script, str(root)]) as process:
            number.append(process.pid)
        time.sleep(0.3)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    sights, lost = watch(str(root), seconds=60, tell=told.append, going=lambda: not done.is_set())
    thread.join()
    assert not lost
    return sights, told, number[0]


def test_a_real_writer_in_place_is_seen_with_its_process(tmp_path: Path) -> None:
    sights, told, pid = watched(tmp_path, IN_PLACE)
    by_name = {os.path.relpath(sight.path, tmp_path): sight for sight in sights}
    assert set(by_name) == {"step_1.pt", "sub/checkpoint-7", "sub/checkpoint-7/optimizer.pt"}
    assert by_name["step_1.pt"].last_size == 200_000
    assert f"process {pid} (" in str(by_name["step_1.pt"].writer)
    assert {sight.path for sight in told} == {sight.path for sight in sights}


def test_a_real_publication_is_not_seen(tmp_path: Path) -> None:
    sights, told, _ = watched(tmp_path, PUBLISHED)
    assert (sights, told) == ([], [])


def test_the_watch_ends_when_its_time_is_over(tmp_path: Path) -> None:
    assert watch(str(tmp_path), seconds=0.1, tell=lambda _: None) == ([], False)


def test_what_is_no_directory_is_bad_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such directory"):
        watch(str(tmp_path / "nothing"), seconds=1, tell=lambda _: None)
