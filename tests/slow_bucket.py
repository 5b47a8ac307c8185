"""A line to a bucket that is slow or broken: a proxy before moto's server."""

from __future__ import annotations

import http.client
import http.server
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

Fault = Callable[[str, str], tuple[int, bytes] | None]
"""Answer of a broken line to a method and a path: its status and body; None: the bucket answers.
A status of 0 breaks off the bucket's answer.
"""


class SlowBucket(http.server.ThreadingHTTPServer):
    """A proxy.

    Attributes
    ----------
    delay
        Seconds before each answer.
    fault
        What answers in place of the bucket.
    requests
        Method and path of each request so far.
    together
        No request is answered before so many have waited at the same time, for a minute at most.
    most
        Requests that waited at the same time, at most.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, behind: str, delay: float = 0.0, fault: Fault | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = behind
        self.delay = delay
        self.fault = fault
        self.requests: list[tuple[str, str]] = []
        self.together = 0
        self.most = 0
        self.waiting = 0
        self.lock = threading.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: SlowBucket

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.server.lock:
            self.server.requests.append((self.command, self.path))
            self.server.waiting += 1
            self.server.most = max(self.server.most, self.server.waiting)
            self.server.lock.notify_all()
            self.server.lock.wait_for(lambda: self.server.most >= self.server.together, 60)
        time.sleep(self.server.delay)
        with self.server.lock:
            self.server.waiting -= 1
        fault = self.server.fault(self.command, self.path) if self.server.fault else None
        if fault is not None and fault[0]:
            self._answer(fault[0], {}, fault[1])
            return
        status, headers, content = self._ask(body)
        self._answer(status, headers, content, broken=fault is not None)

    def _ask(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(urlsplit(self.server.behind).netloc)
        connection.request(self.command, self.path, body, dict(self.headers.items()))
        answer = connection.getresponse()
        content = answer.read()
        headers = {k: v for k, v in answer.headers.items() if k.lower() not in _OF_A_LINE}
        if self.command != "HEAD":
            headers["Content-Length"] = str(len(content))
        connection.close()
        return answer.status, headers, content

    def _answer(
        self, status: int, headers: dict[str, str], content: bytes, *, broken: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if broken else content)
        self.close_connection = self.close_connection or broken

    do_PUT = do_POST = do_HEAD = do_DELETE = do_GET

    def log_message(self, *args: Any) -> None:
        pass


_OF_A_LINE = {"connection", "transfer-encoding", "server", "date"}


@contextmanager
def slow_bucket(
    behind: str, delay: float = 0.0, fault: Fault | None = None
) -> Iterator[SlowBucket]:
    """A proxy before the server at ``behind``."""
    with SlowBucket(behind, delay, fault) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()
