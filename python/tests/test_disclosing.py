"""What a program says is what the service is told, however the ranges are given."""

from __future__ import annotations

import array
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import foretell
from recorder import Entry, Recorder

LAST_BYTE = 2**63 - 1

# The recorder is the same for all examples of a test, and each reads what it has said.
same_recorder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def ranges(recorder: Recorder, file: BinaryIO) -> list[tuple[int, int]]:
    """The ranges of the file that were disclosed, and nothing else was said."""
    said = recorder.said()
    assert all(entry == Entry("disclose", file.name, entry.offset, entry.length) for entry in said)
    return [(entry.offset, entry.length) for entry in said]


def test_pairs_are_offsets_and_lengths(recorder: Recorder, table: BinaryIO) -> None:
    assert foretell.disclose(table, [(65536, 100), (0, 8192)]) == 2
    assert ranges(recorder, table) == [(65536, 100), (0, 8192)]


def test_integers_are_blocks(recorder: Recorder, table: BinaryIO) -> None:
    assert foretell.disclose(table, [3, 1]) == 2
    assert ranges(recorder, table) == [(3 * 8192, 8192), (8192, 8192)]
    assert foretell.BLOCK_BYTES == 8192


def test_blocks_have_the_size_that_is_said(recorder: Recorder, table: BinaryIO) -> None:
    foretell.disclose(table, np.array([3, 1]), block_bytes=100)
    assert ranges(recorder, table) == [(300, 100), (100, 100)]


def test_without_ranges_it_is_the_whole_file(recorder: Recorder, table: BinaryIO) -> None:
    assert foretell.disclose(table) == 1
    assert recorder.said() == [Entry("disclose_file", table.name)]


def test_empty_ranges_count_and_say_nothing(recorder: Recorder, table: BinaryIO) -> None:
    assert foretell.disclose(table, [(0, 0), (5, 0), (7, 1)]) == 3
    assert ranges(recorder, table) == [(7, 1)]
    assert foretell.disclose(table, []) == 0
    assert foretell.disclose(table, np.array([])) == 0
    assert recorder.said() == []


def test_a_descriptor_is_a_file(recorder: Recorder, table: BinaryIO) -> None:
    foretell.disclose(table.fileno(), [0])
    assert ranges(recorder, table) == [(0, 8192)]


def test_files_may_be_closed_and_their_descriptors_mean_others(recorder: Recorder, tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(100)]
    for path in paths:
        path.write_bytes(b"sample")
        with open(path, "rb") as file:
            foretell.disclose(file)
    assert recorder.said() == [Entry("disclose_file", str(path)) for path in paths]


PAIRS = [(8192, 1), (0, 127), (5, 100)]


@pytest.mark.parametrize("dtype", ["i2", "i4", "i8", "u2", "u4", "u8"])
@pytest.mark.parametrize(
    "layout",
    [
        pytest.param(lambda rows: rows, id="rows"),
        pytest.param(np.asfortranarray, id="columns"),
        pytest.param(lambda rows: np.repeat(rows, 2, axis=0)[::2], id="every second row"),
        pytest.param(lambda rows: np.repeat(rows, 2, axis=1)[:, ::2], id="every second column"),
        pytest.param(lambda rows: rows[::-1][::-1].copy()[::-1][::-1], id="turned twice"),
        pytest.param(lambda rows: rows.astype(object), id="objects"),
        pytest.param(memoryview, id="memory view"),
    ],
)
def test_arrays_of_any_width_and_layout(
    recorder: Recorder, table: BinaryIO, dtype: str, layout: Callable[[Any], Any]
) -> None:
    assert foretell.disclose(table, layout(np.array(PAIRS, dtype=dtype))) == 3
    assert ranges(recorder, table) == PAIRS


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", np.intp])
def test_arrays_of_block_numbers(recorder: Recorder, table: BinaryIO, dtype: str) -> None:
    blocks = np.array([7, 0, 127], dtype=dtype)
    blocks.flags.writeable = False
    assert foretell.disclose(table, blocks) == 3
    assert ranges(recorder, table) == [(7 * 8192, 8192), (0, 8192), (127 * 8192, 8192)]


def test_arrays_of_the_standard_library(recorder: Recorder, table: BinaryIO) -> None:
    foretell.disclose(table, array.array("I", [2, 1]))
    assert ranges(recorder, table) == [(16384, 8192), (8192, 8192)]


def test_what_turns_into_an_array(recorder: Recorder, table: BinaryIO) -> None:
    class Tensor:
        """Shows no memory itself."""

        def __array__(self) -> Any:
            return np.array([2, 1])

    foretell.disclose(table, Tensor())
    assert ranges(recorder, table) == [(16384, 8192), (8192, 8192)]


def test_iterables(recorder: Recorder, table: BinaryIO) -> None:
    def generator() -> Iterator[tuple[int, int]]:
        yield 1, 2
        yield 3, 4

    foretell.disclose(table, generator())
    foretell.disclose(table, range(2))
    foretell.disclose(table, iter(np.array([[5, 6]])))
    foretell.disclose(table, [np.int32(0), np.uint64(1)])
    foretell.disclose(table, {(7, 8): "a key"})
    blocks = [(0, 8192), (8192, 8192)]
    assert ranges(recorder, table) == [(1, 2), (3, 4), *blocks, (5, 6), *blocks, (7, 8)]


