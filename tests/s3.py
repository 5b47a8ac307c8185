"""A bucket of moto's server on loopback: fixtures of conftest.py."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

SECRET = "very-secret-key"
Put = Callable[[str, bytes], str]
"""Stores an object by its key; its address."""


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    pytest.importorskip("obstore", reason="the extra cloud is not installed")
    server = pytest.importorskip("moto.server", reason="moto's server is not installed (extra dev)")
    responses = pytest.importorskip("moto.s3.responses").S3Response
    put_object = responses.put_object
    lock = threading.Lock()

    def one_at_a_time(self: Any) -> Any:  # as S3 does: moto looks, then writes
        with lock:
            return put_object(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(responses, "put_object", one_at_a_time)
        running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        running.start()
        host, port = running.get_host_and_port()
        yield f"http://{host}:{port}"
        running.stop()


@pytest.fixture
def put(endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Put]:
    """An empty bucket ``corpora``, and an empty cache."""
    boto3: Any = pytest.importorskip("boto3")
    mirror = pytest.importorskip("topicstream.addons.cloud.mirror")
    remote = pytest.importorskip("topicstream.addons.cloud.remote")
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "TOPICS_CACHE": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(mirror, "_ROOM", mirror._Room())
    remote._store.cache_clear()
    remote.forget_versions()
    client = boto3.client("s3", region_name="us-east-1")
    client.create_bucket(Bucket="corpora")

    def store(key: str, body: bytes) -> str:
        client.put_object(Bucket="corpora", Key=key, Body=body)
        return f"s3://corpora/{key}"

    yield store
    for page in client.list_objects_v2(Bucket="corpora").get("Contents", []):
        client.delete_object(Bucket="corpora", Key=page["Key"])
    remote._store.cache_clear()


def put_folder(put: Put, folder: Path, key: str) -> str:
    """Copy a folder to the bucket, as ``aws s3 sync`` does; its address."""
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        put(f"{key}/{path.relative_to(folder).as_posix()}", path.read_bytes())
    return f"s3://corpora/{key}"
