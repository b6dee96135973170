"""Samples in tar files."""

from __future__ import annotations

import io
import json
import pickle
import random
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from foretell.fs import ForetellFileSystem
from foretell.pool import ChangedError
from foretell.tar import Samples
from foretell.torch import DisclosingSampler
from store import Store, serving

SHARDS = [f"bucket/shards/{at}.tar" for at in range(4)]


def archive(files: dict[str, bytes]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as made:
        folder = tarfile.TarInfo("a.folder")
        folder.type = tarfile.DIRTYPE
        made.addfile(folder)
        for name, content in files.items():
            one = tarfile.TarInfo(name)
            one.size = len(content)
            made.addfile(one, io.BytesIO(content))
    return written.getvalue()


def sample(key: str) -> dict[str, bytes]:
    return {f"{key}.jpg": random.Random(key).randbytes(9000), f"{key}.seg.png": b"", f"{key}.cls": key.encode()}


@pytest.fixture
def store() -> Iterator[Store]:
    with serving() as one:
        for shard in range(len(SHARDS)):
            files: dict[str, bytes] = {".hidden": b"no sample"}
            for at in range(25):
                # One that is longer than the old format has names for.
                files |= sample(f"{'long/' * 30 if at == 3 else 'v1.0/'}{shard}-{at:03}")
            one.objects[SHARDS[shard]] = archive(files)
        yield one


def file_system(store: Store, **options: Any) -> ForetellFileSystem:
    options = {"part_bytes": 4096, "timeout": 20, "budget_bytes": 400 << 10, **options}
    return ForetellFileSystem("s3", store.target, skip_instance_cache=True, **options)


def test_samples_are_found_and_read_in_any_order_ahead(store: Store) -> None:
    fs = file_system(store)
    found = Samples.of(fs, fs.glob("bucket/shards/*.tar"))
    # Another pool, in which nothing is.
    fs = file_system(store, budget_bytes=4 << 20)
    samples = Samples(fs, found.shards)
    assert len(samples) == 100
    keys = set()
    for at in DisclosingSampler(random.Random(1).sample(range(100), 100), samples, window=100):
        one = samples[at]
        key = one.pop("__key__")
        keys.add(key)
        assert one == {name[len(key) + 1 :]: content for name, content in sample(key).items()}
    assert len(keys) == 100 and "v1.0/2-007" in keys and f"{'long/' * 30}0-003" in keys
    statistics = fs.statistics()
    assert statistics.prefetches > statistics.demand_fetches
    # Parts that two samples share may be read as one.
    assert statistics.disclosed_ahead < 10


def test_a_shard_of_small_files_takes_few_requests_and_of_large_ones_few_bytes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = file_system(store)
    Samples.of(fs, SHARDS[:1])
    assert len(store.asked("GET")) < 25
    monkeypatch.setattr("foretell.tar._SHORT_BYTES", 1 << 10)
    store.objects["bucket/large.tar"] = archive({f"{at}.bin": bytes(1 << 20) for at in range(8)})
    fs = file_system(store, part_bytes=8192)
    samples = Samples.of(fs, ["bucket/large.tar"])
    assert fs.statistics().fetched_bytes < 1 << 20
    assert len(samples) == 8 and samples[5] == {"__key__": "5", "bin": bytes(1 << 20)}


def test_an_index_is_saved_for_as_long_as_its_shards_are_the_same(store: Store, tmp_path: Path) -> None:
    fs = file_system(store)
    samples = Samples.of(fs, SHARDS)
    saved = tmp_path / "samples.json"
    samples.save(saved)
    store.requests.clear()
    again = Samples.load(file_system(store, budget_bytes=300 << 10), saved)
    assert not store.asked("GET")
    assert len(again) == 100 and again[77] == samples[77] == pickle.loads(pickle.dumps(samples))[77]
    assert [path.name for path in tmp_path.iterdir()] == ["samples.json"]
    store.objects[SHARDS[1]] = archive(sample("other"))
    with pytest.raises(ChangedError, match=r"shards/1.tar: it was changed since .*samples.json was made"):
        Samples.load(file_system(store, budget_bytes=200 << 10), saved)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "Expecting value"),
        ("{}", "not enough values"),
        ('["other", []]', "it does not begin with"),
        ('["foretell tar index 1", [["a", "b", [["c", -1, 2]]]]]', "a file has no place"),
        ('["foretell tar index 1", [["a", 1, []]]]', "a shard has no path"),
        ('["foretell tar index 1", [["a", "b", [[]]]]]', "missing"),
        ('["foretell tar index 1", 5]', "not iterable"),
    ],
)
def test_what_is_no_index_is_said_in_one_line(store: Store, tmp_path: Path, content: str, said: str) -> None:
    saved = tmp_path / "wrong.json"
    saved.write_text(content)
    with pytest.raises(ValueError, match=r"wrong.json: no index of tar files") as raised:
        Samples.load(file_system(store), saved)
    assert said in str(raised.value) and "\n" not in str(raised.value)


def test_what_is_no_shard_is_said_in_one_line(store: Store) -> None:
    store.objects["bucket/text"] = b"no archive" * 100
    store.objects["bucket/cut"] = store.objects[SHARDS[0]][:15_000]
    store.objects["bucket/empty"] = b""
    for name, said in (("text", "no tar file: "), ("cut", "no tar file: "), ("empty", "no tar file: ")):
        with pytest.raises(ValueError, match=f"bucket/{name}: {said}") as raised:
            Samples.of(file_system(store), [f"bucket/{name}"])
        assert "\n" not in str(raised.value)
    with pytest.raises(FileNotFoundError):
        Samples.of(file_system(store), ["bucket/no"])
    with pytest.raises(IndexError):
        Samples.of(file_system(store), SHARDS)[100]


def test_the_index_has_what_tarfile_finds(store: Store) -> None:
    found = Samples.of(file_system(store), SHARDS[:1]).shards[0]
    with tarfile.open(fileobj=io.BytesIO(store.objects[SHARDS[0]])) as whole:
        expected = [(one.name, one.offset_data, one.size) for one in whole if one.isreg() and one.name != ".hidden"]
    assert found.members == expected
    assert json.loads(json.dumps(found.members)) == [list(member) for member in expected]


def test_a_path_is_one_shard(store: Store) -> None:
    fs = file_system(store)
    assert len(Samples.of(fs, SHARDS[0])) == len(Samples.of(fs, SHARDS[:1])) == 25
