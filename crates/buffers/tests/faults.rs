//! All that can go wrong with a store at once: no wrong byte, no hang, and in the end no memory.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{Faults, PART, Shelf, bytes, options, version};
use foretell_buffers::{Error, Pool, Source};

const P: u64 = PART as u64;
const OBJECTS: u64 = 12;
const LENGTH: u64 = 9 * P + 5;

#[test]
fn errors_resets_slow_parts_and_changes_together_leave_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let shelf = Shelf::new();
    let names: Vec<String> = (0..OBJECTS).map(|at| format!("o{at}")).collect();
    names.iter().for_each(|name| shelf.put(name, LENGTH));
    // One in twenty fails, is cut off, or comes late; some never come.
    shelf.set_faults(Faults { fails: 20, short: 20, delayed: 20, stuck: 60, ..Faults::default() });
    let pool = {
        let mut options = options(30);
        options.timeout = Duration::from_millis(300);
        (options.disk_dir, options.disk_bytes) = (Some(folder.path().to_owned()), 20 * P);
        Pool::new(options).unwrap()
    };
    let ends = AtomicBool::new(false);
    let (right, failed) = thread::scope(|scope| {
        let (pool, shelf, names, ends) = (&pool, &shelf, &names, &ends);
        scope.spawn(move || {
            // Objects of the upper half change all the time.
            for at in (OBJECTS as usize / 2..OBJECTS as usize).cycle() {
                if ends.load(Ordering::Relaxed) {
                    break;
                }
                shelf.put(&names[at], LENGTH);
                thread::yield_now();
            }
        });
        let reader = |seed: u64| {
            move || {
                let (mut right, mut failed) = (0, 0);
                for step in 0..200 {
                    let at = ((seed * 7919 + step * step) % OBJECTS) as usize;
                    let source: Arc<dyn Source> = shelf.clone();
                    let object = match pool.open_in("shelf", &source, &names[at]) {
                        Ok(object) => object,
                        // On a busy machine the answer may be that late.
                        Err(Error::TimedOut { .. }) => continue,
                        Err(other) => panic!("{other}"),
                    };
                    let version = version(object.stamp());
                    let offset = step * 37 % (8 * P);
                    if step % 5 == 0 {
                        pool.disclose(&[(&object, 0, LENGTH)]).unwrap();
                    }
                    let mut buffer = vec![0; PART as usize];
                    match object.read_at(&mut buffer, offset) {
                        Ok(()) => {
                            let wanted = bytes(&names[at], version, offset..offset + P);
                            assert!(buffer == wanted, "of {} version {version}, from {offset}", names[at]);
                            right += 1;
                        }
                        Err(Error::Changed { .. }) => assert!(at >= OBJECTS as usize / 2),
                        Err(Error::Failed { .. } | Error::Short { .. } | Error::TimedOut { .. }) => {
                            failed += 1
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
                (right, failed)
            }
        };
        let readers: Vec<_> = (0..4).map(|seed| scope.spawn(reader(seed))).collect();
        let sums: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        // Before what a reader found is looked at: a failure must not leave the writer at work for ever.
        ends.store(true, Ordering::Relaxed);
        let sums = sums.into_iter().map(Result::unwrap);
        sums.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    });
    assert!(right > 200 && failed > 0, "{right} of 800 were right, {failed} failed");
    // What was still on its way ends with the time-out.
    let began = Instant::now();
    let counts = loop {
        let counts = pool.statistics().unwrap();
        if counts.memory_bytes == 0 && counts.requests_under_way == 0 || began.elapsed().as_secs() > 10 {
            break counts;
        }
        thread::yield_now();
    };
    assert_eq!((counts.objects, counts.memory_bytes, counts.leased_bytes), (0, 0, 0), "{counts:?}");
    assert_eq!(counts.requests_under_way, 0, "{counts:?}");
}
