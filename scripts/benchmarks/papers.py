"""The tables of docs/reproduce, made with our own commands: one run each, printed as Markdown.

    python scripts/benchmarks/papers.py streaming --data ../shared/data --work FOLDER [--topics 70 --passes 300 --burn 50 --sweeps 30 --documents 130]
    python scripts/benchmarks/papers.py drift     --data ../shared/data --work FOLDER [--until 2010 --most 60]
    python scripts/benchmarks/papers.py engines   --data ../shared/data --work FOLDER [--corpus kos --topics 50]

streaming: Yao, Mimno and McCallum 2009, Figs. 3, 4 and 6: NIPS, 7:3, every method of inference against Gibbs2.
drift:     the same, Fig. 9: abstracts of the ACL Anthology up to a year, the classifier on the years after it.
engines:   Zeng, Liu and Cao: halves of a corpus, every engine with alpha = 2/K and beta = 0.01 and the papers' own flags.

What is there in FOLDER is used again.  Seconds are of the process on one thread.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path
from typing import Any

import topicstream
from topicstream.cli.compare import method_lines
from topicstream.cli.info import drift_lines


def streaming(a: argparse.Namespace) -> None:
    """The table of methods."""
    corpus, model = a.work / "nips.zarr", a.work / f"nips{a.topics}"
    if not corpus.exists():
        topicstream.ingest([a.data / "nips12" / "docword.txt.gz"], corpus, heldout="30%")
    begin = time.process_time()
    if not (model / "finished.json").exists():
        topicstream.train(corpus, model, algo="sparselda", topics=a.topics, passes=a.passes, threads=1)
        print(f"training: {a.passes} sweeps, {time.process_time() - begin:.0f} s of processor")
    if not (model / "classifier.json").exists():
        found = topicstream.train_classifier(model, corpus, threads=1)
        print(
            f"classifier: {json.dumps({k: found[k] for k in ('passes', 'converged', 'divergence', 'temperature', 'seconds')})}"
        )
    result = topicstream.compare_methods(
        model, corpus, methods=a.methods, documents=a.documents, burn=a.burn, sweeps=a.sweeps
    )
    (a.work / "streaming.json").write_text(json.dumps(result, indent=1))
    print("\n".join(method_lines(result)))


def drift(a: argparse.Namespace) -> None:
    """Words seen and quality by year."""
    old, new = a.work / "old.jsonl", a.work / "new.jsonl"
    if not new.exists():
        with gzip.open(a.data / "acl" / "docs.jsonl.gz", "rt") as f, open(old, "w") as before, open(new, "w") as after:
            for line in f:
                year = int(json.loads(line)["date"][:4])
                (before if year <= a.until else after).write(line)
    corpus, model = a.work / "old.zarr", a.work / "old"
    if not corpus.exists():
        topicstream.ingest([old], corpus, heldout="5%", meta={"date": "date"}, max_vocab=20_000)
    if not (model / "finished.json").exists():
        topicstream.train(corpus, model, algo="sparse-bp", topics=50, passes=20, threads=1)
    if not (model / "classifier.json").exists():
        topicstream.train_classifier(model, corpus, passes=60, threads=1)
    result = topicstream.drift(model, new, by="date", period="year", corpus=corpus, most=a.most, burn=30, sweeps=20)
    (a.work / "drift.json").write_text(json.dumps(result, indent=1))
    print("\n".join(drift_lines(result)))


ENGINES: dict[str, dict[str, Any]] = {
    "bp sync": {"algo": "bp", "schedule": "sync"},
    "bp async": {"algo": "bp"},
    "cvb0": {"algo": "cvb0"},
    "sibp": {"algo": "sibp"},
    "atbp": {"algo": "atbp"},
    "stbp": {"algo": "stbp"},
    "vb point": {"algo": "vb", "phi": "point"},
    "vb": {"algo": "vb"},
    "mvi L=8": {"algo": "mvi"},
    "sparse-bp": {"algo": "sparse-bp"},
    "sparse-bp, the paper's update": {
        "algo": "sparse-bp", "message_bits": "32", "step": 1.0, "band": -1.0, "learn_priors": False,
    },
}  # fmt: skip


def engines(a: argparse.Namespace) -> None:
    """Held-out perplexity of halves."""
    corpus = a.work / f"{a.corpus}-halves.zarr"
    if not corpus.exists():
        topicstream.ingest([a.data / a.corpus / "docword.txt.gz"], corpus, heldout="50%")
    print("| engine | passes | held-out perplexity, folded in by BP | by VB | processor s |\n|---|---|---|---|---|")
    for name, options in ENGINES.items():
        model, begin = a.work / f"{a.corpus}-{name.replace(' ', '-')}", time.process_time()
        given = {k: v for k, v in options.items() if k != "algo"} | {"alpha": 2 / a.topics, "beta": 0.01}
        if options["algo"] == "sparse-bp" and "step" in options:
            given["sparsity"] = a.topics
        done = topicstream.train(
            corpus,
            model,
            algo=options["algo"],
            topics=a.topics,
            options=given,
            threads=1,
            tol=1.0,
            passes=200,
            force=True,
        )
        seconds = time.process_time() - begin
        scores = [
            topicstream.evaluate(model, corpus, heldout=True, fold_in=way, threads=1)["heldout"]["perplexity"]
            for way in ("bp", "vb")
        ]
        print(f"| {name} | {done.passes} | {scores[0]:.0f} | {scores[1]:.0f} | {seconds:.1f} |", flush=True)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("streaming", "drift", "engines"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--methods", default="all")
    parser.add_argument("--topics", type=int)
    parser.add_argument("--passes", type=int, default=300)
    parser.add_argument("--burn", type=int, default=50)
    parser.add_argument("--sweeps", type=int, default=30)
    parser.add_argument("--documents", type=int, default=130)
    parser.add_argument("--until", type=int, default=2010)
    parser.add_argument("--most", type=int, default=60)
    parser.add_argument("--corpus", default="kos")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    given.topics = given.topics or (70 if given.what == "streaming" else 50)
    {"streaming": streaming, "drift": drift, "engines": engines}[given.what](given)


if __name__ == "__main__":
    main()
