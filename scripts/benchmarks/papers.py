"""The tables of docs/internals/reproduce, made with our own commands, printed as Markdown.

    python scripts/benchmarks/papers.py TABLE --data ../shared/data --work FOLDER [--help]

Yao, Mimno and McCallum 2009:
methods:   Figs. 3, 4, 6 and 7: 7:3, methods of inference against Gibbs2 (--reference) by corpus and
           number of topics (--by).
inputs:    `topics classifier --features counts`, `frequency` and `root` on several corpora, against
           Gibbs2.
share:     Fig. 8: `train --sample` of 10 to 70 % of the abstracts, asked about the same others and
           about the rest.
drift:     Fig. 9: abstracts of the ACL Anthology up to a year, the classifier on the years after
           it.
windows:   Fig. 9: so many abstracts of a year from 2016 on, alone and with the years up to 2022;
           asked about 2023.
months:    the same on Reuters-21578: trained up to 15 March 1987, asked month by month.
passes:    Fig. 2: seconds a pass and memory of sparselda over the run and by the number of topics,
           and gs.

Zeng, Cheung and Liu; Zeng, Liu and Cao:
engines:   halves of a corpus, each engine from its own start or one for all, alpha = 2/K and beta =
           0.01, the papers' own flags.
starts:    the same from each of three starts.
folds:     Figs. 9 and 10: folds of a tenth, BP, VB and Gibbs sampling, alpha = beta = 0.01.
stream:    Fig. 8: aTBP, sTBP and OVB over time on a store with documents set aside.
intrusion: sheets of word intrusion by BP, VB and Gibbs sampling, answered by co-occurrence.

Models of `methods` in FOLDER are used again.  Seconds are of the process on one thread; ``±``:
standard deviation over seeds.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import topicstream
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sample import SampledCorpus
from topicstream.evaluation.keys import open_other_corpus
from topicstream.model.topic_model import TopicModel

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from compare_methods import METHODS, compare_methods, known_counts
from paper_tools import fit, head, line, spread, store
from papers_zeng import ENGINES, FOLDS, Clock, engines, folds, intrusion, starts, stream


# -- inference on a stream of documents
# ------------------------------------------------------------------------------------
def with_classifier(a: argparse.Namespace, corpus: Path, topics: int, seed: int) -> Path:
    """A model by SparseLDA with its classifier, made where it is not there."""
    model = Path(a.work, f"{corpus.stem}-{topics}-{a.passes}-{seed}")
    if not (model / "classifier.json").exists():
        fit(
            corpus, model, {"algo": "sparselda"}, topics=topics, passes=a.passes, tol=0.0, seed=seed
        )
        topicstream.train_classifier(model, corpus, threads=1, progress=False)
    return model


DIGITS = {"cosine": 3, "divergence": 3, "f1": 3, "seconds": 4, "perplexity": 0}


def methods(a: argparse.Namespace) -> None:
    """Likeness to the reference, seconds and held-out perplexity of each method."""
    head("corpus, T", "method", "cosine", "KL", "F1 at 0.8", "seconds", "held-out perplexity")
    for name in a.corpora:
        corpus = store(a, name, "30%")
        for topics in a.by:
            found: dict[str, list[list[float]]] = {}
            for seed in range(a.runs):
                answers = compare_methods(
                    *asked(with_classifier(a, corpus, topics, seed), corpus, a.documents),
                    METHODS if a.methods == "all" else a.methods.split(","),
                    reference=a.reference,
                    burn=a.burn,
                    sweeps=a.sweeps,
                    seed=seed,
                )
                for method, row in answers.items():
                    found.setdefault(method, []).append([row[measure] for measure in DIGITS])
            for method, rows in found.items():
                cells = [
                    spread(column, digits) for column, digits in zip(zip(*rows), DIGITS.values())
                ]
                line(f"{name}, {topics}", method, *cells)


def inputs(a: argparse.Namespace) -> None:
    """The classifier's kinds of features, and the fast methods beside it."""
    names = ("maxent", "hybrid", "gibbs2.s", "bp")
    head(
        "corpus",
        "documents, mean length",
        "features",
        "nats",
        "temperature",
        *(f"{n}: cosine, KL, F1" for n in names),
    )
    for name in a.corpora:
        corpus = Corpus.open(store(a, name, "20%", max_vocab=20_000))
        model = a.work / f"inputs-{name}"
        fit(Path(corpus.path), model, {"algo": "sparse-bp"}, topics=a.topics, passes=30)
        for kind in ("counts", "frequency", "root"):
            wanted: dict[str, Any] = {
                "features": kind,
                "documents": 20_000,
                "threads": 1,
                "progress": False,
            }
            learned = topicstream.train_classifier(model, corpus, **wanted)
            answers = compared(a, model, Path(corpus.path), names)
            size = f"{corpus.n_docs:,}, {corpus.n_tokens / corpus.n_docs:.0f}"
            line(
                name,
                size,
                kind,
                f"{learned['divergence']:.3f}",
                f"{learned['temperature']:.2f}",
                *answers,
            )


