"""Storage blocks decoded ahead of the workers, each once."""

from __future__ import annotations

import numpy as np
import pytest

from tests.small_store import planted, store
from topicstream.corpus.reader import Corpus
from topicstream.errors import StoreError
from topicstream.training.threads import StorageAhead


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A store of several storage blocks."""
    counts, _ = planted(1, 300, 200, 4)
    made = store(tmp_path_factory.mktemp("ahead") / "c.zarr", counts, counts[:0], blocks=12)
    assert len(made.part().blocks) > 4
    return made


def values(corpus: Corpus, ahead: StorageAhead, numbers: np.ndarray) -> list[np.ndarray]:
    found = []
    for position in range(len(numbers)):
        found.append(np.array(ahead.get(position).words))
        ahead.done(position)
    return found


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
    ahead = StorageAhead(corpus, grid, numbers, prefetch)
    for mine, storage in zip(values(corpus, ahead, numbers), grid.storage[numbers], strict=True):
        assert (mine == decode(corpus, int(storage)).words).all()
    ahead.close()
    assert sorted(decoded) == list(range(len(grid)))


def test_damage_is_met_by_everybody(corpus, monkeypatch):
    def broken(self: Corpus, storage: int, heldout: bool = False, axes: tuple[str, ...] = ()):
        raise StoreError(f"block {storage} is damaged")

    grid = corpus.grid()
    monkeypatch.setattr(Corpus, "decode", broken)
    ahead = StorageAhead(corpus, grid, np.zeros(3, np.int64), 2)
    for position in range(3):
        with pytest.raises(StoreError, match="block 0 is damaged"):
            ahead.get(position)
    ahead.close()
