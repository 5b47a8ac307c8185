"""Perplexity of held-out or other documents, of whole documents and of training documents.

That of held-out documents may also be written to a table, one row a document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from topicstream.base.cluster import Cluster
from topicstream.base.errors import UsageError
from topicstream.base.options import option
from topicstream.base.text import noun_of, render
from topicstream.corpus.documents import typed_ids
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sample import select_learned
from topicstream.evaluation.completion import Score, prepare_model, score_blocks, score_model
from topicstream.evaluation.covariates import explain_mean_prior
from topicstream.evaluation.keys import stream_documents
from topicstream.evaluation.likelihood import ClusterScore, PointScore, score_clusters
from topicstream.evaluation.scoring import Entry, Scorer, Scoring, model_kind
from topicstream.evaluation.table_file import check_table_file, write_table
from topicstream.model.topic_model import TopicModel

TITLES = {"heldout": "held-out", "whole": "whole documents", "training": "training"}
MEAN_PRIOR = "_mean_prior"
"""Suffix of the entry that scores every document with the mean prior."""
POINTS = "{title:22}{loglik:.4f} nats a point   ({points:,} points; {measured})"
PERPLEXITY = """{title:22}{value}
[  {nats_a_document} nats a document]
  {measured}
  {docs:document}, {tokens:,.0f} tokens scored[; {skipped:document} too short to score were left \
out][{oov_tokens:?}; {oov_rate:.2p} % of the tokens are words the model does not know, left out]
"""
IMPOSSIBLE = "infinite: the model gives a word there no probability (its beta is 0)"


def score_part(
    run: Scoring,
    name: str,
    store: Corpus,
    split: float | None,
    parts: tuple[str, ...],
    *,
    covariates: bool = True,
) -> Score | ClusterScore | PointScore:
    """Score parts of a store.

    Parameters
    ----------
    name
        Title of the score, as progress shows it.
    split
        Observed share of the cells. None: all cells are scored, and theta is folded in on the same.
    covariates
        Whether documents have priors of their own. Otherwise all have the model's mean prior.
    """
    if model_kind(run.model) != "topics":
        return score_clusters(run.model, store, parts, run.visitors, run.step(name))
    settings: dict[str, Any] = {
        "split": split,
        "threads": run.visitors,
        "fold_in": run.config.fold_in,
        "progress": run.step(name),
    }
    if covariates:
        return score_model(run.model, store, parts=parts, **settings)
    return score_blocks(*prepare_model(run.model, store, parts, split), **settings)


def score_entries(
    run: Scoring,
    name: str,
    store: Corpus,
    split: float | None,
    parts: tuple[str, ...],
    documents: str,
) -> dict[str, Entry]:
    """Score parts of a store, with a second entry where documents have priors of their own.

    Parameters
    ----------
    name
        Name of the entry, a key of ``TITLES``.
    split
        As of ``score_part``.
    documents
        A description of the documents.
    """
    title = TITLES[name]
    entry = run.model.manifest.covariates
    if entry is None:
        return {name: Entry(score_part(run, title, store, split, parts), documents)}
    mean = score_part(run, title, store, split, parts, covariates=False)
    reason = explain_mean_prior(run.model, store, run.visitors)
    if reason:
        return {name: Entry(mean, f"{documents}; the mean prior of all documents, for {reason}")}
    score = score_part(run, title, store, split, parts)
    return {
        name: Entry(score, f"{documents}; each with the prior of its covariates, {entry.formula}"),
        name + MEAN_PRIOR: Entry(mean, f"{documents}; the mean prior of all documents"),
    }


def score_documents(
    model: TopicModel,
    corpus: Corpus,
    *,
    part: str = "heldout",
    split: float | None = 0.8,
    threads: int | Cluster = 1,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Score, pa.Table]:
    """Score the documents set aside (or of another part), together and one by one.

    Returns
    -------
    The score, and a table: id, tokens double (those scored), loglik double (their sum, natural
    logarithms), perplexity double. Both are null where a document was too short to score. The rows'
    loglik and tokens add up to the score's.
    """
    pieces: list[tuple[np.ndarray, np.ndarray]] = []
    score = score_model(
        model,
        corpus,
        split=split,
        threads=threads,
        parts=(part,),
        progress=progress,
        on_block=lambda loglik, tokens: pieces.append((loglik, tokens)),
    )
    loglik = np.concatenate([piece[0] for piece in pieces])
    scored = np.concatenate([piece[1] for piece in pieces])
    names = np.full(len(loglik), None, object)
    for numbers, batch in stream_documents(corpus, part == "heldout", ["id"]):
        names[numbers] = batch.column("id").to_pylist()
    too_short = scored <= 0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        perplexity = np.exp(-loglik / scored)
    table = pa.table(
        {
            "id": typed_ids(pa.array(names, pa.string()), corpus.manifest.ids == "integer"),
            "tokens": pa.array(scored),
            "loglik": pa.array(loglik, mask=too_short),
            "perplexity": pa.array(perplexity, mask=too_short),
        }
    )
    return score, table.filter(table["id"].is_valid())


@dataclass(frozen=True)
class HeldOutOptions:
    """Options of the scorer ``heldout``."""

    per_document: str | Path | None = option(
        None,
        "With --heldout: write one row per document, as .parquet, .csv or .jsonl.",
        path="file",
        metavar="FILE",
    )
    force: bool = option(False, "With --per-document: replace the file.")


def _score_held_out(run: Scoring, options: HeldOutOptions) -> Mapping[str, Entry | str]:
    """Score held-out or other documents, together or one by one."""
    store, parts, documents = run.scored_documents()
    if options.per_document is None:
        return score_entries(run, "heldout", store, run.split, parts, documents)
    check_table_file(options.per_document, "--per-document", force=options.force)
    if run.config.heldout is not True:
        raise UsageError("--per-document requires --heldout of the corpus itself")
    if model_kind(run.model) != "topics":
        raise UsageError(
            f"--per-document: {run.model.path} is a model of {model_kind(run.model)}; --heldout "
            f"scores them together"
        )
    score, table = score_documents(
        run.model, store, split=run.split, threads=run.visitors, progress=run.step("held-out")
    )
    write_table(table, options.per_document, option="--per-document", force=options.force)
    return {"heldout": Entry(score, documents), "per_document": str(options.per_document)}


@dataclass(frozen=True)
class WholeOptions:
    """Options of the scorer ``whole``."""

    whole: bool = option(
        False,
        "Log-likelihood of whole held-out documents, with topics inferred from the same words "
        "that are scored.",
    )


def _score_whole(run: Scoring, options: WholeOptions) -> Mapping[str, Entry]:
    """Score all words of held-out documents, with topics inferred from the same words."""
    return score_entries(run, "whole", run.corpus, None, ("heldout",), "documents set aside")


@dataclass(frozen=True)
class TrainingOptions:
    """Options of the scorer ``training``."""

    training: bool = option(False, "Exact perplexity of the training documents.")


def _score_training(run: Scoring, options: TrainingOptions) -> Mapping[str, Entry]:
    """Score the training documents that the model learned from."""
    learned = select_learned(run.corpus, run.model.manifest.sample)
    documents = f"training {noun_of(run.model.manifest.width)}"
    return score_entries(run, "training", learned, None, ("train",), documents)


def _lines(name: str, score: Mapping[str, Any]) -> list[str]:
    """Format the perplexity of documents, or the likelihood of points."""
    title = TITLES[name.removesuffix(MEAN_PRIOR)]
    if "points" in score:
        return render(POINTS, {**score, "title": title, "loglik": -score["nats_per_point"]})
    if name.endswith(MEAN_PRIOR):
        title = "  with the mean prior"
    elif not name.startswith("whole"):
        title = f"{title} perplexity"
    value = IMPOSSIBLE
    if score["perplexity"] is not None:
        value = f"{score['perplexity']:.1f}   ({score['nats_per_token']:.4f} nats a token)"
    nats = f"{-score['nats_per_point']:.4f}" if "nats_per_point" in score else None
    texts = {"title": title, "value": value, "nats_a_document": nats}
    return render(PERPLEXITY, {**score, **texts})


HELD_OUT = Scorer(
    "heldout",
    _score_held_out,
    Options=HeldOutOptions,
    also_runs=lambda config, options: bool(config.heldout) or options.per_document is not None,
    needs_corpus=lambda config, options: not config.elsewhere,
    kinds=(),
    text=_lines,
)
WHOLE = Scorer(
    "whole",
    _score_whole,
    Options=WholeOptions,
    is_requested=lambda options: options.whole,
    text=_lines,
)
TRAINING = Scorer(
    "training",
    _score_training,
    Options=TrainingOptions,
    is_requested=lambda options: options.training,
    kinds=(),
    text=_lines,
)
