"""What must hold at the end of every pass, and what is worth a warning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from topicstream.engines.base import Engine
from topicstream.errors import TopicsError
from topicstream.model.topic_kinds import EMPTY
from topicstream.tables.table import Table

ROW_TOLERANCE = 1e-5
TOTAL_TOLERANCE = 1e-9
FLOAT32_STEP = 2.0**-24
COMPARED_BYTES = 8 << 20


def check_pass(
    engine: Engine,
    totals: Mapping[str, np.ndarray],
    worst: Mapping[str, np.ndarray],
    number: int,
    tokens: float,
    additions: int = 0,
) -> None:
    """TopicsError when a table holds NaN or inf, or (tables with row mass) when a row's mass had to
    be corrected by more than 1e-5 plus what ``additions`` in float32 can cost, an entry was below
    minus so much of n_w, or the total differs from the tokens by more than 1e-9 plus what rounding
    the entries to float32 can cost.

    An addition is rounded to within 2^-24 of its result, and no entry of a block's changes is
    larger than what the block
    holds of the word: n additions cost 2^-24 n of it at most.  ``additions`` is what an entry can
    meet: each document of
    the largest block takes its old share out and its new one in, each block is added once.  They
    need not cancel either: a
    hundred thousand equal documents all round the same way.  (The 1e-5 are measured: for the rest
    of the arithmetic, and for
    rows of entries of 512 at most, which ``sparse-bp`` changes in place.)

    The other is 2^-24 of the tokens, and not less: ``settle`` scales every row to its mass in
    float64 and rounds each entry once, to within half a step, 2^-24 of the entry; entries are not
    negative, so the errors add up to 2^-24 of their sum at most. They need not cancel: a hundred
    thousand rows with the same small count all round the same way."""
    where = "the start" if number == 0 else f"pass {number}"
    for name, spec in engine.tables.items():
        # a seed table is scaled to the corpus as a whole, its rows are not the words' counts yet
        mass = "none" if number == 0 and engine.phases[0].start != "visit" else spec.mass
        if problem := _problem(
            mass, totals[name], worst[name], tokens, ROW_TOLERANCE + FLOAT32_STEP * additions
        ):
            raise TopicsError(
                f"{engine.name}: table {name} {problem} after {where}; the last checkpoint is "
                f"intact, report this"
            )


def _problem(
    mass: str, totals: np.ndarray, worst: np.ndarray, tokens: float, tolerance: float
) -> str:
    """What is wrong with the mass of a table; "" where nothing is."""
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


def worth_a_warning(
    engine: Engine, tables: Mapping[str, Table], params: Mapping[str, np.ndarray]
) -> list[str]:
    """What a user should hear of the topics of a run that has ended: identical ones.

    (``topicstream.model.topic_kinds`` warns of dead topics.)"""
    if engine.about.topics_axis:  # a name without documents has a topic all the same
        return []
    if "phi" in tables:
        return duplicate_topics(tables["phi"].pieces(), tables["phi"].totals, engine.shape.topics)
    sizes, needed = params["sizes"], engine.shape.words + 1
    empty, tiny = int((sizes < 0.5).sum()), int(((sizes >= 0.5) & (sizes < needed)).sum())
    warnings = (
        [f"{empty} of {len(sizes)} components are empty: fewer (-K) would do"] if empty else []
    )
    if tiny:
        warnings.append(
            f"{tiny} of {len(sizes)} components hold fewer than {needed} points, one more than "
            f"dimensions: the prior decides "
            "their shapes; fewer (-K) would do"
        )
    return warnings


def duplicate_topics(
    pieces: Iterable[tuple[int, np.ndarray]], totals: np.ndarray, topics: int
) -> list[str]:
    """Warn of topics that are the same (l1 distance of p(w|k) over the most frequent words below
    0.02; as many words as ``COMPARED_BYTES`` of rows hold, 20,000 at most).

    pieces: (first word, rows) of the table, in order; totals: its column sums, float64[>= topics].
    """
    words = max(200, min(20000, COMPARED_BYTES // (4 * topics)))
    parts, seen = [np.zeros((0, topics), np.float32)], 0
    for _, rows in pieces:
        take = min(len(rows), words - seen)
        parts.append(np.array(rows[:take, :topics], np.float32))
        seen += take
        if seen >= words:
            break
    top = np.concatenate(parts)
    sums = top.sum(axis=0)
    warnings: list[str] = []
    full = np.flatnonzero((sums > 0) & (totals[:topics] >= EMPTY))
    if len(full) > 5000:
        return warnings  # comparing all pairs would take more memory than the topics
    p = (top[:, full] / sums[full]).T.copy()
    coarse = p @ p.T
    norms = np.sqrt(np.diag(coarse))
    near = np.argwhere(np.triu(coarse / np.outer(norms, norms), 1) > 0.99)
    same = [
        (int(full[a]), int(full[b])) for a, b in near[:10000] if np.abs(p[a] - p[b]).sum() < 0.02
    ]
    if same:
        pairs = "pair of topics is" if len(same) == 1 else "pairs of topics are"
        warnings.append(
            f"{len(same)} {pairs} the same (`topics show --tree` joins them first): fewer topics "
            f"(-K) would do"
        )
    return warnings
