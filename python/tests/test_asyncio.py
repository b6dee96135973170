"""fsspec's asynchronous interface."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from foretell.fs import ForetellFileSystem
from foretell.pool import ChangedError
from programs import Program
from store import Store, serving

PATHS = [f"bucket/{at:02}" for at in range(50)]


@pytest.fixture
def store() -> Iterator[Store]:
    with serving() as one:
        one.objects = {path: random.Random(path).randbytes(10_000) for path in PATHS}
        yield one


def file_system(store: Store, **options: Any) -> ForetellFileSystem:
    options = {"part_bytes": 4096, "timeout": 20, "skip_instance_cache": True, **options}
    return ForetellFileSystem("s3", store.target, asynchronous=True, **options)


def test_files_are_waited_for_together_and_what_is_there_is_given_at_once(store: Store) -> None:
    fs = file_system(store)

    async def all_of_them() -> None:
        store.gate.clear()
        reading = [asyncio.create_task(fs._cat_file(path)) for path in PATHS]
        while len(store.requests) < 40:
            await asyncio.sleep(0.01)
        assert not any(task.done() for task in reading)
        store.gate.set()
        assert await asyncio.gather(*reading) == [store.objects[path] for path in PATHS]
        # A coroutine that does not wait ends at its first step.
        now = fs._cat_file(PATHS[3], 5000, -1)
        with pytest.raises(StopIteration) as ended:
            now.send(None)
        assert ended.value.value == store.objects[PATHS[3]][5000:-1]

    asyncio.run(all_of_them())


def test_what_else_fsspec_has(store: Store, tmp_path: Path) -> None:
    fs = file_system(store)

    async def calls() -> None:
        assert (await fs._info("bucket/07"))["size"] == 10_000
        assert await fs._ls("bucket", detail=False) == await fs._find("bucket") == PATHS
        assert await fs._glob("bucket/0*") == PATHS[:10]
        assert await fs._exists("bucket/07") and not await fs._exists("bucket/no")
        assert await fs._isdir("bucket") and await fs._isfile("bucket/07")
        assert await fs._cat(PATHS) == store.objects
        parts = await fs._cat_ranges([*PATHS[:2], "bucket/no"], [1, 2, 3], [9, 9, 9])
        assert parts[:2] == [store.objects[PATHS[0]][1:9], store.objects[PATHS[1]][2:9]]
        assert isinstance(parts[2], FileNotFoundError)
        await fs._get_file("bucket/07", str(tmp_path / "got"))
        assert (tmp_path / "got").read_bytes() == store.objects["bucket/07"]
        with pytest.raises(FileNotFoundError, match="no such object"):
            await fs._cat_file("bucket/no")
        file = await fs.open_async("bucket/08")
        assert file.size == 10_000
        assert await file.read(9000) + await file.read() == store.objects["bucket/08"]
        with pytest.raises(NotImplementedError, match="bucket/08: foretell only reads"):
            await fs.open_async("bucket/08", "wb")
        for content in (b"old", b"new"):
            store.objects["bucket/new"] = content
            assert (await fs._info("bucket/new"))["size"] == 3
        with pytest.raises(ChangedError):
            await fs._cat_file("bucket/new")

    asyncio.run(calls())


def test_a_program_that_ends_waits_for_no_answer(store: Store, program: Program) -> None:
    source = f"""
        import asyncio
        from foretell.fs import ForetellFileSystem
        fs = ForetellFileSystem("s3", {store.target!r}, timeout=3000, asynchronous=True)
        async def patient():
            try:
                await asyncio.wait_for(fs._cat_file("{PATHS[0]}"), 0.5)
            except asyncio.TimeoutError:
                print("late")
        asyncio.run(patient())
    """
    store.gate.clear()
    try:
        ended = program("-c", dedent(source))
    finally:
        store.gate.set()
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "late\n", "")


def test_a_file_system_for_both_has_no_thread_of_fsspecs(program: Program, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    ended = program(
        "-c",
        f"""
import asyncio, os, threading
from foretell.fs import ForetellFileSystem
fs = ForetellFileSystem("file")
assert fs.cat_file("{tmp_path}/a") == b"content"
print(threading.active_count())
assert asyncio.run(fs._cat_file("{tmp_path}/a")) == b"content"
fs.invalidate_cache()
assert asyncio.run(fs._cat_file("{tmp_path}/a")) == b"content"
child = os.fork()
if child == 0:
    fs.invalidate_cache()
    os._exit(0 if asyncio.run(fs._cat_file("{tmp_path}/a")) == b"content" else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
from fsspec.asyn import sync
print(sync(fs.loop, fs._cat_file, "{tmp_path}/a"))
""",
    )
    assert ended.stdout.split() == ["1", "0", "b'content'"], ended.stderr
