"""A corpus with titles, dates, labels and hostile words, and a model over it: what the tests of the
report stand on.
"""

from __future__ import annotations

import base64
import gzip
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from topicstream.corpus.reader import Corpus
from topicstream.ingestion.pipeline import ingest
from topicstream.model.topic_model import TopicModel

HOSTILE = (
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\u202egnp.exe",
    "zero\u200bwidth",
    "שלום",
)
THEMES = (
    "cats kittens purring whiskers claws fur paws tails mice milk",
    "ships harbour sails anchor captain deck ocean crew cargo tide",
    "stars galaxy telescope orbit comet planet nebula lunar solar moon",
    "bread oven flour dough baker yeast crust loaf butter salt",
)


def records(docs: int = 600, seed: int = 5) -> list[dict[str, Any]]:
    """Documents of four plain themes; the share of ships rises with the years, bakers write in the
    label 'kitchen'.
    """
    rng = np.random.default_rng(seed)
    out = []
    for d in range(docs):
        year = 2000 + d % 10
        p = np.array([0.3, 0.05 + 0.05 * (d % 10), 0.2, 0.2])
        main = rng.choice(4, p=p / p.sum())
        words = [
            w for t in (main, main, main, rng.integers(4)) for w in rng.choice(THEMES[t].split(), 8)
        ]
        out.append(
            {
                "id": f"doc-{d}",
                "title": f"{HOSTILE[d % len(HOSTILE)]} number {d}",
                "date": f"{year}-0{1 + d % 9}-11",
                "labels": ["kitchen", "all"] if main == 3 else ["all"],
                "party": None if d % 7 == 0 else ("red" if d % 2 else "blue"),
                "text": " ".join(words) + " <b>bold</b> </script> end",
            }
        )
    return out


def made(
    folder: Path, docs: int = 600, meta: bool = True, **options: Any
) -> tuple[Corpus, list[dict[str, Any]]]:
    """Ingest the records; returns the store and them."""
    rows = records(docs)
    folder.mkdir(parents=True, exist_ok=True)
    raw = folder / "docs.jsonl"
    raw.write_text("".join(json.dumps(r) + "\n" for r in rows))
    kept = {n: n for n in ("title", "date", "labels", "party")} if meta else {}
    ingest(
        [raw], folder / "corpus.zarr", meta=kept, stopwords=(), min_df=1, heldout="10%", **options
    )
    return Corpus.open(folder / "corpus.zarr"), rows


def planted_model(corpus: Corpus, path: Path | None = None, topics: int = 4) -> TopicModel:
    """Topics that are the themes (further ones are empty), saved where a path is given."""
    vocabulary = corpus.read_vocabulary()
    words = vocabulary.texts(np.arange(len(vocabulary)))
    phi = np.full((len(words), topics), 0.0, np.float32)
    for k, theme in enumerate(THEMES[:topics]):
        for i, word in enumerate(theme.split()):
            if word in words:
                phi[words.index(word), k] = 500 * (k + 1) - 10 * i
    model = TopicModel.from_arrays(
        phi, vocabulary, 0.1, 0.01, engine="planted", tokenizer=corpus.manifest.tokenizer
    )
    if path is not None:
        model.save(path)
        model = TopicModel.open(path)
    return model


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What ``payload.pack`` was given."""
    raw = gzip.decompress(data)
    (length,) = struct.unpack_from("<I", raw)
    values = json.loads(raw[4 : 4 + length])
    base = 4 + length + -(4 + length) % 8
    TYPES = pytest.importorskip("topicstream.addons.report.page").TYPES
    kinds = {v: k for k, v in TYPES.items()}
    arrays = {}
    for name, (kind, at, shape) in values.pop("arrays").items():
        n = int(np.prod(shape))
        arrays[name] = np.frombuffer(raw, "<" + kinds[kind], n, base + at).reshape(shape)
    return values, arrays


def data_of(text: str) -> bytes:
    """The payload of a page."""
    start = text.index('id="data">') + len('id="data">')
    return base64.b64decode(text[start : text.index("</script>", start)])
