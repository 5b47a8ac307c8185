"""Have new documents drifted away from what the model was trained on?  Figures, and the verdict.

seen_words      share of the new documents' distinct words (as tokenised, before any pruning) that the training has
                seen, words it pruned included (Yao, Mimno & McCallum 2009, the 70 % rule)
unknown_tokens  share of the new documents' tokens whose word the training never saw
perplexity      document completion of the new documents over that of the old ones set aside
usage           Jensen-Shannon distance (square root of the divergence in bits: 0 same .. 1 nothing in common) between
                the mean p(k|d) of new and of old documents, both folded in with the model's topics fixed
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from topicstream.arrow import pc
from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError
from topicstream.evaluation.completion import score_model
from topicstream.files.parquet import batches
from topicstream.ingestion.pipeline import ingest
from topicstream.ingestion.settings import Heldout, IngestOptions
from topicstream.model.topic_model import TopicModel
from topicstream.model.vocabulary import Vocabulary
from topicstream.reporting.doc_topics import shares
from topicstream.retraining.config import Limits
from topicstream.tokens.recipe import Recipe

ENOUGH = 200  # held-out documents that topic usage is taken from; with fewer, training documents
AT_MOST = 20000


def stage(paths: list[Path], out: Path, corpus: Corpus, given: dict[str, Any], **limits: Any) -> Corpus:
    """The new documents as a store of their own: the corpus' tokenizer, every word kept, none set aside."""
    reading = {k: v for k, v in given.items() if k not in _CHOOSING}
    base = IngestOptions.of(**reading, **limits)
    stored = corpus.manifest["tokenizer"]
    recipe = base.recipe if stored is None else Recipe.from_json(stored)
    options = IngestOptions(
        read=base.read, recipe=recipe, min_df=1, max_df=1.0, heldout=Heldout.of(0), force=True,
        mem_limit=base.mem_limit, workers=base.workers,
    )  # fmt: skip
    ingest([Path(p) for p in paths], out, options=options)
    return Corpus.open(out)


_CHOOSING = ("grow_vocab", "min_df", "max_df", "min_count", "max_vocab", "vocab", "heldout")


def seen(words: Any, corpus: Corpus) -> np.ndarray:
    """bool[n]: which words the corpus has met in training, kept or pruned; the pruned ones are streamed."""
    known = Vocabulary.read(corpus.file("vocab"))
    found = known.find(words) >= 0
    if "pruned" in corpus.manifest.get("files", {}):
        for batch in batches(corpus.file("pruned"), ["word"]):
            some = batch.column(0).cast(words.type)
            found |= pc.is_in(words, value_set=some).to_numpy(zero_copy_only=False)
    return found


def usage(model: TopicModel, corpus: Corpus, heldout: bool, threads: int) -> np.ndarray:
    """Mean p(k|d) of the first 20,000 documents of a part, float64[K]; empty documents left out."""
    total, n = np.zeros(model.n_topics), 0
    empty = model.alpha / model.alpha.sum()
    for _, theta in shares(model, corpus, heldout=heldout, threads=threads):
        full = np.abs(theta - empty).max(axis=1) > 1e-6
        total += theta[full].sum(axis=0, dtype=np.float64)
        n += int(full.sum())
        if n >= AT_MOST:
            break
    return total / max(n, 1)


def jensen_shannon(p: np.ndarray, q: np.ndarray) -> float:
    """Square root of the Jensen-Shannon divergence in bits, 0..1."""
    p, q = p / p.sum(), q / q.sum()
    m = (p + q) / 2

    def nats(a: np.ndarray) -> float:
        on = a > 0
        return float((a[on] * np.log(a[on] / m[on])).sum())

    return float(np.sqrt(max(0.0, (nats(p) + nats(q)) / 2 / np.log(2))))


def measure(model: TopicModel, corpus: Corpus, new: Corpus, threads: int) -> dict[str, Any]:
    """The figures (None where nothing could be measured)."""
    found: dict[str, Any] = {"documents": new.n_docs, "words": new.n_words}
    vocabulary = Vocabulary.read(new.file("vocab"))
    known = seen(vocabulary.words, corpus)
    counts = vocabulary.counts.astype(np.float64)
    found["seen_words"] = float(known.mean()) if len(known) else None
    found["unknown_tokens"] = float(counts[~known].sum() / counts.sum()) if counts.sum() else None
    found["perplexity_new"] = found["perplexity_old"] = found["perplexity"] = found["usage"] = None
    try:
        fresh = score_model(model, new, threads=threads, parts=("train",))
        found["perplexity_new"] = fresh.perplexity
    except InputError:  # no document of two known words
        return found
    aside = corpus.part(True)["docs"]
    if aside:
        found["perplexity_old"] = score_model(model, corpus, threads=threads).perplexity
        found["perplexity"] = found["perplexity_new"] / found["perplexity_old"]
    old = usage(model, corpus, aside >= ENOUGH, threads)
    found["usage"] = jensen_shannon(usage(model, new, False, threads), old)
    return found


def verdict(figures: dict[str, Any], limits: Limits) -> list[str]:
    """Why the new documents have drifted, in words; empty when they have not."""
    why = []
    if figures["seen_words"] is not None and figures["seen_words"] < limits.seen_words:
        why.append(f"only {100 * figures['seen_words']:.1f} % of the new documents' words were seen in training")
    if figures["unknown_tokens"] is not None and figures["unknown_tokens"] > limits.unknown_tokens:
        why.append(f"{100 * figures['unknown_tokens']:.1f} % of the new tokens are unknown")
    if figures["perplexity"] is not None and figures["perplexity"] > limits.perplexity:
        why.append(f"perplexity of new documents is {figures['perplexity']:.2f} times that of old ones")
    if figures["usage"] is not None and figures["usage"] > limits.usage:
        why.append(f"topic usage has shifted by {figures['usage']:.2f} (Jensen-Shannon)")
    return why
