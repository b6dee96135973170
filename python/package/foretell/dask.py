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
as one. Each machine's pool is told its share of the order before the first task begins. A task that Dask gives to another machine
reads from the machine that its path goes to, between workers, where that is quicker than the store (foretell._peers). A machine
that is lost is lost with its pool: its tasks go to others, whose pools fetch what they have not got.

Nothing is sent from machine to machine but by Dask's own connections between its workers, which are as safe as those are made.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import uuid4

from distributed import Client, Future, Worker, WorkerPlugin

from foretell._machines import answer, disclose, file_system, shares
from foretell._peers import Peers
from foretell.fs import ForetellFileSystem

__all__ = ["Machines"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# So long another machine's worker may take to answer, before the store is asked.
_ANSWER_SECONDS = 30.0
# What a worker's handler for other machines is called.
_OPERATION = "foretell_read"


def _host(worker: Worker) -> str:
    return socket.gethostname()


@dataclass(frozen=True)
class _Machine:
    """sent: what its pool is attached to by. worker: who answers others there. threads: its weight."""

    sent: bytes
    worker: str
    threads: int


# In a process that has a pool for others: as long as it lives.
_held: list[ForetellFileSystem] = []
# In a worker: what is known of each Machines that there is.
_known: dict[str, _Here] = {}


def _hold(made: tuple[type[ForetellFileSystem], tuple[Any, ...], dict[str, Any]]) -> bytes:
    """In one worker of a machine: makes its pool, and gives what the others there attach to it by."""
    kind, args, kwargs = made
    fs = kind(*args, **{**kwargs, "skip_instance_cache": True})
    _held.append(fs)
    return pickle.dumps(fs)


def _disclose(sent: bytes, paths: list[str]) -> int:
    return disclose(file_system(sent), paths)


async def _answer(sent: bytes, path: str, etag: str | None, offset: int, length: int) -> bytes | None:
    """For a worker of another machine."""
    return await asyncio.to_thread(answer, sent, path, etag, offset, length)


class _Here:
    """What a worker knows of all machines, its own among them."""

    def __init__(self, worker: Worker, machine: str, machines: dict[str, _Machine]) -> None:
        self._worker = worker
        self._machines = machines
        self._machine = machine
        weights = {name: float(one.threads) for name, one in machines.items()}
        self._peers = Peers(machine, weights, self._ask)

    def file_system(self, home: str) -> ForetellFileSystem:
        """That of this machine; of one that came later, one of its own."""
        fs = file_system(self._machines.get(self._machine, self._machines[home]).sent)
        if self._machine in self._machines and len(self._machines) > 1:
            fs._peers = self._peers
        return fs

    def _ask(self, machine: str, path: str, etag: str | None, offset: int, length: int) -> bytes | None:
        one = self._machines[machine]

        async def ask() -> bytes | None:
            connection: Any = self._worker.rpc(one.worker)
            asked = getattr(connection, _OPERATION)
            data: bytes | None = await asked(sent=one.sent, path=path, etag=etag, offset=offset, length=length)
            return data

        waits = asyncio.run_coroutine_threadsafe(ask(), self._worker.loop.asyncio_loop)  # type: ignore[attr-defined]
        try:
            return waits.result(_ANSWER_SECONDS)
        except BaseException:
            waits.cancel()
            raise


class _Plugin(WorkerPlugin):
    """In each worker, also in those that come later."""

    def __init__(self, key: str, machine: Callable[[Worker], str], machines: dict[str, _Machine]) -> None:
        self.name = f"foretell-{key}"
        self._key, self._machine, self._machines = key, machine, machines

    def setup(self, worker: Worker) -> None:
        worker.handlers[_OPERATION] = _answer
        _known[self._key] = _Here(worker, self._machine(worker), self._machines)

    def teardown(self, worker: Worker) -> None:
        _known.pop(self._key, None)


def _act(
    path: str,
    of: str,
    home: str,
    sent: bytes,
    function: Callable[..., Result],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Result:
    """A task."""
    here = _known.get(of)
    fs = file_system(sent) if here is None else here.file_system(home)
    return function(fs, path, *args, **kwargs)


class Machines:
    """The machines that a cluster's workers run on, each with a pool.

    client: of the cluster. Workers that join it later read by their machine's pool, too, but their machine gets no paths of
        its own if it was not there; make another one of these then.
    fs: what the workers read by; its budget is one machine's. Where workers run on the client's machine the pool is the
        client's.
    machine: which machine a worker is on, if not that of its host's name: containers on one host, say, that share no memory.
    """

    def __init__(self, client: Client, fs: ForetellFileSystem, machine: Callable[[Worker], str] | None = None) -> None:
        self._client = client
        self._key = uuid4().hex
        which = machine or _host

        def on(dask_worker: Worker) -> str:
            return which(dask_worker)

        self._workers: dict[str, list[str]] = {}
        for worker, name in sorted(client.run(on).items()):
            self._workers.setdefault(name, []).append(worker)
        if not self._workers:
            raise ValueError("the cluster has no workers yet; wait for some with client.wait_for_workers")
        threads = client.nthreads()  # type: ignore[no-untyped-call]
        self._threads = {
            name: sum(threads.get(worker, 1) for worker in workers) for name, workers in self._workers.items()
        }
        first = {name: workers[0] for name, workers in self._workers.items()}
        others = [worker for name, worker in first.items() if name != socket.gethostname()]
        made = (type(fs), fs.storage_args, dict(fs.storage_options))
        sent = client.run(_hold, made, workers=others) if others else {}
        self._sent = {name: sent.get(worker) or pickle.dumps(fs) for name, worker in first.items()}
        machines = {
            name: _Machine(self._sent[name], worker, self._threads[name]) for name, worker in first.items()
        }
        client.register_plugin(_Plugin(self._key, which, machines))

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
                _act,
                its,
                of=self._key,
                home=machine,
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
