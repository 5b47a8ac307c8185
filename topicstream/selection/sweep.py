"""``topicstream.sweep``: train over numbers of topics, seeds, engines and options; score each; say which suits, and why.

Every training is chosen by one half of the held-out documents and reported on the other: the best of many is the lucky
one too, and its own score would flatter it.  The halves are by the documents' ids, the same for every run.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.optimize import linear_sum_assignment

from topicstream.arrow import pc
from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, StoreError, TopicsError, UsageError
from topicstream.evaluation.coherence import coherence, diversity
from topicstream.evaluation.keys import hash_strings
from topicstream.evaluation.matching import l1_distances
from topicstream.evaluation.memory import open_all_within, open_within
from topicstream.evaluation.per_document import score_documents
from topicstream.files import owned
from topicstream.files.durable import lock, read_json, write_bytes, write_json
from topicstream.files.ownership import check_place
from topicstream.model.manifest import count, listed, number, text
from topicstream.model.seeds import read_seeds
from topicstream.model.topic_model import TopicModel
from topicstream.options import configured
from topicstream.progress import Told
from topicstream.selection.config import SweepConfig, names, numbers, values
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
        raise UsageError(f"a sweep of {many:,} runs cannot be meant; {MOST_RUNS:,} at most")
    listed = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    names = sorted(options)
    settings = [tuple(zip(names, v, strict=True)) for v in itertools.product(*(options[n] for n in names))]
    runs = [Run(k, s, a, o) for a in algo for o in settings for k in topics for s in listed]
    if not runs or min(topics) < 1:
        raise UsageError("a sweep needs topics, seeds and an engine: -K 20,50,100 --seeds 3")
    return list(dict.fromkeys(runs))


@configured(SweepConfig)
def sweep(config: SweepConfig) -> dict[str, Any]:
    """Train every combination into ``out/runs/``, score it, and write ``out/sweep.parquet``, a row a run.

    Killed, the same call carries on: finished runs are not made again.  Returns ``runs`` (plain rows: topics, seed, algo,
    options, passes, seconds, perplexity_choosing, perplexity_reported, npmi, diversity, stability), ``chosen`` (a row, with
    the reported perplexity of its setting) and ``why``.

    perplexity   document completion on the documents set aside, one half of them for choosing, the other for reporting
    stability    mean over pairs of seeds of 1 - l1 / 2 between matched topics: 1 the same topics, 0 no word in common

    Raises InputError without held-out documents, TopicsError where ``out`` is a sweep of another corpus, NotOurs where it
    is another's.
    """
    store = Corpus.open(config.corpus)
    if store.part(True)["docs"] < 4:
        raise InputError(f"{config.corpus}: no documents were set aside to choose by; ingest again with --heldout 5%")
    runs = grid(numbers(config.topics), config.seeds, names(config.algo), values(config.options or {}))
    folder = Path(config.out)
    check_place(folder, "--out", [config.corpus])
    with lock(folder, "sweeping into", kind="sweep"):
        words = config.seed_words
        told = None if words is None else hashlib.sha256(repr(read_seeds(words)).encode()).hexdigest()[:16]
        alike = {"passes": config.passes, "tol": config.tol}
        _begin(folder, {"fingerprint": store.fingerprint, **alike, "seed-words": told})
        given = {**alike, "seed_words": words, "threads": config.threads, "mem_limit": config.mem_limit}
        return _sweep(runs, folder, store, given, config.progress, config.said)


def _begin(folder: Path, settings: dict[str, Any]) -> None:
    """Sweep what a killed one left, and see that results there were made under the same settings."""
    record = folder / RECORD
    if record.exists():
        before = read_json(record)
        if not isinstance(before, dict):
            raise StoreError(f"{record}: is no record of a sweep; restore the file, or remove {folder}")
        for name, value in settings.items():
            if before.get(name) != value:
                other = "over another corpus" if name == "fingerprint" else f"with another --{name}"
                raise TopicsError(f"{folder}: is a sweep {other}; name another folder with --out")
    else:
        write_json(record, {"kind": "sweep", **settings})
    for name in ("runs", "results"):
        (folder / name).mkdir(exist_ok=True)
    owned.sweep(folder)
    owned.sweep(folder / "results")


def _sweep(
    runs: list[Run],
    folder: Path,
    store: Corpus,
    given: dict[str, Any],
    progress: Told,
    said: Callable[[str], None] | None,
) -> dict[str, Any]:
    """given: what every training is told alike, by the names of ``train``."""
    logliks: dict[Run, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
    rows: list[dict[str, Any]] = []
    for position, run in enumerate(runs, 1):
        place = folder / "results" / f"{run.name}.json"
        if not place.exists():
            facts = _one(run, store, folder / "runs" / run.name, given, progress)
            write_json(place, facts)
        facts = _result(place)
        keys = np.array([int(k, 16) for k in facts.pop("keys")], np.uint64)
        logliks[run] = keys, np.array(facts.pop("loglik"), np.float64), np.array(facts.pop("tokens"), np.float64)
        if not np.array_equal(keys, logliks[runs[0]][0]):
            raise StoreError(f"{place}: scores of other documents than those of {runs[0].name}; remove the file to score again")
        first = (keys & np.uint64(1)) == 0
        _, loglik, tokens = logliks[run]
        row = {
            "topics": run.topics,
            "seed": run.seed,
            "algo": run.algo,
            **dict(run.options),
            **facts,
            "perplexity_choosing": _perplexity(loglik[first], tokens[first]),
            "perplexity_reported": _perplexity(loglik[~first], tokens[~first]),
        }
        rows.append(row)
        if said is not None:
            said(
                f"{position}/{len(runs)} {run.name}: perplexity {row['perplexity_choosing']:.1f}, NPMI {row['npmi']:.3f}"
            )
    for setting, value in _stability(runs, folder, given["mem_limit"]).items():
        for run, row in zip(runs, rows, strict=True):
            if run.setting == setting:
                row["stability"] = value
    chosen, why = choose(runs, logliks, rows)
    _write(rows, folder / TABLE)
    return {"out": str(folder), "runs": rows, "chosen": chosen, "why": why}


_KEY = re.compile(r"[0-9a-f]{1,16}")


def _finite(value: Any) -> bool:
    return number(value) and abs(value) < 1e300


_FACTS = {"passes": count, "stopped": text, "seconds": _finite, "npmi": _finite, "diversity": _finite, "loglik": listed(_finite),
          "tokens": listed(_finite), "keys": listed(lambda k: text(k) and _KEY.fullmatch(k) is not None)}  # fmt: skip


def _result(place: Path) -> dict[str, Any]:
    """What ``_one`` wrote; StoreError where it is not."""
    facts: dict[str, Any] = read_json(place)
    good = isinstance(facts, dict) and set(_FACTS) <= set(facts) and all(test(facts[n]) for n, test in _FACTS.items())
    good = good and (facts.get("engine") is None or text(facts["engine"]))
    if not good or not len(facts["keys"]) == len(facts["loglik"]) == len(facts["tokens"]):
        raise StoreError(f"{place}: is not what a training of a sweep left; remove the file to train and score again")
    facts |= {n: float(facts[n]) for n in ("seconds", "npmi", "diversity")}
    return {n: facts.get(n) for n in sorted((*_FACTS, "engine"))}


def _one(run: Run, store: Corpus, model: Path, given: dict[str, Any], progress: Told) -> dict[str, Any]:
    done = train(
        store.path,
        model,
        algo=run.algo,
        topics=run.topics,
        seed=run.seed,
        options=dict(run.options),
        progress=progress or False,
        **given,
    )
    opened, workers = open_within(done.model, given["mem_limit"], given["threads"])
    _, table = score_documents(opened, store, threads=workers)
    scored = table.filter(pc.greater(table["tokens"], 0))
    words = coherence(opened, store, threads=workers)
    return {
        "engine": opened.manifest.get("engine"),
        "passes": done.passes,
        "stopped": done.reason,
        "seconds": round(sum(float(r.get("seconds") or 0.0) for r in opened.history), 3),
        "npmi": words.npmi if math.isfinite(words.npmi) else 0.0,
        "diversity": diversity(opened),
        "keys": [f"{k:x}" for k in hash_strings(scored["id"].combine_chunks()).tolist()],
        "loglik": scored["loglik"].to_pylist(),
        "tokens": scored["tokens"].to_pylist(),
    }


def _perplexity(loglik: np.ndarray, tokens: np.ndarray) -> float:
    return float(np.exp(-loglik.sum() / max(float(tokens.sum()), 1e-300)))


def _stability(runs: Sequence[Run], folder: Path, mem_limit: str | int | None) -> dict[Any, float | None]:
    out: dict[Any, float | None] = {}
    for setting in dict.fromkeys(r.setting for r in runs):
        names = [r.name for r in runs if r.setting == setting]
        place = folder / "results" / f"stability-{hashlib.sha256(' '.join(names).encode()).hexdigest()[:16]}.json"
        if len(names) > 1 and not place.exists():
            values = []
            for a, b in itertools.combinations(names, 2):
                (one, two), _ = open_all_within([folder / "runs" / n for n in (a, b)], mem_limit, 1)
                values.append(_matched(one, two))
            write_json(place, {"stability": float(np.mean(values))})
        found = read_json(place) if len(names) > 1 else {"stability": 0.0}
        if not isinstance(found, dict) or not number(found.get("stability")):
            raise StoreError(f"{place}: holds no stability; remove the file to measure again")
        out[setting] = found["stability"] if len(names) > 1 else None
    return out


def _matched(a: TopicModel, b: TopicModel) -> float:
    distances = l1_distances(a, b)
    rows, columns = linear_sum_assignment(distances)
    return float(1.0 - distances[rows, columns].mean() / 2.0)


def choose(
    runs: Sequence[Run],
    scores: Mapping[Run, tuple[np.ndarray, np.ndarray, np.ndarray]],
    rows: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, Any], str]:
    """The setting with the fewest topics whose perplexity on the choosing half (mean over seeds) is within one standard
    error of the best's; the error is that of the documents' differences, paired.  Returns it and the reason in words."""
    settings = list(dict.fromkeys(r.setting for r in runs))
    mean: dict[Any, np.ndarray] = {}
    keys, _, tokens = scores[runs[0]]
    first = (keys & np.uint64(1)) == 0
    for setting in settings:
        mean[setting] = np.mean([scores[r][1] for r in runs if r.setting == setting], axis=0)
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


def _write(rows: list[dict[str, Any]], path: Path) -> None:
    import io

    import pyarrow.parquet as pq

    names = list(dict.fromkeys(n for row in rows for n in row))
    out = io.BytesIO()
    pq.write_table(pa.table({n: pa.array([row.get(n) for row in rows]) for n in names}), out)
    write_bytes(path, out.getvalue())


OWN = {"topics", "seed", "algo", "engine", "passes", "stopped", "seconds", "npmi", "diversity", "stability"}


def _options(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The options that a sweep ran over."""
    return [n for n in rows[0] if n not in OWN and not n.startswith("perplexity")]


