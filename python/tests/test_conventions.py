"""What programs take for granted of a file system of fsspec: lines, exceptions, names, and servers as there are."""

from __future__ import annotations

import io
import itertools
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from foretell.fs import ForetellFileSystem
from programs import Program
from store import Store, file_system, serving


# ---- lines ----


def test_lines_are_what_files_of_python_have(store: Store) -> None:
    rng = random.Random(1)
    lines = [rng.randbytes(rng.choice((0, 1, 30, 5000, 30_000))).replace(b"\n", b"") for _ in range(300)]
    contents = {"all": b"\n".join(lines), "ended": b"\n".join(lines) + b"\n", "none": b"x" * 50_000, "empty": b""}
    store.objects = {f"bucket/{name}": content for name, content in contents.items()}
    fs = file_system(store)
    for name, content in contents.items():
        plain = io.BytesIO(content)
        assert list(fs.open(f"bucket/{name}")) == plain.readlines()
        for hint in (-1, 0, 1, 40_000):
            assert fs.open(f"bucket/{name}").readlines(hint) == io.BytesIO(content).readlines(hint)
        file, plain = fs.open(f"bucket/{name}"), io.BytesIO(content)
        for _ in range(300):
            match rng.randrange(4):
                case 0:
                    at = rng.randrange(len(content) + 10)
                    assert file.seek(at) == plain.seek(at)
                case 1:
                    count = rng.choice((0, 1, 100, 20_000))
                    assert file.read(count) == plain.read(count)
                case 2:
                    most = rng.choice((0, 1, 10, 6000))
                    assert file.readline(most) == plain.readline(most)
                case _:
                    assert file.readline() == plain.readline()
            assert file.tell() == plain.tell()
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.readline()


def test_an_ending_is_found_across_pieces(store: Store) -> None:
    store.objects = {"bucket/a": b"one<end>two<end>three"}
    fs = file_system(store)
    for at_once in (1, 2, 3, 7, None):
        file = fs.open("bucket/a")
        assert [file.readuntil(b"<end>", at_once) for _ in range(4)] == [b"one<end>", b"two<end>", b"three", b""]


def test_lines_cost_what_they_are_long_and_not_what_is_behind_them(store: Store) -> None:
    content = b"a line\n" * 200_000
    store.objects = {"bucket/a": content}
    file = file_system(store).open("bucket/a")
    asked: list[int] = []
    fetch = file._fetch_range

    def counted(start: int, end: int) -> Any:
        asked.append(end - start)
        return fetch(start, end)

    file._fetch_range = counted
    assert sum(1 for _ in file) == 200_000
    assert sum(asked) == len(content)
    # And a head is no more than a head.
    file.seek(0)
    asked.clear()
    file._looked = (0, b"")
    assert next(itertools.islice(file, 1)) == b"a line\n"
    assert sum(asked) <= 128 << 10


# ---- what is there, and what is not ----


def test_what_is_not_there_and_what_is_refused_are_different(store: Store) -> None:
    fs = file_system(store, timeout=3)
    for status, kind in ((404, FileNotFoundError), (403, PermissionError), (401, PermissionError)):
        for act in (fs.ls, fs.find, fs.info, partial(fs.cat_file)):
            store.refused_with, store.refusals = status, 100
            with pytest.raises(kind) as raised:
                act("bucket/a")
            assert "\n" not in str(raised.value)
        if kind is FileNotFoundError:
            assert not fs.exists("bucket/a")
        else:
            # A store that refuses has not said no.
            with pytest.raises(PermissionError):
                fs.exists("bucket/a")
    store.refusals = 0
    store.objects["bucket/a"] = b"1"
    assert fs.exists("bucket/a") and not fs.exists("bucket/b")


def test_nobody_at_the_address_is_told_as_that() -> None:
    with serving() as gone:
        target = gone.target
    fs = ForetellFileSystem(target_protocol="s3", target_options=target, timeout=8, skip_instance_cache=True)
    with pytest.raises(OSError, match="Connection refused"):
        fs.exists("bucket/a")


