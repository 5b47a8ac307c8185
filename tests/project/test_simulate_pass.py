"""The simulator of a pass on many workers: tasks on the first free worker, limits, what is lost."""

from __future__ import annotations

import pytest
from simulate_pass import Round, Task, replay, run_tasks


def test_tasks_go_to_the_first_worker_that_is_free():
    tasks = [Task(3.0), Task(1.0), Task(1.0), Task(1.0)]
    assert run_tasks(tasks, 1, 0.0) == (6.0, 0.0)
    assert run_tasks(tasks, 2, 0.0) == (3.0, 0.0)
    assert run_tasks(tasks, 8, 0.0) == (3.0, 0.0)


def test_tasks_that_ask_for_more_than_the_memory_gives_all_slow_down():
    tasks = [Task(1.0, 10.0)] * 4
    seconds, lost = run_tasks(tasks, 4, 20.0)  # 40 bytes a second are asked for
    assert (seconds, lost) == pytest.approx((2.0, 4.0))
    assert run_tasks(tasks, 2, 20.0) == pytest.approx((2.0, 0.0))


def test_seconds_are_work_and_what_was_lost():
    one = Round([Task(0.5)] * 3, [Task(1.0, 5.0)] * 3, [Task(0.4), Task(0.1)], 0.2)
    busy = 2 * (3 * 1.5 + 0.5 + 0.2)
    for workers in (1, 2, 3, 7):
        for bandwidth in (0.0, 6.0):
            found = replay([one, one], workers, bandwidth, "barriers")
            lost = sum(value for name, value in found.items() if name != "seconds")
            assert workers * found["seconds"] == pytest.approx(busy + lost)
    assert replay([one, one], 3, 0.0, "barriers")["seconds"] == pytest.approx(2 * (1.5 + 0.4 + 0.2))


def test_schedules_save_what_they_say():
    one = Round([Task(0.5)] * 2, [Task(1.0)] * 2, [Task(0.4), Task(0.0)], 0.0)

    def seconds(schedule):
        return replay([one, one], 4, 0.0, schedule)["seconds"]

    assert seconds("barriers") == pytest.approx(2 * (1.5 + 0.4))
    assert seconds("balanced") == pytest.approx(2 * (1.5 + 0.1))
    assert seconds("ahead") == pytest.approx(2 * (1.5 + 0.1) - 0.5)
    assert seconds("parts") == pytest.approx(2 * (1.5 / 2 + 0.1))  # nobody waits, to cut ahead
