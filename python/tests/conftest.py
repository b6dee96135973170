"""What the tests share: a service that records, files to talk about, programs in processes of their own."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import settings

import foretell
from programs import Program, run
from recorder import Recorder
from store import Store, serving

# Before the first call, at which a process finds its service. Short, as the names of sockets are.
_DIRECTORY = tempfile.TemporaryDirectory(prefix="foretell-")
_SOCKET = Path(_DIRECTORY.name) / "socket"
os.environ["FORETELL_SOCKET"] = str(_SOCKET)
os.environ.pop("FORETELL_FALLBACK", None)

# The same examples each time, and no clock.
settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.load_profile("repeatable")

# Nobody installs PyTorch unasked.
collect_ignore = [] if importlib.util.find_spec("torch") else ["test_dataloader.py"]

_skipped: list[str] = []


@pytest.fixture(scope="session")
def _recorder() -> Iterator[Recorder]:
    recorder = Recorder(_SOCKET)
    yield recorder
    recorder.close()


@pytest.fixture
def recorder(_recorder: Recorder) -> Iterator[Recorder]:
    """The service of this process, which has read everything that was said before the test."""
    foretell.cancel()
    _recorder.said()
    yield _recorder
    _recorder.part()


@pytest.fixture
def table(tmp_path: Path) -> Iterator[BinaryIO]:
    """An open file of 1 MiB."""
    path = tmp_path / "table"
    path.write_bytes(bytes(1 << 20))
    with open(path, "rb") as file:
        yield file


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty store on this machine."""
    with serving() as one:
        yield one


@pytest.fixture
def program() -> Program:
    """Runs a Python program in a process of its own."""
    return run


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        _skipped.append(f"skipped: {report.nodeid.rsplit('::', 1)[-1]}: {reason}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    # The form in which all tests of the project say it.
    for line in _skipped:
        terminalreporter.write_line(line)
