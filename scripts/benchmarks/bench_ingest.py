"""Measure ``topics ingest`` and the store's reading; CountVectorizer beside it, in the same run.

    python scripts/benchmarks/bench_ingest.py --text docs.jsonl --peers PYTHON     quick sizes
    FULL=1 python scripts/benchmarks/bench_ingest.py --text docs.jsonl --peers PYTHON

--text   JSON lines with a field ``text``, uncompressed (quick: its first 40 MB)
--peers  a Python that has scikit-learn; without it that row is left out

Each run is a process of its own.  Seconds are those of the work (imports left out on both sides;
                                   the kernels loaded by
a small ingest first), for ours with the store written and fsynced; peak is the process's VmHWM.
The docword corpora come
from scripts/tools/make_corpus.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import full, heading, in_cgroup, table

OURS = """
import json, sys, time
from pathlib import Path
import topicstream
from topicstream.base.machine import peak_bytes
paths, out, warm, options = json.loads(sys.argv[1])
topicstream.ingest(warm, out + ".warm", force=True, **options)
began, cpu = time.perf_counter(), time.process_time()
s = topicstream.ingest([Path(p) for p in paths], out, force=True, **options)
seconds = time.perf_counter() - began
print(json.dumps({"seconds": seconds, "cpu": time.process_time() - cpu, "bytes": \
s["input_bytes"], "cells": s["cells"],
                  "bytes_per_cell": s["bytes_per_cell"], "peak": peak_bytes(), "words": \
s["words_before"]}))
"""

READ = """
import json, sys, time
import topicstream
corpus = topicstream.Corpus.open(sys.argv[1])
grid = corpus.grid(cells=1 << 18)
for prefetch in (0, 2):
    sum(b.n_cells for b in corpus.blocks(grid=grid, prefetch=prefetch))
    began, cpu = time.perf_counter(), time.process_time()
    cells = sum(b.n_cells for b in corpus.blocks(grid=grid, prefetch=prefetch))
    print(json.dumps({"prefetch": prefetch, "seconds": time.perf_counter() - began,
                      "cpu": time.process_time() - cpu, "cells": cells}))
"""

SKLEARN = """
import json, sys, time
from sklearn.feature_extraction.text import CountVectorizer
def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
def texts(path):
    with open(path, encoding="utf-8") as f:
        for line in f:
            yield json.loads(line)["text"]
import os
began = time.perf_counter()
X = CountVectorizer(min_df=int(sys.argv[2]), stop_words=None).fit_transform(texts(sys.argv[1]))
print(json.dumps({"seconds": time.perf_counter() - began, "bytes": os.path.getsize(sys.argv[1]), \
"cells": int(X.nnz),
                  "peak": peak(), "words": X.shape[1]}))
"""


TOMOTOPY = """
import json, sys, tomotopy
from tomotopy.utils import Corpus, SimpleTokenizer
corpus = Corpus(tokenizer=SimpleTokenizer(lowercase=True))
corpus.process(json.loads(line)["text"] for line in open(sys.argv[1], encoding="utf-8"))
print(len(tomotopy.LDAModel(k=2, min_df=int(sys.argv[2]), corpus=corpus).docs))
"""

GENSIM = """
import json, sys
from gensim.corpora import Dictionary, MmCorpus
from gensim.utils import simple_preprocess
def texts():
    for line in open(sys.argv[1], encoding="utf-8"):
        yield simple_preprocess(json.loads(line)["text"])
