//! Rows: processes and files, with what was counted since the start and since the snapshot before.
//!
//! There may be several hosts, each with its snapshot: the service, and runs with a host of their own. A row is known
//! again by its host's process and, a process, by its session and number, or, a file, by its path. What was not there before has
//! begun in between, unless the service left out rows: then nothing is known about the time between. Counts
//! that have become smaller belong to another process of the same number.

use std::collections::HashMap;

use foretelld::{Counters, ManagerStatus, ProcessStatus, Snapshot};

use crate::watch::Users;
use crate::watch::figures::printable;

/// What was counted in some span of time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Activity {
    pub(crate) counts: Counters,
    /// Time that was waited for reads.
    pub(crate) wait_s: f64,
    pub(crate) device_read_bytes: u64,
}

impl Activity {
    /// What was added since; `None` when something has become less.
    fn since(self, before: Activity) -> Option<Activity> {
        Some(Activity {
            counts: self.counts.since(before.counts)?,
            wait_s: (self.wait_s - before.wait_s).max(0.0),
            device_read_bytes: self.device_read_bytes.checked_sub(before.device_read_bytes)?,
        })
    }
}

impl Activity {
    fn add(&mut self, other: Activity) {
        self.counts += other.counts;
        self.wait_s += other.wait_s;
        self.device_read_bytes = self.device_read_bytes.saturating_add(other.device_read_bytes);
    }
}

/// By what a row is known again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    /// Host, session and number of a process.
    Process(u32, u32, u32),
    /// Host and path of a file, and which of those with this path: a file that was made anew has the same.
    File(u32, String, u32),
}

/// What only processes have.
#[derive(Debug, Clone)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    /// Its manager, if the service gave it.
    pub(crate) manager: Option<ManagerStatus>,
    /// Other processes have the same manager.
    pub(crate) shared: bool,
}

/// What only files have.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    pub(crate) cached_blocks: u64,
    pub(crate) cached_bytes: u64,
    pub(crate) size_bytes: u64,
    pub(crate) sessions: usize,
    /// Its counts are another user's as well, and not told.
    pub(crate) hidden: bool,
}

/// What a row is about.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    Process(Owner),
    File(Extent),
}

/// A process or a file.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) identity: Identity,
    pub(crate) subject: Subject,
    /// Fit to be shown.
    pub(crate) name: String,
    pub(crate) user: String,
    pub(crate) total: Activity,
    /// Since the snapshot before; `None` when that is not known.
    pub(crate) recent: Option<Activity>,
}

/// All that is shown of the snapshots.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scene {
    /// Of each host; the first is the service if there is one.
    pub(crate) hosts: Vec<Snapshot>,
    /// The first, with the sums of all in it instead of its own figures, and without rows.
    pub(crate) now: Snapshot,
    /// Time since the snapshots before by the first host's own clock; `None` when there are none.
    pub(crate) seconds: Option<f64>,
    pub(crate) total: Activity,
    pub(crate) recent: Option<Activity>,
    pub(crate) processes: Vec<Row>,
    pub(crate) files: Vec<Row>,
}

impl Scene {
    /// The scene of some snapshots, `before` those shown until now. `viewer` is the user who looks.
    pub(crate) fn new(before: &[Snapshot], hosts: Vec<Snapshot>, users: &Users, viewer: u32) -> Scene {
        let mut scene = Scene { now: sums(&hosts), ..Scene::default() };
        for host in &hosts {
            // One that was started anew begins to count anew.
            let same = |before: &&Snapshot| before.pid == host.pid && before.uptime_s < host.uptime_s;
            let before = before.iter().find(same);
            let total = sum(host);
            scene.seconds = scene.seconds.or_else(|| before.map(|before| host.uptime_s - before.uptime_s));
            scene.total.add(total);
            if let Some(recent) = before.and_then(|before| total.since(sum(before))) {
                scene.recent.get_or_insert_default().add(recent);
            }
            scene.processes.extend(processes(before, host, users));
            scene.files.extend(files(before, host, users, viewer));
        }
        Scene { hosts, ..scene }
    }
}

