//! Where the knowledge of jobs lies.
//!
//! One directory a job, `STATE/jobs/NAME`, that only its user may enter: what a job reads is nobody else's business,
//! and what is steered by it must not be another one's to write. In it lie `nights` (what the last runs were like, as
//! JSON), `recording` (what the last good one referenced) and `lock`, which one run holds at a time. Everything is
//! written under a temporary name and renamed, so that a run that is killed leaves the knowledge of the night before.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use foretell_output::OutputError;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::night::{NIGHTS, Night};

/// The version of `nights`.
const VERSION: u32 = 1;
/// Bytes of `nights` at most: 64 nights of 400 bytes, with room for fields to come.
const NIGHTS_BYTES: u64 = 1 << 18;
/// Bytes of a job's name at most.
const NAME_BYTES: usize = 100;
/// Jobs that are listed.
const JOBS: usize = 4096;

/// Why the knowledge of a job cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No name.
    #[error(
        "'{name}' is no name of a job; use up to {NAME_BYTES} letters, digits, '.', '_' and '-', not '.' first"
    )]
    Name {
        /// What was given.
        name: String,
    },
    /// Another run of the job is under way.
    #[error("job '{name}' is running already")]
    Busy {
        /// Its name.
        name: String,
    },
    /// Somebody else's, or open to others.
    #[error("{path} is not a directory that only we may write in; use another --state")]
    NotOurs {
        /// The directory.
        path: PathBuf,
    },
    /// There is no such job.
    #[error("no job '{name}' is known in {directory}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        directory: PathBuf,
    },
    /// Cannot be made, opened or read.
    #[error("{path}: {source}")]
    System {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Not what this version writes.
    #[error("{path} is damaged or of another version ({why}); remove it to begin anew")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

fn system(path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    |source| StoreError::System { path, source }
}

/// May a job be called so?
#[must_use]
pub fn is_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !name.is_empty() && name.len() <= NAME_BYTES && !name.starts_with('.') && name.bytes().all(good)
}

/// The knowledge of all jobs of a user.
#[derive(Debug, Clone)]
pub struct Store {
    jobs: PathBuf,
}

impl Store {
    /// The knowledge under a directory, which need not exist yet.
    #[must_use]
    pub fn new(state: &Path) -> Store {
        Store { jobs: state.join("jobs") }
    }

    /// Where it lies unless said otherwise: `$XDG_STATE_HOME/foretell` or `$HOME/.local/state/foretell` (the XDG Base
    /// Directory Specification). `None` without either, as under some schedulers.
    #[must_use]
    pub fn usual_place(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
        let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
        Some(state.join("foretell"))
    }

    /// The names of the jobs of which something is known, in order; 4,096 at most. A program that could not be executed leaves
    /// none.
    ///
    /// # Errors
    /// When the directory cannot be read. One that does not exist holds no job.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        let entries = match fs::read_dir(&self.jobs) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(system(&self.jobs))?,
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let is_there = |path: PathBuf| fs::exists(path).unwrap_or(true);
        let is_known = |name: &String| {
            self.at(name).is_ok_and(|job| is_there(job.recording()) || is_there(job.nights_file()))
        };
        let mut names: Vec<String> = names.filter(is_known).take(JOBS).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// A job for a run of it: its directory is made, and nobody else may run it until the [`Job`] is dropped.
    ///
    /// # Errors
    /// When the name is none, another run is under way, or the directory is not ours or cannot be made.
    pub fn begin(&self, name: &str) -> Result<Job, StoreError> {
        let mut job = self.at(name)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&job.directory)
            .map_err(system(&job.directory))?;
        job.check_owner()?;
        let path = job.directory.join("lock");
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let lock = lock.map_err(system(&path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => job.lock = Some(lock),
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(StoreError::Busy { name: name.to_owned() }),
            Err(error) => return Err(StoreError::System { path, source: error.into() }),
        }
        job.sweep();
        Ok(job)
    }

    /// A job to look at.
    ///
    /// # Errors
    /// When there is none of the name, or it is somebody else's.
    pub fn look(&self, name: &str) -> Result<Job, StoreError> {
        let job = self.at(name)?;
        if !job.directory.is_dir() {
            return Err(StoreError::Unknown { name: name.to_owned(), directory: self.jobs.clone() });
        }
        job.check_owner()?;
        Ok(job)
    }

