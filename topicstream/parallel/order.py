"""Work on blocks with several threads, results in block order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], threads: int
) -> Iterator[Result]:
    """``work(item)`` for each item, at most ``threads`` at once and one waiting, yielded in the
    order of the items. ``work`` runs here first, on the first item, so that compiling is over
    before threads start."""
    source = iter(items)
    yield from map(work, islice(source, 1 if threads > 1 else None))
    if threads > 1:
        with ThreadPoolExecutor(threads, thread_name_prefix="topics") as pool:
            yield from pooled(pool, work, source, threads)


def pooled(
    pool: ThreadPoolExecutor,
    work: Callable[[Item], Result],
    items: Iterable[Item],
    ahead: int,
    alone: Callable[[Item], bool] = lambda item: False,
) -> Iterator[Result]:
    """``map`` in a pool, in order, at most ``ahead`` results waiting; an item that is ``alone`` is
    worked on without others.
    """
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            by_itself = alone(item)
            while waiting and by_itself:
                yield waiting.popleft().result()
            waiting.append(pool.submit(work, item))
            while len(waiting) > (0 if by_itself else ahead):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
