//! What the service tells those who watch it: `foretell status`, `foretell top` and the metrics.
//!
//! A [`Snapshot`] is the answer to a status request, as JSON, and what the metrics are made of. Who may see
//! what: root sees everything; another user sees the rows of its own sessions, and of the counts of a file
//! only those of files that nobody else's processes have read, so that it learns nothing of what others do.
//!
//! Nor does it learn what the kernel would not tell it. What is cached of a file the kernel tells to who owns it or
//! may write to it (mincore(2)): only to them are its counts told, and a session that has named another file is not
//! told how much of what it disclosed had to be fetched. What a process does that runs with other rights than the
//! user has (`/proc/PID/io` cannot be read then) is not told either.

use std::collections::BTreeSet;

use foretell_pagecache::{Counters, FileStatus, ManagerStatus, ProcessStatus, Status};
use serde::{Deserialize, Serialize};

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatusRequest {
    /// Only the rows of this user; all that may be seen when it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
}

/// The state of the service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct Snapshot {
    /// The service's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// It is a `foretell run` or `foretell learn` with a budget of its own, not the service.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// Since it was started.
    pub uptime_s: f64,
    /// Sessions at present, of all users.
    pub sessions_open: u32,
    /// Sessions that have been opened since the start.
    pub sessions_opened: u64,
    /// Connections and sessions that were refused or ended because of a limit or a malformed message.
    pub sessions_refused: u64,
    /// The sessions, in the order in which they began.
    pub sessions: Vec<SessionStatus>,
    /// Sessions that are not told of prefetches. Not told to anybody.
    #[serde(skip)]
    pub withheld: Vec<u32>,
    /// Rows left out below and above because the answer would be too long: those with the fewest references.
    pub rows_omitted: u64,
    /// How many of these are processes that were left out before it was written. Not told to anybody.
    #[serde(skip)]
    pub processes_omitted: u64,
    /// The page cache: budget, counts in all, `managers`, `processes`, `files`.
    #[serde(flatten)]
    pub cache: Status,
}

/// A session: a process that speaks for itself, or a run under rules.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
pub struct SessionStatus {
    /// Its number: that of its managers, processes and files.
    pub session: u32,
    /// The process that is connected.
    pub pid: u32,
    /// Its user.
    pub user: u32,
    /// A program under rules (`foretell run`), not one that speaks for itself.
    pub run: bool,
    /// Since it began.
    pub age_s: f64,
    /// Connections of the process.
    pub connections: u32,
    /// Files that it has named.
    pub files: u32,
    /// Entries of the ring that were taken, those refused included.
    pub entries_taken: u64,
    /// Entries that were refused.
    pub entries_refused: u64,
    /// Entries that the client found no room for, as it says.
    pub entries_dropped: u64,
    /// The counts of its processes in all, those that have ended included.
    #[serde(flatten)]
    pub counts: Counters,
}

impl SessionStatus {
    /// Adds another connection of the same process.
    pub(crate) fn join(&mut self, other: &SessionStatus) {
        self.connections += other.connections;
        self.files += other.files;
        self.entries_taken += other.entries_taken;
        self.entries_refused += other.entries_refused;
        self.entries_dropped = self.entries_dropped.saturating_add(other.entries_dropped);
        self.age_s = self.age_s.max(other.age_s);
    }
}

impl Snapshot {
    /// What `viewer` may see of it.
    #[must_use]
    pub fn visible_to(mut self, viewer: u32) -> Snapshot {
        if viewer == 0 {
            return self;
        }
        self.keep_user(viewer);
        for file in &mut self.cache.files {
            if file.user != Some(viewer) || file.sessions_that_may_look.is_empty() {
                // Others read it as well: what they do is none of this user's business. Nor is what is cached of it.
                (file.counts, file.cached_bytes, file.user) = (Counters::default(), 0, None);
            }
        }
        self.cache.processes.retain(|process| !process.foreign);
        for session in &mut self.sessions {
            if self.withheld.contains(&session.session) {
                session.counts = session.counts.without_prefetches();
            }
        }
        for process in &mut self.cache.processes {
            if self.withheld.contains(&process.session) {
                process.counts = process.counts.without_prefetches();
            }
        }
        for manager in &mut self.cache.managers {
            if self.withheld.contains(&manager.session) {
                manager.owned_blocks = 0;
            }
        }
        // The sums and what the machine does are made of everybody's.
        let Status { budget_bytes, block_bytes, managers, processes, files, .. } =
            std::mem::take(&mut self.cache);
        self.cache = Status { budget_bytes, block_bytes, managers, processes, files, ..Status::default() };
        for process in &self.cache.processes {
            self.cache.counts += process.counts;
        }
        (self.sessions_open, self.sessions_opened, self.sessions_refused) =
            (self.sessions.len() as u32, 0, 0);
        self
    }

