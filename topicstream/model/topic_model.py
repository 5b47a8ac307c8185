"""``TopicModel``: topics over a vocabulary, with priors and provenance.

The table is in memory, or its rows are read from disk as needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike

from topicstream.base.errors import StoreError, UsageError, show_addresses
from topicstream.base.files.openings import Opening
from topicstream.base.files.plain import refuse_linked_folders
from topicstream.base.machine import versions
from topicstream.base.places import places
from topicstream.base.records import plain
from topicstream.base.text import counted, noun_of
from topicstream.corpus.vocabulary import Vocabulary
from topicstream.model.arrays import StoredArray
from topicstream.model.manifest import (
    Origin,
    as_origin,
    origin_of,
    read_ids,
    read_manifest,
    write_ids,
)
from topicstream.model.store import ModelWriter, StoredTable, check_file, read_history
from topicstream.model.topic_kinds import BACKGROUND, describe_topics, kinds_of_origin, topic_kinds
from topicstream.model.weighting import Weights

VALUES = 1 << 20
"""Values of the table that ``pair_probabilities`` holds at a time."""


class TopicModel:
    """A topic model: K topics over W words, with priors and provenance.

    p(w|k) = (phi[w, k] + beta) / (totals[k] + W beta).

    Arrays have the topics in the order of the trained table. ``column_ids[k]`` is the number that
    `topics show` and every table print for column k. ``open`` reads a model from disk and
    ``from_arrays`` makes one from counts.

    Parameters
    ----------
    vocabulary
        Words, counts, document frequencies.
    totals
        Column sums of phi, float64[K].
    alpha
        Document-topic prior of each topic, float64[K].
    beta
        Topic-word prior of each word.
    phi
        The table, float32[W, K], or None if its rows stay on disk.
    stored
        The table on disk, or None for a model in memory.
    manifest
        Origin of the model.
    path
        Folder of the model, or None for a model in memory.

    Attributes
    ----------
    phi
        Topic-word counts without the prior, float32[W, K], or None if rows stay on disk.
    totals
        Column sums of phi, float64[K].
    sizes
        Tokens of the topics, float64[K]: totals without the pseudo-counts of seed words.
    weights
        Weights of cells if the model was trained on weighted cells, or None.
    seeds
        Pseudo-counts of seed words, included in phi, totals, ``rows`` and ``spans``, or None.
    alpha, beta
        Document-topic prior of each topic, float64[K], and topic-word prior of each word.
    vocabulary
        Words, counts, document frequencies.
    manifest
        Origin of the model: ``topicstream.model.manifest``.

    Examples
    --------
    >>> model = topicstream.TopicModel.open("model")
    >>> model.n_topics, model.transform(["the captain of the crew"]).shape
    (4, (1, 4))
    >>> model.top_words(3).column_names
    ['topic', 'share', 'words', 'p', 'kind']
    >>> len(model.words) == model.n_words
    True

    References
    ----------
    Blei, D. M., Ng, A. Y. and Jordan, M. I. (2003). Latent Dirichlet allocation. Journal of Machine
    Learning Research 3, 993-1022.

    Zeng, J., Cheung, W. K. and Liu, J. (2013). Learning topic models by belief propagation. IEEE
    Transactions on Pattern Analysis and Machine Intelligence 35(5), 1121-1134.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        totals: np.ndarray,
        alpha: np.ndarray,
        beta: float,
        *,
        phi: np.ndarray | None = None,
        stored: StoredArray | None = None,
        manifest: Origin | None = None,
        path: Path | None = None,
    ) -> None:
        self.vocabulary = vocabulary
        self.sizes = totals
        self.alpha = alpha
        self.beta = float(beta)
        self.manifest = manifest or Origin()
        self.path = path
        self._opening: Opening | None = None
        self.phi = phi
        self._stored = stored
        self.totals = totals
        self.seeds = None
        if stored is not None:  # counts in memory have the pseudo-counts in them
            self.seeds = self.manifest.seed_counts(vocabulary, len(alpha))
        if self.seeds is not None:
            self.totals = totals + self.seeds.totals[: len(totals)]
        self.weights = None
        if self.manifest.weighting is not None:
            self.weights = Weights.from_record(self.manifest.weighting, vocabulary.df)

    # -- making
    @classmethod
    def from_arrays(
        cls,
        phi: ArrayLike,
        words: Any,
        alpha: ArrayLike,
        beta: float,
        *,
        counts: ArrayLike | None = None,
        df: ArrayLike | None = None,
        **manifest: Any,
    ) -> Self:
        """Make a model in memory from arrays.

        Parameters
        ----------
        phi
            Counts [W, K] >= 0. Padding columns past the length of alpha are dropped.
        words
            W strings, or a Vocabulary.
        alpha
            Document-topic prior, [K] or a scalar.
        beta
            Topic-word prior.
        counts, df
            Occurrences and documents of each word.
        manifest
            Origin of the model: engine, options, seed, corpus, ...

        Raises
        ------
        ValueError
            If a count is negative or not finite, or if words and rows differ in number.
        """
        table = np.asarray(phi)
        topics = table.shape[1] if np.ndim(alpha) == 0 else np.shape(alpha)[0]
        table = np.ascontiguousarray(table[:, :topics], np.float32)
        if not (table.min(initial=0) >= 0 and table.max(initial=0) < np.inf):  # NaN fails both
            raise ValueError("phi: a number is negative or not finite")
        vocabulary = words
        if not isinstance(words, Vocabulary):
            vocabulary = Vocabulary.from_words(words, counts, df)
        if len(vocabulary) != len(table):
            raise ValueError(f"{len(vocabulary)} words for {len(table)} rows of phi")
        totals = table.sum(axis=0, dtype=np.float64)
        alpha = np.broadcast_to(np.asarray(alpha, np.float64), (topics,)).copy()
        return cls(vocabulary, totals, alpha, beta, phi=table, manifest=as_origin(manifest))

    @classmethod
    def open(
        cls, path: str | Path, memory_limit: int | None = None, *, dense: bool = False
    ) -> Self:
        """Open the folder of a model, or its address.

        Parameters
        ----------
        path
            The folder or address.
        memory_limit
            Bytes that the table (4 W K bytes) may take. A larger table stays on disk, where
            ``rows`` reads it. None: always in memory.
        dense
            Accept a model of dense rows, too.

        Raises
        ------
        StoreError
            If a file is missing, damaged or of another version.
        UsageError
            If the model has no topics and ``dense`` is not set.
        """
        folder = Path(places().resolve(path))
        # a published model: all its files from one version, whatever the link does meanwhile
        if folder.is_symlink():
            folder = folder.resolve()
        opening = Opening(folder, "model")
        manifest = read_manifest(folder)
        if manifest.width and not dense:
            raise UsageError(
                f"{folder}: a model of {noun_of(manifest.width)}, which has no topics; `topics "
                f"show`, `infer` and `eval` take it"
            )
        topics = manifest.files.topics
        vocab = manifest.files.vocab
        refuse_linked_folders(folder, [topics.name, f"{topics.name}/c", "checkpoints", "work"])
        stored = StoredArray(
            folder / topics.name, topics.crc32c, (manifest.words, manifest.topics), counts=True
        )
        alpha = np.array(stored.attributes.alpha)
        beta = stored.attributes.beta
        if len(alpha) != manifest.topics:
            raise StoreError(
                f"{stored.folder}/zarr.json: alpha disagrees with the manifest; restore the "
                f"file or train again"
            )
        vocabulary = Vocabulary.read(check_file(folder, vocab))
        if len(vocabulary) != manifest.words:
            raise StoreError(
                f"{folder}/{vocab.name}: {len(vocabulary)} words where the model has "
                f"{manifest.words}; restore the file or train again"
            )
        model = cls(
            vocabulary, stored.totals, alpha, beta, stored=stored, manifest=manifest, path=folder
        )
        model._opening = opening
        if memory_limit is None or 4 * manifest.words * manifest.topics <= memory_limit:
            model.load()
        return model

    def __reduce__(self) -> Any:
        """Pickle a stored model as its path, so that the receiver opens it again."""
        if self.path is None:
            return super().__reduce__()
        return partial(type(self).open, dense=True), (
            places().origin(self.path) or self.path.absolute(),
            -1 if self.phi is None else None,
        )

    def __copy__(self) -> Self:
        """Copy the object as it is: ``__reduce__`` would open the model again."""
        copied = object.__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    @property
    def name(self) -> str:
        """Return the folder or address of the model for people, or "in memory"."""
        return show_addresses(str(self.path or "in memory"))

    def __repr__(self) -> str:
        place = repr(self.name) if self.path else self.name
        engine = f", {self.manifest.engine}" if self.manifest.engine else ""
        topics = describe_topics(self.n_topics, self.background_topic)
        return f"TopicModel({place}: {topics}, {counted(self.n_words, 'word')}{engine})"

    def load(self) -> None:
        """Bring the table into memory (4 W K bytes)."""
        if self.phi is None:
            self.phi = self.rows(np.arange(self.n_words))

    # -- reading
    @property
    def n_words(self) -> int:
        """Count the words of the vocabulary, W."""
        return len(self.vocabulary)

    @property
    def n_topics(self) -> int:
        """Count the topics of the table, K."""
        return len(self.alpha)

    @property
    def column_ids(self) -> np.ndarray:
        """Return the number of each topic, int64[K], by column of ``phi`` and other arrays.

        Numbers stay with topics over alignments (`topics retrain`, `update`), columns do not.
        """
        return np.array(read_ids(self.path, self.n_topics).ids, np.int64)

    @cached_property
    def kinds(self) -> list[str]:
        """Return the kind of each topic by column: ``live``, ``dead`` or ``background``.

        ``topicstream.model.topic_kinds`` defines the kinds.
        """
        return topic_kinds(self, self.known_kinds)

    @cached_property
    def known_kinds(self) -> dict[int, str]:
        """Return the kinds by column that the training decided, without a look at the table."""
        return kinds_of_origin(self)

    @property
    def background_topic(self) -> int | None:
        """Return the number of the background topic, None without one."""
        for column, kind in self.known_kinds.items():
            if kind == BACKGROUND:
                return int(self.column_ids[column])
        return None

    @cached_property
    def words(self) -> list[str]:
        """Return the W words by id, as Python strings.

        ``vocabulary.words`` has them as an Arrow array.
        """
        return list(self.vocabulary)

    def table(self, name: str) -> StoredTable:
        """Return a table that the engine stored beside the topics.

        Raises
        ------
        StoreError
            The model has no such table.
        """
        if self.path is None:
            raise StoreError(f"a model in memory has no table of {name}")
        return StoredTable(self.path, self.manifest, name)

    @cached_property
    def coefficients(self) -> np.ndarray | None:
        """Return the coefficients of the documents' covariates, float64[F, K], or None.

        alpha of a document is exp(x @ coefficients), with x of
        ``decode_design(manifest.covariates)``.
        """
        if self.path is None or self.manifest.covariates is None:
            return None
        if "lambda" not in self.manifest.tables:  # saved without it
            return None
        table = self.table("lambda")
        return table.gather(np.arange(table.n_rows)).astype(np.float64)

    @cached_property
    def cluster_sizes(self) -> np.ndarray | None:
        """Return the documents of each cluster, float64[K], or None for a topic model.

        A document of such a model has one cluster.
        """
        if self.path is None or self.manifest.width or "sizes" not in self.manifest.tables:
            return None
        sizes: np.ndarray | None = self.table("sizes").gather(np.arange(1))[0].astype(np.float64)
        return sizes

    def rows(self, ids: ArrayLike, out: np.ndarray | None = None) -> np.ndarray:
        """Return the counts of some words, float32[n, K].

        Pseudo-counts of seed words are included. Several threads may call it.

        Parameters
        ----------
        ids
            Word ids, [n].
        out
            float32[n, >= K], which receives the counts and is returned. Its padding is untouched.

        Raises
        ------
        ValueError
            An id is not in the vocabulary.
        """
        ids = np.asarray(ids, np.int64)
        if len(ids) and (ids.min() < 0 or ids.max() >= self.n_words):
            raise ValueError(f"word ids must lie in 0..{self.n_words - 1}")
        if out is None:
            out = np.empty((len(ids), self.n_topics), np.float32)
        if self.phi is not None:
            for first in range(0, len(ids), 1024):  # in pieces: no second copy of all rows
                piece = slice(first, first + 1024)
                out[piece, : self.n_topics] = self.phi[ids[piece]]
        else:
            assert self._stored is not None
            self._stored.gather(ids, out)
            if self.seeds is not None:
                self.seeds.add(out, *self.seeds.find(ids))
        return out

    def spans(self) -> Iterator[tuple[int, np.ndarray]]:
        """Stream (first word, float32[n, K]) over all words in order.

        A span has about 1 MiB. Buffers may be reused.
        """
        if self.phi is None:
            assert self._stored is not None
            for start, rows in self._stored.spans():
                yield start, rows if self.seeds is None else self.seeds.added(start, rows)
        else:
            step = max(1, (1 << 20) // (4 * self.n_topics))
            for start in range(0, self.n_words, step):
                yield start, self.phi[start : start + step]

    def counts(self) -> Iterator[tuple[int, np.ndarray]]:
        """Stream ``spans`` without pseudo-counts of seed words, as a model stores them."""
        if self.seeds is None or self._stored is None:
            return self.spans()
        return self._stored.spans()

    def probabilities(self, ids: ArrayLike) -> np.ndarray:
        """Compute p(w|k) of some words, float64[n, K].

        Over all words each column sums to 1.
        """
        return np.asarray((self.rows(ids) + self.beta) / self.norms)

    def pair_probabilities(self, words: np.ndarray, topics: np.ndarray) -> np.ndarray:
        """Compute p(w|k) of pairs of a word and a topic, float64[n].

        Rows are read in parts.
        """
        unique, place = np.unique(words, return_inverse=True)
        order = np.argsort(place, kind="stable")
        out = np.empty(len(words))
        step = max(1, VALUES // self.n_topics)
        for first in range(0, len(unique), step):
            part = unique[first : first + step]
            low, high = np.searchsorted(place[order], (first, first + len(part)))
            pairs = order[low:high]
            out[pairs] = self.probabilities(part)[place[pairs] - first, topics[pairs]]
        return out

    @property
    def topic_word(self) -> np.ndarray:
        """Return p(w|k), float32[K, W], whose rows sum to 1.

        It takes 4 K W bytes of memory.
        """
        out = np.empty((self.n_topics, self.n_words), np.float32)
        norms = self.norms
        for start, rows in self.spans():
            out[:, start : start + len(rows)] = ((rows + self.beta) / norms).T
        return out

    @property
    def shares(self) -> np.ndarray:
        """Return each topic's share of all tokens, float64[K]."""
        total = float(self.sizes.sum())
        return self.sizes / total if total > 0 else np.full(self.n_topics, 1.0 / self.n_topics)

    @property
    def history(self) -> list[dict[str, Any]]:
        """Return a record per pass, as training wrote them.

        It is empty for a model made in memory.
        """
        return read_history(self.path) if self.path else []

    @property
    def norms(self) -> np.ndarray:
        """Return totals + W beta, float64[K], the divisors of rows plus beta.

        A tiny number stands for zero.
        """
        return np.maximum(self.totals + self.n_words * self.beta, 1e-300)

    def content_hash(self) -> str:
        """Hash the words, the counts of the table, the priors and the seed words (sha256).

        Times, host and history are left out.
        """
        digest = hashlib.sha256(
            f"topics {self.n_words} {self.n_topics} {self.vocabulary.sha256}".encode()
        )
        digest.update(self.alpha.astype("<f8").tobytes())
        digest.update(np.float64(self.beta).astype("<f8").tobytes())
        for _, rows in self.counts():
            digest.update(np.ascontiguousarray(rows, "<f4").data)
        if self.seeds is not None:
            for numbers, kind in (
                (self.seeds.words, "<i8"),
                (self.seeds.topic, "<i8"),
                (self.seeds.weight, "<f8"),
            ):
                digest.update(np.ascontiguousarray(numbers, kind).data)
        return digest.hexdigest()

    # -- writing
    def save(self, path: str | Path, **manifest: Any) -> None:
        """Write the model to a folder.

        Readers never see a partial model: an older model at ``path`` stays readable until the new
        manifest replaces its manifest. Topics keep their numbers.

        Parameters
        ----------
        path
            The folder.
        manifest
            Parts of the origin that are added or replaced.
        """
        numbers = self.column_ids.tolist()
        about = as_origin({**plain(origin_of(self.manifest)), **manifest})
        seed_words = None if self.seeds is None else about.seed_words
        about = replace(about, versions=about.versions or versions(), seed_words=seed_words)
        with ModelWriter(path, self.n_words, self.n_topics) as writer:
            for start, rows in self.counts():
                writer.write_rows(start, rows)
            self.manifest = writer.commit(about, self.vocabulary, self.alpha, self.beta)
        write_ids(path, numbers)
        self.path = Path(path)
        if self._stored is not None:  # its files may be the ones just replaced
            self._stored = TopicModel.open(path, memory_limit=-1)._stored
