"""A method that reads metadata is refused in one line where documents come without."""

from __future__ import annotations

import numpy as np
import pytest

from tests.small_store import planted, store
from topicstream.base.errors import InputError
from topicstream.evaluation.visiting import document_shares, infer_shares
from topicstream.inference import methods
from topicstream.inference.methods.bp import BP
from topicstream.model.topic_model import TopicModel

WORDS = 40


class ByForum(BP):
    """A method that reads a field of each document."""

    name = "by-forum"
    columns = ("forum",)

    @classmethod
    def required_by(cls, model):
        return True


class AllFirst(ByForum):
    """A method that reads all documents first."""

    name = "all-first"
    columns = ()
    needs_all = True


@pytest.fixture
def made(tmp_path):
    matrix, phi = planted(3, 30, WORDS, 3)
    words = [f"word{i}" for i in range(WORDS)]
    model = TopicModel.from_arrays(np.floor(phi * 3000), words, np.full(3, 0.1), 0.01)
    return model, store(tmp_path / "c.zarr", matrix, matrix[:5])


@pytest.mark.parametrize(
    "kind, reason",
    [
        (ByForum, "method by-forum: reads forum of each document, which only `topics infer`"),
        (AllFirst, "method all-first: reads all documents before it answers"),
    ],
)
def test_blocks_of_a_store_hold_no_metadata(made, kind, reason, monkeypatch):
    model, corpus = made
    monkeypatch.setattr(methods, "method_of", lambda model: kind.name)
    monkeypatch.setattr(methods, "find_method", lambda name: kind)
    for call in (
        lambda: list(document_shares(model, corpus)),
        lambda: infer_shares(model, corpus, np.arange(3)),
    ):
        with pytest.raises(InputError, match=reason):
            call()
