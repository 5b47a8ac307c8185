"""When a run stops, on made histories."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from topicstream.base.errors import Interrupted, UsageError
from topicstream.base.progress import Shown as Progress
from topicstream.engines import find
from topicstream.engines.base import Shape
from topicstream.training import stopping
from topicstream.training.auto import choose
from topicstream.training.config import TrainConfig
from topicstream.training.course import Course
from topicstream.training.loop import _reason_to_stop
from topicstream.training.setup import make_options, make_stopping
from topicstream.training.stopping import (
    SPAN,
    Share,
    Signals,
    Stopping,
    converged,
    has_stalled,
    tolerance,
)


def falling(floor: float, height: float, passes: int = 200, pace: float = 0.9) -> list[float]:
    """A perplexity that falls to ``floor`` from ``height`` times it, a share of what is left each
    pass.
    """
    return [floor * (1 + (height - 1) * pace**n) for n in range(passes)]


def stop(history: list[float], tol: float, least: int = 5) -> int:
    """Passes after which the run ends."""
    return next(
        (n for n in range(1, len(history) + 1) if converged(history[:n], tol, n, least)),
        len(history),
    )


def test_a_share_means_the_same_on_every_corpus():
    stops = {stop(falling(floor, 1.5), Share(0.001)) for floor in (30.0, 800.0, 1500.0, 60_000.0)}
    assert len(stops) == 1
    assert len({stop(falling(floor, 1.5), 1.0) for floor in (30.0, 800.0, 1500.0, 60_000.0)}) == 4


@pytest.mark.parametrize("pace", [0.5, 0.8, 0.9, 0.95])
def test_what_is_left_is_below_the_aim(pace):
    history = falling(1000.0, 1.6, 400, pace)
    at = stop(history, Share(0.001))
    assert SPAN < at < 400 and history[at - 1] < 1.01 * history[-1]


def test_steps_every_fourth_pass_do_not_look_settled():
    steps = [
        1000.0 * 0.99 ** (n // 4) for n in range(80)
    ]  # flat for three passes, then 1 % at once
    assert stop(steps, Share(0.001)) == 80 and stop(steps, 1.0) < 10


def test_a_rising_perplexity_has_not_settled_and_a_flat_one_has():
    assert stop([1000.0 * 1.01**n for n in range(50)], Share(0.001)) == 50
    assert (
        stop([1000.0] * 50, Share(0.001)) == SPAN + 1
        and stop([1000.0] * 50, Share(0.001), least=20) == 20
    )


def test_a_share_looks_back_exactly_ten_passes():
    """Nine passes that change nothing behind a large step have not settled, ten have."""
    history = [2000.0, 1000.0, *[1000.0] * 12]
    assert [n for n in range(1, 15) if converged(history[:n], Share(0.001), n, 0)] == [12, 13, 14]
    # a step of 0.15 % in the tenth pass back counts, one in the eleventh does not
    assert not converged([1001.5, *[1000.0] * 10], Share(0.001), 11, 0)
    assert converged([1001.5, *[1000.0] * 11], Share(0.001), 12, 0)


def test_means_of_passes_are_compared_where_passes_vary():
    """It falls by 1 % in ten passes, and passes vary by 0.3 %: a single pair is equal by chance."""
    noise = np.random.default_rng(0).normal(0, 3, 60)
    history = [1000.0 * 0.999**n + x for n, x in enumerate(noise.tolist())]
    assert stop(history, Share(0.003)) < 60
    assert not any(converged(history[:n], Share(0.003), n, 0, 5) for n in range(61))


def test_a_window_looks_back_ten_passes_behind_its_own():
    """By hand: the mean of the last three against the mean of three, ten passes before."""
    history = [1009.0, 1000.0, 1000.0, *[1000.0] * 10]
    assert not converged(history, Share(0.003), 13, 0, 3)  # 1003 and 1000: as much as the tolerance
    assert converged(history, Share(0.0031), 13, 0, 3)
    assert not converged(history[1:], Share(0.5), 12, 0, 3)  # too few passes to compare


@pytest.mark.parametrize("name", ["ovb", "svi"])
def test_stochastic_engines_stop_by_themselves(name):
    large = Shape(100_000, 500, 50_000_000, 1e8, 20)
    engine = find(name)(large, make_options(find(name), {}))
    stopping = make_stopping(TrainConfig(algo=name), engine, Progress(-1))
    assert stopping.tol == Share(0.0005) and stopping.passes == 200
    course = Course(engine, None, 1, "documents")
    made = falling(1000.0, 1.5, 200, 0.9)
    for number, value in enumerate(made, 1):
        course.add_perplexity(value)
        if course.converged(stopping.tol, number):
            break
    assert number == stop_by_hand(made, 0.0005, 5) < 100
    small = find(name)(Shape(1024, 500, 50_000, 1e5, 20), make_options(find(name), {}))
    assert Course(small, None, 1, "documents").least == 120  # 200 steps, two a pass, and a window
    assert Course(engine, None, 1, "documents").least == 22


def stop_by_hand(history: list[float], tol: float, window: int) -> int:
    """Passes after which means of ``window`` passes differ by less over ten passes."""
    for n in range(10 + window, len(history) + 1):
        now = sum(history[n - window : n]) / window
        before = sum(history[n - 10 - window : n - 10]) / window
        if abs(now - before) < tol * now:
            return n
    return len(history)


def test_a_change_that_equals_the_tolerance_goes_on():
    """It has to be smaller, whichever way it goes."""
    for change in (-1.0, 1.0):
        flat = [1000.0 + change, *[1000.0] * 10]
        assert not converged(flat, Share(0.001), 11, 0)
        assert converged(flat, Share(0.0011), 11, 0)
        assert not converged([1000.0 + change, 1000.0, 1000.0], 1.0, 3, 0)
        assert not converged([1000.0, 1000.0, 1000.0 + change], 1.0, 3, 0)
        assert converged([1000.0 + change, 1000.0, 1000.0 + change], 1.1, 3, 0)
    assert not converged([1000.0, 1000.0], 1.0, 2, 0)
    flat = [1000.0] * 12
    assert converged(flat, 1.0, 12, 12) and not converged(flat, 1.0, 12, 13)


def test_a_number_is_as_it_was():
    assert stop([1100.0, 1050.0, 1010.0, 1009.5, 1009.2, 1009.0], 1.0) == 5
    assert not converged([1000.0] * 9, 0.0, 9, 5) and not converged([1000.0] * 30, Share(0), 30, 5)


def least(cells: int, algo: str = "", **said: object) -> int:
    """Passes that a run makes at least, of an engine or as auto chooses."""
    shape = Shape(200, 5000, cells, 2.0 * cells, 20)
    choice = choose(shape, {})
    kind = find(algo or choice.algo)
    engine = kind(shape, make_options(kind, {} if algo else choice.options))
    return make_stopping(TrainConfig(algo=algo or "auto", **said), engine, Progress(-1)).least  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cells", "passes"), [(8_000, 100), (200_000, 100), (250_000, 80), (2_000_000, 10), (10**8, 0)]
)
def test_a_small_corpus_is_not_left_while_passes_are_cheap(cells, passes):
    assert least(cells) == passes


def test_who_says_when_to_stop_or_names_an_engine_is_not_kept_waiting():
    assert least(8_000, tol=1.0) == least(8_000, tol="0.1%") == least(8_000, eval_every=5) == 0
    assert least(8_000, "sparse-bp") == least(8_000, "vb") == least(8_000, "gs") == 0


def test_how_it_is_spelt_and_told():
    assert isinstance(tolerance("0.1%"), Share) and tolerance(" 0.1% ") == 0.001
    assert tolerance("1.0") == 1.0 and not isinstance(tolerance("1.0"), Share) and tolerance(2) == 2
    about = SimpleNamespace(objective=SimpleNamespace(name="perplexity"))
    engine = SimpleNamespace(
        phases=[SimpleNamespace(settles_after=0)],
        about=about,
        shape=SimpleNamespace(covariates=None),
    )
    course = Course(engine, None, 1, "documents")
    assert (
        course.describe_convergence(Share(0.001))
        == "perplexity changed by less than 0.1% over 10 passes"
    )
    assert course.describe_convergence(1.0) == "perplexity changed by less than 1"
    course.measured.append((1, 2.0))
    assert course.describe_convergence(1.0) == "no new low of held-out perplexity by 1 in 10 passes"
    for text in ("little", "x%", "200%", ""):
        with pytest.raises(UsageError, match="not a tolerance"):
            tolerance(text)


def ended(values: list[float], tol: float, every: int = 5) -> int:
    """Passes after which a run ends whose held-out perplexity was measured every so many."""
    found = [(every * (i + 1), value) for i, value in enumerate(values)]
    return next(
        (found[i - 1][0] for i in range(1, len(found) + 1) if has_stalled(found[:i], tol)), 0
    )


def test_held_out_perplexity_that_finds_no_new_low_ends_a_run():
    turning = [1000.0, 950.0, 920.0, 921.0, 930.0, 940.0, 900.0]
    assert (
        ended(turning, Share(0.001)) == 25
    )  # the low is at 15; ten passes and two measurements later
    assert (
        ended(turning, Share(0.001), every=1) == 0 and ended(turning, Share(0.001), every=20) == 100
    )
    assert (
        ended([950.0 - 2 * n for n in range(40)], Share(0.001)) == 0
    )  # 0.2 % each five passes: still falling
    assert ended([950.0 - 0.1 * n for n in range(40)], Share(0.001)) == 15
    assert ended(turning, 0.0) == 0 and ended([1000.0, 999.5, 999.2, 999.0], 5.0) == 15


def test_held_out_perplexity_is_compared_with_what_lies_ten_passes_back():
    """Three measurements at least; a new low must be lower by the tolerance, not equal to it."""
    assert not has_stalled([(10, 900.0), (30, 900.0)], 1.0)
    assert has_stalled([(10, 900.0), (20, 900.0), (30, 900.0)], 1.0)
    assert not has_stalled([(10, 900.0), (20, 900.0), (30, 899.0)], 1.0)
    assert has_stalled([(10, 900.0), (20, 900.0), (30, 899.5)], 1.0)
    assert not has_stalled([(10, 1000.0), (20, 1000.0), (30, 999.0)], Share(0.001))
    assert has_stalled([(10, 1000.0), (20, 1000.0), (30, 999.1)], Share(0.001))
    # every pass: the low at pass 5 is ten passes old at pass 15
    every = [(n, 900.0 if n == 5 else 950.0) for n in range(1, 20)]
    assert [n for n in range(1, 20) if has_stalled(every[:n], 1.0)] == [15, 16, 17, 18, 19]
    # rarely: two measurements behind the low, though they are more than ten passes
    rare = [(50, 900.0), (100, 950.0), (150, 950.0)]
    assert not has_stalled(rare[:2], 1.0) and has_stalled(rare, 1.0)


def test_what_is_not_said_does_not_stop_a_run():
    plain = Stopping(10, 0.5)
    assert plain.max_time is None
    assert (plain.eval_every, plain.tol_params, plain.least) == (0, 0.0, 0)


def reason_of(seconds=0.0, passes=30, converged=False, moved=None, phases=None, **rules):
    """Why a run stops after so many passes."""
    course = SimpleNamespace(
        least=20,
        converged=lambda tol, number: converged,
        describe_convergence=lambda tol: "settled",
    )
    session = SimpleNamespace(
        passes=passes,
        rounds=0,
        course=course,
        history=SimpleNamespace(last={"topics_moved": moved} if moved is not None else {}),
        engine=find("bp")(Shape(9, 9, 9, 9.0, 2), find("bp").Options()),
    )
    return _reason_to_stop(session, Stopping(100, 0.1, **rules), seconds)


def test_a_run_stops_when_it_has_settled_or_time_is_out():
    assert reason_of() == ""
    assert reason_of(converged=True) == reason_of(converged=True, least=30) == "settled"
    assert reason_of(converged=True, least=31) == ""
    assert reason_of(seconds=60.0, max_time=60.0) == ""
    assert reason_of(seconds=60.1, max_time=60.0) == "out of time"
    told = "no probability of a word moved by more than 0.01"
    assert reason_of(moved=0.01, tol_params=0.01) == told
    assert reason_of(moved=0.0101, tol_params=0.01) == ""
    assert reason_of(moved=0.001, tol_params=0.01, passes=20) == told
    assert reason_of(moved=0.001, tol_params=0.01, passes=19) == ""


def test_two_passes_are_one_change():
    """Two changes in a row decide, of three passes."""
    assert not converged([100.0], 0.5, 1, 0) and not converged([100.0, 100.0], 0.5, 2, 0)
    assert converged([100.0, 100.0, 100.0], 0.5, 3, 0)
    assert converged([100.0, 100.4, 100.8], 0.5, 3, 0)
    assert not converged([101.0, 100.0, 100.0], 0.5, 3, 0)
    assert not converged([100.0, 100.0, 101.0], 0.5, 3, 0)


def test_the_second_signal_stops_the_process(monkeypatch):
    done = []
    monkeypatch.setattr(stopping.signal, "signal", lambda *given: done.append(given))
    monkeypatch.setattr(stopping.signal, "raise_signal", lambda number: done.append(number))
    signals = Signals()
    signals._handle(15, None)
    assert signals.received == 15 and done == []
    signals._handle(2, None)
    assert done == [(2, stopping.signal.SIG_DFL), 2]


def test_no_signal_is_heeded_before_one_came():
    signals = Signals()
    assert signals.received == 0
    signals.check()
    signals.received = 15
    with pytest.raises(Interrupted, match="stopped by a signal"):
        signals.check()
