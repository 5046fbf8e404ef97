"""Requests to one bucket: with time-outs, retries and back-off, and every trouble as an OSError that holds no secret.

The requests themselves are obstore's (https://github.com/developmentseed/obstore), imported where a bucket is first
asked.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from prune.errors import UsageError
from prune.stores.object.address import Address
from prune.stores.object.credentials import gcs_options, s3_options
from prune.stores.object.patience import Patience
from prune.stores.object.troubles import Changed, as_os_error

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store

    Store = S3Store | GCSStore | AzureStore

T = TypeVar("T")
BULK = 1000  # keys of one bulk delete
IN_FLIGHT = 4  # bulk deletes at once
PAGE = 1000


PATIENCE = Patience()


@dataclass(frozen=True, slots=True)
class Object:
    """One object as a listing or a head shows it."""

    key: str
    size: int
    modified_ns: int
    etag: str
    version: str | None = None  # where the bucket keeps versions and the answer told


@dataclass
class Bucket:
    """A bucket or container. Use :func:`bucket`, which shares connections."""

    address: Address
    patience: Patience = field(default_factory=lambda: PATIENCE)
    versioned: bool = False  # an answer showed that this bucket keeps versions
    asked_for_versions: bool = False
    conditional: bool = False  # it was seen to keep to the conditions of writes
    _turn: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @cached_property
    def store(self) -> Store:
        """Raises OSError when the settings of the environment cannot be, UsageError without obstore."""
        library()
        try:
            return _store(self.address, self.patience)
        except Exception as error:  # obstore's errors have only Exception in common with ValueError and TypeError
            raise self.trouble(error, "") from error

    @cached_property
    def checking_store(self) -> Store:
        """The same for uploads: S3 is told the SHA-256 of all it gets, and refuses what arrives otherwise."""
        if self.address.scheme != "s3" or "AWS_CHECKSUM_ALGORITHM" in os.environ:
            return self.store
        return _store(self.address, self.patience, {"checksum_algorithm": "SHA256"})

    # --- reading ---------------------------------------------------------------------------------------------

    def pages(self, prefix: str, *, after: str | None = None) -> Iterator[list[Object]]:
        """Objects below a prefix, a page at a time, as the store gives them; see :mod:`prune.stores.object.listing`."""
        obstore = library()
        tries, last, in_order = 0, after, True
        while True:
            try:
                for chunk in obstore.list(self.store, prefix or None, offset=last, chunk_size=PAGE):
                    found = [_object(meta) for meta in chunk]
                    if last is not None:  # some stores begin again at the first key, whatever they are asked
                        found = [each for each in found if each.key > last or not in_order]
                    keys = [last or "", *(each.key for each in found)]
                    in_order = in_order and keys == sorted(keys)
                    last, tries = max(keys), 0
                    if found:
                        yield found
                return
            except Exception as error:
                # Where keys come in no order, what was missed cannot be told: only the whole listing again would do.
                tries = self._once_more(error, prefix, tries if in_order else self.patience.retries)

    def head(self, key: str) -> Object:
        """Raises FileNotFoundError, OSError."""
        obstore = library()
        return self._persistently(lambda: self._seen(_object(obstore.head(self.store, key))), key)

    def read(self, key: str, *, etag: str = "") -> tuple[bytes, Object]:
        """All of a small object. Raises FileNotFoundError, Changed when it is not the one of that ETag, OSError."""
        obstore = library()

        def ask() -> tuple[bytes, Object]:
            found = obstore.get(self.store, key, options={"if_match": quoted(etag)} if etag else None)
            return bytes(found.bytes()), self._seen(_object(found.meta))

        return self._persistently(ask, key)

    def read_range(self, key: str, start: int, length: int, *, etag: str = "") -> tuple[bytes, Object]:
        """Bytes of an object from ``start`` on, and which object that was. Raises as ``read`` does."""
        obstore = library()
        options: Any = {"range": (start, start + length), **({"if_match": quoted(etag)} if etag else {})}

        def ask() -> tuple[bytes, Object]:
            found = obstore.get(self.store, key, options=options)
            return bytes(found.bytes()), self._seen(_object(found.meta))

        return self._persistently(ask, key)

    # --- writing ---------------------------------------------------------------------------------------------

    def put(self, key: str, data: bytes, *, new: bool = False, etag: str = "") -> str:
        """Writes a small object whole and returns its ETag.

        ``new``: only where none is there (``If-None-Match: *``), else FileExistsError. ``etag``: only over exactly
        that one (``If-Match``), else Changed. A request whose answer was lost and that was sent again meets its own
        work: what is there already with these very bytes counts as written. Raises OSError.
        """
        obstore = library()
        mode: Any = "create" if new else self._only_over(key, etag) if etag else "overwrite"
        try:
            result = obstore.put(self.store, key, data, mode=mode)
        except Exception as error:
            trouble = self.trouble(error, key)
            if isinstance(trouble, FileExistsError | Changed) and (mine := self._already(key, data)):
                return mine
            raise trouble from error
        self.versioned = self.versioned or self._is_version(result.get("version"))
        return bare(result.get("e_tag"))

    def _only_over(self, key: str, etag: str) -> dict[str, str]:
        """The condition of a write. Google's store goes by generations, which only a head tells."""
        if self.address.scheme != "gs":
            return {"e_tag": quoted(etag)}
        there = self.head(key)
        if there.etag != etag or there.version is None:
            raise Changed(errno.ESTALE, "it is no longer the object it was", key)
        return {"e_tag": quoted(etag), "version": there.version}

    def _already(self, key: str, data: bytes) -> str | None:
        try:
            there, found = self.read(key)
        except OSError:
            return None
        return found.etag if there == data else None

    def copy(self, source: str, target: str) -> None:
        """A copy made by the store itself, over what may be there."""
        obstore = library()
        try:
            obstore.copy(self.store, source, target)
        except Exception as error:
            raise self.trouble(error, source) from error

    def delete(self, keys: Sequence[str], before: Callable[[], None] = lambda: None) -> None:
        """Deletes many objects, a thousand a request where the store can, several requests at once.

        ``before`` is called ahead of each request, and what it raises ends this. Some may be gone when this raises
        OSError: list to see which. What is not there is no error.
        """
        from concurrent.futures import ThreadPoolExecutor

        parts = [keys[at : at + BULK] for at in range(0, len(keys), BULK)]

        def one(part: Sequence[str]) -> None:
            before()
            self._delete(part)

        if len(parts) == 1:
            one(parts[0])
        elif parts:
            with ThreadPoolExecutor(IN_FLIGHT) as pool:
                list(pool.map(one, parts))

    def _delete(self, keys: Sequence[str]) -> None:
        obstore = library()
        try:
            obstore.delete(self.store, list(keys))
        except FileNotFoundError:
            if len(keys) > 1:  # stores without a bulk request stop at the first that is gone
                for key in keys:
                    self._delete([key])
        except Exception as error:
            raise self.trouble(error, keys[0]) from error

    def signed(self, method: str, key: str, seconds: int) -> str:
        """A URL that allows one kind of request on one key. It is a secret."""
        obstore = library()
        try:
            return str(obstore.sign(self.store, method, key, timedelta(seconds=seconds)))
        except Exception as error:
            raise self.trouble(error, key) from error

    # --- again -----------------------------------------------------------------------------------------------

    def _persistently(self, ask: Callable[[], T], key: str) -> T:
        """The answer, asked for again where it broke off half-way: what fails before that, the client repeats."""
        tries = 0
        while True:
            try:
                return ask()
            except Exception as error:
                tries = self._once_more(error, key, tries)

    def _once_more(self, error: Exception, key: str, tries: int) -> int:
        """Waits for another try. Raises the trouble where it is of no use, or enough."""
        trouble = self.trouble(error, key)
        if "body" not in str(trouble.strerror) or tries >= self.patience.retries:
            raise trouble from error
        time.sleep(min(self.patience.longest_pause_s, self.patience.first_pause_s * 2**tries))
        return tries + 1

    # --- trouble ---------------------------------------------------------------------------------------------

    def trouble(self, error: BaseException, key: str) -> OSError:
        """An exception of the client as an OSError that names the object and no secret."""
        return as_os_error(error, f"{self.address.scheme}://{self.address.bucket}/{key}".rstrip("/"))

    def _seen(self, found: Object) -> Object:
        self.versioned = self.versioned or self._is_version(found.version)
        return found

    def _is_version(self, version: str | None) -> bool:
        """Whether an answer shows that older versions stay. Google's store numbers them where it keeps none, too."""
        return self.address.scheme != "gs" and version is not None and version != "null"


