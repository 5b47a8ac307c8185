"""Covariates in the prior beside other programs: held-out perplexity by the part that is read.

    python scripts/benchmarks/bench_covariates.py --data ../shared/data --work FOLDER
           --peers PEERS/bin/python [--only acl pubmed] [--seeds 3] [--docs 2000] [-K 20]

Each row is a mean over seeds: perplexity of the rest of a document when 80, 50, 20 and 0 % of it
are read, and processor seconds of training (ours: of the whole command). One evaluator scores all:
a peer's phi and, for each document, the prior that its coefficients give. Documents have the same
labels for everyone: ours by ``--covariates``, tomotopy's DMRModel as multi_metadata, topica's DMR
as columns. What is there in FOLDER is not run again. Peers make ``PASSES``, one thread each.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from export_corpus import export
from measure import table

import topicstream
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.completion import (
    ScoredTopics,
    TopicTable,
    prepare_heldout,
    score_blocks,
    score_model,
)
from topicstream.evaluation.covariates import covariate_views, survey_covariates
from topicstream.evaluation.keys import stream_documents
from topicstream.model.design import PriorDesign
from topicstream.model.topic_model import TopicModel

SPLITS = (0.8, 0.5, 0.2, 0.0)
PASSES = {"tomotopy": 500, "topica": 500}
"""Half of topica's default."""
FORMULAS = {"acl": "year + venue", "reuters21578": "month + labels", "pubmed": "journal + labels"}
TINY = 1e-9  # a pseudo-count beside probabilities times a million
OTHER = "other"


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the documents of a file of JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def read_acl(data: Path) -> Iterator[dict[str, Any]]:
    """Yield abstracts with their year, as a category, and venue."""
    for doc in read_lines(data / "acl" / "docs.jsonl.gz"):
        if doc["labels"]:
            text = {"id": doc["id"], "text": doc["text"]}
            yield {**text, "year": f"y{doc['date'][:4]}", "venue": doc["labels"][0]}


def read_reuters(data: Path) -> Iterator[dict[str, Any]]:
    """Yield news items that have labels, with their month."""
    for doc in read_lines(data / "reuters21578" / "docs.jsonl.gz"):
        if doc["labels"] and doc["text"]:
            month = doc["date"].split("-")[1]
            yield {"id": doc["id"], "text": doc["text"], "month": month, "labels": doc["labels"]}


def read_pubmed(data: Path) -> Iterator[dict[str, Any]]:
    """Yield records with an abstract, with their journal and MeSH headings."""
    ids = set()
    for path in sorted((data / "pubmed").glob("*.xml*")):
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            records = list(ElementTree.parse(file).iter("MedlineCitation"))
        for record in records:
            parts = record.iterfind("Article/Abstract/AbstractText")
            text = " ".join("".join(part.itertext()) for part in parts)
            number = record.findtext("PMID")
            if not text or number in ids:
                continue
            ids.add(number)
            headings = record.iterfind("MeshHeadingList/MeshHeading/DescriptorName")
            yield {
                "id": number,
                "text": f"{record.findtext('Article/ArticleTitle') or ''}\n{text}",
                "journal": record.findtext("Article/Journal/Title") or OTHER,
                "labels": [heading.text for heading in headings],
            }


READERS = {"acl": read_acl, "reuters21578": read_reuters, "pubmed": read_pubmed}


def make_store(corpus: str, args: argparse.Namespace) -> Path:
    """Ingest some documents, a tenth set aside; rare values of a field become one, or none."""
    out = args.work / f"{corpus}.zarr"
    if out.exists():
        return out
    documents = list(READERS[corpus](args.data))
    if len(documents) > args.docs:
        chosen = np.random.default_rng(0).permutation(len(documents))[: args.docs]
        documents = [documents[i] for i in np.sort(chosen)]
    fields = [name for name in documents[0] if name not in ("id", "text")]
    for name in fields:
        counts: Counter[str] = Counter()
        for doc in documents:
            counts.update([doc[name]] if isinstance(doc[name], str) else doc[name])
        common = {value for value, times in counts.most_common(args.values) if times >= 5}
        for doc in documents:
            if isinstance(doc[name], str):
                doc[name] = doc[name] if doc[name] in common else OTHER
            else:
                doc[name] = [value for value in doc[name] if value in common]
    cut: dict[str, Any] = {"min_length": 3, "min_df": 3, "max_df": 0.3, "heldout": "10%"}
    meta = {name: name for name in fields}
    topicstream.ingest(documents, out=out, meta=meta, progress=False, **cut)
    return out


def export_labels(store: Path, formula: str, out: Path) -> None:
    """Write the training documents for the peers, with labels such as venue=acl."""
    corpus = Corpus.open(store)
    export(corpus, out)
    columns = formula.split(" + ")
    labels = []
    for _, batch in stream_documents(corpus, False, columns):
        for row in batch.select(columns).to_pylist():
            own = []
            for name, value in row.items():
                values = value if isinstance(value, list) else [value]
                own += [f"{name}={v}" for v in values if v is not None]
            labels.append(own)
    (out / "labels.json").write_text(json.dumps(labels))


