"""Open files of foretell.fs: reads, lines and pickling of one state of an object."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from fsspec.spec import AbstractBufferedFile  # type: ignore[import-untyped]

from foretell.pool import ChangedError, DamagedError, Object

if TYPE_CHECKING:
    from foretell.fs import ForetellFileSystem

_UNCACHED = {"cache_type": "none", "cache_options": None}

# What is looked through for the end of a line at a time: twice as much each time, while lines are read in order.
_LEAST_LINE_BYTES = 8 << 10
_MOST_LINE_BYTES = 128 << 10


class ForetellFile(AbstractBufferedFile):  # type: ignore[misc]
    """An open file, in the state that it had when it was opened: reads come from the pool."""

    def __init__(self, fs: ForetellFileSystem, path: str, one: Object, **kwargs: Any) -> None:
        self._one = one
        self._pool = fs.pool
        # Where what was looked through last begins, and what it was: lines are short, and calls of the pool dear beside them.
        self._looked: tuple[int, bytes] = (0, b"")
        self._line_bytes = _LEAST_LINE_BYTES
        # What is kept, the pool keeps. The size of what was pickled may be another one by now.
        super().__init__(fs, path, "rb", **{**kwargs, **_UNCACHED, "size": one.length})

    def _current(self) -> Object:
        if self._pool is not (pool := self.fs.pool):
            # Forked, or without a parent: the same state by another pool.
            self._one = pool.open(self._one.url, self._one.stamp)
            self._pool = pool
        return self._one

    def _fetch_range(self, start: int, end: int) -> bytes:
        try:
            one = self._current()
            data: bytes = self.fs._read_of(self.path, one, start, max(0, min(end, self.size) - start))
            return data
        except (ChangedError, DamagedError):
            self.fs._forget(self.path)
            raise

    def read_range(self, start: int, end: int) -> bytes:
        """The bytes from start to end, wherever the file is read at."""
        return self._fetch_range(start, end)

    def read_now(self, start: int, end: int) -> bytes | None:
        """The same, if they are in memory."""
        return self._current().read_now(start, max(0, end - start))

    def readuntil(self, char: bytes = b"\n", blocks: int | None = None) -> bytes:
        """Up to and including the next `char`, or up to the end."""
        return self._until(char, -1, blocks)

    def readline(self, size: int | None = -1) -> bytes:
        """A line, its end included; no more than `size` bytes of it."""
        return self._until(b"\n", -1 if size is None else size, None)

    def readlines(self, hint: int | None = -1) -> list[bytes]:
        """All lines that are left, their ends included; with a hint, no further ones after so many bytes."""
        if hint is None or hint <= 0:
            return io.BytesIO(self.read()).readlines()
        lines: list[bytes] = []
        while hint > 0 and (line := self.readline()):
            lines.append(line)
            hint -= len(line)
        return lines

    def _until(self, ending: bytes, most: int, at_once: int | None) -> bytes:
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        if not ending:
            raise ValueError("char: nothing is found everywhere; one byte at least is needed")
        begin, looked = self._looked
        here = self.loc - begin
        if 0 <= here < len(looked) and (found := looked.find(ending, here)) >= 0:
            end = found + len(ending)
        else:
            if not 0 <= here <= len(looked):
                self._line_bytes = _LEAST_LINE_BYTES
            looked = self._look(looked[here:] if here >= 0 else b"", ending, most, at_once)
            here, found = 0, looked.find(ending)
            end = len(looked) if found < 0 else found + len(ending)
        if most >= 0:
            end = min(end, here + most)
        self.loc += end - here
        return looked[here:end]

    def _look(self, begun: bytes, ending: bytes, most: int, at_once: int | None) -> bytes:
        """From where the file is read at, until there is an ending among it, or `most` bytes are; begun with those."""
        pieces, begin, length = [begun], self.loc, len(begun)
        # An ending may begin in one piece and go on in others.
        over = len(ending) - 1
        tail = begun[-over:] if over else b""
        while (start := begin + length) < self.size and not 0 <= most <= length:
            piece = self._fetch_range(start, min(start + (at_once or self._line_bytes), self.size))
            self._line_bytes = min(2 * self._line_bytes, _MOST_LINE_BYTES)
            pieces.append(piece)
            length += len(piece)
            if ending in tail + piece:
                break
            tail = (tail + piece)[-over:] if over else b""
        looked = b"".join(pieces)
        self._looked = (begin, looked)
        return looked
