"""Prefetching for shuffled training sets: a sampler that discloses the order it is about to produce.

    from foretell.torch import DisclosingSampler, Files
    from torch.utils.data import DataLoader, RandomSampler

    sampler = DisclosingSampler(RandomSampler(dataset), Files(dataset.paths))
    for batch in DataLoader(dataset, batch_size=32, sampler=sampler, num_workers=4):
        ...

A data loader draws its samples' indices in the main process and has them read by workers, which are
children of it. That is all that is needed: the main process discloses, and the service counts a child's
reads as its parent's, as long as the child does not call foretell itself. So it works with any number of
workers, forked or spawned, and PyTorch is not needed for it: whatever produces indices can be wrapped, and
a batch sampler as well.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from operator import index
from typing import Any, Generic, Protocol, SupportsIndex, TypeVar

from foretell._native import cancel, disclose, disclose_files, disclose_list
from foretell._types import File

__all__ = ["DisclosingSampler", "Files", "Layout", "Objects", "Offsets", "Records"]

# What a sampler produces: an index, or a batch of indices.
Drawn = TypeVar("Drawn", bound=Any)

# Files open at a time while they are disclosed, of the 1024 that a process usually may have open.
_OPEN_FILES = 64


class Layout(Protocol):
    """Where the samples are. Any object with this method will do."""

    def disclose(self, indices: Sequence[int]) -> None:
        """Disclose the samples of these indices, which will be read in this order."""


class Files:
    """A file for each sample.

    paths: the path of each, in the order of their indices.
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]]) -> None:
        self._paths = paths

    def disclose(self, indices: Sequence[int]) -> None:
        """Disclose whole files. Those that cannot be opened are left to whoever reads them."""
        for start in range(0, len(indices), _OPEN_FILES):
            with ExitStack() as opened:
                files = []
                for at in indices[start : start + _OPEN_FILES]:
                    try:
                        files.append(opened.enter_context(open(self._paths[at], "rb", buffering=0)))
                    except OSError:
                        continue
                disclose_files(files)


class FileSystem(Protocol):
    """A file system that takes disclosures: foretell.fs.ForetellFileSystem."""

    def disclose(self, chunks: Iterable[tuple[str, int, int | None]], /) -> int:
        """Disclose parts of files."""

    def cancel(self) -> None:
        """Withdraw them."""


class Objects:
    """An object of a store for each sample, read through foretell's file system by this process.

    fs: the file system.
    paths: the path of each, in the order of their indices.
    """

    def __init__(self, fs: FileSystem, paths: Sequence[str]) -> None:
        self._fs = fs
        self._paths = paths

    def disclose(self, indices: Sequence[int]) -> None:
        """Disclose whole objects."""
        self._fs.disclose([(self._paths[at], 0, None) for at in indices])

    def cancel(self) -> None:
        """Withdraw what was disclosed and not read."""
        self._fs.cancel()


class Records:
    """Samples of the same size, one after the other in a big file.

    file: the file, open, or its descriptor.
    record_bytes: the size of a sample.
    first: where the first one begins.
    """

    def __init__(self, file: File, record_bytes: int, *, first: int = 0) -> None:
        self._file = file
        self._record_bytes = record_bytes
        self._first = first

    def disclose(self, indices: Sequence[int]) -> None:
        """Disclose records."""
        size, first = self._record_bytes, self._first
        disclose(self._file, [(first + at * size, size) for at in indices])


class Offsets:
    """Samples of different sizes in a big file.

    file: the file, open, or its descriptor.
    offsets: where each sample begins, and at last where the last one ends: one more than there are samples.
    """

    def __init__(self, file: File, offsets: Sequence[SupportsIndex]) -> None:
        self._file = file
        self._offsets = offsets

    def disclose(self, indices: Sequence[int]) -> None:
        """Disclose the parts from an offset to the next."""
        offsets = self._offsets
        starts = [(index(offsets[at]), index(offsets[at + 1])) for at in indices]
        disclose(self._file, [(start, end - start) for start, end in starts])


class DisclosingSampler(Generic[Drawn]):
    """Produces what another sampler does, and discloses it some time before.

    sampler: an iterable of indices, or of batches of indices.
    layout: where the samples are: Files, Records, Offsets, or anything with their method.
    window: samples that are disclosed ahead, at least. More than the loader itself draws ahead (workers x
        prefetch_factor x batch size) by what the device can fetch while a sample is computed on.

    The order is drawn `window` indices earlier than without it; a sampler that learns while it is drawn
    from needs a small one. When the iteration is given up, what was disclosed is withdrawn.
    """

    def __init__(self, sampler: Iterable[Drawn], layout: Layout, *, window: int = 512) -> None:
        if window < 1:
            raise ValueError(f"window: {window} is not positive")
        self.sampler = sampler
        self.layout = layout
        self.window = window

    def __len__(self) -> int:
        return len(self.sampler)  # type: ignore[arg-type]

    def set_epoch(self, epoch: int) -> None:
        """For samplers that are told the epoch, as DistributedSampler is."""
        self.sampler.set_epoch(epoch)  # type: ignore[attr-defined]

    def __iter__(self) -> Iterator[Drawn]:
        drawn = iter(self.sampler)
        ahead: deque[tuple[Drawn, int]] = deque()
        samples_ahead = 0
        process = os.getpid()
        finished = False
        try:
            while True:
                # Two windows at first and whenever one has been used up: a layout likes long lists.
                if samples_ahead <= self.window:
                    indices: list[int] = []
                    for item in drawn:
                        its = _indices(item)
                        ahead.append((item, len(its)))
                        indices += its
                        samples_ahead += len(its)
                        if samples_ahead >= 2 * self.window:
                            break
                    if indices:
                        self.layout.disclose(indices)
                if not ahead:
                    finished = True
                    return
                item, count = ahead.popleft()
                samples_ahead -= count
                yield item
        finally:
            # Not when all was produced: workers are still reading. Nor in a worker that was forked meanwhile.
            if not finished and os.getpid() == process:
                # Some layouts are disclosed to somebody else than the service.
                getattr(self.layout, "cancel", cancel)()


def _indices(drawn: Any) -> list[int]:
    """The indices that a sampler has produced at a time."""
    if hasattr(drawn, "__index__"):
        return [index(drawn)]
    return [index(one) for one in drawn]
