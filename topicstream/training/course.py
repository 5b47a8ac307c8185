"""The progress of a run: perplexities by pass, convergence, checks and warnings.

Checks must hold at the end of every pass. Warnings tell the user which topics are poor, and what to
do about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from topicstream.base.errors import TopicsError
from topicstream.corpus.reader import Corpus
from topicstream.engines.base import Engine, passes_needed
from topicstream.engines.covariates import passes_for_regimes, row_coefficients
from topicstream.model.design import PriorDesign
from topicstream.model.top import Best
from topicstream.model.topic_kinds import EMPTY
from topicstream.numeric.tables.table import Table
from topicstream.training.stopping import SPAN, Share, converged, has_stalled

if TYPE_CHECKING:
    from topicstream.training.heldout import HeldOut


FIRST_WORDS = 10
LEAST_DIVERSITY = 0.3
"""Top words of a topic, and their least share of distinct words without a warning."""
PIECE = 1 << 16  # entries of the table that are looked at together


class Course:
    """Perplexities of the passes of a run, and what follows from them.

    Attributes
    ----------
    running
        Running perplexities of the latest passes.
    measured
        Pairs of (pass, held-out perplexity).
    least
        Passes before a run can have converged.
    """

    def __init__(
        self,
        engine: Engine,
        corpus: Corpus,
        threads: int,
        start: str,
        design: PriorDesign | None = None,
    ) -> None:
        self._engine = engine
        self._design = design
        self._corpus = corpus
        self._threads = threads
        self.running: list[float] = []
        self.measured: list[tuple[int, float]] = []
        # passes before a run can have settled: twenty from the random start, which lingers near the
        # uniform point
        self.least = 20 if start == "random" else 5
        # learning priors may raise perplexity: the window of passes begins behind that
        settles_after = engine.phases[-1].settles_after
        if settles_after:
            self.least = max(self.least, settles_after + 2 * SPAN)
        prior = engine.shape.covariates
        if prior is not None and prior.periods:
            after = getattr(engine.options, "learn_after", 0)
            self.least = max(self.least, passes_for_regimes(after) + SPAN)

    def add_perplexity(self, value: float) -> None:
        """Append the running perplexity of one more pass."""
        before = SPAN + self._engine.about.window - 1
        self.running = [*self.running[-before:], value]

    def clear(self) -> None:
        """Clear all perplexities, because another phase may have another objective."""
        self.running = []
        self.measured = []

    def measure(
        self,
        number: int,
        tables: Mapping[str, Table],
        params: Mapping[str, np.ndarray],
        record: dict[str, object],
    ) -> tuple[float | None, float | None]:
        """Measure the held-out documents after a pass.

        Parameters
        ----------
        number
            The pass.
        tables, params
            The engine's tables and parameters after it.
        record
            The history record of the pass, which may receive further figures.

        Returns
        -------
        tuple
            Held-out perplexity, and the value that is lowest for the best pass. Both are None
            without held-out documents.
        """
        if self._engine.about.completion:
            perplexity = self._heldout.perplexity(
                tables["phi"],
                params["alpha"],
                self._engine.model_beta(params),
                row_coefficients(self._engine.shape.covariates, params),
            )
            low = perplexity
        else:
            nats, perplexity = self._heldout.likelihood(tables, params) or (None, None)
            low = perplexity
            if nats is not None:
                record["heldout"] = {"nats a point": nats}
                low = perplexity or -nats
        if low is not None and passes_needed(self._engine.phases) is None:
            self.measured.append((number, low))
        return perplexity, low

    def warnings(
        self,
        last: Mapping[str, Any],
        tables: Mapping[str, Table],
        params: Mapping[str, np.ndarray],
        n_w: np.ndarray,
    ) -> list[str]:
        """Collect the warnings about the topics of a finished run.

        Parameters
        ----------
        last
            The latest history record.
        tables, params
            The engine's tables and parameters.
        n_w
            float64[W], training tokens of each word.
        """
        engine = self._engine
        shape = self._engine.shape
        warnings = warn_of_topics(engine, tables, params)
        if engine.about.dense or "phi" not in tables:
            return warnings
        warnings += self._compare_with_unigram(last, tables, params, n_w)
        warnings += warn_of_alpha_at_bound(engine, params)
        if not engine.about.topics_axis:
            diversity = topic_diversity(tables["phi"].pieces(), shape.topics, shape.words)
            warnings += warn_of_low_diversity(diversity)
        return warnings

    def _compare_with_unigram(
        self,
        last: Mapping[str, Any],
        tables: Mapping[str, Table],
        params: Mapping[str, np.ndarray],
        n_w: np.ndarray,
    ) -> list[str]:
        """Warn where word frequencies alone predict words better than the topics do.

        Held-out documents decide where the last pass measured them or has no running perplexity.
        Otherwise the training documents do, once the run could have converged.
        """
        about = self._engine.about
        if not about.completion or about.topics_axis or self._corpus.weights is not None:
            return []
        value = last.get("heldout_perplexity")
        running = last.get("running_perplexity")
        if value is None and running is not None:
            needed = passes_needed(self._engine.phases)
            if needed is None and int(last["pass"]) < self.least:
                return []
            return warn_of_worse_than_unigram("running", float(running), unigram_perplexity(n_w))
        beta = self._engine.model_beta(params)
        if value is None:
            coefficients = row_coefficients(self._engine.shape.covariates, params)
            value = self._heldout.perplexity(tables["phi"], params["alpha"], beta, coefficients)
        if value is None:
            return []
        return warn_of_worse_than_unigram(
            "held-out", float(value), self._heldout.unigram_perplexity(n_w, beta)
        )

    @cached_property
    def _heldout(self) -> HeldOut:
        """Prepare the held-out documents at the first measurement."""
        # only runs that measure load its kernels
        from topicstream.training.heldout import HeldOut

        return HeldOut(self._engine, self._corpus, self._threads, self._design)

    @property
    def best(self) -> int:
        """Return the pass with the lowest held-out perplexity, or 0 if none was measured."""
        if not self.measured:
            return 0
        number, _ = min(self.measured, key=itemgetter(1))
        return number

    def converged(self, tol: float, passes: int) -> bool:
        """Return True if perplexity has converged, held-out perplexity where it is measured."""
        if self.measured:
            is_measured = self.measured[-1][0] == passes
            return is_measured and passes >= self.least and has_stalled(self.measured, tol)
        return converged(self.running, tol, passes, self.least, self._engine.about.window)

    def describe_convergence(self, tol: float) -> str:
        """Describe the convergence, as the reason why the run ended."""
        least = tol if isinstance(tol, Share) else format(tol, "g")
        if self.measured:
            return f"no new low of held-out perplexity by {least} in {SPAN} passes"
        over = f" over {SPAN} passes" if isinstance(tol, Share) else ""
        return f"{self._engine.about.objective.name} changed by less than {least}{over}"


def unigram_perplexity(n_w: np.ndarray) -> float:
    """Compute the perplexity of the training words under their own frequencies.

    Parameters
    ----------
    n_w
        float64[W], training tokens of each word.
    """
    p = n_w[n_w > 0] / n_w.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


def warn_of_worse_than_unigram(name: str, perplexity: float, unigram: float) -> list[str]:
    """Warn if ``perplexity`` is higher than ``unigram``, that of word frequencies alone.

    ``name`` is that of the perplexity in the message: "running" or "held-out".
    """
    if not perplexity > unigram:
        return []
    return [
        f"the {name} perplexity, {perplexity:,.1f}, is worse than that of the words' "
        f"frequencies alone, {unigram:,.1f}: give more passes, another --algo or --start, or a "
        "lower -K"
    ]


def warn_of_alpha_at_bound(engine: Engine, params: Mapping[str, np.ndarray]) -> list[str]:
    """Warn if alpha was estimated from moments and its sum stands at a bound.

    Engines that learn priors warn themselves.
    """
    if engine.about.alpha_sum_bounds is None or getattr(engine.options, "alpha", None) is not None:
        return []
    low, high = engine.about.alpha_sum_bounds
    total = float(params["alpha"].sum())
    if low * 1.001 < total < high * 0.999:
        return []
    bound = low if total <= low * 1.001 else high
    return [
        f"alpha stands at its bound, {bound:g} over all topics: under these topics documents do "
        "not mix as they should; give --alpha, choose another --algo, or ingest with "
        "--min-tokens to leave short documents out"
    ]


def topic_diversity(pieces: Iterable[tuple[int, np.ndarray]], topics: int, words: int) -> float:
    """Compute the share of distinct words among the topics' ten top words.

    It is a share of the most words that could be distinct.

    Parameters
    ----------
    pieces
        (first word, rows) of the table, in order.
    """
    best = Best(min(FIRST_WORDS, words), topics)
    step = max(1, PIECE // topics)
    for first, rows in pieces:
        for start in range(0, len(rows), step):
            best.add(first + start, rows[start : start + step, :topics])
    ids = best.ids[best.scores > 0]
    return len(np.unique(ids)) / max(1, min(len(ids), words))


def warn_of_low_diversity(diversity: float) -> list[str]:
    """Warn if the topics share most of their top words."""
    if diversity >= LEAST_DIVERSITY:
        return []
    return [
        f"topic diversity is {diversity:.2f} (the share of distinct words among the topics' ten "
        "top words): many topics are alike; lower -K, leave more stop words out, or choose "
        "another --algo"
    ]


ROW_TOLERANCE = 1e-5
TOTAL_TOLERANCE = 1e-9
FLOAT32_STEP = 2.0**-24
"""Tolerances of ``check_pass``, which derives them."""
COMPARED_BYTES = 8 << 20
"""Bytes of the rows by which duplicate topics are found."""


def check_pass(
    engine: Engine,
    totals: Mapping[str, np.ndarray],
    worst: Mapping[str, np.ndarray],
    number: int,
    tokens: float,
    additions: int = 0,
) -> None:
    """Check that the tables conserve token mass at the end of a pass.

    A table must hold no NaN or infinity. In a table with row mass, no row may need a correction
    above 1e-5 plus the rounding errors of ``additions`` float32 additions, and no entry may be
    below minus that share of n_w. The total may differ from the tokens by 1e-9 plus the errors of
    rounding the entries to float32.

    Additions: an addition is rounded to within 2^-24 of its result, and no entry of a block's
    changes exceeds what the block holds of the word, so n additions cost at most 2^-24 n of it.
    ``additions`` is the most that an entry can meet: each document of the largest block takes its
    old share out and its new one in, and each block is added once. The errors need not cancel: a
    hundred thousand equal documents all round the same way. (The 1e-5 is measured, for the rest of
    the arithmetic and for rows of at most 512 entries, which ``sparse-bp`` changes in place.)

    Total: ``finish_pass`` scales every row to its mass in float64 and rounds each entry once, to
    within 2^-24 of the entry. Entries are not negative, so the errors add up to at most 2^-24 of
    their sum. They need not cancel either: a hundred thousand rows with the same small count all
    round the same way.

    Raises
    ------
    TopicsError
        A table breaks one of these rules.
    """
    moment = "the start" if number == 0 else f"pass {number}"
    tolerance = ROW_TOLERANCE + FLOAT32_STEP * additions
    for name, spec in engine.tables.items():
        # a start that is the seed table itself is scaled as a whole: its rows are no counts yet
        mass = "none" if number == 0 and engine.phases[0].start != "visit" else spec.mass
        problem = _describe_fault(mass, totals[name], worst[name], tokens, tolerance)
        if problem:
            raise TopicsError(
                f"{engine.name}: table {name} {problem} after {moment}; the last checkpoint is "
                f"intact, report this"
            )


def _describe_fault(
    mass: str, totals: np.ndarray, worst: np.ndarray, tokens: float, tolerance: float
) -> str:
    """Describe the fault in the mass of a table, "" if there is none."""
    correction, lowest, broken = worst
    if broken or not np.isfinite(totals).all():
        return "holds NaN or infinity"
    total = float(totals.sum())
    if mass == "row" and (correction > tolerance or lowest < -tolerance):
        return (
            f"does not conserve token mass: a row off by {correction:.1e}, lowest entry "
            f"{lowest:.1e} of its row"
        )
    if mass == "part" and (lowest < -tolerance or total > tokens * (1 + tolerance)):
        return f"holds {total:.9g} of {tokens:.9g} tokens, lowest entry {lowest:.1e} of its row"
    if mass in ("row", "total") and abs(total / tokens - 1.0) > TOTAL_TOLERANCE + FLOAT32_STEP:
        return f"sums to the tokens only within {abs(total / tokens - 1.0):.1e}"
    return ""


def warn_of_topics(
    engine: Engine, tables: Mapping[str, Table], params: Mapping[str, np.ndarray]
) -> list[str]:
    """Warn of identical topics and of empty or tiny components.

    ``topicstream.model.topic_kinds`` warns of dead topics.
    """
    if engine.about.topics_axis:  # a name has a topic even without documents
        return []
    if "phi" in tables:
        return warn_of_duplicate_topics(
            tables["phi"].pieces(), tables["phi"].totals, engine.shape.topics
        )
    sizes = params["sizes"]
    needed = engine.shape.words + 1
    empty = int((sizes < 0.5).sum())
    tiny = int(((sizes >= 0.5) & (sizes < needed)).sum())
    warnings = []
    if empty:
        warnings.append(f"{empty} of {len(sizes)} components are empty: fewer (-K) would do")
    if tiny:
        warnings.append(
            f"{tiny} of {len(sizes)} components hold fewer than {needed} points, one more than "
            "dimensions: the prior decides their shapes; fewer (-K) would do"
        )
    return warnings


def warn_of_duplicate_topics(
    pieces: Iterable[tuple[int, np.ndarray]], totals: np.ndarray, topics: int
) -> list[str]:
    """Warn of topics that are the same.

    Two topics are the same if the l1 distance of their p(w|k) over the most frequent words is below
    0.02. At most 20,000 words are compared, and no more than ``COMPARED_BYTES`` of rows hold.

    Parameters
    ----------
    pieces
        (first word, rows) of the table, in order.
    totals
        float64[>= topics], column sums of the table.
    """
    words = max(200, min(20000, COMPARED_BYTES // (4 * topics)))
    parts = [np.zeros((0, topics), np.float32)]
    missing = words
    for _, rows in pieces:
        parts.append(np.array(rows[:missing, :topics], np.float32))
        missing -= len(parts[-1])
        if missing <= 0:
            break
    top = np.concatenate(parts)
    sums = top.sum(axis=0)
    warnings: list[str] = []
    full = np.flatnonzero((sums > 0) & (totals[:topics] >= EMPTY))
    if len(full) > 5000:
        return warnings  # comparing all pairs would take more memory than the topics
    p = (top[:, full] / sums[full]).T.copy()
    # cosines first, which are cheap, then distances of the pairs that are near
    coarse = p @ p.T
    norms = np.sqrt(np.diag(coarse))
    near = np.argwhere(np.triu(coarse / np.outer(norms, norms), 1) > 0.99)
    same = sum(int(np.abs(p[a] - p[b]).sum() < 0.02) for a, b in near[:10000])
    if same:
        pairs = "pair of topics is" if same == 1 else "pairs of topics are"
        warnings.append(
            f"{same} {pairs} the same (`topics show --tree` joins them first): fewer topics "
            f"(-K) would do"
        )
    return warnings
