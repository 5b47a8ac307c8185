"""Signatures that a fresh machine compiles on the way from raw text to a model and what is asked of it.

    python scripts/tools/signatures.py CHECKOUT [CHECKOUT] --raw docs.txt [--list]

Each command runs in an empty cache that it shares with those before it; what it added is counted, with its processor time
(the start included; byte code stands where `python -m compileall -q topicstream` was run before).  Markdown on stdout.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

TRAIN = ["-K", "20", "--passes", "2", "--tol", "0", "--mem-limit", "1G", "-q"]
FLOW = {
    "ingest": ["ingest", "RAW", "-q"],
    "train": ["train", "--algo", "sparse-bp", *TRAIN],
    "eval": ["eval", "--json"],
    "show": ["show", "--json"],
    "infer": ["infer", "RAW", "-o", "theta.parquet", "-q"],
}


def compiled(cache: Path) -> Counter[str]:
    """Function -> signatures of it in a cache, of numba's own or of ours."""
    names = (p.name for p in cache.rglob("*.nbc") if ".code-" not in p.name and ".ready." not in p.name)
    return Counter(name.rsplit("-", 1)[0] for name in names)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="+")
    parser.add_argument("--raw", required=True)
    parser.add_argument("--list", action="store_true", help="name them")
    given = parser.parse_args()
    raw = str(Path(given.raw).resolve())
    for checkout in map(Path, given.checkouts):
        print(f"\n{checkout}\n\n| command | signatures | functions | CPU, s |\n|---|---|---|---|")
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder, "cache")
            env = {**os.environ, "PYTHONPATH": str(checkout.resolve()), "NUMBA_CACHE_DIR": str(cache)}
            before: Counter[str] = Counter()
            for name, args in FLOW.items():
                start = resource.getrusage(resource.RUSAGE_CHILDREN)
                command = [sys.executable, "-m", "topicstream.cli.main", *(raw if a == "RAW" else a for a in args)]
                subprocess.run(command, env=env, cwd=folder, stdout=subprocess.DEVNULL, check=True)
                end = resource.getrusage(resource.RUSAGE_CHILDREN)
                now = compiled(cache)
                new, before = now - before, now
                seconds = end.ru_utime + end.ru_stime - start.ru_utime - start.ru_stime
                print(f"| {name} | {new.total()} | {len(new)} | {seconds:.1f} |", flush=True)
                if given.list:
                    print("\n".join(f"  {n} x {f}" for f, n in sorted(new.items())))
            print(f"| together | {before.total()} | {len(before)} | |")


if __name__ == "__main__":
    main()
