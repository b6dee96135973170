"""Objects of stores in Ray: one pool a node, which is told what will be read there, and in which order.

    import ray
    from foretell.fs import ForetellFileSystem
    from foretell.ray import Machines

    ray.init(...)
    fs = ForetellFileSystem("s3", budget_bytes=4 << 30)  # a budget a node
    machines = Machines(fs)
    for epoch in range(3):
        results = ray.get(machines.map(decode, shuffled(paths)))  # decode(fs, path), in the workers

The workers of a node read from one pool, that of an actor there, or the driver's where that runs on the same machine. A path
always goes to the same node, as long as that is there, so that what an epoch has fetched the next one finds. Each
node's pool is told its share of the order before the first task begins. A node that is lost is lost with its pool: its paths go to
others from the next call on, and tasks that were on their way read by pools of their own.

Nothing is sent from node to node but what Ray sends anyhow.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any, Concatenate, ParamSpec, TypeVar

import ray as typed_ray
from ray.exceptions import GetTimeoutError, RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from foretell._machines import act, disclose, shares
from foretell.fs import ForetellFileSystem

__all__ = ["Machines"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# Its types know actors and tasks of decorated classes and functions alone.
ray: Any = typed_ray

# So long a node's actor may take to begin, and to take a list.
_BEGIN_SECONDS = 60


class _Pool:
    """On a node: has its pool, as long as the Machines that made it."""

    def __init__(self, sent: bytes) -> None:
        self._fs: ForetellFileSystem = pickle.loads(sent)

    def sent(self) -> bytes:
        return pickle.dumps(self._fs)

    def disclose(self, paths: list[str]) -> int:
        return disclose(self._fs, paths)


class Machines:
    """The nodes of a cluster, each with a pool.

    fs: what the workers read by; its budget is one node's. On the driver's machine the pool is the driver's. Nodes that join
        later get no paths; make another one of these then.
    """

    def __init__(self, fs: ForetellFileSystem) -> None:
        if not ray.is_initialized():
            raise RuntimeError("there is no cluster yet; call ray.init() first")
        processors = {
            node["NodeID"]: node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"]
        }
        # Nodes without processors have no tasks.
        self._processors = {node: count for node, count in sorted(processors.items()) if count > 0}
        if not self._processors:
            raise ValueError("no node of the cluster has a processor for tasks")
        pool, sent = ray.remote(_Pool), pickle.dumps(fs)
        self._pools = {
            node: pool.options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(sent)
            for node in self._processors
        }
        self._sent = {node: ray.get(one.sent.remote(), timeout=_BEGIN_SECONDS) for node, one in self._pools.items()}

    def map(
        self,
        function: Callable[Concatenate[ForetellFileSystem, str, Arguments], Result],
        paths: Iterable[str],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> list[Any]:
        """function(fs, path, ...) for each path, begun in this order, on the node that has or gets it.

        What an earlier call has disclosed and nobody has read yet is withdrawn. Returns references to the results, in the order of the
        paths.
        """
        ordered = list(paths)
        its = self._told(ordered)
        task = ray.remote(act)
        by_node = {
            node: task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=True)) for node in its
        }
        node_of = {at: node for node, share in its.items() for at in share}
        # Sent once, and not with each task.
        what = ray.put(function)
        return [
            by_node[node_of[at]].remote(path, self._sent[node_of[at]], what, args, kwargs) for at, path in enumerate(ordered)
        ]

    def _told(self, paths: list[str]) -> dict[str, list[int]]:
        """The shares of the nodes, each told its own. Those that are lost get none."""
        while self._processors:
            its = shares(paths, self._processors)
            told = {
                node: self._pools[node].disclose.remote([paths[at] for at in share]) for node, share in its.items() if share
            }
            lost = [node for node, one in told.items() if not _is_there(one)]
            if not lost:
                return its
            for node in lost:
                del self._processors[node], self._pools[node]
        raise RuntimeError("all nodes that had a pool are lost; make another Machines")


def _is_there(told: Any) -> bool:
    try:
        ray.get(told, timeout=_BEGIN_SECONDS)
    except (RayActorError, GetTimeoutError):
        return False
    return True
