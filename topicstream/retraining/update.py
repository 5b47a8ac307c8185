"""``topics update``: continue a model's training on a corpus with new documents.

Every block is started from the model's topics, which keep their numbers. Then come passes over
all documents.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields, replace
from pathlib import Path
from typing import Any

from topicstream.base.errors import NotOurs, TopicsError, UsageError
from topicstream.base.files import durable
from topicstream.base.files import ownership as owned
from topicstream.base.files.durable import lock
from topicstream.base.files.inventory import holds_files, unlisted_paths
from topicstream.base.files.marker import kind_of, mark_of
from topicstream.base.files.outputs import check_place, folder_named
from topicstream.base.files.ownership import claim
from topicstream.base.memory import ThreadedOptions
from topicstream.base.metrics import record_metrics
from topicstream.base.options import SchedulerOptions, configured, like, option
from topicstream.base.places import places
from topicstream.base.progress import ProgressLike, listener, screen_listener
from topicstream.corpus.reader import Corpus
from topicstream.evaluation.keys import describe_mismatch
from topicstream.model import edits
from topicstream.model.manifest import ModelManifest, read_manifest
from topicstream.model.topic_model import TopicModel
from topicstream.training.config import TrainConfig
from topicstream.training.loop import Trained, metric_figures, train
from topicstream.training.setup import engine_facts
from topicstream.training.state.record import RunRecord
from topicstream.training.stopping import tolerance

PASSES = 15
"""Default of ``--passes``; fewer are run if running perplexity settles.

Fifteen end at or below the perplexity of a full training (docs/internals/decisions/updates.md); on
small corpora more passes make held-out perplexity worse again."""

PASSES_OF_SAMPLERS = 120
"""Default of ``--passes`` where topics are sampled: a chain needs some for new documents, and
averages states of the second half."""

STATES_PER_PASSES = 20
"""Such a chain adds up its counts each time that a 20th of the passes is over."""

SETTLED = 0.3
"""Default tolerance, as a share of the engine's: an update moves less from pass to pass than a
training from seeds, and would be stopped too early."""

WARM_SHARE = 0.25
"""Weight of the model's topics in a warm start; the remainder is the corpus mean.

