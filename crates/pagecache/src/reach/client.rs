//! The side of who asks.
//!
//! The loop has a lane of its own. It waits for an answer for [`PATIENCE`], and until a late one has come it goes on without:
//! nobody can keep it waiting by what the broker meets. The lanes of the threads that page out wait as long as it takes,
//! those of the threads that open what clients name, and of the one that turns readahead off, as long as the loop.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::link::{Link, Links, Seen};
use super::message::{
    self, LINK, LINK_IS_FILE, LINK_IS_HERE, LINKS_AT_A_TIME, Message, PACKET_BYTES, Question, number_of,
};
use crate::aside::OPENING;
use crate::file_key::FileKey;
use crate::guard::{Guard, OpenFile};
use crate::mapped::MAPPED;
use crate::shown::Names;

/// How long the loop waits for an answer, which takes some ten microseconds: long enough on a machine that is busy, and
/// no more than once until it has come.
const PATIENCE: Duration = Duration::from_secs(1);

/// The process that has the rights which this one has given up.
#[derive(Debug)]
pub struct Broker {
    lanes: Vec<Mutex<Lane>>,
    child: rustix::process::Pid,
    /// Started here, as it needs rights that this process gives up; the plane takes it.
    guard: Mutex<Option<Guard>>,
    is_gone: AtomicBool,
}

/// That of this process.
static OF_PROCESS: OnceLock<Broker> = OnceLock::new();

thread_local! {
    /// On which lane a thread asks what the loop may ask as well.
    static LANE: Cell<usize> = const { Cell::new(0) };
}

/// A way to ask.
#[derive(Debug)]
struct Lane {
    socket: OwnedFd,
    last: u64,
    /// The answer to the last question has not come in time.
    is_late: bool,
    packet: Vec<u8>,
}

impl Broker {
    /// From now on this process has one, which answers on these lanes.
    pub(super) fn keep(lanes: Vec<OwnedFd>, child: rustix::process::Pid, guard: Guard) -> io::Result<()> {
        let lane = |socket| Mutex::new(Lane { socket, last: 0, is_late: false, packet: Vec::new() });
        let broker = Broker {
            lanes: lanes.into_iter().map(lane).collect(),
            child,
            guard: Mutex::new(Some(guard)),
            is_gone: AtomicBool::new(false),
        };
        OF_PROCESS.set(broker).map_err(|_| io::Error::from(io::ErrorKind::AlreadyExists))
    }

