"""Ten thousand objects listed and deleted in a bucket, beside clients that ask for each: requests and seconds.

A server of moto's is started on this machine; what a request costs there is its own time, without a network. So the
requests are counted too: over a network they are what is waited for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.measure import Target, timed

STEPS, SHARDS, KEPT = 102, 100, 2
BUCKET = "bench"
AT_MOST = 1 / 20
SHARD = b"\x80\x02}q\x00."


@dataclass(frozen=True)
class Server:
    url: str
    log: Path

    def requests(self) -> int:
        return self.log.read_bytes().count(b"HTTP/1.1")

    @property
    def environment(self) -> dict[str, str]:
        keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1",
                "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": self.url}  # fmt: skip
        return {**os.environ, **keys, "PRUNE_STATE": f"sqlite:///{self.log.parent}/prune.db"}


@contextmanager
def server() -> Iterator[Server]:
    from tests.object.conftest import free_port, until_it_answers

    with tempfile.TemporaryDirectory() as folder:
        port, log = free_port(), Path(folder) / "log"
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file)
        try:
            until_it_answers(f"http://127.0.0.1:{port}/moto-api/data.json", process)
            yield Server(f"http://127.0.0.1:{port}", log)
        finally:
            process.terminate()
            process.wait()


def client() -> Any:
    import boto3

    return boto3.client("s3")


def fill() -> None:
    s3 = client()
    s3.create_bucket(Bucket=BUCKET)
    names = [f"step-{step}/rank_{rank}.pt" for step in range(1, STEPS + 1) for rank in range(SHARDS)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: s3.put_object(Bucket=BUCKET, Key=name, Body=SHARD), names))


def victims(s3: Any) -> list[str]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    keys = [found["Key"] for page in pages for found in page.get("Contents", ()) if found["Key"].startswith("step-")]
    return [key for key in keys if int(key.partition("/")[0].removeprefix("step-")) <= STEPS - KEPT]


def one_by_one() -> None:
    s3 = client()
    for key in victims(s3):
        s3.delete_object(Bucket=BUCKET, Key=key)


def in_bulk() -> None:
    s3 = client()
    keys = victims(s3)
    for at in range(0, len(keys), 1000):
        s3.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in keys[at : at + 1000]]})


def peers() -> dict[str, str]:
    """The clients that are installed, as people delete by them: shell commands that know nothing of the server yet."""
    kept = range(STEPS - KEPT + 1, STEPS + 1)
    spared = {name: " ".join(f"--exclude 'step-{step}/{name}'" for step in kept) for name in ("*", "**")}
    host = "--no-ssl --host ${AWS_ENDPOINT_URL#http://} --host-bucket ${AWS_ENDPOINT_URL#http://}"
    commands = {
        "aws": f"aws s3 rm --quiet --recursive s3://{BUCKET} {spared['*']}",
        "s3cmd": f"s3cmd --access_key a --secret_key b {host} del --quiet --recursive --force {spared['*']} s3://{BUCKET}",
        "rclone": "RCLONE_CONFIG_AT_TYPE=s3 RCLONE_CONFIG_AT_PROVIDER=Other RCLONE_CONFIG_AT_ENV_AUTH=true"
        f" RCLONE_CONFIG_AT_ENDPOINT=$AWS_ENDPOINT_URL rclone delete {spared['**']} at:{BUCKET}",
    }
    words = {"aws": "aws s3 rm --recursive", "s3cmd": "s3cmd del --recursive", "rclone": "rclone delete"}
    return {words[name]: command for name, command in commands.items() if shutil.which(name) is not None}


def main() -> None:
    """Prints the table in Markdown."""
    own = [sys.executable, "-m", "tests.benchmarks.objects"]
    cases = {
        "one request an object": [*own, "one-by-one"],
        "delete_objects in a row, nothing checked": [*own, "in-bulk"],
        "prune apply": [sys.executable, "-m", "prune", "apply", "--yes", "--primary", f"s3://{BUCKET}",
                        "--keep-last", str(KEPT), "--in-flight", "0s"],
    }  # fmt: skip
    cases |= {name: ["sh", "-c", command] for name, command in peers().items()}
    found: dict[str, tuple[float, int]] = {}
    for name, case in cases.items():
        with server() as running:
            subprocess.run([*own, "fill"], env=running.environment, check=True)
            before = running.requests()
            wall, _, peak = timed(case, running.environment)
            found[name] = wall, running.requests() - before
            left = subprocess.run([*own, "left"], env=running.environment, check=True, capture_output=True, text=True)
            assert int(left.stdout) == 0, f"{name}: {left.stdout} objects were left"
            print(f"{name}: {wall:.2f} s, {found[name][1]} requests, peak {peak:.0f} MiB", file=sys.stderr, flush=True)
    print(f"\n### {(STEPS - KEPT) * SHARDS:,} of {STEPS * SHARDS:,} objects in a bucket, listed and deleted\n")
    print("| case | requests | wall s |\n|---|---|---|")
    for name, (wall, requests) in found.items():
        print(f"| {name} | {requests:,} | {wall:.2f} |")
    target = Target("prune apply", "one request an object", AT_MOST)
    for what, at in (("requests", 1), ("wall", 0)):
        ratio = found[target.case][at] / found[target.peer][at]
        verdict = "reached" if ratio <= target.at_most else "missed"
        print(f"\n{target.case} / {target.peer}, {what}: **{ratio:.3f}**, target ≤ {target.at_most}: {verdict}")
    print(
        "\nOn this machine the server's own work is the time: what no client can go below is the second row.",
        flush=True,
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fill"]:
            fill()
        case ["one-by-one"]:
            one_by_one()
        case ["in-bulk"]:
            in_bulk()
        case ["left"]:
            print(len(victims(client())))
        case _:
            main()