words = Dictionary(texts())
words.filter_extremes(no_below=int(sys.argv[2]), no_above=1.0, keep_n=None)
MmCorpus.serialize(sys.argv[1] + ".mm", map(words.doc2bow, texts()))
"""

PEERS = {
    "CountVectorizer(min_df=5)": SKLEARN,
    "tomotopy, Corpus and LDAModel": TOMOTOPY,
    "gensim, Dictionary and MmCorpus": GENSIM,
}


def child(python: str, code: str, *args: str) -> list[dict[str, Any]]:
    """Run code in a process of its own; the JSON lines it prints."""
    done = subprocess.run([python, "-c", code, *args], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def ours(paths: list[str], out: Path, warm: str, **options: Any) -> dict[str, Any]:
    """One ingest."""
    return child(sys.executable, OURS, json.dumps([paths, str(out), warm, options]))[0]


def command(*args: str) -> dict[str, Any]:
    """A process as a user starts it, start and end included: wall and processor seconds, peak
    memory.
    """
    began = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(list(args), capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": seconds, "cpu": cpu, "said": done.stdout}


def whole_commands(
    source: Path, peers: str | None, folder: Path, repeat: int, most: int | None = None
) -> None:
    """What a user waits for: the whole command, kernels in the cache, beside Pythons that read the
    same file (``most`` of them).
    """
    topics = [
        sys.executable,
        "-m",
        "topicstream",
        "ingest",
        str(source),
        "--force",
        "-q",
        "--workers",
        "2",
        "--out",
    ]
    command(*topics, str(folder / "w.zarr"))  # its kernels are in the cache now, the file in memory
    runs = {"topics ingest": [command(*topics, str(folder / "w.zarr")) for _ in range(repeat)]}
    for name, code in list(PEERS.items())[:most] if peers else ():
        runs[name] = [command(peers, "-c", code, str(source), "5") for _ in range(min(repeat, 2))]
    size = source.stat().st_size / 1e6
    rows = []
    ours_ = {}
    for name, found in runs.items():
        figures = {k: statistics.median(r[k] for r in found) for k in ("seconds", "cpu")}
        ours_ = ours_ or figures
        times = [
            f"{figures[k]:.2f}"
            + (f", {figures[k] / ours_[k]:.1f}x" if figures is not ours_ else "")
            for k in ("seconds", "cpu")
        ]
        rows.append(
            [
                name,
                *times,
                f"{size / figures['seconds']:.1f}",
                f"{figures['cpu'] / figures['seconds']:.2f}",
            ]
        )
    heading(
        "The whole command",
        f"{size:.0f} MB of JSON lines, from the start of the process to its end; x: of ours.",
    )
    table(["", "seconds", "CPU seconds", "MB/s", "cores at work"], rows)


def spread(values: list[float], form: str) -> str:
    """Median and range."""
    values = sorted(values)
    middle = format(statistics.median(values), form)
    return middle if len(values) == 1 else f"{middle} ({values[0]:{form}} to {values[-1]:{form}})"


def rows_of(name: str, runs: list[dict[str, Any]], unit: str) -> list[str]:
    """A row of the table."""
    rate = [r[unit] / r["seconds"] / 1e6 for r in runs]
    cpu = [r[unit] / r["cpu"] / 1e6 for r in runs if "cpu" in r]
    return [
        name,
        spread(rate, ".1f"),
        spread(cpu, ".1f") if cpu else "",
        spread([r["seconds"] for r in runs], ".2f"),
        f"{max(r['peak'] for r in runs) / 1e6:.0f}",
        f"{runs[0]['cells']:,}",
        f"{runs[0]['bytes_per_cell']:.2f}" if "bytes_per_cell" in runs[0] else "",
    ]


def text_part(text: str, peers: str | None, folder: Path, repeat: int) -> None:
    """JSON lines against CountVectorizer."""
    source = folder / "text.jsonl"
    limit = 10**12 if full() else 40_000_000
    with open(text, "rb") as f, open(source, "wb") as out:
        while limit > 0 and (line := f.readline()):
            limit -= out.write(line)
    warm = folder / "warm.jsonl"
    with open(source, "rb") as f:
        warm.write_bytes(b"".join(f.readline() for _ in range(20)))
    options = {"workers": 2, "min_df": 5, "max_df": 1.0, "stopwords": "none", "heldout": "0"}
    default = [ours([str(source)], folder / "c.zarr", str(warm), workers=2) for _ in range(repeat)]
    same = [
        ours([str(source)], folder / "c.zarr", str(warm), **options, pattern=r"(?u)\b\w\w+\b")
        for _ in range(repeat)
    ]
    rows = [
        rows_of("topics ingest, defaults", default, "bytes"),
        rows_of("topics ingest, scikit-learn's pattern, no stop words", same, "bytes"),
    ]
    if peers:
        theirs = [
            child(peers, SKLEARN, str(source), "5")[0] for _ in range(1 if full() else repeat)
        ]
        rows.append(rows_of("CountVectorizer(min_df=5)", theirs, "bytes"))
        base = statistics.median(r["seconds"] for r in theirs)
        for row, runs in zip(rows, (default, same)):
            row[1] += f", {base / statistics.median(r['seconds'] for r in runs):.1f}x"
    columns = ["", "MB/s", "MB/s a CPU second", "seconds", "peak MB", "cells", "bytes a cell"]
    heading(
        "Text to store",
        f"{source.stat().st_size / 1e6:.0f} MB of JSON lines; ours with 2 workers, store "
        f"written and synced.",
    )
    table(columns, rows)


def whole_part(text: str, peers: str | None, folder: Path, repeat: int) -> None:
    """The whole command at several sizes; FULL: also ten times the file, beside the first peer
    alone.
    """
    for size in (1, 20, 191):
        source = folder / f"text-{size}.jsonl"
        with open(text, "rb") as f, open(source, "wb") as out:
            left = size * 1_000_000
            while left > 0 and (line := f.readline()):
                left -= out.write(line)
        whole_commands(source, peers, folder, repeat)
    if full():
        with open(source, "ab") as out:
            for _ in range(9):
                with open(text, "rb") as f:
                    shutil.copyfileobj(f, out)
        whole_commands(source, peers, folder, 1, most=1)


def docword_part(folder: Path, repeat: int) -> None:
    """UCI docword, plain and gzipped, at several sizes; then the reading of the store."""
    make = str(Path(__file__).parents[1] / "tools" / "make_corpus.py")
    sizes = (10e6, 50e6, 200e6) if full() else (2e6, 10e6)
    rows = []
    reads = []
    for cells in sizes:
        for suffix in (".txt", ".txt.gz"):
            source = folder / f"docword-{cells / 1e6:.0f}{suffix}"
            kept = source.exists()
            if not kept:
                command = [sys.executable, make, "--cells", str(cells), "--docword", str(source)]
                subprocess.run(command, check=True, capture_output=True)
            warm = folder / "docword.warm.txt"
            if not warm.exists():
                subprocess.run(
                    [sys.executable, make, "--cells", "1e4", "--docword", str(warm)],
                    check=True,
                    capture_output=True,
                )
            runs = [
                ours([str(source)], folder / "c.zarr", str(warm), workers=2) for _ in range(repeat)
            ]
            rows.append(
                rows_of(
                    f"{cells / 1e6:.0f} M cells{', gzipped' if 'gz' in suffix else ''}",
                    runs,
                    "cells",
                )
            )
            if not kept:
                source.unlink()
        for r in child(sys.executable, READ, str(folder / "c.zarr")):
            how = "one thread" if r["prefetch"] == 0 else f"prefetch {r['prefetch']}"
            reads.append(
                [
                    f"{r['cells'] / 1e6:.0f} M cells, {how}",
                    f"{r['cells'] / r['seconds'] / 1e6:.0f}",
                    f"{r['cells'] / r['cpu'] / 1e6:.0f}",
                ]
            )
    inflater = "isal (the extra gzip)" if importlib.util.find_spec("isal") else "zlib"
    heading(
        "UCI docword to store",
        f"Zipf words, W = 141,043; 2 workers, store written and synced; gzip by {inflater}.",
    )
    table(
        ["", "M cells/s", "M cells a CPU second", "seconds", "peak MB", "cells", "bytes a cell"],
        rows,
    )
    heading(
        "Reading a store",
        "Sequential, decoded to engine blocks of 2^18 cells with local ids; second read.",
    )
    table(["", "M cells/s", "M cells a CPU second"], reads)


def made_words(numbers: np.ndarray) -> np.ndarray:
    """Words of eight letters, one for each number below 2^32 (times an odd number, so that they
    come in no order): uint8[n, 9], a blank behind each."""
    mixed = (numbers.astype(np.uint64) * np.uint64(2654435761)) & np.uint64(0xFFFFFFFF)
    out = np.full((len(numbers), 9), 32, np.uint8)
    for k in range(8):
        out[:, k] = 97 + ((mixed >> np.uint64(4 * k)) & np.uint64(15))
    return out


def write_made(path: Path, types: int, kept: int) -> None:
    """JSON lines of a thousand words: ``types`` different words once, and the first ``kept`` of
    them in four documents more."""
    with open(path, "wb") as f:
        for number, start in enumerate([*range(0, types, 1000), *(list(range(0, kept, 1000)) * 4)]):
            text = made_words(np.arange(start, start + 1000)).tobytes()
            f.write(b'{"id":"%d","text":"%s"}\n' % (number, text))


def types_part(folder: Path) -> None:
    """Many distinct words under a limit, in a memory cgroup of the same size."""
    types, kept, limit = (20_000_000, 1_000_000, "1G") if full() else (4_000_000, 200_000, "500M")
    source = folder / "made.jsonl"
    out = folder / "made.zarr"
    write_made(source, types, kept)
    options = [
        "--min-df",
        "5",
        "--max-df",
        "100%",
        "--heldout",
        "0",
        "--stopwords",
        "none",
        "--workers",
        "2",
    ]
    command = [
        sys.executable,
        "-m",
        "topicstream.cli.main",
        "ingest",
        str(source),
        "--out",
        str(out),
        "--json",
    ]
    done = in_cgroup([*command, *options, "--mem-limit", limit], limit)
    if done.returncode:
        raise SystemExit(f"exit {done.returncode}: {done.stderr[-2000:]}")
    s = json.loads(done.stdout)
    exact = (s["words_before"], s["words"], s["tokens_pruned"]) == (types, kept, types - kept)
    heading(
        "Many distinct words",
        f"Each once, {kept:,} of them five times; a memory cgroup of {limit}.",
    )
    peak = f"{s['peak_rss_bytes'] / 1e6:.0f}"
    row = [f"{types:,}", "yes" if exact else "NO", limit, peak, f"{s['seconds']:.1f}"]
    table(["distinct words", "counts exact", "limit", "peak MB", "seconds"], [row])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--text", help="JSON lines, uncompressed")
    parser.add_argument("--peers", help="a Python with scikit-learn")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument(
        "--folder",
        help="where to work (default: a temporary folder); docword-10.txt and so on in it are used",
    )
    parser.add_argument("--only", default="whole,text,docword,types", help="some of them")
    args = parser.parse_args()
    only = args.only.split(",")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
        folder = Path(args.folder or name)
        if args.text and "whole" in only:
            whole_part(args.text, args.peers, folder, args.repeat)
        if args.text and "text" in only:
            text_part(args.text, args.peers, folder, args.repeat)
        if "docword" in only:
            docword_part(folder, args.repeat)
        if "types" in only:
            types_part(folder)


if __name__ == "__main__":
    main()
