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
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topicstream import durable
from topicstream.corpus.reader import Corpus
from topicstream.durable import lock, read_json, sync_folder
from topicstream.engines import find
from topicstream.engines.base import Shape
from topicstream.errors import TopicsError
from topicstream.model.store import read_manifest
from topicstream.training.carry import check
from topicstream.training.loop import make_options, train
from topicstream.training.progress import Progress

PASSES, WARM_PASSES = 15, 20
"""Passes of an update at most, carried and warm; it stops before when training perplexity settles.  Carried,
fourteen or fifteen end within 1 % of a full training on acl (scripts/bench_update.py; stopped at ten, 1.1 % in one of four
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
    progress: Progress | None = None,
    **limits: Any,
) -> Updated:
    """Train from ``model`` on all of ``corpus`` in the folder ``run``; called again it carries on.

    earlier  the run that made the model, when its folder is still there: then it is carried over where that is possible
    limits   ``tol, max_time, threads, mem_limit, tables, eval_every, checkpoint_minutes`` of ``train``
    """
    progress = progress or Progress()
    manifest, store = read_manifest(model), Corpus.open(corpus)
    kind, topics = find(manifest["engine"]), int(manifest["topics"])
    if "warm" not in kind.starts:
        raise TopicsError(f"{kind.name} cannot start from a model; train anew with `topics train`")
    why = "the model's own run is not there"
    if earlier is not None and Path(earlier).exists():
        shape = Shape(store.n_docs, store.n_words, store.n_cells, float(store.n_tokens), topics, store.weighted)
        why = check(earlier, store, kind(shape, make_options(kind, manifest["options"]))) or ""
    if limits.get("tol") is None:
        limits["tol"] = SETTLED * kind.default_tol
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
        topics=topics,
        seed=int(manifest["seed"]),
        passes=passes if passes is not None else WARM_PASSES if why else PASSES,
        start="warm",
        warm=model,
        carry=None if why else earlier,
        warm_share=WARM_SHARE,
        block_cells=int(manifest["layout"]["block_cells"]),
        round_blocks=int(manifest["layout"]["round_blocks"]),
        options=manifest["options"],
        progress=progress,
        **limits,
    )
    return Updated(done.model, "warm" if why else "carried", why, done.passes, done.reason, done.last)


def _started(run: Path) -> bool:
    return any((run / "checkpoints").glob("[0-9]*"))


def update(
    corpus: str | Path = "corpus.zarr",
    model: str | Path = "model",
    *,
    out: str | Path | None = None,
    passes: int | None = None,
    force: bool = False,
    progress: Progress | None = None,
    **limits: Any,
) -> Updated:
    """Bring ``model`` up to a corpus that has been appended to (``topics ingest --append --grow-vocab``).

    The new model is trained in ``MODEL.update`` beside the old one and changes places with it in one rename when it is
    done; with ``out`` it stays there and the old one is left as it is.  Killed, the same call carries on.  Engine,
    options, seed and number of topics are the model's.

    passes, limits  see ``train_on``;  force: forget an unfinished update

    Raises TopicsError (a published model, an engine without a warm start), Busy, DoesNotFit, Interrupted.
    """
    progress = progress or Progress()
    old = Path(model)
    manifest = read_manifest(old)
    if old.is_symlink() and out is None:
        raise TopicsError(f"{old}: is published by `topics retrain`; use that, or give --out")
    run = Path(out) if out is not None else old.with_name(old.name + ".update")
    fingerprint = Corpus.open(corpus).fingerprint
    with lock(old, "training"):
        if (manifest.get("corpus") or {}).get("fingerprint") == fingerprint and out is None:
            if run.exists():  # what an update left that was killed between the exchange and the removal
                shutil.rmtree(run)
            progress.say(f"{old}: is of this corpus already; nothing to do")
            return Updated(old, "nothing", "the corpus has not changed", manifest.get("passes", 0), "", {})
        if run.exists() and (force or (out is None and not _same(run, old, fingerprint))):
            shutil.rmtree(run)
        done = train_on(corpus, old, run, earlier=old, passes=passes, progress=progress, **limits)
        if out is not None:
            return done
        exchange(run, old)
    shutil.rmtree(run)
    return Updated(old, done.how, done.why, done.passes, done.reason, done.last)


def _same(run: Path, model: Path, fingerprint: str) -> bool:
    """Whether an unfinished update is of this model and this corpus."""
    if not (run / "training.json").exists():
        return False
    record = read_json(run / "training.json")
    return record.get("corpus") == fingerprint and record.get("warm") == str(model.resolve())


def exchange(new: Path, old: Path) -> None:
    """Let two folders change names in one step; where the file system cannot, in two (a reader may then miss the model
    for an instant)."""
    if not durable.exchange(new, old):
        aside = old.with_name(old.name + ".old")
        os.replace(old, aside)
        os.replace(new, old)
        os.replace(aside, new)
    sync_folder(old.parent)
