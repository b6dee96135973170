//! Where the kernel gives no ring (seccomp(2), as in most containers), all is as elsewhere, and one line says so.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::process::Command;

use common::{PART, Shelf, bytes, open, options, read};
use foretell_buffers::Pool;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

const P: u64 = PART as u64;
const REFUSED: &str = "FORETELL_TEST_REFUSED";

/// io_uring_setup(2), on all architectures.
const IO_URING_SETUP: i64 = 425;

#[test]
fn without_a_ring_threads_read_and_write() {
    let own = std::env::current_exe().unwrap();
    let name = "reads_and_writes_where_rings_are_refused";
    let output = Command::new(own).args(["--exact", name, "--nocapture"]).env(REFUSED, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn reads_and_writes_where_rings_are_refused() {
    if std::env::var_os(REFUSED).is_some() {
        let eperm = SeccompAction::Errno(rustix::io::Errno::PERM.raw_os_error().cast_unsigned());
        let rules = BTreeMap::from([(IO_URING_SETUP, Vec::new())]);
        let here = std::env::consts::ARCH.try_into().unwrap();
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, eperm, here).unwrap();
        let program: BpfProgram = filter.try_into().unwrap();
        seccompiler::apply_filter_all_threads(&program).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let shelf = Shelf::new();
    shelf.put("a", 60 * P);
    let mut options = options(10);
    (options.disk_dir, options.disk_bytes) = (Some(folder.path().to_owned()), 100 * P);
    let pool = Pool::new(options).unwrap();
    let object = open(&pool, &shelf, "a");
    let local = folder.path().join("local");
    std::fs::write(&local, bytes("local", 0, 0..50 * P + 7)).unwrap();
    let local = pool.open(&format!("file://{}", local.display())).unwrap();
    for at in (0..3).flat_map(|_| (0..50).map(|at| at * 7 % 50 * P)) {
        assert_eq!(read(&object, at, P).unwrap(), bytes("a", 0, at..at + P));
        assert_eq!(read(&local, at + 3, P).unwrap(), bytes("local", 0, at + 3..at + 3 + P));
    }
    let counts = pool.statistics().unwrap();
    assert!(counts.disk_read_bytes > 0 && counts.disk_failures == 0, "{counts:?}");
    match pool.remark() {
        None => assert!(std::env::var_os(REFUSED).is_none()),
        Some(line) => {
            assert!(line.starts_with("io_uring: ") && line.lines().count() == 1, "{line}");
            assert!(line.ends_with("local files are read and written by threads"), "{line}");
        }
    }
}
