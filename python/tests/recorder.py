"""A service that does nothing but keep what it is told: docs/protocol.md from the other side.

It has no thread. A client never waits for its service, so what a test has said lies in the socket and in
the ring until the test asks for it.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
from pathlib import Path
from typing import NamedTuple, get_args

from foretell._types import Policy

# Kinds of frames.
HELLO, FILE, FORGET, WAKE = 1, 2, 3, 4
# Places in the ring's first page.
TAIL, HEAD, SEQUENCE, ENTRIES = 0, 64, 256, 4096
ENTRY = struct.Struct("<BBHiIIQQ")
POLICIES: tuple[str, ...] = get_args(Policy)


class Entry(NamedTuple):
    """What one entry of the ring says, with 0 and "" for what the operation does not use."""

    operation: str
    file: str = ""
    offset: int = 0
    length: int = 0
    priority: int = 0
    policy: str = ""


OPERATIONS = {
    1: "priority",
    2: "policy",
    3: "temporary_priority",
    4: "disclose",
    5: "disclose_file",
    6: "done_with",
    7: "cancel",
}


class Connection:
    """One client."""

    def __init__(self, stream: socket.socket) -> None:
        self._stream = stream
        self._bytes = b""
        self._descriptors: list[int] = []
        self._ring: mmap.mmap | None = None
        self._slots = 0
        self._files: dict[int, str] = {}
        self.closed = False

    def entries(self, *, read: bool = True) -> list[Entry]:
        """The entries since the last time; unless `read`, they stay in the ring."""
        # First the tail, then the socket, then the entries before that tail: what the order promises.
        before = None if self._ring is None else self._number(TAIL)
        self._receive()
        if self._ring is None:
            return []
        tail = self._number(TAIL) if before is None else before
        head = self._number(HEAD)
        found = [self._entry(at) for at in range(head, tail)]
        if read:
            self._ring[HEAD : HEAD + 8] = struct.pack("<Q", tail)
        return found

    def publish(self, statistics: list[int]) -> None:
        """Show statistics to the client."""
        assert self._ring is not None
        words = struct.pack("<17Q", *statistics)
        self._ring[SEQUENCE + 8 : SEQUENCE + 8 + len(words)] = words

    def close(self) -> None:
        self._stream.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        if self._ring is not None:
            self._ring.close()

    def _number(self, at: int) -> int:
        assert self._ring is not None
        number: int = struct.unpack_from("<Q", self._ring, at)[0]
        return number

    def _entry(self, at: int) -> Entry:
        assert self._ring is not None
        place = ENTRIES + ENTRY.size * (at % self._slots)
        code, policy, zero, priority, handle, zero_too, offset, length = ENTRY.unpack_from(self._ring, place)
        assert (zero, zero_too) == (0, 0)
        operation = OPERATIONS[code]
        file = self._files[handle] if handle else ""
        policy_name = POLICIES[policy] if operation == "policy" else ""
        return Entry(operation, file, offset, length, priority, policy_name)

    def _receive(self) -> None:
        while not self.closed:
            try:
                received, descriptors, _, _ = socket.recv_fds(self._stream, 1 << 16, 64)
            except BlockingIOError:
                break
            except ConnectionResetError:
                received, descriptors = b"", []
            self._descriptors += descriptors
            self._bytes += received
            self.closed = not received
        while len(self._bytes) >= 8:
            length, kind, zero = struct.unpack_from("<IHH", self._bytes)
            assert zero == 0
            if len(self._bytes) < 8 + length:
                break
            body, self._bytes = self._bytes[8 : 8 + length], self._bytes[8 + length :]
            self._frame(kind, body)

    def _frame(self, kind: int, body: bytes) -> None:
        if kind == HELLO:
            protocol, self._slots = struct.unpack("<II", body)
            assert protocol == 2
            memory = self._descriptors.pop(0)
            self._ring = mmap.mmap(memory, ENTRIES + ENTRY.size * self._slots)
            os.close(memory)
        elif kind == FILE:
            handle, _number = struct.unpack("<II", body)
            file = self._descriptors.pop(0)
            self._files[handle] = os.readlink(f"/proc/self/fd/{file}")
            os.close(file)
        elif kind == FORGET:
            del self._files[struct.unpack("<I", body)[0]]
        else:
            assert kind == WAKE


class Recorder:
    """Listens at a path."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(64)
        self._listener.setblocking(False)
        self.connections: list[Connection] = []

    def said(self, *, read: bool = True) -> list[Entry]:
        """What all clients have said since the last time, one client after the other."""
        self.accept()
        return [entry for client in self.connections for entry in client.entries(read=read)]

    def accept(self) -> None:
        """Take in the clients that have connected."""
        while True:
            try:
                stream, _ = self._listener.accept()
            except BlockingIOError:
                return
            stream.setblocking(False)
            self.connections.append(Connection(stream))

    def part(self) -> None:
        """Forget the clients that have gone."""
        self.said()
        for client in [client for client in self.connections if client.closed]:
            client.close()
            self.connections.remove(client)

    def close(self) -> None:
        self._listener.close()
        for connection in self.connections:
            connection.close()
        self.path.unlink()
