"""``topicstream.TopicModel``: a trained model with methods to infer, show and convert.

The base class, ``topicstream.model.topic_model.TopicModel``, is data. Everything below this module
takes and returns that.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from topicstream.base import plugins
from topicstream.base.records import Json
from topicstream.base.shown import ShownTable
from topicstream.model import topic_model as data
from topicstream.model.edits import apply_view, view_of
from topicstream.model.top import topic_table
from topicstream.model.topic_kinds import LIVE

if TYPE_CHECKING:
    from topicstream.display.topic_list import TopicList


class TopicModel(data.TopicModel):
    __doc__ = data.TopicModel.__doc__

    # Methods import what they call: a model that is only looked at does not load inference (0.5 s).

    def infer(self, documents: Any, **options: Any) -> Any:
        """Find the topics of documents, as ``topicstream.infer`` does.

        Parameters
        ----------
        documents
            A ``Corpus``, paths, or documents in memory.
        options
            Options of ``topicstream.infer`` (out, top, method, ...).

        Returns
        -------
        pyarrow.Table or dict
            The topics of the documents, or with ``out`` the summary of the file.
        """
        from topicstream.inference.infer import infer

        return infer(self, documents, **options)

    def theta(self, documents: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        """Stream the topics of documents as record batches.

        Parameters
        ----------
        documents
            A ``Corpus``, paths, or documents in memory.
        options
            Options of ``topicstream.infer`` (top, method, ...).

        Yields
        ------
        pyarrow.RecordBatch
            Columns id, topics, shares, tokens, oov_rate, flag.
        """
        from topicstream.inference.infer import answers

        batches: Iterator[pa.RecordBatch] = answers(self, documents, **options)
        return batches

    @property
    def topic_ids(self) -> np.ndarray:
        """Return the numbers of the topics as ``topics show`` prints them, int64[shown].

        They ascend. Column k of ``transform`` and row k of ``top_words`` are topic
        ``topic_ids[k]``. Arrays of the trained table (``phi``, ``alpha``, ``sizes``, ...) have the
        order of ``column_ids``.
        """
        return np.array(view_of(self).ids, np.int64)

    def transform(self, documents: Any, *, edits: bool = True, **options: Any) -> np.ndarray:
        """Return p(k|d) of documents, float32[D, K], with rows that sum to 1.

        Column k is topic ``topic_ids[k]``, as is row k of ``top_words``. A document without a known
        word gets the prior's mean.

        Parameters
        ----------
        documents
            A ``Corpus``, paths, or documents in memory.
        edits
            False: the topics as they were trained, in the order of their numbers.
        options
            Options of ``topicstream.infer`` (method, threads, ...).
        """
        topics = len(view_of(self, edits=edits))
        shares = [
            batch.column("shares").values.to_numpy().reshape(-1, topics)
            for batch in self.theta(documents, edits=edits, **options)
        ]
        return np.concatenate(shares) if shares else np.zeros((0, topics), np.float32)

    def export(self, out: str | Path, format: str | None = None, **options: Any) -> dict[str, Json]:
        """Write the model in another program's format, as ``topicstream.export_model`` does.

        Parameters
        ----------
        out
            File or folder to write.
        format
            Name of the format. None: by the name of ``out``.
        options
            Options of ``topicstream.export_model`` (corpus, force, ...).

        Returns
        -------
        dict
            The summary: format, out, topics, words, bytes, seconds.
        """
        export_model = plugins.find(plugins.FUNCTIONS, "export_model", "TopicModel.export")
        summary: dict[str, Json] = export_model(self, out, format=format, **options)
        return summary

    def convert(self, name: str) -> Any:
        """Convert into another program's object by a registered converter.

        The topics are those that are shown (``topics edit``). Other packages register converters
        as entry points of ``topicstream.converters``.

        Parameters
        ----------
        name
            Name of the converter, such as ``to_gensim``.

        Raises
        ------
        UsageError
            If no converter has this name.
        """
        converter = plugins.find(plugins.CONVERTERS, name, "TopicModel.convert")
        return converter(apply_view(self, view_of(self)))

    @classmethod
    def convert_from(cls, name: str, *arguments: Any) -> Self:
        """Convert another program's model to a model in memory by a registered converter.

        Parameters
        ----------
        name
            Name of the converter, such as ``from_gensim``.
        arguments
            Arguments of the converter, the other program's model first.
        """
        converter = plugins.find(plugins.CONVERTERS, name, "TopicModel.convert_from")
        return cls._adopt(converter(*arguments))

    def to_gensim(self) -> Any:
        """Convert to a ``gensim.models.LdaModel`` with the same priors.

        Its topic k is ``topic_ids[k]``.
        """
        return self.convert("to_gensim")

    def to_sklearn(self) -> Any:
        """Convert to a scikit-learn ``LatentDirichletAllocation``.

        Its topic k is ``topic_ids[k]``.
        """
        return self.convert("to_sklearn")

    @classmethod
    def from_gensim(cls, model: Any, tokenizer: Any = None) -> Self:
        """Convert a gensim ``LdaModel`` to a model in memory.

        Parameters
        ----------
        model
            The gensim model.
        tokenizer
            The tokenizer of raw text: options of ``ingest``, or a model.
        """
        return cls.convert_from("from_gensim", model, tokenizer)

    @classmethod
    def from_tomotopy(cls, model: Any) -> Self:
        """Convert a tomotopy ``LDAModel`` to a model in memory."""
        return cls.convert_from("from_tomotopy", model)

    @classmethod
    def from_sklearn(cls, model: Any, words: Any = None) -> Self:
        """Convert a fitted scikit-learn ``LatentDirichletAllocation`` to a model in memory.

        Parameters
        ----------
        model
            The estimator.
        words
            The words of its columns. None: those that it remembers.
        """
        return cls.convert_from("from_sklearn", model, words)

    @classmethod
    def _adopt(cls, model: data.TopicModel) -> Self:
        """Return a model in memory with the methods of this class."""
        return cls(
            model.vocabulary,
            model.totals,
            model.alpha,
            model.beta,
            phi=model.phi,
            manifest=model.manifest,
        )

    @property
    def labels(self) -> dict[int, str]:
        """Return the names of topics by number, for topics that have one.

        A name comes from a label, from seed words, or from ``topics edit --label``.
        """
        view = view_of(self)
        return {topic: view.labels[topic] for topic in view.ids if topic in view.labels}

    @property
    def topic_kinds(self) -> dict[int, str]:
        """Return the kind of each topic by number: ``live``, ``dead`` or ``background``.

        A dead topic holds next to nothing of the corpus, or copies its prior. The background topic
        of ``train --aim reading`` holds the words that all documents share.
        """
        shown = apply_view(self, view_of(self))
        return dict(zip(shown.column_ids.tolist(), shown.kinds, strict=True))

    @property
    def topics(self) -> TopicList:
        """Return the topics by number: id, label, share, words, kind.

        They print as ``topics show`` prints them. ``topics.score(corpus)`` adds their NPMI.
        """
        from topicstream.display.topic_list import TopicList

        return TopicList.from_model(self)

    def __str__(self) -> str:
        return f"{self!r}\n{self.topics!r}"

    def top_words(self, n: int = 10, relevance: float = 1.0) -> ShownTable:
        """List the first words of every topic, as ``topics show`` does.

        Edits are applied.

        Parameters
        ----------
        n
            Number of words.
        relevance
            Lambda of Sievert & Shirley (2014). 1 orders by p(w|k), less prefers words that mark
            the topic.

        Returns
        -------
        ShownTable
            A row per topic, by number: topic int32 (the number), share double, words list<string>,
            p list<double>, kind string (``topic_kinds``). ``to_arrow``, ``to_pandas`` and
            ``to_polars`` convert it.
        """
        table = topic_table(apply_view(self, view_of(self)), n, relevance)
        unusual = any(kind != LIVE for kind in table["kind"].to_pylist())
        shown = ["topic", "share", *(["kind"] if unusual else []), "words"]
        return ShownTable(table, shown, percent=["share"])

    def to_pandas(self, n: int = 10, relevance: float = 1.0) -> Any:
        """Return the topics as a ``pandas.DataFrame``: label, share, words, p, kind.

        A row per topic, by number. It needs pandas.

        Parameters
        ----------
        n, relevance
            As of ``top_words``.
        """
        table = self.top_words(n, relevance).to_arrow()
        labels = self.labels
        names = pa.array([labels.get(topic, "") for topic in table["topic"].to_pylist()])
        return table.add_column(1, "label", names).to_pandas().set_index("topic")

    def typical_documents(
        self,
        topic: int,
        n: int = 5,
        *,
        corpus: Any = "corpus.zarr",
        text: bool = False,
        **options: Any,
    ) -> ShownTable:
        """List the training documents with the largest share of a topic, best first.

        Parameters
        ----------
        topic
            Number of the topic, as ``topics show`` prints it.
        n
            Number of documents.
        corpus
            The store that the model was trained on.
        text
            Add the passages with most of the topic's words, skipping near-duplicates.
        options
            Options of ``topicstream.show`` (with_columns, threads, ...).

        Returns
        -------
        ShownTable
            id, share and the metadata. With ``text`` also text and marks, the (start, end) of the
            topic's words in the text.
        """
        from topicstream.display.show import show

        shown = show(self, corpus, topics=[topic], docs=n, text=text, **options)
        table = pa.Table.from_pylist(shown["topics"][0].get("documents", []))
        printed = [name for name in table.column_names if name != "marks"]
        return ShownTable(table, printed, percent=["share"])

    def _repr_html_(self) -> str:
        """Show the topics as an HTML table, the largest first."""
        return f"<p>{escape(repr(self))}</p>{self.topics._repr_html_()}"
