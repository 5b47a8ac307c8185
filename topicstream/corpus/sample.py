"""A share of the training documents as a corpus: the data of ``train --sample``.

A hash of its id decides if a document is in a sample, whatever the seed, order or length of the
store. A sample of 20 % contains the sample of 10 %. A sampled corpus reads like a store with only
these training documents. The vocabulary and the held-out documents are those of the whole store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa

from topicstream.base.errors import InputError, UsageError
from topicstream.corpus.documents import Placed, hash_ids
from topicstream.corpus.format import PARTS
from topicstream.corpus.grid import Decoded
from topicstream.corpus.manifest import BlockEntry, block_edges, part_of
from topicstream.corpus.reader import Corpus


class SampledCorpus(Corpus):
    """A share of the training documents of a corpus, or all but this share.

    The training part is read once, to count its words.

    Parameters
    ----------
    full
        The corpus.
    share
        Share of its training documents, above 0 and below 1.
    complement
        Take the documents that are not in the sample.
    """

    def __init__(self, full: Corpus, share: float, complement: bool = False) -> None:
        super().__init__(full.path, full.manifest)
        self._full = full
        self.weights = full.weights
        blocks = full.part().blocks
        self._first = block_edges(blocks)
        self._in_sample = np.zeros(self._first[-1], bool)
        threshold = np.uint64(min(int(share * 2.0**64), 2**64 - 1))
        for batch, _, block, row in full.placed(["id"], ("train",)):
            # the high half of the hash decides which documents `ingest --heldout` sets aside
            _, low = hash_ids(batch.column("id"))
            self._in_sample[self._first[block] + row] = (low < threshold) ^ complement
        self._n_w = np.zeros(full.n_words)
        self._df = np.zeros(full.n_words, np.int64)
        counted = [self._count(s, entry) for s, entry in enumerate(blocks)]
        train = part_of(counted, full.part().folder)
        train = msgspec.structs.replace(train, bytes=full.part().bytes)
        parts = {**full.manifest.parts, "train": train}
        self.manifest = msgspec.structs.replace(full.manifest, parts=parts)
        self.sample = {"share": share, "rest": complement, "of": full.n_docs}

    @property
    def full_corpus(self) -> Corpus:
        """Return the corpus that the sample was drawn from."""
        return self._full

    def _count(self, storage: int, entry: BlockEntry) -> BlockEntry:
        """Count the words of the sampled documents of a block, and make its entry."""
        raw = self.decode(storage)
        self._n_w += np.bincount(raw.words, weights=raw.counts, minlength=self.n_words)
        self._df += np.bincount(raw.words, minlength=self.n_words)
        tokens = raw.counts.sum(dtype=np.float64 if self.weighted else np.int64).item()
        return BlockEntry(
            rows=entry.rows,
            docs=len(raw.lengths),
            cells=len(raw.words),
            tokens=tokens,
            files=entry.files,
        )

    def _sampled(self, storage: int) -> np.ndarray:
        """Mark the sampled documents of a storage block, bool[docs]."""
        return np.asarray(self._in_sample[self._first[storage] : self._first[storage + 1]])

    # -- blocks
    # ----------------------------------------------------------------------------------------------
    def decode(self, storage: int, heldout: bool = False, axes: Sequence[str] = ()) -> Decoded:
        """Decode one storage block, leaving out training documents outside the sample."""
        raw = self.full_corpus.decode(storage, heldout, axes if heldout else ())
        if not heldout:
            sampled = self._sampled(storage)
            raw.drop(np.flatnonzero(~sampled))
            raw.lengths = raw.lengths[sampled]
        return raw

    def lengths(self, storage: int, heldout: bool = False) -> np.ndarray:
        """Count the cells of each sampled document of one storage block."""
        lengths = self.full_corpus.lengths(storage, heldout)
        return lengths if heldout else lengths[self._sampled(storage)]

    def removed(self) -> np.ndarray:
        """List the removed held-out documents.

        Removed training documents are in no sample.
        """
        listed = self.full_corpus.removed()
        return np.asarray(listed[listed[:, 1] == 1])

    def word_counts(self) -> np.ndarray:
        """Sum the counts of each word over the sample, float64[W]."""
        return self._n_w.copy()

    def document_counts(self) -> np.ndarray:
        """Count the sampled documents with each word, int64[W]."""
        return self._df.copy()

    # -- documents
    # ----------------------------------------------------------------------------------------------
    def within(
        self, part: np.ndarray, block: np.ndarray, row: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the positions of the sampled documents, and their rows in the sample."""
        in_sample = part == 1
        rows = row.copy()
        for s in np.unique(block[~in_sample]).tolist():
            in_block = np.flatnonzero((part == 0) & (block == s))
            sampled = self._sampled(s)
            in_sample[in_block] = sampled[row[in_block]]
            rows[in_block] = np.cumsum(sampled)[row[in_block]] - 1
        return np.flatnonzero(in_sample), rows[in_sample]

    def placed(
        self, columns: list[str] | None, parts: str | Sequence[str] = PARTS, first: int = 0
    ) -> Iterator[Placed]:
        """Stream the sampled documents with their places, skipping the ``first`` ones."""
        for batch, part, block, row in self.full_corpus.placed(columns, parts):
            positions, rows = self.within(part, block, row)
            skipped = min(first, len(positions))
            first -= skipped
            positions = positions[skipped:]
            if len(positions):
                documents = batch.take(pa.array(positions))
                yield documents, part[positions], block[positions], rows[skipped:]


def select_sample(corpus: Corpus, share: float) -> Corpus:
    """Select a share of the training documents.

    Raises
    ------
    UsageError
        If the share is not above 0, and at most 1.
    InputError
        If none of the documents has a word.
    """
    if not 0 < share <= 1:
        raise UsageError(f"--sample {share:g}: expected a share above 0, such as 0.1 or 10%")
    sample = corpus if share == 1 else SampledCorpus(corpus, share)
    if sample.n_cells == 0:
        raise InputError(
            f"--sample {share:.3g}: the sample of {corpus.n_docs:,} training documents contains "
            f"none with a word; use a larger share"
        )
    return sample


def select_learned(corpus: Corpus, share: float | None) -> Corpus:
    """Select the training documents that a model or run learned from.

    Parameters
    ----------
    corpus
        The corpus.
    share
        The ``sample`` of the model's or run's manifest. None selects all documents.
    """
    return corpus if share is None else select_sample(corpus, share)


def select_rest(corpus: Corpus, share: float | None) -> Corpus:
    """Select the training documents outside a model's sample.

    Raises
    ------
    UsageError
        If there are none.
    """
    if share is None or share == 1:
        raise UsageError(
            "the model was trained on all documents, so there are no others; only `topics train "
            "--sample 10%` leaves some out"
        )
    return SampledCorpus(corpus, share, complement=True)
