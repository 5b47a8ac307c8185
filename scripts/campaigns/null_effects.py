"""Does ``topics effects`` hold its level on real shares? Covariates at random, and planted ones.

    python scripts/campaigns/null_effects.py --data ../shared/data [--corpus news books]
        [--covariates normal s:year group5] [--draws 200] [--planted] [--retrained 20]
        [--work FOLDER]

Every corpus is ingested and trained once by the product (kept in --work), and its shares are read
once. For every draw documents get a covariate at random (all parts of a book the same), which the
product's regression is fitted to; nothing can be explained, so 5 % of the tests should find
something. A corpus whose files are absent is skipped. Seeds are fixed.

The table has, pooled over topics: tests that find something; 95 % intervals of predicted shares
that hold the mean share; coefficients without an interval, because too few documents carry them.

--planted   moves the share of one topic by 12 points in a group of documents, in each of them
            alike or in some by much, and prints how many are found and covered, and how many one
            pooled variance would find and cover
--retrained N   writes N corpora from the topics of the news model, with 12 points planted, and
            trains each anew: what the error of the topics adds
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import tempfile
import zlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import topicstream
from topicstream.addons.covariates.covariates import DocumentBlock, Topics, explain
from topicstream.addons.covariates.effects import Effects
from topicstream.addons.covariates.regression import reach
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.metadata import Metadata
from topicstream.evaluation.visiting import document_shares
from topicstream.model.formula import Covariate, Design, parse_formula

GROUPS = [f"group{share}" for share in (1, 2, 5, 10, 30, 50)]
CURVES = ["s:normal", "s:uniform", "s:lognormal", "s:year"]
KINDS = ["normal", "uniform", "lognormal", "year", *GROUPS, *CURVES]
PLANTED = 0.12
YEARS = (1990, 2015)


@dataclass(frozen=True)
class Shares:
    """What the regression reads of a corpus.

    shares   float[D, K]
    tokens   float64[D]
    wholes   the whole document of each
    alpha    float64[K]
    """

    shares: np.ndarray
    tokens: np.ndarray
    wholes: list[str]
    alpha: np.ndarray

    @cached_property
    def places(self) -> np.ndarray:
        """int64[D], the number of the whole document of each."""
        return np.unique(self.wholes, return_inverse=True)[1]

    @property
    def count(self) -> int:
        """Of whole documents."""
        return int(self.places.max()) + 1

    @cached_property
    def words_alone(self) -> np.ndarray:
        """The shares without the pull of the prior, float64[D, K]."""
        total = self.alpha.sum() + self.tokens[:, None]
        return np.asarray((total * self.shares - self.alpha) / self.tokens[:, None])


def records(path: Path, least: int, most: int, spacing: int, count: int) -> list[dict[str, str]]:
    """Texts of ``least`` to ``most`` words, every so many-th, at most ``count``."""
    chosen = []
    with gzip.open(path, "rt") as file:
        for line in file:
            text = json.loads(line)["text"]
            if least <= len(text.split()) <= most:
                chosen.append(text)
    chosen = chosen[::spacing][:count]
    return [{"id": str(i), "text": text} for i, text in enumerate(chosen)]


def planted_records(concentration: float, seed: int) -> list[dict[str, str]]:
    """600 documents of eight topics that share no word."""
    rng = np.random.default_rng(seed)
    texts = []
    for _ in range(600):
        shares = rng.dirichlet([concentration] * 8)
        topics = rng.choice(8, size=rng.integers(80, 300), p=shares)
        words = np.minimum(rng.geometric(0.02, len(topics)), 200)
        texts.append(" ".join(f"t{k}w{w}" for k, w in zip(topics, words, strict=True)))
    return [{"id": str(i), "text": text} for i, text in enumerate(texts)]


def texts_of(corpus: str, data: Path) -> tuple[list[dict[str, str]], int, dict[str, Any]]:
    """(documents, topics, options of ingest) of a corpus by its name."""
    if corpus == "smooth":
        return planted_records(1.0, 1), 8, {"min_df": 1}
    if corpus == "sparse":
        return planted_records(0.05, 2), 8, {"min_df": 1}
    if corpus == "news":
        return records(data / "reuters21578/docs.jsonl.gz", 20, 10**6, 3, 2_000), 20, {}
    if corpus == "groups":
        return records(data / "20news/docs.jsonl.gz", 20, 10**6, 9, 2_000), 20, {}
    if corpus == "long":
        return records(data / "enwiki/docs.jsonl.gz", 1_500, 4_000, 9, 280), 20, {}
    return records(data / "enwiki/docs.jsonl.gz", 4_000, 20_000, 8, 150), 20, {"split": "300 words"}


CORPORA = ["smooth", "sparse", "news", "groups", "long", "books"]


def shares_of(corpus: str, data: Path, work: Path) -> Shares:
    """Ingest and train a corpus, unless that was done, and read its shares once."""
    store = work / f"{corpus}.zarr"
    model = work / f"{corpus}.model"
    if not model.exists():
        texts, topics, options = texts_of(corpus, data)
        topicstream.ingest(texts, out=store, heldout=0, force=True, progress=False, **options)
        topicstream.train(store, model, topics=topics, seed=1, progress=False)
    trained = topicstream.TopicModel.open(model)
    stored = Corpus.open(store)
    column = "document" if corpus == "books" else "id"
    metadata = Metadata(stored, [column])
    blocks = list(document_shares(trained, stored))
    wholes: list[str] = []
    for block in blocks:
        wholes += metadata.read_rows(block.first, len(block.shares))[0][column].to_pylist()
    shares = np.concatenate([block.shares for block in blocks])
    tokens = np.concatenate([block.tokens for block in blocks])
    counted = np.concatenate([block.counted for block in blocks])
    chosen = np.array(wholes)[counted].tolist()
    return Shares(shares[counted], tokens[counted], chosen, trained.alpha)


def values_of(kind: str, count: int, rng: np.random.Generator) -> list[str]:
    """A covariate drawn at random, for so many documents."""
    if kind.startswith("group"):
        share = int(kind.removeprefix("group")) / 100
        inside = rng.choice(count, size=max(2, round(share * count)), replace=False)
        chosen = np.isin(np.arange(count), inside)
        return ["in" if one else "out" for one in chosen]
    if kind == "year":
        return [str(year) for year in rng.integers(*YEARS, count)]
    if kind == "normal":
        numbers = rng.normal(size=count)
    elif kind == "uniform":
        numbers = rng.uniform(size=count)
    else:
        numbers = rng.lognormal(size=count)
    return [f"{number:.9g}" for number in numbers]


def fitted(kind: str, of_wholes: list[str], read: Shares, shares: np.ndarray) -> Effects:
    """Fit the product's regression on a covariate of the whole documents."""
    terms = parse_formula("s(x)" if kind.startswith("s:") else "x")
    factor = terms[0][0]
    covariate = Covariate(factor.column, factor.df, "out" if "out" in of_wholes else None)
    values = {"x": [of_wholes[i] for i in read.places]}
    covariate.counts.update(values["x"])
    covariate.choose_coding()
    design = Design(terms, {factor: covariate})
    block = DocumentBlock(values, shares, read.tokens, read.wholes)
    k = shares.shape[1]
    topics = Topics(np.arange(k), [str(i) for i in range(k)], read.alpha, float(read.alpha.sum()))
    # a single covariate leaves nothing to average a prediction over
    sample = {"x": sorted(set(values["x"]))[:2] if covariate.levels else values["x"][:1]}
    return explain(kind, design, [block], topics, sample)


