"""``topicstream.sweep``: train over numbers of topics, seeds, engines and options; score each; say which suits, and why.

Every training is chosen by one half of the held-out documents and reported on the other: the best of many is the lucky
one too, and its own score would flatter it.  The halves are by the documents' ids, the same for every run.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.optimize import linear_sum_assignment

from topicstream.arrow import pc
from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, StoreError, TopicsError, UsageError
from topicstream.evaluation.coherence import coherence, diversity
from topicstream.evaluation.keys import hash_strings
from topicstream.evaluation.matching import l1_distances
from topicstream.evaluation.memory import open_all_within, open_within
from topicstream.evaluation.per_document import score_documents
from topicstream.evaluation.topic_number import MEASURES, topic_number_measures
from topicstream.files import owned
from topicstream.files.durable import lock, write_bytes
from topicstream.files.ownership import check_place
from topicstream.model.seeds import read_seeds
from topicstream.options import configured
from topicstream.parallel.scheduler import connected, threads_of_worker
from topicstream.progress import listener
from topicstream.records import Count, Record, read_record, write_record
from topicstream.reporting.figures import Figure
from topicstream.selection.config import SweepConfig, names, numbers, values
from topicstream.text import render
from topicstream.training.loop import train

MOST_RUNS = 100_000
RECORD = "sweep.json"
TABLE = "sweep.parquet"


@dataclass(frozen=True)
class Run:
    """One training.  options: sorted pairs."""

    topics: int
    seed: int
    algo: str
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def setting(self) -> tuple[str, int, tuple[tuple[str, Any], ...]]:
        """What seeds share."""
        return self.algo, self.topics, self.options

    @property
    def name(self) -> str:
        """Of its folder."""
        tail = hashlib.sha256(json.dumps(self.options).encode()).hexdigest()[:8] if self.options else ""
        return "-".join(p for p in (self.algo, f"k{self.topics}", f"s{self.seed}", tail) if p)


def grid(
    topics: Sequence[int], seeds: int | Sequence[int], algo: Sequence[str], options: Mapping[str, Sequence[Any]]
) -> list[Run]:
    """All runs, in the order they are made: seeds last."""
    n_seeds = seeds if isinstance(seeds, int) else len(seeds)
    if (many := len(topics) * n_seeds * len(algo) * math.prod(map(len, options.values()))) > MOST_RUNS:
        raise UsageError(f"a sweep of {many:,} runs; {MOST_RUNS:,} at most")
    listed = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    names = sorted(options)
    settings = [tuple(zip(names, v, strict=True)) for v in itertools.product(*(options[n] for n in names))]
    runs = [Run(k, s, a, o) for a in algo for o in settings for k in topics for s in listed]
    if not runs or min(topics) < 1:
        raise UsageError("a sweep needs topics, seeds and an engine: -K 20,50,100 --seeds 3")
    return list(dict.fromkeys(runs))


Finite = Annotated[float, msgspec.Meta(gt=-1e300, lt=1e300)]


class Settings(Record, kw_only=True):
    """What all trainings of a sweep have in common (sweep.json)."""

    fingerprint: str
    passes: int | None = None
    tol: float | str | None = None
    seed_words: str | None = msgspec.field(default=None, name="seed-words")
    measures: bool = False
    kind: str = "sweep"


class Result(Record, kw_only=True):
    """A training of a sweep, and the score of each document that was set aside (results/NAME.json)."""

    engine: str | None = None
    passes: Count
    stopped: str
    seconds: Finite
    npmi: Finite
    diversity: Finite
    loglik: list[Finite]
    tokens: list[Finite]
    keys: list[Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{1,16}$")]]
    measures: dict[str, Finite] = {}

    def __post_init__(self) -> None:
        if not len(self.keys) == len(self.loglik) == len(self.tokens):
            raise ValueError("keys, loglik and tokens are not of one length")


@dataclass(frozen=True)
class Scores:
    """Documents set aside: keys of their ids uint64[D], log-likelihoods and tokens float64[D]."""

    keys: np.ndarray
    loglik: np.ndarray
    tokens: np.ndarray

    @cached_property
    def choosing(self) -> np.ndarray:
        """bool[D]: the half by which a setting is chosen."""
        return np.asarray((self.keys & np.uint64(1)) == 0)

    def perplexity(self, half: np.ndarray) -> float:
        """Of a half of the documents."""
        return float(np.exp(-self.loglik[half].sum() / max(float(self.tokens[half].sum()), 1e-300)))


@configured(SweepConfig)
def sweep(config: SweepConfig) -> dict[str, Any]:
    """Train every combination of topics, seeds and options into ``out/runs/``, score it, and write ``out/sweep.parquet``, a row a run.

    Killed, the same call resumes: finished runs are not made again.  Perplexity is document completion on held-out documents, one
    half of them for choosing, the other for reporting.  Stability is the mean over pairs of seeds of 1 - l1 / 2 between matched
    topics: 1 for the same topics, 0 for no word in common.

    Returns
    -------
    dict
        ``runs``: dicts with topics, seed, algo, options, passes, seconds, perplexity_choosing, perplexity_reported, npmi, diversity,
        stability, and with ``measures`` also arun_2010, cao_juan_2009 and mimno_2011 (``topicstream.evaluation.topic_number``);
        ``chosen``: one of them, with the reported perplexity of its setting; ``why``.

    Raises
    ------
    InputError
        Without held-out documents.
    TopicsError
        Where ``out`` is a sweep of another corpus.
    NotOurs
        Where ``out`` is not a sweep.

    Examples
    --------
    >>> swept = topicstream.sweep("corpus.zarr", "sweep", topics=[2, 4], seeds=1, passes=10, progress=False)
    >>> len(swept["runs"])
    2
    """
    store, folder, words = Corpus.open(config.corpus), Path(config.out), config.seed_words
    if store.part(True).docs < 4:
        raise InputError(f"{config.corpus}: no documents were set aside to choose by; ingest again with --heldout 5%")
    runs = grid(numbers(config.topics), config.seeds, names(config.algo), values(config.options or {}))
    check_place(folder, "--out", [config.corpus])
    seeds = None if words is None else hashlib.sha256(repr(read_seeds(words)).encode()).hexdigest()[:16]
    with lock(folder, "sweeping into", kind="sweep"):
        alike = {name: getattr(config, name) for name in ("passes", "tol", "measures")}
        _begin(folder, Settings(fingerprint=store.fingerprint, seed_words=seeds, **alike))
        scores, rows = {}, []
        if config.scheduler is not None:
            _train_on_workers([run for run in runs if not (folder / "results" / f"{run.name}.json").exists()], config)
        for position, run in enumerate(runs, 1):
            place = folder / "results" / f"{run.name}.json"
            if not place.exists():
                write_record(place, _trained(run, store, folder / "runs" / run.name, config))
            scores[run], row = _read(run, place)
            if not np.array_equal(scores[run].keys, scores[runs[0]].keys):
                raise StoreError(
                    f"{place}: scores of other documents than those of {runs[0].name}; remove the file to score again"
                )
            rows.append(row)
            if config.said is not None:
                config.said(*render("{position}/{runs} {name}: perplexity {perplexity_choosing:.1f}, NPMI {npmi:.3f}",
                                    {**row, "position": position, "runs": len(runs), "name": run.name}))  # fmt: skip
        for run, row in zip(runs, rows, strict=True):
            row["stability"] = _stability([r.name for r in runs if r.setting == run.setting], folder, config.mem_limit)
        chosen, why = choose(runs, scores, rows)
        names_of_columns = list(dict.fromkeys(n for row in rows for n in row))
        table = pa.table({n: pa.array([row.get(n) for row in rows]) for n in names_of_columns})
        file = io.BytesIO()
        pq.write_table(table, file)
        write_bytes(folder / TABLE, file.getvalue())
    return {"out": str(folder), "runs": rows, "chosen": chosen, "why": why}


def _begin(folder: Path, settings: Settings) -> None:
    """Remove what a killed sweep left; TopicsError where results there were made under other settings."""
    record = folder / RECORD
    if record.exists():
        before = read_record(record, Settings)
        for name in Settings.__struct_fields__:
            if getattr(before, name) != getattr(settings, name):
                other = "over another corpus" if name == "fingerprint" else f"with another --{name.replace('_', '-')}"
                raise TopicsError(f"{folder}: is a sweep {other}; name another folder with --out")
    else:
        write_record(record, settings)
    for name in ("runs", "results"):
        (folder / name).mkdir(exist_ok=True)
    owned.sweep(folder)
    owned.sweep(folder / "results")


def _train_on_workers(runs: Sequence[Run], config: SweepConfig) -> None:
    """Train and score runs on a cluster, each on one worker, which writes model and result; the longest first."""
    longest = sorted(runs, key=lambda run: -run.topics)
    words = config.seed_words
    with connected(config.scheduler, [config.corpus, config.out]) as cluster:
        there = replace(
            config, corpus=Path(config.corpus).absolute(), out=Path(config.out).absolute(), scheduler=None, progress=False, said=None,
            seed_words=Path(words).absolute() if isinstance(words, str | Path) else words, mem_limit=cluster.memory(config.memory),
        )  # fmt: skip
        for done, _ in enumerate(cluster.map(partial(_train_on_worker, config=there), longest), 1):
            listener(config.progress).step("trainings", done, len(longest), "trainings")


def _train_on_worker(run: Run, config: SweepConfig) -> None:
    place = Path(config.out) / "results" / f"{run.name}.json"
    config = replace(config, threads=threads_of_worker(config.threads))
    write_record(place, _trained(run, Corpus.open(config.corpus), Path(config.out) / "runs" / run.name, config))


def _trained(run: Run, store: Corpus, model: Path, config: SweepConfig) -> Result:
    """Train and score one run."""
    alike = {name: getattr(config, name) for name in ("passes", "tol", "seed_words", "threads", "mem_limit")}
    done = train(
        store.path, model, algo=run.algo, topics=run.topics, seed=run.seed, options=dict(run.options),
        progress=config.progress or False, **alike,
    )  # fmt: skip
    opened, workers = open_within(done.model, config.mem_limit, config.threads)
    _, table = score_documents(opened, store, threads=workers)
    scored = table.filter(pc.greater(table["tokens"], 0))
    words = coherence(opened, store, threads=workers)
    return Result(
        engine=opened.manifest.engine,
        passes=done.passes,
        stopped=done.reason,
        seconds=round(sum(float(r.get("seconds") or 0.0) for r in opened.history), 3),
        npmi=words.npmi if math.isfinite(words.npmi) else 0.0,
        diversity=diversity(opened),
        measures=topic_number_measures(opened, store, workers) if config.measures else {},
        keys=[f"{k:x}" for k in hash_strings(scored["id"].combine_chunks()).tolist()],
        loglik=scored["loglik"].to_pylist(),
        tokens=scored["tokens"].to_pylist(),
    )


def _read(run: Run, place: Path) -> tuple[Scores, dict[str, Any]]:
    """The scores of a run, and its row of the table; StoreError where the file is damaged."""
    result = read_record(place, Result, "Remove the file to train and score again")
    keys = np.array([int(key, 16) for key in result.keys], np.uint64)
    scores = Scores(keys, np.array(result.loglik, np.float64), np.array(result.tokens, np.float64))
    facts = {name: getattr(result, name) for name in ("diversity", "engine", "npmi", "passes", "seconds", "stopped")}
    return scores, {
        "topics": run.topics,
        "seed": run.seed,
        "algo": run.algo,
        **dict(run.options),
        **facts,
        **result.measures,
        "perplexity_choosing": scores.perplexity(scores.choosing),
        "perplexity_reported": scores.perplexity(~scores.choosing),
    }


def _stability(names: list[str], folder: Path, mem_limit: str | int | None) -> float | None:
    """How alike the topics of a setting are over its seeds; None of one seed."""
    found = []
    for pair in itertools.combinations(names, 2):
        (a, b), _ = open_all_within([folder / "runs" / name for name in pair], mem_limit, 1)
        distances = l1_distances(a, b)
        found.append(1.0 - float(distances[linear_sum_assignment(distances)].mean()) / 2.0)
    return float(np.mean(found)) if found else None


def choose(
    runs: Sequence[Run],
    scores: Mapping[Run, Scores],
    rows: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, Any], str]:
    """The setting with the fewest topics whose perplexity on the choosing half (mean over seeds) is within one standard
    error of the best's; the error is that of the documents' differences, paired.  Returns it and the reason in words."""
    settings = list(dict.fromkeys(r.setting for r in runs))
    mean: dict[Any, np.ndarray] = {}
    first, tokens = scores[runs[0]].choosing, scores[runs[0]].tokens
    for setting in settings:
        mean[setting] = np.mean([scores[r].loglik for r in runs if r.setting == setting], axis=0)
    total = float(tokens[first].sum())

    def nats(setting: Any, half: np.ndarray) -> float:
        return -float(mean[setting][half].sum()) / max(float(tokens[half].sum()), 1e-300)

    best = min(settings, key=lambda s: (nats(s, first), s[1]))
    near = []
    for setting in settings:
        difference = (mean[best] - mean[setting])[first]
        error = float(np.std(difference, ddof=1)) * math.sqrt(len(difference)) / total if len(difference) > 1 else 0.0
        if setting == best or nats(setting, first) - nats(best, first) <= error:
            near.append(setting)
    taken = min(near, key=lambda s: (s[1], nats(s, first)))
    mine = [dict(row) for run, row in zip(runs, rows, strict=True) if run.setting == taken]
    pick = min(mine, key=lambda r: r["perplexity_choosing"])
    reported = math.exp(nats(taken, ~first))
    chosen = {**pick, "perplexity_reported_mean": reported}
    words = f"{taken[1]} topics ({taken[0]}{''.join(f', {n} {v}' for n, v in taken[2])})"
    if taken == best:
        why = f"{words}: the lowest perplexity on the half of the held-out documents kept for choosing"
    else:
        why = (
            f"{words}: within one standard error of the lowest perplexity ({best[1]} topics, {best[0]}), with fewer topics, "
            "on the half of the held-out documents kept for choosing"
        )
    why += f"; on the other half {reported:.1f} (mean of {len(mine)} {'seed' if len(mine) == 1 else 'seeds'})"
    if taken[1] == max(s[1] for s in settings) and len({s[1] for s in settings}) > 1:
        why += "; it is the largest tried, more may be better"
    return chosen, why


OWN = {"topics", "seed", "algo", "engine", "passes", "stopped", "seconds", "npmi", "diversity", "stability", *MEASURES}


def _options(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The options that a sweep ran over."""
    return [n for n in rows[0] if n not in OWN and not n.startswith("perplexity")]


