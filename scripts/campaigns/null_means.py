"""Do the intervals of mean shares hold their level, and are their errors as large as a bootstrap's?

    python scripts/campaigns/null_means.py corpus.zarr=model [more.zarr=model ...]
                                           [--by labels] [--documents 2000] [--draws 200]

The documents of a store are a population, and so are those of each of the most frequent values of
--by. Corpora are drawn from it (of as many documents or of --documents, with replacement), and in
each a group of 1, 2, 5, 10, 30 and 50 % of the documents at random. The mean of the population is
known, so each interval that ``show --by`` would print is right or wrong. Of stores that were cut
(--split), documents are drawn with all of their parts. Years are drawn at random, too: a trend
beyond two standard errors is a false one. Prints Markdown tables; exit 1 when the intervals of a
share and size of group hold the mean in fewer than 93 % of the cases (by more than chance), or when
more than 6 % of the trends are false."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from measure import table

from topicstream.corpus.columns import flatten_lists
from topicstream.corpus.reader import Corpus
from topicstream.display.gather import PARENT
from topicstream.display.groups import Groups, Means
from topicstream.evaluation.metadata import Metadata
from topicstream.evaluation.visiting import BlockShares, document_shares
from topicstream.model.topic_model import TopicModel

SIZES = (0.01, 0.02, 0.05, 0.10, 0.30, 0.50)
BINS = (0.0, 0.01, 0.05, 0.15, 1.0)
NAMES = ("below 1 %", "1 to 5 %", "5 to 15 %", "above 15 %")
BOOTSTRAPPED = 5
"""Corpora of a population whose errors are compared with a bootstrap's."""
RESAMPLES = 300
YEARS = 20
FEWEST = 150
"""Documents of a value of --by from which on it is a population."""
LEAST_JUDGED = 200
"""Intervals from which on their coverage is judged."""


