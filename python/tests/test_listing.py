"""Trees of a store are listed by few requests, and copied by many at the same time."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from fsspec.callbacks import Callback  # type: ignore[import-untyped]
from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]

from store import Store, file_system

NAMES = [f"{year}/{month}/{day}.csv" for year in (1, 2, 3) for month in (1, 2) for day in range(5)]


def filled(store: Store) -> MemoryFileSystem:
    """The same files as fsspec finds them elsewhere."""
    memory = MemoryFileSystem()
    memory.store.clear()
    memory.pseudo_dirs[:] = [""]
    for name in NAMES:
        store.objects[f"bucket/t/{name}"] = name.encode()
        memory.pipe(f"/bucket/t/{name}", name.encode())
    return memory


@pytest.mark.parametrize("withdirs", [False, True])
@pytest.mark.parametrize("maxdepth", [None, 1, 2, 3])
@pytest.mark.parametrize("path", ["bucket", "bucket/t", "bucket/t/", "bucket/t/1/1/0.csv", "bucket/no"])
def test_what_is_found_is_what_is_found_elsewhere(
    store: Store, path: str, maxdepth: int | None, withdirs: bool
) -> None:
    memory = filled(store)
    found = file_system(store).find(path, maxdepth=maxdepth, withdirs=withdirs, detail=True)
    others = memory.find(f"/{path}", maxdepth=maxdepth, withdirs=withdirs, detail=True)
    kinds = {name: entry["type"] for name, entry in found.items()}
    assert kinds == {name[1:]: entry.get("type", "file") for name, entry in others.items()}
    assert list(found) == sorted(found)


def test_a_pattern_at_any_depth_and_a_whole_tree_take_one_request(store: Store) -> None:
    filled(store)
    fs = file_system(store)
    store.requests.clear()
    assert len(fs.glob("bucket/**/0.csv")) == 6
    assert len(fs.find("bucket/t", withdirs=True)) == 40
    assert len(fs.expand_path("bucket/t", recursive=True)) == 40
    assert store.requests == [("GET", "bucket")] * 3


def test_folders_beside_each_other_are_listed_at_the_same_time(store: Store) -> None:
    filled(store)
    fs = file_system(store)
    top = fs.ls("bucket/t", detail=False)
    store.requests.clear()
    store.gate.clear()
    looking = threading.Thread(target=fs._all_listed, args=(top,))
    looking.start()
    try:
        while len(store.requests) < 3:
            assert looking.is_alive()
    finally:
        store.gate.set()
        looking.join()
    store.requests.clear()
    found = fs.glob("bucket/t/*/*/4.csv")
    assert found == [f"bucket/t/{name}" for name in NAMES if name.endswith("4.csv")]
    assert len(store.requests) == 1 + 3 + 6


def test_a_mark_of_an_empty_folder_is_no_file(store: Store) -> None:
    store.objects = {"bucket/t/a/": b"", "bucket/t/b": b"", "bucket/t/c/": b"", "bucket/t/c/d": b"1"}
    found = file_system(store).find("bucket/t", withdirs=True, detail=True)
    kinds = {name: entry["type"] for name, entry in found.items()}
    folders = dict.fromkeys(["bucket/t", "bucket/t/a", "bucket/t/c"], "directory")
    assert kinds == folders | dict.fromkeys(["bucket/t/b", "bucket/t/c/d"], "file")


def test_a_store_that_refuses_has_not_said_that_nothing_matches(store: Store) -> None:
    filled(store)
    fs = file_system(store)
    for pattern in ("bucket/**/0.csv", "bucket/*/1/*/0.csv"):
        store.refusals, store.refused_with = 1000, 403
        with pytest.raises(PermissionError):
            fs.glob(pattern)
    store.refusals = 0
    assert fs.glob("bucket/no*/*/x") == []


def test_files_are_copied_together(store: Store, tmp_path: Path) -> None:
    filled(store)
    fs = file_system(store)
    paths = fs.find("bucket")
    counting = Callback()
    store.requests.clear()
    store.gate.clear()
    copying = threading.Thread(
        target=fs.get, args=(paths, [str(tmp_path / path) for path in paths]), kwargs={"callback": counting}
    )
    copying.start()
    try:
        # All are asked for before the first is answered.
        while len(store.requests) < len(paths):
            assert copying.is_alive()
    finally:
        store.gate.set()
        copying.join()
    assert [(tmp_path / "bucket/t" / name).read_text() for name in NAMES] == NAMES
    assert (counting.size, counting.value) == (len(NAMES), len(NAMES))
    fs.get("bucket/t", str(tmp_path / "copy"), recursive=True)
    assert [(tmp_path / "copy" / name).read_text() for name in NAMES] == NAMES
    fs.get("bucket/t/1/*/0.csv", str(tmp_path / "flat") + "/")
    with pytest.raises(FileNotFoundError, match="no such object"):
        fs.get("bucket/no", str(tmp_path / "no"))
