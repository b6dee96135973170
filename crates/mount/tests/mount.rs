//! A folder of this machine as a store, mounted elsewhere.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foretell_buffers::{Pool, PoolPolicy};
use foretell_mount::{Mounted, Options};

struct Fixture {
    store: tempfile::TempDir,
    at: tempfile::TempDir,
    said: Arc<Mutex<Vec<String>>>,
    pool: Pool,
    mounted: Option<Mounted>,
}

impl Fixture {
    /// `None` where nothing can be mounted.
    fn new(test: &str, believed: Duration, fill: impl FnOnce(&Path)) -> Option<Fixture> {
        Fixture::with(test, fill, |options| options.believed = believed)
    }

    fn with(test: &str, fill: impl FnOnce(&Path), choose: impl FnOnce(&mut Options)) -> Option<Fixture> {
        let store = tempfile::tempdir().unwrap();
        fill(store.path());
        Fixture::of(test, store, choose)
    }

    fn of(test: &str, store: tempfile::TempDir, choose: impl FnOnce(&mut Options)) -> Option<Fixture> {
        let at = tempfile::tempdir().unwrap();
        let mut options = foretell_buffers::Options::new(8 << 20);
        options.timeout = Duration::from_secs(20);
        let pool = Pool::new(options).unwrap();
        let said = Arc::<Mutex<Vec<String>>>::default();
        let told = said.clone();
        let url = format!("file://{}", store.path().display());
        let mut options = plain(&url, Arc::new(move |line| told.lock().unwrap().push(line.to_owned())));
        choose(&mut options);
        match Mounted::new(&pool, at.path(), options) {
            Ok(mounted) => Some(Fixture { store, at, said, pool, mounted: Some(mounted) }),
            Err(error @ foretell_mount::Error::NoFuse { .. }) => {
                println!("skipped: {test}: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.at.path().join(name)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if let Some(mounted) = self.mounted.take() {
            mounted.unmount();
        }
    }
}

fn plain(url: &str, complain: Arc<dyn Fn(&str) + Send + Sync>) -> Options {
    Options {
        url: url.to_owned(),
        believed: DAY,
        allow_other: false,
        priority: Arc::new(|_| None),
        policies: Vec::new(),
        profile: None,
        idle: DAY,
        complain,
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251) as u8).collect()
}

const DAY: Duration = Duration::from_secs(86_400);

#[test]
fn objects_are_files_and_what_their_keys_share_are_directories() {
    let test = "objects_are_files_and_what_their_keys_share_are_directories";
    let fill = |store: &Path| {
        fs::create_dir_all(store.join("a b/c")).unwrap();
        fs::write(store.join("top"), content(3_000_001)).unwrap();
        fs::write(store.join("a b/50%?#"), "odd").unwrap();
        fs::write(store.join("a b/c/deep"), "").unwrap();
    };
    let Some(fixture) = Fixture::new(test, DAY, fill) else { return };
    // A file that nobody listed before.
    let mut file = fs::File::open(fixture.path("top")).unwrap();
    let (mut all, expected) = (Vec::new(), content(3_000_001));
    file.read_to_end(&mut all).unwrap();
    assert!(all == expected);
    let mut some = [0; 100];
    file.seek(SeekFrom::Start(2_999_950)).unwrap();
    assert_eq!(file.read(&mut some).unwrap(), 51);
    assert_eq!(some[..51], expected[2_999_950..]);

    assert_eq!(names(fixture.at.path()), ["a b", "top"]);
    assert_eq!(names(&fixture.path("a b")), ["50%?#", "c"]);
    assert_eq!(fs::read(fixture.path("a b/50%?#")).unwrap(), b"odd");
    assert_eq!(fs::read(fixture.path("a b/c/deep")).unwrap(), b"");
    let metadata = fs::metadata(fixture.path("top")).unwrap();
    assert_eq!((metadata.len(), metadata.mode() & 0o7777), (3_000_001, 0o444));
    assert_eq!(metadata.mtime(), fs::metadata(fixture.store.path().join("top")).unwrap().mtime());
    let missing = fs::read(fixture.path("a b/no")).unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    assert_eq!(
        fs::write(fixture.path("new"), "x").unwrap_err().kind(),
        std::io::ErrorKind::ReadOnlyFilesystem
    );
    // What was read is in the page cache: to read it again asks the pool for nothing.
    let before = fixture.pool.statistics().unwrap();
    assert!(fs::read(fixture.path("top")).unwrap() == expected);
    let after = fixture.pool.statistics().unwrap();
    assert_eq!(before.references, after.references);
    assert!(fixture.said.lock().unwrap().is_empty());
}

#[test]
fn several_programs_read_at_a_time() {
    let fill = |store: &Path| {
        for at in 0..40 {
            fs::write(store.join(at.to_string()), content(100_000 + at)).unwrap();
        }
    };
    let Some(fixture) = Fixture::new("several_programs_read_at_a_time", DAY, fill) else { return };
    std::thread::scope(|scope| {
        for seed in 0..6 {
            let fixture = &fixture;
            scope.spawn(move || {
                for step in 0..40 {
                    let at = (seed * 7 + step * 11) % 40;
                    assert!(fs::read(fixture.path(&at.to_string())).unwrap() == content(100_000 + at));
                }
            });
        }
    });
}

#[test]
fn a_file_that_has_changed_is_an_error_for_who_has_it_open_and_new_for_others() {
    let test = "a_file_that_has_changed_is_an_error_for_who_has_it_open_and_new_for_others";
    let fill = |store: &Path| fs::write(store.join("one"), content(2_000_000)).unwrap();
    let Some(fixture) = Fixture::new(test, DAY, fill) else { return };
    let mut old = fs::File::open(fixture.path("one")).unwrap();
    old.read_exact(&mut [0; 10]).unwrap();
    fs::write(fixture.store.path().join("new"), content(1_500_000)).unwrap();
    fs::rename(fixture.store.path().join("new"), fixture.store.path().join("one")).unwrap();
    old.seek(SeekFrom::Start(1_900_000)).unwrap();
    assert_eq!(old.read_exact(&mut [0; 10]).unwrap_err().raw_os_error(), Some(5));
    let said = fixture.said.lock().unwrap().clone();
    assert!(said.len() == 1 && said[0].ends_with("one: it was changed since it was opened; open it again"));
    drop(old);
    assert!(fs::read(fixture.path("one")).unwrap() == content(1_500_000));
}

#[test]
fn what_is_not_believed_any_more_is_asked_for_again() {
    let fill = |store: &Path| fs::write(store.join("one"), "old").unwrap();
    let test = "what_is_not_believed_any_more_is_asked_for_again";
    let Some(fixture) = Fixture::new(test, Duration::ZERO, fill) else { return };
    assert_eq!(fs::read(fixture.path("one")).unwrap(), b"old");
    fs::write(fixture.store.path().join("new"), "newer").unwrap();
    fs::rename(fixture.store.path().join("new"), fixture.store.path().join("one")).unwrap();
    fs::write(fixture.store.path().join("two"), "2").unwrap();
    assert_eq!(fs::read(fixture.path("one")).unwrap(), b"newer");
    assert_eq!(names(fixture.at.path()), ["one", "two"]);
    fs::remove_file(fixture.store.path().join("one")).unwrap();
    assert_eq!(fs::read(fixture.path("one")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

/// As a program does it, without the kernel's page cache and readahead between.
fn read_direct(path: &Path, block: u64) {
    let file = fs::File::options()
        .read(true)
        .custom_flags(rustix::fs::OFlags::DIRECT.bits().cast_signed())
        .open(path)
        .unwrap();
    file.read_exact_at(&mut [0; 4096], block * 4096).unwrap();
}

#[test]
fn what_a_rule_keeps_longest_stays_when_its_file_is_closed() {
    let test = "what_a_rule_keeps_longest_stays_when_its_file_is_closed";
    let fetched = |priority: Option<i32>| {
        let fill = |store: &Path| {
            fs::write(store.join("index"), content(1 << 20)).unwrap();
            fs::write(store.join("table"), content(32 << 20)).unwrap();
        };
        let rules = |options: &mut Options| {
            options.policies = vec![(1, PoolPolicy::Lru)];
            options.priority = Arc::new(move |path| if path == "index" { priority } else { None });
        };
        let fixture = Fixture::with(test, fill, rules)?;
        // Each 64th part of a MiB, in an order that nothing is read ahead for.
        let index = || (0..64).rev().for_each(|at| read_direct(&fixture.path("index"), at * 4));
        index();
        (0..2048).rev().for_each(|at| read_direct(&fixture.path("table"), at * 4));
        let before = fixture.pool.statistics().unwrap().demand_fetches;
        index();
        Some(fixture.pool.statistics().unwrap().demand_fetches - before)
    };
    let (Some(with), Some(without)) = (fetched(Some(1)), fetched(None)) else { return };
    assert_eq!((with, without), (0, 64));
}

#[test]
fn who_goes_through_a_directory_finds_the_next_files_there() {
    let test = "who_goes_through_a_directory_finds_the_next_files_there";
    let fill = |store: &Path| {
        for at in 0..300 {
            fs::create_dir_all(store.join("d/e")).unwrap();
            fs::write(store.join(format!("d/{at:03}")), content(60_000 + at)).unwrap();
        }
    };
    let Some(fixture) = Fixture::with(test, fill, |_| {}) else { return };
    for (at, name) in (0..).zip(names(&fixture.path("d")).iter().filter(|name| *name != "e")) {
        assert!(fs::read(fixture.path(&format!("d/{name}"))).unwrap() == content(60_000 + at));
    }
    let counts = fixture.pool.statistics().unwrap();
    // Four parts each, and those of the first files are waited for.
    assert_eq!(counts.fetched_bytes, (0..300).map(|at| 60_000 + at).sum::<u64>());
    assert!(counts.demand_fetches < 100, "{counts:?}");

    // In no order that a listing has, nothing is guessed: what is read is fetched, and no more.
    let Some(fixture) = Fixture::with(test, fill, |_| {}) else { return };
    assert_eq!(names(&fixture.path("d")).len(), 301);
    for at in (0..100).map(|at| at * 67 % 300) {
        assert!(fs::read(fixture.path(&format!("d/{at:03}"))).unwrap() == content(60_000 + at));
    }
    let counts = fixture.pool.statistics().unwrap();
    assert_eq!(counts.fetched_bytes, (0..100).map(|at| 60_000 + (at * 67 % 300)).sum::<u64>());
}

#[test]
fn a_job_that_comes_again_finds_what_it_read_the_last_time() {
    let test = "a_job_that_comes_again_finds_what_it_read_the_last_time";
    let kept = tempfile::tempdir().unwrap();
    let profile = kept.path().join("profile");
    let mut store = tempfile::tempdir().unwrap();
    for at in 0..200 {
        let directory = store.path().join(format!("{}", at % 7));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join(at.to_string()), content(70_000 + at)).unwrap();
    }
    fs::write(store.path().join("other"), content(3_000_000)).unwrap();
    // In an order of its own, some files twice and from their ends.
    let order: Vec<usize> = (0..200).map(|at| at * 67 % 200).chain((0..50).map(|at| at * 11 % 200)).collect();
    let mut counts = Vec::new();
    for night in 0..3 {
        let with = |options: &mut Options| options.profile = Some(profile.clone());
        let Some(mut fixture) = Fixture::of(test, store, with) else { return };
        for &at in &order {
            // One that is not there any more on the last night.
            let path = fixture.path(&format!("{}/{at}", at % 7));
            match fs::read(&path) {
                Ok(bytes) => assert!(bytes == content(70_000 + at)),
                Err(error) => assert!(night == 2 && at == 67, "{error}"),
            }
        }
        counts.push(fixture.pool.statistics().unwrap());
        fixture.mounted.take().unwrap().unmount();
        assert!(fixture.said.lock().unwrap().is_empty(), "{:?}", fixture.said.lock().unwrap());
        store = std::mem::replace(&mut fixture.store, tempfile::tempdir().unwrap());
        if night == 1 {
            fs::remove_file(store.path().join("4/67")).unwrap();
        }
    }
    let [first, second, third] = counts[..] else { panic!() };
    assert!(second.demand_fetches * 4 < first.demand_fetches, "{first:?} {second:?}");
    assert!(third.demand_fetches * 4 < first.demand_fetches, "{first:?} {third:?}");
    assert!(second.fetched_bytes <= first.fetched_bytes * 11 / 10, "{first:?} {second:?}");
}

#[test]
fn runs_of_several_jobs_are_told_apart_and_one_that_goes_on_otherwise_is_given_up() {
    let test = "runs_of_several_jobs_are_told_apart_and_one_that_goes_on_otherwise_is_given_up";
    let kept = tempfile::tempdir().unwrap();
    let profile = kept.path().join("profile");
    let fill = |store: &Path| {
        for name in ["a", "b", "c"] {
            fs::create_dir(store.join(name)).unwrap();
            for at in 0..300 {
                fs::write(store.join(name).join(at.to_string()), content(40_000)).unwrap();
            }
        }
    };
    let with = |options: &mut Options| {
        options.profile = Some(profile.clone());
        options.idle = Duration::from_millis(20);
    };
    let Some(fixture) = Fixture::with(test, fill, with) else { return };
    let job = |names: &[(&str, std::ops::Range<usize>)]| {
        // However slow the machine is, it is one run.
        let held = fs::File::open(fixture.path(&format!("{}/{}", names[0].0, names[0].1.start))).unwrap();
        let before = fs::read(&profile).ok();
        for (name, files) in names {
            for at in files.clone() {
                fs::read(fixture.path(&format!("{name}/{at}"))).unwrap();
            }
        }
        drop(held);
        // The run ends when nobody has had a file open for a while: it is in the profile then.
        while fs::read(&profile).ok() == before {
            std::thread::yield_now();
        }
    };
    job(&[("a", 0..100)]);
    job(&[("b", 0..100)]);
    // Begins as the first one, and goes on otherwise.
    job(&[("a", 0..1), ("c", 0..300)]);
    drop(fixture);
    let recording = foretell_recording::Recording::read(&profile).unwrap();
    assert_eq!(recording.roles.len(), 2, "the last one in place of the one that it began like");
    let first = recording.accesses.iter().find(|access| access.role.0 == 0).unwrap();
    assert!(recording.files[first.file.0 as usize].path.starts_with("b"));
}

#[test]
fn a_damaged_profile_is_made_anew_and_another_file_is_not_overwritten() {
    let test = "a_damaged_profile_is_made_anew_and_another_file_is_not_overwritten";
    let kept = tempfile::tempdir().unwrap();
    let profile = kept.path().join("profile");
    fs::write(&profile, b"foretell-recording\0\x01\0 and something else").unwrap();
    let fill = |store: &Path| (0..20).for_each(|at| fs::write(store.join(at.to_string()), "x").unwrap());
    let Some(mut fixture) = Fixture::with(test, fill, |options| options.profile = Some(profile.clone()))
    else {
        return;
    };
    (0..20).for_each(|at| _ = fs::read(fixture.path(&at.to_string())).unwrap());
    fixture.mounted.take().unwrap().unmount();
    let said = fixture.said.lock().unwrap().clone();
    assert!(said.len() == 1 && said[0].lines().count() == 1 && said[0].contains("profile"), "{said:?}");
    assert_eq!(foretell_recording::Recording::read(&profile).unwrap().accesses.len(), 20);

    fs::write(&profile, "somebody's notes").unwrap();
    let url = format!("file://{}", fixture.store.path().display());
    let mut options = plain(&url, Arc::new(|_| {}));
    options.profile = Some(profile.clone());
    let error = Mounted::new(&fixture.pool, fixture.at.path(), options).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("not a recording") && error.lines().count() == 1, "{error}");
    assert_eq!(fs::read(&profile).unwrap(), b"somebody's notes");
}

#[test]
fn mistakes_are_one_line() {
    let pool = Pool::new(foretell_buffers::Options::new(8 << 20)).unwrap();
    let said = |url: &str, directory: &Path| {
        let options = plain(url, Arc::new(|_| {}));
        let error = Mounted::new(&pool, directory, options).map(|_| ()).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1);
        error
    };
    let empty = tempfile::tempdir().unwrap();
    let url = format!("file://{}", empty.path().display());
    assert_eq!(said(&url, empty.path()), format!("{url}: no such object"));
    assert_eq!(said("ftp://a/b", empty.path()).split(';').next(), Some("ftp://a/b: unknown scheme"));
    assert!(said(&url, Path::new("/no/such")).starts_with("/no/such: No such file"));
    assert_eq!(said(&url, Path::new("/proc/version")), "/proc/version: not a directory");
    let full = tempfile::tempdir().unwrap();
    fs::write(full.path().join("x"), "x").unwrap();
    let at = full.path().display();
    let hidden = "not empty, and what is in it would be hidden; name an empty directory";
    assert_eq!(said(&url, full.path()), format!("{at}: {hidden}"));
    let object = format!("file://{at}/x");
    assert!(said(&object, empty.path()).contains("it is an object"), "{}", said(&object, empty.path()));
    assert!(said("s3://", empty.path()).contains("it names no bucket"));
}
