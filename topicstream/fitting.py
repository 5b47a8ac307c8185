"""``topicstream.fit``: topics of documents in memory, in one line of Python."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import fields
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.base.errors import UsageError
from topicstream.base.shown import ShownTable
from topicstream.corpus.reader import Corpus
from topicstream.display.passages import Texts, skip_duplicates
from topicstream.display.topic_list import TopicList
from topicstream.ingestion.config import IngestConfig
from topicstream.ingestion.pipeline import ingest
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.model.edits import apply_view, view_of
from topicstream.model.topic_kinds import largest_topics
from topicstream.training.loop import train
from topicstream.verbs import TopicModel

CANDIDATES = 10
"""Documents of a topic that are compared for each quote that is asked for."""
DEFAULTS = {"heldout": 0, "keep_text": True}
"""Options of the ingest where others are not given."""
SHARED = ("force", "mem_limit", "progress", "scheduler")
"""Options that ingest and training share."""


def fit(
    documents: Any, topics: int = 20, *, folder: str | Path | None = None, **options: Any
) -> Fit:
    """Learn the topics of documents in memory.

    Parameters
    ----------
    documents
        Texts: a list of strings or of dicts, a data frame, an Arrow table, or paths of files.
    topics
        Number of topics.
    folder
        Folder for the store (``corpus.zarr``) and the model (``model``), which stay there. By
        default they are temporary, and go with the last of the result, its model and its corpus.
    options
        Options of ``topicstream.ingest`` and ``topicstream.train``, such as
        ``text_field="abstract"``, ``stopwords="german"``, ``seed=2``. No document is set aside
        unless ``heldout`` is given. The store keeps the texts, which quotes come from, unless
        ``keep_text=False``.

    Returns
    -------
    Fit
        The model, its topics, and tables of documents and shares.

    Raises
    ------
    UsageError
        For options that neither function has.
    InputError
        For documents that cannot be read, or from which no word is kept.
    DoesNotFit
        Where memory or disk cannot hold the run.

    Examples
    --------
    >>> texts = ["ships and sails", "sails and harbours", "bread and butter", "butter and flour"]
    >>> fit = topicstream.fit(texts * 10, 2, min_df=1, max_df=1.0, progress=False)
    >>> len(fit.topics), fit.model.n_topics
    (2, 2)
    """
    ingest_names = {field.name for field in fields(IngestConfig)} - {"documents", "out"}
    of_ingest = {name: value for name, value in options.items() if name in ingest_names}
    of_train = {
        name: value for name, value in options.items() if name not in ingest_names or name in SHARED
    }
    for name in ("corpus", "model"):
        if name in of_train:
            raise UsageError(f"fit: give folder=, which holds the store and the model, not {name}=")
    home = Path(tempfile.mkdtemp(prefix="topics-fit-")) if folder is None else Path(folder)
    home.mkdir(parents=True, exist_ok=True)
    try:
        ingest(documents, home / "corpus.zarr", **(DEFAULTS | of_ingest))
        train(home / "corpus.zarr", home / "model", topics=topics, **of_train)
    except BaseException:
        if folder is None:
            shutil.rmtree(home, ignore_errors=True)
        raise
    return Fit(home, temporary=folder is None)


class Fit:
    """Topics of documents in memory.

    It prints as the list of its topics.

    Attributes
    ----------
    folder
        Folder of the store and the model.
    model
        The ``TopicModel``.
    corpus
        The ``Corpus``.
    """

    def __init__(self, folder: Path, *, temporary: bool) -> None:
        self.folder = folder
        self.corpus = Corpus.open(folder / "corpus.zarr")
        self.model = TopicModel.open(folder / "model")
        if temporary:
            _remove_with_last(folder, [self, self.model, self.corpus])

    @cached_property
    def topics(self) -> TopicList:
        """Return the topics by number, with their NPMI in these documents."""
        return self.model.topics.score(self.corpus)

    @cached_property
    def theta(self) -> Any:
        """Return the topics' shares of each document as a ``pandas.DataFrame``.

        A row per document by its id, a column per topic by its number. It needs pandas.
        """
        pandas = _import_pandas()
        columns = self.model.topic_ids.tolist()
        return pandas.DataFrame(self._shares, index=self._index(), columns=columns)

    @cached_property
    def documents(self) -> Any:
        """Return the documents as a ``pandas.DataFrame``.

        Columns: the metadata of the store, ``topic`` (the largest, but for a background),
        ``share`` (of it) and, where the store keeps it, ``text``. A row per document
        by its id. It needs pandas.
        """
        _import_pandas()
        columns = [name for name in self._table.column_names if name not in ("id", "source")]
        frame = self._table.select(columns).to_pandas()
        frame.index = self._index()
        largest = largest_topics(self._shares, apply_view(self.model, view_of(self.model)))
        frame["topic"] = self.model.topic_ids[largest]
        frame["share"] = self._shares[np.arange(len(largest)), largest]
        if self.corpus.manifest.texts is not None:
            frame["text"] = self.corpus.texts()
        return frame

    def quotes(self, topic: int, n: int = 3, characters: int = 300) -> ShownTable:
        """Quote the documents with the largest share of a topic.

        Parameters
        ----------
        topic
            Number of the topic.
        n
            Number of quotes. Near-duplicates of a quoted document are skipped.
        characters
            Length of a quote: the part with most of the topic's first words.

        Returns
        -------
        ShownTable
            id, share and text.

        Raises
        ------
        UsageError
            If there is no such topic, or the store keeps no texts.
        """
        numbers = self.model.topic_ids.tolist()
        if topic not in numbers:
            raise UsageError(f"quotes: there is no topic {topic}")
        shares = self._shares[:, numbers.index(topic)]
        best = np.argsort(-shares, kind="stable")[: CANDIDATES * n].tolist()
        if self.corpus.manifest.texts is None:
            raise UsageError("quotes: the texts were not kept; leave out keep_text=False")
        texts = self._texts(best)
        rows = [best[i] for i in skip_duplicates([texts.words(row) for row in best])][:n]
        words = next(topic_shown.words for topic_shown in self.topics if topic_shown.id == topic)
        passages = [texts.passage(row, words, characters) for row in rows]
        table = pa.table(
            {
                "id": self._table["id"].take(pa.array(rows, pa.int64())),
                "share": pa.array(shares[rows].astype(np.float64)),
                "text": pa.array([part.text if part else "" for part in passages], pa.string()),
            }
        )
        return ShownTable(table, percent=["share"], width=characters + 10)

    def __repr__(self) -> str:
        return f"{self.corpus!r}\n{self.topics!r}"

    def _repr_html_(self) -> str:
        """Show the corpus and the topics as an HTML table."""
        return f"<p>{escape(repr(self.corpus))}</p>{self.topics._repr_html_()}"

    @cached_property
    def _table(self) -> pa.Table:
        """Read the metadata of the documents, in the order of ``_shares``."""
        columns = ["id", *(name for name in self.corpus.manifest.columns if name != "id")]
        batches = [batch.select(columns) for batch in self.corpus.documents(columns[1:])]
        return pa.Table.from_batches(batches)

    @cached_property
    def _shares(self) -> np.ndarray:
        """Infer the topics' shares of the documents, float32[D, K]."""
        return self.model.transform(self.corpus, progress=False)

    def _texts(self, rows: list[int]) -> Texts:
        """Read the texts of some documents for passages."""
        tokenizer = self.corpus.manifest.tokenizer
        recipe = Recipe.from_json(tokenizer) if tokenizer else Recipe()
        stored = zip(rows, self.corpus.texts(rows), strict=True)
        return Texts(recipe, {row: " ".join(text.split()) for row, text in stored if text})

    def _index(self) -> Any:
        """Return the ids of the documents as an index of pandas."""
        return _import_pandas().Index(self._table["id"].to_pylist(), name="id")


def _remove_with_last(folder: Path, users: Sequence[object]) -> None:
    """Remove a folder as soon as none of the objects that read it is left."""
    present = set(range(len(users)))

    def leave(number: int) -> None:
        present.discard(number)
        if not present:
            shutil.rmtree(folder, ignore_errors=True)

    for number, user in enumerate(users):
        weakref.finalize(user, leave, number)


def _import_pandas() -> Any:
    """Import pandas, or raise ImportError with the command that installs it."""
    try:
        import pandas
    except ImportError as e:
        raise ImportError("data frames need pandas: pip install pandas") from e
    return pandas
