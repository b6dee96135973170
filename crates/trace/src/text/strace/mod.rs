//! Recordings of `strace -f -ttt` (strace 6.1), with `-T`, `-y` and any `-e trace=` that has at least the
//! calls below.
//!
//! ```text
//!  7023  1795296018.879830 openat(AT_FDCWD, "/data/a", O_RDONLY) = 3
//!  7023  1795296018.879846 read(3, "..."..., 8192) = 8192
//!  7024  1795296018.880001 read(3,  <unfinished ...>
//!  7024  1795296018.881001 <... read resumed>"..."..., 8192) = 8192
//! ```
//!
//! A reference is a read or write that moved data through a descriptor whose opening the trace shows (or
//! whose path it prints, with `-y`): read, readv, pread64, preadv, preadv2, sendfile, copy_file_range (what
//! it reads), write, writev, pwrite64, pwritev, pwritev2. A mapping of a file is one reference to the
//! whole range, because accesses to it are not system calls. open, openat, openat2, creat, close,
//! close_range, dup, dup2, dup3, fcntl, lseek, clone, clone3, fork, vfork, execve, chdir and fchdir are
//! followed, so that offsets are right across duplicates and forks. Files under /proc and /sys and the
//! streams in /dev do not count, pipes and sockets are never opened by name.
//!
//! Compute time is what passed since the end of the process's last reference. Ends are known for calls
//! that were interrupted in the recording and with `-T`; else a call is taken to end when it starts, and
//! compute time includes waiting. Relative paths are completed as far as the trace shows the directory.

mod call;
mod descriptors;

use std::collections::{BTreeMap, HashMap};

use super::fields::{self, Gaps};
use super::{LineFormat, Problem};
use crate::limits::{LimitReached, Limits};
use crate::names::Names;
use crate::reference::Reference;
use call::{AT_FDCWD, Call};
use descriptors::{Descriptors, Pid};

const EXPECTED: &str = "a process, a time in seconds and a system call, as `strace -f -ttt` prints them";
const EXPECTED_RESUMED: &str = "the rest of a call whose beginning the trace shows";
const EXPECTED_RESULT: &str = "`name(arguments) = result`";
const EXPECTED_ARGUMENTS: &str = "the arguments of this call, as strace prints them";
const SECOND_NS: u64 = 1_000_000_000;

/// What is left of a call that was interrupted by another process's line.
#[derive(Debug)]
struct Unfinished {
    start_ns: u64,
    text: Vec<u8>,
    /// Position among the calls that were interrupted, to find the latest.
    nth: u64,
}

/// The calls that are to be resumed: one of a process at a time.
#[derive(Debug, Default)]
struct AllUnfinished {
    calls: HashMap<Pid, Unfinished>,
    /// Those that create processes, by position.
    creating: BTreeMap<u64, Pid>,
    interrupted: u64,
    bytes: u64,
    limit_bytes: u64,
}

impl AllUnfinished {
    /// One more; what the process had begun before is forgotten.
    fn insert(&mut self, pid: Pid, start_ns: u64, text: &[u8]) -> Result<(), LimitReached> {
        self.remove(pid);
        if self.bytes + text.len() as u64 > self.limit_bytes {
            return Err(LimitReached { limit: self.limit_bytes, what: "bytes of unfinished calls" });
        }
        self.bytes += text.len() as u64;
        self.interrupted += 1;
        if creates_process(text) {
            self.creating.insert(self.interrupted, pid);
        }
        self.calls.insert(pid, Unfinished { start_ns, text: text.to_vec(), nth: self.interrupted });
        Ok(())
    }

    fn remove(&mut self, pid: Pid) -> Option<Unfinished> {
        let call = self.calls.remove(&pid)?;
        self.bytes -= call.text.len() as u64;
        self.creating.remove(&call.nth);
        Some(call)
    }

    /// The call that was interrupted last among those that create processes.
    fn last_creating(&self) -> Option<(Pid, &Unfinished)> {
        let (_, &pid) = self.creating.last_key_value()?;
        Some((pid, self.calls.get(&pid)?))
    }
}

