"""The common part of the Gibbs samplers: topics, counts, starts and statistics.

A sampler stores the topics z of a block's tokens on disk. The change of the counts by word and
topic follows from z before and after a sweep: a counting sort by word, then a tally a word in an
array of all topics. The topics of a word come in the order in which its tokens name them first.

Arrays
------
words, counts
    int32[nnz], local word and tokens of each cell.
z
    uint[tokens], topics, cell after cell.
ptr, topic, value
    int64[U+1], int32[changes], int32[changes]: the changes of word u are at ptr[u] .. ptr[u+1].
first, work
    int64[U], scratch; int32[K], zeros, and zero again on return.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from topicstream.base.errors import InputError, TopicsError, UsageError
from topicstream.corpus.block import Block
from topicstream.engines.base import (
    About,
    ArraySpec,
    BlockShape,
    Buffer,
    Engine,
    Layout,
    Options,
    Out,
    PassEnd,
    Priors,
    Shape,
    SparseDelta,
    TableSpec,
    Visit,
    option,
    padded,
)
from topicstream.engines.covariates import (
    count_prior,
    count_topics,
    covariate_rows,
    fill_alphas,
    is_counted,
    passes_since,
    prior_params,
    prior_stats,
    prior_workspace,
    round_stats,
    step_coefficients,
)
from topicstream.engines.gibbs.buckets import Draws
from topicstream.engines.gibbs.starts import SeedRows, draw_topics, seeded_topics
from topicstream.numeric.kernels.arrays import Array, Int, Ints, Longs, RowEntries
from topicstream.numeric.kernels.dirichlet import (
    BINS,
    Histogram,
    Pull,
    digamma_rise,
    fit_alpha,
    fit_beta,
    length_counts,
    topic_counts,
    words_loglik,
)
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.packed import entry_bytes


@kernel
def _tally(first: Longs, work: Ints, moves: RowEntries) -> Int:
    """Replace each word's topics by those whose count changes.

    topic[..first[u]] are the topics of word u up to the next word's: t for one more, ~t for one
    less. Writing never gets ahead of reading.
    """
    (ptr, topic, value) = moves
    begin = np.int64(0)
    w = np.int64(0)
    ptr[0] = 0
    for u in range(len(first)):
        end = first[u]
        for j in range(begin, end):
            t = topic[j]
            if t >= 0:
                work[t] += 1
            else:
                work[~t] -= 1
        for j in range(begin, end):
            t = topic[j]
            if t < 0:
                t = ~t
            topic[w] = t
            value[w] = work[t]
            w += work[t] != 0
            work[t] = 0
        begin = end
        ptr[u + 1] = w
    return w


@kernel
def count_moves(
    words: Ints,
    counts: Ints,
    before: Array,
    after: Array,
    work: Ints,
    first: Longs,
    moves: RowEntries,
) -> int:
    """Compute the change of word-topic counts between two topic assignments.

    ``before`` of length 0: no token had a topic. ``moves`` are written: topic and value have
    2 * tokens that moved + 2 entries.

    Returns
    -------
    The number of entries written.
    """
    (_, topic, value) = moves
    fresh = len(before) == 0
    n = 0
    i = 0
    for c in range(len(words)):
        u = words[c]
        # word and number of each token that moved, written without a branch
        for _ in range(counts[c]):
            value[n] = u
            value[n + 1] = i
            n += 2 * (fresh or before[i] != after[i])
            i += 1
    # where each word begins: a move is one less of the old topic and one more of the new
    each = 1 if fresh else 2
    first[:] = 0
    for j in range(0, n, 2):
        first[value[j]] += each
    at = 0
    for u in range(len(first)):
        entries = first[u]
        first[u] = at
        at += entries
    for j in range(0, n, 2):
        # ~old and new topic, in the order of the tokens
        u = value[j]
        i = value[j + 1]
        at = first[u]
        if not fresh:
            topic[at] = ~np.int32(before[i])
        topic[at + each - 1] = after[i]
        first[u] = at + each
    return _tally(first, work, moves)  # type: ignore[no-any-return]


# samples of the chain: one state is about 1 % of perplexity behind the mean of a few
# (docs/internals/decisions/sampler-priors.md)
SAMPLES = 5
# documents whose topics are counted at a time for the coefficients of covariates
DOCUMENTS = 512
# entries of a table from which on the sum of samples would take hundreds of megabytes
LARGE_TABLE = 30_000_000
# topics from which on 200 passes do not bring the random start to the perplexity of seed documents
# (docs/internals/decisions/starts.md)
MANY = 500
# tries of the start `best`: the chain mends what fewer tries leave, in less time
TRIES = 3


@dataclass(frozen=True)
class GibbsOptions(Options):
    """Options of the Gibbs samplers."""

    alpha: float | None = option(
        None, "Document-topic Dirichlet prior, per topic (default: 5/K).", above=0.0, decided=True
    )
    beta: float | None = option(
        None, "Topic-word Dirichlet prior, per word (default: 0.01).", above=0.0, decided=True
    )
    learn_priors: bool = option(
        True, "Learn an asymmetric alpha and a symmetric beta during training.", decided=True
    )
    prior_low: float = option(1e-5, "Smallest value of a learned prior.", above=0.0, advanced=True)
    prior_high: float = option(100.0, "Largest value of a learned prior.", above=0.0, advanced=True)
    prior_pull: float = option(
        0.3,
        "With --learn-priors: weight of the prior that holds alpha, times the documents.",
        min=0.0,
        max=1e6,
        advanced=True,
        decided=True,
    )
    prior_mean: float | None = option(
        None,
        "With --learn-priors: the value near which alpha is held (default: its first).",
        above=0.0,
        advanced=True,
        decided=True,
    )
    learn_after: int = option(
        20, "Start learning priors after this many passes.", min=0, advanced=True, decided=True
    )
    learn_every: int = option(5, "Update the priors every N passes.", min=1, advanced=True)
    samples: int | None = option(
        None,
        "Average the topics over this many samples of the chain; 0: use the last state (default: "
        "5, or 0 where the table of topics has more than 30 million entries).",
        min=0,
        decided=True,
    )
    burn_in: int | None = option(
        None,
        "Burn-in passes before the first sample (default: so many that the last sample is the "
        "last pass).",
        min=0,
    )
    sample_every: int = option(25, "Passes between samples.", min=1, advanced=True, decided=True)


class Chain(Engine):
    """Base class of the Gibbs samplers.

    A subclass defines ``sweep``, which redraws every token's topic. Blocks of one round do not see
    each other's moves (AD-LDA).

    Parameters
    ----------
    shape, options
        See ``Engine``. The options are ``GibbsOptions``. Cells must be whole counts.

    Attributes
    ----------
    tables
        ``phi``: whole counts n_wt in packed rows, whose rows sum to the word's tokens.
    state
        ``z``: topics of the tokens.
    params
        alpha float64[K]; beta float64[1]; passes float64[1], the passes done.
    stats
        loglik
            Sum over tokens of log p(w | d), the normaliser of the token's draw (token excluded).
        draws
            Draws by bucket (s, r, q).
        kept
            Draws of the old topic.
        documents
            Number of documents, and the sum of their numbers of topics.
        doc_loglik
            log p(z) under alpha.

    References
    ----------
    Griffiths & Steyvers (2004). Finding scientific topics. PNAS 101, 5228-5235.

    Newman, Asuncion, Smyth & Welling (2007). Distributed inference for latent Dirichlet allocation.
    NIPS 20.
    """

    Options: ClassVar[type[Options]] = GibbsOptions
    about = About(
        priors=Priors(5.0, 0.01, together=True),
        starts=("random", "documents", "kmeans", "best", "anchors", "warm"),
        documents_from=MANY,
        tries=TRIES,
        real_cells=False,
        tol=0.0,
    )
    _warned = False  # whether the user was told of priors at a bound

    def __init__(self, shape: Shape, options: GibbsOptions) -> None:
        super().__init__(shape, options)
        if shape.weighted:
            raise InputError(
                f"{self.name} assigns a topic to every token and needs whole counts, but the "
                "corpus has real-valued cells; train it with a message-passing engine such as "
                "sparse-bp"
            )
        if shape.seeds is not None and not shape.seeds.are_integers:
            raise UsageError(
                f"{self.name} counts whole tokens: --seed-words needs whole-number strengths"
            )
        if options.prior_low > options.prior_high:
            raise UsageError(
                f"--prior-low {options.prior_low:g}: is above --prior-high {options.prior_high:g}"
            )

    @property
    def tables(self) -> Mapping[str, TableSpec]:
        return {
            "phi": TableSpec(
                dtype="int32", layout="packed", delta="sparse", mass="row", samples=self.samples
            )
        }

    @property
    def samples(self) -> range:
        """Return the passes after which the counts are added up (``TableSpec.samples``)."""
        options = self.options
        samples = options.samples
        if samples is None:
            large = self.shape.words * self.shape.topics > LARGE_TABLE
            samples = 0 if large else SAMPLES
        length = samples * options.sample_every
        if options.burn_in is None:
            # passes before the last one, as numbers up to 0
            return range(options.sample_every - length, 1, options.sample_every)
        first = max(options.burn_in, 1)
        return range(first, first + length, options.sample_every)

    @property
    def state(self) -> Mapping[str, ArraySpec]:
        return {
            "z": ArraySpec(
                "token", np.min_scalar_type(self.shape.topics - 1).name, below=self.shape.topics
            )
        }

    @property
    def stats(self) -> Mapping[str, int]:
        bins = self.shape.topics * BINS if self.options.learn_priors else 0
        return {
            "loglik": 1,
            "tokens": 1,
            "draws": 3,
            "kept": 1,
            "documents": 2,
            "doc_loglik": 1,
            "topic_bins": bins,
            "lengths": 2 * BINS,
            **prior_stats(self.shape),
        }

    def initial_params(self) -> dict[str, np.ndarray]:
        params = {**super().initial_params(), "passes": np.zeros(1)}
        return params | prior_params(self.shape.covariates, params["alpha"])

    def priors(self, visit: Visit, out: Out) -> tuple[np.ndarray, np.ndarray]:
        """Return alpha of the documents: its rows and the row of each document.

        Returns
        -------
        float64[A, >= K], one row without covariates, and int32[D].
        """
        if self.shape.covariates is None:
            return visit.params["alpha"][None], np.zeros(visit.block.n_docs, np.int32)
        rows = covariate_rows(visit.block)
        alphas = out.array("priors", (len(rows.indptr) - 1, padded(self.shape.topics)))
        return fill_alphas(self.shape.covariates, rows, visit.params, alphas), rows.pattern

    def _count_prior(self, visit: Visit, out: Out) -> None:
        """Add the topics of a block's documents to the statistics of their priors."""
        if self.shape.covariates is None or not is_counted(
            visit.key.pass_number, self.options.learn_after
        ):
            return
        block = visit.block
        rows = covariate_rows(block)
        ends = np.concatenate(([0], np.cumsum(block.counts)))[block.indptr]
        alphas = out.array("priors", (len(rows.indptr) - 1, padded(self.shape.topics)))
        theta = out.array("documents by topic")
        for first in range(0, block.n_docs, DOCUMENTS):
            last = min(first + DOCUMENTS, block.n_docs)
            count_topics(ends[first : last + 1], out.state["z"], theta)
            part = rows._replace(pattern=rows.pattern[first:last])
            counts = theta[: last - first]
            held = self.options.prior_pull > 0.0
            count_prior(self.shape, part, counts, None, alphas, out.stats, visit.params, held)
        round_stats(self.shape, out.stats)

    @property
    def layout(self) -> Layout:
        """Choose larger blocks than engines that read rows in place.

        Rows are copied in and out once a block. A pass has at least 32 blocks where possible.
        Blocks are bounded so that the copies fit beside the table in 300 MB, and from 256 topics on
        by 2^26 / K, so that 512 MB do for a thousand topics.
        """
        cells = min(max(self.shape.cells // 32, 1 << 16), 1 << 18)
        cells = min(cells, (1 << 26) // padded(self.shape.topics))
        return replace(super().layout, block_cells=max(cells, 1 << 12))

    def workspace(self, block: BlockShape) -> dict[str, Buffer]:
        """Declare the arrays for draws and moves: two changes for a moved token."""
        changes = 2 * block.tokens + 2
        return {
            "first": Buffer(block.words, "int64"),
            "of topics": Buffer((12, self.shape.topics), "float64"),
            "n_t": Buffer(self.shape.topics, "float64"),
            "ptr": Buffer(block.words + 1, "int64", keep=True),
            "topic": Buffer(changes, "int32", keep=True),
            "value": Buffer(changes, "int32", keep=True),
            **self._prior_workspace(block),
        }

    def _prior_workspace(self, block: BlockShape) -> dict[str, Buffer]:
        """Declare the arrays for priors of documents, none without covariates."""
        if self.shape.covariates is None:
            return {}
        theta = Buffer((min(block.docs, DOCUMENTS), self.shape.topics), "float32")
        ends = Buffer(2 * block.cells, "int64")
        counts = {"documents by topic": theta, "ends of documents": ends}
        return counts | prior_workspace(self.shape, block, "float64")

    def start(self, visit: Visit, out: Out) -> None:
        """Draw a random topic for each token, or one from the seed topics.

        From seed topics, the tokens of a document are drawn in turn from p(k) ~ (alpha_k + n_dk so
        far) p(w | k).
        """
        block = visit.block
        key = visit.key
        k = self.shape.topics
        z = out.state["z"]
        draws = Draws(key.seed, key.pass_number, block.first_doc)
        if "phi" in visit.rows:
            seeds = visit.rows["phi"]
            inverse = 1.0 / np.maximum(visit.totals["phi"][:k], 1e-300)
            seeded_topics(
                block.cells,
                SeedRows(seeds.base, seeds.index, inverse),
                visit.params["alpha"],
                draws,
                np.zeros((2, k)),
                z,
            )
        else:
            draw_topics(block.indptr, block.counts, k, draws, z)
        out.delta["phi"] = self._changes(block, z[:0], z, out)

    def _changes(
        self, block: Block, before: np.ndarray, after: np.ndarray, out: Out
    ) -> SparseDelta:
        """Compute the change of word-topic counts from ``before`` to ``after``.

        Both are uint[tokens]. An empty ``before`` means no topics yet.
        """
        ptr = out.array("ptr")
        topic = out.array("topic")
        value = out.array("value")
        work = np.zeros(self.shape.topics, np.int32)
        used = count_moves(
            block.words,
            block.counts,
            before,
            after,
            work,
            out.array("first"),
            RowEntries(ptr, topic, value),
        )
        return SparseDelta(ptr, topic[:used], value[:used])

    def process(self, visit: Visit, out: Out) -> None:
        """Sweep the block's tokens once and write the change of its counts."""
        z = out.state["z"]
        n_t = out.array("n_t")
        stats = out.stats
        figures = np.zeros(12)
        z[:] = visit.state["z"]
        n_t[:] = visit.totals["phi"][: self.shape.topics]
        self.sweep(visit, out, n_t, figures)
        stats["loglik"][0] = figures[0]
        stats["draws"][:] = figures[1:4]
        stats["kept"][0] = figures[4]
        stats["documents"][:] = figures[5:7]
        stats["doc_loglik"][0] = figures[7]
        stats["tokens"][0] = figures[8]
        out.delta["phi"] = self._changes(visit.block, visit.state["z"], z, out)
        self._count_prior(visit, out)

    def sweep(self, visit: Visit, out: Out, n_t: np.ndarray, figures: np.ndarray) -> None:
        """Redraw every token's topic in place in ``out.state["z"]``.

        Parameters
        ----------
        n_t
            float64[K], tokens of each topic.
        figures
            float64[12], zeros, to be filled: the sum of log p(w | d), draws from s, r and q, draws
            of the old topic, documents, the sum of their topics, log p(z), tokens, and three
            numbers for the kernel's own use.
        """
        raise NotImplementedError(f"{type(self).__name__}.sweep")

    def entry_bytes(self, block: BlockShape) -> int:
        """Bound the bytes of a packed entry in a block."""
        seeded = int(self.shape.seeds.weight.max()) if self.shape.seeds is not None else 0
        heaviest = block.heaviest or int(self.shape.tokens)
        return entry_bytes(heaviest + block.tokens + seeded, self.shape.topics)

    def end_pass(self, end: PassEnd) -> dict[str, float]:
        params = end.params
        stats = end.stats
        n_k = end.totals["phi"][: self.shape.topics]
        figures = self._figures(end, n_k)
        params["passes"] += 1
        first_alpha = self.initial_params()["alpha"]
        rate = self.options.prior_pull
        pull = Pull(self.options.prior_mean or float(first_alpha[0]), rate, rate)
        since = passes_since(end.key.pass_number, self.options.learn_after)
        figures |= step_coefficients(self.shape, params, stats, first_alpha, since, pull=pull)
        figures |= self._learn_priors(end, n_k, float(first_alpha[0]))
        figures["alpha_sum"] = float(params["alpha"].sum())
        figures["beta"] = float(params["beta"][0])
        return figures

    def _figures(self, end: PassEnd, n_k: np.ndarray) -> dict[str, float]:
        """Compute the figures of a pass, and check that it drew every token.

        Parameters
        ----------
        n_k
            float64[K], tokens of each topic.

        Raises
        ------
        TopicsError
            Tokens of the pass, of the table and of the corpus differ.
        """
        stats = end.stats
        counts = stats["phi.counts"]
        times = stats["phi.times"]
        tokens = float(stats["tokens"][0])
        if n_k.sum() != self.shape.tokens or tokens != self.shape.tokens:
            raise TopicsError(
                f"{self.name}: {tokens:.0f} tokens were drawn and {n_k.sum():.0f} stand in the "
                f"table, but the corpus has {self.shape.tokens:.0f}; the last checkpoint is "
                "intact, report this"
            )
        beta = float(end.params["beta"][0])
        joint = float(stats["doc_loglik"][0]) + words_loglik(
            beta, counts, times, n_k, self.shape.words
        )
        if self.shape.seeds is not None:
            joint += self.shape.seeds.evidence(
                stats["phi.constants"], n_k, beta, beta * self.shape.words
            )
        draws = stats["draws"] / max(tokens, 1.0)
        (documents, topics_sum) = stats["documents"].tolist()
        return {
            "joint_loglik": joint,
            "joint_loglik_per_token": joint / max(tokens, 1.0),
            "draws_s": float(draws[0]),
            "draws_r": float(draws[1]),
            "draws_q": float(draws[2]),
            "draws_kept": float(stats["kept"][0]) / max(tokens, 1.0),
            "table_bytes": float(stats["phi.bytes"][0]),
            "topics_per_word": float(times.sum()) / max(self.shape.words, 1),
            "topics_per_document": topics_sum / max(documents, 1.0),
        }

    def _learn_priors(self, end: PassEnd, n_k: np.ndarray, first_alpha: float) -> dict[str, float]:
        """Fit the priors to the counts of the pass, if it is one that learns them.

        Parameters
        ----------
        n_k
            float64[K], tokens of each topic.
        first_alpha
            Alpha that training began with, of each topic.

        Returns
        -------
        dict
            ``priors_held``, how many of them are at a bound; empty where nothing was learned.
        """
        options = self.options
        params = end.params
        stats = end.stats
        after = int(params["passes"][0]) - options.learn_after
        if not options.learn_priors or after <= 0 or after % options.learn_every:
            return {}
        low = options.prior_low
        high = options.prior_high
        documents = (
            topic_counts(stats["topic_bins"], self.shape.topics),
            length_counts(stats["lengths"]),
        )
        rate = options.prior_pull * float(stats["documents"][0])
        pull = Pull(options.prior_mean or first_alpha, rate, rate)
        # with covariates each document has an alpha of its own, from the coefficients
        if self.shape.covariates is None:
            params["alpha"][:] = fit_alpha(
                params["alpha"], *documents, digamma_rise, low, high, pull
            )
        words = Histogram(stats["phi.times"], stats["phi.counts"])
        params["beta"][0] = fit_beta(
            float(params["beta"][0]), words, 1.0, n_k, self.shape.words, digamma_rise, low, high
        )
        at_bound = int(np.isin([*params["alpha"], *params["beta"]], (low, high)).sum())
        if at_bound and not self._warned:
            self._warned = True
            bounds = f"{low:g} or {high:g} (--prior-low, --prior-high)"
            end.say(f"warning: {at_bound} learned priors are at a bound, {bounds}")
        return {"priors_held": float(at_bound)}
