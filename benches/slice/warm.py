"""What a translated program costs when there is nothing to gain: everything that it reads is in memory.

./x bench slice-warm [--rounds N] [--mb N] [--foretell COMMAND] [--only FORM] [--instructions]

Each form of access (benches/slice/warm.c) is compiled twice with -O2, by cc and by foretell cc, and run in turn: as it
was, translated, and translated with FORETELL_SLICE=off. Printed are the median of the first in seconds and the ratios
of the others' medians to it, by the clock and in processor time; with --instructions also those of the instructions that the program's process executes
(valgrind --tool=callgrind, on a tenth of the data), which a busy machine does not change.
"""

import argparse
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

FORMS = ["fread16", "getc_", "getc_unlocked_", "fgets_", "getline_", "fscanf_", "fseek_fread", "pread4k", "mmap_byte",
         "mmap_word", "files"]
# Sides of the comparison: which program, and what FORETELL_SLICE is.
SIDES = {"original": ("original", None), "translated": ("translated", None), "off": ("translated", "off")}
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "warm.c")


def make_data(folder, megabytes):
    """Lines of numbers, for all forms; and the same bytes in files of 4 KiB."""
    line_of = lambda i: b"%d\n" % (i * 2654435761 % 1000000007)
    block = b"".join(line_of(i) for i in range(100000))
    path = os.path.join(folder, "data")
    left = megabytes << 20
    with open(path, "wb") as file:
        while left > 0:
            left -= file.write(block[:left])
    many = os.path.join(folder, "files")
    os.mkdir(many)
    count = megabytes * 64
    for i in range(count):
        with open(os.path.join(many, str(i)), "wb") as file:
            file.write(block[i * 64 % 65536:][:4096])
    return path, many, count


def build(folder, foretell, form):
    programs = {}
    for name, compiler in [("original", ["cc"]), ("translated", foretell + ["cc"])]:
        program = os.path.join(folder, f"{form}-{name}")
        # From an object, as most programs are built.
        for words in [["-c", SOURCE, "-o", program + ".o"], [program + ".o", "-o", program]]:
            command = compiler + ["-O2", f"-DFORM={form}"] + words
            done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
            if done.returncode != 0 or done.stderr:
                sys.exit(f"{shlex.join(command)}: {done.stderr.strip()}")
        programs[name] = program
    with open(programs["translated"], "rb") as file:
        if b"foretell-slice" not in file.read():
            sys.exit(f"{form}: was not translated")
    return programs


def environment(mode):
    env = {name: value for name, value in os.environ.items() if not name.startswith("FORETELL_")}
    # No service: what is measured is the program by itself.
    env["FORETELL_SLICE_SINK"] = "readahead"
    if mode:
        env["FORETELL_SLICE"] = mode
    return env


def run(program, arguments, mode):
    """Elapsed and processor seconds (those of the slice included, which the program reaps), and the output."""
    begin = time.perf_counter()
    process = subprocess.Popen([program] + arguments, env=environment(mode), stdout=subprocess.PIPE)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    elapsed = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{program} {shlex.join(arguments)}: exit code {process.returncode}")
    return elapsed, usage.ru_utime + usage.ru_stime, output


def instructions(folder, program, arguments, mode):
    """Instructions of the program's own process."""
    out = os.path.join(folder, "callgrind.%p")
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", program] + arguments
    process = subprocess.Popen(command, env=environment(mode), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if process.wait() != 0:
        sys.exit(f"{shlex.join(command)} failed")
    with open(out.replace("%p", str(process.pid))) as file:
        return int(re.search(r"^(?:summary|totals): (\d+)", file.read(), re.M).group(1))


def arguments_of(form, data):
    path, many, count = data
    return [many, str(count)] if form == "files" else [path]


def main():
    parser = argparse.ArgumentParser(prog="./x bench slice-warm")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--foretell", default="target/release/foretell")
    parser.add_argument("--only", choices=FORMS, action="append")
    parser.add_argument("--instructions", action="store_true")
    options = parser.parse_args()
    if options.instructions and not shutil.which("valgrind"):
        sys.exit("--instructions needs valgrind")
    foretell = [os.path.abspath(word) if os.path.exists(word) else word for word in shlex.split(options.foretell)]
    with tempfile.TemporaryDirectory() as folder:
        data = make_data(folder, options.mb)
        os.mkdir(os.path.join(folder, "small"))
        small = make_data(os.path.join(folder, "small"), max(1, options.mb // 10)) if options.instructions else None
        print(f"{'form':<16}{'original s':>11}{'translated':>12}{'off':>8}{'  processor: translated':>24}{'off':>8}" +
              ("   instructions: translated     off" if small else ""))
        for form in options.only or FORMS:
            programs = build(folder, foretell, form)
            times = {side: [] for side in SIDES}
            busy = {side: [] for side in SIDES}
            for turn in range(options.rounds + 1):
                outputs = set()
                # Each side is the first one as often as the others.
                order = list(SIDES)[turn % 3:] + list(SIDES)[:turn % 3]
                for side in order:
                    which, mode = SIDES[side]
                    seconds, processor, output = run(programs[which], arguments_of(form, data), mode)
                    outputs.add(output)
                    if turn > 0:  # the first round brings everything into memory
                        times[side].append(seconds)
                        busy[side].append(processor)
                if len(outputs) != 1:
                    sys.exit(f"{form}: the outputs differ: {outputs}")
            line = f"{form.rstrip('_'):<16}{statistics.median(times['original']):>11.4f}"
            for values, first in [(times, 12), (busy, 24)]:
                medians = {side: statistics.median(values[side]) for side in SIDES}
                line += f"{medians['translated'] / medians['original']:>{first}.3f}"
                line += f"{medians['off'] / medians['original']:>8.3f}"
            if small:
                counts = {side: instructions(folder, programs[which], arguments_of(form, small), mode)
                          for side, (which, mode) in SIDES.items()}
                line += f"{counts['translated'] / counts['original']:>28.3f}{counts['off'] / counts['original']:>8.3f}"
            print(line, flush=True)


main()