#[derive(Debug)]
pub(super) struct Strace {
    descriptors: Descriptors,
    unfinished: AllUnfinished,
    gaps: Gaps,
}

/// A line after its process and its time.
struct Event<'a> {
    pid_name: &'a [u8],
    pid: Pid,
    time_ns: u64,
    text: &'a [u8],
}

fn event(line: &[u8]) -> Option<Event<'_>> {
    let word = |text: &[u8]| text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
    let mut text = line.trim_ascii();
    let mut pid_name = &b"0"[..];
    if let Some(rest) = text.strip_prefix(b"[pid") {
        let close = rest.iter().position(|&byte| byte == b']')?;
        pid_name = rest[..close].trim_ascii();
        text = rest[close + 1..].trim_ascii_start();
    } else if !text[..word(text)].contains(&b'.') {
        let (pid, rest) = text.split_at(word(text));
        pid_name = pid;
        text = rest.trim_ascii_start();
    }
    let pid = u32::try_from(fields::number(pid_name)?).ok()?;
    let (time, text) = text.split_at(word(text));
    let time_ns = fields::nanoseconds(time, SECOND_NS).filter(|_| time.contains(&b'.'))?;
    Some(Event { pid_name, pid, time_ns, text: text.trim_ascii_start() })
}

pub(super) fn looks_like(line: &[u8]) -> bool {
    event(line).is_some_and(|event| {
        let notes: [&[u8]; 3] = [b"+++ ", b"--- ", b"<... "];
        call::name(event.text).is_some() || notes.iter().any(|note| event.text.starts_with(note))
    })
}

impl Strace {
    pub(super) fn new(limits: &Limits) -> Strace {
        Strace {
            descriptors: Descriptors::new(limits.descriptors, limits.processes),
            unfinished: AllUnfinished { limit_bytes: limits.unfinished_bytes, ..AllUnfinished::default() },
            gaps: Gaps::default(),
        }
    }

    /// A process that is new was created by the call that was interrupted last, if any call that creates
    /// processes is still to return.
    fn meet(&mut self, pid: Pid) -> Result<(), Problem> {
        if self.descriptors.knows(pid) {
            return Ok(());
        }
        match self.unfinished.last_creating() {
            Some((parent, call)) => {
                let shares_files = shares_files(&call.text);
                self.descriptors.fork(parent, pid, shares_files, true)?;
            }
            None => self.descriptors.appear(pid)?,
        }
        Ok(())
    }

    /// What a complete call does. Gives the file, offset and length that it read or wrote, and whether it
    /// wrote.
    fn apply(&mut self, pid: Pid, call: &Call<'_>, names: &mut Names) -> Result<Option<Moved>, Problem> {
        let Some(returned) = call.returned() else { return Ok(None) };
        match call.name {
            b"read" | b"readv" | b"write" | b"writev" => {
                let (descriptor, path) = call.descriptor().ok_or(Problem::Expected(EXPECTED_ARGUMENTS))?;
                self.learn(pid, descriptor, path, names)?;
                Ok(self.move_on(pid, descriptor, returned, call.name.starts_with(b"write")))
            }
            b"pread64" | b"pwrite64" => self.at_offset(pid, call, call.last(), returned, names),
            b"preadv" | b"pwritev" | b"preadv2" | b"pwritev2" => {
                let offset = call.split().nth(3).ok_or(Problem::Expected(EXPECTED_ARGUMENTS))?;
                self.at_offset(pid, call, offset, returned, names)
            }
            b"sendfile" | b"copy_file_range" => self.copied(pid, call, returned, names),
            b"lseek" => {
                let (descriptor, path) = call.descriptor().ok_or(Problem::Expected(EXPECTED_ARGUMENTS))?;
                self.learn(pid, descriptor, path, names)?;
                self.descriptors.seek(pid, descriptor, returned);
                Ok(None)
            }
            b"mmap" | b"mmap2" => self.mapped(pid, call, names),
            b"open" | b"openat" | b"openat2" | b"creat" => self.opened(pid, call, returned, names),
            _ => self.descriptors_change(pid, call, returned),
        }
    }

