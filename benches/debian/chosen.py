"""Packages that nobody here chose: a seeded draw among Debian's command-line programs in C, built by their own rules.

    ./x bench chosen --list
    ./x bench chosen --json benches/results/chosen.json
    ./x bench chosen --only dbview,cksfv
    ./x bench chosen --seed 1117 --most-bytes 400000 --list

Drawn from are the source packages of the machine's own archive that have a program with the tags
`implemented-in::c`, `role::program` and `interface::commandline` and one of `WORKS_WITH` (debtags), need nothing to
be built but `BUILD_DEPENDS`, and are no larger than `MOST_BYTES`. Each is built twice by `debian/rules build`, its
own test suite included, once as it is and once with a `cc` and `gcc` in front of the real ones that are
`foretell cc`. Then each program that both builds have made is run on files of many kinds (made up from the seed), with
the name of a file as its only argument and with all names at once. Compared are output, exit code, and what the
folder holds afterwards; and what was predicted with what was read (FORETELL_SLICE_TRACE).

As root the programs run as `nobody`. Needs apt's deb-src of the machine's own archive, dpkg-dev and what
`BUILD_DEPENDS` names. The exit code is 1 if anything was different.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import time
import wave
import zipfile
import zlib
from dataclasses import asdict, dataclass, field
from pathlib import Path

from run import fetch

SEED = 2002
COUNT = 30

# What the programs work with, as debtags say it: what lies in files that have names.
WORKS_WITH = {
    f"works-with::{what}"
    for what in (
        "3dmodel archive audio biological-sequence db dictionary file font image image:raster image:vector "
        "logfile mail music-notation pim software:source spreadsheet text unicode video"
    ).split()
}

# What may be needed to build a package of the draw.
BUILD_DEPENDS = set(
    "debhelper debhelper-compat dpkg-dev dh-autoreconf autoconf automake autotools-dev libtool libtool-bin gettext "
    "autopoint bison flex m4 help2man texinfo xsltproc groff groff-base pkg-config pkgconf perl python3 quilt "
    "zlib1g-dev libbz2-dev liblzma-dev libpng-dev libjpeg-dev libjpeg62-turbo-dev libmagic-dev libncurses-dev "
    "libncurses5-dev libreadline-dev libssl-dev libexpat1-dev libxml2-dev libsqlite3-dev uuid-dev libgcrypt20-dev "
    "cmake libc6-dev gcc make".split()
)

# Larger sources take an hour each on a small machine.
MOST_BYTES = 1 << 20

# Seconds for the build of a package, and for a run of a program.
BUILD_S = 600
RUN_S = 5

# A trace is a write for each access.
TRACED_S = 60

# Most programs of a package that are run.
MOST_PROGRAMS = 12

# The user `nobody` of Debian.
NOBODY = 65534


def candidates(apt: list[str], most_bytes: int) -> list[str]:
    """The source packages of the draw, in the order of their names."""
    said = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, errors="replace", check=True)
    named: set[str] = set()
    for entry in said.stdout.split("\n\n"):
        values = dict(re.findall(r"^(\S+): (.*(?:\n .*)*)", entry, re.M))
        tags = set(re.split(r"[\s,]+", values.get("Tag", "")))
        if {"implemented-in::c", "role::program", "interface::commandline"} <= tags and tags & WORKS_WITH:
            named.add(values.get("Source", values["Package"]).split()[0])
    found: dict[str, str] = {}
    names = sorted(named)
    for at in range(0, len(names), 100):
        some = names[at : at + 100]
        said = subprocess.run([*apt, "showsrc", *some], capture_output=True, text=True, errors="replace", check=False)
        for entry in said.stdout.split("\n\n"):
            if entry.startswith("Package: "):
                found[entry.split("\n", 1)[0][9:]] = entry
    return [name for name in names if name in found and is_small(found[name], most_bytes)]


def is_small(entry: str, most_bytes: int) -> bool:
    """Can the package be built with little, and in a short time?"""
    values = dict(re.findall(r"^(\S+): ?(.*(?:\n .*)*)", entry, re.M))
    wanted = ",".join(values.get(key, "") for key in ("Build-Depends", "Build-Depends-Arch"))
    for item in re.sub(r"<[^>]*>|\[[^\]]*\]|\([^)]*\)", "", wanted).split(","):
        ways = {way.strip().split(":")[0] for way in item.split("|")}
        if item.strip() and not ways & BUILD_DEPENDS:
            return False
    sizes = re.findall(r"^ [0-9a-f]{32} (\d+) (\S+)", values.get("Files", ""), re.M)
    return sum(int(size) for size, name in sizes if "debian" not in name) <= most_bytes


@dataclass
class Program:
    """What became of one program of a package."""

    name: str
    same: bool = True
    runs: int = 0
    predicted: int = 0
    real: int = 0
    wrong: int = 0
    said: str = ""


@dataclass
class Result:
    """What became of a package."""

    package: str
    verdict: str = ""
    build_s: tuple[float, float] = (0.0, 0.0)
    programs: list[Program] = field(default_factory=list)


def make_files(folder: Path) -> list[str]:
    """Files of many kinds, the same each time."""
    rng = random.Random(SEED)
    letters = "abcdefghijklmnopqrstuvwxyz     \n"
    text = "".join(rng.choices(letters, k=200_000))
    (folder / "text.txt").write_text(text)
    (folder / "table.csv").write_text("".join(f"{n},{rng.randrange(1000)},name {n}\n" for n in range(5000)))
    (folder / "code.c").write_text("".join(f"int value{n} = {n}; /* {n} */\n" for n in range(4000)))
    (folder / "page.html").write_text("<html><body>" + "<p>a <b>word</b> &amp; more</p>\n" * 3000 + "</body></html>\n")
    (folder / "mail.mbox").write_text(
        "".join(f"From a@b Mon Jan  1 00:00:00 2024\nSubject: {n}\nFrom: a@b\n\nbody {n}\n\n" for n in range(800))
    )
    (folder / "random.bin").write_bytes(rng.randbytes(300_000))
    pixels = rng.randbytes(200 * 200 * 3)
    (folder / "image.ppm").write_bytes(b"P6\n200 200\n255\n" + pixels)
    (folder / "image.bmp").write_bytes(
        struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 54 + 120000, 0, 0, 54, 40, 200, 200, 1, 24, 0, 120000, 0, 0, 0, 0)
        + pixels
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[at : at + 600] for at in range(0, len(pixels), 600))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 200, 200, 8, 2, 0, 0, 0))
    (folder / "image.png").write_bytes(
        b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )
    with wave.open(str(folder / "sound.wav"), "wb") as sound:
        sound.setparams((2, 2, 44100, 0, "NONE", ""))
        sound.writeframes(rng.randbytes(400_000))
    (folder / "text.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    with zipfile.ZipFile(folder / "files.zip", "w") as archive:
        for n in range(20):
            archive.writestr(zipfile.ZipInfo(f"member{n}.txt"), text[n * 1000 : n * 1000 + 5000])
    with tarfile.open(folder / "files.tar", "w") as archive:
        for n in range(20):
            info = tarfile.TarInfo(f"member{n}.txt")
            info.size = 5000
            archive.addfile(info, io.BytesIO(text[n * 1000 : n * 1000 + 5000].encode()))
    shutil.copyfile("/usr/bin/true", folder / "program.elf")
    return sorted(path.name for path in folder.iterdir())


def compilers(foretell: list[str], folder: Path) -> Path:
    """A folder to be put before all others: the usual names of the compiler, which are foretell's."""
    folder.mkdir()
    real = shutil.which("gcc")
    words = " ".join(foretell)
    for name in ("cc", "gcc", "c99", "c89", f"{os.uname().machine}-linux-gnu-gcc"):
        shim = folder / name
        shim.write_text(f'#!/bin/sh\nFORETELL_CC={real} exec {words} "$@"\n')
        shim.chmod(0o755)
    return folder


