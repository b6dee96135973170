"""What foretell.dask and foretell.ray have in common: which machine a path goes to, and what is done there."""

from __future__ import annotations

import hashlib
import math
import pickle
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from foretell.fs import ForetellFileSystem

Result = TypeVar("Result")

# File systems that a worker keeps for tasks to come.
_FILE_SYSTEMS = 16


@lru_cache(_FILE_SYSTEMS)
def file_system(sent: bytes) -> ForetellFileSystem:
    """What was pickled: the same one each time, as long as it is one of the last."""
    fs: ForetellFileSystem = pickle.loads(sent)
    return fs


def disclose(fs: ForetellFileSystem, paths: list[str]) -> int:
    """Says what a machine's tasks will read, in place of what was said before."""
    fs.cancel()
    return fs.disclose((path, 0, None) for path in paths)


def answer(sent: bytes, path: str, etag: str | None, offset: int, length: int) -> bytes | None:
    """What this machine's pool has or gets of an object, for another machine; None of an object in another state."""
    fs = file_system(sent)
    if fs.opened(path).stamp.etag != etag:
        return None
    return fs.cat_file(path, offset, offset + length)


def place(path: str, machines: Mapping[str, float]) -> str:
    """Which of several machines a path goes to, in the mean by their weights.

    A machine that comes or goes moves no path but those that come to it or were with it (weighted rendezvous hashing;
    Thaler and Ravishankar 1998, with the weights of Schindelhauer and Schomaker 2005).
    """

    def score(machine: str) -> float:
        digest = hashlib.blake2b(f"{machine}\0{path}".encode(), digest_size=8).digest()
        chance = (int.from_bytes(digest, "big") + 1) / (2**64 + 1)
        return -machines[machine] / math.log(chance)

    return max(sorted(machines), key=score)


def shares(paths: list[str], machines: Mapping[str, float]) -> dict[str, list[int]]:
    """By machine, which of the paths go there, in their order."""
    its: dict[str, list[int]] = {machine: [] for machine in machines}
    for at, path in enumerate(paths):
        its[place(path, machines)].append(at)
    return its
