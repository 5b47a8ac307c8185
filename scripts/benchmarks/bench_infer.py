"""Measure ``topics infer``: speed and quality beside tomotopy's infer, the methods of Yao, Mimno &
McCallum 2009.

    python scripts/benchmarks/bench_infer.py [speed] [quality] --data ../shared/data --peers
    PEERS/bin/python

speed    acl (titles and abstracts): tomotopy learns topics from nine documents of ten and infers
         the topics of documents of
         which a fifth of the words is hidden; the same topics as a model of ours.  Perplexity of
         the hidden words in the
         tenth documents, which no one learned from
quality  nips12, K = 70, 7:3: cosine, KL(Gibbs2 || method) and F1 of the topics that make 80 % of
         theta, each method against
         joint Gibbs (Gibbs2 of Yao, Mimno & McCallum 2009, Fig. 3), and CPU seconds

Prints Markdown.  FULL=1 takes the full sizes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from export_corpus import export
from measure import full, heading, table

import topicstream
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.keys import document_keys, word_keys
from topicstream.inference.config import InferConfig
from topicstream.inference.documents import Documents
from topicstream.inference.memory import plan_inference
from topicstream.inference.method import TopicRows
from topicstream.inference.methods import make_method
from topicstream.inference.source import open_source
from topicstream.ingestion.pipeline import ingest
from topicstream.model.topic_model import TopicModel
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.rng import bits, uniform

HERE = Path(__file__).parent
TOOLS = HERE.parent / "tools"
TOPICS = 100
ALPHA = 0.1
BETA = 0.01

HELD = """
import json, sys, threading, time

def held(first="VmRSS"):
    said = dict(line.split(":", 1) for line in open("/proc/self/status") if \
line.startswith(("Rss", "VmRSS", "VmHWM")))
    return [int(said[name].split()[0]) * 1024 for name in (first, "RssAnon", "RssFile")]

"""

OURS = (
    HELD
    + """
from pathlib import Path
import topicstream
from topicstream.model.topic_model import TopicModel

def watch():
    while not done.wait(0.02):
        peak[:] = map(max, peak, held())

store, model, out, options = json.loads(sys.argv[1])
model = TopicModel.open(model)
opened = held()
if warm := options.pop("warm"):
    topicstream.infer(model, Path(warm), out=out, force=True, **options)
