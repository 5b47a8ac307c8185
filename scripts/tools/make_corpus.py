"""Make a corpus like PubMed's abstracts, of any size: Zipf words, planted topics, lengths that
vary.

    python scripts/tools/make_corpus.py --cells 480e6 --out big.zarr            a corpus store,
    through the block writer
    python scripts/tools/make_corpus.py --cells 10e6 --docword docword.txt      UCI bag of words
    text (.gz by name, - for stdout)
    python scripts/tools/make_corpus.py --cells 1e6 --named named.jsonl --names 300   JSON lines of
    texts with authors, labels and links to documents before

Word w has the weight 1 / (w + 2.7)^1.07.  A topic lifts every word by a gamma-distributed factor; a
                                           document mixes a few
topics (Dirichlet).  The planted word distributions are written beside, NAME.phi.npy, float32[K, W].
                     The same seed gives
the same corpus; documents are drawn on their own streams, so any number of threads gives the same
bytes."""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.base.files.ownership import claim
from topicstream.base.machine import versions
from topicstream.corpus.documents import PlacedDocuments, hash_ids
from topicstream.corpus.format import PARTS, write_array_metadata
from topicstream.corpus.manifest import HeldoutRule, Sources, StoreManifest, store_file
from topicstream.corpus.manifest import part_of as entry_of
from topicstream.corpus.writer import BlockWriter
from topicstream.ingestion.store.commit import fingerprint
from topicstream.ingestion.tokens.vocabulary import TokenVocabulary, word_table, write_words
from topicstream.numeric.kernels import rng
from topicstream.numeric.kernels.jit import kernel

GROUP = 1 << 14  # documents drawn at once


@kernel
def alias_table(p, chance, other):
    """Walker's alias table of p: float64[W] -> chance: float32[W], other: int32[W]."""
    n = len(p)
    scaled = p * n / p.sum()
    small = np.empty(n, np.int64)
    large = np.empty(n, np.int64)
    s = l = 0
    for i in range(n):
        if scaled[i] < 1.0:
            small[s] = i
            s += 1
        else:
            large[l] = i
            l += 1
    while s > 0 and l > 0:
        s -= 1
        a = small[s]
        b = large[l - 1]
        chance[a] = scaled[a]
        other[a] = b
        scaled[b] -= 1.0 - scaled[a]
        if scaled[b] < 1.0:
            l -= 1
            small[s] = b
            s += 1
    for i in range(l):
        chance[large[i]] = 1.0
        other[large[i]] = large[i]
    for i in range(s):
        chance[small[i]] = 1.0
        other[small[i]] = small[i]


@kernel
def draw(seed, first, docs, mean, topics_of, chance, other, marker, lengths, words, counts):
    """Documents first .. first + docs - 1.  chance: float32[K, W], other: int32[K, W]; marker:
    int32[W], zeros.

    A document has a geometric-like number of tokens about ``mean`` and ``topics_of`` topics with
    exponential weights. Returns the number of cells; words ascend within a document."""
    K, W = chance.shape
    n = 0
    share = np.empty(topics_of)
    which = np.empty(topics_of, np.int64)
    for d in range(docs):
        state = rng.stream(seed, 0, first + d)
        total = 0.0
        for j in range(topics_of):
            state = rng.step(state)
            which[j] = rng.below(rng.bits(state), K)
            state = rng.step(state)
            total -= np.log(1.0 - rng.uniform(rng.bits(state)))
            share[j] = total
        state = rng.step(state)
        u = rng.uniform(rng.bits(state))
        v = 0.0
        state = rng.step(state)
        v = rng.uniform(rng.bits(state))
        tokens = 5 + int((mean - 5) * 0.5 * -(np.log(1.0 - u) + np.log(1.0 - v)))
        start = n
        for _ in range(tokens):
            state = rng.step(state)
            r = rng.uniform(rng.bits(state)) * total
            j = 0
            while r > share[j]:
                j += 1
            k = which[j]
            state = rng.step(state)
            bits = rng.bits(state)
            w = rng.below(bits, W)
            # the low 24 bits choose between the word and its alias
            if (bits & np.uint64(0xFFFFFF)) >= np.uint64(chance[k, w] * 16777216.0):
                w = np.int64(other[k, w])
            if marker[w] == 0:
                words[n] = w
                n += 1
            marker[w] += 1
        words[start:n].sort()
        for i in range(start, n):
            counts[i] = marker[words[i]]
            marker[words[i]] = 0
        lengths[d] = n - start
    return n