    /// Forgets a job.
    ///
    /// # Errors
    /// When there is none of the name, it is running, or it cannot be removed.
    pub fn forget(&self, name: &str) -> Result<(), StoreError> {
        let job = self.look(name)?;
        let _lock = self.begin(name)?;
        fs::remove_dir_all(&job.directory).map_err(system(&job.directory))
    }

    fn at(&self, name: &str) -> Result<Job, StoreError> {
        if !is_name(name) {
            return Err(StoreError::Name { name: name.to_owned() });
        }
        Ok(Job { directory: self.jobs.join(name), lock: None })
    }
}

/// What is known of one job.
#[derive(Debug)]
pub struct Job {
    directory: PathBuf,
    /// Held while a run is under way; closing it gives it back, also when we are killed.
    lock: Option<File>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Nights {
    version: u32,
    nights: Vec<Night>,
}

impl Job {
    /// The recording of the last good night; it need not exist.
    #[must_use]
    pub fn recording(&self) -> PathBuf {
        self.directory.join("recording")
    }

    fn nights_file(&self) -> PathBuf {
        self.directory.join("nights")
    }

    /// What the last nights were like, the oldest first.
    ///
    /// # Errors
    /// When they cannot be read, or not understood.
    pub fn nights(&self) -> Result<Vec<Night>, StoreError> {
        let path = self.nights_file();
        let damaged = |why: String| StoreError::Damaged { path: path.clone(), why };
        match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Ok(metadata) if metadata.len() > NIGHTS_BYTES => return Err(damaged("too large".to_owned())),
            _ => {}
        }
        let text = fs::read(&path).map_err(system(&path))?;
        let mut read: Nights = serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        if read.version != VERSION {
            return Err(damaged(format!("version {}", read.version)));
        }
        read.nights.drain(..read.nights.len().saturating_sub(NIGHTS));
        Ok(read.nights)
    }

