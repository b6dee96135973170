"""What another machine's pool has: asked for by the engine's own transfer where that is quicker than the store.

Each path has a machine that it goes to (foretell._machines.place), whose pool has it or gets it. A task that runs elsewhere
all the same (it was stolen, its machine was busy, it reads more than its own path) asks that machine first, so that the store is
asked once. Which way is quicker is measured: the mean time of the last reads of about the same size, by either way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from foretell._machines import place
from foretell.pool import Object

__all__ = ["Peers"]

# So long a machine that did not answer is not asked again.
_AWAY_SECONDS = 60.0
# What is left of an old sample when a new one comes: the last sixteen count.
_KEEP = 15 / 16
# One read in so many goes the way that seems slower, so that it shows when that has changed.
_TRIED = 16

# Machine, path, ETag, offset, length: the bytes, or None if it has another state of the object.
Ask = Callable[[str, str, "str | None", int, int], "bytes | None"]


class Peers:
    """Reads of a machine, of what others have.

    here: the machine's name among `machines`, which gives each its weight.
    ask: how another one is asked. What it raises makes that one count as gone for a minute.
    """

    def __init__(self, here: str, machines: Mapping[str, float], ask: Ask) -> None:
        self._here = here
        self._machines = machines
        self._ask = ask
        self._lock = threading.Lock()
        self._away: dict[str, float] = {}
        # By the number of bits of a length, seconds by a peer and by the store.
        self._seconds: dict[tuple[int, bool], float] = {}
        self._reads = 0
        # How many were answered by peers.
        self.answered = 0

    def read(self, path: str, one: Object, offset: int, length: int) -> bytes:
        """Bytes of an object, from memory here, from the machine that it goes to, or from its store."""
        home = place(path, self._machines)
        if home == self._here:
            return one.read(offset, length)
        if (now := one.read_now(offset, length)) is not None:
            return now
        began = time.monotonic()
        if self._is_worth_asking(home, length, began):
            data = self._asked(home, path, one, offset, length)
            ended = time.monotonic()
            if data is not None:
                self._note(length, True, ended - began)
                return data
            began = ended
        data = one.read(offset, length)
        self._note(length, False, time.monotonic() - began)
        return data

    def _asked(self, home: str, path: str, one: Object, offset: int, length: int) -> bytes | None:
        try:
            data = self._ask(home, path, one.stamp.etag, offset, length)
        except Exception:
            # Whatever it is: the store has it as well.
            with self._lock:
                self._away[home] = time.monotonic()
            return None
        return data if data is not None and len(data) == length else None

    def _is_worth_asking(self, home: str, length: int, now: float) -> bool:
        size = length.bit_length()
        with self._lock:
            if now - self._away.get(home, -_AWAY_SECONDS) < _AWAY_SECONDS:
                return False
            self._reads += 1
            by_peer, by_store = (self._seconds.get((size, way)) for way in (True, False))
            if by_peer is None or by_store is None:
                return by_peer is None
            return (by_peer <= by_store) != (self._reads % _TRIED == 0)

    def _note(self, length: int, by_peer: bool, seconds: float) -> None:
        key = (length.bit_length(), by_peer)
        with self._lock:
            self.answered += by_peer
            mean = self._seconds.get(key, seconds)
            self._seconds[key] = mean * _KEEP + seconds * (1 - _KEEP)
