"""What scripts/campaigns/fuzz_campaign.py fuzzes: every reader and every opener with its valid seeds, and how an input is mutated."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import random
import shutil
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fuzz_imports import import_targets, vector_seeds
from fuzz_inputs import Target

from topicstream.errors import TopicsError
from topicstream.files.durable import with_checksum
from topicstream.ingestion.read_options import ReadOptions
from topicstream.ingestion.spooling.tasks import pieces
from topicstream.tokens.documents import TextRun


def look(paths: Any, options: ReadOptions) -> None:
    """Read it all and hold what comes out to what is promised."""
    for task in pieces(paths, options):
        run, rejects = task.run()
        ids, sources = run.about.ids.to_pylist(), run.about.source.to_pylist()
        assert len(ids) == len(sources) == len(run), "as many ids as documents"
        assert all(isinstance(r.reason, str) and "\n" not in r.reason for r in rejects.records), "one line a reject"
        for name, values in run.about.meta.items():
            assert len(values.to_pylist()) == len(run), name
        if isinstance(run, TextRun):
            assert run.offsets[0] == 0 and run.offsets[-1] == len(run.text) and (np.diff(run.offsets) >= 0).all(), (
                "offsets"
            )
            run.text.tobytes().decode()
        else:
            words, counts = run.words, run.counts
            assert run.indptr[0] == 0 and run.indptr[-1] == len(words) == len(counts), "cells"
            assert (np.diff(run.indptr) >= 0).all() and np.isfinite(counts).all(), "counts"
            assert run.vectors or (counts > 0).all(), "counts above 0"
            inner = np.ones(max(len(words) - 1, 0), bool)
            ends = run.indptr[1:-1]
            inner[ends[(ends > 0) & (ends < len(words))] - 1] = False
            assert (np.diff(words.astype(np.int64))[inner] > 0).all(), "words ascend within a document"
            assert len(words) == 0 or (words.min() >= 0 and words.max() < len(task.words)), "words of the vocabulary"  # type: ignore[arg-type]


def checked(line: TopicsError) -> None:
    """An error of ours is one line."""
    text = str(line)
    assert text and "\n" not in text, f"an error of several lines: {text!r}"


def reader(folder: Path, name: str, file: str, seeds: list[bytes], marks: list[bytes], /, **fixed: Any) -> Target:
    """A reader at a file of that name."""
    path = folder / file

    def run(data: bytes, rng: random.Random) -> None:
        path.write_bytes(data)
        varied = {
            "on_error": rng.choice(("skip", "fail")),
            "piece_bytes": rng.choice((256, 4096, 1 << 17)),
            "record_bytes": rng.choice((128, 64 << 20)),
            "encoding": rng.choice((None, None, None, "utf-8", "latin-1", "utf-16")),
        }
        look(path, ReadOptions(**{**varied, **fixed}))

    return Target(name, seeds, marks, run)


TEXTS = [
    "the quick brown fox",
    "über straße, 東京 2021",
    "",
    'he said "no", then',
    "line one\nline two",
    "a\tb\tc",
    "x" * 300,
]


def jsonl_seed() -> bytes:
    lines = [json.dumps({"id": f"d{i}", "text": t, "labels": ["a", "b"], "year": 1999}, ensure_ascii=i % 2 == 0)
             for i, t in enumerate(TEXTS)]  # fmt: skip
    return "\n".join(lines).encode() + b"\n"


def csv_seed(delimiter: str) -> bytes:
    import csv

    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    writer.writerow(["id", "text", "labels"])
    for i, t in enumerate(TEXTS):
        writer.writerow([f"d{i}", t, "a;b"])
    return out.getvalue().encode()


def parquet_seed(compression: str, **more: Any) -> bytes:
    out = io.BytesIO()
    columns = {"id": [f"d{i}" for i in range(len(TEXTS))], "text": TEXTS, "labels": [["a", "b"]] * len(TEXTS)}
    pq.write_table(pa.table(columns), out, compression=compression, **more)
    return out.getvalue()


def other_parquet_seeds() -> list[bytes]:
    """The codecs, encodings and pages that other writers use."""
    made = [parquet_seed(codec, data_page_version=page) for codec in ("gzip", "brotli", "lz4") for page in ("1.0", "2.0")]
    for encoding in ("DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"):
        columns = {"id": encoding, "text": encoding, "labels.list.element": encoding}
        made.append(parquet_seed("none", use_dictionary=False, column_encoding=columns, data_page_version="2.0"))
    made.append(parquet_seed("none", write_page_index=True, write_page_checksum=True, store_schema=False))
    made.append(parquet_seed("zstd", dictionary_pagesize_limit=16, data_page_size=16, row_group_size=2))
    return made


def tar_seed() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for i, t in enumerate(TEXTS):
            info = tarfile.TarInfo(f"folder/{i}.txt")
            info.size = len(t.encode())
            tar.addfile(info, io.BytesIO(t.encode()))
    return out.getvalue()


PUBMED = b"""<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE PubmedArticleSet PUBLIC "-//NLM//DTD PubMedArticle, 1st January 2019//EN" "x.dtd">
<PubmedArticleSet>
<PubmedArticle><MedlineCitation Status="MEDLINE"><PMID Version="1">1</PMID><Article><Journal><JournalIssue><PubDate><Year>1999</Year>
</PubDate></JournalIssue></Journal><ArticleTitle>On <i>mice</i> &amp; men</ArticleTitle><Abstract><AbstractText Label="AIM">Some text
here.</AbstractText></Abstract><AuthorList><Author><LastName>M\xc3\xbcller</LastName><ForeName>A</ForeName></Author></AuthorList></Article>
<MeshHeadingList><MeshHeading><DescriptorName UI="D1">Mice</DescriptorName></MeshHeading></MeshHeadingList></MedlineCitation></PubmedArticle>
<PubmedArticle><MedlineCitation><PMID Version="2">2</PMID><Article><ArticleTitle>Second</ArticleTitle></Article></MedlineCitation></PubmedArticle>
<DeleteCitation><PMID Version="1">3</PMID></DeleteCitation>
</PubmedArticleSet>
"""


def folders(folder: Path) -> Target:
    """A folder tree of text files with odd names, encodings and contents."""
    root = folder / "tree"

    def run(data: bytes, rng: random.Random) -> None:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        cuts = sorted(rng.randrange(len(data) + 1) for _ in range(3))
        for i, part in enumerate((data[: cuts[0]], data[cuts[0] : cuts[1]], data[cuts[1] :])):
            ends = (".txt", ".txt", ".md", ".gz", ".jsonl", "", ".csv")
            name = rng.choice(("a", "b c", "ü", "\udcff", ".hid", "x" * 60, "vocab")) + str(i) + rng.choice(ends)
            place = root / rng.choice(("", "sub", "sub/deep"))
            place.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(part)
        look(root, ReadOptions(on_error=rng.choice(("skip", "fail")), format=rng.choice((None, "files"))))  # type: ignore[arg-type]

    return Target("folder", ["\n".join(TEXTS).encode(), "über".encode("utf-16")], [b"\xff\xfe", b"\xfe\xff"], run)


def readers(folder: Path) -> list[Target]:
    """Every reader, plain, compressed and guessed."""
    docword = b"4\n5\n7\n1 1 2\n1 3 1\n2 2 70000\n2 5 1\n3 1 1\n4 4 3\n4 5 9\n"
    mtx = b"%%MatrixMarket matrix coordinate integer general\n% made\n4 5 7\n1 1 2\n1 3 1\n2 2 70000\n2 5 1\n3 1 1\n4 4 3\n4 5 9\n"
    ldac = b"2 0:2 2:1\n2 1:7 4:1\n0\n1 0:1\n"
    svm = b"1 1:2 3:1 # doc\n-1 2:7 5:1\n0 qid:3 1:0.5\n"
    mallet = b"d1 en the quick brown fox\nd2 x \xc3\xbcber\n\nd3 y\n"
    (folder / "words.txt").write_text("alpha\nbeta\ngamma\ndelta\nepsilon\n")
    counts = {"words": str(folder / "words.txt")}
    lines = "\n".join(TEXTS).encode()
    made = [
        reader(folder, "lines", "f.txt", [lines, lines.replace(b"\n", b"\r\n")], [b"\r\n", b"\x00"], format="lines"),
        reader(folder, "jsonl", "f.jsonl", [jsonl_seed()], [b'"text":', b'"id":', b"null", b"\\u", b"\\ud800", b"[[", b"true", b"{}"],
               format="jsonl", meta={"labels": "labels", "year": "year"}),
        reader(folder, "csv", "f.csv", [csv_seed(",")], [b'""', b'"\n"', b"id,text"], format="csv", meta={"labels": "labels"}),
        reader(folder, "tsv", "f.tsv", [csv_seed("\t")], [b'""', b"\t\t"], format="csv"),
        reader(folder, "parquet", "f.parquet", [parquet_seed("snappy"), parquet_seed("none"), parquet_seed("zstd")], [b"PAR1"],
               format="parquet", meta={"labels": "labels"}, encoding=None),
        reader(folder, "other parquet", "o.parquet", other_parquet_seeds(), [b"PAR1"],
               format="parquet", meta={"labels": "labels"}, encoding=None),
        reader(folder, "docword", "docword.txt", [docword], [b"\n0 0 0\n", b"1 1 1\n"], format="docword", **counts),
        reader(folder, "mtx", "f.mtx", [mtx, mtx.replace(b"integer", b"real")], [b"pattern", b"real", b"symmetric", b"array"],
               format="mtx", **counts),
        reader(folder, "ldac", "f.ldac", [ldac], [b"1 0:1\n", b":"], format="ldac", **counts),
        reader(folder, "svmlight", "f.svm", [svm], [b"qid:1", b"#", b"1:1e400"], format="svmlight", weighted=True, **counts),
        reader(folder, "svmlight counts", "g.svm", [svm.replace(b"0.5", b"4")], [b"1:1"], format="svmlight", **counts),
        reader(folder, "mallet", "f.mallet", [mallet], [b" ", b"\t"], format="mallet"),
        reader(folder, "pubmed", "f.xml", [PUBMED], [b"<PubmedArticle>", b"</PubmedArticle>", b"<![CDATA[", b"]]>", b"<!--", b"&lol;",
               b"<!ENTITY a '&b;'>", b"<PMID>", b"&#0;", b"&#x110000;"], format="pubmed"),
        reader(folder, "tar", "f.tar", [tar_seed()], [b"ustar", b"\x00" * 512], format="tar", encoding=None),
        folders(folder),
        reader(folder, "guessed", "f", [jsonl_seed(), csv_seed(","), docword, mtx, PUBMED, lines, svm, ldac, parquet_seed("snappy")],
               [b"%%MatrixMarket"]),
    ]  # fmt: skip
    vectors = vector_seeds()
    marks = [b"descr", b"|O", b"<f8", b"(7, 4)", b"(99999999, 4)", b"True", b"PK\x03\x04"]
    made += [
        reader(folder, kind, f"f.{kind}", vectors[kind], marks, format=kind, encoding=None) for kind in ("npy", "npz")
    ]
    if vectors["images"]:
        made.append(
            reader(
                folder,
                "images",
                "f.png",
                vectors["images"],
                [b"IHDR", b"IDAT"],
                format="images",
                patches=4,
                piece_bytes=1 << 17,
                encoding=None,
            )
        )
    made += [reader(folder, "vectors", "v.parquet", vectors["vectors"], [b"PAR1"], format="vectors", vector_field="v", encoding=None),
             reader(folder, "paragraphs", "g.txt", [lines.replace(b"\n", b"\n\n")], [b"\n\n", b"\r\n\r\n"], format="lines",
                    split="paragraph", min_tokens=1)]  # fmt: skip
    for kind, pack in (("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress), ("zst", _zstd)):
        packed = [pack(lines), pack(jsonl_seed()), pack(lines) + pack(lines)]
        made.append(reader(folder, f"lines.{kind}", f"f.txt.{kind}", packed, [], format="lines"))
    return made


def _zstd(data: bytes) -> bytes:
    return pa.Codec("zstd").compress(data, asbytes=True)


# -- openers ----------------------------------------------------------------------------------------------------------
def make_store(folder: Path) -> tuple[Path, Path]:
    """A small store with removed documents, and a model."""
    import topicstream
    from topicstream.progress import Shown as Progress
    from topicstream.training.loop import train

    rng = random.Random(4)
    for name, first in (("a", 0), ("b", 150)):
        with open(folder / f"{name}.jsonl", "w") as f:
            for i in range(first, first + 160):
                f.write(
                    json.dumps({"id": f"d{i}", "text": " ".join(f"w{'abcdefgh'[rng.randrange(8)]}" for _ in range(30))})
                    + "\n"
                )
    store = folder / "corpus.zarr"
    given = {"min_df": 1, "max_df": 1.0, "stopwords": "none", "heldout": "10%"}
    topicstream.ingest(folder / "a.jsonl", store, **given)
    topicstream.ingest(folder / "b.jsonl", store, append=True, on_duplicate="replace", min_df=1)
    train(
        store,
        folder / "model",
        algo="bp",
        topics=3,
        passes=2,
        tol=0.0,
        threads=1,
        block_cells=500,
        progress=Progress(-1),
    )
    return store, folder / "model"


def resealed(rng: random.Random, whole: str) -> bytes:
    """The JSON with some values exchanged, and a checksum that fits: what a newer or a broken writer might leave."""
    value = json.loads(whole)
    odd: list[Any] = [None, -1, 0, 1, 2**31, 2**63, 2**70, 0.5, "", "x", [], {}, True, [1, 2], "../x", [[]], {"a": 1}]
    odd += [float("nan"), float("inf"), 1e300, "\ud800", "a\nb\x1b[2J", {"\ud800": 1}, json.loads("[" * 400 + "]" * 400)]
    for _ in range(rng.choice((1, 1, 2, 4))):
        at: Any = value
        for _depth in range(12):
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = rng.choice(keys)
            if isinstance(at[key], (dict, list)) and at[key] and rng.random() < 0.8:
                at = at[key]
                continue
            if rng.random() < 0.2:
                del at[key]
            else:
                at[key] = json.loads(json.dumps(rng.choice(odd)))
            break
    text = json.dumps(value, sort_keys=True)  # without write_json's indents, which are slow
    return with_checksum(b"{\n" + text[1:].encode())


def openers(folder: Path) -> list[Target]:
    """Every file that a store, a model, a checkpoint or a run holds, mutated; JSON files also with a fitting checksum."""
    from topicstream.corpus.documents import read_documents
    from topicstream.corpus.format import metadata_problems
    from topicstream.corpus.reader import Corpus
    from topicstream.files.durable import read_json
    from topicstream.model.store import read_history, read_manifest
    from topicstream.model.topic_model import TopicModel
    from topicstream.model.vocabulary import Vocabulary as Words
    from topicstream.tokens.vocabulary import TokenVocabulary
    from topicstream.training.state.checkpoint import checkpoints, read_checkpoint
    from topicstream.training.state.record import same_or_refuse

    store, model = make_store(folder)
    original = {p: p.read_bytes() for root in (store, model) for p in root.rglob("*") if p.is_file()}
    made: list[Target] = []

    def add(name: str, path: Path, use: Callable[[], object], again: bool = False) -> None:
        data = original[path]

        def run(changed: bytes, rng: random.Random) -> None:
            path.write_bytes(changed)
            try:
                use()
            finally:
                path.write_bytes(data)

        made.append(Target(name, [data], [b"null", b"[]", b"{}", b"-1"], run))
        if again:
            whole = json.dumps(read_json(path))
            made.append(Target(f"{name}, resealed", [data], [], run, lambda rng: resealed(rng, whole)))

    def corpus() -> None:
        """The first block, and all that is not a block."""
        found = Corpus.open(store)
        found.decode(0)
        found.removed()
        vocabulary(found)
        documents(found)

    def vocabulary(found: Corpus) -> None:
        TokenVocabulary.load(found.file("vocab"))
        found.file("pruned")

    def documents(found: Corpus) -> None:
        list(read_documents(found.path, found.manifest.get("docs", [])))

    def metadata() -> None:
        list(metadata_problems(store, False, {part: 1 for part in ("train", "heldout")}))

    def opened() -> None:
        found = TopicModel.open(model)
        found.probabilities(np.arange(min(3, found.n_words)))
        read_history(model, verify=True)

    last = checkpoints(model / "checkpoints")[-1]
    memory = next(iter((model / "work").glob("memory-*.bin")))
    chunk = store / "train" / "words" / "c" / "0" / "0"
    removed = next(p for p in original if p.name.startswith("removed"))
    add("store manifest", store / "manifest.json", corpus, again=True)
    add("store chunk", chunk, lambda: Corpus.open(store).decode(0))
    add("store zarr.json", store / "train" / "counts" / "zarr.json", metadata)
    add("vocab.parquet", next(p for p in original if p.name.startswith("vocab-") and store in p.parents),
        lambda: vocabulary(Corpus.open(store)))  # fmt: skip
    add("vocab.parquet, unchecked", store / "vocab.parquet",
        lambda: (TokenVocabulary.load(store / "vocab.parquet"), Words.read(store / "vocab.parquet")))  # fmt: skip
    docs = next(p for p in original if p.parent.name == "docs")
    add("docs part", docs, lambda: documents(Corpus.open(store)))
    add(
        "docs part, unchecked",
        docs,
        lambda: list(read_documents(store, [{"file": f"docs/{docs.name}"}], ["id", "block", "row"])),
    )
    add("removed.npy", removed, lambda: Corpus.open(store).removed())
    add("model manifest", model / "manifest.json", opened, again=True)
    add("model topics/zarr.json", model / read_manifest(model)["files"]["topics"]["name"] / "zarr.json", opened)
    add("model chunk", next(p for p in original if "topics" in str(p) and p.name == "0"), opened)
    add("history.jsonl", model / "history.jsonl", lambda: (read_manifest(model), read_history(model, verify=True)))
    add("checkpoint state", last / "state.json", lambda: read_checkpoint(last), again=True)
    add("checkpoint arrays", last / "arrays.npz", lambda: read_checkpoint(last))
    add("checkpoint table", last / "phi.rows", lambda: read_checkpoint(last))
    record = read_json(model / "training.json")

    def settings() -> None:
        from topicstream.training.state.record import RECORDED, Record

        rest = {k: v for k, v in record.items() if k != "schema" and k not in RECORDED}
        same_or_refuse(model, Record(settings={k: record[k] for k in RECORDED}, **rest))

    add("training.json", model / "training.json", settings, again=True)
    add("block memory", memory, memory_use(model, store, memory))
    return made + import_targets(folder, store)


def memory_use(model: Path, store: Path, path: Path) -> Callable[[], object]:
    """Reading all block memory of the run."""
    from topicstream.corpus.reader import Corpus
    from topicstream.engines import find
    from topicstream.engines.base import Scratch, Shape
    from topicstream.training.setup import make_options
    from topicstream.training.state.checkpoint import checkpoints, read_checkpoint
    from topicstream.training.state.memory import BlockMemory

    corpus = Corpus.open(store)
    kind = find("bp")
    shape = Shape(corpus.n_docs, corpus.n_words, corpus.n_cells, float(corpus.n_tokens), 3)
    engine = kind(shape, make_options(kind, {}))
    state = read_checkpoint(checkpoints(model / "checkpoints")[-1])
    index = next(a for n, a in state.arrays.items() if n.startswith("memory."))
    grid = corpus.grid(500)
    blocks = list(corpus.blocks(grid=grid, prefetch=0))

    def use() -> None:
        memory = BlockMemory(path, engine.memory, len(grid), create=False)
        try:
            memory.resume(index)
            for block in blocks:
                memory.read(block.index, block, Scratch())
        finally:
            memory.close()

    return use
