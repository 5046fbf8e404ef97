"""The same promises on Azure's blob store, against Azurite (npm)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

from prune import mirror as mirroring
from prune.journal import open_journal
from prune.resume import Terms, find
from prune.stores.object import client, delete, lock
from prune.stores.object.root import ObjectRoot
from prune.stores.object.troubles import Changed
from tests.object.conftest import free_port, until_it_answers
from tests.object.store import run_on, step_keys, step_prefixes
from tests.runs import applied, deleted_steps, planned, settings_of
from tests.trees.build import step_files

ACCOUNT = "devstoreaccount1"  # Azurite's own, with the key that its documentation prints
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@pytest.fixture(scope="module")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    program = _program(tmp_path_factory.mktemp("azurite"))
    port = free_port()
    command = [program, "--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck",
               "--blobHost", "127.0.0.1", "--blobPort", str(port)]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until_it_answers(f"http://127.0.0.1:{port}/{ACCOUNT}", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _program(folder: Path) -> str:
    """Azurite's blob server: on the path, where ``AZURITE`` says, or installed from npm for this session."""
    found = os.environ.get("AZURITE") or shutil.which("azurite-blob")
    if found:
        return found
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("Azurite needs npm")
    try:
        subprocess.run([npm, "install", "--silent", "--prefix", str(folder), "azurite"], check=True, timeout=300,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"Azurite cannot be installed from npm: {error}")
    return str(folder / "node_modules" / ".bin" / "azurite-blob")


@pytest.fixture
def container(azurite: str, patience: client.Patience, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A new container's URL."""
    name = f"ckpt-{uuid.uuid4().hex[:12]}"
    _make(azurite, name)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    monkeypatch.setenv("AZURE_ENDPOINT", f"{azurite}/{ACCOUNT}")
    client.forget_buckets()
    yield f"az://{name}"
    client.forget_buckets()


def _make(url: str, name: str) -> None:
    said = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    told = "PUT" + "\n" * 12 + "".join(f"{key}:{said[key]}\n" for key in sorted(said))
    told += f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    signature = base64.b64encode(hmac.new(base64.b64decode(KEY), told.encode(), hashlib.sha256).digest()).decode()
    headers = {**said, "Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Length": "0"}
    request = urllib.request.Request(f"{url}/{ACCOUNT}/{name}?restype=container", method="PUT", headers=headers)
    urllib.request.urlopen(request).close()


def put_all(url: str, files: dict[str, bytes]) -> None:
    root = ObjectRoot(url)
    for path, data in files.items():
        root.write_atomic(path, data)


def keys(url: str) -> list[str]:
    return sorted(path for path, _ in ObjectRoot(url).objects() if not path.startswith(".prune/"))


@pytest.mark.parametrize("files", [step_keys(range(1, 6)), step_prefixes(range(1, 6), files=2)], ids=["lone", "many"])
def test_plan_and_apply(container: str, state: Path, files: dict[str, bytes]) -> None:
    put_all(f"{container}/runs/tiny", files)
    run = run_on(f"{container}/runs/tiny", last=2)

    plan = planned(run, state)
    outcome = applied(run, state)

    assert [step.step for step in plan.victims] == deleted_steps(outcome) == [1, 2, 3]
    assert outcome.failed == ()
    kept = ("step_0004", "step_0005", "step-4", "step-5")
    assert keys(f"{container}/runs/tiny")
    assert all(key.startswith(kept) for key in keys(f"{container}/runs/tiny"))


def test_a_thousand_objects_go_in_batches(container: str, state: Path) -> None:
    put_all(container, {f"step_{step:04d}.pt": b"\x80\x02}q\x00." for step in range(1, 303)})

    outcome = applied(run_on(container, last=2), state)

    assert len(outcome.deleted) == 300
    assert keys(container) == ["step_0301.pt", "step_0302.pt"]


def test_the_lock_is_one_processes_own(container: str) -> None:
    folder = ObjectRoot(f"{container}/.prune")

    with lock.acquire(folder) as held:
        assert held.still_held()
        with pytest.raises(lock.Held):
            lock.acquire(folder)
    lock.acquire(folder).release()


def test_a_blob_written_again_is_not_deleted(container: str) -> None:
    root = ObjectRoot(container)
    root.write_atomic("step_0001.pt", b"old")
    looked_at = root.object("step_0001.pt")
    root.write_atomic("step_0001.pt", b"new")

    with pytest.raises(Changed):
        delete._delete_one(root, looked_at)
    assert keys(container) == ["step_0001.pt"]


def test_mirror_and_resume(container: str, state: Path, tmp_path: Path) -> None:
    primary = step_files(tmp_path / "P", range(1, 5))
    run = run_on(primary, container)

    done = mirroring.mirror(settings_of(run, state=state))[0]
    shutil.rmtree(primary)
    primary.mkdir()
    journal = open_journal(f"sqlite:///{state}", write=True)
    found = find(run, Terms(), journal)

    assert (done.failed, len(done.copied)) == ((), 3)
    assert found.candidate is not None
    assert found.candidate.path == f"{container}/step_0004.pt"
    journal.close()


def test_grace_and_recovery_by_the_note(container: str, state: Path) -> None:
    from prune.settings.schema import SECOND

    put_all(container, step_prefixes(range(1, 5), files=1))
    applied(run_on(container, last=2, grace=2 * SECOND), state)
    shown = planned(run_on(container, last=2), state)
    time.sleep(3.5)

    applied(run_on(container, last=2, grace=2 * SECOND), state)

    assert [step.step for step in shown.steps] == [3, 4]
    assert {key.partition("/")[0] for key in keys(container)} == {"step-3", "step-4"}
