"""What calls cost from Python, beside the kernel's own advice and a call that does nothing.

    ./x bench python
    ./x bench python --json benches/results/python.json

The service is a ring that is emptied between measurements, so that the cost is the caller's alone. Each way
is measured in turn, in several rounds; printed and kept are medians. The file is one that is cached: advice to
read it ahead costs the system call and a look at its pages.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from recorder import Recorder

# Single calls in a row: fewer than the ring has entries.
CALLS = 4000
# Elements of a list: as many as the ring takes.
ELEMENTS = 8000


def measure(rounds: int) -> dict[str, Any]:
    """Nanoseconds for each way."""
    with tempfile.TemporaryDirectory(prefix="foretell-") as directory:
        os.environ["FORETELL_SOCKET"] = f"{directory}/socket"
        recorder = Recorder(Path(directory) / "socket")
        import foretell

        path = Path(directory) / "file"
        path.write_bytes(bytes(64 << 20))
        with open(path, "rb") as file:
            number = file.fileno()
            blocks = np.random.default_rng(1).permutation(ELEMENTS)
            pairs = np.column_stack([blocks * 8192, np.full(ELEMENTS, 8192)])
            listed = [(int(offset), int(length)) for offset, length in pairs]
            one = [(8192, 8192)]

            def calls(act: Callable[[], object]) -> Callable[[], float]:
                def run() -> float:
                    start = time.perf_counter_ns()
                    for _ in range(CALLS):
                        act()
                    return (time.perf_counter_ns() - start) / CALLS

                return run

            def elements(act: Callable[[], object]) -> Callable[[], float]:
                def run() -> float:
                    start = time.perf_counter_ns()
                    act()
                    return (time.perf_counter_ns() - start) / ELEMENTS

                return run

            def advise() -> None:
                for offset, length in listed:
                    os.posix_fadvise(number, offset, length, os.POSIX_FADV_WILLNEED)

            ways = {
                "a call that does nothing": calls(lambda: None),
                "disclose, one pair": calls(lambda: foretell.disclose(file, one)),
                "disclose, the whole file": calls(lambda: foretell.disclose(file)),
                "done_with": calls(lambda: foretell.done_with(file, 0, 8192)),
                "set_priority": calls(lambda: foretell.set_priority(file, 1)),
                "stats": calls(foretell.stats),
                "posix_fadvise, one range": calls(
                    lambda: os.posix_fadvise(number, 8192, 8192, os.POSIX_FADV_WILLNEED)
                ),
                "an element of an array of blocks": elements(lambda: foretell.disclose(file, blocks)),
                "an element of an array of pairs": elements(lambda: foretell.disclose(file, pairs)),
                "an element of a list of pairs": elements(lambda: foretell.disclose(file, listed)),
                "an element of a loop over posix_fadvise": elements(advise),
            }
            found: dict[str, list[float]] = {name: [] for name in ways}
            for _ in range(rounds):
                for name, way in ways.items():
                    found[name].append(way())
                    recorder.said()
        recorder.close()
    return {name: {"median": statistics.median(values), "values": values} for name, values in found.items()}


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    ns = measure(arguments.rounds)
    for name, found in ns.items():
        print(f"{name:<40} {found['median']:8.1f} ns")
    if arguments.json is not None:
        result = {
            "command": "./x bench python",
            "commit": output("git", "rev-parse", "--short", "HEAD"),
            "load_before": os.getloadavg()[0],
            "machine": {
                "cores": os.cpu_count(),
                "kernel": platform.release(),
                "numpy": np.__version__,
                "python": platform.python_version(),
            },
            "ns": ns,
            "rounds": arguments.rounds,
        }
        written = arguments.json.with_suffix(".new")
        written.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
        written.rename(arguments.json)


if __name__ == "__main__":
    main()
