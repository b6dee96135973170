//! Hands hints over while the program runs.
//!
//! One thread a hint file reads lines and sends hints in batches through a bounded channel: when the plane
//! cannot take more, the thread waits, and with it the writer of a FIFO. The thread ends when the stream
//! ends or when the receiver is dropped. A regular file is followed: when it grows, the new lines are read
//! (inotify says so at once where it works; its size is looked at four times a second in any case).
//!
//! Bad lines cannot stop a program that already runs: the first is reported, all are counted and skipped.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify;

use foretell_learn::Lists;
use foretell_recording::Recording;

use super::check::{BadHint, HintReader, Kind, Presence};
use super::lines::{Line, Lines, Packing, unpack};
use super::{ByteRange, Hint};

/// Hints sent together at most.
pub const BATCH_HINTS: usize = 1024;
/// Batches that wait for the receiver at most; then the reader waits.
const QUEUED_BATCHES: usize = 16;
/// How often a followed file is looked at where inotify is silent (network file systems), in ms.
const FOLLOW_MS: u64 = 250;

/// What the reading thread has to say.
#[derive(Debug, PartialEq, Eq)]
pub enum Fed {
    /// Hints, in order; at most [`BATCH_HINTS`].
    Hints(Vec<Hint>),
    /// The first bad line, ready to be shown: `file:line: what; what to do`.
    Warning(String),
    /// So many more lines were skipped, in a file that is followed and has no end.
    Skipped(u64),
    /// The end of the stream.
    End {
        /// Bad lines skipped that were not told yet.
        bad_lines: u64,
        /// Hints for files that did not exist.
        absent: u64,
    },
}

/// Starts reading `file` (`-` is standard input). Never blocks, not even on a FIFO without a writer.
/// `wake`, an eventfd, becomes readable whenever something was sent.
pub fn start(file: PathBuf, kind: Kind, base: PathBuf, wake: Arc<OwnedFd>) -> io::Result<Receiver<Fed>> {
    let (sender, receiver) = sync_channel(QUEUED_BATCHES);
    std::thread::Builder::new().name("hints".into()).spawn(move || {
        let mut feeder = Feeder {
            name: file.display().to_string(),
            reader: HintReader::new(&base),
            batch: Vec::new(),
            sender,
            wake,
            // A regular file was read as a whole before, and what is wrong with it was said.
            warned: kind != Kind::Stream,
            bad_lines: 0,
            absent: 0,
        };
        let read = feeder.read(&file, kind);
        if let Err(Stop::Failed(e)) = &read {
            feeder.warn(format!("{}: cannot read on ({e}); the hints end here", feeder.name));
        }
        if !matches!(read, Err(Stop::ReceiverGone)) {
            let end = Fed::End { bad_lines: feeder.bad_lines, absent: feeder.absent };
            // Nobody listens any more: the program has ended, and so do we.
            let _ = feeder.send(end);
        }
    })?;
    Ok(receiver)
}

/// Why reading stopped early.
enum Stop {
    Failed(io::Error),
    ReceiverGone,
}

impl From<io::Error> for Stop {
    fn from(e: io::Error) -> Stop {
        Stop::Failed(e)
    }
}

struct Feeder {
    name: String,
    reader: HintReader,
    batch: Vec<Hint>,
    sender: SyncSender<Fed>,
    wake: Arc<OwnedFd>,
    warned: bool,
    bad_lines: u64,
    absent: u64,
}

impl Feeder {
    fn read(&mut self, file: &Path, kind: Kind) -> Result<(), Stop> {
        if file == Path::new("-") {
            let (_, stream) = unpack(io::stdin())?;
            return self.read_stream(stream);
        }
        if kind == Kind::Recording {
            return self.read_recording(file);
        }
        let raw = File::open(file)?;
        let (packing, stream) = unpack(raw)?;
        match (kind, packing) {
            (Kind::Regular, Packing::Plain) => self.follow(file, stream),
            (Kind::Regular, _) => self.read_stream(stream),
            (Kind::Stream | Kind::Recording, _) => self.read_stream(stream),
        }
    }

