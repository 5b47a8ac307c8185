"""The defaults against what they replaced: held-out perplexity, coherence, diversity, dead topics, passes, seconds.

    python scripts/benchmarks/bench_defaults.py --work FOLDER CORPUS.zarr ... [--topics 20,100] [--seeds 0,1,2]
        [--only new,fixed,sparselda@documents:50] [--peers PYTHON]

Corpora are stores with documents set aside (``topics ingest --heldout 10%``).  One thread, so that several may run side by
side.  A row a run is kept in FOLDER/defaults.jsonl as soon as it is there and not run again; at the end the table of all rows.
Seconds are of the processor.  ``best`` keeps the best pass by the documents set aside, which then judge it, too; ``tomotopy``
makes 1,000 iterations and learns alpha (--peers: a Python that has it).  ``dead`` counts topics below a thousandth of an even share of the tokens; ``200`` makes 200 passes under the new defaults.
``ENGINE@START`` and ``ENGINE@START:PASSES`` take that engine and start; the last figure is then the share of the processor's
seconds of ENGINE@random after which the run has the likelihood that that ends with (running perplexity where it has none).
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

import topicstream
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.keys import corpus_vocabulary
from topicstream.model.topic_model import TopicModel

sys.path.append(str(Path(__file__).parents[1] / "tools"))
from export_corpus import export

EARLY = {"learn_after": 0, "prior_pull": 0.0, "prior_reach": 10.0, "sparsity": 16}
VARIANTS: dict[str, dict[str, Any]] = {
    "new": {},
    "200": {"passes": 200, "tol": 0.0},
    "best": {"eval_every": 5},
    "before": {"passes": 50, "tol": 1.0, "options": EARLY},
    "fixed": {"options": {"alpha": 0.1, "beta": 0.01}},
    "fixed, 16": {"options": {"alpha": 0.1, "beta": 0.01, "sparsity": 16}},
    "no pull": {"options": {"prior_pull": 0.0}},
    "at once": {"options": {"learn_after": 0}},
    "16 active": {"options": {"sparsity": 16}},
    "reading": {"aim": "reading"},
}
FIGURES = ("passes", "seconds", "perplexity", "npmi", "diversity", "dead", "largest", "alpha", "beta", "sooner")


def settings(variant: str) -> dict[str, Any]:
    """Arguments of ``train``."""
    if "@" not in variant:
        return VARIANTS[variant]
    algo, _, rest = variant.partition("@")
    start, _, passes = rest.partition(":")
    return {"algo": algo, "start": start} | ({"passes": int(passes), "tol": 0.0} if passes else {})


def curve(model: Path) -> list[tuple[float, float]]:
    """(share of the run's time, log likelihood a token) after each pass."""
    records = [json.loads(line) for line in (model / "history.jsonl").read_text().splitlines()]
    ends = np.cumsum([r["seconds"] for r in records])
    found = [r.get("joint_loglik_per_token", -np.log(r["running_perplexity"] or np.inf)) for r in records]
    return [(round(float(e / ends[-1]), 4), round(float(f), 5)) for e, f, r in zip(ends, found, records) if r["pass"]]


def sooner(row: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """See the head; -: never, or nothing to compare with."""
    algo, at, rest = row["variant"].partition("@")
    same = ("corpus", "topics", "seed")
    twin = f"{algo}@random{rest[rest.index(':') :] if ':' in rest else ''}"
    other = [r for r in rows if r["variant"] == twin and all(r[s] == row[s] for s in same)]
    if not at or not other or other[0] is row:
        return "-"
    reached = [share for share, value in row["curve"] if value >= other[0]["curve"][-1][1]]
    return f"{reached[0] * row['seconds'] / other[0]['seconds']:.2f}" if reached else "-"


def tomotopy(corpus: Path, model: Path, topics: int, seed: int, python: str) -> tuple[int, float]:
    """Train it in its own interpreter; its topics as a model of ours."""
    work = model.with_name("exported")
    export(Corpus.open(corpus), work)
    began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    script = Path(__file__).parent / "peers" / "learned.py"
    subprocess.run([python, script, work, work / "out.npz", *map(str, (topics, 1000, seed))], check=True)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began
    out, words = np.load(work / "out.npz"), (work / "words.txt").read_text(encoding="utf-8").splitlines()
    TopicModel.from_arrays(out["phi"], words, out["alpha"], 0.01).save(model)
    shutil.rmtree(work)
    return 1000, seconds


def fold_of(corpus: Path, fold: int, work: Path) -> Path:
    """The store itself (fold 0), or one of all its documents with another tenth set aside."""
    place = work / f"{corpus.stem}-{fold}.zarr"
    if fold == 0 or place.exists():
        return corpus if fold == 0 else place
    store, lengths, words, counts = Corpus.open(corpus), [np.zeros(1, np.int64)], [], []
    for block in (b for part in (False, True) for b in store.blocks(heldout=part)):
        lengths.append(np.diff(block.indptr))
        words.append(block.vocab[block.words])
        counts.append(block.counts)
    indptr = np.cumsum(np.concatenate(lengths))
    cells = csr_matrix((np.concatenate(counts), np.concatenate(words), indptr), (len(indptr) - 1, store.n_words))
    named = corpus_vocabulary(store).words.to_pylist()
    ids = [f"fold {fold}, {n}" for n in range(len(indptr) - 1)]  # an id decides whether a document is set aside
    topicstream.ingest(cells, place, vocabulary=named, ids=ids, heldout="10%", progress=False)
    return place


def one(corpus: Path, model: Path, topics: int, seed: int, variant: str, python: str) -> dict[str, Any]:
    """Train and score."""
    if variant == "tomotopy":
        passes, seconds = tomotopy(corpus, model, topics, seed, python)
    else:
        began = time.process_time()
        passes = topicstream.train(
            corpus, model, topics=topics, seed=seed, threads=1, force=True, progress=False, **settings(variant)
        ).passes
        seconds = time.process_time() - began
    return {"passes": passes, "seconds": round(seconds, 1)} | figures(model, corpus, topics) | {
        "curve": curve(model) if "@" in variant else []
    }


def figures(model: Path, corpus: Path, topics: int) -> dict[str, Any]:
    """What a model is worth."""
    found = topicstream.evaluate(model, corpus, threads=1, progress=False)
    opened = TopicModel.open(model)
    share, alpha = opened.sizes / opened.sizes.sum(), np.asarray(opened.alpha)
    return {
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
    parser.add_argument("--folds", default="0", help="0: as the store has it; others set another tenth aside")
    parser.add_argument("--only", default=",".join(VARIANTS))
    parser.add_argument("--peers", default="")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    file = args.work / "defaults.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    there = {(r["corpus"], r.get("fold", 0), r["topics"], r["seed"], r["variant"]) for r in rows}
    keys = [
        (corpus, int(fold), int(k), int(seed), variant)
        for k in args.topics.split(",")
        for corpus in args.corpora
        for fold in args.folds.split(",")
        for seed in args.seeds.split(",")
        for variant in args.only.split(",")
    ]
    for corpus, fold, k, seed, variant in keys:
        key = (corpus.stem, fold, k, seed, variant)
        if key in there:
            continue
        model = args.work / "model"
        store = fold_of(corpus, fold, args.work)
        row = dict(zip(("corpus", "fold", "topics", "seed", "variant"), key))
        row |= one(store, model, k, seed, variant, args.peers)
        shutil.rmtree(model)
        rows.append(row)
        with open(file, "a") as f:
            f.write(json.dumps(row) + "\n")
    print("| corpus | K | seed | defaults | " + " | ".join(FIGURES) + " |")
    print("|---|---|---|---|" + "---|" * len(FIGURES))
    for r in rows:
        r["sooner"] = sooner(r, rows)
    for r in sorted(rows, key=lambda r: (r["topics"], r["corpus"], r["seed"])):
        print(
            f"| {r['corpus']} | {r['topics']} | {r['seed']} | {r['variant']} | {' | '.join(str(r[f]) for f in FIGURES)} |"
        )


if __name__ == "__main__":
    main()