    /// The broker of this process, if it has one.
    #[must_use]
    pub fn of_process() -> Option<&'static Broker> {
        OF_PROCESS.get()
    }

    /// Has it ended, as far as was noticed when it was asked last?
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Relaxed)
            || self.lane(0).is_some_and(|lane| has_hung_up(lane.socket.as_fd()))
    }

    /// What restores readahead should this process be killed, for the first who asks.
    pub(crate) fn take_guard(&self) -> Option<Guard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Its process.
    #[must_use]
    pub fn process(&self) -> rustix::process::Pid {
        self.child
    }

    /// Shows it a connection of root's: from now on it opens what root's rules and lists name. Says whether it believes it.
    pub fn vouch(&self, connection: BorrowedFd<'_>) -> bool {
        self.ask(Question::Vouch, &[], &[], &[connection]).is_ok()
    }

    pub(super) fn look(&self, path: &Path, wants_it: bool) -> io::Result<Seen> {
        let text = path.as_os_str().as_bytes();
        let (answer, descriptors) = self.ask(Question::Look, &[u64::from(wants_it)], text, &[])?;
        let [dev, ino, is_file] =
            answer.words.as_slice().try_into().map_err(|_| io::ErrorKind::InvalidData)?;
        let there = descriptors.into_iter().next();
        Ok(Seen { stat: FileKey { dev, ino }, is_file: is_file != 0, is_canonical: false, there })
    }

    pub(super) fn links(&self, pid: u32, links: Links, most: usize) -> io::Result<Vec<Link>> {
        let words = [u64::from(pid), number_of(links), most as u64];
        let (answer, _) = self.ask(Question::Links, &words, &[], &[])?;
        Ok(answer.words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
    }

    pub(super) fn look_at_links(&self, pid: u32, links: Links, which: &[Link]) -> Vec<Option<Seen>> {
        let mut all = Vec::with_capacity(which.len());
        for some in which.chunks(LINKS_AT_A_TIME) {
            let mut words = vec![u64::from(pid), number_of(links)];
            words.extend(some.iter().flat_map(|&(first, end)| [first, end]));
            let Ok((answer, descriptors)) = self.ask(Question::LookAtLinks, &words, &[], &[]) else { break };
            let mut descriptors = descriptors.into_iter();
            all.extend(answer.words.chunks_exact(3).map(|link| {
                let there = if link[0] & LINK_IS_HERE != 0 { descriptors.next() } else { None };
                let stat = FileKey { dev: link[1], ino: link[2] };
                (link[0] & LINK != 0).then_some(Seen {
                    stat,
                    is_file: link[0] & LINK_IS_FILE != 0,
                    is_canonical: false,
                    there,
                })
            }));
        }
        all.resize_with(which.len(), || None);
        all
    }

    pub(super) fn open_again(&self, file: BorrowedFd<'_>) -> io::Result<File> {
        opened(self.ask(Question::OpenAgain, &[], &[], &[file])?)
    }

    /// The same for a thread that opens what clients have named: the loop does not wait for it.
    pub(super) fn open_aside(&self, file: BorrowedFd<'_>) -> io::Result<File> {
        // As many lanes as threads.
        let lanes = self.lanes.iter().skip(1 + MAPPED.threads).take(OPENING.threads);
        let free = lanes.into_iter().find_map(|lane| lane.try_lock().ok());
        let mut lane = free.ok_or_else(|| io::Error::from(io::ErrorKind::WouldBlock))?;
        let answer = lane.ask(Question::OpenAgain, &[], &[], &[file], Some(PATIENCE));
        opened(self.notice(answer)?)
    }

    pub(crate) fn open_by_number(&self, key: FileKey, generation: u32) -> io::Result<File> {
        opened(self.ask(Question::OpenByNumber, &[key.dev, key.ino, u64::from(generation)], &[], &[])?)
    }

    pub(crate) fn advise(&self, file: OpenFile, advice: libc::c_int, user: u32) -> io::Result<()> {
        let fd = u64::from(file.fd.unsigned_abs());
        let advice = u64::from(advice.unsigned_abs());
        let words = [u64::from(file.pid), file.started, fd, file.dev, file.ino, advice, u64::from(user)];
        self.ask(Question::Advise, &words, &[], &[]).map(drop)
    }

    pub(crate) fn page_out(&self, pid: u32, file: &Names, offset: u64, length: u64) -> io::Result<()> {
        let Names { key, shown } = *file;
        let words = [u64::from(pid), key.dev, key.ino, shown.dev, shown.ino, offset, length];
        // As many lanes as threads.
        let lanes = self.lanes.iter().skip(1).take(MAPPED.threads);
        let free = lanes.into_iter().find_map(|lane| lane.try_lock().ok());
        let mut lane = free.ok_or_else(|| io::Error::from(io::ErrorKind::WouldBlock))?;
        let answer = lane.ask(Question::PageOut, &words, &[], &[], None);
        self.notice(answer).map(drop)
    }

    /// From now on the calling thread asks on the lane of who turns readahead off: the loop's is free meanwhile.
    pub(crate) fn ask_as_adviser(&self) {
        LANE.set(self.lanes.len() - 1);
    }

    /// Gives back what the lanes keep for their next answers: 160 KiB each.
    pub(crate) fn release_memory(&self) {
        for mut lane in self.lanes.iter().filter_map(|lane| lane.try_lock().ok()) {
            lane.packet = Vec::new();
        }
    }

    fn lane(&self, at: usize) -> Option<MutexGuard<'_, Lane>> {
        self.lanes.get(at).map(|lane| lane.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn ask(
        &self,
        question: Question,
        words: &[u64],
        text: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<(Message, Vec<OwnedFd>)> {
        let mut lane = self.lane(LANE.get()).ok_or(io::ErrorKind::NotConnected)?;
        self.notice(lane.ask(question, words, text, descriptors, Some(PATIENCE)))
    }

    fn notice<T>(&self, answer: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &answer {
            use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
            let gone = matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof);
            self.is_gone.fetch_or(gone, Ordering::Relaxed);
        }
        answer
    }
}

/// The file that came with an answer.
fn opened((_, descriptors): (Message, Vec<OwnedFd>)) -> io::Result<File> {
    let opened = descriptors.into_iter().next();
    opened.map(File::from).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Has the other side closed?
fn has_hung_up(socket: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(socket, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

impl Lane {
    /// Asks and waits for the answer, `patience` at most.
    ///
    /// # Errors
    /// What the broker says; [`io::ErrorKind::TimedOut`] when it does not say anything, and
    /// [`io::ErrorKind::WouldBlock`] while it has not answered the last question.
    fn ask(
        &mut self,
        question: Question,
        words: &[u64],
        text: &[u8],
        descriptors: &[BorrowedFd<'_>],
        patience: Option<Duration>,
    ) -> io::Result<(Message, Vec<OwnedFd>)> {
        self.packet.resize(PACKET_BYTES, 0);
        if self.is_late {
            let _late = message::receive(self.socket.as_fd(), &mut self.packet, RecvFlags::DONTWAIT)?;
            self.is_late = false;
        }
        self.last += 1;
        let (words, text) = (words.to_vec(), text.to_vec());
        let asked = Message { number: self.last, kind: question as u64, words, text };
        message::send(self.socket.as_fd(), &asked, descriptors)?;
        if let Some(patience) = patience
            && !comes_within(self.socket.as_fd(), patience)?
        {
            self.is_late = true;
            return Err(io::ErrorKind::TimedOut.into());
        }
        let (answer, descriptors) =
            message::receive(self.socket.as_fd(), &mut self.packet, RecvFlags::empty())?;
        match i32::try_from(answer.kind) {
            _ if answer.number != asked.number => Err(io::ErrorKind::InvalidData.into()),
            Ok(0) => Ok((answer, descriptors)),
            Ok(code) => Err(io::Error::from_raw_os_error(code)),
            Err(_) => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Is there something to be received within this time?
fn comes_within(socket: BorrowedFd<'_>, patience: Duration) -> io::Result<bool> {
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut fds = [PollFd::from_borrowed_fd(socket, PollFlags::IN)];
        match poll(&mut fds, Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
