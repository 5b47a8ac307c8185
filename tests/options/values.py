"""Values to try for every option of the commands that people use most.

Options with choices, flags and pairs of flags need no entry: their values follow from their
declaration. Every other option needs one, so a new option fails the tests until somebody says what
a user would give it. An entry is a list of arguments to try; where an option means something only
beside others, these stand in the same list.
"""

from __future__ import annotations

from collections.abc import Collection

import click

from topicstream.base.options import flags, ordered
from topicstream.cli.main import topics
from topicstream.cli.options import click_option
from topicstream.cli.show import find_views
from topicstream.display.config import ShowConfig
from topicstream.display.view import HEEDED_BY_ALL
from topicstream.inference.methods import METHOD_NAMES, methods

SKIPPED = {
    "--quiet",
    "--verbose",
    "--force",
    "--append",
    "--grow-vocab",
    "--out",
    "--model",
    "--corpus",
    "--workers",
    "--threads",
    "--resume",
    "--follow",
    "--dry-run",
    "--scheduler",
    "--help",
    "--help-all",
}
"""Tried by every case, or by tests of their own: what they do depends on the run before."""

ALONE = {"--patches", "--stride", "--vector-field", "--layer", "--first-id", "--transpose"}
"""Of inputs other than text: beside any other option they are refused."""

REFUSED = [
    ("--segmenter", "jieba"),
    ("--lemmas", "simplemma:english"),
    ("--segmenter", "jieba", "--find", "apple"),
    ("--lemmas", "simplemma:english", "--find", "apple"),
]
"""What needs a package that the tests do not install, and a model that used it."""

EXCLUDING = {
    "ingest": [
        ("--key", "--split"),
        ("--key", "--min-tokens"),
        ("--links", "--split"),
        ("--drop-top", "--vocab"),
        ("--tokenized", "--token-pattern"),
        ("--tokenized", "--join-hyphens"),
        ("--text-field", "--min-tokens"),
    ]
}
"""Options that are refused together, with the first values below.

All others must be accepted together.
"""

