"""Relational topics: link prediction and perplexity of ``rtm`` against ``bp`` and a Gibbs sampler.

    python scripts/benchmarks/bench_links.py folds [--data ../shared/data --corpus cora|nips12
    --topics 10,30,50 --folds 5 --seeds 1 --passes 60 --start random --only 0,1]

``folds``: folds over documents; links of the test documents are unknown in training.  Each row is a
model; the columns are

    perplexity   90/10 document completion of all test documents from words alone
    withheld, given   the same of the test documents that have links, without and with their links
                      to training documents
    F, AUC       addons/links/scorer.py, features ``product`` (the protocol) and ``root``, five
                 draws
                 of the negatives
    gain         against the first row (F of products, F and AUC of roots): mean over folds of the
                 differences, and its standard error
    and TF-IDF   AUC of a logistic regression on the roots and the cosine of the documents' TF-IDF;
                 on that cosine alone it is
                 printed below the table

Figures of a fold are means over --seeds.  The models are MODELS; without --start each begins as its
                                           engine does.

The Gibbs sampler is Chang & Blei's (2010) with the exponential link function, weight 3 for every
topic, alpha and eta 0.1 (what the demonstration of the R package lda uses on these documents),
written down here and judged by the same evaluator: its theta of training documents is that of its
last state."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
from scipy.sparse import csr_matrix, diags, vstack
from scipy.sparse.linalg import norm

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import heading, table

import topicstream
from topicstream.addons.links.scorer import (
    LinkedScore,
    Pairs,
    fit_classifier,
    judge,
    link_prediction,
    linked_completion,
    trained_shares,
)
from topicstream.base.progress import Shown as Progress
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.visiting import document_shares
from topicstream.model.topic_model import TopicModel

QUIET = Progress(-1)
PAPERS = {"eta": "rows", "xi": 0.15, "alpha": 0.01, "beta": 0.01}
TENTHS = {"alpha": 0.1, "beta": 0.1}
MODELS: list[tuple[str, str, dict[str, Any]]] = [  # label, engine, options
    ("bp", "bp", {}),
    ("rtm, the paper's (eta rows, xi 0.15, priors 0.01)", "rtm", PAPERS),
    ("rtm, xi 0, priors 0.1", "rtm", PAPERS | TENTHS | {"xi": 0.0}),
    ("rtm, xi 0.15, priors 0.1", "rtm", PAPERS | TENTHS),
    ("rtm, identity, xi 0.5, priors 0.01", "rtm", PAPERS | {"eta": "identity", "xi": 0.5}),
    ("rtm, identity, xi 0.3, priors 0.1", "rtm", PAPERS | TENTHS | {"eta": "identity", "xi": 0.3}),
    ("rtm, identity, xi 0.5, priors 0.1", "rtm", PAPERS | TENTHS | {"eta": "identity", "xi": 0.5}),
    ("rtm, identity, xi 0.8, priors 0.1", "rtm", PAPERS | TENTHS | {"eta": "identity", "xi": 0.8}),
    (
        "rtm, identity, xi 0.5, learned priors",
        "rtm",
        PAPERS | {"eta": "identity", "xi": 0.5, "learn_priors": True},
    ),
    ("Gibbs, exponential links, priors 0.1", "gibbs", {**TENTHS, "weight": 3.0}),
    ("rtm, its defaults", "rtm", {}),
]


@numba.njit
def sweep(docs, words, z, c_dk, c_wk, c_k, n_d, ptr, others, alpha, beta, weight, random):
    """One sweep of the relational topic model's collapsed Gibbs sampler; every array is changed in
    place but ptr, others.
    """
    topics = c_k.shape[0]
    smooth = len(c_wk) * beta
    p = np.empty(topics)
    pull = np.zeros(topics)
    last = -1
    for i in range(len(z)):
        d = docs[i]
        w = words[i]
        if d != last:  # what the linked documents say, while this one is sampled
            pull[:] = 0.0
            for e in others[ptr[d] : ptr[d + 1]]:
                pull += c_dk[e] / n_d[e]
            pull = np.exp(weight * pull / n_d[d])
            last = d
        k = z[i]
        c_dk[d, k] -= 1
        c_wk[w, k] -= 1
        c_k[k] -= 1
        total = 0.0
        for k in range(topics):
            total += (c_dk[d, k] + alpha) * (c_wk[w, k] + beta) / (c_k[k] + smooth) * pull[k]
            p[k] = total
        k = min(np.searchsorted(p, random[i] * total), topics - 1)
        z[i] = k
        c_dk[d, k] += 1
        c_wk[w, k] += 1
        c_k[k] += 1


def gibbs(
    corpus: Corpus, topics: int, sweeps: int, seed: int, alpha: float, beta: float, weight: float
) -> tuple[TopicModel, np.ndarray]:
    """(model of the last state, its counts of training documents by topic)."""
    docs = []
    words = []
    ptr = [0]
    others = []
    rows = 0
    for block in corpus.blocks(axes=["links"]):
        owner = np.repeat(np.arange(block.n_docs), np.diff(block.indptr)) + block.first_doc
        docs.append(np.repeat(owner, block.counts))
        words.append(np.repeat(block.vocab[block.words], block.counts))
        links = block.rows("links")
        others.append(links.ids[links.local])
        ptr += (links.indptr[1:] + ptr[-1]).tolist()
        rows += block.n_docs
    d = np.concatenate(docs)
    w = np.concatenate(words)
    rng = np.random.default_rng(seed)
    z = rng.integers(topics, size=len(d))
    c_dk = np.zeros((rows, topics))
    c_wk = np.zeros((corpus.n_words, topics))
    np.add.at(c_dk, (d, z), 1)
    np.add.at(c_wk, (w, z), 1)
    c_k = c_wk.sum(0)
    n_d = np.maximum(np.bincount(d, minlength=rows), 1).astype(float)
    for _ in range(sweeps):
        sweep(
            d,
            w,
            z,
            c_dk,
            c_wk,
            c_k,
            n_d,
            np.array(ptr),
            np.concatenate(others),
            alpha,
            beta,
            weight,
            rng.random(len(z)),
        )
    names = corpus.axes["words"].names()
    return TopicModel.from_arrays(c_wk, names, np.full(topics, alpha), beta), c_dk


DOCUMENTS = {"cora": 2410, "nips12": 1740}
COLUMNS = (
    "perplexity",
    "withheld",
    "given",
    "F product",
    "AUC",
    "F root",
    "AUC",
    "and TF-IDF",
    "xi",
)
DIGITS = (0, 0, 0, 3, 3, 3, 3, 3, 2)
GAINS = (3, 5, 6)  # of COLUMNS


def fold_stores(data: Path, corpus: str, folds: int, work: Path) -> list[Path]:
    """A store a fold, whose documents are set aside."""
    drawn = np.random.default_rng(0).permutation(DOCUMENTS[corpus]) % folds
    (work / "folds.tsv").write_text("".join(f"{d + 1}\tf{f}\n" for d, f in enumerate(drawn)))
    sides = {
        "meta_files": f"{work / 'folds.tsv'}:row,fold",
        "key": "row",
        "links": str(data / corpus / "links.tsv"),
    }
    for f in range(folds):
        given = {"heldout": f"fold=f{f}", "min_df": 1, "max_df": 1.0, "progress": QUIET}
        topicstream.ingest(data / corpus / "docword.txt.gz", work / f"{f}.zarr", **sides, **given)
    return [work / f"{f}.zarr" for f in range(folds)]


def by_folds(arguments: argparse.Namespace, work: Path) -> None:
    """The table of models, K by K."""
    folds = arguments.folds
    seeds = arguments.seeds
    stores = fold_stores(arguments.data, arguments.corpus, folds, work)
    only, several = (
        [int(n) for n in value.split(",")] for value in (arguments.only, arguments.topics)
    )
    start = arguments.start or "each engine's own"
    about = (
        f"{folds} folds, {seeds} seeds, {arguments.passes} passes, start: {start}, 1 thread; "
        f"mean over folds"
    )
    heading(f"Links, {arguments.corpus}", about)
    heads = [
        head
        for i, name in enumerate(COLUMNS)
        for head in ((name, "gain") if i in GAINS else (name,))
    ]
    rows = []
    raw = {}
    for k in several:
        first: np.ndarray | None = None
        for label, algo, options in [MODELS[n] for n in only]:
            began = time.process_time()
            runs = [
                [
                    one(stores[f], algo, k, f + folds * s, options, arguments, work / "model")
                    for s in range(seeds)
                ]
                for f in range(folds)
            ]
            spent = (time.process_time() - began) / folds / seeds
            found = np.array(runs).mean(1)
            first = found if first is None else first
            cells = []
            for i, digits in enumerate(DIGITS):
                change = found[:, i] - first[:, i]
                cells.append(
                    f"{found[:, i].mean():.{digits}f}" if np.isfinite(found[:, i]).all() else ""
                )
                gain = f"{change.mean():+.3f} ± {change.std(ddof=1) / folds**0.5:.3f}"
                cells += ["" if first is found else gain] if i in GAINS else []
            rows.append((k, label, *cells, f"{spent:.1f}"))
            raw[f"{k} {label}"] = found.tolist()
            print(" | ".join(map(str, rows[-1])), file=sys.stderr, flush=True)
    table(("K", "model", *heads, "CPU s"), rows)
    alone = [auc_of_words(Corpus.open(store)) for store in stores]
    print(f"\nTF-IDF alone: AUC {np.mean(alone):.3f} ± {np.std(alone, ddof=1) / folds**0.5:.3f}")
    if arguments.raw is not None:
        arguments.raw.write_text(json.dumps(raw))


def one(
    store: Path,
    algo: str,
    topics: int,
    seed: int,
    options: dict[str, Any],
    arguments: argparse.Namespace,
    model: Path,
) -> list[float]:
    """COLUMNS of one training."""
    corpus = Corpus.open(store)
    counts = None
    passes = arguments.passes
    if algo == "gibbs":
        made, counts = gibbs(
            corpus, topics, 3 * passes, seed, options["alpha"], options["beta"], options["weight"]
        )
    else:
        given = {
            "topics": topics,
            "passes": passes,
            "tol": 0.0,
            "start": arguments.start,
            "seed": seed,
            "threads": 1,
        }
        topicstream.train(
            store, model, algo=algo, options=options, force=True, progress=QUIET, **given
        )
        made = TopicModel.open(model)
    words = topicstream.evaluate(made, store, heldout=True, split="90/10", threads=1)["heldout"][
        "perplexity"
    ]
    given = LinkedScore(np.nan, np.nan, np.nan, 0, np.nan, 0.9)
    if algo == "rtm":
        given = linked_completion(made, corpus, split=0.9)
    found = link_prediction(made, corpus, theta=counts)
    scores = [features[name] for features in (found.product, found.root) for name in ("f", "auc")]
    return [
        words,
        given.withheld,
        given.perplexity,
        *scores,
        auc_with_words(made, corpus, counts),
        given.xi,
    ]


def weighed_words(corpus: Corpus) -> Any:
    """log(1 + count) log(D / df), rows of length 1, training documents first: csr
    [documents, W].
    """
    parts = []
    for heldout in (False, True):
        for b in corpus.blocks(heldout=heldout):
            cells = np.log1p(b.counts.astype(float)), b.vocab[b.words], b.indptr
            parts.append(csr_matrix(cells, shape=(b.n_docs, corpus.n_words)))
    rarity = np.log(corpus.n_docs / np.maximum(corpus.read_vocabulary().df, 1))
    rows = vstack(parts).tocsr() @ diags(rarity)
    return (diags(1 / np.maximum(norm(rows, axis=1), 1e-300)) @ rows).tocsr()


def drawn_pairs(corpus: Corpus) -> tuple[np.ndarray, np.ndarray]:
    """Pairs to learn from and to judge on, the first half of each linked; the first draw of
    addons/links/scorer.py.
    """
    pairs = Pairs(corpus, np.random.default_rng([0, 0]))
    rng = np.random.default_rng([0, 1])
    learning = np.concatenate((pairs.training, pairs.unlinked(len(pairs.training), False, rng)))
    return learning, np.concatenate((pairs.testing, pairs.unlinked(len(pairs.testing), True, rng)))


def halved(pairs: np.ndarray) -> np.ndarray:
    return np.repeat([1.0, 0.0], len(pairs) // 2)


def likeness(words: Any, pairs: np.ndarray) -> np.ndarray:
    return np.asarray(words[pairs[:, 0]].multiply(words[pairs[:, 1]]).sum(1)).ravel()


def auc_of_words(corpus: Corpus) -> float:
    """AUC of the cosine of two documents' TF-IDF."""
    testing = drawn_pairs(corpus)[1]
    return judge(likeness(weighed_words(corpus), testing), halved(testing))["auc"]


