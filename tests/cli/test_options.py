"""One list of options a command: the library's keywords, the command line, the checks and the docs
come from it.
"""

from __future__ import annotations

import dataclasses
import inspect
import io
import logging
import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import ClassVar

import click
import numpy as np
import pytest

import topicstream
from tests.options.values import VALUES, cases
from topicstream.base.errors import UsageError
from topicstream.base.options import checked, configured, like, option, seconds
from topicstream.base.progress import Calls, Progress, Shown, Silent, in_notebook, listener
from topicstream.cli.main import run
from topicstream.cli.options import click_option


@dataclasses.dataclass(frozen=True)
class Made:
    place: str = option("here", "where", show=True)
    _: dataclasses.KW_ONLY
    sweeps: int = option(3, "how often", min=1, max=9)
    order: str | None = option(None, "in which", choices=("up", "down"))
    time: float | str | None = option(None, "how long", parse=seconds, cli=False)
    names: Sequence[str] | None = option(None, "of what", cli=False)
    weights: Mapping[str, float] | None = option(None, "how much", cli=False)


@dataclasses.dataclass(frozen=True)
class Again:
    sweeps: int = like(Made, "sweeps", help="how often again")


@configured(Made)
def make(config: Made) -> Made:
    """Make it."""
    return config


def test_a_function_takes_the_fields_of_its_config_or_the_config():
    assert make("there", sweeps=2) == make(Made("there", sweeps=2)) == Made("there", sweeps=2)
    assert make(sweeps=4, time="2h") == Made(sweeps=4, time=7200.0)
    shown = inspect.signature(make)
    assert list(shown.parameters) == ["place", "sweeps", "order", "time", "names", "weights"]
    assert shown.parameters["sweeps"].default == 3 and shown.return_annotation == "Made"
    assert shown.parameters["order"].kind is inspect.Parameter.KEYWORD_ONLY
    assert make.__doc__.startswith("Make it.") and "how often" in make.__doc__


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sweep": 1}, "make has no option 'sweep'; did you mean 'sweeps'?"),
        ({"sweeps": 0}, "sweeps must be at least 1, not 0"),
        ({"sweeps": "many"}, "sweeps must be a whole number, not 'many'"),
        ({"sweeps": [2]}, "sweeps must be a whole number, not"),
        ({"sweeps": 1e30}, "sweeps must be at most 9, not"),
        ({"sweeps": 10}, "sweeps must be at most 9, not 10"),
        ({"sweeps": float("nan")}, "sweeps must be a whole number, not nan"),
        ({"sweeps": True}, "sweeps must be a whole number, not True"),
        ({"names": 5}, "names must be a list, not 5"),
        ({"names": ["a", 5]}, "names must be a list, not"),
        ({"names": "ab"}, "names must be a list, not 'ab'"),
        ({"weights": {"a": "b"}}, "weights must be a mapping, not"),
        ({"time": [1]}, "time must be a number or a string, not"),
        ({"order": 5}, "order must be one of up, down, not 5"),
        ({"order": "left"}, "order must be one of up, down, not left"),
        ({"time": "soon"}, "time: 'soon' is not a time"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_line(given, said):
    with pytest.raises(UsageError, match="^" + said.replace("?", r"\?")):
        make(**given)
    if "time" not in given:
        with pytest.raises(UsageError):
            checked(Made, given, "make")


@pytest.mark.parametrize("verb", ["compare", "drift", "retrain", "train_classifier"])
def test_what_every_function_is_asked_is_of_its_kind(verb):
    """Said before anything is opened: no model and no corpus is there."""
    function = getattr(topicstream, verb)
    for name, value in {
        "mem_limit": {1: 2},
        "progress": 5,
        "model": 7,
        "a": 1,
        "words": None,
        "config": 3,
        "corpus": b"c",
    }.items():
        if name in inspect.signature(function).parameters:
            with pytest.raises(UsageError, match=rf"^{name} (must|cannot) be [^\n]*$"):
                function(**{name: value})


def test_values_of_the_right_kind_are_taken_by_place_too():
    assert make("there", names=("a", "b"), weights={"a": 2}).names == ("a", "b")
    assert make("x", names=np.array(["a"]), sweeps=np.int64(2)).sweeps == 2
    with pytest.raises(UsageError, match="place must be a string, not 5"):
        make(5)


def test_an_option_of_the_command_line_is_a_field():
    fields = Made.__dataclass_fields__
    sweeps = click_option(fields["sweeps"])
    assert sweeps.opts == ["--sweeps"] and sweeps.type is click.INT and sweeps.default is None
    assert click_option(fields["place"]).default == "here"
    assert click_option(Again.__dataclass_fields__["sweeps"]).help == "how often again"


def test_an_option_without_a_default_must_be_given(capsys):
    assert run(["sweep"]) == 2 and "Missing option '-K'" in capsys.readouterr().err


@pytest.mark.parametrize("command", VALUES)
def test_every_option_has_values_that_the_table_of_options_tries(command):
    assert len(cases(command)) > 10


VERBS = [n for n in topicstream.__all__ if inspect.isfunction(getattr(topicstream, n))]


@pytest.mark.parametrize("name", VERBS)
def test_signatures_tell_the_truth(name):
    function = getattr(topicstream, name)
    shown = inspect.signature(function).parameters
    assert function.__doc__ and function.__name__ == name and len(VERBS) >= 15
    assert not [p for p in shown.values() if p.annotation is inspect.Parameter.empty]
    if name not in LOOSE:
        assert not [p for p in shown.values() if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


LOOSE = {"export_model", "fit", "import_model"}  # options of the format, of other functions


def test_progress_is_a_listener_a_function_or_silence(caplog):
    told = []
    own = Shown(stream=io.StringIO())
    assert (
        listener(own) is own
        and isinstance(listener(None), Silent)
        and isinstance(listener(False), Silent)
    )
    assert isinstance(listener(True), Shown) and isinstance(listener(None, Shown), Shown)
    calls = listener(lambda *step: told.append(step))
    assert isinstance(calls, Calls) and isinstance(calls, Progress)
    with caplog.at_level(logging.INFO, "topicstream"):
        calls.say("it begins")
        calls.say("warning: it is slow")
        calls.step("reading", 3, None, "B", 1)
        calls.close()
    assert told == [("reading", 3, 0)]
    assert [(r.levelname, r.message) for r in caplog.records] == [
        ("INFO", "it begins"),
        ("WARNING", "warning: it is slow"),
    ]


def test_plain_lines_come_every_ten_seconds(monkeypatch):
    now = [0.0]
    stream = io.StringIO()
    monkeypatch.setattr("topicstream.base.progress.EVERY", 10.0)
    monkeypatch.setattr("topicstream.base.progress.time.monotonic", lambda: now[0])
    shown = Shown(stream=stream)
    for now[0], done in ((0.0, 0), (5.0, 10), (10.0, 20), (12.0, 50), (21.0, 99), (22.0, 100)):
        shown.step("pass 1/2", done * 1_000_000, 100_000_000, "cell")
    now[0] = 40.0
    shown.step("reading", 1 << 20, 4 << 20, "B", 7)
    now[0] = 60.0
    shown.step("reading", 2 << 20, 4 << 20, "B", 20)
    shown.step("joining")
    now[0] = 80.0
    shown.step("joining")
    shown.step("topics of documents", 1000, 2000, "documents")
    now[0] = 100.0
    shown.step("topics of documents", 2000, 2000, "documents")
    assert stream.getvalue().splitlines() == [
        "pass 1: 20 %, 2.0 M values/s, 40 s left",
        "pass 1: 99 %, 4.7 M values/s, 0 s left",
        "read 2.0 MB of 4.0 MB, 20 documents, 1/s, 20 s left",
        "joining",
        "topics of documents: 2,000 of 2,000 documents",
    ]


class Bar:
    """Stands for tqdm's; keeps how far it was moved."""

    made: ClassVar[list[Bar]] = []

    def __init__(self, **about):
        self.n = about.get("initial", 0)
        self.total = about.get("total")
        self.unit = about.get("unit")
        self.closed = False
        self.made.append(self)

    def reset(self, total):
        self.n = 0
        self.total = total

    def set_description(self, text, refresh):
        self.text = text

    def set_postfix_str(self, text, refresh):
        self.postfix = text

    def update(self, more):
        self.n += more

    def close(self):
        self.closed = True


def test_a_notebook_gets_one_bar_that_ends_by_itself(monkeypatch, capsys):
    assert not Shown()._bars and not in_notebook()
    shell = SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setattr("topicstream.base.progress._bar_class", lambda terminal: Bar)
    monkeypatch.setattr("topicstream.base.progress.time.monotonic", lambda: 0.0)
    assert in_notebook() and not Shown(stream=io.StringIO())._bars
    shown = listener(True)
    for done in (100, 200, 300):
        shown.step("topics of documents", done, 300, "documents")
    assert [(b.n, b.closed) for b in Bar.made] == [(300, True)]
    for number in range(4):  # steps of a pass do not move the bar of passes
        shown.step(f"pass {number}/3", 5, 10, "cell")
        shown.end_pass({"pass": number, "running_perplexity": 9.0}, 3)
    assert [(b.n, b.unit, b.closed) for b in Bar.made[1:]] == [(3, "pass", True)]
    shown.say("warning: a prior stands at its bound")
    shown.say("2 threads")
    assert capsys.readouterr() == ("warning: a prior stands at its bound\n", "")
    shell.config = {}
    assert not in_notebook()


def test_quiet_says_nothing():
    stream = io.StringIO()
    shown = Shown(-1, stream)
    shown.say("x")
    shown.step("y", 1, 2, "cell")
    assert stream.getvalue() == ""
