"""``topicstream.show``: the topics of a model, or another view of it."""

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
from topicstream.base.shown import Summary
from topicstream.base.text import escaped, render, wrapped
from topicstream.display.config import ShowConfig
from topicstream.display.view import ModelView, add_mark
from topicstream.model.top import topic_table

OWN = ("id", "text", "marks")
"""Keys of a shown document beside a value and the columns of its metadata."""


@dataclass(frozen=True)
class AnyViewConfig(ShowConfig):
    """Settings of ``show``, with the options of one view."""

    options: Mapping[str, Any] | None = option(
        None,
        "options of another view, which may also be given as keywords: find='lost luggage', "
        "over_time=True",
        cli=False,
        rest=True,
    )


@openly_configured(AnyViewConfig)
def show(config: AnyViewConfig) -> Summary:
    """Describe the topics of a model by words, sizes and typical documents.

    An option of `topics show` that asks for another view returns the ``--json`` result of that
    view: ``find="lost luggage"``, ``over_time=True`` with ``by="party"``, ``similar=id``,
    ``table="words.tex"``, ``theta="shares.parquet"``. Files that it names are written.

    Typical documents are training documents of ``corpus`` with the largest share of the topic;
    shares come from all their words. Edits of the model are honoured. Without ``topics``, the
    order is that of ``topics edit --order``, or the largest first.

    Returns
    -------
    dict
        ``topics`` is a list of dicts with

        - ``topic`` (its number), ``kind`` (live, dead or background) and, if set, ``label``;
        - ``share`` of all tokens, or of the documents in a model of clusters, and ``tokens``;
        - ``words``, a list of {word, p};
        - ``size`` in a model of clusters, and ``anchors`` in a model that has anchor words;
        - with ``docs``, ``documents``: a list of {id, share, ...}. With ``text``, a document has
          the passage with most of the topic's words (``text``) and the (start, end) of these words
          in it (``marks``); near-duplicates are skipped.

    Raises
    ------
    UsageError
        If ``text`` is given without ``docs``, or a topic is unknown.

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
    # several options may ask for the same view
    chosen_views = list(dict.fromkeys(plugins.load(plugins.VIEWS, name) for name in views))
    if len(chosen_views) > 1:
        titles = " or ".join(view.title for view in chosen_views)
        raise UsageError(f"give one view at a time: {titles}")
    view = chosen_views[0] if chosen_views else TopicsView
    shared = {f.name: getattr(config, f.name) for f in fields(ShowConfig)}
    chosen = view(**shared, **checked(view, more, "show"))
    result = chosen.result()
    if not isinstance(result, dict):  # rows of a table
        return cast("Summary", result)
    return Summary.printed_as(result, chosen.lines(result, None))


def marked_lines(document: Mapping[str, Any], indent: str, width: int | None) -> list[str]:
    """Format the passage of a document, with its marked words set off.

    Marked words are bold on a terminal and between asterisks elsewhere. Words that touch, as in
    scripts without spaces, are set off as one.

    Parameters
    ----------
    document
        A document with ``text`` and ``marks``; without them there are no lines.
    indent
        Blanks before each line.
    width
        Columns of the terminal; None: no terminal.
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
    """View of the topics themselves."""

    def result(self) -> dict[str, Json]:
        """Describe the topics as ``show`` returns them."""
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
        """Return the anchor words of each topic, if the model has any."""
        shown = self.shown
        if "anchors" not in shown.trained.manifest.tables:
            return None
        anchors = shown.trained.table("anchors").gather(np.arange(1))[0].astype(np.int64)
        words = []
        for members in shown.view.members:
            ids = anchors[list(members)]
            ids = ids[(ids >= 0) & (ids < shown.trained.n_words)]
            words.append(shown.trained.vocabulary.texts(ids))
        return words

    def _documents(self) -> dict[int, list[dict[str, Any]]]:
        """Describe the typical documents of each topic, with the columns asked for."""
        # inference and the corpus: a quarter of a second that the topics alone do not need
        from topicstream.display.doc_topics import typical_documents
        from topicstream.display.gather import describe_documents
        from topicstream.display.metadata import choose_columns
        from topicstream.display.passages import (
            MARKED,
            DocumentTexts,
            count_candidates,
            skip_duplicates,
        )

        shown = self.shown
        store = self.store
        columns = choose_columns(store, self.with_columns)
        ranked = count_candidates(self.docs) if self.text else self.docs
        numbers, shares = typical_documents(shown.trained, store, ranked, shown.threads, shown.view)
        lists: dict[int, list[tuple[int, float]]] = {}
        for k in shown.columns(self.topics):
            pairs = zip(numbers[:, k].tolist(), shares[:, k].tolist(), strict=True)
            lists[k] = [(d, share) for d, share in pairs if np.isfinite(share)]
        texts = DocumentTexts(store, _numbers_of(lists)) if self.text else None
        if texts is not None:
            if texts.missing:
                raise InputError(f"--text: {texts.missing}")
            for k, pairs_of_topic in lists.items():
                different = skip_duplicates([texts.words(d) for d, _ in pairs_of_topic])
                lists[k] = [pairs_of_topic[i] for i in different[: self.docs]]
        rows = describe_documents(store, np.array(_numbers_of(lists), np.int64), columns)
        integer_ids = store.manifest.ids == "integer"
        words = shown.first_words(MARKED, 0.6) if texts is not None else []

        def describe(number: int, share: float, k: int) -> dict[str, Json]:
            """Describe a document of topic k, with its passage if texts were read."""
            row = rows[number]
            more = {
                name: row[name] for name in columns if name != "share" and row.get(name) is not None
            }
            excerpt = None if texts is None else texts.passage(number, words[k])
            if excerpt is not None:
                more |= {"text": excerpt.text, "marks": excerpt.marks}
            return {"id": int(row["id"]) if integer_ids else row["id"], "share": share, **more}

        return {
            k: [describe(d, share, k) for d, share in pairs_of_topic]
            for k, pairs_of_topic in lists.items()
        }

    def lines(self, result: dict[str, Any], width: int | None) -> list[str]:
        """Format a line a topic, with its documents below."""
        return topic_lines(result["topics"], width)


