"""``topics train``: the options every run has, and those of the chosen engine."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import MISSING
from typing import Any

import click

DEFAULT_ALGO = "auto"


def seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """``90``, ``90s``, ``30m``, ``2h``, ``1d`` -> seconds."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", value.strip().lower())
    if match is None:
        raise click.BadParameter(f"{value!r} is not a time; write for example 90s, 30m, 2h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]


BEGUN_ANEW = "TOPICS_BEGUN_ANEW"


def begin_anew() -> None:
    """Run this command again in place of this process, now that the kernels are in the cache: what the compiler took stays
    with a process until it ends, and the memory plan would have to count it."""
    times = int(os.environ.get(BEGUN_ANEW, "0"))
    if times < 3:  # a cache that keeps nothing must not make a circle; `auto` compiles two engines at most
        os.environ[BEGUN_ANEW] = str(times + 1)
        os.execv(sys.executable, sys.orig_argv)


def engine_options(algo: str) -> list[click.Option]:
    """click options made from the engine's Options dataclass."""
    from topicstream.engines import find
    from topicstream.engines.base import Options

    made: list[click.Option] = []
    options = Options if algo == DEFAULT_ALGO else find(algo).Options
    for field in options.__dataclass_fields__.values():
        meta = field.metadata
        flag = "--" + field.name.replace("_", "-")
        default = None if field.default is MISSING else field.default
        kind: Any
        if "bool" in str(field.type):
            by_rule = default is None or algo == DEFAULT_ALGO  # None: not said
            shown: Any = "where neither alpha nor beta is given" if by_rule else True
            both = f"{flag}/--no-{flag[2:]}"
            made.append(
                click.Option([both], default=None if by_rule else default, help=meta["help"], show_default=shown)
            )
            continue
        if meta.get("choices"):
            kind = click.Choice([str(c) for c in meta["choices"]])
        elif "int" in str(field.type):
            kind = int
        elif "float" in str(field.type):
            kind = float
        else:
            kind = str
        made.append(
            click.Option([flag], type=kind, default=default, help=meta.get("help"), show_default=default is not None)
        )
    return made


class TrainCommand(click.Command):
    """Adds the options of the engine that ``--algo`` names before the line is parsed."""

    _own: Sequence[click.Option] = ()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        algo = DEFAULT_ALGO
        for i, arg in enumerate(args):
            if arg == "--algo" and i + 1 < len(args):
                algo = args[i + 1]
            elif arg.startswith("--algo="):
                algo = arg[7:]
        ctx.meta["algo"] = algo
        own = engine_options(algo)
        ctx.meta["own"] = [o.name for o in own]
        # another line in this process may have named another engine: its options go
        common = [p for p in self.params if p not in self._own and p.name not in ctx.meta["own"]]
        self._own, self.params = own, [*common, *own]
        return super().parse_args(ctx, args)

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
@click.option("--corpus", envvar="TOPICS_CORPUS", default="corpus.zarr", show_default=True, help="corpus store")
@click.option("--model", envvar="TOPICS_MODEL", default="model", show_default=True, help="folder of the model")
@click.option(
    "--algo",
    default=DEFAULT_ALGO,
    show_default=True,
    metavar="NAME",
    help="engine (auto: chosen by corpus, -K and disk); `topics engines` lists them",
)
@click.option("-K", "--topics", type=click.IntRange(1), default=100, show_default=True, help="number of topics")
@click.option("--passes", type=click.IntRange(1), help="passes at most [default: the engine's]")
@click.option(
    "--tol",
    type=click.FloatRange(0),
    help="stop when training perplexity changes by less, twice running; 0: never [default: the engine's]",
)
@click.option(
    "--max-time", callback=seconds, metavar="TIME", help="stop after the pass in which this time is over (90s, 30m, 2h)"
)
@click.option(
    "--eval-every",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="held-out perplexity every N passes; 0: never",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="seed of every random choice")
@click.option(
    "--start",
    help="random, documents, kmeans, best or warm [default: the engine's first; best for few topics of a big corpus]",
)
@click.option("--warm", type=click.Path(exists=True), help="model to start from (with --start warm)")
@click.option("--threads", type=click.IntRange(1), help="threads [default: the processors]; never changes the result")
@click.option(
    "--mem-limit", metavar="SIZE", help="memory of the whole process, as 2G or 512M [default: 70 % of what there is]"
)
@click.option(
    "--tables",
    type=click.Choice(["auto", "memory", "disk"]),
    default="auto",
    show_default=True,
    help="where the big tables live",
)
@click.option("--block-cells", type=click.IntRange(1), help="cells of a block [default: by corpus and engine]")
@click.option("--round-blocks", type=click.IntRange(1), help="blocks that see the same tables [default: the engine's]")
@click.option(
    "--checkpoint-minutes",
    type=click.FloatRange(0.0),
    default=10.0,
    show_default=True,
    help="also inside a pass, when it takes longer than this",
)
@click.option(
    "--resume", is_flag=True, help="carry on (the same command does so by itself); fail when there is nothing to resume"
)
@click.option("--force", is_flag=True, help="start anew, whatever the folder holds")
@click.option("--json", "as_json", is_flag=True, help="print the result as JSON")
@click.pass_context
def command(
    ctx: click.Context,
    corpus: str,
    model: str,
    algo: str,
    resume: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Learn topics from a corpus store, pass by pass, within the memory limit.

    Interrupted, the same command carries on from the last checkpoint; finished, it says so; with a higher --passes it
    goes on.  Results go to the folder --model; read them with `topics show` and `topics eval`.
    """
    from pathlib import Path

    from topicstream.cli.verbosity import verbosity
    from topicstream.errors import TopicsError
    from topicstream.training.loop import train
    from topicstream.training.progress import Progress

    if resume and not (Path(model) / "training.json").exists():
        raise TopicsError(f"{model}: nothing to resume here")
    own = {name: given.pop(name) for name in ctx.meta["own"]}
    anew = begin_anew if ctx.obj else None
    done = train(corpus, model, algo=algo, options=own, progress=Progress(verbosity()), compiled=anew, **given)
    if as_json:
        click.echo(
            json.dumps(
                {"model": str(done.model), "passes": done.passes, "stopped": done.reason, "last": dict(done.last)}
            )
        )
        return
    last = done.last
    parts = [f"{done.model}: {given['topics']} topics, {done.passes} passes ({done.reason})"]
    if last.get("train_perplexity"):
        parts.append(f"training perplexity {last['train_perplexity']:.1f}")
    if last.get("heldout_perplexity"):
        parts.append(f"held-out perplexity {last['heldout_perplexity']:.1f}")
    parts.append(f"peak memory {last.get('rss_peak_bytes', 0) / 2**20:.0f} MB")
    click.echo(", ".join(parts))