def lines(result: dict[str, Any]) -> list[str]:
    """For people: a line a run, then the choice."""
    names = _options(result["runs"])
    head = f"{'algo':10} {'topics':>6} {'seed':>4}  {'choosing':>9} {'reported':>9}  {'NPMI':>6} {'divers.':>7} {'stable':>6}"
    out = ["  ".join([head, *names])]
    for r in result["runs"]:
        stable = f"{r['stability']:6.2f}" if r.get("stability") is not None else "     –"
        out.append(
            f"{r['algo']:10} {r['topics']:>6} {r['seed']:>4}  {r['perplexity_choosing']:9.1f} {r['perplexity_reported']:9.1f}  "
            f"{r['npmi']:6.3f} {r['diversity']:7.2f} {stable}" + "".join(f"  {r.get(n)!s:>{len(n)}}" for n in names)
        )
    return [*out, result["why"]]


def plot(result: dict[str, Any], path: str | Path, *, force: bool = False) -> None:
    """Perplexity (reported half), NPMI and stability against the number of topics, a line an engine and setting."""
    from topicstream.reporting.over_time import figure_file, save_figure

    place, pyplot = figure_file(path, force=force)
    rows = result["runs"]
    options = _options(rows)
    kinds = list(dict.fromkeys((r["algo"], *(r.get(n) for n in options)) for r in rows))
    figure, axes = pyplot.subplots(1, 3, figsize=(11, 3))
    panels = (
        ("perplexity_reported", "held-out perplexity"),
        ("npmi", "NPMI coherence"),
        ("stability", "stability over seeds"),
    )
    for axis, (name, title) in zip(axes, panels, strict=True):
        for kind in kinds:
            mine = [r for r in rows if (r["algo"], *(r.get(n) for n in options)) == kind and r.get(name) is not None]
            at = sorted({r["topics"] for r in mine})
            if at:
                means = [float(np.mean([r[name] for r in mine if r["topics"] == k])) for k in at]
                (line,) = axis.plot(
                    at,
                    means,
                    marker="o",
                    ms=3,
                    lw=1.2,
                    label=" ".join([kind[0], *(f"{n} {v}" for n, v in zip(options, kind[1:]))]).replace("$", r"\$"),
                )
                axis.scatter(
                    [r["topics"] for r in mine], [r[name] for r in mine], s=6, color=line.get_color(), alpha=0.5
                )
        axis.set_title(title, loc="left", fontsize=8)
        axis.set_xlabel("topics")
        axis.spines[["top", "right"]].set_visible(False)
    if len(kinds) > 1:
        axes[0].legend(fontsize=6, frameon=False)
    figure.tight_layout()
    save_figure(figure, place, force=force)
