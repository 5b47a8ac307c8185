"""Words broken at line ends: the vocabulary of the corpus decides what is one word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import topicstream
from tests.reading import write
from topicstream.base.errors import InputError, UsageError

LINES = [
    "The govern-\nment of the Re-\npublic decided on state\u00ac\ncraft.",
    "A well-\nknown man, well known to us. So known. A TRUMP-\nET sounds.",
    "government, Anglo-\nSaxon and the co-  \r\n\f  lonies, pre\u00ad\nfix",
    "Anglo and Saxon; trum-\npet; the colonies",
]
JOINED = ["colonies", "government", "prefix", "republic", "statecraft", "trumpet"]
HALVES = ["anglo", "known", "saxon", "well"]


def _words(store: Path) -> list[str]:
    words = [str(word) for word in topicstream.Corpus.open(store).words]
    return sorted(word for word in words if word in {*JOINED, *HALVES} or word in "govern ment re")


def _ingest(texts: object, store: Path, **options: object) -> dict[str, object]:
    fixed: dict[str, object] = {"min_df": 1, "max_df": 1.0, "heldout": 0, "progress": False}
    fixed["stopwords"] = "none"
    summary: dict[str, object] = topicstream.ingest(texts, store, **{**fixed, **options})
    return summary


def test_the_vocabulary_judges(tmp_path: Path) -> None:
    _ingest(LINES, tmp_path / "plain.zarr")
    assert "government" in _words(tmp_path / "plain.zarr")
    assert "republic" not in _words(tmp_path / "plain.zarr")
    summary = _ingest(LINES, tmp_path / "c.zarr", join_hyphens=True)
    assert _words(tmp_path / "c.zarr") == sorted([*JOINED, *HALVES])
    manifest = json.loads((tmp_path / "c.zarr" / "manifest.json").read_text())
    assert manifest["tokenizer"]["joined_words"] == JOINED
    assert summary["joined_words"] == len(JOINED)


def test_files_appends_and_inference_join_the_same_words(tmp_path: Path) -> None:
    for i, text in enumerate(LINES):
        write(tmp_path / "in" / f"{i}.txt", text)
    for workers in (1, 3):
        _ingest(tmp_path / "in", tmp_path / f"{workers}.zarr", join_hyphens=True, workers=workers)
    stores = [tmp_path / f"{workers}.zarr" / "vocab.parquet" for workers in (1, 3)]
    assert stores[0].read_bytes() == stores[1].read_bytes()
    topicstream.train(tmp_path / "1.zarr", tmp_path / "m", topics=2, passes=3, progress=False)
    model = topicstream.TopicModel.open(tmp_path / "m")
    whole = model.transform(["the government of the republic"])
    assert (model.transform(["the govern-\nment of the re-\npublic"]) == whole).all()
    assert (model.transform(["the govern- ment of the re- public"]) != whole).any()
    summary = topicstream.ingest(
        ["govern-\nment", "repub-\nlic"], tmp_path / "1.zarr", append=True, progress=False
    )
    assert summary["documents_added"] == 2


def test_what_can_be_read_only_once_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="join_hyphens reads the documents twice"):
        _ingest(iter(LINES), tmp_path / "c.zarr", join_hyphens=True)
    with pytest.raises(UsageError, match="--tokenized and --join-hyphens"):
        _ingest(LINES, tmp_path / "c.zarr", join_hyphens=True, tokenized=True)
