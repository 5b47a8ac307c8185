"""Work on blocks with several threads, results in block order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

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
        ahead: deque[Future[Result]] = deque()
        try:
            for item in source:
                ahead.append(pool.submit(work, item))
                if len(ahead) > threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()