    /// Appends a night. What was there and could not be understood is replaced.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&self, night: Night) -> Result<(), StoreError> {
        let mut nights = self.nights().unwrap_or_default();
        nights.push(night);
        nights.drain(..nights.len().saturating_sub(NIGHTS));
        self.keep(nights)
    }

    /// Notes that the job runs without a process of ours that could say more of the night.
    ///
    /// # Errors
    /// When what is known cannot be read, or written.
    pub fn leave_alone(&self) -> Result<(), StoreError> {
        let mut nights = self.nights()?;
        if let Some(night) = nights.iter_mut().rfind(|night| night.short_bytes.is_some()) {
            night.left_alone = night.left_alone.saturating_add(1);
        }
        self.keep(nights)
    }

    fn keep(&self, nights: Vec<Night>) -> Result<(), StoreError> {
        let path = self.nights_file();
        let text = serde_json::to_vec_pretty(&Nights { version: VERSION, nights })
            .map_err(|error| StoreError::Damaged { path: path.clone(), why: error.to_string() })?;
        Ok(foretell_output::write(&path, &text)?)
    }

    /// Removes what runs that were killed have left: files without their name yet. Nobody writes any now.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        for entry in entries.flatten() {
            if foretell_output::is_temporary(&entry.file_name()) {
                // One that stays is found again the next night.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// A directory that another user may write in would let that user choose what we fetch, and where we write.
    fn check_owner(&self) -> Result<(), StoreError> {
        let ours = rustix::process::geteuid().as_raw();
        for directory in self.directory.ancestors().take(3) {
            // The link itself, not where it leads to.
            let found = fs::symlink_metadata(directory).map_err(system(directory))?;
            let is_safe = found.is_dir() && found.uid() == ours && found.mode() & 0o022 == 0;
            if !is_safe {
                return Err(StoreError::NotOurs { path: directory.to_owned() });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::night::How;

    fn night(began_s: u64) -> Night {
        Night {
            began_s,
            how: How::Watched,
            elapsed_s: 2.0,
            wait_s: Some(1.5),
            file_wait_s: None,
            saved_s: None,
            at_full_rate_s: None,
            threads_waiting: None,
            busy_s: None,
            read_bytes: 3,
            resident_bytes: 4,
            short_bytes: None,
            left_alone: 0,
            files: None,
            memory_bytes: None,
            exit_code: 0,
            budget_bytes: None,
            prefetched: None,
            predicted: None,
        }
    }

    #[test]
    fn nights_are_kept_up_to_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let job = Store::new(dir.path()).begin("backup").unwrap();
        assert_eq!(job.nights().unwrap(), []);
        for began_s in 0..NIGHTS as u64 + 3 {
            job.add(night(began_s)).unwrap();
        }
        let nights = job.nights().unwrap();
        assert_eq!(nights.len(), NIGHTS);
        assert_eq!((nights[0].began_s, nights[NIGHTS - 1].clone()), (3, night(NIGHTS as u64 + 2)));
        assert_eq!(Store::new(dir.path()).names().unwrap(), ["backup"]);
    }

    #[test]
    fn one_run_of_a_job_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        let first = store.begin("a").unwrap();
        assert_eq!(store.begin("a").unwrap_err().to_string(), "job 'a' is running already");
        store.begin("b").unwrap();
        store.look("a").unwrap();
        assert!(matches!(store.forget("a"), Err(StoreError::Busy { .. })));
        drop(first);
        store.forget("b").unwrap();
        assert!(matches!(store.look("b"), Err(StoreError::Unknown { .. })));
        store.begin("a").unwrap();
    }

    #[test]
    fn a_job_of_which_nothing_was_learnt_is_not_named() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        for name in ["a", "b", "c"] {
            store.begin(name).unwrap();
        }
        store.begin("b").unwrap().add(night(1)).unwrap();
        fs::write(store.begin("c").unwrap().recording(), "").unwrap();
        assert_eq!(store.names().unwrap(), ["b", "c"]);
        store.begin("a").unwrap();
    }

    #[test]
    fn what_is_damaged_is_said_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let job = Store::new(dir.path()).begin("a").unwrap();
        let path = dir.path().join("jobs/a/nights");
        let abandoned = dir.path().join("jobs/a/.foretell-0123456789abcdef");
        fs::write(&abandoned, "").unwrap();
        drop(job);
        let job = Store::new(dir.path()).begin("a").unwrap();
        assert!(!abandoned.exists());
        for text in ["", "{}", "{\"version\":9,\"nights\":[]}", "\u{0}\u{1}"] {
            fs::write(&path, text).unwrap();
            let said = job.nights().unwrap_err().to_string();
            assert!(said.contains("damaged or of another version") && !said.contains('\n'), "{said}");
        }
        fs::write(&path, vec![b' '; NIGHTS_BYTES as usize + 1]).unwrap();
        assert!(job.nights().unwrap_err().to_string().contains("too large"));
        job.add(night(7)).unwrap();
        assert_eq!(job.nights().unwrap(), [night(7)]);
    }

    #[test]
    fn where_others_may_write_nothing_is_kept() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path());
        store.begin("a").unwrap();
        let jobs = dir.path().join("jobs");
        for (path, mode) in [(dir.path().to_owned(), 0o777), (jobs.clone(), 0o770), (jobs.join("a"), 0o720)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(matches!(store.begin("a"), Err(StoreError::NotOurs { .. })), "{}", path.display());
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        }
        fs::rename(jobs.join("a"), dir.path().join("b")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("b"), jobs.join("a")).unwrap();
        let said = store.begin("a").unwrap_err().to_string();
        assert!(said.contains("is not a directory that only we may write in"), "{said}");
    }

    #[test]
    fn names_are_names() {
        for good in ["a", "nightly.sh-1f2e", &"x".repeat(NAME_BYTES)] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "..", ".hidden", "a/b", "a b", "a\n", &"x".repeat(NAME_BYTES + 1)] {
            assert!(!is_name(bad), "{bad}");
        }
        let dir = tempfile::tempdir().unwrap();
        let said = Store::new(dir.path()).look("gone").unwrap_err().to_string();
        assert!(said.starts_with("no job 'gone' is known in "), "{said}");
    }

    #[test]
    fn the_usual_place_is_the_state_directory_of_the_user() {
        let with = |pairs: &[(&str, &str)]| {
            let pairs: Vec<(String, String)> =
                pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            Store::usual_place(move |name| pairs.iter().find(|(k, _)| k == name).map(|(_, v)| v.into()))
        };
        assert_eq!(with(&[("XDG_STATE_HOME", "/s"), ("HOME", "/h")]), Some("/s/foretell".into()));
        assert_eq!(with(&[("XDG_STATE_HOME", "s"), ("HOME", "/h")]), Some("/h/.local/state/foretell".into()));
        assert_eq!(with(&[]), None);
    }
}
