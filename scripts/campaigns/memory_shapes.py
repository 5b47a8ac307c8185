"""Inputs, models and commands that try the memory promise: what scripts/campaigns/memory_campaign.py --shapes runs.

A shape is made on disk (its size is FULL=1's; without it a tenth), then the command runs in a memory cgroup of exactly
its limit.
"""

from __future__ import annotations

import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import MemoryGroup, full, heading, table

TOPICS = [sys.executable, "-m", "topicstream.cli.main"]
TINY = 0.001
"""Size at which every command is run once before, so that its kernels are compiled outside the group."""


@dataclass(frozen=True)
class Shape:
    """One command under one limit.

    make       writes what the command reads into a folder; its answer replaces ``{}`` in ``command``
    group      shapes of one group share what the first of them made
    codes      exit codes that keep the promise
    """

    name: str
    limit: str
    make: Callable[[Path, float], Path]
    command: tuple[str, ...]
    group: str
    codes: tuple[int, ...] = (0,)


def _repeat(path: Path, block: bytes, times: int) -> Path:
    with open(path, "wb") as out:
        for _ in range(times):
            out.write(block)
    return path


def one_id(folder: Path, size: float) -> Path:
    """Ten million documents with one and the same id."""
    lines = b"".join(b'{"id": "a", "text": "word%d other"}\n' % i for i in range(1000))
    return _repeat(folder / "in.jsonl", lines, int(10_000 * size))


def two_ids(folder: Path, size: float) -> Path:
    """The same with two, in turns, and withdrawals would be between them."""
    lines = b"".join(b'{"id": "%s", "text": "word%d other"}\n' % (b"ab"[i % 2 : i % 2 + 1], i) for i in range(1000))
    return _repeat(folder / "in.jsonl", lines, int(10_000 * size))


def _parquet(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path, **options)
    return path


def dictionary(folder: Path, size: float) -> Path:
    """Few long texts, each in thousands of rows: 300 kB of Parquet, 1.5 GB of text."""
    import pyarrow as pa

    words = np.array([b"word%d" % i for i in range(2000)])
    rng = np.random.default_rng(1)
    texts = [b" ".join(rng.choice(words, 4000)).decode() for _ in range(20)]
    rows = int(60_000 * size)
    column = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 20, rows), pa.int32()), pa.array(texts))
    return _parquet(folder / "in.parquet", {"text": column}, compression="zstd")


def dictionary_of_ids(folder: Path, size: float) -> Path:
    """The same in a column of metadata, a list a row."""
    import pyarrow as pa

    rows = int(60_000 * size)
    labels = [("label " * 3000) + str(i) for i in range(5)]
    rng = np.random.default_rng(1)
    values = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 5, 2 * rows), pa.int32()), pa.array(labels))
    lists = pa.ListArray.from_arrays(
        pa.array(np.arange(0, 2 * rows + 1, 2), pa.int32()), values.cast(pa.string()) if rows < 10_000 else values
    )
    text = pa.array([f"some words {i % 100} here" for i in range(rows)])
    return _parquet(folder / "in.parquet", {"text": text, "labels": lists}, compression="zstd")


def one_row_group(folder: Path, size: float) -> Path:
    """A gigabyte of text in one row group, which compresses badly."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    words = np.array([b"w%x" % i for i in range(100_000)])
    path = folder / "in.parquet"
    rows = int(250_000 * size)
    texts = [b" ".join(words[rng.integers(0, len(words), 700)]).decode() for _ in range(2000)]
    some = pa.array(
        [f"{texts[i % 2000]} {i} {texts[(7 * i + 3) % 2000][:2000]}" for i in range(rows)], pa.large_string()
    )
    pq.write_table(pa.table({"text": some}), path, row_group_size=rows, compression="snappy", use_dictionary=False)
    return path


def short_then_long(folder: Path, size: float) -> Path:
    """A row group sorted by length: a million short texts, then three thousand of 300 kB."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    long = [f"word{i} " * 40_000 for i in range(20)]
    texts = [f"short {i % 50}" for i in range(int(1_000_000 * size))] + [long[i % 20] for i in range(int(3000 * size))]
    pq.write_table(
        pa.table({"text": pa.array(texts, pa.large_string())}), folder / "in.parquet",
        row_group_size=1 << 21, compression="zstd", use_dictionary=False,
    )  # fmt: skip
    return folder / "in.parquet"