def _numbers_of(lists: Mapping[int, Sequence[tuple[int, float]]]) -> list[int]:
    """Return the numbers of all listed documents."""
    return [number for number, _ in chain.from_iterable(lists.values())]


def document_line(document: Mapping[str, Any], *omitted: str) -> str:
    """Format the id of a document and its metadata, without the keys ``omitted``."""
    about = [
        ", ".join(v) if isinstance(v, list) else v
        for name, v in document.items()
        if name not in OWN + omitted
    ]
    (text,) = render("{id}[  {about:; }]", {**document, "about": about})
    return text


def topic_lines(topics: Sequence[dict[str, Any]], width: int | None) -> list[str]:
    """Format topics by number, share, label and words, then their documents."""
    digits = len(str(max((t["topic"] for t in topics), default=0)))
    out = list[str]()
    for t in topics:
        (head,) = render(f"{{topic:>{digits}}} {{share:5.1p}} %[  {{size:>8,.0f}} documents]", t)
        anchors = f"[{', '.join(t['anchors'])}]" if t.get("anchors") else ""
        (text,) = render(
            "[({mark}) ][{label}: ][{anchors} ]{words: }",
            {**add_mark(t), "anchors": anchors, "words": [w["word"] for w in t["words"]]},
        )
        out += wrapped(head + "  ", text, width)
        for d in t.get("documents", []):
            out += wrapped(
                f"{'':{digits}}          {d['share']:.2f}  ", document_line(d, "share"), width
            )
            out += marked_lines(d, " " * (digits + 16), width)
    return out
