"""The command ``topics``, its errors and exit codes.

A command is imported when it is called, so that ``topics --help`` answers at once.
"""

from __future__ import annotations

import errno
import gc
import os
import re
import signal
import stat
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import click

from topicstream.base import plugins
from topicstream.base.errors import Stopped, TopicsError
from topicstream.base.files.openings import current_openings, rewriting_behind
from topicstream.base.machine import __version__, ignore_false_alarms
from topicstream.base.signals import find_cause, forget_signals
from topicstream.cli.process import end_by_signals, reserve_streams, set_verbosity, verbosity

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SUMMARIES = {  # in the order of the flow; known without importing the command
    "demo": "Try everything on a small corpus: ingest, train, score and show.",
    "ingest": "Turn raw text or counts of any size into a corpus store.",
    "info": "Describe a corpus store or a model; verify its files.",
    "train": "Learn topics from a corpus, pass by pass.",
    "eval": "Score a model: held-out perplexity, coherence, diversity.",
    "infer": "Infer the topics of new documents.",
    "update": "Update a model with new documents.",
    "retrain": "Ingest, update, judge and publish in one step, for cron.",
    "rollback": "Publish the previous model again.",
    "show": "Print topics, words and documents of a model.",
    "edit": "Label, merge, drop and order topics; propose labels.",
    "compact": "Merge the small blocks of past appends; purge removed documents.",
    "forget": "Remove documents permanently, by id, and verify it.",
    "warm": "Compile the kernels of other commands ahead of time.",
    "engines": "List the training algorithms and what they need.",
    "completion": "Print a script that completes commands and options in a shell.",
}


def summarize(name: str) -> str:
    """Return the line of a command in ``topics --help``, without importing the command."""
    if name in SUMMARIES:
        return SUMMARIES[name]
    for addon in plugins.addons().values():
        if name in getattr(addon, "COMMAND_HELP", {}):
            return str(addon.COMMAND_HELP[name])
    package = plugins.entries(plugins.COMMANDS)[name].dist
    return f"Command of the package {package.name}." if package is not None else ""


