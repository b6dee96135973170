//! From observations to a recording: who read which pages of which file, and what it waited for.
//!
//! ```text
//!  Observation ──► role of the process (Lineage) ──► file (named once, at first sight) ──► run ──► Writer
//! ```
//!
//! The kernel tells of one read in pieces, and of a sequence of small reads one by one (`reads.rs`). Both are joined into
//! *runs*: as long as a process goes on where it was, in the same file and in the same way, its run grows, up to
//! a MiB (`run.rs`); a piece of what the run holds already adds nothing but its wait. A run is written when its process
//! does something else, so a process's runs are in order.
//!
//! A file is named when it is first seen: by its number, or by the descriptors and mappings of the process where that
//! cannot be. What cannot be named, or lies on no disk, is not recorded. Executables and libraries are
//! told by how they are used: mapped, and executable or named like a library.
//!
//! Every process of a job maps its programs, libraries and tables of locales anew, in no order worth following, and a
//! job of a thousand short processes does little else. Of these files only the first reference of each page is
//! recorded (`programs.rs`), and [`Gather::take_settled`] says of which the kernel need not tell any more.
//!
//! The same is added up by process and by file (`tally.rs`), whether or not a recording is kept.

use foldhash::{HashMap, HashMapExt as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use foretell_policy::Counters;
use foretell_recording::{
    Access, Event, Fact, FileNumber, FileRecord, Lineage, PAGE_BYTES, Summary, Way, WriteError, Writer,
    limits,
};

use super::large::LargeFolios;
use super::left_out::LeftOut;
use super::memory::OwnMemory;
use super::programs::{Programs, Told};
use super::reads::Reads;
use super::run::Run;
use super::tally::Tally;
use super::visits::{Piece, Visit, Visits};
use super::waited::Waits;
use super::whereabouts::{Place, Whereabouts};
use crate::casting::ROOT_NAME;
use crate::descriptors::{Descriptors, Search};
use crate::file_at;
use crate::handles::Mounts;
use crate::kernel::maps_whole_folios;
use crate::observe::{FileKey, Observation, Observer};
use crate::own_mounts;
use crate::report::{FileReport, ProcessReport};
use crate::resolve;
use crate::sessions::{name_of, tree_without_us};

/// Files that could not be named and are not looked for again. One more makes all of them unknown.
const NAMELESS: usize = 1 << 16;

/// Files beyond those that a recording holds that are known at a time, where somebody guesses: for one more all of them are
/// forgotten, and named anew when they are used again.
const BEYOND: usize = 1 << 14;

/// Pages of a file that is taken for a table of a locale if it is only mapped: a MiB.
const SMALL_PAGES: u32 = 256;

/// What is known of a file.
#[derive(Debug, Clone, Copy)]
struct Seen {
    number: FileNumber,
    generation: u32,
    /// It would be an executable or a library if it were mapped.
    executable: bool,
    /// Its pages, if it is one of those that every process maps anew.
    pages: Option<u32>,
    /// It was read or written as well.
    read: bool,
}

/// Writes a recording from observations, and adds them up. A recording that is dropped without [`Gather::finish`] leaves
/// no file behind.
#[derive(Debug)]
pub struct Gather {
    /// `None` where none is wanted, and once writing has failed: the job goes on, the recording does not.
    writer: Option<Writer>,
    failed: Option<WriteError>,
    lineage: Lineage,
    files: HashMap<FileKey, Seen>,
    nameless: HashMap<FileKey, u32>,
    left_out: LeftOut,
    next_file: u32,
    /// The run of each process.
    runs: HashMap<u32, Run>,
    reads: Reads,
    large: LargeFolios,
    /// What each thread has waited since its last reference.
    waits: Waits,
    programs: Programs,
    descriptors: Descriptors,
    mounts: Mounts,
    memory: OwnMemory,
    tally: Tally,
    /// Where somebody asks for them.
    visits: Option<Visits>,
    whereabouts: Whereabouts,
    /// The process that becomes the job: what it does until then is ours.
    held: Option<u32>,
    /// All processes of the job have been told of: others are other jobs', which the same plane steers.
    is_complete: bool,
    start: Instant,
    own_pid: u32,
}

impl Gather {
    /// Begins a recording that will be called `path`, of the job whose first process is `root`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(path: &Path, root: u32) -> Result<Gather, WriteError> {
        Ok(Gather::new(Some(Writer::create(path)?), root))
    }

    /// Only adds up what the job does whose first process is `root`.
    #[must_use]
    pub fn without_recording(root: u32) -> Gather {
        Gather::new(None, root)
    }

    fn new(writer: Option<Writer>, root: u32) -> Gather {
        let mut gather = Gather {
            writer,
            failed: None,
            lineage: Lineage::default(),
            files: HashMap::new(),
            nameless: HashMap::new(),
            left_out: LeftOut::default(),
            next_file: 0,
            runs: HashMap::new(),
            reads: Reads::default(),
            large: LargeFolios::new(maps_whole_folios()),
            waits: Waits::default(),
            programs: Programs::default(),
            descriptors: Descriptors::new(),
            mounts: Mounts::default(),
            memory: OwnMemory::new(),
            tally: Tally::default(),
            visits: None,
            whereabouts: Whereabouts::default(),
            held: None,
            is_complete: false,
            start: Instant::now(),
            own_pid: std::process::id(),
        };
        gather.lineage.begin(root, ROOT_NAME);
        gather.tally.began(root, ROOT_NAME);
        gather.tell_roles();
        gather
    }

    /// The process `root` is still held: what it reads before it executes the job is not the job's. All other processes of
    /// the job are seen to begin.
    pub fn hold(&mut self, root: u32) {
        self.held = Some(root);
        self.is_complete = true;
    }

    /// The process `root`, which runs already, belongs to the job, and so does what it has started and lives. All other
    /// processes of the job are seen to begin, or told of here.
    pub fn attach_tree(&mut self, root: u32) {
        self.is_complete = true;
        for pid in tree_without_us(root, usize::MAX) {
            // One without a name has ended.
            let Ok(name) = name_of(pid) else { continue };
            self.lineage.executed(pid, &name);
            self.tally.began(pid, &name);
        }
        self.tell_roles();
    }

    /// The job's first instruction comes now: what is told as time counts from here.
    pub fn begin(&mut self) {
        self.start = Instant::now();
    }

    /// Takes an observation in.
    pub fn take(&mut self, observation: &Observation) {
        self.take_knowing(observation, &|_| None);
    }

    /// The same where the paths of some files are known already. Of these the kernel does not tell the generation, by which
    /// they could be found once they are closed.
    pub(crate) fn take_knowing(
        &mut self,
        observation: &Observation,
        known: &dyn Fn(FileKey) -> Option<PathBuf>,
    ) {
        if self.is_before_the_job(observation) {
            return;
        }
        match *observation {
            Observation::Read { tgid, tid, file, first_page, last_page, generation, .. } => {
                let waited = self.waits.has(tid);
                let Some(first_page) = self.reads.begin(tid, file, first_page, last_page, waited) else {
                    // A piece of the read that was told before: with it, only its wait is new.
                    let waited_ns = self.take_waits((tgid, tid), last_page.saturating_sub(first_page) + 1);
                    if let Some(run) = self.runs.get_mut(&tgid) {
                        run.access.waited_ns += waited_ns;
                    }
                    return;
                };
                self.reference((tgid, tid), (file, generation, known), first_page, last_page, Way::Read);
            }
            Observation::Fault { tgid, tid, file, page, generation, .. } => {
                let (first, last) = self.large.mapped(file, page, page);
                self.reference((tgid, tid), (file, generation, known), first, last, Way::Mapped);
            }
            Observation::MapPages { tgid, tid, file, first_page, last_page, generation, .. } => {
                let (first, last) = self.large.mapped(file, first_page, last_page);
                self.reference((tgid, tid), (file, generation, known), first, last, Way::Mapped);
            }
            Observation::Added { tgid, tid, file, first_page, order, appended, generation, .. } => {
                self.large.added(file, first_page, order);
                let pages = 1_u64 << order.min(16);
                self.reads.fetched(tid, file, first_page..=first_page + (pages - 1));
                if appended && tgid != self.own_pid {
                    let (named, last_page) = ((file, generation, known), first_page + pages - 1);
                    self.reference((tgid, tid), named, first_page, last_page, Way::Written);
                } else if tgid != self.own_pid
                    && let Some(seen) = self.seen(tgid, (file, generation, known))
                {
                    self.tally.fetched(tgid, seen.number.0, pages);
                }
            }
            Observation::Removed { .. } => {}
            Observation::Forked { parent, child } => {
                self.lineage.forked(parent, child);
                // The parent has its role now at the latest, and may end without another word.
                self.tell_roles();
                self.tally.forked(parent, child);
            }
            Observation::Exec { tgid, .. } if self.is_complete && self.lineage.is_stranger(tgid) => {}
            Observation::Exec { tgid, comm } => {
                self.end_run(tgid);
                let end = comm.iter().position(|&byte| byte == 0).unwrap_or(comm.len());
                let name = String::from_utf8_lossy(&comm[..end]);
                self.lineage.executed(tgid, &name);
                self.tally.began(tgid, &name);
                self.tell_roles();
            }
            Observation::Exited { tgid, device_read_bytes, wait_ns } => {
                self.end_run(tgid);
                if let Some(visits) = &mut self.visits {
                    visits.ended(tgid);
                }
                self.tally.exited(tgid, device_read_bytes, wait_ns);
                self.descriptors.forget_process(tgid);
                self.whereabouts.ended(tgid);
                if let Some(role) = self.lineage.exited(tgid) {
                    let at_ns = self.now_ns();
                    self.write(&Event::Fact(Fact::Ended { role, at_ns }));
                }
            }
            Observation::Waited { tgid, tid, wait_ns } => {
                self.waits.add(tid, wait_ns);
                self.whereabouts.waited(tgid, wait_ns);
            }
        }
    }

    /// Whether an observation is of the process that is held and has not become the job yet.
    fn is_before_the_job(&mut self, observation: &Observation) -> bool {
        let Some(held) = self.held else { return false };
        match *observation {
            Observation::Exec { tgid, .. } | Observation::Exited { tgid, .. } => {
                self.held = Some(held).filter(|&held| held != tgid);
                false
            }
            Observation::Read { tgid, .. }
            | Observation::Fault { tgid, .. }
            | Observation::MapPages { tgid, .. }
            | Observation::Added { tgid, .. }
            | Observation::Waited { tgid, .. } => tgid == held,
            Observation::Removed { .. } | Observation::Forked { .. } => false,
        }
    }

    /// From now on the files are told that are visited.
    pub(super) fn tell_visits(&mut self) {
        self.visits = Some(Visits::default());
    }

    /// Whether it does.
    pub(super) fn tells_visits(&self) -> bool {
        self.visits.is_some()
    }

    /// The visits since this was asked the last time.
    pub(super) fn take_visits(&mut self) -> Vec<Visit> {
        self.visits.as_mut().map(Visits::take).unwrap_or_default()
    }

    /// The pieces since this was asked the last time.
    pub(super) fn take_pieces(&mut self) -> Vec<Piece> {
        let Some(visits) = &mut self.visits else { return Vec::new() };
        for (&tgid, run) in &mut self.runs {
            if let Some((pages, waited_ns)) = run.take_untold() {
                visits.read_piece(tgid, run.access.file.0, pages, waited_ns);
            }
        }
        visits.take_pieces()
    }

    /// Looks where the job's processes are, if somebody wants to know and it is time. Returns the time until the next look.
    pub(super) fn look_where_they_are(&mut self) -> Option<std::time::Duration> {
        self.visits.as_ref()?;
        self.whereabouts.look();
        self.whereabouts.until_next()
    }

    /// What they have waited for what they read of files, nanoseconds.
    pub(super) fn file_wait_ns(&self) -> u64 {
        self.whereabouts.explained_ns()
    }

    /// All that has been told of until now is taken in.
    pub(super) fn looked(&mut self) {
        self.waits.looked(self.now_ns());
    }

    /// Threads that have waited at a time, in the mean; `None` where none has.
    pub(super) fn threads_waiting(&self) -> Option<f64> {
        self.waits.threads()
    }

    /// Where they were since this was asked the last time.
    pub(super) fn take_places(&mut self) -> Vec<Place> {
        self.whereabouts.take()
    }

    /// What was counted, with what those processes have read and waited that live.
    pub(super) fn counted(
        &mut self,
        observer: Option<&Observer>,
    ) -> (Counters, Vec<ProcessReport>, Vec<FileReport>) {
        self.end_runs();
        (self.tally.counts(), self.tally.processes(observer), self.tally.files())
    }

    /// The job's processes that live, in no order.
    pub(super) fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        self.lineage.processes()
    }

    /// Looks at the memory of the job's processes, if it is time.
    pub(crate) fn look_at_memory(&mut self) {
        self.memory.look(self.lineage.processes());
    }

    /// Memory that the job has had of its own at one time, bytes; `None` if it was too short to be looked at.
    #[must_use]
    pub fn memory_bytes(&self) -> Option<u64> {
        self.memory.most_bytes()
    }

    /// Files that were seen to be read or written.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.next_file.into()
    }

    /// Whether a process is one of the job's.
    pub(super) fn knows(&self, tgid: u32) -> bool {
        self.lineage.knows(tgid)
    }

    /// Files of which nothing new is to be expected, each once: programs and libraries that are mapped again and again.
    pub fn take_settled(&mut self) -> impl Iterator<Item = FileKey> {
        self.programs.take_settled()
    }

    /// Ends the recording: from now on it bears its name.
    ///
    /// # Errors
    /// When it could not be written, now or before.
    pub fn finish(mut self, totals: Totals) -> Result<(), WriteError> {
        self.end_runs();
        match (self.writer, self.failed) {
            (_, Some(error)) => Err(error),
            (None, None) => Ok(()),
            (Some(writer), None) => writer.finish(Summary {
                elapsed_ns: u64::try_from(totals.elapsed.as_nanos()).unwrap_or(u64::MAX),
                wait_ns: totals.wait_ns,
                device_read_bytes: totals.device_read_bytes,
                lost_events: totals.lost_events,
                exit_code: totals.exit_code,
                // The writer counts those.
                left_out: 0,
            }),
        }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// What a thread has waited before a reference to so many pages, nanoseconds.
    fn take_waits(&mut self, (tgid, tid): (u32, u32), pages: u64) -> u64 {
        let waited = self.waits.take(tid);
        self.whereabouts.explained(tgid, waited.for_pages_ns(pages));
        waited.all_ns
    }

    /// A process referenced pages of a file.
    fn reference(&mut self, (tgid, tid): (u32, u32), file: Named<'_>, first: u64, last: u64, way: Way) {
        let waited_ns = self.take_waits((tgid, tid), last.saturating_sub(first) + 1);
        let (Ok(first), Ok(last)) = (u32::try_from(first), u32::try_from(last)) else { return };
        if last == u32::MAX {
            return;
        }
        let Some(seen) = self.seen(tgid, file) else { return };
        match way {
            Way::Written => self.write(&Event::Fact(Fact::Written(seen.number))),
            Way::Mapped if seen.executable => self.write(&Event::Fact(Fact::Executed(seen.number))),
            Way::Mapped | Way::Read => {}
        }
        let number = seen.number;
        if let Some(visits) = self.visits.as_mut().filter(|_| way == Way::Mapped) {
            visits.waited(tid, number.0, waited_ns);
        }
        if let Some(pages) = seen.pages {
            if way != Way::Mapped {
                self.files.entry(file.0).and_modify(|seen| seen.read = true);
            } else if self.programs.map(file.0, pages, (first, last), seen.read) == Told::Before {
                return;
            }
        }
        if self.runs.get_mut(&tgid).is_some_and(|run| run.go_on((number, way), first, last, waited_ns)) {
            return;
        }
        self.end_run(tgid);
        let Some(role) = self.lineage.role(tgid) else { return };
        self.tell_roles();
        let is_told = way != Way::Written && !(way == Way::Mapped && seen.executable);
        let (first_page, pages, at_ns) = (first, last - first + 1, self.now_ns());
        let access = Access { role, file: number, first_page, pages, at_ns, waited_ns, way };
        self.runs.insert(tgid, Run::new(access, is_told));
        if let Some(visits) = self.visits.as_mut().filter(|_| is_told) {
            let has_fetched = self.reads.has_fetched(tid, file.0, first.into());
            visits.began((tgid, tid), number.0, (first, has_fetched), waited_ns);
        }
    }

    /// Ends all runs, in an order that does not depend on chance.
    fn end_runs(&mut self) {
        let mut running: Vec<(u64, u32)> =
            self.runs.iter().map(|(&tgid, run)| (run.access.at_ns, tgid)).collect();
        running.sort_unstable();
        running.into_iter().for_each(|(_, tgid)| self.end_run(tgid));
    }

    fn end_run(&mut self, tgid: u32) {
        if let Some(mut run) = self.runs.remove(&tgid) {
            let Access { file, first_page, pages, way, .. } = run.access;
            if way != Way::Written {
                self.tally.referenced(tgid, file.0, first_page, pages);
                if let Some(visits) = &mut self.visits {
                    visits.read(file.0, pages);
                    if let Some((pages, waited_ns)) = run.take_untold() {
                        visits.read_piece(tgid, file.0, pages, waited_ns);
                    }
                }
            }
            self.write(&Event::Access(run.access));
        }
    }

    /// What is known of a file, which is named now if it is new.
    fn seen(&mut self, tgid: u32, file: Named<'_>) -> Option<Seen> {
        let (key, generation, _) = file;
        if let Some(&seen) = self.files.get(&key)
            && (generation == 0 || seen.generation == 0 || seen.generation == generation)
        {
            return Some(seen);
        }
        if self.nameless.get(&key).is_some_and(|&of| of == generation) {
            return None;
        }
        // What is beyond the limit the writer leaves out: it is named for whoever guesses.
        let is_beyond = self.next_file as usize >= limits::FILES;
        let named = if is_beyond && self.visits.is_none() { None } else { self.name(tgid, file) };
        let Some((record, executable)) = named else {
            if self.nameless.len() >= NAMELESS {
                self.nameless.clear();
            }
            self.nameless.insert(key, generation);
            return None;
        };
        let number = FileNumber(self.next_file);
        self.next_file = self.next_file.saturating_add(1);
        if is_beyond && self.files.len() >= limits::FILES + BEYOND {
            self.files.retain(|_, seen| (seen.number.0 as usize) < limits::FILES);
        }
        let record_pages = u32::try_from(record.size.div_ceil(PAGE_BYTES)).ok();
        self.tally.add_file(record.path.clone());
        if let Some(visits) = &mut self.visits {
            visits.named(number.0, &record.path, record_pages.unwrap_or(u32::MAX));
        }
        self.write(&Event::File(number, record));
        let pages = record_pages.filter(|&pages| executable || pages <= SMALL_PAGES);
        let seen = Seen { number, generation, executable, pages, read: false };
        self.files.insert(key, seen);
        Some(seen)
    }

    fn name(&mut self, tgid: u32, (key, generation, known): Named<'_>) -> Option<(FileRecord, bool)> {
        if let Some(path) = known(key)
            && file_at::look(&path).is_ok_and(|looks| looks.is(key))
            && let Ok(metadata) = path.metadata()
        {
            return record(path, &metadata);
        }
        let lists = (&mut self.descriptors, &mut self.mounts);
        let found = resolve::find(tgid, key, generation, lists, Search::Certain);
        for (path, what) in self.descriptors.take_unsteered() {
            self.left_out.add(&path, what);
        }
        let found = found.ok()?;
        let path = found.path.clone();
        if !found.is_on_disk() {
            self.left_out.add(&path, "on no disk of this machine");
            return None;
        }
        if found.is_on_new_mount() {
            self.left_out.add(&path, own_mounts::NEW);
            return None;
        }
        let file = found.open().ok()?;
        if let Some(what) = file_at::obstacle(&file).ok()? {
            self.left_out.add(&path, what);
            return None;
        }
        record(path, &file.metadata().ok()?)
    }

    /// Of the files that are used and cannot be steered the first one, and why, in one line.
    #[must_use]
    pub fn left_out(&self) -> Option<String> {
        self.left_out.said()
    }

    /// Writes the roles that have been given out.
    fn tell_roles(&mut self) {
        let new: Vec<_> = self.lineage.take_new().collect();
        for (id, role) in new {
            self.write(&Event::Role(id, role));
        }
    }

    fn write(&mut self, event: &Event) {
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.write(event)
        {
            self.writer = None;
            self.failed = Some(error);
        }
    }
}

