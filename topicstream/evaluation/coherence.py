"""Coherence of the top words of topics (UMass, NPMI, c_v) and diversity of topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from topicstream.base.cluster import Cluster
from topicstream.base.options import option
from topicstream.base.text import render
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.memory import block_cells
from topicstream.evaluation.scoring import Scorer, Scoring
from topicstream.evaluation.visiting import Item, visit_blocks
from topicstream.model.edits import apply_view, view_of
from topicstream.model.top import top_words
from topicstream.model.topic_kinds import DEAD, counted_in_means
from topicstream.model.topic_model import TopicModel

MEANS = """[{with_npmi:?}coherence (NPMI)      {npmi:.4f}]
[{with_umass:?}coherence (UMass)     {umass:.4f}]
[{with_c_v:?}coherence (c_v)       {c_v:.4f}]
  {measured}
[  {dead:topic} left out as dead (`topics show` marks them)]
[  baseline (the words found in most documents): {mean_topic}]
[  {unknown} of these words are not in the corpus]
"""
TOP = 10
"""Words of a topic whose coherence is measured, by default."""
TOP_DIVERSITY = 25
"""Words of a topic that count in diversity."""
MEASURES = ("umass", "npmi", "c_v")


@dataclass(frozen=True)
class Coherence:
    """Coherence of the first words of each topic.

    Attributes
    ----------
    values
        float64[K + 1] by measure, one value a topic, NaN where no pair could be judged. The last
        value is that of the words in the most documents (Fisher, Kozdoba & Mannor's mean empirical
        topic), which shows how little a high value may mean.
    top
        Number of words of a topic.
    docs
        Number of documents that were counted.
    unknown
        Number of first words that the corpus does not have.
    kinds
        Kinds of the topics.
    """

    values: Mapping[str, np.ndarray]
    top: int
    docs: int
    unknown: int
    kinds: Sequence[str]

    def mean(self, measure: str) -> float | None:
        """Average over the live topics, None where none could be judged."""
        return mean_of_topics(self.by_topic(measure), self.kinds)

    @property
    def dead(self) -> int:
        """Return the number of dead topics, which means leave out."""
        return list(self.kinds).count(DEAD)

    def by_topic(self, measure: str) -> list[float | None]:
        """List the value of each topic, None where no pair could be judged."""
        return _plain(self.values[measure][:-1])

    @property
    def measured(self) -> str:
        """Say what was measured."""
        return (
            f"mean over live topics and over pairs of the {self.top} most probable words, by the "
            f"{self.docs:,} training documents in which both stand: UMass log((C(u,v)+1)/C(v)), v "
            "the more probable; NPMI in -1..1; c_v in 0..1, by whole documents in the place of "
            "windows of 110 words"
        )


def umass(pairs: np.ndarray) -> np.ndarray:
    """Compute the UMass coherence of topics, float64[K].

    It is the mean over pairs, u after v in the list, of log((C(u, v) + 1) / C(v)) (Fisher, Kozdoba
    & Mannor 2019). Pairs whose C(v) is 0 are left out. It is NaN where no pair remains.

    Parameters
    ----------
    pairs
        int64[K, n, n], see ``cooccurrence``.
    """
    single = np.diagonal(pairs, axis1=1, axis2=2).astype(np.float64)
    i, j = np.tril_indices(pairs.shape[1], -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log((pairs[:, i, j] + 1.0) / single[:, j])
    return _mean(np.where(single[:, j] > 0, value, np.nan))


def npmi(pairs: np.ndarray, docs: int) -> np.ndarray:
    """Compute the NPMI coherence of topics, float64[K].

    It is the mean over pairs of log(p(u,v) / (p(u) p(v))) / -log p(u,v) with p = documents / docs
    (Bouma 2009): -1 for words never together, 1 for words in every document. Pairs with a word of
    no document are left out.

    Parameters
    ----------
    pairs
        int64[K, n, n], see ``cooccurrence``.
    docs
        Number of documents.
    """
    single = np.diagonal(pairs, axis1=1, axis2=2) / max(docs, 1)
    i, j = np.tril_indices(pairs.shape[1], -1)
    both = pairs[:, i, j] / max(docs, 1)
    a = single[:, i]
    b = single[:, j]
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(both / (a * b)) / -np.log(both)
    value = np.where(both >= 1.0, 1.0, value)
    value = np.where(both == 0, -1.0, value)
    return _mean(np.where((a > 0) & (b > 0), value, np.nan))


def c_v(pairs: np.ndarray, docs: int) -> np.ndarray:
    """Compute the c_v coherence of topics, float64[K].

    C_V of Roeder, Both & Hinneburg (WSDM 2015), by documents in place of windows of 110 words,
    which are the same where documents are that short: the mean over words of the cosine between a
    word's NPMI with all words and the sum of these vectors. As in gensim, 1e-12 stands for a share
    of no documents. Words of no document are left out (parameters: ``npmi``).
    """
    share = np.diagonal(pairs, axis1=1, axis2=2) / max(docs, 1)
    both = pairs / max(docs, 1) + 1e-12
    occurs = share > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        contexts = np.log(both / (share[:, :, None] * share[:, None, :])) / -np.log(both)
    contexts = np.where(occurs[:, :, None] & occurs[:, None, :], contexts, 0.0)
    total = contexts.sum(axis=1, keepdims=True)
    norms = np.linalg.norm(contexts, axis=2) * np.linalg.norm(total, axis=2)
    with np.errstate(invalid="ignore"):
        return _mean(np.where(occurs, (contexts * total).sum(axis=2) / norms, np.nan))


def _mean(values: np.ndarray) -> np.ndarray:
    """Average each row without NaNs, NaN where there is nothing else."""
    count = np.sum(~np.isnan(values), axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(count > 0, np.nansum(values, axis=1) / count, np.nan)


def coherence(
    model: TopicModel, corpus: Corpus, *, top: int = TOP, threads: int | Cluster = 1
) -> Coherence:
    """Compute UMass, NPMI and c_v of a model on the training part of a corpus.

    The model may be imported, and the corpus need not be its own.

    Parameters
    ----------
    top
        Words of a topic.
    threads
        As of ``cooccurrence``.
    """
    ids, _ = top_words(model, top)
    vocabulary = corpus.read_vocabulary()
    corpus_ids = vocabulary.find(model.vocabulary.words.take(ids.ravel()))
    tops = np.where(corpus_ids < corpus.n_words, corpus_ids, -1).reshape(ids.shape).T
    # the mean empirical topic, as a row after the topics
    mean_topic = np.full((1, len(ids)), -1, tops.dtype)
    common = np.argsort(-vocabulary.df[: corpus.n_words], kind="stable")[: len(ids)]
    mean_topic[0, : len(common)] = common
    tops = np.ascontiguousarray(np.vstack([tops, mean_topic]))
    pairs, docs = cooccurrence(corpus, tops, threads)
    values = {"umass": umass(pairs), "npmi": npmi(pairs, docs), "c_v": c_v(pairs, docs)}
    unknown = int((tops[:-1] < 0).sum())
    return Coherence(values, top=len(ids), docs=docs, unknown=unknown, kinds=model.kinds)


def mean_of_topics(values: Sequence[float | None], kinds: Sequence[str]) -> float | None:
    """Average a figure over the live topics that have one.

    None if there is none.
    """
    of_live_topics = [
        value
        for value, is_live in zip(values, counted_in_means(kinds), strict=True)
        if is_live and value is not None
    ]
    return float(np.mean(of_live_topics)) if of_live_topics else None


def _plain(values: np.ndarray) -> list[float | None]:
    """Convert to numbers, None for NaN."""
    return [None if np.isnan(v) else float(v) for v in values]


def exclusivity(model: TopicModel, top: int = TOP) -> np.ndarray:
    """Measure how exclusive the ``top`` words of each topic are, float64[K] in 0..1.

    It is the mean of p(w|k) / sum over j of p(w|j), the exclusivity of Bischof & Airoldi (ICML
    2012).
    """
    ids, _ = top_words(model, top)
    out = np.empty(model.n_topics)
    for k in range(model.n_topics):
        p = model.probabilities(ids[:, k])
        out[k] = np.mean(p[:, k] / np.maximum(p.sum(axis=1), 1e-300))
    return out


def diversity(model: TopicModel, top: int = TOP_DIVERSITY) -> float:
    """Measure the share of distinct words among the topics' ``top`` words, 0..1.

    See Dieng et al. (2020). Only live topics count, unless there are none.
    """
    ids, _ = top_words(model, top)
    counts = counted_in_means(model.kinds)
    if counts.any():
        ids = ids[:, counts]
    return len(np.unique(ids)) / ids.size


# -- the scorers
@dataclass(frozen=True)
class CoherenceOptions:
    """Options of the scorer ``coherence``."""

    coherent: bool | str = option(
        False,
        "UMass, NPMI and c_v coherence of the topics' first words in the documents of --corpus, "
        "or one of the three.",
        flags=("--coherence",),
        is_flag=False,
        flag_value="",
        parse=lambda value: True if value == "" else value,
        choices=MEASURES,
        more=lambda value: isinstance(value, bool),
    )
    top: int = option(TOP, "With --coherence: words per topic.", min=2, show=True)


@dataclass(frozen=True)
class DiversityOptions:
    """Options of the scorer ``diversity``."""

    diverse: bool = option(
        False,
        f"Share of distinct words among the topics' first {TOP_DIVERSITY}.",
        flags=("--diversity",),
    )


def _score_coherence(run: Scoring, options: CoherenceOptions) -> Mapping[str, object]:
    """Measure the coherence of the topics, as the model's edits show them."""
    model = apply_view(run.model, view_of(run.model))
    measures = coherence(model, run.corpus, top=options.top, threads=run.visitors)
    names = [options.coherent] if options.coherent in MEASURES else list(MEASURES)
    return {
        "coherence": {
            **{name: measures.mean(name) for name in names},
            **{name: getattr(measures, name) for name in ("top", "docs", "unknown")},
            "topics": model.column_ids.tolist(),
            "kinds": model.kinds,
            "dead": measures.dead,
            **{f"{name}_by_topic": measures.by_topic(name) for name in names},
            **{f"{name}_mean_topic": _plain(measures.values[name])[-1] for name in names},
            "measured": measures.measured,
        }
    }


