"""Made documents of known topics, and a retrain folder around them."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import topicstream

TOPICS = 4
WORDS = 40


def made(
    n: int, seed: int, prefix: str = "d", kinds: list[int] | None = None, language: str = ""
) -> list[dict[str, Any]]:
    """n documents, each about one or two of four subjects of forty words; ``kinds``: only these
    subjects; ``language``: another set of words.
    """
    rng = random.Random(seed)
    subjects = kinds or list(range(TOPICS))
    documents = []
    for i in range(n):
        mine = [rng.choice(subjects), rng.choice(subjects)]
        words = []
        for _ in range(rng.randint(20, 40)):
            topic = mine[rng.random() < 0.3]
            rank = min(WORDS - 1, int(rng.expovariate(0.08)))
            words.append(
                f"{language}{'abcdefgh'[topic]}{'xyzuvwst'[rank % 8]}{'klmnopqr'[rank // 8]}o"
            )
        documents.append({"id": f"{prefix}{i}", "text": " ".join(words)})
    return documents


def write(path: Path, documents: list[dict[str, Any]]) -> Path:
    """One JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(d) + "\n" for d in documents))
    return path


CONFIG = """
changed = "{changed}"
[ingest]
stopwords = "none"
heldout = "10%"
min_df = 2
grow_vocab = true
[train]
topics = 4
passes = 12
update_passes = 6
tol = 0.0
threads = 2
[when]
new_docs = true
drift = {drift}
[gate]
tolerance = {tolerance}
topics = false
[publish]
keep = 3
"""


def folder(
    place: Path, *, changed: str = "replace", drift: str = "false", tolerance: float = 0.5
) -> Path:
    """A folder with a config and 300 documents in raw/; returns the config's path."""
    write(place / "raw" / "a.jsonl", made(300, seed=1))
    config = place / "retrain.toml"
    config.write_text(CONFIG.format(changed=changed, drift=drift, tolerance=tolerance))
    return config


def cycle(config: Path, **options: Any) -> dict[str, Any]:
    """One cycle that keeps its log to itself."""
    return topicstream.retrain(config, stream=io.StringIO(), **options)


def state_of(place: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path."""
    return {
        str(p.relative_to(place)): p.read_bytes() for p in sorted(place.rglob("*")) if p.is_file()
    }
