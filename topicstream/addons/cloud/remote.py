"""Objects in buckets and on web servers: ``s3://``, ``gs://``, ``az://``, ``https://``.

The extra ``cloud`` (obstore) is imported when the first address is used. Credentials come from the
environment as the provider's own tools name it (docs/storage.md); no message repeats a credential
or the query of an address.
"""

from __future__ import annotations

import io
import os
import re
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import cache, lru_cache, partial
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread, current_thread, main_thread
from typing import Any, BinaryIO, TypeVar
from urllib.parse import quote, urlsplit

from topicstream.base.errors import InputError, UsageError

T = TypeVar("T")
SCHEMES = ("s3", "gs", "az", "abfs", "abfss", "https", "http")
HEAD = 128 << 10
PART = 8 << 20
"""Bytes of the first request, which may only be looked at, and of each further one at most."""
RETRY: dict[str, Any] = {"max_retries": 5}
"""How obstore repeats a request that a server refuses or that times out, and carries on with an
answer that broke off.
"""


class Waiters(Executor):
    """A pool of threads that end with the process.

    A ``ThreadPoolExecutor`` would wait for them, and a server may never answer.
    """

    def __init__(self, threads: int) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._idle = [
            Thread(target=self._work, name=f"objects {i}", daemon=True) for i in range(threads)
        ]
        self._lock = Lock()

    def submit(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Call it in one of the threads."""
        future: Future[T] = Future()
        self._calls.put((future, partial(function, *args, **kwargs)))
        with self._lock:
            while self._idle:
                self._idle.pop().start()
        return future

    def _work(self) -> None:
        while True:
            future, call = self._calls.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)


POOL = Waiters(8)
"""Fetches parts ahead, fetches and stores objects that are all at hand, and asks while the main
thread waits.
"""
FETCHED: deque[int] = deque(maxlen=1 << 20)
"""Bytes of each answer since ``traffic`` was called."""
_FAULTS = (
    (
        r"ExpiredToken|token .{0,40}expired",
        "the credentials have expired; renew those in the environment",
    ),
    (
        r"AuthorizationHeaderMalformed|PermanentRedirect|status code: 301|Received redirect",
        "the bucket lies in another region; set AWS_REGION to that",
    ),
    (
        r"NoSuchBucket|ContainerNotFound|bucket does not exist",
        "there is no such bucket; check its name, or create it",
    ),
    (r"RequestTimeTooSkewed", "the clock of this machine is wrong; set it"),
    (
        r"RangeNotSupported",
        "the server sends files whole, not in parts; download the file first (curl -O)",
    ),
    (
        r"status code: 40[13]",
        "access denied; check the credentials in the environment, or AWS_SKIP_SIGNATURE=true "
        "for a public bucket",
    ),
)
"""What servers say, and what that means."""
_ADDRESS = re.compile(rf"({'|'.join(SCHEMES)}):/{{1,2}}([^/].*)", re.DOTALL)


def remote_address(name: str | os.PathLike[str]) -> str | None:
    """Return the address that a name or ``Path`` stands for, None if it is local.

    A ``Path`` keeps one slash of two.
    """
    match = _ADDRESS.fullmatch(os.fspath(name))
    return f"{match[1]}://{match[2]}" if match else None


def _library() -> Any:
    try:
        import obstore.store
    except ImportError:
        raise UsageError(
            "addresses such as s3:// need obstore; pip install 'topicstream[cloud]'"
        ) from None
    return obstore


@cache
def _store(root: str) -> Any:
    ends = {
        name: os.environ.get(name, "")
        for name in ("AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT", "GOOGLE_BASE_URL")
    }
    for name, end in ends.items():
        if end and not re.match("https?://[^/]", end):  # which obstore does not survive
            raise UsageError(f"{name}={end}: begins with neither http:// nor https://")
    plain = any(end.startswith("http://") for end in (root, *ends.values()))
    # however slow the line is: as long as something arrives, of an upload its answer
    waits = {"timeout": "1 day", "read_timeout": "2 minutes", "allow_http": plain}
    return _library().store.from_url(root, client_options=waits, retry_config=RETRY)


class Absent(InputError):
    """No such object, or none that the credentials may read.

    A server need not tell them apart.
    """


class Changed(InputError):
    """An object is not what it was, or is there where none was."""


def traffic() -> dict[str, int]:
    """Return the ``requests`` and ``bytes`` of all threads since the last call.

    The result is empty if there were none.
    """
    sizes = [FETCHED.popleft() for _ in range(len(FETCHED))]
    return {"requests": len(sizes), "bytes": sum(sizes)} if sizes else {}


def download(address: str, file: BinaryIO) -> int:
    """Write an object to a file, and return its size.

    Raises
    ------
    Absent, InputError
        If there is no such object, or it cannot be read.
    """
    size = _ask(
        address,
        lambda library, *place: sum(
            map(file.write, library.get(*place).stream(min_chunk_size=PART))
        ),
    )
    FETCHED.append(size)
    return size


def get_object(address: str) -> tuple[bytes, dict[str, Any]]:
    """Read a small object, and the condition on which ``put_object`` replaces this version.

    Raises
    ------
    Absent, InputError
        If there is no such object, or it cannot be read.
    """
    answer = _ask(address, lambda library, *place: library.get(*place))
    content = bytes(_ask(address, lambda *_: answer.bytes()))
    FETCHED.append(len(content))
    return content, {name: answer.meta[name] for name in ("e_tag", "version") if answer.meta[name]}


def put_object(address: str, content: bytes | Path, condition: Any = "overwrite") -> None:
    """Store bytes or a file, as a whole or not at all.

    Parameters
    ----------
    condition
        ``overwrite``, ``create`` (there must be no such object) or what ``get_object`` gave (it
        must not have changed since).

    Raises
    ------
    Changed
        Where the condition does not hold.
    InputError
        Where the object cannot be stored.
    """
    _ask(
        address,
        lambda library, *place: library.put(
            *place, content, mode=condition, chunk_size=PART, max_concurrency=2
        ),
        "written",
    )


def list_below(address: str) -> list[str]:
    """List the addresses of the objects below a folder of a bucket, sorted.

    Web servers list none.
    """
    if address.startswith("http"):
        return []
    root = _split(address)[0]
    entries = _ask(
        address,
        lambda library, store, key: [
            entry for page in library.list(store, key or None) for entry in page
        ],
    )
    return sorted(f"{root}/{entry['path']}" for entry in entries if entry["size"])


def _split(address: str) -> tuple[str, str]:
    """``scheme://bucket`` and the key."""
    parts = urlsplit(address.replace("#", quote("#")))
    if parts.query:
        raise InputError(
            f"{address.partition('?')[0]}?...: addresses with a query are not supported; "
            f"download the file first (curl -O)"
        )
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/")


def _ask(address: str, call: Callable[[Any, Any, str], T], doing: str = "read") -> T:
    """Call obstore with a store and a key, and turn errors into one line.

    A signal reaches Python between two calls. So the main thread lets another one ask, and waits
    for it, which a signal ends.
    """
    (root, key) = _split(address)
    library = _library()
    try:
        if current_thread() is main_thread():
            return POOL.submit(call, library, _store(root), key).result()
        return call(library, _store(root), key)
    except (FileNotFoundError, library.exceptions.BaseError) as error:
        raise _refusal(address, error, doing) from None


def _refusal(address: str, error: Exception, doing: str) -> InputError:
    """Translate an error of obstore to one line.

    It repeats nothing of obstore's own text, which may hold what was sent.
    """
    kind = type(error).__name__
    answer = f"{kind}: {error}"
    if kind in ("PreconditionError", "AlreadyExistsError"):
        return Changed(f"{address}: changed while it was {doing}; run the command again")
    meaning = next((meaning for pattern, meaning in _FAULTS if re.search(pattern, answer)), None)
    absent = kind == "FileNotFoundError"
    if meaning is None and absent:
        meaning = "no such object; check bucket, key and region"
    elif meaning is None:
        status = re.search(
            r"status code: (\d{3} [A-Za-z ]+)|(error sending request|operation timed "
            r"out|response body error)",
            answer,
        )
        meaning = (
            f"cannot be {doing} ({status[0].strip() if status else kind}); check the network, "
            f"the endpoint and the region"
        )
    return (Absent if absent or meaning.startswith("access") else InputError)(
        f"{address}: {meaning}"
    )


@lru_cache(1 << 16)
def version_of(address: str) -> tuple[int, str]:
    """Return size and ETag of an object, cached until ``version_of.cache_clear``.

    A command thus reads one version.
    """
    meta = _ask(address, lambda library, *place: library.head(*place))
    return int(meta["size"]), meta["e_tag"] or ""


class RemoteFile(io.RawIOBase):
    """A version of an object as a file for reading, with a request for each read.

    Where it is read in parts, the next part is fetched ahead.

    Attributes
    ----------
    size
        Bytes.
    etag
        Identifies this version. "" if the server gives none.

    Raises
    ------
    InputError
        If there is no such object, or no permission.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self._position = 0
        self.size, self.etag = version_of(address)
        self._ahead: dict[int, Future[bytes]] = {}

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self.size)[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:
        start = self._position
        in_parts = len(buffer) == PART
        stop = min(start + (HEAD if in_parts and start == 0 else len(buffer)), self.size)
        if stop <= start:
            return 0
        ahead = self._ahead.pop(start, None) if in_parts else None
        buffer[: stop - start] = self._fetch(start, stop) if ahead is None else ahead.result()
        if in_parts and start > 0 and stop < self.size:  # the first part may only be looked at
            self._ahead = {stop: POOL.submit(self._fetch, stop, min(stop + PART, self.size))}
        self._position = stop
        return stop - start

    def _fetch(self, start: int, stop: int) -> bytes:
        """Fetch the bytes [start, stop)."""
        options: dict[str, Any] = {"range": (start, stop)}
        if self.etag and not self.etag.startswith("W/"):
            options["if_match"] = self.etag
        data: bytes = _ask(
            self.address, lambda library, *place: library.get(*place, options=options).bytes()
        )
        FETCHED.append(len(data))
        if len(data) != stop - start:
            raise InputError(f"{self.address}: changed while it was read; run the command again")
        return data


def is_object(name: str | os.PathLike[str]) -> bool:
    """Return True if a name is the address of a readable object."""
    try:
        return (address := remote_address(name)) is not None and version_of(address)[0] >= 0
    except Absent:
        return False


class _Parts(io.BufferedReader):
    """A buffered reader that requests whole parts.

    By itself ``read1`` would request only the bytes asked for, however few.
    """

    def read1(self, size: int = -1) -> bytes:
        self.peek(1)
        return super().read1(size)


def open_remote(address: str) -> io.BufferedReader:
    """Open an object for reading from start to end, in parts."""
    return _Parts(RemoteFile(address), PART)
