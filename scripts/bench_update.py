"""Update against full training: a dated corpus ingested in five parts by date; after each, both, on the same documents.

    python scripts/bench_update.py DOCS.jsonl.gz                       # every fifth document, K = 50
    python scripts/bench_update.py DOCS.jsonl.gz --every 1 --topics 100

DOCS has one JSON object a line with ``id``, ``text`` and ``date`` (or ``year``).  The parts are equal in documents, cut in
the order of their dates.  The model is trained in full on the first part; after each later one it is updated
(``topicstream.update``, in a chain: each update starts from the one before) and, apart from that, trained in full anew
(``topicstream.train``).  Perplexity: document completion of the documents set aside so far, the same for both.  Seconds
are those of training with everything compiled: wall clock, and processor time of the process.  Prints a Markdown table;
FULL=1 takes every document.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from measure import full, heading, table

import topicstream
from topicstream.evaluation.completion import score_model
from topicstream.training.progress import Progress


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
    parser.add_argument("--algo", default="atbp")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--heldout", default="2%")
    parser.add_argument("--seed", type=int, default=0)
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
        f"{given.threads} threads.  Ratios are update over full.",
    )
    columns = ["dates", "documents", "words", "update", "s", "CPU s", "perplexity", "full", "s", "CPU s", "perplexity"]
    cells = []
    for r in rows:
        u, f = r["update"], r["full"]
        figures = [f"{u['passes']} passes, {u['how']}", *_figures(u), f"{f['passes']} passes", *_figures(f)]
        ratios = [f"{u['cpu'] / f['cpu']:.2f}", f"{100 * (u['perplexity'] / f['perplexity'] - 1):+.2f} %"]
        cells.append([r["dates"], f"{r['documents']:,}", f"{r['words']:,}", *figures, *ratios])
    table([*columns, "CPU", "perplexity"], cells)


def _figures(run: dict[str, Any]) -> list[str]:
    return [f"{run['wall']:.1f}", f"{run['cpu']:.1f}", f"{run['perplexity']:.1f}"]


def measure(given: Any, folder: Path) -> list[dict[str, Any]]:
    """One row a part from the second on."""
    quiet = Progress(-1)
    corpus, model = folder / "corpus.zarr", folder / "model"
    settings: dict[str, Any] = {
        "algo": given.algo,
        "topics": given.topics,
        "threads": given.threads,
        "seed": given.seed,
    }
    rows: list[dict[str, Any]] = []
    documents = 0
    for p, (path, dates, n) in enumerate(parts_by_date(given.docs, given.every, given.parts, folder)):
        documents += n
        if p == 0:
            topicstream.ingest(path, corpus, heldout=given.heldout)
            topicstream.train(corpus, model, progress=quiet, **settings)  # compiles everything, too
            continue
        topicstream.ingest(path, corpus, append=True, grow_vocab=True)
        whole = folder / f"whole{p}"
        done, wall, cpu = timed(lambda: topicstream.update(corpus, model, threads=given.threads, progress=quiet))
        anew, full_wall, full_cpu = timed(partial(topicstream.train, corpus, whole, progress=quiet, **settings))
        rows.append(
            {
                "dates": dates,
                "documents": documents,
                "words": topicstream.Corpus.open(corpus).n_words,
                "update": {
                    "passes": done.passes,
                    "how": done.how,
                    "wall": wall,
                    "cpu": cpu,
                    "perplexity": perplexity(model, corpus, given.threads),
                },
                "full": {
                    "passes": anew.passes,
                    "wall": full_wall,
                    "cpu": full_cpu,
                    "perplexity": perplexity(whole, corpus, given.threads),
                },
            }
        )
    return rows


if __name__ == "__main__":
    main()
