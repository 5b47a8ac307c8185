"""Small corpora and titles: the default and ``--aim reading`` beside other programs' 1,000 passes.

    python scripts/benchmarks/bench_corners.py --data ../shared/data --work FOLDER
           [--peers PEERS/bin/python] [--only kos-50 ap-50] [--seeds 3]

A row has, for each program, means over seeds and their standard errors: perplexity of a fifth of
the words of documents set aside, NPMI of ten words over the training documents, and processor
seconds (of the process, reading included). Then what the default's perplexity and the NPMI of
``--aim reading`` are above those of the best peer, with the standard error of the difference.
One evaluator scores all by alpha .1 a topic and each program's own topics. pyrmallet, tomotopy
and topica learn their priors from alpha 5 / K on. What is there in FOLDER is not run again.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from export_corpus import export
from measure import table

import topicstream
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.coherence import cooccurrence, npmi
from topicstream.evaluation.completion import (
    ScoredTopics,
    TopicTable,
    prepare_heldout,
    score_blocks,
)
from topicstream.model.topic_model import TopicModel

ALPHA = 0.1
TINY = 1e-9  # a pseudo-count beside probabilities times a million
PEERS = ("pyrmallet", "tomotopy", "topica")
PASSES = 1000
OURS: dict[str, list[str]] = {"default": [], "reading": ["--aim", "reading"]}


class Row(NamedTuple):
    """Figures of one run."""

    perplexity: float
    coherence: float
    seconds: float


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read the documents of a file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def sample(name: str, docs: int) -> Callable[[Path], list[dict[str, Any]]]:
    """Make a reader of some documents of a corpus, drawn at random."""

    def read(data: Path) -> list[dict[str, Any]]:
        every = read_lines(data / name / "docs.jsonl.gz")
        random.Random(3).shuffle(every)
        return every[:docs]

    return read


def short(name: str, docs: int | None = None) -> Callable[[Path], list[dict[str, Any]]]:
    """Make a reader of all short texts of one kind, or of some, drawn at random."""

    def read(data: Path) -> list[dict[str, Any]]:
        every = read_lines(data / "titles" / f"{name}.jsonl.gz")
        if docs is not None:
            random.Random(3).shuffle(every)
        return every[:docs]

    return read


def titles(name: str, docs: int) -> Callable[[Path], list[dict[str, Any]]]:
    """Make a reader of titles of some documents of a corpus, drawn at random."""

    def read(data: Path) -> list[dict[str, Any]]:
        drawn = sample(name, docs)(data)
        return [{"id": doc["id"], "text": doc["title"]} for doc in drawn if doc.get("title")]

    return read


def read_longest(data: Path) -> list[dict[str, Any]]:
    """Read the 80 longest of 3,000 articles."""
    every = read_lines(data / "enwiki" / "docs.jsonl.gz")[:3000]
    return sorted(every, key=lambda doc: len(doc["text"]))[-80:]


CORPORA: dict[str, Any] = {
    "poliblog-20": lambda data: str(data / "poliblog" / "docword.txt.gz"),
    "cora-50": lambda data: str(data / "cora" / "docword.txt.gz"),
    "kos-50": lambda data: str(data / "kos" / "docword.txt.gz"),
    "ap-20": lambda data: str(data / "ap" / "docword.txt.gz"),
    "ap-50": lambda data: str(data / "ap" / "docword.txt.gz"),
    "longest-20": read_longest,
    "wiki60-20": sample("enwiki", 60),
    "wiki80-20": sample("enwiki", 80),
    "snippets-50": short("snippets"),
    "snippets2500-50": short("snippets", 2_500),
    "questions2500-50": short("questions", 2_500),
    "questions-50": short("questions"),
    "acltitles-50": titles("acl", 12_000),
    "reuterstitles-100": titles("reuters21578", 21_578),
    "ap200-20": sample("ap", 200),
    "reuters200-20": sample("reuters21578", 200),
    "20news5000-50": sample("20news", 5000),
    "wiki1000-50": sample("enwiki", 1000),
    "acl6000-50": sample("acl", 6000),
    "nips12-50": lambda data: str(data / "nips12" / "docword.txt.gz"),
    "reuters-50": sample("reuters21578", 21_578),
    "20news-50": sample("20news", 18_846),
}


def make_store(name: str, args: argparse.Namespace) -> Path:
    """Ingest a corpus with a tenth of the documents set aside (a fifth of few)."""
    out: Path = args.work / f"{name.rpartition('-')[0]}.zarr"
    if not out.exists():
        documents = CORPORA[name](args.data)
        few = not isinstance(documents, str) and len(documents) <= 200
        heldout = "20%" if few else "10%"
        topicstream.ingest(documents, out=out, heldout=heldout, progress=False, keep_text=False)
    return out


def score(store: Path, phi: np.ndarray) -> tuple[float, float]:
    """Score topics, float[W, K] of probabilities: perplexity, and the mean NPMI of ten words."""
    corpus = Corpus.open(store)
    topics = phi.shape[1]
    padded = np.zeros((corpus.n_words, -(-topics // 16) * 16), np.float32)
    padded[:, :topics] = phi * 1e6
    totals = padded[:, :topics].sum(axis=0, dtype=np.float64)
    entry = TopicTable(padded, np.full(topics, ALPHA), TINY, totals, corpus.n_words)
    scored = score_blocks(ScoredTopics(entry), prepare_heldout(corpus, topics=topics), split=0.8)
    first = np.ascontiguousarray(np.argsort(-phi, axis=0, kind="stable")[:10].T)
    pairs, docs = cooccurrence(corpus, first)
    return scored.perplexity, float(np.nanmean(npmi(pairs, docs)))


def measure(command: list[str]) -> float:
    """Run a command, and return its processor seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run_ours(store: Path, topics: int, seed: int, options: list[str], work: Path) -> Row:
    """Train by the command, and score all topics but the background."""
    model = work / "model"
    command = [sys.executable, "-m", "topicstream", "train", str(store), "--model", str(model)]
    command += ["-K", str(topics), "--seed", str(seed), "--threads", "1", "--force", *options]
    seconds = measure(command)
    opened = TopicModel.open(model)
    return Row(*score(store, opened.probabilities(np.arange(opened.n_words))), seconds)


