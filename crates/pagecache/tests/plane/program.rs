//! A program to be put under control: this very test binary, started again, doing what it is told line by
//! line on its standard input and answering each line.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const ROLE: &str = "FORETELL_TEST_ROLE";

/// Starts this binary in a role, one of the tests named `as_…` below.
pub(crate) fn start_as(role: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "--test-threads=1", &format!("program::as_{role}")])
        .env(ROLE, role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// A program that reads files as it is told.
pub(crate) struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    pub(crate) fn start() -> Program {
        let mut child = start_as("reader");
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut program = Program { child, input, output };
        // The test harness greets first.
        while program.answer() != "ready" {}
        program
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    pub(crate) fn answer(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the program has ended");
        line.trim_end().to_owned()
    }

    /// Readable when there is an answer.
    pub(crate) fn answers(&self) -> BorrowedFd<'_> {
        self.output.get_ref().as_fd()
    }

    /// Does one thing with nobody watching.
    pub(crate) fn run(&mut self, line: &str) -> String {
        self.tell(line);
        self.answer()
    }
}

impl Drop for Program {
    // Also when its test has failed: nothing is left running.
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Blocks of a file in an order that looks random and is the same every time.
pub(crate) fn shuffled(blocks: u64, seed: u64) -> Vec<u64> {
    let mut order: Vec<u64> = (0..blocks).collect();
    let mut state = seed;
    for i in (1..order.len()).rev() {
        // Knuth's MMIX generator: good enough to shuffle.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(i, (state >> 33) as usize % (i + 1));
    }
    order
}

#[test]
fn as_reader() {
    if std::env::var(ROLE).as_deref() != Ok("reader") {
        return;
    }
    println!("\nready");
    let mut files: HashMap<String, File> = HashMap::new();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        match words[0] {
            // open FILE PATH [rw] [random]
            "open" => {
                let file = OpenOptions::new().read(true).write(words[3..].contains(&"rw")).open(words[2]);
                let file = file.unwrap();
                if words[3..].contains(&"random") {
                    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random).unwrap();
                }
                files.insert(words[1].to_owned(), file);
            }
            "close" => drop(files.remove(words[1])),
            // read FILE OFFSET LENGTH
            "read" => read(&files[words[1]], number(2), number(3)),
            // pass FILE LENGTH TIMES [MICROSECONDS to compute after each read]
            "pass" => {
                let compute_us = words.get(4).map_or(0, |word| word.parse().unwrap());
                passes(&files[words[1]], number(2), number(3), compute_us);
            }
            // together FILE LENGTH TIMES MICROSECONDS THREADS
            "together" => std::thread::scope(|scope| {
                for _ in 0..number(5) {
                    scope.spawn(|| passes(&files[words[1]], number(2), number(3), number(4)));
                }
            }),
            // shuffled FILE LENGTH SEED MICROSECONDS
            "shuffled" => {
                let blocks = files[words[1]].metadata().unwrap().len() / number(2);
                for block in shuffled(blocks, number(3)) {
                    read(&files[words[1]], block * number(2), number(2));
                    std::thread::sleep(Duration::from_micros(number(4)));
                }
            }
            "write" => files[words[1]].write_all_at(&vec![7; number(3) as usize], number(2)).unwrap(),
            "truncate" => files[words[1]].set_len(number(2)).unwrap(),
            "touch" => touch(&files[words[1]]),
            // child PROGRAM ARGUMENTS
            "child" => {
                let status = Command::new(words[1]).args(&words[2..]).stdout(Stdio::null()).status();
                assert!(status.unwrap().success());
            }
            other => panic!("{other}?"),
        }
        println!("done");
    }
}

/// Reads a file from beginning to end, so many times.
fn passes(file: &File, length: u64, times: u64, compute_us: u64) {
    let size = file.metadata().unwrap().len();
    for at in (0..times).flat_map(|_| 0..size.div_ceil(length)) {
        read(file, at * length, length);
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(compute_us) {}
    }
}

fn read(file: &File, offset: u64, length: u64) {
    let mut buffer = vec![0; length as usize];
    file.read_at(&mut buffer, offset).unwrap();
}

/// Maps a file and touches each page; the mapping stays.
fn touch(file: &File) {
    let length = file.metadata().unwrap().len() as usize;
    // SAFETY: reads lie within the mapping and the file, which nobody truncates meanwhile.
    unsafe {
        let address =
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
        assert_ne!(address, libc::MAP_FAILED);
        for page in (0..length).step_by(4096) {
            std::ptr::read_volatile(address.cast::<u8>().add(page));
        }
    }
}

/// A plane that follows a list and is killed.
#[test]
fn as_plane() {
    if std::env::var(ROLE).as_deref() != Ok("plane") {
        return;
    }
    let mut words = String::new();
    std::io::stdin().read_line(&mut words).unwrap();
    let (pid, path) = words.trim().split_once(' ').unwrap();
    crate::prefetching::follow_until_killed(pid.parse().unwrap(), path.as_ref());
}
