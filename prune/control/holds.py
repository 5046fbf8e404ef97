"""Pins, which people set, and leases, which readers hold: small JSON files, one each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from prune.model import Lease, Pin


def pin_bytes(pin: Pin) -> bytes:
    data = {"schema": "prune.pin/1", "step": pin.step, "reason": pin.reason, "by": pin.by, "at_ns": pin.at_ns,
            "until_ns": pin.until_ns}  # fmt: skip
    return (json.dumps(data) + "\n").encode()


def parse_pin(text: str, replica: str) -> Pin:
    """Raises ValueError when this is no pin of ours."""
    data = _object(text)
    try:
        return Pin(int(data["step"]), str(data.get("reason", "")), str(data.get("by", "")), int(data.get("at_ns", 0)),
                   _time(data.get("until_ns")), replica)  # fmt: skip
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a pin ({error!r})") from error


def lease_bytes(lease: Lease) -> bytes:
    data = {"schema": "prune.lease/1", "step": lease.step, "holder": lease.holder, "until_ns": lease.until_ns}
    return (json.dumps(data) + "\n").encode()


def parse_lease(text: str, replica: str) -> Lease:
    """Raises ValueError when this is no lease of ours."""
    data = _object(text)
    try:
        return Lease(int(data["step"]), str(data.get("holder", "")), int(data["until_ns"]), replica)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a lease ({error!r})") from error


def _object(text: str) -> dict[str, Any]:
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError("not an object")
    return data


def _time(value: Any) -> int | None:
    return None if value is None else int(value)


def held_steps(pins: Iterable[Pin], leases: Iterable[Lease], now_ns: int) -> set[int]:
    """Steps whose pin or lease has not run out."""
    return {pin.step for pin in pins if pin.holds(now_ns)} | {lease.step for lease in leases if lease.holds(now_ns)}