def numbers(table: pa.Table, name: str) -> np.ndarray:
    """A column of a table."""
    return table[name].to_numpy(zero_copy_only=False).astype(np.float64)


@dataclass
class Tally:
    """What the draws of a cell came to: a list of booleans for each question."""

    significant: list[np.ndarray] = field(default_factory=list)
    covered: list[np.ndarray] = field(default_factory=list)
    refused: list[np.ndarray] = field(default_factory=list)

    def add(self, effects: Effects, means: np.ndarray, *, curve: bool) -> None:
        """Count a draw: means float64[K] are what the predictions should hold."""
        if curve:
            p = numbers(effects.tests(), "p")
            self.refused.append(np.isnan(p))
            self.significant.append(p[np.isfinite(p)] < 0.05)
        else:
            table = effects.table()
            low, high = (numbers(table, name) for name in ("low", "high"))
            slopes = np.arange(len(low)) % len(effects.coefficients.names) > 0
            self.refused.append(np.isnan(low[slopes]))
            known = slopes & np.isfinite(low)
            self.significant.append((low[known] > 0) | (high[known] < 0))
        low, high = (numbers(effects.predictions, name) for name in ("low", "high"))
        mean = means[numbers(effects.predictions, "topic").astype(int)]
        known = np.isfinite(low)
        self.covered.append((low[known] <= mean[known]) & (mean[known] <= high[known]))

    def cells(self) -> list[str]:
        """Percentages of a row of the table."""
        return [percent(part) for part in (self.significant, self.covered, self.refused)]