def run_peer(store: Path, name: str, topics: int, seed: int, args: argparse.Namespace) -> Row:
    """Train a peer on the training documents, and score its topics."""
    exported = args.work / f"exported-{store.stem}"
    if not (exported / "meta.json").exists():
        export(Corpus.open(store), exported)
    out = args.work / "peer.npy"
    script = Path(__file__).parent / "peers" / "corners.py"
    setting = map(str, (topics, PASSES, seed))
    seconds = measure([args.peers, str(script), name, str(exported), str(out), *setting])
    return Row(*score(store, np.load(out)), seconds)


def run_all(args: argparse.Namespace) -> None:
    """Run what is not there yet, seed by seed."""
    (args.work / "rows").mkdir(parents=True, exist_ok=True)
    for seed in range(1, args.seeds + 1):
        for name in args.only:
            store = make_store(name, args)
            topics = int(name.rpartition("-")[2])
            for program in args.programs:
                kept = args.work / "rows" / f"{name}-{program}-{seed}.json"
                if kept.exists():
                    continue
                if program in OURS:
                    row = run_ours(store, topics, seed, OURS[program], args.work)
                else:
                    row = run_peer(store, program, topics, seed, args)
                kept.write_text(json.dumps(row) + "\n")
                print(kept.stem, [round(x, 3) for x in row], file=sys.stderr, flush=True)


class Figures(NamedTuple):
    """Means over seeds of a program on a corpus, and standard errors of perplexity and NPMI."""

    seeds: int
    mean: Row
    error: Row | None

    def text(self) -> str:
        """Write perplexity / NPMI / seconds, and how many seeds there are."""
        perplexity, coherence, seconds = self.mean
        if self.error is None:
            return f"{perplexity:,.1f} / {coherence:.3f} / {seconds:.0f} (1)"
        return (
            f"{perplexity:,.1f} ± {self.error.perplexity:.1f} / {coherence:.3f} ± "
            f"{self.error.coherence:.3f} / {seconds:.0f} ({self.seeds})"
        )


def read_figures(work: Path, name: str, program: str) -> Figures | None:
    """Average the seeds that are there, or return None."""
    kept = sorted((work / "rows").glob(f"{name}-{program}-*.json"))
    if not kept:
        return None
    rows = np.array([json.loads(path.read_text()) for path in kept])
    error = rows.std(axis=0, ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else None
    return Figures(len(rows), Row(*rows.mean(axis=0)), None if error is None else Row(*error))


def compare(ours: Figures, peer: Figures, what: str) -> tuple[float, float]:
    """Subtract a peer's figure from ours, with the standard error of the difference.

    A program with one seed is taken to vary as much as the other.
    """
    spread = [
        getattr(figures.error, what) * np.sqrt(figures.seeds)
        for figures in (ours, peer)
        if figures.error is not None
    ]
    if not spread:
        return getattr(ours.mean, what) - getattr(peer.mean, what), float("nan")
    mean = float(np.sqrt(np.mean(np.square(spread))))
    errors = [
        mean if figures.error is None else getattr(figures.error, what) for figures in (ours, peer)
    ]
    return getattr(ours.mean, what) - getattr(peer.mean, what), float(np.hypot(*errors))


def describe_gaps(found: dict[str, Figures]) -> list[str]:
    """Write how far the default and ``--aim reading`` are from the best peer of each figure."""
    peers = [found[name] for name in PEERS if name in found]
    if not peers or not found.keys() >= OURS.keys():
        return ["", ""]
    lowest = min(peers, key=lambda peer: peer.mean.perplexity)
    highest = max(peers, key=lambda peer: peer.mean.coherence)
    gap, error = compare(found["default"], lowest, "perplexity")
    percent = 100 / lowest.mean.perplexity
    other, unsure = compare(found["reading"], highest, "coherence")
    return [f"{gap * percent:+.1f} ± {error * percent:.1f} %", f"{other:+.3f} ± {unsure:.3f}"]


def tabulate(work: Path) -> Iterator[list[str]]:
    """Yield a row a corpus: every program, and the gaps to the best peer."""
    for name in CORPORA:
        figures = {program: read_figures(work, name, program) for program in (*OURS, *PEERS)}
        found = {program: row for program, row in figures.items() if row is not None}
        if found:
            texts = [found[program].text() if program in found else "" for program in figures]
            yield [name, *texts, *describe_gaps(found)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--peers", help="Python of an environment with the other programs")
    parser.add_argument("--only", nargs="*", default=list(CORPORA), choices=list(CORPORA))
    parser.add_argument("--programs", nargs="*", choices=[*OURS, *PEERS])
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    args.programs = args.programs or [*OURS, *(PEERS if args.peers else ())]
    run_all(args)
    heads = ["corpus, topics", *OURS, *PEERS, "default's perplexity", "reading's NPMI"]
    table(heads, list(tabulate(args.work)))


if __name__ == "__main__":
    main()