def planted(topics: int, words: int, seed: int) -> np.ndarray:
    """phi float32[K, W]: Zipf weights, each topic lifting its own words; rows sum to 1."""
    base = 1.0 / (np.arange(words) + 2.7) ** 1.07
    generator = np.random.Generator(np.random.Philox(seed))
    phi = np.empty((topics, words), np.float32)
    for k in range(topics):
        row = base * generator.gamma(0.08, 1.0, words)
        phi[k] = row / row.sum()
    return phi


class Corpus:
    """Groups of documents in order, drawn in threads."""

    def __init__(
        self, phi: np.ndarray, docs: int, mean: float, topics_of: int, seed: int, threads: int
    ) -> None:
        self.phi = phi
        self.docs = docs
        self.mean = mean
        self.topics_of = topics_of
        self.seed = seed
        self.threads = threads
        self.chance = np.empty(phi.shape, np.float32)
        self.other = np.empty(phi.shape, np.int32)
        for k in range(len(phi)):
            alias_table(phi[k].astype(np.float64), self.chance[k], self.other[k])

    def _group(self, first: int) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
        docs = min(GROUP, self.docs - first)
        room = int(docs * self.mean * 1.5) + 4096
        lengths = np.empty(docs, np.uint32)
        words = np.empty(room, np.int32)
        counts = np.empty(room, np.int32)
        marker = np.zeros(self.phi.shape[1], np.int32)
        n = draw(
            self.seed,
            first,
            docs,
            self.mean,
            self.topics_of,
            self.chance,
            self.other,
            marker,
            lengths,
            words,
            counts,
        )
        return first, lengths, words[:n], counts[:n]

    def __iter__(self) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        with ThreadPoolExecutor(self.threads) as pool:
            firsts = iter(range(0, self.docs, GROUP))
            waiting = [pool.submit(self._group, f) for _, f in zip(range(self.threads + 1), firsts)]
            while waiting:
                yield waiting.pop(0).result()
                for f in firsts:
                    waiting.append(pool.submit(self._group, f))
                    break


def estimate_docs(phi: np.ndarray, mean: float, topics_of: int, seed: int, cells: float) -> int:
    """Documents that give about so many cells, from a sample."""
    sample = Corpus(phi, 4096, mean, topics_of, seed, 1)
    found = sum(len(words) for _, _, words, _ in sample)
    return max(1, round(cells * 4096 / found))


