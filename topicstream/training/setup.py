"""What a run is made of, settled before anything is begun: the corpus, the engine on it, its start, when it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from topicstream import machine
from topicstream.corpus.reader import Corpus
from topicstream.corpus.sample import sampled
from topicstream.engines import find
from topicstream.engines.base import BlockShape, Engine, Shape
from topicstream.errors import DoesNotFit, InputError, UsageError
from topicstream.files.ownership import check_place, kind_of
from topicstream.options import checked, seconds, share
from topicstream.progress import Progress, Shown, listener
from topicstream.training.config import TrainConfig
from topicstream.training.starts.anchor_start import anchor_engine
from topicstream.training.starts.seeded import with_seeds
from topicstream.training.starts.tries import pays
from topicstream.training.state.record import begun_from
from topicstream.training.stopping import CELLS, LONG, Stopping, tolerance
from topicstream.training.weights import TrainingWeights


def corpus_of(config: TrainConfig) -> Corpus:
    """The corpus, where there is something in it that the engine can train on; its cells weighed as asked."""
    store = Corpus.open(config.corpus, vectors=True)
    if store.vectors and (config.algo == "auto" or not find(config.algo).on_vectors):
        raise UsageError(f"{store.path}: holds vectors; --algo {config.algo} takes documents, --algo gmm takes vectors")
    if (part := sample_of(config)) is not None:
        store = _sample(store, part, config)
    if store.n_cells == 0:
        raise InputError(f"{store.path}: no training document has a word of the vocabulary; ingest again, with other documents or another vocabulary")
    if kind_of(Path(config.model)) != "model":
        check_place(Path(config.model), "--model", [config.corpus])
    weigh(store, config.weighting)
    return store


def sample_of(config: TrainConfig) -> float | None:
    """The share of the training documents that is asked for."""
    return None if config.sample is None else float(share(config.sample))


def _sample(store: Corpus, part: float, config: TrainConfig) -> Corpus:
    axes = [] if config.algo == "auto" else find(config.algo).axes
    if store.vectors or axes:
        whose = axes[0] if axes else "vectors"
        raise UsageError(f"--sample: --algo {config.algo} reads {whose}, which cannot be sampled; `topics ingest --heldout` sets documents aside")
    found = sampled(store, part)
    listener(config.progress, Shown).say(f"sample: {found.n_docs:,} of {store.n_docs:,} training documents")
    return found


def weigh(store: Corpus, kind: str) -> None:
    """From now on the store's blocks have weights for counts (``none``: as they are)."""
    if kind == "none":
        return
    if store.weighted:
        raise InputError(f"{store.path}: has real-valued cells; --weighting {kind} weighs counts, leave it out")
    store.weights = TrainingWeights.of_corpus(kind, store)


def shape_of(store: Corpus, topics: int) -> Shape:
    """The training problem of a store, as far as it has no axes."""
    weighted = store.weighted or store.weights is not None
    return Shape(store.n_docs, store.n_words, store.n_cells, float(store.n_tokens), topics, weighted)


def make_options(engine: type[Engine], given: Mapping[str, Any]) -> Any:
    """The engine's Options from plain values; TopicsError naming an unknown or impossible one."""
    return engine.Options(**checked(engine.Options.__dataclass_fields__, given, engine.name))


def make_engine(kind: type[Engine], store: Corpus, options: Any, topics: int | None) -> Engine:
    """An engine for a store; topics: as many as are asked for, None: not said."""
    axes = {name: store.axes[name].size for name in kind.axes}
    shape = shape_of(store, kind.n_topics(axes, options, topics))
    shape = replace(shape, axes=axes, rows=sum(entry["docs"] for entry in store.part()["blocks"]))
    if kind.topics_axis:
        shape = replace(shape, bare={kind.topics_axis: bare_cells(store, kind.topics_axis)})
    return kind(shape, options)


