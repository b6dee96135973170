"""fsspec's asynchronous interface, of a file system that has the other one.

What is in memory is given at once, by the thread of the event loop. All else waits in a thread: there are as many of them as a
pool has requests under way at most, and more would have nothing to wait for.
"""

from __future__ import annotations

import asyncio
import os
import threading
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from fsspec.asyn import (  # type: ignore[import-untyped]
    AbstractAsyncStreamedFile,
    AsyncFileSystem,
    get_loop,
)

from foretell._threads import Threads

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# Requests of a pool under way at most.
_THREADS = 64

_threads = Threads(_THREADS)


def _forget_threads() -> None:
    global _threads
    _threads = Threads(_THREADS)


# They are not in the child.
os.register_at_fork(after_in_child=_forget_threads)


async def waited(
    function: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """What a function returns that waits."""
    return await asyncio.wrap_future(_threads.submit(partial(function, *args, **kwargs)))


def together(
    function: Callable[..., Result], calls: list[tuple[Any, ...]], at_a_time: int, keep_errors: bool
) -> list[Result | Exception]:
    """What a function that waits returns for each of some arguments, some calls at a time.

    Errors stand in the place of what they failed, or the first one is raised. Neither that nor Ctrl-C waits for calls that are
    under way: their threads are those of nobody, and end with their calls, or with the program.
    """
    left = iter(range(len(calls)))
    results: list[Any] = [None] * len(calls)
    ended: SimpleQueue[BaseException | None] = SimpleQueue()
    given_up = threading.Event()

    def run() -> None:
        # One after the other takes from what is left: an iterator of a range is safe to share.
        for at in left:
            if given_up.is_set():
                return
            try:
                results[at] = function(*calls[at])
            except BaseException as error:
                if not (keep_errors and isinstance(error, Exception)):
                    ended.put(error)
                    return
                results[at] = error
        ended.put(None)

    count = min(at_a_time, len(calls))
    for _ in range(count):
        threading.Thread(target=run, name="foretell", daemon=True).start()
    try:
        for _ in range(count):
            if (error := ended.get()) is not None:
                raise error
    finally:
        given_up.set()
    return results


class Waiting(AsyncFileSystem):  # type: ignore[misc]
    """The asynchronous half of a file system whose other half is written out: that one needs no event loop."""

    mirror_sync_methods = False

    def __init__(self, *args: Any, asynchronous: bool = False, loop: Any = None, **kwargs: Any) -> None:
        # Otherwise fsspec's thread begins here.
        super().__init__(*args, asynchronous=True, **kwargs)
        self.asynchronous = asynchronous
        self._given_loop = loop

    @property
    def loop(self) -> Any:
        """For others who want to run what is asynchronous here."""
        return self._given_loop or get_loop()

    @abstractmethod
    def _read_now(self, path: str, start: int, end: int | None) -> bytes | None:
        """The bytes of a part of a file, if they are there."""

    async def _cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any
    ) -> bytes:
        now = self._read_now(path, start or 0, end)
        return await waited(self.cat_file, path, start, end) if now is None else now

    async def _info(self, path: str, **kwargs: Any) -> Any:
        return await waited(self.info, path, **kwargs)

    async def _ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:
        return await waited(self.ls, path, detail, **kwargs)

    async def _find(
        self, path: str, maxdepth: int | None = None, withdirs: bool = False, **kwargs: Any
    ) -> Any:
        return await waited(self.find, path, maxdepth, withdirs, **kwargs)

    async def _get_file(self, rpath: str, lpath: Any, **kwargs: Any) -> None:
        await waited(self.get_file, rpath, lpath, **kwargs)

    async def open_async(self, path: str, mode: str = "rb", **kwargs: Any) -> WaitingFile:
        """An open file whose read() is to be awaited."""
        return WaitingFile(self, path, await waited(self._open, path, mode, **kwargs))


class WaitingFile(AbstractAsyncStreamedFile):  # type: ignore[misc]
    """An open file whose reads are to be awaited, in the state that it had when it was opened."""

    def __init__(self, fs: Waiting, path: str, file: Any) -> None:
        self._file = file
        super().__init__(fs, path, "rb", cache_type="none", size=file.size)

    async def _fetch_range(self, start: int, end: int) -> bytes:
        end = min(end, self.size)
        now: bytes | None = self._file.read_now(start, end)
        return await waited(self._file.read_range, start, end) if now is None else now

    def __del__(self) -> None:
        # Nothing to be awaited: it was only read.
        self.closed = True
