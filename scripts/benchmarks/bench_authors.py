"""Measure the author-topic model.

    python scripts/benchmarks/bench_authors.py [folds] [experts] --data FOLDER [--work FOLDER] [-K
    10 30 50] [--folds 5] [--passes 60]
        [--sweeps 200] [--only joint Gibbs]

    folds   nips12, a fold set aside: author perplexity (test authors folded in, 90/10 by word type,
            alpha = beta = 0.01) of the
            joint messages, of 16 pairs a document and of the token Gibbs sampler, whose topics are
            judged by the same code
    experts nips12 by folds (-K, --folds, --passes) and 1 % of acl: how high the authors of a
    document that was set aside are ranked by its
            text, by four ways

Prints Markdown.  Every figure is appended to FOLDER/authors.jsonl as soon as it is there and not
                  made again.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, diags, vstack
from scipy.sparse.linalg import norm

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import Figures, heading, table

from topicstream import infer, ingest
from topicstream.addons.authors.scorer import author_perplexity
from topicstream.addons.authors.views import EVIDENCE, document_votes
from topicstream.base.progress import Shown as Progress
from topicstream.corpus.reader import Corpus
from topicstream.corpus.vocabulary import Vocabulary
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.kernels import rng
from topicstream.numeric.kernels.jit import kernel
from topicstream.training.loop import train

PRIOR = 0.01
FOLDS = 5
OURS = {"joint": {"sparsity": 0}, "16 pairs": {"sparsity": 16}, "32 pairs": {"sparsity": 32}}


def nips(data: Path, work: Path, fold: int) -> Path:
    """nips12 with its authors, a fold of the documents set aside."""
    out = work / f"nips12-{fold}.zarr"
    if not out.exists():
        side = work / "nips12-authors.tsv"
        rows = [line.rstrip("\n").split("\t") for line in (data / "nips12" / "authors.tsv").open()]
        side.write_text(
            "".join(f"{n}\t{';'.join(names)}\t{int(n) * 7919 % FOLDS}\n" for n, *names in rows)
        )
        ingest(
            str(data / "nips12" / "docword.txt.gz"),
            out,
            meta_files=[f"{side}:row,authors,fold"],
            key="row",
            heldout=f"fold={fold}",
        )
    return out


@kernel
def sweep(
    document,
    words,
    aptr,
    authors,
    author,
    topic,
    word_topic,
    total,
    author_topic,
    author_total,
    seed,
    number,
):
    """One sweep of the token sampler (Rosen-Zvi et al.

    2004): author and topic of every token, its own counts taken out.
    """
    topics = word_topic.shape[1]
    n_words = len(word_topic)
    p = np.empty(topics * 64)
    state = rng.stream(seed, number, 0)
    for i in range(len(words)):
        w = words[i]
        d = document[i]
        a = author[i]
        k = topic[i]
        word_topic[w, k] -= 1
        total[k] -= 1
        author_topic[a, k] -= 1
        author_total[a] -= 1
        mass = 0.0
        n = 0
        for e in range(aptr[d], aptr[d + 1]):
            b = authors[e]
            scale = 1.0 / (author_total[b] + topics * PRIOR)
            for j in range(topics):
                mass += (
                    (word_topic[w, j] + PRIOR)
                    / (total[j] + n_words * PRIOR)
                    * (author_topic[b, j] + PRIOR)
                    * scale
                )
                p[n] = mass
                n += 1
        state = rng.step(state)
        drawn = rng.uniform(rng.bits(state)) * mass
        n = 0
        while p[n] < drawn:
            n += 1
        a = authors[aptr[d] + n // topics]
        k = n % topics
        author[i] = a
        topic[i] = k
        word_topic[w, k] += 1
        total[k] += 1
        author_topic[a, k] += 1
        author_total[a] += 1


def gibbs(store: Corpus, topics: int, sweeps: int, seed: int) -> tuple[TopicModel, float]:
    """The topics of the last state of the token sampler, and CPU seconds of its sweeps."""
    document = []
    words = []
    sizes = []
    authors = []
    for block in store.blocks(axes=["authors"]):
        each = np.repeat(np.arange(block.n_docs), np.diff(block.indptr))
        document.append(np.repeat(block.first_doc + each, block.counts))
        words.append(np.repeat(block.vocab[block.words], block.counts))
        names = block.rows("authors")
        sizes.append(np.diff(names.indptr))
        authors.append(names.ids[names.local])
    document, words, authors = (
        np.concatenate(v).astype(np.int64) for v in (document, words, authors)
    )
    aptr = np.concatenate(([0], np.cumsum(np.concatenate(sizes))))
    draw = np.random.default_rng(seed)
    topic = draw.integers(topics, size=len(words))
    count = np.diff(aptr)[document]
    author = authors[aptr[document] + (draw.random(len(words)) * count).astype(np.int64)]
    word_topic = np.zeros((store.n_words, topics), np.int64)
    author_topic = np.zeros((store.axes["authors"].size, topics), np.int64)
    np.add.at(word_topic, (words, topic), 1)
    np.add.at(author_topic, (author, topic), 1)
    total = word_topic.sum(0)
    author_total = author_topic.sum(1)
    held = (
        document,
        words,
        aptr,
        authors,
        author,
        topic,
        word_topic,
        total,
        author_topic,
        author_total,
        seed,
    )
    sweep(*(a[:0] if i < 2 else a for i, a in enumerate(held)), 0)
    began = time.thread_time()
    for number in range(1, sweeps + 1):
        sweep(*held, number)
    seconds = time.thread_time() - began
    vocabulary = Vocabulary.read(store.file("vocab"))
    return TopicModel.from_arrays(word_topic, vocabulary, np.full(topics, PRIOR), PRIOR), seconds


def ours(
    store: Path, folder: Path, topics: int, passes: int, **options: Any
) -> tuple[TopicModel, float]:
    """Our topics, and CPU seconds of the training (one thread)."""
    settings = {
        "topics": topics,
        "passes": passes,
        "tol": 0.0,
        "threads": 1,
        "force": True,
        "progress": Progress(-1),
    }
    train(
        store,
        folder,
        algo="atm",
        options={"alpha": PRIOR, "beta": PRIOR, **options},
        **{**settings, "passes": 1},
    )
    began = time.process_time()
    train(
        store,
        folder,
        algo="atm",
        options={"alpha": PRIOR, "beta": PRIOR, **options},
        **{**settings, "force": False},
    )
    return TopicModel.open(folder), (time.process_time() - began) * passes / max(passes - 1, 1)


def folds(arguments: argparse.Namespace, figures: Figures) -> None:
    """Perplexity by K and fold."""
    found: dict[tuple[int, str], list[tuple[int, float, float]]] = {}
    for fold in range(arguments.folds):
        for topics in arguments.K:
            store = nips(arguments.data, arguments.work, fold)
            for name in [*OURS, "Gibbs"]:
                n = arguments.sweeps if name == "Gibbs" else arguments.passes
                if name not in arguments.only:
                    continue

                def make(
                    name: str = name, topics: int = topics, n: int = n, store: Path = store
                ) -> dict[str, Any]:
                    corpus = Corpus.open(store)
                    if name == "Gibbs":
                        model, seconds = gibbs(corpus, topics, n, seed=1)
                    else:
                        model, seconds = ours(
                            store, arguments.work / "model", topics, n, **OURS[name]
                        )
                    score = author_perplexity(model, corpus, split=0.9)
                    return {
                        "perplexity": score.perplexity,
                        "cpu": seconds,
                        "authors": score.authors,
                    }

                record = figures.get(
                    {"section": "folds", "fold": fold, "K": topics, "form": name, "passes": n}, make
                )
                found.setdefault((topics, name), []).append(
                    (fold, record["perplexity"], record["cpu"])
                )
    heading(
        "Author perplexity",
        f"nips12, 90/10, test authors folded in; {arguments.passes} passes, {arguments.sweeps} "
        f"sweeps",
    )
    rows = []
    for topics in arguments.K:
        here = {name: found[topics, name] for name in [*OURS, "Gibbs"] if (topics, name) in found}
        row: list[str] = [str(topics), str(len(next(iter(here.values()), [])))]
        base = {f: p for f, p, _ in here.get("Gibbs", [])}
        joint = {f: p for f, p, _ in here.get("joint", [])}
        for name in [*OURS, "Gibbs"]:
            values = here.get(name, [])
            row += (
                [
                    f"{np.mean([p for _, p, _ in values]):.0f}",
                    f"{np.mean([c for *_, c in values]):.0f}",
                ]
                if values
                else ["", ""]
            )
        ratios = [joint[f] / base[f] for f in joint if f in base]
        row.append(f"{np.mean(ratios):.3f} ± {np.std(ratios):.3f}" if ratios else "")
        sparse = [p / joint[f] for f, p, _ in here.get("16 pairs", []) if f in joint]
        row.append(f"{np.mean(sparse):.3f}" if sparse else "")
        rows.append(row)
    each = [h for name in [*OURS, "Gibbs"] for h in (name, "CPU s")]
    table(["K", "folds", *each, "joint / Gibbs", "16 pairs / joint"], rows)


def matrices(corpus: Corpus, heldout: bool) -> tuple[Any, Any]:
    """(counts [D, W], 1 where an author wrote a document [D, A])."""
    counts = []
    wrote = []
    for block in corpus.blocks(heldout=heldout, axes=["authors"]):
        who = block.rows("authors")
        cells = block.counts.astype(float), block.vocab[block.words], block.indptr
        counts.append(csr_matrix(cells, shape=(block.n_docs, corpus.n_words)))
        shape = block.n_docs, corpus.axes["authors"].size
        wrote.append(
            csr_matrix((np.ones(len(who.local)), who.ids[who.local], who.indptr), shape=shape)
        )
    return vstack(counts).tocsr(), vstack(wrote).tocsr()


def ranked(scores: np.ndarray, true: np.ndarray, known: np.ndarray) -> dict[str, float]:
    """MRR of the first true author, and the share of documents with one among the first ten.

    scores: [documents, A].
    """
    scores = np.where(known, scores, -np.inf)
    best = np.where(true & known, scores, -np.inf).max(1, keepdims=True)
    rank = 1 + (scores > best).sum(1) + ((scores == best) & ~true).sum(1) / 2
    return {"mrr": float((1 / rank).mean()), "ten": float((rank <= 10).mean())}


def profiles(written: Any, wrote: Any, asked: Any, rarity: np.ndarray) -> np.ndarray:
    """Cosine of texts with the sum of each author's documents, log(1 + count) log(D / df),
    documents of length 1.
    """

    def weighed(counts: Any) -> Any:
        rows = (counts.log1p() @ diags(rarity)).tocsr()
        return diags(1 / np.maximum(norm(rows, axis=1), 1e-300)) @ rows

    sums = wrote.T @ weighed(written)
    return np.asarray(
        (weighed(asked) @ (diags(1 / np.maximum(norm(sums, axis=1), 1e-300)) @ sums).T).todense()
    )


def by_topics(folder: Path, asked: Any) -> np.ndarray:
    """log p(text | author), as ``show --experts`` has it without a store."""
    model = TopicModel.open(folder)
    p = model.probabilities(np.arange(model.n_words)).T
    sizes = np.maximum(model.table("authors").totals, 0.0)
    found = []
    for _, rows in model.table("authors").spans():
        for at in range(0, len(rows), 500):
            counts = np.maximum(rows[at : at + 500], 0.0) + EVIDENCE * sizes / sizes.sum()
            found.append(
                asked @ np.log(np.maximum(counts / counts.sum(1, keepdims=True) @ p, 1e-300)).T
            )
    return np.concatenate(found, axis=1)


def rankings(
    store: Path, work: Path, topics: int, passes: int, seed: int, most: int
) -> dict[str, Any]:
    """MRR and share in the first ten of each way; of at most so many documents that were
    set aside.
    """
    corpus = Corpus.open(store)
    (written, wrote) = matrices(corpus, False)
    (asked, true) = matrices(corpus, True)
    documents = np.asarray(wrote.sum(0)).ravel()
    known = np.asarray(wrote.sum(0)).ravel() > 0
    kept = np.flatnonzero(true @ known > 0)[:most]
    asked = asked[kept]
    true = true[kept].toarray() > 0
    quiet = {
        "topics": topics,
        "passes": passes,
        "tol": 0.0,
        "threads": 1,
        "force": True,
        "seed": seed,
        "progress": False,
    }
    train(store, work / "atm", algo="atm", **quiet)
    train(store, work / "lda", algo="sparse-bp", **quiet)
    lda = TopicModel.open(work / "lda")
    theta = {
        part: infer(lda, corpus, parts=(part,), progress=False)["shares"]
        for part in ("train", "heldout")
    }
    shares = {part: np.stack(value.to_pylist()) for part, value in theta.items()}
    mean = np.sqrt(wrote.T @ shares["train"] / np.maximum(documents, 1)[:, None])
    rarity = np.log(corpus.n_docs / np.maximum(corpus.read_vocabulary().df, 1))
    votes = np.stack([document_votes(corpus, row.toarray().ravel())[0] for row in asked])
    scores = {
        "topics of atm": by_topics(work / "atm", asked),
        "mean of the documents' topics (sparse-bp)": np.sqrt(shares["heldout"][kept]) @ mean.T,
        "TF-IDF profile": profiles(written, wrote, asked, rarity),
        "votes of documents (`show --experts`)": votes,
    }
    return {
        "documents": len(kept),
        "authors": int(known.sum()),
        **{n: ranked(v, true, known) for n, v in scores.items()},
    }


def experts(arguments: argparse.Namespace, figures: Figures) -> None:
    """Who wrote a document that was set aside?"""
    heading(
        "Experts",
        f"authors of documents that were set aside, ranked by the text; {arguments.passes} passes",
    )
    acl_store = arguments.work / "acl.zarr"
    if not acl_store.exists():
        ingest(
            arguments.data / "acl" / "docs.jsonl.gz",
            acl_store,
            meta={"authors": "authors"},
            heldout="1%",
            progress=False,
        )
    stores = {
        "nips12": [nips(arguments.data, arguments.work, f) for f in range(arguments.folds)],
        "acl": [acl_store],
    }
    rows = []
    for name, several in stores.items():
        for topics in arguments.K:
            runs = []
            for seed in range(arguments.folds):
                key = {
                    "section": "experts",
                    "corpus": name,
                    "K": topics,
                    "seed": seed,
                    "passes": arguments.passes,
                }
                store = several[seed % len(several)]
                runs.append(
                    figures.get(
                        key,
                        partial(
                            rankings, store, arguments.work, topics, arguments.passes, seed, 500
                        ),
                    )
                )
            for way in [k for k, v in runs[0].items() if isinstance(v, dict)]:
                cells = [
                    f"{np.mean([r[way][k] for r in runs]):.3f} ± "
                    f"{np.std([r[way][k] for r in runs]):.3f}"
                    for k in ("mrr", "ten")
                ]
                rows.append([name, topics, way, *cells])
            print(
                name,
                runs[0]["documents"],
                "documents,",
                runs[0]["authors"],
                "authors",
                file=sys.stderr,
            )
    table(["corpus", "K", "ranked by", "MRR", "among the first ten"], rows)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", default=["folds"], choices=["folds", "experts"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("bench-authors"))
    parser.add_argument("-K", type=int, nargs="+", default=[10, 30, 50])
    parser.add_argument("--folds", type=int, default=1)
    parser.add_argument("--passes", type=int, default=60)
    parser.add_argument("--sweeps", type=int, default=200)
    parser.add_argument(
        "--only", nargs="+", choices=[*OURS, "Gibbs"], default=["joint", "16 pairs", "Gibbs"]
    )
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    figures = Figures(arguments.work / "authors.jsonl")
    for section in arguments.sections:
        {"folds": folds, "experts": experts}[section](arguments, figures)


if __name__ == "__main__":
    main()
