"""Publishing stores and models: whole or not at all, one winner of several, resumed after a
kill.
"""

from __future__ import annotations

import http.client
import http.server
import io
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.refusing import topics
from tests.retrain_tools import folder
from tests.s3 import SECRET, Put
from topicstream import Corpus, TopicModel, ingest, publish, retrain, train
from topicstream.addons.cloud import publication, remote
from topicstream.addons.cloud.mirror import Current, cache_folder, read_current
from topicstream.addons.cloud.remote import get_object
from topicstream.base.errors import Busy, InputError, NotOurs, StoreError, TopicsError, UsageError

LINES = [
    f"stars galaxy telescope orbit{n % 5}" if n % 2 else f"bread butter flour oven{n % 7}"
    for n in range(300)
]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text file, its store and two models."""
    folder = tmp_path_factory.mktemp("here")
    (folder / "docs.txt").write_text("\n".join(LINES))
    ingest(folder / "docs.txt", folder / "c.zarr", progress=False)
    for seed in (0, 1):
        train(
            folder / "c.zarr",
            folder / f"m{seed}",
            topics=2,
            passes=2,
            algo="atbp",
            seed=seed,
            progress=False,
        )
    return folder


@pytest.mark.product
def test_readers_take_the_version_that_was_published_last(
    put: Put, here: Path, tmp_path: Path
) -> None:
    address = "s3://corpora/models/news"
    first = publish(here / "m0", address)
    assert (
        first["uploaded"] == first["files"]
        and TopicModel.open(address).content_hash() == TopicModel.open(here / "m0").content_hash()
    )
    assert publish(here / "m0", address)["uploaded"] == 0, "what is there is not uploaded again"
    code, said = topics("publish", here / "m1", address)
    assert code == 0, said
    assert TopicModel.open(address).content_hash() == TopicModel.open(here / "m1").content_hash()
    with pytest.raises(NotOurs, match="not a corpus store"):
        publish(here / "c.zarr", address)
    with pytest.raises(InputError, match="no such bucket"):
        publish(here / "m0", "s3://nowhere/news")
    put("taken/readme.md", b"hello")
    with pytest.raises(NotOurs, match=r"readme\.md"):
        publish(here / "m0", "s3://corpora/taken")
    with pytest.raises(StoreError, match="neither a corpus store nor a model"):
        publish(here, address)
    for nowhere in ("https://host/m", str(tmp_path / "m"), "ftp://host/m"):
        with pytest.raises(UsageError, match="are published to s3://"):
            publish(here / "m0", nowhere)
    current, _ = read_current(address)
    assert current is not None
    below = f"models/news/versions/{current.version}"
    names = [
        "../../../../escaped",
        "/tmp/escaped",
        ".address",
        "x/../../y",
        *json.loads(get_object(f"s3://corpora/{below}/files.json")[0]),
    ]
    put(f"{below}/files.json", json.dumps(dict.fromkeys(names, "")).encode())
    shutil.rmtree(cache_folder())
    before = {p for p in tmp_path.rglob("*")}
    TopicModel.open(address)
    assert all(
        p.is_relative_to(cache_folder() / "s3" / "corpora")
        for p in set(tmp_path.rglob("*")) - before
        if p.is_file()
    )
    put(f"{below}/files.json", b"[1]")
    shutil.rmtree(cache_folder())
    with pytest.raises(StoreError, match="manifest of neither"):
        TopicModel.open(address)
    put("models/news/current.json", b"{}")
    with pytest.raises(StoreError, match=r"current\.json"):
        TopicModel.open(address)


def test_an_ingest_to_an_address(
    put: Put, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = []
    puts = publication.put_object

    def killed(address: str, content: Any, condition: Any = "overwrite") -> None:
        if "/versions/" in address:
            stored.append(address)
            if len(stored) > 5:
                raise KeyboardInterrupt
        puts(address, content, condition)

    monkeypatch.setattr(publication, "put_object", killed)
    address = "s3://corpora/c.zarr"
    with pytest.raises(KeyboardInterrupt):
        ingest(here / "docs.txt", address, progress=False)
    assert read_current(address)[0] is None, "nothing is published"
    before = set(remote.list_below(address + "/versions"))
    assert len(before) >= 5
    monkeypatch.setattr(publication, "put_object", puts)
    code, said = topics("ingest", here / "docs.txt", "--out", address)
    assert code == 0, said
    assert Corpus.open(address).fingerprint == Corpus.open(here / "c.zarr").fingerprint
    publish(here / "c.zarr", "s3://corpora/other.zarr")
    assert read_current(address)[0].version == read_current("s3://corpora/other.zarr")[0].version, (
        "the same bytes"
    )
    was = read_current(address)[0]
    code, said = topics("ingest", here / "docs.txt", "--out", address)
    assert code == 0 and "finished" in said and read_current(address)[0] == was, said
    assert ingest(here / "docs.txt", address, progress=False)["finished_before"] and not list(
        (cache_folder() / "uploads").rglob("*.json")
    )
    code, said = topics("ingest", here / "docs.txt", "--out", address, "--min-df", "2")
    assert code == 1 and "exists; --force replaces it" in said, "another ingest"
    assert not list((cache_folder() / "uploads").rglob("*.json"))
    code, said = topics("ingest", here / "docs.txt", "--append", "--out", address)
    assert code == 2 and "cannot be appended to" in said and SECRET not in said


def test_a_retrain_publishes_its_versions(put: Put, tmp_path: Path) -> None:
    config = folder(tmp_path / "home")
    config.write_text(f'{(given := config.read_text())}\naddress = "https://host/m"\n')
    with pytest.raises(UsageError, match=r"\[publish\] address"):
        retrain(config, stream=io.StringIO())
    address = "s3://corpora/models/nightly"
    config.write_text(f'{given}\naddress = "{address}"\n')
    done = retrain(config, stream=io.StringIO())
    assert done["published"] == 1
    assert (
        TopicModel.open(address).content_hash()
        == TopicModel.open(config.parent / "current").content_hash()
    )


def race(address: str, publishers: int) -> tuple[list[str], list[Exception]]:
    """Versions of those that won, and what the others were told."""
    condition = read_current(address)[1]
    gate = threading.Barrier(publishers)
    won: list[str] = []
    lost: list[Exception] = []

    def one(number: int) -> None:
        new = Current("model", f"{number:032x}", secrets.token_hex(16))
        gate.wait()
        try:
            publication._replace(address, new, condition)
            won.append(new.version)
        except Exception as e:
            lost.append(e)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(publishers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won, lost


def test_a_file_that_a_compaction_removes_meanwhile_is_no_missing_file(
    put: Put, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = shutil.copytree(here / "c.zarr", tmp_path / "c.zarr")
    digest = publication._sha256

    def digesting(path: Path) -> str:
        for old in (store / "docs").glob("*"):
            old.unlink()
        return digest(path)

    monkeypatch.setattr(publication, "_sha256", digesting)
    with pytest.raises(Busy, match="another process changed it during the upload; publish it"):
        publish(store, "s3://corpora/beside", progress=False)


def test_two_first_publishers_are_told_apart(
    put: Put, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one comes between the look at the address and the look at what lies there."""
    address = "s3://corpora/first"
    look = publication.read_current
    looks = 0

    def looking(place: str) -> Any:
        nonlocal looks
        looks += 1
        answer = look(place)
        if looks == 1:
            publish(here / "m1", address, progress=False)
        return answer

    monkeypatch.setattr(publication, "read_current", looking)
    with pytest.raises(Busy, match="another publisher, of version"):
        publish(here / "m0", address, progress=False)


