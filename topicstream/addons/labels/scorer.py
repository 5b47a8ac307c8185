"""The score of predicted labels: precision, recall and F1 (``prediction.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from topicstream.addons.labels.agreement import AGREEMENT, score_agreement
from topicstream.addons.labels.prediction import map_labels, precision_recall_f1, predict
from topicstream.base.errors import InputError
from topicstream.base.options import composed_names, option
from topicstream.base.text import render
from topicstream.corpus.format import LABELS
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.completion import check_documents
from topicstream.evaluation.scoring import Entry, Scorer, Scoring, model_kind
from topicstream.model.topic_model import TopicModel

F1 = """F1 of labels          micro {micro_f1:.4f}, macro {macro_f1:.4f} over {labels:,} labels
  precision {precision:.4f}, recall {recall:.4f}: {measured}
  {docs:document}[; the first label is right for {accuracy:.1p} % of those with one][; \
{unlabelled:document} without labels were left out][; {unknown_labels:,} times a label the model \
does not know]
"""
THRESHOLDS = np.concatenate(([0.0], np.geomspace(0.25, 4096, 119))).astype(np.float32)


@dataclass(frozen=True)
class LabelScore:
    """Quality of predicted labels.

    Attributes
    ----------
    macro_f1
        Mean over the labels that these documents and those of the training have (``labels`` of
        them).
    accuracy
        Of documents with one label, the share whose best label it is. None without such documents.
    docs, unlabelled
        Documents judged, and left out.
    unknown_labels
        Labels of the documents that the model does not have.
    each
        A record for each label: docs, predicted, right, f1.
    threshold, at_least_one
        The rule.
    """

    micro_f1: float
    macro_f1: float | None
    precision: float
    recall: float
    accuracy: float | None
    docs: int
    unlabelled: int
    labels: int
    unknown_labels: int
    each: list[dict[str, Any]]
    threshold: float
    at_least_one: bool
    measured: str


class ChosenThreshold(NamedTuple):
    """A threshold of labels.

    Attributes
    ----------
    nats
        A document that loses so many nats without a label has it.
    at_least_one
        Whether a document without any label gets its first one.
    docs
        Training documents that it was chosen on. 0: the user gave it.
    """

    nats: float
    at_least_one: bool = False
    docs: int = 0

    def describe(self) -> str:
        """Describe the rule in words."""
        rule = f"labels without which a document loses {self.nats:.3g} nats or more"
        rule += ", or else its first one" if self.at_least_one else ""
        return rule + (f" (chosen on {self.docs:,} training documents)" if self.docs else "")


def choose_threshold(run: Scoring) -> ChosenThreshold:
    """Choose the threshold on the training documents of the corpus.

    Raises
    ------
    InputError
        If there are none.
    """
    if run.store is None:
        raise InputError(
            "the label threshold is chosen on training documents: give --corpus or --threshold"
        )
    predicted = predict(
        run.model,
        run.store,
        ("train",),
        THRESHOLDS,
        threads=run.threads,
        tenth=True,
        progress=run.step("threshold"),
    )
    if not predicted.docs:
        raise InputError(
            f"{run.store.path}: no labelled training documents to choose a threshold; give "
            f"--threshold"
        )
    t, at_least_one = predicted.choose_rule()
    return ChosenThreshold(float(THRESHOLDS[t]), at_least_one, predicted.docs)


def score_labels(
    run: Scoring, store: Corpus, parts: tuple[str, ...], threshold: float | None
) -> LabelScore:
    """Score the labels predicted for parts of ``store``.

    Without a threshold it is chosen on the training documents of the corpus.

    Raises
    ------
    InputError
        If there are no labels, or no threshold and no training documents.
    """
    model = run.model
    rule = choose_threshold(run) if threshold is None else ChosenThreshold(threshold)
    predicted = predict(
        model,
        store,
        parts,
        np.array([rule.nats], np.float32),
        threads=run.threads,
        progress=run.step("labels"),
    )
    if not predicted.docs:
        raise InputError(
            f"{store.path}: none of these documents has a label; name their field with "
            f"--meta labels=FIELD at ingest, of raw documents with --label-field"
        )
    right, n_predicted = predicted.counts(0, rule.at_least_one)
    precision, recall, micro = precision_recall_f1(
        right, n_predicted, int(predicted.true.sum()) + predicted.unknown
    )
    n_either = n_predicted + predicted.true
    f1 = np.divide(2.0 * right, n_either, out=np.zeros(len(n_either)), where=n_either > 0)
    scored = (predicted.true > 0) & (np.array(model.manifest.label_docs) > 0)
    single, first = predicted.first.tolist()
    return LabelScore(
        micro_f1=micro,
        macro_f1=float(f1[scored].mean()) if scored.any() else None,
        precision=precision,
        recall=recall,
        accuracy=first / single if single else None,
        docs=predicted.docs,
        unlabelled=predicted.unlabelled,
        labels=int(scored.sum()),
        unknown_labels=predicted.unknown,
        each=list_labels(model, predicted.true, n_predicted, right, f1),
        threshold=rule.nats,
        at_least_one=rule.at_least_one,
        measured=rule.describe(),
    )


def list_labels(
    model: TopicModel, true: np.ndarray, predicted: np.ndarray, right: np.ndarray, f1: np.ndarray
) -> list[dict[str, Any]]:
    """List the figures of each label that a document has or that was predicted for one."""
    names = {k: name for name, k in map_labels(model).items()}
    columns = (true.tolist(), predicted.tolist(), right.tolist(), f1.tolist())
    return [
        {"label": names[k], "docs": docs, "predicted": n, "right": hits, "f1": f}
        for k, docs, n, hits, f in zip(sorted(names), *columns, strict=True)
        if docs or n
    ]


@dataclass(frozen=True)
class LabelOptions:
    """Options of the scorer."""

    labels: bool = option(
        False,
        "F1 of the labels that an llda model predicts for the held-out documents or those of "
        "--heldout FILE; "
        "for clusters, NMI and ARI with the labels (on training documents if none are held out).",
    )
    label_field: str = option(
        "labels",
        "With --labels: field of the labels in raw documents; for clusters, column of the corpus.",
        show=True,
        parse=composed_names,
    )
    threshold: float | None = option(
        None,
        "With --labels: predict a label if the document loses at least this many nats of "
        "likelihood without "
        "it (default: chosen on a tenth of the training documents).",
        min=0.0,
    )


def _label_scores(run: Scoring, options: LabelOptions) -> Mapping[str, Entry]:
    """Score predicted labels or, of clusters, their agreement with labels."""
    store, parts, documents = run.scored_documents()
    if model_kind(run.model) != "topics":
        if run.elsewhere is None and not store.part(True).docs:
            parts = ("train",)
            documents = "training documents"
        return {
            "labels": Entry(
                score_agreement(run.model, store, parts, options.label_field, run.threads),
                documents,
            )
        }
    check_documents(store, parts)
    return {"labels": Entry(score_labels(run, store, parts, options.threshold), documents)}


def _format_scores(name: str, score: Mapping[str, Any]) -> list[str]:
    """Format F1 of labels, or the agreement of clusters with them."""
    return render(AGREEMENT if "nmi" in score else F1, score)


LABEL_SCORES = Scorer(
    "labels",
    _label_scores,
    Options=LabelOptions,
    is_requested=lambda options: options.labels,
    needs_corpus=lambda config, options: not config.elsewhere or options.threshold is None,
    meta=lambda options: {LABELS: options.label_field} if options.labels else {},
    kinds=(),
    text=_format_scores,
)