loaded = held()
peak, done = held(), threading.Event()
watcher = threading.Thread(target=watch)
watcher.start()
cpu = time.process_time()
s = topicstream.infer(model, Path(store), out=out, force=True, **options)
cpu = time.process_time() - cpu
done.set()
watcher.join()
print(json.dumps({**s, "cpu": cpu, "open": opened, "loaded": loaded, "peak": peak}))
"""
)


def ours(
    store: Path, model: Path, out: Path, *, warm: Path | None = None, **options: Any
) -> dict[str, Any]:
    """Infer in a process of its own, after a first run over ``warm`` (default: the same store) that
    is not counted.  The
    summary with cpu seconds and the resident bytes (all, anonymous, of files) once the model was
    open, after the first run and at the peak."""
    given = json.dumps([str(store), str(model), str(out), {**options, "warm": str(warm or store)}])
    return child(OURS, given)


def child(program: str, *args: object) -> Any:
    """What a process of its own prints last, JSON."""
    command = [sys.executable, "-c", program, *map(str, args)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@kernel
def _seen(indptr, words, doc_keys, hashes, share, seen):
    for d in range(len(indptr) - 1):
        for i in range(indptr[d], indptr[d + 1]):
            seen[i] = uniform(bits(doc_keys[d] ^ hashes[words[i]])) < share


def take(folder: Path, out: Path, docs: np.ndarray, cells: np.ndarray | None = None) -> None:
    """Some documents (by number) of an export, of them only the cells of a mask, as another
    export.
    """
    indptr, words, counts = (np.load(folder / f"{n}.npy") for n in ("indptr", "words", "counts"))
    chosen = np.zeros(len(indptr) - 1, bool)
    chosen[docs] = True
    keep = np.repeat(chosen, np.diff(indptr)) & (True if cells is None else cells)
    lengths = np.add.reduceat(np.append(keep, False), indptr[:-1]) * (np.diff(indptr) > 0)
    out.mkdir(exist_ok=True)
    np.save(out / "indptr.npy", np.concatenate(([0], np.cumsum(lengths[docs]))).astype(np.int64))
    np.save(out / "words.npy", words[keep])
    np.save(out / "counts.npy", counts[keep])
    (out / "meta.json").write_text((folder / "meta.json").read_text())


def completion(
    folder: Path, cells: np.ndarray, docs: np.ndarray, shares: np.ndarray, p: np.ndarray
) -> float:
    """Perplexity of the masked cells of some documents; shares: a row a document of ``docs``; p:
    [W, K], NaN rows of words that no one learned are left out."""
    indptr, words, counts = (np.load(folder / f"{n}.npy") for n in ("indptr", "words", "counts"))
    loglik = tokens = 0.0
    for row, d in zip(shares, docs, strict=True):
        at = np.flatnonzero(cells[indptr[d] : indptr[d + 1]]) + indptr[d]
        at = at[~np.isnan(p[words[at], 0])]
        if len(at) and not np.isnan(row[0]):
            loglik += float(counts[at] @ np.log(p[words[at]] @ row.astype(np.float64)))
            tokens += float(counts[at].sum())
    return float(np.exp(-loglik / tokens))


def speed(data: Path, work: Path, peers: str, passes: int, n_asked: int | None) -> None:
    """Documents a second and completion perplexity beside tomotopy, which learns in so many passes
    and is asked for so many documents."""
    store = work / "acl.zarr"
    if not (store / "manifest.json").exists():
        ingest(data / "acl" / "docs.jsonl.gz", store, heldout=0)
    corpus = Corpus.open(store)
    export(corpus, work / "all")
    indptr = np.load(work / "all" / "indptr.npy")
    words = np.load(work / "all" / "words.npy")
    seen = np.zeros(len(words), np.bool_)
    _seen(indptr, words, document_keys(corpus, False), word_keys(corpus), 0.8, seen)
    numbers = np.arange(corpus.n_docs)
    asked = numbers[:n_asked]
    take(work / "all", work / "train", numbers[numbers % 10 != 0])
    take(work / "all", work / "new", asked, seen)
    command = [
        peers,
        str(HERE / "peers" / "infer.py"),
        str(work / "train"),
        str(work / "new"),
        str(work / "peer"),
    ]
    command += [
        "-K",
        str(TOPICS),
        "--alpha",
        str(ALPHA),
        "--beta",
        str(BETA),
        "--passes",
        str(passes),
    ]
    if not (work / "peer" / "infer.json").exists():
        subprocess.run(command, check=True, stdout=sys.stderr)
    peer = json.loads((work / "peer" / "infer.json").read_text())
    phi = np.load(work / "peer" / "phi.npy")
    theirs = np.load(work / "peer" / "shares.npy")
    used = np.flatnonzero(phi.sum(axis=1) > 0)
    texts = corpus.read_vocabulary().words.take(used)
    model = TopicModel.from_arrays(phi[used], texts, np.full(TOPICS, ALPHA), BETA)
    model.save(work / "model")

    # quality: the tenth documents, of their seen words
    p = np.full(phi.shape, np.nan)
    p[used] = model.probabilities(np.arange(len(used)))
    tenth = asked[asked % 10 == 0]
    take(work / "all", work / "tenth", tenth, seen)
    index = np.full(len(phi), -1)
    index[used] = np.arange(len(used))
    docs = read_export(work / "tenth", index)
    found = {
        name: make_method(name, TopicRows(model)).shares(docs) for name in ("bp", "vb", "gibbs")
    }
    judged = {
        name: completion(work / "all", ~seen, tenth, shares, p) for name, shares in found.items()
    }
    theirs_judged = completion(work / "all", ~seen, tenth, theirs[tenth], p)

    heading(
        "New documents: speed",
        "acl, K = 100, the same topics (tomotopy's). tomotopy: `infer` alone, its documents "
        "made beforehand, four fifths of the words. Ours: from the store to the file, whole "
        "documents, imports and "
        "kernels loaded. Perplexity: hidden words of documents that no one learned from.",
    )
    rate = peer["documents"] / peer["infer_seconds"]
    rows = [
        [
            "tomotopy infer",
            f"{peer['documents']:,}",
            f"{rate:,.0f}",
            "1",
            "",
            f"{theirs_judged:.1f}",
        ]
    ]
    tries: list[tuple[str, str, dict[str, Any]]] = [
        ("bp, --top 5, Parquet", "parquet", {"top": 5}),
        ("bp, all topics, Parquet", "parquet", {}),
        ("bp, --top 5, JSON lines", "jsonl", {"top": 5}),
        ("bp, all topics, CSV", "csv", {}),
        ("vb, --top 5", "parquet", {"top": 5, "method": "vb"}),
        ("vb, --sparse 8 --top 5", "parquet", {"top": 5, "method": "vb", "options": {"sparse": 8}}),
    ]
    for name, suffix, options in tries:
        s = ours(store, work / "model", work / f"t.{suffix}", **options)
        print(name, json.dumps(s), file=sys.stderr, flush=True)
        same = judged[options.get("method", "bp")] if "options" not in options else None
        rows.append(
            [
                f"topics infer {name}",
                f"{s['documents']:,}",
                f"{s['documents_per_second']:,.0f}",
                f"{s['documents_per_second'] / rate:.0f}",
                f"{1e6 * s['cpu'] / s['documents']:.0f}",
                "" if same is None else f"{same:.1f}",
            ]
        )
    rows.append(
        ["gibbs, 50 sweeps after 30 (quality only)", "", "", "", "", f"{judged['gibbs']:.1f}"]
    )
    began = time.perf_counter()
    command = [
        sys.executable,
        "-m",
        "topicstream.cli.main",
        "infer",
        str(store),
        "--model",
        str(work / "model"),
    ]
    subprocess.run([*command, "-o", str(work / "cli.parquet"), "--top", "5", "-q"], check=True)
    wall = time.perf_counter() - began
    rows.append(
        [
            "the command, start to end",
            f"{corpus.n_docs:,}",
            f"{corpus.n_docs / wall:,.0f}",
            f"{corpus.n_docs / wall / rate:.0f}",
            "",
            "",
        ]
    )
    table(
        ["", "documents", "documents/s", "times tomotopy", "CPU µs a document", "perplexity"], rows
    )


def read_export(folder: Path, index: np.ndarray) -> Documents:
    """An export as documents over a model's words."""
    import pyarrow as pa

    from topicstream.inference.documents import documents_of_cells

    indptr, words, counts = (np.load(folder / f"{n}.npy") for n in ("indptr", "words", "counts"))
    ids = pa.array([str(d) for d in range(len(indptr) - 1)], pa.large_string())
    return documents_of_cells(ids, indptr, words, counts, index)


