//! References a second that a stream aligns, one core; `cargo bench -p foretell-policy --bench alignment`.

use divan::{Bencher, counter::ItemsCount};
use foretell_policy::alignment::{Limits, Reference, Stream};

/// Blocks listed, each once an epoch.
const BLOCKS: u32 = 1 << 18;

fn main() {
    divan::main();
}

/// Where the n-th reference goes: `files` files read in turn, a block each.
fn reference(n: u32, files: u32) -> Reference {
    let (file, index) = (n % files, n / files);
    Reference { block: n, file, index }
}

fn stream(files: u32) -> Stream {
    let mut stream = Stream::new(Limits::default());
    for n in (0..3).flat_map(|_| 0..BLOCKS) {
        stream.append(reference(n, files));
    }
    stream
}

#[divan::bench(args = [1, 2, 64], sample_count = 10)]
fn in_order(bencher: Bencher, files: u32) {
    bencher.counter(ItemsCount::new(3 * BLOCKS)).with_inputs(|| stream(files)).bench_local_refs(|stream| {
        for n in (0..3).flat_map(|_| 0..BLOCKS) {
            divan::black_box(stream.reference(reference(n, files)));
        }
    });
}

/// One in five is left out.
#[divan::bench(sample_count = 10)]
fn dropped(bencher: Bencher) {
    bencher.counter(ItemsCount::new(3 * BLOCKS / 5 * 4)).with_inputs(|| stream(1)).bench_local_refs(
        |stream| {
            for n in (0..3).flat_map(|_| 0..BLOCKS).filter(|n| n % 5 != 0) {
                divan::black_box(stream.reference(reference(n, 1)));
            }
        },
    );
}

/// A job of another kind: the stream sleeps.
#[divan::bench(sample_count = 10)]
fn nothing_fits(bencher: Bencher) {
    bencher.counter(ItemsCount::new(BLOCKS)).with_inputs(|| stream(1)).bench_local_refs(|stream| {
        let mut n = 1u32;
        for _ in 0..BLOCKS {
            n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            divan::black_box(stream.reference(reference(n >> 14, 1)));
        }
    });
}
