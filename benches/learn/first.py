"""What the first night of a job costs, by counts: they are steady where seconds are not.

./x bench first-night [--rounds N] [--foretell PROGRAM] [--json FILE]

Three jobs, each by itself and on a first night of 'foretell learn': 'true'; 'cat' of 200 small files; and 'sleep 1.5', by
whose end all of the watcher is there. The program (stripped, as it is installed), the jobs' programs and their files lie
on a file system of their own, a loop device with read_ahead_kb 8192, that is mounted anew before each run; so the
device's counts are of this run alone, whatever else the machine does. Each run is in a memory cgroup of its own, of either
version. Libraries and the names of other files stay cached. Printed are medians. Needs root.

  ms       elapsed (the device's file is cached below it: it answers at once)
  requests, MB   read from the device
  cpu ms   processor time of all processes, ours and the job's
  faults   page faults of all of them
  most MB  memory of the group at its most, with the page cache of program and files
  end MB   the same when the job has ended
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

GROUPS = [  # Where groups are, the file of the most, that of the present.
    ("/sys/fs/cgroup/memory", "memory.max_usage_in_bytes", "memory.usage_in_bytes"),
    ("/sys/fs/cgroup", "memory.peak", "memory.current"),
]
COLUMNS = ["ms", "requests", "MB", "cpu ms", "faults", "most MB", "end MB"]
READ_AHEAD_KB = 8192


def call(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Disk:
    """A file system of its own, cold whenever it is wanted."""

    def __init__(self, folder):
        self.image, self.at, self.loop = os.path.join(folder, "image"), os.path.join(folder, "mount"), None
        with open(self.image, "wb") as image:
            image.truncate(256 << 20)
        call("mkfs.ext4", "-q", self.image)
        os.mkdir(self.at)
        self.mount()

    def mount(self):
        call("mount", "-o", "loop", self.image, self.at)
        source = subprocess.check_output(["findmnt", "-no", "SOURCE", self.at], text=True)
        self.loop = "/sys/block/" + os.path.basename(source.strip())
        with open(self.loop + "/queue/read_ahead_kb", "w") as file:
            file.write(str(READ_AHEAD_KB))

    def unmount(self):
        for _ in range(50):
            if subprocess.run(["umount", self.at], stderr=subprocess.DEVNULL).returncode == 0:
                return
            time.sleep(0.1)
        sys.exit(f"{self.at} stays in use")

    def renew(self):
        os.sync()
        self.unmount()
        self.mount()

    def counts(self):
        with open(self.loop + "/stat") as file:
            fields = file.read().split()
        return int(fields[0]), int(fields[2]) * 512


class Group:
    """A memory cgroup for one run."""

    def __init__(self):
        found = [kind for kind in GROUPS if os.path.exists(os.path.join(kind[0], "cgroup.procs"))]
        if not found:
            sys.exit("there are no memory cgroups")
        parent, self.most, self.present = found[0]
        self.at = os.path.join(parent, f"first-night-{os.getpid()}")
        os.mkdir(self.at)
        if not os.path.exists(os.path.join(self.at, self.present)):
            os.rmdir(self.at)
            sys.exit("groups have no memory controller here")

    def number(self, name):
        with open(os.path.join(self.at, name)) as file:
            return int(file.read())

    def remove(self):
        for _ in range(50):
            try:
                return os.rmdir(self.at)
            except OSError:
                time.sleep(0.1)


def run(disk, command):
    disk.renew()
    group = Group()
    requests, read = disk.counts()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    enter = f"echo $$ > {group.at}/cgroup.procs; exec \"$@\""
    done = subprocess.run(["sh", "-c", enter, "-"] + command, stdout=subprocess.DEVNULL)
    elapsed = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{command}: exit code {done.returncode}")
    more_requests, more_read = disk.counts()
    processor = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    faults = after.ru_minflt + after.ru_majflt - used.ru_minflt - used.ru_majflt
    counts = [elapsed * 1e3, more_requests - requests, (more_read - read) / 1e6, processor * 1e3, faults,
              group.number(group.most) / 1e6, group.number(group.present) / 1e6]
    group.remove()
    return dict(zip(COLUMNS, counts))


def main():
    parser = argparse.ArgumentParser(prog="./x bench first-night")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--foretell", default="target/release/foretell")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("it needs root")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        disk = Disk(folder)
        try:
            measure(disk, folder, options)
        finally:
            disk.unmount()


def measure(disk, folder, options):
    at = lambda name: os.path.join(disk.at, name)
    call("strip", "-o", at("foretell"), options.foretell)
    for name in ["true", "cat", "sleep"]:
        shutil.copy(shutil.which(name), at(name))
    os.mkdir(at("files"))
    files = [at(f"files/{i}") for i in range(200)]
    for name in files:
        with open(name, "wb") as file:
            file.write(os.urandom(20 << 10))
    jobs = {"true": [at("true")], "cat": [at("cat")] + files, "sleep": [at("sleep"), "1.5"]}
    state = os.path.join(folder, "state")
    learn = [at("foretell"), "learn", "--quiet", "--name", "job", "--state", state, "--"]
    print(f"{'job':<8}{'':<7}" + "".join(f"{column:>10}" for column in COLUMNS))
    all_counts = {}
    for job, command in jobs.items():
        for arm, words in [("kernel", command), ("learn", learn + command)]:
            rounds = []
            for _ in range(options.rounds):
                shutil.rmtree(state, ignore_errors=True)
                rounds.append(run(disk, words))
            medians = {column: statistics.median(counts[column] for counts in rounds) for column in COLUMNS}
            print(f"{job:<8}{arm:<7}" + "".join(f"{value:>10.1f}" for value in medians.values()), flush=True)
            all_counts[f"{job} {arm}"] = {"medians": medians, "rounds": rounds}
    if options.json:
        with open(options.json, "w") as file:
            json.dump(all_counts, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
