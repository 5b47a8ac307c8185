"""Perplexity of the documents set aside or of others, of whole documents, and of the training documents."""

from __future__ import annotations

from typing import Any

from topicstream.corpus.reader import Corpus
from topicstream.corpus.sample import learned_from
from topicstream.evaluation.clusters import ClusterScore, score_clusters
from topicstream.evaluation.completion import Score, score_model
from topicstream.evaluation.per_document import score_documents
from topicstream.evaluation.scoring import Scorer, Scoring, as_result
from topicstream.evaluation.table_file import write_table

ASIDE = "documents set aside"


def part_score(
    run: Scoring, name: str, store: Corpus, split: float | None, parts: tuple[str, ...]
) -> Score | ClusterScore:
    """The score of parts of a store; split None: all cells, theta folded in on the same."""
    if run.of_clusters:
        return score_clusters(run.model, store, parts, run.threads, run.step(name))
    return score_model(
        run.model, store, split=split, threads=run.threads, parts=parts, fold_in=run.config.fold_in,
        progress=run.step(name),
    )  # fmt: skip


def _held_out(run: Scoring) -> dict[str, Any]:
    config = run.config
    if run.elsewhere is not None:
        score = part_score(run, "held-out", run.elsewhere, run.split, ("train", "heldout"))
        return {"heldout": as_result(score, f"all documents of {config.heldout}")}
    if config.per_document is None:
        return {"heldout": as_result(part_score(run, "held-out", run.corpus, run.split, ("heldout",)), ASIDE)}
    total, table = score_documents(
        run.model, run.corpus, split=run.split, threads=run.threads, progress=run.step("held-out")
    )
    write_table(table, config.per_document, option="--per-document", force=config.force)
    return {"heldout": as_result(total, ASIDE), "per_document": str(config.per_document)}


def _whole(run: Scoring) -> dict[str, Any]:
    return {"whole": as_result(part_score(run, "whole", run.corpus, None, ("heldout",)), ASIDE)}


def _training(run: Scoring) -> dict[str, Any]:
    learned = learned_from(run.corpus, run.model.manifest, run.model.path)
    return {"training": as_result(part_score(run, "training", learned, None, ("train",)), "training documents")}


HELD_OUT = Scorer(lambda config: bool(config.heldout), _held_out, lambda config: config.heldout is True)
WHOLE = Scorer(lambda config: config.whole, _whole)
TRAINING = Scorer(lambda config: config.training, _training)
