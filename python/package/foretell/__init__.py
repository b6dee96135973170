"""Programs tell Linux what they will read and what they no longer need.

    import foretell

    with open("table", "rb") as table:
        foretell.set_policy(0, "mru")  # scanned again and again, and larger than the cache
        foretell.disclose(table, [(1 << 20, 65536), (0, 8192)])  # what comes next: (offset, length)
        ...
        foretell.done_with(table, 0, 8192)  # not needed again

What is said goes to the service ``foretelld`` through shared memory. Nothing here waits for it, and
nothing here can hurt: without a service every call does nothing (or, with FORETELL_FALLBACK=fadvise, what
a process can do by itself). Exceptions are for mistakes: what is no open file, no range, no policy.

A file is an open file object or a descriptor. All threads of a process share one connection. A child
process has its own from its first call on, with nothing set and nothing disclosed; until then it counts
as its parent.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from foretell import _native
from foretell._native import (
    BLOCK_BYTES,
    cancel,
    connected,
    disclose,
    disclose_files,
    disclose_list,
    done_with,
    get_policy,
    get_priority,
    set_policy,
    set_priority,
    temporary_priority,
)
from foretell._reading import reading

__all__ = [
    "BLOCK_BYTES",
    "Stats",
    "cancel",
    "connected",
    "disclose",
    "disclose_files",
    "disclose_list",
    "done_with",
    "file_list",
    "get_policy",
    "get_priority",
    "reading",
    "set_policy",
    "set_priority",
    "stats",
    "temporary_priority",
]


class Stats(NamedTuple):
    """How this process fares. Counts of the service are of blocks, and 0 without a service."""

    connected: bool
    """There is a connection to a service at present."""
    sent: int
    """Directives and hints sent to services so far."""
    dropped: int
    """Hints dropped so far because the service did not keep up."""
    entries_taken: int
    """Directives and hints that the service has taken, those that it refused included."""
    entries_refused: int
    """Those that it refused: a limit was reached."""
    disclosed: int
    """Blocks disclosed."""
    disclosed_ahead: int
    """Disclosed blocks that are yet to be referenced, at present."""
    owned: int
    """Blocks in the cache that belong to this process and its children, at present."""
    references: int
    """References to blocks of files under control."""
    hits: int
    """References that found their block cached."""
    demand_fetches: int
    """Blocks read because a process waited for them."""
    prefetches: int
    """Blocks fetched ahead of their reference."""
    prefetches_useful: int
    """Prefetched blocks that were referenced after they had arrived."""
    prefetches_late: int
    """Prefetched blocks whose reference had to wait for the rest of the fetch."""
    prefetches_wasted: int
    """Prefetched blocks that left the cache unreferenced."""
    evictions: int
    """Blocks dropped because the policy said so."""
    consulted: int
    """Times that this process was asked for a block to replace."""
    overruled: int
    """Times that its policies named another block than the proposed one."""
    placeholders_used: int
    """Times that such a choice proved wrong."""
    revoked: int
    """1 while the service does not ask any more, as the choices were mostly wrong; else 0."""


def stats() -> Stats:
    """How this process fares, as the service last said. Costs no round trip."""
    is_connected, numbers = _native.stats()
    return Stats(is_connected, *numbers)


@contextmanager
def file_list() -> Iterator[None]:
    """Disclose the files that are opened inside of it.

        with foretell.file_list():
            files = [open(path, "rb") for path in paths]

    At its end those that are open then will be read, each from beginning to end, in the order in which
    they were opened (strictly: of their descriptors, which are given out in ascending order as long as
    nothing is closed). Nothing is disclosed when it is left by an exception.
    """
    opened = _native.OpenedFiles()
    yield
    opened.disclose()