    fn at_offset(
        &mut self,
        pid: Pid,
        call: &Call<'_>,
        offset: &[u8],
        bytes: u64,
        names: &mut Names,
    ) -> Result<Option<Moved>, Problem> {
        let (descriptor, path) = call.descriptor().ok_or(Problem::Expected(EXPECTED_ARGUMENTS))?;
        self.learn(pid, descriptor, path, names)?;
        let write = call.name.starts_with(b"pwrite");
        let Some(offset) = fields::decimal_or_hexadecimal(offset) else {
            // preadv2 and pwritev2 take -1 for the current offset.
            return match offset {
                b"-1" => Ok(self.move_on(pid, descriptor, bytes, write)),
                _ => Err(Problem::Expected(EXPECTED_ARGUMENTS)),
            };
        };
        let position = self.descriptors.position(pid, descriptor);
        Ok(position.map(|(file, _)| Moved { file, offset, bytes, write }))
    }

    /// A copy inside the kernel: what it read, at the offset given or at that of the descriptor.
    fn copied(
        &mut self,
        pid: Pid,
        call: &Call<'_>,
        bytes: u64,
        names: &mut Names,
    ) -> Result<Option<Moved>, Problem> {
        let arguments: Vec<&[u8]> = call.split().collect();
        let (from, offset) = match (call.name, arguments.as_slice()) {
            (b"sendfile", [_, from, offset, ..]) | (b"copy_file_range", [from, offset, ..]) => {
                (*from, *offset)
            }
            _ => return Err(Problem::Expected(EXPECTED_ARGUMENTS)),
        };
        let (descriptor, path) =
            call::descriptor_argument(from).ok_or(Problem::Expected(EXPECTED_ARGUMENTS))?;
        self.learn(pid, descriptor, path, names)?;
        if offset == b"NULL" {
            return Ok(self.move_on(pid, descriptor, bytes, false));
        }
        // `[100]` or, where the kernel wrote the new value back, `[100] => [200]`.
        let digits = offset.strip_prefix(b"[").unwrap_or_default();
        let end = digits.iter().position(|&byte| byte == b']').unwrap_or(0);
        let offset = fields::number(&digits[..end]).ok_or(Problem::Expected(EXPECTED_ARGUMENTS))?;
        let position = self.descriptors.position(pid, descriptor);
        Ok(position.map(|(file, _)| Moved { file, offset, bytes, write: false }))
    }

    fn mapped(&mut self, pid: Pid, call: &Call<'_>, names: &mut Names) -> Result<Option<Moved>, Problem> {
        let arguments: Vec<&[u8]> = call.split().collect();
        let &[_, length, protection, flags, descriptor, offset] = arguments.as_slice() else {
            return Err(Problem::Expected(EXPECTED_ARGUMENTS));
        };
        if descriptor == b"-1" || protection == b"PROT_NONE" || contains(flags, b"MAP_ANONYMOUS") {
            return Ok(None);
        }
        let (descriptor, path) =
            call::descriptor_argument(descriptor).ok_or(Problem::Expected(EXPECTED_ARGUMENTS))?;
        self.learn(pid, descriptor, path, names)?;
        let number = fields::decimal_or_hexadecimal;
        let (Some(bytes), Some(offset)) = (number(length), number(offset)) else {
            return Err(Problem::Expected(EXPECTED_ARGUMENTS));
        };
        let position = self.descriptors.position(pid, descriptor);
        Ok(position.map(|(file, _)| Moved { file, offset, bytes, write: false }))
    }

    fn opened(
        &mut self,
        pid: Pid,
        call: &Call<'_>,
        returned: u64,
        names: &mut Names,
    ) -> Result<Option<Moved>, Problem> {
        let mut arguments = call.split();
        let directory = match call.name {
            b"openat" | b"openat2" => arguments.next(),
            _ => Some(&b"AT_FDCWD"[..]),
        };
        let directory = directory.and_then(call::descriptor_argument);
        let name = arguments.next().and_then(call::string);
        let (Some(directory), Some(name)) = (directory, name) else {
            return Err(Problem::Expected(EXPECTED_ARGUMENTS));
        };
        let path = match call.returned_path() {
            Some(path) => path.to_vec(),
            None => self.absolute(pid, directory, name),
        };
        let close_on_exec = arguments.any(|flags| contains(flags, b"O_CLOEXEC"));
        self.open(pid, returned, &path, close_on_exec, names)?;
        Ok(None)
    }

