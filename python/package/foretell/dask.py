"""Objects of stores in Dask: one pool a machine, which is told what will be read there, and in which order.

    from distributed import Client
    from foretell.dask import Machines
    from foretell.fs import ForetellFileSystem

    client = Client(...)
    fs = ForetellFileSystem("s3", budget_bytes=4 << 30)  # a budget a machine
    machines = Machines(client, fs)
    for epoch in range(3):
        futures = machines.map(decode, shuffled(paths))  # decode(fs, path), in the workers

The workers of a machine read from one pool, so that all of them fetch as much as one. A path always goes to the same
machine, as long as that is there, so that what an epoch has fetched the next one finds: the memory of all machines is used
as one. Each machine's pool is told its share of the order before the first task begins. A machine that is lost is lost
with its pool: its tasks go to others, whose pools fetch what they have not got.

Nothing is sent from machine to machine but what Dask sends anyhow.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Callable, Iterable
from typing import Any, Concatenate, ParamSpec, TypeVar

from distributed import Client, Future

from foretell._machines import act, disclose, file_system, shares
from foretell.fs import ForetellFileSystem

__all__ = ["Machines"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# In a process that has a pool for others: as long as it lives.
_held: list[ForetellFileSystem] = []


def _hold(fs: ForetellFileSystem) -> bytes:
    """In one worker of a machine: what the others there attach to its pool by."""
    _held.append(fs)
    return pickle.dumps(fs)


def _disclose(sent: bytes, paths: list[str]) -> int:
    return disclose(file_system(sent), paths)


class Machines:
    """The machines that a cluster's workers run on, each with a pool.

    client: of the cluster. Workers that join it later read by their machine's pool, too, but their machine gets no paths of
        its own if it was not there; make another one of these then.
    fs: what the workers read by; its budget is one machine's. Where workers run on the client's machine the pool is the
        client's.
    """

    def __init__(self, client: Client, fs: ForetellFileSystem) -> None:
        self._client = client
        self._workers: dict[str, list[str]] = {}
        for worker, machine in sorted(client.run(socket.gethostname).items()):
            self._workers.setdefault(machine, []).append(worker)
        if not self._workers:
            raise ValueError("the cluster has no workers yet; wait for some with client.wait_for_workers")
        threads = client.nthreads()  # type: ignore[no-untyped-call]
        self._threads = {
            machine: sum(threads.get(worker, 1) for worker in workers)
            for machine, workers in self._workers.items()
        }
        first = {machine: workers[0] for machine, workers in self._workers.items()}
        sent = client.run(_hold, fs, workers=list(first.values()))
        self._sent = {machine: sent[worker] for machine, worker in first.items()}

    def map(
        self,
        function: Callable[Concatenate[ForetellFileSystem, str, Arguments], Result],
        paths: Iterable[str],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> list[Future[Any]]:
        """function(fs, path, ...) for each path, in this order, on the machine that has or gets it.

        What an earlier call has disclosed and nobody has read yet is withdrawn. Returns the futures in the order of the paths.
        """
        ordered = list(paths)
        futures: dict[int, Future[Any]] = {}
        for machine, share in shares(ordered, self._threads).items():
            its = [ordered[at] for at in share]
            if not its:
                continue
            sent, workers = self._sent[machine], self._workers[machine]
            self._client.run(_disclose, sent, its, workers=workers[:1])
            made = self._client.map(
                act,
                its,
                sent=sent,
                function=function,
                args=args,
                kwargs=kwargs,
                workers=workers,
                # Those of a machine that is lost, or of a worker.
                allow_other_workers=True,
                pure=False,
            )
            futures |= zip(share, made)
        return [futures[at] for at in range(len(ordered))]
