"""Contenders of ./x bench buffers that read many small objects: threads, worker processes, DataLoader, Dask."""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import random
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from buffers_setting import BUCKET, CREDENTIALS, listed, obstore, orders, path_of, plain, pooled, room, simplecache


def _read(given: argparse.Namespace, order: list[int], cat: Callable[[str], bytes]) -> None:
    def one(at: int) -> None:
        assert zlib.crc32(cat(path_of(at))) == given.checksums[at], path_of(at)
        if given.compute_ms:
            time.sleep(given.compute_ms / 1e3)

    with ThreadPoolExecutor(given.threads) as threads:
        for _ in threads.map(one, order):
            pass


def s3fs_threads(given: argparse.Namespace) -> dict[str, Any]:
    fs = listed(plain(given))
    for order in orders(given.objects, given.epochs):
        _read(given, order, fs.cat_file)
    return {}


def s3fs_batches(given: argparse.Namespace) -> dict[str, Any]:
    """Its own concurrency: a list of paths at a time."""
    fs = listed(plain(given))
    for order in orders(given.objects, given.epochs):
        for start in range(0, len(order), 64):
            some = order[start : start + 64]
            got = fs.cat([path_of(at) for at in some])
            assert all(zlib.crc32(got[path_of(at)]) == given.checksums[at] for at in some)
            if given.compute_ms:
                time.sleep(given.compute_ms * len(some) / given.threads / 1e3)
    return {}


def obstore_threads(given: argparse.Namespace) -> dict[str, Any]:
    fs = obstore(given)
    for order in orders(given.objects, given.epochs):
        _read(given, order, fs.cat_file)
    return {}


def simplecache_threads(given: argparse.Namespace) -> dict[str, Any]:
    fs = simplecache(given)
    fs.fs.find(f"{BUCKET}/images")
    for order in orders(given.objects, given.epochs):
        _read(given, order, fs.cat_file)
    return {}


def _cat(fs: Any, path: str) -> bytes:
    data: bytes = fs.cat_file(path)
    return data


def _in_workers(given: argparse.Namespace, fs: Any, told: Callable[[list[int]], object]) -> dict[str, Any]:
    """As a data loader does it: the main process draws the order, workers read."""
    with multiprocessing.get_context("spawn").Pool(given.workers) as workers:
        for order in orders(given.objects, given.epochs):
            told(order)
            read = workers.imap(partial(_cat, fs), (path_of(at) for at in order), chunksize=8)
            for at, data in zip(order, read):
                assert zlib.crc32(data) == given.checksums[at], path_of(at)
    return {}


def s3fs_workers(given: argparse.Namespace) -> dict[str, Any]:
    return _in_workers(given, plain(given), lambda order: None)


def foretell_workers_alone(given: argparse.Namespace) -> dict[str, Any]:
    """Without what a process has from another: each worker has a part of the memory."""
    fs = pooled(given, given.objects * given.bytes // 2 // given.workers, given.bytes)
    fs.__class__.__reduce__ = fsspec_reduce
    return _in_workers(given, fs, lambda order: None)


def fsspec_reduce(self: Any) -> Any:
    from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped]

    return AbstractFileSystem.__reduce__(self)