def build(source: Path, folder: Path, front: Path | None) -> tuple[bool, float, str]:
    """Builds in a copy at a path of its own. Gives success, seconds and all that was said."""
    shutil.copytree(source, folder, symlinks=True)
    cache = folder.with_suffix(".cache")
    cache.mkdir()
    environment = dict(os.environ, DEB_BUILD_OPTIONS="parallel=2", LC_ALL="C", HOME=str(cache), XDG_CACHE_HOME=str(cache))
    # Test suites of packages expect not to be root.
    user = NOBODY if os.geteuid() == 0 else None
    if user is not None:
        subprocess.run(["chown", "-R", f"{user}:{user}", folder, cache], check=True)
    if front is not None:
        environment["PATH"] = f"{front}:{environment['PATH']}"
    begin = time.monotonic()
    log = folder.with_suffix(".log")
    with open(log, "wb") as output:
        process = subprocess.Popen(
            ["debian/rules", "build"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=[] if user is not None else None,
        )
        try:
            code = process.wait(BUILD_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
    return code == 0, time.monotonic() - begin, log.read_text(errors="replace")


def programs(folder: Path) -> dict[str, Path]:
    """The programs that a build has made, by their paths in it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink() or not os.access(path, os.X_OK) or path.suffix in (".so", ".o"):
            continue
        with open(path, "rb") as file:
            head = file.read(18)
        # ELF, and a program or a position-independent one.
        if head[:4] == b"\x7fELF" and head[16] in (2, 3) and ".so." not in path.name:
            found[str(path.relative_to(folder))] = path
    return dict(list(found.items())[:MOST_PROGRAMS])


def run(
    program: Path, arguments: list[str], files: Path, scratch: Path, settings: dict[str, str], most_s: float = RUN_S
) -> tuple[str, str]:
    """A digest of all that can be seen of a run, and why it ended."""
    if scratch.exists():
        shutil.rmtree(scratch)
    shutil.copytree(files, scratch)
    shutil.copyfile(program, scratch / "program")
    (scratch / "program").chmod(0o755)
    user = NOBODY if os.geteuid() == 0 else None
    if user is not None:
        for path in [scratch, *scratch.iterdir()]:
            os.chown(path, user, user)
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": str(scratch), "TERM": "dumb", **settings}
    output = scratch.with_name("output")
    with open(output, "wb") as out:
        process = subprocess.Popen(
            ["./program", *arguments],
            cwd=scratch,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=user,
            group=user,
            extra_groups=[] if user is not None else None,
        )
        try:
            ended = str(process.wait(most_s))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return "", "time"
    digest = hashlib.sha256(output.read_bytes() + ended.encode())
    for path in sorted(scratch.rglob("*")):
        if path.name != "program":
            digest.update(str(path.relative_to(scratch)).encode())
            digest.update(path.read_bytes() if path.is_file() and not path.is_symlink() else b"")
    return digest.hexdigest(), ended


def compare(name: str, plain: Path, sliced: Path, files: Path, names: list[str], folder: Path) -> Program:
    """Both programs on all files. What differs from run to run of the original itself is not compared."""
    found = Program(name)
    trace = folder / "traces" / "trace"
    trace.parent.mkdir(exist_ok=True)
    trace.parent.chmod(0o777)
    waited = 0
    for arguments in [[], *([name] for name in names), names]:
        expected, ended = run(plain, arguments, files, folder / "scratch", {})
        again = run(plain, arguments, files, folder / "scratch", {})[0] if ended != "time" else ""
        if ended == "time":
            # It waits for something that nobody gives it, and will do so again.
            waited += 1
            if waited == 2:
                break
            continue
        if expected != again:
            continue
        trace.unlink(missing_ok=True)
        traced = {"FORETELL_SLICE_TRACE": str(trace)}
        seen = {run(sliced, arguments, files, folder / "scratch", traced, TRACED_S)[0]}
        seen.add(run(sliced, arguments, files, folder / "scratch", {}, 2 * RUN_S)[0])
        if seen != {expected}:
            # The original may be one that is not the same each time, or at each time of day.
            later = {run(plain, arguments, files, folder / "scratch", {})[0] for _ in range(5)}
            if later != {expected}:
                continue
            found.same = False
        found.runs += 1
        if seen != {expected}:
            found.said += f"; differs with {' '.join(arguments)[:60]}"
        lines = trace.read_text(errors="replace").splitlines() if trace.exists() else []
        predicted = [line[2:] for line in lines if line.startswith("P")]
        real = [line[2:] for line in lines if line.startswith("R")]
        found.predicted += len(predicted)
        found.real += len(real)
        # The slice may have been further than the program, when that ended.
        found.wrong += sum(1 for ours, theirs in zip(predicted, real, strict=False) if ours != theirs)
    return found


def try_package(package: str, source: Path, folder: Path, front: Path, files: Path, names: list[str]) -> Result:
    result = Result(package)
    fine, plain_s, log = build(source, folder / "plain", None)
    if not fine:
        result.verdict = f"does not build here: {last_line(log)}"
        return result
    fine, sliced_s, log = build(source, folder / "sliced", front)
    result.build_s = (round(plain_s, 1), round(sliced_s, 1))
    said = re.findall(r"^foretell: ([^\n]*)$", log, re.M)
    if not fine:
        result.verdict = f"DOES NOT BUILD with foretell cc: {last_line(log)}"
        return result
    both = programs(folder / "sliced")
    for name, plain in programs(folder / "plain").items():
        if name not in both:
            continue
        found = compare(name, plain, both[name], files, names, folder)
        lines = [line.split(": ", 1)[1] for line in said if Path(line.split(": ", 1)[0]).name == Path(name).name]
        is_sliced = b"foretell-slice" in both[name].read_bytes()
        found.said = ("sliced" if is_sliced else "not sliced") + "".join(f": {line}" for line in lines[-1:]) + found.said
        result.programs.append(found)
    result.verdict = "same" if all(program.same for program in result.programs) else "DIFFERS"
    return result


def last_line(log: str) -> str:
    errors = [line for line in log.splitlines() if re.search(r"error|Error|No such|not found|FAIL", line)]
    return (errors or log.splitlines() or ["no word"])[0][:160]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("--foretell", default="target/release/foretell", help="the command that is tried")
    parser.add_argument("--list", action="store_true", help="print the draw and end")
    parser.add_argument("--only", help="packages by name, with commas, in place of the draw")
    parser.add_argument("--seed", type=int, default=SEED, help="of the draw; the input stays the same")
    parser.add_argument("--most-bytes", type=int, default=MOST_BYTES, help="of the sources of a package")
    parser.add_argument("--count", type=int, default=COUNT, help="how many are tried")
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/foretell-chosen"), help="a folder for it all")
    parser.add_argument("--json", type=Path, help="where to write the results")
    arguments = parser.parse_args()
    work: Path = arguments.work.resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    work.chmod(0o755)
    apt = fetch(set(), work)
    drawn = arguments.only.split(",") if arguments.only else draw(apt, arguments.seed, arguments.most_bytes)
    if arguments.list:
        print("\n".join(drawn[: arguments.count]))
        return
    files = work / "files"
    files.mkdir()
    names = make_files(files)
    foretell = [*arguments.foretell.split(), "cc"] if arguments.foretell.endswith("foretell") else [arguments.foretell]
    front = compilers([str(Path(foretell[0]).resolve()), *foretell[1:]], work / "front")
    results = []
    for package in drawn:
        if len(results) == arguments.count:
            break
        folder = work / package
        folder.mkdir()
        got = subprocess.run([*apt_get(apt), "source", package], cwd=folder, check=False, capture_output=True)
        if got.returncode != 0:
            print(f"{package}: the archive does not have its source; the next of the draw takes its place")
            continue
        source = next(path for path in folder.iterdir() if path.is_dir())
        result = try_package(package, source, folder, front, files, names)
        shutil.rmtree(folder)
        results.append(result)
        print(f"{package}: {result.verdict}, build {result.build_s[0]} s and {result.build_s[1]} s")
        for program in result.programs:
            print(
                f"    {program.name}: {program.runs} runs, predicted {program.predicted} of {program.real}, "
                f"{program.wrong} wrong; {program.said}",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    sys.exit(1 if any(result.verdict.startswith(("DIFFERS", "DOES NOT BUILD")) for result in results) else 0)


def draw(apt: list[str], seed: int, most_bytes: int) -> list[str]:
    """All candidates, in the order in which they are drawn."""
    found = candidates(apt, most_bytes)
    random.Random(seed).shuffle(found)
    return found


def apt_get(apt_cache: list[str]) -> list[str]:
    return ["apt-get", "-qq", *apt_cache[1:]]


if __name__ == "__main__":
    main()
