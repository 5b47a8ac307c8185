"""The phases of an engine: stretches of passes in which it does one thing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Phase:
    """A stretch of passes in which an engine does one thing.

    Attributes
    ----------
    name
        ``Key.phase`` of its visits.
    passes
        Passes that it takes. None (the last phase only): as many as the run makes.
    reads, writes
        Tables whose rows a visit sees, and tables that receive deltas. None: all.
    steps
        Whether a pass is one call of ``Engine.end_phase`` on whole tables, without visits.
    order
        Order of the blocks of a pass: ``sequential`` or ``shuffled``.
    start
        Of the first phase, how the tables begin: ``visit``: pass 0 calls ``start`` on every block;
        ``table``: ``phi`` is the seed topics themselves, scaled to the corpus; ``empty``: all
        zeros.
    settles_after
        Passes before which the run has not settled, whatever perplexity does (priors are not
        learned yet, for example).
    """

    name: str = "train"
    passes: int | None = None
    reads: tuple[str, ...] | None = None
    writes: tuple[str, ...] | None = None
    steps: bool = False
    order: str = "sequential"
    start: str = "visit"
    settles_after: int = 0


def phase_of(phases: Sequence[Phase], pass_number: int) -> tuple[Phase, bool]:
    """Find the phase of a pass and whether the pass is its last.

    ``pass_number`` counts from 1.
    """
    number = pass_number
    for phase in phases[:-1]:
        if number <= (phase.passes or 0):
            return phase, number == phase.passes
        number -= phase.passes or 0
    return phases[-1], number == phases[-1].passes


def blocks_were_visited(phases: Sequence[Phase], passes: int) -> bool:
    """Return True if any of the first passes, the start among them, visits the blocks."""
    if phases[0].start == "visit":
        return True
    return any(not phase_of(phases, number)[0].steps for number in range(1, passes + 1))


def passes_needed(phases: Sequence[Phase]) -> int | None:
    """Count the passes of all phases, or None if the last is open-ended."""
    return None if phases[-1].passes is None else sum(phase.passes or 0 for phase in phases)
