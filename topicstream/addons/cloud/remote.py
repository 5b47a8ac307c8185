"""Objects in buckets and on web servers: ``s3://``, ``gs://``, ``az://``, ``https://``.

The extra ``cloud`` (obstore) is imported when the first address is used. Credentials come from the
environment as the provider's own tools name it (docs/storage.md); no message repeats a credential
or the query of an address.
"""

from __future__ import annotations

import io
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from functools import cache, lru_cache, partial
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread, current_thread, main_thread
from typing import Any, BinaryIO, TypeVar

from topicstream.addons.cloud.listing import ENDLESS, Entry, is_readable, list_all_keys
from topicstream.base.errors import InputError, UsageError

T = TypeVar("T")
SCHEMES = ("s3", "gs", "az", "abfs", "abfss", "https", "http")
HEAD = 128 << 10
"""Bytes of the first request, of a file whose format may only be detected."""
PART = 8 << 20
"""Bytes of each further request at most."""
STREAMED = 1 << 20
"""Bytes of an object that are in memory while it is downloaded to a file."""
MOST_SOON = 32
"""Objects whose first bytes are fetched before they are opened, at most."""
THREADS = 16
"""Threads that fetch what is read soon."""
MEMORY = 64 << 20
"""Bytes that objects on their way take: 42 MB were measured with chunks of 3 MB for all threads; of
raw input it is the first bytes of objects and two or three parts.
"""
RETRY: dict[str, Any] = {"max_retries": 5}
"""Options of obstore: how often it repeats a request that fails or an answer that breaks off."""
PATIENCE = 180.0
"""Seconds after which a busy server is given up."""
LONGEST_PAUSE = 10.0
"""Seconds at most between two requests to a busy server."""
REPEATS = 5
"""Further requests after answers that broke off."""


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
        """Call a function in one of the threads."""
        future: Future[T] = Future()
        self._calls.put((future, partial(function, *args, **kwargs)))
        with self._lock:
            while self._idle:
                self._idle.pop().start()
        return future

    def _work(self) -> None:
        """Run calls in one thread, without end."""
        while True:
            future, call = self._calls.get()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)


POOL = Waiters(8)
"""Threads that fetch the next part of a file, fetch and store whole objects, and call obstore for
the main thread.
"""
AHEAD = Waiters(THREADS)
"""Threads that fetch objects which are opened soon; requests of the moment do not wait for them."""
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
    (
        ENDLESS,
        "the server repeats the same page of its list without end, which is a fault of the server; "
        "name the objects one by one, or ask who runs it",
    ),
    (r"RequestTimeTooSkewed", "the clock of this machine is wrong; set it"),
    (
        r"RangeNotSupported",
        "the server sends files whole, not in parts; download the file first (curl -O)",
    ),
    (
        r"status code: (429|503)",
        "the server is busy and refuses requests; run the command again later, or with fewer "
        "programs that read there",
    ),
    (
        r"status code: 40[13]",
        "access denied; check the credentials in the environment, or AWS_SKIP_SIGNATURE=true "
        "(GOOGLE_, AZURE_) for a public bucket",
    ),
)
"""Patterns of servers' errors, and the explanation of each."""
_BUSY = re.compile(r"status code: (429|503)")
_BROKEN = re.compile(r"status code: 50[024]|response body error")
"""Answers after which a request is repeated: for ``PATIENCE``, or a few times if it only reads."""
_SECRET = re.compile(r"[?&](X-Amz-|X-Goog-|AWSAccessKeyId=|GoogleAccessId=|Signature=|sig=)", re.I)
_BAD_KEY = re.compile(r'Path "([^"]*)"')
_ADDRESS = re.compile(rf"({'|'.join(SCHEMES)}):/{{1,2}}([^/].*)", re.DOTALL)


