"""Storage blocks decoded ahead of the workers, each once."""

from __future__ import annotations

import pytest

from tests.small_store import planted, store
from topicstream.base.errors import StoreError
from topicstream.corpus.reader import Corpus
from topicstream.training.loop import train


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A store of several storage blocks."""
    counts, _ = planted(1, 300, 200, 4)
    made = store(tmp_path_factory.mktemp("ahead") / "c.zarr", counts, counts[:0], blocks=12)
    assert len(made.part().blocks) > 4
    return made


@pytest.mark.quick("0")
@pytest.mark.parametrize("prefetch", [0, 1, 2, 50])
def test_every_block_once_in_any_order(corpus, prefetch, monkeypatch):
    grid = corpus.grid()
    numbers = grid.order("shuffled", 3, 1)
    decoded: list[int] = []
    decode = Corpus.decode

    def counted(self: Corpus, storage: int, heldout: bool = False, axes: tuple[str, ...] = ()):
        decoded.append(storage)
        return decode(self, storage, heldout)

    monkeypatch.setattr(Corpus, "decode", counted)
    ahead = corpus.decoded(numbers, grid, prefetch)
    for mine, storage in zip(ahead, grid.storage[numbers], strict=True):
        assert (mine.words == decode(corpus, int(storage)).words).all()
    assert sorted(decoded) == list(range(len(grid)))


@pytest.mark.parametrize("threads", [1, 3])
def test_damage_ends_the_pass(corpus, tmp_path, monkeypatch, threads):
    decode = Corpus.decode
    seen = list[int]()

    def broken(self: Corpus, storage: int, heldout: bool = False, axes: tuple[str, ...] = ()):
        seen.append(storage)
        if len(seen) > len(corpus.part().blocks):  # the grid is cut
            raise StoreError(f"block {storage} is damaged")
        return decode(self, storage, heldout, axes)

    monkeypatch.setattr(Corpus, "decode", broken)
    with pytest.raises(StoreError, match="is damaged"):
        train(
            corpus.path,
            tmp_path / "m",
            algo="atbp",
            topics=3,
            start="random",
            threads=threads,
            progress=False,
        )
