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
others from the next call on, and tasks that were on their way read by pools of their own. A task that Ray begins on another node asks
the actor of the one that its path goes to, by Ray's object store, where that is quicker than the store (foretell._peers).

Nothing is sent from node to node but by Ray.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import uuid4

import ray as typed_ray
from ray.exceptions import GetTimeoutError, RayActorError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from foretell._machines import answer, disclose, file_system, shares
from foretell._peers import Peers
from foretell.fs import ForetellFileSystem

__all__ = ["Machines"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# Its types know actors and tasks of decorated classes and functions alone.
ray: Any = typed_ray

# So long a node's actor may take to begin, and to take a list.
_BEGIN_SECONDS = 60
# So long another node may take to answer, before the store is asked.
_ANSWER_SECONDS = 30.0
# Reads of other nodes that a node answers at a time, beside being told what to read.
_ANSWERS = 16


class _Pool:
    """On a node: has its pool, as long as the Machines that made it."""

    def __init__(self, sent: bytes) -> None:
        self._fs: ForetellFileSystem = pickle.loads(sent)

    def sent(self) -> bytes:
        return pickle.dumps(self._fs)

    def disclose(self, paths: list[str]) -> int:
        return disclose(self._fs, paths)

    def read(self, path: str, etag: str | None, offset: int, length: int) -> bytes | None:
        """For a task on another node."""
        return answer(self.sent(), path, etag, offset, length)


# In a worker: who asks other nodes, for each Machines that there is.
_peers: dict[str, Peers] = {}


def _act(
    path: str,
    home: str,
    machines: dict[str, Any],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """A task. machines: a key, and by node what its pool is attached to by, its actor, and its processors."""
    nodes: dict[str, tuple[bytes, Any, float]] = machines["nodes"]
    here = ray.get_runtime_context().get_node_id()
    fs = file_system(nodes.get(here, nodes[home])[0])
    if here in nodes and len(nodes) > 1:

        def ask(node: str, path: str, etag: str | None, offset: int, length: int) -> Any:
            return ray.get(nodes[node][1].read.remote(path, etag, offset, length), timeout=_ANSWER_SECONDS)

        weights = {node: processors for node, (_, _, processors) in nodes.items()}
        fs._peers = _peers.setdefault(machines["key"], Peers(here, weights, ask))
    return function(fs, path, *args, **kwargs)


class Machines:
    """The nodes of a cluster, each with a pool.

    fs: what the workers read by; its budget is one node's. On the driver's machine the pool is the driver's. Nodes that join
        later get no paths; make another one of these then.
    """

    def __init__(self, fs: ForetellFileSystem) -> None:
        if not ray.is_initialized():
            raise RuntimeError("there is no cluster yet; call ray.init() first")
        self._key = uuid4().hex
        processors = {
            node["NodeID"]: node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"]
        }
        # Nodes without processors have no tasks.
        self._processors = {node: count for node, count in sorted(processors.items()) if count > 0}
        if not self._processors:
            raise ValueError("no node of the cluster has a processor for tasks")
        pool, sent = ray.remote(_Pool), pickle.dumps(fs)
        self._pools = {
            node: pool.options(num_cpus=0, max_concurrency=_ANSWERS, scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(sent)
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
        task = ray.remote(_act)
        by_node = {
            node: task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=True)) for node in its
        }
        node_of = {at: node for node, share in its.items() for at in share}
        # Sent once, and not with each task.
        what = ray.put(function)
        nodes = {
            node: (self._sent[node], self._pools[node], processors) for node, processors in self._processors.items()
        }
        machines = ray.put({"key": self._key, "nodes": nodes})
        return [
            by_node[node_of[at]].remote(path, node_of[at], machines, what, args, kwargs) for at, path in enumerate(ordered)
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