VALUES: dict[str, dict[str, list[list[str]]]] = {
    "ingest": {
        "--format": [["jsonl"]],
        "--text-field": [["title"], ["title,text"]],
        "--id-field": [["key"]],
        "--meta": [["group"], ["date=year", "--meta", "authors"], ["labels=labels"]],
        "--meta-file": [["side.tsv"], ["side.tsv:mood", "--key", "id"]],
        "--links": [["links.tsv"]],
        "--key": [["row", "--meta-file", "rows.tsv:row,mood"]],
        "--date-format": [["%Y", "--meta", "date=year"]],
        "--encoding": [["utf-8"]],
        "--delimiter": [[","]],
        "--quotechar": [["'"]],
        "--escapechar": [["\\"]],
        "--comment": [["#"]],
        "--skip-lines": [["0"]],
        "--list-separator": [["|", "--meta", "authors"]],
        "--tei-elements": [["+stage,-quote"]],
        "--max-document": [["1M"]],
        "--first-id": [["1"]],
        "--words": [["words.txt"]],
        "--vector-field": [["text"]],
        "--patches": [["8"]],
        "--stride": [["4"]],
        "--layer": [["counts"]],
        "--segmenter": [["jieba"]],
        "--lemmas": [["simplemma:english"]],
        "--na": [["NA,n/a"]],
        "--replace": [["variants.tsv"]],
        "--min-length": [["4"]],
        "--token-pattern": [["[a-zäöü]{3,}"]],
        "--fold-accents": [["french"], ["all"]],
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
        "--heldout-by": [["group", "--meta", "group", "--heldout", "20%"]],
        "--mem-limit": [["512M"]],
        "--split": [["paragraph"], ["section"], ["20 words"], ["and"]],
        "--min-tokens": [["10"]],
    },
    "train": {
        "--algo": [
            [name]
            for name in (
                "sparse-bp",
                "atbp",
                "bp",
                "cvb0",
                "gs",
                "sparselda",
                "vb",
                "ovb",
                "mvi",
                "svi",
                "mixture",
                "anchors",
            )
        ],
        "--topics": [["7"]],
        "--alpha": [["0.1"]],
        "--beta": [["0.02"]],
        "--passes": [["3"]],
        "--tol": [["0"], ["0.01"]],
        "--tol-params": [["0.1"]],
        "--max-time": [["60s"]],
        "--eval-every": [["2"]],
        "--seed": [["3"]],
        "--start": [
            ["random", "--algo", "bp"],
            ["documents", "--algo", "bp"],
            ["best", "--algo", "bp"],
            ["anchors", "--algo", "bp"],
        ],
        "--warm": [["trained", "--start", "warm", "--algo", "sparse-bp", "--topics", "6"]],
        "--seed-words": [["seeds.txt", "--algo", "sparse-bp"]],
        "--sample": [["50%"]],
        "--covariates": [["group", "--algo", "bp"]],
        "--covariate-sd": [["0.5"]],
        "--covariate-means": [["0.5"]],
        "--intercept-sd": [["5"]],
        "--mem-limit": [["512M"]],
        "--block-cells": [["4096"]],
        "--round-blocks": [["2"]],
        "--workers-min": [["2"]],
        "--checkpoint-minutes": [["1"]],
        "--metrics": [["run.prom"]],
    },
    "infer": {
        "--method": [[name] for name in METHOD_NAMES],
        "--top": [["2"]],
        "--min-prob": [["0.1"]],
        "--with": [["group"]],
        "--format": [["jsonl"]],
        "--text-field": [["title"]],
        "--id-field": [["key"]],
        "--encoding": [["utf-8"]],
        "--delimiter": [[","]],
        "--quotechar": [["'"]],
        "--escapechar": [["\\"]],
        "--comment": [["#"]],
        "--skip-lines": [["0"]],
        "--tei-elements": [["all"]],
        "--max-document": [["1M"]],
        "--first-id": [["1"]],
        "--words": [["words.txt"]],
        "--vector-field": [["text"]],
        "--patches": [["8"]],
        "--stride": [["4"]],
        "--layer": [["counts"]],
        "--lemmas": [["simplemma:english"]],
        "--segmenter": [["jieba"]],
        "--tol": [["0.01"]],
        "--inner": [["5"]],
        "--sparse": [["2"]],
        "--sweeps": [["20"]],
        "--burn": [["5"]],
        "--seed": [["3"]],
        "--temperature": [["0.5"]],
        "--trained-on": [["c.zarr"]],
        "--resamples": [["3"]],
        "--mem-limit": [["512M"]],
    },
    "eval": {
        "--heldout": [[""], ["c.zarr"], ["folder/0.jsonl"]],
        "--format": [["jsonl", "--heldout", "folder/0.jsonl"]],
        "--text-field": [["title", "--heldout", "folder/0.jsonl"]],
        "--id-field": [["key", "--heldout", "folder/0.jsonl"]],
        "--coherence": [["npmi"], ["umass"], ["c_v"]],
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
        "--contrast": [["--by", "group"]],
        "--min-docs": [["2", "--over-time"]],
        "--out": [["time.csv", "--over-time"]],
        "--plot": [["time.png", "--over-time"]],
        "--find": [["apple"]],
        "--lemmas": [["simplemma:english", "--find", "apple"]],
        "--segmenter": [["jieba", "--find", "apple"]],
        "--table": [["words.tex"]],
        "--correlations": [["correlations.csv"]],
        "--similar": [["1"]],
        "--links": [["1"]],
        "--author": [["ann"]],
        "--experts": [["folder/0.jsonl"]],
        "--seed": [["1", "--intrusion", "words", "--out", "questions.csv"]],
        "--intrusion": [["words", "--out", "questions.csv"], ["topics", "--out", "questions.html"]],
        "--part": [["heldout", "--theta", "theta.csv"], ["all", "--theta", "theta.csv"]],
        "--period": [[period, "--over-time"] for period in ("year", "decade", "month")],
        "--reduce-to": [["3"]],
    },
}