/// The first of some hosts with the sums of all of them.
fn sums(hosts: &[Snapshot]) -> Snapshot {
    let Some((first, others)) = hosts.split_first() else { return Snapshot::default() };
    let mut all = first.clone();
    let block_bytes = u64::from(all.cache.block_bytes.max(1));
    let mut used_bytes = u64::from(all.cache.used_blocks) * block_bytes;
    for other in others {
        let cache = &other.cache;
        used_bytes += u64::from(cache.used_blocks) * u64::from(cache.block_bytes);
        all.cache.budget_bytes = all.cache.budget_bytes.saturating_add(cache.budget_bytes);
        all.cache.placeholders += cache.placeholders;
        all.cache.managers.extend(cache.managers.iter().cloned());
        all.sessions_open += other.sessions_open;
        all.rows_omitted += other.rows_omitted;
    }
    all.cache.used_blocks = u32::try_from(used_bytes / block_bytes).unwrap_or(u32::MAX);
    all
}

fn sum(snapshot: &Snapshot) -> Activity {
    let cache = &snapshot.cache;
    Activity { counts: cache.counts, wait_s: cache.wait_s, device_read_bytes: cache.device_read_bytes }
}

fn recent(now: Activity, earlier: Option<Activity>, before: Option<&Snapshot>) -> Option<Activity> {
    let before = before?;
    match earlier {
        Some(earlier) => Some(now.since(earlier).unwrap_or(now)),
        None => (before.rows_omitted == 0).then_some(now),
    }
}

fn processes(before: Option<&Snapshot>, now: &Snapshot, users: &Users) -> Vec<Row> {
    let activity = |process: &ProcessStatus| Activity {
        counts: process.counts,
        wait_s: process.wait_s,
        device_read_bytes: process.device_read_bytes,
    };
    let earlier: HashMap<(u32, u32), Activity> = before
        .into_iter()
        .flat_map(|before| &before.cache.processes)
        .map(|process| ((process.session, process.pid), activity(process)))
        .collect();
    let managers: HashMap<(u32, u32), &ManagerStatus> =
        now.cache.managers.iter().map(|manager| ((manager.session, manager.index), manager)).collect();
    let mut sharing: HashMap<(u32, u32), u32> = HashMap::new();
    for process in &now.cache.processes {
        *sharing.entry((process.session, process.manager)).or_default() += 1;
    }
    let row = |process: &ProcessStatus| {
        let (key, manager) = ((process.session, process.pid), (process.session, process.manager));
        let total = activity(process);
        Row {
            identity: Identity::Process(now.pid, key.0, key.1),
            subject: Subject::Process(Owner {
                pid: process.pid,
                manager: managers.get(&manager).map(|manager| (*manager).clone()),
                shared: sharing.get(&manager).is_some_and(|processes| *processes > 1),
            }),
            name: printable(&process.name),
            user: users.name(process.user),
            total,
            recent: recent(total, earlier.get(&key).copied(), before),
        }
    };
    now.cache.processes.iter().map(row).collect()
}

fn files(before: Option<&Snapshot>, now: &Snapshot, users: &Users, viewer: u32) -> Vec<Row> {
    let earlier: HashMap<Identity, Activity> = before
        .into_iter()
        .flat_map(|before| identified(before).into_iter().zip(&before.cache.files))
        .map(|(identity, file)| (identity, Activity { counts: file.counts, ..Activity::default() }))
        .collect();
    let block_bytes = u64::from(now.cache.block_bytes.max(1));
    let row = |(identity, file): (Identity, &foretelld::FileStatus)| {
        let total = Activity { counts: file.counts, ..Activity::default() };
        let recent = recent(total, earlier.get(&identity).copied(), before);
        Row {
            identity,
            subject: Subject::File(Extent {
                cached_blocks: file.cached_bytes.div_ceil(block_bytes),
                cached_bytes: file.cached_bytes,
                size_bytes: file.size_bytes,
                sessions: file.sessions.len(),
                hidden: viewer != 0 && file.user != Some(viewer),
            }),
            name: printable(&file.path.to_string_lossy()),
            user: file.user.map_or_else(String::new, |user| users.name(user)),
            total,
            recent,
        }
    };
    identified(now).into_iter().zip(&now.cache.files).map(row).collect()
}

