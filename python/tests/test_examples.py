"""The examples: with and without control they print the same, and with control they say what their strategy is."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from programs import Program
from recorder import Entry, Recorder

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"
LAST_BYTE = 2**63 - 1


class Prepared(NamedTuple):
    """Files for an example."""

    arguments: list[str | Path]
    # What it prints, or a part of it.
    prints: str
    # What it says to the service, if that is few enough to list.
    says: list[Entry]


def text(lines: int) -> str:
    words = random.Random(lines)
    return "".join(f"{words.choice('abcdefgh')} mutex {number % 7}\n" for number in range(lines))


def sequential_once(at: Path) -> Prepared:
    paths = [at / "one", at / "two"]
    for path in paths:
        path.write_bytes(path.name.encode() * 50_000)
    says = [Entry("priority", str(path), priority=-1) for path in paths]
    return Prepared([*paths], str(at / "two"), says)


def cyclic_scan(at: Path) -> Prepared:
    (at / "log").write_text(text(20_000))
    says = [Entry("priority", str(at / "log"), priority=0), Entry("policy", priority=0, policy="mru")]
    return Prepared([at / "log", "mutex", "6"], "mutex 20000\n6 2857\n", says)


def small_files(at: Path) -> Prepared:
    paths = [at / f"{number}.c" for number in range(40)]
    for number, path in enumerate(paths):
        path.write_text(text(number))
    each = [Entry("disclose_file", str(path)) for path in paths]
    says = [Entry("policy", priority=0, policy="mru"), *each, *each]
    return Prepared(["mutex,6", *paths], "mutex 780\n6 95\n", says)


def hot_cold(at: Path) -> Prepared:
    (at / "index").write_text("mutex 0 2\nspinlock 1\n")
    for number in range(3):
        (at / str(number)).write_text(text(1000))
    says = [
        Entry("priority", str(at / "index"), priority=1),
        Entry("policy", priority=1, policy="mru"),
        Entry("policy", priority=0, policy="mru"),
        *(Entry("priority", str(at / number), priority=0) for number in ("0", "2", "1")),
    ]
    prints = "mutex: 2000 times in 2 articles\nspinlock: 0 times in 1 articles\n"
    return Prepared([at / "index", at, "mutex", "spinlock"], prints, says)


def access_once(at: Path) -> Prepared:
    (at / "object").write_bytes(bytes(20_000))
    pieces = [(0, 3000), (3000, 3000), (6000, 3000), (9000, 3000), (12000, 3000), (15000, 3000), (18000, 2000)]
    says = [Entry("temporary_priority", str(at / "object"), *piece, priority=-1) for piece in pieces]
    return Prepared([at / "object"], str(at / "object"), says)


def index_scan(at: Path) -> Prepared:
    numbers = np.random.default_rng(1).permutation(2000)
    (at / "index").write_bytes(numbers.astype(np.uint64).tobytes())
    (at / "table").write_bytes(np.arange(2000 * 256, dtype=np.uint32).tobytes()[: 2000 * 256])
    says = [Entry("priority", str(at / "index"), priority=1)]
    says += [Entry("disclose", str(at / "table"), number * 256, 256) for number in numbers.tolist()]
    return Prepared([at / "index", at / "table"], "2000 tuples, ", says)


def shuffled_epoch(at: Path) -> Prepared:
    for number in range(60):
        (at / f"{number:02}").write_bytes(bytes([number]) * 5000)
    shuffled = random.Random(1)
    orders = [shuffled.sample(range(60), 60) for _ in range(2)]
    says = [Entry("disclose_file", str(at / f"{number:02}")) for order in orders for number in order]
    return Prepared([at], "epoch 1: 60 samples, ", says)


@pytest.mark.parametrize(
    "prepare",
    [sequential_once, cyclic_scan, small_files, hot_cold, access_once, index_scan, shuffled_epoch],
    ids=lambda prepare: prepare.__name__,
)
def test_an_example(
    recorder: Recorder, tmp_path: Path, program: Program, prepare: Callable[[Path], Prepared]
) -> None:
    (tmp_path / "files").mkdir()
    arguments, prints, says = prepare(tmp_path / "files")
    example = EXAMPLES / f"{prepare.__name__}.py"
    plain = program(example, *arguments)
    assert (plain.returncode, plain.stderr) == (0, "")
    assert prints in plain.stdout
    assert recorder.said() == []
    with_control = program(example, "--control", *arguments)
    assert recorder.said() == says
    without_service = program(example, "--control", *arguments, FORETELL_SOCKET=str(tmp_path / "missing"))
    for ended in (with_control, without_service):
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, plain.stdout, "")


def test_merge_sort(recorder: Recorder, tmp_path: Path, program: Program) -> None:
    """Ten runs: eight of them are merged into another, and the three that are left into the output."""
    lines = [f"{random.Random(number).random()}\n" for number in range(10_000)]
    given, plain, controlled = tmp_path / "input", tmp_path / "plain", tmp_path / "controlled"
    given.write_text("".join(lines))
    (tmp_path / "temporary").mkdir()
    options: list[str | Path] = ["--lines", "1000", "--temporary", tmp_path / "temporary"]

    ended = program(EXAMPLES / "merge_sort.py", *options, given, plain)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert plain.read_text() == "".join(sorted(lines))
    assert recorder.said() == []

    ended = program(EXAMPLES / "merge_sort.py", "--control", *options, given, controlled)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert controlled.read_text() == plain.read_text()
    said = recorder.said()
    assert said[:3] == [
        Entry("policy", priority=-1, policy="mru"),
        Entry("policy", priority=0, policy="mru"),
        Entry("priority", str(given), priority=-1),
    ]
    # Of each run what was read is given up from its beginning on, without gaps, but for its last two blocks.
    # Each is named when it is made.
    named = [entry for entry in said[3:] if entry.operation == "priority"]
    assert [entry.priority for entry in named] == [0] * 11
    done: dict[str, int] = {}
    for entry in said[3:]:
        if entry in named:
            continue
        assert (entry.operation, entry.offset) == ("done_with", done.get(entry.file, 0))
        done[entry.file] = entry.offset + entry.length
    size = given.stat().st_size
    assert sum(done.values()) > 1.8 * size - 11 * 2 * 8192
    assert not any((tmp_path / "temporary").iterdir())


def test_every_example_is_tested() -> None:
    tested = {sequential_once, cyclic_scan, small_files, hot_cold, access_once, index_scan, shuffled_epoch}
    names = {f"{prepare.__name__}.py" for prepare in tested} | {"merge_sort.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == names


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_an_example_explains_itself(program: Program, example: str) -> None:
    ended = program(EXAMPLES / example, "--help")
    assert ended.returncode == 0
    assert "--control" in ended.stdout
    wrong = program(EXAMPLES / example)
    assert (wrong.returncode, wrong.stdout) == (2, "")
