"""Time to quality: held-out perplexity against seconds of training, every engine beside the other
programs.

    python scripts/benchmarks/bench_quality.py --data ../shared/data --peers PEERS/bin/python --work
    FOLDER [--only 'enwiki-100-*' ...]

Quick by default (kos, K = 50); FULL=1 takes 10,000 enwiki articles at K = 100 and 500 and acl at K
= 100.  Each curve is a
process of its own and is kept in FOLDER/curves/CORPUS-K-NAME.json as soon as it is there, so that
the campaign can be cut
into pieces and carried on: what is there is not run again (--again does).  At the end, or at once
with --only none, the
tables of all curves that are there are printed.

Seconds are those of training on 2 threads, by the clock and of processor.  Ours: start and passes,
reading of the blocks, checkpoints; theirs:
passes alone (reading and converting the corpus is not counted).  Scoring is not counted for anyone.
All are scored by
one evaluator, with alpha = 0.1 a topic and beta = 0.01 a word, which are also the priors that
everyone is given."""

from __future__ import annotations

import argparse
import datetime
import fcntl
import fnmatch
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import full, heading, table
from train_quality import curve, enwiki, peer

import topicstream
from topicstream.base.files.durable import read_json

TURN_SECONDS = 200.0
MOST_SECONDS = 90.0  # of a curve of ours, scoring included


class Point(NamedTuple):
    """A scored pass of a curve: seconds by the clock and of processor until then."""

    passes: int
    seconds: float
    perplexity: float
    processor: float


@dataclass(frozen=True)
class Run:
    """One curve.  passes, every: scored every so many passes up to there; then: on to so many,
                   scored every so many.
    A peer's ``save`` are the passes at which it is scored; ``whole``: it must be run again for each
    of them; ``pieces``: it is run in pieces up to each of these passes."""

    corpus: str
    topics: int
    name: str
    passes: int
    every: int = 1
    then: tuple[int, int] = (0, 0)
    trainer: str = ""
    save: tuple[int, ...] = ()
    whole: bool = False
    pieces: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.corpus}-{self.topics}-{self.name}"


def tomotopy(corpus: str, topics: int, passes: int) -> Run:
    save = tuple(
        p
        for p in (1, 5, 10, 15, 20, 30, 40, 50, 75, 100, 150, 200, 250, 300, 400, 500)
        if p <= passes
    )
    pieces = (
        tuple(p for p in (200, 350) if p < passes)
        if topics < 500
        else tuple(p for p in (50, 100) if p < passes)
    )
    return Run(
        corpus,
        topics,
        "tomotopy",
        passes,
        trainer="tomotopy_lda",
        save=save,
        pieces=(*pieces, passes),
    )


def others(corpus: str, topics: int, passes: int) -> list[Run]:
    """The online programs, ``passes`` each (fewer where a pass is long)."""
    each = tuple(range(1, passes + 1))
    return [
        Run(corpus, topics, "gensim", passes, trainer="gensim_online", save=each),
        Run(corpus, topics, "scikit-learn", passes, trainer="sklearn_online", save=each),
        Run(
            corpus, topics, "Vowpal Wabbit", passes, trainer="vw_online", save=each[:2], whole=True
        ),
        Run(corpus, topics, "BigARTM", passes, trainer="bigartm_online", save=each),
    ]


def campaign() -> list[Run]:
    """Every run, most telling first."""
    if not full():
        c = "kos"
        k = 50
        ours = [
            Run(c, k, e, 6, 1) for e in ("sparse-bp", "auto", "atbp", "bp", "stbp", "vb", "svi")
        ]
        return [*ours, Run(c, k, "sparselda", 30, 3), tomotopy(c, k, 50), *others(c, k, 2)]
    c = "enwiki"
    first = [
        tomotopy(c, 100, 500),
        Run(c, 100, "sparse-bp", 24, 1, (60, 6)),
        Run(c, 100, "atbp", 24, 1, (60, 6)),
        Run(c, 100, "sparselda", 40, 4, (200, 40)),
        tomotopy(c, 500, 150),
        Run(c, 500, "sparse-bp", 15, 1, (40, 5)),
        Run(c, 500, "atbp", 15, 1, (40, 5)),
        Run(c, 500, "sparselda", 30, 5, (90, 20)),
    ]
    acl = [
        tomotopy("acl", 100, 300),
        Run("acl", 100, "sparse-bp", 16, 1, (96, 8)),
        Run("acl", 100, "atbp", 16, 1, (40, 4)),
        Run("acl", 100, "sparselda", 40, 4, (120, 20)),
        Run("acl", 100, "bp", 16, 1),
    ]
    rest: list[Run] = []
    for corpus, k, n in ((c, 100, 4), (c, 500, 1), ("acl", 100, 3)):
        slow = n == 1
        rest += [Run(corpus, k, "auto", 16, 1)]
        rest += [Run(corpus, k, "bp", 4 if slow else 16, 1)] if corpus == c else []
        rest += others(corpus, k, n)
        rest += [Run(corpus, k, e, 6 if slow else 20, 2) for e in ("stbp", "sibp")]
        rest += [Run(corpus, k, "cvb0", 4 if slow else 12, 2)]
        rest += [Run(corpus, k, "gs", 5 if slow else 30, 5)]
        rest += [
            Run(corpus, k, e, 2 if slow else most, 1)
            for e, most in (("svi", 8), ("ovb", 8), ("mvi", 10), ("vb", 16))
        ]
    return [*first, *acl, *rest]


