"""Keys of any characters in Google's and Azure's stores, of which small servers check requests."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

from tests.addons.cloud.test_other_clouds import Google
from tests.refusing import topics
from topicstream import Corpus
from topicstream.addons.cloud import listing, remote
from topicstream.base.errors import InputError

ACCOUNT = "someone"
KEY = base64.b64encode(b"the key of that account").decode()
FINE = ["fine.txt", "sub/a&b.txt", "a#1.txt", "a?1.txt", "a%20b.txt", "a b+c.txt", "é;=.txt"]
ODD = ["../up.txt", "./here.txt", "sub//double.txt"]


class SigningGoogle(Google):
    """Google's lists, of which those with an address that is signed are checked and have pages."""

    public_key: Any
    signed: list[str]

    def do_GET(self) -> None:
        asked = dict(parse_qsl(urlsplit(self.path).query))
        self.path = self.path if asked else quote(unquote(self.path))
        if "X-Goog-Signature" not in asked:
            return super().do_GET()
        self.signed.append(asked.get("continuation-token", ""))
        self.check_signature(asked)
        keys = sorted(unquote(path.removeprefix("/corpora/")) for path in self.objects)
        keys = [key for key in keys if key.startswith(asked["prefix"])]
        first = int(asked.get("continuation-token", 0))
        last = first + int(asked["max-keys"])
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>12</Size><ETag>1</ETag></Contents>"
            for key in keys[first:last]
        )
        more = f"<NextContinuationToken>{last}</NextContinuationToken>" * (last < len(keys))
        cut = str(last < len(keys)).lower()
        body = f"<ListBucketResult><IsTruncated>{cut}</IsTruncated>{entries}{more}"
        self.answer(200, f"{body}</ListBucketResult>".encode())

    do_HEAD = do_GET

    def check_signature(self, asked: dict[str, str]) -> None:
        """Check it as https://cloud.google.com/storage/docs/authentication/signatures says."""
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
        from cryptography.hazmat.primitives.hashes import SHA256

        signature = bytes.fromhex(asked.pop("X-Goog-Signature"))
        query = "&".join(f"{quote(n, '')}={quote(v, '')}" for n, v in sorted(asked.items()))
        host = "host:storage.googleapis.com\n"  # for which obstore signs, whatever the endpoint
        request = f"GET\n/corpora\n{query}\n{host}\nhost\nUNSIGNED-PAYLOAD"
        date = asked["X-Goog-Date"]
        scope = f"{date[:8]}/auto/storage/goog4_request"
        digest = hashlib.sha256(request.encode()).hexdigest()
        text = f"GOOG4-RSA-SHA256\n{date}\n{scope}\n{digest}"
        self.public_key.verify(signature, text.encode(), PKCS1v15(), SHA256())