def refuse_wide(engine: Engine, limit: int) -> None:
    """DoesNotFit where components alone, of whatever vectors, are more than the limit: before kernels are tried on them."""
    n = engine.shape.words
    if (need := engine.scratch_bytes(BlockShape(2, 2 * n, 0, n))) > limit:
        raise DoesNotFit(
            f"{engine.name} with {engine.shape.topics} components of {n} numbers needs {machine.format_bytes(need)}, the smallest "
            f"limit that would do is above {need >> 20}M; lower -K, --covariance diag, or raise --mem-limit"
        )


def bare_cells(store: Corpus, axis: str) -> int:
    """Cells of the training documents without an id of the axis."""
    blocks = range(len(store.part()["blocks"]))
    return sum(int(store.lengths(b)[store.ragged(axis, b)[0] == 0].sum(dtype=np.int64)) for b in blocks)


def engine_of(
    config: TrainConfig, store: Corpus, options: dict[str, Any], n_w: np.ndarray, progress: Progress
) -> tuple[Engine, Any]:
    """The engine on this corpus, and its seed words as a record of the run keeps them."""
    algo, kind = config.algo, find(config.algo)
    if store.weights is not None and not kind.accepts_weights:
        raise InputError(
            f"--weighting {config.weighting}: {algo} needs whole counts; leave it out or use an engine such as sparse-bp"
        )
    if store.weighted and not kind.accepts_weights:
        raise InputError(
            f"{store.path} has real-valued cells and {algo} needs whole counts; use a message-passing engine such as atbp"
        )
    if kind.on_vectors and not store.vectors:
        raise UsageError(
            f"{store.path}: holds documents; --algo {algo} takes vectors (.npy), --algo mixture clusters documents"
        )
    if kind.on_vectors:
        machine.one_blas_thread()
    engine = make_engine(kind, store, make_options(kind, options), config.topics)
    if kind.on_vectors:
        refuse_wide(engine, machine.memory_limit(config.mem_limit))
    engine, seeds, told = with_seeds(engine, config.seed_words, store, n_w)
    for line in told:
        progress.say(f"warning: {line}")
    topics, docs = engine.shape.topics, engine.shape.docs
    if topics > docs:
        progress.say(
            f"warning: {topics:,} topics for {docs:,} training documents: most will be empty or say what one document "
            "says; fewer (-K) would do"
        )
    return engine, seeds


def default_start(engine: Engine, shape: Shape) -> str:
    """The engine's own; ``best`` in the place of ``documents`` where it pays."""
    first = engine.first_start
    return "best" if first == "documents" and "best" in engine.starts and pays(shape, engine.best_from) else first


def start_of(config: TrainConfig, engine: Engine) -> str:
    """How the run starts; UsageError where the engine cannot."""
    chosen = config.start or ("warm" if config.warm is not None else None)
    if chosen is None and not config.force:
        chosen = begun_from(Path(config.model), engine.name)
    chosen = chosen or default_start(engine, engine.shape)
    if chosen not in engine.starts:
        raise UsageError(f"{config.algo} cannot start from {chosen!r}; it can from {', '.join(engine.starts)}")
    if (chosen == "warm") != (config.warm is not None):
        raise UsageError("--start warm and the model to start from go together: --start warm --warm MODEL")
    if chosen == "anchors":
        anchor_engine(engine.shape)  # refused now, not after the memory plan
    return chosen


def stopping_of(config: TrainConfig, engine: Engine, progress: Progress) -> Stopping:
    """When the run ends."""
    if config.tol_params is not None and ("phi" not in engine.tables or len(engine.phases) > 1):
        raise UsageError(f"--tol-params: {config.algo} has no topics that move from pass to pass; leave it out")
    tol = config.tol if config.tol is not None else engine.default_tol if config.tol_params is None else 0.0
    ours = config.tol is None and not config.eval_every and engine.unsettled
    stopping = Stopping(
        config.passes if config.passes is not None else engine.default_passes,
        tolerance(tol),
        seconds(config.max_time),
        config.eval_every,
        config.tol_params or 0.0,
        min(LONG, CELLS // engine.shape.cells) if ours else 0,
    )
    if (needed := engine.needs_passes) is None:
        return stopping
    if config.passes not in (None, needed):
        progress.say(f"{config.algo} makes {needed} passes, whatever --passes says")
    return replace(stopping, passes=needed, tol=0.0)
