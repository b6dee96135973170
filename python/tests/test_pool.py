"""Pools of buffers, and the file system that is made of them."""

from __future__ import annotations

import pickle
import random
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from typing import Any

import fsspec  # type: ignore[import-untyped]
import pytest

from foretell.fs import ForetellFileSystem
from foretell.pool import ChangedError, Pool
from foretell.torch import DisclosingSampler, Objects
from programs import Program
from store import Store, file_system


def content(seed: int, length: int) -> bytes:
    return random.Random(seed).randbytes(length)


def test_a_pool_reads_local_files(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(content(1, 100_000))
    pool = Pool(1 << 20, part_bytes=4096)
    table = pool.open(f"file://{path}")
    assert table.length == 100_000
    assert table.read() == content(1, 100_000)
    assert table.read(99_000) == content(1, 100_000)[99_000:]
    assert table.read(5, 10) == content(1, 100_000)[5:15]
    assert pool.disclose([(table, 0, 4096), (table, 50_000, 10)]) == 2
    statistics = pool.statistics()
    assert statistics.hits > 0 and statistics.fetched_bytes == 100_000
    assert pool.open(f"file://{path}", table.stamp).stamp == table.stamp
    table.close()
    with pytest.raises(ValueError, match="closed"):
        table.read()


@pytest.mark.parametrize(
    ("act", "kind", "line"),
    [
        (lambda: Pool(1000), ValueError, "budget: 1000 bytes hold no part of 16384 bytes"),
        (lambda: Pool(-1), ValueError, "budget_bytes: -1 is negative"),
        (lambda: Pool(1 << 20, policy="best"), ValueError, "policy: one of 'lru'"),
        (lambda: Pool(1 << 20, timeout=-1.0), ValueError, "timeout: -1 is no number of seconds"),
        (lambda: Pool(1 << 20, part_bytes=1), ValueError, "part_bytes: 1 is not within 4096 and 67108864"),
        (lambda: Pool(1 << 20, disk_bytes=1 << 20), ValueError, "disk: a folder and a number of bytes are needed"),
        (lambda: Pool(1 << 20, disk_dir="/no/such", disk_bytes=1 << 20), OSError, "/no/such: parts cannot be kept"),
        (lambda: Pool(1 << 20).open("ftp://a/b"), ValueError, "ftp://a/b: unknown scheme"),
        (lambda: Pool(1 << 20).open("file:///no/such"), FileNotFoundError, "file:///no/such: no such object"),
        (lambda: Pool(1 << 20).open(f"file://{__file__}").read(0, 1 << 40), ValueError, "reach behind its end"),
        (lambda: Pool(1 << 20).open("bucket/key"), ValueError, "bucket/key: no URL"),
        (lambda: Pool.attach("nonsense"), ConnectionError, "the shared pool: its address is none"),
        (lambda: ForetellFileSystem().cat_file("a/b"), ValueError, "a/b: without target_protocol a URL is needed"),
        (lambda: ForetellFileSystem("ftp").cat_file("a/b"), ValueError, "ftp://a/b: unknown scheme"),
        (lambda: Pool(1 << 20, options={"regoin": "x"}).open("s3://b/k"), ValueError, "no option 'regoin'"),
        (
            lambda: ForetellFileSystem("s3", {"profile": "me"}, skip_instance_cache=True),
            ValueError,
            "target_options: 'profile' is not understood",
        ),
        (
            lambda: ForetellFileSystem("s3", budget_byte=1, skip_instance_cache=True),
            TypeError,
            "budget_byte: no option of ForetellFileSystem",
        ),
        (
            lambda: ForetellFileSystem("s3", objects=0, skip_instance_cache=True),
            ValueError,
            "objects: 0 is not positive",
        ),
    ],
)
def test_mistakes_are_said_in_one_line(act: Any, kind: type[Exception], line: str) -> None:
    with pytest.raises(kind) as raised:
        act()
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)


def test_s3_is_read_listed_and_held_to_its_state(store: Store) -> None:
    store.objects = {f"bucket/images/{at} a.jpg": content(at, 9000 + at) for at in range(20)}
    store.objects["bucket/top"] = b"top"
    fs = file_system(store, budget_bytes=1 << 20)
    assert [entry["name"] for entry in fs.ls("bucket")] == ["bucket/images", "bucket/top"]
    assert fs.ls("bucket/images", detail=False) == sorted(store.objects)[:-1]
    assert fs.find("bucket") == sorted(store.objects)
    assert fs.isdir("bucket/images") and fs.isdir("bucket") and not fs.isdir("basket")
    assert fs.size("bucket/images/3 a.jpg") == 9003
    assert fs.exists("bucket/top") and not fs.exists("bucket/no")
    # Everything was listed: the one that is not there was asked for, and no other.
    assert set(store.asked("HEAD")) <= {"bucket/images", "bucket/no"}
    name = "bucket/images/7 a.jpg"
    assert fs.cat_file(name) == store.objects[name]
    assert fs.cat_file(name, 10, -5) == store.objects[name][10:-5]
    with fs.open(name) as file:
        assert file.seek(9000) == 9000
        assert file.read() == store.objects[name][9000:]
    with pytest.raises(NotImplementedError):
        fs.open(name, "wb")
    name = "bucket/images/8 a.jpg"
    store.objects[name] = content(99, 9008)
    with pytest.raises(ChangedError):
        fs.cat_file(name)
    assert fs.cat_file(name) == content(99, 9008)


