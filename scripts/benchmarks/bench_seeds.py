"""Seeded topics: do they keep their seeds?  Engines of ours beside tomotopy's ``set_word_prior``.

    python scripts/benchmarks/bench_seeds.py --data ../shared/data [--peers PEERS/bin/python] [--work FOLDER] [--passes 50]

20 Newsgroups, 20 topics, eight of them given four to six words each.  Prints Markdown: of the seeded topics the share of
their seed words that are among their 20 most probable words, NPMI of their ten most probable words in the training documents, held-out perplexity of the whole model, and processor seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import heading, table

from topicstream import ingest
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.coherence import coherence
from topicstream.evaluation.completion import score_model
from topicstream.model.seeds import look_up, read_seeds
from topicstream.model.top import top_words
from topicstream.model.topic_model import TopicModel
from topicstream.model.vocabulary import Vocabulary
from topicstream.training.loop import train

SEEDS = {
    "hockey": ["hockey", "nhl", "goalie", "puck", "rangers"],
    "baseball": ["baseball", "pitcher", "inning", "braves", "hitter"],
    "space": ["nasa", "orbit", "shuttle", "lunar", "spacecraft"],
    "cryptography": ["encryption", "clipper", "crypto", "nsa", "escrow"],
    "guns": ["gun", "firearms", "weapons", "handgun", "militia"],
    "medicine": ["disease", "patients", "doctor", "symptoms", "infection"],
    "cars": ["car", "engine", "tires", "dealer", "brakes"],
    "religion": ["jesus", "christ", "bible", "church", "faith"],
}
TOPICS, TOP = 20, 20
ALPHA, BETA = 0.1, 0.01
PASSES = {"sparselda": 4}  # passes of a sampler for one of the others'


def strengths(strength: float | None) -> dict[str, Any]:
    return {name: {"words": words, **({"strength": strength} if strength else {})} for name, words in SEEDS.items()}


def share_kept(model: TopicModel) -> float:
    """Of the seed words those among the top 20 of their topics, mean over the topics."""
    words = look_up(read_seeds(SEEDS), model.vocabulary)
    ids, _ = top_words(model, TOP)
    return float(np.mean([len(set(own[own >= 0]) & set(ids[:, k])) / (own >= 0).sum() for k, own in enumerate(words)]))


def judged(model: TopicModel, corpus: Corpus) -> tuple[float, float, float, float]:
    """Of the seeded topics the share of their seeds among the top 20, and by counts alone, without pseudo-counts; their
    NPMI; held-out perplexity."""
    counts = np.concatenate([rows.copy() for _, rows in model.counts()])
    bare = share_kept(TopicModel.from_arrays(counts, model.vocabulary, model.alpha, model.beta))
    found = coherence(model, corpus).npmi_by_topic[: len(SEEDS)]
    npmi = float(np.mean([v for v in found if v is not None]))
    return share_kept(model), bare, npmi, score_model(model, corpus).perplexity


def ours(algo: str, strength: float | None, seeded: bool, store: Path, model: Path, passes: int) -> list[str]:
    began = time.process_time()
    options: dict[str, Any] = {"alpha": ALPHA, "beta": BETA}
    if algo != "mvi":
        options["learn_priors"] = False
    seeds = strengths(strength) if seeded else None
    passes *= PASSES.get(algo, 1)
    train(
        store,
        model,
        algo=algo,
        topics=TOPICS,
        passes=passes,
        tol=0,
        threads=1,
        force=True,
        options=options,
        progress=False,
        seed_words=seeds,
    )
    seconds = time.process_time() - began
    what = "no seeds" if not seeded else "as many as the word has" if strength is None else f"{strength:g}"
    return row(algo, what, passes, TopicModel.open(model), Corpus.open(store), seconds, seeded)


def row(
    name: str, what: str, passes: int, model: TopicModel, corpus: Corpus, seconds: float, seeded: bool
) -> list[str]:
    kept, bare, npmi, perplexity = judged(model, corpus)
    shown = (
        [f"{100 * kept:.0f} %", f"{100 * bare:.0f} %", f"{npmi:.3f}"]
        if seeded
        else ["", "", f"({coherence(model, corpus).npmi:.3f}, all topics)"]
    )
    return [name, what, str(passes), *shown, f"{perplexity:.0f}", f"{seconds:.1f}"]


PEER = """
import json, sys, time
import numpy as np, tomotopy as tp
given = json.load(open(sys.argv[1]))
mdl = tp.LDAModel(k=given["topics"], alpha=given["alpha"], eta=given["beta"], seed=1, min_cf=0)
for words in given["documents"]:
    mdl.add_doc(words)
