"""``topicstream.TopicModel``: a trained model with its verbs, the words that people see and other
packages' formats.

The model itself, ``topicstream.model.topic_model.TopicModel``, is data: everything below this
module takes and returns that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from topicstream.base import plugins
from topicstream.base.records import Json
from topicstream.model import topic_model as data
from topicstream.model.edits import seen, view_of
from topicstream.model.top import topic_table
from topicstream.model.topic_kinds import mark_kind, ranked

SHOWN_TOPICS = 200


class TopicModel(data.TopicModel):
    __doc__ = data.TopicModel.__doc__

    # Methods import what they call: a model that is only looked at does not load inference (0.5 s).

    def infer(self, documents: Any, **options: Any) -> Any:
        """Topics of documents as a ``pyarrow.Table``, or written to the file ``out``:
        ``topicstream.infer``.
        """
        from topicstream.inference.infer import infer

        return infer(self, documents, **options)

    def theta(self, documents: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        """Stream the topics of documents as record batches (id, topics, shares, tokens, oov_rate,
        flag).

        Parameters
        ----------
        documents
            A ``Corpus``, paths, or documents in memory.
        options
            Those of ``topicstream.infer`` (top, method, ...).
        """
        from topicstream.inference.infer import answers

        batches: Iterator[pa.RecordBatch] = answers(self, documents, **options)
        return batches

    @property
    def topic_ids(self) -> np.ndarray:
        """The numbers of the topics as ``topics show`` prints them, ascending, int64[shown].

        Column k of ``transform`` and row k of ``top_words`` are topic ``topic_ids[k]``.  Arrays of
        the trained table (``phi``, ``alpha``, ``sizes``, ...) have the order of ``column_ids``."""
        return np.array(view_of(self).ids, np.int64)

    def transform(self, documents: Any, *, edits: bool = True, **options: Any) -> np.ndarray:
        """p(k|d) of documents, float32[D, K], rows sum to 1.

        Column k is topic ``topic_ids[k]``, that of row k of ``top_words``.  A document without a
        known word gets the prior's mean.

        Parameters
        ----------
        documents
            A ``Corpus``, paths, or documents in memory.
        edits
            False: the topics as they were trained, still in the order of their numbers.
        options
            Those of ``topicstream.infer`` (method, threads, ...).
        """
        topics = len(view_of(self, edits=edits))
        shares = [
            batch.column("shares").values.to_numpy().reshape(-1, topics)
            for batch in self.theta(documents, edits=edits, **options)
        ]
        return np.concatenate(shares) if shares else np.zeros((0, topics), np.float32)

    def export(self, out: str | Path, format: str | None = None, **options: Any) -> dict[str, Json]:
        """Write in another program's format: ``topicstream.export_model``."""
        export_model = plugins.find(plugins.FUNCTIONS, "export_model", "TopicModel.export")
        summary: dict[str, Json] = export_model(self, out, format=format, **options)
        return summary

    def convert(self, name: str) -> Any:
        """Convert into another program's object by a registered converter, such as ``to_gensim``.

        The topics are those that are shown (``topics edit``).  Other packages register converters
        as entry points of ``topicstream.converters``.
        """
        converter = plugins.find(plugins.CONVERTERS, name, "TopicModel.convert")
        return converter(seen(self, view_of(self)))

    @classmethod
    def convert_from(cls, name: str, *arguments: Any) -> Self:
        """Make a model in memory of another program's by a registered converter.

        Parameters
        ----------
        name
            That of the converter, such as ``from_gensim``.
        arguments
            What it takes, the other program's model first.
        """
        converter = plugins.find(plugins.CONVERTERS, name, "TopicModel.convert_from")
        return cls._adopt(converter(*arguments))

    def to_gensim(self) -> Any:
        """A ``gensim.models.LdaModel`` with the same priors, whose topic k is ``topic_ids[k]``."""
        return self.convert("to_gensim")

    def to_sklearn(self) -> Any:
        """A scikit-learn ``LatentDirichletAllocation``, whose topic k is ``topic_ids[k]``."""
        return self.convert("to_sklearn")

    @classmethod
    def from_gensim(cls, model: Any, tokenizer: Any = None) -> Self:
        """A gensim ``LdaModel`` as a model in memory; tokenizer: how raw text becomes its words
        (options of ``ingest``, or a model).
        """
        return cls.convert_from("from_gensim", model, tokenizer)

    @classmethod
    def from_tomotopy(cls, model: Any) -> Self:
        """A tomotopy ``LDAModel`` as a model in memory."""
        return cls.convert_from("from_tomotopy", model)

    @classmethod
    def from_sklearn(cls, model: Any, words: Any = None) -> Self:
        """A fitted scikit-learn ``LatentDirichletAllocation`` as a model in memory; words: names of
        its columns.
        """
        return cls.convert_from("from_sklearn", model, words)

    @classmethod
    def _adopt(cls, model: data.TopicModel) -> Self:
        """A model in memory, with the verbs."""
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
        """The name of each topic that has one, by the topic's number.

        It is that of its label or its seed words, or what ``topics edit --label`` gave it."""
        view = view_of(self)
        return {topic: view.labels[topic] for topic in view.ids if topic in view.labels}

    @property
    def topic_kinds(self) -> dict[int, str]:
        """The kind of each topic, by its number: ``live``, ``dead`` or ``background``.

        A dead topic holds next to nothing of the corpus, or a copy of its prior; the background
        topic of ``train --aim reading`` holds the words that all documents share."""
        shown = seen(self, view_of(self))
        return dict(zip(shown.column_ids.tolist(), shown.kinds, strict=True))

    def top_words(self, n: int = 10, relevance: float = 1.0) -> pa.Table:
        """List the first words of every topic, as ``topics show`` does, a row a topic by number.

        Columns: topic int32 (its number), share double, words list<string>, p list<double>, kind
        string (``topic_kinds``).  Edits are honoured.  relevance: lambda of Sievert & Shirley
                                   (2014); 1 orders by p(w|k), less
        prefers words that mark the topic."""
        return topic_table(seen(self, view_of(self)), n, relevance)

    def to_pandas(self, n: int = 10, relevance: float = 1.0) -> Any:
        """The topics as a ``pandas.DataFrame`` (needs pandas), a row a topic by its number: label,
        share, words, p.
        """
        table = self.top_words(n, relevance)
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
    ) -> pa.Table:
        """The training documents with the largest share of a topic, best first.

        Parameters
        ----------
        topic
            Its number, as ``topics show`` prints it.
        n
            How many.
        corpus
            The store that the model was trained on.
        text
            Also their passages with most of the topic's words, near-duplicates skipped.
        options
            Those of ``topicstream.show`` (with_columns, threads, ...).

        Returns
        -------
        pyarrow.Table
            id, share, the metadata; with ``text`` also text and marks, the (start, end) of the
            topic's words in it.
        """
        from topicstream.display.show import show

        shown = show(self, corpus, topics=[topic], docs=n, text=text, **options)
        return pa.Table.from_pylist(shown["topics"][0].get("documents", []))

    def _repr_html_(self) -> str:
        """The topics as a table, the largest first."""
        topics = self.top_words(10).to_pylist()
        labels = self.labels
        shares = np.array([topic["share"] for topic in topics])
        topics = [topics[k] for k in ranked([topic["kind"] for topic in topics], shares)]
        rows = "".join(
            _row_of_html(topic, labels.get(topic["topic"])) for topic in topics[:SHOWN_TOPICS]
        )
        hidden = max(0, len(topics) - SHOWN_TOPICS)
        more = f"<p>and {hidden} more</p>" if hidden else ""
        head = "<tr><th>topic</th><th>share</th><th style='text-align:left'>words</th></tr>"
        return (
            f"<p>{escape(repr(self))}</p><table><thead>{head}</thead>"
            f"<tbody>{rows}</tbody></table>{more}"
        )


def _row_of_html(topic: Mapping[str, Any], label: str | None) -> str:
    """One topic as a row of a table."""
    name = f"<b>{escape(label)}</b> " if label is not None else ""
    words = escape(" ".join(topic["words"]))
    mark = mark_kind(topic["kind"])
    name += f"({mark}) " if mark else ""
    return (
        f"<tr><td>{topic['topic']}</td><td>{100 * topic['share']:.1f} %</td>"
        f"<td style='text-align:left'>{name}{words}</td></tr>"
    )
