"""Objects in buckets and on web servers: ``s3://``, ``gs://``, ``az://``, ``https://``.

The extra ``cloud`` (obstore) is imported when the first address is used.  Credentials come from the environment as the
provider's own tools name it (docs/storage.md); no message repeats a credential or the query of an address.
"""

from __future__ import annotations

import io
import os
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote, urlsplit

from topicstream.errors import InputError, UsageError

T = TypeVar("T")
SCHEMES = ("s3", "gs", "az", "abfs", "abfss", "https", "http")
HEAD, PART = 128 << 10, 8 << 20
"""Bytes of the first request, which may only be looked at, and of each further one."""
RETRY: dict[str, Any] = {"max_retries": 5}
"""How obstore repeats a request that a server refuses or that times out, with backoff."""
AT_ONCE = 8
"""Objects that are fetched or stored at the same time, where all are at hand."""
TRIES = 4
"""Of a request whose answer broke off."""
MIRROR = ".address"
"""The file that tells a mirror (mirror.py) and holds its address."""
STREAM = 4 << 20
"""Bytes of an object that are held while it is downloaded."""
_FAULTS = (
    (r"ExpiredToken|token .{0,40}expired", "the credentials have expired; renew those in the environment"),
    (r"AuthorizationHeaderMalformed|PermanentRedirect|status code: 301|Received redirect", "it lies in another region; set AWS_REGION to the region of the bucket"),
    (r"NoSuchBucket", "there is no such bucket; create it first"),
    (r"RequestTimeTooSkewed", "the clock of this machine is wrong; set it"),
)
"""What servers say, and what that means."""
_ADDRESS = re.compile(rf"({'|'.join(SCHEMES)}):/{{1,2}}([^/].*)", re.DOTALL)


def address_of(name: str | os.PathLike[str]) -> str | None:
    """The address that a name or a ``Path`` (which keeps one slash of two) stands for; None for a local path."""
    match = _ADDRESS.fullmatch(os.fspath(name))
    return f"{match[1]}://{match[2]}" if match else None


def address_read(folder: str | os.PathLike[str]) -> str | None:
    """The address that a mirror (mirror.py) is filled from; None for any other folder."""
    try:
        with open(os.path.join(folder, MIRROR), encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return None


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


class Absent(InputError):
    """No such object, or none that the credentials may read: a server need not tell them apart."""


class Changed(InputError):
    """An object is not what it was, or is there where none was."""


class Traffic:
    """Requests that were made and bytes that were fetched, by all threads of the process."""

    def __init__(self) -> None:
        self._lock, self._requests, self._bytes = threading.Lock(), 0, 0

    def add(self, requests: int, size: int = 0) -> None:
        """Count some."""
        with self._lock:
            self._requests, self._bytes = self._requests + requests, self._bytes + size

    def taken(self) -> dict[str, int]:
        """``requests`` and ``bytes`` since the last call; nothing where there were none."""
        with self._lock:
            counts, self._requests, self._bytes = {"requests": self._requests, "bytes": self._bytes}, 0, 0
        return counts if counts["requests"] else {}


TRAFFIC = Traffic()


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
        TRAFFIC.add(0, len(data))
        if len(data) != stop - start:
            raise InputError(f"{self.address}: changed while it was read; run the command again")
        return data


def object_at(address: str) -> Object:
    """Size and version of an object.  InputError where there is none, or no permission."""
    meta = _ask(address, lambda store, key: _library().head(store, key))
    return Object(address, int(meta["size"]), meta["e_tag"] or "")


def download(address: str, file: BinaryIO) -> int:
    """Write an object to a file from its start; how many bytes it has.  Absent, InputError."""

    def request(store: Any, key: str) -> int:
        file.seek(0)
        file.truncate()
        for chunk in _library().get(store, key).stream(min_chunk_size=STREAM):
            file.write(chunk)
        return file.tell()

    size = _ask(address, request)
    TRAFFIC.add(0, size)
    return size


def get_object(address: str) -> tuple[bytes, dict[str, Any]]:
    """A small object, and the condition on which ``put_object`` replaces this version of it.  Absent, InputError."""

    def request(store: Any, key: str) -> tuple[bytes, dict[str, Any]]:
        answer = _library().get(store, key)
        version = {name: answer.meta[name] for name in ("e_tag", "version") if answer.meta[name]}
        return bytes(answer.bytes()), version

    return _ask(address, request)


def put_object(address: str, content: bytes | Path, condition: Any = "overwrite") -> None:
    """Store bytes or a file, as a whole or not at all.

    Parameters
    ----------
    condition
        ``overwrite``, ``create`` (there must be no such object) or what ``get_object`` gave (it must not have changed since).

    Raises
    ------
    Changed
        Where the condition does not hold.
    InputError
        Where the object cannot be stored.
    """
    library, at_once = _library(), {"chunk_size": PART, "max_concurrency": 2}
    _ask(address, lambda store, key: library.put(store, key, content, mode=condition, **at_once), "written")


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


def _ask(address: str, request: Callable[[Any, str], T], done: str = "read") -> T:
    """The answer to a request; what fails becomes one line."""
    root, key = _split(address)
    for attempt in range(TRIES):
        TRAFFIC.add(1)
        try:
            return request(_store(root), key)
        except InputError:
            raise
        except FileNotFoundError:
            raise Absent(f"{address}: no such object; check bucket, key and region") from None
        except Exception as error:
            if getattr(error, "errno", None):  # of the file that is written to
                raise
            if type(error).__name__ != "GenericError" or attempt == TRIES - 1 or _fault(str(error)):
                raise _refusal(address, error, done) from None
            time.sleep(0.2 * 2**attempt)
    raise AssertionError


def _fault(answer: str) -> str | None:
    return next((told for pattern, told in _FAULTS if re.search(pattern, answer)), None)


def _refusal(address: str, error: Exception, done: str) -> InputError:
    """What an error of obstore means, in one line: nothing of its own text, which may repeat what was sent."""
    kind, answer = type(error).__name__, str(error)
    if told := _fault(answer):
        return InputError(f"{address}: {told}")
    if re.search("status code: 40[13]", answer):
        hint = "check the credentials in the environment, or AWS_SKIP_SIGNATURE=true for a public bucket"
        return Absent(f"{address}: access denied; {hint}")
    if kind in ("PreconditionError", "AlreadyExistsError"):
        return Changed(f"{address}: changed while it was {done}; run the command again")
    status = re.search(r"status code: (\d{3} [A-Za-z ]+)|(error sending request|operation timed out)", answer)
    reason = status[0] if status else kind
    return InputError(f"{address}: cannot be {done} ({reason.strip()}); check the network, the endpoint and the region")


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
