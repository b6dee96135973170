"""Dask's workers, real processes of a local cluster."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from distributed import Client, LocalCluster

from foretell._machines import place
from foretell.dask import Machines
from foretell.fs import ForetellFileSystem
from store import Store, serving

PATHS = [f"bucket/{at:03}" for at in range(120)]


@pytest.fixture
def store() -> Iterator[Store]:
    with serving() as one:
        one.objects = {path: random.Random(path).randbytes(5000) for path in PATHS}
        yield one


# What of Dask is not typed.
local_cluster: Any = LocalCluster
connected: Any = Client


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    cluster = local_cluster(n_workers=4, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, connected(cluster) as client:
        yield client


def file_system(store: Store) -> ForetellFileSystem:
    target = {"key": "someone", "secret": "secret", "endpoint_url": store.url}
    return ForetellFileSystem("s3", target, timeout=20, part_bytes=5000, skip_instance_cache=True)


def reading() -> Callable[[ForetellFileSystem, str], tuple[int, bytes]]:
    """Sent as it is: workers do not find this module."""

    def read(fs: ForetellFileSystem, path: str) -> tuple[int, bytes]:
        return os.getpid(), fs.cat_file(path)

    return read



def test_four_workers_fetch_each_object_once_in_three_epochs(store: Store, client: Any) -> None:
    fs = file_system(store)
    machines = Machines(client, fs)
    processes = set()
    for epoch in range(3):
        order = random.Random(epoch).sample(PATHS, len(PATHS))
        got = client.gather(machines.map(reading(), order))
        assert [data for _, data in got] == [store.objects[path] for path in order]
        processes |= {process for process, _ in got}
    assert len(processes) > 1 and os.getpid() not in processes
    asked = store.asked("GET")
    # One request in twenty may be made twice, if its answer is slow.
    assert sorted(set(asked)) == PATHS and len(asked) <= 1.05 * len(PATHS)
    # Ahead of its use, and not because a task waited for it.
    statistics = fs.statistics()
    assert statistics.prefetches > statistics.demand_fetches


def test_a_task_that_fails_says_so_and_a_later_order_takes_the_place_of_the_first(
    store: Store, client: Any
) -> None:
    fs = file_system(store)
    machines = Machines(client, fs)
    with pytest.raises(FileNotFoundError, match="no such object"):
        client.gather(machines.map(reading(), ["bucket/no"]))
    fs.disclose([(path, 0, None) for path in PATHS])
    got = client.gather(machines.map(reading(), PATHS[:10]))
    assert [data for _, data in got] == [store.objects[path] for path in PATHS[:10]]


def test_a_path_stays_with_its_machine_whoever_comes_or_goes() -> None:
    paths = [str(at) for at in range(6000)]
    three = {"a": 4, "b": 4, "c": 8}
    counts = Counter(place(path, three) for path in paths)
    assert all(abs(counts[machine] - threads * 6000 / 16) < 250 for machine, threads in three.items())
    two = {"a": 4, "b": 4}
    for path in paths:
        if place(path, three) != "c":
            assert place(path, two) == place(path, three)