def one_byte(folder: Path, size: float) -> Path:
    """Documents of one letter, one a line: 134 million of them."""
    block = b"".join(bytes([97 + i % 26, 10]) for i in range(1 << 20))
    return _repeat(folder / "in.txt", block, max(1, int(128 * size)))


def empty(folder: Path, size: float) -> Path:
    """Empty lines: empty documents."""
    return _repeat(folder / "in.txt", b"a word\n" + b"\n" * (1 << 20), max(1, int(64 * size)))


def wide_window(folder: Path, size: float) -> Path:
    """1.4 GB of text in 213 kB of xz, whose decoder keeps the last gigabyte."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 30}]
    block = (b"alpha beta gamma delta " * 40 + b"\n") * 1000
    with lzma.open(folder / "in.txt.xz", "wb", format=lzma.FORMAT_XZ, filters=filters) as f:
        for _ in range(max(1, int(1600 * size))):
            f.write(block)
    return folder / "in.txt.xz"


def empty_matrix(folder: Path, size: float) -> Path:
    """A matrix of a hundred million rows, of which one in a hundred holds anything."""
    rows = int(100_000_000 * size)
    path = folder / "in.mtx"
    with open(path, "w") as out:
        out.write(f"%%MatrixMarket matrix coordinate integer general\n{rows} 1000 {rows // 100}\n")
        for at in range(0, rows // 100, 100_000):
            out.write("".join(f"{100 * i + 100} {i % 1000 + 1} 1\n" for i in range(at, min(at + 100_000, rows // 100))))
    return path


def wide_matrix(folder: Path, size: float) -> Path:
    """Word numbers up to 2^24 without a vocabulary: hashed features."""
    rng = np.random.default_rng(1)
    path = folder / "in.svm"
    with open(path, "w") as out:
        for _ in range(int(200_000 * size)):
            ids = np.unique(rng.integers(1, 1 << 24, 30))
            out.write("1 " + " ".join(f"{i}:1" for i in ids.tolist()) + "\n")
    return path


def long_document(folder: Path, size: float) -> Path:
    """One document of 50 MB among others."""
    rng = np.random.default_rng(1)
    words = np.array([b"w%d" % i for i in range(50_000)])
    with open(folder / "in.txt", "wb") as out:
        for n in (100, 100, int(8_400_000 * size), 100, int(8_400_000 * size), 100):
            out.write(b" ".join(words[rng.integers(0, len(words), n)]) + b"\n")
    return folder / "in.txt"


def long_json(folder: Path, size: float) -> Path:
    """The same as JSON, with escapes."""
    rng = np.random.default_rng(1)
    words = np.array([f"w\u00e9{i}" for i in range(50_000)])  # six bytes more each in JSON
    with open(folder / "in.jsonl", "w") as out:
        for n in (100, 100, int(3_700_000 * size), 100):
            out.write(json.dumps({"id": str(n), "text": " ".join(words[rng.integers(0, len(words), n)])}) + "\n")
    return folder / "in.jsonl"


def different_words(folder: Path, size: float) -> Path:
    """Five million different words in one document."""
    with open(folder / "in.txt", "w") as out:
        out.write("a first document\n")
        for at in range(0, int(5_000_000 * size), 100_000):
            out.write(" ".join(f"q{i:x}" for i in range(at, at + 100_000)) + " ")
        out.write("\na last document\n")
    return folder / "in.txt"


def many_words(folder: Path, size: float) -> Path:
    """Forty million different words over documents of a hundred."""
    with open(folder / "in.txt", "w") as out:
        for at in range(0, int(40_000_000 * size), 100):
            out.write(" ".join(f"q{i:x}" for i in range(at, at + 100)) + "\n")
    return folder / "in.txt"


def many_files(folder: Path, size: float) -> Path:
    """A folder of 100,000 files."""
    tree = folder / "tree"
    for i in range(int(100_000 * size)):
        if i % 1000 == 0:
            (tree / f"{i // 1000:03d}").mkdir(parents=True)
        (tree / f"{i // 1000:03d}" / f"{i}.txt").write_text(f"file w{i % 77} of some words v{i % 13}\n")
    return tree


def many_json_files(folder: Path, size: float) -> Path:
    """A folder of 100,000 JSON files, each a source of its own."""
    tree = folder / "tree"
    for i in range(int(100_000 * size)):
        if i % 1000 == 0:
            (tree / f"{i // 1000:03d}").mkdir(parents=True)
        (tree / f"{i // 1000:03d}" / f"{i}.jsonl").write_text(
            f'{{"id": "{i}", "text": "file w{i % 77} of some words"}}\n'
        )
    return tree


def tiny_json(folder: Path, size: float) -> Path:
    """A gigabyte of the shortest JSON lines there are."""
    return _repeat(folder / "in.jsonl", b'{"text":"ox"}\n{"text":""}\n' * 50_000, max(1, int(400 * size)))


def long_lists(folder: Path, size: float) -> Path:
    """Documents with a million labels each."""
    with open(folder / "in.jsonl", "w") as out:
        for d in range(int(20 * size) or 1):
            out.write(json.dumps({"text": f"few words {d}", "labels": [f"l{d}x{i}" for i in range(1_000_000)]}) + "\n")
    return folder / "in.jsonl"


def big_model(folder: Path, size: float) -> Path:
    """A model of 2 M words x 1000 topics (8 GB as float32) by the model store's own writer, and a store of few documents."""
    import pyarrow as pa

    from topicstream.ingestion.pipeline import ingest
    from topicstream.model.store import ModelWriter
    from topicstream.model.vocabulary import Vocabulary

    n_words, topics = int(2_000_000 * size), 1000
    rng = np.random.default_rng(1)
    names = pa.array([f"w{i}" for i in range(n_words)], pa.large_string())
    text = folder / "some.txt"
    text.write_text("".join(" ".join(f"w{i}" for i in rng.integers(0, 50_000, 60)) + "\n" for _ in range(3000)))
    ingest([text], folder / "corpus.zarr", min_df=1, max_df=1.0, heldout=200, mem_limit="1G")
    rng = np.random.default_rng(2)
    piece = rng.gamma(0.1, 5, (20_000, topics)).astype(np.float32)
    piece[piece < 2] = 0
    with ModelWriter(folder / "model", n_words, topics) as writer:
        for at in range(0, n_words, len(piece)):
            writer.write_rows(at, np.roll(piece, at // len(piece), axis=1)[: n_words - at])
        writer.commit({"engine": None, "tokenizer": _tokenizer(folder)}, Vocabulary.of(names), 0.1, 0.01)
    shutil.copytree(folder / "model", folder / "other", copy_function=os.link)
    return folder


RETRAIN = """raw = "raw"
patterns = {patterns}
[ingest]
min_df = 1
max_df = 1.0
heldout = 20
[train]
algo = "sparse-bp"
topics = 1000
passes = 1
update_passes = 1
mem_limit = "{limit}"
[when]
drift = false
[gate]
tolerance = 9.0
topics = false
"""


def retrained(folder: Path, size: float) -> Path:
    """Raw texts of 2 M different words, each in one document beside common ones, and a file for the second cycle."""
    rng, n_words = np.random.default_rng(1), int(2_000_000 * size)
    (folder / "raw").mkdir()
    words = [f"w{i}" for i in rng.permutation(int(1.02 * n_words)).tolist()]
    step = -(-len(words) // 2000)
    common = [" ".join(f"c{i}" for i in rng.integers(0, 500, 100)) for _ in range(2300)]
    for name, patterns, numbers, own in (
        ("first", '["first.jsonl"]', range(2000), step),
        ("second", '["*.jsonl"]', range(2000, 2300), 50),
    ):
        with open(folder / "raw" / f"{name}.jsonl", "w") as out:
            for d in numbers:
                rare = words[(at := d % 2000 * step) : at + own]
                out.write(json.dumps({"id": str(d), "text": f"{common[d]} {' '.join(rare)}"}) + "\n")
        (folder / f"{name}.toml").write_text(RETRAIN.format(patterns=patterns, limit="2G"))
    return folder


def _tokenizer(folder: Path) -> object:
    """How the store's text was tokenised."""
    from topicstream.corpus.reader import Corpus

    return Corpus.open(folder / "corpus.zarr").manifest["tokenizer"]


def shapes() -> Iterator[Shape]:
    """All of them."""

    def ingest(
        name: str, make: Callable[[Path, float], Path], limit: str, *more: str, codes: tuple[int, ...] = (0,)
    ) -> Shape:
        return Shape(
            name, limit, make, ("ingest", "{}", "--out", "{out}", "--mem-limit", limit, *more), make.__name__, codes
        )

    yield ingest("ten million documents, one id", one_id, "512M")
    yield ingest("ten million documents, one id, replace", one_id, "512M", "--on-duplicate", "replace")
    yield ingest("ten million documents, two ids", two_ids, "346M")
    yield ingest("Parquet, dictionary of long texts", dictionary, "400M", "--max-df", "1.0")
    yield ingest(
        "Parquet, dictionary of labels", dictionary_of_ids, "400M", "--meta", "labels=labels", "--max-df", "1.0"
    )
    yield ingest("Parquet, one row group of 1 GB", one_row_group, "400M")
    yield ingest("Parquet, pages of 270 MB", short_then_long, "400M", codes=(0, 5))
    yield ingest("Parquet, pages of 270 MB, 1G", short_then_long, "1G")
    yield ingest(
        "one-byte documents, 134 million",
        one_byte,
        "512M",
        "--min-length",
        "1",
        "--stopwords",
        "none",
        "--max-df",
        "1.0",
    )
    yield ingest("shortest JSON lines, 1 GB", tiny_json, "346M", "--max-df", "1.0")
    yield ingest("empty documents, 64 million", empty, "512M", "--min-df", "1", "--max-df", "1.0")
    yield ingest("xz with a window of 1 GB", wide_window, "400M", "--max-df", "1.0", codes=(5,))
    yield ingest("xz with a window of 1 GB, 1910M", wide_window, "1910M", "--max-df", "1.0")
    yield ingest("empty rows of a matrix, 100 million", empty_matrix, "512M", "--min-df", "1")
    yield ingest("word numbers up to 2^24", wide_matrix, "1G", codes=(0, 5))
    yield ingest("documents of 50 MB", long_document, "346M", codes=(0, 5))
    yield ingest("documents of 50 MB, 1G", long_document, "1G")
    yield ingest("JSON of 50 MB", long_json, "346M", codes=(0, 5))
    yield ingest("JSON of 50 MB, 1G", long_json, "1G")
    yield ingest("five million words in one document", different_words, "400M", "--min-df", "1", codes=(0, 5))
    yield ingest("five million words in one document, 2G", different_words, "2G", "--min-df", "1")
    yield ingest("forty million different words", many_words, "346M", codes=(0, 3, 5))
    yield ingest("100,000 files", many_files, "346M", "--max-df", "1.0")
    yield ingest("100,000 JSON files", many_json_files, "346M", "--max-df", "1.0")
    yield ingest("a million labels a document", long_lists, "512M", "--meta", "labels=labels", codes=(0, 5))

    for name in ("first", "second"):  # the second cycle takes the second file in: an update, a gate between two models
        yield Shape(
            f"retrain, the {name} cycle, 2 M words x 1000 topics", "2G", retrained,
            ("retrain", "--config", f"{{}}/{name}.toml"), "retrained",
        )  # fmt: skip

    def model(name: str, limit: str, *command: str, codes: tuple[int, ...] = (0,)) -> Shape:
        return Shape(f"{name}, model of 2 M words x 1000 topics", limit, big_model, command, "big_model", codes)

    m = ("--model", "{}/model", "--corpus", "{}/corpus.zarr")
    yield model("info", "512M", "info", "{}/model")
    yield model("info --verify", "512M", "info", "{}/model", "--verify")
    for limit in ("700M", "1G"):
        yield model(f"eval {limit}", limit, "eval", *m, "--heldout", "--mem-limit", limit, codes=(0, 5))
        yield model(f"eval of everything {limit}", limit, "eval", *m, "--mem-limit", limit, codes=(0, 5))
        yield model(f"show {limit}", limit, "show", *m, "--mem-limit", limit, codes=(0, 5))
        yield model(
            f"show --theta {limit}", limit, "show", *m, "--theta", "{out}.parquet", "--mem-limit", limit, codes=(0, 5)
        )
        yield model(f"show --docs {limit}", limit, "show", *m, "--docs", "2", "--mem-limit", limit, codes=(0, 5))
        yield model(
            f"infer text {limit}",
            limit,
            "infer",
            "{}/some.txt",
            "--model",
            "{}/model",
            "--out",
            "{out}.jsonl",
            "--mem-limit",
            limit,
            codes=(0, 5),
        )
        yield model(
            f"infer store {limit}",
            limit,
            "infer",
            "{}/corpus.zarr",
            "--model",
            "{}/model",
            "--out",
            "{out}.parquet",
            "--mem-limit",
            limit,
            codes=(0, 5),
        )
        yield model(
            f"report {limit}", limit, "report", "{}/model", "--corpus", "{}/corpus.zarr", "--out", "{out}.html",
            "--mem-limit", limit, codes=(0, 5),
        )  # fmt: skip
        yield model(f"compare {limit}", limit, "compare", "{}/model", "{}/other", "--mem-limit", limit, codes=(0, 5))
    yield model(
        "infer with --mem-limit 1",
        "512M",
        "infer",
        "{}/some.txt",
        "--model",
        "{}/model",
        "--mem-limit",
        "1",
        codes=(2, 5),
    )


def _apart(work: Callable[[], Any]) -> None:
    """In a process of its own: a child's highest memory would begin with ours."""
    if (child := os.fork()) == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the shape could not be made")


def _make(make: Callable[[Path, float], Path], folder: Path, size: float) -> None:
    (folder / "made").write_text(str(make(folder, size)))


def _filled(command: tuple[str, ...], made: Path, out: Path) -> list[str]:
    return [*TOPICS, *(part.replace("{out}", str(out)).replace("{}", str(made)) for part in command)]


def _remove(out: Path) -> None:
    for path in out.parent.glob(f"{out.name}*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _ended(command: list[str], limit: str) -> tuple[int, float, int, int, str]:
    """Exit code, seconds, highest resident memory, highest charge of the group, the last line said."""
    began = time.monotonic()
    with MemoryGroup(limit) as group, tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen(group.command(command), stdout=subprocess.DEVNULL, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        err.seek(0)
        said = err.read().strip().splitlines()
        return (
            child.returncode,
            time.monotonic() - began,
            usage.ru_maxrss * 1024,
            group.peak(),
            said[-1] if said else "",
        )


def run_shapes(only: list[str], work: Path | None) -> int:
    """Run the shapes whose name holds one of ``only`` (all without); the table; how many broke the promise."""
    size = 1.0 if full() else 0.1
    root = str(Path(__file__).parents[2])  # the code that is measured is the one beside this script
    os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    rows, bad = [], 0
    chosen = [s for s in shapes() if not only or any(word in s.name for word in only)]
    with tempfile.TemporaryDirectory(dir=work) as temporary:
        group, tiny = "", Path(temporary) / "tiny"
        for shape in chosen:
            folder, out = Path(temporary) / shape.group, Path(temporary) / "out"
            if shape.group != group:
                if group:
                    shutil.rmtree(Path(temporary) / group)
                    shutil.rmtree(tiny)
                group = shape.group
                for place, share in ((folder, size), (tiny, TINY)):
                    place.mkdir(exist_ok=True)
                    _apart(partial(_make, shape.make, place, share))
            small, made = (Path((place / "made").read_text()) for place in (tiny, folder))
            subprocess.run(_filled(shape.command, small, out), capture_output=True, check=False)
            _remove(out)
            code, seconds, resident, charged, last = _ended(_filled(shape.command, made, out), shape.limit)
            _remove(out)
            wrong = code not in shape.codes
            bad += wrong
            mb = [f"{n / 2**20:.0f}" for n in (resident, charged)]
            said = f"**{code}**: {last[:200]}" if wrong else f"{code}" + (f": {last[:160]}" if code else "")
            rows.append([shape.name, shape.limit, *mb, f"{seconds:.0f}", said])
            print("| " + " | ".join(map(str, rows[-1])) + " |", file=sys.stderr, flush=True)
    heading("Memory promise over shapes", "Every command in a memory cgroup of exactly the limit.")
    table(["case", "limit", "process peak MB", "cgroup peak MB (page cache too)", "s", "exit code"], rows)
    return bad
