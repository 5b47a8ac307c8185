"""Read many small objects from a bucket that answers late, by the clock.

    python scripts/benchmarks/bench_small_objects.py [--objects 10000] [--delay .06]

One process that costs little stands for the bucket: it lists pages of a thousand keys and answers
each request after ``--delay`` seconds. Prints the wall time of ``topics ingest`` beside its
processor time, the requests, and the most that waited at once. The arithmetic limit is objects x
delay / requests in flight, so on a loaded machine take fewer objects and a longer delay: 1,000 at
.6 wait as long as 10,000 at .06.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from typing import Any
from urllib.parse import parse_qs, urlsplit

PAGE = 1000
DATE = "Wed, 21 Oct 2015 07:28:00 GMT"
WORDS = ["stars", "galaxy", "orbit", "planet", "moon", "bread", "butter", "flour", "oven", "yeast"]


def make_object(number: int) -> bytes:
    """Return two documents of forty words as JSON lines."""
    lines = []
    for part in range(2):
        words = [WORDS[(number + 5 * i + i * i * part) % len(WORDS)] for i in range(40)]
        record = {"id": f"{number}-{part}", "text": " ".join(words)}
        lines.append(json.dumps(record) + "\n")
    return "".join(lines).encode()


class Bucket:
    """The objects, and how many requests came and waited."""

    def __init__(self, objects: int, delay: float) -> None:
        self.objects = objects
        self.delay = delay
        self.requests = 0
        self.waiting = 0
        self.most = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection, one after another."""
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()
                return
            self.requests += 1
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            await asyncio.sleep(self.delay)
            self.waiting -= 1
            method, target, _ = head.split(" ", 2)
            status, more, body = self.answer(target, head)
            lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *more, "", ""]
            writer.write("\r\n".join(lines).encode() + (b"" if method == "HEAD" else body))

    def answer(self, target: str, head: str) -> tuple[str, list[str], bytes]:
        """Return status, headers and body: of a page of the list, or of an object."""
        parts = urlsplit(target)
        asked = parse_qs(parts.query)
        if "list-type" in asked:
            return "200 OK", [], self.list_page(int(asked.get("continuation-token", ["0"])[0]))
        found = re.search(r"/(\d+)\.jsonl$", parts.path)
        if found is None:
            return "404 Not Found", [], b""
        body = make_object(int(found[1]))
        about = ['ETag: "1"', f"Last-Modified: {DATE}"]
        wanted = re.search(r"(?i)^range: bytes=(\d+)-(\d+)", head, re.MULTILINE)
        if wanted is None:
            return "200 OK", about, body
        part = body[int(wanted[1]) : int(wanted[2]) + 1]
        end = int(wanted[1]) + len(part) - 1
        about.append(f"Content-Range: bytes {wanted[1]}-{end}/{len(body)}")
        return "206 Partial Content", about, part

    def list_page(self, first: int) -> bytes:
        """Return a page of the list that begins with an object."""
        last = min(first + PAGE, self.objects)
        entries = "".join(
            f"<Contents><Key>raw/{number:06}.jsonl</Key><Size>{len(make_object(number))}</Size>"
            f'<ETag>"1"</ETag><LastModified>2015-10-21T07:28:00.000Z</LastModified></Contents>'
            for number in range(first, last)
        )
        more = f"<NextContinuationToken>{last}</NextContinuationToken>" * (last < self.objects)
        cut = str(last < self.objects).lower()
        begin = f"<ListBucketResult><IsTruncated>{cut}</IsTruncated>"
        return f"{begin}{entries}{more}</ListBucketResult>".encode()


def run_bucket(objects: int, delay: float, pipe: Connection) -> None:
    """Serve until the other end asks for the counts."""

    async def run() -> None:
        bucket = Bucket(objects, delay)
        server = await asyncio.start_server(bucket.serve, "127.0.0.1", 0, backlog=256)
        pipe.send(server.sockets[0].getsockname()[1])
        await asyncio.to_thread(pipe.recv)
        used = resource.getrusage(resource.RUSAGE_SELF)
        pipe.send((bucket.requests, bucket.most, used.ru_utime + used.ru_stime))

    asyncio.run(run())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--delay", type=float, default=0.06, help="seconds before each answer")
    args = parser.parse_args()
    mine, its = multiprocessing.Pipe()
    process: Any = multiprocessing.Process(
        target=run_bucket, args=(args.objects, args.delay, its), daemon=True
    )
    process.start()
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{mine.recv()}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
    }
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "topicstream", "ingest", "s3://corpora/raw/"]
        command += ["--out", f"{folder}/c.zarr", "--min-df", "1", "--max-df", "1.0", "-q"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.monotonic()
        subprocess.run(command, check=True, env={**os.environ, **environment})
        wall = time.monotonic() - began
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    mine.send("enough")
    requests, most, server = mine.recv()
    user = after.ru_utime - before.ru_utime
    system = after.ru_stime - before.ru_stime
    print(
        f"{args.objects:,} objects, {1000 * args.delay:.0f} ms: {wall:.1f} s by the clock, "
        f"{user:.1f} + {system:.1f} s of processors; {requests:,} requests, at most {most} at once "
        f"(limit {args.objects * args.delay / most:.1f} s); the server took {server:.1f} s"
    )


if __name__ == "__main__":
    main()
