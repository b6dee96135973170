//! Recordings of foretell: what one run of a job referenced.
//!
//! A recording is read whole, as it is refused whole; its references are then given one by one, in order of
//! time. A role is a process, called by its command and the number of its role (`sort#3`), because one command
//! runs many times in a job. A file is its path; a file whose path is not known is called by device and inode.
//! References by system calls and through mappings are reads, a written range is a write. Compute time is the
//! time since the role's previous reference less what that one waited.

use std::os::unix::ffi::OsStrExt;

use foretell_recording::{Access, FileRecord, PAGE_BYTES, Recording, Way};

use crate::error::TraceError;
use crate::input::Input;
use crate::limits::LimitReached;
use crate::names::Names;
use crate::options::ReadOptions;
use crate::reference::{Reference, TraceMeta, TraceReader};

/// Gives the references of a recording.
pub(crate) struct Reader {
    path: Box<str>,
    recording: Recording,
    /// Numbers of roles and files in the trace, once they were referenced.
    processes: Vec<Option<u32>>,
    files: Vec<Option<u32>>,
    /// When each role went on computing after its last reference.
    computing_since_ns: Vec<Option<u64>>,
    /// Indices of accesses in order of time.
    order: Vec<u32>,
    at: usize,
    names: Names,
}

impl Reader {
    pub(crate) fn new(input: Input, meta: TraceMeta, options: &ReadOptions) -> Result<Reader, TraceError> {
        let recording = Recording::read_from(input.path.as_ref().as_ref(), input.bytes)?;
        let accesses = &recording.accesses;
        // A recording holds fewer than 2^32 accesses.
        let mut order: Vec<u32> = (0..accesses.len() as u32).collect();
        order.sort_by_key(|&index| accesses[index as usize].at_ns);
        Ok(Reader {
            path: input.path,
            processes: vec![None; recording.roles.len()],
            files: vec![None; recording.files.len()],
            computing_since_ns: vec![None; recording.roles.len()],
            order,
            at: 0,
            names: Names::new(meta, options.limits),
            recording,
        })
    }

    fn reference(&mut self, access: &Access) -> Result<Reference, LimitReached> {
        let Reader { recording, processes, files, computing_since_ns, names, .. } = self;
        let Access { role, file, first_page, pages, at_ns, waited_ns, way } = *access;
        let process = match &mut processes[role.0 as usize] {
            Some(number) => *number,
            unknown => {
                let name = format!("{}#{}", recording.roles[role.0 as usize].name, role.0);
                *unknown.insert(names.process(name.as_bytes())?)
            }
        };
        let file = match &mut files[file.0 as usize] {
            Some(number) => *number,
            unknown => *unknown.insert(add_file(names, &recording.files[file.0 as usize])?),
        };
        let since_ns = &mut computing_since_ns[role.0 as usize];
        let compute_ns = since_ns.map_or(0, |since_ns| at_ns.saturating_sub(since_ns));
        *since_ns = Some(at_ns.saturating_add(waited_ns));
        Ok(Reference {
            process,
            file,
            offset: u64::from(first_page) * PAGE_BYTES,
            bytes: u64::from(pages) * PAGE_BYTES,
            compute_ns,
            timestamp_ns: Some(at_ns),
            write: way == Way::Written,
        })
    }
}

/// The number of a file. Of several under one path, one replaced by the other, the largest says the size.
fn add_file(names: &mut Names, record: &FileRecord) -> Result<u32, LimitReached> {
    let path = record.path.as_os_str().as_bytes();
    let number = if path.is_empty() {
        names.file(format!("inode {} on device {}", record.ino, record.dev).as_bytes())?
    } else {
        names.file(path)?
    };
    if let Some(entry) = names.meta.files.get_mut(number as usize) {
        entry.bytes = entry.bytes.max(Some(record.size));
    }
    Ok(number)
}

impl Iterator for Reader {
    type Item = Result<Reference, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let access = self.recording.accesses[*self.order.get(self.at)? as usize];
        self.at += 1;
        let reference = self.reference(&access);
        if reference.is_err() {
            self.at = self.order.len();
        }
        Some(reference.map_err(|LimitReached { limit, what }| TraceError::Limit {
            path: self.path.clone(),
            limit,
            what,
        }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Fewer if a limit of the trace is reached.
        (0, Some(self.order.len() - self.at))
    }
}

impl TraceReader for Reader {
    fn meta(&self) -> &TraceMeta {
        &self.names.meta
    }
}
