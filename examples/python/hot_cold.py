"""Hot and cold files: every query reads the index, and then the parts of the articles that the index names.

Strategy: two levels. The index has priority 1 and stays, the articles have 0; both are read in the same order by
all queries, so MRU on both (Cao, Felten, Li 1994, section 5.1: glimpse).

A line of the index is a word and the numbers of the articles that have it.
"""

import argparse

import foretell

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--control", action="store_true", help="control the cache")
parser.add_argument("index", metavar="INDEX")
parser.add_argument("articles", metavar="DIRECTORY", help="with an article in each of the files 0, 1, ...")
parser.add_argument("words", nargs="+", metavar="WORD")
arguments = parser.parse_args()

with open(arguments.index) as index:
    if arguments.control:
        foretell.set_priority(index, 1)
        foretell.set_policy(1, "mru")
        foretell.set_policy(0, "mru")
    for word in arguments.words:
        index.seek(0)
        numbers = [number for line in index if line.split()[0] == word for number in line.split()[1:]]
        found = 0
        for number in numbers:
            with open(f"{arguments.articles}/{number}", "rb") as article:
                if arguments.control:
                    foretell.set_priority(article, 0)  # only files that were named are under control
                found += article.read().count(word.encode())
        print(f"{word}: {found} times in {len(numbers)} articles")
