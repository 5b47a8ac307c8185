"""Sets of regions that belong to a topic, as BED files.

A region belongs to a topic where its score lies above Otsu's threshold, or among the first n. The
score is p(region | topic) times how far its logarithm lies above the mean over topics, which lowers
regions that are open in every topic (as pycisTopic has it).

References
----------
Otsu, "A threshold selection method from gray-level histograms", IEEE Trans. SMC 9 (1979).
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from topicstream.addons.cells.exchange import order_by_number
from topicstream.base.errors import InputError
from topicstream.base.files.inventory import is_listed
from topicstream.base.files.outputs import written
from topicstream.base.files.ownership import remove_file
from topicstream.base.records import Json
from topicstream.model.exchange import Export

BINS = 100
"""Bins of the histogram of scores."""
TINY = 1e-100
"""Added to probabilities before their logarithms."""
_REGION = re.compile(r"(?P<chromosome>\S+?)[:_-](?P<start>\d+)[-_](?P<end>\d+)")


class Region(NamedTuple):
    """A part of a chromosome, from ``start`` (counted from 0) to before ``end``."""

    chromosome: str
    start: int
    end: int


def parse_region(name: str) -> Region:
    """Read a region as programs name it: ``chr1:100-600``, ``chr1-100-600``, ``chr1_100_600``.

    Raises
    ------
    InputError
        For any other name.
    """
    match = _REGION.fullmatch(name)
    if match is None or int(match["start"]) >= int(match["end"]):
        raise InputError(
            f"--format bed: {name[:80]!r} is no region; features must be named like chr1:100-600"
        )
    return Region(match["chromosome"], int(match["start"]), int(match["end"]))


def score_regions(topics: np.ndarray) -> np.ndarray:
    """Score the regions of each topic from 0 to 1.

    Parameters
    ----------
    topics
        p(region | topic), float64[K, W].

    Returns
    -------
    ndarray
        float64[K, W]. A topic whose regions are all alike has zeros.
    """
    logs = np.log(topics + TINY)
    scores = topics * (logs - logs.mean(axis=0))
    scores -= scores.min(axis=1, keepdims=True)
    largest = scores.max(axis=1, keepdims=True)
    normalised: np.ndarray = scores / np.where(largest > 0, largest, 1)
    return normalised


def otsu_threshold(scores: np.ndarray) -> float:
    """Find the score that parts high from low ones best: the largest variance between both.

    Parameters
    ----------
    scores
        float64[W], from 0 to 1.
    """
    counts, edges = np.histogram(scores, BINS, (0.0, 1.0))
    centres = (edges[:-1] + edges[1:]) / 2
    below = np.cumsum(counts)[:-1].astype(np.float64)
    above = counts.sum() - below
    sums = np.cumsum(counts * centres)
    mean_below = sums[:-1] / np.maximum(below, 1)
    mean_above = (sums[-1] - sums[:-1]) / np.maximum(above, 1)
    between = below * above * (mean_below - mean_above) ** 2
    return float(centres[int(np.argmax(between))])


def choose_regions(scores: np.ndarray, most: int | None) -> np.ndarray:
    """Choose the regions of a topic: the first ``most``, or those above Otsu's threshold."""
    if most is None:
        return np.flatnonzero(scores > otsu_threshold(scores))
    order = np.argsort(-scores, kind="stable")[:most]
    return np.sort(order[scores[order] > 0])


def write_bed(job: Export) -> dict[str, Json]:
    """Write a BED file for each topic: chromosome, start, end, name and score (0 to 1000)."""
    regions = [parse_region(str(name)) for name in job.model.vocabulary.words.to_pylist()]
    scores = score_regions(job.model.topic_word[order_by_number(job.model)].astype(np.float64))
    sizes: dict[str, int] = {}
    names = {f"topic_{number}.bed" for number in job.numbers}
    for number, of_topic in zip(job.numbers, scores, strict=True):
        chosen = choose_regions(of_topic, job.words)
        ordered = sorted(chosen.tolist(), key=lambda i: regions[i])
        lines = []
        for i in ordered:
            place = "\t".join(map(str, regions[i]))
            lines.append(f"{place}\ttopic_{number}\t{round(1000 * of_topic[i])}\n")
        with written(job.path / f"topic_{number}.bed", force=job.force) as file:
            file.write("".join(lines).encode())
        sizes[str(number)] = len(lines)
    for older in job.path.glob("topic_*.bed"):  # of a model with more topics
        if older.name not in names and is_listed(older):
            remove_file(older)
    way = "above Otsu's threshold" if job.words is None else "of the highest scores"
    described = f"{min(sizes.values()):,} to {max(sizes.values()):,} regions a topic {way}"
    return {"topics": len(sizes), "regions": sizes, "described": described}
