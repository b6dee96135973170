//! Recordings against the truth: what a program says that it read, and what strace saw of programs of the system.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use foretell_recording::{Recording, Way};
use foretell_trace::{Format, ReadOptions};
use harness::{Tree, can_control, foretell};

/// Bytes of a page, in which recordings count.
const PAGE: u64 = 4096;

/// Reads here and there in every way, touches pages of a mapping, and says of each what it was. Without readahead: what
/// is still on its way is not told of by the kernel in all cases. Each read is of another file than the one before: what
/// a thread reads again at once cannot be told from the rest of a read (docs/run.md).
const READER: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

static unsigned long long state;
static unsigned long below(unsigned long n)
{
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state >> 33) % n;
}

static char bytes[1 << 16];

int main(int argc, char **argv)
{
    state = strtoull(argv[1], 0, 10);
    for (int i = 0, file = 0; i < 150; i++) {
        file = (file + 1 + below(argc - 4)) % (argc - 3);
        const char *name = argv[2 + file];
        int fd = open(name, O_RDONLY);
        posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
        long size = lseek(fd, 0, SEEK_END);
        long at = below(size + 10), part = 1 + below(20000);
        struct iovec parts[3] = {{bytes, part}, {bytes + 20000, 1 + below(5000)}, {bytes + 30000, 1}};
        lseek(fd, at, SEEK_SET);
        long got = -1;
        switch (below(6)) {
        case 0: got = read(fd, bytes, part); break;
        case 1: got = pread(fd, bytes, part, at); break;
        case 2: got = readv(fd, parts, 3); break;
        case 3: got = preadv(fd, parts, 3, at); break;
        case 4: got = preadv2(fd, parts, 2, at, 0); break;
        case 5: /* in sequence, with the same page more than once */
            got = 0;
            for (int k = 0; k < 5; k++)
                got += read(fd, bytes, 1 + part / 5);
        }
        if (got > 0)
            printf("read %s %ld %ld\n", name, at, got);
        close(fd);
    }
    const char *name = argv[argc - 1];
    int fd = open(name, O_RDONLY);
    volatile char *map = mmap(0, 64 * 4096, PROT_READ, MAP_SHARED, fd, 16 * 4096);
    madvise((void *)map, 64 * 4096, MADV_RANDOM);
    for (int i = 0; i < 40; i++) {
        unsigned long page = below(64);
        (void)map[page * 4096 + below(4096)];
        printf("touch %s %lu\n", name, 16 + page);
    }
    return 0;
}
"#;

/// Appends the pages of a range of bytes. A page that follows itself counts once: recordings join what goes on where
/// it was.
fn add(pages: &mut Vec<u64>, offset: u64, bytes: u64) {
    for page in offset / PAGE..(offset + bytes).div_ceil(PAGE) {
        if pages.last() != Some(&page) {
            pages.push(page);
        }
    }
}

/// The pages of each file that a recording has, in order, of the processes of whose name this holds.
fn recorded(recording: &Recording, way: Way, whose: impl Fn(&str) -> bool) -> BTreeMap<PathBuf, Vec<u64>> {
    let mut files = BTreeMap::<PathBuf, Vec<u64>>::new();
    for access in &recording.accesses {
        if access.way == way && whose(&recording.role(access.role).unwrap().name) {
            let path = &recording.file(access.file).unwrap().path;
            let (first, pages) = (u64::from(access.first_page), u64::from(access.pages));
            add(files.entry(path.clone()).or_default(), first * PAGE, pages * PAGE);
        }
    }
    files
}

/// Records a command of this directory; with what it printed.
fn record(tree: &Tree, command: &[&str]) -> (Recording, String) {
    let recording = tree.file("recording");
    let inside = format!("cd {} && exec \"$@\"", tree.path().display());
    let fixed = ["run", "--quiet", "--record", recording.to_str().unwrap(), "--", "sh", "-c", &inside, "sh"];
    let ended = foretell([&fixed[..], command].concat());
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{command:?}");
    let recording = Recording::read(recording).unwrap();
    assert_eq!((recording.summary.lost_events, recording.summary.left_out), (0, 0));
    (recording, ended.stdout)
}

