"""Who is told what, and how often."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from prune.model import Attention, Block
from prune.notify import AT_ONCE, BETWEEN_NS, FLAPPING, MOST_IN_AN_HOUR, Matter, Notifier, matters_of
from prune.outbox import MOST, Outbox, Webhook, channels
from prune.settings.schema import HOUR, MINUTE, Notify

FULL = Matter("tiny", "target-not-reached", "primary", "3 GiB short", "pin less")


class World:
    """A notifier whose clock and mail are in our hands."""

    def __init__(self) -> None:
        self.now = 1_000_000 * HOUR
        self.sent: list[Matter] = []
        self.messages = 0
        self.notifier = Notifier(HOUR, self.send, lambda: self.now)

    def send(self, matters: list[Matter]) -> None:
        self.messages += 1
        self.sent += matters


@pytest.fixture
def world() -> World:
    return World()


def test_a_new_matter_is_told_at_once_and_only_once(world: World) -> None:
    for _ in range(5):
        world.notifier.observe("tiny", [FULL])
        world.now += MINUTE
    assert world.sent == [FULL]


def test_the_same_matter_with_other_figures_is_the_same_matter(world: World) -> None:
    world.notifier.observe("tiny", [FULL])
    world.notifier.observe("tiny", [Matter("tiny", "target-not-reached", "primary", "2 GiB short")])
    assert len(world.sent) == 1


def test_what_is_still_so_after_an_hour_is_told_again(world: World) -> None:
    world.notifier.observe("tiny", [FULL])
    world.now += HOUR
    world.notifier.observe("tiny", [FULL])
    assert world.sent == [FULL, FULL]


def test_a_clock_that_was_set_back_silences_nobody(world: World) -> None:
    for number in range(AT_ONCE):
        world.notifier.observe(f"run-{number}", [replace(FULL, run=f"run-{number}")])
    world.sent.clear()
    world.now -= 1000 * HOUR
    world.notifier.observe("run-0", [replace(FULL, run="run-0")])
    world.notifier.observe("tiny", [FULL])
    assert [matter.run for matter in world.sent] == ["run-0", "tiny"]


def test_what_is_over_is_told_as_recovered_once(world: World) -> None:
    world.notifier.observe("tiny", [FULL])
    for _ in range(FLAPPING + 3):
        world.notifier.observe("tiny", [])
    assert [matter.state for matter in world.sent] == ["open", "recovered"]


def test_what_is_gone_for_one_look_has_not_recovered(world: World) -> None:
    world.notifier.observe("tiny", [FULL])
    world.notifier.observe("tiny", [])
    world.notifier.observe("tiny", [FULL])
    assert world.sent == [FULL]


def test_one_run_s_look_recovers_nothing_of_another(world: World) -> None:
    world.notifier.observe("tiny", [FULL])
    for _ in range(FLAPPING):
        world.notifier.observe("large", [])
    assert world.sent == [FULL]


def test_a_thousand_matters_are_a_few_messages_and_what_stops_a_run_waits_minutes_and_stands_first(
    world: World,
) -> None:
    for number in range(1000):
        world.notifier.observe(f"run-{number}", [Matter(f"run-{number}", "not-aligned", None, "young")])
    stopped = Matter("run-7", "volume-changed", "mirror", "another disk", blocked=True)
    world.notifier.observe("run-7", [Matter("run-7", "not-aligned", None, "young"), stopped])
    assert len(world.sent) == AT_ONCE
    world.now += BETWEEN_NS
    told = world.notifier.catch_up()
    assert told[0] == stopped
    assert {matter.run for matter in world.sent} == {f"run-{number}" for number in range(1000)}


def test_an_hour_has_so_many_messages_whatever_happens_in_it(world: World) -> None:
    for number in range(3600):
        world.notifier.observe(f"run-{number}", [replace(FULL, run=f"run-{number}")])
        world.now += HOUR // 3600
    assert AT_ONCE < world.messages <= MOST_IN_AN_HOUR


def test_what_was_told_and_is_over_while_no_message_may_go_is_told_as_over_with_the_next(world: World) -> None:
    for number in range(AT_ONCE):
        world.notifier.observe(f"run-{number}", [replace(FULL, run=f"run-{number}")])
    for _ in range(FLAPPING):
        world.notifier.observe("run-0", [])
    world.now += BETWEEN_NS
    assert [(matter.run, matter.state) for matter in world.notifier.catch_up()] == [("run-0", "recovered")]


def test_the_log_says_once_an_hour_that_a_thing_is_still_so_though_no_message_has_room_for_it(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(20):
        for number in range(50):
            world.notifier.observe(f"run-{number}", [replace(FULL, run=f"run-{number}")])
    assert len(capsys.readouterr().err.splitlines()) == 50


def test_several_runs_seen_together_are_one_message(world: World) -> None:
    world.notifier.observe_all({f"run-{n}": [replace(FULL, run=f"run-{n}")] for n in range(500)})
    assert (world.messages, len(world.sent)) == (1, 500)


def test_an_event_is_told_once_an_hour_and_never_recovers(world: World) -> None:
    fallback = Matter("tiny", "fallback", "primary", "step 900 is broken, resuming from 800")
    world.notifier.tell(fallback)
    world.notifier.tell(fallback)
    world.notifier.observe("tiny", [])
    world.notifier.observe("tiny", [])
    assert world.sent == [fallback]
    world.now += HOUR
    world.notifier.tell(fallback)
    assert len(world.sent) == 2


def test_a_run_that_left_the_settings_is_forgotten_in_silence(world: World) -> None:
    world.notifier.observe("tiny", [FULL])
    world.notifier.forget([])
    world.notifier.observe("tiny", [])
    assert world.sent == [FULL]


def test_blocks_and_attention_of_one_kind_and_place_are_one_matter() -> None:
    notes = [Attention("unknown-mtime", "mirror", f"step {n}", "set them") for n in range(4)]
    found = matters_of("tiny", notes, [Block("read-only", "mirror", "mounted ro")])
    assert [matter.kind for matter in found] == ["read-only", "unknown-mtime"]


class Inbox(BaseHTTPRequestHandler):
    received: list[dict[str, Any]]
    answers: list[int]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).received.append(json.loads(body))
        self.send_response(type(self).answers.pop(0) if type(self).answers else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def inbox() -> Iterator[tuple[type[Inbox], str]]:
    handler = type("ThisInbox", (Inbox,), {"received": [], "answers": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield handler, f"http://127.0.0.1:{server.server_port}/hook?key=s3cret"
    server.shutdown()
    server.server_close()


def test_a_webhook_gets_the_sentence_and_the_fields(inbox: tuple[type[Inbox], str]) -> None:
    handler, url = inbox
    Webhook(url)([FULL])
    assert handler.received[0]["text"] == "tiny on primary: target-not-reached: 3 GiB short (pin less)"
    assert handler.received[0]["matters"][0]["kind"] == "target-not-reached"


def test_a_webhook_gets_as_much_as_somebody_reads_and_how_much_more_there_is(inbox: tuple[type[Inbox], str]) -> None:
    handler, url = inbox
    Webhook(url)([replace(FULL, run=f"run-{number}\nx") for number in range(MOST + 7)])
    (body,) = handler.received
    assert len(body["matters"]) == MOST
    assert body["more"] == 7
    assert len(body["text"].splitlines()) == MOST + 1


def test_a_webhook_that_fails_is_tried_again_and_its_address_stays_out_of_the_log(
    inbox: tuple[type[Inbox], str], capsys: pytest.CaptureFixture[str]
) -> None:
    handler, url = inbox
    handler.answers += [500, 500]
    outbox = Outbox([Webhook(url)], pause=0)
    outbox([FULL])
    outbox.close()
    assert len(handler.received) == 3
    assert "s3cret" not in capsys.readouterr().err


def test_a_channel_that_raises_anything_does_not_silence_the_others() -> None:
    got: list[Matter] = []

    def broken(matters: list[Matter]) -> None:
        raise RuntimeError("no such thing")

    outbox = Outbox([broken, got.extend], tries=1)
    outbox([FULL])
    outbox.close()
    assert got == [FULL]


def test_a_webhook_that_is_no_url_is_refused() -> None:
    with pytest.raises(ValueError, match="webhook"):
        channels(Notify(webhook="file:///etc/passwd"))


def test_apprise_is_refused_with_the_way_to_install_it_or_taken() -> None:
    pytest.importorskip("apprise", reason="apprise is not installed")
    with pytest.raises(ValueError, match=r"apprise\[0\]"):
        channels(Notify(apprise=("nonsense",)))
    assert len(channels(Notify(apprise=("json://127.0.0.1:1/",)))) == 1


def test_without_channels_nothing_is_sent() -> None:
    outbox = Outbox(channels(Notify()))
    outbox([FULL])
    outbox.close()
