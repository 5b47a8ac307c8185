"""``topicstream.evaluate``: one judge for every model, whoever trained it."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from topicstream.corpus.reader import Corpus
from topicstream.corpus.sample import learned_from
from topicstream.errors import InputError, StoreError, UsageError
from topicstream.evaluation.belonging import strangers
from topicstream.evaluation.clusters import ClusterScore, clusters_of, score_agreement, score_clusters
from topicstream.evaluation.coherence import TOP_DIVERSITY, coherence, diversity
from topicstream.evaluation.completion import Score, score_model
from topicstream.evaluation.config import EvalConfig, which_coherence
from topicstream.evaluation.labels import score_labels
from topicstream.evaluation.memory import open_all_within
from topicstream.evaluation.pair_entropy import pair_entropy
from topicstream.evaluation.per_document import score_documents
from topicstream.evaluation.points import evaluate_vectors
from topicstream.evaluation.table_file import check_table_file, write_table
from topicstream.model.edits import seen, view_of
from topicstream.model.gaussians import is_of_vectors
from topicstream.model.store import read_manifest
from topicstream.model.topic_model import TopicModel
from topicstream.options import configured
from topicstream.progress import listener

READING = ("format", "text_field", "id_field")


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
    heldout, training, coherent, diverse = config.heldout, config.training, which_coherence(config.coherent), config.diverse
    links = config.links
    corpus, per_document, force = config.corpus, config.per_document, config.force
    share = parse_split(config.split)
    reading = {k: v for k in READING if (v := getattr(config, k)) is not None}
    if reading and isinstance(heldout, bool):
        raise UsageError(f"--{next(iter(reading)).replace('_', '-')} goes with --heldout FILE, raw text")
    if per_document is not None:
        check_table_file(per_document, "--per-document", force=force)
        if heldout is not True:
            raise UsageError("--per-document goes with --heldout of the corpus itself")
    labels, threshold = config.labels, config.threshold
    if not (heldout or training or coherent or diverse or links or labels or config.whole or config.pairs):
        everything = True
        corpus = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
        heldout, coherent, diverse = corpus.part(True)["docs"] > 0, True, True
    else:
        everything = False
    tell = listener(config.progress)
    beside = 0
    if links and not isinstance(config.model, TopicModel):
        from topicstream.evaluation.links import bytes_held

        corpus = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
        beside = bytes_held(corpus, int(read_manifest(config.model)["topics"]))
    (topics,), workers = open_all_within([config.model], config.mem_limit, config.threads, beside=beside)
    clusters = topics.cluster_sizes is not None
    unfit = {"links": links, "authors": config.authors, "whole": config.whole, "per-document": per_document}
    if clusters and (wrong := [name for name, value in unfit.items() if value]):
        raise UsageError(f"--{wrong[0]}: {topics.path} is a model of clusters, which has none; --heldout scores whole documents")

    def score(name: str, store: Any, share: float | None, parts: tuple[str, ...]) -> Score | ClusterScore:
        say = partial(tell.step, name, unit="documents")
        if clusters:
            return score_clusters(topics, store, parts, workers, say)
        return score_model(
            topics, store, split=share, threads=workers, parts=parts, fold_in=config.fold_in, progress=say
        )

    def of_labels(where: Any, parts: tuple[str, ...], of: str) -> dict[str, Any]:
        if clusters:
            of_part = partial(clusters_of, topics, where, threads=workers)
            found = score_agreement(where, parts, config.label_field, topics.n_topics, of_part)
            return {**found, "measured": f"{found['measured']}; {of}"}
        found = score_labels(topics, where, parts, store, threshold=threshold, threads=workers, progress=tell)
        return {**found, "measured": f"{found['measured']}; {of}"}

    result: dict[str, Any] = {
        "model": str(topics.path or "in memory"),
        "topics": topics.n_topics,
        "words": topics.n_words,
    }
    here = labels and (heldout is False or threshold is None)
    needs_corpus = heldout is True or training or coherent or links or here or config.whole or config.pairs
    store = (corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)) if needs_corpus else None
    if store is not None:
        result["corpus"] = str(store.path)
        if (told := strangers(topics, store)) is not None:
            result["warning"] = told
    if heldout is True and per_document is not None:
        each, table = score_documents(
            topics, store, split=share, threads=workers, progress=partial(tell.step, "held-out", unit="documents")
        )
        write_table(table, per_document, option="--per-document", force=force)
        result["heldout"] = _as_dict(each, "documents set aside")
        result["per_document"] = str(per_document)
    elif heldout is True:
        result["heldout"] = _as_dict(score("held-out", store, share, ("heldout",)), "documents set aside")
    elif heldout:
        with other_corpus(heldout, topics, config.label_field if labels else None, **reading) as other:
            found = score("held-out", other, share, ("train", "heldout"))
            if labels:
                result["labels"] = of_labels(other, ("train", "heldout"), f"all documents of {heldout}")
        result["heldout"] = _as_dict(found, f"all documents of {heldout}")
    elif everything:
        result["note"] = "no documents were set aside at ingest (--heldout 1%): no held-out perplexity"
    if labels and "labels" not in result:
        aside = not clusters or bool(store.part(True)["docs"])  # type: ignore[union-attr]
        result["labels"] = of_labels(
            store, ("heldout",) if aside else ("train",), "documents set aside" if aside else "training documents"
        )
    if config.authors is not None and heldout is not True:
        raise InputError("--authors goes with --heldout of the corpus itself: its documents' authors are needed")
    if heldout is True and (config.authors is not None or has_authors(topics, store)):
        result |= _of_authors(topics, store, share, config.authors == "known", workers)
    if config.whole:
        result["whole"] = _as_dict(score("whole", store, None, ("heldout",)), "documents set aside")
    if config.pairs:
        assert store is not None
        result["pairs"] = pair_entropy(topics, store, smooth=True, mem_limit=config.mem_limit)
    if training:
        assert store is not None
        learned = learned_from(store, topics.manifest, topics.path)
        result["training"] = _as_dict(score("training", learned, None, ("train",)), "training documents")
    shown = seen(topics, view_of(topics)) if coherent or diverse else topics
    if coherent:
        words = coherence(shown, store, top=config.top, threads=workers)
        scores = {**_finite(words.as_dict()), "measured": words.measured}
        left = {"umass": "npmi", "npmi": "umass"}.get(coherent, " ")
        result["coherence"] = {name: value for name, value in scores.items() if left not in name}
    if diverse:
        result["diversity"] = {
            "share": diversity(shown),
            "top": TOP_DIVERSITY,
            "measured": f"share of distinct words among the {TOP_DIVERSITY} most probable words of all topics",
        }
    if links:
        from topicstream.evaluation.links import link_prediction, linked_completion

        assert store is not None
        say = partial(tell.step, "links", unit="documents")
        result["links"] = link_prediction(topics, store, threads=workers, progress=say)
        if {"eta", "theta"} <= set(topics.manifest.get("tables") or {}):
            result["links"]["given"] = linked_completion(topics, store, split=share)
    return result


def has_authors(model: TopicModel, store: Any) -> bool:
    """Whether the authors of a store's documents can be folded into a model: both have some."""
    return "authors" in (model.manifest.get("tables") or {}) and "authors" in store.axes


