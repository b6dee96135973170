"""Which way a read goes where another machine's pool may have it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from foretell._machines import place
from foretell._peers import Peers
from foretell.pool import Object, Pool

MACHINES = {"here": 1.0, "there": 1.0}
CONTENT = bytes(range(200)) * 50


@pytest.fixture
def one(tmp_path: Path) -> Object:
    path = tmp_path / "one"
    path.write_bytes(CONTENT)
    return Pool(1 << 20, part_bytes=4096).open(f"file://{path}")


def path_of(machine: str) -> str:
    return next(str(at) for at in range(100) if place(str(at), MACHINES) == machine)


def test_the_machine_of_a_path_is_asked_and_no_other(one: Object) -> None:
    asked: list[str] = []

    def ask(machine: str, path: str, etag: str | None, offset: int, length: int) -> bytes | None:
        asked.append(machine)
        assert etag == one.stamp.etag
        return CONTENT[offset : offset + length]

    peers = Peers("here", MACHINES, ask)
    assert peers.read(path_of("here"), one, 5, 10) == CONTENT[5:15] and asked == []
    one.done_with()
    assert peers.read(path_of("there"), one, 5, 10) == CONTENT[5:15] and asked == ["there"]
    # What is in memory here is read here.
    one.read(0, 4096)
    assert peers.read(path_of("there"), one, 5, 10) == CONTENT[5:15] and asked == ["there"]
    assert peers.answered == 1


@pytest.mark.parametrize("wrong", ["raises", "none", "short"])
def test_what_a_machine_does_not_give_the_store_gives(one: Object, wrong: str) -> None:
    asked = 0

    def ask(machine: str, path: str, etag: str | None, offset: int, length: int) -> bytes | None:
        nonlocal asked
        asked += 1
        if wrong == "raises":
            raise OSError("gone")
        return None if wrong == "none" else b""

    peers = Peers("here", MACHINES, ask)
    for _ in range(3):
        one.done_with()
        assert peers.read(path_of("there"), one, 5, 10) == CONTENT[5:15]
    # Who is gone is not asked again for a while.
    assert asked == (1 if wrong == "raises" else 3) and peers.answered == 0


@pytest.mark.parametrize("slow", ["peer", "store"])
def test_the_quicker_way_is_taken_and_the_other_one_tried_now_and_then(
    one: Object, slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    class Slow:
        stamp = one.stamp

        def read_now(self, offset: int, length: int) -> None:
            return None

        def read(self, offset: int, length: int) -> bytes:
            nonlocal now
            now += 1.0 if slow == "store" else 0.1
            return CONTENT[offset : offset + length]

    def ask(machine: str, path: str, etag: str | None, offset: int, length: int) -> bytes | None:
        nonlocal now
        now += 1.0 if slow == "peer" else 0.1
        return CONTENT[offset : offset + length]

    peers = Peers("here", MACHINES, ask)
    for at in range(320):
        assert peers.read(path_of("there"), Slow(), at, 100) == CONTENT[at : at + 100]  # type: ignore[arg-type]
    if slow == "peer":
        assert 15 <= peers.answered <= 25
    else:
        assert 295 <= peers.answered <= 305