def test_who_does_not_answer_in_time_is_late_wherever(store: Store) -> None:
    store.objects["bucket/a"] = b"1"
    fs = file_system(store, timeout=0.5)
    store.gate.clear()
    try:
        for act in (fs.info, fs.exists, fs.ls, fs.cat_file):
            with pytest.raises(TimeoutError, match="no answer within 0.5 s"):
                act("bucket/a")
    finally:
        store.gate.set()


def test_a_folder_of_a_console_is_a_folder(store: Store) -> None:
    store.objects = {"bucket/top/": b"", "bucket/top/dir/": b"", "bucket/top/dir/a": b"1", "bucket/top/no/": b""}
    fs = file_system(store)
    assert fs.ls("bucket/top", detail=False) == ["bucket/top/dir", "bucket/top/no"]
    assert fs.ls("bucket/top/dir", detail=False) == ["bucket/top/dir/a"]
    assert "bucket/top/dir" not in fs.find("bucket/top") and "bucket/top" not in fs.find("bucket/top")
    assert fs.isdir("bucket/top/dir") and not fs.isfile("bucket/top/dir")
    found = list(fs.walk("bucket/top"))
    assert found == [("bucket/top", ["dir", "no"], []), ("bucket/top/dir", [], ["a"])]


def test_the_root_is_a_folder_that_is_not_listed(store: Store) -> None:
    fs = file_system(store)
    assert fs.isdir("") and fs.isdir("/") and fs.exists("") and fs.info("/")["type"] == "directory"
    with pytest.raises(NotImplementedError, match="buckets are not listed"):
        fs.ls("")


def test_a_prefix_is_looked_for(store: Store) -> None:
    store.objects = {f"bucket/a/{name}": b"1" for name in ("x1", "x2", "y1", "x/deep")}
    fs = file_system(store)
    assert fs.find("bucket/a", prefix="x") == ["bucket/a/x/deep", "bucket/a/x1", "bucket/a/x2"]
    assert fs.find("bucket/a", prefix="x1") == ["bucket/a/x1"]
    assert fs.find("bucket/a", prefix="x", maxdepth=1) == ["bucket/a/x1", "bucket/a/x2"]
    assert fs.find("bucket/a", prefix="x", withdirs=True, maxdepth=1)[0] == "bucket/a/x"


def test_nothing_is_written(store: Store) -> None:
    fs = file_system(store)
    for act in (fs.rm, fs.rmdir, fs.mkdir, fs.touch, partial(fs.pipe_file, value=b""), partial(fs.open, mode="wb")):
        with pytest.raises(NotImplementedError, match="bucket/a: foretell only reads"):
            act("bucket/a")


@pytest.mark.parametrize(
    ("options", "kind", "line"),
    [
        ({"requests": -1}, ValueError, "requests: -1 is negative"),
        ({"requests": "many"}, TypeError, "requests: an integer is needed"),
        ({"recorded_references": -1}, ValueError, "recorded_references: -1 is negative"),
    ],
)
def test_a_wrong_option_is_named(store: Store, options: dict[str, Any], kind: type[Exception], line: str) -> None:
    with pytest.raises(kind, match=line):
        file_system(store, **options)


@pytest.mark.parametrize("chunks", [["bucket/a"], "bucket/a", [("bucket/a", 0)]])
def test_paths_alone_are_not_taken_for_ranges(store: Store, chunks: Any) -> None:
    store.objects["bucket/a"] = b"1"
    with pytest.raises(TypeError, match=r"chunks\[0\]: \(path, offset, length\) is needed, not "):
        file_system(store).disclose(chunks)


@pytest.mark.parametrize("address", ["127.0.0.1:9", "nonsense", ""])
def test_an_address_of_nothing_is_one_line(address: str, capfd: pytest.CaptureFixture[str]) -> None:
    fs = ForetellFileSystem("s3", {"key": "a", "secret": "b", "endpoint_url": address}, skip_instance_cache=True)
    with pytest.raises((OSError, ValueError), match="no address"):
        fs.cat_file("bucket/a")
    assert capfd.readouterr().err == ""