def _of_authors(model: TopicModel, store: Any, share: float, known: bool, threads: int) -> dict[str, Any]:
    """Author perplexity, folded in and, where asked for, with what training knows of the authors."""
    from topicstream.evaluation.authors import author_perplexity

    if not has_authors(model, store):
        model.table("authors")  # says what is missing
        store.axes["authors"]
    found = {}
    for name, knows in (("authors", False), ("authors_known", True)):
        if knows <= known:
            score = author_perplexity(model, store, split=share, known=knows, threads=threads)
            found[name] = {**_finite(asdict(score)), "measured": score.measured}
    return found


def _as_dict(score: Score | ClusterScore, of: str) -> dict[str, Any]:
    return {**_finite(score.as_dict()), "measured": f"{score.measured}; {of}"}


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}


@contextlib.contextmanager
def other_corpus(
    path: str | Path, model: TopicModel, label_field: str | None = None, **reading: Any
) -> Iterator[Corpus]:
    """A corpus store as it is, or raw text ingested into a temporary one with the model's tokenizer and all its words kept
    (so that the out-of-vocabulary rate is known).  label_field: where raw documents have their labels."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"--heldout {path}: no such file or folder")
    if (path / "manifest.json").exists():
        yield Corpus.open(path)
        return
    from topicstream.ingestion.pipeline import ingest
    from topicstream.ingestion.read_options import ReadOptions
    from topicstream.ingestion.settings import Heldout, IngestOptions
    from topicstream.tokens.recipe import Recipe

    recipe = model.manifest.get("tokenizer")
    if recipe is None:
        raise StoreError(
            f"{model.path}: the model does not say how its text was tokenised; ingest {path} and name the store"
        )
    with tempfile.TemporaryDirectory(prefix="topics-heldout-") as folder:
        out = Path(folder) / "corpus.zarr"
        read = ReadOptions(**reading).recall(model.manifest.get("reading"))
        if label_field is not None:
            read = replace(read, meta={"labels": label_field})
        options = IngestOptions(recipe=Recipe.from_json(recipe), min_df=1, max_df=1.0, heldout=Heldout.of(0), read=read)
        ingest([Path(path)], out, options=options)
        yield Corpus.open(out)
