"""Cyclic scan: queries that each read the same file from beginning to end. Counts words, a pass for each.

Strategy: MRU on the level of the file. Under LRU a file that is larger than the cache is fetched anew in each
pass; under MRU most of what was kept is still there when its turn comes (Cao, Felten, Li 1994, section 5.1:
cs1 and din).
"""

import argparse

import foretell

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--control", action="store_true", help="control the cache")
parser.add_argument("file", metavar="FILE")
parser.add_argument("words", nargs="+", metavar="WORD")
arguments = parser.parse_args()

with open(arguments.file, "rb") as file:
    if arguments.control:
        foretell.set_priority(file, 0)
        foretell.set_policy(0, "mru")
    for word in arguments.words:
        file.seek(0)
        print(word, sum(line.count(word.encode()) for line in file))
