"""The defaults against what they replaced: held-out perplexity, coherence, diversity, dead topics, passes, seconds.

    python scripts/benchmarks/bench_defaults.py --work FOLDER CORPUS.zarr ... [--topics 20,100] [--seeds 0,1,2] [--only new,fixed]

Corpora are stores with documents set aside (``topics ingest --heldout 10%``).  One thread, so that several may run side by
side.  A row a run is kept in FOLDER/defaults.jsonl as soon as it is there and not run again; at the end the table of all rows.
``dead`` counts topics below a thousandth of an even share of the tokens; ``200`` makes 200 passes under the new defaults.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

import topicstream

EARLY = {"learn_after": 0, "prior_pull": 0.0, "prior_reach": 10.0, "sparsity": 16}
VARIANTS: dict[str, dict[str, Any]] = {
    "new": {},
    "200": {"passes": 200, "tol": 0.0},
    "before": {"passes": 50, "tol": 1.0, "options": EARLY},
    "fixed": {"options": {"alpha": 0.1, "beta": 0.01}},
    "fixed, 16": {"options": {"alpha": 0.1, "beta": 0.01, "sparsity": 16}},
    "no pull": {"options": {"prior_pull": 0.0}},
    "at once": {"options": {"learn_after": 0}},
    "16 active": {"options": {"sparsity": 16}},
}
FIGURES = ("passes", "seconds", "perplexity", "npmi", "diversity", "dead", "largest", "alpha", "beta")


def one(corpus: Path, model: Path, topics: int, seed: int, variant: str) -> dict[str, Any]:
    """Train and score."""
    began = time.perf_counter()
    done = topicstream.train(
        corpus, model, topics=topics, seed=seed, threads=1, force=True, progress=False, **VARIANTS[variant]
    )
    seconds = time.perf_counter() - began
    found = topicstream.evaluate(model, corpus, threads=1, progress=False)
    opened = topicstream.TopicModel.open(model)
    share, alpha = opened.sizes / opened.sizes.sum(), np.asarray(opened.alpha)
    return {
        "passes": done.passes,
        "seconds": round(seconds, 1),
        "perplexity": round(found["heldout"]["perplexity"], 1),
        "npmi": round(found["coherence"]["npmi"], 4),
        "diversity": round(found["diversity"]["share"], 3),
        "dead": int((share < 0.001 / topics).sum()),
        "largest": round(float(share.max()), 3),
        "alpha": f"{alpha.min():.3g} .. {alpha.max():.3g}",
        "beta": round(float(opened.beta), 4),
    }


def main() -> None:
    """Run what is not there, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="+", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--topics", default="20,100")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--only", default=",".join(VARIANTS))
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    file = args.work / "defaults.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    there = {(r["corpus"], r["topics"], r["seed"], r["variant"]) for r in rows}
    keys = [
        (corpus, int(k), int(seed), variant)
        for k in args.topics.split(",")
        for corpus in args.corpora
        for seed in args.seeds.split(",")
        for variant in args.only.split(",")
    ]
    for corpus, k, seed, variant in keys:
        key = (corpus.stem, k, seed, variant)
        if key in there:
            continue
        model = args.work / "model"
        row = dict(zip(("corpus", "topics", "seed", "variant"), key)) | one(corpus, model, k, seed, variant)
        shutil.rmtree(model)
        rows.append(row)
        with open(file, "a") as f:
            f.write(json.dumps(row) + "\n")
    print("| corpus | K | seed | defaults | " + " | ".join(FIGURES) + " |")
    print("|---|---|---|---|" + "---|" * len(FIGURES))
    for r in sorted(rows, key=lambda r: (r["topics"], r["corpus"], r["seed"])):
        print(
            f"| {r['corpus']} | {r['topics']} | {r['seed']} | {r['variant']} | {' | '.join(str(r[f]) for f in FIGURES)} |"
        )


if __name__ == "__main__":
    main()
