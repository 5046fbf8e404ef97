"""Asking the command about roots, and reading what it answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.command import prune


@dataclass(frozen=True)
class Answer:
    """One run's part of what a command printed, and how the command ended."""

    code: int
    run: dict[str, Any]
    err: str

    @property
    def deleted(self) -> set[int]:
        """Steps that are gone from at least one replica, or would go."""
        if "steps" in self.run:
            return {step["step"] for step in self.run["steps"] if step["decision"] == "delete"}
        return {copy["step"] for copy in self.run["deleted"]}

    @property
    def kept(self) -> set[int]:
        return {step["step"] for step in self.run["steps"] if step["decision"] == "keep"}

    @property
    def guards(self) -> dict[int, set[str]]:
        """Step → the guards that hold it."""
        found: dict[int, set[str]] = {}
        for step in self.run.get("steps", ()):
            if step["decision"] == "guarded":
                found[step["step"]] = {hold["guard"] for hold in step["guards"]}
        for held in self.run.get("guarded", ()):
            found.setdefault(held["step"], set()).add(held["guard"])
        return found

    @property
    def candidate(self) -> int | None:
        found = self.run["resume_candidate"]
        return None if found is None else int(found["step"])

    @property
    def attention(self) -> set[str]:
        return {note["kind"] for note in self.run["attention"]}

    @property
    def blocked(self) -> str | None:
        found = self.run["blocked"]
        return None if found is None else str(found["block"])

    def health(self, step: int, replica: str = "primary") -> str | None:
        for each in self.run["steps"]:
            for copy in each["copies"]:
                if (each["step"], copy["replica"]) == (step, replica):
                    return str(copy["health"])
        return None

    def told(self, kind: str) -> str:
        """What the attention of this kind says."""
        return " · ".join(note["detail"] for note in self.run["attention"] if note["kind"] == kind)


def plan(primary: Path, *mirrors: Path, keep: int, more: Iterable[object] = ()) -> Answer:
    return _ask("plan", primary, mirrors, keep, more)


def apply(primary: Path, *mirrors: Path, keep: int, more: Iterable[object] = ()) -> Answer:
    return _ask("apply", primary, mirrors, keep, ("--yes", *more))


def _ask(verb: str, primary: Path, mirrors: Iterable[Path], keep: int, more: Iterable[object]) -> Answer:
    where = [part for mirror in mirrors for part in ("--mirror", str(mirror))]
    done = prune(verb, "--json", "--primary", primary, *where, "--keep-last", str(keep), *map(str, more))
    return Answer(done.code, done.json["runs"][0], done.err)
