"""Memory in front of object stores, within a budget, with what is disclosed fetched ahead.

    from foretell.pool import Pool

    pool = Pool(1 << 30)  # bytes
    images = pool.open_all([f"s3://bucket/{name}" for name in names])
    pool.disclose((images[at], 0, images[at].length) for at in order)
    for at in order:
        use(images[at].read())

Needs no service: the pool is this process's own, and its threads do the fetching. What a part is, what is kept
and how a changed object shows itself, says docs/buffers.md. A child of fork() attaches to the pool of its parent
(Pool.attach, with what Pool.share gives), or makes one of its own; foretell.fs attaches by itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

from foretell._native import ChangedError, DamagedError, Object, Pool, Stamp, Statistics

__all__ = ["ChangedError", "DamagedError", "Object", "Pool", "Stamp", "Statistics", "read_into", "view", "views"]


def view(one: Object, offset: int = 0) -> memoryview:
    """The bytes of an object from an offset on where they lie in the pool's memory: as many as are in one part, read-only.

    They stay there as long as anything refers to the view: numpy.frombuffer(view(one)) is an array over the pool's memory. No
    more than the budget is held so: then OSError is raised. Of another process's pool it is a copy. In a forked child those of
    the parent are not to be used: the memory is the parent's, which may put something else there.
    """
    if (lease := one.lease(offset)) is None:
        return memoryview(one.read(offset, min(_COPIED, one.length - offset)))
    # The buffer protocol by an array of ctypes, which holds the lease.
    held: Any = (ctypes.c_ubyte * lease.length).from_address(lease.address)
    held.lease = lease
    return memoryview(held).cast("B").toreadonly()


# Bytes of a view that is a copy.
_COPIED = 64 << 10


def views(one: Object, offset: int = 0, length: int | None = None) -> Iterator[memoryview]:
    """A range of an object, all of it without a length, as views in order: what can be added up or sent without a copy.

    What is disclosed, or read in order, is fetched ahead of them. Let go of each before the next ones, as of the budget.
    """
    end = one.length if length is None else offset + length
    while offset < end:
        part = view(one, offset)[: end - offset]
        yield part
        offset += len(part)


def read_into(one: Object, buffer: Any, offset: int = 0) -> int:
    """Fill a buffer that may be written to (a bytearray, an array of numpy, pinned memory of PyTorch by its numpy()), with the
    bytes of an object from an offset on, up to the end of either; how many they are.

    They come there from the pool's memory, without a copy between.
    """
    with memoryview(buffer) as given, given.cast("B") as memory:
        length = min(len(memory), max(0, one.length - offset))
        if length:
            # An error if it is read-only. It holds the memory where it is.
            held = (ctypes.c_ubyte * len(memory)).from_buffer(memory)
            try:
                one.read_at_address(ctypes.addressof(held), offset, length)
            finally:
                del held
        return length
