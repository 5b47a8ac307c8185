"""Make the saved data of a release: stores and models of every kind, and what the release said of
them.

    PYTHONPATH=CHECKOUT python scripts/tools/release_data.py OUT.tar.xz

Run once with the code of the release (tests/data/every-0.1.tar.xz was made with d0842f5).
tests/corpus/test_formats.py opens every
store and every model with the present code and compares.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np

THEMES = (
    "cat kitten purr whisker claw fur paw tail mouse milk",
    "ship harbour sail anchor captain deck ocean crew cargo tide",
    "star galaxy telescope orbit comet planet nebula moon sun solar",
    "bread oven flour dough baker yeast crust loaf butter salt",
)
ENGINES = (
    "atbp",
    "atm",
    "bp",
    "cvb0",
    "llda",
    "rtm",
    "sibp",
    "sparse-bp",
    "stbp",
    "gs",
    "sparselda",
    "mvi",
    "ovb",
    "svi",
    "vb",
    "anchors",
    "fdm",
    "mixture",
)
RUNS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    **{engine: ("docs", engine, ()) for engine in ENGINES},
    "gmm": ("vectors", "gmm", ()),
    "weighted": ("weights", "bp", ()),
    "seeded": ("docs", "bp", ("--seed-words", "seeds.toml")),
    "tfidf": ("docs", "sparse-bp", ("--weighting", "tfidf")),
    "reading": ("docs", "auto", ("--aim", "reading")),
    "full": ("vectors", "gmm", ("--covariance", "full")),
}
"""Model -> its store, engine and options."""


def topics(*arguments: str) -> str:
    """One command; what it prints on standard output."""
    done = subprocess.run(
        [sys.executable, "-m", "topicstream", *arguments], capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"topics {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def write_inputs() -> None:
    """Documents with authors, labels, links, dates; the same as weighted cells; vectors."""
    rng = np.random.default_rng(3)
    with open("docs.jsonl", "w") as file, open("weights.svm", "w") as weighted:
        for d in range(240):
            main = int(rng.integers(4))
            words = [
                w
                for t in (main, main, int(rng.integers(4)))
                for w in rng.choice(THEMES[t].split(), 8)
            ]
            record = {
                "id": f"d{d}",
                "text": " ".join(words),
                "authors": [f"author{main}", f"author{int(rng.integers(4))}"],
                "labels": [f"label{main}"],
                "links": [f"d{int(rng.integers(max(d, 1)))}"] if d else [],
                "date": f"{2000 + d % 10}-05-01",
                "party": "red" if d % 2 else "blue",
            }
            file.write(json.dumps(record) + "\n")
            cells = sorted(rng.choice(np.arange(10 * main, 10 * main + 10), 6, replace=False) + 1)
            weighted.write("0 " + " ".join(f"{c}:{rng.uniform(0.5, 3):.3f}" for c in cells) + "\n")
    centres = rng.normal(size=(3, 5)) * 6
    np.save(
        "vectors.npy",
        (centres[rng.integers(3, size=300)] + rng.normal(size=(300, 5))).astype(np.float32),
    )
    Path("seeds.toml").write_text(
        '[animals]\nwords = ["cat", "fur"]\n\n[ships]\nwords = ["ship", "deck"]\n'
    )
    Path("more.jsonl").write_text(
        "".join(Path("docs.jsonl").read_text().splitlines(True)[:30]).replace('"d', '"e')
    )


def make() -> None:
    """Stores, models, and what is said of each."""
    meta = ("--meta", "party,authors,labels,links,date")
    topics("ingest", "docs.jsonl", "--out", "docs.zarr", "--heldout", "10%", *meta, "-q")
    topics("ingest", "docs.jsonl", "--out", "grown.zarr", "--heldout", "10%", *meta, "-q")
    topics("ingest", "more.jsonl", "--out", "grown.zarr", "--append", "--grow-vocab", "-q")
    topics("compact", "grown.zarr", "-q")
    topics("ingest", "weights.svm", "--out", "weights.zarr", "--weighted", "--heldout", "10%", "-q")
    topics("ingest", "vectors.npy", "--out", "vectors.zarr", "--heldout", "10%", "-q")
    said: dict[str, object] = {}
    for name, (store, engine, options) in RUNS.items():
        passes = () if engine in ("fdm", "anchors") else ("--passes", "4")
        topics_of = () if engine == "llda" else ("-K", "3" if store == "vectors" else "4")
        common = (
            "--corpus",
            f"{store}.zarr",
            "--algo",
            engine,
            *topics_of,
            *passes,
            "--threads",
            "1",
            "-q",
        )
        topics("train", "--model", f"models/{name}", *common, *options)
        scores = json.loads(
            topics(
                "eval",
                "--corpus",
                f"{store}.zarr",
                "--model",
                f"models/{name}",
                "--heldout",
                "--json",
            )
        )
        shown = json.loads(topics("show", "--model", f"models/{name}", "--json"))
        said[name] = {"corpus": f"{store}.zarr", "eval": scores, "show": shown}
    topics("edit", "models/bp", "--label", "0=first", "--merge", "1,2")
    topics("classifier", "--model", "models/sparse-bp", "--corpus", "docs.zarr", "-q")
    said["edited"] = json.loads(topics("show", "--model", "models/bp", "--json"))
    Path("said.json").write_text(json.dumps(said))


def main() -> None:
    """Make and pack."""
    out = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_inputs()
        make()
        with tarfile.open(out, "w:xz") as archive:
            for path in (
                "docs.jsonl",
                "docs.zarr",
                "grown.zarr",
                "weights.zarr",
                "vectors.zarr",
                "models",
                "said.json",
            ):
                archive.add(path)


if __name__ == "__main__":
    main()
