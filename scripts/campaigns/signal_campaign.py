"""SIGTERM, SIGHUP and SIGINT at random instants of every command, and a reader of its output that goes: a clean end.

    python scripts/campaigns/signal_campaign.py [--times 3] [--only train infer ...] [--seed 0]

A signal must end a command with 143 (SIGTERM, SIGHUP) or 130 (SIGINT; before the handlers stand: by the signal itself) and
one line, without a traceback; nothing may be left of it but what the same command carries on with, which it then does, and
ends with 0.  Prints a Markdown table; exit 1 when anything differs.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from fault_cases import text
from foreign_campaign import RETRAIN
from measure import heading, table

CODE = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); import topicstream.cli.main as c; c.main()"
TOPICS = [sys.executable, "-c", CODE]  # this campaign may run under nohup, which commands respect
SIGNALS = {signal.SIGTERM: 143, signal.SIGHUP: 143, signal.SIGINT: 130}
M, C, H = ("--model", "m"), ("--corpus", "s.zarr"), ("--corpus", "h.zarr")
SAID = ("topics: stopped", "topics: interrupted", "topics: out of", "Aborted")


@dataclass(frozen=True)
class Case:
    """A command line; ``keeps``: what a run that was stopped may leave (beginnings of paths)."""

    line: tuple[str, ...]
    keeps: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The command and its first options."""
        return " ".join([self.line[0], *[w for w in self.line[1:] if w.startswith("--")][:2]])


CASES = [
    Case(("ingest", "raw.jsonl", "--out", "new.zarr"), ("new.zarr",)),
    Case(("ingest", "other.jsonl", "--out", "s.zarr", "--append"), ("s.zarr",)),
    Case(("train", *C, "-K", "5", "--passes", "20", "--model", "m2"), ("m2",)),
    Case(("train", *C, "-K", "5", "--algo", "gs", "--dry-run", "--model", "m2")),
    Case(("update", *M, "--corpus", "g.zarr"), ("m",)),
    Case(("retrain", "--config", "home/retrain.toml"), ("home",)),
    Case(("rollback", "done"), ("done/current",)),
    Case(("eval", *M, *H, "--heldout", "--coherence")),
    Case(("eval", *M, *H, "--per-document", "a.parquet", "--heldout"), ("a.parquet",)),
    Case(("classifier", *M, *C, "--passes", "2"), ("m",)),
    Case(("infer", "raw.jsonl", *M, "--out", "a.csv"), ("a.csv",)),
    Case(("infer", "s.zarr", *M, "--out", "a.parquet"), ("a.parquet",)),
    Case(("info", "s.zarr", "--verify")),
    Case(("info", "m", "--drift", "raw.jsonl")),
    Case(("show", *M, *C, "--theta", "a.csv"), ("a.csv",)),
    Case(("show", *M, *C, "--docs", "2")),
    Case(("report", "m", *C, "--out", "a.html"), ("a.html",)),
    Case(("edit", "m", "--label", "0=x"), ("m",)),
    Case(("edit", "m", "--propose-labels"), ("m",)),
    Case(("sweep", *H, "-K", "2,3", "--seeds", "1", "--algo", "bp", "--passes", "2", "--out", "w"), ("w",)),
    Case(("compare", "m", "m")),
    Case(("export", *M, "--out", "a.parquet"), ("a.parquet",)),
    Case(("export", *M, *C, "--format", "mallet", "--out", "a"), ("a",)),
    Case(("import", "phi.parquet", "--model", "m3"), ("m3",)),
    Case(("compact", "g.zarr"), ("g.zarr",)),
    Case(("forget", "d3", *C, *M), ("s.zarr", "m")),
    Case(("engines",)),
    Case(("warm",)),
]
PIPED = [
    Case(("show", *M)),
    Case(("show", *M, *C, "--docs", "3")),
    Case(("engines",)),
    Case(("info", "s.zarr", "--json")),
    Case(("infer", "raw.jsonl", *M)),
    Case(("compare", "m", "m")),
    Case(("eval", *M, *H, "--heldout", "--json")),
]


def prepare(place: Path) -> None:
    """Stores, models and inputs that the commands begin from."""
    text(place / "in.jsonl", 300, 0, 1)
    text(place / "raw.jsonl", 3000, 0, 4)
    text(place / "other.jsonl", 1500, 5000, 2)
    (place / "home" / "raw").mkdir(parents=True)
    (place / "home" / "retrain.toml").write_text(RETRAIN)
    text(place / "home" / "raw" / "a.jsonl", 300, 0, 3)
    done = place / "done"
    shutil.copytree(place / "home", done)
    retrain = ("retrain", "--config", "done/retrain.toml")
    for line in [
        ("ingest", "in.jsonl", "--out", "s.zarr", "--heldout", "0"),
        ("ingest", "in.jsonl", "--out", "h.zarr", "--heldout", "20%"),
        ("train", *C, "-K", "3", "--algo", "sparse-bp", "--passes", "2", "--tol", "0", *M),
        ("export", *M, "--out", "phi.parquet"),
        ("ingest", "in.jsonl", "--out", "g.zarr", "--heldout", "0"),
        ("ingest", "other.jsonl", "--out", "g.zarr", "--append"),
        retrain,
    ]:
        subprocess.run([*TOPICS, *line], cwd=place, check=True, capture_output=True)
    text(done / "raw" / "b.jsonl", 300, 700, 5)
    subprocess.run([*TOPICS, *retrain], cwd=place, check=True, capture_output=True)


