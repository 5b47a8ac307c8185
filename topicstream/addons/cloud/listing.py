"""Lists of a bucket with keys that obstore cannot read.

obstore refuses a whole list for one key with an empty part, ``.`` or ``..`` in it. So such a list
is requested by a signed address and parsed here.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

from topicstream.addons.cloud.signing import sign_list

SECONDS = 120.0
"""Seconds without a byte that end a request."""
PAGE = 1000
"""Objects of a page of a list, of which S3 and Google give no more."""
MOST_BYTES = 32 << 20
"""Bytes of a page: a thousand keys of 1,024 bytes, each escaped, take less."""
ENDLESS = "the list repeats a continuation token"
Entry = dict[str, Any]
"""``path``, ``size`` and ``e_tag`` of an object, as obstore lists them."""


def is_readable(key: str) -> bool:
    """Return True if obstore can read a key as it is."""
    parts = key.split("/")
    return not any(part in ("", ".", "..") for part in parts) and all(
        " " <= char != "\x7f" for char in key
    )


@dataclass(frozen=True)
class Dialect:
    """A provider's names for the parts of a request for a list, and of its answer.

    Attributes
    ----------
    query
        Parameters of every request.
    most
        The parameter that limits the objects of a page.
    entry, key, size, e_tag
        The element of an object, and its members.
    following, token
        The element that names the next page, and the parameter that asks for it.
    """

    query: dict[str, str]
    most: str
    entry: str
    key: str
    size: str
    e_tag: str
    following: str
    token: str


AMAZON = Dialect(
    {"list-type": "2"},
    most="max-keys",
    entry="Contents",
    key="Key",
    size="Size",
    e_tag="ETag",
    following="NextContinuationToken",
    token="continuation-token",
)
"""Also Google's."""
AZURE = Dialect(
    {"restype": "container", "comp": "list"},
    most="maxresults",
    entry="Blob",
    key="Name",
    size="Properties/Content-Length",
    e_tag="Properties/Etag",
    following="NextMarker",
    token="marker",
)


def list_all_keys(
    library: Any, store: Any, folder: str, options: dict[str, Any]
) -> list[Entry] | None:
    """List every object below a folder of a bucket, whatever its key.

    Parameters
    ----------
    library
        obstore, whose errors are raised.
    store
        Its store of the bucket.
    folder
        The key of the folder, "" for the bucket.
    options
        Of its stores.

    Returns
    -------
    list of Entry or None
        None where lists cannot be signed with the credentials of the environment.

    Raises
    ------
    obstore.exceptions.GenericError
        Where a list cannot be read, or begins again and again.
    """
    dialect = AZURE if isinstance(store, library.store.AzureStore) else AMAZON
    entries: list[Entry] = []
    tokens = set[str]()
    query = {**dialect.query, dialect.most: str(PAGE)}
    if folder:
        query["prefix"] = f"{folder}/"
    while True:
        request = sign_list(library, store, query, options)
        if request is None:
            return None
        page = parse_page(library, _request(library, request))
        entries += _read_entries(page, dialect)
        following = page.findtext(dialect.following)
        if page.findtext("IsTruncated", "true") != "true" or not following:
            return entries
        if following in tokens:
            raise library.exceptions.GenericError(ENDLESS)
        tokens.add(following)
        query[dialect.token] = following


def parse_page(library: Any, answer: bytes) -> ElementTree.Element:
    """Parse a page of a list, without the namespaces of its names.

    Raises
    ------
    obstore.exceptions.GenericError
        Where a page was cut short, is larger than any list, or declares entities, which no list
        has.
    """
    failed = library.exceptions.GenericError
    if len(answer) > MOST_BYTES or b"<!DOCTYPE" in answer:
        raise failed("response body error (not a list of objects)")
    try:
        page = ElementTree.fromstring(answer)
    except ElementTree.ParseError as error:
        raise failed(f"response body error ({error})") from None
    for element in page.iter():
        element.tag = element.tag.rpartition("}")[2]
    return page


def _read_entries(page: ElementTree.Element, dialect: Dialect) -> Iterator[Entry]:
    """Yield the objects of a page of a list."""
    for element in page.iter(dialect.entry):
        key = element.find(dialect.key)
        name = "" if key is None else key.text or ""
        # Azure writes so what XML has no letters for
        encoded = key is not None and key.get("Encoded") == "true"
        yield {
            "path": unquote(name) if encoded else name,
            "size": int(element.findtext(dialect.size, "0")),
            "e_tag": element.findtext(dialect.e_tag),
        }


def _request(library: Any, request: urllib.request.Request) -> bytes:
    """Request a page of a list, or raise an error as obstore words it."""
    failed = library.exceptions.GenericError
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            content: bytes = answer.read(MOST_BYTES + 1)
            return content
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        raise failed(f"status code: {error.code} {error.reason}: {text}") from None
    except http.client.IncompleteRead:
        raise failed("response body error") from None
    except (OSError, http.client.HTTPException):
        raise failed("error sending request") from None