def remote_address(name: str | os.PathLike[str]) -> str | None:
    """Return the address that a name or ``Path`` stands for, None if it is local.

    A ``Path`` keeps one slash of two.
    """
    match = _ADDRESS.fullmatch(os.fspath(name))
    return f"{match[1]}://{match[2]}" if match else None


def _library() -> Any:
    """Import obstore, or raise UsageError with the command that installs it."""
    try:
        import obstore.store
    except ImportError:
        raise UsageError(
            "addresses such as s3:// need obstore; pip install 'topicstream[cloud]'"
        ) from None
    return obstore


@cache
def _store(root: str) -> Any:
    """Make obstore's store of a bucket or server, with the settings of the environment."""
    ends = {
        name: os.environ.get(name, "")
        for name in ("AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT", "GOOGLE_BASE_URL")
    }
    for name, end in ends.items():
        if end and not re.match("https?://[^/]", end):  # which obstore does not survive
            raise UsageError(f"{name}={end}: begins with neither http:// nor https://")
    plain = any(end.startswith("http://") for end in (root, *ends.values()))
    return _library().store.from_url(root, **_store_options(plain))


def _store_options(plain: bool = True) -> dict[str, Any]:
    """Return how long a store waits for answers, and whether it may use ``http://``."""
    # however slow the line is: as long as something arrives, of an upload its answer
    waits = {"timeout": "1 day", "read_timeout": "2 minutes", "allow_http": plain}
    return {"client_options": waits, "retry_config": RETRY}


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


def memory_taken() -> int:
    """Return the bytes of objects on their way, 0 until an address was asked."""
    return MEMORY if _store.cache_info().currsize else 0


def download(address: str, file: BinaryIO) -> int:
    """Write an object to a file, and return its size.

    Raises
    ------
    Absent, InputError
        If there is no such object, or it cannot be read.
    """

    def write(library: Any, *place: Any) -> int:
        file.seek(0)
        file.truncate()
        return sum(map(file.write, library.get(*place).stream(min_chunk_size=STREAMED)))

    size = _call_store(address, write)
    FETCHED.append(size)
    return size


def get_object(address: str) -> tuple[bytes, dict[str, Any]]:
    """Read a small object, and the condition on which ``put_object`` replaces this version.

    Raises
    ------
    Absent, InputError
        If there is no such object, or it cannot be read.
    """
    answer = _call_store(address, lambda library, *place: library.get(*place))
    content = bytes(_call_store(address, lambda *_: answer.bytes()))
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
    _call_store(
        address,
        lambda library, *place: library.put(
            *place, content, mode=condition, chunk_size=PART, max_concurrency=2
        ),
        "written",
    )


def list_below(address: str) -> list[str]:
    """List the addresses of the objects below a folder of a bucket, sorted.

    Their sizes and versions are remembered, and those that cannot be read. Web servers list none.

    Raises
    ------
    InputError
        If no object can be read.
    """
    if address.startswith("http"):
        return []
    root = _split(address)[0]
    entries = [entry for entry in _call_store(address, _list_entries) if entry["size"]]
    unreadable = sorted(entry["path"] for entry in entries if not is_readable(entry["path"]))
    if unreadable:
        if len(unreadable) == len(entries):
            raise InputError(f"{address}: {_describe_odd_keys(unreadable[0])}; rename that object")
        UNREADABLE[f"{root}/{unreadable[0]}"] = len(unreadable)
    entry_of = {f"{root}/{entry['path']}": entry for entry in entries if is_readable(entry["path"])}
    for name, entry in entry_of.items():
        etag = entry["e_tag"] or ""
        if etag and not etag.endswith('"'):  # Azure lists it without the quotes that it is asked by
            etag = f'"{etag}"'
        _LISTED[name] = (int(entry["size"]), etag)
    return sorted(entry_of)


def _list_entries(library: Any, store: Any, folder: str) -> list[Entry]:
    """List the objects below a folder, also those that obstore cannot read."""
    try:
        return list(_read_pages(library, library.list(store, folder or None)))
    except library.exceptions.InvalidPathError:
        entries = list_all_keys(library, store, folder, _store_options())
        if entries is None:
            raise
        return entries


