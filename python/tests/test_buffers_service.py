"""The service that has a pool a user (foretell buffers): several programs of one user, and another user."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest

from foretell.fs import ForetellFileSystem
from foretell.pool import Pool
from store import Store
from workers import PATHS, store

TOOLS = Path(__file__).resolve().parents[2] / "target" / "debug" / "foretell-tools"

pytestmark = pytest.mark.skipif(not TOOLS.exists(), reason="target/debug/foretell-tools is not built")


@contextmanager
def serving() -> Iterator[Path]:
    """A service, and where it listens: where other users come to, which pytest's folders are not."""
    with tempfile.TemporaryDirectory(prefix="foretell-") as folder:
        os.chmod(folder, 0o755)
        socket = Path(folder) / "socket"
        command: list[str | Path] = [TOOLS, "buffers", "--socket", socket, "--budget", "2M", "--part", "5000"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as service:
            assert service.stdout is not None
            try:
                assert service.stdout.readline().startswith(b"serving at ")
                yield socket
            finally:
                service.terminate()


def reading(store: Store, socket: Path, secret: str = "secret", user: int | None = None) -> list[str]:
    """What a program says that reads all objects: how many bytes it has, and how many its pool has fetched."""
    program = dedent(f"""
        import os
        from foretell.fs import ForetellFileSystem

        # Now, as others may not read this Python.
        if (user := {user!r}) is not None:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        target = {{**{store.target!r}, "secret": {secret!r}}}
        fs = ForetellFileSystem("s3", target, timeout=20, service={str(socket)!r})
        fs.find("bucket")
        print(sum(len(fs.cat_file(f"bucket/{{at:03}}")) for at in range({len(PATHS)})), fs.statistics().fetched_bytes)
        """)
    done = subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.split()


def test_programs_of_one_user_fetch_as_much_as_one(store: Store) -> None:
    with serving() as socket:
        every = str(sum(len(store.objects[path]) for path in PATHS))
        assert [reading(store, socket) for _ in range(3)] == [[every, every]] * 3
        # With other credentials nothing is taken over from these.
        assert reading(store, socket, secret="another") == [every, str(2 * int(every))]
    asked = store.asked("GET")
    assert all(asked.count(path) <= 3 for path in PATHS)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_another_user_has_a_pool_of_its_own(store: Store) -> None:
    with serving() as socket:
        every = str(sum(len(store.objects[path]) for path in PATHS))
        users = [41_001, 41_002, 41_001, 41_002]
        # Each user's pool has fetched all of it, once.
        assert [reading(store, socket, user=user) for user in users] == [[every, every]] * 4
    asked = store.asked("GET")
    assert all(2 <= asked.count(path) <= 3 for path in PATHS)


def test_without_a_service_and_after_its_end_one_reads_alone(store: Store, tmp_path: Path) -> None:
    fs = ForetellFileSystem("s3", store.target, timeout=20, service=tmp_path / "socket", skip_instance_cache=True)
    assert fs.cat_file(PATHS[0]) == store.objects[PATHS[0]]
    with pytest.raises(ConnectionError, match="no service answers there"):
        Pool.service(tmp_path / "socket")
    with serving() as socket:
        fs = ForetellFileSystem("s3", store.target, timeout=19, service=socket, skip_instance_cache=True)
        assert fs.cat_file(PATHS[1]) == store.objects[PATHS[1]]
        with pytest.raises(RuntimeError, match="each process goes there by itself"):
            fs.pool.share()
    with pytest.raises(ConnectionError):
        fs.cat_file(PATHS[2])
    assert fs.cat_file(PATHS[2]) == store.objects[PATHS[2]]


def test_a_service_of_another_version_is_told_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def service(*args: object, **options: object) -> Pool:
        raise ConnectionError("the shared pool: the pool's process speaks version 1 of this, and not 9")

    monkeypatch.setattr(Pool, "service", service)
    (tmp_path / "a").write_bytes(b"there")
    with pytest.warns(RuntimeWarning, match="speaks version 1 of this, and not 9; this process has a pool of its own"):
        fs = ForetellFileSystem("file", budget_bytes=1 << 20, service=True, skip_instance_cache=True)
    assert fs.cat_file(str(tmp_path / "a")) == b"there"
