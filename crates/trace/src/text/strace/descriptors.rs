//! Which file is behind a descriptor, and where in it a process reads next.
//!
//! As in the kernel there are three levels. A process has a descriptor table (shared by threads, copied
//! by fork). A descriptor refers to an open file. An open file has the file and the offset, which
//! duplicates of the descriptor and the copies of a fork share.

use std::collections::HashMap;

use crate::limits::LimitReached;

/// A process, by what the trace calls it.
pub(super) type Pid = u32;

/// An open file, shared by every descriptor that refers to it.
#[derive(Debug)]
struct OpenFile {
    /// Its number in the trace, or `None` if it is no file that counts.
    file: Option<u32>,
    /// Its path, for descriptors of directories.
    path: Box<[u8]>,
    offset: u64,
    descriptors: u32,
}

#[derive(Debug, Clone, Copy)]
struct Descriptor {
    open_file: u64,
    close_on_exec: bool,
}

#[derive(Debug, Default)]
struct Table {
    descriptors: HashMap<i32, Descriptor>,
    processes: u32,
}

#[derive(Debug, Clone)]
struct Process {
    table: u64,
    directory: Option<Box<[u8]>>,
    /// It appeared before the call that created it was seen to return.
    early: bool,
}

/// All processes and what they have open.
#[derive(Debug)]
pub(super) struct Descriptors {
    processes: HashMap<Pid, Process>,
    tables: HashMap<u64, Table>,
    open_files: HashMap<u64, OpenFile>,
    next: u64,
    open: u64,
    limit: u32,
    process_limit: u32,
}

impl Descriptors {
    /// Nothing open. At most `limit` descriptors and `process_limit` processes may be at one time.
    pub(super) fn new(limit: u32, process_limit: u32) -> Descriptors {
        Descriptors {
            processes: HashMap::new(),
            tables: HashMap::new(),
            open_files: HashMap::new(),
            next: 0,
            open: 0,
            limit,
            process_limit,
        }
    }

    pub(super) fn knows(&self, pid: Pid) -> bool {
        self.processes.contains_key(&pid)
    }

    /// The file behind a descriptor, and the offset of its next read.
    pub(super) fn position(&self, pid: Pid, descriptor: i32) -> Option<(u32, u64)> {
        let open_file = self.open_file(pid, descriptor)?;
        Some((open_file.file?, open_file.offset))
    }

    /// A descriptor is known, whether or not its file counts.
    pub(super) fn is_open(&self, pid: Pid, descriptor: i32) -> bool {
        self.open_file(pid, descriptor).is_some()
    }

    /// The path behind a descriptor.
    pub(super) fn path(&self, pid: Pid, descriptor: i32) -> Option<&[u8]> {
        self.open_file(pid, descriptor).map(|open_file| &*open_file.path)
    }

    /// Moves the offset of the open file behind a descriptor.
    pub(super) fn seek(&mut self, pid: Pid, descriptor: i32, offset: u64) {
        let table = self.processes.get(&pid).and_then(|process| self.tables.get(&process.table));
        let open_file = table.and_then(|table| table.descriptors.get(&descriptor)).map(|d| d.open_file);
        if let Some(open_file) = open_file.and_then(|id| self.open_files.get_mut(&id)) {
            open_file.offset = offset;
        }
    }

    /// A descriptor for `path`, at its beginning. `file` is its number, if it counts.
    pub(super) fn open(
        &mut self,
        pid: Pid,
        descriptor: i32,
        path: &[u8],
        file: Option<u32>,
        close_on_exec: bool,
    ) -> Result<(), LimitReached> {
        let open_file = self.fresh();
        self.open_files.insert(open_file, OpenFile { file, path: path.into(), offset: 0, descriptors: 0 });
        self.set(pid, descriptor, Descriptor { open_file, close_on_exec })
    }

    /// Another descriptor for the same open file. The new one is closed if the old one is unknown.
    pub(super) fn duplicate(
        &mut self,
        pid: Pid,
        from: i32,
        to: i32,
        close_on_exec: bool,
    ) -> Result<(), LimitReached> {
        if from == to {
            return Ok(());
        }
        match self.table(pid).and_then(|table| table.descriptors.get(&from)).map(|d| d.open_file) {
            Some(open_file) => self.set(pid, to, Descriptor { open_file, close_on_exec }),
            None => {
                self.close(pid, to);
                Ok(())
            }
        }
    }