@same_recorder
@given(pairs=st.lists(st.tuples(st.integers(0, LAST_BYTE), st.integers(0, LAST_BYTE)), max_size=40))
def test_lists_and_arrays_say_the_same(
    recorder: Recorder, table: BinaryIO, pairs: list[tuple[int, int]]
) -> None:
    fitting = [(offset, min(length, LAST_BYTE - offset)) for offset, length in pairs]
    expected = [(offset, length) for offset, length in fitting if length > 0]
    as_array = np.array(fitting, dtype=np.uint64).reshape(-1, 2)
    for given_as in (fitting, as_array, as_array.astype(np.int64), np.asfortranarray(as_array)):
        assert foretell.disclose(table, given_as) == len(fitting)
        assert ranges(recorder, table) == expected


@same_recorder
@given(
    blocks=st.lists(st.integers(-(2**63), 2**64 - 1), max_size=8),
    block_bytes=st.integers(1, 2**40),
    dtype=st.sampled_from(["i8", "u8"]),
)
def test_any_integer_is_a_block_or_an_error(
    recorder: Recorder, table: BinaryIO, blocks: list[int], block_bytes: int, dtype: str
) -> None:
    least, most = (-(2**63), 2**63 - 1) if dtype == "i8" else (0, 2**64 - 1)
    blocks = [min(max(block, least), most) for block in blocks]
    wrong = [at for at, block in enumerate(blocks) if block < 0 or (block + 1) * block_bytes > LAST_BYTE]
    for given_as in (blocks, np.array(blocks, dtype=dtype)):
        if wrong:
            with pytest.raises(ValueError, match=rf"ranges\[{wrong[0]}\]: "):
                foretell.disclose(table, given_as, block_bytes=block_bytes)
            assert recorder.said() == []
        else:
            foretell.disclose(table, given_as, block_bytes=block_bytes)
            assert ranges(recorder, table) == [(block * block_bytes, block_bytes) for block in blocks]


def test_a_long_array_is_checked_before_anything_is_said(recorder: Recorder, table: BinaryIO) -> None:
    blocks = np.zeros(200_000, dtype=np.int64)
    blocks[-1] = -3
    with pytest.raises(ValueError, match=r"^ranges\[199999\]: -3 is negative$"):
        foretell.disclose(table, blocks)
    assert recorder.said() == []


@pytest.mark.parametrize("count", [10_000, 200_000])
def test_more_than_the_ring_holds_is_taken_in_part(
    recorder: Recorder, table: BinaryIO, count: int
) -> None:
    blocks = np.arange(count, dtype=np.uint32)
    # 8192 slots, of which 64 are kept for directives (docs/protocol.md).
    assert foretell.disclose(table, blocks) == 8128
    assert foretell.disclose(table, blocks[8128:]) == 0
    assert ranges(recorder, table) == [(block * 8192, 8192) for block in range(8128)]
    assert foretell.disclose(table, blocks[8128:8130]) == 2
    assert ranges(recorder, table) == [(8128 * 8192, 8192), (8129 * 8192, 8192)]


def test_lists_of_parts_of_several_files(recorder: Recorder, table: BinaryIO, tmp_path: Path) -> None:
    (tmp_path / "index").write_bytes(bytes(8192))
    with open(tmp_path / "index", "rb") as index:
        assert foretell.disclose_list([(index, 0, 10), (table, 5, 6), (index.fileno(), 10, 20)]) == 3
        assert foretell.disclose_files(file for file in (index, table)) == 2
    assert recorder.said() == [
        Entry("disclose", index.name, 0, 10),
        Entry("disclose", table.name, 5, 6),
        Entry("disclose", index.name, 10, 20),
        Entry("disclose_file", index.name),
        Entry("disclose_file", table.name),
    ]


def endless() -> Iterator[int]:
    while True:
        yield 0


def breaking() -> Iterator[int]:
    yield 0
    raise KeyError("mine")


