"""A store that others have written: gofakes3, which speaks S3 as its authors understand it. ./x installs it where there is Go."""

from __future__ import annotations

import random
import socket
import subprocess
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from foretell.fs import ForetellFileSystem
from foretell.pool import ChangedError

SERVER = Path(__file__).parents[2] / "target/python/gofakes3"
OBJECTS = {f"d/{at:03}": random.Random(at).randbytes(30_000 + at) for at in range(40)}
OBJECTS |= {"big": random.Random(9).randbytes(1 << 20), "odd name+ü%#?.txt": b"x" * 100, "d/below/it": b"y", "empty": b""}


@pytest.fixture(scope="module")
def target() -> Iterator[dict[str, str]]:
    if not SERVER.exists():
        pytest.skip("gofakes3 is not installed: ./x test installs it where there is Go")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    command = [str(SERVER), "-host", f"127.0.0.1:{port}", "-backend", "memory", "-initialbucket", "bucket"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        began = time.monotonic()
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None and time.monotonic() - began < 60
        target = {"key": "someone", "secret": "hush-hush", "endpoint_url": f"http://127.0.0.1:{port}"}
        writer = plain(target)
        for name, content in OBJECTS.items():
            writer.pipe_file(f"bucket/{name}", content)
        yield target
    finally:
        server.kill()
        server.wait()


def plain(target: dict[str, str]) -> Any:
    return import_module("s3fs").S3FileSystem(**target, skip_instance_cache=True)


def file_system(target: dict[str, str], **options: Any) -> ForetellFileSystem:
    return ForetellFileSystem("s3", target, timeout=20, skip_instance_cache=True, **options)


def test_what_is_there_is_found_and_read_as_it_was_written(target: dict[str, str]) -> None:
    fs = file_system(target)
    for name, content in OBJECTS.items():
        assert fs.cat_file(f"bucket/{name}") == content
    fs = file_system(target, budget_bytes=1 << 18)
    paths = fs.find("bucket")
    assert paths == sorted(f"bucket/{name}" for name in OBJECTS)
    assert fs.find("bucket", withdirs=True) == sorted([*paths, "bucket", "bucket/d", "bucket/d/below"])
    assert len(fs.ls("bucket/d")) == 41 and len(fs.glob("bucket/**/00*")) == 10
    assert fs.disclose([(path, 0, None) for path in paths]) == len(paths)
    assert [fs.cat_file(path) for path in paths] == [OBJECTS[path[7:]] for path in paths]
    assert not fs.exists("bucket/no") and not fs.exists("nobucket/no")
    assert fs.statistics().requests_failed == 0


def test_one_that_is_written_anew_is_no_mix(target: dict[str, str]) -> None:
    fs = file_system(target, budget_bytes=1 << 17)
    writer = plain(target)
    writer.pipe_file("bucket/changes", OBJECTS["big"])
    with fs.open("bucket/changes") as file:
        assert file.read(10) == OBJECTS["big"][:10]
        writer.pipe_file("bucket/changes", OBJECTS["big"][::-1])
        with pytest.raises(ChangedError):
            file.read()
    assert fs.cat_file("bucket/changes") == OBJECTS["big"][::-1]
    writer.rm_file("bucket/changes")
