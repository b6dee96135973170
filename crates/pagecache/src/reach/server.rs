//! The broker's side: it answers until nobody can ask any more.

#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, socketpair};

use super::client::Broker;
use super::here;
use super::link::{Link, Links, Seen};
use super::message::{
    self, LINK, LINK_IS_FILE, LINK_IS_HERE, LINKS_AT_A_TIME, MOST_LINKS, Message, PACKET_BYTES, Question,
    number_of,
};
use super::permits::{self, Permits};
use crate::aside::OPENING;
use crate::file_key::FileKey;
use crate::guard::{Guard, OpenFile};
use crate::handles::Mounts;
use crate::mapped::MAPPED;
use crate::mappings;
use crate::schedule::Schedule;
use crate::shown::Names;
use foretell_door::Closer;

/// Words of an answer, and descriptors.
#[derive(Debug, Default)]
pub(super) struct Answer {
    words: Vec<u64>,
    descriptors: Vec<OwnedFd>,
}

/// What the first lane asks about: everything but what takes long.
#[derive(Debug)]
struct Desk {
    permits: Arc<Mutex<Permits>>,
    mounts: Mounts,
    closer: Closer,
}

impl Broker {
    /// Starts the broker of this process, by a fork: before this process starts threads, and before it gives up rights.
    /// The child calls `confine` before it answers anything. It keeps no descriptor of this process's, and ends when
    /// this process does. `listener` is where the service lets its clients in: how the broker knows a connection of root's.
    /// With a share the broker answers at real-time priority for so much of the time.
    ///
    /// # Errors
    /// When there is no process or no socket to be had, or this process has a broker already.
    pub fn start(
        listener: BorrowedFd<'_>,
        realtime_share: Option<f64>,
        confine: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let permits = Permits::of(listener)?;
        let guard = Guard::start()?;
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        // The loop's, and behind those for what is mapped and what is opened that for advice.
        for _ in 0..1 + MAPPED.threads + OPENING.threads + 1 {
            let (one, other) =
                socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
            ours.push(one);
            theirs.push(other);
        }
        // SAFETY: the child runs only what `live` does, which never returns, and needs nothing of other threads: there
        // are none, and glibc's allocator works after a fork also where there are (malloc(3) of glibc 2.24 and later).
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(ours);
            live(theirs, permits, realtime_share, confine);
        }
        let child = (child > 0).then(|| rustix::process::Pid::from_raw(child)).flatten();
        let child = child.ok_or_else(io::Error::last_os_error)?;
        Broker::keep(ours, child, guard)
    }
}

/// The child's life, from the fork on: gives up what it does not need, and answers on `lanes`. Never returns.
fn live(
    lanes: Vec<OwnedFd>,
    permits: Permits,
    realtime_share: Option<f64>,
    confine: impl FnOnce() -> io::Result<()>,
) -> ! {
    let done = catch_unwind(AssertUnwindSafe(|| -> io::Result<()> {
        leave_parent();
        let mut lanes = alone_with(&lanes.iter().map(AsRawFd::as_raw_fd).collect::<Vec<_>>())?.into_iter();
        let first = lanes.next().ok_or(io::ErrorKind::InvalidInput)?;
        // What is asked of the kernel once and for all (PR_GET_AUXV, by rustix) is asked before that is given up.
        let _ =
            (crate::kernel::page_bytes(), rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime));
        confine()?;
        let permits = Arc::new(Mutex::new(permits));
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned()).stack_size(256 << 10);
        for lane in lanes.by_ref().take(MAPPED.threads) {
            thread("foretell-page").spawn(move || answer_all(&lane, page_out, || {}))?;
        }
        for lane in lanes.by_ref().take(OPENING.threads) {
            let permits = Arc::clone(&permits);
            let open = move |question, _: &Message, brought: Vec<OwnedFd>| match question {
                Question::OpenAgain => open_again(&permits, brought),
                _ => Err(invalid()),
            };
            thread("foretell-open").spawn(move || answer_all(&lane, open, || {}))?;
        }
        let closer = Closer::start()?;
        for lane in lanes {
            let mut desk =
                Desk { permits: Arc::clone(&permits), mounts: Mounts::default(), closer: closer.clone() };
            let advise = move |question, asked: &Message, brought| match question {
                Question::Look | Question::Links | Question::LookAtLinks | Question::Advise => {
                    desk.answer(question, asked, brought)
                }
                _ => Err(invalid()),
            };
            thread("foretell-advise").spawn(move || answer_all(&lane, advise, || {}))?;
        }
        let mut desk = Desk { permits, mounts: Mounts::default(), closer };
        let mut schedule = Schedule::new(realtime_share);
        // Who asks may wait at real-time priority.
        answer_all(
            &first,
            |question, asked, brought| desk.answer(question, asked, brought),
            || schedule.check(true),
        );
        Ok(())
    }));
    let code = if matches!(done, Ok(Ok(()))) { 0 } else { 1 };
    // SAFETY: ends the process without running anything of its parent's.
    unsafe { libc::_exit(code) }
}

