"""A bucket of a million objects, planned and pruned: seconds, requests, and the memory it takes.

``python -m tests.benchmarks.million [--steps N --shards N]``. No server that can be installed lists a million objects
at a bearable pace, so this one makes its listings up as they are asked for: it answers the requests of S3 that
are sent here, keeps what is put, and remembers what was deleted.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
import tempfile
import threading
import time
import urllib.parse
from bisect import bisect_right
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from xml.sax.saxutils import escape

from tests.benchmarks.measure import timed

SHARD = b"\x80\x02}q\x00."
TAG = hashlib.md5(SHARD).hexdigest()
KEPT = 12
PAGE = 1000
WRITTEN = "2026-01-02T03:04:05.000Z"
STAMP = "Fri, 02 Jan 2026 03:04:05 GMT"


class Made:
    """The objects: shards that nobody put there, and what was put since."""

    def __init__(self, steps: int, shards: int) -> None:
        self.steps = sorted(f"step-{step:06d}/" for step in range(1, steps + 1))
        self.shards = [f"shard_{shard:05d}.bin" for shard in range(shards)]
        self.deleted: dict[str, set[str]] = {}
        self.put: dict[str, tuple[bytes, str]] = {}
        self.requests: dict[str, int] = {}
        self.most_at_once = self.at_once = 0
        self.lock = threading.Lock()

    def has(self, key: str) -> bool:
        step, slash, name = key.partition("/")
        folder = step + slash
        made = bool(slash) and folder in self._known and name in self._names
        return made and name not in self.deleted.get(folder, ())

    @property
    def _known(self) -> set[str]:
        return self.__dict__.setdefault("_steps", set(self.steps))

    @property
    def _names(self) -> set[str]:
        return self.__dict__.setdefault("_shards", set(self.shards))

    def keys(self, prefix: str, after: str) -> Any:
        """Keys below a prefix beyond another key, in order."""
        own = iter(sorted(key for key in self.put if key.startswith(prefix) and key > after))
        waiting = next(own, None)
        first = max(0, bisect_right(self.steps, after or prefix[: prefix.find("/") + 1]) - 1)
        for folder in self.steps[first:]:
            if not (folder.startswith(prefix) or prefix.startswith(folder)):
                continue
            gone = self.deleted.get(folder, ())
            if len(gone) == len(self.shards):
                continue
            for name in self.shards:
                key = folder + name
                if key <= after or name in gone or not key.startswith(prefix):
                    continue
                while waiting is not None and waiting < key:
                    yield waiting
                    waiting = next(own, None)
                yield key
        while waiting is not None:
            yield waiting
            waiting = next(own, None)

    def prefixes(self, prefix: str, after: str) -> tuple[list[str], list[str]]:
        """What a listing with a delimiter shows: folders and keys directly below."""
        keys = [key for key in self.put if key.startswith(prefix)]
        folders = {prefix + key[len(prefix) :].partition("/")[0] + "/" for key in keys if "/" in key[len(prefix) :]}
        lone = [key for key in keys if "/" not in key[len(prefix) :]]
        if not prefix:
            folders |= {step for step in self.steps if len(self.deleted.get(step, ())) < len(self.shards)}
        elif prefix in self._known:
            lone += [prefix + name for name in self.shards if name not in self.deleted.get(prefix, ())]
        return sorted(found for found in folders if found > after), sorted(key for key in lone if key > after)


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16  # an answer is one packet
    made: Made

    def log_message(self, *_: object) -> None:
        pass

    def _split(self, what: str) -> tuple[str, dict[str, str]]:
        with self.made.lock:
            self.made.requests[what] = self.made.requests.get(what, 0) + 1
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        return urllib.parse.unquote(url.path.lstrip("/").partition("/")[2]), query

    def _answer(self, code: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        url = urllib.parse.urlsplit(self.path).query
        key, query = self._split("list" if "list-type" in url else "get")
        if "list-type" in query:
            self._list(query)
        elif not key:
            name = "ListMultipartUploadsResult" if "uploads" in query else "VersioningConfiguration"
            self._answer(200, f"<{name}></{name}>".encode())
        else:
            self._object(key)

    def do_HEAD(self) -> None:
        self._object(self._split("head")[0])

    def _object(self, key: str) -> None:
        if key in self.made.put:
            body, tag = self.made.put[key]
        elif self.made.has(key):
            body, tag = SHARD, TAG
        else:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        about = {"ETag": f'"{tag}"', "Last_Modified": STAMP}
        if asked is not None and self.command == "GET":
            start, end = int(asked[1]), min(int(asked[2] or len(body)), len(body) - 1)
            part = body[start : end + 1]
            self._answer(206, part, Content_Range=f"bytes {start}-{end}/{len(body)}", **about)
        else:
            self._answer(200, body, Content_Length=str(len(body)), **about)

    def _list(self, query: dict[str, str]) -> None:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        after = query.get("continuation-token") or query.get("start-after", "")
        most = min(PAGE, int(query.get("max-keys", PAGE)))
        folders: list[str] = []
        if delimiter:
            folders, keys = self.made.prefixes(prefix, after)
            chosen = sorted([*folders, *keys])[: most + 1]
            folders = [name for name in chosen[:most] if name in set(folders)]
            keys = [name for name in chosen[:most] if name not in set(folders)]
            more = len(chosen) > most
            last = chosen[most - 1] if more else ""
        else:
            found = self.made.keys(prefix, after)
            keys = [key for key, _ in zip(found, range(most), strict=False)]
            more = next(found, None) is not None
            last = keys[-1] if more else ""
        lines = [f"<IsTruncated>{str(more).lower()}</IsTruncated>"]
        if more:
            lines.append(f"<NextContinuationToken>{escape(last)}</NextContinuationToken>")
        for key in keys:
            body, tag = self.made.put.get(key, (SHARD, TAG))
            lines.append(f"<Contents><Key>{escape(key)}</Key><LastModified>{WRITTEN}</LastModified>"
                         f'<ETag>"{tag}"</ETag><Size>{len(body)}</Size></Contents>')  # fmt: skip
        lines += [f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in folders]
        self._answer(200, f"<ListBucketResult>{''.join(lines)}</ListBucketResult>".encode())

    def do_PUT(self) -> None:
        key, _ = self._split("put")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.made.lock:
            old = self.made.put.get(key)
            if self.headers.get("If-None-Match") == "*" and old is not None:
                self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            wanted = self.headers.get("If-Match")
            if wanted is not None and (old is None or wanted.strip('"') != old[1]):
                self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            tag = hashlib.md5(body + str(time.monotonic_ns()).encode()).hexdigest()
            self.made.put[key] = body, tag
        self._answer(200, ETag=f'"{tag}"')

    def do_DELETE(self) -> None:
        self._gone(self._split("delete")[0])
        self._answer(204)

    def do_POST(self) -> None:
        _, query = self._split("bulk delete")
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if "delete" not in query:
            self._answer(400)
            return
        with self.made.lock:
            self.made.at_once += 1
            self.made.most_at_once = max(self.made.most_at_once, self.made.at_once)
        keys = [urllib.parse.unquote(key) for key in re.findall(r"<Key>([^<]*)</Key>", body)]
        for key in keys:
            self._gone(key)
        with self.made.lock:
            self.made.at_once -= 1
        done = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self._answer(200, f"<DeleteResult>{done}</DeleteResult>".encode())

    def _gone(self, key: str) -> None:
        step, _, name = key.partition("/")
        if self.made.put.pop(key, None) is None and self.made.has(key):
            self.made.deleted.setdefault(step + "/", set()).add(name)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def measured(steps: int, shards: int, words: list[str]) -> tuple[float, float, Made]:
    """Seconds and peak MiB of one command on a fresh bucket, and the bucket as it left it."""
    made = Made(steps, shards)
    server = Server(("127.0.0.1", 0), type("Of", (Answers,), {"made": made}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}", "PRUNE_STATE": f"sqlite:///{folder}/s.db",
        }  # fmt: skip
        command = [sys.executable, "-m", "prune", *words, "--primary", "s3://bench", "--keep-last", str(KEPT)]
        wall, _, peak = timed(command, environment)
    server.shutdown()
    return wall, peak, made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--shards", type=int, default=1000)
    options = parser.parse_args()
    few = measured(KEPT + 1, 10, ["plan", "--json", "--quiet"])[1]
    print("| case | wall s | peak MiB above a small bucket | requests |\n|---|---|---|---|")
    for words in (["plan", "--json", "--quiet"], ["apply", "--yes", "--quiet", "--allow-many", "--in-flight", "0s"]):
        wall, peak, made = measured(options.steps, options.shards, words)
        asked = ", ".join(f"{count:,} {what}" for what, count in sorted(made.requests.items()))
        what = f"{words[0]}, {options.steps:,} × {options.shards:,} objects"
        print(f"| {what} | {wall:.1f} | {peak - few:.0f} | {asked} |")
        gone = sum(map(len, made.deleted.values()))
        print(f"\n{gone:,} objects deleted, {made.most_at_once} bulk deletes at once\n", flush=True)


if __name__ == "__main__":
    main()