    /// Gives what a recording names, in the order of time.
    fn read_recording(&mut self, file: &Path) -> Result<(), Stop> {
        let recording = Recording::read(file).map_err(|e| Stop::Failed(io::Error::other(e)))?;
        let (lists, names) = Lists::in_order(&recording).located();
        drop(recording);
        let paths: Vec<Arc<Path>> = lists.files.iter().map(|file| Arc::from(file.path.as_path())).collect();
        for &chunk in lists.lists.iter().flatten() {
            let (offset, length) = lists.bytes(chunk);
            let path = Arc::clone(&paths[chunk.file as usize]);
            self.batch.push(Hint { path, range: Some(ByteRange { offset, length }) });
            if self.batch.len() >= BATCH_HINTS {
                self.flush()?;
            }
        }
        self.absent = names.missing;
        self.flush()
    }

    /// Reads to the end. Hints are sent when the batch is full or when nothing more is there to read.
    fn read_stream(&mut self, stream: Box<dyn Read + Send>) -> Result<(), Stop> {
        let mut lines = Lines::new(stream);
        while self.read_line(&mut lines)? {
            if !lines.has_whole_line() {
                self.flush()?;
            }
        }
        self.flush()
    }

    /// Reads to the end, and on whenever the file has grown. Ends when the receiver is gone.
    fn follow(&mut self, file: &Path, stream: Box<dyn Read + Send>) -> Result<(), Stop> {
        let watch = watch(file);
        let mut lines = Lines::new(stream);
        while self.read_line(&mut lines)? {}
        lines.end_line();
        loop {
            self.flush()?;
            let skipped = std::mem::take(&mut self.bad_lines) + std::mem::take(&mut self.absent);
            if skipped > 0 {
                self.send(Fed::Skipped(skipped))?;
            }
            // An empty batch asks whether anybody still listens, and tells who waits for the first one that
            // there is none.
            self.send(Fed::Hints(Vec::new()))?;
            wait_for_growth(watch.as_ref());
            loop {
                match lines.next_line()? {
                    None | Some(Line::Unended(_)) => break,
                    Some(line) => {
                        let read = self.reader.read(&line);
                        let number = lines.number();
                        self.take(read, number)?;
                    }
                }
            }
        }
    }

    fn read_line(&mut self, lines: &mut Lines<Box<dyn Read + Send>>) -> Result<bool, Stop> {
        let read = match lines.next_line()? {
            None => return Ok(false),
            Some(line) => self.reader.read(&line),
        };
        let number = lines.number();
        self.take(read, number)?;
        Ok(true)
    }

    fn take(&mut self, read: Result<Option<(Hint, Presence)>, BadHint>, line: u64) -> Result<(), Stop> {
        match read {
            Ok(None) => {}
            Ok(Some((hint, Presence::Present))) => self.batch.push(hint),
            Ok(Some((hint, Presence::Cut(why)))) => {
                self.batch.push(hint);
                self.bad(line, &why);
            }
            Ok(Some((_, Presence::Absent))) => self.absent += 1,
            Err(why) => {
                self.bad_lines += 1;
                self.bad(line, &why);
            }
        }
        if self.batch.len() >= BATCH_HINTS { self.flush() } else { Ok(()) }
    }

    /// Says the first thing that is wrong.
    fn bad(&mut self, line: u64, why: &BadHint) {
        if !std::mem::replace(&mut self.warned, true) {
            self.warn(format!(
                "{}:{line}: {why} (this line and others like it are skipped or cut)",
                self.name
            ));
        }
    }

    fn flush(&mut self) -> Result<(), Stop> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        self.send(Fed::Hints(batch))
    }

    fn send(&self, fed: Fed) -> Result<(), Stop> {
        self.sender.send(fed).map_err(|_| Stop::ReceiverGone)?;
        // It can only fail when the counter is at its end, and then it is readable anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        Ok(())
    }

    fn warn(&self, text: String) {
        // A warning that nobody receives has nobody to warn.
        let _ = self.send(Fed::Warning(text));
    }
}

/// An inotify descriptor that reports writes to `file`; `None` where it cannot be had.
fn watch(file: &Path) -> Option<OwnedFd> {
    let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
    let descriptor = inotify::init(flags).ok()?;
    inotify::add_watch(&descriptor, file, inotify::WatchFlags::MODIFY).ok()?;
    Some(descriptor)
}

