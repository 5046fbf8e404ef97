"""A real S3 server (moto's) of this test session's own, a bucket for every test, and a proxy before it.

With ``PRUNE_TEST_S3=http://127.0.0.1:9000`` the same tests run against another server, which knows the keys below.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from prune.stores.object import client
from tests.object.proxy import Proxy

QUICK = client.Patience(timeout_s=3, connect_s=2, retries=3, for_s=20, first_pause_s=0.01, longest_pause_s=0.05)
VARIABLES = {
    "AWS_ACCESS_KEY_ID": "a-key",
    "AWS_SECRET_ACCESS_KEY": "a-secret",
    "AWS_REGION": "us-east-1",
    "AWS_CONFIG_FILE": "/nonexistent",
    "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until_it_answers(url: str, process: subprocess.Popen[bytes], seconds: float = 60) -> None:
    """Waits for a server. Any answer will do."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f"{url} does not answer")


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if given := os.environ.get("PRUNE_TEST_S3"):
        yield given
        return
    pytest.importorskip("moto.server", reason="needs moto's server: pip install 'moto[s3,server]'")
    port = free_port()
    log = (tmp_path_factory.mktemp("moto") / "log").open("wb")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        until_it_answers(f"http://127.0.0.1:{port}/moto-api/data.json", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()
        log.close()


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> client.Patience:
    monkeypatch.setattr(client, "PATIENCE", QUICK)
    return QUICK


@pytest.fixture
def proxy(s3_server: str, patience: client.Patience, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """Between the product and the store: all of its requests pass here."""
    with Proxy(s3_server) as between:
        for name, value in {**VARIABLES, "AWS_ENDPOINT_URL": between.url}.items():
            monkeypatch.setenv(name, value)
        client.forget_buckets()
        yield between
        client.forget_buckets()


@pytest.fixture
def bucket(proxy: Proxy, s3_server: str) -> str:
    """A new bucket's URL."""
    name = f"ckpt-{uuid.uuid4().hex[:12]}"
    boto3.client("s3", endpoint_url=s3_server).create_bucket(Bucket=name)
    return f"s3://{name}"


@pytest.fixture
def conditional_deletes(bucket: str, s3_server: str) -> None:
    """Skips what only a store can that refuses to delete another object than the one looked at."""
    s3, name = boto3.client("s3", endpoint_url=s3_server), bucket.removeprefix("s3://")
    s3.put_object(Bucket=name, Key="elsewhere/probe", Body=b"x")
    try:
        s3.delete_object(Bucket=name, Key="elsewhere/probe", IfMatch='"another"')
    except s3.exceptions.ClientError as error:
        s3.delete_object(Bucket=name, Key="elsewhere/probe")
        if error.response["Error"]["Code"] == "PreconditionFailed":
            return
    pytest.skip("this server does not keep to conditions of deletes")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state.db"
