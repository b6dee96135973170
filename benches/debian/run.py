"""Real programs from Debian source packages, as they are and built with `foretell cc`.

    ./x bench debian
    ./x bench debian --rounds 5 --json benches/results/debian.json
    ./x bench debian --only cksfv --rounds 1

The sources come by `apt-get source` from the machine's own archive, read in a private folder: nothing of the
system is changed. Each program is built twice with the same commands, by cc and by `foretell cc`. Input is made
up from a fixed seed. Then, for both modes of the slice:

- output, exit code and written files must be those of the original,
- what was predicted must be what the program then did (FORETELL_SLICE_TRACE),

and both are timed in turn from a cold start on a slow device. Pages are dropped before each run; names and
inodes stay in memory. Needs root, FUSE and loop devices like the other benchmarks, and dpkg-dev, make, clang and
libbz2-dev. Packages that are refused are built all the same: the reason is printed. The exit code is 1 if a
prediction was missing or wrong.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SEED = 1
MIB = 1 << 20

# Times of `foretell slowdisk up`, and the programs that run there; None is all of them.
DEVICES: dict[str, tuple[list[str], set[str] | None]] = {
    "1 ms x 8": (["--latency-ms", "1", "--channels", "8", "--mb-s", "200", "--total-mb-s", "250"], None),
    "8 ms disk": (["--seek-ms", "8", "--mb-s", "100"], {"cksfv", "exiftags", "c_count", "jhead"}),
}


@dataclass
class Program:
    """A program of a source package. `build` is run by a shell in the unpacked source, with $CC."""

    name: str
    package: str
    build: str
    made: str
    make_input: Callable[[Path, Path, random.Random], list[str]]
    # What was done to the source, if it is not as it was.
    change: str = ""
    # A file that it writes, beside its output.
    writes: str = ""


def dbase(folder: Path, _made: Path, rng: random.Random) -> list[str]:
    """A dBase III table of 16 MiB, listed."""
    fields = [("NAME", 40), ("STREET", 60), ("TOWN", 27)]
    width = 1 + sum(length for _, length in fields)
    count = 16 * MIB // width
    head = struct.pack("<B3BIHH20x", 3, 96, 1, 1, count, 32 + 32 * len(fields) + 1 + 1, width)
    for name, length in fields:
        head += struct.pack("<11scIBB14x", name.encode(), b"C", 0, length, 0)
    records = []
    letters = "abcdefghijklmnopqrstuvwxyz"
    for _ in range(count):
        values = ("".join(rng.choices(letters, k=12)).ljust(length) for _, length in fields)
        records.append(" " + "".join(values))
    (folder / "table.dbf").write_bytes(head + b"\r\0" + "".join(records).encode())
    return ["-b", "table.dbf"]


def versions(folder: Path, rng: random.Random, size: int) -> None:
    """Two versions of a file: 200 places differ."""
    old = bytearray(rng.randbytes(size))
    (folder / "old.bin").write_bytes(old)
    for _ in range(200):
        at = rng.randrange(size - 64)
        old[at : at + 32] = rng.randbytes(32)
    (folder / "new.bin").write_bytes(old)


def differ(folder: Path, _made: Path, rng: random.Random) -> list[str]:
    """A patch between two files of 1 MiB."""
    versions(folder, rng, MIB)
    return ["old.bin", "new.bin", "made.patch"]


def patch(folder: Path, made: Path, rng: random.Random) -> list[str]:
    """A file of 8 MiB from its patch."""
    versions(folder, rng, 8 * MIB)
    subprocess.run([made.with_name("bsdiff"), "old.bin", "new.bin", "a.patch"], cwd=folder, check=True)
    (folder / "new.bin").unlink()
    return ["old.bin", "made.bin", "a.patch"]


def database(folder: Path, made: Path, rng: random.Random) -> list[str]:
    """The keys of a constant database of 60,000 records of 100 to 300 bytes."""
    with open(folder / "records", "wb") as file:
        for n in range(60000):
            key, value = f"key{n:06}".encode(), rng.randbytes(rng.randrange(50, 150)).hex().encode()
            file.write(b"+%d,%d:%s->%s\n" % (len(key), len(value), key, value))
        file.write(b"\n")
    subprocess.run([made, "-c", "made.cdb", "records"], cwd=folder, check=True)
    (folder / "records").unlink()
    return ["-l", "made.cdb"]


def sources(folder: Path, _made: Path, rng: random.Random) -> list[str]:
    """The lines of 700 C files of 2 to 30 KiB, named in a list."""
    names = [f"unit{n:03}.c" for n in range(700)]
    for name in names:
        lines = []
        for n in range(rng.randrange(60, 900)):
            lines.append(rng.choice([f"int value{n} = {n}; /* a value */", "", f"// {n}", 'char *s = "/* no */";']))
        (folder / name).write_text("\n".join(lines) + "\n")
    rng.shuffle(names)
    (folder / "list").write_text("".join(f"{name}\n" for name in names))
    return ["-f", "list"]


def duplicates(folder: Path, _made: Path, rng: random.Random) -> list[str]:
    """600 files of 8 to 40 KiB, a third of them twice."""
    below = folder / "files"
    below.mkdir()
    for n in range(400):
        content = rng.randbytes(4096 * rng.randrange(2, 10))
        (below / f"{n:03}").write_bytes(content)
        if n % 2 == 0:
            (below / f"{n:03}.copy").write_bytes(content)
    return ["-q", "-r", "-o", "name", "files"]


def document(folder: Path, _made: Path, rng: random.Random) -> list[str]:
    """A text of 1 MiB, which is no document of an office program."""
    letters = "abcdefghijklmnopqrstuvwxyz     \n"
    (folder / "text").write_text("".join(rng.choices(letters, k=MIB)))
    return ["text"]


def checksums(folder: Path, made: Path, rng: random.Random) -> list[str]:
    """1,500 files of 16 to 48 KiB, checked against their list."""
    names = [f"file{n:04}" for n in range(1500)]
    for name in names:
        (folder / name).write_bytes(rng.randbytes(rng.randrange(16 << 10, 48 << 10)))
    rng.shuffle(names)
    with open(folder / "list.sfv", "wb") as file:
        subprocess.run([made, *names], cwd=folder, stdout=file, check=True)
    return ["-q", "-f", "list.sfv"]


def entropy(folder: Path, _made: Path, rng: random.Random) -> list[str]:
    """The entropy of a file of 16 MiB."""
    (folder / "data").write_bytes(rng.randbytes(16 * MIB))
    return ["data"]


def photos(folder: Path, _made: Path, rng: random.Random) -> list[str]:
    """700 JPEG files with 20 KiB of EXIF before 12 KiB of picture."""
    for n in range(700):
        model = f"Camera {rng.randrange(100)}".encode().ljust(32, b"\0")
        # Two entries: the model, 32 characters behind the directory; orientation.
        directory = struct.pack("<HHHIIHHIII", 2, 0x0110, 2, 32, 8 + 30, 0x0112, 3, 1, 1, 0)
        tiff = struct.pack("<2sHI", b"II", 42, 8) + directory + model
        segment = b"Exif\0\0" + tiff.ljust(20 << 10, b"\0")
        frame = struct.pack(">BBHBHHB", 0xFF, 0xC0, 17, 8, 480, 640, 3) + b"\1\x22\0\2\x11\1\3\x11\1"
        scan = b"\xff\xda\0\x0c\3\1\0\2\x11\3\x11\0?\0" + rng.randbytes(12 << 10) + b"\xff\xd9"
        head = b"\xff\xd8\xff\xe1" + struct.pack(">H", len(segment) + 2)
        (folder / f"photo{n:04}.jpg").write_bytes(head + segment + frame + scan)
    return sorted(path.name for path in folder.glob("*.jpg"))


def pictures(folder: Path, _made: Path, rng: random.Random) -> list[str]:
    """700 PNG files of one chunk of 24 KiB each; their pixels are not looked at."""
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    for n in range(700):
        head = chunk(b"IHDR", struct.pack(">IIBBBBB", 90, 90, 8, 2, 0, 0, 0))
        data = chunk(b"IDAT", zlib.compress(rng.randbytes(90 * 271), 0))
        (folder / f"{n:04}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + head + data + chunk(b"IEND", b""))
    return sorted(path.name for path in folder.glob("*.png"))


PROGRAMS = [
    Program("dbview", "dbview", 'make CC="$CC"', "dbview", dbase),
    Program("bsdiff", "bsdiff", "$CC -O2 -o bsdiff bsdiff.c -lbz2", "bsdiff", differ, writes="made.patch"),
    Program(
        "bspatch",
        "bsdiff",
        "$CC -O2 -o bsdiff bsdiff.c -lbz2 && $CC -O2 -o bspatch bspatch.c -lbz2",
        "bspatch",
        patch,
        writes="made.bin",
    ),
    Program("cksfv", "cksfv", './configure && make CC="$CC"', "src/cksfv", checksums),
    Program("ent", "ent", "$CC -O2 -o ent ent.c iso8859.c randtest.c chisq.c -lm", "ent", entropy),
    Program(
        "exiftags",
        "exiftags",
        r"""LC_ALL=C sed -i 's/"\xb0"/"\\260"/' exifgps.c && make CC="$CC" exiftags""",
        "exiftags",
        photos,
        change="a character of Latin-1 written as an escape",
    ),
    Program(
        "pngcheck",
        "pngcheck",
        "$CC -O2 -o pngcheck pngcheck.c",
        "pngcheck",
        pictures,
        change="without zlib",
    ),
    Program("cdb", "tinycdb", 'make CC="$CC" cdb', "cdb", database),
    Program("c_count", "sloccount", "$CC -O2 -o c_count c_count.c", "c_count", sources),
    Program("jhead", "jhead", 'make CC="$CC"', "jhead", photos),
    Program("jdupes", "jdupes", 'make CC="$CC"', "jdupes", duplicates),
    Program("catdoc", "catdoc", 'CC="$CC" ./configure && make', "src/catdoc", document),
]


def stop(why: str) -> None:
    sys.exit(f"debian: {why}")


def fetch(packages: set[str], folder: Path) -> list[str]:
    """Unpacks source packages below the folder, each in one that is named after it. Gives apt-cache(8) with the
    sources' index."""
    parts = folder / "parts"
    parts.mkdir()
    for path in Path("/etc/apt/sources.list.d").glob("*.sources"):
        text = path.read_text()
        (parts / path.name).write_text(text.replace("Types: deb\n", "Types: deb-src\n"))
    for path in [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*.list")]:
        if path.exists():
            lines = (line for line in path.read_text().splitlines() if line.startswith("deb "))
            (parts / path.name).write_text("".join(f"deb-src{line[3:]}\n" for line in lines))
    (folder / "lists/partial").mkdir(parents=True)
    (folder / "cache/archives/partial").mkdir(parents=True)
    options = {
        "APT::Sandbox::User": "root",
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": parts,
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
    }
    words = [f"-o{name}={value}" for name, value in options.items()]
    apt = ["apt-get", "-qq", *words]
    subprocess.run([*apt, "update"], check=True)
    for package in sorted(packages):
        below = folder / "sources" / package
        below.mkdir(parents=True)
        subprocess.run([*apt, "source", package], cwd=below, check=True, stdout=subprocess.DEVNULL)
    return ["apt-cache", *words]


def build(program: Program, source: Path, folder: Path, compiler: str) -> tuple[Path, str]:
    """Builds in a copy of the source. Gives the program, and what the compiler had to say about its slice."""
    shutil.copytree(source, folder, symlinks=True)
    done = subprocess.run(
        ["sh", "-c", program.build],
        cwd=folder,
        env=os.environ | {"CC": compiler},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        stop(f"{program.name} does not build with {compiler}:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    name = f"foretell: {Path(program.made).name}: "
    lines = done.stderr.replace(f"{folder.resolve()}/", "").splitlines()
    said = [line.removeprefix(name) for line in lines if line.startswith(name)]
    return folder / program.made, said[-1] if said else ""


def evict(folder: Path) -> None:
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def run(program: Program, made: Path, arguments: list[str], folder: Path, **settings: str) -> tuple[float, str]:
    """Seconds, and a digest of all that can be seen of the run."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FORETELL_SLICE")}
    with tempfile.TemporaryFile() as output:
        begin = time.perf_counter()
        done = subprocess.run(
            [made, *arguments],
            cwd=folder,
            env=environment | settings,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.PIPE,
            check=False,
        )
        seconds = time.perf_counter() - begin
        output.seek(0)
        digest = hashlib.sha256(output.read() + done.stderr + bytes([done.returncode & 255]))
    if program.writes:
        written = folder / program.writes
        digest.update(written.read_bytes())
        written.unlink()
    return seconds, digest.hexdigest()


def check(program: Program, plain: Path, sliced: Path, arguments: list[str], folder: Path) -> dict[str, object]:
    """Both modes beside the original: what can be seen, and predicted beside real accesses."""
    _, expected = run(program, plain, arguments, folder)
    found: dict[str, object] = {}
    for mode in ("fork", "thread"):
        with tempfile.TemporaryDirectory() as scratch:
            trace, stats = Path(scratch) / "trace", Path(scratch) / "stats"
            settings = {
                "FORETELL_SLICE": mode,
                "FORETELL_SLICE_TRACE": str(trace),
                "FORETELL_SLICE_STATS": str(stats),
            }
            _, seen = run(program, sliced, arguments, folder, **settings)
            if seen != expected:
                stop(f"{program.name}, mode {mode}: output or exit code is not that of the original")
            lines = trace.read_text(errors="replace").splitlines() if trace.exists() else []
            predicted = [line[2:] for line in lines if line.startswith("P")]
            real = [line[2:] for line in lines if line.startswith("R")]
            right = sum(1 for ours, theirs in zip(predicted, real, strict=False) if ours == theirs)
            # A slice that needs hidden state of the C library does not run as a thread.
            whole = len(predicted) == len(real) or (mode == "thread" and not predicted)
            found[mode] = {
                "exact": whole and right == len(predicted),
                "predicted": len(predicted),
                "real": len(real),
                "right": right,
                "stats": json.loads(stats.read_text()) if stats.exists() else None,
            }
    return found


class Device:
    """A slow disk, mounted, for as long as the `with` takes."""

    def __init__(self, foretell: str, timing: list[str], folder: Path) -> None:
        self.foretell, self.timing, self.folder = foretell, timing, folder
        self.name = f"debian-{os.getpid()}-{folder.name}".replace("_", "-")

    def __enter__(self) -> Path:
        command = [self.foretell, "slowdisk", "up", "--stay", "--name", self.name, "--size", "256M"]
        subprocess.run([*command, *self.timing, self.folder], check=True, stdout=subprocess.DEVNULL)
        return self.folder

    def __exit__(self, *_: object) -> None:
        subprocess.run([self.foretell, "slowdisk", "down", self.name], check=True, stdout=subprocess.DEVNULL)


def measure(
    program: Program, plain: Path, sliced: Path, arguments: list[str], folder: Path, rounds: int
) -> dict[str, list[float]]:
    """Seconds of the original and of the translation, in turn, cold; beginning with another one each time."""
    arms = [("original", plain), ("translated", sliced)]
    seconds: dict[str, list[float]] = {name: [] for name, _ in arms}
    for number in range(rounds):
        for name, made in arms if number % 2 == 0 else reversed(arms):
            evict(folder)
            seconds[name].append(run(program, made, arguments, folder)[0])
    return seconds


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", metavar="PROGRAM", help="again for several")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--foretell", default="target/release/foretell", metavar="COMMAND")
    parser.add_argument("--sources", type=Path, metavar="FOLDER", help="kept there, and used again")
    chosen = parser.parse_args()
    programs = [p for p in PROGRAMS if not chosen.only or p.name in chosen.only]
    if not programs:
        stop("no such program; there are: " + ", ".join(p.name for p in PROGRAMS))
    foretell = str(Path(chosen.foretell).resolve())
    load = os.getloadavg()[0]
    results: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory(prefix="foretell-debian-", dir="/var/tmp") as scratch:
        base = chosen.sources.resolve() if chosen.sources else Path(scratch) / "apt"
        if not base.exists():
            base.mkdir(parents=True)
            fetch({p.package for p in programs}, base)
        built = {}
        for program in programs:
            source = next(path for path in (base / "sources" / program.package).iterdir() if path.is_dir())
            folder = Path(scratch) / program.name
            plain, _ = build(program, source, folder / "plain", "cc")
            sliced, said = build(program, source, folder / "sliced", f"{foretell} cc")
            version = source.name.removeprefix(f"{program.package}-")
            results[program.name] = {"package": program.package, "version": version, "said": said}
            if program.change:
                results[program.name]["change"] = program.change
            refused = said.startswith("compiled unchanged")
            print(f"{program.name:<10} {version:<12} {said[:200] or 'translated'}", flush=True)
            if not refused:
                built[program.name] = (program, plain, sliced)
        for number, (device, (timing, only)) in enumerate(DEVICES.items()):
            for name, (program, plain, sliced) in built.items():
                if only is not None and name not in only:
                    continue
                point = Path(scratch) / f"disk{number}-{name}"
                with Device(foretell, timing, point) as disk:
                    folder = disk / "input"
                    folder.mkdir()
                    arguments = program.make_input(folder, plain, random.Random(SEED))
                    if number == 0:
                        results[name]["check"] = check(program, plain, sliced, arguments, folder)
                    seconds = measure(program, plain, sliced, arguments, folder, chosen.rounds)
                results[name].setdefault("seconds", {})[device] = seconds
                original, translated = (statistics.median(seconds[arm]) for arm in ("original", "translated"))
                fork = results[name]["check"]["fork"]
                print(
                    f"{name:<10} {device:<10} {original:8.2f} s {translated:8.2f} s {translated / original:6.2f}"
                    f"   predicted {fork['predicted']}, right {fork['right']} of {fork['real']}",
                    flush=True,
                )
    wrong = [
        f"{name} ({mode})"
        for name, result in results.items()
        for mode, found in result.get("check", {}).items()
        if not found["exact"]
    ]
    if chosen.json is not None:
        result = {
            "command": "./x bench debian",
            "commit": output("git", "rev-parse", "--short", "HEAD"),
            "load_before": load,
            "machine": {
                "cores": os.cpu_count(),
                "kernel": platform.release(),
                "compiler": output("cc", "-dumpversion"),
            },
            "programs": results,
            "rounds": chosen.rounds,
        }
        written = chosen.json.with_suffix(".new")
        written.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
        written.rename(chosen.json)
    if wrong:
        print("not all predicted, or not right: " + ", ".join(wrong), file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
