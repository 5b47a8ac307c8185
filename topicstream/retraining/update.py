"""``topics update``: go on training on a corpus that has been appended to, from the model that is there.

Two ways, chosen by what is possible and said in the result:

- *carried*: tables and block memory of the model's run are taken over, only the new blocks are started (from the model's
  topics), then passes over everything.  Needs the run's own folder (checkpoint and work) and old blocks that nobody
  touched.
- *warm*: every block is started from the model's topics, then passes over everything.

Both keep the topics' numbers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from topicstream.corpus.reader import Corpus
from topicstream.corpus.sample import learned_from
from topicstream.engines import find
from topicstream.errors import NotOurs, StoreError, TopicsError, UsageError
from topicstream.files import durable, owned
from topicstream.files.durable import lock, read_json
from topicstream.files.ownership import check_place, claim, kind_of, mark_of, not_ours
from topicstream.metrics import recorded
from topicstream.model import edits
from topicstream.model.store import read_manifest
from topicstream.options import configured
from topicstream.progress import Shown, Told, listener
from topicstream.retraining.update_config import UpdateConfig
from topicstream.training.loop import figures_of, forget_runs, train
from topicstream.training.setup import make_engine, make_options
from topicstream.training.starts.carry import check_carried
from topicstream.training.stopping import tolerance

PASSES, WARM_PASSES = 15, 20
"""Passes of an update at most, carried and warm; it stops before when running perplexity settles.  Carried,
fourteen or fifteen end within 1 % of a full training on acl (scripts/benchmarks/bench_update.py; stopped at ten, 1.1 % in one of four
steps); on small corpora more passes make held-out perplexity worse again."""

SETTLED = 0.3
"""Of the engine's own tolerance: an update moves less from pass to pass than a training from seeds, and has not settled
when that would stop it."""

WARM_SHARE = 0.25
"""Of the topics that blocks are started from: the model's, the rest is the corpus mean.  Topics as they stand are fitted to
the old documents; started so, acl doubled from 10,000 documents ended 3 % above a full training, with 0.25 at 0.7 %."""


@dataclass(frozen=True)
class Updated:
    """What an update did.  how: ``carried``, ``warm`` or ``nothing`` (the model is of this corpus already); why: the
    reason, where it is not carried."""

    model: Path
    how: str
    why: str
    passes: int
    reason: str
    last: Mapping[str, Any]


def train_on(
    corpus: str | Path,
    model: str | Path,
    run: str | Path,
    *,
    earlier: str | Path | None = None,
    passes: int | None = None,
    progress: Told = None,
    **limits: Any,
) -> Updated:
    """Train from ``model`` on all of ``corpus`` in the folder ``run``; called again it carries on.

    earlier  the run that made the model, when its folder is still there: then it is carried over where that is possible
    limits   ``tol, max_time, threads, mem_limit, tables, eval_every, checkpoint_minutes`` of ``train``
    """
    progress = listener(progress, Shown)
    manifest = read_manifest(model)
    store = learned_from(Corpus.open(corpus), manifest, model)
    if manifest.get("engine") is None:
        raise StoreError(f"{model}/manifest.json: incomplete (no engine); restore the file or train again")
    kind = find(manifest["engine"])
    if "warm" not in kind.starts:
        raise TopicsError(f"{kind.name} cannot start from a model; train anew with `topics train`")
    layout, seed = manifest.get("layout") or {}, manifest.get("seed")
    missing = [] if isinstance(seed, int) or str(seed).isdecimal() else ["seed"]
    missing += [f"layout.{n}" for n in ("block_cells", "round_blocks") if n not in layout]
    missing += [] if manifest.get("options") is not None else ["options"]
    if missing:
        raise StoreError(f"{model}/manifest.json: incomplete (no {missing[0]}); restore the file or train again")
    why = not_carried(store, manifest, earlier)
    if limits.get("tol") is None:
        engines = tolerance(kind.default_tol)
        limits["tol"] = type(engines)(SETTLED * engines)
    options = manifest["options"]
    if "prior_pull" in options:  # its topics are there from the first pass on
        options = {**options, "learn_after": 0}
    began = Path(run) / "training.json"
    if began.exists():  # a run that began warm stays so, even if the earlier run has come back
        why = why or ("" if (Path(run) / "carried.json").exists() or not _started(Path(run)) else "it began warm")
    progress.say(
        "update: " + (f"every block starts from the model ({why})" if why else "new blocks start, old ones go on")
    )
    done = train(
        corpus,
        run,
        algo=kind.name,
        topics=None if kind.topics_axis else int(manifest["topics"]),
        seed=int(manifest["seed"]),
        passes=passes if passes is not None else WARM_PASSES if why else PASSES,
        start="warm",
        warm=model,
        carry=None if why else earlier,
        warm_share=WARM_SHARE,
        seed_words=manifest.get("seed_words"),
        sample=manifest.get("sample"),
        weighting=(manifest.get("weighting") or {"kind": "none"})["kind"],
        block_cells=layout["block_cells"],
        round_blocks=layout["round_blocks"],
        options=options,
        progress=progress,
        **limits,
    )
    return Updated(done.model, "warm" if why else "carried", why, done.passes, done.reason, done.last)


def not_carried(store: Corpus, manifest: Mapping[str, Any], earlier: str | Path | None) -> str:
    """Why an update of a model starts every block anew, in words; empty where block memory is carried over from its run."""
    kind = find(manifest["engine"])
    if manifest.get("weighting"):
        return "what a cell weighs has changed with the corpus"
    if earlier is None or not Path(earlier).exists():
        return "the model's own run is not there"
    topics = None if kind.topics_axis else int(manifest["topics"])
    return check_carried(earlier, store, make_engine(kind, store, make_options(kind, manifest["options"]), topics)) or ""


def _started(run: Path) -> bool:
    return any((run / "checkpoints").glob("[0-9]*"))


@configured(UpdateConfig)
def update(config: UpdateConfig) -> Updated:
    """Bring ``model`` up to a corpus that has been appended to (``topics ingest --append --grow-vocab``).

    The new model is trained in ``MODEL.update`` beside the old one and changes places with it in one rename when it is
    done; with ``out`` it stays there and the old one is left as it is.  Killed, the same call carries on.  Engine,
    options, seed and number of topics are the model's.

    force  forgets an unfinished update (with ``out``: the run there; a model of ours stays until the new one is done).

    What others have put into the model's folder goes over into the new one.

    Raises TopicsError (a published model, an engine without a warm start), Busy, DoesNotFit, Interrupted.
    """
    if config.metrics is not None:
        with recorded(config.metrics, "update", model=config.model) as tell:
            done = update(replace(config, metrics=None))
            tell({"passes": done.passes, **figures_of(done.last)})
        return done
    corpus, out, force = config.corpus, config.out, config.force
    progress = listener(config.progress, Shown)
    old = Path(config.model)
    manifest = read_manifest(old)
    if manifest.get("engine") == "imported":
        raise UsageError(
            f"--model {old}: was imported, so no engine can carry it on; train from it (topics train --start warm --warm "
            f"{old}), or find the topics of new documents with topics infer"
        )
    if old.is_symlink() and out is None:
        raise TopicsError(f"{old}: is published by `topics retrain`; use that, or give --out")
    store = Corpus.open(corpus)
    fingerprint = store.fingerprint
    if out is not None:
        run = Path(out)
        if kind_of(run) != "model":
            check_place(run, "--out", [corpus, old])
        elif os.path.samefile(run, old):
            raise UsageError(f"--out {out}: is the model that is updated; leave --out out to replace it")
        elif not force and (run / "manifest.json").exists() and not _same(run, old, fingerprint):
            raise TopicsError(f"{run}: is another model; --force replaces it, or name another folder")
        elif force:
            with lock(run, "training", kind="model"):
                forget_runs(run)
        with lock(old, "training", kind="model"):
            done = train_on(corpus, old, run, earlier=old, passes=config.passes, progress=progress, **config.limits())
            edits.carry(old, run)
            return done
    check_place(old, "--model", [corpus])
    if os.path.ismount(old):  # the new model is made beside it and changes names with it
        raise UsageError(f"--model {old}: is the root of a disk or a mount, which no model can replace; give --out FOLDER")
    run = old.with_name(old.name + ".update")
    with lock(old, "training", kind="model"):
        for path in not_ours(old, "model"):
            if path.parent != old:
                raise NotOurs(f"{path}: is not ours, and its folder is to be replaced; move it out and run this again")
        mark, left = owned.claim_existing(old, "model"), _left(run, old)
        if left == "replaced":
            _remove_replaced(run, old)
        if store.is_of((manifest.get("corpus") or {}).get("fingerprint")):
            if left == "begun":
                owned.remove(run, "model")
            progress.say(f"{old}: is of this corpus already; nothing to do")
            return Updated(old, "nothing", "the corpus has not changed", manifest.get("passes", 0), "", {})
        if left == "begun" and (force or not _same(run, old, fingerprint)):
            owned.remove(run, "model")
        claim(run, "model", of=mark.id)
        done = train_on(corpus, old, run, earlier=old, passes=config.passes, progress=progress, **config.limits())
        edits.carry(old, run)
        durable.exchange_folders(run, old)
        _remove_replaced(run, old)
    return Updated(old, done.how, done.why, done.passes, done.reason, done.last)


def _left(run: Path, old: Path) -> str:
    """What lies at ``MODEL.update``: nothing, ``begun`` (an update of this model that has not ended), or ``replaced`` (the
    model that the present one was made of: the update was killed between the exchange and its removal)."""
    if not os.path.lexists(run):
        return ""
    at, now = mark_of(run), mark_of(old)
    if at is not None and now is not None and at.kind == "model":
        if at.of == now.id:
            return "begun"
        if now.of == at.id:
            return "replaced"
    if at is None and kind_of(run) == "model":  # 0.1.0's
        names = [_warm(place) == str(old.resolve()) for place in (run, old)]
        if any(names):
            return "begun" if names[0] else "replaced"
    if at is None and run.is_dir() and not run.is_symlink() and not set(os.listdir(run)) - {".lock"}:
        return ""
    raise NotOurs(f"{run}: is in the way and no update of {old}; move it away and run this again")


def _warm(run: Path) -> str | None:
    """The model that a run started from."""
    record = read_json(run / "training.json") if (run / "training.json").exists() else None
    return record.get("warm") if isinstance(record, dict) else None


def _remove_replaced(run: Path, model: Path) -> None:
    """Remove the model that was replaced; what others had put into it goes over into the new one."""
    for path in list(not_ours(run, "model")):
        if path.parent == run:
            owned.move(path, model / path.name)
    owned.remove(run, "model")


def _same(run: Path, model: Path, fingerprint: str) -> bool:
    """Whether an unfinished update is of this model and this corpus."""
    if not (run / "training.json").exists():
        return False
    record = read_json(run / "training.json")
    return bool(record.get("corpus") == fingerprint and record.get("warm") == str(model.resolve()))
