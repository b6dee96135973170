"""Threads for calls that wait, which a program that ends does not wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")


class Threads:
    """As many threads as are needed, up to a limit, and kept.

    Those of concurrent.futures are joined when the interpreter ends: a program whose store does not answer would stay until
    the time-out.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        self._lock = threading.Lock()
        # Threads, and those of them that have nothing to do, less the calls that nobody has taken yet.
        self._count = 0
        self._idle = 0

    def submit(self, call: Callable[[], Result]) -> Future[Result]:
        """Has a thread call it."""
        future: Future[Result] = Future()
        with self._lock:
            self._idle -= 1
            begins = self._idle < 0 and self._count < self._most
            if begins:
                self._count += 1
                self._idle += 1
        self._calls.put((future, call))
        if begins:
            threading.Thread(target=self._run, name="foretell", daemon=True).start()
        return future

    def _run(self) -> None:
        while True:
            future, call = self._calls.get()
            if future.set_running_or_notify_cancel():
                try:
                    result = call()
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)
                    del result
            # Kept by nobody while there is nothing to do.
            del future, call
            with self._lock:
                self._idle += 1
