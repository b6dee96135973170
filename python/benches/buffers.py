"""Objects of a store that is as far away as a real one, by foretell's pool and by what a user would take else.

    ./x bench buffers [--objects 2000] [--threads 8] [--rounds 3] [--json FILE]

Shuffled epochs over many small objects with memory for half of them, by threads and by worker processes; one large
object from beginning to end and here and there; five aggregations over Parquet files. Beside: s3fs without a cache and
with those of fsspec, obstore, and PyArrow's own file system, each with the same memory as far as it can be told.
Then what has a target of its own: PyTorch's DataLoader with two workers, five aggregations by DuckDB and by Polars, a
model of safetensors, one, two and four processes on one data set, and Dask with four workers.
The store is versitygw on this machine; 15 ms to the first byte and 200 MB/s for all are added in between
(slow_store.py). Every object's checksum is compared. Each contender runs in a process of its own, in turn.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import multiprocessing
import os
import random
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

BUCKET = "bucket"
LARGE = f"{BUCKET}/large"
MODEL = f"{BUCKET}/model.safetensors"
# Bytes of a scattered read.
SMALL = 4096
# Parquet files, and rows of each: about 60 MB together.
TABLES = 8
ROWS = 100_000
CREDENTIALS = {"key": "bench", "secret": "bench-secret"}


def content(seed: int, length: int) -> bytes:
    return random.Random(seed).randbytes(length)


def orders(objects: int, epochs: int) -> list[list[int]]:
    return [random.Random(epoch).sample(range(objects), objects) for epoch in range(epochs)]


def scattered(given: argparse.Namespace) -> list[int]:
    return [at * SMALL for at in random.Random(1).choices(range(given.large // SMALL), k=given.reads)]


def path_of(at: int) -> str:
    return f"{BUCKET}/images/{at:05}"


# ---- contenders: each reads all epochs, and gives what it knows of its own fetches ---------------------------


def _s3fs(endpoint: str) -> Any:
    # Installed for this benchmark alone.
    return importlib.import_module("s3fs").S3FileSystem(endpoint_url=endpoint, **CREDENTIALS)


def _plain(given: argparse.Namespace) -> Any:
    return _s3fs(given.endpoint)


def _simplecache(given: argparse.Namespace) -> Any:
    """Whole files on disk, without a bound. (`filecache`, which asks whether they are old, fails when threads share it.)"""
    of = importlib.import_module("fsspec").filesystem
    return of("simplecache", fs=_plain(given))


def _obstore(given: argparse.Namespace) -> Any:
    return importlib.import_module("obstore.fsspec").FsspecStore(
        "s3",
        aws_endpoint=given.endpoint,
        aws_access_key_id=CREDENTIALS["key"],
        aws_secret_access_key=CREDENTIALS["secret"],
        aws_region="us-east-1",
        client_options={"allow_http": True},
    )


def _pooled(given: argparse.Namespace, budget_bytes: int, part_bytes: int | None = None) -> Any:
    from foretell.fs import ForetellFileSystem

    return ForetellFileSystem(
        target_protocol="s3",
        target_options={"endpoint_url": given.endpoint, **CREDENTIALS},
        budget_bytes=budget_bytes,
        part_bytes=part_bytes,
        recorded_references=1 << 22,
    )


def _listed(fs: Any) -> Any:
    """Both know from a listing what there is, and ask for no object's state."""
    fs.find(f"{BUCKET}/images")
    return fs


def _read(given: argparse.Namespace, order: list[int], cat: Callable[[str], bytes]) -> None:
    def one(at: int) -> None:
        assert zlib.crc32(cat(path_of(at))) == given.checksums[at], path_of(at)
        if given.compute_ms:
            time.sleep(given.compute_ms / 1e3)

    with ThreadPoolExecutor(given.threads) as threads:
        for _ in threads.map(one, order):
            pass


def s3fs_threads(given: argparse.Namespace) -> dict[str, Any]:
    fs = _listed(_plain(given))
    for order in orders(given.objects, given.epochs):
        _read(given, order, fs.cat_file)
    return {}