def test_options_of_the_store_need_not_be_text(store: Store) -> None:
    store.objects["bucket/a"] = b"1"
    assert file_system(store, options={"virtual_hosted_style_request": False}).cat_file("bucket/a") == b"1"


def test_local_files_are_named_as_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a#b?c").write_bytes(b"1")
    monkeypatch.chdir(tmp_path)
    fs = ForetellFileSystem(target_protocol="file", skip_instance_cache=True)
    assert fs.cat_file("a#b?c") == fs.cat_file(f"{tmp_path}/a#b?c") == b"1"
    assert fs.isdir("/") and str(tmp_path) in fs.ls(str(tmp_path.parent), detail=False)
    # In a URL they would be something else than a part of the name.
    urls = ForetellFileSystem(skip_instance_cache=True)
    with pytest.raises(ValueError, match="%3F and %23"):
        urls.cat_file(f"file://{tmp_path}/a#b?c")
    assert urls.cat_file(f"file://{tmp_path}/a%23b%3Fc") == b"1"


def test_ctrl_c_ends_a_wait_for_several(store: Store, program: Program) -> None:
    store.objects = {"bucket/a": b"1", "bucket/b": b"2"}
    source = f"""
        import os, signal, threading, time
        from foretell.fs import ForetellFileSystem
        fs = ForetellFileSystem(target_protocol="s3", target_options={store.target!r}, timeout=3000)
        threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT)).start()
        fs.cat(["bucket/a", "bucket/b"])
    """
    store.gate.clear()
    try:
        ended = program("-c", dedent(source))
    finally:
        store.gate.set()
    assert ended.returncode == -signal.SIGINT and "KeyboardInterrupt" in ended.stderr


# ---- servers of HTTP ----


@contextmanager
def answering(handler: Any) -> Iterator[str]:
    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            # Who has enough of an answer is gone.
            pass

    server = Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_server_without_ranges_is_read(tmp_path: Path) -> None:
    """That of Python itself, for one."""

    class Quiet(SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

    content = random.Random(1).randbytes(1_000_000)
    (tmp_path / "a b").write_bytes(content)
    with answering(partial(Quiet, directory=str(tmp_path))) as url:
        fs = ForetellFileSystem(target_protocol="http", timeout=20, skip_instance_cache=True)
        assert fs.cat_file(f"{url}/a%20b", 500_000, 500_100) == content[500_000:500_100]
        assert fs.cat_file(f"{url}/a%20b") == content
        assert fs.open(f"{url}/a%20b").read() == content
        assert not fs.exists(f"{url}/no")
        with pytest.raises(FileNotFoundError):
            fs.info(f"{url}/no")
        with pytest.raises(OSError, match="no listings"):
            fs.ls(url)


def test_what_another_query_gives_is_another_object() -> None:
    class Echoing(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            content = f"{self.path:100}".encode()
            first, last = (self.headers.get("Range") or f"bytes=0-{len(content) - 1}")[6:].split("-")
            body = content[int(first) : int(last) + 1]
            self.send_response(206 if "Range" in self.headers else 200)
            self.send_header("Content-Range", f"bytes {first}-{int(first) + len(body) - 1}/{len(content)}")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with answering(Echoing) as url:
        fs = ForetellFileSystem(target_protocol="http", timeout=20, skip_instance_cache=True)
        for query in ("", "?x=1", "?x=2", "?x=%20&y"):
            assert fs.cat_file(f"{url}/a/b{query}").decode().strip() == f"/a/b{query}"


def test_a_server_that_does_not_tell_lengths_is_told_as_that() -> None:
    class NoHead(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(405)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with answering(NoHead) as url:
        fs = ForetellFileSystem(target_protocol="http", timeout=20, skip_instance_cache=True)
        with pytest.raises(OSError, match="HEAD"):
            fs.info(f"{url}/a")