def asked(
    model: Path, corpus: Path, most: int, on: str = "heldout"
) -> tuple[TopicModel, csr_array]:
    """A model, and counts of the documents that its methods are compared on."""
    opened = TopicModel.open(model)
    store = Corpus.open(corpus)
    part = "heldout"
    if on == "rest":
        part = "train"
        store = SampledCorpus(store, opened.manifest.sample, complement=True)
    return opened, known_counts(opened, store.to_scipy(parts=part), store.words, most)


def compared(
    a: argparse.Namespace, model: Path, corpus: Path, names: tuple[str, ...], on: str = "heldout"
) -> list[str]:
    """Cosine, KL and F1 of methods."""
    documents = asked(model, corpus, a.most, on)
    rows = compare_methods(*documents, names, burn=a.burn, sweeps=a.sweeps)
    return [
        f"{rows[n]['cosine']:.3f}, {rows[n]['divergence']:.3f}, {rows[n]['f1']:.3f}" for n in names
    ]


def share(a: argparse.Namespace) -> None:
    """`train --sample`: ever more of the training documents, the same ones asked (and the rest)."""
    corpus = store(a, "acl", "30%", max_vocab=20_000)
    names = ("maxent", "hybrid", "bp", "vb-point", "gibbs2.s")
    head(
        "share",
        "documents",
        "asked",
        *(f"{name}: cosine, KL, F1" for name in names),
        "held-out perplexity",
    )
    for percent in (10, 20, 40, 70):
        model = a.work / f"share-{percent}"
        fit(
            corpus,
            model,
            {"algo": "sparselda"},
            topics=a.topics,
            passes=a.passes,
            tol=0.0,
            sample=percent / 70,
        )
        topicstream.train_classifier(model, corpus, threads=1, progress=False)
        docs = TopicModel.open(model, memory_limit=-1).manifest.corpus.docs
        scored = topicstream.evaluate(model, corpus, heldout=True, threads=1, progress=False)[
            "heldout"
        ]["perplexity"]
        for on in ("heldout", "rest") if percent < 70 else ("heldout",):
            line(
                f"{percent} %",
                f"{docs:,}",
                on,
                *compared(a, model, corpus, names, on),
                f"{scored:.0f}",
            )


def dated(a: argparse.Namespace, name: str) -> list[dict[str, Any]]:
    """The documents of a corpus that have a date."""
    with gzip.open(a.data / name / "docs.jsonl.gz", "rt") as f:
        return [d for d in map(json.loads, f) if d.get("date")]


def answered(
    a: argparse.Namespace,
    docs: list[dict[str, Any]],
    asked_docs: list[dict[str, Any]],
    period: str,
    label: str = "",
) -> None:
    """Rows of how a model and its classifier of these documents answer others, period by period, of
    20,000 words at most.
    """
    old, new, corpus, model = (
        a.work / name for name in ("old.jsonl", "new.jsonl", "old.zarr", "old")
    )
    for path, part in ((old, docs), (new, asked_docs)):
        path.write_text("".join(json.dumps(d) + "\n" for d in part))
    topicstream.ingest(
        [old], corpus, meta={"date": "date"}, max_vocab=20_000, force=True, progress=False
    )
    fit(corpus, model, {"algo": "sparse-bp"}, topics=a.topics, passes=20)
    topicstream.train_classifier(model, corpus, passes=60, threads=1, progress=False)
    found = topicstream.drift(model, new, by="date", period=period, corpus=corpus, progress=False)
    digits = 4 if period == "year" else 7
    for r in found["periods"]:
        some = [d for d in asked_docs if d["date"][:digits] == r["period"]]
        new.write_text("".join(json.dumps(d) + "\n" for d in some))
        opened = TopicModel.open(model)
        with open_other_corpus(new, opened, {}) as documents:
            counts = known_counts(
                opened, documents.to_scipy(parts="train"), documents.words, a.most
            )
        answers = compare_methods(opened, counts, ["maxent"], burn=30, sweeps=20)["maxent"]
        seen = [f"{r[name]:.1%}" for name in ("seen_words", "unknown_tokens")]
        seen += [f"{answers['cosine']:.3f}", f"{answers['f1']:.3f}", f"{r['perplexity_new']:.0f}"]
        line(label or r["period"], f"{len(docs) if label else r['documents']:,}", *seen)


SEEN = ("documents", "distinct words seen", "tokens unknown", "cosine", "F1 at 0.8", "perplexity")


def drift(a: argparse.Namespace) -> None:
    """Years after those of the model."""
    head("year", *SEEN)
    docs = dated(a, "acl")
    late = [int(d["date"][:4]) > a.until for d in docs]
    answered(
        a,
        [d for d, after in zip(docs, late) if not after],
        [d for d, after in zip(docs, late) if after],
        "year",
    )


