"""Two hosts and a database of one test's own: network namespaces behind a switch whose cables can be pulled.

Each host has a name, a boot and a mount table of its own, so that it is another one for whoever asks.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

DATABASE = "10.213.7.1"
SUBNET = "10.213.7.0/24"
BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass(frozen=True)
class Node:
    """A host in the network. ``within`` comes before a command that is to run there."""

    name: str
    namespace: str
    port: str  # its cable's end at the switch
    within: tuple[str, ...]


@dataclass(frozen=True)
class Network:
    switch: str  # the namespace with the switch, where the database stands

    @property
    def within(self) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.switch)

    def host(self, number: int, home: Path, binds: Sequence[tuple[Path, Path]] = ()) -> Node:
        """A new host; ``binds`` are directories that it sees at a place of its own."""
        name, namespace, port = f"host-{number}", f"{self.switch}-{number}", f"port{number}"
        ip("netns", "add", namespace)
        ip("-n", self.switch, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        ip("-n", self.switch, "link", "set", port, "master", "switch", "up")
        ip("-n", namespace, "addr", "add", f"10.213.7.{number + 1}/24", "dev", "eth0")
        ip("-n", namespace, "link", "set", "eth0", "up")
        boot = home / f"{name}-boot"
        boot.write_text(f"{uuid.uuid4()}\n")
        mounts = [f"mount --bind '{source}' '{target}'" for source, target in [(boot, Path(BOOT_ID)), *binds]]
        script = " && ".join([f"hostname {name}", *mounts, 'exec "$@"'])
        within = ("ip", "netns", "exec", namespace, "unshare", "--uts", "--mount", "sh", "-c", script, name)
        return Node(name, namespace, port, within)

    def cut(self, node: Node) -> None:
        """Pulls its cable: what it sends is swallowed, and nobody tells it."""
        ip("-n", self.switch, "link", "set", node.port, "nomaster")

    def mend(self, node: Node) -> None:
        ip("-n", self.switch, "link", "set", node.port, "master", "switch")


@contextmanager
def network() -> Iterator[Network]:
    """A switch with no hosts yet. Skips the test with the reason where namespaces cannot be made."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("network namespaces need root, and the commands ip (iproute2) and unshare (util-linux)")
    switch = f"prune-{uuid.uuid4().hex[:6]}"
    made = subprocess.run(["ip", "netns", "add", switch], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"network namespaces cannot be made here: {made.stderr.strip()}")
    try:
        _plug_in(switch)
        yield Network(switch)
    finally:
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
        for namespace in (line.split()[0] for line in listed.splitlines()):
            if namespace == switch or namespace.startswith(f"{switch}-"):
                subprocess.run(["ip", "netns", "delete", namespace], capture_output=True)


def _plug_in(switch: str) -> None:
    made = subprocess.run(
        ["ip", "-n", switch, "link", "add", "switch", "type", "bridge"], capture_output=True, text=True
    )
    if made.returncode != 0:
        pytest.skip(f"a bridge cannot be made here: {made.stderr.strip()}")
    ip("-n", switch, "addr", "add", f"{DATABASE}/24", "dev", "switch")
    ip("-n", switch, "link", "set", "switch", "up")
    ip("-n", switch, "link", "set", "lo", "up")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
