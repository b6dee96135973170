//! I/O logs of fio (manual page, "trace file format"), as `write_iolog` records them.
//!
//! ```text
//!  fio version 2 iolog               fio version 3 iolog
//!  /data/a add                       0 /data/a add
//!  /data/a open                      12 /data/a open
//!  /data/a read 4096 8192            40 /data/a read 4096 8192
//!  /data/a wait 1500 0
//! ```
//!
//! Offsets and lengths are in bytes. Version 2 has waits in microseconds, counted from the beginning: a
//! wait of 6000 after one of 4000 pauses for 2000 more. They are the compute time before the next read or
//! write. Version 3 has a time at every line instead, in microseconds since the start
//! (the manual does not name the unit; fio 3.33 writes microseconds): compute time is the gap between
//! requests, which includes the time that the request took. `sync`, `datasync` and `trim` are left out.

use super::fields::{self, Gaps};
use super::{LineFormat, Problem};
use crate::error::{TraceError, excerpt};
use crate::format::Format;
use crate::input::Input;
use crate::names::Names;
use crate::reference::Reference;

const EXPECTED: [&str; 2] =
    ["`file action` or `file action offset length`", "`time file action [offset length]`"];
const US_NS: u64 = 1000;

#[derive(Debug)]
pub(super) struct FioIolog {
    timed: bool,
    gaps: Gaps,
    /// The latest moment that a wait named, and how much of it no reference has been charged with.
    waited_until_ns: u64,
    waited_ns: u64,
}

/// The version in a first line.
fn version(line: &[u8]) -> Option<u64> {
    let number = line.trim_ascii().strip_prefix(b"fio version ")?.strip_suffix(b" iolog")?;
    fields::number(number)
}

pub(super) fn is_header(line: &[u8]) -> bool {
    version(line).is_some()
}

impl FioIolog {
    pub(super) fn new(input: &Input) -> Result<FioIolog, TraceError> {
        let first = input.beginning.split(|&byte| byte == b'\n').next().unwrap_or_default();
        match version(first) {
            Some(version @ (2 | 3)) => {
                Ok(FioIolog { timed: version == 3, gaps: Gaps::default(), waited_until_ns: 0, waited_ns: 0 })
            }
            _ => Err(TraceError::NotThisFormat {
                path: input.path.clone(),
                format: Format::FioIolog,
                expected: "the first line `fio version 2 iolog` or `fio version 3 iolog`".into(),
                found: format!("`{}`", excerpt(first)).into(),
            }),
        }
    }

    fn parse<'a>(&self, line: &'a [u8]) -> Option<Event<'a>> {
        let mut words = fields::words(line);
        let time_ns = match self.timed {
            true => Some(fields::number(words.next()?)?.checked_mul(US_NS)?),
            false => None,
        };
        let (file, action) = (words.next()?, words.next()?);
        if matches!(action, b"add" | b"open" | b"close") {
            return words.next().is_none().then_some(Event { time_ns, file, action, offset: 0, length: 0 });
        }
        let (offset, length) = (fields::number(words.next()?)?, fields::number(words.next()?)?);
        let known = [&b"read"[..], b"write", b"wait", b"sync", b"datasync", b"sync_file_range", b"trim"];
        (known.contains(&action) && words.next().is_none()).then_some(Event {
            time_ns,
            file,
            action,
            offset,
            length,
        })
    }
}

struct Event<'a> {
    time_ns: Option<u64>,
    file: &'a [u8],
    action: &'a [u8],
    offset: u64,
    length: u64,
}

impl LineFormat for FioIolog {
    fn reference(&mut self, line: &[u8], names: &mut Names) -> Result<Option<Reference>, Problem> {
        if is_header(line) {
            return Ok(None);
        }
        let event = self.parse(line).ok_or(Problem::Expected(EXPECTED[usize::from(self.timed)]))?;
        if event.action == b"wait" {
            let until_ns = event.offset.saturating_mul(US_NS);
            let more_ns = until_ns.saturating_sub(self.waited_until_ns);
            self.waited_ns = self.waited_ns.saturating_add(more_ns);
            self.waited_until_ns = self.waited_until_ns.max(until_ns);
        }
        if !matches!(event.action, b"read" | b"write") {
            return Ok(None);
        }
        let process = names.process(b"fio")?;
        let compute_ns = match event.time_ns {
            Some(time_ns) => self.gaps.before(process, time_ns, time_ns),
            None => std::mem::take(&mut self.waited_ns),
        };
        Ok(Some(Reference {
            process,
            file: names.file(event.file)?,
            offset: event.offset,
            bytes: event.length,
            compute_ns,
            timestamp_ns: event.time_ns,
            write: event.action == b"write",
        }))
    }
}
