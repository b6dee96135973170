"""Libraries that open URLs, or take a file system, read by foretell's as they are."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foretell.fs import ForetellFileSystem
from store import Store, serving

# What libraries warn of is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")

ROWS = 10_000


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    table: Any = import_module("pandas").DataFrame(
        {"id": np.arange(ROWS), "half": np.arange(ROWS) / 2, "name": [f"n{at % 7}" for at in range(ROWS)]}
    )
    with serving() as one:
        columns = io.BytesIO()
        table.to_parquet(columns, row_group_size=2000)
        one.objects = {
            "bucket/table/a.parquet": columns.getvalue(),
            "bucket/table/b.parquet": columns.getvalue(),
            "bucket/a.csv": table.to_csv(index=False).encode(),
            "bucket/a.jsonl": table.head(100).to_json(orient="records", lines=True).encode(),
        }
        one.objects["bucket/a.csv.gz"] = gzip.compress(one.objects["bucket/a.csv"])
        yield one


@pytest.fixture
def chained(store: Store) -> dict[str, Any]:
    """Options of "foretell::s3://...", a hop each. New ones: some libraries change what they are given."""
    return {"s3": store.target, "foretell": {"budget_bytes": 8 << 20, "timeout": 20}}


@pytest.fixture
def alone(store: Store) -> dict[str, Any]:
    """Options of "foretell://..."."""
    return {"target_protocol": "s3", "target_options": store.target, "budget_bytes": 8 << 20, "timeout": 20}


@pytest.fixture
def fs(alone: dict[str, Any]) -> ForetellFileSystem:
    return ForetellFileSystem(**alone)


def test_pandas(fs: ForetellFileSystem, chained: dict[str, Any], alone: dict[str, Any]) -> None:
    pandas: Any = import_module("pandas")
    for table in (
        pandas.read_parquet("foretell::s3://bucket/table/a.parquet", storage_options=chained),
        pandas.read_parquet("foretell://bucket/table/a.parquet", storage_options=alone),
        pandas.read_parquet("bucket/table/a.parquet", filesystem=fs),
        pandas.read_csv("foretell::s3://bucket/a.csv", storage_options=chained),
        # pandas looks at the name alone if nothing is chained.
        pandas.read_csv("foretell::s3://bucket/a.csv.gz", storage_options=chained, compression="gzip"),
        pandas.read_csv("foretell://bucket/a.csv.gz", storage_options=alone),
    ):
        assert len(table) == ROWS and table["half"].sum() == sum(range(ROWS)) / 2
    both = pandas.read_parquet("foretell::s3://bucket/table", storage_options=chained, columns=["id"])
    assert both.shape == (2 * ROWS, 1)
    lines = pandas.read_json("foretell::s3://bucket/a.jsonl", storage_options=chained, lines=True)
    assert list(lines["id"]) == list(range(100))
    with pytest.raises(FileNotFoundError, match="no such object"):
        pandas.read_csv("foretell::s3://bucket/no.csv", storage_options=chained)


def test_arrow(fs: ForetellFileSystem) -> None:
    parquet, dataset, arrow = (import_module(f"pyarrow.{name}") for name in ("parquet", "dataset", "fs"))
    assert parquet.read_table("bucket/table", filesystem=fs).num_rows == 2 * ROWS
    assert parquet.ParquetFile(fs.open("bucket/table/a.parquet")).read_row_group(4)["id"][0].as_py() == 8000
    both = dataset.dataset("bucket/table", filesystem=fs, format="parquet")
    assert both.to_table(filter=dataset.field("id") < 5).num_rows == 10
    inner = arrow.PyFileSystem(arrow.FSSpecHandler(fs))
    found = inner.get_file_info(arrow.FileSelector("bucket", recursive=True))
    assert {one.path: one.size for one in found if one.is_file} == fs.du("bucket", total=False)
    assert all(one.mtime_ns for one in found if one.is_file)
    kinds = [one.type.name for one in inner.get_file_info(["bucket", "bucket/table", "bucket/no"])]
    assert kinds == ["Directory", "Directory", "NotFound"]


def test_polars(fs: ForetellFileSystem) -> None:
    polars: Any = import_module("polars")
    with fs.open("bucket/table/a.parquet") as file:
        assert polars.scan_parquet(file).select(polars.col("id").sum()).collect().item() == sum(range(ROWS))
    with fs.open("bucket/a.csv") as file:
        assert polars.read_csv(file).height == ROWS
    both = import_module("pyarrow.dataset").dataset("bucket/table", filesystem=fs)
    assert polars.scan_pyarrow_dataset(both).filter(polars.col("id") < 5).collect().height == 10


def test_duckdb(fs: ForetellFileSystem) -> None:
    duckdb: Any = import_module("duckdb")
    with duckdb.connect() as connection:
        connection.register_filesystem(fs)

        def asked(query: str) -> Any:
            return connection.sql(query).fetchall()

        assert asked("select count(*), sum(id) from 'foretell://bucket/table/*.parquet'") == [
            (2 * ROWS, 2 * sum(range(ROWS)))
        ]
        assert asked("select count(*) from 'foretell://bucket/a.csv'") == [(ROWS,)]
        with pytest.raises(duckdb.IOException, match="No files found"):
            asked("select * from 'foretell://bucket/no.parquet'")


def test_zarr(store: Store, chained: dict[str, Any], alone: dict[str, Any]) -> None:
    zarr, storage = import_module("zarr"), import_module("zarr.storage")
    kept: dict[str, Any] = {}
    group = zarr.open_group(storage.MemoryStore(kept), mode="w")
    group.create_array("x", shape=(100, 100), chunks=(10, 10), dtype="i8")[:] = np.arange(10_000).reshape(100, 100)
    store.objects |= {f"bucket/zarr/{key}": value.to_bytes() for key, value in kept.items()}
    for place, options in (
        ("foretell::s3://bucket/zarr", {"storage_options": chained}),
        ("foretell://bucket/zarr", {"storage_options": alone}),
        (storage.FsspecStore(ForetellFileSystem(**alone, asynchronous=True), True, "bucket/zarr"), {}),
        (storage.FsspecStore(ForetellFileSystem(**alone), True, "bucket/zarr"), {}),
    ):
        group = zarr.open_group(place, mode="r", **options)
        assert list(group.keys()) == ["x"]
        assert np.array_equal(group["x"][:], np.arange(10_000).reshape(100, 100))
        assert group["x"][99, 99] == 9999


def test_datasets(
    chained: dict[str, Any], alone: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "HF_HOME", str(tmp_path / "home"))
    monkeypatch.setitem(os.environ, "HF_HUB_DISABLE_TELEMETRY", "1")
    datasets: Any = import_module("datasets")
    datasets.disable_progress_bars()

    def loaded(kind: str, files: str, options: dict[str, Any], *, streaming: bool = False) -> Any:
        cache = str(tmp_path / "cache")
        return datasets.load_dataset(
            kind, data_files=files, storage_options=options, split="train", cache_dir=cache, streaming=streaming
        )

    assert len(loaded("parquet", "foretell::s3://bucket/table/*.parquet", chained)) == 2 * ROWS
    assert len(loaded("csv", "foretell::s3://bucket/a.csv", chained)) == ROWS
    # A chain is not streamed: datasets takes its first hop for a local file.
    one_hop = {"foretell": alone}
    assert len(loaded("parquet", "foretell://bucket/table/a.parquet", one_hop)) == ROWS
    streamed = loaded("parquet", "foretell://bucket/table/*.parquet", one_hop, streaming=True)
    assert sum(row["id"] for row in streamed) == 2 * sum(range(ROWS))
