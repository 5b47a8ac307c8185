"""Shared by the tests of the ingest: small corpora, and a store read back in plain Python."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from topicstream.corpus.reader import Corpus
from topicstream.ingestion.tokens.vocabulary import TokenVocabulary

SYLLABLES = [
    "ba",
    "ke",
    "lo",
    "mi",
    "nu",
    "ra",
    "si",
    "to",
    "vu",
    "ze",
    "dor",
    "fal",
    "gim",
    "hon",
    "jut",
]


def words_of(rng: random.Random, n: int) -> list[str]:
    """n words, the early ones of a made-up vocabulary more often."""
    out = []
    for _ in range(n):
        rank = int(rng.paretovariate(0.7))
        out.append(
            "".join(
                SYLLABLES[(rank >> (4 * k)) % 15] for k in range(1 + min(3, rank.bit_length() // 4))
            )
            + "x"
        )
    return out


def documents(n: int, seed: int = 1, prefix: str = "d", length: int = 60) -> list[dict[str, Any]]:
    """n documents with ids, authors and labels; one in fifty is empty."""
    rng = random.Random(seed)
    return [
        {
            "id": f"{prefix}{i}",
            "text": " ".join(
                words_of(rng, 0 if i % 50 == 49 else rng.randint(length // 3, 2 * length))
            ),
            "authors": [f"a{rng.randint(0, 9)}"],
            "date": str(1990 + i % 30),
        }
        for i in range(n)
    ]


def write_jsonl(path: Path, docs: list[dict[str, Any]]) -> Path:
    """One object a line."""
    path.write_text("".join(json.dumps(d) + "\n" for d in docs))
    return path


def cells_by_id(store: Path) -> dict[str, tuple[str, dict[str, float]]]:
    """id -> (part, {word: count}) of every document that is not removed, through the documents'
    table.
    """
    corpus = Corpus.open(store)
    words = TokenVocabulary.read(corpus.file("vocab")).words.to_pylist()
    rows: dict[tuple[str, int, int], dict[str, float]] = {}
    for part, heldout in (("train", False), ("heldout", True)):
        for b, _ in enumerate(corpus.part(heldout).blocks):
            raw = corpus.decode(b, heldout)
            at = 0
            for row, n in enumerate(raw.lengths):
                cells = {
                    words[int(raw.words[i])]: float(raw.counts[i]) for i in range(at, at + int(n))
                }
                assert len(cells) == n
                rows[part, b, row] = cells
                at += int(n)
    gone = {int(d) for d in corpus.removed()[:, 0]}
    found: dict[str, tuple[str, dict[str, float]]] = {}
    number = 0
    for entry in corpus.manifest.docs:
        for doc in pq.read_table(
            store / entry.file, columns=["id", "part", "block", "row"]
        ).to_pylist():
            if number not in gone:
                assert doc["id"] not in found
                found[doc["id"]] = (doc["part"], rows[doc["part"], doc["block"], doc["row"]])
            number += 1
    return found


def training_counts(store: Path) -> tuple[Counter[str], Counter[str]]:
    """Occurrences and document frequencies of the words of training documents, from the cells."""
    counts: Counter[str] = Counter()
    df: Counter[str] = Counter()
    for part, cells in cells_by_id(store).values():
        if part == "train":
            counts.update({w: int(c) for w, c in cells.items()})
            df.update(cells.keys())
    return counts, df


def digest(store: Path) -> str:
    """sha256 of every file of a store, names included; without the lock, the places of the inputs
    and the list of forgotten ids, which has a salt.
    """
    total = hashlib.sha256()
    left_out = (".lock", ".inputs.json", ".forgotten.json")
    for path in sorted(p for p in store.rglob("*") if p.is_file() and p.name not in left_out):
        total.update(str(path.relative_to(store)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()