def _score_diversity(run: Scoring, options: DiversityOptions) -> Mapping[str, object]:
    """Measure the diversity of the topics, as the model's edits show them."""
    share = diversity(apply_view(run.model, view_of(run.model)))
    measured = (
        f"share of distinct words among the {TOP_DIVERSITY} most probable words of all live topics"
    )
    return {"diversity": {"share": share, "top": TOP_DIVERSITY, "measured": measured}}


def _lines(name: str, score: Mapping[str, Any]) -> list[str]:
    """Format the means over the topics."""
    kinds = (("NPMI", "npmi"), ("UMass", "umass"), ("c_v", "c_v"))
    means = [(title, score.get(f"{key}_mean_topic")) for title, key in kinds]
    listed = [f"{title} {value:.4f}" for title, value in means if value is not None]
    measured = {f"with_{key}": key in score for _, key in kinds}
    return render(MEANS, {**score, **measured, "mean_topic": listed})


COHERENCE = Scorer(
    "coherence",
    _score_coherence,
    Options=CoherenceOptions,
    is_requested=lambda options: bool(options.coherent),
    default={"coherent": True},
    kinds=("topics", "clusters"),
    text=_lines,
)
DIVERSITY = Scorer(
    "diversity",
    _score_diversity,
    Options=DiversityOptions,
    is_requested=lambda options: options.diverse,
    needs_corpus=lambda config, options: False,
    default={"diverse": True},
    kinds=("topics", "clusters"),
    text=lambda name, score: render("topic diversity       {share:.3f}\n  {measured}", score),
)