    /// Sets or clears the close-on-exec flag.
    pub(super) fn set_close_on_exec(&mut self, pid: Pid, descriptor: i32, on: bool) {
        let table = self.processes.get(&pid).and_then(|process| self.tables.get_mut(&process.table));
        if let Some(descriptor) = table.and_then(|table| table.descriptors.get_mut(&descriptor)) {
            descriptor.close_on_exec = on;
        }
    }

    pub(super) fn close(&mut self, pid: Pid, descriptor: i32) {
        let table = self.processes.get(&pid).and_then(|process| self.tables.get_mut(&process.table));
        if let Some(closed) = table.and_then(|table| table.descriptors.remove(&descriptor)) {
            self.release(closed);
        }
    }

    /// Closes all descriptors from `first` to `last`.
    pub(super) fn close_range(&mut self, pid: Pid, first: i32, last: i32) {
        let open: Vec<i32> = self.table(pid).map_or_else(Vec::new, |table| {
            table.descriptors.keys().copied().filter(|d| (first..=last).contains(d)).collect()
        });
        open.into_iter().for_each(|descriptor| self.close(pid, descriptor));
    }

    /// A new program begins: descriptors that close on exec are gone, a shared table is no longer shared.
    pub(super) fn exec(&mut self, pid: Pid) -> Result<(), LimitReached> {
        let Some(process) = self.processes.get(&pid) else { return Ok(()) };
        let shared = self.tables.get(&process.table).is_some_and(|table| table.processes > 1);
        if shared {
            let directory = process.directory.clone();
            let copy = self.copy_table(process.table)?;
            self.exit(pid);
            self.processes.insert(pid, Process { table: copy, directory, early: false });
        }
        let closing: Vec<i32> = self.table(pid).map_or_else(Vec::new, |table| {
            table.descriptors.iter().filter(|(_, d)| d.close_on_exec).map(|(number, _)| *number).collect()
        });
        closing.into_iter().for_each(|descriptor| self.close(pid, descriptor));
        Ok(())
    }

    /// A process that appears without a parent: it has nothing open that is known.
    pub(super) fn appear(&mut self, pid: Pid) -> Result<(), LimitReached> {
        self.room_for_a_process()?;
        let table = self.fresh();
        self.tables.insert(table, Table { processes: 1, ..Table::default() });
        self.processes.insert(pid, Process { table, directory: None, early: false });
        Ok(())
    }

    fn room_for_a_process(&self) -> Result<(), LimitReached> {
        if self.processes.len() >= self.process_limit as usize {
            return Err(LimitReached { limit: u64::from(self.process_limit), what: "processes" });
        }
        Ok(())
    }

    /// `parent` creates `child`. `early`: the child was seen before the call was seen to return.
    pub(super) fn fork(
        &mut self,
        parent: Pid,
        child: Pid,
        shares_files: bool,
        early: bool,
    ) -> Result<(), LimitReached> {
        if let Some(known) = self.processes.get_mut(&child) {
            if known.early && !early {
                known.early = false;
                return Ok(());
            }
            self.exit(child);
        }
        let Some(process) = self.processes.get(&parent) else {
            return self.appear(child);
        };
        self.room_for_a_process()?;
        let (mut table, directory) = (process.table, process.directory.clone());
        if shares_files {
            if let Some(shared) = self.tables.get_mut(&table) {
                shared.processes += 1;
            }
        } else {
            table = self.copy_table(table)?;
        }
        self.processes.insert(child, Process { table, directory, early });
        Ok(())
    }

    pub(super) fn exit(&mut self, pid: Pid) {
        let Some(process) = self.processes.remove(&pid) else { return };
        let Some(table) = self.tables.get_mut(&process.table) else { return };
        table.processes -= 1;
        if table.processes == 0
            && let Some(table) = self.tables.remove(&process.table)
        {
            table.descriptors.into_values().for_each(|descriptor| self.release(descriptor));
        }
    }

