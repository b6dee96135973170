//! What happens when the tables inside the kernel are full: filled here with numbers that no process has.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use super::*;

/// `max_entries` of the maps `accounts` and `waits`.
const ENTRIES: u32 = 1 << 14;
/// Beyond all process numbers.
const NOBODY: u32 = 1 << 22;

fn observer(test: &str) -> Option<Observer> {
    Observer::open(ObserverConfig::default()).map_err(|why| println!("skipped: {test}: {why}")).ok()
}

#[test]
fn a_process_without_an_account_is_tracked_all_the_same() {
    let Some(mut observer) = observer("a_process_without_an_account_is_tracked_all_the_same") else { return };
    // One entry is our own.
    (1..ENTRIES).for_each(|number| observer.accounts.insert(NOBODY + number, [0, 0], 0).unwrap());
    let script = "read go; cat /dev/null; exit 0";
    let mut shell = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
    observer.track(shell.id()).unwrap();
    assert!(observer.is_tracked(shell.id()));
    assert_eq!(observer.overflows().accounts, 1);
    assert_eq!(observer.device_read_bytes(shell.id()), None);
    shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
    shell.wait().unwrap();
    let mut forks = 0;
    observer.drain(usize::MAX, |observation| {
        forks += u64::from(matches!(observation, Observation::Forked { .. }));
    });
    assert_eq!(forks, 1);
    assert_eq!(observer.overflows().accounts, 2, "the child has none either");
}

#[test]
fn a_wait_too_many_is_counted_and_not_measured() {
    let Some(mut observer) = observer("a_wait_too_many_is_counted_and_not_measured") else { return };
    {
        let map = observer.object.take_map("waits").unwrap();
        let mut waits: HashMap<_, u32, u64> = HashMap::try_from(map).unwrap();
        (0..ENTRIES).for_each(|number| waits.insert(NOBODY + number, 1, 0).unwrap());
    }
    observer.track(std::process::id()).unwrap();
    // Pages that are not cached, one by one, until the thread had to wait for one.
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    file.write_all(&vec![1; 1 << 20]).unwrap();
    file.as_file().sync_all().unwrap();
    for _ in 0..1000 {
        rustix::fs::fadvise(file.as_file(), 0, None, rustix::fs::Advice::DontNeed).unwrap();
        file.reopen().unwrap().read_exact(&mut [0; 4096]).unwrap();
        if observer.overflows().waits > 0 {
            break;
        }
    }
    assert!(observer.overflows().waits > 0);
    assert_eq!(observer.wait_ns(std::process::id()), Some(0));
}

#[test]
fn of_little_memory_little_is_taken() {
    let wanted = ObserverConfig { watch_only: true, ..ObserverConfig::with_ring(2 << 20) };
    assert_eq!(wanted.within(u64::MAX), wanted);
    assert_eq!(wanted.within(1 << 30), wanted);
    let some = wanted.within(90 << 20);
    assert_eq!((some.ring_bytes, some.files, some.processes), (512 << 10, 16 << 10, 1 << 10));
    assert!(some.watch_only && some.wake_every < wanted.wake_every);
    let little = wanted.within(39 << 20);
    assert_eq!((little.ring_bytes, little.files, little.processes), (256 << 10, 8 << 10, 512));
    let none = wanted.within(0);
    assert_eq!((none.ring_bytes, none.files, none.processes), (64 << 10, 1 << 10, 256));
    let small = ObserverConfig { files: 9, ..ObserverConfig::with_ring(1 << 12) };
    assert_eq!(small.within(0), ObserverConfig { processes: 256, ..small }, "no more than was wanted");
}
