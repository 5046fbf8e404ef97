"""The page in a real Chromium: what is seen, reached by keyboard, and read aloud."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prune.forecast import Forecast
from prune.model import Attention, Block, Decision, Health
from prune.service.board import RunView, after_plan
from prune.service.server import start
from tests.service.homes import Home, home
from tests.service.sights import GIB, step, tiny

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium (Debian: chromium) is not installed")
SHOTS = os.environ.get("PRUNE_TEST_SHOTS")  # a folder to leave screenshots in, for people to look at


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def place(tmp_path: Path) -> Home:
    return home(tmp_path)


@pytest.fixture
def url(place: Home) -> Iterator[str]:
    serving = start(place.daemon, "127.0.0.1:0")
    yield serving.url
    serving.stop()


def show(place: Home, **sight: Any) -> None:
    """What the daemon saw, as if a pass had been made."""
    now = place.daemon.clock()
    told = {"primary": Forecast(GIB, now + 300 * 10**9, 600 * 10**9, 7200.0, 20 * GIB)}
    place.daemon.board.put(after_plan(RunView("tiny", last_success_ns=now), tiny(**sight), now_ns=now, forecasts=told))


def open_page(chromium: Any, url: str, **more: Any) -> Any:
    context = chromium.new_context(**{"viewport": {"width": 1200, "height": 900}, **more})
    page = context.new_page()
    page.said = []
    page.on("console", lambda message: page.said.append(message.text))
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.asked = []
    page.on("request", lambda request: page.asked.append(request.url))
    page.goto(url)
    return page


TROUBLE: dict[str, Any] = {
    "blocks": [Block("replica-unreachable", "mirror", "/mnt/mirror/tiny: no such file")],
    "attention": [Attention("unknown-mtime", "mirror", "4 checkpoints held: unknown mtime", "set their mtimes")],
}


def test_the_page_asks_for_nothing_else_and_has_nothing_to_complain_of(chromium: Any, place: Home, url: str) -> None:
    show(place)
    page = open_page(chromium, url)
    assert page.said == []
    assert [asked for asked in page.asked if not asked.startswith("data:")] == [url]


def test_it_works_without_scripts(chromium: Any, place: Home, url: str) -> None:
    show(place)
    page = open_page(chromium, url, java_script_enabled=False)
    page.locator("summary", has_text="300").click()
    assert page.locator("details[open] .why").inner_text().count("the baseline of the paper") == 1


def test_attention_stands_first_and_blocks_before_the_rest(chromium: Any, place: Home, url: str) -> None:
    show(place, **TROUBLE)
    page = open_page(chromium, url)
    assert page.locator("main > *").first.locator("h2").inner_text() == "Attention"
    notes = page.locator(".notes li").all_inner_texts()
    assert "blocked, replica-unreachable" in notes[0]
    assert "set their mtimes" in notes[1]


def test_every_step_is_reached_and_opened_by_keyboard_and_says_why(chromium: Any, place: Home, url: str) -> None:
    show(place)
    page = open_page(chromium, url)
    page.locator("header a").focus()
    seen = []
    for _ in range(8):
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        seen.append(page.locator("details[open] .why b").inner_text())
    assert [words.split(":")[0] for words in seen] == [f"Step {n}" for n in range(100, 801, 100)]
    assert "would go" in seen[0]


def test_the_reason_is_a_hint_under_the_pointer_too(chromium: Any, place: Home, url: str) -> None:
    show(place)
    page = open_page(chromium, url)
    hint = page.locator("summary", has_text="300").get_attribute("title")
    assert "Guarded, pinned on primary: the baseline of the paper." in hint


def test_each_state_has_a_sign_of_its_own_and_not_only_a_colour(chromium: Any, place: Home, url: str) -> None:
    show(place)
    page = open_page(chromium, url)
    signs = page.locator(".legend li span").all_inner_texts()
    assert len(set(signs[:6])) == 6


def test_signs_have_words_for_who_listens(chromium: Any, place: Home, url: str) -> None:
    show(place)
    page = open_page(chromium, url)
    name = page.locator("summary", has_text="600").get_attribute("aria-label")
    assert name == "Step 600: primary broken; mirror broken"
    bar = page.get_by_role("img").first.get_attribute("aria-label")
    assert "primary: 80 per cent used" in bar


@pytest.mark.parametrize("width", [390, 320])
def test_a_phone_needs_no_sideways_scrolling(chromium: Any, place: Home, url: str, width: int) -> None:
    show(place, **TROUBLE)
    page = open_page(chromium, url, viewport={"width": width, "height": 800})
    page.locator("summary", has_text="300").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    leave_a_shot(page, f"phone-{width}")


CONTRASTS = """
() => {
  const numbers = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = element => {
    for (let at = element; at; at = at.parentElement) {
      const colour = numbers(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || !element.checkVisibility()) continue;
    const pair = [light(numbers(getComputedStyle(element).color)), light(ground(element))].sort((a, b) => b - a);
    found.push([(pair[0] + 0.05) / (pair[1] + 0.05), element.className, element.textContent.trim().slice(0, 40)]);
  }
  return found;
}
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out_from_its_ground(chromium: Any, place: Home, url: str, scheme: str) -> None:
    show(place, **TROUBLE)
    page = open_page(chromium, url, color_scheme=scheme)
    page.locator("summary", has_text="300").click()
    leave_a_shot(page, scheme)
    faint = [entry for entry in page.evaluate(CONTRASTS) if entry[0] < 4.5]
    assert faint == []


def test_light_and_dark_are_two_grounds(chromium: Any, place: Home, url: str) -> None:
    grounds = {
        open_page(chromium, url, color_scheme=scheme).evaluate("getComputedStyle(document.body).backgroundColor")
        for scheme in ("light", "dark")
    }
    assert len(grounds) == 2


def test_basics_that_checkers_look_for(chromium: Any, place: Home, url: str) -> None:
    show(place, **TROUBLE)
    page = open_page(chromium, url)
    assert page.evaluate("document.documentElement.lang") == "en"
    assert page.title()
    assert page.locator("h1").count() == 1
    assert page.locator("main").count() == 1
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    labelled = page.evaluate(
        "[...document.querySelectorAll('[aria-labelledby]')].map(e => e.getAttribute('aria-labelledby'))"
    )
    assert set(labelled) <= set(ids)
    small = page.evaluate(
        "[...document.querySelectorAll('summary')].filter(e => Math.min(e.offsetWidth, e.offsetHeight) < 24).length"
    )
    assert small == 0


def test_five_thousand_steps_are_a_page_of_modest_size(chromium: Any, place: Home, url: str) -> None:
    steps = [step(n, Decision.KEEP, reasons=["every"], health=Health.WHOLE) for n in range(0, 500_000, 100)]
    show(place, steps=steps)
    page = open_page(chromium, url)
    assert page.locator("summary").count() < 100
    assert len(page.content()) < 200_000
    page.locator("summary", has_text="×4952").click()
    assert "4952 steps, 800 to 495900: primary kept" in page.locator("details[open] .why b").inner_text()


def test_ten_thousand_runs_are_a_list_with_the_ones_in_trouble_first(chromium: Any, place: Home, url: str) -> None:
    board = place.daemon.board
    now = place.daemon.clock()
    board.only(f"run-{number:05d}" for number in range(10_000))
    for number in range(10_000):
        sight = TROUBLE if number == 7777 else {}
        plan = tiny(f"run-{number:05d}", steps=[], **sight)
        board.put(after_plan(RunView(plan.run, last_success_ns=now), plan, now_ns=now, forecasts={}))
    page = open_page(chromium, url)
    assert page.locator("tbody th").first.inner_text() == "run-07777"
    assert page.locator("tbody th").count() <= 100
    page.get_by_label("Runs named like").fill("run-0123")
    page.get_by_role("button", name="Show").click()
    assert page.locator("h2#runs").inner_text() == "10 runs"
    assert page.locator("article").count() == 10


def leave_a_shot(page: Any, name: str) -> None:
    if SHOTS:
        page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)
