//! A folder of this machine as a store, mounted elsewhere.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foretell_buffers::Pool;
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
        let (store, at) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fill(store.path());
        let mut options = foretell_buffers::Options::new(8 << 20);
        options.timeout = Duration::from_secs(20);
        let pool = Pool::new(options).unwrap();
        let said = Arc::<Mutex<Vec<String>>>::default();
        let told = said.clone();
        let options = Options {
            url: format!("file://{}", store.path().display()),
            believed,
            allow_other: false,
            complain: Arc::new(move |line| told.lock().unwrap().push(line.to_owned())),
        };
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

#[test]
fn mistakes_are_one_line() {
    let pool = Pool::new(foretell_buffers::Options::new(8 << 20)).unwrap();
    let said = |url: &str, directory: &Path| {
        let complain: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(|_| {});
        let options = Options { url: url.to_owned(), believed: DAY, allow_other: false, complain };
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
}
