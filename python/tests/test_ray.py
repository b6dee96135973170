"""Ray's workers, real processes of a local cluster."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

from foretell.fs import ForetellFileSystem
from foretell.ray import Machines
from store import Store, serving

# What Ray warns of is its own.
pytestmark = pytest.mark.filterwarnings("ignore")
ray: Any = import_module("ray")

PATHS = [f"bucket/{at:03}" for at in range(120)]


@pytest.fixture
def store() -> Iterator[Store]:
    with serving() as one:
        one.objects = {path: random.Random(path).randbytes(5000) for path in PATHS}
        yield one


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


def file_system(store: Store) -> ForetellFileSystem:
    return ForetellFileSystem("s3", store.target, timeout=20, part_bytes=5000, skip_instance_cache=True)


def reading() -> Callable[[ForetellFileSystem, str], tuple[int, bytes]]:
    """Sent as it is: workers do not find this module."""

    def read(fs: ForetellFileSystem, path: str) -> tuple[int, bytes]:
        return os.getpid(), fs.cat_file(path)

    return read


def test_workers_fetch_each_object_once_in_three_epochs_and_a_node_may_go(store: Store, cluster: Any) -> None:
    fs = file_system(store)
    machines = Machines(fs)
    processes = set()
    for epoch in range(3):
        order = random.Random(epoch).sample(PATHS, len(PATHS))
        got = ray.get(machines.map(reading(), order))
        assert [data for _, data in got] == [store.objects[path] for path in order]
        processes |= {process for process, _ in got}
    assert len(processes) > 1 and os.getpid() not in processes
    asked = store.asked("GET")
    # One request in twenty may be made twice, if its answer is slow.
    assert sorted(set(asked)) == PATHS and len(asked) <= 1.05 * len(PATHS)
    with pytest.raises(FileNotFoundError, match="no such object"):
        ray.get(machines.map(reading(), ["bucket/no"]))
    one, second = cluster
    one.remove_node(second)
    got = ray.get(machines.map(reading(), PATHS))
    assert [data for _, data in got] == [store.objects[path] for path in PATHS]