def test_one_of_several_publishers_wins(put: Put) -> None:
    address = "s3://corpora/race"
    publication.claim_address(address, "model")
    for _ in ("the first version", "the next one"):
        won, lost = race(address, 8)
        current, _ = read_current(address)
        assert current is not None and won == [current.version]
        assert len(lost) == 7 and all(
            isinstance(e, Busy) and "was faster" in str(e) for e in lost
        ), lost
    current, condition = read_current(address)
    stale = {**condition, "e_tag": '"0"'}
    assert current is not None
    publication._replace(
        address, current, stale
    )  # its answer was lost: the nonce tells that it won


class Heedless(http.server.BaseHTTPRequestHandler):
    """A store that ignores conditions: passes requests on without them."""

    behind = ""

    def do_GET(self) -> None:
        connection = http.client.HTTPConnection(urlsplit(self.behind).netloc)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {
            k: v for k, v in self.headers.items() if k.lower() not in ("if-none-match", "if-match")
        }
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name in ("ETag", "Last-Modified", "Content-Type"):
            if answer.headers[name]:
                self.send_header(name, answer.headers[name])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        connection.close()

    do_PUT = do_GET

    def log_message(self, *args: Any) -> None:
        pass


def test_a_store_that_ignores_conditions_is_refused(
    put: Put, here: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = type("Handler", (Heedless,), {"behind": endpoint})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_address[1]}")
        remote._store.cache_clear()
        with pytest.raises(TopicsError, match="ignores conditional writes"):
            publish(here / "m0", "s3://corpora/unsafe")
        server.shutdown()
    remote._store.cache_clear()
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    assert read_current("s3://corpora/unsafe")[0] is None


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            "status code: 400 Bad Request: <Code>ExpiredToken</Code> very-secret-key",
            "the credentials have expired",
        ),
        (
            "Received redirect without LOCATION, this normally indicates an incorrectly "
            "configured region",
            "another region",
        ),
        ("status code: 403 Forbidden: SignatureDoesNotMatch very-secret-key", "access denied"),
        ("HTTP error: error sending request", "check the network"),
    ],
)
def test_faults_are_told_without_what_was_sent(
    answer: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    exceptions = pytest.importorskip("obstore.exceptions")
    monkeypatch.setattr(remote, "_store", lambda root: None)

    def fails(*_: Any) -> None:
        raise exceptions.GenericError(answer)

    with pytest.raises(InputError, match=told) as refused:
        remote._call_store("s3://corpora/x", fails)
    assert SECRET not in str(refused.value) and str(refused.value).startswith("s3://corpora/x: ")


@pytest.mark.product
def test_an_ingest_of_documents_in_memory_to_an_address(put: Put, here: Path) -> None:
    """Also after another one was killed during its upload: nothing is published, so nothing needs
    --force.
    """
    address = "s3://corpora/m.zarr"

    def killed(address: str, content: Any, condition: Any = "overwrite") -> None:
        if "/versions/" in address:
            raise KeyboardInterrupt
        remote.put_object(address, content, condition)

    for documents in (LINES, here / "docs.txt", LINES[::-1]):
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(publication, "put_object", killed)
            ingest(documents, address, progress=False)
    ingest(LINES, address, progress=False)
    assert Corpus.open(address).n_docs + Corpus.open(address).part(heldout=True).docs == len(LINES)
    with pytest.raises(
        TopicsError, match="exists, and documents that are in no file cannot be compared"
    ):
        ingest(LINES, address, progress=False)
    ingest(LINES[:200], address, force=True, progress=False)
    assert Corpus.open(address).n_docs <= 200 and not list(
        (cache_folder() / "uploads").rglob("*.json")
    )


class Silent(Heedless):
    """A server that takes requests and never answers those below ``hung``."""

    def do_GET(self) -> None:
        if "hung" in self.path:
            asked.set()
            ended.wait(60)
        else:
            super().do_GET()

    do_PUT = do_GET


asked = threading.Event()
ended = threading.Event()


@pytest.mark.product
def test_a_signal_ends_a_command_that_waits_for_a_server(
    put: Put, here: Path, endpoint: str, tmp_path: Path
) -> None:
    handler = type("Handler", (Silent,), {"behind": endpoint})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        environment = {
            **os.environ,
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_address[1]}",
        }
        script = (
            "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); from "
            "topicstream.cli.entry import main; main()"
        )
        command = [sys.executable, "-c", script, "publish", str(here / "m0"), "s3://corpora/hung"]
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        assert asked.wait(60)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        ended.set()
        server.shutdown()
    assert (
        process.returncode == 130
        and said
        == "topics: stopped; readers still see the version before, and the same command "
        "uploads what is missing\n"
    )
