"""``topicstream.evaluate``: one judge for every model, whoever trained it."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, UsageError
from topicstream.evaluation.belonging import strangers
from topicstream.evaluation.config import EvalConfig, which_coherence
from topicstream.evaluation.links import bytes_held
from topicstream.evaluation.memory import open_all_within
from topicstream.evaluation.other_corpus import other_corpus
from topicstream.evaluation.points import evaluate_vectors
from topicstream.evaluation.registry import asked_scorers
from topicstream.evaluation.scoring import Scoring
from topicstream.evaluation.table_file import check_table_file
from topicstream.model.gaussians import is_of_vectors
from topicstream.model.store import read_manifest
from topicstream.model.topic_model import TopicModel
from topicstream.options import configured
from topicstream.progress import listener

READING = ("format", "text_field", "id_field")
NONE_ASIDE = "no documents were set aside at ingest (--heldout 1%): no held-out perplexity"


def parse_split(text: str | float) -> float:
    """``80/20``, ``90/10`` or a share such as 0.8 -> observed share; InputError otherwise."""
    try:
        seen, _, rest = str(text).partition("/")
        share = float(seen) / (float(seen) + float(rest)) if rest else float(seen)
    except (ValueError, ZeroDivisionError):
        share = math.nan
    if not 0.0 < share < 1.0:
        raise UsageError(f"--split {text}: give observed and scored shares, such as 80/20 or 90/10")
    return share


@configured(EvalConfig)
def evaluate(config: EvalConfig) -> dict[str, Any]:
    """Score a model.  With nothing asked for: held-out perplexity (where documents were set aside), coherence, diversity.

    heldout    True: the documents of ``corpus`` set aside at ingest; a path: all documents of another corpus store, or raw
               text, which is read with the model's own tokenizer
    whole      of the documents set aside, theta folded in on all their cells and those scored: no completion (it is scored on what
               it was fitted to), but what papers without one print
    pairs      cross-entropy in nats of two words of a document, each document the same weight (the objective of ``fdm``)
    training   exact perplexity of the training documents, theta folded in on all their cells
    authors    with ``heldout=True``; of an author-topic model and a corpus with authors ``folded`` is scored in any case
    links      of a model trained with links also the perplexity of the documents set aside with their links given
    labels     of the documents set aside, or with a path for ``heldout`` of those; without ``threshold`` that is chosen on a
               tenth of the corpus' training documents
    fold_in    theta of the observed words is what ``infer`` answers by this method
    per_document  with ``heldout=True``: also write a row a document (id, tokens, loglik, perplexity) to this file, which
               must not be there unless ``force``

    Edits (``topics edit``) are honoured in coherence and diversity; perplexity is the trained table's.

    Returns plain values: for each of ``heldout``, ``whole``, ``authors``, ``authors_known``, ``training``, ``coherence``, ``diversity``,
    ``labels`` a dict whose ``measured`` says in words what was measured.  Perplexity is exp(nats_per_token).  The result does
    not depend on threads.

    Raises StoreError (damaged model or store), InputError (nothing to score), DoesNotFit.
    """
    if is_of_vectors(config.model):
        return evaluate_vectors(config)
    config, split = replace(config, coherent=which_coherence(config.coherent)), parse_split(config.split)
    reading = _check(config)
    notes: dict[str, Any] = {}
    if not asked_scorers(config):
        corpus = _opened(config.corpus)
        aside = corpus.part(True)["docs"] > 0
        config = replace(config, corpus=corpus, heldout=aside, coherent=True, diverse=True)
        notes = {} if aside else {"note": NONE_ASIDE}
    if config.authors is not None and config.heldout is not True:
        raise InputError("--authors goes with --heldout of the corpus itself: its documents' authors are needed")
    scorers = asked_scorers(config)
    (model,), threads = open_all_within([config.model], config.mem_limit, config.threads, beside=_beside(config))
    _check_clusters(config, model)
    store = _opened(config.corpus) if any(scorer.needs_corpus(config) for scorer in scorers) else None
    result: dict[str, Any] = {
        "model": str(model.path or "in memory"),
        "topics": model.n_topics,
        "words": model.n_words,
    }
    if store is not None:
        result["corpus"] = str(store.path)
        if (warning := strangers(model, store)) is not None:
            result["warning"] = warning
    result |= notes
    with ExitStack() as stack:
        elsewhere = None
        if config.heldout and config.heldout is not True:
            field = config.label_field if config.labels else None
            elsewhere = stack.enter_context(other_corpus(config.heldout, model, field, **reading))
        run = Scoring(config, model, store, elsewhere, split, threads, listener(config.progress))
        for scorer in scorers:
            result |= scorer.score(run)
    return result


def _opened(corpus: str | Path | Corpus) -> Corpus:
    return corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)


def _check(config: EvalConfig) -> dict[str, Any]:
    """How raw text is to be read, where the configuration says so; UsageError for options that do not go together."""
    reading = {k: v for k in READING if (v := getattr(config, k)) is not None}
    if reading and isinstance(config.heldout, bool):
        raise UsageError(f"--{next(iter(reading)).replace('_', '-')} goes with --heldout FILE, raw text")
    if config.per_document is not None:
        check_table_file(config.per_document, "--per-document", force=config.force)
        if config.heldout is not True:
            raise UsageError("--per-document goes with --heldout of the corpus itself")
    return reading


def _beside(config: EvalConfig) -> int:
    """Bytes that scorers hold beside the model."""
    if not config.links or isinstance(config.model, TopicModel):
        return 0
    return bytes_held(_opened(config.corpus), int(read_manifest(config.model)["topics"]))


def _check_clusters(config: EvalConfig, model: TopicModel) -> None:
    """UsageError for what a model of clusters does not have."""
    unfit = {"links": config.links, "authors": config.authors, "whole": config.whole, "per-document": config.per_document}
    if model.cluster_sizes is not None and (wrong := [name for name, value in unfit.items() if value]):
        raise UsageError(f"--{wrong[0]}: {model.path} is a model of clusters, which has none; --heldout scores whole documents")