def s3fs_batches(given: argparse.Namespace) -> dict[str, Any]:
    """Its own concurrency: a list of paths at a time."""
    fs = _listed(_plain(given))
    for order in orders(given.objects, given.epochs):
        for start in range(0, len(order), 64):
            some = order[start : start + 64]
            got = fs.cat([path_of(at) for at in some])
            assert all(zlib.crc32(got[path_of(at)]) == given.checksums[at] for at in some)
            if given.compute_ms:
                time.sleep(given.compute_ms * len(some) / given.threads / 1e3)
    return {}


def obstore_threads(given: argparse.Namespace) -> dict[str, Any]:
    fs = _obstore(given)
    for order in orders(given.objects, given.epochs):
        _read(given, order, fs.cat_file)
    return {}


def simplecache_threads(given: argparse.Namespace) -> dict[str, Any]:
    fs = _simplecache(given)
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
    return _in_workers(given, _plain(given), lambda order: None)


def foretell_workers_alone(given: argparse.Namespace) -> dict[str, Any]:
    """Without what a process has from another: each worker has a part of the memory."""
    fs = _pooled(given, given.objects * given.bytes // 2 // given.workers, given.bytes)
    fs.__class__.__reduce__ = fsspec_reduce
    return _in_workers(given, fs, lambda order: None)


def fsspec_reduce(self: Any) -> Any:
    from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped]

    return AbstractFileSystem.__reduce__(self)


