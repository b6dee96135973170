//! A process that reads what it is told: this test program itself, started once more for its one test
//! [`act`], with commands on standard input. It answers each with a line when it is done.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use foretell_pagecache::observe::{FileKey, Observer, ObserverConfig};
use rustix::fs::{Advice, fadvise};

/// Says to [`act`] that it is a reader.
const VARIABLE: &str = "FORETELL_TEST_READER";
/// What all answers begin with; the test harness prints lines of its own.
const ANSWER: &str = "reader: ";

/// Bytes of a page of the machine.
pub(crate) fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// A file of so many pages that is clean and not in the cache, and vanishes with the value.
pub(crate) struct TestFile {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    pub(crate) key: FileKey,
    _directory: tempfile::TempDir,
}

impl TestFile {
    pub(crate) fn new(pages: u64) -> TestFile {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = directory.path().join("data");
        std::fs::write(&path, vec![7; (pages * page_bytes()) as usize]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        let key = FileKey::of(&file).unwrap();
        let file = TestFile { path, file, key, _directory: directory };
        file.drop_pages();
        file
    }

    /// Puts all of it out of the cache.
    pub(crate) fn drop_pages(&self) {
        fadvise(&self.file, 0, None, Advice::DontNeed).unwrap();
    }

    /// Puts all of it into the cache.
    pub(crate) fn load_pages(&self) {
        std::io::copy(&mut File::open(&self.path).unwrap(), &mut std::io::sink()).unwrap();
    }
}

/// The process.
pub(crate) struct Reader {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Reader {
    /// Starts one that has `path` open.
    pub(crate) fn start(path: &Path) -> Reader {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "reader::act", "--nocapture"])
            .env(VARIABLE, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut reader = Reader { child, commands, answers };
        reader.answer();
        reader
    }

    pub(crate) fn tgid(&self) -> u32 {
        self.child.id()
    }

    /// Has the command done, and returns what the reader has to say about it.
    pub(crate) fn tell(&mut self, command: &str) -> String {
        writeln!(self.commands, "{command}").unwrap();
        self.answer()
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "the reader ended early");
            // The harness may have begun the line with the name of the test.
            if let Some((_, answer)) = line.split_once(ANSWER) {
                return answer.trim().to_owned();
            }
        }
    }

    /// Ends it in the ordinary way.
    pub(crate) fn end(mut self) {
        self.tell("end");
    }

    /// Ends it with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The reader's side; as an ordinary test it has nothing to do.
#[test]
fn act() {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    let file = File::open(path).unwrap();
    let mut observer = None;
    println!("{ANSWER}ready");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: usize| -> u64 { words[word].parse().unwrap() };
        let mut answer = String::from("done");
        match words[0] {
            "advise-random" => fadvise(&file, 0, None, Advice::Random).unwrap(),
            "pread" => {
                let mut buffer = vec![0; number(2) as usize];
                answer = file.read_at(&mut buffer, number(1)).unwrap().to_string();
            }
            "times" => {
                let mut buffer = vec![0; 4096];
                (0..number(1)).for_each(|_| file.read_exact_at(&mut buffer, 0).unwrap());
            }
            "read-all" => {
                std::io::copy(&mut &file, &mut std::io::sink()).unwrap();
            }
            // From page, pages.
            "sendfile" => {
                let nowhere = std::fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
                let mut offset = number(1) * page_bytes();
                let end = offset + number(2) * page_bytes();
                while offset < end {
                    let rest = (end - offset) as usize;
                    assert!(rustix::fs::sendfile(&nowhere, &file, Some(&mut offset), rest).unwrap() > 0);
                }
            }
            "read-in-thread" => {
                std::thread::scope(|scope| {
                    scope.spawn(|| file.read_exact_at(&mut [0; 1], number(1)).unwrap());
                });
            }
            "touch" => {
                let pages: Vec<u64> = words[1..].iter().map(|page| page.parse().unwrap()).collect();
                touch(&file, &pages);
            }
            "observe" => {
                observer = Some(Observer::open(ObserverConfig::default()).unwrap());
                answer = program_ids().join(" ");
            }
            "end" => {
                println!("{ANSWER}done");
                break;
            }
            other => panic!("what is {other}?"),
        }
        println!("{ANSWER}{answer}");
    }
    drop(observer);
}

/// Maps the file and looks at the first byte of each of these pages.
#[allow(unsafe_code)]
fn touch(file: &File, pages: &[u64]) {
    use rustix::mm::{MapFlags, ProtFlags, madvise, mmap, munmap};
    let length = file.metadata().unwrap().len() as usize;
    // SAFETY: a new read-only mapping of a file that nobody truncates, unmapped before it is forgotten; only
    // bytes inside of it are read.
    unsafe {
        let at = mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, 0).unwrap();
        madvise(at, length, rustix::mm::Advice::Random).unwrap();
        for page in pages {
            at.cast::<u8>().add((page * page_bytes()) as usize).read_volatile();
        }
        munmap(at, length).unwrap();
    }
}

/// The kernel's numbers of the BPF programs that this process holds.
fn program_ids() -> Vec<String> {
    std::fs::read_dir("/proc/self/fdinfo")
        .unwrap()
        .filter_map(|entry| std::fs::read_to_string(entry.unwrap().path()).ok())
        .filter_map(|info| {
            let id = info.lines().find_map(|line| line.strip_prefix("prog_id:"))?;
            Some(id.trim().to_owned())
        })
        .collect()
}
