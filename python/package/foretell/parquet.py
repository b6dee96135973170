"""Parquet files in stores: what of them will be read is in their footers, and is disclosed from there.

    from foretell.parquet import disclose, tables

    disclose(fs, paths, columns=["price", "day"])  # fs: foretell.fs.ForetellFileSystem
    pyarrow.parquet.read_table(paths, columns=["price", "day"], filesystem=fs)

    for table in tables(fs, paths, columns=["price", "day"]):  # the same a row group at a time
        ...

A file ends with its footer, which says where the bytes of each column of each group of rows lie (https://parquet.apache.org/docs/file-format).
Footers are read by PyArrow. What is disclosed is in the order in which PyArrow reads: group by group, the columns of one group in
the order of the file, with what lies close together as one, as PyArrow asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped,import-not-found,unused-ignore]

from foretell.fs import ForetellFileSystem

__all__ = ["disclose", "tables"]

# Footers that are waited for at the same time.
_TOGETHER = 32
# Bytes between two columns that PyArrow reads as well, for the sake of one request less: hole_size_limit of its CacheOptions.
_GAP = 8192


def disclose(
    fs: ForetellFileSystem,
    paths: str | Sequence[str],
    columns: Iterable[str] | None = None,
    row_groups: Sequence[int] | None = None,
) -> int:
    """Disclose the columns of some files, group of rows by group of rows, after all that was disclosed before.

    columns: names of columns, or of what is within them ("a.b"); all without that.
    row_groups: which groups of each file, in the order in which they will be read; all without that.

    Returns how many groups of rows were taken. Raises KeyError for a column, and IndexError for a group, that a file does not
    have, and ValueError for what is no Parquet file; then nothing is disclosed.
    """
    wanted = None if columns is None else list(columns)
    footers = _footers(fs, [paths] if isinstance(paths, str) else paths)
    groups = [
        [(path, at, length) for at, length in ranges]
        for path, footer in footers
        for ranges in _groups(path, footer, fs.opened(path).length, wanted, row_groups)
    ]
    taken = fs.disclose([chunk for group in groups for chunk in group])
    for number, group in enumerate(groups):
        if taken < len(group):
            return number
        taken -= len(group)
    return len(groups)


def tables(
    fs: ForetellFileSystem,
    paths: str | Sequence[str],
    columns: Iterable[str] | None = None,
    row_groups: Sequence[int] | None = None,
) -> Iterator[Any]:
    """The groups of rows of some files, each as a table of PyArrow, with those to come fetched meanwhile.

    The arguments and errors are those of disclose().
    """
    wanted = None if columns is None else list(columns)
    names = [paths] if isinstance(paths, str) else list(paths)
    disclose(fs, names, wanted, row_groups)
    for path in names:
        with fs.open(path) as opened, pq.ParquetFile(opened, pre_buffer=True) as file:
            for group in range(file.num_row_groups) if row_groups is None else row_groups:
                yield file.read_row_group(group, columns=wanted)


def _footers(fs: ForetellFileSystem, paths: Sequence[str]) -> list[tuple[str, Any]]:
    def read(path: str) -> tuple[str, Any]:
        with fs.open(path) as file:
            try:
                return path, pq.read_metadata(file)
            # PyArrow's own is one, too.
            except ValueError as error:
                raise ValueError(f"{path}: no Parquet file: {' '.join(str(error).split())}") from error

    with ThreadPoolExecutor(min(_TOGETHER, len(paths) + 1)) as threads:
        return list(threads.map(read, paths))


def _groups(
    path: str, footer: Any, file_bytes: int, columns: list[str] | None, row_groups: Sequence[int] | None
) -> Iterator[list[tuple[int, int]]]:
    """Offsets and lengths of what is read of each group of rows."""
    names = [footer.schema.column(at).path for at in range(footer.num_columns)]
    chosen = range(len(names)) if columns is None else sorted(_chosen(path, names, columns))
    for number in range(footer.num_row_groups) if row_groups is None else row_groups:
        if not 0 <= number < footer.num_row_groups:
            raise IndexError(f"{path}: no group of rows {number}, it has {footer.num_row_groups}")
        group = footer.row_group(number)
        yield _joined(sorted(_chunk(path, group.column(at), file_bytes) for at in chosen))


def _chosen(path: str, names: list[str], columns: list[str]) -> set[int]:
    found: set[int] = set()
    for column in columns:
        its = {at for at, name in enumerate(names) if name == column or name.startswith(f"{column}.")}
        if not its:
            raise KeyError(f"{path}: no column {column!r}")
        found |= its
    return found


def _chunk(path: str, chunk: Any, file_bytes: int) -> tuple[int, int]:
    """Where the bytes of a column of a group of rows lie."""
    start: int = chunk.data_page_offset
    # Some writers say 0 where there is no dictionary.
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
        start = chunk.dictionary_page_offset
    length: int = chunk.total_compressed_size
    if start < 0 or length < 0 or start + length > file_bytes:
        raise ValueError(f"{path}: no Parquet file: a column lies outside of it")
    return start, length


def _joined(chunks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What lies close together as one."""
    joined = chunks[:1]
    for (_, _), (start, length) in pairwise(chunks):
        at, before = joined[-1]
        if start - (at + before) <= _GAP:
            joined[-1] = (at, max(before, start + length - at))
        else:
            joined.append((start, length))
    return joined
