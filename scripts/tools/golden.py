"""Golden hashes: are the bits of every engine the same under two commits?

    python scripts/tools/golden.py record [--only atbp,bp] > hashes.json        this checkout
    python scripts/tools/golden.py compare COMMIT [COMMIT] [--only ...]          two commits, side by side, on this machine

A hash covers the topics (every table of the model), its priors, the history's figures and the block state of the last
checkpoint, for every engine x schedule x tables in memory and on disk x 1 and 2 threads (20 topics, 4 passes), one append
carried on, and one update.  The corpus is kos where ../shared/data is there, else one made here; it is ingested by the
commit under test.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(os.environ.get("GOLDEN_ROOT") or Path(__file__).resolve().parents[2])
KOS = ROOT.parent / "shared/data/kos"
RUNS: dict[str, tuple[str, ...]] = {
    "atbp": ("--algo", "atbp"),
    "atbp fold": ("--algo", "atbp", "--theta", "fold-in"),
    "stbp": ("--algo", "stbp"),
    "bp async": ("--algo", "bp"),
    "bp sync": ("--algo", "bp", "--schedule", "sync"),
    "sibp async": ("--algo", "sibp"),
    "sibp sync": ("--algo", "sibp", "--schedule", "sync"),
    "cvb0 async": ("--algo", "cvb0"),
    "cvb0 sync": ("--algo", "cvb0", "--schedule", "sync"),
    "sparse-bp": ("--algo", "sparse-bp", "--sparsity", "16"),
    "sparse-bp residual": ("--algo", "sparse-bp", "--sparsity", "16", "--schedule", "residual"),
    "gs": ("--algo", "gs"),
    "sparselda": ("--algo", "sparselda", "--samples", "2", "--burn-in", "2", "--sample-every", "1"),
    "vb": ("--algo", "vb"),
    "ovb": ("--algo", "ovb"),
    "mvi": ("--algo", "mvi"),
    "svi": ("--algo", "svi"),
}
COMMON = ("-K", "20", "--passes", "4", "--tol", "0", "--block-cells", "20000", "--mem-limit", "1G")


def hash_of(model: Path) -> str:
    """Hash of a model's content, independent of the names of files and of times."""
    h = hashlib.sha256()
    manifest = json.loads((model / "manifest.json").read_text())
    import numpy as np
    import zarr

    for folder in sorted(p for p in model.iterdir() if p.is_dir() and p.name.startswith(("topics", "tables"))):
        array = zarr.open_array(str(folder), mode="r")
        h.update(np.ascontiguousarray(array[:]).tobytes())
        h.update(json.dumps([array.attrs.get("alpha"), array.attrs.get("beta")]).encode())
    for line in (model / "history.jsonl").read_text().splitlines():
        record = json.loads(line)
        h.update(
            json.dumps(
                [
                    record.get("pass"),
                    record.get("running_perplexity", record.get("train_perplexity")),
                    record.get("bound"),
                ]
            ).encode()
        )
    states = sorted((model / "checkpoints").glob("*/state.json"))
    if states:
        h.update(json.loads(states[-1].read_text())["facts"]["memory_digest"].encode())
    h.update(str(manifest["passes"]).encode())
    return h.hexdigest()[:16]


def topics(*arguments: str, where: Path) -> None:
    """One command of the checkout at ``where``."""
    environment = {**os.environ, "PYTHONPATH": str(where)}
    code = "import sys; from topicstream.cli.main import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code, *arguments], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"topics {' '.join(arguments)}: exit {done.returncode}\n{done.stderr}")


