"""Index scan: reads the tuples of a table in the order of an index, which is not the order in which they lie.

Nothing but the index knows what comes next, and the program has read it: it discloses the tuples' blocks before
it reads them, so that they are fetched ahead, in batches and in an order that the disk likes (Cao et al. 1996,
section 4.1.2). The index has priority 1, as other queries will read it, too (Cao, Felten, Li 1994, section 5.1:
pjn).

The index is a sequence of tuple numbers of 8 bytes, and a tuple has 256 bytes.
"""

import argparse
import os
import zlib
from collections.abc import Iterable
from contextlib import ExitStack

import numpy

import foretell

TUPLE = 256

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--control", action="store_true", help="control the cache")
parser.add_argument("index", metavar="INDEX")
parser.add_argument("table", metavar="TABLE")
arguments = parser.parse_args()

with open(arguments.index, "rb") as index, open(arguments.table, "rb", buffering=0) as table:
    if arguments.control:
        foretell.set_priority(index, 1)
    numbers = numpy.frombuffer(index.read(), dtype=numpy.uint64)
    parts: Iterable[tuple[int, int]] = ((number * TUPLE, TUPLE) for number in numbers.tolist())
    with ExitStack() as disclosed:
        if arguments.control:
            parts = disclosed.enter_context(foretell.reading(table, numbers, block_bytes=TUPLE))
        checksum = 0
        for offset, length in parts:
            checksum = zlib.crc32(os.pread(table.fileno(), length, offset), checksum)
print(f"{len(numbers)} tuples, {checksum:08x}")
