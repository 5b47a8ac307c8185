"""Proposals of labels: from the topics' own words, or by a program that the user names (no network code of ours)."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import numpy as np

from topicstream.corpus.reader import Corpus
from topicstream.errors import InputError, StoreError, TopicsError, one_line
from topicstream.evaluation.memory import open_within
from topicstream.model.edits import LONGEST, View, seen, view_of
from topicstream.model.top import top_words
from topicstream.model.topic_model import TopicModel
from topicstream.reporting.doc_topics import typical_documents
from topicstream.reporting.gather import describe_documents
from topicstream.reporting.labels import propose
from topicstream.reporting.metadata import columns_of
from topicstream.reporting.snippets import passage_of, snippets

SECONDS = 300
WORDS = 20
QUESTION = (
    "Give this topic of a topic model a short label of two to five words. Answer with the label alone, on one line.\n"
)


def proposals(
    model: str | Path | TopicModel = "model",
    corpus: str | Path | Corpus | None = "corpus.zarr",
    *,
    program: str | None = None,
    docs: int = 3,
    threads: int | None = None,
) -> dict[int, str]:
    """Labels for the topics that have none: stable id -> label.

    program  a command line; it gets a prompt (words and, where there is a corpus, the titles and beginnings of ``docs``
             typical documents) on standard input, and the first line it prints is the label.  It is run without a shell,
             once a topic, each time for five minutes at most; TopicsError where it fails.  None: the topics' own words.
    """
    opened, workers = open_within(model, None, threads)
    view = view_of(opened)
    shown = seen(opened, view)
    wanted = [j for j, k in enumerate(view.ids) if k not in view.labels]
    if program is None:
        labels = propose(shown)
        return {view.ids[j]: labels[j] for j in wanted if shown.sizes[j] >= 1.0}
    try:
        arguments = shlex.split(program)
    except ValueError as e:
        raise InputError(f"--command {program}: {e}") from None
    if not arguments:
        raise InputError("--command: names no program")
    beginnings = _beginnings(opened, view, corpus, docs, workers) if docs and corpus is not None else {}
    ids, _ = top_words(shown, WORDS)
    out = {}
    for j in wanted:
        if shown.sizes[j] < 1.0:
            continue
        text = f"{QUESTION}\nMost probable words: {', '.join(shown.vocabulary.texts(ids[:, j]))}\n"
        if beginnings.get(j):
            text += "\nTypical documents:\n" + "".join(f"- {b}\n" for b in beginnings[j])
        out[view.ids[j]] = _ask(arguments, text, view.ids[j])
    return out


def _ask(arguments: list[str], prompt: str, topic: int) -> str:
    name = arguments[0]
    try:
        done = subprocess.run(arguments, input=prompt.encode(), capture_output=True, timeout=SECONDS, check=False)
    except FileNotFoundError:
        raise InputError(f"--command {name}: no such program") from None
    except OSError as e:
        raise TopicsError(f"--command {name}: cannot be run ({e.strerror})") from None
    except subprocess.TimeoutExpired:
        raise TopicsError(f"--command {name}: no answer for topic {topic} in {SECONDS} s; nothing was stored") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it printed no reason"]
        raise TopicsError(
            f"--command {name}: failed ({done.returncode}) at topic {topic}: {said[0]}; nothing was stored"
        )
    answer = next((line for line in done.stdout.decode("utf-8", "replace").splitlines() if line.strip()), "")
    label = " ".join("".join(c for c in answer if c.isprintable()).split()).strip("\"'“”` ")
    if not label:
        raise TopicsError(f"--command {name}: printed no label for topic {topic}; nothing was stored")
    return label[:LONGEST]


def _beginnings(
    model: TopicModel, view: View, corpus: str | Path | Corpus | None, docs: int, threads: int
) -> dict[int, list[str]]:
    try:
        store = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus or "")
    except StoreError:
        return {}
    numbers, share, _ = typical_documents(model, store, docs, threads, view)
    columns = [c for c in ("title",) if c in columns_of(store)]
    rows = describe_documents(store, numbers, ["source", *columns])
    places = {number: passage_of(store, row) for number, row in rows.items()}
    texts, _ = snippets(store, filter(None, places.values()))
    out: dict[int, list[str]] = {}
    for j in range(numbers.shape[1]):
        mine = [int(d) for d, s in zip(numbers[:, j], share[:, j], strict=True) if np.isfinite(s)]
        said = [texts.get(places[d] or ("", 0), "") or str(rows[d].get("title") or "") for d in mine]
        out[j] = [one_line(s) for s in said if s]
    return out
