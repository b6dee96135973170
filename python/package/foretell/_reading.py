"""Code that reads what it has disclosed.

The service withdraws all that a process has disclosed or nothing. So where such stretches of code overlap,
in threads or one in another, what they leave is withdrawn when the last of them ends.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from operator import index
from types import TracebackType
from typing import Any

from foretell._native import BLOCK_BYTES, cancel, disclose
from foretell._types import File, Ranges

# Ranges offered at a time to a service that had no room for all: half of a connection's ring.
_OFFERED = 4096
# Ranges read before the next are offered.
_READ = 512


class reading:
    """Disclose what the code inside will read, and withdraw what it has left unread.

        with foretell.reading(file, ranges):
            ...  # reads in this order

        with foretell.reading(file, ranges) as parts:
            for offset, length in parts:
                data = os.pread(file.fileno(), length, offset)

    The second form also discloses lists that are longer than the service takes at once, step by step.
    The arguments are those of disclose().
    """

    def __init__(self, file: File, ranges: Ranges, *, block_bytes: int = BLOCK_BYTES) -> None:
        self._file = file
        sliceable = hasattr(ranges, "__len__") and hasattr(ranges, "__getitem__")
        self._ranges: Any = ranges if sliceable else list(ranges)  # type: ignore[arg-type]
        self._block_bytes = block_bytes
        self._disclosed = 0
        self._handed_out = 0

    def __enter__(self) -> reading:
        self._disclosed = disclose(self._file, self._ranges, block_bytes=self._block_bytes)
        _overlapping.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _overlapping.end(left=self._handed_out < len(self._ranges))

    def __len__(self) -> int:
        return len(self._ranges)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """The offset and the length of each range, in order."""
        for start in range(0, len(self._ranges), _READ):
            if self._disclosed < len(self._ranges):
                # What has been read meanwhile needs no disclosing.
                self._disclosed = max(self._disclosed, start)
                rest = self._ranges[self._disclosed : self._disclosed + _OFFERED]
                self._disclosed += disclose(self._file, rest, block_bytes=self._block_bytes)
            for item in _objects(self._ranges[start : start + _READ]):
                self._handed_out += 1
                if hasattr(item, "__index__"):
                    yield index(item) * self._block_bytes, self._block_bytes
                else:
                    offset, length = item
                    yield index(offset), index(length)


def _objects(ranges: Any) -> Any:
    """A part of an array as lists of integers, which are much cheaper to walk."""
    return ranges.tolist() if hasattr(ranges, "tolist") else ranges


class _Overlapping:
    """How many stretches of code are under way in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way = 0
        self._left = False

    def begin(self) -> None:
        with self._lock:
            self._under_way += 1

    def end(self, *, left: bool) -> None:
        with self._lock:
            self._under_way -= 1
            self._left |= left
            withdraw = self._left and self._under_way == 0
            self._left &= not withdraw
        if withdraw:
            cancel()


_overlapping = _Overlapping()


def _start_anew() -> None:
    global _overlapping
    _overlapping = _Overlapping()


# A child has disclosed nothing, and another thread of its parent may have held the lock.
os.register_at_fork(after_in_child=_start_anew)
