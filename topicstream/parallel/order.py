"""Work on blocks with several threads, results in block order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def in_order(work: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """``work(item)`` for each item, at most ``threads`` at once and one waiting, yielded in the order of the items.
    ``work`` runs here first, on the first item, so that compiling is over before threads start."""
    source = iter(items)
    for first in source:
        yield work(first)
        break
    if threads <= 1:
        for item in source:
            yield work(item)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="topics") as pool:
        yield from pooled(pool, work, source, threads)


class Here(Executor):
    """Runs what is submitted at once, in this thread.

    For patterns of a user's own, which may take for ever: `re` lets no other thread run while it matches, and hears signals
    in the main thread alone.
    """

    def submit(self, work: Callable[..., Result], /, *args: Any, **named: Any) -> Future[Result]:
        done: Future[Result] = Future()
        done.set_result(work(*args, **named))
        return done


def pooled(
    pool: ThreadPoolExecutor, work: Callable[[Item], Result], items: Iterable[Item], ahead: int
) -> Iterator[Result]:
    """``map`` in a pool, in order, at most ``ahead`` results waiting."""
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