    /// Only the rows of one user; the sums stay.
    #[must_use]
    pub fn of_user(mut self, user: u32) -> Snapshot {
        self.keep_user(user);
        self
    }

    fn keep_user(&mut self, user: u32) {
        self.sessions.retain(|session| session.user == user);
        // In the order in which they began.
        let own: BTreeSet<u32> = self.sessions.iter().map(|session| session.session).collect();
        self.cache.managers.retain(|manager| manager.user == user);
        self.cache.processes.retain(|process| process.user == user);
        for file in &mut self.cache.files {
            file.sessions.retain(|session| own.contains(session));
            file.sessions_that_may_look.retain(|session| own.contains(session));
        }
        self.cache.files.retain(|file| !file.sessions.is_empty());
    }

    /// As JSON of at most so many bytes: rows with the fewest references are left out until it fits.
    #[must_use]
    pub fn to_json(self, most_bytes: usize) -> String {
        let mut writing = Writing::new(self);
        while !writing.write_on() {}
        writing.fit(most_bytes)
    }
}

/// Rows that are written in a piece.
const ROWS_A_PIECE: usize = 64;

/// A snapshot that is being written, a piece at a time.
#[derive(Debug)]
pub(crate) struct Writing {
    /// All but the rows.
    head: Snapshot,
    sessions: std::vec::IntoIter<SessionStatus>,
    managers: std::vec::IntoIter<ManagerStatus>,
    processes: std::vec::IntoIter<ProcessStatus>,
    files: std::vec::IntoIter<FileStatus>,
    /// In the order in which they come in the text.
    tables: [Table; 4],
}

/// Rows that are written.
#[derive(Debug, Default)]
struct Table {
    text: String,
    rows: Vec<Row>,
}

/// A row: the number by which it is kept or not, and where its text is.
#[derive(Debug, Clone, Copy)]
struct Row {
    number: u64,
    start: usize,
    end: usize,
}

impl Table {
    fn write(&mut self, number: u64, row: &impl Serialize) {
        let start = self.text.len();
        self.text.push_str(&serde_json::to_string(row).unwrap_or_else(|_| "null".to_owned()));
        self.rows.push(Row { number, start, end: self.text.len() });
    }

    /// Bytes of the rows with the commas between them.
    fn bytes(&self) -> usize {
        let bytes: usize = self.rows.iter().map(|row| row.end - row.start).sum();
        bytes + self.rows.len().saturating_sub(1)
    }
}

impl Writing {
    /// What the tables are called, in the order in which they come.
    const NAMES: [&str; 4] = ["sessions", "managers", "processes", "files"];

    pub(crate) fn new(mut snapshot: Snapshot) -> Writing {
        let Status { managers, processes, files, .. } = &mut snapshot.cache;
        Writing {
            managers: std::mem::take(managers).into_iter(),
            processes: std::mem::take(processes).into_iter(),
            files: std::mem::take(files).into_iter(),
            sessions: std::mem::take(&mut snapshot.sessions).into_iter(),
            head: snapshot,
            tables: Default::default(),
        }
    }

