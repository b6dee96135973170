"""What tests of workers beside each other have in common: a store of small objects, and three epochs of reading it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from foretell.fs import ForetellFileSystem
from store import Store, serving

PATHS = [f"bucket/{at:03}" for at in range(120)]

Read = Callable[[ForetellFileSystem, str], tuple[int, bytes]]


@pytest.fixture
def store() -> Iterator[Store]:
    with serving() as one:
        one.objects = {path: random.Random(path).randbytes(5000) for path in PATHS}
        yield one


def file_system(store: Store, **options: Any) -> ForetellFileSystem:
    return ForetellFileSystem("s3", store.target, timeout=20, skip_instance_cache=True, **options)


def reading() -> Read:
    """Sent as it is: workers do not find this module."""

    def read(fs: ForetellFileSystem, path: str) -> tuple[int, bytes]:
        return os.getpid(), fs.cat_file(path)

    return read


def check_three_epochs(store: Store, run: Callable[[Read, list[str]], list[tuple[int, bytes]]]) -> None:
    """All is read right by several processes, and each object is fetched once."""
    processes = set()
    for epoch in range(3):
        order = random.Random(epoch).sample(PATHS, len(PATHS))
        got = run(reading(), order)
        assert [data for _, data in got] == [store.objects[path] for path in order]
        processes |= {process for process, _ in got}
    assert len(processes) > 1 and os.getpid() not in processes
    asked = store.asked("GET")
    # One request in twenty may be made twice, if its answer is slow.
    assert sorted(set(asked)) == PATHS and len(asked) <= 1.05 * len(PATHS)
