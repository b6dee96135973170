"""Shuffled epochs over a directory of samples, read by worker processes, as in training.

What is random to the kernel is known to the program: the sampler has drawn the order before the workers read. A
DisclosingSampler tells it, some time ahead. With PyTorch it is given to a DataLoader in the same way.
"""

import argparse
import multiprocessing
import random
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from foretell.torch import DisclosingSampler, Files


class RandomSampler:
    """The indices of an epoch, in another order each time."""

    def __init__(self, count: int, seed: int) -> None:
        self._count = count
        self._random = random.Random(seed)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return iter(self._random.sample(range(self._count), self._count))


def load(path: Path) -> int:
    """What a worker does with a sample."""
    return zlib.crc32(path.read_bytes())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--control", action="store_true", help="disclose the order")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("directory", type=Path, metavar="DIRECTORY")
    arguments = parser.parse_args()

    paths = sorted(path for path in arguments.directory.iterdir() if path.is_file())
    sampler: Iterable[int] = RandomSampler(len(paths), arguments.seed)
    if arguments.control:
        sampler = DisclosingSampler(sampler, Files(paths))
    with multiprocessing.Pool(arguments.workers) as workers:
        for epoch in range(arguments.epochs):
            checksum = 0
            for loaded in workers.imap(load, (paths[at] for at in sampler), chunksize=8):
                checksum = zlib.crc32(loaded.to_bytes(4, "little"), checksum)
            print(f"epoch {epoch}: {len(paths)} samples, {checksum:08x}")


if __name__ == "__main__":
    main()
