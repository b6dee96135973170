"""The recipes of docs/buffers.md by PyTorch itself, where it is installed: `./x test-torch` does that, as it is larger than all else
that the tests use together."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from foretell.fs import ForetellFileSystem
from foretell.tar import Samples
from foretell.torch import DisclosingSampler, Objects
from images import Images, decoded
from store import Store, serving
from test_tar import SHARDS, archive, sample

torch = import_module("torch")
data = import_module("torch.utils.data")

OBJECTS = 120
BYTES = 5000
PATHS = [f"bucket/{at:03}" for at in range(OBJECTS)]
EPOCHS = 3


@pytest.fixture
def store() -> Iterator[Store]:
    with serving() as one:
        one.objects = {path: random.Random(path).randbytes(BYTES) for path in PATHS}
        for shard, path in enumerate(SHARDS):
            one.objects[path] = archive({k: v for at in range(25) for k, v in sample(f"{shard}-{at:03}").items()})
        torch.manual_seed(7)
        yield one


def file_system(store: Store, **options: Any) -> ForetellFileSystem:
    """With memory for half of the objects, each of which is a part."""
    options = {"budget_bytes": OBJECTS // 2 * BYTES, "part_bytes": BYTES, "recorded_references": 1 << 12, **options}
    fs = ForetellFileSystem("s3", store.target, timeout=60, skip_instance_cache=True, **options)
    fs.find("bucket/0")
    return fs


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
@pytest.mark.parametrize("in_batches", [False, True])
def test_shuffled_epochs_are_fetched_about_as_seldom_as_can_be(
    store: Store, start_method: str, in_batches: bool
) -> None:
    fs = file_system(store)
    fs.find("bucket")
    images = Images(fs, PATHS)
    inside = data.RandomSampler(images)
    if in_batches:
        inside = data.BatchSampler(inside, 8, drop_last=False)
    sampler = DisclosingSampler(inside, Objects(fs, PATHS), window=OBJECTS, epochs=EPOCHS)
    how: dict[str, Any] = {"batch_sampler": sampler} if in_batches else {"batch_size": 8, "sampler": sampler}
    loader = data.DataLoader(
        images, num_workers=2, persistent_workers=True, multiprocessing_context=start_method, **how
    )
    orders = []
    for _ in range(EPOCHS):
        order = []
        for at, checksum in loader:
            assert checksum.tolist() == [zlib.crc32(store.objects[PATHS[one]]) for one in at.tolist()]
            order += at.tolist()
        assert sorted(order) == list(range(OBJECTS))
        orders.append(order)
    assert orders[0] != orders[1]
    assert store.asked("HEAD") == []
    statistics = fs.statistics()
    assert statistics.references == EPOCHS * OBJECTS and statistics.disclosed_ahead == 0
    fetched = statistics.demand_fetches + statistics.prefetches
    assert statistics.best_fetches is not None and fetched <= 1.1 * statistics.best_fetches


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_samples_of_shards_are_a_data_set(store: Store, start_method: str) -> None:
    fs = file_system(store, budget_bytes=4 << 20, part_bytes=4096)
    samples = Samples.of(fs, fs.glob("bucket/shards/*.tar"))
    sampler = DisclosingSampler(data.RandomSampler(samples), samples, window=len(samples))
    loader = data.DataLoader(
        samples, batch_size=5, sampler=sampler, collate_fn=decoded, num_workers=2, multiprocessing_context=start_method
    )
    found = {key: checksum for batch in loader for key, checksum in batch}
    assert found == {
        f"{shard}-{at:03}": zlib.crc32(sample(f"{shard}-{at:03}")[f"{shard}-{at:03}.jpg"])
        for shard in range(len(SHARDS))
        for at in range(25)
    }


@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_an_epoch_that_is_given_up_is_withdrawn_and_the_next_one_goes_on(store: Store, start_method: str) -> None:
    fs = file_system(store)
    images = Images(fs, PATHS)
    sampler = DisclosingSampler(data.RandomSampler(images), Objects(fs, PATHS), window=OBJECTS)
    loader = data.DataLoader(images, batch_size=8, sampler=sampler, num_workers=2, multiprocessing_context=start_method)
    for _ in zip(range(3), loader):
        pass
    assert fs.statistics().disclosed_ahead == 0
    assert sorted(at for batch, _ in loader for at in batch.tolist()) == list(range(OBJECTS))
