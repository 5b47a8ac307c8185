"""``make bench``: run every measurement and write its tables beside the script, bench_ingest.md beside bench_ingest.py.

    python scripts/benchmarks/bench.py --peers .peers/bin/python [--data ../shared/data] [--only ingest kernels ...] [--print]

Quick sizes by default, FULL=1 the full ones.  Sections that were not run keep their last tables.  Corpora that are absent
are left out, with a line that says so.
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import full

HERE = Path(__file__).parent
CAMPAIGNS = {  # quick sizes, full sizes
    "kill": (["--kills", "24"], ["--kills", "100"]),
    "fault": (["--flips", "1"], ["--flips", "4"]),
    "fuzz": (["--inputs", "2000"], ["--inputs", "1000000"]),
    "memory": (["--cells", "2e6", "--max-seconds", "60"], ["--cells", "52e6"]),
}
SECTIONS = (
    "ingest",
    "kernels",
    "train",
    "gibbs",
    "variational",
    "message",
    "infer",
    "update",
    "quality",
    "scale",
    *CAMPAIGNS,
)


def command(section: str, data: Path, work: Path, peers: str) -> list[str] | None:
    """The command line of a section, or None when what it needs is not there."""
    script = str(HERE / f"bench_{section}.py")
    if section in CAMPAIGNS:
        return [str(HERE.parent / "campaigns" / f"{section}_campaign.py"), *CAMPAIGNS[section][full()]]
    if section == "kernels":
        return [script]
    if section == "scale":
        return [str(HERE / "scale.py")]
    if section == "ingest":
        text = work / "enwiki.jsonl"
        source = data / "enwiki" / "docs.jsonl.gz"
        if not source.exists():
            return None
        if not text.exists():
            with gzip.open(source, "rb") as f, open(text, "wb") as out:
                shutil.copyfileobj(f, out, 1 << 22)
        return [script, "--text", str(text), "--peers", peers]
    if not data.exists():
        return None
    if section == "message":
        stores = corpora(data, work)
        return [
            script,
            "memory",
            "curves",
            "schedules",
            "sweep",
            "quality",
            "time",
            "--corpus",
            *stores,
            "--peers",
            peers,
        ]
    if section == "variational":
        return [script, *corpora(data, work)]
    if section == "update":
        return [script, str(data / "acl" / "docs.jsonl.gz")]
    return [script, "--data", str(data), "--peers", peers]


def corpora(data: Path, work: Path) -> list[str]:
    """Stores of the small corpora, made once."""
    from topicstream import ingest

    made = []
    for name, source in (("kos", "docword.txt.gz"), ("nips12", "docword.txt.gz")):
        store = work / f"{name}.zarr"
        if not store.exists():
            ingest(data / name / source, out=store, heldout="10%", mem_limit="2G")
        made.append(str(store))
    return made


def write(page: Path, tables: str) -> None:
    """The tables beside the script that made them, below the page's title."""
    title = page.read_text().split("\n### ", 1)[0] if page.exists() else f"# Measurements of `{page.stem}.py`\n"
    page.write_text(f"{title.rstrip()}\n\n{tables.strip()}\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--only", nargs="*", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--print", dest="only_print", action="store_true", help="write no file")
    args = parser.parse_args()
    failed = []
    with tempfile.TemporaryDirectory() as temporary:
        for section in args.only:
            line = command(section, args.data, Path(temporary), args.peers)
            if line is None:
                print(f"{section}: left out, {args.data} is not there", file=sys.stderr)
                continue
            done = subprocess.run([sys.executable, *line], stdout=subprocess.PIPE, text=True, check=False)
            print(done.stdout, flush=True)
            if done.returncode:
                failed.append(section)
            elif not args.only_print:
                write(Path(line[0]).with_suffix(".md"), done.stdout)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
