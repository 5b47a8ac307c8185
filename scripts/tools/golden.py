"""Golden hashes: are the bits of every engine the same under two commits?

    python scripts/tools/golden.py record [--only atbp,bp] > hashes.json        this checkout
    python scripts/tools/golden.py compare COMMIT [COMMIT] [--only ...]          two commits, side
    by side, on this machine
    python scripts/tools/golden.py check hashes.json [--only ...]                this checkout
    against what `record` wrote

A hash covers the topics (every table of the model), its priors, the history's figures and the block
state of the last checkpoint, for every engine and schedule with tables in memory and one thread and
with tables on disk and two threads
(20 topics, 4 passes), one append carried on, and one update.  The corpus is kos with made authors,
labels and links where
../shared/data is there, else (or with --made) one made here; it is ingested by the commit under
test.

tests/project/golden.json has the hashes of `record --quick --made`: one set for all processors,
without the engines in ``LIBRARIES``. A commit that changes bits on purpose records it again.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
DATA = next(
    (p / "shared/data" for p in ROOT.parents if (p / "shared/data").is_dir()), ROOT / "shared/data"
)
KOS = DATA / "kos"
# name -> (algorithm, its options, settings of the training)
RUNS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "atbp": ("atbp", {}, {}),
    "atbp fold": ("atbp", {"theta": "fold-in"}, {}),
    "atbp narrow": ("atbp", {"learn_priors": True}, {"topics": 12}),
    "stbp": ("stbp", {}, {}),
    "stbp fold": ("stbp", {"theta": "fold-in", "learn_priors": True}, {}),
    "bp async": ("bp", {}, {}),
    "bp sync": ("bp", {"schedule": "sync"}, {}),
    "bp random": ("bp", {"learn_priors": True}, {"start": "random"}),
    "sibp async": ("sibp", {}, {}),
    "sibp sync": ("sibp", {"schedule": "sync"}, {}),
    "cvb0 async": ("cvb0", {}, {}),
    "cvb0 sync": ("cvb0", {"schedule": "sync"}, {}),
    "sparse-bp": ("sparse-bp", {"sparsity": 16}, {}),
    "sparse-bp wide": (
        "sparse-bp",
        {"reopen": 2, "background": 5.0, "message_bits": "16"},
        {"topics": 600},
    ),
    "gs": ("gs", {}, {}),
    "sparselda": ("sparselda", {"samples": 2, "burn_in": 2, "sample_every": 1}, {}),
    "sparselda seeded": ("sparselda", {"learn_after": 1, "learn_every": 1}, {"start": "documents"}),
    "vb": ("vb", {}, {}),
    "ovb": ("ovb", {}, {}),
    "ovb restarts": ("ovb", {"restarts": 3, "phi": "point"}, {}),
    "mvi": ("mvi", {}, {}),
    "mvi dense": ("mvi", {"sparsity": 20}, {}),
    "mvi wide": ("mvi", {"sparsity": 24}, {"topics": 100}),
    "svi": ("svi", {}, {}),
    "svi sparse": ("svi", {"sparsity": 2}, {"topics": 200}),
    "atm async": ("atm", {}, {}),
    "atm sync": ("atm", {"schedule": "sync", "no_author": "skip", "sparsity": 0}, {}),
    "atm random": ("atm", {"reopen": 2}, {"start": "random"}),
    "rtm async": ("rtm", {"eta": "rows"}, {}),
    "rtm sync": ("rtm", {"schedule": "sync", "learn_priors": True}, {}),
    "llda": ("llda", {"free": 2}, {"topics": None}),
    "mixture": ("mixture", {}, {}),
    "mixture stochastic": ("mixture", {"schedule": "stochastic"}, {}),
    "gmm": ("gmm", {}, {}),
    "gmm diagonal": ("gmm", {"schedule": "stochastic", "covariance": "diag"}, {}),
    "gmm ml": ("gmm", {"estimate": "ml", "mean": "zero"}, {}),
    "anchors": ("anchors", {}, {}),
    "fdm": ("fdm", {}, {}),
}
LIBRARIES = ("gmm",)
"""Engines whose bits depend on the processor, by way of LAPACK (decisions/processors.md)."""
COMMON = {
    "topics": 20,
    "passes": 4,
    "tol": 0,
    "block_cells": 20000,
    "mem_limit": "1G",
    "progress": False,
    "force": True,
}
PLACES = {
    "memory / 1": {"tables": "memory", "threads": 1},
    "disk / 2": {"tables": "disk", "threads": 2},
}


def hash_of(model: Path) -> str:
    """Hash of a model's content, independent of the names of files and of times."""
    import zarr

    h = hashlib.sha256()
    manifest = json.loads((model / "manifest.json").read_text())
    for folder in sorted(
        p for p in model.iterdir() if p.is_dir() and p.name.startswith(("topics", "table"))
    ):
        array = zarr.open_array(str(folder), mode="r")
        h.update(np.ascontiguousarray(array[:]).tobytes())
    h.update(json.dumps([manifest.get("alpha"), manifest.get("beta"), manifest["passes"]]).encode())
    for line in (model / "history.jsonl").read_text().splitlines():
        record = json.loads(line)
        figures = [
            record.get(name)
            for name in ("pass", "running_perplexity", "bound", "objective", "joint_loglik")
        ]
        h.update(json.dumps(figures).encode())
    states = sorted((model / "checkpoints").glob("*/state.json"))
    if states:
        h.update(json.loads(states[-1].read_text())["facts"]["memory_digest"].encode())
    return h.hexdigest()[:16]


