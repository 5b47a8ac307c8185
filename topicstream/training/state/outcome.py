"""``finished.json``: why a run stopped, and under which tolerance, for the same command given again."""

from __future__ import annotations

from pathlib import Path

from topicstream.files import owned
from topicstream.records import Count, Record, read_record, write_record
from topicstream.training.stopping import Share, Stopping, tolerance

NAME = "finished.json"


class Outcome(Record, frozen=True, kw_only=True, omit_defaults=True):
    """How a run ended.

    passes: of the model;  made: where the model is that of the best pass, those behind it counted too;  tol, tol_params: 0
    where no change stopped it.
    """

    passes: Count
    reason: str
    tol: float | str = 0.0
    made: Count = 0
    tol_params: float = 0.0

    @classmethod
    def of(cls, passes: int, reason: str, made: int, stopping: Stopping, tol_params: float) -> Outcome:
        """The outcome of a run under ``stopping``; tol_params: 0 where moves of topics were not measured."""
        tol = str(stopping.tol) if isinstance(stopping.tol, Share) else stopping.tol
        return cls(passes=passes, reason=reason, tol=tol, made=made if made > passes else 0, tol_params=tol_params)

    @property
    def passes_made(self) -> int:
        """Passes in all, those behind the best one too."""
        return max(self.passes, self.made)

    @classmethod
    def read(cls, folder: Path) -> Outcome | None:
        """What the run in ``folder`` left when it ended; None: it has not."""
        path = folder / NAME
        return read_record(path, cls, "Start over with --force") if path.exists() else None

    def write(self, folder: Path) -> None:
        """Leave it."""
        write_record(folder / NAME, self)

    def covers(self, stopping: Stopping) -> bool:
        """Whether a run that converged so had converged under these tolerances too."""
        tol = tolerance(self.tol)
        same = isinstance(stopping.tol, Share) == isinstance(tol, Share) and stopping.tol >= tol > 0
        return same or stopping.tol_params >= self.tol_params > 0


def unfinish(folder: Path) -> None:
    """A finished run that continues is finished no more."""
    owned.remove_file(folder / NAME, missing_ok=True)
