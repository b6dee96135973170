"""How many requests the calls of fsspec make of which nothing was told: the first one brings the state of an object and its bytes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from foretell.fs import ForetellFileSystem
from store import Store, file_system, serving

SMALL, LARGE = "bucket/small", "bucket/large"
TABLE = "bucket/table.parquet"


@pytest.fixture
def store() -> Iterator[Store]:
    with serving() as one:
        for seed, (path, length) in enumerate([(SMALL, 30_000), (LARGE, 3 << 20), (TABLE, 1 << 20), ("bucket/none", 0)]):
            one.objects[path] = random.Random(seed).randbytes(length)
        yield one


def read_of(path: str, offset: int, length: int) -> Callable[[ForetellFileSystem], bytes]:
    def read(fs: ForetellFileSystem) -> bytes:
        with fs.open(path) as file:
            file.seek(offset, 2 if offset < 0 else 0)
            data: bytes = file.read(length)
            return data

    return read


def copied(fs: ForetellFileSystem, to: Path) -> bytes:
    fs.get_file(SMALL, str(to))
    return to.read_bytes()


CALLS: dict[str, tuple[Callable[[ForetellFileSystem], bytes], str, slice]] = {
    "cat_file": (lambda fs: fs.cat_file(SMALL), SMALL, slice(None)),
    "cat": (lambda fs: fs.cat(SMALL), SMALL, slice(None)),
    "cat_file, a part": (lambda fs: fs.cat_file(LARGE, 1_000_000, 1_005_000), LARGE, slice(1_000_000, 1_005_000)),
    "cat_file, the end": (lambda fs: fs.cat_file(LARGE, -5000), LARGE, slice(-5000, None)),
    "cat_ranges": (lambda fs: fs.cat_ranges([LARGE], [70_007], [79_000])[0], LARGE, slice(70_007, 79_000)),
    "head": (lambda fs: fs.head(LARGE, 1000), LARGE, slice(1000)),
    "open": (read_of(SMALL, 0, -1), SMALL, slice(None)),
    "open, the beginning": (read_of(LARGE, 100, 1000), LARGE, slice(100, 1100)),
    "open, the end of a table": (read_of(TABLE, -60_000, -1), TABLE, slice(-60_000, None)),
    "read_block": (lambda fs: fs.read_block(LARGE, 10, 500), LARGE, slice(10, 510)),
    "asyncio": (lambda fs: asyncio.run(fs._cat_file(SMALL)), SMALL, slice(None)),
}


@pytest.mark.parametrize("call", CALLS)
def test_what_is_read_first_takes_one_request(store: Store, call: str) -> None:
    act, path, part = CALLS[call]
    fs = file_system(store)
    assert act(fs) == store.objects[path][part]
    assert store.requests == [("GET", path)]
    # And is there then.
    assert act(fs) == store.objects[path][part]
    assert len(store.requests) == 1


def test_a_file_is_copied_by_one_request(store: Store, tmp_path: Path) -> None:
    assert copied(file_system(store), tmp_path / "it") == store.objects[SMALL]
    assert store.requests == [("GET", SMALL)]


def test_a_large_object_comes_by_as_many_requests_as_its_parts_take(store: Store) -> None:
    # An eighth of the budget is one request: two of them.
    fs = file_system(store, budget_bytes=12 << 20)
    assert fs.cat_file(LARGE) == store.objects[LARGE]
    assert store.requests == [("GET", LARGE)] * 2


def test_who_reads_elsewhere_pays_no_more_than_for_the_state(store: Store) -> None:
    fs = file_system(store)
    assert read_of(LARGE, 2 << 20, 1000)(fs) == store.objects[LARGE][2 << 20 :][:1000]
    assert len(store.requests) == 2
    # What was begun is read later.
    assert fs.cat_file(LARGE, 0, 4096) == store.objects[LARGE][:4096]
    assert len(store.requests) == 2


def test_what_is_not_there_and_what_is_empty_is_found_out(store: Store) -> None:
    fs = file_system(store)
    for call in (fs.cat_file, fs.open):
        with pytest.raises(FileNotFoundError):
            call("bucket/no")
    assert fs.cat_file("bucket/none") == b""
    with fs.open("bucket/none") as file:
        assert file.read() == b""


def test_several_take_one_each(store: Store) -> None:
    fs = file_system(store)
    found: dict[str, Any] = fs.cat([SMALL, TABLE])
    assert found == {path: store.objects[path] for path in (SMALL, TABLE)}
    assert sorted(store.requests) == [("GET", SMALL), ("GET", TABLE)]


def test_many_that_are_opened_and_not_read_are_read_all_the_same(store: Store) -> None:
    paths = [f"bucket/many/{at:03}" for at in range(150)]
    store.objects |= {path: random.Random(path).randbytes(200_000) for path in paths}
    fs = file_system(store)
    files = [fs.open(path) for path in paths]
    assert [file.read() for file in files] == [store.objects[path] for path in paths]