/// Is this a file that the system's loader and library look at for a program, or a program?
fn is_the_systems(path: &Path) -> bool {
    ["/usr", "/lib", "/lib64", "/bin", "/etc"].iter().any(|directory| path.starts_with(directory))
}

#[test]
fn a_recording_is_what_the_program_says_that_it_read() {
    if !can_control("a_recording_is_what_the_program_says_that_it_read") {
        return;
    }
    let tree = Tree::new(&[("a", 700_001), ("b", 65_536), ("c", 5_000), ("mapped", 400_000)]);
    let source = tree.write("reader.c", READER);
    let cc = Command::new("cc").args(["-O1", "-o"]).args([&tree.file("reader"), &source]).status().unwrap();
    assert!(cc.success());
    for seed in 0..12 {
        // Nothing cached, all of it, and whatever the run before has left.
        match seed % 3 {
            0 => tree.drop_cache(),
            1 => ["a", "b", "c", "mapped"].iter().for_each(|name| drop(std::fs::read(tree.file(name)))),
            _ => {}
        }
        let (recording, said) = record(&tree, &["./reader", &seed.to_string(), "a", "b", "c", "mapped"]);
        let (mut read, mut touched) = (BTreeMap::<PathBuf, Vec<u64>>::new(), BTreeSet::new());
        for line in said.lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["read", name, offset, bytes] => {
                    let pages = read.entry(tree.file(name)).or_default();
                    add(pages, offset.parse().unwrap(), bytes.parse().unwrap());
                }
                ["touch", "mapped", page] => _ = touched.insert(page.parse::<u64>().unwrap()),
                _ => panic!("the reader said {line}"),
            }
        }
        assert!(read.len() == 3 && touched.len() > 20, "{said}");
        let mut found = recorded(&recording, Way::Read, |_| true);
        found.retain(|path, _| !is_the_systems(path));
        // What the kernel reads of a program to begin it.
        assert_eq!(found.remove(&tree.file("reader")), Some(vec![0]), "seed {seed}");
        assert_eq!(found, read, "seed {seed}");
        let found = &recorded(&recording, Way::Mapped, |_| true)[&tree.file("mapped")];
        let missing: Vec<_> = touched.iter().filter(|page| !found.contains(page)).collect();
        assert!(missing.is_empty(), "seed {seed}: {missing:?} are not in {found:?}");
        assert!(found.iter().all(|page| (16..80).contains(page)), "seed {seed}: {found:?}");
        // Nothing of ours: neither a file nor a process.
        for file in &recording.files {
            let own = file.path.parent() == Some(&tree.path()) && !file.path.ends_with("recording");
            assert!(own || is_the_systems(&file.path), "{}", file.path.display());
        }
        let names: Vec<_> = recording.roles.iter().map(|role| role.name.as_str()).collect();
        assert!(names.iter().all(|name| ["job", "sh", "reader"].contains(name)), "{names:?}");
    }
}

#[test]
fn what_a_job_has_open_of_the_kernels_is_not_worth_a_line() {
    if !can_control("what_a_job_has_open_of_the_kernels_is_not_worth_a_line") {
        return;
    }
    let tree = Tree::new(&[("a", 64 << 10)]);
    let (recording, _) = record(&tree, &["sh", "-c", "exec 3< /proc/self/maps; cat a; sleep 0.1"]);
    assert!(recording.files.iter().any(|file| file.path == tree.file("a")), "{:?}", recording.files);
}

