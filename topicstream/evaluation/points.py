"""How well a model of Gaussian components foretells vectors, and how its components agree with labels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from topicstream.corpus.block import Block
from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, UsageError
from topicstream.evaluation.clusters import score_agreement
from topicstream.evaluation.config import EvalConfig
from topicstream.model.gaussians import POINTS, GaussianModel, threads_within
from topicstream.parallel.order import in_order

UNFIT = ("whole", "coherent", "diverse", "authors", "links", "per_document")


def _answers(
    model: GaussianModel, store: Corpus, heldout: bool, threads: int
) -> Iterator[tuple[Block, np.ndarray, np.ndarray]]:
    """(block, log p(x), likeliest component) of the points of a part that are there, in order."""

    def visit(block: Block) -> tuple[Block, np.ndarray, np.ndarray]:
        fit, shares = model.answer(block.counts.reshape(-1, model.n))
        return block, fit, shares.argmax(1)

    if store.part(heldout)["docs"]:
        grid = store.grid(POINTS * model.n, POINTS, heldout=heldout)
        yield from in_order(visit, store.blocks(grid=grid, heldout=heldout), threads)


def components_of(model: GaussianModel, store: Corpus, threads: int, heldout: bool) -> np.ndarray:
    """The likeliest component of each point of a part, int64, -1: removed."""
    found = np.full(store.part(heldout)["docs"], -1, np.int64)
    for block, _, component in _answers(model, store, heldout, threads):
        found[block.first_doc + np.flatnonzero(np.diff(block.indptr))] = component
    return found


def score_points(model: GaussianModel, store: Corpus, parts: tuple[str, ...], threads: int) -> dict[str, Any]:
    """Mean log-likelihood of the points of the parts; InputError where there is none."""
    total, points = 0.0, 0
    for part in parts:
        for _, fit, _ in _answers(model, store, part == "heldout", threads):
            for value in fit.tolist():  # one by one: the same bits for any blocks
                total += value
            points += len(fit)
    if not points:
        raise InputError(f"{store.path}: no vectors to score; set some aside at ingest (--heldout 1%)")
    return {"nats_per_point": -total / points, "points": points}


def evaluate_vectors(config: EvalConfig) -> dict[str, Any]:
    """``evaluate`` of a model of vectors: log-likelihood a point, and agreement with a column of the points."""
    if wrong := [name for name in UNFIT if getattr(config, name)]:
        raise UsageError(f"{config.model}: a model of vectors; --{wrong[0].replace('_', '-')} is for topics")
    threads = threads_within(config.model, config.mem_limit, config.threads)  # type: ignore[arg-type]
    model = GaussianModel(config.model)  # type: ignore[arg-type]
    result: dict[str, Any] = {"model": str(model.path), "components": len(model.pi), "numbers": model.n}

    def opened(path: Any) -> Corpus:
        store = path if isinstance(path, Corpus) else Corpus.open(path, vectors=True)
        model.check(store.vectors, str(store.path))
        return store

    other = config.heldout if isinstance(config.heldout, str | Path) else None
    if other is not None and not (Path(other) / "manifest.json").exists():
        raise UsageError(f"--heldout {other}: of vectors, a store is scored; ingest the file")
    store = opened(other if other is not None else config.corpus)
    parts = ("train", "heldout") if other is not None else ("heldout",)
    if config.heldout or not (config.training or config.labels):
        of = f"all vectors of {other}" if other is not None else "vectors set aside"
        result["heldout"] = {**score_points(model, store, parts, threads), "measured": f"log-likelihood; {of}"}
    if config.training:
        own = opened(config.corpus)
        result["training"] = {
            **score_points(model, own, ("train",), threads),
            "measured": "log-likelihood; training vectors",
        }
    if config.labels:
        if other is None and not store.part(True)["docs"]:
            parts = ("train",)
        of_part = partial(components_of, model, store, threads)
        result["labels"] = score_agreement(store, parts, config.label_field, len(model.pi), of_part)
    return result


def lines(result: dict[str, Any]) -> list[str]:
    """The result for people."""
    out = [f"{result['model']}: {result['components']} components over {result['numbers']} numbers"]
    for name, title in (("heldout", "held-out"), ("training", "training")):
        if name in result:
            r = result[name]
            out.append(f"{title:22}{-r['nats_per_point']:.4f} nats a point   ({r['points']:,} points; {r['measured']})")
    return out
