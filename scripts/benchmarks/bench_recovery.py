"""Topics of a real corpus found again from documents drawn from them: Fisher, Kozdoba & Mannor,
Table 1 and Fig. 3.

    python scripts/benchmarks/bench_recovery.py --work WORK --corpus nips.zarr -K 500 --docs 100000
    --rows anchors sparse-bp fdm python scripts/benchmarks/bench_recovery.py --work WORK --corpus
    nips.zarr -K 100 --docs 20000 --runs 5 --rows anchors fdm

The truth: topics of ``sparselda`` with the paper's priors (alpha 1/K, beta 1/N, held still); 30
tokens a document, theta ~
Dir(1/K).  Every row that is run is added to WORK/results.jsonl, and all that are there are printed:
           the mean matched l1 distance
with its standard deviation over the runs (seeds), topics further than 0.9 away, the mean of the
others, the share of topics with an anchor word, processor seconds, and how the matched distances
spread."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from bench_moments import drawn, ingest, matched, probabilities, train

from topicstream.corpus.reader import Corpus
from topicstream.model.topic_model import TopicModel

MISSED = 0.9  # half of what two true topics are apart
EDGES = np.arange(0, 2.01, 0.2)


def rows(
    k: int, words: int, args: argparse.Namespace
) -> dict[str, tuple[str, dict[str, Any], dict[str, Any]]]:
    """By name: engine, options, and what else `train` is given."""
    still = {"alpha": 1 / k, "beta": 1 / words, "learn_priors": False}
    ten = still | {"alpha": 10 / k}
    n = {"passes": args.passes}
    beta = {"beta": 1 / words}
    em = {"passes": args.em, "tol": 0}
    return {
        "sparselda": ("sparselda", still, n),
        "sparselda, from anchors": ("sparselda", still, n | {"start": "anchors"}),
        "sparselda, beta 0.01": ("sparselda", still | {"beta": 0.01}, n),
        "sparselda, priors learned": ("sparselda", {"alpha": 1 / k} | beta, n),
        "sparselda, 10 alpha": ("sparselda", ten, n),
        "sparselda, 10 alpha, from anchors": ("sparselda", ten, n | {"start": "anchors"}),
        "sparselda, 10 alpha, beta 0.01": ("sparselda", ten | {"beta": 0.01}, n),
        "sparse-bp": ("sparse-bp", {"alpha": 1 / k} | beta, {}),
        "anchors": ("anchors", beta | {"refine": 0}, {}),
        **{
            f"anchors, {least} documents": ("anchors", beta | {"min_docs": least, "refine": 0}, {})
            for least in (25, 50, 100, 200)
        },
        "fdm": ("fdm", beta, em),
        "fdm, from documents": ("fdm", beta, em | {"start": "documents"}),
    }


def anchored(p: np.ndarray) -> float:
    """Share of topics with a word of more than average probability of which they have 95 % (theirs
    over all topics').
    """
    own = (p > 0.95 * p.sum(0)) & (p > 1 / p.shape[1])
    return float(own.any(1).mean())


def measured(phi: np.ndarray, found: np.ndarray) -> dict[str, Any]:
    distances = matched(phi, found)
    near = distances[distances <= MISSED]
    return {
        "l1": float(distances.mean()),
        "missed": int((distances > MISSED).sum()),
        "others": float(near.mean()) if len(near) else float("nan"),
        "anchored": anchored(found),
        "histogram": np.histogram(distances, EDGES)[0].tolist(),
    }


def truth(args: argparse.Namespace) -> np.ndarray:
    folder = args.work / "truth"
    if not folder.exists():
        options = {
            "alpha": 1 / args.topics,
            "beta": 1 / Corpus.open(args.corpus).n_words,
            "learn_priors": False,
        }
        train(
            args.corpus,
            folder,
            "sparselda",
            args.topics,
            options,
            passes=args.truth,
            start="random",
        )
    return probabilities(TopicModel.open(folder))


def report(results: Path, k: int) -> None:
    runs: dict[str, list[dict[str, Any]]] = {}
    for line in results.read_text().splitlines():
        one = json.loads(line)
        runs.setdefault(one["row"], []).append(one)
    print(
        f"\n| engine | runs | passes | l1 error | missed of {k} | the others | with an anchor | "
        f"processor s |\n|---|---|---|---|---|---|---|---|"
    )
    for name, of in runs.items():
        mean = {
            key: np.mean([one[key] for one in of])
            for key in ("l1", "missed", "others", "anchored", "seconds", "passes")
        }
        spread = f" ± {np.std([one['l1'] for one in of], ddof=1):.3f}" if len(of) > 1 else ""
        print(
            f"| {name} | {len(of)} | {mean['passes']:.0f} | {mean['l1']:.3f}{spread} | "
            f"{mean['missed']:.0f} "
            f"| {mean['others']:.3f} | {mean['anchored']:.2f} | {mean['seconds']:.0f} |"
        )
    print(
        "\n| matched distance up to | "
        + " | ".join(f"{edge:.1f}" for edge in EDGES[1:])
        + " |\n"
        + "|---" * len(EDGES)
        + "|"
    )
    for name, of in runs.items():
        print(
            f"| {name} | "
            + " | ".join(f"{n:.0f}" for n in np.mean([one["histogram"] for one in of], 0))
            + " |"
        )


def main(args: argparse.Namespace) -> None:
    args.work.mkdir(parents=True, exist_ok=True)
    phi = truth(args)
    results = args.work / "results.jsonl"
    counts = args.work / "counts.npy"
    corpus = args.work / "drawn.zarr"
    if not corpus.exists():
        x, assigned = drawn(phi, args.docs, 30, 1 / args.topics, 0)
        np.save(counts, assigned)
        ingest(x, corpus)
    if not results.exists():
        known = np.load(counts) + 1 / phi.shape[1]
        seconds = {"run": 0, "seconds": 0.0, "passes": 0}
        lines = [
            {"row": "the truth", **seconds, **measured(phi, phi)},
            {
                "row": "every token's true topic known",
                **seconds,
                **measured(phi, known / known.sum(1, keepdims=True)),
            },
        ]
        results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name in args.rows:
        algo, options, given = rows(*phi.shape, args)[name]
        for run in range(args.runs):
            seconds, last = train(
                corpus, args.work / "model", algo, args.topics, options, seed=run, **given
            )
            found = probabilities(TopicModel.open(args.work / "model"), phi.shape[1])
            one = {
                "row": name,
                "run": run,
                "seconds": seconds,
                "passes": last["passes"],
                **measured(phi, found),
            }
            with results.open("a") as file:
                file.write(json.dumps(one) + "\n")
            print(one, flush=True)
    half = len(phi) // 2
    print(
        f"{len(phi)} topics over {phi.shape[1]:,} words, {args.docs:,} documents; two true "
        f"topics are "
        f"{np.abs(phi[:half] - phi[half : 2 * half]).sum(1).mean():.2f} apart"
    )
    report(results, args.topics)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--work",
        type=Path,
        required=True,
        help="a folder for one corpus, K and number of documents",
    )
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("-K", "--topics", type=int, default=500)
    parser.add_argument("--docs", type=int, default=100_000)
    parser.add_argument("--truth", type=int, default=100, help="passes of the truth")
    parser.add_argument("--passes", type=int, default=200, help="of sparselda")
    parser.add_argument("--em", type=int, default=10, help="passes of em")
    parser.add_argument("--runs", type=int, default=1, help="seeds 0, 1, ... on the same documents")
    parser.add_argument(
        "--rows",
        nargs="*",
        default=[],
        metavar="NAME",
        help="what to run, e.g. 'sparselda, from anchors'",
    )
    main(parser.parse_args())
