"""Bytes of corpus stores: does a change of the ingest leave them as they were?

    python scripts/tools/stores.py record FILE    ingest some sixty small corpora, note hashes
    python scripts/tools/stores.py check FILE     the same, compared with what it noted

Every format of the core, documents in memory of every kind, side files, appends, lists of words and
changes of a store that is there.  A hash covers all files of a store but its lock and the places of
its inputs; what ``ingest`` returned is compared too, but for times.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import hashlib
import json
import os
import random
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.io
import scipy.sparse as sp

import topicstream

DOCUMENTS = 300
LEFT_OUT = (".lock", ".inputs.json", ".forgotten.json")
VARIES = {"seconds", "megabytes_per_second", "peak_rss_bytes", "workers", "out"}
QUIET: dict[str, Any] = {"progress": False}


def word_of(rng: random.Random) -> str:
    """Return a made-up word, early ones more often."""
    rank = int(rng.paretovariate(0.8))
    parts = ["ba", "ke", "lo", "mi", "nu", "ra", "si", "to", "vu", "ze", "dor", "Fal", "gim", "ünd"]
    return "".join(parts[(rank >> (3 * k)) % 14] for k in range(2 + min(3, rank.bit_length() // 4)))


def make_records(first: int = 0, n: int = DOCUMENTS) -> list[dict[str, Any]]:
    """Return documents with every kind of field."""
    records = []
    for i in range(first, first + n):
        rng = random.Random(i)
        paragraphs = [
            " ".join(word_of(rng) for _ in range(rng.randint(4, 25)))
            for _ in range(rng.randint(1, 4))
        ]
        records.append(
            {
                "id": f"d{i}",
                "text": "\n\n".join(paragraphs),
                "authors": [f"author {rng.randint(0, 9)}", f"Zoë {rng.randint(0, 3)}"],
                "labels": f"l{i % 4}; l{i % 7}",
                "date": f"{1990 + i % 30}-0{1 + i % 9}",
                "group": "NA" if i % 11 == 0 else f"g{i % 5}",
            }
        )
    return records


def without_time(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a member of an archive that is the same whenever it is made."""
    member.mtime = 0
    return member


