"""Names for topics out of their own words and phrases: offline, the same every time."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from topicstream.model.top import top_words
from topicstream.model.topic_model import TopicModel

LAMBDA = 0.6
WORDS = 3
_JOINTS = str.maketrans({"_": " ", "\u00a0": " "})


def propose(model: TopicModel, words: int = WORDS, *, look: int = 12) -> list[str]:
    """A label for each topic: its most relevant words (lambda 0.6, as Sievert & Shirley advise), without those that say
    the same again (a plural, a word that is part of a phrase in the list); a phrase counts as two.  Two topics never get
    the same label: the later one takes a further word."""
    ids, scores = top_words(model, look, LAMBDA)
    order = np.argsort(-model.sizes, kind="stable")
    out = [""] * model.n_topics
    taken: set[str] = set()
    for k in order.tolist():
        texts = [
            t.translate(_JOINTS) for t, s in zip(model.vocabulary.texts(ids[:, k]), scores[:, k]) if np.isfinite(s)
        ]
        if model.sizes[k] < 1.0:
            out[k] = f"(empty {k})"
            taken.add(out[k])
            continue
        kept = _distinct(texts)
        n = 0
        weight = 0
        while n < len(kept) and weight < words:
            weight += 2 if " " in kept[n] else 1
            n += 1
        label = ", ".join(kept[:n])
        while label in taken and n < len(kept):
            n += 1
            label = ", ".join(kept[:n])
        if label in taken or not label:
            label = f"{label} ({k})".strip()
        taken.add(label)
        out[k] = label
    return out


def _distinct(texts: list[str]) -> list[str]:
    kept: list[str] = []
    for text in texts:
        stem = _stem(text)
        parts = {_stem(p) for t in kept for p in t.split()}
        if stem in parts or any(stem == _stem(t) for t in kept):
            continue
        pieces = {_stem(p) for p in text.split()}
        kept = [t for t in kept if not (len(pieces) > 1 and _stem(t) in pieces)]
        kept.append(text)
    return kept


@lru_cache(1 << 16)
def _stem(text: str) -> str:
    for ending in ("ies", "es", "s"):
        if len(text) > len(ending) + 3 and text.endswith(ending):
            return text[: -len(ending)].rstrip("ey")
    return text.rstrip("ey") if len(text) > 4 else text
