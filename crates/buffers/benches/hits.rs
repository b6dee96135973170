//! What a hit of 8 KiB takes: by pread(2) of a cached file, in the pool's own process, as a guest by the memory that both
//! map, and without a copy; `cargo bench -p foretell-buffers --bench hits`.

#![allow(clippy::unwrap_used, missing_docs)]

use std::os::unix::fs::FileExt;
use std::time::Duration;

use divan::{Bencher, black_box};
use foretell_buffers::{Guest, Object, Options, Pool, Remote};

/// Of what is read, few enough to stay in the processor's caches, as what is read again soon does.
const BYTES: u64 = 1 << 20;
const HIT: u64 = 8 << 10;

fn main() {
    divan::main();
}

fn file() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), vec![7; BYTES as usize]).unwrap();
    file
}

/// Offsets in an order that is not the file's.
fn offsets() -> impl FnMut() -> u64 {
    let mut at = 0;
    move || {
        at = (at + 37) % (BYTES / HIT);
        at * HIT
    }
}

fn pool(file: &tempfile::NamedTempFile) -> (Pool, Object) {
    let pool = Pool::new(Options::new(64 << 20)).unwrap();
    let object = pool.open(&format!("file://{}", file.path().display())).unwrap();
    object.read_at(&mut vec![0; BYTES as usize], 0).unwrap();
    (pool, object)
}

#[divan::bench(sample_size = 2000)]
fn pread(bencher: Bencher) {
    let (file, mut next, mut buffer) = (file(), offsets(), vec![0; HIT as usize]);
    bencher.bench_local(|| file.as_file().read_exact_at(black_box(&mut buffer), next()).unwrap());
}

#[divan::bench(sample_size = 2000)]
fn own(bencher: Bencher) {
    let (file, mut next, mut buffer) = (file(), offsets(), vec![0; HIT as usize]);
    let (_pool, object) = pool(&file);
    bencher.bench_local(|| object.read_at(black_box(&mut buffer), next()).unwrap());
}

#[divan::bench(sample_size = 2000)]
fn guest(bencher: Bencher) {
    let (file, mut next, mut buffer) = (file(), offsets(), vec![0; HIT as usize]);
    let (pool, object) = pool(&file);
    let guest = Guest::attach(&pool.share().unwrap(), Duration::from_secs(60), None).unwrap();
    let remote = Remote::new(object.url(), object.stamp().clone()).unwrap();
    guest.read_at(&remote, &mut buffer, 0).unwrap();
    bencher.bench_local(|| guest.read_at(&remote, black_box(&mut buffer), next()).unwrap());
}

#[divan::bench(sample_size = 2000)]
fn view(bencher: Bencher) {
    let (file, mut next) = (file(), offsets());
    let (_pool, object) = pool(&file);
    bencher.bench_local(|| black_box(object.view((next() / (16 << 10)) as u32).unwrap()[5]));
}