def foretell_workers(given: argparse.Namespace) -> dict[str, Any]:
    fs = _listed(_pooled(given, given.objects * given.bytes // 2, given.bytes))
    _in_workers(given, fs, lambda order: fs.disclose([(path_of(at), 0, None) for at in order]))
    return {"best": fs.statistics().best_fetches}


def _foretell(given: argparse.Namespace, *, told: str, part_bytes: int | None = None) -> dict[str, Any]:
    fs = _listed(_pooled(given, given.objects * given.bytes // 2, part_bytes))
    epochs = orders(given.objects, given.epochs)
    if told == "all":
        fs.disclose([(path_of(at), 0, None) for order in epochs for at in order])
    for order in epochs:
        if told == "epoch":
            fs.disclose([(path_of(at), 0, None) for at in order])
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


def foretell_epoch_untuned(given: argparse.Namespace) -> dict[str, Any]:
    return _foretell(given, told="epoch")


def foretell_untold(given: argparse.Namespace) -> dict[str, Any]:
    return _foretell(given, told="nothing", part_bytes=given.bytes)


def s3fs_large(given: argparse.Namespace) -> dict[str, Any]:
    with _plain(given).open(LARGE) as file:
        _whole(given, file)
    return {}


def s3fs_large_at_once(given: argparse.Namespace) -> dict[str, Any]:
    """As quick as it is without a file: the whole object by one request."""
    assert len(_plain(given).cat_file(LARGE)) == given.large
    return {}


def _s3fs_large(given: argparse.Namespace, cache: str) -> dict[str, Any]:
    """Blocks of 8 MiB, 256 MiB of them."""
    options = {"maxblocks": 32} if cache in ("blockcache", "background") else {}
    with _plain(given).open(LARGE, cache_type=cache, block_size=8 << 20, cache_options=options) as file:
        _whole(given, file)
    return {}


def s3fs_large_background(given: argparse.Namespace) -> dict[str, Any]:
    return _s3fs_large(given, "background")


def s3fs_large_readahead(given: argparse.Namespace) -> dict[str, Any]:
    return _s3fs_large(given, "readahead")


def obstore_large(given: argparse.Namespace) -> dict[str, Any]:
    with _obstore(given).open(LARGE) as file:
        _whole(given, file)
    return {}


def obstore_large_at_once(given: argparse.Namespace) -> dict[str, Any]:
    assert len(_obstore(given).cat_file(LARGE)) == given.large
    return {}


def foretell_large(given: argparse.Namespace) -> dict[str, Any]:
    with _pooled(given, 256 << 20).open(LARGE) as file:
        _whole(given, file)
    return {}


def foretell_large_at_once(given: argparse.Namespace) -> dict[str, Any]:
    assert len(_pooled(given, 256 << 20).cat_file(LARGE)) == given.large
    return {}


def _scattered(given: argparse.Namespace, cat: Callable[..., bytes]) -> None:
    def one(at: int) -> None:
        assert len(cat(LARGE, start=at, end=at + SMALL)) == SMALL

    with ThreadPoolExecutor(given.threads) as threads:
        for _ in threads.map(one, scattered(given)):
            pass


def s3fs_scattered(given: argparse.Namespace) -> dict[str, Any]:
    fs = _plain(given)
    fs.info(LARGE)
    _scattered(given, fs.cat_file)
    return {}


def obstore_scattered(given: argparse.Namespace) -> dict[str, Any]:
    _scattered(given, _obstore(given).cat_file)
    return {}


def _s3fs_scattered(given: argparse.Namespace, cache: str, block_bytes: int) -> dict[str, Any]:
    """A file a thread, as files have one position; 64 MiB for all of them."""
    fs = _plain(given)
    mine = threading.local()
    blocks = (64 << 20) // given.threads // block_bytes
    options = {"maxblocks": blocks} if cache == "blockcache" else {}

    def cat(path: str, start: int, end: int) -> bytes:
        if not hasattr(mine, "file"):
            mine.file = fs.open(path, cache_type=cache, block_size=block_bytes, cache_options=options)
        mine.file.seek(start)
        data: bytes = mine.file.read(end - start)
        return data

    _scattered(given, cat)
    return {}


def s3fs_scattered_blocks(given: argparse.Namespace) -> dict[str, Any]:
    return _s3fs_scattered(given, "blockcache", 64 << 10)


def s3fs_scattered_readahead(given: argparse.Namespace) -> dict[str, Any]:
    return _s3fs_scattered(given, "readahead", 1 << 20)


def _foretell_scattered(given: argparse.Namespace, part_bytes: int | None = None, *, told: bool) -> dict[str, Any]:
    fs = _pooled(given, 64 << 20, part_bytes)
    if told:
        fs.disclose([(LARGE, at, SMALL) for at in scattered(given)])
    _scattered(given, fs.cat_file)
    return {}


def foretell_scattered(given: argparse.Namespace) -> dict[str, Any]:
    return _foretell_scattered(given, told=False)


def foretell_scattered_told(given: argparse.Namespace) -> dict[str, Any]:
    return _foretell_scattered(given, told=True)


def foretell_scattered_small(given: argparse.Namespace) -> dict[str, Any]:
    return _foretell_scattered(given, SMALL, told=True)


def _whole(given: argparse.Namespace, file: Any) -> None:
    length = 0
    while piece := file.read(1 << 20):
        length += len(piece)
    assert length == given.large


# ---- Parquet: columns of a table in several files, five questions -------------------------------------------------


def _rows(part: int) -> Any:
    pyarrow = importlib.import_module("pyarrow")
    numpy = importlib.import_module("numpy")
    random_ = numpy.random.default_rng(part)
    columns = {f"value{at}": random_.integers(0, 1 << 40, ROWS) for at in range(10)}
    columns |= {"kind": random_.integers(0, 20, ROWS), "day": numpy.arange(ROWS) // 1000}
    return pyarrow.table(columns)


def fill_tables(fs: Any) -> None:
    parquet = importlib.import_module("pyarrow.parquet")
    for part in range(TABLES):
        with fs.open(f"{BUCKET}/tables/{part}.parquet", "wb") as file:
            parquet.write_table(_rows(part), file, row_group_size=ROWS // 4, use_dictionary=["kind"])


def _questions(of: Callable[[], Any]) -> dict[str, Any]:
    """Each opens the data set anew, as five programs or cells of a notebook do."""
    compute = importlib.import_module("pyarrow.compute")
    day = compute.field("day")
    asked: list[tuple[list[str], Any, Any]] = [
        (["kind", "value0"], None, lambda t: t.group_by("kind").aggregate([("value0", "sum")])),
        (["kind", "value0", "value1"], None, lambda t: t.group_by("kind").aggregate([("value1", "max")])),
        (["value1", "value2"], None, lambda t: t.select(["value1"]).group_by([]).aggregate([("value1", "min")])),
        (["day", "value2"], day < 50, lambda t: t.group_by("day").aggregate([("value2", "mean")])),
        (["kind", "value0", "value2"], None, lambda t: t.group_by("kind").aggregate([("value2", "sum")])),
    ]
    answers = []
    for columns, only, answer in asked:
        found = answer(of().to_table(columns=columns, filter=only))
        # Sums of floating-point numbers depend on their order in the last digits.
        answers.append(f"{sum(compute.sum(one).as_py() for one in found.columns):.9g}")
    return {"answers": answers}


def _parquet(fs: Any, path: str = f"{BUCKET}/tables") -> dict[str, Any]:
    dataset = importlib.import_module("pyarrow.dataset").dataset
    return _questions(lambda: dataset(path, filesystem=fs, format="parquet"))


def s3fs_parquet(given: argparse.Namespace) -> dict[str, Any]:
    return _parquet(_plain(given))


def s3fs_parquet_blocks(given: argparse.Namespace) -> dict[str, Any]:
    kind = importlib.import_module("s3fs").S3FileSystem
    fs = kind(
        endpoint_url=given.endpoint, default_cache_type="blockcache", default_block_size=1 << 20, **CREDENTIALS
    )
    return _parquet(fs)


def simplecache_parquet(given: argparse.Namespace) -> dict[str, Any]:
    return _parquet(_simplecache(given))


def obstore_parquet(given: argparse.Namespace) -> dict[str, Any]:
    return _parquet(_obstore(given))


def pyarrow_parquet(given: argparse.Namespace) -> dict[str, Any]:
    fs = importlib.import_module("pyarrow.fs").S3FileSystem(
        access_key=CREDENTIALS["key"],
        secret_key=CREDENTIALS["secret"],
        endpoint_override=given.endpoint,
        region="us-east-1",
    )
    return _parquet(fs)


def foretell_parquet(given: argparse.Namespace) -> dict[str, Any]:
    return _parquet(_pooled(given, 256 << 20))


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
    loader = loader_of(
        Images(given, fs),
        batch_size=32,
        # Looked at when an epoch begins.
        sampler=order,
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


def s3fs_loader(given: argparse.Namespace) -> dict[str, Any]:
    """Spawned: it refuses to be used after a fork."""
    return _loader(given, _listed(_plain(given)), "spawn", "nothing")


def _foretell_loader(given: argparse.Namespace, start: str, told: str) -> dict[str, Any]:
    fs = _listed(_pooled(given, given.objects * given.bytes // 2, given.bytes))
    return _loader(given, fs, start, told)


def foretell_loader_spawned(given: argparse.Namespace) -> dict[str, Any]:
    return _foretell_loader(given, "spawn", "all")


def foretell_loader_forked(given: argparse.Namespace) -> dict[str, Any]:
    return _foretell_loader(given, "fork", "all")


def foretell_loader_epoch(given: argparse.Namespace) -> dict[str, Any]:
    return _foretell_loader(given, "fork", "epoch")


# ---- the same questions in SQL -------------------------------------------------------------------------------------

QUERIES = [
    "select kind, sum(value0) as x from t group by kind",
    "select kind, max(value1) as x from t group by kind having sum(value0) > 0",
    "select min(value1) as x, max(value2) as y from t",
    "select day, avg(value2) as x from t where day < 50 group by day",
    "select kind, sum(value2) as x from t where value0 >= 0 group by kind",
]


def _answers(rows: list[list[tuple[Any, ...]]]) -> dict[str, Any]:
    """Sums of floating-point numbers depend on their order in the last digits."""
    return {"answers": [[f"{sum(float(one) for one in column):.9g}" for column in zip(*found)] for found in rows]}


def _duckdb(fs: Any, protocol: str) -> dict[str, Any]:
    """A connection for each question, as five programs have."""
    duckdb = importlib.import_module("duckdb")
    rows = []
    for query in QUERIES:
        connection = duckdb.connect()
        connection.register_filesystem(fs)
        source = f"read_parquet('{protocol}://{BUCKET}/tables/*.parquet')"
        rows.append(connection.sql(query.replace("from t ", f"from {source} ").replace("from t", f"from {source}")).fetchall())
        connection.close()
    return _answers(rows)


def _polars(fs: Any) -> dict[str, Any]:
    polars = importlib.import_module("polars")
    rows = []
    for query in QUERIES:
        files = [polars.scan_parquet(fs.open(f"{BUCKET}/tables/{part}.parquet")) for part in range(TABLES)]
        rows.append(polars.SQLContext(t=polars.concat(files)).execute(query, eager=True).rows())
    return _answers(rows)


def s3fs_duckdb(given: argparse.Namespace) -> dict[str, Any]:
    return _duckdb(_plain(given), "s3")


def foretell_duckdb(given: argparse.Namespace) -> dict[str, Any]:
    return _duckdb(_pooled(given, 256 << 20), "foretell")


def s3fs_polars(given: argparse.Namespace) -> dict[str, Any]:
    return _polars(_plain(given))


def foretell_polars(given: argparse.Namespace) -> dict[str, Any]:
    return _polars(_pooled(given, 256 << 20))


# ---- a model of safetensors ----------------------------------------------------------------------------------------


def _model_header(given: argparse.Namespace) -> bytes:
    """Tensors of 8 MiB each."""
    size = 8 << 20
    tensors = {
        f"layer.{at:03}": {"dtype": "F32", "shape": [2048, 1024], "data_offsets": [at * size, (at + 1) * size]}
        for at in range(given.large // size)
    }
    header = json.dumps(tensors).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header


def fill_model(given: argparse.Namespace, fs: Any) -> None:
    with fs.open(MODEL, "wb") as file:
        file.write(_model_header(given))
        for at in range(given.large // (8 << 20)):
            file.write(b"".join(content(at * 8 + piece, 1 << 20) for piece in range(8)))


def _tensors(given: argparse.Namespace, tensors: Any) -> dict[str, Any]:
    assert sum(array.nbytes for array in tensors) == given.large // (8 << 20) * (8 << 20)
    return {}


def s3fs_model(given: argparse.Namespace) -> dict[str, Any]:
    """The whole object, and then its tensors."""
    load = importlib.import_module("safetensors.numpy").load
    return _tensors(given, load(_plain(given).cat_file(MODEL)).values())


def s3fs_model_local(given: argparse.Namespace) -> dict[str, Any]:
    """By way of a local file."""
    load = importlib.import_module("safetensors.numpy").load_file
    with tempfile.TemporaryDirectory(prefix="foretell-bench-") as folder:
        _plain(given).get_file(MODEL, f"{folder}/model")
        return _tensors(given, load(f"{folder}/model").values())


def obstore_model(given: argparse.Namespace) -> dict[str, Any]:
    load = importlib.import_module("safetensors.numpy").load
    return _tensors(given, load(_obstore(given).cat_file(MODEL)).values())


def foretell_model(given: argparse.Namespace) -> dict[str, Any]:
    load = importlib.import_module("foretell.safetensors").load
    return _tensors(given, (tensor.numpy() for _, tensor in load(_pooled(given, 256 << 20), MODEL)))


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


def _room(given: argparse.Namespace) -> int:
    """For all objects."""
    return int(given.objects * given.bytes * 1.1)


def s3fs_processes(given: argparse.Namespace) -> dict[str, Any]:
    return _processes(given, _plain(given), 4)


def foretell_one_process(given: argparse.Namespace) -> dict[str, Any]:
    return _processes(given, _listed(_pooled(given, _room(given), given.bytes)), 1)


def foretell_two_processes(given: argparse.Namespace) -> dict[str, Any]:
    return _processes(given, _listed(_pooled(given, _room(given), given.bytes)), 2)


def foretell_four_processes(given: argparse.Namespace) -> dict[str, Any]:
    return _processes(given, _listed(_pooled(given, _room(given), given.bytes)), 4)


@contextmanager
def _service(given: argparse.Namespace) -> Iterator[str]:
    """A service for this user; where it listens."""
    with tempfile.TemporaryDirectory(prefix="foretell-bench-") as folder:
        command = [given.foretell, "buffers", "--socket", f"{folder}/socket"]
        command += ["--budget", str(_room(given)), "--part", str(given.bytes)]
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
    return _read_all(_listed(fs), checksums, seed)


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
    fs = _listed(_plain(given))
    with _cluster() as client:
        return _dask(given, client, lambda paths: client.map(partial(_checksum, fs), paths, pure=False))


def foretell_dask(given: argparse.Namespace) -> dict[str, Any]:
    fs = _listed(_pooled(given, _room(given), given.bytes))
    with _cluster() as client:
        machines = importlib.import_module("foretell.dask").Machines(client, fs)
        return _dask(given, client, lambda paths: machines.map(_checksum, paths))


EPOCHS = {
    "s3fs, threads": s3fs_threads,
    "s3fs, cat of 64 paths": s3fs_batches,
    "obstore, threads": obstore_threads,
    "simplecache, all on disk": simplecache_threads,
    "foretell, nothing told": foretell_untold,
    "foretell, an epoch told at a time, parts of 16 KiB": foretell_epoch_untuned,
    "foretell, an epoch told at a time": foretell_epoch,
    "foretell, all epochs told": foretell_all,
}
LARGES = {
    "s3fs, read in pieces": s3fs_large,
    "s3fs, cat_file": s3fs_large_at_once,
    "s3fs, readahead of 8 MiB": s3fs_large_readahead,
    "s3fs, background blocks of 8 MiB": s3fs_large_background,
    "obstore, read in pieces": obstore_large,
    "obstore, cat_file": obstore_large_at_once,
    "foretell, read in pieces": foretell_large,
    "foretell, cat_file": foretell_large_at_once,
}
SCATTERED = {
    "s3fs, threads": s3fs_scattered,
    "s3fs, blockcache of 64 KiB": s3fs_scattered_blocks,
    "s3fs, readahead of 1 MiB": s3fs_scattered_readahead,
    "obstore, threads": obstore_scattered,
    "foretell, nothing told": foretell_scattered,
    "foretell, told": foretell_scattered_told,
    "foretell, told, parts of 4 KiB": foretell_scattered_small,
}
WORKERS = {
    "s3fs": s3fs_workers,
    "foretell, a pool each, nothing told": foretell_workers_alone,
    "foretell, one pool, an epoch told at a time": foretell_workers,
}
PARQUET = {
    "s3fs": s3fs_parquet,
    "s3fs, blockcache of 1 MiB": s3fs_parquet_blocks,
    "simplecache, all on disk": simplecache_parquet,
    "obstore": obstore_parquet,
    "PyArrow's own": pyarrow_parquet,
    "foretell, nothing told": foretell_parquet,
}
LOADER = {
    "s3fs": s3fs_loader,
    "foretell, all epochs told, spawned": foretell_loader_spawned,
    "foretell, all epochs told, forked": foretell_loader_forked,
    "foretell, an epoch told at a time, forked": foretell_loader_epoch,
}
DUCKDB = {"s3fs": s3fs_duckdb, "foretell": foretell_duckdb}
POLARS = {"s3fs": s3fs_polars, "foretell": foretell_polars}
MODELS = {
    "s3fs, cat_file": s3fs_model,
    "s3fs, by a local file": s3fs_model_local,
    "obstore, cat_file": obstore_model,
    "foretell": foretell_model,
}
PROCESSES = {
    "s3fs, four": s3fs_processes,
    "foretell, one": foretell_one_process,
    "foretell, two": foretell_two_processes,
    "foretell, four": foretell_four_processes,
    "foretell, one, by the service": foretell_one_served,
    "foretell, two, by the service": foretell_two_served,
    "foretell, four, by the service": foretell_four_served,
}
DASK = {"s3fs": s3fs_dask, "foretell": foretell_dask}
# By the name of the table.
CONTENDERS = {
    "epochs": EPOCHS,
    "workers": WORKERS,
    "large": LARGES,
    "scattered": SCATTERED,
    "parquet": PARQUET,
    "loader": LOADER,
    "duckdb": DUCKDB,
    "polars": POLARS,
    "safetensors": MODELS,
    "processes": PROCESSES,
    "dask": DASK,
}
# What a table needs beside what python/benches/requirements.txt names: too large to be installed unasked.
NEEDED = {"loader": "torch"}
# Objects where no other number is given: the target of a table may say how many.
USUALLY = 2000
OBJECTS = {"loader": 4000}


def objects(given: argparse.Namespace, table: str) -> int:
    number: int = given.objects or OBJECTS.get(table, USUALLY)
    return number




# ---- the store and the way to it -------------------------------------------------------------------------------


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def store(given: argparse.Namespace, folder: Path) -> Iterator[str]:
    """Serves objects from a folder; the address of the slow way to it."""
    port = _free_port()
    keys = ["--access", CREDENTIALS["key"], "--secret", CREDENTIALS["secret"]]
    (folder / "data").mkdir()
    (folder / "meta").mkdir()
    backend = ["posix", "--sidecar", str(folder / "meta"), str(folder / "data")]
    command = [given.server, *keys, "--port", f"127.0.0.1:{port}", "--quiet", *backend]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    line = None
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        fill(given, f"http://127.0.0.1:{port}")
        command = [sys.executable, str(Path(__file__).with_name("slow_store.py")), "--store", str(port)]
        command += ["--delay-ms", str(given.delay_ms), "--megabytes", str(given.megabytes)]
        line = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert line.stdout is not None
        yield f"http://127.0.0.1:{int(line.stdout.readline())}"
    finally:
        for process in (line, server):
            if process is not None:
                process.terminate()
                process.wait()


def fill(given: argparse.Namespace, endpoint: str) -> None:
    fs = _s3fs(endpoint)
    fs.mkdir(BUCKET)
    most = max(objects(given, table) for table in ([given.only] if given.only else CONTENDERS))
    for start in range(0, most, 256):
        some = range(start, min(start + 256, most))
        fs.pipe({path_of(at): content(at, given.bytes) for at in some})
    fill_tables(fs)
    fill_model(given, fs)
    with fs.open(LARGE, "wb") as large:
        for at in range(given.large >> 20):
            large.write(content(at, 1 << 20))


# ---- measuring ---------------------------------------------------------------------------------------------------


def run(given: argparse.Namespace, table: str, name: str) -> dict[str, Any]:
    """One contender, in a process of its own."""
    arguments = [sys.executable, __file__, "--only", table, "--contender", name, "--endpoint", given.endpoint]
    arguments += ["--objects", str(objects(given, table)), "--foretell", given.foretell]
    for option in ("epochs", "bytes", "threads", "large", "reads", "compute_ms", "decode_ms", "workers"):
        arguments += [f"--{option.replace('_', '-')}", str(getattr(given, option))]
    counts = f"{given.endpoint}/-/counts"
    urllib.request.urlopen(counts).read()
    ended = subprocess.run(arguments, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, Any] = json.loads(ended.stdout)
    return {**found, **json.loads(urllib.request.urlopen(counts).read())}


def contend(given: argparse.Namespace) -> None:
    act = CONTENDERS[given.only][given.contender]
    given.checksums = [zlib.crc32(content(at, given.bytes)) for at in range(given.objects)]
    began, used = time.perf_counter(), processor_seconds()
    known = act(given)
    seconds, processor = time.perf_counter() - began, processor_seconds() - used
    print(json.dumps({"seconds": seconds, "processor": processor, **known}))


def processor_seconds() -> float:
    """Of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def measure(given: argparse.Namespace, table: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in CONTENDERS[table]}
    for _ in range(given.rounds):
        for name, runs in found.items():
            runs.append(run(given, table, name))
    answers = {str(one.get("answers")) for runs in found.values() for one in runs}
    assert len(answers) == 1, answers
    return found


def summary(runs: list[dict[str, Any]], best_bytes: int | None) -> dict[str, float]:
    """Medians of all rounds."""

    def middle(key: str) -> float:
        return float(statistics.median(one[key] for one in runs))

    seconds = [one["seconds"] for one in runs]
    found = {"seconds": round(middle("seconds"), 2), "least": round(min(seconds), 2), "most": round(max(seconds), 2)}
    found |= {"requests": middle("requests"), "megabytes": round(middle("bytes") / 1e6)}
    if best_bytes is not None:
        found["of_best_bytes"] = round(middle("bytes") / best_bytes, 3)
    return {**found, "processor": round(middle("processor"), 1)}


def row(name: str, found: dict[str, float], plain: float) -> list[str]:
    cells = [name, f"{found['seconds']:.2f}", f"{found['least']:.2f} to {found['most']:.2f}"]
    cells += [f"{plain / found['seconds']:.2f}", f"{found['requests']:.0f}", f"{found['megabytes']:.0f}"]
    cells += [f"{found['of_best_bytes']:.3f}"] if "of_best_bytes" in found else []
    return [*cells, f"{found['processor']:.1f}"]


def table(title: str, found: dict[str, dict[str, float]]) -> None:
    first = next(iter(found.values()))
    heads = ["", "seconds", "of all rounds", "times as quick", "requests", "MB"]
    heads += ["of Belady's bytes"] if "of_best_bytes" in first else []
    heads += ["processor s"]
    print(f"\n{title}\n\n| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for name, one in found.items():
        print(f"| {' | '.join(row(name, one, first['seconds']))} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, help="instead of what each table has")
    parser.add_argument("--bytes", type=int, default=50 << 10, help="of an object")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--compute-ms", type=float, default=0.0, help="that a thread waits with each object")
    parser.add_argument("--decode-ms", type=float, default=4.0, help="that a worker of DataLoader waits with each image")
    parser.add_argument("--large", type=int, default=400 << 20, help="bytes of the large object")
    parser.add_argument("--reads", type=int, default=2000, help="scattered ones of 4 KiB in the large object")
    parser.add_argument("--delay-ms", type=float, default=15.0)
    parser.add_argument("--megabytes", type=float, default=200.0, help="a second, all answers together")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=list(CONTENDERS), help="one of the tables")
    parser.add_argument("--server", default="target/bench/versitygw")
    parser.add_argument("--foretell", default="target/release/foretell-tools", help="which has the service")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    parser.add_argument("--endpoint", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.contender:
        contend(given)
        return
    with tempfile.TemporaryDirectory(prefix="foretell-bench-") as folder:
        with store(given, Path(folder)) as given.endpoint:
            numbers = {name: value for name, value in vars(given).items() if isinstance(value, (int, float))}
            result: dict[str, Any] = {"options": numbers}
            titles = {
                "epochs": f"{given.epochs} shuffled epochs over {objects(given, 'epochs')} objects of {given.bytes} bytes, "
                f"memory for half of them, {given.threads} threads",
                "workers": f"The same in {given.workers} worker processes",
                "large": f"One object of {given.large >> 20} MiB from beginning to end, cold",
                "scattered": f"{given.reads} scattered reads of 4 KiB in that object, {given.threads} threads",
                "parquet": "Five aggregations over eight Parquet files",
                "loader": f"{given.epochs} shuffled epochs over {objects(given, 'loader')} objects, memory for half of them, "
                f"by DataLoader with two workers that take {given.decode_ms:g} ms with each",
                "duckdb": "Five aggregations over the same files by DuckDB",
                "polars": "The same by Polars",
                "safetensors": f"Tensors of {given.large >> 20} MiB, cold",
                "processes": "Processes that read all objects once, each in its own order",
                "dask": f"{given.epochs} shuffled epochs by four worker processes of Dask, memory for all objects",
            }
            for name in [given.only] if given.only else titles:
                if name in NEEDED and importlib.util.find_spec(NEEDED[name]) is None:
                    print(f"\n{titles[name]}: skipped: {NEEDED[name]} is not installed", file=sys.stderr)
                    continue
                found = measure(given, name)
                best = next((one[0]["best"] for one in found.values() if one[0].get("best")), None)
                best_bytes = best * given.bytes if best and name in ("epochs", "workers", "loader") else None
                result[name] = {who: summary(runs, best_bytes) for who, runs in found.items()}
                table(titles[name], result[name])
            if given.json:
                given.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    main()
