"""``topicstream.evaluate``: one judge for every model, whoever trained it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from topicstream.base.cluster import Cluster, connected_within
from topicstream.base.errors import UsageError, show_addresses
from topicstream.base.options import openly_configured
from topicstream.base.progress import listener
from topicstream.base.shown import Summary
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.config import EvalConfig
from topicstream.evaluation.keys import check_payload, describe_mismatch, open_other_corpus
from topicstream.evaluation.memory import open_within
from topicstream.evaluation.scoring import (
    Chosen,
    Entry,
    Scoring,
    check_options,
    choose_scorers,
    model_kind,
    scorers,
)
from topicstream.inference.methods import find_method, method_of
from topicstream.model.manifest import read_manifest
from topicstream.model.topic_model import TopicModel

READING = ("format", "text_field", "id_field")
"""Options of reading raw documents."""
NONE_ASIDE = "no documents were set aside at ingest (--heldout 1%): no held-out perplexity"


def parse_split(text: str | float) -> float:
    """Parse ``80/20``, ``0/100`` or a share such as 0.8 to the observed share.

    Raises
    ------
    UsageError
        The text is no such split.
    """
    try:
        observed, _, scored = str(text).partition("/")
        share = float(observed)
        if scored:
            share = share / (share + float(scored))
    except (ValueError, ZeroDivisionError):
        share = math.nan
    if not 0.0 <= share < 1.0:
        raise UsageError(
            f"--split {text}: expected observed and scored shares, such as 80/20, or 0/100 to read "
            f"nothing of a document"
        )
    return share


class EvalSummary(Summary):
    """The scores of a model, by scorer.

    A scorer's entry is a dict, such as ``scores.heldout["perplexity"]``.
    """

    model: str
    heldout: dict[str, Any]
    coherence: dict[str, Any]
    diversity: dict[str, Any]


@openly_configured(EvalConfig)
def evaluate(config: EvalConfig) -> EvalSummary:
    """Score a model on a corpus.

    Without further options: held-out perplexity (if documents were set aside), coherence and
    diversity. Options of the scorers are keywords, too: ``coherent``, ``diverse``, ``training`` ...
    (``topics eval --help`` describes them). Edits (``topics edit``) apply to coherence and
    diversity. Perplexity is that of the trained table. The result does not depend on threads.

    Returns
    -------
    dict
        For each score (``topicstream.base.plugins``, SCORERS) a dict whose ``measured`` says in
        words what was measured. Perplexity is exp(nats_per_token).

    Raises
    ------
    StoreError
        The model or the store is missing or damaged.
    InputError
        There is nothing to score.
    DoesNotFit
        The memory limit is too small.

    Examples
    --------
    >>> scores = topicstream.evaluate("model", "corpus.zarr", heldout=True, coherent=True)
    >>> scores["heldout"]["perplexity"] < 40, "npmi" in scores["coherence"]
    (True, True)
    """
    split = parse_split(config.split)
    reading = _reading_options(config)
    chosen, any_requested = choose_scorers(config)
    notes: dict[str, Any] = {}
    if not any_requested:
        config, notes = _add_defaults(config)
        chosen, _ = choose_scorers(config)
    check_options(config, chosen)
    reads_file = config.elsewhere is not None and Path(config.elsewhere).is_file()
    if config.scheduler is not None and reads_file:
        raise UsageError(
            f"--scheduler: workers read a corpus store; run `topics ingest` on "
            f"{config.elsewhere} first"
        )
    inputs = (config.model, config.corpus, config.elsewhere or config.corpus)
    with connected_within(config.scheduler, config.memory, inputs) as (cluster, limit):
        if cluster is not None:
            config = replace(
                config, mem_limit=limit.bytes, threads=config.threads or cluster.least_threads
            )
        return _score_opened(config, chosen, notes, cluster, split=split, reading=reading)


def _score_opened(
    config: EvalConfig,
    chosen: Chosen,
    notes: Mapping[str, Any],
    cluster: Cluster | None,
    *,
    split: float,
    reading: Mapping[str, Any],
) -> EvalSummary:
    """Open the model and the corpus, and score the model.

    Parameters
    ----------
    notes
        Entries of the result beside the scores.
    reading
        Options of reading raw documents.
    """
    beside = 0 if isinstance(config.model, TopicModel) else _bytes_beside(config, chosen)
    (model,), threads = open_within(
        [config.model], config.memory, config.threads, beside=beside, dense=True
    )
    if cluster is not None:
        cluster.threads = threads
    _check_kind(model, chosen)
    width = model.manifest.width
    store = None
    if any(scorer.needs_corpus(config, options) for scorer, options in chosen):
        store = _open_corpus(config, width)
        check_payload(store, model)
    result = {**_describe_inputs(model, store), **notes}
    with ExitStack() as stack:
        elsewhere = None
        if config.elsewhere is not None:
            meta: dict[str, str] = {}
            for scorer, options in chosen:
                meta |= scorer.meta(options)
            opened = open_other_corpus(config.elsewhere, model, meta, **reading)
            elsewhere = stack.enter_context(opened)
        run = Scoring(
            config, model, store, elsewhere, split, threads, listener(config.progress), cluster
        )
        for scorer, options in chosen:
            for name, entry in scorer.score(run, options).items():
                result[name] = entry.plain() if isinstance(entry, Entry) else entry
    return EvalSummary(result)


def _describe_inputs(model: TopicModel, store: Corpus | None) -> dict[str, Any]:
    """Return the entries of the result that say what was scored."""
    width = model.manifest.width
    sizes = ("components", "numbers") if width else ("topics", "words")
    result: dict[str, Any] = {
        "model": model.name,
        sizes[0]: model.n_topics,
        sizes[1]: model.n_words,
    }
    if not width and model.background_topic is not None:
        result["background_topic"] = model.background_topic
    if store is not None and not width:
        result["corpus"] = show_addresses(str(store.path))
        warning = describe_mismatch(model, store)
        if warning is not None:
            result["warning"] = warning
    return result


def _reading_options(config: EvalConfig) -> Mapping[str, Any]:
    """Return the options of reading raw documents that the user set."""
    values = {name: getattr(config, name) for name in READING}
    options = {name: value for name, value in values.items() if value is not None}
    if options and config.elsewhere is None:
        raise UsageError(
            f"--{next(iter(options)).replace('_', '-')} requires --heldout FILE, raw text"
        )
    return options


def _check_kind(model: TopicModel, chosen: Chosen) -> None:
    """Check that every scorer can judge a model of this kind."""
    kind = model_kind(model)
    for scorer, _ in chosen:
        if scorer.kinds and kind not in scorer.kinds:
            raise UsageError(
                f"--{scorer.name}: {model.path} is a model of {kind}, which has none; "
                f"--heldout, --training and --labels score it"
            )


def _add_defaults(config: EvalConfig) -> tuple[EvalConfig, dict[str, Any]]:
    """Return the configuration with the default scorers, and a note for the result."""
    width = 0 if isinstance(config.model, TopicModel) else read_manifest(config.model).width
    corpus = _open_corpus(config, width)
    has_heldout = width > 0 or corpus.part(True).docs > 0
    options = dict(config.options or {})
    if not width:
        for scorer in scorers():
            options |= scorer.default
    config = replace(config, corpus=corpus, heldout=has_heldout, options=options)
    return config, {} if has_heldout else {"note": NONE_ASIDE}


def _open_corpus(config: EvalConfig, width: int) -> Corpus:
    """Open the corpus of a configuration, unless it is open."""
    corpus = config.corpus
    return corpus if isinstance(corpus, Corpus) else Corpus.open(corpus, dense=width > 0)


def _bytes_beside(config: EvalConfig, chosen: Chosen) -> int:
    """Sum the bytes that scorers hold beside the tables of a stored model."""
    folder: Any = config.model
    manifest = read_manifest(folder)
    if manifest.width:
        model = TopicModel.open(folder, memory_limit=-1, dense=True)
        return find_method(method_of(model)).table_bytes(model)
    total = 0
    for scorer, _ in chosen:
        if scorer.bytes_held is not None:
            total += scorer.bytes_held(_open_corpus(config, 0), manifest.topics)
    return total
