"""A model as people look at it: words, shares and histories as Arrow and NumPy, a line for the prompt, a table for a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from topicstream.model.store import read_history

if TYPE_CHECKING:
    import pyarrow as pa

    from topicstream.model.topic_model import TopicModel

SHOWN_TOPICS = 200
ROWS = 1 << 20
"""Values of the table that are held at a time."""


def probabilities_of(model: TopicModel, words: np.ndarray, topics: np.ndarray) -> np.ndarray:
    """p(w|k) of pairs of a word and a topic, float64[n]; rows are read in parts."""
    unique, at = np.unique(words, return_inverse=True)
    order, out = np.argsort(at, kind="stable"), np.empty(len(words))
    step = max(1, ROWS // model.n_topics)
    for first in range(0, len(unique), step):
        some = unique[first : first + step]
        low, high = np.searchsorted(at[order], (first, first + len(some)))
        pairs = order[low:high]
        out[pairs] = model.probabilities(some)[at[pairs] - first, topics[pairs]]
    return out


class ModelViews:
    """What ``TopicModel`` shows of itself and answers."""

    if TYPE_CHECKING:
        sizes: np.ndarray
        manifest: dict[str, Any]
        path: Path | None

        @property
        def n_words(self) -> int: ...
        @property
        def n_topics(self) -> int: ...

    def __repr__(self) -> str:
        where = f"{str(self.path)!r}" if self.path else "in memory"
        engine = f", {self.manifest['engine']}" if self.manifest.get("engine") else ""
        return f"TopicModel({where}: {self.n_topics} topics, {self.n_words:,} words{engine})"

    def _repr_html_(self) -> str:
        """The topics as a table, the largest first."""
        words, shares, labels = self.top_words(10), self.shares, self.labels
        order = np.argsort(-shares, kind="stable")[:SHOWN_TOPICS]
        texts = words["words"]
        rows = "".join(
            f"<tr><td>{k}</td><td>{100 * shares[k]:.1f} %</td><td style='text-align:left'>"
            f"{f'<b>{escape(labels[k])}</b> ' if k in labels else ''}{escape(' '.join(texts[k].as_py()))}</td></tr>"
            for k in order.tolist()
        )
        more = f"<p>and {self.n_topics - len(order)} more</p>" if len(order) < self.n_topics else ""
        head = "<tr><th>topic</th><th>share</th><th style='text-align:left'>words</th></tr>"
        return f"<p>{escape(repr(self))}</p><table><thead>{head}</thead><tbody>{rows}</tbody></table>{more}"

    @property
    def shares(self) -> np.ndarray:
        """float64[K], each topic's share of all tokens."""
        total = float(self.sizes.sum())
        return self.sizes / total if total > 0 else np.full(self.n_topics, 1.0 / self.n_topics)

    @property
    def labels(self) -> dict[int, str]:
        """Topic (by column) -> its name: that of its label or its seed words, or what ``topics edit --label`` gave it."""
        from topicstream.model.edits import view_of

        view = view_of(self)  # type: ignore[arg-type]
        return {m[0]: view.labels[i] for i, m in zip(view.ids, view.members, strict=True) if i in view.labels}

    @property
    def topic_word(self) -> np.ndarray:
        """p(w|k), float32[K, W], rows sum to 1: in memory, 4 K W bytes."""
        out = np.empty((self.n_topics, self.n_words), np.float32)
        model: Any = self
        norms = model.norms
        for start, rows in model.spans():
            out[:, start : start + len(rows)] = ((rows + model.beta) / norms).T
        return out

    def top_words(self, n: int = 10, relevance: float = 1.0) -> pa.Table:
        """First words of every topic, a row a topic: topic int32, share double, words list<string>, p list<double>.

        relevance: lambda of Sievert & Shirley (2014); 1 orders by p(w|k), less prefers words that mark the topic.
        """
        import pyarrow as pa

        from topicstream.model.top import top_words

        model: TopicModel = self  # type: ignore[assignment]
        ids, _ = top_words(model, n, relevance)
        flat = ids.T.ravel()
        p = probabilities_of(model, flat, np.repeat(np.arange(self.n_topics), len(ids)))
        offsets = pa.array(np.arange(self.n_topics + 1, dtype=np.int32) * len(ids))
        words = pa.ListArray.from_arrays(offsets, model.words.take(pa.array(flat)).cast(pa.string()))
        topics = pa.array(np.arange(self.n_topics, dtype=np.int32))
        columns = [topics, pa.array(self.shares), words, pa.ListArray.from_arrays(offsets, pa.array(p))]
        return pa.table(columns, names=["topic", "share", "words", "p"])

    @property
    def history(self) -> list[dict[str, Any]]:
        """One record a pass, as training wrote them; empty for a model made in memory."""
        return read_history(self.path) if self.path else []

    def history_table(self) -> pa.Table:
        """``history`` as a table: a row a pass, a column a figure."""
        import pyarrow as pa

        records = self.history
        plain = [{k: v for k, v in r.items() if isinstance(v, (int, float, str, type(None)))} for r in records]
        names = list(dict.fromkeys(k for r in plain for k in r))
        columns = {name: [r.get(name) for r in plain] for name in names}
        for name, values in columns.items():
            if any(isinstance(v, float) for v in values):
                columns[name] = [float(v) if isinstance(v, int) else v for v in values]
        return pa.table(columns)

    def export(self, out: str | Path, format: str | None = None, **options: Any) -> dict[str, Any]:
        """Write in another program's format: ``topicstream.export_model``."""
        from topicstream.exchange.exchanging import export_model

        done: dict[str, Any] = export_model(self, out, format=format, **options)  # type: ignore[call-overload]
        return done

    def to_gensim(self) -> Any:
        """A ``gensim.models.LdaModel`` with the same topics and priors."""
        from topicstream.exchange.gensim import to_gensim

        return to_gensim(self)  # type: ignore[arg-type]

    def to_sklearn(self) -> Any:
        """A scikit-learn ``LatentDirichletAllocation`` with the same topics and priors."""
        from topicstream.exchange.scikit_learn import to_sklearn

        return to_sklearn(self)  # type: ignore[arg-type]

    @classmethod
    def from_gensim(cls, model: Any) -> TopicModel:
        """A gensim ``LdaModel`` as a model in memory."""
        from topicstream.exchange.gensim import from_gensim

        return from_gensim(model)

    @classmethod
    def from_tomotopy(cls, model: Any) -> TopicModel:
        """A tomotopy ``LDAModel`` as a model in memory."""
        from topicstream.exchange.tomotopy import from_tomotopy

        return from_tomotopy(model)

    @classmethod
    def from_sklearn(cls, model: Any, words: Any = None) -> TopicModel:
        """A fitted scikit-learn ``LatentDirichletAllocation`` as a model in memory; words: names of its columns."""
        from topicstream.exchange.scikit_learn import from_sklearn

        return from_sklearn(model, words)

    def infer(self, documents: Any, **options: Any) -> Any:
        """Topics of documents as a ``pyarrow.Table``, or with ``out`` written to a file: ``topicstream.infer``."""
        from topicstream.inference.infer import infer

        return infer(self, documents, **options)  # type: ignore[call-overload]

    def theta(self, documents: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        """Topics of documents, any number of them, as record batches (id, topics, shares, tokens, oov_rate, flag).

        documents: a ``Corpus``, Paths, or documents in memory; options as of ``topicstream.infer`` (top, method, ...).
        """
        from topicstream.inference.infer import answers

        found: Iterator[pa.RecordBatch] = answers(self, documents, **options)  # type: ignore[call-overload]
        return found

    def transform(self, documents: Any, **options: Any) -> np.ndarray:
        """p(k|d) of documents, float32[D, K], rows sum to 1; a document without a known word gets the prior's mean."""
        from topicstream.inference.infer import answers

        parts = [
            batch.column("shares").values.to_numpy().reshape(-1, self.n_topics)
            for batch in answers(self, documents, edits=False, **options)  # type: ignore[call-overload]
        ]
        return np.concatenate(parts) if parts else np.zeros((0, self.n_topics), np.float32)
