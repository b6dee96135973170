//! The guard: a small process that undoes what we changed in other programs' open files, should we be
//! killed before we can do so.
//!
//! `POSIX_FADV_RANDOM` on a program's open file outlives us. So before each such change its particulars go
//! through a pipe to a child that was forked at the very beginning, holds nothing but the other end of the
//! pipe, and ignores the signals of the terminal. When the pipe closes, however we died, it goes through
//! what is still noted, makes sure that process and file are still the same, and takes the change back.
//!
//! The child of a process with threads may do nothing but plain system calls, so neither it nor what it
//! calls allocates memory; its table is allocated before the fork.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::kernel::pidfd_open;
use foretell_door::Closer;

/// What it is called (`PR_SET_NAME`).
pub(crate) const NAME: &CStr = c"foretell-guard";
/// Bytes of such a name, with the zero at its end.
const NAME_BYTES: usize = 16;

/// Open files changed at a time, over all programs. Beyond it, files keep the kernel's readahead.
pub(crate) const NOTES: usize = 4096;

/// How long to wait for the guard to end. It restores some thousand files in some ten milliseconds.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Bytes of a message: an operation and a note, well below `PIPE_BUF`, so each arrives whole.
const MESSAGE_BYTES: usize = 48;
const NOTE: u64 = 1;
const FORGET: u64 = 2;

/// An open file of another process, and how to be sure that it is still the one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OpenFile {
    pub(crate) pid: u32,
    /// When the process started, in clock ticks since boot: its number may be used again.
    pub(crate) started: u64,
    pub(crate) fd: i32,
    /// Device (in the kernel's encoding) and inode number, as statx(2) gives them.
    pub(crate) dev: u64,
    pub(crate) ino: u64,
}

impl OpenFile {
    fn message(self, operation: u64) -> [u8; MESSAGE_BYTES] {
        let words = [
            operation,
            u64::from(self.pid),
            self.started,
            u64::from(self.fd.cast_unsigned()),
            self.dev,
            self.ino,
        ];
        let mut message = [0; MESSAGE_BYTES];
        for (bytes, word) in message.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        message
    }

    fn from_message(message: &[u8; MESSAGE_BYTES]) -> (u64, OpenFile) {
        let word = |i: usize| u64::from_ne_bytes(std::array::from_fn(|byte| message[i * 8 + byte]));
        let file = OpenFile {
            pid: word(1) as u32,
            started: word(2),
            fd: (word(3) as u32).cast_signed(),
            dev: word(4),
            ino: word(5),
        };
        (word(0), file)
    }

    /// Gives the kernel advice on all of this open file, as if its process had, with this process's own rights. Says
    /// whether it could. What was found under its number is closed by `closer`, on behalf of `user`, whose process it is.
    pub(crate) fn advise_here(&self, advice: libc::c_int, user: u32, closer: &Closer) -> bool {
        let (done, found) = self.advise_copy(advice);
        if found >= 0 {
            // SAFETY: the descriptor is fresh and nobody else's.
            let found = unsafe { OwnedFd::from_raw_fd(found) };
            drop(closer.guard(user, found));
        }
        done
    }

    /// The same, with a copy of what was found, still open; negative when nothing was. It may be anything, and
    /// closing it may wait for whoever made it. Allocates nothing.
    fn advise_copy(&self, advice: libc::c_int) -> (bool, libc::c_int) {
        let Ok(pidfd) = pidfd_open(self.pid) else { return (false, -1) };
        // From here on the process number cannot come to mean another process unnoticed.
        if start_time(self.pid) != Some(self.started) {
            return (false, -1);
        }
        // What comes may be another file by now, of a file system that never answers: it is not asked
        // (`AT_STATX_DONT_SYNC`).
        // SAFETY: plain system calls on descriptors; `stat` is valid for writes and, being plain numbers,
        // may be all zeroes; the path is an empty string.
        unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_getfd, pidfd.as_raw_fd(), self.fd, 0) as libc::c_int;
            if fd < 0 {
                return (false, -1);
            }
            let mut stat: libc::statx = std::mem::zeroed();
            let flags = libc::AT_STATX_DONT_SYNC | libc::AT_EMPTY_PATH;
            let wanted = libc::STATX_TYPE | libc::STATX_INO;
            let same = libc::statx(fd, c"".as_ptr(), flags, wanted, &raw mut stat) == 0
                && (u64::from(stat.stx_dev_major) << 20) | u64::from(stat.stx_dev_minor) == self.dev
                && stat.stx_ino == self.ino
                && u32::from(stat.stx_mode) & libc::S_IFMT == libc::S_IFREG;
            (same && libc::posix_fadvise(fd, 0, 0, advice) == 0, fd)
        }
    }
}

