"""``topicstream.show``: a model's topics for people."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np

from topicstream.errors import one_line, shown
from topicstream.evaluation.memory import open_within
from topicstream.model.edits import seen, view_of
from topicstream.model.top import top_words
from topicstream.options import configured
from topicstream.reporting.config import ShowConfig, columns


@configured(ShowConfig)
def show(config: ShowConfig) -> dict[str, Any]:
    """First words, sizes and (``docs`` > 0) most typical documents of topics, as plain values.

    docs       training documents of ``corpus`` with the largest share of the topic, theta folded in on all their words
    with_columns  metadata of those documents; None: their title, where the store has one
    topics     only these (their numbers); else all, in the order that ``topics edit --order`` gave, or the largest first

    Edits are honoured.  Of a model of clusters ``share`` is of the documents, and each has a ``size``.  Returns ``topics``: a list of topic, label (where it has one), share (of all tokens), tokens,
    words [{word, p}], anchors [word] where topics have anchor words, documents [{id, share, ...}].
    """
    corpus, relevance, docs = config.corpus, config.relevance, config.docs
    with_columns = None if config.with_columns is None else columns(config.with_columns)
    opened, workers = open_within(config.model, config.mem_limit, config.threads)
    view = view_of(opened)
    shown = seen(opened, view)
    ids, _ = top_words(shown, config.words, relevance)
    if config.topics is not None:
        chosen = [view.column_of(k) for k in config.topics]
    elif view.ordered:
        chosen = list(range(len(view)))
    else:
        chosen = np.argsort(-shown.sizes, kind="stable").tolist()
    texts = {w: shown.words[w].as_py() for w in set(ids[:, chosen].ravel().tolist())}
    unique = np.array(sorted(texts), np.int64)
    p = shown.probabilities(unique)
    all_tokens = float(shown.sizes.sum()) or 1.0
    entries: list[dict[str, Any]] = []
    for k in chosen:
        at = np.searchsorted(unique, ids[:, k])
        entry: dict[str, Any] = {"topic": view.ids[k]}
        if view.ids[k] in view.labels:
            entry["label"] = view.labels[view.ids[k]]
        entries.append(
            {
                **entry,
                "share": float(shown.sizes[k] / all_tokens),
                "tokens": float(shown.sizes[k]),
                "words": [{"word": texts[int(w)], "p": float(p[i, k])} for w, i in zip(ids[:, k], at, strict=True)],
            }
        )
    if "anchors" in (opened.manifest.get("tables") or {}):
        anchors = opened.table("anchors").gather(np.arange(1))[0].astype(np.int64)
        for entry, k in zip(entries, chosen, strict=True):
            found = [int(anchors[m]) for m in view.members[k] if 0 <= anchors[m] < opened.n_words]
            entry["anchors"] = [opened.words[w].as_py() for w in found]
    if (sizes := opened.cluster_sizes) is not None:
        for entry, k in zip(entries, chosen, strict=True):
            entry["size"] = float(sizes[view.members[k]].sum())
            entry["share"] = entry["size"] / max(float(sizes.sum()), 1e-300)
    if docs:
        from topicstream.corpus.reader import Corpus
        from topicstream.evaluation.belonging import strangers
        from topicstream.reporting.doc_topics import typical_documents
        from topicstream.reporting.gather import describe_documents
        from topicstream.reporting.metadata import check_columns, columns_of

        store = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
        strangers(opened, store)
        if with_columns is not None:
            check_columns(store, with_columns)
        kept = with_columns if with_columns is not None else [c for c in ("title",) if c in columns_of(store)]
        numbers, share, names = typical_documents(opened, store, docs, workers, view)
        whole = store.manifest.get("ids") == "integer"
        rows = describe_documents(store, numbers, kept) if kept else {}
        for entry, k in zip(entries, chosen, strict=True):
            entry["documents"] = [
                {
                    "id": int(names[int(d)]) if whole else names[int(d)],
                    "share": float(s),
                    **{c: v for c in kept if (v := rows[int(d)].get(c)) is not None},
                }
                for d, s in zip(numbers[:, k], share[:, k], strict=True)
                if np.isfinite(s)
            ]
    return {
        "model": str(opened.path or "in memory"),
        "vocabulary": opened.n_words,
        "relevance": relevance,
        "topics": entries,
    }


def lines(result: dict[str, Any], width: int | None = None) -> list[str]:
    """The result for people: a line a topic (with ``width``: as many lines of so many columns as it takes), its documents
    below."""
    wide = len(str(max((e["topic"] for e in result["topics"]), default=0)))
    out: list[str] = []
    for e in result["topics"]:
        label = f"{one_line(e['label'])}: " if e.get("label") else ""
        head = f"{e['topic']:>{wide}} {100 * e['share']:5.1f} %  "
        if "size" in e:
            head += f"{e['size']:>8,.0f} documents  "
        if e.get("anchors"):
            label += f"[{', '.join(map(shown, e['anchors']))}] "
        out += wrapped(head, label + " ".join(shown(w["word"]) for w in e["words"]), width)
        for d in e.get("documents", []):
            about = "; ".join(
                one_line(", ".join(v) if isinstance(v, list) else v) for c, v in d.items() if c not in ("id", "share")
            )
            text = f"{shown(d['id'])}  {about}" if about else shown(d["id"])
            out += wrapped(f"{'':{wide}}          {d['share']:.2f}  ", text, width)
    return out


def wrapped(head: str, text: str, width: int | None) -> list[str]:
    """``text`` behind ``head``, in lines of ``width`` columns below each other (None: one line)."""
    if width is None:
        return [head + text]
    return textwrap.wrap(
        text, max(width, len(head) + 20), initial_indent=head, subsequent_indent=" " * len(head), break_on_hyphens=False
    ) or [head]