@pytest.mark.parametrize(
    ("given_ranges", "error", "message"),
    [
        (5, TypeError, "ranges: an iterable of block numbers or (offset, length) pairs is needed, not 'int'"),
        ("07", TypeError, "ranges: an iterable of block numbers or (offset, length) pairs is needed, not 'str'"),
        (b"07", TypeError, "ranges: an iterable of block numbers or (offset, length) pairs is needed, not 'bytes'"),
        ([(1,)], TypeError, "ranges[0]: a block number or (offset, length) is needed, not (1,)"),
        ([1, None], TypeError, "ranges[1]: an integer is needed, not 'NoneType'"),
        ([1.0], TypeError, "ranges[0]: an integer is needed, not 'float'"),
        ([(1, "2")], TypeError, "ranges[0]: length: an integer is needed, not 'str'"),
        ([(0, 1), (-1, 1)], ValueError, "ranges[1]: offset: -1 is negative"),
        ([(0, -1)], ValueError, "ranges[0]: length: -1 is negative"),
        ([(2**64, 1)], ValueError, "ranges[0]: offset: 18446744073709551616 is beyond 64 bits"),
        (
            [(LAST_BYTE, 1)],
            ValueError,
            "ranges[0]: 1 bytes from 9223372036854775807 on reaches behind the last byte that a file can have",
        ),
        (endless(), ValueError, "ranges: more than 1048576 in one call; give them in parts, or as an array"),
        (breaking(), KeyError, "'mine'"),
        (np.zeros(2), TypeError, "ranges: an array of integers is needed, not of format 'd'"),
        (np.zeros(2, bool), TypeError, "ranges: an array of integers is needed, not of format '?'"),
        (
            np.zeros(2, "M8[s]"),
            TypeError,
            "ranges: an array of integers is needed: cannot include dtype 'M' in a buffer",
        ),
        (
            np.zeros(2, ">i8"),
            TypeError,
            "ranges: integers in the byte order of the machine are needed, not of format '>q'",
        ),
        (
            np.zeros((2, 3), int),
            ValueError,
            "ranges: shape (n,) for block numbers or (n, 2) for offsets and lengths is needed, not (2, 3)",
        ),
        (np.array([[0, 1], [0, -1]], "i4"), ValueError, "ranges[1]: -1 is negative"),
        (
            np.array([2**63], "u8"),
            ValueError,
            "ranges[0]: 9223372036854775808 reaches behind the last byte that a file can have",
        ),
    ],
)
def test_what_is_no_range(
    recorder: Recorder, table: BinaryIO, given_ranges: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as raised:
        foretell.disclose(table, given_ranges)
    assert str(raised.value) == message
    assert recorder.said() == []


def open_pipe() -> int:
    reader, writer = os.pipe()
    os.close(writer)
    return reader


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda _: "table", TypeError, "file: an open file or its descriptor is needed, not 'str'"),
        (lambda _: True, TypeError, "file: an open file or its descriptor is needed, not 'bool'"),
        (lambda _: -1, ValueError, "file: -1 is no descriptor"),
        (lambda _: 2**40, ValueError, "file: 1099511627776 is no descriptor"),
        (lambda _: 1_000_000, OSError, "[Errno 9] file: not an open descriptor"),
        (lambda _: open_pipe(), ValueError, "file: not a regular file: only those are cached in blocks"),
        (
            lambda path: os.open(path, os.O_RDONLY | os.O_DIRECTORY),
            ValueError,
            "file: not a regular file: only those are cached in blocks",
        ),
        (
            lambda path: os.open(path / "new", os.O_WRONLY | os.O_CREAT),
            ValueError,
            "file: the file is not open for reading, which shows that it may be read",
        ),
    ],
)
def test_what_is_no_file(
    recorder: Recorder, tmp_path: Path, make: Callable[[Path], Any], error: type[Exception], message: str
) -> None:
    file = make(tmp_path)
    calls: Iterable[Callable[[], Any]] = [
        lambda: foretell.disclose(file),
        lambda: foretell.disclose(file, [0]),
        lambda: foretell.disclose(file, np.array([0])),
        lambda: foretell.set_priority(file, 1),
        lambda: foretell.done_with(file),
        lambda: foretell.temporary_priority(file, 0, 1, -1),
    ]
    try:
        for call in calls:
            with pytest.raises(error) as raised:
                call()
            assert str(raised.value) == message
    finally:
        if isinstance(file, int) and 2 < file < 1000:
            os.close(file)
    assert recorder.said() == []


def test_a_closed_file_says_so_itself(recorder: Recorder, table: BinaryIO) -> None:
    table.close()
    with pytest.raises(ValueError, match="closed file"):
        foretell.disclose(table)
    assert recorder.said() == []


def test_elements_of_lists_are_named(recorder: Recorder, table: BinaryIO) -> None:
    wrong: Any = [(table, 0, 1), ("table", 0, 1)]
    with pytest.raises(TypeError, match=r"^chunks\[1\]: file: an open file or its descriptor is needed, not 'str'$"):
        foretell.disclose_list(wrong)
    with pytest.raises(TypeError, match=r"^chunks\[0\]: \(file, offset, length\) is needed, not 'tuple'$"):
        foretell.disclose_list([wrong[0][:2]])
    with pytest.raises(TypeError, match=r"^files\[1\]: an open file or its descriptor is needed, not 'tuple'$"):
        foretell.disclose_files([table, wrong[0]])
    assert recorder.said() == []


def test_the_list_may_be_written_to_while_it_is_read(recorder: Recorder, table: BinaryIO) -> None:
    shrinking: list[Any] = [(0, 1), (1, 1), (2, 1)]

    class Shrinks:
        def __index__(self) -> int:
            shrinking.clear()
            return 9

    shrinking[0] = (Shrinks(), 1)
    foretell.disclose(table, shrinking)
    assert ranges(recorder, table) == [(9, 1)]