def windows(a: argparse.Namespace) -> None:
    """Abstracts of 2023 under models of earlier years."""
    head("trained on", *SEEN)
    years: dict[int, list[dict[str, Any]]] = {}
    for d in dated(a, "acl"):
        years.setdefault(int(d["date"][:4]), []).append(d)
    first = 2016
    asked = 2023
    some = {
        y: years[y][:: max(1, len(years[y]) // a.each)][: a.each] for y in range(first, asked + 1)
    }
    for span in [[y] for y in range(first, asked)] + [
        [*range(y, asked)] for y in range(asked - 2, first - 1, -1)
    ]:
        label = f"{span[0]}" + (f" to {span[-1]}" if len(span) > 1 else "")
        answered(a, [d for y in span for d in some[y]], some[asked], "year", label)


def months(a: argparse.Namespace) -> None:
    """News of the months after the model."""
    head("month", *SEEN)
    docs = dated(a, "reuters21578")
    for d in docs:
        day = re.search(r"(\d+)-([A-Z]{3})-(\d{4})", d["date"])
        d["date"] = (
            time.strftime("%Y-%m-%d", time.strptime("-".join(day.groups()), "%d-%b-%Y"))
            if day
            else ""
        )
    last = "1987-03-15"
    answered(
        a,
        [d for d in docs if "" < d["date"] <= last],
        [d for d in docs if d["date"] > last],
        "month",
    )


def passes(a: argparse.Namespace) -> None:
    """Processor ms of single passes on one thread (median of those within a tenth), and the table's
    MB.
    """
    marks = (2, 5, 10, 20, 50)
    corpus = store(a, "nips12", "30%")
    model = a.work / "passes"
    head("T", "engine", *(f"pass {n}" for n in marks), "MB, pass 1 and last")
    for k in a.by:
        for algo, most in (("sparselda", 50), ("gs", 10)):
            near = []
            size = []
            options = {"algo": algo, "alpha": a.alpha or 5 / k, "beta": 0.01, "learn_priors": False}
            for seed in range(a.runs):
                clock = Clock()
                fit(
                    corpus,
                    model,
                    options,
                    topics=k,
                    passes=most,
                    tol=0.0,
                    progress=clock,
                    start="random",
                    seed=seed,
                )
                spent = np.diff(clock.at) * 1000
                rows = [
                    r
                    for r in map(json.loads, (model / "history.jsonl").read_text().splitlines())
                    if r["pass"] > 0
                ]
                near.append(
                    [np.median(spent[int(0.9 * n) : int(1.1 * n) + 1]) for n in marks if n <= most]
                )
                size.append([rows[i]["table_bytes"] / 2**20 for i in (0, -1)])
            cells = [spread(column) for column in zip(*near)] + [""] * (len(marks) - len(near[0]))
            line(k, algo, *cells, " and ".join(f"{np.mean(m):.2f}" for m in zip(*size)))


TABLES = (
    methods,
    inputs,
    share,
    drift,
    windows,
    months,
    passes,
    engines,
    starts,
    folds,
    stream,
    intrusion,
)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=[table.__name__ for table in TABLES])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument(
        "--corpora",
        nargs="+",
        help="[default: of `inputs` five, of `folds` cora, of `engines` kos, else nips12]",
    )
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument(
        "--by", type=int, nargs="+", metavar="K", help="[default: of `methods` 70, else 10 to 50]"
    )
    parser.add_argument("--passes", type=int, default=300)
    parser.add_argument("--runs", type=int, default=1, help="seeds")
    parser.add_argument("--folds", type=int, default=5, help="of ten")
    parser.add_argument(
        "--start",
        help="of `engines`, `folds`: one for all, as documents [default: each engine's own]",
    )
    parser.add_argument(
        "--only", nargs="+", choices=tuple(dict.fromkeys((*ENGINES, *FOLDS, "ovb"))), help="engines"
    )
    parser.add_argument(
        "--methods",
        default="all",
        help="of `methods`: names, as examples/compare_methods.py takes them",
    )
    parser.add_argument("--reference", default="gibbs2", help="of `methods`")
    parser.add_argument("--documents", type=int, default=130, help="of `methods`")
    parser.add_argument("--burn", type=int, default=50)
    parser.add_argument("--sweeps", type=int, default=30)
    parser.add_argument("--most", type=int, default=60, help="documents asked")
    parser.add_argument(
        "--until", type=int, default=2010, help="of `drift`: the last year that is trained on"
    )
    parser.add_argument("--each", type=int, default=1800, help="of `windows`: documents of a year")
    parser.add_argument("--alpha", type=float, help="of `passes`: a topic [default: 5/T]")
    parser.add_argument("--store", type=Path, help="of `stream`")
    parser.add_argument(
        "--seconds", type=float, default=480, help="of `stream`: of a processor, for each engine"
    )
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    own = {
        "inputs": ["kos", "nips12", "reuters21578", "20news", "acl"],
        "folds": ["cora"],
        "engines": ["kos"],
        "starts": ["kos"],
    }
    given.corpora = given.corpora or own.get(given.what, ["nips12"])
    given.by = given.by or ([70] if given.what == "methods" else [10, 20, 30, 40, 50])
    next(table for table in TABLES if table.__name__ == given.what)(given)


if __name__ == "__main__":
    main()
