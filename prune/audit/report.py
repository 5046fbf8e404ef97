"""What an audit says, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from prune.audit.finding import Audited

if TYPE_CHECKING:
    from prune.audit.watch import Sight

SCHEMA = "prune.audit/1"
_SHOWN = 5  # files that could not be parsed, by name


def sentences(found: Audited) -> Iterator[str]:
    """Three lines a finding, and a summary."""
    for finding in found.findings:
        yield f"{finding.file}:{finding.line}: {finding.writer} writes {finding.target} in place"
        yield f"    why:  {finding.why}"
        yield f"    safe: {finding.safe}"
    places = len({finding.file for finding in found.findings})
    if found.findings:
        yield f"{_count(len(found.findings), 'writer')} in {places} of {_count(found.files, 'source')}"
    else:
        yield f"no writer in {_count(found.files, 'source')} puts a checkpoint straight onto its final name"


def notes(found: Audited) -> Iterator[str]:
    """What was not looked at, and why."""
    if found.tests:
        yield f"{_count(found.tests, 'file')} of tests passed over; name them to have them read"
    for line in found.unparsed[:_SHOWN]:
        yield f"not parsed: {line}"
    if len(found.unparsed) > _SHOWN:
        yield f"not parsed: {len(found.unparsed) - _SHOWN} more"
    for line in found.unread:
        yield f"not read: {line}"


def to_json(found: Audited) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "findings": [asdict(finding) for finding in found.findings],
        "files": found.files,
        "tests_passed_over": found.tests,
        "unparsed": list(found.unparsed),
        "unread": list(found.unread),
    }


def sight_sentence(sight: Sight) -> str:
    by = f", written by {sight.writer}" if sight.writer else ""
    return f"{sight.path}: {sight.what}{by}"


def watch_to_json(directory: str, sights: Sequence[Sight], lost: bool) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "watched": directory,
        "findings": [asdict(sight) for sight in sights],
        "events_lost": lost,
    }


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
