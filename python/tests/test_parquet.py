"""Groups of rows that are disclosed from the footer."""

from __future__ import annotations

import io
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from foretell.fs import ForetellFileSystem
from foretell.parquet import disclose, tables
from store import Store, serving

ROWS, GROUP = 40_000, 4000
PATHS = [f"bucket/{at}.parquet" for at in range(3)]


@pytest.fixture
def store() -> Iterator[Store]:
    arrow: Any = import_module("pyarrow")
    with serving() as one:
        for seed, path in enumerate(PATHS):
            random = np.random.default_rng(seed)
            table = arrow.table(
                {f"c{at}": random.random(ROWS) for at in range(6)}
                | {"pair": [{"x": at, "y": at % 5} for at in range(ROWS)], "day": [str(at % 30) for at in range(ROWS)]}
            )
            written = io.BytesIO()
            import_module("pyarrow.parquet").write_table(table, written, row_group_size=GROUP)
            one.objects[path] = written.getvalue()
        one.objects["bucket/text"] = b"no columns" * 100
        yield one


def file_system(store: Store) -> ForetellFileSystem:
    options: dict[str, Any] = {"part_bytes": 4096, "timeout": 20, "budget_bytes": 4 << 20}
    return ForetellFileSystem("s3", store.target, skip_instance_cache=True, **options)


def bytes_of(store: Store, columns: list[str]) -> int:
    parquet = import_module("pyarrow.parquet")
    footers = [parquet.read_metadata(io.BytesIO(store.objects[path])) for path in PATHS]
    return sum(
        footer.row_group(group).column(at).total_compressed_size
        for footer in footers
        for group in range(footer.num_row_groups)
        for at in range(footer.num_columns)
        if footer.schema.column(at).path in columns
    )


def test_columns_come_before_they_are_read_and_others_not_at_all(store: Store) -> None:
    columns = ["c1", "c4"]
    fs = file_system(store)
    got = list(tables(fs, PATHS, columns))
    assert len(got) == len(PATHS) * ROWS // GROUP and got[0].column_names == columns
    parquet = import_module("pyarrow.parquet")
    for at, path in enumerate(PATHS):
        whole = parquet.read_table(io.BytesIO(store.objects[path]), columns=columns)
        assert whole.slice(GROUP, GROUP).equals(got[at * ROWS // GROUP + 1].combine_chunks())
    statistics = fs.statistics()
    # Footers, both ends of each column, and what was read ahead of where a group went on as the last one ended.
    most = bytes_of(store, columns) + len(PATHS) * (65536 + 4096) + len(got) * len(columns) * 2 * 4096
    assert statistics.fetched_bytes <= 1.1 * most
    assert statistics.fetched_bytes < sum(map(len, store.objects.values())) / 2
    assert statistics.prefetches > statistics.demand_fetches
    # Parts that two columns share may be read as one.
    assert statistics.disclosed_ahead < 10


def test_a_whole_data_set_is_read_by_arrow_as_it_was_disclosed(store: Store) -> None:
    fs = file_system(store)
    assert disclose(fs, PATHS, ["day", "pair.x"]) == len(PATHS) * ROWS // GROUP
    table = import_module("pyarrow.parquet").read_table(PATHS, columns=["day", "pair.x"], filesystem=fs)
    assert table.num_rows == len(PATHS) * ROWS
    statistics = fs.statistics()
    assert statistics.prefetches > statistics.demand_fetches


def test_groups_of_rows_in_another_order(store: Store) -> None:
    order = [7, 2, 9]
    fs = file_system(store)
    got = list(tables(fs, PATHS[0], row_groups=order))
    whole = import_module("pyarrow.parquet").ParquetFile(io.BytesIO(store.objects[PATHS[0]]))
    assert all(one.equals(whole.read_row_group(group)) for one, group in zip(got, order, strict=True))
    assert disclose(fs, [], ["c1"]) == 0


@pytest.mark.parametrize(
    ("act", "kind", "line"),
    [
        (lambda fs: disclose(fs, PATHS, ["c1", "c9"]), KeyError, "bucket/0.parquet: no column 'c9'"),
        (lambda fs: disclose(fs, PATHS, ["pai"]), KeyError, "no column 'pai'"),
        (lambda fs: disclose(fs, PATHS, row_groups=[10]), IndexError, "no group of rows 10, it has 10"),
        (lambda fs: next(tables(fs, "bucket/text")), ValueError, "bucket/text: no Parquet file: "),
        (lambda fs: next(tables(fs, "bucket/no")), FileNotFoundError, "bucket/no: no such object"),
    ],
)
def test_mistakes_are_said_in_one_line(store: Store, act: Any, kind: type[Exception], line: str) -> None:
    fs = file_system(store)
    with pytest.raises(kind) as raised:
        act(fs)
    assert line in str(raised.value) and "\n" not in str(raised.value)
    assert fs.statistics().disclosed_ahead == 0