def documents(ours: bool = False) -> list[dict[str, Any]]:
    """The documents of kos, or made ones (``ours``: always), with authors, labels and links."""
    made = random.Random(0)
    texts: list[str] = []
    if KOS.is_dir() and not ours:
        words = (KOS / "vocab.txt").read_text().split()
        docs: dict[int, list[str]] = {}
        with gzip.open(KOS / "docword.txt.gz", "rt") as f:
            for line in list(f)[3:]:
                d, w, x = map(int, line.split())
                docs.setdefault(d, []).extend([words[w - 1]] * x)
        texts = [" ".join(docs[d]) for d in sorted(docs)]
    else:
        for _ in range(2000):
            low = 100 * made.randrange(10)
            texts.append(" ".join(f"w{low + made.randrange(200)}x" for _ in range(80)))
    found = []
    for d, text in enumerate(texts):
        sides = {"authors": "author", "labels": "label"}
        lists = {
            name: [f"{one}{made.randrange(25)}" for _ in range(made.randrange(4))]
            for name, one in sides.items()
        }
        links = [str(made.randrange(len(texts))) for _ in range(made.randrange(4))]
        found.append({"id": str(d), "text": text, "links": links, **lists})
    return found


def record(only: list[str], quick: bool = False, made: bool = False) -> dict[str, str]:
    """Hashes of the package that Python finds; quick: in memory with one thread alone, no append
    and no update; made: on the corpus that is made here.
    """
    import topicstream

    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        docs = documents(made)
        cut = len(docs) * 9 // 10
        first = work / "first.jsonl"
        second = work / "second.jsonl"
        first.write_text("".join(json.dumps(d) + "\n" for d in docs[:cut]))
        second.write_text("".join(json.dumps(d) + "\n" for d in docs[cut:]))
        corpus = work / "c.zarr"
        vectors = work / "v.zarr"
        meta = {"meta": {name: name for name in ("authors", "labels", "links")}, "progress": False}
        topicstream.ingest(first, corpus, min_df=1, **meta)
        rng = np.random.default_rng(0)
        points = np.concatenate(
            [rng.normal(0, 3, 12) + rng.normal(0, 1 + k % 3, (500, 12)) for k in range(12)]
        )
        topicstream.ingest(points.astype(np.float32), vectors, vectors=True, progress=False)
        for name, (algo, options, settings) in RUNS.items():
            if only and algo not in only:
                continue
            store = vectors if algo == "gmm" else corpus
            for place, where in PLACES.items():
                if place.startswith("disk") and quick:
                    continue
                topicstream.train(
                    store,
                    work / "model",
                    algo=algo,
                    options=options,
                    **{**COMMON, **settings, **where},
                )
                found[f"{name} / {place}"] = hash_of(work / "model")
                # an emulated processor takes long: what is done is seen at once
                print(f"{name} / {place}: {found[f'{name} / {place}']}", file=sys.stderr)
        if quick:
            return found
        base = work / "base"
        topicstream.train(corpus, base, algo="sparse-bp", **COMMON)
        topicstream.ingest(second, corpus, append=True, **meta)
        topicstream.update(corpus, base, passes=3, progress=False)
        found["update after an append"] = hash_of(base)
        topicstream.train(corpus, work / "grown", algo="atbp", **COMMON)
        found["atbp on the appended corpus"] = hash_of(work / "grown")
    return found


def recorded_by(checkout: Path, only: str) -> dict[str, str]:
    """Hashes of another checkout."""
    command = [sys.executable, __file__, "record", "--only", only]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(checkout)}, check=True, capture_output=True
    )
    hashes: dict[str, str] = json.loads(done.stdout)
    return hashes


def compare(commits: list[str], only: str) -> tuple[dict[str, str], dict[str, str]]:
    """Hashes of two commits, or of a commit and this checkout."""
    with tempfile.TemporaryDirectory() as temporary:
        places = [ROOT, ROOT]
        git = ["git", "-C", str(ROOT), "worktree"]
        for i, commit in enumerate(commits):
            places[i] = Path(temporary) / str(i)
            subprocess.run(
                [*git, "add", "--detach", "-f", str(places[i]), commit],
                check=True,
                capture_output=True,
            )
        try:
            return recorded_by(places[0], only), recorded_by(places[1], only)
        finally:
            for place in places[: len(commits)]:
                subprocess.run([*git, "remove", "--force", str(place)], check=False)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("record", "compare", "check"))
    parser.add_argument(
        "given",
        nargs="*",
        help="of compare: one or two commits; of check: a file that `record` wrote",
    )
    parser.add_argument("--only", default="", help="engines, comma-separated")
    parser.add_argument(
        "--quick", action="store_true", help="of record and check: in memory with one thread alone"
    )
    parser.add_argument(
        "--made", action="store_true", help="of record and check: on the corpus that is made here"
    )
    arguments = parser.parse_args()
    only = [name for name in arguments.only.split(",") if name]
    if arguments.what == "record":
        print(json.dumps(record(only, arguments.quick, arguments.made), indent=1))
        return 0
    if arguments.what == "check":
        before = json.loads(Path(arguments.given[0]).read_text())
        after = record(only, arguments.quick, arguments.made)
    else:
        before, after = compare(arguments.given, arguments.only)
    differ = [name for name in after if name in before and after[name] != before[name]]
    for name in differ:
        print(f"DIFFERS  {name}: {before[name]} -> {after[name]}")
    missing = sorted(set(before) ^ set(after)) if not only and not arguments.quick else []
    for name in missing:
        print(f"MISSING on one side  {name}")
    print(f"{len(after) - len(differ)} of {len(after)} hashes are the same")
    return 1 if differ or missing else 0


if __name__ == "__main__":
    sys.exit(main())