HEAD = (
    f"{'algo':10} {'topics':>6} {'seed':>4}  {'choosing':>9} {'reported':>9}  {'NPMI':>6} {'divers.':>7} {'stable':>6}"
)
ROW = (
    "{algo:10} {topics:>6} {seed:>4}  {perplexity_choosing:9.1f} {perplexity_reported:9.1f}  {npmi:6.3f} {diversity:7.2f}"
    " {stability:6.2f}"
)


def lines(result: dict[str, Any]) -> list[str]:
    """For people: a line a run, then the choice."""
    names = _options(result["runs"])
    measures = [name for name in MEASURES if name in result["runs"][0]]
    rows = [
        render(ROW, row)[0]
        + "".join(f"  {row[n]:>{len(n)}.4f}" for n in measures)
        + "".join(f"  {row.get(n)!s:>{len(n)}}" for n in names)
        for row in result["runs"]
    ]
    return ["  ".join([HEAD, *measures, *names]), *rows, result["why"]]


PANELS = (
    ("perplexity_reported", "held-out perplexity"),
    ("npmi", "NPMI coherence"),
    ("stability", "stability over seeds"),
)
MEASURE_PANELS = tuple(
    zip(MEASURES, ("Arun 2010 (lower is better)", "Cao-Juan 2009 (lower is better)", "Mimno 2011"), strict=True)
)


def plot_sweep(result: dict[str, Any], figure: Figure) -> None:
    """Perplexity (reported half), NPMI and stability against the number of topics, a line an engine and setting."""
    rows, options = result["runs"], _options(result["runs"])
    settings: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        settings.setdefault(" ".join([row["algo"], *(f"{n} {row.get(n)}" for n in options)]), []).append(row)
    panels = PANELS + MEASURE_PANELS if MEASURES[0] in rows[0] else PANELS
    axes = figure.panels(len(panels), across=3, size=(3.7, 3))
    for axis, (name, title) in zip(axes, panels, strict=True):
        for setting, mine in settings.items():
            points = [(row["topics"], row[name]) for row in mine if row.get(name) is not None]
            topics = sorted({k for k, _ in points})
            means = [float(np.mean([value for k, value in points if k == number])) for number in topics]
            (line,) = axis.plot(topics, means, marker="o", ms=3, lw=1.2, label=figure.text(setting))
            axis.scatter(*zip(*points, strict=True), s=6, color=line.get_color(), alpha=0.5) if points else None
        figure.titled(axis, title)
        axis.set_xlabel("topics")
    if len(settings) > 1:
        axes[0].legend(fontsize=6, frameon=False)
    figure.save()