def store_of(corpus: str, data: Path, work: Path) -> Path:
    """The corpus store, made once: 5 % held out, words of three letters and more, 50,000 at most,
    min_df 5, max_df 30 %.
    """
    if corpus == "enwiki":
        return enwiki(data, work)
    out = work / f"{corpus}.zarr"
    if not out.exists():
        raw = data / corpus / ("docs.jsonl.gz" if corpus == "acl" else "docword.txt.gz")
        counted = raw.name.startswith("docword")
        cut: dict[str, Any] = (
            {} if counted else {"min_length": 3, "max_vocab": 50_000, "max_df": 0.3, "min_df": 5}
        )
        topicstream.ingest(raw, out=out, heldout="10%" if counted else "5%", mem_limit="2G", **cut)
    return out


def compile_kernels(run: Run, small: Path, work: Path) -> None:
    """Two passes and a scoring on a small corpus, so that no compiling is timed: it is done once on
    a machine, not once a run."""
    with tempfile.TemporaryDirectory(dir=work) as folder:
        curve(small, Path(folder) / "model", run.name, run.topics, 2, 2)


def measure(
    run: Run, upto: int, data: Path, work: Path, python: str
) -> list[tuple[int, float, float, float]]:
    """(pass, seconds, perplexity, processor seconds) of a run, or of the piece of it that ends at
    ``upto``.
    """
    store = store_of(run.corpus, data, work)
    if not run.trainer:
        compile_kernels(run, store_of("kos", data, work), work)
        with tempfile.TemporaryDirectory(dir=work) as folder:
            model = Path(folder) / "model"
            found = curve(
                store,
                model,
                run.name,
                run.topics,
                run.passes,
                run.every,
                then=run.then,
                max_time=MOST_SECONDS,
            )
            if run.name == "auto":
                print(f"auto took {read_json(model / 'training.json')['engine']}", file=sys.stderr)
        return found
    kept = work / f"{run.trainer}-{store.stem}-{run.topics}-1"
    if run.pieces:
        before = max((p for p in run.pieces if p < upto), default=0)
        save = [p for p in run.save if before < p <= upto]
        found = peer(python, run.trainer, store, work, run.topics, upto, save, carry=True)
        if upto == run.passes:
            shutil.rmtree(kept)
        return found
    found = []
    for each in [[p] for p in run.save] if run.whole else [list(run.save)]:
        found += peer(python, run.trainer, store, work, run.topics, max(each), each)
        shutil.rmtree(kept)
    return found


def run_one(run: Run, upto: int, data: Path, work: Path, python: str) -> None:
    """Run and keep the curve, or the next piece of it."""
    began = time.monotonic()
    found = measure(run, upto, data, work, python)
    if not found:
        raise SystemExit(f"{run.key}: no pass was scored within {MOST_SECONDS:.0f} s")
    target = work / "curves" / f"{run.key}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    later = run.pieces and upto != run.pieces[0]
    before = json.loads(target.read_text())["points"] if later else []
    record: dict[str, Any] = {
        "corpus": run.corpus,
        "topics": run.topics,
        "name": run.name,
        "peer": bool(run.trainer),
        "done": upto == run.passes,
        "date": datetime.datetime.now().isoformat(timespec="minutes"),
        "whole_seconds": round(time.monotonic() - began, 1),
        "points": [*before, *([n, round(s, 3), round(p, 2), round(c, 3)] for n, s, p, c in found)],
    }
    target.write_text(json.dumps(record) + "\n")
    print(
        f"{run.key}: {record['whole_seconds']} s, last {record['points'][-1]}",
        file=sys.stderr,
        flush=True,
    )


class Turns:
    """A lock on a file that other measurements on this machine take too: held for some minutes of
    runs, then let go.
    """

    def __init__(self, path: Path | None) -> None:
        self._file = open(path, "a") if path else None  # noqa: SIM115
        self._since = 0.0

    def take(self) -> None:
        """Before each run."""
        if self._file is None or (self._since and time.monotonic() - self._since < TURN_SECONDS):
            return
        if self._since:
            fcntl.flock(self._file, fcntl.LOCK_UN)
            time.sleep(1.0)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._since = time.monotonic()


