"""One pool for a process and its children: what they fetch together, and what comes of those that die."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import signal
import time
from pathlib import Path
from textwrap import dedent

import pytest

from foretell.fs import ForetellFileSystem
from foretell.pool import ChangedError, Pool
from foretell.torch import DisclosingSampler, Objects
from programs import Program
from store import Store
from workers import PATHS, file_system, store


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_several_processes_fetch_as_much_as_one(store: Store, start_method: str, workers: int) -> None:
    fs = file_system(store)
    fs.find("bucket")
    order = random.Random(1).sample(PATHS, len(PATHS))
    sampler = DisclosingSampler(range(len(order)), Objects(fs, order), window=32)
    with multiprocessing.get_context(start_method).Pool(workers) as pool:
        read = list(pool.imap(fs.cat_file, (order[at] for at in sampler), chunksize=4))
        again = pool.map(fs.cat_file, PATHS)
    assert read == [store.objects[path] for path in order]
    assert again == [store.objects[path] for path in PATHS]
    # Each object once, and what it is nobody asked for, as the main process had listed it.
    asked = store.asked("GET")
    # One request in twenty may be made twice, if its answer is slow.
    assert sorted(set(asked)) == ["bucket", *PATHS] and len(asked) <= 1 + 1.05 * len(PATHS)
    assert store.asked("HEAD") == []
    statistics = fs.statistics()
    assert (statistics.fetched_bytes, statistics.references) == (120 * 5000, 240)


def test_what_one_has_listed_nobody_asks_for(store: Store) -> None:
    fs = file_system(store)
    fs.find("bucket")
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(fs.cat_file, PATHS[1:]) == [store.objects[path] for path in PATHS[1:]]
    assert store.asked("HEAD") == []
    # What has changed since is found out once, and asked for then.
    store.objects[PATHS[0]] = b"new"
    guest = attached(fs)
    with pytest.raises(ChangedError):
        guest.cat_file(PATHS[0])
    assert guest.cat_file(PATHS[0]) == b"new"
    assert store.asked("HEAD") == []


def test_a_child_gets_what_its_parent_has_and_the_errors(store: Store) -> None:
    fs = file_system(store, part_bytes=4096)
    with fs.open(PATHS[0]) as file:
        assert file.read(10) == store.objects[PATHS[0]][:10]
        asked = len(store.requests)
        child = os.fork()
        if child == 0:
            try:
                # A file that was open, and one by its path: both are there.
                assert file.read() == store.objects[PATHS[0]][10:]
                assert fs.cat_file(PATHS[0], 4000, 4100) == store.objects[PATHS[0]][4000:4100]
                with pytest.raises(FileNotFoundError, match="no such object"):
                    fs.cat_file("bucket/no")
                assert fs.disclose([(path, 0, None) for path in PATHS[:20]]) == 20
                assert fs.cat_file(PATHS[3]) == store.objects[PATHS[3]]
                fs.cancel()
                assert fs.statistics().objects >= 20
                with pytest.raises(ValueError, match="opened in another pool"):
                    fs.pool.disclose([(Pool(1 << 20).open(f"file://{__file__}"), 0, 1)])
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.requests[asked] == ("GET", "bucket/no")


def test_a_changed_object_is_found_out_by_all(store: Store) -> None:
    fs = file_system(store, budget_bytes=1 << 16)
    guest = attached(fs)
    path = PATHS[0]
    assert fs.cat_file(path) == guest.cat_file(path) == store.objects[path]
    for other in PATHS[1:]:
        guest.cat_file(other)
    store.objects[path] = b"new"
    for one in (guest, fs):
        with pytest.raises(ChangedError):
            one.cat_file(path)
    assert fs.cat_file(path) == guest.cat_file(path) == b"new"
    # Told to ask again, a guest does not believe what the host knows.
    store.objects[path] = b"newer"
    guest.invalidate_cache(path)
    assert guest.cat_file(path) == b"newer"


def attached(fs: ForetellFileSystem) -> ForetellFileSystem:
    """Another one of this process that reads as a child does."""
    guest = file_system_like(fs)
    guest._shared_state = type(guest._shared_state)(os.getpid(), Pool.attach(fs.pool.share(), timeout=20), None)
    return guest


def file_system_like(fs: ForetellFileSystem) -> ForetellFileSystem:
    return type(fs)(*fs.storage_args, **{**fs.storage_options, "skip_instance_cache": True})


def test_a_pickle_of_a_process_that_is_gone_has_a_pool_of_its_own(program: Program, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"there")
    made = program(
        "-c",
        dedent(f"""
        import pickle
        from foretell.fs import ForetellFileSystem
        print(pickle.dumps(ForetellFileSystem("file", objects=7)).hex())
        """),
    )
    fs = pickle.loads(bytes.fromhex(made.stdout.strip()))
    assert fs.cat_file(str(tmp_path / "a")) == b"there"


def test_killed_workers_leave_nothing_behind(store: Store) -> None:
    fs = file_system(store)
    fs.find("bucket")
    store.gate.clear()
    children = []
    for at in range(4):
        if (child := os.fork()) == 0:
            fs.disclose([(path, 0, None) for path in PATHS])
            fs.cat_file(PATHS[at])
            os._exit(0)
        children.append(child)
    while len(store.asked("GET")) < 5:
        time.sleep(0.01)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    store.gate.set()
    assert [fs.cat_file(path) for path in PATHS] == [store.objects[path] for path in PATHS]
    statistics = fs.statistics()
    assert (statistics.fetched_bytes, statistics.disclosed_ahead) == (120 * 5000, 0)
    assert store.asked("HEAD") == []


def test_a_killed_owner_is_an_error_in_time_and_then_one_reads_alone(program: Program, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"there")
    ended = program(
        "-c",
        dedent(f"""
        import os, signal, socket, time
        from foretell.fs import ForetellFileSystem

        # Takes connections, and answers nobody.
        silent = socket.create_server(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{{silent.getsockname()[1]}}/a"
        (ready, is_ready), (go, is_go), (read, write) = os.pipe(), os.pipe(), os.pipe()
        owner = os.fork()
        if owner == 0:
            fs = ForetellFileSystem()
            for worker in range(2):
                # The second one has the ends of the first one's sockets as well.
                if os.fork() == 0:
                    assert fs.cat_file("file://{tmp_path}/a") == b"there"
                    os.write(is_ready, b"r")
                    began = time.monotonic()
                    try:
                        fs.cat_file(url)
                    except ConnectionError as error:
                        in_time = time.monotonic() - began < 20
                        again = fs.cat_file("file://{tmp_path}/a")
                        os.write(write, f"{{in_time}} {{again}} {{error}}\\n".encode())
                    os._exit(0)
                assert os.read(ready, 1) == b"r"
                time.sleep(0.2)
            os.write(is_go, b"k")
            time.sleep(60)
            os._exit(1)
        os.close(is_go)
        os.read(go, 1)
        os.kill(owner, signal.SIGKILL)
        os.waitpid(owner, 0)
        os.close(write)
        with open(read) as said:
            print(said.read(), end="")
        """),
    )
    lines = ended.stdout.splitlines()
    assert len(lines) == 2, ended.stderr
    for line in lines:
        assert line.startswith("True b'there' the shared pool: the process that has it does not answer ("), line
