"""Many small files: a text search that reads all files, in the same order, for every word.

Strategy: MRU on level 0, to which all files belong that have no priority of their own: it is the files together
that are scanned again and again (Cao, Felten, Li 1994, section 5.1: cs2 and cs3). What is about to be read is
disclosed, search by search, so that it can be fetched ahead.
"""

import argparse
from contextlib import ExitStack

import foretell

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--control", action="store_true", help="control the cache")
parser.add_argument("words", metavar="WORD,WORD...")
parser.add_argument("files", nargs="+", metavar="FILE")
arguments = parser.parse_args()

with ExitStack() as opened:
    if arguments.control:
        foretell.set_policy(0, "mru")
    files = [opened.enter_context(open(path, "rb")) for path in arguments.files]
    for word in arguments.words.split(","):
        if arguments.control:
            foretell.disclose_files(files)
        found = 0
        for file in files:
            file.seek(0)
            found += file.read().count(word.encode())
        print(word, found)
