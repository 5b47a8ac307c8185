"""Which words are kept and how many documents are set aside, at the edges of the defaults."""

from __future__ import annotations

import pytest

from topicstream.ingestion.settings import Heldout, make_options, word_limits


@pytest.mark.parametrize(
    ("documents", "least", "most"),
    [
        (99, 1, None),
        (100, 1, 50),
        (101, 1, 50),
        (199, 1, 99),
        (200, 2, 100),
        (499, 4, 249),
        (500, 5, 250),
        (10_000, 5, 5_000),
    ],
)
def test_words_of_five_documents_but_no_more_than_one_in_a_hundred(documents, least, most):
    limits = word_limits(make_options(), documents, True)
    assert (limits.min_df, limits.max_df) == (least, most)
    counts = word_limits(make_options(), documents, False)
    assert (counts.min_df, counts.max_df) == (1, None)


def test_shares_of_documents_are_rounded_inwards():
    """A word of 2 % of 149 documents is in 3 of them or more; of half, in 74 or fewer."""
    limits = word_limits(make_options(min_df="2%", max_df="50%"), 149, True)
    assert (limits.min_df, limits.max_df) == (3, 74)
    # 7 % of 100 is 7.000000000000001 in binary
    assert word_limits(make_options(min_df="7%"), 100, True).min_df == 7
    assert word_limits(make_options(min_df=0.001), 20, True).min_df == 1
    named = word_limits(make_options(min_df=3, max_df=9, min_count=4, max_vocab=50), 20, True)
    assert (named.min_df, named.max_df, named.min_count, named.max_vocab) == (3, 9, 4, 50)


@pytest.mark.parametrize(
    ("documents", "number"),
    [(9, 0), (10, 1), (499, 49), (500, 50), (4_999, 50), (5_000, None), (10**6, None)],
)
def test_one_in_a_hundred_at_least_fifty_at_most_a_tenth(documents, number):
    assert Heldout.parse(None).number_to_hold_out(documents) == number


def test_groups_are_held_out_until_the_number_is_reached():
    whole = Heldout.parse("default", "author")
    assert whole.number_to_hold_out(5_001) == 51 and whole.number_to_hold_out(5_000) == 50
    assert Heldout.parse("10%", "author").number_to_hold_out(91) == 10
    assert Heldout.parse("10%").number_to_hold_out(91) is None
    assert Heldout.parse(30).number_to_hold_out(20) == 20
    assert Heldout.parse(30).number_to_hold_out(31) == 30
    assert Heldout.parse(0).number_to_hold_out(31) is None


def test_twice_what_was_asked_for_is_not_too_many():
    ten = Heldout.parse("10%", "author")
    assert not ten.too_many(20, 100) and ten.too_many(21, 100)
    few = Heldout.parse(3, "author")
    assert not few.too_many(10, 100) and few.too_many(11, 100)  # a tenth is always allowed


def test_a_share_is_below_one():
    assert Heldout.parse(0.99).share == 0.99 and Heldout.parse("0").share == 0
    assert Heldout.parse(1).documents == 1 and Heldout.parse("99.5%").share == pytest.approx(0.995)