The model's topics alone are fitted to the old documents: acl doubled from 10,000 documents then
ended 3 % above a full training, with 0.25 at 0.7 %. Chains begin from the topics alone: from a
mixture they lose them (docs/internals/decisions/updates.md)."""


@dataclass(frozen=True)
class UpdateConfig(SchedulerOptions, ThreadedOptions):
    """Settings of an update, beside engine, options, seed and topics of the model."""

    corpus: str | Path = like(TrainConfig, "corpus")
    model: str | Path = like(TrainConfig, "model")
    _: KW_ONLY
    out: str | Path | None = option(
        None,
        "Write the new model to this folder and keep the old one (default: replace it).",
        path=True,
    )
    passes: int | None = like(
        TrainConfig, "passes", help="Maximum number of passes (default: 15; samplers: 120)."
    )
    tol: float | str | None = like(
        TrainConfig,
        "tol",
        help="Stop when running perplexity changes by less than this, as in `topics train` "
        "(default: 0.3 of the engine's).",
    )
    max_time: float | str | None = like(
        TrainConfig, "max_time", help="Stop after the pass in which this time runs out."
    )
    eval_every: int = like(TrainConfig, "eval_every", show=False)
    tables: str = like(TrainConfig, "tables", help="Where to keep the large tables.", show=False)
    checkpoint_minutes: float = like(TrainConfig, "checkpoint_minutes", cli=False)
    workers_min: int = like(TrainConfig, "workers_min", show=False)
    force: bool = option(False, "Discard an unfinished update.")
    metrics: str | Path | None = like(TrainConfig, "metrics")

    def limits(self) -> dict[str, Any]:
        """Return the keywords of ``train`` that bound a run."""
        others = ("corpus", "model", "out", "force", "passes", "progress", "metrics")
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in others}


@dataclass(frozen=True, repr=False)
class Updated(Trained):
    """The result of an update.

    Attributes
    ----------
    how
        ``warm``: every block began from the model. ``nothing``: the corpus has not changed.
    model, passes, reason, last, topics
        As of ``Trained``.
    """

    how: str = "warm"


def train_on(
    corpus: str | Path,
    model: str | Path,
    run: str | Path,
    *,
    passes: int | None = None,
    force: bool = False,
    progress: ProgressLike = None,
    **limits: Any,
) -> Updated:
    """Train from a model on all of a corpus, or resume such a training.

    Parameters
    ----------
    corpus, model
        The corpus, and the model to start from.
    run
        Folder of the training.
    passes
        Passes at most (default: 15; samplers: 120).
    force
        Discard a run in the folder, once the new one is sure to begin.
    progress
        A progress listener.
    limits
        ``tol, max_time, threads, mem_limit, tables, eval_every, checkpoint_minutes, scheduler,
        workers_min`` of ``train``.

    Raises
    ------
    TopicsError
        If the engine of the model cannot start from a model.
    """
    progress = listener(progress, screen_listener)
    manifest = read_manifest(model)
    about = engine_facts(str(manifest.engine))
    if "warm" not in about.starts:
        raise TopicsError(
            f"{manifest.engine} cannot start from a model; train again with `topics train`"
        )
    if limits.get("tol") is None:
        # a share of the perplexity stays one (Share)
        tol = tolerance(about.tol)
        limits["tol"] = type(tol)(SETTLED * tol)
    options = manifest.options
    sampled = "sample_every" in options
    if passes is None:
        passes = PASSES_OF_SAMPLERS if sampled else PASSES
    if sampled:
        options = _fit_chain(options, passes)
    if "prior_pull" in options:  # its topics are there from the first pass on
        options = {**options, "learn_after": 0}
    trained = train(
        corpus,
        run,
        algo=str(manifest.engine),
        topics=None if about.topics_axis else manifest.topics,
        seed=int(manifest.seed or 0),
        passes=passes,
        start="warm",
        warm=model,
        warm_share=1.0 if sampled else WARM_SHARE,
        seed_words=manifest.seed_words,
        sample=manifest.sample,
        weighting=manifest.weighting.kind if manifest.weighting else "none",
        **_covariates_of(manifest),
        block_cells=manifest.layout.get("block_cells"),
        round_blocks=manifest.layout.get("round_blocks"),
        options=options,
        force=force,
        progress=progress,
        **limits,
    )
    return Updated(trained.model, trained.passes, trained.reason, trained.last, trained.topics)


def _fit_chain(options: Mapping[str, Any], passes: int) -> dict[str, Any]:
    """Return a sampler's options for a chain that begins with topics, and is shorter.

    Its states end with its last pass: those of the model's training lie as far apart as that was
    long. Alpha begins where it is held, for no document has to find its topics first.
    """
    most = max(STATES_PER_PASSES, int(options.get("samples") or 0))
    fitted = {**options, "burn_in": None, "sample_every": max(1, passes // most)}
    if options.get("prior_mean") is not None:
        fitted["alpha"] = options["prior_mean"]
    return fitted


def _covariates_of(manifest: ModelManifest) -> dict[str, Any]:
    """Return the keywords of ``train`` that continue a model's covariates.

    Their design stays as it is: new categories have no coefficients, and new dates beyond the range
    count as its end.
    """
    entry = manifest.covariates
    if entry is None:
        return {}
    return {
        "covariates": entry.formula,
        "covariate_sd": None if entry.learned_sd else entry.slope_sd,
        "covariate_means": entry.mean_weight,
        "intercept_sd": entry.intercept_sd,
    }


@configured(UpdateConfig)
def update(config: UpdateConfig) -> Updated:
    """Update a model with documents that were appended to its corpus.

    Append them by ``topics ingest --append --grow-vocab``. The new model is trained in
    ``MODEL.update`` beside the old one, and one rename exchanges them at the end. With ``out``, it
    is trained there, and the old one stays. After a kill, the same call resumes. Engine, options,
    seed and number of topics are those of the model. ``force`` discards an unfinished update (with
    ``out``: the run there; an earlier model stays until the new one is finished). Files of others
    in the model's folder move to the new one.

    Returns
    -------
    Updated
        ``model`` (the folder), ``how`` (``warm``, or ``nothing`` if the corpus has not changed),
        ``passes``, ``reason``, ``last`` (the record of the last pass) and ``topics``.

    Raises
    ------
    TopicsError
        If the model is published by ``topics retrain``, or its engine has no warm start.
    Busy
        If another command writes to the model.
    DoesNotFit
        If memory or disk is too small.
    Interrupted
        After a signal; the same call resumes.

    Examples
    --------
    >>> more = [
    ...     {"id": "new-1", "text": "cats and kittens chase mice"},
    ...     {"id": "new-2", "text": "the crew sails to the harbour"},
    ... ]
    >>> _ = topicstream.ingest(
    ...     more, out="corpus.zarr", append=True, grow_vocab=True, progress=False
    ... )
    >>> _ = topicstream.update("corpus.zarr", "model", passes=2, progress=False)
    """
    with record_metrics(config.metrics, "update", model=config.model) as note_figures:
        places().refuse_folder(config.model)
        old = folder_named(config.model)
        if read_manifest(old).engine in (None, "imported"):
            raise UsageError(
                f"--model {old}: was imported or made in Python, so no engine can continue it; "
                f"train from it (topics train --start warm --warm "
                f"{old}), or find the topics of new documents with topics infer"
            )
        updated = (
            _replace_model(old, config)
            if config.out is None
            else _write_beside(old, folder_named(config.out), config)
        )
        note_figures({"passes": updated.passes, **metric_figures(updated.last)})
    return updated


def _train_update(old: Path, run: Path, config: UpdateConfig, *, force: bool) -> Updated:
    """Train the new model in ``run`` (``force``: from its start), and copy the old one's edits."""
    store = Corpus.open(config.corpus, dense=True)
    if not store.width:
        mismatch = describe_mismatch(TopicModel.open(old, memory_limit=-1), store)
        if mismatch is not None:
            listener(config.progress, screen_listener).say(f"warning: {mismatch}")
    updated = train_on(
        config.corpus,
        old,
        run,
        passes=config.passes,
        force=force,
        progress=config.progress,
        **config.limits(),
    )
    edits.copy_log(old, run, anew=force)
    return updated