class Commands(click.Group):
    """The group of all commands, ours and other packages'."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the names of commands: ours in the order of the flow, then other packages'."""
        return list(plugins.entries(plugins.COMMANDS))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, if there is one of that name."""
        # other packages are searched only for a name that is not ours
        known = cmd_name in plugins.own_names(plugins.COMMANDS)
        if not known and cmd_name not in plugins.entries(plugins.COMMANDS):
            return None
        command: click.Command = plugins.load(plugins.COMMANDS, cmd_name)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete commands and options without importing any command."""
        from click.shell_completion import CompletionItem

        options = click.Command.shell_complete(self, ctx, incomplete)
        begun = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [CompletionItem(name, help=summarize(name)) for name in begun] + options

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summarize(name)) for name in self.list_commands(ctx)])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does, and suggest a name for a misspelt command."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            names = self.list_commands(ctx)
            near = get_close_matches(args[0], names, 1, 0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"one of: {', '.join(names)}"
            raise click.UsageError(f"No such command {args[0]!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, prog_name="topics")
def topics() -> None:
    """Topic models of corpora bigger than RAM, from raw text to a model that stays up to date.

    \b
        topics ingest pubmed/ --out corpus.zarr
        topics train -K 100
        topics show

    \b
    Documents that do not fit in memory, with the engine that needs the least:
        topics train --algo atbp -K 10 --mem-limit 2G
        topics eval --heldout
    """


OPTIONS_ELSEWHERE = {
    "-k": "-K",
    "--num-topics": "-K",
    "--n-topics": "-K",
    "--n-components": "-K",
    "--iterations": "--passes",
    "--num-iterations": "--passes",
    "--iter": "--passes",
    "--max-iter": "--passes",
    "--epochs": "--passes",
    "--output": "--out",
    "-o": "--out",
    "--stop-words": "--stopwords",
    "--memory": "--mem-limit",
    "--max-features": "--max-vocab",
    "--random-state": "--seed",
}
"""Options of other programs, and ours in their place."""


def explain_usage_error(error: click.ClickException) -> click.ClickException:
    """Add a hint to a usage error: the option or command that the user may have meant."""
    ctx = getattr(error, "ctx", None)
    if ctx is None:
        return error
    if error.message.startswith("Got unexpected extra argument"):
        return click.UsageError(error.message + _hint_at_argument(ctx, error.message), ctx)
    if isinstance(error, click.NoSuchOption):
        return _explain_option(ctx, error)
    return error


def _hint_at_argument(ctx: click.Context, message: str) -> str:
    """Return the end of a message about an argument too many."""
    if ctx.command.name == "update":
        return "; new documents come in by `topics ingest FILE --append`"
    if ctx.command.name == "effects":
        return "; the formula stands in quotes: 'party + date'"
    if re.search(r"\(\d", message):
        return "; several numbers have commas between them: 10,20"
    options = [param.name for param in ctx.command.params if isinstance(param, click.Option)]
    places = [f"--{name}" for name in options if name in ("model", "corpus")]
    if places:
        return f"; here {' and '.join(places)} say{'s' if len(places) == 1 else ''} where it is"
    return ""


def _explain_option(ctx: click.Context, error: click.NoSuchOption) -> click.ClickException:
    """Name our option for another program's, or the section that an option belongs to."""
    params = ctx.command.params
    name = error.option_name
    hint = OPTIONS_ELSEWHERE.get(name)
    if "--out" in (name, hint) and not any("--out" in p.opts for p in params):
        makes_model = ctx.command.name in ("train", "import")
        hint = "--model" if makes_model else "> FILE (results go to standard output)"
    arguments = [p.name for p in params if isinstance(p, click.Argument) and p.name]
    if name == "--model" and arguments:
        hint = f"{arguments[0].upper()}, without a name,"
    if name == "--scheduler":
        alone = f"`topics {ctx.command.name}` runs on this machine alone (docs/scale.md)"
        return click.NoSuchOption(name, f"No such option: {name}; {alone}", ctx=ctx)
    if hint is not None:
        return click.NoSuchOption(name, f"No such option: {name}; it is {hint} here", ctx=ctx)
    if not hasattr(ctx.command, "section_options"):
        return error
    # a context without the line: the sections of all engines, methods and views
    whole = click.Context(ctx.command, info_name=ctx.info_name, parent=click.Context(topics))
    for title, options in ctx.command.section_options(whole).items():
        if any(name in option.opts for option in options):
            return click.UsageError(f"{name} belongs to: {title}", ctx)
    return error


def find_fullest(paths: Sequence[str]) -> str | None:
    """Find the path on a command line whose disk has least room.

    A write that fails in midstream does not name its file. The working folder counts, too.
    """
    room: dict[str, int] = {}
    cache = (
        [os.environ.get("TOPICS_CACHE") or os.path.expanduser("~/.cache")]
        if any("://" in path for path in paths)
        else []
    )
    for path in [*paths, *cache, "."]:
        place = Path(path)
        with suppress(OSError, ValueError):
            folder = next(p for p in (place, *place.parents) if p.exists())
            if folder != Path(".") or path == ".":
                filesystem = os.statvfs(folder)
                room[path] = filesystem.f_bavail * filesystem.f_frsize
    return min(room, key=lambda p: room[p]) if room else None


def _output_full() -> bool:
    """Tell whether standard output is a file on a full disk, or a device that is always full."""
    with suppress(OSError):
        status = os.fstat(1)
        if stat.S_ISCHR(status.st_mode):
            return status.st_rdev == os.makedev(1, 7)
        return stat.S_ISREG(status.st_mode) and os.statvfs(1).f_bavail == 0
    return False


def _fail(error: BaseException, message: str, code: int) -> int:
    """Print the message of an error, with its traceback under ``-vv``, and return the code."""
    if verbosity() >= 2:
        traceback.print_exception(error, file=sys.stderr)
    click.echo(f"topics: {message}", err=True)
    return code


def _call(args: Sequence[str] | None) -> int:
    """Run one command line, and raise the cause of an error that a library has wrapped."""
    earlier = current_openings()  # a Python program may have run other command lines
    try:
        code = topics.main(
            args=None if args is None else list(args), prog_name="topics", standalone_mode=False
        )
    except click.exceptions.Exit:
        raise
    except Exception as e:
        raise (rewriting_behind(e, earlier) or find_cause(e)) from e
    return code if isinstance(code, int) else 0


def run(args: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's) and return its exit code.

    An error is one line on stderr, with a traceback under ``-vv``.
    """
    set_verbosity(0)
    forget_signals()
    try:
        return _call(args)
    except click.exceptions.Exit as e:
        return e.exit_code
    except click.ClickException as e:
        explain_usage_error(e).show()
        return e.exit_code
    except (TopicsError, Stopped) as e:
        return _fail(e, str(e), e.exit_code)
    except (KeyboardInterrupt, click.exceptions.Abort) as e:
        return _fail(e, "interrupted; nothing was left half-written", 130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone; nothing more to say to it
        return 1
    except MemoryError as e:
        return _fail(
            e, f"out of memory ({e}); a smaller --mem-limit or fewer --workers needs less", 5
        )
    except OSError as e:
        return _fail_on_files(e, sys.argv[1:] if args is None else args)
    except UnicodeEncodeError as e:
        if e.reason != "surrogates not allowed":
            return _fail_internally(e)
        # a name that the system gave us
        name = ascii(e.object[max(0, e.start - 40) : e.end + 40])
        return _fail(e, f"a name that is not UTF-8 ({name}); rename the file or the folder", 2)
    except Exception as e:
        return _fail_internally(e)


def _fail_on_files(error: OSError, args: Sequence[str]) -> int:
    """Report an error of the system, with the file or disk that it may be about."""
    if error.errno == errno.EBADF and error.filename is None:
        return _fail(error, "standard input or output is closed", 1)
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    name = error.filename
    if full and name is None:
        name = "standard output" if _output_full() else find_fullest(args)
    prefix = f"{name}: " if name else ""
    advice = "; make room and run the same command again" if full else ""
    if error.errno == errno.EFBIG:
        full = True
        advice = (
            "; files may not be larger here (ulimit -f): raise that and run the same command again"
        )
    return _fail(error, f"{prefix}{error.strerror or error}{advice}", 5 if full else 1)


def _fail_internally(error: Exception) -> int:
    """Report an error that nobody has foreseen."""
    return _fail(error, f"internal error: {type(error).__name__}: {error} (-vv shows where)", 1)


def main() -> None:
    """Run the command line of this process, and end the process."""
    try:
        end_by_signals()
        code = _run_process()
    except Stopped as e:  # between two steps of this
        code = _fail(e, str(e), e.exit_code)
    # the end of the process frees all memory at once; Python would search it three times before
    gc.freeze()
    sys.exit(code)


def _run_process() -> int:
    """Prepare the process, run its command line, and end its output."""
    reserve_streams()
    # a product of matrices runs in the thread that asks for it; OpenBLAS would start threads of its
    # own that wait busily
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Parquet takes no other pool (machine.return_freed_memory)
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    ignore_false_alarms()
    code = run()
    # no code is left that would catch what a handler raises
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    try:
        sys.stdout.flush()
    except (AttributeError, OSError, ValueError):  # None where it was closed from the start
        code = code or _fail(OSError(), "standard output: what was printed could not be written", 1)
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    return code


if __name__ == "__main__":
    main()
