"""``finished.json``: why a run stopped, and under which tolerance, for the same command given again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topicstream.errors import StoreError, UsageError
from topicstream.files import owned
from topicstream.files.durable import read_json, write_json
from topicstream.training.stopping import Share, Stopping, tolerance

NAME = "finished.json"


@dataclass(frozen=True)
class Outcome:
    """passes: of the model; made: those behind the best one counted too; tol, tol_params: 0 where no change stopped it."""

    passes: int
    reason: str
    made: int
    tol: float = 0.0
    tol_params: float = 0.0

    @classmethod
    def read(cls, folder: Path) -> Outcome | None:
        """What the run in ``folder`` left when it ended; None: it has not."""
        path = folder / NAME
        if not path.exists():
            return None
        value = read_json(path)
        try:
            passes, tol = int(value["passes"]), tolerance(value.get("tol", 0.0))
            made, tol_params = max(passes, int(value.get("made", 0))), float(value.get("tol_params", 0.0))
            return cls(passes, str(value["reason"]), made, tol, tol_params)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, UsageError) as e:
            raise StoreError(f"{path}: not what a run leaves ({type(e).__name__}: {e}); start anew with --force") from None

    def write(self, folder: Path) -> None:
        """Leave it."""
        value: dict[str, Any] = {"passes": self.passes, "reason": self.reason}
        value["tol"] = str(self.tol) if isinstance(self.tol, Share) else self.tol
        value |= {"made": self.made} if self.made > self.passes else {}
        value |= {"tol_params": self.tol_params} if self.tol_params else {}
        write_json(folder / NAME, value)

    def covers(self, stopping: Stopping) -> bool:
        """Whether a run that converged so had converged under these tolerances too."""
        same = type(stopping.tol) is type(self.tol) and stopping.tol >= self.tol > 0
        return same or stopping.tol_params >= self.tol_params > 0


def unfinish(folder: Path) -> None:
    """A finished run that goes on is finished no more."""
    owned.remove_file(folder / NAME, missing_ok=True)