/// Is no part of what the terminal ends, and goes by a name of its own.
fn leave_parent() {
    // SAFETY: plain system calls; the name ends with a zero. What fails leaves this process as it was.
    unsafe {
        libc::setsid();
        libc::chdir(c"/".as_ptr());
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
        libc::prctl(libc::PR_SET_NAME, c"foretell-broker".as_ptr());
    }
}

/// Closes all descriptors but these, which become the first ones: no file, terminal or pipe of the parent's stays.
fn alone_with(kept: &[libc::c_int]) -> io::Result<Vec<OwnedFd>> {
    let count = libc::c_int::try_from(kept.len()).map_err(io::Error::other)?;
    // Out of each other's way first.
    // SAFETY: plain system calls on descriptors; the copies that are made here belong to nobody else.
    let high = kept.iter().map(|&fd| unsafe { libc::fcntl(fd, libc::F_DUPFD, count) }).collect::<Vec<_>>();
    for (&fd, at) in high.iter().zip(0..) {
        // SAFETY: as above; what had the number before is the parent's business.
        if fd < 0 || unsafe { libc::dup3(fd, at, libc::O_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: what is closed is used no more, and the rest is owned from here on.
    unsafe {
        libc::syscall(libc::SYS_close_range, count.cast_unsigned(), u32::MAX, 0_u32);
        Ok((0..count).map(|at| OwnedFd::from_raw_fd(at)).collect())
    }
}

/// Answers what comes in one lane until its other end is closed.
fn answer_all(
    lane: &OwnedFd,
    mut answer: impl FnMut(Question, &Message, Vec<OwnedFd>) -> io::Result<Answer>,
    mut before: impl FnMut(),
) {
    let mut packet = vec![0; PACKET_BYTES];
    loop {
        let (asked, brought) = match message::receive(lane.as_fd(), &mut packet, RecvFlags::empty()) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => continue,
            Err(_) => return,
        };
        before();
        let unknown = || io::Error::from_raw_os_error(libc::ENOSYS);
        let found = Question::of(asked.kind).ok_or_else(unknown);
        let found = found.and_then(|question| answer(question, &asked, brought));
        let number = asked.number;
        let (reply, descriptors) = match found {
            Ok(Answer { words, descriptors }) => {
                (Message { number, words, ..Message::default() }, descriptors)
            }
            Err(error) => {
                let code = error.raw_os_error().unwrap_or(match error.kind() {
                    io::ErrorKind::NotFound => libc::ENOENT,
                    io::ErrorKind::InvalidInput => libc::EINVAL,
                    _ => libc::EIO,
                });
                (Message { number, kind: u64::from(code.unsigned_abs()), ..Message::default() }, Vec::new())
            }
        };
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        // Who does not take it has ended, and the next look says so.
        let _ = message::send(lane.as_fd(), &reply, &descriptors);
    }
}

fn invalid() -> io::Error {
    io::ErrorKind::InvalidInput.into()
}

/// The words of a question, which has so many.
fn words<const N: usize>(asked: &Message) -> io::Result<[u64; N]> {
    asked.words.as_slice().try_into().map_err(|_| invalid())
}

fn pid_of(word: u64) -> io::Result<u32> {
    u32::try_from(word).map_err(|_| invalid())
}

fn links_of(word: u64) -> io::Result<Links> {
    [Links::Open, Links::Mapped].into_iter().find(|links| number_of(*links) == word).ok_or_else(invalid)
}

/// The lanes behind the first: what may take as long as a stranger likes.
fn page_out(question: Question, asked: &Message, _: Vec<OwnedFd>) -> io::Result<Answer> {
    if question != Question::PageOut {
        return Err(invalid());
    }
    let [pid, dev, ino, shown_dev, shown_ino, offset, length] = words(asked)?;
    let names = Names { key: FileKey { dev, ino }, shown: FileKey { dev: shown_dev, ino: shown_ino } };
    mappings::page_out_here(pid_of(pid)?, &names, offset, length)?;
    Ok(Answer::default())
}

impl Desk {
    fn answer(&mut self, question: Question, asked: &Message, brought: Vec<OwnedFd>) -> io::Result<Answer> {
        let mut brought = brought.into_iter();
        match question {
            Question::Look => {
                let [wants_it] = words(asked)?;
                let path = Path::new(std::ffi::OsStr::from_bytes(&asked.text));
                let seen = here::look(path, wants_it != 0, true)?;
                let words = vec![seen.stat.dev, seen.stat.ino, u64::from(seen.is_file)];
                Ok(Answer { words, descriptors: seen.there.into_iter().collect() })
            }
            Question::Links => {
                let [pid, links, most] = words(asked)?;
                let most = usize::try_from(most).unwrap_or(MOST_LINKS).min(MOST_LINKS);
                let found = here::links(pid_of(pid)?, links_of(links)?, most)?;
                let words = found.into_iter().flat_map(|(first, end)| [first, end]).collect();
                Ok(Answer { words, descriptors: Vec::new() })
            }
            Question::LookAtLinks => {
                let [pid, links, which @ ..] = asked.words.as_slice() else { return Err(invalid()) };
                let (pid, links) = (pid_of(*pid)?, links_of(*links)?);
                if which.len() > 2 * LINKS_AT_A_TIME {
                    return Err(invalid());
                }
                let mut answer = Answer::default();
                for pair in which.chunks_exact(2) {
                    let link: Link = (pair[0], pair[1]);
                    answer.look(here::look(&links.path(pid, link), false, true).ok());
                }
                Ok(answer)
            }
            Question::OpenAgain => open_again(&self.permits, brought.collect()),
            Question::OpenByNumber => {
                let [dev, ino, generation] = words(asked)?;
                let generation = u32::try_from(generation).map_err(|_| invalid())?;
                let opened = self.mounts.open_here(FileKey { dev, ino }, generation);
                hand_out(&self.permits, opened.ok_or(io::ErrorKind::NotFound)?, None)
            }
            Question::Advise => {
                let [pid, started, fd, dev, ino, advice, user] = words(asked)?;
                let fd = i32::try_from(fd).map_err(|_| invalid())?;
                let known = [libc::POSIX_FADV_RANDOM, libc::POSIX_FADV_NORMAL];
                let advice = known.into_iter().find(|known| u64::from(known.unsigned_abs()) == advice);
                let file = OpenFile { pid: pid_of(pid)?, started, fd, dev, ino };
                let done = file.advise_here(advice.ok_or_else(invalid)?, pid_of(user)?, &self.closer);
                if done { Ok(Answer::default()) } else { Err(io::ErrorKind::NotFound.into()) }
            }
            Question::PageOut => page_out(question, asked, Vec::new()),
            Question::Vouch => {
                let connection = brought.next().ok_or_else(invalid)?;
                let vouched = lock(&self.permits).vouch(&connection);
                if vouched { Ok(Answer::default()) } else { Err(io::Error::from_raw_os_error(libc::EPERM)) }
            }
        }
    }
}

/// Opens what was brought a second time.
fn open_again(permits: &Mutex<Permits>, brought: Vec<OwnedFd>) -> io::Result<Answer> {
    let shown = brought.into_iter().next().ok_or_else(invalid)?;
    // Nothing else is opened: to open a device has effects.
    if !permits::is_on_disk(&shown) {
        return Err(invalid());
    }
    let opened = here::open_again(&shown)?;
    hand_out(permits, opened, Some(&shown))
}

fn hand_out(permits: &Mutex<Permits>, opened: File, shown: Option<&OwnedFd>) -> io::Result<Answer> {
    if !lock(permits).grants(&opened, shown) {
        return Err(io::Error::from_raw_os_error(libc::EACCES));
    }
    Ok(Answer { words: Vec::new(), descriptors: vec![opened.into()] })
}

fn lock(permits: &Mutex<Permits>) -> MutexGuard<'_, Permits> {
    permits.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Answer {
    /// Three words for a link: what it is ([`LINK`] and others), device, inode.
    fn look(&mut self, seen: Option<Seen>) {
        let Some(seen) = seen else { return self.words.extend([0; 3]) };
        let kind = LINK
            | if seen.is_file { LINK_IS_FILE } else { 0 }
            | if seen.there.is_some() { LINK_IS_HERE } else { 0 };
        self.words.extend([kind, seen.stat.dev, seen.stat.ino]);
        self.descriptors.extend(seen.there);
    }
}
