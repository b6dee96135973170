//! A local file through a pool, not cached: by the pool's ring, and by threads as `object_store` reads files; beside a program's
//! own reads. Seconds and processor time, in turn, the best of three:
//!
//! ```text
//! cargo bench -p foretell-buffers --bench local
//! ```

#![allow(missing_docs, clippy::unwrap_used)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foretell_buffers::{Object, Options, Pool, Source, Store};
use object_store::local::LocalFileSystem;

const FILE_BYTES: u64 = 256 << 20;
const STEP_BYTES: usize = 1 << 20;
const SMALL_BYTES: u64 = 16 << 10;
const SMALL_READS: u64 = 4000;
const ROUNDS: usize = 3;

/// Who reads: bytes from an offset.
type Read<'a> = dyn FnMut(&mut [u8], u64) + 'a;

fn main() {
    let this = std::env::current_exe().unwrap();
    // Beside what was built: on a disk, and not in memory.
    let folder = tempfile::tempdir_in(this.parent().unwrap()).unwrap();
    let path = folder.path().join("file");
    let block: Vec<u8> = (0..STEP_BYTES).map(|at| (at * 7 / 3) as u8).collect();
    let file = File::create(&path).unwrap();
    for at in 0..FILE_BYTES / STEP_BYTES as u64 {
        file.write_all_at(&block, at * STEP_BYTES as u64).unwrap();
    }
    file.sync_all().unwrap();
    println!("{:<44} {:>8} {:>12}", "", "seconds", "processor s");
    for (what, act) in
        [("in order, 256 MiB", in_order as fn(&mut Read<'_>)), ("4,000 of 16 KiB, disclosed", scattered)]
    {
        for who in ["pread", "a pool, threads", "a pool, io_uring"] {
            let mut runs: Vec<(Duration, Duration)> =
                (0..ROUNDS).map(|_| run(&path, &file, (what, who), act)).collect();
            runs.sort();
            let (seconds, used) = runs[0];
            println!(
                "{:<44} {:>8.3} {:>12.3}",
                format!("{what}: {who}"),
                seconds.as_secs_f64(),
                used.as_secs_f64()
            );
        }
    }
}

fn run(path: &Path, file: &File, (what, who): (&str, &str), act: fn(&mut Read<'_>)) -> (Duration, Duration) {
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let pool = Pool::new(Options::new(64 << 20)).unwrap();
    let object: Option<Object> = match who {
        "pread" => None,
        "a pool, threads" => {
            let source: Arc<dyn Source> = Arc::new(Store::new(Box::new(LocalFileSystem::new())));
            Some(pool.open_in("threads", &source, path.to_str().unwrap().trim_start_matches('/')).unwrap())
        }
        _ => Some(pool.open(&format!("file://{}", path.display())).unwrap()),
    };
    let (began, used) = (Instant::now(), processor());
    match &object {
        None => {
            let file = File::open(path).unwrap();
            act(&mut |buffer, at| file.read_exact_at(buffer, at).unwrap());
        }
        Some(object) => {
            if what.ends_with("disclosed") {
                let ranges: Vec<_> = places().map(|at| (object, at, SMALL_BYTES)).collect();
                pool.disclose(&ranges).unwrap();
            }
            act(&mut |buffer, at| object.read_at(buffer, at).unwrap());
        }
    }
    assert!(who != "a pool, io_uring" || pool.remark().is_none(), "{:?}", pool.remark());
    (began.elapsed(), processor() - used)
}

fn in_order(read: &mut Read<'_>) {
    let mut buffer = vec![0; STEP_BYTES];
    (0..FILE_BYTES / STEP_BYTES as u64).for_each(|at| read(&mut buffer, at * STEP_BYTES as u64));
}

/// Each once, in an order of no use to readahead.
fn places() -> impl Iterator<Item = u64> {
    let parts = FILE_BYTES / SMALL_BYTES;
    (0..SMALL_READS).map(move |at| at * 7919 % parts * SMALL_BYTES)
}

fn scattered(read: &mut Read<'_>) {
    let mut buffer = vec![0; SMALL_BYTES as usize];
    places().for_each(|at| read(&mut buffer, at));
}

/// Of this process, by clock(3)'s clock.
fn processor() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}