fn wait_for_growth(watch: Option<&OwnedFd>) {
    let Some(watch) = watch else {
        std::thread::sleep(Duration::from_millis(FOLLOW_MS));
        return;
    };
    let timeout = rustix::event::Timespec { tv_sec: 0, tv_nsec: (FOLLOW_MS * 1_000_000) as i64 };
    let mut ready = [PollFd::new(watch, PollFlags::IN)];
    // Interrupted or timed out: the caller looks at the file in any case.
    let _ = poll(&mut ready, Some(&timeout));
    let mut events = [0u8; 4096];
    while rustix::io::read(watch, &mut events).is_ok_and(|bytes| bytes > 0) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// What comes until `hints` hints have, or the end.
    fn receive(feed: &Receiver<Fed>, hints: usize) -> (Vec<String>, Vec<String>, Option<Fed>) {
        let (mut paths, mut warnings) = (Vec::new(), Vec::new());
        while paths.len() < hints {
            match feed.recv_timeout(Duration::from_secs(20)).unwrap() {
                Fed::Hints(batch) => {
                    assert!(batch.len() <= BATCH_HINTS);
                    paths.extend(batch.iter().map(|h| {
                        let name = h.path.file_name().unwrap().to_string_lossy().into_owned();
                        h.range.map_or(name.clone(), |r| format!("{name} {} {}", r.offset, r.length))
                    }));
                }
                Fed::Warning(text) => warnings.push(text),
                Fed::Skipped(_) => {}
                end @ Fed::End { .. } => return (paths, warnings, Some(end)),
            }
        }
        (paths, warnings, None)
    }

    fn wake() -> Arc<OwnedFd> {
        Arc::new(rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap())
    }

    fn directory() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            std::fs::write(dir.path().join(name), [0; 100]).unwrap();
        }
        dir
    }

    #[test]
    fn a_growing_file_is_followed() {
        let dir = directory();
        let list = dir.path().join("list");
        std::fs::write(&list, "a\nb 0 5").unwrap();
        let feed = start(list.clone(), Kind::Regular, dir.path().into(), wake()).unwrap();
        assert_eq!(receive(&feed, 2).0, ["a", "b 0 5"]);
        let mut file = std::fs::OpenOptions::new().append(true).open(&list).unwrap();
        file.write_all(b"\nb 1 1\na 2").unwrap();
        assert_eq!(receive(&feed, 1).0, ["b 1 1"]);
        file.write_all(b" 3\n").unwrap();
        assert_eq!(receive(&feed, 1).0, ["a 2 3"]);
    }

    #[test]
    fn a_fifo_gives_hints_one_by_one_and_skips_bad_lines() {
        let dir = directory();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        let feed = start(fifo.clone(), Kind::Stream, dir.path().into(), wake()).unwrap();
        let mut writer = std::fs::OpenOptions::new().write(true).open(&fifo).unwrap();
        writer.write_all(b"a\n").unwrap();
        assert_eq!(receive(&feed, 1).0, ["a"]);
        writer.write_all(b"x y\na 99 2\nabsent\nb\n").unwrap();
        let (paths, warnings, _) = receive(&feed, 2);
        assert_eq!(paths, ["a 99 1", "b"]);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].contains("fifo:2: neither 'path' nor"), "{}", warnings[0]);
        drop(writer);
        let (.., end) = receive(&feed, 1);
        assert_eq!(end, Some(Fed::End { bad_lines: 1, absent: 1 }));
    }

    #[test]
    fn many_hints_come_in_bounded_batches() {
        let dir = directory();
        let list = dir.path().join("list");
        std::fs::write(&list, "a\n".repeat(BATCH_HINTS * QUEUED_BATCHES * 2)).unwrap();
        let feed = start(list, Kind::Regular, dir.path().into(), wake()).unwrap();
        assert_eq!(
            receive(&feed, BATCH_HINTS * QUEUED_BATCHES * 2).0.len(),
            BATCH_HINTS * QUEUED_BATCHES * 2
        );
    }
}
