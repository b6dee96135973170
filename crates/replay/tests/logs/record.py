"""Records the logs of this directory anew, three small live runs that once went wrong: when logs have another version, or
the plane tells the policy something else.

    python3 record.py FORETELL [DIRECTORY]

needs the rights that `foretell run` needs, and a directory on a disk to work in (the current one unless said otherwise).

slip.inputs        random epochs over samples of 64 to 128 KiB, under a list of which one line in 100 is wrong: the list's
                   reader slipped into another epoch once, where the same neighbours are, and was lost.
eight-times.inputs a shell that starts a program eight times over the same file, under the recording of a run before: the
                   list was one, and belonged to nobody.
sort.inputs        a sort that writes files and reads them again, under the recording of a run before, in which those
                   files had other names: it read more than without.
"""

import json
import os
import random
import subprocess
import sys
import tempfile

BLOCK = 8192

READER = """
import os, sys, time
descriptor = os.open(sys.argv[1], os.O_RDONLY)
for line in open(sys.argv[2]):
    offset, length = map(int, line.split())
    while length > 0:
        length -= len(os.pread(descriptor, 8192, offset))
        offset += 8192
        time.sleep(0.0002)
"""


def write(path, contents):
    with open(path, "wb") as file:
        file.write(contents)
        file.flush()
        os.fsync(file.fileno())


def drop_cache(paths):
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def run(foretell, options, command):
    subprocess.run([foretell, "run", "--quiet", *options, "--", *command], check=True, stdout=subprocess.DEVNULL)


def slip(foretell, log):
    chance = random.Random(1996)
    samples, offset = [], 0
    for _ in range(150):
        length = chance.randrange(8, 17) * BLOCK
        samples.append((offset, length))
        offset += length
    write("data", chance.randbytes(offset))
    order = []
    for _ in range(4):
        chance.shuffle(samples)
        order += samples
    write("order", "".join(f"{at} {length}\n" for at, length in order).encode())
    listed = list(order)
    for _ in range(len(order) // 100):
        place = chance.randrange(len(listed))
        kind = chance.randrange(3)
        if kind == 0:
            del listed[place]
        elif kind == 1:
            listed.insert(place, chance.choice(samples))
        else:
            listed[place] = chance.choice(samples)
    path = os.path.abspath("data")
    write("list", "".join(f'"{path}" {at} {length}\n' for at, length in listed).encode())
    drop_cache(["data"])
    options = ["--budget", f"{offset // 2}", "--hints", "list", "--log-inputs", log]
    run(foretell, options, [sys.executable, "-c", READER, "data", "order"])


def recorded(foretell, log, options, files, command):
    """Twice: watched, and under what was seen."""
    drop_cache(files)
    run(foretell, ["--record", "recording"], command)
    drop_cache(files)
    run(foretell, [*options, "--hints", "recording", "--log-inputs", log], command)


def eight_times(foretell, log):
    blocks = 800
    write("data", random.Random(1994).randbytes(blocks * BLOCK))
    write("order", f"0 {blocks * BLOCK}\n".encode())
    write("query", READER.encode())
    script = f"for query in 1 2 3 4 5 6 7 8; do {sys.executable} query data order; done"
    recorded(foretell, log, ["--budget", f"{blocks // 2 * BLOCK}"], ["data"], ["sh", "-c", script])


def sort(foretell, log):
    chance = random.Random(1999)
    write("lines", "".join(f"{chance.randrange(10**9):09}\n" for _ in range(800_000)).encode())
    command = ["sort", "--parallel=1", "-S", "1M", "-T", ".", "-o", "sorted", "lines"]
    options = ["--budget", "8M", "--rule", f"{os.getcwd()}/**=lru"]
    recorded(foretell, log, options, ["lines"], command)


def foreign_evictions(foretell, log):
    replayed = subprocess.run([foretell, "replay", "--json", log], check=True, capture_output=True)
    return json.loads(replayed.stdout)["counters"]["foreign_evictions"]


def main():
    foretell = os.path.abspath(sys.argv[1])
    work = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else ".")
    to = os.path.dirname(os.path.abspath(__file__))
    for name, make in [("slip", slip), ("eight-times", eight_times), ("sort", sort)]:
        log = os.path.join(to, f"{name}.inputs")
        for _ in range(10):
            with tempfile.TemporaryDirectory(dir=work) as directory:
                os.chdir(directory)
                make(foretell, log)
                os.chdir(to)
            # Where others have dropped pages meanwhile, once more; a sort deletes files itself.
            if name == "sort" or foreign_evictions(foretell, log) == 0:
                break
        else:
            sys.exit(f"{name}: others dropped its pages ten times")


main()
