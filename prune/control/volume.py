"""``volume.json``: a random id that alone decides which volume this is, its role, and what the run last held."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SCHEMA = "prune.volume/1"


@dataclass(frozen=True, slots=True)
class Held:
    """What a replica last held: how many steps, and the newest."""

    steps: int = 0
    newest: int | None = None


@dataclass(frozen=True, slots=True)
class Peer:
    """Another replica of the run as it was last seen."""

    id: str
    held: Held = field(default_factory=Held)


@dataclass(frozen=True, slots=True)
class Volume:
    id: str
    role: str
    held: Held = field(default_factory=Held)
    peers: Mapping[str, Peer] = field(default_factory=dict)  # by replica name

    def to_bytes(self) -> bytes:
        data = {
            "schema": SCHEMA,
            "id": self.id,
            "role": self.role,
            "held": _held(self.held),
            "peers": {name: {"id": peer.id, "held": _held(peer.held)} for name, peer in sorted(self.peers.items())},
        }
        return (json.dumps(data, indent=1) + "\n").encode()


def new_id() -> str:
    return os.urandom(16).hex()


def parse(text: str) -> Volume:
    """Raises ValueError with a sentence when this is no volume.json of ours."""
    try:
        data = json.loads(text)
        if data["schema"] != SCHEMA:
            raise ValueError(f"schema {data['schema']!r}, this version knows {SCHEMA}")
        if not isinstance(data["id"], str) or not data["id"]:
            raise ValueError("its id is not a word")
        peers = {name: Peer(peer["id"], _parse_held(peer["held"])) for name, peer in data["peers"].items()}
        return Volume(data["id"], str(data["role"]), _parse_held(data["held"]), peers)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a volume.json of ours ({error!r})") from error


def _held(held: Held) -> dict[str, int | None]:
    return {"steps": held.steps, "newest": held.newest}


def _parse_held(data: Any) -> Held:
    return Held(int(data["steps"]), None if data["newest"] is None else int(data["newest"]))
