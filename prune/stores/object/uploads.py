"""Uploads in parts that were begun and never finished: they take up room and no listing shows them.

The client library has no requests for them, so these few are signed here (AWS Signature Version 4, as S3's own
documentation describes it). Azure's and Google's stores drop what was begun by themselves, after a week.
"""

from __future__ import annotations

import datetime
import errno
import hashlib
import hmac
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urlsplit
from xml.etree import ElementTree

from prune.model import SECOND, Identity, Temporary
from prune.stores.object.credentials import Keys, static_keys
from prune.stores.object.root import ObjectRoot

_EMPTY = hashlib.sha256(b"").hexdigest()
_SEPARATOR = "?uploadId="


@dataclass(frozen=True, slots=True)
class Begun:
    """One upload that was begun: of which key, under which id, and when."""

    path: str
    id: str
    since_ns: int


def begun(root: ObjectRoot) -> list[Begun]:
    """Uploads begun below a root; none where they cannot be asked for. Raises OSError."""
    keys = static_keys() if root.address.scheme == "s3" else None
    return list(_listed(root, keys)) if keys is not None else []


def as_temporaries(root: ObjectRoot, replica: str) -> list[Temporary]:
    """The same as temporaries of nobody's step, told by key and id. Raises OSError."""
    return [
        Temporary(replica, f"{each.path}{_SEPARATOR}{each.id}", None, 0, each.since_ns, _identity(root, each))
        for each in begun(root)
    ]


def is_upload(path: str) -> bool:
    """Whether the path of a temporary names an upload."""
    return _SEPARATOR in path


def abort(root: ObjectRoot, path: str) -> None:
    """Ends an upload by the path that ``as_temporaries`` gave it; one that is over by now is no error.

    Raises OSError.
    """
    keys = static_keys()
    name, _, id = path.rpartition(_SEPARATOR)
    if keys is None:
        raise OSError(errno.EACCES, "the keys to end an upload with are gone", path)
    try:
        _request(root, keys, "DELETE", root.address.key(name), {"uploadId": id})
    except FileNotFoundError:
        return


def _identity(root: ObjectRoot, found: Begun) -> Identity:
    number = int.from_bytes(hashlib.sha256(found.id.encode()).digest()[:8]) >> 1
    return Identity(root.dev, number, 0, found.since_ns, 0, 0)


def _listed(root: ObjectRoot, keys: Keys) -> Iterator[Begun]:
    prefix = f"{root.address.prefix}/" if root.address.prefix else ""
    query = {"uploads": "", "prefix": prefix}
    while True:
        found = _parsed(_request(root, keys, "GET", "", query))
        space = found.tag.partition("}")[0] + "}" if found.tag.startswith("{") else ""
        for upload in found.iter(f"{space}Upload"):
            key, id = upload.findtext(f"{space}Key", ""), upload.findtext(f"{space}UploadId", "")
            yield Begun(root.address.below(key), id, _time_ns(upload.findtext(f"{space}Initiated", "")))
        if found.findtext(f"{space}IsTruncated") != "true":
            return
        query |= {
            "key-marker": found.findtext(f"{space}NextKeyMarker", ""),
            "upload-id-marker": found.findtext(f"{space}NextUploadIdMarker", ""),
        }


def _parsed(answer: bytes) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(answer)
    except ElementTree.ParseError as error:
        raise OSError(errno.EIO, f"the store's answer cannot be read ({error})") from None


def _time_ns(text: str) -> int:
    """0, a time that nobody set, where it cannot be read."""
    try:
        return int(datetime.datetime.fromisoformat(text).timestamp()) * SECOND
    except ValueError:
        return 0


def _request(root: ObjectRoot, keys: Keys, method: str, key: str, query: Mapping[str, str]) -> bytes:
    address = f"{_endpoint(keys.region)}/{root.address.bucket}" + (f"/{quote(key, safe='/-_.~')}" if key else "")
    asked = urlencode(sorted(query.items()), quote_via=quote, safe="-_.~")
    request = urllib.request.Request(f"{address}?{asked}", method=method)
    for name, value in _signature(keys, method, address, asked).items():
        request.add_header(name, value)
    shown = f"{root.address.scheme}://{root.address.bucket}/{key}".rstrip("/")
    try:
        with urllib.request.urlopen(request, timeout=root.bucket.patience.timeout_s) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        code = {403: errno.EACCES, 404: errno.ENOENT}.get(error.code, errno.EIO)
        raise OSError(code, f"HTTP {error.code}", shown) from None
    except OSError as error:
        raise OSError(errno.EIO, str(getattr(error, "reason", error)), shown) from None


def _endpoint(region: str) -> str:
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    own = next((os.environ[name] for name in names if os.environ.get(name)), None)
    return own.rstrip("/") if own else f"https://s3.{region}.amazonaws.com"


def _signature(keys: Keys, method: str, address: str, asked: str) -> dict[str, str]:
    """The headers that sign a request without a body."""
    now = datetime.datetime.now(datetime.UTC)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    place = urlsplit(address)
    said = {"host": place.netloc, "x-amz-content-sha256": _EMPTY, "x-amz-date": stamp}
    if keys.token:
        said["x-amz-security-token"] = keys.token
    names = ";".join(sorted(said))
    headers = "".join(f"{name}:{said[name]}\n" for name in sorted(said))
    canonical = "\n".join([method, place.path or "/", asked, headers, names, _EMPTY])
    scope = f"{day}/{keys.region}/s3/aws4_request"
    told = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    secret = f"AWS4{keys.secret}".encode()
    for part in (day, keys.region, "s3", "aws4_request"):
        secret = hmac.digest(secret, part.encode(), "sha256")
    signed = hmac.digest(secret, told.encode(), "sha256").hex()
    said["authorization"] = f"AWS4-HMAC-SHA256 Credential={keys.id}/{scope}, SignedHeaders={names}, Signature={signed}"
    return {name: value for name, value in said.items() if name != "host"}
