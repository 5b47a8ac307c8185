"""Update against full training: a dated corpus ingested in five parts by date; after each, both, on the same documents.

    python scripts/benchmarks/bench_update.py DOCS.jsonl.gz                       # every fifth document, K = 50, three seeds
    python scripts/benchmarks/bench_update.py DOCS.jsonl.gz --every 1 --topics 100 --algo atbp --seeds 2

DOCS has one JSON object a line with ``id``, ``text`` and ``date`` (or ``year``).  The parts are equal in documents, cut in
the order of their dates.  For each seed the model is trained in full on the first part; after each later one it is updated
(``topicstream.update``, in a chain: each update starts from the one before) and, apart from that, trained in full anew
(``topicstream.train``).  Perplexity: document completion of the documents set aside so far, the same for both.  Where two
full trainings that differ by their seeds lie apart by percents, one seed says little: a ratio is the geometric mean over
the seeds, and the spread of the full trainings is beside it.  Seconds are those of training with everything compiled: wall
clock, and processor time of the process.  Prints a Markdown table; FULL=1 takes every document.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import full, heading, table

import topicstream
from topicstream.evaluation.completion import score_model
from topicstream.progress import Shown as Progress


def parts_by_date(source: Path, every: int, parts: int, folder: Path) -> list[tuple[Path, str, int]]:
    """Files of equal numbers of documents in the order of their dates: (path, first and last date, documents)."""
    with gzip.open(source, "rt") if source.suffix == ".gz" else open(source) as f:
        found = []
        for i, line in enumerate(f):
            if i % every == 0:
                value = json.loads(line)
                found.append((str(value.get("date") or value.get("year") or ""), i, line))
    found.sort(key=lambda d: d[:2])
    edges = [len(found) * p // parts for p in range(parts + 1)]
    made = []
    for p in range(parts):
        mine = found[edges[p] : edges[p + 1]]
        path = folder / f"part{p}.jsonl"
        path.write_text("".join(line for _, _, line in mine))
        made.append((path, f"{mine[0][0]}-{mine[-1][0]}", len(mine)))
    return made


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """(result, seconds by the clock, seconds of processor)."""
    wall, cpu = time.monotonic(), time.process_time()
    result = call()
    return result, time.monotonic() - wall, time.process_time() - cpu


def perplexity(model: Path, corpus: Path, threads: int) -> float:
    """Document completion of the documents set aside."""
    opened = topicstream.TopicModel.open(model)
    return float(score_model(opened, topicstream.Corpus.open(corpus), threads=threads).perplexity)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("docs", type=Path)
    parser.add_argument("--every", type=int, default=1 if full() else 5, help="take every n-th document")
    parser.add_argument("--parts", type=int, default=5)
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--algo", default="sparse-bp")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--heldout", default="5%")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--passes", type=int, help="of an update (default: its own)")
    parser.add_argument("--json", action="store_true", help="the figures as JSON lines instead")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-update-") as name:
        rows = measure(given, Path(name))
    if given.json:
        for row in rows:
            print(json.dumps(row))
        return
    heading(
        "Update against full training",
        f"{given.docs.name}, every {given.every}. document in {given.parts} parts by date, {given.algo}, K = {given.topics}, "
        f"{given.threads} threads, {given.seeds} seeds: means.  Ratios are update over full, ± the standard deviation over "
        "the seeds; spread: standard deviation of the full trainings.",
    )
    columns = [
        "dates",
        "documents",
        "words",
        "update",
        "s",
        "CPU s",
        "perplexity",
        "full",
        "s",
        "CPU s",
        "perplexity",
        "spread",
    ]
    cells = []
    for part in {r["documents"]: None for r in rows}:
        mine = [r for r in rows if r["documents"] == part]
        figures = []
        for kind in ("update", "full"):
            mean = {k: np.mean([r[kind][k] for r in mine]) for k in ("passes", "wall", "cpu", "perplexity")}
            how = f", {', '.join(sorted({r[kind]['how'] for r in mine}))}" if kind == "update" else ""
            figures += [f"{mean['passes']:.0f} passes{how}", *(f"{mean[k]:.1f}" for k in ("wall", "cpu", "perplexity"))]
        spread = np.std(np.log([r["full"]["perplexity"] for r in mine]))
        better = np.log([r["update"]["perplexity"] / r["full"]["perplexity"] for r in mine])
        times = [
            np.mean([r["update"][k] for r in mine]) / np.mean([r["full"][k] for r in mine]) for k in ("wall", "cpu")
        ]
        ratios = [
            f"{times[0]:.2f}",
            f"{times[1]:.2f}",
            f"{100 * np.expm1(better.mean()):+.2f} ± {100 * better.std():.1f} %",
        ]
        head = [mine[0]["dates"], f"{part:,}", f"{mine[0]['words']:,}"]
        cells.append([*head, *figures, f"{100 * spread:.1f} %", *ratios])
    table([*columns, "wall", "CPU", "perplexity"], cells)


def measure(given: Any, folder: Path) -> list[dict[str, Any]]:
    """One row a seed and a part from the second on."""
    quiet = Progress(-1)
    settings: dict[str, Any] = {"algo": given.algo, "topics": given.topics, "threads": given.threads}
    corpus, rows, documents = folder / "corpus.zarr", [], 0
    for p, (path, dates, n) in enumerate(parts_by_date(given.docs, given.every, given.parts, folder)):
        documents += n
        if p == 0:
            topicstream.ingest(path, corpus, heldout=given.heldout)
        else:
            topicstream.ingest(path, corpus, append=True, grow_vocab=True)
        for seed in range(given.seeds):
            model = folder / f"model{seed}"
            if p == 0:  # compiles everything, too
                topicstream.train(corpus, model, seed=seed, progress=quiet, **settings)
                continue
            done, wall, cpu = timed(
                partial(topicstream.update, corpus, model, passes=given.passes, threads=given.threads, progress=quiet)
            )
            updated = {"passes": done.passes, "how": done.how, "wall": wall, "cpu": cpu}
            whole = folder / "whole"
            again = partial(topicstream.train, corpus, whole, seed=seed, progress=quiet, **settings)
            anew, wall, cpu = timed(again)
            full_run = {"passes": anew.passes, "wall": wall, "cpu": cpu}
            for run, made in ((updated, model), (full_run, whole)):
                run["perplexity"] = perplexity(made, corpus, given.threads)
            shutil.rmtree(whole)
            words = topicstream.Corpus.open(corpus).n_words
            about = {"seed": seed, "dates": dates, "documents": documents, "words": words}
            rows.append({**about, "update": updated, "full": full_run})
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    return rows


if __name__ == "__main__":
    main()
