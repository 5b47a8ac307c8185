"""Lists of a bucket of S3 with keys that obstore cannot read.

obstore refuses a whole list for one key with an empty part, ``.`` or ``..`` in it. So such a list
is requested by a signed address and parsed here.
"""

from __future__ import annotations

import datetime
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree

VALID = datetime.timedelta(minutes=15)
"""The time for which a signed address may be used."""
SECONDS = 120.0
"""Seconds without a byte that end a request."""
PAGE = 1000
"""Objects of a page of a list, of which S3 gives no more."""
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


def list_all_keys(library: Any, bucket: str, folder: str, options: dict[str, Any]) -> list[Entry]:
    """List every object below a folder of a bucket of S3, whatever its key.

    Parameters
    ----------
    library
        obstore, whose errors are raised.
    folder
        The key of the folder, "" for the bucket.
    options
        Of its stores.

    Raises the error of obstore where a list cannot be read, or begins again and again.
    """
    entries: list[Entry] = []
    tokens = set[str]()
    query = {"list-type": "2", "max-keys": str(PAGE)}
    if folder:
        query["prefix"] = f"{folder}/"
    while True:
        page = parse_page(library, _request(library, _sign(library, bucket, query, options)))
        entries += _read_entries(page)
        following = page.findtext("NextContinuationToken")
        if page.findtext("IsTruncated") != "true" or following is None:
            return entries
        if following in tokens:
            raise library.exceptions.GenericError(ENDLESS)
        tokens.add(following)
        query["continuation-token"] = following


def parse_page(library: Any, answer: bytes) -> ElementTree.Element:
    """Parse a page of a list, without the namespaces of its names.

    Raises the error of obstore where a page was cut short, is larger than any list, or declares
    entities, which lists have none of.
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


def _read_entries(page: ElementTree.Element) -> Iterator[Entry]:
    """Yield the objects of a page of a list."""
    for element in page.iter("Contents"):
        yield {
            "path": element.findtext("Key", ""),
            "size": int(element.findtext("Size", "0")),
            "e_tag": element.findtext("ETag"),
        }


def _sign(library: Any, bucket: str, query: dict[str, str], options: dict[str, Any]) -> str:
    """Make the signed address of a page of a list.

    obstore signs addresses of objects alone, so the query goes where it expects the endpoint.
    """
    # what obstore appends as the key becomes the value of a parameter that servers ignore
    place = f"{_bucket_endpoint(bucket)}?{urlencode(query, quote_via=quote, safe='')}&x-id="
    if os.environ.get("AWS_SKIP_SIGNATURE", "").lower() in ("1", "true"):
        return place
    config = {"endpoint": place, "virtual_hosted_style_request": "true"}
    store = library.store.from_url(f"s3://{bucket}", config=config, **options)
    return str(library.sign(store, "GET", "list", VALID))


def _bucket_endpoint(bucket: str) -> str:
    """Return the web address of a bucket, as obstore finds it."""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    endpoint = next(filter(None, map(os.environ.get, names)), "")
    if not endpoint:
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        endpoint = f"https://s3.{region}.amazonaws.com"
    elif os.environ.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "").lower() in ("1", "true"):
        return endpoint.rstrip("/")
    return f"{endpoint.rstrip('/')}/{bucket}"


def _request(library: Any, address: str) -> bytes:
    """Request a page of a list, or raise an error as obstore words it."""
    failed = library.exceptions.GenericError
    try:
        with urllib.request.urlopen(address, timeout=SECONDS) as answer:
            content: bytes = answer.read(MOST_BYTES + 1)
            return content
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        raise failed(f"status code: {error.code} {error.reason}: {text}") from None
    except http.client.IncompleteRead:
        raise failed("response body error") from None
    except (OSError, http.client.HTTPException):
        raise failed("error sending request") from None
