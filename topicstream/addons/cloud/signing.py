"""Requests for a page of a list, with the credentials of the environment.

obstore signs addresses of objects alone. For S3 and Google the query of the list goes where it
expects the endpoint. It signs no list of Azure, whose rule for keys is short and stands here.
"""

from __future__ import annotations

import base64
import datetime
import hmac
import os
from email.utils import formatdate
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit
from urllib.request import Request

VALID = datetime.timedelta(minutes=15)
"""The time for which a signed address may be used."""
AZURITE = (
    "devstoreaccount1",
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
)
"""Account and key of Azure's emulator, which are the same everywhere."""


def sign_list(library: Any, store: Any, query: dict[str, str], options: Any) -> Request | None:
    """Make the request for a page of a list.

    Parameters
    ----------
    library
        obstore.
    store
        Its store of the bucket.
    query
        Parameters of the request.
    options
        Options of obstore's stores.

    Returns
    -------
    Request or None
        None where the credentials are of a kind that cannot sign lists.
    """
    if isinstance(store, library.store.AzureStore):
        return _sign_azure(store.config, query)
    bucket = store.config["bucket"]
    query_text = urlencode(query, quote_via=quote, safe="")
    if isinstance(store, library.store.S3Store):
        address = _s3_endpoint(bucket)
        scheme = "s3"
        skip = "AWS_SKIP_SIGNATURE"
        config = {"virtual_hosted_style_request": "true"}
        endpoint = "endpoint"
    else:
        address = f"{_setting('GOOGLE_BASE_URL', 'https://storage.googleapis.com')}/{bucket}"
        scheme = "gs"
        skip = "GOOGLE_SKIP_SIGNATURE"
        config = {}
        endpoint = "base_url"
    # what obstore appends as the key becomes the value of a parameter that servers ignore
    place = f"{address}?{query_text}&x-id="
    if _is_set(skip):
        return Request(place)
    try:
        signer = library.store.from_url(
            f"{scheme}://{bucket}", config={endpoint: place, **config}, **options
        )
        return Request(str(library.sign(signer, "GET", "list", VALID)))
    except library.exceptions.BaseError:
        return None


def _setting(*names: str) -> str:
    """Return the first variable that is set, or the last name as the default, without its slash."""
    *variables, default = names
    return next(filter(None, map(os.environ.get, variables)), default).rstrip("/")


def _is_set(name: str) -> bool:
    """Return True if a variable is 1 or true."""
    return os.environ.get(name, "").lower() in ("1", "true")


def _s3_endpoint(bucket: str) -> str:
    """Return the web address of a bucket of S3, as obstore finds it."""
    endpoint = _setting("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "")
    if not endpoint:
        region = _setting("AWS_REGION", "AWS_DEFAULT_REGION", "us-east-1")
        endpoint = f"https://s3.{region}.amazonaws.com"
    elif _is_set("AWS_VIRTUAL_HOSTED_STYLE_REQUEST"):
        return endpoint
    return f"{endpoint}/{bucket}"


def _sign_azure(config: dict[str, str], query: dict[str, str]) -> Request | None:
    """Sign a request to a container by the account's key, or add the token of a shared access.

    https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
    """
    account = config.get("account_name") or _setting("AZURE_STORAGE_ACCOUNT_NAME", "")
    key = _setting(
        "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY", ""
    )
    if _is_set("AZURE_STORAGE_USE_EMULATOR"):
        account = account or AZURITE[0]
        key = key or AZURITE[1]
        server = _setting("AZURITE_BLOB_STORAGE_URL", "http://127.0.0.1:10000")
        endpoint = f"{server}/{account}"
    else:
        public = f"https://{account}.blob.core.windows.net"
        endpoint = _setting("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT", public)
    place = f"{endpoint}/{config['container_name']}"
    address = f"{place}?{urlencode(query, quote_via=quote, safe='')}"
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    token = unquote(_setting("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY", ""))
    if _is_set("AZURE_SKIP_SIGNATURE"):
        return Request(address, headers=headers)
    if key:
        lines = [f"{name}:{value}" for name, value in sorted(headers.items())]
        lines.append(f"/{account}{urlsplit(place).path}")
        lines += [f"{name}:{value}" for name, value in sorted(query.items())]
        text = "GET" + "\n" * 12 + "\n".join(lines)
        signature = hmac.digest(base64.b64decode(key), text.encode(), "sha256")
        signed = f"SharedKey {account}:{base64.b64encode(signature).decode()}"
        return Request(address, headers={**headers, "Authorization": signed})
    if not token:
        return None
    # as obstore takes it apart: a token may be set with its escapes or without
    members = [member.partition("=") for member in token.lstrip("?").split("&")]
    pairs = urlencode([(name, value) for name, _, value in members], quote_via=quote, safe="")
    return Request(f"{address}&{pairs}", headers=headers)
