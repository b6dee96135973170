"""Samples in tar files of a store, as WebDataset has them: found by an index, read in any order, and ahead of their use.

    from foretell.tar import Samples
    from foretell.torch import DisclosingSampler
    from torch.utils.data import DataLoader, RandomSampler

    samples = Samples.of(fs, fs.glob("bucket/shards/*.tar"))  # fs: foretell.fs.ForetellFileSystem
    samples.save("samples.json")                              # the next time: Samples.load(fs, "samples.json")
    sampler = DisclosingSampler(RandomSampler(samples), samples)
    for batch in DataLoader(samples, sampler=sampler, collate_fn=decode, num_workers=4):
        ...

Files of a shard that lie beside each other and have the same name up to the first dot of its last part are one sample:
"a/0001.jpg" and "a/0001.cls" are {"__key__": "a/0001", "jpg": ..., "cls": ...} (https://github.com/webdataset/webdataset). What is
shuffled is the samples of all shards, not the shards and then what a buffer holds.

An index takes one pass over the shards. Files that are longer than what comes in the time of a request are passed over, all
else is read, so that a shard of many small ones takes no request for each.
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import Any, BinaryIO, cast

from foretell.fs import ForetellFileSystem
from foretell.pool import ChangedError

__all__ = ["Samples", "Shard"]

# What is read rather than passed over: what a line of 200 MB/s brings in the 15 ms until an answer begins.
_SHORT_BYTES = 3 << 20
# Shards that are looked through at the same time.
_TOGETHER = 8
# What a saved index begins with.
_FORMAT = "foretell tar index 1"


@dataclass(frozen=True)
class Shard:
    """What one tar file has.

    state: its ETag, or what stands for it, when it was looked through.
    members: (name, offset, length) of its files, in their order.
    """

    path: str
    state: str
    members: list[tuple[str, int, int]]


class Samples:
    """The samples of some shards: a data set by number, and a layout for foretell.torch.DisclosingSampler.

    In another process, where it is sent to or forked, it reads by the same pool.
    """

    def __init__(self, fs: ForetellFileSystem, shards: Iterable[Shard]) -> None:
        self._fs = fs
        self.shards = list(shards)
        # Shard, first of its members, and the one behind the last.
        self._places = [
            (number, first, end)
            for number, shard in enumerate(self.shards)
            for first, end in _samples(shard.members)
        ]

    @classmethod
    def of(cls, fs: ForetellFileSystem, paths: str | Sequence[str]) -> Samples:
        """Looks through some shards. Raises ValueError for what is no tar file."""
        paths = [paths] if isinstance(paths, str) else paths
        with ThreadPoolExecutor(_TOGETHER) as threads:
            return cls(fs, threads.map(lambda path: _looked_through(fs, path), paths))

    @classmethod
    def load(cls, fs: ForetellFileSystem, file: str | os.PathLike[str]) -> Samples:
        """What save() has written. Raises ChangedError if a shard is another one by now, ValueError for another file."""
        with open(file, encoding="utf-8") as saved:
            try:
                form, shards = json.load(saved)
                if form != _FORMAT:
                    raise ValueError(f"it does not begin with {_FORMAT!r}")
                read = [_shard(shard) for shard in shards]
            except (TypeError, ValueError) as error:
                raise ValueError(f"{file}: no index of tar files: {error}") from error
        with ThreadPoolExecutor(_TOGETHER) as threads:
            states = threads.map(lambda shard: _state(fs, shard.path), read)
        for shard, state in zip(read, states):
            if shard.state != state:
                raise ChangedError(f"{shard.path}: it was changed since {file} was made; make it again")
        return cls(fs, read)

    def save(self, file: str | os.PathLike[str]) -> None:
        """Writes the index for load(), in place of what was there."""
        written = f"{os.fspath(file)}.new"
        with open(written, "w", encoding="utf-8") as saved:
            json.dump([_FORMAT, [[one.path, one.state, one.members] for one in self.shards]], saved)
        os.replace(written, file)

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, at: int) -> dict[str, Any]:
        """A sample: its "__key__", and the bytes of its files by what comes behind that."""
        number, first, end = self._places[at]
        shard = self.shards[number]
        members = shard.members[first:end]
        # They lie beside each other: one read.
        start = members[0][1]
        data = self._fs.cat_file(shard.path, start, members[-1][1] + members[-1][2])
        sample: dict[str, Any] = {"__key__": _split(members[0][0])[0]}
        for name, offset, length in members:
            sample[_split(name)[1]] = data[offset - start : offset - start + length]
        return sample

    def disclose(self, indices: Iterable[int]) -> None:
        """Disclose samples, in the order in which they will be read."""
        self._fs.disclose(self._chunk(at) for at in indices)

    def cancel(self) -> None:
        """Withdraw what was disclosed and not read."""
        self._fs.cancel()

    def _chunk(self, at: int) -> tuple[str, int, int]:
        number, first, end = self._places[at]
        members = self.shards[number].members
        start = members[first][1]
        return self.shards[number].path, start, members[end - 1][1] + members[end - 1][2] - start


def _split(name: str) -> tuple[str, str]:
    """The key of a file, and its kind: what stands before and behind the first dot of its last part."""
    folder, slash, last = name.rpartition("/")
    key, _, kind = last.partition(".")
    return f"{folder}{slash}{key}", kind


def _samples(members: list[tuple[str, int, int]]) -> Iterator[tuple[int, int]]:
    """First and end of what belongs together."""
    first = 0
    for _, its in groupby(members, lambda member: _split(member[0])[0]):
        end = first + len(list(its))
        yield first, end
        first = end


def _state(fs: ForetellFileSystem, path: str) -> str:
    known = fs.info(path)
    return str(known["ETag"] or f"{known['size']} bytes of {known['mtime']}")


def _looked_through(fs: ForetellFileSystem, path: str) -> Shard:
    members = []
    with fs.open(path) as opened:
        try:
            with tarfile.open(fileobj=cast(BinaryIO, _Passing(opened)), mode="r:") as archive:
                while (member := archive.next()) is not None:
                    # What begins with a dot has no key.
                    if member.isreg() and _split(member.name)[0] and not member.name.rpartition("/")[2].startswith("."):
                        members.append((member.name, member.offset_data, member.size))
                    # It keeps all that it has seen.
                    archive.members = []  # type: ignore[attr-defined]
        except tarfile.TarError as error:
            raise ValueError(f"{path}: no tar file: {error}") from error
        length = opened.size
    if members and members[-1][1] + members[-1][2] > length:
        raise ValueError(f"{path}: no tar file: it ends within {members[-1][0]!r}")
    return Shard(path, _state(fs, path), members)


class _Passing:
    """A file of which short pieces that are passed over are read, so that it is read in order."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.name = file.path

    def tell(self) -> int:
        return int(self._file.tell())

    def read(self, length: int = -1) -> bytes:
        return bytes(self._file.read(length))

    def seek(self, position: int, whence: int = 0) -> int:
        if whence == 0 and 0 < position - self._file.tell() <= _SHORT_BYTES:
            self._file.read(position - self._file.tell())
        return int(self._file.seek(position, whence))


def _shard(saved: Any) -> Shard:
    path, state, members = saved
    if not isinstance(path, str) or not isinstance(state, str):
        raise ValueError("a shard has no path")
    return Shard(path, state, [_member(*member) for member in members])


def _member(name: Any, offset: Any, length: Any) -> tuple[str, int, int]:
    if not isinstance(name, str) or not all(isinstance(number, int) and number >= 0 for number in (offset, length)):
        raise ValueError("a file has no place")
    return name, offset, length
