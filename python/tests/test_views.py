"""Bytes where they lie, bytes where they are wanted, and what is said of objects beside what will be read."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foretell.fs import ForetellFileSystem
from foretell.pool import Object, Pool, read_into, view, views

PART = 4096
CONTENT = bytes(at * 7 % 251 for at in range(10 * PART + 100))


@pytest.fixture
def pool() -> Pool:
    return Pool(16 * PART, part_bytes=PART)


@pytest.fixture
def one(pool: Pool, tmp_path: Path) -> Object:
    path = tmp_path / "one"
    path.write_bytes(CONTENT)
    return pool.open(f"file://{path}")


def test_a_view_is_memory_of_the_pool_and_holds_it(pool: Pool, one: Object) -> None:
    part = view(one, 5000)
    assert part.readonly and part == CONTENT[5000 : 2 * PART]
    array = np.frombuffer(part, dtype=np.uint8)
    # The same memory, and not a copy of it.
    again = np.frombuffer(view(one, 5000), dtype=np.uint8)
    assert np.shares_memory(array, again)
    assert pool.statistics().memory_bytes >= PART
    # It stays whatever is given up, the pool too.
    one.done_with()
    del part, again
    one.close()
    gc.collect()
    assert array.tobytes() == CONTENT[5000 : 2 * PART]


def test_no_more_than_the_budget_is_held_and_what_is_let_go_of_comes_back(pool: Pool, one: Object) -> None:
    held = [view(one, at * PART) for at in range(10)]
    held += [view(one, at * PART) for at in range(6)]
    with pytest.raises(OSError, match="no more than 65536 bytes in views"):
        view(one, 7 * PART)
    held.clear()
    assert view(one, 10 * PART) == CONTENT[10 * PART :]
    with pytest.raises(ValueError, match="reach behind its end"):
        view(one, len(CONTENT))


def test_views_are_a_range_in_order(pool: Pool, one: Object) -> None:
    assert b"".join(views(one)) == CONTENT
    assert b"".join(views(one, 100, 3 * PART)) == CONTENT[100 : 100 + 3 * PART]
    assert list(views(one, 5, 0)) == []


def test_of_another_process_a_view_is_a_copy(pool: Pool, one: Object) -> None:
    other = Pool.attach(pool.share())
    assert b"".join(views(other.open(one.url))) == CONTENT


@pytest.mark.parametrize("make", [bytearray, np.empty])
def test_bytes_come_into_the_memory_that_is_given(pool: Pool, one: Object, make: Any) -> None:
    buffer = make(1000) if make is bytearray else np.empty(1000, dtype=np.uint8)
    assert read_into(one, buffer, 5) == 1000
    assert bytes(buffer) == CONTENT[5:1005]
    # No further than the end.
    assert read_into(one, buffer, len(CONTENT) - 10) == 10
    assert bytes(buffer)[:10] == CONTENT[-10:] and bytes(buffer)[10:] == CONTENT[15:1005]
    assert read_into(one, buffer, len(CONTENT) + 10) == 0


def test_memory_of_any_shape_is_filled_and_what_cannot_be_written_to_is_refused(one: Object) -> None:
    matrix = np.zeros((4, 8), dtype=np.int32)
    assert read_into(one, matrix) == 128
    assert matrix.tobytes() == CONTENT[:128]
    for wrong in (b"123", memoryview(CONTENT)):
        with pytest.raises(TypeError, match="not writable"):
            read_into(one, wrong)
    with pytest.raises(TypeError):
        read_into(one, matrix[:, ::2])
    with pytest.raises(TypeError, match="bytes-like"):
        read_into(one, 5)


def test_an_array_is_filled_without_a_copy_between(one: Object) -> None:
    data = one.read_array(100, 5000)
    assert isinstance(data, bytearray) and data == CONTENT[100:5100]
    with pytest.raises(ValueError, match="reach behind its end"):
        one.read_array(100, len(CONTENT))


def test_what_has_priority_stays(tmp_path: Path) -> None:
    for name, parts in (("index", 4), ("table", 100)):
        (tmp_path / name).write_bytes(CONTENT[:PART] * parts)
    fs = ForetellFileSystem("file", budget_bytes=20 * PART, part_bytes=PART, skip_instance_cache=True)
    index, table = str(tmp_path / "index"), str(tmp_path / "table")
    fs.set_policy(1, "sieve")
    fs.set_priority(index, 1)
    fs.cat_file(index)
    # A part at a time: what is on its way cannot be given up, and would take room of what has priority.
    for at in range(100):
        fs.cat_file(table, at * PART, (at + 1) * PART)
    before = fs.statistics().fetched_bytes
    fs.cat_file(index)
    assert fs.statistics().fetched_bytes == before
    fs.done_with(index)
    fs.cat_file(index)
    assert fs.statistics().fetched_bytes == before + 4 * PART
    fs.opened(index).temporary_priority(0, None, -1)
    with pytest.raises(ValueError, match="policy: one of 'lru'"):
        fs.set_policy(1, "clock")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="priority: 4294967296 is not within 32 bits"):
        fs.set_priority(index, 1 << 32)
    with pytest.raises(ValueError, match="reach behind its end"):
        fs.done_with(index, 0, 5 * PART)
