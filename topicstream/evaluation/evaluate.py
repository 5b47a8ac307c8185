"""``topicstream.evaluate``: one judge for every model, whoever trained it."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from topicstream.corpus.reader import Corpus
from topicstream.errors import DoesNotFit, InputError, StoreError
from topicstream.evaluation.coherence import TOP, TOP_DIVERSITY, coherence, diversity
from topicstream.evaluation.completion import LANES, Score, block_cells, score_model
from topicstream.machine import default_memory_limit, default_threads, format_bytes, parse_bytes
from topicstream.model.store import read_manifest
from topicstream.model.topic_model import TopicModel

FLOOR = 320 << 20
"""Interpreter, libraries, kernels and blocks in flight: 333 MB at most measured, evaluating with two threads."""
A_THREAD = 12 << 20
A_WORD = 150


def open_within(
    model: str | Path | TopicModel,
    mem_limit: str | int | None = None,
    threads: int | None = None,
    *,
    share: float = 1.0,
) -> tuple[TopicModel, int]:
    """Open a model and settle the threads (default: all processors) so that scoring stays within a memory limit (default:
    what the machine allows): fewer threads first, and the table's rows stay on disk unless it fits beside them.

    ``share``: of what is left for tables, this model's.  A given limit that cannot be kept raises DoesNotFit.
    """
    threads = threads if threads is not None else default_threads()
    if isinstance(model, TopicModel):
        return model, threads
    manifest = read_manifest(model)
    topics, words = int(manifest["topics"]), int(manifest["words"])
    each = A_THREAD + 6 * block_cells(topics) * (topics + LANES)
    fixed = FLOOR + A_WORD * words
    limit = parse_bytes(mem_limit) if mem_limit is not None else default_memory_limit()
    if mem_limit is not None and limit < fixed + each:
        raise DoesNotFit(
            f"--mem-limit {format_bytes(limit)}: {model} needs {format_bytes(fixed + each)} at least; give that or more"
        )
    threads = max(1, min(threads, (limit - fixed) // each))
    return TopicModel.open(model, memory_limit=int(max(0, limit - fixed - threads * each) * share)), threads


def parse_split(text: str | float) -> float:
    """``80/20``, ``90/10`` or a share such as 0.8 -> observed share; InputError otherwise."""
    try:
        seen, _, rest = str(text).partition("/")
        share = float(seen) / (float(seen) + float(rest)) if rest else float(seen)
    except (ValueError, ZeroDivisionError):
        share = math.nan
    if not 0.0 < share < 1.0:
        raise InputError(f"--split {text}: give observed and scored shares, such as 80/20 or 90/10")
    return share


def evaluate(
    model: str | Path | TopicModel = "model",
    corpus: str | Path | Corpus = "corpus.zarr",
    *,
    heldout: bool | str | Path = False,
    training: bool = False,
    coherent: bool = False,
    diverse: bool = False,
    split: str | float = "80/20",
    top: int = TOP,
    threads: int | None = None,
    mem_limit: str | int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, Any]:
    """Score a model.  With nothing asked for: held-out perplexity (where documents were set aside), coherence, diversity.

    heldout    True: the documents of ``corpus`` set aside at ingest; a path: all documents of another corpus store, or raw
               text, which is read with the model's own tokenizer
    training   exact perplexity of the training documents, theta folded in on all their cells
    coherent   UMass and NPMI of the ``top`` first words, counted on the training documents of ``corpus``
    diverse    share of distinct words among the first 25 of all topics
    split      observed and scored shares of a document's words
    progress   called with (what is being scored, documents done, documents in all)

    Returns plain values: for each of ``heldout``, ``training``, ``coherence``, ``diversity`` a dict whose ``measured``
    says in words what was measured.  Perplexity is exp(nats_per_token).  The result does not depend on threads.

    Raises StoreError (damaged model or store), InputError (nothing to score), DoesNotFit.
    """
    if not (heldout or training or coherent or diverse):
        everything = True
        corpus = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
        heldout, coherent, diverse = corpus.part(True)["docs"] > 0, True, True
    else:
        everything = False
    topics, workers = open_within(model, mem_limit, threads)
    share = parse_split(split)

    def score(name: str, store: Any, share: float | None, parts: tuple[str, ...]) -> Score:
        say = partial(progress, name) if progress is not None else None
        return score_model(topics, store, split=share, threads=workers, parts=parts, progress=say)

    result: dict[str, Any] = {
        "model": str(topics.path or "in memory"),
        "topics": topics.n_topics,
        "words": topics.n_words,
    }
    needs_corpus = heldout is True or training or coherent
    store = (corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)) if needs_corpus else None
    if store is not None:
        result["corpus"] = str(store.path)
    if heldout is True:
        result["heldout"] = _as_dict(score("held-out", store, share, ("heldout",)), "documents set aside")
    elif heldout:
        with other_corpus(heldout, topics) as other:
            found = score("held-out", other, share, ("train", "heldout"))
        result["heldout"] = _as_dict(found, f"all documents of {heldout}")
    elif everything:
        result["note"] = "no documents were set aside at ingest (--heldout 1%): no held-out perplexity"
    if training:
        result["training"] = _as_dict(score("training", store, None, ("train",)), "training documents")
    if coherent:
        words = coherence(topics, store, top=top, threads=workers)
        result["coherence"] = {**_finite(words.as_dict()), "measured": words.measured}
    if diverse:
        result["diversity"] = {
            "share": diversity(topics),
            "top": TOP_DIVERSITY,
            "measured": f"share of distinct words among the {TOP_DIVERSITY} most probable words of all topics",
        }
    return result


def _as_dict(score: Score, of: str) -> dict[str, Any]:
    return {**_finite(score.as_dict()), "measured": f"{score.measured}; {of}"}


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}


@contextlib.contextmanager
def other_corpus(path: str | Path, model: TopicModel) -> Iterator[Corpus]:
    """A corpus store as it is, or raw text ingested into a temporary one with the model's tokenizer and all its words kept
    (so that the out-of-vocabulary rate is known)."""
    path = Path(path)
    if not path.exists():
        raise InputError(f"--heldout {path}: no such file or folder")
    if (path / "manifest.json").exists():
        yield Corpus.open(path)
        return
    from topicstream.ingest.pipeline import ingest
    from topicstream.ingest.settings import Heldout, IngestOptions
    from topicstream.tokens.recipe import Recipe

    recipe = model.manifest.get("tokenizer")
    if recipe is None:
        raise StoreError(
            f"{model.path}: the model does not say how its text was tokenised; ingest {path} and name the store"
        )
    with tempfile.TemporaryDirectory(prefix="topics-heldout-") as folder:
        out = Path(folder) / "corpus.zarr"
        options = IngestOptions(recipe=Recipe.from_json(recipe), min_df=1, max_df=1.0, heldout=Heldout.of(0))
        ingest([path], out, options=options)
        yield Corpus.open(out)