    /// Writes some rows; says whether all are written.
    pub(crate) fn write_on(&mut self) -> bool {
        let [sessions, managers, processes, files] = &mut self.tables;
        for _ in 0..ROWS_A_PIECE {
            if let Some(row) = self.sessions.next() {
                sessions.write(row.counts.references, &row);
            } else if let Some(row) = self.managers.next() {
                managers.write(u64::from(row.owned_blocks), &row);
            } else if let Some(row) = self.processes.next() {
                processes.write(row.counts.references, &row);
            } else if let Some(row) = self.files.next() {
                files.write(row.counts.references, &row);
            } else {
                return true;
            }
        }
        false
    }

    /// The text, of at most so many bytes if that can be.
    pub(crate) fn fit(mut self, most_bytes: usize) -> String {
        loop {
            let head = serde_json::to_string(&self.head).unwrap_or_default();
            let bytes: usize = self.tables.iter().map(Table::bytes).sum();
            let rows: usize = self.tables.iter().map(|table| table.rows.len()).sum();
            if head.len() + bytes <= most_bytes || rows == 0 {
                return self.join(&head, bytes);
            }
            for table in &mut self.tables {
                let before = table.rows.len();
                keep_half(&mut table.rows, |row| row.number);
                self.head.rows_omitted += (before - table.rows.len()) as u64;
            }
        }
    }

    fn join(&self, head: &str, bytes: usize) -> String {
        let mut text = String::with_capacity(head.len() + bytes);
        let mut rest = head;
        for (name, table) in Self::NAMES.iter().zip(&self.tables) {
            let empty = format!("\"{name}\":[");
            let Some(at) = rest.find(&empty) else { continue };
            let (before, behind) = rest.split_at(at + empty.len());
            text.push_str(before);
            for (number, row) in table.rows.iter().enumerate() {
                if number > 0 {
                    text.push(',');
                }
                text.push_str(table.text.get(row.start..row.end).unwrap_or_default());
            }
            rest = behind;
        }
        text.push_str(rest);
        text
    }
}

