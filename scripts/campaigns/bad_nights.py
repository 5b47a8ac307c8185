"""Thirty nights of ``topics retrain`` in a folder that gets bad files of every kind.

    python scripts/campaigns/bad_nights.py [--nights 30] [--seeds 1,2,3] [--folder KEPT]

Every night brings a good file, and every kind of bad file comes on a random night.  After the last
night a few quiet ones follow, in which the last bad files are set aside.  Checked: each bad file is
named in the log and set aside, no good one is; each night takes its good file in at once; a night
ends with code 3 where a file fails for the first or second time, else with 0; and in the end the
store has the words of every document as an ingest of the good files alone.  Prints a Markdown
table; exit 1 when anything differs.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import io
import json
import lzma
import os
import random
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

import topicstream
from topicstream.corpus.reader import Corpus
from topicstream.ingestion.tokens.vocabulary import TokenVocabulary

Documents = list[dict[str, str]]
QUIET = 3
"""Nights without new files at the end: a bad file is set aside the third time."""
CONFIG = """
[ingest]
stopwords = "none"
heldout = 0
min_df = 1
max_df = 1.0
{more}
[train]
algo = "vb"
topics = 4
passes = 2
update_passes = 2
threads = 1
[gate]
tolerance = 5.0
topics = false
[drift]
seen_words = 0.0
"""


def made(n: int, seed: int, prefix: str) -> Documents:
    """Make n documents, each about one or two of four subjects of forty words."""
    rng = random.Random(seed)
    documents = []
    for i in range(n):
        subjects = [rng.randrange(4), rng.randrange(4)]
        words = []
        for _ in range(rng.randint(20, 40)):
            rank = min(39, int(rng.expovariate(0.08)))
            topic = rng.choice(subjects)
            words.append(f"{'abcd'[topic]}{'xyzuvwst'[rank % 8]}{'klmnopqr'[rank // 8]}o")
        documents.append({"id": f"{prefix}{i}", "text": " ".join(words)})
    return documents


# -- good files
# ------------------------------------------------------------------------------------------
def as_jsonl(documents: Documents) -> bytes:
    """Documents as JSON lines."""
    return "".join(json.dumps(d) + "\n" for d in documents).encode()


def as_csv(documents: Documents) -> bytes:
    """Documents as CSV."""
    return ("id,text\n" + "".join(f"{d['id']},{d['text']}\n" for d in documents)).encode()


def as_pubmed(documents: Documents) -> bytes:
    """Documents as PubMed XML."""
    articles = "".join(
        f"<PubmedArticle><MedlineCitation><PMID>{1000 + i}</PMID><Article><ArticleTitle>{d['text']}"
        "</ArticleTitle></Article></MedlineCitation></PubmedArticle>\n"
        for i, d in enumerate(documents)
    )
    return f"<?xml version='1.0'?>\n<PubmedArticleSet>\n{articles}</PubmedArticleSet>\n".encode()


def as_parquet(documents: Documents) -> bytes:
    """Documents as Parquet."""
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(documents), sink)
    return sink.getvalue()


def as_arrow(documents: Documents) -> bytes:
    """Documents as an Arrow file."""
    table = pa.Table.from_pylist(documents)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def as_tar(documents: Documents) -> bytes:
    """Documents as a tar archive of text files."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for document in documents:
            content = document["text"].encode()
            member = tarfile.TarInfo(document["id"] + ".txt")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return sink.getvalue()


def as_npz(documents: Documents) -> bytes:
    """Counts of as many documents as a sparse matrix of SciPy."""
    sink = io.BytesIO()
    counts = np.random.default_rng(len(documents)).poisson(0.3, (len(documents), 40))
    sparse.save_npz(sink, sparse.csr_matrix(counts))
    return sink.getvalue()


def as_mtx(documents: Documents) -> bytes:
    """Counts of as many documents as a Matrix Market file."""
    lines = [f"{i + 1} {1 + i % 7} 2" for i in range(len(documents))]
    head = f"%%MatrixMarket matrix coordinate integer general\n{len(lines)} 7 {len(lines)}\n"
    return (head + "\n".join(lines) + "\n").encode()


def as_docword(documents: Documents) -> bytes:
    """Counts of as many documents as UCI docword."""
    lines = [f"{i + 1} {1 + i % 7} 2" for i in range(len(documents))]
    return f"{len(lines)}\n7\n{len(lines)}\n".encode() + ("\n".join(lines) + "\n").encode()


def as_h5(documents: Documents) -> bytes:
    """An HDF5 file that holds no matrix of ours."""
    return b"\x89HDF\r\n\x1a\n" + bytes(2000)


# -- bad files
# -------------------------------------------------------------------------------------------
Damage = Callable[[bytes], bytes]


def cut(content: bytes) -> bytes:
    """Two thirds of a file."""
    return content[: len(content) * 2 // 3]


def flip_tail(content: bytes) -> bytes:
    """A file whose checksum, in its last bytes, is wrong."""
    at = len(content) - 8
    return content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :]


