"""Pages of lists that are parsed here."""

import pytest

from topicstream.addons.cloud.listing import MOST_BYTES, parse_page

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
