"""Objects of a store that is as far away as a real one, by plain s3fs and by foretell's pool.

    ./x bench buffers [--objects 2000] [--threads 8] [--rounds 3] [--json FILE]

Shuffled epochs over many small objects with memory for half of them, and one large object from beginning to end.
The store is versitygw on this machine; 15 ms to the first byte and 200 MB/s for all are added in between
(slow_store.py). Every object's checksum is compared. Each contender runs in a process of its own, in turn.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BUCKET = "bucket"
LARGE = f"{BUCKET}/large"
# Bytes of a scattered read.
SMALL = 4096
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


def _foretell(given: argparse.Namespace, *, told: str) -> dict[str, Any]:
    fs = _listed(_pooled(given, given.objects * given.bytes // 2, given.bytes))
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
    return _foretell(given, told="all")


def foretell_epoch(given: argparse.Namespace) -> dict[str, Any]:
    return _foretell(given, told="epoch")


def foretell_untold(given: argparse.Namespace) -> dict[str, Any]:
    return _foretell(given, told="nothing")


def s3fs_large(given: argparse.Namespace) -> dict[str, Any]:
    with _plain(given).open(LARGE) as file:
        _whole(given, file)
    return {}


def s3fs_large_at_once(given: argparse.Namespace) -> dict[str, Any]:
    """As quick as it is without a file: the whole object by one request."""
    assert len(_plain(given).cat_file(LARGE)) == given.large
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


EPOCHS = {
    "s3fs, threads": s3fs_threads,
    "s3fs, cat of 64 paths": s3fs_batches,
    "foretell, nothing told": foretell_untold,
    "foretell, an epoch told at a time": foretell_epoch,
    "foretell, all epochs told": foretell_all,
}
LARGES = {
    "s3fs, read in pieces": s3fs_large,
    "s3fs, cat_file": s3fs_large_at_once,
    "foretell, read in pieces": foretell_large,
    "foretell, cat_file": foretell_large_at_once,
}
SCATTERED = {
    "s3fs, threads": s3fs_scattered,
    "foretell, nothing told": foretell_scattered,
    "foretell, told": foretell_scattered_told,
    "foretell, told, parts of 4 KiB": foretell_scattered_small,
}
# By the name of the table.
CONTENDERS = {"epochs": EPOCHS, "large": LARGES, "scattered": SCATTERED}


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
    for start in range(0, given.objects, 256):
        some = range(start, min(start + 256, given.objects))
        fs.pipe({path_of(at): content(at, given.bytes) for at in some})
    with fs.open(LARGE, "wb") as large:
        for at in range(given.large >> 20):
            large.write(content(at, 1 << 20))


# ---- measuring ---------------------------------------------------------------------------------------------------


def run(given: argparse.Namespace, table: str, name: str) -> dict[str, Any]:
    """One contender, in a process of its own."""
    arguments = [sys.executable, __file__, "--only", table, "--contender", name, "--endpoint", given.endpoint]
    for option in ("objects", "epochs", "bytes", "threads", "large", "reads", "compute_ms"):
        arguments += [f"--{option.replace('_', '-')}", str(getattr(given, option))]
    counts = f"{given.endpoint}/-/counts"
    urllib.request.urlopen(counts).read()
    ended = subprocess.run(arguments, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, Any] = json.loads(ended.stdout)
    return {**found, **json.loads(urllib.request.urlopen(counts).read())}


def contend(given: argparse.Namespace) -> None:
    act = CONTENDERS[given.only][given.contender]
    given.checksums = [zlib.crc32(content(at, given.bytes)) for at in range(given.objects)]
    began, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    known = act(given)
    seconds, now = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    processor = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    print(json.dumps({**known, "seconds": seconds, "processor": processor, "resident": now.ru_maxrss * 1024}))


def measure(given: argparse.Namespace, table: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in CONTENDERS[table]}
    for _ in range(given.rounds):
        for name, runs in found.items():
            runs.append(run(given, table, name))
    return found


def row(name: str, runs: list[dict[str, Any]], plain: float, best: int | None) -> list[str]:
    def middle(key: str) -> float:
        return float(statistics.median(one[key] for one in runs))

    seconds = middle("seconds")
    spread = f"{min(one['seconds'] for one in runs):.2f} to {max(one['seconds'] for one in runs):.2f}"
    cells = [name, f"{seconds:.2f}", spread, f"{plain / seconds:.2f}", f"{middle('requests'):.0f}"]
    cells += [f"{middle('bytes') / 1e6:.0f}"]
    if best is not None:
        cells.append(f"{middle('bytes') / best:.3f}")
    return [*cells, f"{middle('processor'):.1f}"]


def table(title: str, found: dict[str, list[dict[str, Any]]], best_bytes: int | None) -> None:
    plain = statistics.median(one["seconds"] for one in next(iter(found.values())))
    heads = ["", "seconds", "of all rounds", "times as quick", "requests", "MB"]
    heads += ["of Belady's bytes"] if best_bytes is not None else []
    heads += ["processor s"]
    print(f"\n{title}\n\n| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for name, runs in found.items():
        print(f"| {' | '.join(row(name, runs, plain, best_bytes))} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=2000)
    parser.add_argument("--bytes", type=int, default=50 << 10, help="of an object")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--compute-ms", type=float, default=0.0, help="that a thread waits with each object")
    parser.add_argument("--large", type=int, default=400 << 20, help="bytes of the large object")
    parser.add_argument("--reads", type=int, default=2000, help="scattered ones of 4 KiB in the large object")
    parser.add_argument("--delay-ms", type=float, default=15.0)
    parser.add_argument("--megabytes", type=float, default=200.0, help="a second, all answers together")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=list(CONTENDERS), help="one of the tables")
    parser.add_argument("--server", default="target/bench/versitygw")
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
                "epochs": f"{given.epochs} shuffled epochs over {given.objects} objects of {given.bytes} bytes, "
                f"memory for half of them, {given.threads} threads",
                "large": f"One object of {given.large >> 20} MiB from beginning to end, cold",
                "scattered": f"{given.reads} scattered reads of 4 KiB in that object, {given.threads} threads",
            }
            for name in [given.only] if given.only else titles:
                found = result[name] = measure(given, name)
                best = found["foretell, all epochs told"][0]["best"] * given.bytes if name == "epochs" else None
                table(titles[name], found, best)
            if given.json:
                given.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    main()
