"""The units, as systemd itself reads them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY

UNITS = sorted((DEPLOY / "systemd").glob("*.service")) + sorted((DEPLOY / "systemd").glob("*.timer"))
SERVICES = [unit for unit in UNITS if unit.suffix == ".service"]
analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """The units with a command that is there, since systemd looks whether it is."""
    for unit in UNITS:
        text = unit.read_text().replace("/opt/ckpt-prune/bin/prune", "/bin/true")
        (tmp_path / unit.name).write_text(text.replace("User=ckpt-prune", "User=daemon"))
    return tmp_path


@analyze
@pytest.mark.parametrize("name", [unit.name for unit in UNITS])
def test_systemd_finds_no_fault_in_the_unit(units: Path, name: str) -> None:
    if "@" in name:
        (units / name.replace("@", "@40GB")).symlink_to(units / name)
        name = name.replace("@", "@40GB")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(units / name)],
        capture_output=True,
        text=True,
        env={"SYSTEMD_UNIT_PATH": f"{units}:", "PATH": "/usr/bin:/bin"},
        timeout=60,
        check=False,
    )
    ours = [line for line in done.stderr.splitlines() if "prune" in line]
    assert not ours, done.stderr


@analyze
@pytest.mark.parametrize("name", [unit.name for unit in SERVICES])
def test_the_service_is_exposed_to_little(units: Path, name: str) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(units / name)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found = re.search(r"Overall exposure level for .*: ([0-9.]+)", done.stdout)
    assert found, done.stdout + done.stderr
    assert float(found[1]) < 3.0


@pytest.mark.parametrize("unit", SERVICES, ids=lambda unit: unit.name)
def test_every_service_runs_the_installed_command_on_the_one_settings_file(unit: Path) -> None:
    command = re.search(r"^ExecStart=(.*)$", unit.read_text(), re.M)
    assert command
    assert command[1].startswith("/opt/ckpt-prune/bin/prune ")
    assert "--config /etc/ckpt-prune/prune.toml" in command[1]


def test_what_deletes_unattended_says_yes() -> None:
    for name in ("prune-apply.service", "prune-make-room@.service"):
        assert " --yes" in (DEPLOY / "systemd" / name).read_text()