def percent(parts: list[np.ndarray]) -> str:
    """The share of what is true, in percent; a dash where there is nothing."""
    every = np.concatenate([np.atleast_1d(part) for part in parts])
    return f"{100 * every.mean():.1f}" if len(every) else "-"


def print_row(cells: list[str]) -> None:
    """Print a row of a Markdown table at once."""
    print("| " + " | ".join(cells) + " |", flush=True)


def null_rows(corpus: str, read: Shares, kinds: list[str], draws: int) -> None:
    """Print a row for each kind of covariate."""
    weights = read.tokens / (read.alpha.sum() + read.tokens)
    means = (weights[:, None] * read.words_alone).sum(axis=0) / weights.sum()
    for kind in kinds:
        rng = np.random.default_rng(zlib.crc32(f"{corpus} {kind}".encode()))
        tally = Tally()
        for _ in range(draws):
            values = values_of(kind.removeprefix("s:"), read.count, rng)
            effects = fitted(kind, values, read, read.shares)
            tally.add(effects, means, curve=kind.startswith("s:"))
        print_row([corpus, kind, *tally.cells()])


def moved(
    read: Shares, topic: int, inside: np.ndarray, uneven: bool, rng: np.random.Generator
) -> np.ndarray:
    """Shares with 12 points more of a topic in some documents, at the cost of the others."""
    part = PLANTED / (1.0 - read.words_alone[:, topic].mean())
    parts = np.full(read.count, part)
    if uneven:
        parts = rng.beta(0.3, 0.3 * (1 - part) / part, read.count)
    parts = np.where(inside, parts, 0.0)[read.places, None]
    target = np.eye(read.shares.shape[1])[topic]
    alone = (1.0 - parts) * read.words_alone + parts * target
    total = read.alpha.sum() + read.tokens[:, None]
    return np.asarray((alone * read.tokens[:, None] + read.alpha) / total)


def planted_rows(corpus: str, read: Shares, kinds: list[str], draws: int) -> None:
    """Print a row for each group and way of planting."""
    for kind in [kind for kind in kinds if kind.startswith("group")]:
        for uneven in (False, True):
            rng = np.random.default_rng(zlib.crc32(f"{corpus} {kind} {uneven}".encode()))
            tallies: dict[str, list[np.ndarray]] = {
                name: [] for name in ("found", "covered", "pooled found", "pooled covered")
            }
            for draw in range(draws):
                values = values_of(kind, read.count, rng)
                topic = draw % read.shares.shape[1]
                inside = np.array(values) == "in"
                effects = fitted(kind, values, read, moved(read, topic, inside, uneven, rng))
                if effects.reasons[1]:
                    continue
                fit = effects.coefficients
                estimate = fit.estimates[1, topic]
                distance = fit.reaches[1, topic]
                pooled = reach(fit.residual_freedom) * fit.pooled[topic, 1, 1] ** 0.5
                tallies["found"].append(estimate > distance)
                tallies["covered"].append(abs(estimate - PLANTED) < distance)
                tallies["pooled found"].append(estimate > pooled)
                tallies["pooled covered"].append(abs(estimate - PLANTED) < pooled)
            if tallies["found"]:
                cells = [percent(tally) for tally in tallies.values()]
                print_row([corpus, kind, "uneven" if uneven else "alike", *cells])


