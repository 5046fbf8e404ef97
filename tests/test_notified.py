"""What was told is told once, across processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prune.model import Attention, Outcome, RunOutcome
from prune.notified import memory_of, recall, remember, tell_outcome
from prune.notify import FLAPPING, Matter, Notifier
from prune.settings.schema import HOUR, Notify, Service, Settings

FULL = Matter("tiny", "target-not-reached", "primary", "3 GiB short", "pin less")


def life(path: Path, *looks: list[Matter]) -> list[Matter]:
    """One process: it looks so many times; what it sent."""
    sent: list[Matter] = []
    notifier = Notifier(HOUR, sent.extend)
    recall(notifier, str(path))
    for found in looks:
        notifier.observe("tiny", found)
    remember(notifier, str(path))
    return sent


def test_a_second_process_does_not_tell_it_again(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "notified.json"
    assert life(path, [FULL]) == [FULL]
    assert life(path, [FULL]) == []
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_later_process_tells_that_it_is_over(tmp_path: Path) -> None:
    path = tmp_path / "notified.json"
    life(path, [FULL])
    sent = [matter for _ in range(FLAPPING) for matter in life(path, [])]
    assert [matter.state for matter in sent] == ["recovered"]


@pytest.mark.parametrize("text", ["", "nonsense", "{}", "[1, {}]", '[{"run": "tiny"}]'])
def test_a_memory_that_makes_no_sense_is_no_memory(tmp_path: Path, text: str) -> None:
    path = tmp_path / "notified.json"
    path.write_text(text)
    assert life(path, [FULL]) == [FULL]


def test_the_memory_lies_beside_the_state() -> None:
    assert memory_of("sqlite:////var/lib/x/prune.db") == "/var/lib/x/prune.notified.json"
    assert memory_of("sqlite:////var/lib/x/other.db") != memory_of("sqlite:////var/lib/x/prune.db")
    assert memory_of("postgresql://host/db") is None


def test_a_place_that_cannot_be_written_only_means_telling_again(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert life(tmp_path / "file" / "notified.json", [FULL]) == [FULL]


def test_a_pass_of_the_command_line_tells_its_channels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[dict[str, str]] = []

    def post(self: object, matters: list[Matter]) -> None:
        got.extend(json.loads(json.dumps([{"kind": matter.kind, "state": matter.state} for matter in matters])))

    monkeypatch.setattr("prune.outbox.Webhook.__call__", post)
    service = Service(notify=Notify(webhook="http://127.0.0.1:1/x"))
    settings = Settings((), state=f"sqlite:///{tmp_path}/s.db", service=service)
    note = Attention("no-gain", "primary", "0 gained", "snapshots?")
    outcome = Outcome("p", (RunOutcome("tiny", attention=(note,)),))
    for _ in range(3):
        tell_outcome(settings, outcome)
    assert got == [{"kind": "no-gain", "state": "open"}]


def test_without_channels_nothing_is_remembered_either(tmp_path: Path) -> None:
    settings = Settings((), state=f"sqlite:///{tmp_path}/s.db")
    tell_outcome(settings, Outcome("p", ()))
    assert list(tmp_path.iterdir()) == []
