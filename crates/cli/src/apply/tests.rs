//! Applying and undoing on a directory that looks like a device's queue.

use super::*;
use std::fs;

/// A queue directory of plain files, and a place for states.
struct Fake {
    directory: tempfile::TempDir,
    queue: Queue,
}

impl Fake {
    fn new() -> Fake {
        let directory = tempfile::tempdir().unwrap();
        let queue = Queue::at("fake", directory.path());
        let fake = Fake { directory, queue };
        fake.set("read_ahead_kb", "128");
        fake.set("nr_requests", "64");
        fake.set("scheduler", "[none] mq-deadline");
        fake
    }

    fn set(&self, file: &str, value: &str) {
        fs::write(self.directory.path().join(file), value).unwrap();
    }

    fn states(&self) -> std::path::PathBuf {
        self.directory.path().join("states")
    }

    fn apply(&self, file: &'static str, value: &str) -> Vec<String> {
        let wanted = Wanted { file, value: value.to_owned() };
        said(super::apply(&self.queue, &[wanted], &self.states()).unwrap())
    }

    fn undo(&self) -> Vec<String> {
        said(super::undo(&self.queue, &self.states()).unwrap())
    }

    fn state_files(&self) -> usize {
        fs::read_dir(self.states()).map_or(0, Iterator::count)
    }
}

fn said(outcomes: Vec<Outcome>) -> Vec<String> {
    outcomes.iter().map(ToString::to_string).collect()
}

#[test]
fn what_was_set_is_put_back_once() {
    let fake = Fake::new();
    assert_eq!(fake.apply("read_ahead_kb", "1024"), ["read_ahead_kb: 128 -> 1024"]);
    assert_eq!(fake.apply("read_ahead_kb", "1024"), ["read_ahead_kb: is 1024 already"]);
    // The oldest value is what is put back.
    assert_eq!(fake.apply("read_ahead_kb", "2048"), ["read_ahead_kb: 1024 -> 2048"]);
    assert_eq!(fake.undo(), ["read_ahead_kb: 2048 -> 128, as it was"]);
    assert_eq!(fake.queue.read("read_ahead_kb").unwrap(), "128");
    assert_eq!((fake.undo().len(), fake.state_files()), (0, 0));
}

#[test]
fn what_somebody_else_has_set_since_is_left_alone() {
    let fake = Fake::new();
    fake.apply("read_ahead_kb", "1024");
    fake.set("read_ahead_kb", "512\n");
    assert_eq!(fake.undo(), ["read_ahead_kb: left at 512: it was set to 1024 here and changed since"]);
    assert_eq!((fake.queue.read("read_ahead_kb").unwrap().as_str(), fake.state_files()), ("512", 0));
}

#[test]
fn a_change_that_was_interrupted_can_be_undone() {
    let fake = Fake::new();
    // The state was written, the setting not.
    let mut state = State::open(&fake.states(), &fake.queue).unwrap();
    state.remember("read_ahead_kb", "128", "1024");
    state.write().unwrap();
    drop(state);
    assert_eq!(fake.undo(), ["read_ahead_kb: is 128, as it was"]);
    assert_eq!(fake.state_files(), 0);
}

#[test]
fn all_is_set_or_nothing() {
    let fake = Fake::new();
    // A file that can be read and not written, even by root.
    let refusing = fake.directory.path().join("nr_requests");
    fs::remove_file(&refusing).unwrap();
    std::os::unix::fs::symlink("/proc/version", &refusing).unwrap();
    let wanted = [("read_ahead_kb", "1024"), ("nr_requests", "256")]
        .map(|(file, value)| Wanted { file, value: value.to_owned() });
    let error = super::apply(&fake.queue, &wanted, &fake.states()).unwrap_err().to_string();
    assert!(error.contains("nr_requests"), "{error}");
    assert_eq!((fake.queue.read("read_ahead_kb").unwrap().as_str(), fake.state_files()), ("128", 0));
}

#[test]
fn a_damaged_state_file_is_named() {
    let fake = Fake::new();
    fake.apply("read_ahead_kb", "1024");
    fs::write(fake.states().join("fake.json"), "{").unwrap();
    let error = super::undo(&fake.queue, &fake.states()).unwrap_err().to_string();
    assert!(error.contains("fake.json: is damaged"), "{error}");
    assert_eq!(fake.queue.read("read_ahead_kb").unwrap(), "1024");
}

#[test]
fn advice_that_can_be_set_is_these_three() {
    use foretell_analytic::advise::advise;
    use foretell_analytic::workload::{Pattern, Workload};
    use foretell_device::catalogue::find;
    let fake = Fake::new();
    let files = |device: &str, workload: &Workload| {
        let (_, advice) = advise(&find(device).unwrap(), workload).unwrap();
        wanted(&advice, &fake.queue).into_iter().map(|w| (w.file, w.value)).collect::<Vec<_>>()
    };
    let sequential = Workload { think_us: 100.0, ..Workload::sequential(1 << 30) };
    // Computation hides all reads.
    let computing = Workload { request_bytes: 1 << 20, think_us: 5000.0, ..sequential };
    assert_eq!(files("nvme", &computing).len(), 0);
    let [(file, _)] = &files("disk7200", &Workload { streams: 4, ..sequential })[..] else { unreachable!() };
    assert_eq!(*file, "read_ahead_kb");
    let random = Workload { pattern: Pattern::Random, ..Workload::sequential(1 << 30) };
    let names = |device: &str| files(device, &random).into_iter().map(|(file, _)| file).collect::<Vec<_>>();
    assert_eq!(names("disk7200"), ["nr_requests", "scheduler"]);
    // The drive wants 49 requests in flight, and 64 are possible.
    assert_eq!(names("nvme").len(), 0);
}