Case = tuple[str, ...]
"""An option with its values, as they stand on a command line."""


def cases(command: str) -> list[Case]:
    """Every option of a command with each value to try; a ValueError names options without one."""
    tried: list[Case] = []
    missing = []
    declared = topics.get_command(click.Context(topics), command)
    assert declared is not None
    params = declared.params if command == "infer" else declared.get_params(click.Context(declared))
    offered = [(p, ()) for p in params if isinstance(p, click.Option)]
    if command == "infer":  # methods share names of options
        offered += [
            (click_option(f), ("--method", m.name)) for m in methods() for f in ordered(m.Options)
        ]
    for option, beside in offered:
        name = max(option.opts, key=len)
        if name in SKIPPED:
            continue
        if name in VALUES[command]:
            tried += [(name, *(v for v in value if v), *beside) for value in VALUES[command][name]]
        elif option.is_flag:
            tried += [(flag, *beside) for flag in (name, *option.secondary_opts)]
        elif choices := getattr(option.type, "choices", None):
            tried += [(name, choice, *beside) for choice in choices]
        else:
            missing.append(name)
    if missing:
        raise ValueError(
            f"{command}: say in tests/options/values.py what users give {', '.join(missing)}"
        )
    return tried


def first_values(command: str, refused: Collection[Case] = ()) -> dict[str, Case]:
    """Every option that goes with others, with its first value that is not ``refused`` by
    itself.
    """
    first: dict[str, Case] = {}
    for case in cases(command):
        if case[0] not in ALONE and case not in refused:
            first.setdefault(case[0], case)
    return first


def lines(command: str, refused: Collection[Case] = (), size: int = 8) -> list[list[Case]]:
    """Command lines on which every two options stand together once, ``size`` options a line, each
    with its first value.

    Cases that are ``refused`` by themselves are left out. Options that stand on the line of
    another already (``--meta`` of another option's values), that name different methods or that
    exclude each other are not combined.
    """
    tried = list(first_values(command, refused).values())

    def together(a: Case, b: Case) -> bool:
        return _compatible(a, b) and not excluding(command, a, b)

    open_pairs = {
        (i, j) for i in range(len(tried)) for j in range(i) if together(tried[i], tried[j])
    }
    chosen_lines = []
    while open_pairs:
        chosen = list(max(open_pairs))
        while len(chosen) < size:
            gains = {
                k: sum((max(k, c), min(k, c)) in open_pairs for c in chosen)
                for k in range(len(tried))
                if k not in chosen and all(together(tried[k], tried[c]) for c in chosen)
            }
            best = max(gains, key=lambda k: (gains[k], k), default=None)
            if best is None or not gains[best]:
                break
            chosen.append(best)
        open_pairs -= {(i, j) for i in chosen for j in chosen}
        chosen_lines.append([tried[k] for k in sorted(chosen)])
    return chosen_lines


def excluding(command: str, a: Case, b: Case) -> bool:
    """Whether a command refuses two options together; ``topics show`` prints one view at a time,
    and refuses what that ignores.
    """
    if command == "show":
        views = [section.config for section in find_views([*a, *b]).values()]
        given = {*a, *b}
        ignored = (
            ShowConfig.__dataclass_fields__.keys() - {*HEEDED_BY_ALL, *views[0].heeds}
            if views
            else ()
        )
        return len(views) > 1 or any(
            given & set(flags(ShowConfig.__dataclass_fields__[name])) for name in ignored
        )
    return {a[0], b[0]} in map(set, EXCLUDING.get(command, ()))


def _compatible(a: Case, b: Case) -> bool:
    return not {x for x in a if x.startswith("--")} & {x for x in b if x.startswith("--")}
