"""Proposals of names for topics, from the topics' own words or by a program of the user.

No code of ours uses the network.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import numpy as np

from topicstream.base.errors import InputError, StoreError, TopicsError, one_line
from topicstream.corpus.reader import Corpus
from topicstream.display.doc_topics import typical_documents
from topicstream.display.passages import beginnings
from topicstream.display.view import ShownModel, open_shown
from topicstream.model.edits import LONGEST
from topicstream.model.topic_kinds import DEAD
from topicstream.model.topic_model import TopicModel

SECONDS = 300
WORDS = 20
QUESTION = (
    "Give this topic of a topic model a short label of two to five words. Answer with the label "
    "alone, on one line.\n"
)


def propose_labels(
    model: str | Path | TopicModel = "model",
    corpus: str | Path | Corpus | None = "corpus.zarr",
    *,
    program: str | None = None,
    docs: int = 3,
    threads: int | None = None,
) -> dict[int, str]:
    """Propose labels for the topics that have none.

    Parameters
    ----------
    model, corpus
        The model, and the store that it was trained on, if there is one.
    program
        A command line that gets a prompt (words and, with a corpus, beginnings of typical
        documents) on standard input; the first line that it prints is the label. It runs without
        a shell, once a topic, each time for five minutes at most. None: labels are made of the
        topics' own words.
    docs
        Typical documents in a prompt.
    threads
        Threads that may work.

    Returns
    -------
    dict
        Labels by the number of the topic.

    Raises
    ------
    InputError
        If there is no such program.
    TopicsError
        If the program fails, prints nothing or takes too long.
    """
    shown = open_shown(model, None, threads)
    ids = shown.view.ids
    unlabelled = [
        k
        for k, number in enumerate(ids)
        if shown.view.label_of(number) is None and shown.model.kinds[k] != DEAD
    ]
    if program is None:
        return {ids[k]: shown.plain_names[k] for k in unlabelled}
    try:
        arguments = shlex.split(program)
    except ValueError as e:
        raise InputError(f"--command {program}: {e}") from None
    if not arguments:
        raise InputError("--command: is empty; name a program")
    documents = _read_documents(shown, corpus, docs) if docs and corpus is not None else {}
    words = shown.first_words(WORDS)
    out = {}
    for k in unlabelled:
        text = f"{QUESTION}\nMost probable words: {', '.join(words[k])}\n"
        if documents.get(k):
            text += "\nTypical documents:\n" + "".join(f"- {line}\n" for line in documents[k])
        out[ids[k]] = _run_program(arguments, text, ids[k])
    return out


def _run_program(arguments: list[str], prompt: str, topic: int) -> str:
    """Run the user's program on a prompt, and return the label that it prints."""
    name = arguments[0]
    try:
        process = subprocess.run(
            arguments, input=prompt.encode(), capture_output=True, timeout=SECONDS, check=False
        )
    except FileNotFoundError:
        raise InputError(f"--command {name}: no such program") from None
    except OSError as e:
        raise TopicsError(f"--command {name}: cannot be run ({e.strerror})") from None
    except subprocess.TimeoutExpired:
        raise TopicsError(
            f"--command {name}: no answer for topic {topic} in {SECONDS} s; nothing was stored"
        ) from None
    if process.returncode:
        reason = process.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [
            "it printed no reason"
        ]
        raise TopicsError(
            f"--command {name}: failed ({process.returncode}) at topic {topic}: {reason[0]}; "
            f"nothing was stored"
        )
    answer = next(
        (line for line in process.stdout.decode("utf-8", "replace").splitlines() if line.strip()),
        "",
    )
    label = " ".join("".join(c for c in answer if c.isprintable()).split()).strip("\"'“”` ")
    if not label:
        raise TopicsError(
            f"--command {name}: printed no label for topic {topic}; nothing was stored"
        )
    return label[:LONGEST]


def _read_documents(
    shown: ShownModel, corpus: str | Path | Corpus, docs: int
) -> dict[int, list[str]]:
    """Read the beginnings of the typical documents of each topic, if the corpus opens."""
    try:
        store = corpus if isinstance(corpus, Corpus) else Corpus.open(corpus)
    except StoreError:
        return {}
    numbers, share = typical_documents(shown.trained, store, docs, shown.threads, shown.view)
    about = beginnings(store, numbers)
    return {
        k: [
            one_line(about[d][1])
            for d in numbers[np.isfinite(share[:, k]), k].tolist()
            if about[d][1]
        ]
        for k in range(len(shown.view))
    }
