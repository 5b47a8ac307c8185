"""A store holds the same bytes for any number of workers, whatever is done to the words."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.ingest_tools import digest
from topicstream import ingest

ENDINGS = [
    "",
    "s",
    "ing",
    "ed",
    "ly",
    "ness",
    "ation",
    "ational",
    "ful",
    "fulness",
    "ize",
    "izer",
    "ement",
]
STEMS = [
    a + b + c
    for a in ("con", "de", "pre", "sub", "trans")
    for b in ("ver", "for", "gres", "duc", "plan")
    for c in ("t", "m", "s", "n")
]


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> Path:
    """Nine files, so that a reading has pieces enough for every worker."""
    folder = tmp_path_factory.mktemp("texts")
    draw = random.Random(1)
    for name in range(9):
        lines = []
        for _ in range(40):
            lines.append(
                " ".join(
                    draw.choice(STEMS) + draw.choice(ENDINGS) + draw.choice(ENDINGS)
                    for _ in range(40)
                )
            )
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    return folder


TOKENIZERS = [
    {"stem": "german", "ngrams": 2},
    pytest.param({"stem": "english", "phrase_threshold": 0.1}, marks=pytest.mark.slow),
    *(
        pytest.param(options, marks=pytest.mark.campaign)
        for options in (
            {"stem": "english"},
            {"pattern": r"[a-z]{3,}"},
            {"tokenized": True, "stem": "french"},
        )
    ),
]


@pytest.mark.product
@pytest.mark.parametrize("options", TOKENIZERS, ids=lambda options: " ".join(options))
def test_any_number_of_workers_gives_the_same_bytes(texts, tmp_path, options):
    digests = set()
    for workers in (1, 2, 4):
        out = tmp_path / f"{workers}.zarr"
        ingest(texts, out, format="lines", workers=workers, min_df=1, progress=False, **options)
        digests.add(digest(out))
    assert len(digests) == 1