def run_all(args: argparse.Namespace, work: Path) -> None:
    """Every run that was asked for and is not there, each a process."""
    turns = Turns(args.lock)
    for run in campaign():
        if not any(fnmatch.fnmatch(run.key, pattern) for pattern in args.only):
            continue
        if args.again:
            (work / "curves" / f"{run.key}.json").unlink(missing_ok=True)
        for upto in run.pieces or (run.passes,):
            if upto <= made(run, work):
                continue
            turns.take()
            if upto <= made(run, work):  # another campaign in this folder was sooner
                continue
            command = [
                sys.executable,
                __file__,
                "--one",
                run.key,
                "--upto",
                str(upto),
                "--data",
                str(args.data),
            ]
            if subprocess.run(
                [*command, "--work", str(work), "--peers", args.peers], check=False
            ).returncode:
                print(f"{run.key}: failed, left out", file=sys.stderr)
                break


def made(run: Run, work: Path) -> int:
    """Passes of the run, or of its pieces, that are there."""
    target = work / "curves" / f"{run.key}.json"
    if not target.exists():
        return 0
    there = json.loads(target.read_text())
    return run.passes if there["done"] else int(there["points"][-1][0])


def curves(work: Path) -> Iterator[tuple[str, int, list[dict[str, Any]]]]:
    """The records that are there, by corpus and K."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for file in sorted((work / "curves").glob("*.json")):
        record = json.loads(file.read_text())
        groups.setdefault((record["corpus"], record["topics"]), []).append(record)
    for (corpus, topics), records in sorted(
        groups.items(), key=lambda g: (g[0][0] != "enwiki", g[0])
    ):
        yield corpus, topics, records


def best(record: dict[str, Any]) -> Point:
    """The point of the lowest perplexity."""
    return min((Point(*p) for p in record["points"]), key=lambda p: p.perplexity)


def reached(record: dict[str, Any], goal: float) -> Point | None:
    """The first scored pass that is as good as the goal."""
    return next((p for p in (Point(*q) for q in record["points"]) if p.perplexity <= goal), None)


def goals(records: list[dict[str, Any]]) -> list[tuple[str, Point]]:
    """(words, point) of what is to be reached: tomotopy's 100th pass, and the best of any peer."""
    out = []
    for record in records:
        if record["name"] == "tomotopy":
            out += [("tomotopy's pass 100", Point(*p)) for p in record["points"] if p[0] == 100]
    theirs = [(r["name"], best(r)) for r in records if r["peer"]]
    if theirs:
        name, point = min(theirs, key=lambda t: t[1].perplexity)
        out.append((f"best of the peers ({name}, {point.passes} passes)", point))
    return out


def report(corpus: str, topics: int, records: list[dict[str, Any]]) -> None:
    """The table of one corpus and K."""
    aims = goals(records)
    rows = []
    for record in records:
        top = best(record)
        cells = [record["name"], record["points"][-1][0], f"{top.perplexity:,.0f}"]
        cells += [f"pass {top.passes}, {top.seconds:.1f} s ({top.processor:.1f})"]
        order = (record["peer"], 1e9, top.perplexity)
        for _, goal in aims:
            mine = reached(record, goal.perplexity)
            if mine is None:
                cells.append("-")
                order = (record["peer"], 1e9, top.perplexity)
            else:
                ratios = (
                    f"1/{goal.seconds / mine.seconds:.1f} (1/{goal.processor / mine.processor:.1f})"
                )
                cells.append(
                    f"pass {mine.passes}, {mine.seconds:.1f} s ({mine.processor:.1f}), {ratios}"
                )
                order = (record["peer"], mine.processor, top.perplexity)
        rows.append((order, cells))
    heading(
        f"Time to quality: {corpus}, K = {topics}",
        "Held-out perplexity (document completion), alpha 0.1, beta 0.01, 2 threads, one seed. "
        "Seconds of training by the clock "
        "and, in brackets, of processor, which other load on the machine does not change; "
        "ratios to the peer's own; the first "
        "scored pass that is as good counts. "
        + "; ".join(
            f"{w}: {p.perplexity:,.0f} after {p.seconds:.1f} s ({p.processor:.1f})" for w, p in aims
        )
        + ".",
    )
    table(
        [
            "",
            "passes",
            "best perplexity",
            "when",
            *(f"to {p.perplexity:,.0f}, {words}" for words, p in aims),
        ],
        [cells for _, cells in sorted(rows)],
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument(
        "--work", type=Path, help="where corpora and curves are kept (default: a temporary folder)"
    )
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--only", nargs="*", default=["*"], help="patterns of CORPUS-K-NAME")
    parser.add_argument("--again", action="store_true", help="run what is there once more")
    parser.add_argument(
        "--lock",
        type=Path,
        help="a file whose lock is held while runs are made, by turns with others",
    )
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--upto", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        run_one(
            {run.key: run for run in campaign()}[args.one],
            args.upto,
            args.data,
            args.work,
            args.peers,
        )
        return
    with tempfile.TemporaryDirectory() as temporary:
        work = args.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        run_all(args, work)
        for corpus, topics, records in curves(work):
            report(corpus, topics, records)


if __name__ == "__main__":
    main()
