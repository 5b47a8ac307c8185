"""``topics train``: learn topics, with the options of the chosen engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from topicstream.base.text import render
from topicstream.cli.command import (
    Printed,
    Section,
    show_progress,
    take_section_values,
    topics_command,
)
from topicstream.cli.extension import Requested, extended, take_extensions
from topicstream.cli.options import click_option, config_of, options_of, value_on_line
from topicstream.engines import find
from topicstream.engines.about import About
from topicstream.engines.base import Options
from topicstream.model.topic_kinds import describe_topics
from topicstream.training.config import TrainConfig

PLACES = {"model", "corpus", "threads", "mem_limit", "as_json"}
"""Options beside which an add-on's option (``--classifier``) works on the present model."""
DRY_RUN = (
    "dry run: {memory_bytes:size} of memory, {disk_bytes:size} of disk, about "
    "{expected_seconds:.0f} s: a start of"
    " {start_seconds:.1f} s and at most {passes} passes of {pass_seconds:.2f} s (a run often "
    "stops sooner)"
    "[; {workers} workers are {speedup:.1f} times as fast as one of them[{advice}]]"
)
PAYS = 0.5
"""Share of the number of workers that a cluster must gain in speed to pay."""
SUMMARY = (
    "{model}: {described}, {passes:pass} ({stopped})[, running perplexity "
    "{last.running_perplexity:.1f}]"
    "[, held-out perplexity {last.heldout_perplexity:.1f}], peak memory {peak:.0f} MB"
)


def engine_options(line: Sequence[str] | None) -> Mapping[str, Section]:
    """Return the options of the engine that ``--algo`` names."""
    name = value_on_line(line, "--algo", "auto")
    options, about = (Options, None) if name == "auto" else (find(name).Options, find(name).about)
    return {
        f"Options of {name} (--algo NAME --help shows another's)": Section(
            options, partial(engine_option, options, about)
        )
    }


def engine_option(options: type, about: About | None, field: Field[Any]) -> click.Option:
    """Make the command-line option of a field of an engine's options.

    Parameters
    ----------
    options
        The engine's options, or ``Options`` for any engine.
    about
        The engine's default priors, which the help names; None: any engine's.
    field
        The field.
    """
    default = field.default
    rule = ""
    if about is not None and field.name in ("alpha", "beta"):
        rule = about.priors.texts[field.name == "beta"]
    if "bool" in str(field.type) and (default is None or options is Options):
        default = None
        rule = "if neither alpha nor beta is given"
    text = field.metadata["help"]
    if rule:
        text = re.sub(r" \(default.*\)$", "", text.rstrip(".")) + f" (default: {rule})."
    option = click_option(field, pair=True, default=default, show=default is not None, help=text)
    option.hidden = field.name == "learn_priors" and about is not None and not about.learns_priors
    return option


@topics_command("train", indent=None, sections_of=engine_options)
@options_of(TrainConfig)
@extended("train")
@click.pass_context
def command(ctx: click.Context, /, **values: Any) -> Printed:
    """Learn topics from a corpus store, pass by pass, within the memory limit.

    After an interruption, run the same command again to resume from the last checkpoint. A finished
    run continues with a higher --passes. Results go to the folder --model; read them with `topics
    show` and `topics eval`.

    "Running perplexity" is measured during a pass, before each update and in the engine's own
    terms. It decides when to stop. It is not comparable between engines, and differs from the exact
    figure of `topics eval --training`.
    """
    options = take_section_values(ctx, values)
    options_on_line = {
        p for p in ctx.params if ctx.get_parameter_source(p) != ParameterSource.DEFAULT
    }
    requested = take_extensions("train", values)
    with show_progress() as progress:
        config = config_of(TrainConfig, values, options=options, progress=progress)
        others = options_on_line - PLACES - set(extension_names(requested))
        if requested and not others and (Path(config.model) / "manifest.json").exists():
            more, more_lines = run_extensions(requested, config)
            return {"model": str(config.model), **more}, more_lines
        from topicstream.training.loop import train  # a third of the modules; --help needs none

        trained = train(config)
        more, more_lines = ({}, []) if config.dry_run else run_extensions(requested, config)
    result = {
        "model": str(trained.model),
        "topics": trained.topics,
        "background_topic": trained.background_topic,
        "passes": trained.passes,
        "stopped": trained.reason,
        "last": dict(trained.last),
    }
    if config.dry_run:
        poor = trained.last.get("speedup", 1.0) < PAYS * trained.last.get("workers", 1)
        return result, render(
            DRY_RUN, {**trained.last, "advice": ": this cluster does not pay" if poor else ""}
        )
    about = {
        **result,
        "described": describe_topics(trained.topics, trained.background_topic),
        "peak": trained.last.get("rss_peak_bytes", 0) / 2**20,
    }
    return {**result, **more}, render(SUMMARY, about) + more_lines


def extension_names(requested: Requested) -> list[str]:
    """List the names of the options of the extensions that are asked for."""
    options = chain.from_iterable(fields(extension.Options) for extension, _ in requested.values())
    return [field.name for field in options]


def run_extensions(requested: Requested, config: TrainConfig) -> tuple[dict[str, Any], list[str]]:
    """Run the extensions on a finished model, and return results by name with their lines."""
    results: dict[str, Any] = {}
    lines: list[str] = []
    for name, (extension, options) in requested.items():
        results[name], extension_lines = extension.run(config, options)
        lines += extension_lines
    return results, lines