/// Keeps the half with the higher numbers, in their order.
fn keep_half<T>(rows: &mut Vec<T>, number: impl Fn(&T) -> u64) {
    let mut numbers: Vec<u64> = rows.iter().map(&number).collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    let most = rows.len() / 2;
    let least = numbers.get(most).copied().unwrap_or(0);
    let above = numbers.iter().filter(|number| **number > least).count();
    let mut ties = most - above;
    rows.retain(|row| match number(row).cmp(&least) {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => {
            let keep = ties > 0;
            ties -= usize::from(keep);
            keep
        }
    });
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use foretell_pagecache::Work;

    use super::*;

    fn counts(references: u64) -> Counters {
        Counters { references, ..Counters::default() }
    }

    fn row(session: u32, user: u32, references: u64) -> SessionStatus {
        SessionStatus { session, user, counts: counts(references), ..SessionStatus::default() }
    }

    fn file(path: &str, sessions: &[u32], user: Option<u32>) -> FileStatus {
        let (path, sessions) = (PathBuf::from(path), sessions.to_vec());
        let sessions_that_may_look = sessions.clone();
        FileStatus {
            path,
            sessions,
            sessions_that_may_look,
            user,
            counts: counts(5),
            ..FileStatus::default()
        }
    }

    fn scene() -> Snapshot {
        let manager = |session, user| ManagerStatus { session, user, ..ManagerStatus::default() };
        let process = |session, user, references| ProcessStatus {
            session,
            user,
            counts: counts(references),
            ..ProcessStatus::default()
        };
        Snapshot {
            pid: 1,
            sessions_open: 2,
            sessions_opened: 9,
            sessions: vec![row(1, 7, 10), row(2, 8, 20)],
            cache: Status {
                budget_bytes: 1 << 20,
                used_blocks: 50,
                works: vec![Work { name: "lists".to_owned(), pieces: 3, ..Work::default() }],
                counts: counts(30),
                managers: vec![manager(1, 7), manager(2, 8)],
                processes: vec![process(1, 7, 10), process(2, 8, 20)],
                files: vec![
                    file("/mine", &[1], Some(7)),
                    file("/shared", &[1, 2], None),
                    file("/theirs", &[2], Some(8)),
                ],
                ..Status::default()
            },
            ..Snapshot::default()
        }
    }

    #[test]
    fn another_user_is_not_seen() {
        let seen = scene().visible_to(7);
        assert_eq!(seen.sessions, [row(1, 7, 10)]);
        assert_eq!((seen.cache.managers.len(), seen.cache.processes.len()), (1, 1));
        let shared = FileStatus { counts: Counters::default(), ..file("/shared", &[1], None) };
        assert_eq!(seen.cache.files, [file("/mine", &[1], Some(7)), shared]);
        assert_eq!((seen.cache.used_blocks, seen.cache.counts.references), (0, 10), "sums are its own");
        assert!(seen.cache.works.is_empty(), "what the loop does is others' doing");
        let text = seen.to_json(1 << 20);
        assert!(!text.contains("theirs"), "{text}");
        assert_eq!(scene().visible_to(0), scene());
    }

    #[test]
    fn nobody_learns_what_the_kernel_would_not_tell() {
        let mut scene = scene();
        let read =
            Counters { references: 10, hits: 4, prefetches: 6, prefetches_useful: 5, ..Counters::default() };
        // Its own process has read a file of somebody else's, and has started a set-user-ID program.
        scene.cache.files[0].sessions_that_may_look.clear();
        scene.cache.files[0].cached_bytes = 4096;
        scene.withheld = vec![1];
        scene.cache.managers[0].owned_blocks = 9;
        (scene.sessions[0].counts, scene.cache.processes[0].counts) = (read, read);
        let other =
            ProcessStatus { session: 1, user: 7, foreign: true, wait_s: 2.0, ..ProcessStatus::default() };
        scene.cache.processes.push(ProcessStatus { device_read_bytes: 5, counts: counts(3), ..other });
        let seen = scene.clone().visible_to(7);
        let told = Counters { references: 10, hits: 4, ..Counters::default() };
        assert_eq!((seen.sessions[0].counts, seen.cache.counts), (told, told));
        assert_eq!((seen.cache.processes.len(), seen.cache.processes[0].counts), (1, told));
        assert_eq!(seen.cache.managers[0].owned_blocks, 0);
        assert_eq!((seen.cache.files[0].cached_bytes, seen.cache.files[0].counts), (0, Counters::default()));
        assert_eq!(scene.clone().visible_to(0), scene, "root sees it all");
    }

    #[test]
    fn one_users_rows_can_be_asked_for() {
        let seen = scene().of_user(8);
        assert_eq!(seen.sessions, [row(2, 8, 20)]);
        assert_eq!(seen.cache.counts.references, 30);
    }

    #[test]
    fn an_answer_that_is_too_long_loses_the_rows_with_the_fewest_references() {
        let sessions: Vec<SessionStatus> = (0..1000).map(|n| row(n, 0, u64::from(n) * 7 % 1000)).collect();
        let all = Snapshot { sessions, ..Snapshot::default() };
        let text = all.to_json(50_000);
        assert!(text.len() <= 50_000);
        let read: Snapshot = serde_json::from_str(&text).unwrap();
        assert_eq!(read.sessions.len() as u64 + read.rows_omitted, 1000);
        let least = read.sessions.iter().map(|session| session.counts.references).min();
        assert_eq!(least, Some(1000 - read.sessions.len() as u64));
        assert!(read.sessions.is_sorted_by_key(|session| session.session));
    }

    #[test]
    fn written_in_pieces_it_is_the_same_text() {
        let mut scene = scene();
        let files = (0..300).map(|n| file(&format!("/\"files\":[{n}\n"), &[1, 2], Some(7)));
        scene.cache.files.extend(files);
        assert_eq!(scene.clone().to_json(usize::MAX), serde_json::to_string(&scene).unwrap());
        assert_eq!(Snapshot::default().to_json(0), serde_json::to_string(&Snapshot::default()).unwrap());
        let mut writing = Writing::new(scene);
        assert_eq!((1..).find(|_| writing.write_on()), Some(5), "64 rows at a time");
    }

    #[test]
    fn it_reads_back() {
        let text = scene().to_json(usize::MAX);
        let mut told = scene();
        told.cache.files.iter_mut().for_each(|file| file.sessions_that_may_look.clear());
        assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), told);
    }
}
