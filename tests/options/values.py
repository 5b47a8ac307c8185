"""Values to try for every option of the commands that people use most.

Options with choices, flags and pairs of flags need no entry: their values follow from their declaration.  Every other option
needs one, so a new option fails the tests until somebody says what a user would give it.  An entry is a list of arguments to
try; where an option means something only beside others, these stand in the same list.
"""

from __future__ import annotations

import click

from topicstream.cli.main import topics

SKIPPED = {"--quiet", "--verbose", "--force", "--append", "--grow-vocab", "--out", "--model", "--corpus", "--workers", "--threads",
           "--resume", "--follow", "--dry-run"}  # fmt: skip
"""Tried by every case, or by tests of their own: what they do depends on the run before."""

VALUES: dict[str, dict[str, list[list[str]]]] = {
    "ingest": {
        "--format": [["jsonl"]],
        "--text-field": [["title"], ["title,text"]],
        "--id-field": [["key"]],
        "--meta": [["group"], ["date=year", "--meta", "authors"], ["labels=labels"]],
        "--meta-file": [["side.tsv"], ["side.tsv:mood", "--key", "id"]],
        "--links": [["links.tsv"]],
        "--key": [["row", "--meta-file", "rows.tsv:row,mood"]],
        "--encoding": [["utf-8"]],
        "--delimiter": [[","]],
        "--list-separator": [["|", "--meta", "authors"]],
        "--first-id": [["1"]],
        "--words": [["words.txt"]],
        "--vector-field": [["text"]],
        "--patches": [["8"]],
        "--stride": [["4"]],
        "--min-length": [["4"]],
        "--token-pattern": [["[a-zäöü]{3,}"]],
        "--keep": [["emoji"]],
        "--stopwords": [["german"], ["english", "--stopwords", "german"], ["none"], ["stop.txt"]],
        "--ngrams": [["2"]],
        "--phrases": [["0.1"]],
        "--stem": [["english"], ["german", "--stopwords", "german"]],
        "--min-df": [["3"], ["1%"]],
        "--max-df": [["30%"], ["400"]],
        "--min-count": [["10"]],
        "--max-vocab": [["50"]],
        "--drop-top": [["5"]],
        "--drop-words": [["stop.txt"]],
        "--vocab": [["words.txt"]],
        "--heldout": [["10%"], ["50"], ["0"], ["group=red"]],
        "--heldout-by": [["group", "--heldout", "20%"]],
        "--mem-limit": [["512M"]],
        "--split": [["paragraph"], ["section"], ["and"]],
        "--min-tokens": [["10"]],
    },
    "train": {
        "--algo": [[name] for name in ("sparse-bp", "atbp", "bp", "cvb0", "gs", "sparselda", "vb", "ovb", "mvi", "svi", "mixture", "anchors")],
        "--topics": [["7"]],
        "--passes": [["3"]],
        "--tol": [["0"], ["0.01"]],
        "--tol-params": [["0.1"]],
        "--max-time": [["60s"]],
        "--eval-every": [["2"]],
        "--seed": [["3"]],
        "--start": [["random", "--algo", "bp"], ["documents", "--algo", "bp"], ["best", "--algo", "bp"], ["anchors", "--algo", "bp"]],
        "--warm": [["trained", "--start", "warm", "--algo", "sparse-bp", "--topics", "6"]],
        "--seed-words": [["seeds.txt", "--algo", "sparse-bp"]],
        "--sample": [["50%"]],
        "--mem-limit": [["512M"]],
        "--block-cells": [["4096"]],
        "--round-blocks": [["2"]],
        "--checkpoint-minutes": [["1"]],
        "--metrics": [["run.prom"]],
    },
    "infer": {
        "--top": [["2"]],
        "--min-prob": [["0.1"]],
        "--with": [["group"]],
        "--format": [["jsonl"]],
        "--text-field": [["title"]],
        "--id-field": [["key"]],
        "--encoding": [["utf-8"]],
        "--delimiter": [[","]],
        "--first-id": [["1"]],
        "--words": [["words.txt"]],
        "--vector-field": [["text"]],
        "--patches": [["8"]],
        "--stride": [["4"]],
        "--tol": [["0.01"]],
        "--inner": [["5"]],
        "--sparse": [["2", "--method", "vb"]],
        "--sweeps": [["20", "--method", "gibbs"]],
        "--burn": [["5", "--method", "gibbs"]],
        "--seed": [["3", "--method", "gibbs"]],
        "--temperature": [["0.5", "--method", "naive-bayes"]],
        "--trained-on": [["c.zarr", "--method", "gibbs1"]],
        "--resamples": [["3", "--method", "gibbs1"]],
        "--mem-limit": [["512M"]],
    },
    "eval": {
        "--heldout": [[""], ["c.zarr"], ["folder/0.jsonl"]],
        "--format": [["jsonl", "--heldout", "folder/0.jsonl"]],
        "--text-field": [["title", "--heldout", "folder/0.jsonl"]],
        "--id-field": [["key", "--heldout", "folder/0.jsonl"]],
        "--coherence": [["npmi"], ["umass"]],
        "--label-field": [["labels", "--labels"]],
        "--threshold": [["0.2", "--labels"]],
        "--per-document": [["each.csv", "--heldout"]],
        "--score": [["speed"]],  # of another package, which is not installed here: refused
        "--split": [["60/40", "--heldout"]],
        "--top": [["5", "--diversity"]],
        "--mem-limit": [["512M", "--heldout"]],
    },
    "report": {
        "--title": [["A <title> & more"]],
        "--docs": [["3"], ["0"]],
        "--text-field": [["title"]],
        "--by": [["group"]],
        "--mem-limit": [["512M"]],
    },
    "show": {
        "--words": [["3"]],
        "--relevance": [["0.4"]],
        "--topic": [["1"]],
        "--docs": [["2"]],
        "--with": [["group", "--docs", "1"]],
        "--mem-limit": [["512M"]],
        "--theta": [["theta.csv"]],
        "--top": [["2", "--theta", "theta.csv"]],
        "--by": [["group"]],
        "--out": [["time.csv", "--over-time"]],
        "--plot": [["time.png", "--over-time"]],
        "--similar": [["1"]],
        "--links": [["1"]],
        "--author": [["ann"]],
        "--experts": [["folder/0.jsonl"]],
        "--seed": [["1", "--intrusion", "words"]],
        "--reduce-to": [["3"]],
    },
}  # fmt: skip


def cases(command: str) -> list[tuple[str, ...]]:
    """Every option of a command with each value to try; a ValueError names options without one."""
    group = click.Context(topics)
    found: list[tuple[str, ...]] = []
    missing = []
    declared = topics.get_command(group, command)
    assert declared is not None
    for option in (p for p in declared.params if isinstance(p, click.Option)):
        name = max(option.opts, key=len)
        if name in SKIPPED:
            continue
        if name in VALUES[command]:
            found += [(name, *(v for v in value if v)) for value in VALUES[command][name]]
        elif option.is_flag:
            found += [(flag,) for flag in (name, *option.secondary_opts)]
        elif choices := getattr(option.type, "choices", None):
            found += [(name, choice) for choice in choices]
        else:
            missing.append(name)
    if missing:
        raise ValueError(f"{command}: say in tests/options/values.py what users give {', '.join(missing)}")
    return found