class Corpora:
    """Raw files in every format, made in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records = make_records()
        self.texts = [r["text"] for r in self.records]
        flat = [text.replace("\n\n", " ") for text in self.texts]
        lines = "".join(json.dumps(r) + "\n" for r in self.records)
        self.jsonl = self.write("docs.jsonl", lines)
        self.more = self.write(
            "more.jsonl",
            "".join(json.dumps(r) + "\n" for r in make_records(DOCUMENTS - 20, 120)),
        )
        self.packed = folder / "docs2.jsonl.gz"
        self.packed.write_bytes(gzip.compress(lines.encode(), mtime=0))
        self.bad = self.write("bad.jsonl", lines + '{"id": 7}\nno json\n')
        self.lines = self.write("plain.txt", "".join(t + "\n" for t in flat))
        self.mallet = self.write(
            "docs.mallet", "".join(f"m{i} l{i % 3} {t}\n" for i, t in enumerate(flat))
        )
        self.latin = folder / "latin.csv"
        self.latin.write_bytes(self.as_csv(True, ";").encode("cp1252"))
        self.csv = self.write("docs.csv", self.as_csv(True, ","))
        self.bare = self.write("bare.tsv", self.as_csv(False, "\t"))
        self.tree = folder / "tree"
        for i, text in enumerate(self.texts[:120]):
            place = self.tree / f"lang={'de' if i % 2 else 'en'}" / f"{i}.txt"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        (self.tree / "README.md").write_text("about")
        self.tar = folder / "docs.tar.gz"
        with (
            gzip.GzipFile(self.tar, "wb", mtime=0) as raw,
            tarfile.open(fileobj=raw, mode="w") as t,
        ):
            t.add(self.tree, "tree", filter=without_time)
        self.xml = self.write("pubmed.xml", self.as_pubmed())
        self.table = pa.Table.from_pylist(self.records)
        self.parquet = folder / "docs.parquet"
        pq.write_table(self.table, self.parquet)
        self.arrow = folder / "docs.arrow"
        with pa.ipc.new_file(str(self.arrow), self.table.schema) as file:
            file.write_table(self.table, 50)
        self.counts = sp.random_array(
            (DOCUMENTS, 60), density=0.2, rng=5, format="csr", data_sampler=self.draw
        )
        self.write_counts()
        self.write_lists()

    @staticmethod
    def draw(size: int | None = None) -> np.ndarray:
        return np.random.default_rng(4).integers(1, 9, size)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def as_csv(self, header: bool, delimiter: str) -> str:
        path = self.folder / "scratch.csv"
        with open(path, "w", newline="") as file:
            out = csv.writer(file, delimiter=delimiter)
            if header:
                out.writerow(["id", "text", "labels", "date"])
            out.writerows([r["id"], r["text"], r["labels"], r["date"]] for r in self.records)
        return path.read_text()

    def as_pubmed(self) -> str:
        parts = ["<PubmedArticleSet>"]
        for i, text in enumerate(self.texts[:100]):
            parts.append(
                f"<PubmedArticle><MedlineCitation><PMID>{i // 2 if i > 90 else i}</PMID><Article>"
                f"<Journal><Title>J{i % 3}</Title><JournalIssue><PubDate><Year>{2000 + i % 9}"
                f"</Year></PubDate></JournalIssue></Journal><ArticleTitle>{text[:40]}</ArticleTitle>"
                f"<Abstract><AbstractText>{text}</AbstractText></Abstract><AuthorList><Author>"
                f"<LastName>N{i % 7}</LastName><Initials>A</Initials></Author></AuthorList>"
                f"</Article></MedlineCitation></PubmedArticle>\n"
            )
        return "".join(parts) + "<DeleteCitation><PMID>3</PMID></DeleteCitation></PubmedArticleSet>"

    def write_counts(self) -> None:
        coo = self.counts.tocoo()
        words = "".join(f"w{i}\n" for i in range(60))
        cells = "".join(f"{d + 1} {w + 1} {n}\n" for d, w, n in zip(coo.row, coo.col, coo.data))
        self.docword = self.write("docword.x.txt", f"{DOCUMENTS}\n60\n{coo.nnz}\n{cells}")
        self.write("vocab.x.txt", words)
        self.mtx = self.folder / "m.mtx"
        scipy.io.mmwrite(self.mtx, coo, field="integer")
        self.turned = self.folder / "t.mtx"
        scipy.io.mmwrite(self.turned, (coo.T * 0.5).tocoo())
        self.npz = self.folder / "m.npz"
        sp.save_npz(self.npz, self.counts)
        self.csc = self.folder / "c.npz"
        sp.save_npz(self.csc, self.counts.tocsc())
        rows = [self.counts[[i]].tocoo() for i in range(DOCUMENTS)]
        self.ldac = self.write(
            "m.ldac",
            "".join(
                f"{r.nnz} " + " ".join(f"{w}:{n}" for w, n in zip(r.col, r.data)) + "\n"
                for r in rows
            ),
        )
        self.svm = self.write(
            "m.svm",
            "".join(
                f"{i % 3} " + " ".join(f"{w + 1}:{n}" for w, n in zip(r.col, r.data)) + "\n"
                for i, r in enumerate(rows)
            ),
        )
        self.vectors = np.random.default_rng(3).normal(size=(DOCUMENTS, 6))
        np.savez(self.folder / "v.npz", self.vectors)

    def write_lists(self) -> None:
        rng = random.Random(1)
        words = sorted({word_of(rng).lower() for _ in range(60)})
        self.vocab = self.write("words.lst", "\n".join(words))
        self.drop = self.write("drop.lst", "\n".join(words[:9]))
        self.replace = self.write("replace.tsv", f"{words[10]}\t{words[11]}\n")
        self.side = self.write(
            "side.tsv",
            "id\tjournal\tauthors\n"
            + "".join(f"d{i}\tJ{i % 6}\tx{i % 4};y{i % 3}\n" for i in range(0, 320, 2))
            + "d4\tagain\tz\n",
        )
        self.by_row = self.write(
            "rows.tsv", "".join(f"{i + 1}\tk{i % 3}\tj{i % 2}\n" for i in range(0, 200, 3))
        )
        self.by_file = self.write(
            "files.csv",
            "file,kind\n" + "".join(f"{i}.txt,k{i % 3}\n" for i in range(0, 120, 2)),
        )
        self.links = self.write(
            "links.tsv", "".join(f"d{i}\td{(i * 7) % 300}\n" for i in range(0, 300, 2))
        )
        self.row_links = self.write(
            "row_links.tsv", "".join(f"{i + 1}\t{(i * 7) % 310 + 1}\n" for i in range(0, 300, 2))
        )


Case = Callable[[Corpora, str], Any]


def one(documents: Callable[[Corpora], Any], **options: Any) -> Case:
    """Return a case of one ingest; options that are functions are called with the corpora."""

    def run(corpora: Corpora, out: str) -> Any:
        filled = {n: v(corpora) if callable(v) else v for n, v in options.items()}
        return topicstream.ingest(documents(corpora), out=out, **QUIET, **filled)

    return run


def two(first: Case, *others: Case) -> Case:
    """Return a case of several steps on one store."""

    def run(corpora: Corpora, out: str) -> Any:
        return [step(corpora, out) for step in (first, *others)]

    return run


def compact(corpora: Corpora, out: str) -> Any:
    return dict(topicstream.compact(out, progress=False))


def drop(corpora: Corpora, out: str) -> Any:
    return topicstream.drop_words(corpora.drop, out, progress=False)


def cases() -> dict[str, Case]:
    """Return every case by its name."""
    meta = {"authors": "authors", "labels": "labels", "date": "date", "group": "group"}
    more = one(lambda c: c.more, append=True, meta=meta)
    jsonl = one(lambda c: c.jsonl, meta=meta)
    found: dict[str, Case] = {
        "jsonl": jsonl,
        "jsonl again": two(jsonl, jsonl),
        "jsonl na": one(lambda c: c.jsonl, meta=meta, na="NA", date_format="%Y-%m"),
        "jsonl pieces": one(
            lambda c: [c.jsonl, c.packed], piece_bytes=4000, on_duplicate="replace"
        ),
        "jsonl skip": one(lambda c: c.bad, on_error="skip", min_tokens=12),
        "split": one(lambda c: c.packed, split="paragraph", meta="group"),
        "split words": one(lambda c: c.jsonl, split="9 words", heldout=20),
        "text options": one(
            lambda c: c.jsonl, min_length=3, stopwords="none", ngrams=2, min_df=2, max_df=0.9
        ),
        "phrases": one(lambda c: c.jsonl, phrases=["ba ke"], phrase_threshold=0.1, unspaced="runs"),
        "learned phrases": one(lambda c: c.jsonl, phrase_threshold=0.05, normalize="nfc"),
        "stemmed": one(
            lambda c: c.jsonl, stopwords=lambda c: str(c.drop), replace=lambda c: c.replace
        ),
        "vocab": one(lambda c: c.jsonl, vocab=lambda c: c.vocab),
        "drop": one(lambda c: c.jsonl, drop_words=lambda c: c.drop, drop_top=3, max_vocab=150),
        "held out by": one(lambda c: c.jsonl, meta="group", heldout="10%", heldout_by="group"),
        "held out where": one(lambda c: c.jsonl, meta="group", heldout="group=g2"),
        "csv": one(lambda c: c.csv, meta="labels,date"),
        "latin": one(lambda c: c.latin, meta="labels"),
        "bare": one(lambda c: c.bare, text_field="2", id_field="1", header=False),
        "lines": one(lambda c: c.lines),
        "mallet": one(lambda c: c.mallet),
        "tree": one(lambda c: c.tree, meta="lang"),
        "tar": one(lambda c: c.tar),
        "pubmed": one(lambda c: c.xml),
        "parquet": one(lambda c: c.parquet, meta=meta),
        "arrow": one(lambda c: c.arrow, meta="group", piece_bytes=3000),
        "several": one(lambda c: [c.jsonl, c.csv, c.parquet, c.tree]),
        "docword": one(lambda c: c.docword),
        "mtx": one(lambda c: c.mtx, min_df=3),
        "mtx weighted": one(lambda c: c.turned, transpose=True, weighted=True),
        "npz": one(lambda c: c.npz, binarize=True),
        "csc": one(lambda c: c.csc, piece_bytes=2000),
        "ldac": one(lambda c: c.ldac),
        "svmlight": one(lambda c: c.svm),
        "vectors": one(lambda c: c.folder / "v.npz"),
        "side by id": one(
            lambda c: c.jsonl,
            meta="group",
            meta_files=lambda c: [str(c.side)],
            links=lambda c: [str(c.links)],
            na="J3",
        ),
        "side by row": one(
            lambda c: c.jsonl,
            meta_files=lambda c: [f"{c.by_row}:row,labels,group"],
            links=lambda c: [str(c.row_links)],
            key="row",
        ),
        "side by file": one(lambda c: c.tree, meta_files=lambda c: [str(c.by_file)], key="file"),
        "side of parts": one(
            lambda c: c.jsonl,
            split="paragraph",
            meta_files=lambda c: [str(c.side)],
            heldout="journal=J2",
        ),
        "append": two(jsonl, more),
        "append grown": two(jsonl, one(lambda c: c.more, append=True, grow_vocab=True)),
        "append replacing": two(
            jsonl, one(lambda c: c.more, append=True, meta=meta, on_duplicate="replace"), compact
        ),
        "append memory": two(
            one(lambda c: c.texts), one(lambda c: [*c.texts[:40], "ba ke"], append=True)
        ),
        "append pubmed": two(one(lambda c: c.xml), one(lambda c: c.xml, append=True), compact),
        "dropped": two(jsonl, drop, more, compact),
        "forced": two(jsonl, one(lambda c: c.csv, force=True)),
        "texts": one(lambda c: c.texts),
        "dicts": one(lambda c: c.records, meta=meta),
        "generator": one(lambda c: (r for r in c.records), meta="group"),
        "table": one(lambda c: c.table, meta=meta),
        "batches": one(lambda c: c.table.to_batches(60), meta="group"),
        "reader": one(lambda c: c.table.to_reader(70), meta="labels"),
        "array": one(lambda c: pa.chunked_array([c.texts[:9], c.texts[9:]])),
        "objects": one(lambda c: np.array(c.texts, object)),
        "tokens": one(lambda c: [t.split() for t in c.texts]),
        "sparse": one(lambda c: c.counts, vocabulary=[f"w{i}" for i in range(60)]),
        "csc in memory": one(lambda c: c.counts.tocsc(), ids=[f"i{i}" for i in range(DOCUMENTS)]),
        "dense": one(lambda c: c.counts.toarray(), vocabulary={f"w{i}": 59 - i for i in range(60)}),
        "array of vectors": one(lambda c: c.vectors),
    }
    return found | more_libraries()


def more_libraries() -> dict[str, Case]:
    """Return cases of libraries that may be missing."""
    found: dict[str, Case] = {}
    try:
        from pandas import DataFrame as frame

        found |= {
            "pandas": one(lambda c: frame(c.records), meta="authors,labels,group"),
            "pandas index": one(lambda c: frame(c.records).drop(columns="id").set_index("date")),
            "pandas category": one(
                lambda c: frame(c.records).astype({"group": "category"}), meta="group"
            ),
            "pandas parts": one(lambda c: [frame(c.records[:90]), frame(c.records[90:])]),
            "pandas series": one(lambda c: frame(c.records).set_index("id")["text"]),
        }
    except ImportError:
        pass
    try:
        import polars as pl

        found["polars"] = one(lambda c: pl.DataFrame(c.records), meta="authors,group")
        found["polars series"] = one(lambda c: pl.Series(c.texts))
    except ImportError:
        pass
    try:
        import duckdb

        found["duckdb"] = one(lambda c: duckdb.sql(f"from '{c.parquet}'"), meta="group")
    except ImportError:
        pass
    import pyarrow.dataset as ds

    found["dataset"] = one(lambda c: ds.dataset(c.parquet), meta="group")
    return found


def digest(store: Path) -> str:
    """Return a hash of the files of a store."""
    total = hashlib.sha256()
    for path in sorted(p for p in store.rglob("*") if p.is_file() and p.name not in LEFT_OUT):
        total.update(str(path.relative_to(store)).encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def without_times(value: Any) -> Any:
    """Return a result without what differs from run to run."""
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in sorted(value.items()) if k not in VARIES}
    if isinstance(value, list):
        return [without_times(v) for v in value]
    return value


def run_cases(only: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield name, hash and result of every case."""
    with tempfile.TemporaryDirectory(prefix="stores-") as folder:
        os.chdir(folder)  # the same paths in every run
        corpora = Corpora(Path("raw") if Path("raw").mkdir() is None else Path())
        for name, case in cases().items():
            if only and only not in name:
                continue
            store = Path("out.zarr")
            try:
                result = json.dumps(without_times(case(corpora, str(store))), default=str)
            except topicstream.errors.TopicsError as e:
                result = f"{type(e).__name__}: {e}"
            result = result.replace(folder, "")
            yield name, {"store": digest(store), "result": result}
            for path in sorted(Path(".").glob("out.zarr*")):
                os.system(f"rm -rf {path}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("record", "check"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    args.file = args.file.absolute()
    found = dict(run_cases(args.only))
    if args.what == "record":
        args.file.write_text(json.dumps(found, indent=1))
        print(f"{len(found)} stores")
        return 0
    before = json.loads(args.file.read_text())
    wrong = 0
    for name, now in found.items():
        for kind, value in now.items():
            if before.get(name, {}).get(kind) != value:
                wrong += 1
                print(f"{name}: another {kind}\n  {before.get(name, {}).get(kind)}\n  {value}")
    print(f"{len(found)} stores, {wrong} differences")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