def auc_with_words(model: TopicModel, corpus: Corpus, counts: np.ndarray | None) -> float:
    """AUC of a logistic regression on the roots of the topics' products and the cosine of
    TF-IDF.
    """
    words = weighed_words(corpus)
    (learning, testing) = drawn_pairs(corpus)
    parts = [
        np.concatenate([t for _, t, _ in document_shares(model, corpus, heldout=h)])
        for h in (False, True)
    ]
    of_words = np.concatenate(parts).astype(np.float64)
    trained = of_words.copy()
    if counts is not None:
        trained[: len(counts)] = (counts + model.alpha) / (counts + model.alpha).sum(
            1, keepdims=True
        )
    elif "theta" in model.manifest.tables:
        trained[: corpus.n_docs] = trained_shares(model, np.arange(corpus.n_docs))[0]

    def features(pairs: np.ndarray, theta: np.ndarray) -> np.ndarray:
        return np.column_stack(
            (np.sqrt(theta[pairs[:, 0]] * theta[pairs[:, 1]]), likeness(words, pairs))
        )

    x = features(learning, of_words)
    scale = np.maximum(x.max(0), 1e-12)
    classifier = fit_classifier(x / scale, halved(learning))
    scores = classifier.decision_function(features(testing, trained) / scale)
    return judge(scores, halved(testing))["auc"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = parser.add_subparsers(dest="kind", required=True)
    one = kinds.add_parser("folds")
    one.add_argument("--data", type=Path, default=Path(__file__).parents[3] / "shared/data")
    one.add_argument("--corpus", choices=tuple(DOCUMENTS), default="cora")
    one.add_argument("--topics", default="10,30,50")
    one.add_argument("--folds", type=int, default=5)
    one.add_argument("--seeds", type=int, default=1, help="trainings a fold")
    one.add_argument("--passes", type=int, default=60)
    one.add_argument("--start", help="of every engine but Gibbs [default: its own]")
    one.add_argument(
        "--only",
        default=",".join(map(str, range(len(MODELS)))),
        help="numbers of MODELS, gains over the first",
    )
    one.add_argument("--raw", type=Path, help="also write the figures of every fold, as JSON")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-links-") as work:
        by_folds(given, Path(work))


if __name__ == "__main__":
    main()
