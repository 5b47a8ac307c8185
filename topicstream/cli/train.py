"""``topics train``: the options every run has, and those of the chosen engine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from topicstream.cli.options import Depending, as_json, click_option, given, options_of, said
from topicstream.machine import format_bytes
from topicstream.progress import Shown
from topicstream.training.config import TrainConfig

DEFAULT_ALGO = "auto"
ABOUT = {"classifier", "model", "corpus", "threads", "mem_limit", "as_json"}
"""With these alone ``--classifier`` trains nothing where there is a model."""


def engine_options(options: type, priors: tuple[str, str] = ("", "")) -> list[click.Option]:
    """click options made from an engine's Options dataclass; priors: the engine's own, told in the help."""
    from topicstream.engines.base import Options

    made = []
    for field in fields(options):
        default: Any = field.default
        told = ""
        if "bool" in str(field.type) and (default is None or options is Options):  # by rule
            default, told = None, "where neither alpha nor beta is given"
        elif field.name in ("alpha", "beta"):
            told = priors[field.name == "beta"]
        changes: dict[str, Any] = {"default": default, "show": default is not None}
        if told:
            changes["help"] = re.sub(r" \(default.*\)$", "", field.metadata["help"]) + f" (default: {told})"
        made.append(click_option(field, ranged=False, pair=True, **changes))
    return made


class TrainCommand(Depending):
    """Adds the options of the engine that ``--algo`` names."""

    def own_options(self, ctx: click.Context, args: list[str]) -> tuple[Mapping[str, Any], Sequence[click.Option]]:
        from topicstream.engines import find
        from topicstream.engines.base import Options

        algo = ctx.meta["algo"] = said(args, "--algo", DEFAULT_ALGO)
        engine = None if algo == DEFAULT_ALGO else find(algo)
        options = Options if engine is None else engine.Options
        own = engine_options(options, ("", "") if engine is None else engine.prior_defaults)
        return TrainConfig.__dataclass_fields__ | options.__dataclass_fields__, own

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Common options first, then the engine's."""
        own = set(ctx.meta.get("own", []))
        rows: dict[bool, list[tuple[str, str]]] = {False: [], True: []}
        for p in self.get_params(ctx):
            record = p.get_help_record(ctx)
            if record is not None:
                rows[p.name in own].append(record)
        with formatter.section("Options"):
            formatter.write_dl(rows[False])
        with formatter.section(f"Options of {ctx.meta.get('algo', DEFAULT_ALGO)} (--algo NAME --help shows another's)"):
            formatter.write_dl(rows[True])


@click.command("train", cls=TrainCommand)
@options_of(TrainConfig)
@click.option("--classifier", is_flag=True, help="then learn the classifier of `infer --method maxent`, as `topics classifier` does; alone with --model, --corpus: only that")
@as_json()
@click.pass_context
def command(ctx: click.Context, /, as_json: bool, classifier: bool, **values: Any) -> None:
    """Learn topics from a corpus store, pass by pass, within the memory limit.

    Interrupted, the same command carries on from the last checkpoint; finished, it says so; with a higher --passes it
    goes on.  Results go to the folder --model; read them with `topics show` and `topics eval`.

    "Running perplexity" is what a pass finds on the way, before each update and in the engine's own terms: it tells when to
    stop, and is neither comparable between engines nor the exact figure of `topics eval --training`.
    """
    from topicstream.cli.verbosity import verbosity
    from topicstream.training.loop import train

    own = {name: values.pop(name) for name in ctx.meta["own"]}
    config = TrainConfig(**given(values), options=own, progress=Shown(verbosity()))
    told = {p for p in ctx.params if ctx.get_parameter_source(p) != ParameterSource.DEFAULT}
    if classifier and told <= ABOUT and (Path(config.model) / "manifest.json").exists():
        found = learn(config)
        click.echo(json.dumps({"model": found["model"], "classifier": found}) if as_json else _line(found))
        return
    done = train(config)
    learned = learn(config) if classifier and not config.dry_run else None
    if as_json:
        out = {"model": str(done.model), "passes": done.passes, "stopped": done.reason, "last": dict(done.last)}
        click.echo(json.dumps(out | ({"classifier": learned} if learned else {})))
        return
    last = done.last
    if config.dry_run:
        click.echo(
            f"dry run: {format_bytes(last['memory_bytes'])} of memory, {format_bytes(last['disk_bytes'])} of disk, about "
            f"{last['expected_seconds']:.0f} s: a start of {last['start_seconds']:.1f} s and at most {last['passes']} passes of "
            f"{last['pass_seconds']:.2f} s (a run often stops sooner)"
        )
        return
    parts = [f"{done.model}: {done.topics} topics, {done.passes} passes ({done.reason})"]
    if last.get("running_perplexity"):
        parts.append(f"running perplexity {last['running_perplexity']:.1f}")
    if last.get("heldout_perplexity"):
        parts.append(f"held-out perplexity {last['heldout_perplexity']:.1f}")
    parts.append(f"peak memory {last.get('rss_peak_bytes', 0) / 2**20:.0f} MB")
    click.echo(", ".join(parts))
    if learned:
        click.echo(_line(learned))


def _line(found: dict[str, Any]) -> str:
    from topicstream.cli.classifier import line  # brings half of inference with it

    return line(found)


def learn(config: TrainConfig) -> dict[str, Any]:
    """The classifier of a model that was just trained, within the same limits."""
    from topicstream.inference.classifier import train_classifier
    from topicstream.inference.config import ClassifierConfig

    return train_classifier(
        ClassifierConfig(
            config.model, config.corpus, threads=config.threads, mem_limit=config.mem_limit, progress=config.progress
        )
    )
