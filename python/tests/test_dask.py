"""Dask's workers, real processes of a local cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from distributed import Client, LocalCluster

from foretell._machines import place
from foretell.dask import Machines
from store import Store
from workers import PATHS, check_three_epochs, file_system, reading, store

# What of Dask is not typed.
local_cluster: Any = LocalCluster
connected: Any = Client


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    cluster = local_cluster(n_workers=4, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, connected(cluster) as client:
        yield client


def test_four_workers_fetch_each_object_once_in_three_epochs(store: Store, client: Any) -> None:
    fs = file_system(store, part_bytes=5000)
    machines = Machines(client, fs)
    check_three_epochs(store, lambda read, order: client.gather(machines.map(read, order)))
    # Ahead of its use, and not because a task waited for it.
    statistics = fs.statistics()
    assert statistics.prefetches > statistics.demand_fetches


def test_two_machines_share_what_they_have_fetched_also_where_a_task_is_given_away(store: Store, client: Any) -> None:
    # Two machines that share no memory: each has a pool of its own, and neither has the client's.
    fs = file_system(store, part_bytes=5000)
    machines = Machines(client, fs, machine=lambda worker: f"machine {int(worker.name) % 2}")
    check_three_epochs(store, lambda read, order: client.gather(machines.map(read, order)))
    assert fs.statistics().references == 0
    # Whoever reads all of them gets half from the other one.
    store.requests.clear()

    def all_of_them(fs: Any, path: str, others: list[str]) -> tuple[list[bytes], int]:
        return [fs.cat_file(one) for one in others], fs._peers.answered

    store.delay_seconds = 0.1
    for path in PATHS[:2]:
        got, answered = client.gather(machines.map(all_of_them, [path], others=PATHS))[0]
        assert got == [store.objects[path] for path in PATHS]
        assert answered > len(PATHS) / 4
    # No more than what was tried by the store to know which way is quicker.
    assert len(store.asked("GET")) < len(PATHS) / 4


def test_a_task_that_fails_says_so_and_a_later_order_takes_the_place_of_the_first(
    store: Store, client: Any
) -> None:
    fs = file_system(store, part_bytes=5000)
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