def retrained(work: Path, data: Path, count: int) -> None:
    """Write corpora from the topics of the news model with 12 points planted; train each anew."""
    read = shares_of("news", data, work)
    trained = topicstream.TopicModel.open(work / "news.model")
    words = np.array(trained.words)
    chances = np.asarray(trained.topic_word, np.float64)
    errors = []
    known_errors = []
    covered = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        topic = seed % len(chances)
        inside = rng.random(read.count) < 0.5
        shares = np.clip(moved(read, topic, inside, True, rng), 0.0, None)
        shares /= shares.sum(axis=1, keepdims=True)
        chosen = inside[read.places]
        truth = shares[chosen, topic].mean() - shares[~chosen, topic].mean()
        texts = []
        for i, row in enumerate(shares):
            chance = row @ chances
            drawn = rng.multinomial(int(read.tokens[i]), chance / chance.sum())
            text = " ".join(np.repeat(words, drawn))
            group = "in" if chosen[i] else "out"
            texts.append({"id": str(i), "text": text, "x": group})
        with tempfile.TemporaryDirectory(dir=work) as folder:
            store = f"{folder}/corpus.zarr"
            model = f"{folder}/model"
            topicstream.ingest(
                texts, out=store, meta=["x"], heldout=0, min_df=1, stopwords="none", progress=False
            )
            topicstream.train(store, model, topics=len(chances), seed=seed, progress=False)
            effects = topicstream.effects("x", model, store, reference="x=out", progress=False)
            known = topicstream.effects(
                "x", work / "news.model", store, reference="x=out", progress=False
            )
            anew = topicstream.TopicModel.open(model)
            found = np.zeros((anew.n_topics, len(words)))
            place = {word: i for i, word in enumerate(trained.words)}
            found[:, [place[word] for word in anew.words]] = anew.topic_word
        alike = found @ chances[topic] / np.linalg.norm(found, axis=1)
        best = int(alike.argmax())
        estimate = effects.coefficients.estimates[1, best]
        errors.append(estimate - truth)
        known_errors.append(known.coefficients.estimates[1, topic] - truth)
        covered.append(abs(estimate - truth) < effects.coefficients.reaches[1, best])
    held = 100 * np.mean(covered)
    print(f"\n{count} corpora trained anew: bias {np.mean(errors):+.3f}, covered {held:.0f} %")
    print(f"with the topics that they were written from: bias {np.mean(known_errors):+.3f}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--work", type=Path)
    parser.add_argument("--corpus", nargs="+", choices=CORPORA, default=CORPORA)
    parser.add_argument("--covariates", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--planted", action="store_true")
    parser.add_argument("--retrained", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        head = ["significant, %", "means covered, %", "no interval, %"]
        if options.planted:
            head = ["planted", "found, %", "covered, %", "pooled: found, %", "covered, %"]
        print_row(["corpus", "covariate", *head])
        print_row(["---"] * (2 + len(head)))
        for corpus in options.corpus:
            try:
                read = shares_of(corpus, options.data, work)
            except FileNotFoundError as error:
                print(f"{corpus}: skipped, {error.filename} is absent", file=sys.stderr)
                continue
            rows = planted_rows if options.planted else null_rows
            rows(corpus, read, options.covariates, options.draws)
        if options.retrained:
            retrained(work, options.data, options.retrained)


if __name__ == "__main__":
    main()
