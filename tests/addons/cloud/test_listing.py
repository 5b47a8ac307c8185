"""Pages of lists that are parsed here."""

import itertools

import pytest

from topicstream.addons.cloud import listing, remote
from topicstream.addons.cloud.listing import MOST_BYTES, list_all_keys, parse_page

LIST = b'<r xmlns="http://s3"><Contents><Key>a//b</Key><Size>7</Size></Contents></r>'


def test_names_of_a_page_have_no_namespace():
    obstore = pytest.importorskip("obstore", reason="the extra cloud is not installed")
    assert parse_page(obstore, LIST).findtext("Contents/Key") == "a//b"


@pytest.mark.parametrize(
    "answer",
    [
        b'<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><r>&b;</r>',
        LIST[:-9],
        b" " * (MOST_BYTES + 1),
    ],
    ids=["entities", "cut short", "too large"],
)
def test_what_is_no_list_is_an_error_of_the_answer(answer):
    obstore = pytest.importorskip("obstore", reason="the extra cloud is not installed")
    with pytest.raises(obstore.exceptions.GenericError, match="response body error"):
        parse_page(obstore, answer)


def page_of(token: str) -> bytes:
    """A page of one key, followed by the page of a token."""
    following = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}"
    end = f"{following}</NextContinuationToken>" if token else ""
    return f"<r><Contents><Key>a//b</Key><Size>7</Size></Contents>{end}</r>".encode()


def bucket(obstore):
    """A bucket of S3, which nobody asks."""
    return obstore.store.S3Store("corpora", skip_signature=True)


@pytest.mark.parametrize("tokens", [["1", "1"], ["1", "2", "3", "1"]], ids=["same", "circle"])
def test_a_list_without_end_is_stopped_by_one_line(monkeypatch, tokens):
    obstore = pytest.importorskip("obstore", reason="the extra cloud is not installed")
    answers = iter(tokens)
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    monkeypatch.setattr(listing, "_request", lambda *_: page_of(next(answers)))
    with pytest.raises(obstore.exceptions.GenericError) as error:
        list_all_keys(obstore, bucket(obstore), "raw", {})
    line = str(remote._translate_error("s3://corpora/raw", error.value, "read"))
    assert (
        line.startswith("s3://corpora/raw: the server repeats the same page") and "\n" not in line
    )
    assert next(answers, None) is None


def test_a_list_of_several_pages_is_read_to_its_end(monkeypatch):
    obstore = pytest.importorskip("obstore", reason="the extra cloud is not installed")
    answers = iter(["1", "2", ""])
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    monkeypatch.setattr(listing, "_request", lambda *_: page_of(next(answers)))
    assert [entry["path"] for entry in list_all_keys(obstore, bucket(obstore), "raw", {})] == [
        "a//b"
    ] * 3


def test_a_list_of_obstore_without_end_is_stopped():
    obstore = pytest.importorskip("obstore", reason="the extra cloud is not installed")
    page = [{"path": "raw/a.txt"}, {"path": "raw/b.txt"}]
    assert list(remote._read_pages(obstore, [page, []])) == page
    with pytest.raises(obstore.exceptions.GenericError, match="repeats a continuation token"):
        list(remote._read_pages(obstore, itertools.repeat(page)))