fn identified(snapshot: &Snapshot) -> Vec<Identity> {
    let mut seen: HashMap<String, u32> = HashMap::new();
    let identity = |file: &foretelld::FileStatus| {
        let path = file.path.to_string_lossy().into_owned();
        let nth = seen.entry(path.clone()).or_default();
        *nth += 1;
        Identity::File(snapshot.pid, path, *nth)
    };
    snapshot.cache.files.iter().map(identity).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use foretelld::Status;

    fn snapshot(uptime_s: f64, rows: &[(u32, u64)]) -> Snapshot {
        let process = |(pid, references): &(u32, u64)| ProcessStatus {
            pid: *pid,
            counts: Counters { references: *references, ..Counters::default() },
            ..ProcessStatus::default()
        };
        let cache = Status { processes: rows.iter().map(process).collect(), ..Status::default() };
        Snapshot { pid: 1, uptime_s, cache, ..Snapshot::default() }
    }

    /// References since the snapshot before, by process.
    fn recent_of(before: &Snapshot, now: &Snapshot) -> Vec<Option<u64>> {
        let scene = Scene::new(std::slice::from_ref(before), vec![now.clone()], &Users::default(), 0);
        scene.processes.iter().map(|row| row.recent.map(|recent| recent.counts.references)).collect()
    }

    #[test]
    fn what_is_new_has_begun_in_between() {
        let before = snapshot(1.0, &[(10, 100), (11, 50)]);
        let now = snapshot(3.0, &[(11, 80), (10, 100), (12, 7)]);
        assert_eq!(recent_of(&before, &now), [Some(30), Some(0), Some(7)]);
        let scene = Scene::new(&[before], vec![now], &Users::default(), 0);
        assert_eq!(scene.seconds, Some(2.0));
    }

    #[test]
    fn a_number_that_is_used_again_counts_from_nothing() {
        assert_eq!(recent_of(&snapshot(1.0, &[(10, 100)]), &snapshot(2.0, &[(10, 3)])), [Some(3)]);
    }

    #[test]
    fn rows_that_were_left_out_are_not_taken_for_new() {
        let before = Snapshot { rows_omitted: 1, ..snapshot(1.0, &[(10, 100)]) };
        assert_eq!(recent_of(&before, &snapshot(2.0, &[(10, 101), (11, 9999)])), [Some(1), None]);
    }

    #[test]
    fn a_service_started_anew_has_no_past() {
        let before = snapshot(50.0, &[(10, 100)]);
        assert_eq!(recent_of(&before, &snapshot(1.0, &[(10, 200)])), [None]);
        let another = Snapshot { pid: 2, ..snapshot(60.0, &[(10, 200)]) };
        assert_eq!(recent_of(&before, &another), [None]);
    }

    #[test]
    fn two_files_of_one_path_are_told_apart() {
        let file = |references| foretelld::FileStatus {
            path: "/a".into(),
            counts: Counters { references, ..Counters::default() },
            ..foretelld::FileStatus::default()
        };
        let at = |uptime_s, files: &[u64]| {
            let mut snapshot = snapshot(uptime_s, &[]);
            snapshot.cache.files = files.iter().map(|references| file(*references)).collect();
            snapshot
        };
        let scene = Scene::new(&[at(1.0, &[5, 10])], vec![at(2.0, &[6, 30])], &Users::default(), 0);
        let recent: Vec<u64> = scene.files.iter().map(|row| row.recent.unwrap().counts.references).collect();
        assert_eq!(recent, [1, 20]);
    }
}