class Azure(http.server.BaseHTTPRequestHandler):
    """A container ``corpora`` of an account with a key, whose requests are all checked."""

    objects: dict[str, bytes]
    signed: list[str]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        asked = dict(parse_qsl(parts.query))
        if not self.is_signed(parts.path, asked):
            return self.answer(403, b"<Error><Code>AuthenticationFailed</Code></Error>")
        if asked.get("comp") == "list":
            return self.answer(200, self.list_objects(asked).encode())
        body = self.objects.get(unquote(parts.path).removeprefix("/corpora/"))
        if body is None:
            return self.answer(404)
        wanted = self.headers.get("Range") or self.headers.get("x-ms-range")
        first, last = map(int, (wanted or "bytes=0-99").removeprefix("bytes=").split("-"))
        part = body[first : last + 1]
        end = first + len(part) - 1
        about = {"ETag": '"1"', "Last-Modified": "Wed, 21 Oct 2015 07:28:00 GMT"}
        self.answer(206, part, about | {"Content-Range": f"bytes {first}-{end}/{len(body)}"})

    def list_objects(self, asked: dict[str, str]) -> str:
        """Return a page of a list; no more than ``maxresults`` stand on it."""
        if "maxresults" in asked:
            self.signed.append(asked.get("marker", ""))
        keys = sorted(key for key in self.objects if key.startswith(asked["prefix"]))
        first = int(asked.get("marker") or 0)
        last = first + int(asked.get("maxresults", 5000))
        size = "<Content-Length>12</Content-Length><Etag>1</Etag>"
        date = "<Last-Modified>Wed, 21 Oct 2015 07:28:00 GMT</Last-Modified>"
        kind = "<Content-Type>text/plain</Content-Type>"
        entries = "".join(
            f"<Blob><Name>{escape(key)}</Name><Properties>{date}{size}{kind}</Properties></Blob>"
            for key in keys[first:last]
        )
        marker = str(last) if last < len(keys) else ""
        blobs = f"<Blobs>{entries}</Blobs><NextMarker>{marker}</NextMarker>"
        return f"<EnumerationResults>{blobs}</EnumerationResults>"

    def is_signed(self, path: str, asked: dict[str, str]) -> bool:
        """Tell whether the account's key signed it, or a token stands in its query."""
        if "sig" in asked:
            return asked["sig"] == "a+token=="
        names = "Content-Encoding Content-Language Content-Length Content-MD5 Content-Type Date "
        names += "If-Modified-Since If-Match If-None-Match If-Unmodified-Since Range"
        lines = [self.command, *(self.headers.get(name, "") for name in names.split())]
        lines[3] = lines[3].removeprefix("0")
        own = {name.lower(): value for name, value in self.headers.items()}
        lines += [f"{name}:{own[name]}" for name in sorted(own) if name.startswith("x-ms-")]
        lines.append(f"/{ACCOUNT}{path}")
        lines += [f"{name}:{value}" for name, value in sorted(asked.items())]
        digest = hmac.digest(base64.b64decode(KEY), "\n".join(lines).encode(), "sha256")
        signature = base64.b64encode(digest).decode()
        return bool(self.headers["Authorization"] == f"SharedKey {ACCOUNT}:{signature}")

    def answer(self, status: int, body: bytes = b"", about: dict[str, str] | None = None) -> None:
        """Answer with a body and headers."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(about or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *args: Any) -> None:
        pass


def put_all(handler: Any, names: list[str]) -> None:
    """Put a text of twelve bytes below ``odd/`` for each name."""
    for name in names:
        if issubclass(handler, Google):
            handler.objects[f"/corpora/odd/{quote(name)}"] = (1, b"star galaxy\n")
        else:
            handler.objects[f"odd/{name}"] = b"star galaxy\n"


def prepare_google(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Any:
    """Make a service account, and the server that knows its public key."""
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    private = rsa.generate_private_key(65537, 2048)
    text = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    account = {
        "client_email": "reader@project.example",
        "private_key": text,
        "private_key_id": "1",
    }
    (folder / "key.json").write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(folder / "key.json"))
    members = {"objects": {}, "signed": [], "public_key": private.public_key()}
    return type("Handler", (SigningGoogle,), members)


@pytest.fixture(params=["gs", "az"])
def server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Any, str]]:
    """The class that answers, and the address of its bucket."""
    pytest.importorskip("obstore", reason="the extra cloud is not installed")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    if request.param == "gs":
        handler = prepare_google(monkeypatch, tmp_path)
    else:
        handler = type("Handler", (Azure,), {"objects": {}, "signed": []})
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        base = f"http://127.0.0.1:{running.server_address[1]}"
        name = "GOOGLE_BASE_URL" if request.param == "gs" else "AZURE_STORAGE_ENDPOINT"
        monkeypatch.setenv(name, base)
        remote._store.cache_clear()
        remote.forget_versions()
        yield handler, f"{request.param}://corpora"
        running.shutdown()
    remote._store.cache_clear()
    remote.forget_versions()


def test_keys_of_any_characters_are_read(server: tuple[Any, str]) -> None:
    handler, root = server
    put_all(handler, FINE)
    listed = remote.list_below(f"{root}/odd")
    assert listed == sorted(f"{root}/odd/{name}" for name in FINE)
    assert {remote.open_remote(name).read() for name in listed} == {b"star galaxy\n"}
    assert not handler.signed


def test_one_odd_key_does_not_stop_a_folder(server: tuple[Any, str], tmp_path: Path) -> None:
    handler, root = server
    put_all(handler, FINE + ODD)
    code, said = topics("ingest", f"{root}/odd/", "--out", tmp_path / "c.zarr", "--min-df", 1)
    assert code == 0 and len(Corpus.open(tmp_path / "c.zarr")) == len(FINE), said
    assert "3 objects left out whose keys have an empty part" in said
    assert f"'{root}/odd/../up.txt'" in said


def test_a_folder_of_odd_keys_alone_is_refused(server: tuple[Any, str], tmp_path: Path) -> None:
    handler, root = server
    put_all(handler, ODD[-1:])
    code, said = topics("ingest", f"{root}/odd/", "--out", tmp_path / "c.zarr")
    assert code == 3 and said.count("\n") == 1 and "'odd/sub//double.txt'" in said, said


def test_a_list_with_odd_keys_has_pages(
    server: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    handler, root = server
    put_all(handler, FINE + ODD)
    monkeypatch.setattr(listing, "PAGE", 4)
    assert remote.list_below(f"{root}/odd") == sorted(f"{root}/odd/{name}" for name in FINE)
    assert handler.signed == ["", "4", "8"]


@pytest.mark.parametrize("server", ["az"], indirect=True)
def test_a_token_of_azure_lists_odd_keys(
    server: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    handler, root = server
    put_all(handler, FINE + ODD)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "?sp=rl&sig=a%2Btoken%3D%3D")
    assert len(remote.list_below(f"{root}/odd")) == len(FINE)


def test_credentials_that_cannot_sign_a_list_name_the_key(
    server: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    handler, root = server
    put_all(handler, FINE + ODD)
    monkeypatch.setattr(listing, "sign_list", lambda *_: None)
    with pytest.raises(InputError, match=r"the key 'odd/\.\./up\.txt' has an empty part"):
        remote.list_below(f"{root}/odd")