def _write_beside(old: Path, run: Path, config: UpdateConfig) -> Updated:
    """Write the new model to a folder of its own (``--out``)."""
    if kind_of(run) != "model":
        check_place(run, "--out", [config.corpus, old])
    elif os.path.samefile(run, old):
        raise UsageError(f"--out {run}: is the model being updated; leave out --out to replace it")
    elif (
        not config.force
        and (run / "manifest.json").exists()
        and not _is_update(run, old, Corpus.open(config.corpus).fingerprint)
    ):
        raise TopicsError(f"{run}: is another model; --force replaces it, or name another folder")
    with lock(old, "training", kind="model"):
        return _train_update(old, run, config, force=config.force)


def _replace_model(old: Path, config: UpdateConfig) -> Updated:
    """Replace the old model by the new one."""
    if old.is_symlink():
        raise TopicsError(
            f"{old}: is published by `topics retrain`; run that instead, or give --out"
        )
    check_place(old, "--model", [config.corpus])
    if os.path.ismount(old):  # the new model is made beside it and changes names with it
        raise UsageError(
            f"--model {old}: is the root of a disk or a mount, which a model cannot replace; "
            f"give --out FOLDER"
        )
    run = old.with_name(old.name + ".update")
    store = Corpus.open(config.corpus)
    with lock(old, "training", kind="model"):
        for path in unlisted_paths(old):
            if path.parent != old:
                raise NotOurs(
                    f"{path}: is not ours, and its folder is to be replaced; move it out and "
                    f"run this again"
                )
        mark = claim(old, "model")
        state = _state_of(run, old)
        if state == "replaced":
            _remove_replaced(run, old)
        manifest = read_manifest(old)
        if store.has_fingerprint(manifest.corpus.fingerprint):
            if state == "begun":
                owned.remove(run, "model")
            listener(config.progress, screen_listener).say(
                f"{old}: is up to date with the corpus; nothing to do"
            )
            background = TopicModel.open(old, memory_limit=-1).background_topic
            return Updated(
                old, manifest.passes or 0, "", {}, manifest.topics, background, "nothing"
            )
        claim(run, "model", owner=mark.id)
        start_over = state == "begun" and (
            config.force or not _is_update(run, old, store.fingerprint)
        )
        updated = _train_update(old, run, config, force=start_over)
        durable.exchange_folders(run, old)
        _remove_replaced(run, old)
    return replace(updated, model=old)


def _state_of(run: Path, old: Path) -> str:
    """Return the state of the folder ``MODEL.update``.

    Returns
    -------
    str
        Empty: no folder. ``begun``: an unfinished update of this model. ``replaced``: the model
        that this one replaced, because the update was killed before it removed it.

    Raises
    ------
    NotOurs
        If anything else lies there.
    """
    if not os.path.lexists(run):
        return ""
    mark = mark_of(run)
    present = mark_of(old)
    if mark is not None and present is not None and mark.kind == "model":
        if mark.owner == present.id:
            return "begun"
        if present.owner == mark.id:
            return "replaced"
    if mark is None and run.is_dir() and not run.is_symlink() and not holds_files(run):
        return ""
    raise NotOurs(f"{run}: is in the way and no update of {old}; move it away and run this again")


def _is_update(run: Path, model: Path, fingerprint: str) -> bool:
    """Tell whether a run is an update of this model on this corpus."""
    record = RunRecord.read(run)
    return record is not None and (record.corpus, record.warm) == (
        fingerprint,
        str(model.resolve()),
    )


def _remove_replaced(run: Path, model: Path) -> None:
    """Remove the model that was replaced, and move files of others to the new one."""
    for path in list(unlisted_paths(run)):
        if path.parent == run:
            owned.move_folder(path, model / path.name)
    owned.remove(run, "model")