def corpus_files(work: Path) -> tuple[list[str], Path, list[str]]:
    """(arguments of the first ingest, a file to append, its extra arguments)."""
    lines = []
    if KOS.is_dir():
        import gzip

        words = (KOS / "vocab.txt").read_text().split()
        docs: dict[int, list[str]] = {}
        with gzip.open(KOS / "docword.txt.gz", "rt") as f:
            for line in list(f)[3:]:
                d, w, x = map(int, line.split())
                docs.setdefault(d, []).extend([words[w - 1]] * x)
        lines = [json.dumps({"id": str(d), "text": " ".join(docs[d])}) for d in sorted(docs)]
    else:
        sys.path.insert(0, str(ROOT))
        import random

        made = random.Random(0)
        for d in range(2000):
            low = 100 * made.randrange(10)
            lines.append(
                json.dumps({"id": str(d), "text": " ".join(f"w{low + made.randrange(200)}x" for _ in range(80))})
            )
    first, second = work / "first.jsonl", work / "second.jsonl"
    cut = len(lines) * 9 // 10
    first.write_text("\n".join(lines[:cut]) + "\n")
    second.write_text("\n".join(lines[cut:]) + "\n")
    return [str(first)], second, ["--append"]


def record(where: Path, only: list[str]) -> dict[str, str]:
    """Hashes of the checkout at ``where``."""
    found: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        first, second, append = corpus_files(work)
        corpus = str(work / "c.zarr")
        topics("ingest", *first, "--out", corpus, "--min-df", "1", where=where)
        for name, options in RUNS.items():
            if only and options[1] not in only:
                continue
            for tables in ("memory", "disk"):
                for threads in ("1", "2"):
                    model = work / "model"
                    topics(
                        "train", "--corpus", corpus, "--model", str(model), *options, *COMMON,
                        "--tables", tables, "--threads", threads, "-q", where=where,
                    )  # fmt: skip
                    found[f"{name} / {tables} / {threads}"] = hash_of(model)
                    shutil.rmtree(model)
            print(f"{where.name}: {name} done", file=sys.stderr)
        base = work / "base"
        topics("train", "--corpus", corpus, "--model", str(base), "--algo", "sparse-bp", *COMMON, "-q", where=where)
        topics("ingest", str(second), "--out", corpus, *append, where=where)
        topics("update", "--corpus", corpus, "--model", str(base), "--passes", "3", "-q", where=where)
        found["update after an append"] = hash_of(base)
        topics(
            "train", "--corpus", corpus, "--model", str(work / "grown"), "--algo", "atbp", *COMMON, "-q", where=where
        )
        found["atbp on the appended corpus"] = hash_of(work / "grown")
    return found


def checkout(commit: str, work: Path) -> Path:
    """A worktree of that commit."""
    place = work / commit.replace("/", "-")
    subprocess.run(
        ["git", "-C", str(ROOT), "worktree", "add", "--detach", "-f", str(place), commit],
        check=True,
        capture_output=True,
    )
    return place


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("commits", nargs="*", help="one or two commits; one is compared with this checkout")
    parser.add_argument("--only", default="", help="engines, comma-separated")
    parser.add_argument("--against", help="a file that `record` wrote")
    arguments = parser.parse_args()
    only = [name for name in arguments.only.split(",") if name]
    if arguments.what == "record":
        print(json.dumps(record(ROOT, only), indent=1))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        places = [checkout(c, Path(temporary)) for c in arguments.commits]
        try:
            if arguments.against:
                before = json.loads(Path(arguments.against).read_text())
            else:
                before = record(places[0], only)
            after = record(places[1] if len(places) > 1 else ROOT, only)
        finally:
            for place in places:
                subprocess.run(["git", "-C", str(ROOT), "worktree", "remove", "--force", str(place)], check=False)
    differ = [name for name in after if name in before and after[name] != before[name]]
    for name in differ:
        print(f"DIFFERS  {name}: {before[name]} -> {after[name]}")
    missing = sorted(set(before) ^ set(after)) if not only else []
    for name in missing:
        print(f"MISSING on one side  {name}")
    print(f"{len(after) - len(differ)} of {len(after)} hashes are the same")
    return 1 if differ or missing else 0


if __name__ == "__main__":
    sys.exit(main())
