"""Sequential, once: checksums of files that are read from beginning to end, and never again.

Strategy: priority -1. The blocks of the files are the first to go, so that what else is in the cache
survives (Cao, Felten, Li 1994, section 3).
"""

import argparse
import hashlib

import foretell

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--control", action="store_true", help="control the cache")
parser.add_argument("files", nargs="+", metavar="FILE")
arguments = parser.parse_args()

for path in arguments.files:
    with open(path, "rb", buffering=0) as file:
        if arguments.control:
            foretell.set_priority(file, -1)
        checksum = hashlib.sha256()
        while data := file.read(64 << 10):
            checksum.update(data)
    print(checksum.hexdigest(), path)
