"""Priorities, policies, what is done with, and what the service counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO, get_args

import pytest

import foretell
from foretell._types import Policy
from recorder import Entry, Recorder

LAST_BYTE = 2**63 - 1


def test_priorities_and_policies(recorder: Recorder, table: BinaryIO) -> None:
    assert foretell.get_priority(table) == 0
    assert foretell.get_policy(-7) == "lru"
    foretell.set_priority(table, -7)
    foretell.set_policy(-7, "mru")
    assert foretell.get_priority(table.fileno()) == -7
    assert foretell.get_policy(-7) == "mru"
    foretell.set_policy(-7, "lru")
    assert recorder.said() == [
        Entry("priority", table.name, priority=-7),
        Entry("policy", priority=-7, policy="mru"),
        Entry("policy", priority=-7, policy="lru"),
    ]


def test_what_is_done_with(recorder: Recorder, table: BinaryIO) -> None:
    foretell.done_with(table, 8192, 100)
    foretell.done_with(table, 8192)
    foretell.done_with(table, length=5)
    foretell.done_with(table)
    foretell.done_with(table, 3, 0)
    assert recorder.said() == [
        Entry("done_with", table.name, 8192, 100),
        Entry("done_with", table.name, 8192, LAST_BYTE - 8192),
        Entry("done_with", table.name, 0, 5),
        Entry("done_with", table.name, 0, LAST_BYTE),
    ]


def test_temporary_priorities(recorder: Recorder, table: BinaryIO) -> None:
    foretell.temporary_priority(table, 0, 8192, -1)
    foretell.temporary_priority(table, 8192, None, 3)
    assert recorder.said() == [
        Entry("temporary_priority", table.name, 0, 8192, -1),
        Entry("temporary_priority", table.name, 8192, LAST_BYTE - 8192, 3),
    ]


def test_withdrawing(recorder: Recorder, table: BinaryIO) -> None:
    foretell.disclose(table)
    foretell.cancel()
    assert recorder.said() == [Entry("disclose_file", table.name), Entry("cancel")]


def test_a_list_of_files(recorder: Recorder, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_bytes(b"text")
    before = open(paths[0], "rb")
    with foretell.file_list():
        files = [open(path, "rb") for path in paths]
        files.pop(1).close()
    assert recorder.said() == [Entry("disclose_file", str(tmp_path / name)) for name in "ac"]
    for file in (before, *files):
        file.close()


def test_a_list_of_files_that_breaks_off(recorder: Recorder, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"text")
    with pytest.raises(FileNotFoundError), foretell.file_list(), open(tmp_path / "a", "rb"):
        open(tmp_path / "missing", "rb")
    assert recorder.said() == []


def test_statistics(recorder: Recorder, table: BinaryIO) -> None:
    before = foretell.stats()
    assert before.connected and foretell.connected()
    foretell.disclose(table, [0, 1])
    (client,) = recorder.connections
    client.publish(list(range(100, 117)))
    after = foretell.stats()
    assert (after.sent, after.dropped) == (before.sent + 2, before.dropped)
    # In the order of docs/protocol.md.
    assert after[3:] == tuple(range(100, 117))
    assert (after.entries_taken, after.prefetches_useful, after.revoked) == (100, 109, 116)
    client.publish([0] * 17)
    assert foretell.stats()[3:] == (0,) * 17


# The names that the type checker knows and those that the library knows are the same.
ONE_IS_NEEDED = "policy: one of " + ", ".join(f"'{name}'" for name in get_args(Policy)) + " is needed"

# For calls that a type checker would refuse.
unchecked: Any = foretell


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda f: unchecked.set_priority(f, 2**31), ValueError, "priority: 2147483648 is not within 32 bits"),
        (lambda f: unchecked.set_priority(f, 2**70), ValueError, f"priority: {2**70} is beyond 64 bits"),
        (lambda f: unchecked.set_priority(f, 0.5), TypeError, "priority: an integer is needed, not 'float'"),
        (lambda f: unchecked.set_policy(None, "lru"), TypeError, "priority: an integer is needed, not 'NoneType'"),
        (lambda f: unchecked.set_policy(0, "fifo"), ValueError, f"{ONE_IS_NEEDED}, not 'fifo'"),
        (lambda f: unchecked.set_policy(0, b"mru"), TypeError, f"{ONE_IS_NEEDED}, not 'bytes'"),
        (lambda f: unchecked.set_policy(0, "\udc80"), ValueError, None),
        (lambda f: unchecked.get_policy("0"), TypeError, "priority: an integer is needed, not 'str'"),
        (lambda f: unchecked.done_with(f, -1), ValueError, "offset: -1 is negative"),
        (lambda f: unchecked.done_with(f, 0, -1), ValueError, "length: -1 is negative"),
        (
            lambda f: unchecked.temporary_priority(f, 1, LAST_BYTE, 0),
            ValueError,
            f"length: {LAST_BYTE} from 1 on reaches behind the last byte that a file can have",
        ),
        (lambda f: unchecked.disclose(f, [0], block_bytes=0), ValueError, "block_bytes: 0 is not positive"),
        (lambda f: unchecked.disclose(f, [0], block_bytes="1"), TypeError, None),
    ],
)
def test_mistakes_name_the_argument(
    recorder: Recorder, table: BinaryIO, call: Any, error: type[Exception], message: str | None
) -> None:
    with pytest.raises(error) as raised:
        call(table)
    if message is not None:
        assert str(raised.value) == message
    assert recorder.said() == []


def test_there_is_a_limit_to_priority_levels(recorder: Recorder) -> None:
    with pytest.raises(ValueError, match="priority levels: use fewer different priorities"):
        for priority in range(1000, 100_000):
            foretell.set_policy(priority, "mru")
            recorder.said()