def _read_pages(library: Any, pages: Iterable[list[Entry]]) -> Iterator[Entry]:
    """Yield the objects of the pages of a list, or stop one that begins again and again."""
    firsts = set[str]()
    for page in pages:
        first = page[0]["path"] if page else ""
        if first in firsts:
            raise library.exceptions.GenericError(ENDLESS)
        firsts |= {first} - {""}
        yield from page


def _describe_odd_keys(key: str) -> str:
    """Say why an object cannot be read."""
    return (
        f"the key {key!r} has an empty part, ., .. or a control character in it, which cannot be "
        f"read"
    )


def unreadable_objects() -> dict[str, int]:
    """Return notes on listed objects that are left out, with their numbers."""
    return {
        f"objects left out whose keys have an empty part (//), . or .. or a control character, "
        f"such as {address!r}; rename them": number
        for address, number in UNREADABLE.items()
    }


def _split(address: str) -> tuple[str, str]:
    """Split an address into ``scheme://bucket`` and the key, which may have any characters."""
    scheme, _, below_scheme = address.partition("://")
    if _SECRET.search(below_scheme) or ("?" in below_scheme and scheme.startswith("http")):
        raise InputError(
            f"{address.partition('?')[0]}?...: addresses with a query are not supported; "
            f"download the file first (curl -O)"
        )
    place, _, key = below_scheme.partition("/")
    return f"{scheme}://{place}", key.strip("/")


def _call_store(address: str, call: Callable[[Any, Any, str], T], action: str = "read") -> T:
    """Call obstore with a store and a key, and turn errors into one line.

    Python handles signals between two calls, and a call of obstore may take long. So the main
    thread has a thread of the pool make the call and waits for it, which a signal interrupts.
    """
    (root, key) = _split(address)
    library = _library()

    def ask() -> T:
        return _repeat(partial(call, library, _store(root), key), action)

    try:
        return POOL.submit(ask).result() if current_thread() is main_thread() else ask()
    except (FileNotFoundError, ValueError, library.exceptions.BaseError) as error:
        raise _translate_error(address, error, action) from None


def _repeat(call: Callable[[], T], action: str) -> T:
    """Call obstore until a server that is busy answers, for some minutes.

    obstore repeats a request a few times within seconds; a server that is overloaded needs longer.
    It also does not repeat a list whose answer broke off. What writes is repeated only if the
    server has not carried it out.
    """
    began = time.monotonic()
    pause = 0.5
    broken = 0
    while True:
        try:
            return call()
        except _library().exceptions.BaseError as error:
            text = str(error)
            broken += bool(_BROKEN.search(text))
            busy = _BUSY.search(text) and time.monotonic() - began + pause < PATIENCE
            reads = action == "read" and _BROKEN.search(text) and broken <= REPEATS
            if not (busy or reads):
                raise
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _translate_error(address: str, error: Exception, action: str) -> InputError:
    """Translate an error of obstore to one line.

    It repeats nothing of obstore's own text, which may hold what was sent.
    """
    kind = type(error).__name__
    answer = f"{kind}: {error}"
    bad_key = _BAD_KEY.search(answer)
    if bad_key:
        return InputError(
            f"{address}: {_describe_odd_keys(bad_key[1])}; rename that object, or name others"
        )
    if isinstance(error, ValueError):
        raise error
    if kind in ("PreconditionError", "AlreadyExistsError"):
        return Changed(f"{address}: changed while it was {action}; run the command again")
    meaning = next((meaning for pattern, meaning in _FAULTS if re.search(pattern, answer)), None)
    absent = kind == "FileNotFoundError"
    if meaning is None and absent and address in _LISTED:
        meaning = (
            "is listed and cannot be read: it was removed, or its key begins or ends with /; "
            "rename that object, or name others"
        )
    elif meaning is None and absent:
        meaning = "no such object; check bucket, key and region"
    elif meaning is None:
        status = re.search(
            r"status code: (\d{3} [A-Za-z ]+)|(error sending request|operation timed "
            r"out|response body error)",
            answer,
        )
        meaning = (
            f"cannot be {action} ({status[0].strip() if status else kind}); check the network, "
            f"the endpoint and the region"
        )
    return (Absent if absent or meaning.startswith("access") else InputError)(
        f"{address}: {meaning}"
    )


