"""Measure a bucket behind a slow line: passes over a store, and raw input of many small objects.

    python scripts/benchmarks/bench_remote.py --store c.zarr --delay 0.3
    python scripts/benchmarks/bench_remote.py --objects 2000 --delay 0.06

The bucket is moto's server in a process of its own, the line a proxy in another one that sleeps
before each answer.

--store    a corpus store: seconds of the passes of a training from disk, and from the bucket
           with an empty cache
--objects  number of objects of one JSON line each
--storm    seconds in which the line answers every request with 503
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import heading, table

from tests.slow_bucket import SlowBucket

KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


def serve_bucket(told: Any) -> None:
    """Run moto's server, and tell its address."""
    import logging

    from moto import server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    told.put("http://{}:{}".format(*running.get_host_and_port()))
    time.sleep(1 << 20)


def serve_line(behind: str, delay: float, storm: float, told: Any, asked: Any) -> None:
    """Run the slow line, and tell its address, and what was asked when asked for it."""
    import threading

    began = time.monotonic()

    def refuse(method: str, path: str) -> tuple[int, bytes] | None:
        busy = time.monotonic() - began < storm
        return (503, b"<Error><Code>SlowDown</Code></Error>") if busy else None

    server = SlowBucket(behind, delay, refuse)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    told.put(server.url)
    while True:
        asked.get()
        told.put((Counter(method for method, _ in server.requests), server.most))
        server.requests.clear()


def command(*args: str) -> tuple[float, float]:
    """Run the tool; wall and processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "topicstream", *args], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, cpu


def put_all(endpoint: str, objects: dict[str, Path | bytes]) -> None:
    """Store objects without the slow line."""
    import boto3

    client = boto3.client("s3", region_name="us-east-1", endpoint_url=endpoint)
    client.create_bucket(Bucket="corpora")
    for key, body in objects.items():
        content = body.read_bytes() if isinstance(body, Path) else body
        client.put_object(Bucket="corpora", Key=key, Body=content)


def passes_of(corpus: str, folder: Path) -> list[str]:
    """Train; seconds of the whole command and of each pass."""
    shutil.rmtree(folder, ignore_errors=True)
    given = ["--corpus", corpus, "--model", str(folder), "-K", "100", "--passes", "3", "--tol", "0"]
    whole, cpu = command("train", *given, "-q")
    history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    seconds = [f"{record['seconds']:.1f}" for record in history if "seconds" in record]
    return [f"{whole:.1f}", f"{cpu:.1f}", *seconds]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", type=Path)
    parser.add_argument("--objects", type=int, default=0)
    parser.add_argument("--delay", type=float, default=0.3)
    parser.add_argument("--storm", type=float, default=0.0)
    given = parser.parse_args()
    told, asked = multiprocessing.Queue(), multiprocessing.Queue()
    bucket = multiprocessing.Process(target=serve_bucket, args=(told,), daemon=True)
    bucket.start()
    endpoint = told.get()
    os.environ.update(KEYS)
    objects: dict[str, Path | bytes] = {}
    if given.store:
        objects = {
            f"c.zarr/{path.relative_to(given.store).as_posix()}": path
            for path in given.store.rglob("*")
            if path.is_file()
        }
    text = "stars galaxy telescope orbit bread butter flour oven " * 20
    for number in range(given.objects):
        line = json.dumps({"id": str(number), "text": f"{text} word{number % 97}"})
        objects[f"raw/{number:06}.jsonl"] = line.encode()
    put_all(endpoint, objects)
    line_args = (endpoint, given.delay, given.storm, told, asked)
    multiprocessing.Process(target=serve_line, args=line_args, daemon=True).start()
    os.environ["AWS_ENDPOINT_URL"] = told.get()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["TOPICS_CACHE"] = str(folder / "cache")
        heading("A bucket behind a slow line", f"{given.delay} s before each answer.")
        if given.store:
            here = passes_of(str(given.store), folder / "here")
            there = passes_of("s3://corpora/c.zarr", folder / "there")
            asked.put(None)
            print(told.get())
            head = ["", "seconds", "CPU seconds", *(f"pass {n + 1}" for n in range(len(here) - 2))]
            table(head, [["disk", *here], ["bucket", *there]])
        if given.objects:
            seconds, cpu = command(
                "ingest", "s3://corpora/raw/", "--out", str(folder / "r.zarr"), "-q"
            )
            asked.put(None)
            print(told.get())
            table(
                ["objects", "seconds", "CPU seconds"],
                [[given.objects, f"{seconds:.1f}", f"{cpu:.1f}"]],
            )


if __name__ == "__main__":
    main()
