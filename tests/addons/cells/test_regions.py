"""Sets of regions as BED files, and topics of cells in AnnData's Zarr folders."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr

import topicstream
from topicstream.addons.cells.regions import (
    choose_regions,
    otsu_threshold,
    parse_region,
    score_regions,
)
from topicstream.base.errors import InputError, NotOurs, TopicsError
from topicstream.model.topic_model import TopicModel

REGIONS = [f"chr{1 + i % 3}:{1000 * i}-{1000 * i + 500}" for i in range(60)]


def _otsu_by_definition(scores: np.ndarray) -> float:
    """Try every bin's centre: the least variance within the two classes of a histogram."""
    counts, edges = np.histogram(scores, 100, (0, 1))
    centres = (edges[1:] + edges[:-1]) / 2
    values = np.repeat(centres, counts)
    best = (np.inf, 0.0)
    for centre in centres[:-1]:
        low = values[values <= centre]
        high = values[values > centre]
        within = low.var() * len(low) if len(low) else 0.0
        within += high.var() * len(high) if len(high) else 0.0
        if within < best[0] - 1e-12:
            best = (within, centre)
    return best[1]


@pytest.mark.parametrize("seed", range(5))
def test_the_threshold_is_otsus(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = np.concatenate((rng.beta(1, 8, 300), rng.beta(9, 2, 40 * (seed + 1))))
    scores = (scores - scores.min()) / np.ptp(scores)
    assert otsu_threshold(scores) == pytest.approx(_otsu_by_definition(scores))
    chosen = choose_regions(scores, None)
    assert (scores[chosen] > otsu_threshold(scores)).all()
    assert len(chosen) == (scores > _otsu_by_definition(scores)).sum()
    first = choose_regions(scores, 7)
    assert set(first) == set(np.argsort(-scores)[:7])


def test_regions_open_in_every_topic_score_low() -> None:
    topics = np.full((3, 5), 0.1)
    topics[:, 0] = 0.5
    topics[1, 2] = 0.4
    scores = score_regions(topics / topics.sum(axis=1, keepdims=True))
    assert scores[1].argmax() == 2
    assert scores[1, 0] < 0.1
    shares = np.array([0.1 / 0.9, 0.1 / 1.2])
    expected = shares[0] * (np.log(shares[0]) - (2 * np.log(shares[0]) + np.log(shares[1])) / 3)
    own = topics[0] / topics[0].sum()
    raw = own * (np.log(own) - np.log(topics / topics.sum(axis=1, keepdims=True)).mean(axis=0))
    assert raw[1] == pytest.approx(expected)
    assert scores[0] == pytest.approx((raw - raw.min()) / np.ptp(raw))


@pytest.mark.parametrize(
    ("name", "region"),
    [
        ("chr1:100-600", ("chr1", 100, 600)),
        ("chrX-5-9", ("chrX", 5, 9)),
        ("GL000009.2_100_600", ("GL000009.2", 100, 600)),
        ("chrUn_KI270302v1-1-9", ("chrUn_KI270302v1", 1, 9)),
    ],
)
def test_names_of_regions(name: str, region: tuple[str, int, int]) -> None:
    assert parse_region(name) == region
    for wrong in ("Sox2", "chr1:600-100", "chr1:100"):
        with pytest.raises(InputError, match=r"is no region"):
            parse_region(wrong)


def _model(topics: int) -> TopicModel:
    rng = np.random.default_rng(1)
    table = rng.gamma(0.2, 30, (len(REGIONS), topics)).astype(np.float32)
    return TopicModel.from_arrays(table, REGIONS, 0.1, 0.01)


def test_a_file_for_each_topic(tmp_path: Path) -> None:
    out = tmp_path / "regions"
    summary = topicstream.export_model(_model(4), out, format="bed")
    assert sorted(path.name for path in out.glob("*.bed")) == [f"topic_{k}.bed" for k in range(4)]
    scores = score_regions(_model(4).topic_word.astype(np.float64))
    for k in range(4):
        rows = [line.split("\t") for line in (out / f"topic_{k}.bed").read_text().splitlines()]
        chosen = choose_regions(scores[k], None)
        assert {f"{c}:{a}-{b}" for c, a, b, *_ in rows} == {REGIONS[i] for i in chosen}
        assert rows == sorted(rows, key=lambda row: (row[0], int(row[1])))
        assert {row[3] for row in rows} == {f"topic_{k}"}
        assert max(int(row[4]) for row in rows) == 1000
        assert summary["regions"][str(k)] == len(rows)
    with pytest.raises(TopicsError, match="exists"):
        topicstream.export_model(_model(4), out, format="bed")
    topicstream.export_model(_model(3), out, format="bed", words=5, force=True)
    assert sorted(path.name for path in out.glob("*.bed")) == [f"topic_{k}.bed" for k in range(3)]
    assert len((out / "topic_0.bed").read_text().splitlines()) == 5
    (tmp_path / "mine").mkdir()
    with pytest.raises(NotOurs, match="name a new folder"):
        topicstream.export_model(_model(3), tmp_path / "mine", format="bed", force=True)


def test_genes_are_no_regions(tmp_path: Path) -> None:
    model = TopicModel.from_arrays(np.ones((2, 2), np.float32), ["Sox2", "Gapdh"], 0.1, 0.01)
    with pytest.raises(InputError, match="Sox2"):
        topicstream.export_model(model, tmp_path / "out", format="bed")
    assert not (tmp_path / "out").exists()


@pytest.mark.quick("True-3", "False-2")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("consolidated", [False, True])
def test_topics_go_into_a_copy_of_a_zarr_folder(
    tmp_path: Path, version: int, consolidated: bool
) -> None:
    rng = np.random.default_rng(0)
    counts = rng.poisson(1.0, (30, len(REGIONS)))
    counts[4] = 0
    raw = tmp_path / "cells.zarr"
    group = zarr.open_group(str(raw), mode="w", zarr_format=version)
    group.create_array("X", data=counts.astype(np.float32))
    for axis, names in (("obs", [f"c{i}" for i in range(30)]), ("var", REGIONS)):
        frame = group.create_group(axis)
        frame.attrs.update({"_index": "_index", "column-order": ["depth"] * (axis == "obs")})
        frame.create_array("_index", data=np.array(names, np.dtypes.StringDType()))
    group["obs"].create_array("depth", data=counts.sum(axis=1))
    if consolidated:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(str(raw))
    store = tmp_path / "store.zarr"
    topicstream.ingest(raw, store, heldout=0, progress=False)
    topicstream.train(store, tmp_path / "m", topics=3, passes=5, progress=False)
    before = {path: path.read_bytes() for path in raw.rglob("*") if path.is_file()}
    out = tmp_path / "out.zarr"
    for place in (out, tmp_path / "again.zarr"):
        summary = topicstream.export_model(
            tmp_path / "m", place, corpus=store, into=raw if place is out else out
        )
    assert summary["unknown_cells"] == 1
    assert {path: path.read_bytes() for path in before} == before
    answers = topicstream.infer(tmp_path / "m", store)
    shares = np.zeros((30, 3))
    for row in answers.to_pylist():
        shares[int(row["id"].removeprefix("c"))][row["topics"]] = row["shares"]
    for place in (out, tmp_path / "again.zarr"):
        copy = zarr.open_group(str(place), mode="r")
        assert copy["obsm/X_topic"][:] == pytest.approx(shares, abs=1e-6)
        assert copy["varm/topic"].shape == (len(REGIONS), 3)
        assert copy["uns/topicstream/program"][()].startswith("topicstream")
        assert copy["obs"].attrs["column-order"] == ["depth", "topics_are_prior"]
        assert copy["obs/topics_are_prior"][:].nonzero()[0].tolist() == [4]
        assert (copy["X"][:] == counts).all()
        assert dict(copy["obsm/X_topic"].attrs)["encoding-type"] == "array"
    with pytest.raises(NotOurs, match="name a new folder"):
        topicstream.export_model(tmp_path / "m", out, corpus=store, force=True)
    with pytest.raises(InputError, match=r"no Zarr folder; --out NAME\.h5ad"):
        topicstream.export_model(
            tmp_path / "m", tmp_path / "b.zarr", corpus=store, into=store / "manifest.json"
        )
    assert not (tmp_path / "b.zarr").exists()
    assert not list(tmp_path.glob(".*.tmp"))
    bare = tmp_path / "bare.zarr"
    topicstream.export_model(tmp_path / "m", bare, corpus=store)
    assert zarr.open_group(str(bare), mode="r")["obs/_index"][:].tolist()[0] == "c0"
