"""Sparse-L against dense, and the variational engines against each other (Hughes & Sudderth 2016,
Fig. 3 and 4).  Markdown on stdout.

    python scripts/benchmarks/bench_variational.py CORPUS.zarr [...]        a few minutes
    FULL=1 python scripts/benchmarks/bench_variational.py CORPUS.zarr [...] K up to 800, every L, 50
    passes of VB

    --only steps,levels,curves    some of the sections      --topics 100,400    some numbers of
                                  topics
    --passes N                    passes of the training runs

Local steps are timed alone, in CPU seconds of one thread, on the same blocks and the same topics
(two passes of ``vb``): a visit less the exp(E[log phi]) of the block's words, which the paper
counts as the global step and which is the same whatever
L is.  Everything else is inside: rows, the words' own best topics, inner iterations, restarts, the
       bound, the statistics.
Dense and sparse visits of a block take turns, so that both see the same machine.  Both stop by the
same rule: no topic of a
document moves by 0.05 tokens, or 100 inner iterations; inner iterations of restarts are counted
too."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any, cast

import numpy as np

from topicstream.corpus.reader import Corpus
from topicstream.engines import find
from topicstream.engines.base import (
    BlockShape,
    Key,
    Out,
    Rows,
    Scratch,
    Shape,
    Visit,
    new_stats,
    padded,
)
from topicstream.training.loop import train

FULL = os.environ.get("FULL") == "1"


def history(model: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (model / "history.jsonl").read_text().splitlines()]


def run(
    corpus: Path,
    algo: str,
    topics: int,
    passes: int,
    every: int = 1,
    *,
    layout: dict[str, Any] | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """The history of a run with held-out perplexity after each pass and ``at``: seconds of training
    so far.
    """
    with tempfile.TemporaryDirectory() as folder:
        train(
            corpus,
            folder,
            algo=algo,
            topics=topics,
            passes=passes,
            tol=0.0,
            eval_every=every,
            force=True,
            options=options,
            **(layout or {}),
        )
        records = history(Path(folder))
    at = 0.0
    for record in records:
        at += record["seconds"] - record.get("eval_seconds", 0.0)
        record["at"] = at
    return records


def trained_topics(corpus: Corpus, topics: int, passes: int = 2) -> np.ndarray:
    """Topics after a few passes of ``vb``, by the engine itself: float32[W, P]."""
    kind: Any = find("vb")
    engine = kind(shape_of(corpus, topics), kind.Options(alpha=0.5 / topics, beta=0.1))
    rng = np.random.default_rng(0)
    phi = np.zeros((corpus.n_words, padded(topics)), np.float32)
    picks = {
        int(d): k
        for k, d in enumerate(rng.choice(corpus.n_docs, topics, replace=corpus.n_docs < topics))
    }
    for block in corpus.blocks():
        np.add.at(
            phi,
            (block.vocab[block.words],),
            (block.counts / corpus.n_tokens)[:, None].astype(np.float32),
        )
        for d in range(block.n_docs):
            if block.first_doc + d in picks:
                s = slice(block.indptr[d], block.indptr[d + 1])
                phi[block.vocab[block.words[s]], picks[block.first_doc + d]] += (
                    block.counts[s] / block.counts[s].sum()
                )
    phi[:, topics:] = 0
    phi *= corpus.n_tokens / phi.sum(dtype=np.float64)
    for _ in range(passes):
        new = np.zeros_like(phi)
        for block in corpus.blocks(grid=corpus.grid(engine.layout.block_cells)):
            new[block.vocab] += visit(engine, block, phi)[1].delta["phi"]
        phi = new
    return phi


def shape_of(corpus: Corpus, topics: int) -> Shape:
    return Shape(
        corpus.n_docs,
        corpus.n_words,
        corpus.n_cells,
        float(corpus.n_tokens),
        topics,
        corpus.weighted,
    )


SCRATCH = Scratch()


def visit(engine: Any, block: Any, phi: np.ndarray) -> tuple[float, Out]:
    """(CPU seconds of the local step, what came out) of one visit."""
    delta = {"phi": SCRATCH.array("delta", (block.n_words, phi.shape[1]), np.float32)}
    out = Out(delta, {}, new_stats(engine), engine, BlockShape.measure(block), SCRATCH, SCRATCH)
    rows = {"phi": Rows(phi, block.vocab.astype(np.int64))}
    totals = {"phi": phi.sum(axis=0, dtype=np.float64)}
    params = engine.initial_params()
    began = time.thread_time()
    given = Visit(block, rows, totals, {}, params, Key(0, 1))
    engine.weigh_words(given, out, False)
    between = time.thread_time()
    engine.process(given, out)
    return time.thread_time() - between - (between - began), out


def local_steps(path: Path, topic_counts: list[int]) -> None:
    corpus = Corpus.open(path)
    kind = cast(Any, find("svi"))
    print(
        f"\n### Local step, {path.stem}: ns a cell (inner iterations a document; bound a token)\n"
    )
    levels = [1, 2, 4, 8, 16] if FULL else [1, 8]
    print(
        "| K | restarts | dense | " + " | ".join(f"L = {n}" for n in levels) + " | dense / L = 8 |"
    )
    print("|---" * (len(levels) + 4) + "|")
    for topics in topic_counts:
        phi = trained_topics(corpus, topics)
        for restarts in (0, 5):
            engines = [
                kind(shape_of(corpus, topics), kind.Options(sparsity=n, restarts=restarts))
                for n in [topics, *levels]
            ]
            grid = corpus.grid(engines[0].layout.block_cells, engines[0].layout.block_docs)
            numbers = np.linspace(0, len(grid) - 1, min(len(grid), 4)).astype(int)
            blocks = list(corpus.blocks(numbers, grid=grid))
            cells = sum(b.n_cells for b in blocks)
            best = np.full((len(engines), len(blocks)), np.inf)
            seen: list[list[Any]] = [[None] * len(blocks) for _ in engines]
            for repeat in range(4):
                for b, block in enumerate(blocks):
                    for i, engine in enumerate(engines):
                        seconds, out = visit(engine, block, phi)
                        seen[i][b] = {name: value[0] for name, value in out.stats.items()}
                        best[i, b] = (
                            min(best[i, b], seconds) if repeat else np.inf
                        )  # the first may compile
            texts = []
            nanos = 1e9 * best.sum(axis=1) / cells

            def mean(i: int, what: str, of: str, seen: list[list[Any]] = seen) -> float:
                return sum(s[what] for s in seen[i]) / sum(s[of] for s in seen[i])

            for i in range(len(engines)):
                texts.append(
                    f"{nanos[i]:.0f} ({mean(i, 'inner', 'docs'):.0f}; "
                    f"{mean(i, 'bound', 'tokens'):.4f})"
                )
            gain = nanos[0] / nanos[1 + levels.index(8)]
            print(
                f"| {topics} | {restarts} | " + " | ".join(texts) + f" | {gain:.2f} |", flush=True
            )


def level_runs(path: Path, topic_counts: list[int], passes: int) -> None:
    """Held-out log-likelihood a token after some passes of ``svi``, by L."""
    levels = [1, 2, 4, 8, 16] if FULL else [1, 8]
    print(
        f"\n### Held-out log-likelihood a token, {path.stem}, {passes} passes of svi (training "
        f"seconds)\n"
    )
    print("| K | dense | " + " | ".join(f"L = {n}" for n in levels) + " | L = 8 against dense |")
    print("|---" * (len(levels) + 3) + "|")
    for topics in topic_counts:
        scores = {}
        texts = []
        for level in [topics, *levels]:
            record = run(path, "svi", topics, passes, every=passes, sparsity=level)[-1]
            scores[level] = -float(np.log(record["heldout_perplexity"]))
            texts.append(f"{scores[level]:.4f} ({record['at']:.1f})")
        change = 100 * (scores[8] / scores[topics] - 1)
        print(f"| {topics} | " + " | ".join(texts) + f" | {-change:+.2f} % |", flush=True)


def curves(path: Path, passes: int) -> None:
    topics = 100
    print(
        f"\n### Held-out perplexity, {path.stem}, K = {topics}: perplexity (seconds) after each "
        f"pass\n"
    )
    runs: dict[str, tuple[str, dict[str, Any]]] = {}
    runs |= {
        f"svi L = {n}": ("svi", {"sparsity": n})
        for n in ([1, 2, 4, 8, 16, topics] if FULL else [1, 8, topics])
    }
    runs |= {
        "ovb": ("ovb", {"alpha": 0.5 / topics, "beta": 0.1}),
        "mvi L = 8": ("mvi", {"sparsity": 8}),
    }
    drawn = {}
    for label, (algo, options) in runs.items():
        records = [r for r in run(path, algo, topics, passes, **options) if r["heldout_perplexity"]]
        drawn[label] = ([r["at"] for r in records], [r["heldout_perplexity"] for r in records])
        print(
            f"- {label}: "
            + ", ".join(f"{r['heldout_perplexity']:.0f} ({r['at']:.1f})" for r in records),
            flush=True,
        )
    batch = [
        r
        for r in run(path, "vb", topics, 50 if FULL else 10, alpha=0.5 / topics, beta=0.1)
        if r["heldout_perplexity"]
    ]
    goal = batch[-1]["heldout_perplexity"]
    at = batch[-1]["at"]
    memoized = drawn["mvi L = 8"]
    reached = next((s for s, p in zip(*memoized) if p <= goal), None)
    print(
        f"- vb: {goal:.0f} after {len(batch)} passes, {at:.1f} s; mvi L = 8 reaches it "
        + (f"after {reached:.1f} s" if reached else "not within its passes")
    )
    try:
        from matplotlib import pyplot
    except ImportError:
        return
    for label, (x, y) in drawn.items():
        pyplot.plot(x, y, label=label)
    pyplot.xlabel("seconds")
    pyplot.ylabel("held-out perplexity")
    pyplot.legend()
    name = f"variational-{path.stem}.png"
    pyplot.savefig(name)
    pyplot.close()
    print(f"- plot: {name}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", nargs="+", type=Path)
    parser.add_argument("--only", default="steps,levels,curves")
    parser.add_argument("--topics", default="100,200,400,800" if FULL else "100,400")
    parser.add_argument("--passes", type=int, default=10 if FULL else 3)
    args = parser.parse_args()
    topic_counts = [int(k) for k in args.topics.split(",")]
    sections = args.only.split(",")
    for path in args.corpora:
        if "steps" in sections:
            local_steps(path, topic_counts)
        if "levels" in sections:
            level_runs(path, topic_counts, args.passes)
        if "curves" in sections:
            curves(path, args.passes)


if __name__ == "__main__":
    main()
