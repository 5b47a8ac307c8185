"""Labeled LDA: perplexity against LDA (Fig. 14 of Zeng, Cheung & Liu), F1 of labels beside
classifiers, seconds beside tomotopy.

    python scripts/benchmarks/bench_labels.py --data ../shared/data --peers PEERS/bin/python --work
    FOLDER [--only perplexity reuters 20news categories acl]

PEERS has scikit-learn and tomotopy (naive Bayes, logistic regression on counts and on TF-IDF,
``LLDAModel``; --rows chooses);
without it their rows are left out.  All
get the same cells: those of a store whose vocabulary is of the training documents.  Reuters-21578:
ModApte, documents with
topics (7,775 and 3,019), F1 over the labels that occur on both sides.  20news: the by-date split.
acl: venues.  nips12: the 48
section labels put into 13 (CATEGORIES, by hand: the sections changed their names from year to
year).  One thread, seconds of processor.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import heading, table

import topicstream
from topicstream.corpus.reader import Corpus

CATEGORIES = {
    "algorithms and architectures": "Algorithms and Architectures|Architectures and Algorithms|Structured Networks|"
    "Local Basis Functions|Recurrent Networks|Network Dynamics and Chaos",
    "learning algorithms": "Learning Algorithms|New Learning Algorithms|Learning Systems|Stochastic Learning and "
    "Analysis",
    "learning and generalisation": "Learning and Generalisation|Learning Theory and Dynamics|"
    "Learning Theory, Generalisation and Complexity",
    "theory": "Theory|Theoretical Analyses|Theory and Analysis|Theoretical Analysis: Dynamics and "
    "Statistics",
    "neuroscience": "Neuroscience|Neurobiology|Computational and Theoretical "
    "Neurobiology|Neuro-Dynamics|Oscillations",
    "visual processing": "Visual Processing|Vision|Optical Character Recognition",
    "speech and signal processing": "Speech and Signal Processing|Speech, Handwriting and Signal Processing|Speech|"
    "Signal Processing",
    "control, navigation and planning": "Control, Navigation and Planning|Control and Navigation|Control|"
    "Control and Planning|Optimisation and Control",
    "reinforcement learning": "Reinforcement Learning",
    "cognitive science": "Cognitive Science|Language and Cognition|Language|Temporal Reasoning|Temporal Sequences",
    "implementation": "Implementation|Hardware Implementation|VLSI",
    "applications": "Applications|Empirical Analyses|Performance Comparisons",
    "other": "Uncategorised|History of Neural Networks",
}
PEERS = ["naive Bayes", "logistic regression", "logistic regression, TF-IDF", "LLDAModel"]
QUIET: dict[str, Any] = {"threads": 1, "progress": False}


def lines_of(file: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(file, "rt") as f:
        yield from map(json.loads, f)


def ingest(work: Path, name: str, documents: Iterator[dict[str, Any]], **given: Any) -> Path:
    """A store of documents with ``labels``, those of ``side`` = test set aside; kept."""
    out = work / f"{name}.zarr"
    raw = work / f"{name}.jsonl"
    if not out.exists():
        with open(raw, "w") as f:
            f.writelines(json.dumps(d) + "\n" for d in documents)
        meta = {"labels": "labels", "side": "side"}
        topicstream.ingest(
            str(raw), out, meta=meta, heldout="side=test", workers=1, progress=False, **given
        )
    return out


def reuters(data: Path) -> Iterator[dict[str, Any]]:
    for d in lines_of(data / "reuters21578/docs.jsonl.gz"):
        if d["modapte"] != "unused" and d["labels"]:
            yield {"id": d["id"], "text": d["text"], "labels": d["labels"], "side": d["modapte"]}


def news(data: Path) -> Iterator[dict[str, Any]]:
    for d in lines_of(data / "20news/docs.jsonl.gz"):
        yield {
            "id": d["id"],
            "text": d["text"],
            "labels": d["labels"],
            "side": d["id"].split("/")[0],
        }


def acl(data: Path) -> Iterator[dict[str, Any]]:
    for n, d in enumerate(lines_of(data / "acl/docs.jsonl.gz")):
        if d["labels"]:
            yield {
                "id": d["id"],
                "text": d["text"],
                "labels": d["labels"],
                "side": "test" if n % 5 == 0 else "train",
            }


def nips(data: Path, work: Path, heldout: str | int = 0) -> Path:
    """The published counts; labels by the documents' order, which is that of docs.jsonl."""
    place = {
        section: kind for kind, sections in CATEGORIES.items() for section in sections.split("|")
    }
    out = work / f"nips12-{heldout}.zarr"
    if not out.exists():
        side = work / "sections.jsonl"
        with open(side, "w") as f:
            for number, d in enumerate(lines_of(data / "nips12/docs.jsonl.gz"), 1):
                f.write(
                    json.dumps({"row": number, "labels": [place[s] for s in d["labels"]]}) + "\n"
                )
        given = {
            "meta_files": [f"{side}:row,labels"],
            "key": "row",
            "workers": 1,
            "progress": False,
            "min_df": 1,
        }
        topicstream.ingest(str(data / "nips12/docword.txt.gz"), out, heldout=heldout, **given)
    return out


def trained(store: Path, model: Path, **given: Any) -> tuple[Any, float]:
    """The run, and its seconds of processor."""
    topicstream.train(
        store, model, force=True, **{**QUIET, **given, "passes": 1}
    )  # what has to be compiled is
    began = time.process_time()
    done = topicstream.train(store, model, force=True, **{**QUIET, **given})
    return done, time.process_time() - began


