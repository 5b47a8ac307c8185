"""Drift of new documents from those that a model was trained on: figures, and the verdict.

unknown_tokens  share of the new documents' tokens whose word the training never saw
perplexity      document completion of the new documents over that of the old ones set aside

These two decide (docs/internals/decisions/drift.md). Two more are measured, and decide where the
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
from topicstream.evaluation.completion import add_in_order, score_model
from topicstream.evaluation.keys import mark_known_words
from topicstream.evaluation.visiting import document_shares
from topicstream.ingestion.config import IngestConfig
from topicstream.ingestion.options import CUT, FIELDS, LAYOUT, ReadOptions
from topicstream.ingestion.pipeline import ingest
from topicstream.ingestion.tokens.recipe import Recipe
from topicstream.model.topic_model import TopicModel
from topicstream.retraining.bad_files import with_user_paths
from topicstream.retraining.config import Config, Limits
from topicstream.retraining.raw_files import MEASURED, Scan

ENOUGH = 200
"""Held-out documents that topic usage is taken from; with fewer, training documents."""
AT_MOST = 20000


@dataclass(frozen=True)
class Drift:
    """Difference of new documents from old ones, by the figures of the module's head.

    None where one cannot be measured.
    """

    documents: int
    words: int
    seen_words: float | None = None
    unknown_tokens: float | None = None
    perplexity_new: float | None = None
    perplexity_old: float | None = None
    perplexity: float | None = None
    usage: float | None = None


def measure_raw_files(
    config: Config, model: TopicModel, scan: Scan, threads: int, log: Progress
) -> Drift | None:
    """Compute the figures of the new and changed files, None where no document has a word.

    The files are ingested into a store that is removed again.
    """
    incoming = config.folder / "incoming"
    corpus = Corpus.open(config.corpus)
    limits = {"mem_limit": config.train.mem_limit, "workers": config.train.threads}
    place = incoming / MEASURED
    new = None
    for name in scan.groups(config):
        options = {**config.ingest_options(name), **limits, "append": new is not None}
        try:
            new = ingest_apart([incoming / name], place, corpus, options)
        except NothingKept:
            continue
        except InputError as e:
            raise with_user_paths(e, config) from None
    if new is None:
        return None
    figures = measure(model, corpus, new, threads)
    owned.remove(place, "corpus")
    measured = {name: value for name, value in asdict(figures).items() if value is not None}
    log.say(
        "drift: "
        + ", ".join(
            f"{name} {value:.3f}" if value < 2 else f"{name} {value:,.0f}"
            for name, value in measured.items()
        )
    )
    return figures


def ingest_apart(
    paths: Sequence[Path], place: Path, corpus: Corpus, options: Mapping[str, Any]
) -> Corpus:
    """Ingest documents into a store of their own, as an append to the corpus would read them.

    The tokenizer is the corpus', every word is kept, and no document is set aside.

    Parameters
    ----------
    paths
        Raw files or folders.
    place
        Folder of the new store.
    corpus
        The store whose reading options and tokenizer hold.
    options
        Options of an ingest.
    """
    replaced = {*names_tagged(IngestConfig, "decides", "words", "heldout"), "keep_text"}
    others = {name: value for name, value in options.items() if name not in replaced}
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
        keep_text=False,
        **others,
        **read.non_defaults(),
    )
    return Corpus.open(place)


def jensen_shannon(p: np.ndarray, q: np.ndarray) -> float:
    """Compute the square root of the Jensen-Shannon divergence in bits, 0..1."""
    p = p / p.sum()
    q = q / q.sum()
    m = (p + q) / 2
    return float(np.sqrt(max(0.0, (rel_entr(p, m).sum() + rel_entr(q, m).sum()) / 2 / np.log(2))))


@dataclass(frozen=True)
class DocumentGroups:
    """Documents of a store in groups, such as the periods of a date.

    Attributes
    ----------
    numbers
        By part (``train``, ``heldout``), the group of each document, int32[D]; -1: in none.
    sizes
        Documents of each group.
    """

    corpus: Corpus
    numbers: dict[str, np.ndarray]
    sizes: list[int]

    @classmethod
    def of_training(cls, corpus: Corpus) -> DocumentGroups:
        """Put all training documents into one group."""
        group_of = np.zeros(corpus.part().docs, np.int32)
        return cls(corpus, {"train": group_of}, [len(group_of)])

    @property
    def parts(self) -> list[str]:
        """Return the parts that the documents are in."""
        return list(self.numbers)


def measure(model: TopicModel, corpus: Corpus, new: Corpus, threads: int) -> Drift:
    """Measure the documents of a store beside those of the corpus of a model."""
    return measure_groups(model, corpus, DocumentGroups.of_training(new), threads)[0]


def measure_groups(
    model: TopicModel, corpus: Corpus | None, new: DocumentGroups, threads: int
) -> list[Drift]:
    """Measure groups of documents beside the documents that a model was trained on.

    Parameters
    ----------
    model
        The model.
    corpus
        The store that it was trained on; None: its vocabulary alone says which words are known.
    new
        The groups.
    threads
        Threads that score.

    Returns
    -------
    list of Drift
        The figures of each group.
    """
    vocabulary = new.corpus.read_vocabulary()
    known = _mark_seen_words(vocabulary, model, corpus)
    words, unknown = _count_words(new, known)
    perplexities = _score_groups(model, new, threads)
    aside = 0 if corpus is None else corpus.part(True).docs
    old_perplexity = None
    if corpus is not None and aside and any(p is not None for p in perplexities):
        old_perplexity = score_model(model, corpus, threads=threads).perplexity
    usage: list[float | None] = [None] * len(new.sizes)
    if corpus is not None and any(p is not None for p in perplexities):
        old = DocumentGroups.of_training(corpus)
        if aside >= ENOUGH:
            old = DocumentGroups(corpus, {"heldout": np.zeros(aside, np.int32)}, [aside])
        (old_shares,) = mean_shares(model, old, threads)
        for group, shares in enumerate(mean_shares(model, new, threads)):
            if perplexities[group] is not None:
                usage[group] = jensen_shannon(shares, old_shares)
    figures = []
    for group, size in enumerate(new.sizes):
        score = perplexities[group]
        ratio = None if score is None or old_perplexity is None else score / old_perplexity
        measured = Drift(
            documents=size,
            words=int(words[group].sum()),
            seen_words=float(known[words[group]].mean()) if words[group].any() else None,
            unknown_tokens=unknown[group],
            perplexity_new=score,
            perplexity_old=None if score is None else old_perplexity,
            perplexity=ratio,
            usage=usage[group],
        )
        figures.append(measured)
    return figures


def _mark_seen_words(
    vocabulary: Vocabulary, model: TopicModel, corpus: Corpus | None
) -> np.ndarray:
    """Mark the words that the training has seen, those that its corpus pruned included, bool[U]."""
    ids = model.vocabulary.find(vocabulary.words)
    is_seen = ids >= 0
    if model.manifest.sample is not None:  # the corpus has the words of all its documents
        is_seen &= model.vocabulary.counts[ids] > 0
    elif corpus is not None:
        is_seen |= mark_known_words(vocabulary.words, corpus)
    return np.asarray(is_seen)


def _count_words(new: DocumentGroups, known: np.ndarray) -> tuple[np.ndarray, list[float | None]]:
    """Return the distinct words of each group, bool[G, U], and its share of unknown tokens."""
    groups = len(new.sizes)
    words = np.zeros((groups, len(known)), np.bool_)
    tokens = np.zeros(groups)
    unknown = np.zeros(groups)
    for part, numbers in new.numbers.items():
        for block in new.corpus.blocks(heldout=part == "heldout"):
            of_documents = numbers[block.first_doc :][: block.n_docs]
            group = np.repeat(of_documents, np.diff(block.indptr))
            cells = np.flatnonzero(group >= 0)
            group = group[cells]
            ids = block.vocab[block.words[cells]]
            counts = block.counts[cells].astype(np.float64)
            words[group, ids] = True
            tokens += np.bincount(group, counts, groups)
            unknown += np.bincount(group, counts * ~known[ids], groups)
    shares = [u / t if t else None for u, t in zip(unknown.tolist(), tokens.tolist(), strict=True)]
    return words, shares


def _score_groups(model: TopicModel, new: DocumentGroups, threads: int) -> list[float | None]:
    """Score each group by perplexity, None where none of its documents can be scored."""
    group_of = np.concatenate([new.numbers[part] for part in new.parts])
    loglik = [0.0] * len(new.sizes)
    tokens = [0.0] * len(new.sizes)
    first = 0

    def add(of_documents: np.ndarray, scored: np.ndarray) -> None:
        nonlocal first
        group = group_of[first : first + len(scored)]
        first += len(scored)
        for g in np.unique(group[group >= 0]).tolist():
            loglik[g] = add_in_order(loglik[g], of_documents[group == g])
            tokens[g] = add_in_order(tokens[g], scored[group == g])

    try:
        score_model(model, new.corpus, threads=threads, parts=new.parts, on_block=add)
    except InputError:  # no document of two known words
        return [None] * len(new.sizes)
    pairs = zip(loglik, tokens, strict=True)
    return [float(np.exp(-score / mass)) if mass else None for score, mass in pairs]


def mean_shares(model: TopicModel, documents: DocumentGroups, threads: int) -> list[np.ndarray]:
    """Average p(k|d) of the first 20,000 documents with a known word of each group, float64[K]."""
    total = np.zeros((len(documents.sizes), model.n_topics))
    counted = np.zeros(len(documents.sizes), np.int64)
    for part, numbers in documents.numbers.items():
        heldout = part == "heldout"
        for block in document_shares(model, documents.corpus, heldout=heldout, threads=threads):
            of_documents = numbers[block.first :][: len(block.shares)]
            for g in np.unique(of_documents[block.counted & (of_documents >= 0)]).tolist():
                chosen = block.counted & (of_documents == g)
                total[g] += block.shares[chosen].sum(axis=0, dtype=np.float64)
                counted[g] += int(chosen.sum())
            if (counted >= AT_MOST).all():
                break
    return [share / max(n, 1) for share, n in zip(total, counted.tolist(), strict=True)]


def list_drift_reasons(figures: Drift, limits: Limits) -> list[str]:
    """List the reasons why the new documents have drifted, none if they have not."""
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
