"""Quality of training by time and by engine, beside other programs (bench_train.py)."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import Figures, full, heading, table

from topicstream import ingest
from topicstream.base.progress import Shown as Progress
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.completion import (
    ScoredTopics,
    TopicTable,
    prepare_heldout,
    score_blocks,
)
from topicstream.training.heldout import HeldOut
from topicstream.training.loop import train

HERE = Path(__file__).parent


TOOLS = HERE.parent / "tools"


QUIET = Progress(-1)


PEERS = ("gensim_online", "tomotopy_lda")


def enwiki(data: Path, work: Path, articles: int = 10_000) -> Path:
    """The corpus of the issue: the first articles, words of three letters and more, 50,000 of them,
    5 % held out.
    """
    out = work / "enwiki.zarr"
    if not out.exists():
        raw = work / "enwiki.jsonl"
        with (
            gzip.open(data / "enwiki" / "docs.jsonl.gz", "rb") as source,
            open(raw, "wb") as target,
        ):
            for _, line in zip(range(articles), source):
                target.write(line)
        ingest(
            raw,
            out=out,
            min_length=3,
            max_vocab=50_000,
            max_df=0.3,
            min_df=5,
            heldout="5%",
            mem_limit="2G",
        )
        raw.unlink()
    return out


def export(store: Path, work: Path) -> Path:
    """The corpus as NumPy files, for the peers."""
    out = work / (store.stem + "-npy")
    if not out.exists():
        subprocess.run(
            [sys.executable, TOOLS / "export_corpus.py", store, out],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return out


def peer(
    python: str,
    trainer: str,
    store: Path,
    work: Path,
    topics: int,
    passes: int,
    save_at: list[int],
    seed: int = 1,
    alpha: float = 0.1,
    beta: float = 0.01,
    carry: bool = False,
) -> list[tuple[int, float, float, float]]:
    """(pass, seconds until then, held-out perplexity by our judge, processor seconds until then) of
    another program.  carry: in pieces, each going on
    from the one before."""
    out = work / f"{trainer}-{store.stem}-{topics}-{seed}"
    args = [
        python,
        HERE / "peers" / "run.py",
        trainer,
        export(store, work),
        out,
        "-K",
        topics,
        "--alpha",
        alpha,
        "--beta",
        beta,
        "--passes",
        passes,
        "--save-at",
        ",".join(map(str, save_at)),
        "--seed",
        seed,
        *(["--carry"] if carry else []),
    ]
    subprocess.run(
        [str(a) for a in args], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    seconds, processor = (
        np.cumsum(json.loads((out / "run.json").read_text())[n]) for n in ("seconds", "processor")
    )
    corpus = Corpus.open(store)
    found = []
    for p in sorted({*save_at, passes}):
        phi = np.load(out / f"phi-{p}.npy")
        table = TopicTable(
            phi, np.full(topics, alpha), beta, phi.sum(axis=0, dtype=np.float64), len(phi)
        )
        scored = ScoredTopics(table)
        score = score_blocks(scored, prepare_heldout(corpus, topics=topics), threads=2)
        found.append((p, float(seconds[p - 1]), score.perplexity, float(processor[p - 1])))
    return found


class Meter(Progress):
    """Silent; processor seconds of every pass, without those of scoring."""

    def __init__(self) -> None:
        super().__init__(-1)
        self.passes: dict[int, float] = {}

    def step(
        self, what: str, done: int = 0, total: int | None = None, unit: str = "", documents: int = 0
    ) -> None:
        if done == 0:
            self._at = time.process_time()

    def end_pass(self, record: Mapping[str, Any], passes: int) -> None:
        super().end_pass(record, passes)
        self.passes[record["pass"]] = time.process_time() - self._at

    def judged(self, judge: Any, *given: Any) -> Any:
        """Score, and leave the processor seconds out."""
        began = time.process_time()
        score = judge(*given)
        self._at += time.process_time() - began
        return score


def curve(
    store: Path,
    model: Path,
    algo: str,
    topics: int,
    passes: int,
    every: int,
    seed: int = 0,
    *,
    then: tuple[int, int] = (0, 0),
    max_time: float | None = None,
    **options: Any,
) -> list[tuple[int, float, float, float]]:
    """(pass, seconds of start and passes until then, held-out perplexity, processor seconds until
    then) of one of ours;
    scoring is not counted.  ``then``: go on to so many passes, scored every so many; ``max_time``
                             (scoring included) is for
    each part."""
    meter = Meter()
    judge = HeldOut.perplexity
    HeldOut.perplexity = lambda *given: meter.judged(judge, *given)  # type: ignore[method-assign]
    try:
        for last, each in ((passes, every), then):
            if last:
                train(
                    store,
                    model,
                    algo=algo,
                    topics=topics,
                    passes=last,
                    tol=0,
                    seed=seed,
                    threads=2,
                    force=last == passes,
                    eval_every=each,
                    max_time=max_time,
                    options={"alpha": 0.1, "beta": 0.01, **options},
                    progress=meter,
                )
    finally:
        HeldOut.perplexity = judge  # type: ignore[method-assign]
    found = []
    total = 0.0
    processor = 0.0
    for line in (model / "history.jsonl").read_text().splitlines():
        record = json.loads(line)
        total += record["seconds"]
        processor += meter.passes[record["pass"]]
        if record["heldout_perplexity"] is not None:
            found.append((record["pass"], total, record["heldout_perplexity"], processor))
    return found


def time_to_quality(data: Path, work: Path, python: str) -> None:
    """Seconds until aTBP is as good as tomotopy after 100 passes, against tomotopy's seconds."""
    store = enwiki(data, work)
    rows = []
    for seed in range(3 if full() else 1):
        target = peer(python, "tomotopy_lda", store, work, 100, 100, [20], seed + 1)[-1]
        ours = curve(store, work / "ttq", "atbp", 100, 40, 1, seed)
        reached = next((c for c in ours if c[2] <= target[2]), None)
        rows.append(
            [
                seed,
                f"{target[1]:.1f}",
                f"{target[2]:.0f}",
                f"{reached[1]:.2f} (pass {reached[0]})" if reached else "not reached",
                f"1/{target[1] / reached[1]:.1f}" if reached else "-",
                f"{ours[-1][2]:.0f}",
            ]
        )
    heading(
        "Time to tomotopy's 100th pass",
        "10,000 enwiki articles, K = 100, alpha 0.1, beta 0.01, 2 threads; aTBP with its start, "
        "checkpoints included",
    )
    table(["seed", "tomotopy s", "its perplexity", "aTBP s", "ratio", "aTBP after 40 passes"], rows)


