"""With the real service: what is disclosed is prefetched, and the examples still print the same."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from programs import Program
from test_examples import EXAMPLES, Prepared, access_once, cyclic_scan, hot_cold, index_scan
from test_examples import sequential_once, shuffled_epoch, small_files

TARGET = Path(__file__).parents[2] / "target"
FORETELLD = TARGET / "debug" / "foretelld"


class Service:
    """A foretelld of the test's own."""

    def __init__(self, directory: Path) -> None:
        self.socket = str(directory / "socket")
        command = [str(FORETELLD), "--socket", self.socket, "--budget", "64M"]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        # It says so when it listens; or why it does not.
        self.greeting = self._process.stderr.readline()
        assert self._process.poll() is None, self.greeting + self._process.stderr.read()

    def kill(self) -> None:
        """End it in the middle of things."""
        self._process.kill()
        self._end()

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._end()

    def _end(self) -> None:
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()


@pytest.fixture
def directory() -> Iterator[Path]:
    """A folder on the file system of the sources, not in memory, for files whose caching is steered."""
    with tempfile.TemporaryDirectory(dir=TARGET / "python", prefix="test-") as path:
        yield Path(path)


@pytest.fixture
def service() -> Iterator[Service]:
    """A service that steers the page cache."""
    if os.geteuid() != 0:
        pytest.skip("steering the page cache needs root")
    if not Path("/sys/kernel/btf/vmlinux").exists():
        pytest.skip("the kernel has no BTF")
    if not FORETELLD.exists():
        pytest.skip("cargo build -p foretell --bin foretelld has not been run")
    with tempfile.TemporaryDirectory(prefix="foretell-") as path:
        service = Service(Path(path))
        yield service
        service.stop()


def write_cold(path: Path, content: bytes) -> None:
    """A file of which nothing is cached."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.mark.parametrize("when", [(), ("early",)])
@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_a_shuffled_epoch_is_prefetched(
    service: Service, directory: Path, program: Program, start_method: str, when: tuple[str, ...]
) -> None:
    samples, blocks = 100, 5
    for number in range(samples):
        write_cold(directory / f"{number:03}", random.Random(number).randbytes(blocks * 8192))
    epoch = Path(__file__).with_name("epoch.py")
    ended = program(epoch, directory, start_method, *when, FORETELL_SOCKET=service.socket)
    assert (ended.returncode, ended.stderr) == (0, "")
    stats = json.loads(ended.stdout)
    assert stats["connected"]
    assert stats["disclosed"] == samples * blocks
    assert (stats["entries_refused"], stats["dropped"]) == (0, 0)
    # Read by other processes than the one that disclosed them.
    assert stats["references"] > 0
    assert stats["prefetches_useful"] + stats["prefetches_late"] > 0


def test_the_examples_print_the_same(service: Service, directory: Path, program: Program) -> None:
    prepared: dict[str, Prepared] = {}
    for prepare in (
        sequential_once,
        cyclic_scan,
        small_files,
        hot_cold,
        access_once,
        index_scan,
        shuffled_epoch,
    ):
        (directory / prepare.__name__).mkdir()
        prepared[prepare.__name__] = prepare(directory / prepare.__name__)
    for name, (arguments, _, _) in prepared.items():
        plain = program(EXAMPLES / f"{name}.py", *arguments)
        controlled = program(EXAMPLES / f"{name}.py", "--control", *arguments, FORETELL_SOCKET=service.socket)
        assert plain.returncode == 0
        assert (controlled.returncode, controlled.stdout, controlled.stderr) == (0, plain.stdout, "")


LIVES_ON = """
import foretell, sys, time

def wait_for(connected):
    deadline = time.monotonic() + 120
    while foretell.connected() != connected:
        assert time.monotonic() < deadline
        time.sleep(0.01)

file = open(sys.argv[1], "rb")
foretell.set_policy(0, "mru")
wait_for(True)
print("connected", flush=True)
sys.stdin.readline()
foretell.disclose(file)
wait_for(False)
foretell.disclose(file)
assert foretell.get_policy(0) == "mru"
print("alone", flush=True)
sys.stdin.readline()
wait_for(True)
foretell.disclose(file)
print("connected again", flush=True)
"""


def test_a_program_outlives_its_service(service: Service, directory: Path) -> None:
    (directory / "file").write_bytes(bytes(8192))
    program = subprocess.Popen(
        [sys.executable, "-c", LIVES_ON, directory / "file"],
        env={**os.environ, "FORETELL_SOCKET": service.socket},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with program:
        assert program.stdin is not None and program.stdout is not None

        def go_on() -> None:
            print(file=program.stdin, flush=True)

        assert program.stdout.readline() == "connected\n"
        service.kill()
        go_on()
        assert program.stdout.readline() == "alone\n"
        another = Service(Path(service.socket).parent)
        go_on()
        assert program.stdout.readline() == "connected again\n"
        another.stop()
    assert program.returncode == 0