/// A file, its generation where that is told, and who knows paths of files.
type Named<'a> = (FileKey, u32, &'a dyn Fn(FileKey) -> Option<PathBuf>);

/// What a recording says of a file, and whether it is a program or a library.
fn record(path: PathBuf, metadata: &std::fs::Metadata) -> Option<(FileRecord, bool)> {
    if path.as_os_str().len() > limits::PATH_BYTES {
        return None;
    }
    let executable = metadata.permissions().mode() & 0o111 != 0 || is_library(&path);
    let mtime_ns = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
    let (dev, ino, size) = (metadata.dev(), metadata.ino(), metadata.len());
    Some((FileRecord { path, dev, ino, size, mtime_ns }, executable))
}

/// What only the end of a job tells.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    /// How long it took.
    pub elapsed: std::time::Duration,
    /// What all threads together slept for I/O.
    pub wait_ns: u64,
    /// Bytes that it asked of devices.
    pub device_read_bytes: u64,
    /// Observations that were lost.
    pub lost_events: u64,
    /// How it ended.
    pub exit_code: Option<i32>,
}

/// `libc.so.6`, `libz.so`.
fn is_library(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.ends_with(".so") || name.contains(".so.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretell_recording::Recording;
    use foretell_recording::RoleId;

    /// A file of our own under its canonical path, with its key.
    fn file(dir: &Path, name: &str) -> (PathBuf, FileKey, std::fs::File) {
        let path = std::fs::canonicalize(dir).unwrap().join(name);
        std::fs::write(&path, vec![1_u8; 1 << 20]).unwrap();
        let open = std::fs::File::open(&path).unwrap();
        (path, FileKey::of(&open).unwrap(), open)
    }

    fn read(file: FileKey, first_page: u64, last_page: u64) -> Observation {
        let tgid = std::process::id();
        Observation::Read { tgid, tid: 1, file, first_page, last_page, known: false, generation: 0 }
    }

    fn gathered(observations: &[Observation], out: &Path) -> Recording {
        let mut gather = Gather::create(out, std::process::id()).unwrap();
        observations.iter().for_each(|observation| gather.take(observation));
        gather.finish(Totals::default()).unwrap();
        Recording::read(out).unwrap()
    }

    #[test]
    fn pieces_of_reads_and_small_reads_in_sequence_are_one_run() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let (a_path, a, _a) = file(dir.path(), "a");
        let (_, b, _b) = file(dir.path(), "b");
        let out = dir.path().join("recording");
        let recording = gathered(
            &[
                read(a, 0, 31),
                read(a, 16, 31),
                read(a, 32, 32),
                read(a, 32, 33),
                read(b, 5, 5),
                read(a, 34, 34),
            ],
            &out,
        );
        let runs: Vec<(u32, u32, u32)> =
            recording.accesses.iter().map(|a| (a.file.0, a.first_page, a.pages)).collect();
        assert_eq!(runs, [(0, 0, 34), (1, 5, 1), (0, 34, 1)]);
        assert_eq!(recording.files[0].path, a_path);
        assert_eq!(recording.files[0].size, 1 << 20);
    }

    #[test]
    fn what_a_recording_has_no_room_for_is_told_to_whoever_guesses() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let (path, a, _a) = file(dir.path(), "a");
        let mut gather = Gather::without_recording(std::process::id());
        let seen = |number| Seen { number, generation: 0, executable: false, pages: None, read: false };
        let known = (0..(limits::FILES + BEYOND) as u32).map(|number| (number, seen(FileNumber(number))));
        gather.files = known.map(|(number, seen)| (FileKey { dev: 0, ino: number.into() }, seen)).collect();
        gather.next_file = gather.files.len() as u32;
        gather.tell_visits();
        gather.take(&read(a, 0, 0));
        let told: Vec<PathBuf> = gather.take_visits().into_iter().map(|visit| visit.path).collect();
        assert_eq!(told, [path]);
        assert_eq!(gather.files.len(), limits::FILES + 1, "those beyond were forgotten");
    }

    #[test]
    fn what_is_read_again_is_told_again() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let (_, a, _a) = file(dir.path(), "a");
        let out = dir.path().join("recording");
        let recording =
            gathered(&[read(a, 0, 31), read(a, 0, 31), read(a, 8, 9), read(a, 9, 9), read(a, 3, 3)], &out);
        let runs: Vec<(u32, u32)> = recording.accesses.iter().map(|a| (a.first_page, a.pages)).collect();
        assert_eq!(runs, [(0, 32), (0, 32), (8, 2), (3, 1)]);
    }

    #[test]
    fn what_a_held_process_does_before_it_becomes_the_job_is_not_the_jobs() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let (_, a, _a) = file(dir.path(), "a");
        let tgid = std::process::id();
        let mut gather = Gather::create(&dir.path().join("recording"), tgid).unwrap();
        gather.hold(tgid);
        let waited = Observation::Waited { tgid, tid: 1, wait_ns: 5 };
        let exec = Observation::Exec { tgid, comm: *b"cat\0............" };
        [waited, read(a, 0, 3), exec, read(a, 7, 7)].iter().for_each(|seen| gather.take(seen));
        assert_eq!(gather.counted(None).0.references, 1);
        gather.finish(Totals::default()).unwrap();
        let accesses = Recording::read(dir.path().join("recording")).unwrap().accesses;
        assert_eq!(accesses.len(), 1);
        assert_eq!((accesses[0].first_page, accesses[0].waited_ns), (7, 0));
    }

    #[test]
    fn without_a_recording_there_are_sums() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let (path, a, _a) = file(dir.path(), "a");
        let (tgid, tid) = (std::process::id(), 1);
        let mut gather = Gather::without_recording(tgid);
        // Another process: what our own fetches is not the job's.
        let child = Observation::Forked { parent: tgid, child: tgid + 1 };
        let added = Observation::Added {
            tgid: tgid + 1,
            tid,
            file: a,
            first_page: 0,
            order: 3,
            appended: false,
            known: false,
            generation: 0,
        };
        [read(a, 0, 15), child, added].iter().for_each(|seen| gather.take(seen));
        let (counts, processes, files) = gather.counted(None);
        assert_eq!((counts.references, counts.hits, counts.demand_fetches), (8, 4, 4));
        assert_eq!(files[0].path, path);
        let by_process: Vec<_> =
            processes.iter().map(|p| (p.counts.references, p.counts.demand_fetches)).collect();
        assert_eq!(by_process, [(8, 0), (0, 4)]);
        gather.finish(Totals::default()).unwrap();
    }

    #[test]
    fn what_a_thread_waited_belongs_to_its_next_reference() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let (_, a, _a) = file(dir.path(), "a");
        let tgid = std::process::id();
        let waited = |wait_ns| Observation::Waited { tgid, tid: 1, wait_ns };
        let recording = gathered(
            &[waited(5), read(a, 90, 90), waited(7), read(a, 70, 70)],
            &dir.path().join("recording"),
        );
        let waits: Vec<u64> = recording.accesses.iter().map(|access| access.waited_ns).collect();
        assert_eq!(waits, [5, 7]);
    }

    #[test]
    fn what_was_written_and_what_was_executed_is_told_once() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let (_, data, _d) = file(dir.path(), "data");
        let (_, library, _l) = file(dir.path(), "libx.so.1");
        let tgid = std::process::id();
        let map = |file, page: u64| Observation::MapPages {
            tgid,
            tid: 1,
            file,
            first_page: page,
            last_page: page + 15,
            known: false,
            generation: 0,
        };
        let write = Observation::Added {
            tgid: tgid + 1,
            tid: 1,
            file: data,
            first_page: 256,
            order: 2,
            appended: true,
            known: false,
            generation: 0,
        };
        let forked = Observation::Forked { parent: tgid, child: tgid + 1 };
        let out = dir.path().join("recording");
        let recording =
            gathered(&[map(library, 0), map(library, 32), read(data, 0, 0), forked, write, write], &out);
        let facts: Vec<Fact> =
            recording.facts.into_iter().filter(|fact| !matches!(fact, Fact::Ended { .. })).collect();
        assert_eq!(facts, [Fact::Executed(FileNumber(0)), Fact::Written(FileNumber(1))]);
    }

    #[test]
    fn a_process_that_only_forks_may_end_without_having_read() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let tgid = std::process::id();
        let (child, grandchild) = (u32::MAX - 2, u32::MAX - 1);
        let seen = [
            Observation::Forked { parent: tgid, child },
            Observation::Forked { parent: child, child: grandchild },
            Observation::Exited { tgid: child, device_read_bytes: 0, wait_ns: 0 },
        ];
        let recording = gathered(&seen, &dir.path().join("recording"));
        let parents: Vec<_> = recording.roles.iter().map(|role| role.parent).collect();
        assert_eq!(parents, [None, Some(RoleId(0))]);
        assert!(matches!(recording.facts[..], [Fact::Ended { role: RoleId(1), .. }]));
    }

    #[test]
    fn a_recording_that_is_given_up_leaves_nothing_behind() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let out = dir.path().join("recording");
        drop(Gather::create(&out, std::process::id()).unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