/// What strace saw a program read: the pages of each file of this directory, in order, and which files of the system it
/// read or mapped.
fn traced(tree: &Tree, output: &Path) -> (BTreeMap<PathBuf, Vec<u64>>, BTreeSet<PathBuf>) {
    let options = ReadOptions { format: Some(Format::Strace), ..ReadOptions::default() };
    let mut reader = foretell_trace::open(output, &options).unwrap();
    let (mut own, mut systems) = (BTreeMap::<_, Vec<u64>>::new(), BTreeSet::new());
    while let Some(reference) = reader.next() {
        let reference = reference.unwrap();
        let path = PathBuf::from(&reader.meta().files[reference.file as usize].name);
        if !path.starts_with(tree.path()) {
            systems.insert(path.canonicalize().unwrap());
        } else if !reference.write {
            add(own.entry(path).or_default(), reference.offset, reference.bytes);
        }
    }
    (own, systems)
}

/// The program of this name, and the loader, which the kernel reads and maps itself.
fn begun_by_the_kernel(program: &str) -> Vec<PathBuf> {
    let loaders = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"].map(PathBuf::from);
    let program = ["/usr/bin", "/bin"].map(|directory| Path::new(directory).join(program));
    loaders.iter().chain(&program).filter_map(|path| path.canonicalize().ok()).collect()
}

#[test]
fn a_recording_is_what_strace_saw() {
    let test = "a_recording_is_what_strace_saw";
    if !can_control(test) {
        return;
    }
    if Command::new("strace").arg("-V").output().is_err() {
        println!("skipped: {test}: strace is not installed");
        return;
    }
    let tree = Tree::new(&[("small", 5_000), ("large", 3_000_001)]);
    let numbers = (0..200_000_u32).map(|i| format!("{:010}\n", i.wrapping_mul(2_654_435_761)));
    let lines = std::fs::File::open(tree.write("lines", numbers.collect::<String>())).unwrap();
    lines.sync_all().unwrap();
    // It writes what does not fit into its memory to files here, and reads it again.
    let sort = ["sort", "--parallel=1", "-S", "1M", "-T", ".", "lines"];
    for program in [&["cat", "small", "large"][..], &["grep", "-c", "77", "small", "lines"], &sort] {
        // The kernel does not tell of all that is still on its way (docs/run.md), nor of the whole where it drops pages
        // meanwhile: all of it once in three times where everything was cached.
        let whole = (0..3).any(|_| {
            ["small", "large", "lines"].iter().for_each(|name| drop(std::fs::read(tree.file(name))));
            as_strace_saw(&tree, program)
        });
        assert!(whole, "{program:?}");
        tree.drop_cache();
        as_strace_saw(&tree, program);
    }
}

/// Records a program under strace: there is hardly anything missing, and nothing of ours. Is all of it there?
fn as_strace_saw(tree: &Tree, program: &[&str]) -> bool {
    let strace = ["strace", "-f", "-ttt", "-y", "-o", "strace"];
    let (recording, _) = record(tree, &[&strace, program].concat());
    let (read, systems) = traced(tree, &tree.file("strace"));
    let whose = |name: &str| name == program[0];
    let mut found = recorded(&recording, Way::Read, whose);
    found.retain(|path, _| !is_the_systems(path));
    assert!(found.keys().eq(read.keys()), "{program:?}: {:?} of {:?}", found.keys(), read.keys());
    for (path, pages) in &read {
        let mut rest = pages.iter();
        let found = &found[path];
        assert!(
            found.iter().all(|page| rest.any(|read| read == page)),
            "{program:?}: {found:?} of {pages:?}"
        );
        assert!(found.len() * 100 >= pages.len() * 95, "{program:?}: {found:?} of {pages:?}");
    }
    if program[0] == "sort" {
        assert!(read.len() > 2, "nothing was written and read again: {:?}", read.keys());
    }
    let others = [Way::Read, Way::Mapped].map(|way| recorded(&recording, way, whose).into_keys());
    for path in others.into_iter().flatten().filter(|path| is_the_systems(path)) {
        let known = systems.contains(&path) || begun_by_the_kernel(program[0]).contains(&path);
        assert!(known, "{program:?}: {} in none of {systems:?}", path.display());
    }
    found == read
}