def paths(place: Path) -> Iterator[str]:
    """What lies below a folder, but locks and marks."""
    for at, folders, files in os.walk(place):
        for name in [*folders, *files]:
            if name not in (".lock", ".topicstream", "tmp"):
                yield (Path(at) / name).relative_to(place).as_posix()


def start(case: Case, place: Path, out: int) -> subprocess.Popen[str]:
    """The command, with a folder for temporary files that is empty."""
    (place / "tmp").mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(place / "tmp")}
    return subprocess.Popen(
        [*TOPICS, *case.line], cwd=place, env=environment, stdout=out, stderr=subprocess.PIPE, text=True
    )


def signalled(case: Case, place: Path, signum: signal.Signals, after: float) -> tuple[bool, str]:
    """Whether the signal came in time, and what went wrong."""
    before = set(paths(place))
    process = start(case, place, subprocess.DEVNULL)
    time.sleep(after)
    process.send_signal(signum)
    try:
        _, err = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        return True, "does not end"
    wrong = [f"tmp/{p}" for p in paths(place / "tmp")]
    if "Traceback" in err or "internal error" in err or "Exception ignored" in err:
        wrong.append(err.strip()[-300:])
    if process.returncode == 0:
        return False, "; ".join(wrong)
    new = sorted(set(paths(place)) - before)
    wrong += [p for p in new if not p.startswith("tmp/") and not (case.keeps and p.startswith(case.keeps))]
    if process.returncode not in (SIGNALS[signum], -signum):
        wrong.append(f"exit {process.returncode}: {err.strip()[-200:]}")
    elif process.returncode > 0 and not err.strip().splitlines()[-1].startswith(SAID):
        wrong.append(f"said {err.strip()[-200:]!r}")
    again = start(case, place, subprocess.DEVNULL)
    _, err = again.communicate(timeout=300)
    if again.returncode and case.line[0] != "rollback":
        wrong.append(f"again: exit {again.returncode}: {err.strip()[-200:]}")
    return True, "; ".join(wrong)


def piped(case: Case, place: Path) -> str:
    """What went wrong where the reader of the output takes one line and goes."""
    process = start(case, place, subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    code = process.wait()
    bad = "Traceback" in err or "rror" in err or code not in (0, 1) or any(paths(place / "tmp"))
    return f"exit {code}: {err.strip()[-200:]}" if bad else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=2, help="of each signal, a command")
    parser.add_argument("--only", nargs="*", default=[""], help="commands that begin so")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rows, failed = [], 0
    with tempfile.TemporaryDirectory() as temporary:
        origin = Path(temporary) / "origin"
        origin.mkdir()
        prepare(origin)

        def fresh() -> Path:
            place = Path(temporary) / "place"
            shutil.rmtree(place, ignore_errors=True)
            return Path(shutil.copytree(origin, place, symlinks=True))

        for case in CASES:
            if not case.name.startswith(tuple(args.only)):
                continue
            rng, sent, wrong, began = random.Random(f"{args.seed}-{case.name}"), 0, [], time.monotonic()
            whole = start(case, fresh(), subprocess.DEVNULL)
            _, err = whole.communicate()
            length = time.monotonic() - began
            if whole.returncode:
                wrong.append(f"undisturbed: {err.strip()[-200:]}")
            for signum in SIGNALS:
                for _ in range(args.times):
                    in_time, problem = signalled(case, fresh(), signum, rng.uniform(0.15, 0.95) * length)
                    sent += in_time
                    wrong += [f"{signum.name}: {problem}"] * bool(problem)
            failed += len(wrong)
            rows.append([case.name, f"{length:.1f}", 3 * args.times, sent, len(wrong), " / ".join(wrong)])
            print("| " + " | ".join(map(str, rows[-1])) + " |", file=sys.stderr, flush=True)
        gone = [(case.name, piped(case, fresh())) for case in PIPED if case.name.startswith(tuple(args.only))]
        failed += sum(bool(wrong) for _, wrong in gone)
    heading("Signals", "in time: signals that came before the command had ended")
    table(["command", "undisturbed s", "signals", "in time", "wrong", "what"], rows)
    print(f"\nA reader that takes one line and goes: {len(gone)} commands, {sum(bool(w) for _, w in gone)} wrong.")
    for name, problem in gone:
        if problem:
            print(f"- {name}: {problem}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
