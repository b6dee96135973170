"""What the contenders of ./x bench buffers have in common: objects, orders, file systems."""

from __future__ import annotations

import argparse
import importlib
import random
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


def s3fs_at(endpoint: str) -> Any:
    # Installed for this benchmark alone.
    return importlib.import_module("s3fs").S3FileSystem(endpoint_url=endpoint, **CREDENTIALS)


def plain(given: argparse.Namespace) -> Any:
    return s3fs_at(given.endpoint)


def simplecache(given: argparse.Namespace) -> Any:
    """Whole files on disk, without a bound. (`filecache`, which asks whether they are old, fails when threads share it.)"""
    of = importlib.import_module("fsspec").filesystem
    return of("simplecache", fs=plain(given))


def obstore(given: argparse.Namespace) -> Any:
    return importlib.import_module("obstore.fsspec").FsspecStore(
        "s3",
        aws_endpoint=given.endpoint,
        aws_access_key_id=CREDENTIALS["key"],
        aws_secret_access_key=CREDENTIALS["secret"],
        aws_region="us-east-1",
        client_options={"allow_http": True},
    )


def pooled(given: argparse.Namespace, budget_bytes: int, part_bytes: int | None = None) -> Any:
    from foretell.fs import ForetellFileSystem

    return ForetellFileSystem(
        target_protocol="s3",
        target_options={"endpoint_url": given.endpoint, **CREDENTIALS},
        budget_bytes=budget_bytes,
        part_bytes=part_bytes,
        recorded_references=1 << 22,
    )


def listed(fs: Any) -> Any:
    """Both know from a listing what there is, and ask for no object's state."""
    fs.find(f"{BUCKET}/images")
    return fs


def room(given: argparse.Namespace) -> int:
    """For all objects."""
    return int(given.objects * given.bytes * 1.1)