/// When a process started, in clock ticks since boot: field 22 of `/proc/PID/stat`. Allocates nothing.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let mut path = [0_u8; 32];
    let mut length = 0;
    let mut put = |bytes: &[u8]| {
        path[length..length + bytes.len()].copy_from_slice(bytes);
        length += bytes.len();
    };
    put(b"/proc/");
    let mut digits = [0_u8; 10];
    let mut rest = pid;
    let mut first = digits.len();
    while first == digits.len() || rest > 0 {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    put(&digits[first..]);
    put(b"/stat\0");
    let mut text = [0_u8; 1024];
    // SAFETY: `path` ends with a zero, `text` is valid for writes of its length, and the descriptor is
    // closed once.
    let length = unsafe {
        let fd = libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return None;
        }
        let length = libc::read(fd, text.as_mut_ptr().cast(), text.len());
        libc::close(fd);
        usize::try_from(length).ok()?
    };
    // The name, in parentheses, may hold anything; behind it come the fields from the third on.
    let text = &text[..length];
    let behind = text.iter().rposition(|&byte| byte == b')')? + 2;
    let field = text.get(behind..)?.split(|&byte| byte == b' ').nth(22 - 3)?;
    field.iter().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}

/// The guard, as its parent sees it.
#[derive(Debug)]
pub(crate) struct Guard {
    pipe: Option<OwnedFd>,
    child: rustix::process::Pid,
}