def word_names(n: int) -> list[str]:
    """Distinct made-up words, letters only."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    return ["w" + "".join(letters[(i // 26**k) % 26] for k in range(4, -1, -1)) for i in range(n)]


FIRST_DAY = np.datetime64("2000-01-01")
DAYS = 20 * 365


def write_store(corpus: Corpus, out: Path, heldout: float, dates: bool = False) -> tuple[int, int]:
    """Through the block writer, as an ingest would; ids in descending count, counts of training
    documents.

    dates  a column ``date``: the days of twenty years, evenly, in the documents' order
    """
    claim(out, "corpus")
    W = corpus.phi.shape[1]
    threshold = np.uint64(min(int(heldout * 2**64), 2**64 - 1))
    part_of: list[np.ndarray] = []
    sums = np.zeros(W, np.int64)
    df = np.zeros(W, np.int64)
    with ThreadPoolExecutor(corpus.threads) as pool:
        writers = [BlockWriter(out, part, 0, False, pool) for part in PARTS]
        for first, lengths, words, counts in corpus:
            high, _ = hash_ids(
                pa.array(
                    [str(d + 1) for d in range(first, first + len(lengths))], pa.large_string()
                )
            )
            part = (high < threshold).astype(np.uint8)
            part_of.append(part)
            cell_part = np.repeat(part, lengths)
            for p in (0, 1):
                mine = cell_part == p
                indptr = np.concatenate(([0], np.cumsum(lengths[part == p], dtype=np.int64)))
                writers[p].add(indptr, words[mine], counts[mine])
                if p == 0:
                    sums += np.bincount(words[mine], counts[mine], W).astype(np.int64)
                    df += np.bincount(words[mine], minlength=W)
        for writer in writers:
            writer.close()
    names = pa.array(word_names(W), pa.large_string())
    vocabulary = TokenVocabulary.from_words(names, sums, df)
    vocabulary.save(out / "vocab.parquet")
    write_words(out / "pruned.parquet", [word_table(names[:0], sums[:0], df[:0])])
    parts = {part: entry_of(writer.entries) for part, writer in zip(PARTS, writers, strict=True)}
    columns = {"date": "string"} if dates else {}
    documents = PlacedDocuments(out, columns, [], parts)
    at = 0
    for part in part_of:
        ids = pa.array([str(d + 1) for d in range(at, at + len(part))], pa.large_string())
        day = FIRST_DAY + np.arange(at, at + len(part)) * DAYS // corpus.docs
        at += len(part)
        more = {"date": pa.array(day.astype(str), pa.large_string())} if dates else {}
        documents.place(pa.table({"id": ids, "source": ids, **more}), part)
    docs = documents.finish()
    write_array_metadata(out, {part: entry.rows for part, entry in parts.items()})
    cells, tokens = (sum(getattr(parts[p], k) for p in PARTS) for k in ("cells", "tokens"))
    manifest = StoreManifest(
        schema=1,
        kind="corpus",
        created_with=versions(),
        generation=1,
        weighted=False,
        n_words=W,
        fingerprint=fingerprint(vocabulary.hash, parts, None),
        parts=parts,
        heldout=HeldoutRule(text=f"{100 * heldout:g}%", threshold=f"{int(threshold):#018x}"),
        tokenizer=None,
        tokenizer_hash=None,
        vocabulary={"training_documents": parts["train"].docs, "hash": vocabulary.hash},
        files={kind: store_file(out, f"{kind}.parquet") for kind in ("vocab", "pruned")},
        docs=docs,
        columns=columns,
        sources=Sources(count=1, first=["made"]),
        summary={
            "documents": at,
            "words": W,
            "words_pruned": 0,
            "tokens_pruned": 0,
            "cells": cells,
            "tokens": tokens,
        },
    )
    manifest.write(out)
    return cells, tokens


@kernel
def _digits(value, out, at):
    n = at
    v = value
    while True:
        n += 1
        v //= 10
        if v == 0:
            break
    for i in range(n - 1, at - 1, -1):
        out[i] = 48 + value % 10
        value //= 10
    return n


@kernel
def as_text(first, lengths, words, counts, out):
    """``document word count`` lines, from 1; the bytes written."""
    at = cell = 0
    for d in range(len(lengths)):
        for _ in range(lengths[d]):
            at = _digits(first + d + 1, out, at)
            out[at] = 32
            at = _digits(words[cell] + 1, out, at + 1)
            out[at] = 32
            at = _digits(counts[cell], out, at + 1)
            out[at] = 10
            at += 1
            cell += 1
    return at


def write_docword(corpus: Corpus, name: str) -> tuple[int, int]:
    """UCI docword; the header needs the totals first, so the documents are drawn twice."""
    cells = sum(len(words) for _, _, words, _ in corpus)
    tokens = 0
    with ExitStack() as stack:
        f: Any = sys.stdout.buffer
        if name != "-":
            opened = gzip.open(name, "wb", 1) if name.endswith(".gz") else open(name, "wb")  # noqa: SIM115
            f = stack.enter_context(opened)
        f.write(f"{corpus.docs}\n{corpus.phi.shape[1]}\n{cells}\n".encode())
        for first, lengths, words, counts in corpus:
            out = np.empty(30 * len(words) + 1, np.uint8)
            f.write(out[: as_text(first, lengths, words, counts, out)])
            tokens += int(counts.sum())
    if name != "-":
        vocab = Path(name).with_name(
            Path(name).name.removesuffix(".gz").replace("docword", "vocab")
        )
        if vocab.name == Path(name).name:
            vocab = vocab.with_name("vocab." + vocab.name)
        vocab.write_text("\n".join(word_names(corpus.phi.shape[1])) + "\n")
    return cells, tokens


def write_named(corpus: Corpus, name: str, names: int) -> tuple[int, int]:
    """Write JSON lines: two authors and two labels of ``names`` each, links to documents before."""
    vocabulary = word_names(corpus.phi.shape[1])
    draw_names = np.random.Generator(np.random.Philox(corpus.seed))
    cells = 0
    tokens = 0
    with open(name, "w") as out:
        for first, lengths, words, counts in corpus:
            ends = np.cumsum(lengths)
            for doc, end in enumerate(ends, first):
                mine = slice(end - lengths[doc - first], end)
                text = np.repeat(words[mine], counts[mine])
                authors, labels = draw_names.integers(0, names, (2, 2))
                links = draw_names.integers(0, doc, min(doc, 3))
                record = {
                    "id": str(doc),
                    "text": " ".join(vocabulary[word] for word in text),
                    "authors": [f"author {author}" for author in authors],
                    "labels": [f"label {label}" for label in labels],
                    "links": [str(link) for link in links],
                }
                out.write(json.dumps(record) + "\n")
            cells += len(words)
            tokens += int(counts.sum())
    return cells, tokens


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cells", type=float, default=10e6, help="about so many cells (default 10e6)"
    )
    parser.add_argument("--docs", type=int, help="exactly so many documents instead")
    parser.add_argument(
        "--words", type=int, default=141_043, help="vocabulary (default 141043, PubMed's)"
    )
    parser.add_argument("--topics", type=int, default=50)
    parser.add_argument("--topics-of", type=int, default=4, help="topics of a document")
    parser.add_argument(
        "--mean", type=float, default=90.0, help="tokens of a document (default 90, PubMed's)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--heldout", type=float, default=0.01)
    parser.add_argument("--dates", action="store_true", help="with dates, of twenty years")
    parser.add_argument("--threads", type=int, default=2)
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--out", type=Path, help="a corpus store")
    target.add_argument("--docword", help="a docword text file; - for standard output")
    target.add_argument("--named", help="a file of JSON lines with authors, labels and links")
    parser.add_argument("--names", type=int, default=100, help="authors, and labels, of --named")
    args = parser.parse_args()
    began = time.monotonic()
    phi = planted(args.topics, args.words, args.seed)
    docs = args.docs or estimate_docs(phi, args.mean, args.topics_of, args.seed, args.cells)
    corpus = Corpus(phi, docs, args.mean, args.topics_of, args.seed, args.threads)
    if args.out is not None:
        cells, tokens = write_store(corpus, args.out, args.heldout, args.dates)
        np.save(f"{args.out}.phi.npy", phi)
    elif args.named is not None:
        cells, tokens = write_named(corpus, args.named, args.names)
    else:
        cells, tokens = write_docword(corpus, args.docword)
        if args.docword != "-":
            np.save(f"{args.docword}.phi.npy", phi)
    print(
        f"{docs:,} documents, {cells:,} cells, {tokens:,} tokens, {time.monotonic() - began:.1f} s",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