    fn descriptors_change(
        &mut self,
        pid: Pid,
        call: &Call<'_>,
        returned: u64,
    ) -> Result<Option<Moved>, Problem> {
        let descriptor =
            || call.descriptor().map(|(number, _)| number).ok_or(Problem::Expected(EXPECTED_ARGUMENTS));
        let returned_descriptor = i32::try_from(returned).unwrap_or(i32::MAX);
        match call.name {
            b"close" => self.descriptors.close(pid, descriptor()?),
            b"close_range" => {
                let bound = |argument: &[u8]| {
                    fields::decimal_or_hexadecimal(argument).map(|n| i32::try_from(n).unwrap_or(i32::MAX))
                };
                let mut arguments = call.split();
                let (first, last) = (arguments.next().and_then(bound), arguments.next().and_then(bound));
                let (Some(first), Some(last)) = (first, last) else {
                    return Err(Problem::Expected(EXPECTED_ARGUMENTS));
                };
                if !contains(call.last(), b"CLOSE_RANGE_CLOEXEC") {
                    self.descriptors.close_range(pid, first, last);
                }
            }
            b"dup" | b"dup2" | b"dup3" => {
                let close_on_exec = contains(call.last(), b"O_CLOEXEC");
                self.descriptors.duplicate(pid, descriptor()?, returned_descriptor, close_on_exec)?;
            }
            b"fcntl" => {
                let command = call.split().nth(1).unwrap_or_default();
                if command.starts_with(b"F_DUPFD") {
                    let close_on_exec = command == b"F_DUPFD_CLOEXEC";
                    self.descriptors.duplicate(pid, descriptor()?, returned_descriptor, close_on_exec)?;
                } else if command == b"F_SETFD" {
                    self.descriptors.set_close_on_exec(pid, descriptor()?, call.last() == b"FD_CLOEXEC");
                }
            }
            b"clone" | b"clone3" | b"fork" | b"vfork" => {
                let child = u32::try_from(returned).map_err(|_| Problem::Expected(EXPECTED_RESULT))?;
                self.descriptors.fork(pid, child, contains(call.arguments, b"CLONE_FILES"), false)?;
            }
            b"execve" | b"execveat" => self.descriptors.exec(pid)?,
            b"chdir" => {
                let name = call.split().next().and_then(call::string);
                let name = name.ok_or(Problem::Expected(EXPECTED_ARGUMENTS))?;
                let path = self.absolute(pid, (AT_FDCWD, None), name);
                if path.starts_with(b"/") {
                    self.descriptors.change_directory(pid, path.into());
                }
            }
            b"fchdir" => {
                let path = self.descriptors.path(pid, descriptor()?).map(Box::from);
                if let Some(path) = path {
                    self.descriptors.change_directory(pid, path);
                }
            }
            _ => {}
        }
        Ok(None)
    }

    /// A path relative to a directory, completed as far as the trace shows the directory.
    fn absolute(&self, pid: Pid, (directory, printed): (i32, Option<&[u8]>), name: Vec<u8>) -> Vec<u8> {
        if name.starts_with(b"/") {
            return name;
        }
        let known = match directory {
            AT_FDCWD => printed.or(self.descriptors.directory(pid)),
            descriptor => printed.or(self.descriptors.path(pid, descriptor)),
        };
        let name = name.strip_prefix(b"./").unwrap_or(&name);
        match known {
            Some(directory) => [directory.strip_suffix(b"/").unwrap_or(directory), b"/", name].concat(),
            None => name.to_vec(),
        }
    }

    fn open(
        &mut self,
        pid: Pid,
        descriptor: u64,
        path: &[u8],
        close_on_exec: bool,
        names: &mut Names,
    ) -> Result<(), Problem> {
        let descriptor = i32::try_from(descriptor).map_err(|_| Problem::Expected(EXPECTED_RESULT))?;
        let file = if counts(path) { Some(names.file(path)?) } else { None };
        Ok(self.descriptors.open(pid, descriptor, path, file, close_on_exec)?)
    }

