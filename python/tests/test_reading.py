"""Code that reads what it has disclosed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import pytest

import foretell
from recorder import Entry, Recorder

CANCEL = Entry("cancel")


def disclosed(recorder: Recorder, table: BinaryIO) -> list[tuple[int, int]]:
    said = recorder.said()
    assert {(entry.operation, entry.file) for entry in said} <= {("disclose", table.name)}
    return [(entry.offset, entry.length) for entry in said]


def test_what_is_left_is_withdrawn(recorder: Recorder, table: BinaryIO) -> None:
    with foretell.reading(table, [(0, 5), 3]):
        assert disclosed(recorder, table) == [(0, 5), (3 * 8192, 8192)]
    assert recorder.said() == [CANCEL]


def test_also_after_an_exception(recorder: Recorder, table: BinaryIO) -> None:
    with pytest.raises(KeyError), foretell.reading(table, [0, 1]) as parts:
        for _ in parts:
            raise KeyError
    assert recorder.said()[2:] == [CANCEL]


def test_nothing_is_withdrawn_when_all_was_handed_out(recorder: Recorder, table: BinaryIO) -> None:
    with foretell.reading(table, [(0, 5), 3]) as parts:
        assert len(parts) == 2
        assert list(parts) == [(0, 5), (3 * 8192, 8192)]
    assert disclosed(recorder, table) == [(0, 5), (3 * 8192, 8192)]


@pytest.mark.parametrize("of", [list, np.array, iter], ids=["list", "array", "iterator"])
def test_parts_are_offsets_and_lengths(recorder: Recorder, table: BinaryIO, of: type) -> None:
    with foretell.reading(table, of([2, 0]), block_bytes=1000) as parts:
        assert list(parts) == [(2000, 1000), (0, 1000)]
    with foretell.reading(table, of([(7, 1), (3, 2)])) as parts:
        found = list(parts)
    assert found == [(7, 1), (3, 2)]
    assert all(type(number) is int for pair in found for number in pair)


def test_a_long_list_is_disclosed_step_by_step(recorder: Recorder, table: BinaryIO) -> None:
    order = np.random.default_rng(1).permutation(30_000)
    heard: list[tuple[int, int]] = []
    ahead = []
    with foretell.reading(table, order) as parts:
        for number, _ in enumerate(parts):
            ahead.append(len(heard) - number)
            if number % 100 == 0:
                heard += disclosed(recorder, table)
    heard += disclosed(recorder, table)
    assert heard == [(block * 8192, 8192) for block in order.tolist()]
    # As soon as the service has room, it knows thousands ahead, until the end comes into sight.
    assert min(ahead[1:25_000]) > 3000


def test_overlapping_parts_wait_for_each_other(recorder: Recorder, table: BinaryIO) -> None:
    with foretell.reading(table, [0]):
        with foretell.reading(table, [1]):
            pass
        assert CANCEL not in recorder.said()
    assert recorder.said() == [CANCEL]


def test_overlapping_threads(recorder: Recorder, table: BinaryIO) -> None:
    both_inside = threading.Barrier(2)

    def read() -> Iterator[None]:
        with foretell.reading(table, [0, 1]) as parts:
            both_inside.wait()
            list(parts)
            yield

    with foretell.reading(table, [2]):
        thread = threading.Thread(target=lambda: list(read()))
        thread.start()
        both_inside.wait()
        thread.join()
        assert len(disclosed(recorder, table)) == 3
    assert recorder.said() == [CANCEL]


def test_mistakes_are_found_at_the_beginning(recorder: Recorder, table: BinaryIO) -> None:
    with pytest.raises(ValueError, match=r"ranges\[1\]: -1 is negative"), foretell.reading(table, [0, -1]):
        raise AssertionError("not reached")
    assert recorder.said() == []
    # Nothing is under way now that would hold back a withdrawal.
    with foretell.reading(table, [0]):
        recorder.said()
    assert recorder.said() == [CANCEL]