for word, prior in given["priors"].items():
    mdl.set_word_prior(word, prior)
mdl.optim_interval = 0
began = time.process_time()
mdl.train(given["passes"], workers=1, show_progress=False)
seconds = time.process_time() - began
order = {w: i for i, w in enumerate(given["words"])}
phi = np.zeros((given["topics"], len(order)))
columns = [order[w] for w in mdl.used_vocabs]
for k in range(given["topics"]):
    phi[k, columns] = mdl.get_topic_word_dist(k)
np.save(sys.argv[2], phi)
print(seconds)
"""


def tomotopys(python: str, prior: float | None, store: Path, work: Path, passes: int) -> list[str]:
    """tomotopy's Gibbs sampler; prior: of a seed word in its topic (0.01 elsewhere); None: its corpus count."""
    corpus = Corpus.open(store)
    vocabulary = Vocabulary.read(corpus.file("vocab"))
    words = vocabulary.words.to_pylist()
    documents = []
    for block in corpus.blocks():
        for d in range(block.n_docs):
            cells = slice(block.indptr[d], block.indptr[d + 1])
            ids = np.repeat(block.vocab[block.words[cells]], block.counts[cells])
            if len(ids):
                documents.append([words[i] for i in ids])
    priors = {}
    for k, (own, ids) in enumerate(zip(SEEDS.values(), look_up(read_seeds(SEEDS), vocabulary), strict=True)):
        for word, i in zip(own, ids, strict=True):
            if i >= 0:
                priors[word] = [BETA] * TOPICS
                priors[word][k] = float(vocabulary.counts[i]) if prior is None else prior
    given = {
        "topics": TOPICS,
        "alpha": ALPHA,
        "beta": BETA,
        "documents": documents,
        "priors": priors,
        "passes": passes,
        "words": words,
    }
    (work / "given.json").write_text(json.dumps(given))
    args = [python, "-c", PEER, str(work / "given.json"), str(work / "phi.npy")]
    done = subprocess.run(args, check=True, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    phi = np.load(work / "phi.npy").T * float(corpus.n_tokens) / TOPICS
    model = TopicModel.from_arrays(phi, vocabulary, ALPHA, 0.0)
    what = "as many as the word has" if prior is None else f"{prior:g}"
    return row("tomotopy", what, passes, model, corpus, float(done.stdout), True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[3] / "shared" / "data")
    parser.add_argument("--peers", help="a Python with tomotopy")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--passes", type=int, default=50)
    parser.add_argument("--engines", default="atbp,sparse-bp,sparselda,mvi", help="ours, comma-separated")
    parser.add_argument("--strengths", default="0,100,1000", help="pseudo-counts of a word; 0: as many as it has")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = args.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        store = work / "20news.zarr"
        if not store.exists():
            ingest(args.data / "20news" / "docs.jsonl.gz", out=store, heldout="10%", progress=False)
        heading(
            "Seeded topics",
            f"20 Newsgroups, K = {TOPICS}, {len(SEEDS)} topics with seed words; alpha {ALPHA}, beta {BETA}, one thread.",
        )
        rows = []
        given = [float(v) or None for v in args.strengths.split(",")]
        for algo in filter(None, args.engines.split(",")):
            for strength, seeded in [(None, False), *((v, True) for v in given)]:
                rows.append(ours(algo, strength, seeded, store, work / "model", args.passes))
                print("  ".join(rows[-1]), file=sys.stderr, flush=True)
        if args.peers:
            for prior in (1.0, *given):
                rows.append(tomotopys(args.peers, prior, store, work, args.passes * PASSES["sparselda"]))
                print("  ".join(rows[-1]), file=sys.stderr, flush=True)
        table(
            [
                "engine",
                "strength",
                "passes",
                "seeds in the top 20",
                "by counts alone",
                "NPMI",
                "held-out perplexity",
                "CPU s",
            ],
            rows,
        )


if __name__ == "__main__":
    main()
