"""Objects in buckets and on web servers, read by ranges: ``s3://``, ``gs://``, ``az://``, ``https://``.

The extra ``cloud`` (obstore) is imported when the first address is used.  Credentials come from the environment as the
provider's own tools name it (docs/storage.md); no message repeats a credential or the query of an address.
"""

from __future__ import annotations

import io
import os
import re
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from topicstream.errors import InputError, UsageError

T = TypeVar("T")
SCHEMES = ("s3", "gs", "az", "abfs", "abfss", "https", "http")
HEAD, PART = 128 << 10, 8 << 20
"""Bytes of the first request, which may only be looked at, and of each further one."""
RETRY: dict[str, Any] = {"max_retries": 5}
"""How obstore repeats a request that a server refuses or that times out, with backoff."""
TRIES = 4
"""Of a request whose answer broke off."""
_ADDRESS = re.compile(rf"({'|'.join(SCHEMES)}):/{{1,2}}([^/].*)", re.DOTALL)


def address_of(name: str | os.PathLike[str]) -> str | None:
    """The address that a name or a ``Path`` (which keeps one slash of two) stands for; None for a local path."""
    match = _ADDRESS.fullmatch(os.fspath(name))
    return f"{match[1]}://{match[2]}" if match else None


def _library() -> Any:
    try:
        import obstore
        import obstore.store
    except ImportError:
        raise UsageError("addresses such as s3:// need obstore; pip install 'topicstream[cloud]'") from None
    return obstore


@cache
def _store(root: str) -> Any:
    plain = root.startswith("http://") or os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return _library().store.from_url(root, client_options={"allow_http": plain}, retry_config=RETRY)


@dataclass(frozen=True)
class Object:
    """An object and the version of it that is read.

    Attributes
    ----------
    address
        Whole, with its scheme.
    size
        Bytes.
    etag
        What tells this version from a later one; "" where the server gives none.
    """

    address: str
    size: int
    etag: str

    def read(self, start: int, stop: int) -> bytes:
        """The bytes [start, stop).  InputError where they cannot be read, or the object has changed."""
        options: dict[str, Any] = {"range": (start, stop)}
        if self.etag and not self.etag.startswith("W/"):
            options["if_match"] = self.etag
        data = _ask(self.address, lambda store, key: bytes(_library().get(store, key, options=options).bytes()))
        if len(data) != stop - start:
            raise InputError(f"{self.address}: changed while it was read; run the command again")
        return data


def object_at(address: str) -> Object:
    """Size and version of an object.  InputError where there is none, or no permission."""
    meta = _ask(address, lambda store, key: _library().head(store, key))
    return Object(address, int(meta["size"]), meta["e_tag"] or "")


def list_below(address: str) -> list[str]:
    """Addresses of the objects below a folder of a bucket, sorted; web servers list none."""
    if address.startswith("http"):
        return []
    root = _split(address)[0]
    pages = _ask(address, lambda store, key: [page for page in _library().list(store, key or None)])
    return sorted(f"{root}/{entry['path']}" for page in pages for entry in page if entry["size"])


def _split(address: str) -> tuple[str, str]:
    """``scheme://bucket`` and the key."""
    parts = urlsplit(address.replace("#", quote("#")))
    if parts.query:
        raise InputError(f"{address.partition('?')[0]}?...: addresses with a query are not supported; download the file first (curl -O)")
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")


def _ask(address: str, request: Callable[[Any, str], T]) -> T:
    """The answer to a request; what fails becomes one line."""
    root, key = _split(address)
    for attempt in range(TRIES):
        try:
            return request(_store(root), key)
        except InputError:
            raise
        except FileNotFoundError:
            raise InputError(f"{address}: no such object; check bucket, key and region") from None
        except Exception as error:
            kind = type(error).__name__
            if kind in ("PermissionDeniedError", "UnauthenticatedError"):
                hint = "check the credentials in the environment, or AWS_SKIP_SIGNATURE=true for a public bucket"
                raise InputError(f"{address}: access denied; {hint}") from None
            if kind == "PreconditionError":
                raise InputError(f"{address}: changed while it was read; run the command again") from None
            if kind != "GenericError" or attempt == TRIES - 1:
                status = re.search(r"status code: (\d{3} [A-Za-z ]+)|(error sending request|operation timed out)", str(error))
                reason = status[0] if status else kind
                hint = "check the network, the endpoint and the region"
                raise InputError(f"{address}: cannot be read ({reason.strip()}); {hint}") from None
            time.sleep(0.2 * 2**attempt)
    raise AssertionError


class RemoteFile(io.RawIOBase):
    """An object as a file for reading.

    ``ahead``: it is read from its start to its end, in parts of ``PART`` bytes, the next one fetched while one is read; else
    each read is a request.
    """

    def __init__(self, address: str, *, ahead: bool = True) -> None:
        self.object, self._position, self._ahead = object_at(address), 0, ahead
        self._parts: dict[int, Future[bytes]] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="fetch")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self.object.size)[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:
        stop = min(self._position + len(buffer), self.object.size)
        if self._position >= stop:
            return 0
        data = self._of_parts(stop) if self._ahead else self.object.read(self._position, stop)
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _of_parts(self, stop: int) -> memoryview:
        """The bytes from the position on that its part has, up to ``stop``."""
        number = max(0, (self._position - HEAD) // PART + 1)
        following = [number + 1] if number and _start(number + 1) < self.object.size else []
        self._parts = {n: self._parts.get(n) or self._pool.submit(self._fetch, n) for n in [number, *following]}
        first = _start(number)
        return memoryview(self._parts[number].result())[self._position - first : stop - first]

    def _fetch(self, number: int) -> bytes:
        return self.object.read(_start(number), min(_start(number + 1), self.object.size))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        super().close()


def _start(number: int) -> int:
    """Where a part begins."""
    return HEAD + (number - 1) * PART if number else 0


def open_remote(address: str) -> io.BufferedReader:
    """An object, open for reading."""
    return io.BufferedReader(RemoteFile(address), 1 << 18)
