"""``topics cite``: BibTeX for a paper that uses a model."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import click

from topicstream.base.machine import __version__
from topicstream.cli.command import Printed, topics_command
from topicstream.model.manifest import Origin
from topicstream.model.topic_kinds import describe_topics
from topicstream.model.topic_model import TopicModel

REFERENCES = {
    "Zeng, Cheung & Liu 2013": "zeng2013learning",
    "Zeng, Liu & Cao": "zeng2012memory",
    "Hughes & Sudderth 2016": "hughes2016fast",
    "Blei, Ng & Jordan 2003": "blei2003latent",
    "Hoffman, Blei & Bach 2010": "hoffman2010online",
    "Hoffman, Blei, Wang & Paisley 2013": "hoffman2013stochastic",
    "Yao, Mimno & McCallum 2009": "yao2009efficient",
    "Griffiths & Steyvers 2004": "griffiths2004finding",
    "Asuncion et al. 2009": "asuncion2009smoothing",
    "Arora et al. 2013": "arora2013practical",
    "Fisher, Kozdoba & Mannor": "fisher2020topic",
}
"""Keys of references.bib by the names under which engines cite them (``Engine.cites``)."""


@topics_command("cite")
@click.argument("model", default="model", type=click.Path())
def command(model: str) -> Printed:
    """Print BibTeX of the tool, and of the papers of a model's engine.

    MODEL is the folder of a model. The entry of the tool names its version, the engine, the seed
    and the fingerprint of the corpus, so that a reader can tell which model a paper used.
    """
    opened = TopicModel.open(model)
    origin = opened.manifest
    entries = [
        describe_tool(origin, opened.n_topics, opened.background_topic),
        *find_papers(origin.cites or ""),
    ]
    return {"bibtex": entries}, "\n\n".join(entries).splitlines()


def describe_tool(origin: Origin, topics: int, background: int | None = None) -> str:
    """Write the entry of the program that trained a model.

    Parameters
    ----------
    origin
        The engine, seed and corpus of the model.
    topics
        The number of its topics.
    background
        The background topic among them.
    """
    version = origin.versions.get("topicstream", __version__)
    facts: list[Any] = [describe_topics(topics, background)]
    if origin.engine is not None:
        facts.append(f"engine {origin.engine}")
    if origin.seed is not None:
        facts.append(f"seed {origin.seed}")
    if origin.corpus.fingerprint is not None:
        facts.append(f"corpus {origin.corpus.fingerprint[:16]}")
    year = origin.created[:4] if origin.created else ""
    lines = [
        "@software{topicstream,",
        "  author = {{The topicstream developers}},",
        "  title = {topicstream: topic models of corpora bigger than memory},",
        f"  version = {{{escape_tex(version)}}},",
        f"  year = {{{escape_tex(year)}}}," if year else "",
        f"  note = {{{escape_tex(', '.join(facts))}}},",
        "}",
    ]
    return "\n".join(line for line in lines if line)


def find_papers(cites: str) -> list[str]:
    """Find the BibTeX entries of the papers that a text names.

    Parameters
    ----------
    cites
        Names as engines write them, such as "Griffiths & Steyvers 2004, eq. (5)".
    """
    keys = [key for name, key in REFERENCES.items() if name in cites]
    text = (files(__package__) / "references.bib").read_text(encoding="utf-8")
    entries = re.findall(r"^@\w+\{(\w+),.*?^\}", text, re.MULTILINE | re.DOTALL)
    bodies = re.findall(r"^@\w+\{\w+,.*?^\}", text, re.MULTILINE | re.DOTALL)
    by_key = dict(zip(entries, bodies, strict=True))
    return [by_key[key] for key in sorted(keys, key=lambda key: text.index(key))]


def escape_tex(text: str) -> str:
    """Escape what TeX would take for a command in a value that a model's file holds."""
    return re.sub(
        r"([\\{}%#&$_])", lambda special: SPECIAL.get(special[1], "\\" + special[1]), text
    )


SPECIAL = {"\\": r"\textbackslash "}
