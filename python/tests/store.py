"""A store on this machine that speaks as much of S3 as readers need, and counts and spoils what it is asked for."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from foretell.fs import ForetellFileSystem


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Of those that come while five wait the kernel drops the first message, and they come again after 1, 3, 7 and 15 s.
    request_queue_size = 1024


class Store:
    """Objects by their path, the bucket's name first: "bucket/key"."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        # Answers that are still to be given in place of all others, and which they are.
        self.refusals = 0
        self.refused_with = 503
        # Open, unless somebody closes it: nobody is answered before.
        self.gate = threading.Event()
        self.gate.set()
        # Before each answer, as a store that is far away.
        self.delay_seconds = 0.0
        store = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Head and body go out at once, each by itself.
            disable_nagle_algorithm = True

            def do_HEAD(self) -> None:
                store._answer(self, with_body=False)

            def do_GET(self) -> None:
                store._answer(self, with_body=True)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def target(self) -> dict[str, str]:
        """What s3fs is told to get here."""
        return {"key": "someone", "secret": "secret", "endpoint_url": self.url}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def asked(self, method: str) -> list[str]:
        return [path for how, path in self.requests if how == method]

    def _answer(self, to: BaseHTTPRequestHandler, *, with_body: bool) -> None:
        parts = urlsplit(to.path)
        path = unquote(parts.path).strip("/")
        self.requests.append((to.command, path))
        self.gate.wait()
        time.sleep(self.delay_seconds)
        status, headers, body = self._look_up(to, path, parse_qs(parts.query))
        to.send_response(status)
        for name, value in headers.items():
            to.send_header(name, value)
        to.send_header("Content-Length", str(len(body)))
        to.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        to.end_headers()
        # Whoever has no more patience is gone.
        with suppress(ConnectionError):
            to.wfile.write(body if with_body else b"")

    def _look_up(
        self, to: BaseHTTPRequestHandler, path: str, query: dict[str, list[str]]
    ) -> tuple[int, dict[str, str], bytes]:
        if self.refusals > 0:
            self.refusals -= 1
            return self.refused_with, {}, b""
        if "list-type" in query:
            return 200, {"Content-Type": "application/xml"}, self._list(path, query)
        content = self.objects.get(path)
        if content is None:
            return 404, {}, b""
        etag = f'"{hashlib.md5(content).hexdigest()}"'
        headers = {"ETag": etag, "Accept-Ranges": "bytes"}
        if to.headers.get("If-Match", etag) != etag:
            return 412, headers, b""
        if (wanted := to.headers.get("Range")) is None:
            return 200, headers, content
        start, end = wanted.removeprefix("bytes=").split("-")
        first, last = (int(start), int(end)) if start else (max(0, len(content) - int(end)), len(content))
        if first >= len(content):
            return 416, headers, b""
        body = content[first : last + 1]
        headers["Content-Range"] = f"bytes {first}-{first + len(body) - 1}/{len(content)}"
        return 206, headers, body

    def _list(self, bucket: str, query: dict[str, list[str]]) -> bytes:
        prefix, delimiter = query.get("prefix", [""])[0], query.get("delimiter", [""])[0]
        entries, folders = [], set()
        for path, content in sorted(self.objects.items()):
            key = path.removeprefix(f"{bucket}/")
            if key == path or not key.startswith(prefix):
                continue
            head, found, _ = key[len(prefix) :].partition(delimiter or "/")
            if delimiter and found:
                folders.add(prefix + head + delimiter)
                continue
            etag = hashlib.md5(content).hexdigest()
            entries.append(
                f"<Contents><Key>{escape(key)}</Key><LastModified>2024-01-01T00:00:00Z</LastModified>"
                f"<ETag>&quot;{etag}&quot;</ETag><Size>{len(content)}</Size></Contents>"
            )
        shared = "".join(
            f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in sorted(folders)
        )
        name = f"<Name>{bucket}</Name><IsTruncated>false</IsTruncated>"
        return f"<ListBucketResult>{name}{''.join(entries)}{shared}</ListBucketResult>".encode()


@contextmanager
def serving() -> Iterator[Store]:
    store = Store()
    try:
        yield store
    finally:
        store.close()


def file_system(store: Store, **options: Any) -> ForetellFileSystem:
    """A file system of its own on a store, with small parts."""
    options = {"part_bytes": 4096, "timeout": 20, "skip_instance_cache": True, **options}
    return ForetellFileSystem(target_protocol="s3", target_options=store.target, **options)
