"""What stands between a client and a store on this machine so that it is as far away as a real one.

Each answer begins a fixed time after its request, and all answers together are no quicker than a fixed rate.
Requests and bytes are counted: `GET /-/counts` gives both and sets them to 0. Speaks as much HTTP/1.1 as S3's
clients need: requests without a body, answers with a length.
"""

from __future__ import annotations

import argparse
import asyncio
import json

_CHUNK_BYTES = 256 << 10
# What was not carried because this program woke up late may be carried at once.
_LATE_SECONDS = 0.01


class Line:
    """The way to the store."""

    def __init__(self, delay_seconds: float, bytes_a_second: float) -> None:
        self.delay_seconds = delay_seconds
        self.bytes_a_second = bytes_a_second
        self.free_at = 0.0
        self.requests = 0
        self.bytes = 0

    async def carry(self, count: int) -> None:
        """Waits until so many bytes have gone through."""
        now = asyncio.get_running_loop().time()
        self.free_at = max(now - _LATE_SECONDS, self.free_at) + count / self.bytes_a_second
        self.bytes += count
        if self.free_at > now:
            await asyncio.sleep(self.free_at - now)

    def counts(self) -> bytes:
        body = json.dumps({"requests": self.requests, "bytes": self.bytes}).encode()
        self.requests = self.bytes = 0
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.split(b":", 1)[1])
    return 0


async def _serve(
    line: Line, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    store: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    loop = asyncio.get_running_loop()
    try:
        while True:
            request = await reader.readuntil(b"\r\n\r\n")
            if request.startswith(b"GET /-/counts "):
                writer.write(line.counts())
                continue
            answer_at = loop.time() + line.delay_seconds
            line.requests += 1
            if store is None:
                store = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
            store[1].write(request)
            head = await store[0].readuntil(b"\r\n\r\n")
            left = 0 if request.startswith(b"HEAD ") else _length(head)
            await asyncio.sleep(max(0.0, answer_at - loop.time()))
            writer.write(head)
            while left:
                chunk = await store[0].read(min(left, _CHUNK_BYTES))
                if not chunk:
                    return
                left -= len(chunk)
                await line.carry(len(chunk))
                writer.write(chunk)
                await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()
        if store is not None:
            store[1].close()


async def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=int, required=True, help="port of the store")
    parser.add_argument("--delay-ms", type=float, required=True)
    parser.add_argument("--megabytes", type=float, required=True, help="a second")
    given = parser.parse_args()
    line = Line(given.delay_ms / 1e3, given.megabytes * 1e6)
    server = await asyncio.start_server(
        lambda reader, writer: _serve(line, given.store, reader, writer), "127.0.0.1", 0, limit=1 << 20
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