@dataclass
class Population:
    """Shares of documents' parts (of whole documents: of the documents), in order of documents.

    theta: float64[P, K];  begin: int64[D + 1], the parts of each document
    """

    name: str
    theta: np.ndarray
    begin: np.ndarray
    cut: bool

    def __len__(self) -> int:
        return len(self.begin) - 1

    def drawn(self, documents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give the parts of documents, int64[n], and the place of each part's document."""
        lengths = np.diff(self.begin)[documents]
        place = np.repeat(np.arange(len(documents)), lengths)
        offset = np.arange(len(place)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return self.begin[documents][place] + offset, place


@dataclass
class Tally:
    """Count the intervals of a kind of cell."""

    cells: int = 0
    shown: int = 0
    right: int = 0
    ratios: list[float] = field(default_factory=list)


def populations(pair: str, by: str | None) -> Iterator[Population]:
    """Read the documents of a store, and those of the most frequent values of a column."""
    place, _, model_place = pair.partition("=")
    corpus = Corpus.open(place)
    model = TopicModel.open(model_place)
    blocks = list(document_shares(model, corpus))
    theta = np.concatenate([block.shares for block in blocks]).astype(np.float64)
    counted = np.concatenate([block.counted for block in blocks])
    cut = bool((corpus.manifest.reading or {}).get("split"))
    columns = [PARENT] * cut + [by] * bool(by)
    rows, listed = Metadata(corpus, columns or ["id"]).read_rows(0, corpus.n_docs)
    counted &= listed
    wholes = np.arange(corpus.n_docs)
    if cut:
        names = np.array(rows[PARENT].to_pylist(), object)
        wholes = np.cumsum(np.append(True, names[1:] != names[:-1]))
    yield _population(Path(place).stem, theta, wholes, counted, cut)
    if by is None:
        return
    values, documents = flatten_lists(rows[by].combine_chunks())
    texts = np.array([text or "" for text in values.to_pylist()], object)
    distinct, sizes = np.unique(texts[texts != ""].astype(str), return_counts=True)
    for value in distinct[np.argsort(-sizes, kind="stable")[:12]].tolist():
        mine = np.zeros(corpus.n_docs, bool)
        mine[documents[texts == value]] = True
        if (mine & counted).sum() >= FEWEST:
            name = f"{Path(place).stem}, {by}"
            yield _population(name, theta, wholes, counted & mine, cut)


def _population(
    name: str, theta: np.ndarray, wholes: np.ndarray, chosen: np.ndarray, cut: bool
) -> Population:
    _, first = np.unique(wholes[chosen], return_index=True)
    return Population(name, theta[chosen], np.append(first, chosen.sum()), cut)


def means_of(population: Population, documents: np.ndarray) -> Means:
    """Average as ``show --by`` does, over one group of documents."""
    parts, place = population.drawn(documents)
    return _grouped(population, parts, place, np.zeros(len(parts), int), 1).means()


def _grouped(
    population: Population, parts: np.ndarray, place: np.ndarray, codes: np.ndarray, groups: int
) -> Groups:
    by = Groups(groups, population.theta.shape[1])
    for begin in range(0, len(parts), 1 << 14):
        some = slice(begin, begin + (1 << 14))
        shares = population.theta[parts[some]]
        block = BlockShares(begin, shares, np.ones(len(shares)))
        by.add(np.arange(len(shares)), codes[some], block, place[some] if population.cut else None)
    return by


def bootstrap(
    population: Population, documents: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Standard deviation of the mean over documents drawn again, float64[K]."""
    sums = np.add.reduceat(population.theta, population.begin[:-1], axis=0)[documents]
    lengths = np.diff(population.begin)[documents].astype(np.float64)
    n = len(documents)
    weights = rng.multinomial(n, np.full(n, 1 / n), RESAMPLES)
    return np.std((weights @ sums) / (weights @ lengths)[:, None], axis=0, ddof=1)


def judge(
    population: Population,
    documents: int,
    draws: int,
    rng: np.random.Generator,
    tallies: dict[tuple[int, int], Tally],
) -> None:
    """Draw corpora of so many documents, and judge the intervals of their groups."""
    truth = population.theta.mean(axis=0)
    bins = np.digitize(truth, BINS[1:-1])
    for draw in range(draws):
        for size, share in enumerate(SIZES):
            drawn = rng.integers(0, len(population), max(1, round(share * documents)))
            means = means_of(population, drawn)
            shown = np.isfinite(means.reach[0])
            right = shown & (np.abs(means.share[0] - truth) <= means.reach[0])
            ratio = None
            if draw < BOOTSTRAPPED and shown.any():
                ratio = means.error[0] / np.maximum(bootstrap(population, drawn, rng), 1e-12)
            for kind in np.unique(bins).tolist():
                mine = bins == kind
                tally = tallies.setdefault((kind, size), Tally())
                tally.cells += int(mine.sum())
                tally.shown += int((mine & shown).sum())
                tally.right += int((mine & right).sum())
                if ratio is not None:
                    tally.ratios += ratio[mine & shown].tolist()


def false_trends(population: Population, draws: int, rng: np.random.Generator) -> tuple[int, int]:
    """Count (trends beyond two standard errors, trends shown) of years at random."""
    false = 0
    shown = 0
    for _ in range(draws):
        documents = rng.integers(0, len(population), min(len(population), 2000))
        parts, place = population.drawn(documents)
        last = rng.integers(1, YEARS)  # which has more documents than the others
        years = np.minimum(rng.integers(0, YEARS, len(documents)), last)
        by = _grouped(population, parts, place, years[place], YEARS)
        slope, error = by.slope(np.arange(float(YEARS)))
        known = np.isfinite(error)
        shown += int(known.sum())
        false += int((np.abs(slope[known]) > 2 * error[known]).sum())
    return false, shown


def _lines(tallies: dict[tuple[int, int], Tally]) -> tuple[list[list[str]], bool]:
    """Rows of a table, and whether all of the cells hold."""
    rows = []
    holds = True
    for kind, name in enumerate(NAMES):
        for size, share in enumerate(SIZES):
            tally = tallies.get((kind, size))
            if tally is None:
                continue
            coverage = tally.right / tally.shown if tally.shown else np.nan
            ratio = np.median(tally.ratios) if tally.ratios else np.nan
            judged = tally.shown >= LEAST_JUDGED
            chance = 2 * np.sqrt(0.07 * 0.93 / max(1, tally.shown))
            holds &= not judged or coverage >= 0.93 - chance
            rows.append(
                [
                    name,
                    f"{100 * share:.0f} %",
                    f"{tally.cells:,}",
                    f"{100 * tally.shown / tally.cells:.1f} %",
                    f"{100 * coverage:.1f} %" if judged else "-",
                    f"{ratio:.2f}" if np.isfinite(ratio) else "-",
                ]
            )
    return rows, holds


def main() -> int:
    """Judge every population, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("pairs", nargs="+", metavar="STORE=MODEL")
    parser.add_argument("--by", help="a column whose values are populations, too")
    parser.add_argument("--documents", type=int, help="of a corpus (default: of the population)")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    results: dict[str, dict[tuple[int, int], Tally]] = {}
    trends: dict[str, list[int]] = {}
    for pair in args.pairs:
        for population in populations(pair, args.by):
            documents = args.documents or len(population)
            judge(population, documents, args.draws, rng, results.setdefault(population.name, {}))
            false, shown = false_trends(population, args.draws, rng)
            counts = trends.setdefault(population.name, [0, 0])
            counts[0] += false
            counts[1] += shown
    head = ["share", "group", "cells", "with an interval", "that hold", "error / bootstrap's"]
    good = True
    for name, tallies in results.items():
        rows, holds = _lines(tallies)
        false, shown = trends[name]
        rate = false / shown if shown else 0.0
        good &= holds and rate <= 0.06
        print(f"\n{name}: false trends {100 * rate:.1f} % of {shown:,}\n")
        table(head, rows)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