def quality(data: Path, work: Path, python: str, names: list[str] | None, peer_seeds: int) -> None:
    """Predictive perplexity beside gensim's online VB and tomotopy at 500 passes, mean of three
    seeds.  Each figure is kept
    in ``quality.jsonl`` of the work folder as soon as it is there, and not made again; the table
    has all that are there. peer_seeds: seeds of the other programs."""
    names = names or (["kos", "20news", "nips12", "enwiki"] if full() else ["kos"])
    seeds = range(3 if full() else 1)
    figures = Figures(work / "quality.jsonl")

    def figure(store: Path, topics: int, algo: str, seed: int) -> None:
        def make() -> dict[str, float]:
            if algo in PEERS:
                passes = 500 if algo == "tomotopy_lda" else 5
                return {
                    "perplexity": peer(python, algo, store, work, topics, passes, [], seed + 1)[-1][
                        2
                    ]
                }
            return {"perplexity": curve(store, work / "q", algo, topics, 100, 100, seed)[-1][2]}

        figures.get({"corpus": store.stem, "K": topics, "algo": algo, "seed": seed}, make)

    algorithms = ("atbp", "stbp", "sparse-bp", *PEERS)
    for name in names:
        if name == "enwiki":
            store = enwiki(data, work)
        else:
            store = work / f"{name}.zarr"
            if not store.exists():
                source = data / name / ("docs.jsonl.gz" if name == "20news" else "docword.txt.gz")
                ingest(source, out=store, heldout="10%", mem_limit="2G")
        for topics in (50, 100):
            for algo in algorithms:
                for seed in seeds if algo not in PEERS else range(min(len(seeds), peer_seeds)):
                    figure(store, topics, algo, seed)
    rows = []
    for name, topics in sorted({(r["corpus"], r["K"]) for r in figures.kept}):
        records = (figures.find({"corpus": name, "K": topics, "algo": algo}) for algo in algorithms)
        found = [[r["perplexity"] for r in few] for few in records]
        rows.append(
            [
                name,
                topics,
                *(
                    f"{np.mean(v):.0f} ({min(v):.0f}-{max(v):.0f}; {len(v)})" if v else "-"
                    for v in found
                ),
            ]
        )
    heading(
        "Predictive perplexity",
        "alpha 0.1, beta 0.01, mean (range; seeds); ours after 100 passes, gensim 5, tomotopy 500",
    )
    table(["corpus", "K", "aTBP", "sTBP", "sparse-bp", "gensim online VB", "tomotopy Gibbs"], rows)
