"""Pins and leases of a run, set and taken on every replica that can be reached."""

from __future__ import annotations

import getpass
import os
import secrets
from dataclasses import replace

from prune.control import Control
from prune.errors import Failed
from prune.inventory.gather import survey
from prune.inventory.opening import open_control, open_site
from prune.inventory.recognising import find_layout
from prune.inventory.site import OpenReplica, Site
from prune.model import Lease, Pin
from prune.settings.schema import RunSettings


def pin(run: RunSettings, step: int, *, reason: str, now_ns: int, until_ns: int | None = None) -> list[str]:
    """Protects a step on every replica; returns the names of those that now say so.

    Raises Failed when no replica could be told.
    """
    value = Pin(step, reason, _who(), now_ns, until_ns)
    return _everywhere(run, lambda control, name: control.write_pin(replace(value, replica=name)))


def absence(run: RunSettings, step: int, *, now_ns: int) -> str | None:
    """Why a hold on the step protects no copy yet, as a sentence; None where a replica shows one.

    A replica that cannot be listed shows nothing.
    """
    with open_site(run) as site:
        if step in survey(site, now_ns=now_ns).copies:
            return None
        controls = [(replica.name, replica.control) for replica in site.replicas if replica.control is not None]
        trashed = [name for name, control in controls if step in _waiting(control)]
    if trashed:
        where = f"step {step} of {run.name} is in the trash of {' and '.join(trashed)}"
        return f"{where}: the pin keeps it from being purged, and `prune undo` puts it back"
    return f"no replica of {run.name} holds step {step} now: the pin waits for one that is saved"


def _waiting(control: Control) -> set[int]:
    """Steps in the trash that can still be put back."""
    return {gone.step for gone in control.trashed() if gone.state != "purging"}


def unpin(run: RunSettings, step: int) -> list[str]:
    """Takes the pin off on every replica; returns those that had one. Raises Failed where one cannot be taken off."""
    found: list[str] = []
    troubles: list[str] = []
    with open_site(run) as site:
        for replica in _with_control(site, make=False):
            assert replica.control is not None
            try:
                if replica.control.remove_pin(step):
                    found.append(replica.name)
            except OSError as error:
                troubles.append(f"{replica.control.path}/pins: {error.strerror}")
    if troubles:
        off = f"; it is off {' and '.join(found)}" if found else ""
        mend = "A pin on one replica holds the step on all: let it be written there, then unpin again."
        raise Failed(f"the pin of step {step} stays: {'; '.join(troubles)}{off}", mend=mend)
    return found


def pins(run: RunSettings) -> list[Pin]:
    """Every pin on every replica. Raises Failed when any cannot be read."""
    found: list[Pin] = []
    with open_site(run) as site:
        for replica in _with_control(site, make=False):
            assert replica.control is not None
            try:
                found += replica.control.pins(replica.name)
            except (OSError, ValueError) as error:
                raise Failed(str(error), mend="mend or remove that file") from error
    return found


def lease(run: RunSettings, step: int, *, until_ns: int, holder: str | None = None, name: str | None = None) -> str:
    """Leases a step on every replica; returns the lease's name, by which ``release`` ends it."""
    chosen = name or secrets.token_hex(8)
    value = Lease(step, holder or _who(), until_ns)
    _everywhere(run, lambda control, replica: control.write_lease(replace(value, replica=replica), chosen))
    return chosen


def release(run: RunSettings, name: str) -> None:
    """Ends a lease wherever it stands. Raises Failed where it cannot be ended; it then ends by its own time."""
    troubles: list[str] = []
    with open_site(run) as site:
        for replica in _with_control(site, make=False):
            assert replica.control is not None
            try:
                replica.control.remove_lease(name)
            except OSError as error:
                troubles.append(f"{replica.control.path}/leases: {error.strerror}")
    if troubles:
        raise Failed("; ".join(troubles))


def _everywhere(run: RunSettings, write) -> list[str]:  # type: ignore[no-untyped-def]
    told: list[str] = []
    troubles: list[str] = []
    with open_site(run) as site:
        for replica in _with_control(site, make=True, troubles=troubles):
            assert replica.control is not None
            try:
                write(replica.control, replica.name)
                told.append(replica.name)
            except OSError as error:
                troubles.append(f"{replica.control.path}: {error.strerror}")
    if not told:
        raise Failed(f"no replica of {run.name} could be told: {'; '.join(troubles) or 'none can be reached'}")
    return told


def _with_control(site: Site, *, make: bool, troubles: list[str] | None = None) -> list[OpenReplica]:
    """Replicas whose control folder is there, or could be made."""
    find_layout(site)
    open_control(site, site.layout)
    found = []
    for replica in site.replicas:
        if replica.place is None or replica.place.trouble is not None:
            continue
        try:
            if replica.control is None and make:
                replica.control = Control.make(replica.place.path)
        except OSError as error:
            if troubles is not None:
                troubles.append(f"{replica.place.path}: {error.strerror}")
        if replica.control is not None:
            found.append(replica)
    return found


def _who() -> str:
    try:
        return f"{getpass.getuser()}@{os.uname().nodename}"
    except (KeyError, OSError):
        return f"uid {os.getuid()}@{os.uname().nodename}"
