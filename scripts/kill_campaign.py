"""Kill -9 at random instants of ingest and of training with every engine, carry on, and compare the bits.

    python scripts/kill_campaign.py --kills 100 [--only ingest atbp ...]

For each subject the undisturbed run is made first; then the same command is started again and again, killed at random
instants until its share of the kills is spent, and left to end.  The result must be the same bits: the store's manifest
and chunks, or the training state's content hash.  Prints a Markdown table; exit 1 when any result differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from measure import heading, table

from topicstream.engines import engines
from topicstream.training.checkpoint import content_hash

TOPICS = [sys.executable, "-m", "topicstream.cli.main"]


def text(path: Path, documents: int = 6000) -> Path:
    """Documents of made words, JSON lines."""
    rng = random.Random(3)
    words = ["".join(rng.choice("aeioubcdfglmnprst") for _ in range(rng.randint(3, 9))) for _ in range(4000)]
    weights = [1 / (i + 3) for i in range(len(words))]
    with open(path, "w") as f:
        for i in range(documents):
            shift = 37 * (i % 20)
            drawn = rng.choices(range(len(words)), weights, k=rng.randint(20, 120))
            f.write(
                json.dumps({"id": f"d{i}", "text": " ".join(words[(w * (1 + shift)) % 4000] for w in drawn)}) + "\n"
            )
    return path


def store_hash(path: Path) -> str:
    """sha256 of every chunk and table of a store, and of the manifest without its times."""
    h = hashlib.sha256()
    for file in sorted(p for p in path.rglob("*") if p.is_file() and p.name not in (".lock", "manifest.json")):
        h.update(str(file.relative_to(path)).encode() + file.read_bytes())
    manifest = json.loads((path / "manifest.json").read_text())
    h.update(manifest["fingerprint"].encode())
    return h.hexdigest()


def campaign(
    name: str,
    command: list[str],
    target: Path,
    digest: Callable[[Path], str],
    done: Callable[[Path], bool],
    kills: int,
    rng: random.Random,
) -> list[object]:
    """Kill ``command`` (which makes ``target``) ``kills`` times; a row of the table."""
    subprocess.run(command, check=True, capture_output=True)
    expected = digest(target)
    shutil.rmtree(target)
    began = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    length = time.monotonic() - began
    same = digest(target) == expected  # an undisturbed run twice
    shutil.rmtree(target)
    made = finished = wrong = 0
    while made < kills:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(rng.uniform(0.15, 1.0) * length)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            made += 1
        if process.returncode == 0 and done(target):
            finished += 1
            wrong += digest(target) != expected
            shutil.rmtree(target)
        elif process.returncode not in (0, -signal.SIGKILL):
            wrong += 1
    last = subprocess.run(command, capture_output=True, text=True, check=False)
    wrong += last.returncode != 0 or digest(target) != expected
    return [name, made, finished + 1, "yes" if same else "NO", wrong]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--only", nargs="*", default=["ingest", *engines()])
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        source = text(work / "text.jsonl")
        corpus = work / "corpus.zarr"
        share = max(1, args.kills // len(args.only))
        ingest = [*TOPICS, "ingest", str(source), "--out"]
        if "ingest" in args.only:
            target = work / "killed.zarr"
            rows.append(
                campaign(
                    "ingest",
                    [*ingest, str(target)],
                    target,
                    store_hash,
                    lambda p: (p / "manifest.json").exists(),
                    share,
                    rng,
                )
            )
        subprocess.run([*ingest, str(corpus)], check=True, capture_output=True)
        for name in args.only:
            if name == "ingest":
                continue
            model = work / "model"
            command = [*TOPICS, "train", "--corpus", str(corpus), "--model", str(model), "--algo", name, "-K", "20", "--passes", "6",
                       "--tol", "0", "--threads", "2", "--block-cells", "20000", "--checkpoint-minutes", "0.002"]  # fmt: skip
            rows.append(
                campaign(name, command, model, content_hash, lambda p: (p / "finished.json").exists(), share, rng)
            )
            shutil.rmtree(model, ignore_errors=True)
    heading(
        "Killed and carried on",
        "kill -9 at random instants; wrong: results that differ from the undisturbed run's, or runs that could not carry on",
    )
    table(["subject", "kills", "runs that ended", "undisturbed twice the same", "wrong"], rows)
    return 1 if any(row[-1] for row in rows) or any(row[3] != "yes" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