def code_coefficients(design: PriorDesign, run: Any) -> np.ndarray:
    """Convert coefficients of all labels into those beside the first category of each field."""
    given = dict(zip(run["names"].tolist(), run["coefficients"][1:], strict=True))
    out = np.zeros((len(design.names), run["coefficients"].shape[1]))
    out[0] = run["coefficients"][0]
    first = {}
    for covariate in design.covariates.values():
        if not covariate.listed:
            first[covariate.column] = given[f"{covariate.column}={covariate.levels[0]}"]
            out[0] += first[covariate.column]
    for number, name in enumerate(design.names[1:], 1):
        out[number] = given[name] - first.get(name.partition("=")[0], 0.0)
    return out


def score_peer(store: Path, formula: str, run: Any) -> list[float]:
    """Score a peer's topics, each document with its own prior."""
    corpus = Corpus.open(store)
    design = survey_covariates(corpus, formula)
    coefficients = code_coefficients(design, run)
    topics = coefficients.shape[1]
    padded = np.zeros((corpus.n_words, -(-topics // 16) * 16), np.float32)
    padded[:, :topics] = run["phi"] * 1e6
    totals = padded[:, :topics].sum(axis=0, dtype=np.float64)
    alpha = np.exp(coefficients[0])
    entry = TopicTable(padded, alpha, TINY, totals, corpus.n_words, coefficients=coefficients)
    prepared = prepare_heldout(corpus, topics=topics)
    scores = []
    with ExitStack() as stack:
        grids = [grid for grid, _ in prepared.parts]
        views = stack.enter_context(covariate_views_of(design, corpus, grids))
        prepared = replace(prepared, views=views)
        for split in SPLITS:
            scores.append(score_blocks(ScoredTopics(entry), prepared, split=split).perplexity)
    return scores


def covariate_views_of(design: PriorDesign, corpus: Corpus, grids: list[Any]) -> Any:
    """Give blocks the rows of a design, as those of a model with covariates have them."""

    class Entry:
        def design(self) -> PriorDesign:
            return design

    class Manifest:
        covariates = Entry()

    class Model:
        manifest = Manifest()

    return covariate_views(Model(), corpus, grids)  # type: ignore[arg-type]


def run_ours(store: Path, formula: str | None, seed: int, args: argparse.Namespace) -> list[float]:
    """Train with the defaults, and score with each document's own prior."""
    model = args.work / "model"
    command = [sys.executable, "-m", "topicstream", "train", str(store), "--model", str(model)]
    command += ["-K", str(args.topics), "--seed", str(seed), "--threads", "1"]
    command += ["--force", *(["--covariates", formula] if formula else [])]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    opened = TopicModel.open(model)
    corpus = Corpus.open(store)
    return [*(score_model(opened, corpus, split=s).perplexity for s in SPLITS), seconds]


def run_peer(store: Path, name: str, seed: int, args: argparse.Namespace) -> list[float]:
    """Train a peer, and score it."""
    formula = FORMULAS[store.stem]
    exported = args.work / f"exported-{store.stem}"
    if not (exported / "labels.json").exists():
        export_labels(store, formula, exported)
    out = args.work / f"{store.stem}-{name}-{seed}.npz"
    script = Path(__file__).parent / "peers" / "covariates.py"
    setting = [args.topics, PASSES[name], seed]
    command = [args.peers, str(script), name, str(exported), str(out), *map(str, setting)]
    if not out.exists():
        subprocess.run(command, check=True, capture_output=True)
    run = np.load(out)
    return [*score_peer(store, formula, run), float(run["seconds"])]


def run_all(args: argparse.Namespace) -> None:
    """Run what is not there yet, seed by seed."""
    for seed in range(1, args.seeds + 1):
        for corpus in args.only:
            store = make_store(corpus, args)
            for name in ("learned prior", "--covariates", *PASSES):
                kept = args.work / "rows" / f"{corpus}-{name.strip('-')}-{seed}.json"
                if kept.exists():
                    continue
                if name in PASSES:
                    row = run_peer(store, name, seed, args)
                else:
                    formula = FORMULAS[corpus] if name == "--covariates" else None
                    row = run_ours(store, formula, seed, args)
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps(row) + "\n")
                print(kept.stem, [round(figure, 1) for figure in row], file=sys.stderr, flush=True)


def report(args: argparse.Namespace) -> None:
    """Print the means of the rows that are there."""
    rows = []
    for corpus in FORMULAS:
        for name in ("learned prior", "--covariates", *PASSES):
            kept = sorted((args.work / "rows").glob(f"{corpus}-{name.strip('-')}-*.json"))
            if not kept:
                continue
            figures = np.array([json.loads(path.read_text()) for path in kept])
            cells = [f"{mean:,.0f}" for mean in figures.mean(axis=0)]
            rows.append([corpus, name, len(kept), *cells[:-1], f"{figures[:, -1].mean():.1f}"])
    table(["corpus", "prior", "seeds", "80 %", "50 %", "20 %", "0 %", "processor s"], rows)


def main() -> None:
    """Run the campaign and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--work", type=Path, required=True, help="where stores and rows are kept")
    parser.add_argument("--peers", required=True, help="Python that has tomotopy and topica")
    parser.add_argument("--only", nargs="+", default=list(FORMULAS), choices=list(FORMULAS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--docs", type=int, default=2_000)
    parser.add_argument("--values", type=int, default=40, help="values of a field, at most")
    parser.add_argument("-K", "--topics", type=int, default=20)
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    run_all(args)
    report(args)


if __name__ == "__main__":
    main()
