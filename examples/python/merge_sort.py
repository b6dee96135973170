"""External merge sort: sorts the lines of a file with little memory.

The input is read once, and sorted runs are written to temporary files. These are merged, eight at a time in the
order of their creation, each written once and read once.

Strategy (Cao, Felten, Li 1994, section 5.1: sort): the input has priority -1. MRU on levels -1 and 0, as runs made
earlier are merged first. What was read of a run is done with.
"""

import argparse
import heapq
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import BinaryIO

import foretell

WAYS = 8
# Bytes after which a run says how far it was read: two blocks.
STEP = 2 * foretell.BLOCK_BYTES

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--control", action="store_true", help="control the cache")
parser.add_argument("--lines", type=int, default=100_000, help="lines sorted in memory")
parser.add_argument("--temporary", metavar="DIRECTORY", help="for temporary files")
parser.add_argument("input", metavar="INPUT")
parser.add_argument("output", metavar="OUTPUT")
arguments = parser.parse_args()


def written(lines: Iterable[bytes]) -> BinaryIO:
    """A run with these lines: a temporary file that is gone when it is closed."""
    run: BinaryIO = tempfile.TemporaryFile(dir=arguments.temporary)
    if arguments.control:
        foretell.set_priority(run, 0)  # only files that were named are under control
    run.writelines(lines)
    run.seek(0)
    return run


def read_once(run: BinaryIO) -> Iterator[bytes]:
    """The lines of a run, which then is gone."""
    at = done = 0
    with run:
        for line in run:
            yield line
            at += len(line)
            if arguments.control and at - done >= STEP:
                foretell.done_with(run, done, at - done)
                done = at


def merged(runs: deque[BinaryIO]) -> Iterator[bytes]:
    """The lines of the oldest runs, in order."""
    return heapq.merge(*(read_once(runs.popleft()) for _ in range(min(WAYS, len(runs)))))


with open(arguments.input, "rb") as lines, open(arguments.output, "wb") as output:
    if arguments.control:
        foretell.set_policy(-1, "mru")
        foretell.set_policy(0, "mru")
        foretell.set_priority(lines, -1)
    runs: deque[BinaryIO] = deque()
    while part := sorted(islice(lines, arguments.lines)):
        runs.append(written(part))
    while len(runs) > WAYS:
        runs.append(written(merged(runs)))
    output.writelines(merged(runs))
