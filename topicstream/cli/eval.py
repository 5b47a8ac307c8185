"""``topics eval``: score a model by perplexity, coherence and diversity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from topicstream.base import plugins
from topicstream.base.text import render
from topicstream.cli.command import (
    Printed,
    Section,
    show_progress,
    take_section_values,
    topics_command,
)
from topicstream.cli.options import config_of, options_of, value_on_line
from topicstream.evaluation.config import EvalConfig
from topicstream.evaluation.evaluate import evaluate
from topicstream.evaluation.scoring import figure_lines, scorers
from topicstream.evaluation.scoring import join_options as scorer_options
from topicstream.model.topic_kinds import describe_topics

HEAD = "{model}: [{described} over {words:word}][{components} components over {numbers} numbers]"


def options_of_scorers(line: Sequence[str]) -> Mapping[str, Section]:
    """Return the options of our scorers, and of other packages' scorers that a line names."""
    names = [name for name in value_on_line(line, "--score", "").split(",") if name]
    return {"What is scored": Section(scorer_options(scorers(names)))}


@topics_command("eval", sections_of=options_of_scorers)
@options_of(EvalConfig)
@click.pass_context
def command(ctx: click.Context, /, **values: Any) -> Printed:
    """Score a model.

    Without options it prints held-out perplexity, coherence and diversity.
    """
    options = take_section_values(ctx, values)
    with show_progress() as progress:
        result = evaluate(config_of(EvalConfig, values, options=options, progress=progress))
    if "warning" in result:
        click.echo(f"warning: {result['warning']}", err=True)
    return result, lines(result)


def lines(result: dict[str, Any]) -> list[str]:
    """Format the scores as lines."""
    about = dict(result)
    if "topics" in result:
        about["described"] = describe_topics(result["topics"], result.get("background_topic"))
    out = render(HEAD, about)
    known = plugins.entries(plugins.SCORERS)
    for name, entry in result.items():
        if isinstance(entry, dict):
            scorer = name if name in known else name.partition("_")[0]
            text = plugins.load(plugins.SCORERS, scorer).text if scorer in known else figure_lines
            out += text(name, entry)
    return out + render("[{note}]", result)
