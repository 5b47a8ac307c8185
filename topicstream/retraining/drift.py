"""Have new documents drifted away from what the model was trained on?  Figures, and the verdict.

unknown_tokens  share of the new documents' tokens whose word the training never saw
perplexity      document completion of the new documents over that of the old ones set aside

These two decide (docs/internals/decisions/drift.md).  Two more are measured, and decide where the
config gives them a limit:

seen_words      share of the new documents' distinct words (as tokenised, before any pruning) that
                the training has seen, words it pruned included (Yao, Mimno & McCallum 2009, the 70
                % rule)
usage           Jensen-Shannon distance (square root of the divergence in bits: 0 same .. 1 nothing
                in common) between the mean p(k|d) of new and of old documents, both folded in with
                the model's topics fixed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import rel_entr

from topicstream.base.errors import InputError, NothingKept
from topicstream.base.files import ownership as owned
from topicstream.base.options import names_tagged
from topicstream.base.progress import Progress
from topicstream.corpus.reader import Corpus
from topicstream.corpus.vocabulary import Vocabulary
from topicstream.evaluation.completion import score_model
from topicstream.evaluation.keys import mark_known_words
from topicstream.evaluation.visiting import document_shares
from topicstream.ingestion.config import IngestConfig
from topicstream.ingestion.options import CUT, FIELDS, LAYOUT, ReadOptions
from topicstream.ingestion.pipeline import ingest
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.model.topic_model import TopicModel
from topicstream.retraining.bad_files import in_raw_names
from topicstream.retraining.config import Config, Limits
from topicstream.retraining.raw_files import MEASURED, Scan

ENOUGH = 200
"""Held-out documents that topic usage is taken from; with fewer, training documents."""
AT_MOST = 20000


@dataclass(frozen=True)
class Drift:
    """How new documents differ from old ones, by the figures of the module's head; None where one
    cannot be measured.
    """

    documents: int
    words: int
    seen_words: float | None = None
    unknown_tokens: float | None = None
    perplexity_new: float | None = None
    perplexity_old: float | None = None
    perplexity: float | None = None
    usage: float | None = None


def drift_of(
    config: Config, model: TopicModel, scan: Scan, threads: int, log: Progress
) -> Drift | None:
    """The figures of the new and changed files, which are ingested into a store that is removed
    again; None where no document has a word.
    """
    incoming = config.folder / "incoming"
    corpus = Corpus.open(config.corpus)
    limits = {"mem_limit": config.train.mem_limit, "workers": config.train.threads}
    place = incoming / MEASURED
    new = None
    for name in scan.groups(config):
        options = {**config.ingest_options(name), **limits, "append": new is not None}
        try:
            new = stage([incoming / name], place, corpus, options)
        except NothingKept:
            continue
        except InputError as e:
            raise in_raw_names(e, config) from None
    if new is None:
        return None
    figures = measure(model, corpus, new, threads)
    owned.remove(place, "corpus")
    measured = {name: value for name, value in asdict(figures).items() if value is not None}
    log.say(
        "drift: "
        + ", ".join(
            f"{name} {v:.3f}" if v < 2 else f"{name} {v:,.0f}" for name, v in measured.items()
        )
    )
    return figures


def stage(paths: Sequence[Path], place: Path, corpus: Corpus, options: Mapping[str, Any]) -> Corpus:
    """Ingest documents into a store of their own, as an append to the corpus would read them.

    The tokenizer is the corpus', every word is kept, and no document is set aside.  options: of an
    ingest.
    """
    choosing = names_tagged(IngestConfig, "decides", "words", "heldout")
    others = {name: value for name, value in options.items() if name not in choosing}
    reading = names_tagged(ReadOptions, "recalled")
    read = ReadOptions(**{name: others.pop(name) for name in reading if name in others})
    if others.get("as_store", True):
        read = read.recall(corpus.manifest.reading, FIELDS, LAYOUT, CUT)
    stored = corpus.manifest.tokenizer
    ingest(
        paths,
        place,
        recipe=None if stored is None else Recipe.from_json(stored),
        min_df=1,
        max_df=1.0,
        heldout=0,
        force=not others.get("append"),
        grow_vocab=bool(others.get("append")),
        **others,
        **read.given(),
    )
    return Corpus.open(place)


def usage(model: TopicModel, corpus: Corpus, heldout: bool, threads: int) -> np.ndarray:
    """Average p(k|d) over the first 20,000 documents of a part with a known word, float64[K]."""
    total = np.zeros(model.n_topics)
    n = 0
    for block in document_shares(model, corpus, heldout=heldout, threads=threads):
        total += block.shares[block.counted].sum(axis=0, dtype=np.float64)
        n += int(block.counted.sum())
        if n >= AT_MOST:
            break
    return total / max(n, 1)


def jensen_shannon(p: np.ndarray, q: np.ndarray) -> float:
    """Square root of the Jensen-Shannon divergence in bits, 0..1."""
    p = p / p.sum()
    q = q / q.sum()
    m = (p + q) / 2
    return float(np.sqrt(max(0.0, (rel_entr(p, m).sum() + rel_entr(q, m).sum()) / 2 / np.log(2))))


def measure(model: TopicModel, corpus: Corpus, new: Corpus, threads: int) -> Drift:
    """The figures of the documents of a store beside those of the corpus of a model."""
    vocabulary = Vocabulary.read(new.file("vocab"))
    known = mark_known_words(vocabulary.words, corpus)
    counts = vocabulary.counts.astype(np.float64)
    figures: dict[str, Any] = {"documents": new.n_docs, "words": new.n_words}
    if len(known):
        figures |= {
            "seen_words": float(known.mean()),
            "unknown_tokens": float(counts[~known].sum() / counts.sum()),
        }
    try:
        figures["perplexity_new"] = score_model(
            model, new, threads=threads, parts=("train",)
        ).perplexity
    except InputError:  # no document of two known words
        return Drift(**figures)
    aside = corpus.part(True).docs
    if aside:
        figures["perplexity_old"] = score_model(model, corpus, threads=threads).perplexity
        figures["perplexity"] = figures["perplexity_new"] / figures["perplexity_old"]
    old = usage(model, corpus, aside >= ENOUGH, threads)
    return Drift(**figures, usage=jensen_shannon(usage(model, new, False, threads), old))


def verdict(figures: Drift, limits: Limits) -> list[str]:
    """Why the new documents have drifted, in words; empty when they have not."""
    reasons = []
    if figures.seen_words is not None and figures.seen_words < limits.seen_words:
        reasons.append(
            f"only {100 * figures.seen_words:.1f} % of the new documents' words were seen in "
            f"training"
        )
    if figures.unknown_tokens is not None and figures.unknown_tokens > limits.unknown_tokens:
        reasons.append(f"{100 * figures.unknown_tokens:.1f} % of the new tokens are unknown")
    if figures.perplexity is not None and figures.perplexity > limits.perplexity:
        reasons.append(
            f"perplexity of new documents is {figures.perplexity:.2f} times that of old ones"
        )
    if figures.usage is not None and figures.usage > limits.usage:
        reasons.append(f"topic usage has shifted by {figures.usage:.2f} (Jensen-Shannon)")
    return reasons
