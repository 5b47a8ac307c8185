"""Merging of a round's deltas into buffers of sums, each for a range of a table's rows.

Sums are exact multiples of a quantum, so they do not depend on the order in which blocks arrive
(numeric/tables/spec.py). Those of sparse deltas are whole numbers of quanta, int32 in the rows of
nearly all words; a row with a sum beyond that is laid out anew as float64. A row has entries and
their topics, or, once it has most topics, an entry for each in their order. Where there is memory
for all topics of all rows, every row has those from the first.

begin    int64[n]      where the entries of row ``first`` + i begin in ``values``
length   int32[n]      how many entries the row has; 0: none yet; as many as columns: one for each
         topic; more: the same, as float64 (``WIDE``)
room     int32[n]      places in ``values`` that the row may fill before it has to move
usual    int32[n]      ``length`` at the end of the last round that changed the row: with room for
         as many from the first it does not move
topics   uint16 or int32[capacity]   topic of each entry of a row of few topics
values   int32[capacity]   the sums; float64 of dense deltas
orders   uint64[capacity], or length 0   where each entry came first: block of the round, then place
         in the block's row
state    int64[2]      places of ``values`` that are taken, and those among them of rows' rooms
columns  int64         K; of dense deltas padded
unit     float64       the quantum
quantum  float64       what deltas are rounded to; 0.0: they are multiples of it already
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topicstream.numeric.kernels.arrays import Array, Bool, Doubles, Int, Ints, Longs, borrow
from topicstream.numeric.kernels.jit import kernel
from topicstream.numeric.kernels.scatter import RowRange, hold_row, rounded

PLACES = np.uint64(1 << 32)
"""Places in a row of a block that ``orders`` tells apart."""
NEVER = np.uint64(2**64 - 1)


class Buffer(NamedTuple):
    """A buffer of sums for a range of rows (symbols: the module's docstring)."""

    first: int
    begin: Longs
    length: Ints
    room: Ints
    usual: Ints
    topics: Array
    values: Array
    orders: Array
    state: Longs
    columns: int
    unit: float


class BlockDelta(NamedTuple):
    """The sparse delta of a block, or a run that is read back.

    ids    int32[U], the words of its rows, ascending
    ptr    int64[U + 1];  topic, value   row u has the entries ptr[u] .. ptr[u + 1] - 1
    block  number of the block in its round
    came   uint64[entries], ``orders`` of a run's entries; length 0: they are those of the block
    """

    ids: Ints
    ptr: Longs
    topic: Array
    value: Array
    block: int
    came: Array


@kernel
def _lay_out(buffer: Buffer, w: Int, size: Int, wide: Bool) -> None:
    """Move a row to the end of ``values``, where there is room for ``size``.

    It gets an entry for each topic where ``size`` is as many as ``columns``.
    """
    _, begin, length, room, _, topics, values, orders, state, columns, unit = buffer
    n = np.int64(length[w])
    start = begin[w]
    to = state[0]
    ordered = len(orders) > 0
    # sums: quanta times the unit by topic, whole numbers by topic, or entries as they are
    if wide:
        to += to % 2
        sums = values.view(np.float64)
        for k in range(columns):
            sums[to // 2 + k] = 0.0
        for i in range(n):
            t = np.int64(i) if n == columns else np.int64(topics[start + i])
            sums[to // 2 + t] = values[start + i] * unit
    elif size == columns:
        for k in range(columns):
            values[to + k] = 0
        for i in range(n):
            values[to + topics[start + i]] = values[start + i]
    else:
        for i in range(n):
            topics[to + i] = topics[start + i]
            values[to + i] = values[start + i]
    # orders, in the same places
    if ordered and (wide or size == columns):
        for k in range(columns):
            orders[to + k] = NEVER
        for i in range(n):
            t = np.int64(i) if n == columns else np.int64(topics[start + i])
            orders[to + t] = orders[start + i]
    elif ordered:
        for i in range(n):
            orders[to + i] = orders[start + i]
    # the row's new place, room and form
    state[0] += size
    state[1] += size - room[w]
    room[w] = size
    begin[w] = to
    if wide:
        length[w] = columns + 1
    elif size == columns:
        length[w] = columns


@kernel
def _count_new(buffer: Buffer, w: Int, topic: Array, a: Int, b: Int, place: Ints) -> Int:
    """Count the topics of a delta's row that a row of few topics has no entry for.

    ``place`` receives where the row has its topics, from 1.
    """
    start = buffer.begin[w]
    for i in range(buffer.length[w]):
        place[buffer.topics[start + i]] = i + 1
    new = np.int64(0)
    for j in range(a, b):
        k = topic[j]
        if place[k] == 0:
            place[k] = -1
            new += 1
    return new


@kernel(inline="always")
def _add_whole(
    values: Ints,
    start: int,
    topic: Array,
    value: Array,
    a: Int,
    b: Int,
    magic: float,
    quanta: float,
) -> Bool:
    """Add the entries a .. b - 1 of a delta to a row of whole numbers that has all topics.

    Returns whether all sums fit. Where one does not, the same with ``-quanta`` undoes all: what
    does not fit wraps.
    """
    lost = np.int64(0)
    for j in range(a, b):
        at = start + np.int64(topic[j])
        x = np.int64(values[at]) + np.int64(rounded(np.float64(value[j]), magic) * quanta)
        values[at] = np.int32(x)
        lost |= x - np.int64(values[at])
    return bool(lost == 0)


@kernel
def _add_narrow(
    buffer: Buffer,
    w: Int,
    delta: BlockDelta,
    a: Int,
    b: Int,
    magic: float,
    quanta: float,
    place: Ints,
) -> Bool:
    """Add the entries a .. b - 1 of a delta to a row of few topics, as ``_add_whole`` does."""
    topic = delta.topic
    value = delta.value
    values = buffer.values
    start = buffer.begin[w]
    n = np.int64(buffer.length[w])
    lost = np.int64(0)
    for j in range(a, b):
        # a topic that is new to the row gets the next place, with the sum 0
        k = np.int64(topic[j])
        if place[k] <= 0:
            buffer.topics[start + n] = k
            values[start + n] = 0
            if len(buffer.orders):
                buffer.orders[start + n] = NEVER
            n += 1
            place[k] = n
        # sum_k += round(value / quantum); what does not fit int32 shows in ``lost``
        at = start + place[k] - 1
        x = np.int64(values[at]) + np.int64(rounded(np.float64(value[j]), magic) * quanta)
        values[at] = np.int32(x)
        lost |= x - np.int64(values[at])
    buffer.length[w] = n
    return bool(lost == 0)


@kernel
def _note_orders(buffer: Buffer, w: Int, delta: BlockDelta, a: Int, b: Int, place: Ints) -> None:
    """Note in which order the entries a .. b - 1 of a delta came to a row."""
    orders = buffer.orders
    topic = delta.topic
    came = delta.came
    base = np.uint64(delta.block) * PLACES
    start = buffer.begin[w]
    whole = buffer.length[w] >= buffer.columns
    for j in range(a, b):
        k = np.int64(topic[j])
        at = start + k if whole else start + place[k] - 1
        mine = came[j] if len(came) else base + np.uint64(j - a)
        orders[at] = min(orders[at], mine)


@kernel
def merge_entries(
    buffer: Buffer, delta: BlockDelta, lo: int, hi: int, quantum: float, whole: bool
) -> Int:
    """Add local rows lo .. hi - 1 of a sparse delta to a buffer.

    whole: whether new rows have an entry for each topic. Returns the row at which the buffer had no
    more room, ``hi`` where all were added.
    """
    buffer = borrow(buffer)
    delta = borrow(delta)
    first, begin, length, room, usual, topics, values, orders, state, columns, unit = buffer
    ids, ptr, topic, value, _, _ = delta
    place = np.zeros(columns, np.int32)
    sums = values.view(np.float64)
    magic = 1.5 * 2.0**52 * quantum
    quanta = 1.0 / unit
    widest = 2 * np.int64(columns) + 1
    for u in range(lo, hi):
        w = ids[u] - first
        a = ptr[u]
        b = ptr[u + 1]
        if a == b:
            continue
        # the row's form: float64 by topic, whole numbers by topic, or few topics to be looked up
        n = np.int64(length[w])
        size = np.int64(room[w])
        wide = n > columns or (n == 0 and usual[w] > columns)
        looked_up = not wide and n < columns and not (whole and n == 0)
        # the places that it takes with the new topics, and a quarter more where it has to move
        if wide:
            size = widest
        elif whole and n == 0:
            size = np.int64(columns)
        elif looked_up:
            needed = n + _count_new(buffer, w, topic, a, b, place)
            if needed > size:
                size = max(needed + needed // 4, np.int64(usual[w]))
                if 3 * size > 2 * columns:
                    size = np.int64(columns)
        if size != room[w]:
            if state[0] + size > len(values):
                return u
            _lay_out(buffer, w, size, wide)
        # sum_k += round(value / quantum) in whole numbers; where one does not fit, all are undone
        start = begin[w]
        if not wide and length[w] == columns:
            fits = _add_whole(values, start, topic, value, a, b, magic, quanta)
            if not fits:
                _add_whole(values, start, topic, value, a, b, magic, -quanta)
        elif not wide:
            fits = _add_narrow(buffer, w, delta, a, b, magic, quanta, place)
            if not fits:
                _add_narrow(buffer, w, delta, a, b, magic, -quanta, place)
        # the same in float64, in a row that is laid out anew where it was not
        if not wide and not fits:
            if state[0] + widest > len(values):
                return u
            _lay_out(buffer, w, widest, True)
            wide = True
        if wide:
            start = begin[w] // 2
            for j in range(a, b):
                sums[start + np.int64(topic[j])] += rounded(np.float64(value[j]), magic)
        if len(orders):
            _note_orders(buffer, w, delta, a, b, place)
        # ``place`` is zero again for the next row
        if looked_up and length[w] < columns:
            for i in range(length[w]):
                place[topics[begin[w] + i]] = 0
        elif looked_up:
            place[:] = 0
    return hi


@kernel
def merge_rows(buffer: Buffer, ids: Ints, rows: Array, lo: int, hi: int, quantum: float) -> Int:
    """Add rows lo .. hi - 1 of a dense delta to a buffer whose rows are all laid out by topic.

    Returns the row at which the buffer had no more room, ``hi`` where all were added.
    """
    first, begin, length, room, _, _, values, _, state, _, _ = borrow(buffer)
    width = rows.shape[1]
    magic = 1.5 * 2.0**52 * quantum
    for u in range(lo, hi):
        w = ids[u] - first
        delta = rows[u]
        if length[w] == 0:
            if state[0] + width > len(values):
                return u
            begin[w] = state[0]
            length[w] = width
            room[w] = width
            state[0] += width
            state[1] += width
            new = values[begin[w] : begin[w] + width]
            for k in range(width):
                new[k] = 0.0 + rounded(np.float64(delta[k]), magic)
        else:
            sums = values[begin[w] : begin[w] + width]
            for k in range(width):
                sums[k] += rounded(np.float64(delta[k]), magic)
    return hi


@kernel
def move_rows(buffer: Buffer, values: Doubles) -> None:
    """Move the rows of dense deltas to larger arrays, one behind the other."""
    _, begin, length, room, _, _, old, _, state, _, _ = buffer
    to = np.int64(0)
    for w in range(len(begin)):
        n = np.int64(length[w])
        if n:
            values[to : to + n] = old[begin[w] : begin[w] + n]
            begin[w] = to
            to += room[w]
    state[0] = to
    state[1] = to


@kernel
def move_entries(buffer: Buffer, topics: Array, values: Ints, orders: Array) -> None:
    """Move all rows to larger arrays, one behind the other."""
    columns = buffer.columns
    state = buffer.state
    to = np.int64(0)
    for w in range(len(buffer.begin)):
        n = np.int64(buffer.length[w])
        if n == 0:
            continue
        a = buffer.begin[w]
        at = to + to % 2 if n > columns else to
        taken = 2 * np.int64(columns) if n > columns else n
        values[at : at + taken] = buffer.values[a : a + taken]
        if n < columns:
            topics[at : at + n] = buffer.topics[a : a + n]
        if len(orders):
            n = min(n, np.int64(columns))
            orders[at : at + n] = buffer.orders[a : a + n]
        buffer.begin[w] = at
        to += buffer.room[w]
    state[0] = to
    state[1] = to


@kernel
def list_entries(
    buffer: Buffer,
    rows: Longs,
    ptr: Longs,
    out_topics: Array,
    out_values: Doubles,
    out_orders: Array,
) -> Int:
    """List the entries that are not zero row by row, in the order of ``orders`` where there is one.

    rows: int64[n], the rows of the range that are listed; ptr: int64[n + 1]. Returns how many
    entries there are.
    """
    orders = buffer.orders
    columns = buffer.columns
    sums = buffer.values.view(np.float64)
    n = np.int64(0)
    ptr[0] = 0
    for r in range(len(rows)):
        w = rows[r]
        a = buffer.begin[w]
        length = np.int64(buffer.length[w])
        row = n
        for i in range(min(length, np.int64(columns))):
            # the sum: float64, or whole numbers times the unit
            x = sums[a // 2 + i] if length > columns else buffer.values[a + i] * buffer.unit
            if x == 0.0:
                continue
            # its place among those of the row: an insertion sort by ``orders``
            at = n
            if len(orders):
                mine = orders[a + i]
                while at > row and out_orders[at - 1] > mine:
                    out_orders[at] = out_orders[at - 1]
                    out_topics[at] = out_topics[at - 1]
                    out_values[at] = out_values[at - 1]
                    at -= 1
                out_orders[at] = mine
            out_topics[at] = i if length >= columns else buffer.topics[a + i]
            out_values[at] = x
            n += 1
        ptr[r + 1] = n
    return n


@kernel
def add_entries(part: RowRange, buffer: Buffer, factor: float) -> None:
    """Add ``factor`` times the sums to the range's rows, as ``scatter_sparse`` does."""
    _, table, _, change, _ = part
    values = buffer.values
    columns = buffer.columns
    unit = buffer.unit
    sums = values.view(np.float64)
    for w in range(len(buffer.begin)):
        a = buffer.begin[w]
        n = np.int64(buffer.length[w])
        old = table[w]
        for i in range(min(n, np.int64(columns))):
            k = np.int64(i) if n >= columns else np.int64(buffer.topics[a + i])
            x = sums[a // 2 + i] if n > columns else values[a + i] * unit
            was = np.float64(old[k])
            new = table.dtype.type(was + factor * x)
            old[k] = new
            change[k] += np.float64(new) - was


@kernel
def sum_changes(
    sums: Array,
    changed: Array,
    first: int,
    ids: Ints,
    ptr: Longs,
    topic: Array,
    value: Array,
    quantum: float,
) -> None:
    """Add a sparse delta of a range to the sums of its rows.

    sums: float64[n, columns]; changed: bool[n], gains the rows that have entries.
    """
    magic = 1.5 * 2.0**52 * quantum
    for u in range(len(ids)):
        w = ids[u] - first
        row = sums[w]
        changed[w] |= ptr[u + 1] > ptr[u]
        for j in range(ptr[u], ptr[u + 1]):
            row[topic[j]] += rounded(np.float64(value[j]), magic)


@kernel
def add_sums(table: Array, sums: Array, changed: Array, factor: float, change: Doubles) -> None:
    """Add ``factor`` times the sums to the rows that are ``changed``, as ``add_entries`` does."""
    for w in range(len(sums)):
        if not changed[w]:
            continue
        old = table[w]
        row = sums[w]
        for k in range(sums.shape[1]):
            was = np.float64(old[k])
            new = table.dtype.type(was + factor * row[k])
            old[k] = new
            change[k] += np.float64(new) - was


@kernel
def add_rows(part: RowRange, buffer: Buffer, factor: float) -> None:
    """Add ``factor`` times the sums to the range's rows, as ``scatter_rows`` does."""
    _, table, n_w, change, worst = part
    begin = buffer.begin
    length = buffer.length
    values = buffer.values
    width = table.shape[1]
    acc = np.empty(width, np.float64)
    for w in range(len(begin)):
        if length[w] == 0:
            continue
        a = begin[w]
        old = table[w]
        for k in range(width):
            acc[k] = np.float64(old[k]) + factor * values[a + k]
        if len(n_w):
            hold_row(acc, n_w[w], worst)
        for k in range(width):
            new = table.dtype.type(acc[k])
            change[k] += np.float64(new) - np.float64(old[k])
            old[k] = new
