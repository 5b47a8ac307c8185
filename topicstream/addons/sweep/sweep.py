"""``topicstream.sweep``: train over numbers of topics, seeds, engines and options.

It recommends a number of topics.

Every run is scored. Where the documents set aside have fewer than 20,000 tokens to score, every
training leaves out the same share of the training documents, which are scored as well. Every
training is chosen by one half of the held-out documents and reported on the other: the best of many
is the lucky one too, and its own score would flatter it. The halves are by the documents' ids, the
same for every run.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topicstream.addons.sweep.choosing import choose_setting
from topicstream.addons.sweep.config import SweepConfig, parse_seeds, values
from topicstream.addons.sweep.engines import AUTO, EngineChooser, settle_engine
from topicstream.addons.sweep.formulas import (
    OTHER_READS,
    READS,
    check_formulas,
    formula_values,
)
from topicstream.addons.sweep.judging import COVARIATES, Run, Scores, Setting, judge_settings
from topicstream.addons.sweep.picture import lines
from topicstream.addons.sweep.stability import (
    SeedAgreement,
    measure_agreement,
    topic_rows,
    write_consensus,
)
from topicstream.base.cluster import connected, scheduler_class, threads_of_worker
from topicstream.base.errors import InputError, TopicsError, UsageError
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import lock
from topicstream.base.files.outputs import check_place
from topicstream.base.options import configured, listed_names, numbers
from topicstream.base.progress import listener
from topicstream.base.records import Json, Record, read_record, write_record
from topicstream.base.shown import Summary
from topicstream.base.text import counted, render
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sample import select_rest
from topicstream.evaluation.coherence import coherence, diversity, exclusivity
from topicstream.evaluation.held_out import score_documents
from topicstream.evaluation.keys import hash_strings
from topicstream.evaluation.memory import open_within
from topicstream.evaluation.table_file import (
    SUFFIXES,
    TEXT_SUFFIXES,
    check_table_file,
    write_table,
)
from topicstream.evaluation.topic_number import MEASURES, topic_number_measures
from topicstream.model.seeds import read_seeds
from topicstream.model.topic_kinds import BACKGROUND, DEAD, counted_in_means
from topicstream.model.topic_model import TopicModel
from topicstream.training.loop import train
from topicstream.training.setup import engine_facts

MOST_RUNS = 100_000
SPLIT = 0.8
SCORED = 20_000
"""Tokens that decide between settings, where the corpus has them."""
MOST_ASIDE = 0.2
"""Largest share of the training documents that is set aside where the held-out ones are few."""
RECORD = "sweep.json"
TABLE = "sweep.parquet"
TOPICS = "topics.parquet"


def list_runs(
    topics: Sequence[int],
    seeds: Sequence[int],
    algo: Sequence[str],
    options: Mapping[str, Sequence[Any]],
) -> list[Run]:
    """List all runs in the order they are made, seeds last."""
    n_runs = len(topics) * len(seeds) * len(algo) * math.prod(map(len, options.values()))
    if n_runs > MOST_RUNS:
        raise UsageError(f"a sweep of {n_runs:,} runs; {MOST_RUNS:,} at most")
    names = sorted(options)
    settings = [
        tuple(zip(names, v, strict=True)) for v in itertools.product(*(options[n] for n in names))
    ]
    runs = [
        Run(k, seed, engine, setting)
        for engine, setting, k, seed in itertools.product(algo, settings, topics, seeds)
    ]
    if not runs or min(topics) < 1:
        raise UsageError("a sweep needs topics, seeds and an engine: -K 20,50,100 --seeds 3")
    return list(dict.fromkeys(runs))


class Settings(Record, kw_only=True):
    """The settings that all trainings of a sweep share (sweep.json)."""

    fingerprint: str
    passes: int | None = None
    tol: float | str | None = None
    seed_words: str | None = msgspec.field(default=None, name="seed-words")
    sample: float | None = None
    kind: str = "sweep"


class SweepSummary(Summary):
    """The runs of a sweep, the settings they tried, and the one that was chosen."""

    out: str
    runs: list[dict[str, Any]]
    settings: list[dict[str, Any]]
    chosen: dict[str, Any]
    why: str

    def table(self) -> pa.Table:
        """Tabulate the settings: a row each, a column per figure and one for its standard error."""
        rows = []
        for setting in self["settings"]:
            row: dict[str, Any] = {}
            for name, value in setting.items():
                if isinstance(value, Mapping) and "value" in value:
                    row |= {name: value["value"], f"{name}_se": value["error"]}
                elif name != "by_topic":
                    row[name] = value
            rows.append(row)
        names = list(dict.fromkeys(name for row in rows for name in row))
        return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})


@configured(SweepConfig)
def sweep(config: SweepConfig) -> SweepSummary:
    """Train every combination of topics, seeds and options, and score it.

    Models go into ``out/runs/``, and ``out/sweep.parquet`` has a row a run.

    Called again, it makes no training again that has finished, and scores them all. Perplexity is
    document completion on held-out documents, one half of them for choosing, the other for
    reporting. Stability is the mean over pairs of seeds of 1 - l1 / 2 between matched topics: 1 for
    the same topics, 0 for no word in common. Of several seeds of the chosen setting,
    ``out/consensus`` is a model of what they have in common, and ``out/topics.parquet`` says how
    stable each of its topics is.

    Returns
    -------
    dict
        ``runs``: dicts with topics, seed, algo, options, passes, seconds, perplexity_choosing,
        perplexity_reported, npmi, diversity, stability, and with ``measures`` also arun_2010,
        cao_juan_2009 and mimno_2011 (``topicstream.evaluation.topic_number``); ``settings``:
        dicts with algo, topics, options, seeds, dead (mean number of dead topics, which the figures
        leave out), and of perplexity, npmi, exclusivity, diversity and stability a dict of value,
        error (standard error; None: not known) and tie (within two standard errors of the best);
        ``chosen``: one of the runs, with the reported perplexity of its setting; ``why``;
        ``consensus``: dict, None of one seed.

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
    >>> swept = topicstream.sweep(
    ...     "corpus.zarr", "sweep", topics=[2, 4], seeds=1, passes=10, progress=False
    ... )
    >>> len(swept["runs"])
    2
    """
    folder = Path(config.out)
    _check_outputs(config)
    store = Corpus.open(config.corpus)
    words = config.seed_words
    runs = list_runs(
        numbers(config.topics),
        parse_seeds(config.seeds),
        listed_names(config.algo),
        {**values(config.options or {}), **formula_values(config.covariates)},
    )
    check_formulas(store, runs)
    sample = learned_share(store, runs)
    _check_heldout(store, sample, config)
    runs, reason = settle_engine(runs, store, sample, config)
    check_place(folder, "--out", [config.corpus])
    if config.scheduler is not None:
        scheduler_class(config.scheduler)  # refused before anything is written
    seeds = (
        None if words is None else hashlib.sha256(repr(read_seeds(words)).encode()).hexdigest()[:16]
    )
    with lock(folder, "sweeping into", kind="sweep"):
        alike = {name: getattr(config, name) for name in ("passes", "tol")}
        _prepare_folder(
            folder,
            Settings(fingerprint=store.fingerprint, seed_words=seeds, sample=sample, **alike),
        )
        scores, rows = _score_runs(runs, store, config)
        agreements = _measure_agreements(runs, rows, folder, config)
        setting, chosen, why = choose_setting(runs, scores, rows)
        _write_rows(rows, folder)
        consensus = (
            _build_consensus(setting, runs, agreements, store, sample, config)
            if setting in agreements
            else None
        )
    result: dict[str, Any] = dict(
        out=str(folder),
        runs=[_leave_topics_out(row) for row in rows],
        settings=_tabulate_settings(runs, scores, rows),
        options=sorted({name for run in runs for name, _ in run.options}),
        chosen=_leave_topics_out(chosen),
        why="; ".join(part for part in (why, reason, _describe_sample(sample)) if part),
        consensus=consensus,
    )
    summary = SweepSummary.printed_as(result, lines(result))
    if config.table is not None:
        write_table(
            summary.table(),
            config.table,
            option="--table",
            force=config.force,
            caption=f"Scores by setting, over {counted(len({run.seed for run in runs}), 'seed')}",
        )
    return summary


def _describe_sample(sample: float | None) -> str:
    """Describe what every run learned from, or return an empty string where it was all."""
    if sample is None:
        return ""
    return (
        f"each run trained on {sample:.0%} of the training documents and was also scored on the "
        f"other {1 - sample:.0%}"
    )


def _check_outputs(config: SweepConfig) -> None:
    """Refuse a table that cannot be written, or that was given as the folder."""
    folder = Path(config.out)
    if folder.suffix in (*SUFFIXES, *TEXT_SUFFIXES):
        raise UsageError(
            f"--out {folder}: is the folder of the models; --table {folder} writes the table"
        )
    if config.table is not None:
        check_table_file(config.table, "--table", force=config.force, text=True)


def _check_heldout(store: Corpus, sample: float | None, config: SweepConfig) -> None:
    """Refuse a store without documents to choose by, held out or set aside."""
    if sample is None and store.part(True).docs < 4:
        raise InputError(
            f"{config.corpus}: no held-out documents to choose by; ingest again with --heldout 5%"
        )


def _leave_topics_out(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a run without the figures of each topic."""
    return {name: value for name, value in row.items() if not name.endswith("_by_topic")}


