"""An epoch over a directory of samples, read by workers; prints how it fared. Run by test_service.py.

    python epoch.py DIRECTORY fork|spawn [early]

With `early` the workers are there before anything is disclosed, as in a data loader that starts them first.

Nothing is read before the service has prefetched something, and the end is when it has counted something of
it: what this takes is up to the service, and not measured.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

import foretell
from foretell.torch import DisclosingSampler, Files

# Far more than it takes on the slowest machine.
PATIENCE_S = 120


def wait_until(reached: Callable[[foretell.Stats], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached(foretell.stats()):
        if time.monotonic() > deadline:
            sys.exit(f"nothing came of it: {foretell.stats()}")
        time.sleep(0.01)


def main() -> None:
    paths = sorted(Path(sys.argv[1]).iterdir())
    order = random.Random(1).sample(range(len(paths)), len(paths))
    context = multiprocessing.get_context(sys.argv[2])
    early = context.Pool(2) if "early" in sys.argv else None
    sampler = iter(DisclosingSampler(order, Files(paths), window=len(paths)))
    drawn = [next(sampler)]
    wait_until(lambda stats: stats.prefetches > 0)
    with early or context.Pool(2) as workers:
        read = list(workers.imap(Path.read_bytes, (paths[at] for at in [*drawn, *sampler])))
    wait_until(lambda stats: stats.prefetches_useful + stats.prefetches_late > 0)
    assert [len(sample) for sample in read] == [paths[at].stat().st_size for at in order]
    print(json.dumps(foretell.stats()._asdict()))


if __name__ == "__main__":
    main()
