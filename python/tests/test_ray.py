"""Ray's workers, real processes of a local cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from foretell.ray import Machines
from store import Store
from workers import PATHS, check_three_epochs, file_system, reading, store

# What Ray warns of is its own.
pytestmark = pytest.mark.filterwarnings("ignore")
ray: Any = import_module("ray")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    one = import_module("ray.cluster_utils").Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False, "object_store_memory": 80 << 20}
    )
    second = one.add_node(num_cpus=2, object_store_memory=80 << 20)
    ray.init(address=one.address, log_to_driver=False, logging_level="error")
    yield one, second
    ray.shutdown()
    one.shutdown()


def test_workers_fetch_each_object_once_in_three_epochs_and_a_node_may_go(store: Store, cluster: Any) -> None:
    fs = file_system(store, part_bytes=5000)
    machines = Machines(fs)
    check_three_epochs(store, lambda read, order: ray.get(machines.map(read, order)))
    with pytest.raises(FileNotFoundError, match="no such object"):
        ray.get(machines.map(reading(), ["bucket/no"]))
    # A task on another node than the one that a path goes to gets its bytes from there.
    path = PATHS[0]

    def asks_all(fs: Any, mine: str) -> list[Any]:
        etag = fs.opened(path).stamp.etag
        # Who is not there says nothing, and neither does one that has another state of the object.
        assert fs._peers.read(path, fs.opened(path), 5, 10) == fs.cat_file(path, 5, 15)
        nodes = list(fs._peers._machines)
        return [fs._peers._ask(node, path, etag, 5, 10) for node in nodes] + [fs._peers._ask(nodes[0], path, "other", 5, 10)]

    bytes_of_it = store.objects[path][5:15]
    assert ray.get(machines.map(asks_all, [path]))[0] == [bytes_of_it, bytes_of_it, None]
    one, second = cluster
    one.remove_node(second)
    got = ray.get(machines.map(reading(), PATHS))
    assert [data for _, data in got] == [store.objects[path] for path in PATHS]
