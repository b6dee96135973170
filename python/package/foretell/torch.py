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

    epochs: how many times it will be iterated over. The order of the next epoch is then drawn and disclosed before the
        present one ends, as far as the window reaches, so that what both read is kept: with a window of an epoch nearly
        nothing is fetched that need not be.

    The order is drawn `window` indices earlier than without it; a sampler that learns while it is drawn
    from needs a small one, and one epoch at a time. One that is told the epoch is told the next one as soon as that is drawn. When
    the iteration is given up, what was disclosed is withdrawn.
    """

    def __init__(self, sampler: Iterable[Drawn], layout: Layout, *, window: int = 512, epochs: int = 1) -> None:
        if window < 1:
            raise ValueError(f"window: {window} is not positive")
        if epochs < 1:
            raise ValueError(f"epochs: {epochs} is not positive")
        self.sampler = sampler
        self.layout = layout
        self.window = window
        self.epochs = epochs
        self._epoch: int | None = None
        self._ahead: _Ahead[Drawn] | None = None

    def __len__(self) -> int:
        return len(self.sampler)  # type: ignore[arg-type]

    def set_epoch(self, epoch: int) -> None:
        """For samplers that are told the epoch, as DistributedSampler is."""
        if self._ahead is not None and self._epoch is not None and epoch == self._epoch + 1:
            # What was drawn ahead.
            self._epoch = epoch
            return
        self._withdraw()
        self._epoch = epoch
        self.sampler.set_epoch(epoch)  # type: ignore[attr-defined]

    def __iter__(self) -> Iterator[Drawn]:
        if self._ahead is None:
            self._ahead = _Ahead(self, self._epoch)
        ahead = self._ahead
        process = os.getpid()
        finished = False
        try:
            for item in ahead.epoch():
                yield item
            finished = True
            if ahead.is_over():
                self._ahead = None
        finally:
            # Not when all was produced: workers are still reading. Nor in a worker that was forked meanwhile.
            if not finished and os.getpid() == process:
                self._withdraw()

    def _withdraw(self) -> None:
        if self._ahead is not None:
            self._ahead = None
            # Some layouts are disclosed to somebody else than the service.
            getattr(self.layout, "cancel", cancel)()


class _Ahead(Generic[Drawn]):
    """What was drawn and not produced, of several epochs."""

    def __init__(self, of: DisclosingSampler[Drawn], epoch: int | None) -> None:
        self._of = of
        self._epoch = epoch
        self._left = of.epochs
        self._drawn: Iterator[Drawn] | None = None
        # None ends an epoch.
        self._items: deque[tuple[Drawn, int] | None] = deque()
        self._samples = 0

    def is_over(self) -> bool:
        """All epochs were produced."""
        return self._left == 0 and self._drawn is None and not self._items

    def epoch(self) -> Iterator[Drawn]:
        """The items of the next epoch."""
        while True:
            # Two windows at first and whenever one has been used up: a layout likes long lists.
            if self._samples <= self._of.window:
                self._draw()
            if not self._items or (one := self._items.popleft()) is None:
                return
            item, count = one
            self._samples -= count
            yield item

    def _draw(self) -> None:
        indices: list[int] = []
        while self._samples < 2 * self._of.window:
            if self._drawn is None:
                if self._left == 0:
                    break
                self._begin()
            for item in self._drawn or ():
                its = _indices(item)
                self._items.append((item, len(its)))
                indices += its
                self._samples += len(its)
                if self._samples >= 2 * self._of.window:
                    break
            else:
                self._drawn = None
                self._items.append(None)
        if indices:
            self._of.layout.disclose(indices)

    def _begin(self) -> None:
        if self._epoch is not None and self._left < self._of.epochs:
            self._epoch += 1
            self._of.sampler.set_epoch(self._epoch)  # type: ignore[attr-defined]
        self._left -= 1
        self._drawn = iter(self._of.sampler)


def _indices(drawn: Any) -> list[int]:
    """The indices that a sampler has produced at a time."""
    if hasattr(drawn, "__index__"):
        return [index(drawn)]
    return [index(one) for one in drawn]