def test_an_open_file_stays_in_its_state(store: Store) -> None:
    store.objects["bucket/a"] = content(1, 200_000)
    fs = file_system(store, budget_bytes=1 << 20)
    with fs.open("bucket/a") as file:
        assert file.read(4096) == content(1, 200_000)[:4096]
        store.objects["bucket/a"] = content(2, 200_000)
        # Whoever reads the path anew finds out, and gets the new object. The open file is still the old one.
        fs.invalidate_cache("bucket/a")
        assert fs.cat_file("bucket/a") == content(2, 200_000)
        for _ in range(2):
            # What was read ahead of the first part is there, the end is not.
            with pytest.raises(ChangedError):
                file.read()
        assert file.seek(0) == 0
        assert file.read(4096) == content(1, 200_000)[:4096]
    with fs.open("bucket/a") as file:
        assert file.read() == content(2, 200_000)


def test_an_open_file_may_be_pickled(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(content(3, 10_000))
    with ForetellFileSystem("file").open(str(path), cache_options={}) as file:
        file.seek(5000)
        again = pickle.loads(pickle.dumps(file))
        assert again.read() == file.read() == content(3, 10_000)[5000:]
        path.write_bytes(b"short")
    with again:
        again.fs.invalidate_cache()
        other = pickle.loads(pickle.dumps(again))
        assert other.size == 5


def test_what_cannot_be_held_open_is_not_disclosed(store: Store) -> None:
    store.objects = {f"bucket/{at}": content(at, 4000) for at in range(20)}
    fs = file_system(store, objects=8)
    order = [(path, 0, None) for path in fs.find("bucket")]
    assert fs.disclose(order[:2] * 3 + order) == 14
    for path, _, _ in order[:8]:
        assert fs.cat_file(path) == store.objects[path]
    assert fs.statistics().demand_fetches == 0


def test_control_c_ends_a_wait(program: Program) -> None:
    ended = program(
        "-c",
        dedent("""
        import os, signal, socket, threading, time
        from foretell.fs import ForetellFileSystem

        # Nobody answers.
        silent = socket.create_server(("127.0.0.1", 0))
        fs = ForetellFileSystem("http")
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/a"
        for act in (lambda: fs.cat_file(url), lambda: fs.pool.list(url)):
            began = time.monotonic()
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                act()
            except KeyboardInterrupt:
                print(time.monotonic() - began < 20)
        """),
    )
    assert ended.stdout.split() == ["True", "True"], ended.stderr


def test_a_chained_url_is_all_that_a_program_needs(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("one\ntwo\nthree\n")
    with fsspec.open(f"foretell::file://{path}", "rt") as lines:
        assert list(lines) == ["one\n", "two\n", "three\n"]
    # One budget, however many URLs are opened.
    one, other = (fsspec.url_to_fs(f"foretell::file://{tmp_path}/{name}")[0] for name in ("a", "b"))
    assert one.pool is other.pool
    assert one.pool is not ForetellFileSystem("file", budget_bytes=1 << 20).pool


def test_http(store: Store) -> None:
    store.objects["data/table"] = content(5, 50_000)
    fs = ForetellFileSystem(target_protocol="http", part_bytes=4096, skip_instance_cache=True)
    assert fs.cat_file(f"{store.url}/data/table") == content(5, 50_000)


def test_shuffled_epochs_are_fetched_hardly_more_often_than_can_be(store: Store) -> None:
    paths = [f"bucket/{at}" for at in range(200)]
    store.objects = {path: content(at, 4000) for at, path in enumerate(paths)}
    fs = file_system(store, budget_bytes=100 * 4096, recorded_references=1 << 16)
    fs.find("bucket")
    for epoch in range(3):
        order = random.Random(epoch).sample(range(200), 200)
        for at in DisclosingSampler(order, Objects(fs, paths), window=200):
            assert fs.cat_file(paths[at]) == store.objects[paths[at]]
    statistics = fs.statistics()
    assert statistics.references == 600
    assert statistics.best_fetches is not None
    # What comes after the epoch that is disclosed is not known: some more than with all of it.
    assert statistics.requests <= 1.25 * statistics.best_fetches
    assert statistics.demand_fetches < 60
    assert statistics.memory_peak_bytes <= 102 * 4096


def test_with_a_disk_for_all_each_object_is_fetched_once(store: Store, tmp_path: Path) -> None:
    paths = [f"bucket/{at:03}" for at in range(100)]
    store.objects = {path: content(at, 10_000) for at, path in enumerate(paths)}
    fs = file_system(store, budget_bytes=200_000, disk_dir=str(tmp_path), disk_bytes=2 << 20)
    fs.find("bucket")
    for epoch in range(3):
        for path in random.Random(epoch).sample(paths, len(paths)):
            assert fs.cat_file(path) == store.objects[path]
    statistics = fs.statistics()
    # What was written too late to be there, a second time.
    assert 1_000_000 <= statistics.fetched_bytes <= 1_200_000
    assert statistics.disk_read_bytes >= 1_000_000 and statistics.disk_failures == 0


def test_an_epoch_that_is_given_up_is_withdrawn(store: Store) -> None:
    paths = [f"bucket/{at}" for at in range(50)]
    store.objects = {path: b"x" for path in paths}
    fs = file_system(store)
    for at in DisclosingSampler(range(50), Objects(fs, paths)):
        if at == 3:
            break
    assert fs.statistics().disclosed_ahead == 0


def test_a_store_that_is_busy_is_asked_again_and_one_that_stays_so_is_an_error(store: Store) -> None:
    store.objects["bucket/a"] = content(1, 10_000)
    fs = file_system(store, timeout=3)
    store.refusals = 2
    assert fs.cat_file("bucket/a") == content(1, 10_000)
    store.refusals = 1 << 30
    with pytest.raises(OSError, match="s3://bucket/b: the store failed|no answer within 3 s"):
        fs.cat_file("bucket/b")


def test_who_may_not_read_is_told_to_check_the_credentials(store: Store) -> None:
    store.refusals, store.refused_with = 1 << 30, 403
    with pytest.raises(PermissionError, match="s3://bucket/a: access denied, check the credentials") as raised:
        file_system(store).cat_file("bucket/a")
    assert "\n" not in str(raised.value)


def test_a_forked_child_has_a_pool_of_its_own(program: Program, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(content(1, 10_000))
    ended = program(
        "-c",
        dedent(f"""
        import os
        from foretell.fs import ForetellFileSystem
        from foretell.pool import Pool
        fs = ForetellFileSystem("file")
        pool = Pool(1 << 20)
        one = pool.open("file://{tmp_path}/a")
        assert len(fs.cat_file("{tmp_path}/a")) == 10_000
        child = os.fork()
        if child == 0:
            try:
                one.read()
            except RuntimeError as error:
                assert "after fork()" in str(error), error
                assert len(fs.cat_file("{tmp_path}/a")) == 10_000
                os._exit(0)
            os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(one.read()))
        """),
    )
    assert ended.stdout.split() == ["0", "10000"], ended.stderr


def test_without_fsspec_the_rest_works(program: Program) -> None:
    ended = program(
        "-c",
        dedent("""
        import sys
        sys.modules["fsspec"] = None
        import foretell, foretell.pool, foretell.torch
        try:
            import foretell.fs
        except ImportError as error:
            print("needs", "fsspec" in str(error))
        """),
    )
    assert ended.stdout.split() == ["needs", "True"], ended.stderr


def test_files_of_one_call_are_waited_for_together(store: Store) -> None:
    store.objects = {f"bucket/{at}": content(at, 5000) for at in range(20)}
    fs = file_system(store)
    paths = fs.find("bucket")
    assert fs.cat("bucket/3") == store.objects["bucket/3"]
    store.gate.clear()
    with ThreadPoolExecutor() as threads:
        reading = threads.submit(fs.cat, paths)
        began = time.monotonic()
        while len(store.asked("GET")) < 15 and time.monotonic() < began + 10:
            time.sleep(0.01)
        together = len(store.asked("GET"))
        store.gate.set()
        assert reading.result() == store.objects
    assert together >= 15
    some = [*paths[:2], "bucket/no"]
    parts = fs.cat_ranges(some, [1, 2, 3], 9)
    assert parts[:2] == [store.objects[some[0]][1:9], store.objects[some[1]][2:9]]
    assert isinstance(parts[2], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges(some, 0, 1, on_error="raise")
    with pytest.raises(ValueError, match="as many as paths are needed, which are 3"):
        fs.cat_ranges(some, [1], [2])
    assert fs.cat_ranges([], [], []) == []
    assert fs.cat("bucket", recursive=True, on_error="omit") == store.objects


def test_other_threads_run_while_one_reads(store: Store) -> None:
    store.objects["bucket/a"] = content(1, 10_000)
    fs = file_system(store)
    fs.info("bucket/a")
    store.gate.clear()
    with ThreadPoolExecutor() as threads:
        reading = threads.submit(fs.cat_file, "bucket/a")
        # Opened here, so not before this thread runs.
        store.gate.set()
        assert reading.result() == content(1, 10_000)