def flip_middle(content: bytes) -> bytes:
    """A file with one wrong byte in the middle."""
    at = len(content) // 2
    return content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :]


def zst(content: bytes) -> bytes:
    """Content compressed by zstd, with a checksum."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as writer:
        writer.write(content)
    return bytes(sink.getvalue())


def write(content: Callable[[Documents], bytes]) -> Callable[[Path, Documents], None]:
    """Write what is made of the documents."""

    def make(path: Path, documents: Documents) -> None:
        path.write_bytes(content(documents))

    return make


def pipe(path: Path, documents: Documents) -> None:
    """Make a pipe that nobody writes to."""
    os.mkfifo(path)


def dangling(path: Path, documents: Documents) -> None:
    """Make a link to nothing."""
    path.symlink_to("nowhere")


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zst,
}
BAD_JSONL: dict[str, tuple[str, Callable[[Path, Documents], None]]] = {
    **{
        f"{name} of a .{suffix}": (
            f".jsonl.{suffix}",
            write(lambda d, pack=pack, damage=damage: damage(pack(as_jsonl(d)))),
        )
        for suffix, pack in PACKED.items()
        for name, damage in {"cut": cut, "wrong byte": flip_middle}.items()
    },
    "wrong checksum of a .gz": (
        ".jsonl.gz",
        write(lambda d: flip_tail(gzip.compress(as_jsonl(d)))),
    ),
    "named .gz and not packed": (".jsonl.gz", write(as_jsonl)),
    "CSV among JSON": (".csv", write(as_csv)),
    "an open quote in the header": (
        ".csv",
        write(lambda d: b'id,"text\n' + as_csv(d).partition(b"\n")[2]),
    ),
    "a header of 20 kB": (".csv", write(lambda d: b"x" * 20000 + b"," + as_csv(d))),
    "text among JSON": (".txt", write(lambda d: d[0]["text"].encode())),
    "a cut line at the end": (".jsonl", write(lambda d: as_jsonl(d)[:-9])),
    "no field text": (".jsonl", write(lambda d: as_jsonl(d).replace(b'"text"', b'"body"'))),
    "zero bytes": (".jsonl", write(lambda d: as_jsonl(d)[:50] + bytes(500))),
    "bytes that are not UTF-8": (".jsonl", write(lambda d: b'{"text": "\xff\xfe\xfd"}\n')),
    "a JSON array": (".jsonl", write(lambda d: json.dumps(d).encode())),
    "UTF-16 cut in half": (
        ".jsonl",
        write(lambda d: b"\xff\xfe" + as_jsonl(d).decode().encode("utf-16-le")[:-31]),
    ),
    "Parquet, cut": (".parquet", write(lambda d: cut(as_parquet(d)))),
    "Arrow, cut": (".arrow", write(lambda d: cut(as_arrow(d)))),
    "PubMed XML, cut": (".xml", write(lambda d: cut(as_pubmed(d)))),
    "SciPy .npz, cut": (".npz", write(lambda d: cut(as_npz(d)))),
    "Matrix Market, cut": (".mtx", write(lambda d: cut(as_mtx(d)))),
    "docword, cut": (".docword", write(lambda d: cut(as_docword(d)))),
    "HDF5, cut": (".h5", write(as_h5)),
    "tar, cut": (".tar", write(lambda d: cut(as_tar(d)))),
    "a zip archive": (".zip", write(lambda d: b"PK\x03\x04" + bytes(200))),
    "a PDF": (".pdf", write(lambda d: b"%PDF-1.4 " + bytes(200))),
    "a pipe": (".jsonl", pipe),
    "a link to nothing": (".jsonl", dangling),
}
"""Kinds of bad files among JSON lines: the suffix, and what makes one."""
BAD_EACH = {
    kind: BAD_JSONL[kind] for kind in BAD_JSONL if kind not in ("CSV among JSON", "text among JSON")
}
"""Kinds of bad files where every file is read by its own format."""
ODD: dict[str, tuple[str, Callable[[Path, Documents], None]]] = {
    "an empty file": (".jsonl", write(lambda d: b"")),
    "an empty .gz": (".jsonl.gz", write(lambda d: gzip.compress(b""))),
    "a folder": (".jsonl", lambda path, documents: path.mkdir()),
}
"""What holds no documents and is no reason to fail."""


def name_of(kind: str, suffix: str) -> str:
    """The name of a bad file."""
    return kind.replace(" ", "-").replace(".", "").replace(",", "") + suffix


@dataclass
class Outcome:
    """What the nights of one seed gave."""

    nights: int = 0
    bad: int = 0
    good: int = 0
    codes: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


def night(config: Path) -> tuple[int, dict[str, object], str]:
    """Run one night: exit code, the line of JSON, the log."""
    command = [sys.executable, "-m", "topicstream", "retrain", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        said: dict[str, object] = json.loads(done.stdout)
    except ValueError:
        said = {}
    return done.returncode, said, done.stderr


def run_nights(
    home: Path,
    nights: int,
    seed: int,
    kinds: dict[str, tuple[str, Callable[[Path, Documents], None]]],
) -> Outcome:
    """Make the nights of one seed, and check each."""
    rng = random.Random(seed)
    raw = home / "raw"
    raw.mkdir(parents=True)
    config = home / "retrain.toml"
    config.write_text(CONFIG.format(more=""))
    when = {kind: rng.randrange(1, nights) for kind in kinds}
    outcome = Outcome(bad=len(kinds))
    good = home / "good"
    good.mkdir()
    tried: dict[str, int] = {}
    log = ""
    began = time.monotonic()
    for number in range(nights + QUIET):
        if number < nights:
            content = as_jsonl(made(60 if number == 0 else 20, 1000 * seed + number, f"n{number}_"))
            name = f"night{number:02}.jsonl"
            (raw / name).write_bytes(content)
            (good / name).write_bytes(content)
            outcome.good += 1
            for kind in (kind for kind in kinds if when[kind] == number):
                suffix, make = kinds[kind]
                bad_name = name_of(kind, suffix)
                make(raw / bad_name, made(30, seed + number, f"bad{number}_"))
                tried[bad_name] = 0
        before = sum(times < 2 for times in tried.values())
        tried = {name: times + 1 for name, times in tried.items()}
        code, said, err = night(config)
        log += err
        outcome.nights += 1
        outcome.codes[code] = outcome.codes.get(code, 0) + 1
        expected = 3 if before else 0
        if code != expected:
            outcome.problems.append(f"night {number}: code {code}, not {expected}: {err[-400:]}")
        if number < nights and said.get("published") != number + 1:
            outcome.problems.append(f"night {number}: published {said.get('published')}")
    outcome.seconds = time.monotonic() - began
    set_aside = said.get("set_aside")
    aside = set(set_aside) if isinstance(set_aside, dict) else set()
    if aside != set(tried):
        outcome.problems.append(
            f"not set aside: {sorted(set(tried) - aside)}; {aside - set(tried)}"
        )
    outcome.problems += [f"{name}: not named" for name in tried if f"raw/{name}" not in log]
    outcome.problems += compare(home, good)
    return outcome


def words_by_document(store: Path) -> dict[str, dict[str, float]]:
    """Every document of a store with its words and their counts."""
    corpus = Corpus.open(store)
    words = TokenVocabulary.read(corpus.file("vocab")).words.to_pylist()
    rows: dict[tuple[str, int, int], dict[str, float]] = {}
    for part, heldout in (("train", False), ("heldout", True)):
        for number in range(len(corpus.part(heldout).blocks)):
            block = corpus.decode(number, heldout)
            at = 0
            for row, length in enumerate(block.lengths.tolist()):
                cells = slice(at, at + length)
                names = [words[i] for i in block.words[cells].tolist()]
                rows[part, number, row] = dict(zip(names, block.counts[cells].tolist()))
                at += length
    documents: dict[str, dict[str, float]] = {}
    for entry in corpus.manifest.docs:
        table = pq.read_table(store / entry.file, columns=["id", "part", "block", "row"])
        for d in table.to_pylist():
            documents[d["id"]] = rows[d["part"], d["block"], d["row"]]
    return documents


def compare(home: Path, good: Path) -> list[str]:
    """What the store of the nights has that an ingest of the good files has not, and what
    it lacks.
    """
    topicstream.ingest(
        [good],
        home / "alone.zarr",
        stopwords="none",
        heldout=0,
        min_df=1,
        max_df=1.0,
        progress=False,
    )
    nightly = words_by_document(home / "corpus.zarr")
    alone = words_by_document(home / "alone.zarr")
    if nightly == alone:
        return []
    return [f"the stores differ: {len(nightly)} documents, {len(alone)} of the good files alone"]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--folder", type=Path, help="keep the folders of the nights here")
    options = parser.parse_args()
    failed = False
    print("| seed | nights | good files | bad files | codes | seconds | problems |")
    print("|---|---|---|---|---|---|---|")
    for seed in map(int, options.seeds.split(",")):
        with tempfile.TemporaryDirectory() as scratch:
            home = (options.folder or Path(scratch)) / f"seed{seed}"
            outcome = run_nights(home, options.nights, seed, BAD_JSONL)
        codes = ", ".join(f"{n} x {code}" for code, n in sorted(outcome.codes.items()))
        print(
            f"| {seed} | {outcome.nights} | {outcome.good} | {outcome.bad} | {codes} "
            f"| {outcome.seconds:.0f} | {'; '.join(outcome.problems) or 'none'} |",
            flush=True,
        )
        failed |= bool(outcome.problems)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
