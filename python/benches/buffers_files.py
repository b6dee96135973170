"""Contenders of ./x bench buffers that read large objects: from end to end, here and there, Parquet, safetensors."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import subprocess
import tempfile
import threading
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from buffers_setting import (
    BUCKET,
    CREDENTIALS,
    LARGE,
    MODEL,
    ROWS,
    SMALL,
    TABLES,
    content,
    obstore,
    path_of,
    plain,
    pooled,
    scattered,
    simplecache,
)


def s3fs_large(given: argparse.Namespace) -> dict[str, Any]:
    with plain(given).open(LARGE) as file:
        _whole(given, file)
    return {}


def s3fs_large_at_once(given: argparse.Namespace) -> dict[str, Any]:
    """As quick as it is without a file: the whole object by one request."""
    assert len(plain(given).cat_file(LARGE)) == given.large
    return {}


def _s3fs_large(given: argparse.Namespace, cache: str) -> dict[str, Any]:
    """Blocks of 8 MiB, 256 MiB of them."""
    options = {"maxblocks": 32} if cache in ("blockcache", "background") else {}
    with plain(given).open(LARGE, cache_type=cache, block_size=8 << 20, cache_options=options) as file:
        _whole(given, file)
    return {}


def s3fs_large_background(given: argparse.Namespace) -> dict[str, Any]:
    return _s3fs_large(given, "background")


def s3fs_large_readahead(given: argparse.Namespace) -> dict[str, Any]:
    return _s3fs_large(given, "readahead")


def obstore_large(given: argparse.Namespace) -> dict[str, Any]:
    with obstore(given).open(LARGE) as file:
        _whole(given, file)
    return {}


def obstore_large_at_once(given: argparse.Namespace) -> dict[str, Any]:
    assert len(obstore(given).cat_file(LARGE)) == given.large
    return {}


def foretell_large(given: argparse.Namespace) -> dict[str, Any]:
    with pooled(given, 256 << 20).open(LARGE) as file:
        _whole(given, file)
    return {}


def foretell_large_at_once(given: argparse.Namespace) -> dict[str, Any]:
    assert len(pooled(given, 256 << 20).cat_file(LARGE)) == given.large
    return {}


def _scattered(given: argparse.Namespace, cat: Callable[..., bytes]) -> None:
    def one(at: int) -> None:
        assert len(cat(LARGE, start=at, end=at + SMALL)) == SMALL

    with ThreadPoolExecutor(given.threads) as threads:
        for _ in threads.map(one, scattered(given)):
            pass


def s3fs_scattered(given: argparse.Namespace) -> dict[str, Any]:
    fs = plain(given)
    fs.info(LARGE)
    _scattered(given, fs.cat_file)
    return {}


def obstore_scattered(given: argparse.Namespace) -> dict[str, Any]:
    _scattered(given, obstore(given).cat_file)
    return {}


def _s3fs_scattered(given: argparse.Namespace, cache: str, block_bytes: int) -> dict[str, Any]:
    """A file a thread, as files have one position; 64 MiB for all of them."""
    fs = plain(given)
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
    fs = pooled(given, 64 << 20, part_bytes)
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
    return _parquet(plain(given))


def s3fs_parquet_blocks(given: argparse.Namespace) -> dict[str, Any]:
    kind = importlib.import_module("s3fs").S3FileSystem
    fs = kind(
        endpoint_url=given.endpoint, default_cache_type="blockcache", default_block_size=1 << 20, **CREDENTIALS
    )
    return _parquet(fs)


def simplecache_parquet(given: argparse.Namespace) -> dict[str, Any]:
    return _parquet(simplecache(given))


def obstore_parquet(given: argparse.Namespace) -> dict[str, Any]:
    return _parquet(obstore(given))


def pyarrow_parquet(given: argparse.Namespace) -> dict[str, Any]:
    fs = importlib.import_module("pyarrow.fs").S3FileSystem(
        access_key=CREDENTIALS["key"],
        secret_key=CREDENTIALS["secret"],
        endpoint_override=given.endpoint,
        region="us-east-1",
    )
    return _parquet(fs)


def foretell_parquet(given: argparse.Namespace) -> dict[str, Any]:
    return _parquet(pooled(given, 256 << 20))


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
    return _duckdb(plain(given), "s3")


def foretell_duckdb(given: argparse.Namespace) -> dict[str, Any]:
    return _duckdb(pooled(given, 256 << 20), "foretell")


def s3fs_polars(given: argparse.Namespace) -> dict[str, Any]:
    return _polars(plain(given))


def foretell_polars(given: argparse.Namespace) -> dict[str, Any]:
    return _polars(pooled(given, 256 << 20))


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
    return _tensors(given, load(plain(given).cat_file(MODEL)).values())


def s3fs_model_local(given: argparse.Namespace) -> dict[str, Any]:
    """By way of a local file."""
    load = importlib.import_module("safetensors.numpy").load_file
    with tempfile.TemporaryDirectory(prefix="foretell-bench-") as folder:
        plain(given).get_file(MODEL, f"{folder}/model")
        return _tensors(given, load(f"{folder}/model").values())


def obstore_model(given: argparse.Namespace) -> dict[str, Any]:
    load = importlib.import_module("safetensors.numpy").load
    return _tensors(given, load(obstore(given).cat_file(MODEL)).values())


def foretell_model(given: argparse.Namespace) -> dict[str, Any]:
    load = importlib.import_module("foretell.safetensors").load
    return _tensors(given, (tensor.numpy() for _, tensor in load(pooled(given, 256 << 20), MODEL)))


# ---- a program that knows only files: all objects once, one after the other, in an order of its own --------------------


def _job(given: argparse.Namespace, read: Callable[[int], bytes], *, by_name: bool = False) -> dict[str, Any]:
    order = list(range(given.objects))
    if not by_name:
        random.Random(7).shuffle(order)
    began = time.perf_counter()
    for at in order:
        assert zlib.crc32(read(at)) == given.checksums[at], path_of(at)
    return {"seconds": time.perf_counter() - began}


@contextmanager
def _mounted(given: argparse.Namespace, flags: list[str]) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="foretell-bench-") as folder:
        command = [given.foretell, "mount", f"s3://{BUCKET}/images", folder, "--memory", str(given.objects * given.bytes)]
        command += ["--option", f"endpoint={given.endpoint}", "--option", "allow_http=true", *flags]
        keys = {"AWS_ACCESS_KEY_ID": CREDENTIALS["key"], "AWS_SECRET_ACCESS_KEY": CREDENTIALS["secret"]}
        mounted = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, **keys})
        try:
            assert mounted.stdout is not None and mounted.stdout.readline()
            yield Path(folder)
        finally:
            mounted.terminate()
            mounted.wait()


def s3fs_job(given: argparse.Namespace) -> dict[str, Any]:
    fs = plain(given)
    fs.find(f"{BUCKET}/images")
    return _job(given, lambda at: fs.cat_file(path_of(at)))


def mounted_job(given: argparse.Namespace) -> dict[str, Any]:
    with _mounted(given, []) as folder:
        return _job(given, lambda at: (folder / path_of(at).rsplit("/", 1)[1]).read_bytes())


def mounted_job_by_name(given: argparse.Namespace) -> dict[str, Any]:
    """As cp -r does, or tar."""
    with _mounted(given, []) as folder:
        names = sorted(path.name for path in folder.iterdir())
        return _job(given, lambda at: (folder / names[at]).read_bytes(), by_name=True)


def mounted_job_again(given: argparse.Namespace) -> dict[str, Any]:
    """The second night: mounted anew, and nothing of the first one is in memory."""
    with tempfile.TemporaryDirectory(prefix="foretell-bench-") as kept:
        for night in range(2):
            if night == 1:
                urllib.request.urlopen(f"{given.endpoint}/-/counts").read()
            with _mounted(given, ["--profile", f"{kept}/profile"]) as folder:
                found = _job(given, lambda at: (folder / path_of(at).rsplit("/", 1)[1]).read_bytes())
    return found
