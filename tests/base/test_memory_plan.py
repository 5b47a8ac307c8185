"""The memory limit as a value, and plans from declared sizes."""

from __future__ import annotations

import doctest
from dataclasses import fields

import pytest

from topicstream.base import memory
from topicstream.base.errors import DoesNotFit, UsageError
from topicstream.base.machine import PROCESS_BYTES, memory_allowed
from topicstream.base.memory import FLOOR, Array, MemoryLimit, Room, plan_memory, total_bytes
from topicstream.display.config import ReportConfig, ShowConfig
from topicstream.evaluation.config import CompareConfig, EvalConfig
from topicstream.inference.config import InferConfig
from topicstream.ingestion.config import IngestConfig
from topicstream.retraining.retrain import RetrainConfig
from topicstream.retraining.update import UpdateConfig
from topicstream.training.config import TrainConfig

CONFIGS = (
    CompareConfig,
    EvalConfig,
    InferConfig,
    IngestConfig,
    ReportConfig,
    ShowConfig,
    RetrainConfig,
    UpdateConfig,
    TrainConfig,
)
MB = 1 << 20


def test_the_docstring_runs():
    assert doctest.testmod(memory).failed == 0


@pytest.mark.parametrize(
    "text, bytes", [("2G", 2 << 30), ("512M", FLOOR), (1 << 30, 1 << 30), ("1.5g", 3 << 29)]
)
def test_a_stated_limit(text, bytes):
    limit = MemoryLimit.parse(text)
    assert limit == MemoryLimit(bytes, stated=True)
    assert MemoryLimit.parse(limit) is limit


def test_the_default_is_a_share_of_the_machine():
    assert MemoryLimit.parse(None) == MemoryLimit(
        max(FLOOR, int(0.7 * memory_allowed())), stated=False
    )


@pytest.mark.parametrize("text", ["300M", "511M", 1])
def test_below_the_floor_one_line_refuses(text):
    with pytest.raises(DoesNotFit, match=r"^--mem-limit .* at least 512M") as error:
        MemoryLimit.parse(text)
    assert error.value.least == 512


@pytest.mark.parametrize("text", ["two", "", "-5", float("nan"), 1 << 70])
def test_what_is_no_amount_of_memory(text):
    with pytest.raises(UsageError):
        MemoryLimit.parse(text)


@pytest.mark.parametrize("kind", CONFIGS)
def test_every_verb_has_the_limit(kind):
    check_limit(kind)


@pytest.mark.parametrize("name", ["classifier.config:ClassifierConfig", "sweep.config:SweepConfig"])
def test_every_verb_of_an_addon_has_the_limit(name):
    module, _, kind = name.partition(":")
    check_limit(getattr(pytest.importorskip(f"topicstream.addons.{module}"), kind))


def check_limit(kind):
    (field,) = [field for field in fields(kind) if field.name == "mem_limit"]
    assert field.kw_only
    assert kind.memory.fget(type("Config", (), {"mem_limit": "1G"})()) == MemoryLimit(1 << 30)


def test_arrays_give_their_bytes():
    assert Array((3, 5), "float32").nbytes == 60
    assert Array((1 << 20, 1 << 20), "int8").nbytes == 1 << 40
    assert total_bytes([Array((3,), "int64"), Array((), "float64")]) == 32


def test_as_many_workers_as_fit():
    limit = MemoryLimit(FLOOR)
    plan = plan_memory("scoring", limit, 8, {"table": 10 * MB}, {"rows": 50 * MB, "shares": 5 * MB})
    assert plan.workers == 3
    assert plan.parts == {
        "process": PROCESS_BYTES,
        "table": 10 * MB,
        "rows": 150 * MB,
        "shares": 15 * MB,
    }
    assert plan.total <= limit.bytes < plan.total + 1.06 * 55 * MB
    assert 0 <= plan.free <= limit.bytes - plan.total
    assert plan_memory("scoring", limit, 1, {}, {"rows": MB}).workers == 1


def test_a_refusal_names_a_limit_that_would_do():
    sizes = {"table": 700 * MB}, {"rows": 30 * MB}
    with pytest.raises(
        DoesNotFit,
        match=r"^scoring m does not fit 512 MB: the smallest limit that would do is (\d+)M",
    ) as error:
        plan_memory("scoring m", MemoryLimit(FLOOR), 4, *sizes)
    named = error.value.least
    assert plan_memory("scoring m", MemoryLimit(named * MB), 4, *sizes).workers == 1
    with pytest.raises(DoesNotFit):
        plan_memory("scoring m", MemoryLimit((named - 1) * MB), 4, *sizes)


@pytest.mark.parametrize(
    "needed, at_end, least",
    [
        (31 * MB, 0, 1000 + 2 * 1),  # of an increase by 2 MB, one is for this data
        (31 * MB + 1, 0, 1000 + 3),
        (31 * MB, 40 * MB, 1000 + 2 * 10),
    ],
)
def test_a_record_without_room_names_a_limit_with_room(needed, at_end, least):
    room = Room(MemoryLimit(1000 * MB), 30 * MB, share=0.5)
    room.check(30 * MB, "a record", at_end=90 * MB)
    with pytest.raises(DoesNotFit, match=rf"; {least}M would do ") as error:
        room.check(needed, "a record", at_end)
    assert error.value.least == least