_LISTED: dict[str, tuple[int, str]] = {}
"""Size and ETag of objects that were listed, until the next command."""
_SOON: dict[str, Future[bytes]] = {}
"""First bytes of objects that are opened soon."""
UNREADABLE: dict[str, int] = {}
"""Numbers of listed objects that cannot be read, by the address of the first of each list."""


def version_of(address: str) -> tuple[int, str]:
    """Return size and ETag of an object, cached until ``forget_versions``.

    A command thus reads one version.
    """
    if address in _LISTED:
        return _LISTED[address]
    if address in _SOON:
        _SOON[address].exception()  # it asks, too
    return _ask_version(address)


@lru_cache(1 << 16)
def _ask_version(address: str) -> tuple[int, str]:
    """Ask for size and ETag of an object."""
    try:
        meta = _call_store(address, lambda library, *place: library.head(*place))
    except Absent:
        raise
    except InputError as refusal:
        # an answer to HEAD has no text that says why
        options = {"range": (0, 1)}
        try:
            meta = _call_store(
                address, lambda library, *place: library.get(*place, options=options).meta
            )
        except InputError as reason:
            raise (reason if "status code" not in str(reason) else refusal) from None
    return int(meta["size"]), meta["e_tag"] or ""


def forget_versions() -> None:
    """Forget versions and first bytes of objects, of which a command reads one each."""
    _ask_version.cache_clear()
    _LISTED.clear()
    _SOON.clear()
    UNREADABLE.clear()


def open_ahead(address: str, size: int) -> None:
    """Begin to fetch the first ``size`` bytes of an object that is opened soon."""
    if address not in _SOON and len(_SOON) < MOST_SOON:
        _SOON[address] = AHEAD.submit(_fetch_start, address, size)


def _fetch_start(address: str, most: int) -> bytes:
    """Fetch the first bytes of an object."""
    size, etag = _LISTED.get(address) or _ask_version(address)
    return _fetch_range(address, etag, 0, min(size, most)) if size else b""


def _fetch_range(address: str, etag: str, start: int, stop: int) -> bytes:
    """Fetch the bytes [start, stop) of a version of an object."""
    options: dict[str, Any] = {"range": (start, stop)}
    if etag and not etag.startswith("W/"):
        options["if_match"] = etag
    data: bytes = _call_store(
        address, lambda library, *place: library.get(*place, options=options).bytes()
    )
    FETCHED.append(len(data))
    if len(data) != stop - start:
        raise InputError(f"{address}: changed while it was read; run the command again")
    return data


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
        self._fetch = partial(_fetch_range, address, self.etag)

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
        if ahead is None and in_parts and start == 0:
            ahead = _SOON.pop(self.address, None)
        data = self._fetch(start, stop) if ahead is None else ahead.result()
        stop = start + len(data)
        buffer[: len(data)] = data
        if in_parts and start > 0 and stop < self.size:  # the first part may only be looked at
            self._ahead = {stop: POOL.submit(self._fetch, stop, min(stop + PART, self.size))}
        self._position = stop
        return stop - start


def is_object(name: str | os.PathLike[str]) -> bool:
    """Return True if a name is the address of a readable object."""
    address = remote_address(name)
    if address is None:
        return False
    if not address.startswith("http") and not _split(address)[1]:
        return False  # a bucket, which answers, too
    try:
        return version_of(address)[0] >= 0
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