def main_topics(theta: np.ndarray, share: float = 0.8) -> np.ndarray:
    """bool[D, K]: the fewest largest topics that make ``share`` of each row."""
    order = np.argsort(-theta, axis=1, kind="stable")
    before = np.cumsum(np.take_along_axis(theta, order, 1), axis=1) - np.take_along_axis(
        theta, order, 1
    )
    out = np.zeros(theta.shape, bool)
    np.put_along_axis(out, order, before < share, 1)
    return out


def agreement(theta: np.ndarray, truth: np.ndarray) -> tuple[float, float, float]:
    """Means over documents of cosine, KL(truth || theta) in nats and F1 of the main topics."""
    cosine = (theta * truth).sum(1) / np.sqrt((theta**2).sum(1) * (truth**2).sum(1))
    kl = (truth * np.log(truth / np.maximum(theta, 1e-12))).sum(1)
    a = main_topics(theta)
    b = main_topics(truth)
    return (
        float(cosine.mean()),
        float(kl.mean()),
        float((2 * (a & b).sum(1) / (a.sum(1) + b.sum(1))).mean()),
    )


def quality(data: Path, work: Path) -> None:
    """Paper 004, Fig. 3."""
    store = work / "nips12.zarr"
    model = work / "nips12-model"
    if not (store / "manifest.json").exists():
        ingest(data / "nips12" / "docword.txt.gz", store, heldout="30%")
    passes = 500 if full() else 60
    topicstream.train(
        store, model, algo="gs", topics=70, passes=passes
    )  # carries on in a folder that is kept
    opened = TopicModel.open(model)
    config = InferConfig(opened, Corpus.open(store), parts=("heldout",))
    plan = plan_inference(opened, config.memory, 1, owned=False)
    docs = list(open_source(config, opened, plan).documents())
    tokens = sum(float(d.tokens.sum()) for d in docs)
    many = {"sweeps": 200, "burn": 100} if full() else {"sweeps": 40, "burn": 20}

    def run(name: str, **options: Any) -> tuple[np.ndarray, float]:
        make_method(name, TopicRows(opened), **options).shares(docs[0]) if not options.get(
            "joint"
        ) else None
        method = make_method(name, TopicRows(opened), **options)
        began = time.process_time()
        found = np.concatenate([method.shares(d) for d in method.gather(docs)]).astype(np.float64)
        return found, time.process_time() - began

    make_method("gibbs", TopicRows(opened), joint=True, sweeps=1, burn=0).gather(
        docs[:1]
    )  # compiled beforehand
    truth, seconds = run("gibbs", joint=True, **many)
    rows = [["gibbs --joint (Gibbs2)", "1", "0", "1", f"{seconds:.2f}"]]
    for title, name, options in (
        ("gibbs --joint, another seed", "gibbs", {"joint": True, "seed": 1, **many}),
        ("gibbs (Gibbs3)", "gibbs", many),
        ("vb", "vb", {}),
        ("vb --sparse 4", "vb", {"sparse": 4}),
        ("bp", "bp", {}),
    ):
        theta, seconds = run(name, **options)
        cosine, kl, f1 = agreement(theta, truth)
        rows.append([title, f"{cosine:.4f}", f"{kl:.4f}", f"{f1:.4f}", f"{seconds:.2f}"])
    n = sum(len(d) for d in docs)
    heading(
        "New documents: methods",
        f"nips12, K = 70, {n} documents set aside ({tokens:,.0f} tokens), topics by {passes} "
        f"passes of Gibbs sampling; samplers: {many['sweeps']} sweeps after {many['burn']}. KL "
        f"in nats.",
    )
    table(["", "cosine", "KL(Gibbs2 ‖ method)", "F1", "CPU s"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", default=["speed", "quality"])
    parser.add_argument("--data", type=Path, help="folder with acl/ and nips12/")
    parser.add_argument("--peers", help="a Python that has tomotopy")
    parser.add_argument("--passes", type=int, help="speed: tomotopy's when it learns the topics")
    parser.add_argument("--asked", type=int, help="speed: documents that tomotopy's infer is given")
    parser.add_argument(
        "--work",
        type=Path,
        help="a folder for what is made on the way, which is kept and used again",
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-infer-") as folder:
        work = args.work or Path(folder)
        work.mkdir(parents=True, exist_ok=True)
        if "speed" in args.what:
            if args.data is None or args.peers is None:
                parser.error("speed needs --data and --peers")
            passes = args.passes or (200 if full() else 50)
            speed(args.data, work, args.peers, passes, args.asked or (None if full() else 10_000))
        if "quality" in args.what:
            if args.data is None:
                parser.error("quality needs --data")
            quality(args.data, work)


if __name__ == "__main__":
    main()
