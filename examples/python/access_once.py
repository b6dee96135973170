"""Access once: many small reads, but never the same data twice, as a link editor goes through object files.

Strategy: what the file pointer has left behind gets the temporary priority -1 and is the next to go. (A file's
priority of -1 would not do where other parts of the file are still to be read: Cao, Felten, Li 1994, section
5.1, ldk.) The pieces need not be blocks: a block belongs to the piece that holds its last byte.
"""

import argparse
import zlib

import foretell

PIECE = 3000

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--control", action="store_true", help="control the cache")
parser.add_argument("files", nargs="+", metavar="FILE")
arguments = parser.parse_args()

for path in arguments.files:
    # Without Python's buffer, so that the file pointer is where the program is.
    with open(path, "rb", buffering=0) as file:
        checksum = at = 0
        while piece := file.read(PIECE):
            checksum = zlib.crc32(piece, checksum)
            if arguments.control:
                foretell.temporary_priority(file, at, len(piece), -1)
            at += len(piece)
    print(f"{checksum:08x} {path}")
