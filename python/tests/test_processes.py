"""Threads, forks, other processes, and life without a service."""

from __future__ import annotations

import os
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

import foretell
from programs import Program
from recorder import Entry, Recorder


def test_threads_share_a_connection(recorder: Recorder, table: BinaryIO) -> None:
    threads, calls = 8, 100

    def speak(thread: int) -> None:
        for call in range(calls):
            foretell.disclose(table, [(thread * calls + call, 1), (thread * calls + call, 2)])

    running = [threading.Thread(target=speak, args=[thread]) for thread in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    said = [(entry.offset, entry.length) for entry in recorder.said()]
    assert len(recorder.connections) == 1
    # The list of a call stays together, and the calls of a thread stay in order.
    assert all(said[at + 1] == (said[at][0], 2) for at in range(0, len(said), 2))
    offsets = [offset for offset, _ in said[::2]]
    for number in range(threads):
        mine = range(number * calls, (number + 1) * calls)
        assert [offset for offset in offsets if offset in mine] == list(mine)


def test_a_long_call_lets_other_threads_run(recorder: Recorder, table: BinaryIO) -> None:
    """The longest list there is, from many threads: none of them keeps the others from the interpreter."""
    ranges = [(0, 1)] * 100_000
    threads = [threading.Thread(target=foretell.disclose, args=[table, ranges]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(recorder.said()) == 8128


def in_child(act: Callable[[], object]) -> int:
    """Runs a function in a forked child; its exit code."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_has_its_own_connection(recorder: Recorder, table: BinaryIO) -> None:
    foretell.set_priority(table, 5)
    mine = len(recorder.connections)

    def speak() -> None:
        assert foretell.get_priority(table) == 0
        foretell.set_priority(table, 7)
        foretell.disclose(table, [1])

    assert in_child(speak) == 0
    foretell.disclose(table, [2])
    recorder.accept()
    ours, childs = recorder.connections[:mine], recorder.connections[mine:]
    assert [entry for client in childs for entry in client.entries()] == [
        Entry("priority", table.name, priority=7),
        Entry("disclose", table.name, 8192, 8192),
    ]
    assert [entry for client in ours for entry in client.entries()] == [
        Entry("priority", table.name, priority=5),
        Entry("disclose", table.name, 16384, 8192),
    ]
    assert foretell.get_priority(table) == 5
    assert [client.closed for client in (*ours, *childs)] == [False, True]
    foretell.set_priority(table, 0)


def test_a_child_that_says_nothing_has_none(recorder: Recorder, table: BinaryIO) -> None:
    before = len(recorder.connections)
    assert in_child(lambda: table.read()) == 0
    recorder.accept()
    assert len(recorder.connections) == before


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forks_while_threads_speak(recorder: Recorder, table: BinaryIO) -> None:
    """A child is not stuck when another thread of its parent was in a call, or inside of reading()."""
    before = len(recorder.connections)
    enough = threading.Event()

    def speak() -> None:
        while not enough.is_set():
            with foretell.reading(table, [(0, 1)] * 200):
                pass

    threads = [threading.Thread(target=speak) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:

        def read() -> None:
            with foretell.reading(table, [0]):
                foretell.stats()

        for _ in range(20):
            assert in_child(read) == 0
    finally:
        enough.set()
        for thread in threads:
            thread.join()
    recorder.accept()
    for client in recorder.connections[before:]:
        assert client.entries() == [Entry("disclose", table.name, 0, 8192), Entry("cancel")]


EVERYTHING = """
    import foretell, os, sys

    file = open(sys.argv[1], "rb")
    assert foretell.disclose(file) == 1
    assert foretell.disclose(file, [0, 1, (5, 6)]) == 3
    assert foretell.disclose_list([(file, 0, 1)]) == 1
    assert foretell.disclose_files([file, file]) == 2
    with foretell.file_list():
        other = open(sys.argv[1], "rb")
    with foretell.reading(file, range(100_000)) as parts:
        assert len(list(parts)) == 100_000
    foretell.done_with(file, 0, 4096)
    foretell.temporary_priority(file, 0, None, -1)
    foretell.set_priority(file, 3)
    foretell.set_policy(3, "mru")
    assert (foretell.get_priority(file), foretell.get_policy(3)) == (3, "mru")
    foretell.cancel()
    assert not foretell.connected()
    assert foretell.stats()[:3] == (False, 0, 0)
    assert len(file.read()) == 1 << 20
"""


@pytest.mark.parametrize("fallback", ["", "fadvise", "nonsense"])
@pytest.mark.parametrize("socket", ["missing", "a file"])
def test_without_a_service_everything_works(
    tmp_path: Path, table: BinaryIO, program: Program, fallback: str, socket: str
) -> None:
    (tmp_path / "a file").write_bytes(b"")
    ended = program(
        "-c",
        textwrap.dedent(EVERYTHING),
        table.name,
        FORETELL_SOCKET=str(tmp_path / socket),
        FORETELL_FALLBACK=fallback,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_importing_does_not_connect(recorder: Recorder, program: Program) -> None:
    before = len(recorder.connections)
    assert program("-c", "import foretell, foretell.torch; foretell.reading(0, [])").returncode == 0
    recorder.accept()
    assert len(recorder.connections) == before


def test_nothing_else_is_imported(program: Program) -> None:
    """NumPy and PyTorch are welcome, not needed."""
    code = "import foretell, foretell.torch, sys; print({'numpy', 'torch'} & set(sys.modules))"
    assert program("-c", code).stdout == "set()\n"