    /// Takes a descriptor that was opened before the recording from the path that `strace -y` prints.
    fn learn(
        &mut self,
        pid: Pid,
        descriptor: i32,
        path: Option<&[u8]>,
        names: &mut Names,
    ) -> Result<(), Problem> {
        match (path, u64::try_from(descriptor)) {
            (Some(path), Ok(number)) if !self.descriptors.is_open(pid, descriptor) => {
                self.open(pid, number, path, false, names)
            }
            _ => Ok(()),
        }
    }

    /// Data moved at the descriptor's offset.
    fn move_on(&mut self, pid: Pid, descriptor: i32, bytes: u64, write: bool) -> Option<Moved> {
        let (file, offset) = self.descriptors.position(pid, descriptor)?;
        self.descriptors.seek(pid, descriptor, offset.saturating_add(bytes));
        Some(Moved { file, offset, bytes, write })
    }
}

/// What a call read or wrote.
struct Moved {
    file: u32,
    offset: u64,
    bytes: u64,
    write: bool,
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn creates_process(text: &[u8]) -> bool {
    matches!(call::name(text), Some(b"clone" | b"clone3" | b"fork" | b"vfork"))
}

fn shares_files(text: &[u8]) -> bool {
    contains(text, b"CLONE_FILES")
}

/// Files whose contents are on a device: not the kernel's own, and not the streams in /dev.
fn counts(path: &[u8]) -> bool {
    let streams: [&[u8]; 6] =
        [b"/dev/null", b"/dev/zero", b"/dev/random", b"/dev/urandom", b"/dev/tty", b"/dev/pts/"];
    let kernel: [&[u8]; 2] = [b"/proc/", b"/sys/"];
    !streams.iter().chain(&kernel).any(|prefix| path.starts_with(prefix))
}

impl LineFormat for Strace {
    fn reference(&mut self, line: &[u8], names: &mut Names) -> Result<Option<Reference>, Problem> {
        if line.starts_with(b"strace: ") {
            return Ok(None);
        }
        let Event { pid_name, pid, time_ns, text } = event(line).ok_or(Problem::Expected(EXPECTED))?;
        self.meet(pid)?;
        if text.starts_with(b"+++ ") {
            self.descriptors.exit(pid);
            self.unfinished.remove(pid);
            return Ok(None);
        }
        if text.starts_with(b"--- ") {
            return Ok(None);
        }
        let mut joined = Vec::new();
        let (mut start_ns, mut end_ns, mut whole) = (time_ns, None, text);
        if let Some(rest) = text.strip_prefix(b"<... ") {
            let at = rest.iter().position(|&byte| byte == b'>').ok_or(Problem::Expected(EXPECTED_RESUMED))?;
            // Its beginning may lie before the recording.
            let Some(begun) = self.unfinished.remove(pid) else { return Ok(None) };
            joined = begun.text;
            joined.extend_from_slice(&rest[at + 1..]);
            (start_ns, end_ns, whole) = (begun.start_ns, Some(time_ns), &joined);
        } else if let Some(begun) = text.strip_suffix(b"<unfinished ...>") {
            self.unfinished.insert(pid, start_ns, begun.trim_ascii_end())?;
            return Ok(None);
        }
        let call = Call::parse(whole).ok_or(Problem::Expected(EXPECTED_RESULT))?;
        let end_ns = match call.duration_ns {
            Some(duration_ns) => start_ns.saturating_add(duration_ns),
            None => end_ns.unwrap_or(start_ns),
        };
        let moved = self.apply(pid, &call, names)?;
        drop(joined);
        let Some(moved) = moved.filter(|moved| moved.bytes > 0) else { return Ok(None) };
        let process = names.process(pid_name)?;
        Ok(Some(Reference {
            process,
            file: moved.file,
            offset: moved.offset,
            bytes: moved.bytes,
            compute_ns: self.gaps.before(process, start_ns, end_ns),
            timestamp_ns: Some(start_ns),
            write: moved.write,
        }))
    }
}
