"""``topicstream.show``: a model's topics for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain, pairwise
from typing import Any, cast

import numpy as np

from topicstream.base import plugins
from topicstream.base.errors import InputError, UsageError
from topicstream.base.options import checked, openly_configured, option
from topicstream.base.records import Json
from topicstream.base.text import escaped, render, wrapped
from topicstream.display.config import ShowConfig
from topicstream.display.view import ModelView, with_mark
from topicstream.model.top import topic_table

OWN = ("id", "text", "marks")
"""What a document that is shown has beside a value and the columns of its metadata."""


@dataclass(frozen=True)
class AnyViewConfig(ShowConfig):
    """What ``show`` is asked, options of one view among it."""

    options: Mapping[str, Any] | None = option(
        None,
        "options of another view, which may also be given as keywords: find='lost luggage', "
        "over_time=True",
        cli=False,
        rest=True,
    )


@openly_configured(AnyViewConfig)
def show(config: AnyViewConfig) -> dict[str, Any]:
    """First words, sizes and (with ``docs``) most typical documents of topics, as plain values; or
    another view of a model.

    An option of `topics show` that asks for a view gives what that prints with ``--json``:
    ``find="lost luggage"``, ``over_time=True`` with ``by="party"``, ``similar=id``,
    ``table="words.tex"``, ``theta="shares.parquet"`` (the files are written, and named).

    Typical documents are training documents of ``corpus`` with the largest share of the topic;
    shares come from all their words. Edits of the model are honoured. Without ``topics``, the
    order is that of ``topics edit --order``, or the largest first.

    Returns
    -------
    dict
        ``topics``: a list of dicts with topic, label (where it has one), kind (live, dead or
        background), share of all tokens, tokens, words [{word, p}],
        anchors [word] (where it has anchor words) and documents [{id, share, ...}].  With ``text``,
        a document has ``text``
        (the passages with most of the topic's words; near-duplicates are skipped) and ``marks``,
        the (start, end) of those
        words.  Of a model of clusters, ``share`` is of the documents, and each topic has a
        ``size``.

    Raises
    ------
    UsageError
        For ``text`` without ``docs``, and for an unknown topic.

    Examples
    --------
    >>> shown = topicstream.show("model", "corpus.zarr", words=5, docs=2)
    >>> len(shown["topics"]), len(shown["topics"][0]["words"]), len(shown["topics"][0]["documents"])
    (4, 5, 2)
    """
    more = {
        name: value
        for name, value in (config.options or {}).items()
        if value is not None and value is not False
    }
    views = [name for name in plugins.entries(plugins.VIEWS) if name.replace("-", "_") in more]
    view, *others = dict.fromkeys(plugins.load(plugins.VIEWS, name) for name in views) or [
        TopicsView
    ]
    if others:
        raise UsageError(
            f"give one view at a time: {' or '.join(one.title for one in (view, *others))}"
        )
    shared = {f.name: getattr(config, f.name) for f in fields(ShowConfig)}
    return cast("dict[str, Any]", view(**shared, **checked(view, more, "show")).result())


def marked_lines(document: Mapping[str, Any], indent: str, width: int | None) -> list[str]:
    """The passage of a document, its marked words bold on a terminal (``width``) and between
    asterisks elsewhere; words that touch, as in scripts without spaces, as one.
    """
    if "text" not in document:
        return []
    text = document["text"]
    edges = [0, *chain(*document["marks"]), len(document["text"])]
    pieces = [escaped(text[a:b]) for a, b in pairwise(edges)]
    text = "".join(f"\x02{piece}\x03" if i % 2 else piece for i, piece in enumerate(pieces))
    begin, end = ("*", "*") if width is None else ("\x1b[1m", "\x1b[0m")
    return [
        line.replace("\x02", begin).replace("\x03", end)
        for line in wrapped(indent, text.replace("\x03\x02", ""), width)
    ]


@dataclass(frozen=True)
class TopicsView(ModelView, heeds=("words", "relevance", "topics", "docs", "text", "with_columns")):
    """The topics themselves."""

    def result(self) -> dict[str, Json]:
        """As ``show`` returns them."""
        if (self.text or self.with_columns) and not self.docs:
            raise UsageError(
                f"--{'text' if self.text else 'with'} requires --docs N or --find TEXT"
            )
        shown = self.shown
        trained = self.shown.trained
        view = self.shown.view
        model = self.shown.model
        by_size = self.topics is None and not view.ordered
        chosen = shown.ranked(model.sizes) if by_size else shown.columns(self.topics)
        words = topic_table(model, self.words, self.relevance).select(["words", "p"]).to_pylist()
        sizes = (
            model.sizes
            if trained.cluster_sizes is None
            else view.columns(trained.cluster_sizes[None])[0]
        )
        shares = sizes / (float(sizes.sum()) or 1.0)
        anchors = self._anchors()
        documents = self._documents() if self.docs else {}
        entries = []
        for k in chosen:
            entry: dict[str, Any] = shown.entry(k)
            entry |= {"share": float(shares[k]), "tokens": float(model.sizes[k])}
            entry["words"] = [
                {"word": word, "p": p}
                for word, p in zip(words[k]["words"], words[k]["p"], strict=True)
            ]
            if trained.cluster_sizes is not None:
                entry["size"] = float(sizes[k])
            if anchors is not None:
                entry["anchors"] = anchors[k]
            if self.docs:
                entry["documents"] = documents[k]
            entries.append(entry)
        return {
            "model": trained.name,
            "vocabulary": trained.n_words,
            "relevance": self.relevance,
            "topics": entries,
        }

    def _anchors(self) -> list[list[str]] | None:
        """The anchor words of each topic, of a model that has some."""
        shown = self.shown
        if "anchors" not in shown.trained.manifest.tables:
            return None
        anchors = shown.trained.table("anchors").gather(np.arange(1))[0].astype(np.int64)
        ids_by_topic = [
            [anchors[m] for m in members if 0 <= anchors[m] < shown.trained.n_words]
            for members in shown.view.members
        ]
        return [shown.trained.vocabulary.texts(np.array(ids, np.int64)) for ids in ids_by_topic]

    def _documents(self) -> dict[int, list[dict[str, Any]]]:
        """The typical documents of each topic, with the columns asked for."""
        # inference and the corpus: a quarter of a second that the topics alone do not need
        from topicstream.display.doc_topics import typical_documents
        from topicstream.display.gather import describe_documents
        from topicstream.display.metadata import kept_columns
        from topicstream.display.passages import MARKED, DocumentTexts, candidates, distinct

        shown = self.shown
        store = self.store
        chosen = self.shown.columns(self.topics)
        columns = kept_columns(store, self.with_columns)
        ranked = candidates(self.docs) if self.text else self.docs
        numbers, shares = typical_documents(shown.trained, store, ranked, shown.threads, shown.view)
        lists = {
            k: list(zip(numbers[:, k].tolist(), shares[:, k].tolist(), strict=True)) for k in chosen
        }
        lists = {
            k: [(d, share) for d, share in listed if np.isfinite(share)]
            for k, listed in lists.items()
        }
        texts = (
            DocumentTexts(store, [d for listed in lists.values() for d, _ in listed])
            if self.text
            else None
        )
        if texts is not None:
            if texts.missing:
                raise InputError(f"--text: {texts.missing}")
            lists = {
                k: [listed[i] for i in distinct([texts.words(d) for d, _ in listed])[: self.docs]]
                for k, listed in lists.items()
            }
        rows = describe_documents(
            store, np.array([d for listed in lists.values() for d, _ in listed], np.int64), columns
        )
        integer_ids = store.manifest.ids == "integer"
        words = shown.first_words(MARKED, 0.6) if texts is not None else []

        def about(number: int, share: float, k: int) -> dict[str, Json]:
            row = rows[number]
            more = {
                name: row[name] for name in columns if name != "share" and row.get(name) is not None
            }
            if texts is not None and (excerpt := texts.passage(number, words[k])) is not None:
                more |= {"text": excerpt.text, "marks": excerpt.marks}
            return {"id": int(row["id"]) if integer_ids else row["id"], "share": share, **more}

        return {k: [about(d, share, k) for d, share in listed] for k, listed in lists.items()}

    def lines(self, result: dict[str, Any], width: int | None) -> list[str]:
        """A line a topic, its documents below."""
        return topic_lines(result["topics"], width)


def document_line(document: Mapping[str, Any], *own: str) -> str:
    """A document's id and what it has beside ``OWN`` and ``own``, the columns of its metadata,
    escaped.
    """
    about = [
        ", ".join(v) if isinstance(v, list) else v
        for name, v in document.items()
        if name not in OWN + own
    ]
    (text,) = render("{id}[  {about:; }]", {**document, "about": about})
    return text


def topic_lines(topics: Sequence[dict[str, Any]], width: int | None) -> list[str]:
    """Topics for people: number, share, label and words, then their documents."""
    digits = len(str(max((t["topic"] for t in topics), default=0)))
    out = list[str]()
    for t in topics:
        (head,) = render(f"{{topic:>{digits}}} {{share:5.1p}} %[  {{size:>8,.0f}} documents]", t)
        anchors = f"[{', '.join(t['anchors'])}]" if t.get("anchors") else ""
        (text,) = render(
            "[({mark}) ][{label}: ][{anchors} ]{words: }",
            {**with_mark(t), "anchors": anchors, "words": [w["word"] for w in t["words"]]},
        )
        out += wrapped(head + "  ", text, width)
        for d in t.get("documents", []):
            out += wrapped(
                f"{'':{digits}}          {d['share']:.2f}  ", document_line(d, "share"), width
            )
            out += marked_lines(d, " " * (digits + 16), width)
    return out
