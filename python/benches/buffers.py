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
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import buffers_epochs
import buffers_files
from buffers_setting import BUCKET, CREDENTIALS, LARGE, content, path_of, s3fs_at

EPOCHS = {
    "s3fs, threads": buffers_epochs.s3fs_threads,
    "s3fs, cat of 64 paths": buffers_epochs.s3fs_batches,
    "obstore, threads": buffers_epochs.obstore_threads,
    "simplecache, all on disk": buffers_epochs.simplecache_threads,
    "foretell, nothing told": buffers_epochs.foretell_untold,
    "foretell, an epoch told at a time, parts of 16 KiB": buffers_epochs.foretell_epoch_untuned,
    "foretell, an epoch told at a time": buffers_epochs.foretell_epoch,
    "foretell, each told before the one before it ends": buffers_epochs.foretell_next,
    "foretell, all epochs told": buffers_epochs.foretell_all,
}
LARGES = {
    "s3fs, read in pieces": buffers_files.s3fs_large,
    "s3fs, cat_file": buffers_files.s3fs_large_at_once,
    "s3fs, readahead of 8 MiB": buffers_files.s3fs_large_readahead,
    "s3fs, background blocks of 8 MiB": buffers_files.s3fs_large_background,
    "obstore, read in pieces": buffers_files.obstore_large,
    "obstore, cat_file": buffers_files.obstore_large_at_once,
    "foretell, read in pieces": buffers_files.foretell_large,
    "foretell, cat_file": buffers_files.foretell_large_at_once,
}
SCATTERED = {
    "s3fs, threads": buffers_files.s3fs_scattered,
    "s3fs, blockcache of 64 KiB": buffers_files.s3fs_scattered_blocks,
    "s3fs, readahead of 1 MiB": buffers_files.s3fs_scattered_readahead,
    "obstore, threads": buffers_files.obstore_scattered,
    "foretell, nothing told": buffers_files.foretell_scattered,
    "foretell, told": buffers_files.foretell_scattered_told,
    "foretell, told, parts of 4 KiB": buffers_files.foretell_scattered_small,
}
WORKERS = {
    "s3fs": buffers_epochs.s3fs_workers,
    "foretell, a pool each, nothing told": buffers_epochs.foretell_workers_alone,
    "foretell, one pool, an epoch told at a time": buffers_epochs.foretell_workers,
}
PARQUET = {
    "s3fs": buffers_files.s3fs_parquet,
    "s3fs, blockcache of 1 MiB": buffers_files.s3fs_parquet_blocks,
    "simplecache, all on disk": buffers_files.simplecache_parquet,
    "obstore": buffers_files.obstore_parquet,
    "PyArrow's own": buffers_files.pyarrow_parquet,
    "foretell, nothing told": buffers_files.foretell_parquet,
}
LOADER = {
    "s3fs": buffers_epochs.s3fs_loader,
    "nothing is read": buffers_epochs.unread_loader,
    "foretell, all epochs told, spawned": buffers_epochs.foretell_loader_spawned,
    "foretell, all epochs told, forked": buffers_epochs.foretell_loader_forked,
    "foretell, an epoch told at a time, forked": buffers_epochs.foretell_loader_epoch,
    "foretell, DisclosingSampler of all epochs, forked": buffers_epochs.foretell_loader_sampler,
}
DUCKDB = {"s3fs": buffers_files.s3fs_duckdb, "foretell": buffers_files.foretell_duckdb}
POLARS = {"s3fs": buffers_files.s3fs_polars, "foretell": buffers_files.foretell_polars}
MODELS = {
    "s3fs, cat_file": buffers_files.s3fs_model,
    "s3fs, by a local file": buffers_files.s3fs_model_local,
    "obstore, cat_file": buffers_files.obstore_model,
    "foretell": buffers_files.foretell_model,
}
PROCESSES = {
    "s3fs, four": buffers_epochs.s3fs_processes,
    "foretell, one": buffers_epochs.foretell_one_process,
    "foretell, two": buffers_epochs.foretell_two_processes,
    "foretell, four": buffers_epochs.foretell_four_processes,
    "foretell, one, by the service": buffers_epochs.foretell_one_served,
    "foretell, two, by the service": buffers_epochs.foretell_two_served,
    "foretell, four, by the service": buffers_epochs.foretell_four_served,
}
MOUNT = {
    "s3fs, one after the other": buffers_files.s3fs_job,
    "foretell mount, the first time": buffers_files.mounted_job,
    "foretell mount, the first time, by name": buffers_files.mounted_job_by_name,
    "foretell mount --profile, the second time": buffers_files.mounted_job_again,
}
DASK = {"s3fs": buffers_epochs.s3fs_dask, "foretell": buffers_epochs.foretell_dask}
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
    "mount": MOUNT,
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
    fs = s3fs_at(endpoint)
    fs.mkdir(BUCKET)
    most = max(objects(given, table) for table in ([given.only] if given.only else CONTENDERS))
    for start in range(0, most, 256):
        some = range(start, min(start + 256, most))
        fs.pipe({path_of(at): content(at, given.bytes) for at in some})
    buffers_files.fill_tables(fs)
    buffers_files.fill_model(given, fs)
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
                "mount": f"All {objects(given, 'mount')} objects once, in an order of its own, by a program that knows only files",
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
