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

from foretell._native import ChangedError, Object, Pool, Stamp, Statistics

__all__ = ["ChangedError", "Object", "Pool", "Stamp", "Statistics"]