    /// Changes the current directory.
    pub(super) fn change_directory(&mut self, pid: Pid, directory: Box<[u8]>) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.directory = Some(directory);
        }
    }

    /// The current directory, if the trace shows it.
    pub(super) fn directory(&self, pid: Pid) -> Option<&[u8]> {
        self.processes.get(&pid)?.directory.as_deref()
    }

    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn table(&self, pid: Pid) -> Option<&Table> {
        self.tables.get(&self.processes.get(&pid)?.table)
    }

    fn open_file(&self, pid: Pid, descriptor: i32) -> Option<&OpenFile> {
        self.open_files.get(&self.table(pid)?.descriptors.get(&descriptor)?.open_file)
    }

    fn set(&mut self, pid: Pid, number: i32, descriptor: Descriptor) -> Result<(), LimitReached> {
        if !self.knows(pid) {
            self.appear(pid)?;
        }
        if self.open >= u64::from(self.limit) {
            return Err(LimitReached { limit: u64::from(self.limit), what: "open descriptors" });
        }
        if let Some(open_file) = self.open_files.get_mut(&descriptor.open_file) {
            open_file.descriptors += 1;
            self.open += 1;
        }
        let table = self.processes.get(&pid).and_then(|process| self.tables.get_mut(&process.table));
        if let Some(replaced) = table.and_then(|table| table.descriptors.insert(number, descriptor)) {
            self.release(replaced);
        }
        Ok(())
    }

    fn copy_table(&mut self, table: u64) -> Result<u64, LimitReached> {
        let descriptors = self.tables.get(&table).map(|table| table.descriptors.clone()).unwrap_or_default();
        let open = self.open + descriptors.len() as u64;
        if open > u64::from(self.limit) {
            return Err(LimitReached { limit: u64::from(self.limit), what: "open descriptors" });
        }
        self.open = open;
        for descriptor in descriptors.values() {
            if let Some(open_file) = self.open_files.get_mut(&descriptor.open_file) {
                open_file.descriptors += 1;
            }
        }
        let copy = self.fresh();
        self.tables.insert(copy, Table { descriptors, processes: 1 });
        Ok(copy)
    }

    fn release(&mut self, descriptor: Descriptor) {
        let Some(open_file) = self.open_files.get_mut(&descriptor.open_file) else { return };
        open_file.descriptors -= 1;
        self.open -= 1;
        if open_file.descriptors == 0 {
            self.open_files.remove(&descriptor.open_file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_one_file() -> Descriptors {
        let mut descriptors = Descriptors::new(4, 3);
        descriptors.open(1, 3, b"/a", Some(0), false).unwrap();
        descriptors
    }

    #[test]
    fn duplicates_and_forks_share_the_offset() {
        let mut d = with_one_file();
        d.duplicate(1, 3, 4, false).unwrap();
        d.fork(1, 2, false, false).unwrap();
        d.seek(2, 4, 77);
        assert_eq!(d.position(1, 3), Some((0, 77)));
        d.close(1, 3);
        d.exit(1);
        assert_eq!(d.position(2, 3), Some((0, 77)));
        d.exit(2);
        assert!(d.open_files.is_empty() && d.tables.is_empty() && d.open == 0);
    }

    #[test]
    fn threads_share_the_table_until_one_of_them_runs_a_program() {
        let mut d = with_one_file();
        d.set_close_on_exec(1, 3, true);
        d.fork(1, 2, true, false).unwrap();
        d.open(2, 5, b"/b", Some(1), false).unwrap();
        assert!(d.is_open(1, 5));
        d.exec(2).unwrap();
        assert!(!d.is_open(2, 3) && d.is_open(2, 5) && d.is_open(1, 3));
    }

    #[test]
    fn processes_are_limited() {
        let mut d = with_one_file();
        d.appear(2).unwrap();
        d.appear(3).unwrap();
        let full = Err(LimitReached { limit: 3, what: "processes" });
        assert_eq!((d.appear(4), d.fork(1, 4, true, false)), (full, full));
        d.exit(3);
        assert_eq!(d.fork(1, 4, true, false), Ok(()));
    }

    #[test]
    fn descriptors_are_limited() {
        let mut d = with_one_file();
        d.duplicate(1, 3, 4, false).unwrap();
        d.fork(1, 2, false, false).unwrap();
        assert_eq!(d.fork(1, 3, false, false), Err(LimitReached { limit: 4, what: "open descriptors" }));
        assert!(d.duplicate(1, 3, 5, false).is_err());
    }
}