impl Guard {
    /// Forks the guard.
    ///
    /// # Errors
    /// When there is no pipe or no process to be had.
    pub(crate) fn start() -> io::Result<Guard> {
        let (read_end, write_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        // A guard that does not keep up must not stop the loop: what it cannot note is not changed.
        rustix::fs::fcntl_setfl(&write_end, rustix::fs::OFlags::NONBLOCK)?;
        let mut notes = vec![OpenFile::default(); NOTES];
        // It has its name from its first moment on: who finds it by chance must know it from a job.
        let mut own_name = [0_u8; NAME_BYTES];
        // SAFETY: the names are valid for reads, and the first one for writes, of as many bytes as prctl(2) wants. The child
        // calls nothing but `watch`, which makes plain system calls only and never returns.
        let child = unsafe {
            libc::prctl(libc::PR_GET_NAME, own_name.as_mut_ptr());
            libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
            let child = libc::fork();
            if child != 0 {
                libc::prctl(libc::PR_SET_NAME, own_name.as_ptr());
            }
            child
        };
        match child {
            0 => watch(read_end.as_raw_fd(), &mut notes),
            child if child < 0 => Err(io::Error::last_os_error()),
            child => match rustix::process::Pid::from_raw(child) {
                Some(child) => Ok(Guard { pipe: Some(write_end), child }),
                None => Err(io::Error::last_os_error()),
            },
        }
    }

    /// Takes a note; `false` when it cannot, and the file must then be left as it is.
    pub(crate) fn note(&self, file: OpenFile) -> bool {
        self.send(file.message(NOTE))
    }

    /// The file has been restored, or is gone with its process.
    pub(crate) fn forget(&self, file: OpenFile) {
        // A note too many is harmless: the guard checks before it acts.
        self.send(file.message(FORGET));
    }

    fn send(&self, message: [u8; MESSAGE_BYTES]) -> bool {
        let sent = self.pipe.as_ref().map(|pipe| rustix::io::write(pipe, &message));
        sent == Some(Ok(MESSAGE_BYTES))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.pipe = None;
        // It ends when it sees the pipe closed; nothing is left behind. A stranger's file may keep it from
        // ending: it is then left to the kernel, which also ends what it waits for with the stranger.
        let start = Instant::now();
        while let Ok(None) = rustix::process::waitpid(Some(self.child), rustix::process::WaitOptions::NOHANG)
        {
            if start.elapsed() > PATIENCE {
                break;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Gives up what this process does not need: of the capabilities all but `CAP_SYS_PTRACE`, if it has that, and new ones
/// by other programs. Allocates nothing.
fn keep_only_ptrace() {
    /// `_LINUX_CAPABILITY_VERSION_3`, for which a set has two words (capget(2)).
    const VERSION: u32 = 0x2008_0522;
    const SYS_PTRACE: u32 = 1 << 19;
    let mut header = [VERSION, 0];
    // Of each half: effective, permitted, inheritable.
    let mut sets = [[0_u32; 3]; 2];
    // SAFETY: header and sets are what capget(2) and capset(2) describe, and outlive the calls. What fails leaves this
    // process as it was.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) == 0 {
            sets = [[sets[0][0] & SYS_PTRACE, sets[0][1] & SYS_PTRACE, 0], [0; 3]];
            libc::syscall(libc::SYS_capset, header.as_mut_ptr(), sets.as_ptr());
        }
    }
}

/// What is open, as far as that is told: else what may be, in the usual bounds.
fn descriptors() -> impl Iterator<Item = libc::c_int> {
    const USUAL: libc::c_int = 1 << 16;
    let number = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let told =
        std::fs::read_dir("/proc/self/fd").map(|entries| entries.flatten().filter_map(number).collect());
    told.unwrap_or_else(|_| (0..USUAL).collect::<Vec<_>>()).into_iter()
}

/// What the child does: collects notes until the pipe closes, then restores what is noted.
fn watch(pipe: libc::c_int, notes: &mut [OpenFile]) -> ! {
    // SAFETY: plain system calls. After `dup2`, descriptor 0 is the pipe and all others are closed, so that
    // the guard keeps no file, terminal or pipe of its parent's alive.
    unsafe {
        libc::dup2(pipe, 0);
        if libc::syscall(libc::SYS_close_range, 1_u32, u32::MAX, 0_u32) != 0 {
            // Before Linux 5.9, or forbidden. With its own end of the pipe open it would wait for ever.
            for descriptor in descriptors().filter(|descriptor| *descriptor > 0) {
                libc::close(descriptor);
            }
        }
        libc::setsid();
        libc::chdir(c"/".as_ptr());
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
    keep_only_ptrace();
    let mut count = 0;
    loop {
        let mut message = [0_u8; MESSAGE_BYTES];
        // SAFETY: `message` is valid for writes of its length.
        let length = unsafe { libc::read(0, message.as_mut_ptr().cast(), MESSAGE_BYTES) };
        if length != MESSAGE_BYTES as isize {
            // SAFETY: `errno` is this thread's own.
            let interrupted = length < 0 && unsafe { *libc::__errno_location() } == libc::EINTR;
            if interrupted {
                continue;
            }
            break;
        }
        let (operation, file) = OpenFile::from_message(&message);
        let place = notes[..count].iter().position(|note| note.pid == file.pid && note.fd == file.fd);
        match (operation, place) {
            (NOTE, Some(place)) => notes[place] = file,
            (NOTE, None) if count < notes.len() => {
                notes[count] = file;
                count += 1;
            }
            (FORGET, Some(place)) => {
                count -= 1;
                notes.swap(place, count);
            }
            _ => {}
        }
    }
    for file in &notes[..count] {
        let (done, found) = file.advise_copy(libc::POSIX_FADV_NORMAL);
        // What is not the file that was noted stays open until the end of this process: to close it might take
        // for ever, and others come behind it.
        if done {
            // SAFETY: the descriptor is fresh, nobody else's, and closed once.
            unsafe { libc::close(found) };
        }
    }
    // SAFETY: ends the process without running anything of its parent's.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_is_told() {
        use std::os::fd::AsRawFd;
        let open = std::fs::File::open("/").unwrap();
        let told: Vec<_> = descriptors().collect();
        assert!(told.contains(&open.as_raw_fd()) && told.len() < 1 << 16, "{told:?}");
    }

    #[test]
    fn a_process_has_a_start_time_and_a_number_that_is_free_has_none() {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap();
        let expected = text.rsplit_once(')').unwrap().1.split_whitespace().nth(22 - 3).unwrap().parse().ok();
        assert_eq!(start_time(std::process::id()), expected);
        assert_eq!(start_time(u32::MAX), None);
    }

    #[test]
    fn a_guard_is_known_by_its_name_from_its_first_moment_on() {
        let own_name = || std::fs::read_to_string("/proc/thread-self/comm").unwrap();
        let before = own_name();
        for _ in 0..8 {
            let guard = Guard::start().unwrap();
            let name = std::fs::read(format!("/proc/{}/comm", guard.child.as_raw_nonzero())).unwrap();
            assert_eq!(name.trim_ascii_end(), NAME.to_bytes());
        }
        assert_eq!(own_name(), before);
    }

    #[test]
    fn messages_come_back_as_they_were_sent() {
        let file = OpenFile { pid: 12, started: 1 << 40, fd: 7, dev: 0xfe00, ino: 1 << 33 };
        assert_eq!(OpenFile::from_message(&file.message(NOTE)), (NOTE, file));
    }

    #[test]
    fn another_process_or_file_under_the_same_numbers_is_left_alone() {
        let file = std::fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap();
        let key = crate::observe::FileKey::of(&file).unwrap();
        let pid = std::process::id();
        let open = OpenFile {
            pid,
            started: start_time(pid).unwrap(),
            fd: file.as_raw_fd(),
            dev: key.dev,
            ino: key.ino,
        };
        let closer = Closer::start().unwrap();
        let advised = |open: OpenFile| open.advise(libc::POSIX_FADV_NORMAL, 0, &closer);
        assert!(advised(open));
        assert!(!advised(OpenFile { started: open.started + 1, ..open }));
        assert!(!advised(OpenFile { ino: open.ino + 1, ..open }));
        assert!(!advised(OpenFile { fd: 1 << 20, ..open }));
    }
}
