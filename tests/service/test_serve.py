"""The daemon as a process: signals, reloads, the word to systemd, and what it survives."""

from __future__ import annotations

import re
import signal
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.service.served import Served, fetch
from tests.trees.build import mirrored, step_files


def config_of(folder: Path, *, last: int = 3, schedule: str = "1s", more: str = "") -> str:
    return f"""
state = "sqlite:///{folder}/state.db"
[service]
schedule = "{schedule}"
pressure_check = "1s"
listen = "127.0.0.1:0"
{more}
[[runs]]
name = "tiny"
primary = "{folder}/primary"
mirrors = ["{folder}/mirror"]
[runs.keep]
last = {last}
"""


def steps(folder: Path) -> int:
    return len(list((folder / "primary").glob("*.pt")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    mirrored(step_files(tmp_path / "primary", range(100, 1001, 100)), tmp_path / "mirror")
    (tmp_path / "prune.toml").write_text(config_of(tmp_path))
    return tmp_path


@pytest.fixture
def served(folder: Path) -> Iterator[Served]:
    daemon = Served(folder / "prune.toml", folder=folder)
    yield daemon
    daemon.close()


def url_of(served: Served) -> str:
    served.until(lambda: "listening on" in served.said(), "listening")
    found = re.search(r"listening on (\S+)", served.said())
    assert found
    return found[1]


def test_it_says_ready_lives_watched_prunes_answers_and_ends_with_zero(served: Served, folder: Path) -> None:
    served.ready()
    served.until(lambda: steps(folder) == 3, "pruned")
    served.until(lambda: "WATCHDOG=1" in served.listen(), "alive")
    url = url_of(served)
    assert '"status": "well"' in fetch(url + "healthz")
    served.until(lambda: 'prune_deleted_steps_total{run="tiny"} 7.0' in fetch(url + "metrics"), "counted")
    assert served.stop() == 0
    assert "STOPPING=1" in served.listen()


def test_a_good_file_is_taken_on_sighup_and_a_bad_one_changes_nothing(served: Served, folder: Path) -> None:
    served.ready()
    served.until(lambda: steps(folder) == 3, "pruned")
    (folder / "prune.toml").write_text(config_of(folder, last=0))
    served.send(signal.SIGHUP)
    served.until(lambda: "the old ones stay" in served.said(), "refused")
    assert "keep.last" in served.said()
    assert "RELOADING=1" in served.listen()
    assert steps(folder) == 3
    (folder / "prune.toml").write_text(config_of(folder, last=2))
    served.send(signal.SIGHUP)
    served.until(lambda: steps(folder) == 2, "pruned by the new settings")


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (config_of(Path("/nowhere"), schedule="61 * * * *"), "service.schedule"),
        (config_of(Path("/nowhere"), schedule="0 0 31 2 *"), "never comes"),
        (config_of(Path("/nowhere"), more='timezone = "Mars/Olympus"'), "timezone"),
        (config_of(Path("/nowhere"), schedule="9999999999d"), "service.schedule"),
        (config_of(Path("/nowhere")).replace('check = "1s"', 'check = "9999999999d"'), "service.pressure_check"),
        ("a = " + "[" * 20_000, "nested too deep"),
        (config_of(Path("/nowhere"), last=0), "keep.last"),
        (config_of(Path("/nowhere"), more='notify = {webhook = "ftp://x"}'), "webhook"),
    ],
)
def test_it_refuses_to_start_on_settings_it_cannot_follow(tmp_path: Path, text: str, key: str) -> None:
    (tmp_path / "prune.toml").write_text(text)
    daemon = Served(tmp_path / "prune.toml", folder=tmp_path)
    try:
        assert daemon.process.wait(60) == 2
        assert key in daemon.said()
        assert "Traceback" not in daemon.said()
    finally:
        daemon.close()


def test_an_address_that_is_taken_is_a_sentence_and_not_a_traceback(folder: Path, tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        text = config_of(folder).replace("127.0.0.1:0", f"127.0.0.1:{taken.getsockname()[1]}")
        (folder / "prune.toml").write_text(text)
        daemon = Served(folder / "prune.toml", folder=folder)
        try:
            assert daemon.process.wait(60) == 1
            assert "cannot listen on" in daemon.said()
            assert "Traceback" not in daemon.said()
        finally:
            daemon.close()


def test_a_locked_state_database_stops_no_prune(folder: Path, served: Served) -> None:
    served.ready()
    served.until(lambda: steps(folder) == 3, "pruned once")
    holder = sqlite3.connect(folder / "state.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    for root in ("primary", "mirror"):
        step_files(folder / root, [1100, 1200])
    served.until(lambda: steps(folder) == 3, "pruned while the database is locked")
    holder.execute("ROLLBACK")
    holder.close()
    assert served.stop() == 0


def test_a_state_database_that_vanishes_stops_nothing(folder: Path, served: Served) -> None:
    served.ready()
    served.until(lambda: steps(folder) == 3, "pruned once")
    for path in folder.glob("state.db*"):
        path.unlink()
    for root in ("primary", "mirror"):
        step_files(folder / root, [1100])
    served.until(lambda: "step_1100.pt" in {p.name for p in (folder / "primary").iterdir()} and steps(folder) == 3,
                 "pruned without its database")  # fmt: skip
    assert served.stop() == 0


@pytest.mark.slow
def test_requests_that_never_end_hold_up_no_end_and_fill_no_log(folder: Path) -> None:
    (folder / "prune.toml").write_text(config_of(folder, more='token = "a-token"'))
    daemon = Served(folder / "prune.toml", folder=folder)
    try:
        url = url_of(daemon)
        address = urlsplit(url)
        unfinished = [socket.create_connection((str(address.hostname), address.port or 0)) for _ in range(20)]
        for one in unfinished:
            one.sendall(b"POST /api/v1/apply HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a-token\r\n"
                        b"Content-Length: 100\r\n\r\n{")  # fmt: skip
        assert '"status": "well"' in fetch(url + "healthz")
        assert daemon.stop() == 0
        assert "Traceback" not in daemon.said()
        for one in unfinished:
            one.close()
    finally:
        daemon.close()


def test_a_killed_daemon_leaves_nothing_that_stops_the_next_one(folder: Path, served: Served) -> None:
    served.ready()
    served.send(signal.SIGKILL)
    served.again()
    served.until(lambda: steps(folder) == 3, "pruned by the next one")
    assert served.stop() == 0
