"""Google's and Azure's object stores: the same publishing and reading as on S3.

Azure: Azurite, Microsoft's emulator, where it is installed (``npm install azurite``; the slow
suite). Google has no emulator that knows the requests of obstore (its XML interface with
conditions), so a small server stands for it that heeds conditions on the generation of an object,
as Google documents them: https://cloud.google.com/storage/docs/xml-api/reference-headers.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

from tests.addons.cloud.test_publication import LINES, race
from tests.addons.cloud.test_publication_campaigns import free_ports
from tests.refusing import topics
from topicstream import Corpus, TopicModel, ingest, publish, train
from topicstream.addons.cloud import mirror, publication, remote
from topicstream.addons.cloud.mirror import read_current
from topicstream.addons.cloud.remote import RemoteFile, put_object
from topicstream.base.errors import Busy, InputError, NotOurs

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Azurite's, which its documentation names."""


def check_store(root: str, tmp_path: Path) -> None:
    """Read, publish and race below an empty bucket."""
    text = "\n".join(LINES).encode()
    (tmp_path / "docs.txt").write_bytes(text)
    put_object(f"{root}/raw/docs.txt", text)
    put_object(f"{root}/raw/_SUCCESS", b" ")
    here = ingest(tmp_path / "docs.txt", tmp_path / "c.zarr", progress=False)
    there = ingest(Path(f"{root}/raw/"), f"{root}/c.zarr", progress=False)
    assert there["documents"] == here["documents"] and there["version"]
    assert ingest(Path(f"{root}/raw/"), f"{root}/c.zarr", progress=False)["finished_before"]
    assert Corpus.open(f"{root}/c.zarr").fingerprint == Corpus.open(tmp_path / "c.zarr").fingerprint
    train(f"{root}/c.zarr", tmp_path / "m", topics=2, passes=2, algo="atbp", progress=False)
    publish(tmp_path / "m", f"{root}/models/news")
    assert (
        TopicModel.open(f"{root}/models/news").content_hash()
        == TopicModel.open(tmp_path / "m").content_hash()
    )
    with pytest.raises(NotOurs, match="is a model, not a corpus store"):
        publish(tmp_path / "c.zarr", f"{root}/models/news")
    publication.claim_address(f"{root}/race", "model")
    for _ in ("the first version", "the next one"):
        won, lost = race(f"{root}/race", 8)
        current, _ = read_current(f"{root}/race")
        assert current is not None and won == [current.version]
        assert len(lost) == 7 and all(isinstance(e, Busy) for e in lost), lost
    remote.forget_versions()
    file = RemoteFile(f"{root}/raw/docs.txt")
    put_object(f"{root}/raw/docs.txt", text[:-1])
    with pytest.raises(InputError, match="changed while it was read"):
        file.read(10)
    code, said = topics("info", root.replace("corpora", "nowhere") + "/c.zarr")
    assert code == 3 and "there is no such bucket" in said, said


class Google(http.server.BaseHTTPRequestHandler):
    """A bucket ``corpora``."""

    lock = threading.Lock()
    objects: dict[str, tuple[int, bytes]]
    protocol_version = "HTTP/1.1"

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def about(self, generation: int) -> dict[str, str]:
        return {
            "ETag": f'"{generation}"',
            "x_goog_generation": str(generation),
            "Last_Modified": "Wed, 21 Oct 2015 07:28:00 GMT",
        }

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        wanted = self.headers.get("x-goog-if-generation-match")
        with self.lock:
            generation = self.objects.get(self.path, (0, b""))[0]
            if wanted is not None and int(wanted) != generation:
                return self.answer(412)
            self.objects[self.path] = (generation + 1, body)
        self.answer(200, **self.about(generation + 1))

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        bucket = self.path.split("/")[1].partition("?")[0]
        if bucket != "corpora":
            return self.answer(
                404,
                b"<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not "
                b"exist.</Message></Error>",
            )
        if parts.query:
            prefix = parse_qs(parts.query).get("prefix", [""])[0]
            keys = {
                unquote(path.removeprefix("/corpora/")): len(body)
                for path, (_, body) in self.objects.items()
            }
            entries = "".join(
                f"<Contents><Key>{escape(key)}</Key><Size>{size}</Size><LastModified>2015-10-21T07:28:00.000Z</LastModified><ETag>1</ETag></Contents>"
                for key, size in sorted(keys.items())
                if key.startswith(prefix)
            )
            return self.answer(200, f"<ListBucketResult>{entries}</ListBucketResult>".encode())
        if self.path not in self.objects:
            return self.answer(404)
        generation, body = self.objects[self.path]
        if self.headers.get("If-Match") not in (None, f'"{generation}"'):
            return self.answer(412)
        if (wanted := self.headers.get("Range")) is None:
            return self.answer(200, body, **self.about(generation))
        first, last = map(int, wanted.removeprefix("bytes=").split("-"))
        part = body[first : last + 1]
        self.answer(
            206,
            part,
            Content_Range=f"bytes {first}-{first + len(part) - 1}/{len(body)}",
            **self.about(generation),
        )

    do_HEAD = do_GET

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """An environment without the stores and the cache of other tests."""
    pytest.importorskip("obstore")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    monkeypatch.setenv("TOPICS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(mirror, "_ROOM", mirror._Room())
    remote._store.cache_clear()
    yield monkeypatch
    remote._store.cache_clear()


@pytest.mark.product
def test_google(cloud: pytest.MonkeyPatch, tmp_path: Path) -> None:
    handler = type("Handler", (Google,), {"objects": {}})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        base = f"http://127.0.0.1:{server.server_address[1]}"
        account = {
            "gcs_base_url": base,
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        (tmp_path / "key.json").write_text(json.dumps(account))
        cloud.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "key.json"))
        cloud.setenv("GOOGLE_BASE_URL", base)
        check_store("gs://corpora", tmp_path)
        server.shutdown()


def create_container(base: str) -> None:
    """``corpora`` in Azurite."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    canonical = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    text = "PUT" + "\n" * 12 + canonical + f"/{ACCOUNT}/{ACCOUNT}/corpora\nrestype:container"
    signature = base64.b64encode(
        hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)
    ).decode()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{signature}"
    urllib.request.urlopen(
        urllib.request.Request(
            f"{base}/{ACCOUNT}/corpora?restype=container", method="PUT", headers=headers
        )
    ).close()


@pytest.mark.slow
def test_azure(cloud: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("Azurite is not installed (npm install azurite)")
    (port,) = free_ports(1)
    options = [
        "--silent",
        "--skipApiVersionCheck",
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        str(port),
        "--location",
        str(tmp_path / "azurite"),
    ]
    server = subprocess.Popen(
        [program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(60):
            try:
                create_container(f"http://127.0.0.1:{port}")
                break
            except urllib.error.URLError:
                time.sleep(1)
        else:
            pytest.skip("Azurite did not start")
        cloud.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
        cloud.setenv("AZURITE_BLOB_STORAGE_URL", f"http://127.0.0.1:{port}")
        check_store("az://corpora", tmp_path)
    finally:
        server.kill()
        server.wait()