def library() -> Any:
    """obstore itself. Raises UsageError where it is not installed."""
    try:
        import obstore
    except ImportError as error:
        raise UsageError(
            "roots in object stores need the package obstore", mend="pip install 'ckpt-prune[object]'"
        ) from error
    return obstore


@lru_cache(maxsize=64)
def _shared(address: Address) -> Bucket:
    return Bucket(address, PATIENCE)


def bucket(address: Address) -> Bucket:
    """The bucket of an address, with the connections that others of this process use too."""
    return _shared(Address(address.scheme, address.bucket))


def forget_buckets() -> None:
    """Drops all connections: the environment has changed."""
    _shared.cache_clear()


def _store(address: Address, patience: Patience, more: dict[str, Any] | None = None) -> Store:
    from obstore.store import AzureStore, GCSStore, S3Store

    client: Any = patience.client()
    retry: Any = patience.retry()
    if address.scheme == "s3":
        options = s3_options()
        options["config"].update(more or {})
        if _plain_http("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
            client["allow_http"] = True
        return S3Store(address.bucket, client_options=client, retry_config=retry, **options)
    if address.scheme == "gs":
        options = gcs_options()
        if options:
            client["allow_http"] = True
        return GCSStore(address.bucket, client_options=client, retry_config=retry, **options)
    if _plain_http("AZURE_ENDPOINT", "AZURE_STORAGE_ENDPOINT", "AZURITE_BLOB_STORAGE_URL"):
        client["allow_http"] = True
    return AzureStore(address.bucket, client_options=client, retry_config=retry)


def _plain_http(*variables: str) -> bool:
    """Whether somebody named an endpoint without TLS: then that is what is meant."""
    return any(os.environ.get(name, "").startswith("http://") for name in variables)


def _object(meta: Any) -> Object:
    return Object(meta["path"], meta["size"], _ns(meta["last_modified"]), bare(meta.get("e_tag")), meta.get("version"))


def bare(etag: str | None) -> str:
    """An ETag without its quotes, which some stores leave out of listings."""
    return (etag or "").strip('"')


def quoted(etag: str) -> str:
    """As it stands in a header."""
    return f'"{etag}"'


def _ns(time: datetime) -> int:
    return round(time.timestamp() * 1000) * 1_000_000