@dataclass(frozen=True)
class _PairCounter:
    """A visit that counts the documents of a block with both words of each pair.

    Attributes
    ----------
    column
        Column of each word of the corpus, int32[W]; -1: not counted.
    width
        Number of columns.
    first, second
        Columns of the two words of each pair, int64[K, n, n].
    """

    column: np.ndarray
    width: int
    first: np.ndarray
    second: np.ndarray

    def __call__(self, item: Item) -> tuple[np.ndarray, int]:
        """Return the counts, int64[K, n, n], and the number of documents that have any word."""
        block, _ = item
        columns = self.column[block.vocab[block.words]]
        is_counted = columns >= 0
        indptr = np.concatenate(([0], np.cumsum(is_counted)))[block.indptr]
        columns = columns[is_counted]
        shape = (block.n_docs, self.width)
        occurs = csr_array((np.ones(len(columns), np.int64), columns, indptr), shape=shape)
        together = (occurs.T @ occurs).tocsr()
        pairs = together[self.first.ravel(), self.second.ravel()]
        return np.asarray(pairs).reshape(self.first.shape), int((np.diff(block.indptr) > 0).sum())


def cooccurrence(
    corpus: Corpus, tops: np.ndarray, threads: int | Cluster = 1
) -> tuple[np.ndarray, int]:
    """Count the training documents that have two words.

    Parameters
    ----------
    corpus
        The store.
    tops
        Words of each topic, int64[K, n] ids of the corpus, -1: unknown to it.
    threads
        Threads of this process, or the cluster whose workers count; the counts do not depend on
        them.

    Returns
    -------
    Documents with both words of a pair, int64[K, n, n] (the diagonal: with the word), and the
    number of documents that have any word.
    """
    top_words = np.unique(tops[tops >= 0])
    column = np.full(corpus.n_words, -1, np.int32)
    column[top_words] = np.arange(len(top_words), dtype=np.int32)
    # unknown words have a column of their own, without documents
    columns_of_tops = np.where(tops >= 0, column[np.maximum(tops, 0)], len(top_words))
    first, second = np.broadcast_arrays(columns_of_tops[:, :, None], columns_of_tops[:, None, :])
    visit = _PairCounter(column, len(top_words) + 1, first, second)
    total = np.zeros(first.shape, np.int64)
    docs = 0
    grid = corpus.grid(block_cells(None), block_cells(None))
    nothing_known = np.zeros(corpus.part().docs, np.bool_)
    for pairs, docs_in_block in visit_blocks(visit, corpus, grid, nothing_known, threads):
        total += pairs
        docs += docs_in_block
    return total, docs