def matrices(store: Path, file: Path) -> None:
    """Cells and labels of both parts as one .npz."""
    corpus = Corpus.open(store)
    found = {}
    for part, heldout in (("train", False), ("test", True)):
        parts: dict[str, list[np.ndarray]] = {
            n: [np.zeros(1, np.int64)] for n in ("indptr", "label_indptr")
        }
        parts |= {n: [] for n in ("words", "counts", "labels")}
        for block in corpus.blocks(heldout=heldout, axes=["labels"]):
            rows = block.rows("labels")
            for name, values in (("indptr", block.indptr), ("label_indptr", rows.indptr)):
                parts[name].append(values[1:] + parts[name][-1][-1])
            parts["words"].append(block.vocab[block.words])
            parts["counts"].append(block.counts)
            parts["labels"].append(rows.ids[rows.local])
        found |= {f"{part}_{name}": np.concatenate(values) for name, values in parts.items()}
    np.savez(file, words=corpus.n_words, n_labels=corpus.axes["labels"].size, **found)


def peers(python: str | None, file: Path, *which: str) -> dict[str, dict[str, float]]:
    if python is None:
        return {}
    script = Path(__file__).parent / "peers" / "labels.py"
    env = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, str(script), str(file), *which],
        capture_output=True,
        text=True,
        check=True,
        env=env,
    )
    return dict(json.loads(done.stdout))


def f1_rows(
    store: Path, work: Path, python: str | None, which: list[str], settings: list[dict[str, Any]]
) -> None:
    """llda by these settings and the peers ``which``, judged alike."""
    rows = []
    model = work / "model"
    for options in settings:
        done, seconds = trained(store, model, algo="llda", options=options)
        r = topicstream.evaluate(model, store, labels=True, **QUIET)["labels"]
        name = "llda " + " ".join(f"{k} {v}" for k, v in options.items())
        figures = [f"{r[k]:.3f}" for k in ("micro_f1", "macro_f1", "accuracy")]
        rows.append([name, *figures, f"{seconds:.2f}", f"{done.passes} passes; {r['measured']}"])
    file = work / f"{store.stem}.npz"
    matrices(store, file)
    for name, r in peers(python, file, *which).items():
        figures = [f"{r[k]:.3f}" if k in r else "" for k in ("micro_f1", "macro_f1", "accuracy")]
        rows.append([name, *figures, f"{r['seconds']:.2f}", r["how"]])
    table(["", "micro F1", "macro F1", "accuracy (one label)", "seconds to train", ""], rows)


def perplexities(name: str, store: Path, topics: int, model: Path) -> None:
    """Fig. 14: a topic a label, and as many topics without labels, from the same start (random)."""
    fixed = {"alpha": 0.01, "beta": 0.01}
    rows = []
    for engine, given in (
        ("llda", {"algo": "llda", "options": {**fixed, "label_alpha": 0.01}}),
        ("bp (LDA)", {"algo": "bp", "topics": topics, "options": fixed, "start": "random"}),
    ):
        found = []
        for seed in range(3):
            done, seconds = trained(store, model, passes=100, tol=0, seed=seed, **given)
            folded_in = topicstream.evaluate(model, store, training=True, **QUIET)["training"][
                "perplexity"
            ]
            found.append((done.last["running_perplexity"], folded_in, seconds))
        own, all_topics, seconds = np.array(found).T
        shown = [f"{v.mean():.0f} ± {v.std():.0f}" for v in (own, all_topics)]
        rows.append([name, topics, engine, *shown, f"{seconds.mean():.1f}"])
    columns = [
        "corpus",
        "K",
        "",
        "running perplexity of the last pass, theta over the document's topics",
        "training perplexity, theta folded in over all topics",
    ]
    table([*columns, "seconds"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--peers")
    parser.add_argument("--rows", nargs="+", default=PEERS, choices=PEERS, help="of the peers")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument(
        "--only", nargs="+", default=["perplexity", "reuters", "20news", "categories"]
    )
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    if "perplexity" in args.only:
        heading(
            "Labeled LDA and LDA, training perplexity",
            "alpha = beta = label alpha = 0.01, 100 passes; seeds 0 to 2",
        )
        perplexities("nips12", nips(args.data, args.work), 13, args.work / "model")
        perplexities(
            "20news", ingest(args.work, "20news", news(args.data)), 20, args.work / "model"
        )
    if "reuters" in args.only:
        heading("Labels of Reuters-21578", "ModApte, documents with topics, the same cells for all")
        store = ingest(args.work, "reuters", reuters(args.data))
        settings: list[dict[str, Any]] = [
            {},
            {"beta": 0.1},
            {"label_alpha": 0.1},
            {"label_alpha": 10.0},
        ]
        f1_rows(store, args.work, args.peers, args.rows, [*settings, {"free": 1}])
    if "20news" in args.only:
        heading("Groups of 20news", "by date, the same cells for all")
        f1_rows(
            ingest(args.work, "20news", news(args.data)),
            args.work,
            args.peers,
            args.rows,
            [{}, {"beta": 0.1}],
        )
    if "categories" in args.only:
        heading(
            "Categories of nips12", "13, a fifth of the documents set aside, the same cells for all"
        )
        f1_rows(
            nips(args.data, args.work, "20%"), args.work, args.peers, args.rows, [{}, {"beta": 0.1}]
        )
    if "acl" in args.only:
        heading("Venues of acl", "every fifth abstract set aside, the same cells for all")
        f1_rows(
            ingest(args.work, "acl", acl(args.data)),
            args.work,
            args.peers,
            args.rows,
            [{}, {"beta": 0.1}],
        )


if __name__ == "__main__":
    main()