def foretell_workers(given: argparse.Namespace) -> dict[str, Any]:
    fs = listed(pooled(given, given.objects * given.bytes // 2, given.bytes))
    _in_workers(given, fs, lambda order: fs.disclose([(path_of(at), 0, None) for at in order]))
    return {"best": fs.statistics().best_fetches}


def _foretell(given: argparse.Namespace, *, told: str, part_bytes: int | None = None) -> dict[str, Any]:
    fs = listed(pooled(given, given.objects * given.bytes // 2, part_bytes))
    epochs = orders(given.objects, given.epochs)
    if told == "all":
        fs.disclose([(path_of(at), 0, None) for order in epochs for at in order])
    if told == "next":
        fs.disclose([(path_of(at), 0, None) for at in epochs[0]])
    for order, after in zip(epochs, [*epochs[1:], []]):
        if told == "epoch":
            fs.disclose([(path_of(at), 0, None) for at in order])
        if told == "next":
            fs.disclose([(path_of(at), 0, None) for at in after])
        _read(given, order, fs.cat_file)
    found = fs.statistics()
    return {
        "best": found.best_fetches,
        "hits": found.hits,
        "late": found.late,
        "demanded": found.demand_fetches,
        "peak": found.memory_peak_bytes,
    }


def foretell_all(given: argparse.Namespace) -> dict[str, Any]:
    return _foretell(given, told="all", part_bytes=given.bytes)


def foretell_epoch(given: argparse.Namespace) -> dict[str, Any]:
    return _foretell(given, told="epoch", part_bytes=given.bytes)


def foretell_next(given: argparse.Namespace) -> dict[str, Any]:
    return _foretell(given, told="next", part_bytes=given.bytes)


def foretell_epoch_untuned(given: argparse.Namespace) -> dict[str, Any]:
    return _foretell(given, told="epoch")


def foretell_untold(given: argparse.Namespace) -> dict[str, Any]:
    return _foretell(given, told="nothing", part_bytes=given.bytes)


# ---- DataLoader: two workers, whose images take a while to decode -------------------------------------------------


class Images:
    """A data set of PyTorch; the workers check what they get, and take their time over it."""

    def __init__(self, given: argparse.Namespace, fs: Any) -> None:
        self.fs = fs
        self.checksums = given.checksums
        self.seconds = given.decode_ms / 1e3

    def __len__(self) -> int:
        return len(self.checksums)

    def __getitem__(self, at: int) -> int:
        checksum = zlib.crc32(self.fs.cat_file(path_of(at)))
        time.sleep(self.seconds)
        assert checksum == self.checksums[at], path_of(at)
        return at


def _loader(given: argparse.Namespace, fs: Any, start: str, told: str) -> dict[str, Any]:
    loader_of = importlib.import_module("torch.utils.data").DataLoader
    epochs = orders(given.objects, given.epochs)
    if told == "all":
        fs.disclose([(path_of(at), 0, None) for order in epochs for at in order])
    order: list[int] = []
    sampler: Any = order
    if told == "sampler":
        # As the documentation has it.
        torch = importlib.import_module("foretell.torch")
        layout = torch.Objects(fs, [path_of(at) for at in range(given.objects)])
        sampler = torch.DisclosingSampler(Orders(epochs), layout, window=given.objects, epochs=len(epochs))
    loader = loader_of(
        Images(given, fs),
        batch_size=32,
        # Looked at when an epoch begins.
        sampler=sampler,
        num_workers=2,
        persistent_workers=True,
        multiprocessing_context=start,
    )
    for one in epochs:
        order[:] = one
        if told == "epoch":
            fs.disclose([(path_of(at), 0, None) for at in order])
        assert [at for batch in loader for at in batch.tolist()] == one
    return {} if told == "nothing" else {"best": fs.statistics().best_fetches}


class Orders:
    """A sampler: an order each time."""

    def __init__(self, epochs: list[list[int]]) -> None:
        self._epochs = iter(epochs)
        self._length = len(epochs[0])

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        return iter(next(self._epochs))


class Unread:
    """A file system that has nothing to wait for."""

    def cat_file(self, path: str) -> bytes:
        return b""


def unread_loader(given: argparse.Namespace) -> dict[str, Any]:
    """What the images take by themselves, on this machine at this moment."""
    given.checksums = [zlib.crc32(b"")] * given.objects
    return _loader(given, Unread(), "fork", "nothing")


def s3fs_loader(given: argparse.Namespace) -> dict[str, Any]:
    """Spawned: it refuses to be used after a fork."""
    return _loader(given, listed(plain(given)), "spawn", "nothing")


def _foretell_loader(given: argparse.Namespace, start: str, told: str) -> dict[str, Any]:
    fs = listed(pooled(given, given.objects * given.bytes // 2, given.bytes))
    return _loader(given, fs, start, told)


def foretell_loader_spawned(given: argparse.Namespace) -> dict[str, Any]:
    return _foretell_loader(given, "spawn", "all")


def foretell_loader_forked(given: argparse.Namespace) -> dict[str, Any]:
    return _foretell_loader(given, "fork", "all")


def foretell_loader_epoch(given: argparse.Namespace) -> dict[str, Any]:
    return _foretell_loader(given, "fork", "epoch")


def foretell_loader_sampler(given: argparse.Namespace) -> dict[str, Any]:
    return _foretell_loader(given, "fork", "sampler")


# ---- several processes, each of which reads all objects in an order of its own ---------------------------------------


def _read_all(fs: Any, checksums: list[int], seed: int) -> int:
    for at in random.Random(seed).sample(range(len(checksums)), len(checksums)):
        assert zlib.crc32(fs.cat_file(path_of(at))) == checksums[at], path_of(at)
    return seed


def _processes(given: argparse.Namespace, fs: Any, count: int) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(count) as workers:
        done = workers.map(partial(_read_all, fs, given.checksums), range(count), chunksize=1)
    assert done == list(range(count))
    return {}


def s3fs_processes(given: argparse.Namespace) -> dict[str, Any]:
    return _processes(given, plain(given), 4)


def foretell_one_process(given: argparse.Namespace) -> dict[str, Any]:
    return _processes(given, listed(pooled(given, room(given), given.bytes)), 1)


def foretell_two_processes(given: argparse.Namespace) -> dict[str, Any]:
    return _processes(given, listed(pooled(given, room(given), given.bytes)), 2)


def foretell_four_processes(given: argparse.Namespace) -> dict[str, Any]:
    return _processes(given, listed(pooled(given, room(given), given.bytes)), 4)


@contextmanager
def _service(given: argparse.Namespace) -> Iterator[str]:
    """A service for this user; where it listens."""
    with tempfile.TemporaryDirectory(prefix="foretell-bench-") as folder:
        command = [given.foretell, "buffers", "--socket", f"{folder}/socket"]
        command += ["--budget", str(room(given)), "--part", str(given.bytes)]
        served = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            assert served.stdout is not None and served.stdout.readline()
            yield f"{folder}/socket"
        finally:
            served.terminate()
            served.wait()


def _read_all_served(endpoint: str, socket: str, checksums: list[int], seed: int) -> int:
    """A program that is no relative of the others; it lists for itself."""
    from foretell.fs import ForetellFileSystem

    fs = ForetellFileSystem("s3", {"endpoint_url": endpoint, **CREDENTIALS}, service=socket)
    return _read_all(listed(fs), checksums, seed)


def _served(given: argparse.Namespace, count: int) -> dict[str, Any]:
    with _service(given) as socket, multiprocessing.get_context("spawn").Pool(count) as workers:
        read = partial(_read_all_served, given.endpoint, socket, given.checksums)
        assert workers.map(read, range(count), chunksize=1) == list(range(count))
    return {}


def foretell_one_served(given: argparse.Namespace) -> dict[str, Any]:
    return _served(given, 1)


def foretell_two_served(given: argparse.Namespace) -> dict[str, Any]:
    return _served(given, 2)


def foretell_four_served(given: argparse.Namespace) -> dict[str, Any]:
    return _served(given, 4)


# ---- Dask: a local cluster of four processes, three epochs in a known order -----------------------------------------


def _checksum(fs: Any, path: str) -> int:
    return zlib.crc32(fs.cat_file(path))


@contextmanager
def _cluster() -> Iterator[Any]:
    """Its start is not counted."""
    distributed = importlib.import_module("distributed")
    made = distributed.LocalCluster(n_workers=4, threads_per_worker=1, processes=True, dashboard_address=None)
    with made, distributed.Client(made) as client:
        client.wait_for_workers(4)
        yield client


def _dask(given: argparse.Namespace, client: Any, submit: Callable[[list[str]], Any]) -> dict[str, Any]:
    began = time.perf_counter()
    for order in orders(given.objects, given.epochs):
        got = client.gather(submit([path_of(at) for at in order]))
        assert got == [given.checksums[at] for at in order]
    return {"seconds": time.perf_counter() - began}


def s3fs_dask(given: argparse.Namespace) -> dict[str, Any]:
    fs = listed(plain(given))
    with _cluster() as client:
        return _dask(given, client, lambda paths: client.map(partial(_checksum, fs), paths, pure=False))


def foretell_dask(given: argparse.Namespace) -> dict[str, Any]:
    fs = listed(pooled(given, room(given), given.bytes))
    with _cluster() as client:
        machines = importlib.import_module("foretell.dask").Machines(client, fs)
        return _dask(given, client, lambda paths: machines.map(_checksum, paths))