def _write_rows(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    """Write a row a run to sweep.parquet, without the figures of each topic."""
    names = list(dict.fromkeys(name for row in rows for name in _leave_topics_out(row)))
    columns = {name: pa.array([row.get(name) for row in rows]) for name in names}
    write_table(pa.table(columns), folder / TABLE, force=True)


def _score_runs(
    runs: Sequence[Run], store: Corpus, config: SweepConfig
) -> tuple[dict[Run, Scores], list[dict[str, Any]]]:
    """Train every run, and collect its scores and its row of the table."""
    results = _train_runs(runs, store, config)
    scores: dict[Run, Scores] = {}
    rows = []
    for position, (run, (scores[run], row)) in enumerate(zip(runs, results, strict=True), 1):
        rows.append(row)
        if config.said is not None:
            config.said(
                *render(
                    "{position}/{runs} {name}: perplexity {perplexity_choosing:.1f} on the half "
                    "for choosing, NPMI "
                    "{npmi:.3f}[, {dead:topic} dead]",
                    {**row, "position": position, "runs": len(runs), "name": run.name},
                )
            )
    return scores, rows


def learned_share(store: Corpus, runs: Sequence[Run]) -> float | None:
    """Return the share of the training documents that every run learns from.

    None: all, because enough are held out, the user chose which, or an engine reads axes that
    cannot be sampled.
    """
    rule = store.manifest.heldout
    engines = {run.algo for run in runs} - {AUTO}
    if rule.where or rule.by or store.width or any(engine_facts(algo).axes for algo in engines):
        return None
    missing = round(SCORED / (1 - SPLIT)) - store.part(True).tokens
    if missing <= 0:
        return None
    aside = min(MOST_ASIDE, missing / max(store.part().tokens, 1))
    # a share of 1 would leave no documents to judge
    return min(0.999, round(1 - aside, 3))


def _measure_agreements(
    runs: Sequence[Run], rows: Sequence[dict[str, Any]], folder: Path, config: SweepConfig
) -> dict[Setting, SeedAgreement]:
    """Measure how the seeds of each setting agree, and add it to the rows.

    Settings of one seed are left out.
    """
    agreements = {}
    for setting in dict.fromkeys(run.setting for run in runs):
        places = [folder / "runs" / run.name for run in runs if run.setting == setting]
        if len(places) > 1:
            agreements[setting] = measure_agreement(places, config.mem_limit)
    for run, row in zip(runs, rows, strict=True):
        agreement_of_run = agreements.get(run.setting)
        row["stability"], row["stability_se"] = (
            (None, None)
            if agreement_of_run is None
            else (agreement_of_run.mean, agreement_of_run.error)
        )
    return agreements


def _tabulate_settings(
    runs: Sequence[Run], scores: Mapping[Run, Scores], rows: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Build a row for each setting, for JSON and the figure."""
    out = []
    for setting, figures in judge_settings(runs, scores, rows).items():
        rows_of_setting = [
            row for run, row in zip(runs, rows, strict=True) if run.setting == setting
        ]
        algo, topics, options = setting
        measures = {
            name: float(np.mean([row[name] for row in rows_of_setting]))
            for name in (*MEASURES, *READS)
            if name in rows_of_setting[0]
        }
        by_topic = {
            name: rows_of_setting[0][f"{name}_by_topic"]
            for name in ("npmi", "exclusivity", "kinds")
        }
        estimates = {name: asdict(estimate) for name, estimate in figures.items()}
        out.append(
            {
                "algo": algo,
                "topics": topics,
                **dict(options),
                "seeds": len(rows_of_setting),
                "dead": float(np.mean([row["dead"] for row in rows_of_setting])),
                **estimates,
                **measures,
                "by_topic": by_topic,
            }
        )
    return out


def _build_consensus(
    setting: Setting,
    runs: Sequence[Run],
    agreements: Mapping[Setting, SeedAgreement],
    store: Corpus,
    sample: float | None,
    config: SweepConfig,
) -> dict[str, Json]:
    """Write the consensus of the chosen setting's seeds, and what its topics are worth."""
    folder = Path(config.out)
    runs_of_setting = [run for run in runs if run.setting == setting]
    place = folder / "consensus"
    seeds = write_consensus(
        [folder / "runs" / run.name for run in runs_of_setting], agreements[setting], place
    )
    (opened,), workers = open_within([place], config.mem_limit, config.threads)
    write_table(topic_rows(opened, agreements[setting], seeds), folder / TOPICS, force=True)
    scores = _score_run(opened, store, sample, workers)
    words = coherence(opened, store, threads=workers)
    background = np.array(opened.kinds) == BACKGROUND
    half = ~Scores(np.array(scores.keys, np.uint64), scores.loglik, scores.tokens).choosing
    return {
        "model": str(place),
        "table": str(folder / TOPICS),
        "topics": opened.n_topics,
        "background_topic": opened.background_topic,
        "stable": int(((2 * seeds > len(runs_of_setting)) & ~background).sum()),
        "perplexity": scores.perplexity(half),
        "npmi": words.mean("npmi"),
        "dead": words.dead,
    }


def _prepare_folder(folder: Path, settings: Settings) -> None:
    """Record the settings and remove the leftovers of a killed sweep.

    Raises
    ------
    TopicsError
        If the results in the folder were made under other settings.
    """
    record = folder / RECORD
    if record.exists() and any((folder / "runs").glob("*")):
        before = read_record(record, Settings)
        for name in Settings.__struct_fields__:
            if getattr(before, name) != getattr(settings, name):
                other = (
                    "over another corpus"
                    if name == "fingerprint"
                    else f"with another --{name.replace('_', '-')}"
                )
                raise TopicsError(f"{folder}: is a sweep {other}; name another folder with --out")
    else:
        write_record(record, settings)
    (folder / "runs").mkdir(exist_ok=True)
    owned.sweep(folder)


Scored = tuple[Scores, dict[str, Any]]
"""The scores of a training, and its row of the table."""


def _train_runs(runs: Sequence[Run], store: Corpus, config: SweepConfig) -> Iterator[Scored]:
    """Train and score all runs, here or on a cluster."""
    if config.scheduler is not None:
        yield from _train_on_workers(runs, config)
        return
    for run in runs:
        yield _train_run(run, store, config)


def _train_on_workers(runs: Sequence[Run], config: SweepConfig) -> list[Scored]:
    """Train and score runs on a cluster, each on one worker, the longest first."""
    longest = sorted(runs, key=lambda run: -run.topics)
    words = config.seed_words
    results = {}
    with connected(config.scheduler, [config.corpus, config.out]) as cluster:
        worker_config = replace(
            config,
            corpus=Path(config.corpus).absolute(),
            out=Path(config.out).absolute(),
            scheduler=None,
            progress=False,
            said=None,
            seed_words=Path(words).absolute() if isinstance(words, str | Path) else words,
            mem_limit=cluster.memory(config.memory),
        )
        trained = cluster.map(partial(_train_on_worker, config=worker_config), longest)
        for run, result in zip(longest, trained, strict=True):
            results[run] = result
            listener(config.progress).step("trainings", len(results), len(longest), "trainings")
    return [results[run] for run in runs]


def _train_on_worker(run: Run, config: SweepConfig) -> Scored:
    """Train and score a run with the threads of a worker."""
    config = replace(config, threads=threads_of_worker(config.threads))
    return _train_run(run, Corpus.open(config.corpus), config)


def _train_run(run: Run, store: Corpus, config: SweepConfig) -> Scored:
    """Train a run, unless it has finished already, and score it."""
    alike = {
        name: getattr(config, name)
        for name in ("passes", "tol", "seed_words", "threads", "mem_limit")
    }
    sample = learned_share(store, [run])
    if run.engine:
        alike |= EngineChooser.for_sample(store, sample, config).keywords(run)
    else:
        options = {name: value for name, value in run.options if name != COVARIATES}
        alike |= {"algo": run.algo, "options": options}
    trained = train(
        store.path,
        Path(config.out) / "runs" / run.name,
        sample=sample,
        topics=run.topics,
        seed=run.seed,
        covariates=run.formula,
        progress=config.progress or False,
        **alike,
    )
    (opened,), workers = open_within([trained.model], config.mem_limit, config.threads)
    scores = _score_run(opened, store, sample, workers)
    facts: dict[str, Any] = {
        "diversity": diversity(opened),
        "engine": opened.manifest.engine,
        "passes": trained.passes,
        "seconds": round(sum(float(r.get("seconds") or 0.0) for r in opened.history), 3),
        "stopped": trained.reason,
        "dead": opened.kinds.count(DEAD),
        "kinds_by_topic": opened.kinds,
    }
    if COVARIATES in dict(run.options):
        for share in OTHER_READS:
            read = _score_run(opened, store, sample, workers, share)
            facts[f"perplexity_{100 * share:.0f}"] = read.perplexity(~read.choosing)
    return scores, {
        "topics": run.topics,
        "seed": run.seed,
        "algo": run.algo,
        **dict(run.options),
        **facts,
        **_describe_topics(opened, store, workers),
        **(topic_number_measures(opened, store, workers) if config.measures else {}),
        "perplexity_choosing": scores.perplexity(scores.choosing),
        "perplexity_reported": scores.perplexity(~scores.choosing),
    }


def _describe_topics(model: TopicModel, store: Corpus, workers: int) -> dict[str, Any]:
    """Measure coherence and exclusivity by topic, with their means and standard errors."""
    by_topic = {
        "npmi": coherence(model, store, threads=workers).by_topic("npmi"),
        "exclusivity": exclusivity(model).tolist(),
    }
    facts: dict[str, Any] = {}
    counts = counted_in_means(model.kinds)
    for name, values_of_topics in by_topic.items():
        pairs = zip(values_of_topics, counts, strict=True)
        values = [value for value, counted in pairs if counted and value is not None]
        several = len(values) > 1
        facts[f"{name}_by_topic"] = values_of_topics
        facts[name] = float(np.mean(values)) if values else None
        facts[f"{name}_se"] = (
            float(np.std(values, ddof=1)) / math.sqrt(len(values)) if several else None
        )
    return facts


def _score_run(
    model: TopicModel, store: Corpus, sample: float | None, workers: int, split: float = SPLIT
) -> Scores:
    """Score the held-out documents, and those not learned from, under a model."""
    parts = [(store, "heldout")] if store.part(True).docs else []
    parts += [] if sample is None else [(select_rest(store, sample), "train")]
    tables = [
        score_documents(model, corpus, part=part, split=split, threads=workers)[1]
        for corpus, part in parts
    ]
    table = pa.concat_tables(tables)
    scored = table.filter(pc.greater(table["tokens"], 0)).combine_chunks()
    keys = hash_strings(scored["id"].combine_chunks())
    return Scores(
        keys,
        scored["loglik"].to_numpy().astype(np.float64),
        scored["tokens"].to_numpy().astype(np.float64),
    )
