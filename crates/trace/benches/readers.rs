//! References a second of readers, writer and generators: `cargo bench -p foretell-trace`.
//!
//! Every reader reads a file in a temporary directory that was just written, so what is measured is
//! decoding, not the disk.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use foretell_trace::{Blocks, DEFAULT_BLOCK_BYTES, ReadOptions, Workload, convert, info, open};

const REFERENCES: u64 = 2_000_000;
const LINES: u64 = 500_000;

fn main() {
    divan::main();
}

fn zipf() -> Workload {
    Workload::Zipf { references: REFERENCES, objects: 100_000, alpha: 1.0 }
}

/// The blocks that [`zipf`] references, of the first [`LINES`] references for text.
fn blocks() -> impl Iterator<Item = u64> {
    zipf().open(1).map(|r| r.unwrap().offset / 8192)
}

fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<tempfile::TempDir> = OnceLock::new();
    DIRECTORY.get_or_init(|| tempfile::tempdir().unwrap()).path()
}

fn text_file(name: &str, mut line: impl FnMut(&mut String, u64, u64)) -> PathBuf {
    let path = directory().join(name);
    if !path.exists() {
        let mut text = String::new();
        for (nth, block) in (0..LINES).zip(blocks()) {
            line(&mut text, nth, block);
        }
        std::fs::write(&path, text).unwrap();
    }
    path
}

fn read(path: &Path) -> u64 {
    let reader = open(path, &ReadOptions::default()).unwrap();
    reader.map(|r| black_box(r.unwrap()).bytes).sum()
}

fn read_lines(bencher: Bencher<'_, '_>, path: PathBuf) {
    bencher.counter(ItemsCount::new(LINES)).bench(|| read(&path));
}

#[divan::bench(sample_count = 5)]
fn stored(bencher: Bencher<'_, '_>) {
    let path = directory().join("zipf.parquet");
    convert(&mut zipf().open(1), &path).unwrap();
    bencher.counter(ItemsCount::new(REFERENCES)).bench(|| read(&path));
}

#[divan::bench(sample_count = 5)]
fn stored_as_blocks(bencher: Bencher<'_, '_>) {
    let path = directory().join("blocks.parquet");
    convert(&mut zipf().open(1), &path).unwrap();
    bencher.counter(ItemsCount::new(REFERENCES)).bench(|| {
        let reader = open(&path, &ReadOptions::default()).unwrap();
        Blocks::new(reader, DEFAULT_BLOCK_BYTES).map(|b| u64::from(black_box(b.unwrap()).block)).sum::<u64>()
    });
}

#[divan::bench(sample_count = 5)]
fn oracle_general(bencher: Bencher<'_, '_>) {
    let path = directory().join("zipf.oracleGeneral.bin");
    let mut bytes = Vec::new();
    for block in blocks() {
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(block.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
        bytes.extend([0; 12]);
    }
    std::fs::write(&path, bytes).unwrap();
    bencher.counter(ItemsCount::new(REFERENCES)).bench(|| read(&path));
}

#[divan::bench(sample_count = 5)]
fn lirs(bencher: Bencher<'_, '_>) {
    read_lines(bencher, text_file("zipf.lirs", |text, _, block| writeln!(text, "{block}").unwrap()));
}

#[divan::bench(sample_count = 5)]
fn libcachesim_csv(bencher: Bencher<'_, '_>) {
    let line = |text: &mut String, nth, block| writeln!(text, "{nth},{block},4096").unwrap();
    read_lines(bencher, text_file("zipf.csv", line));
}

#[divan::bench(sample_count = 5)]
fn msr(bencher: Bencher<'_, '_>) {
    let line = |text: &mut String, nth, block: u64| {
        writeln!(text, "{},usr,0,Read,{},8192,41286", 128_166_372_003_061_629 + nth * 100_000, block * 8192)
            .unwrap();
    };
    read_lines(bencher, text_file("zipf.msr", line));
}

#[divan::bench(sample_count = 5)]
fn spc(bencher: Bencher<'_, '_>) {
    let line = |text: &mut String, nth, block: u64| {
        writeln!(text, "0,{},8192,r,{nth}.026214", block * 16).unwrap();
    };
    read_lines(bencher, text_file("zipf.spc", line));
}

#[divan::bench(sample_count = 5)]
fn disksim(bencher: Bencher<'_, '_>) {
    let line =
        |text: &mut String, nth, block: u64| writeln!(text, "{nth}.500000 0 {} 16 1", block * 16).unwrap();
    read_lines(bencher, text_file("zipf.disksim", line));
}

#[divan::bench(sample_count = 5)]
fn blkparse(bencher: Bencher<'_, '_>) {
    let line = |text: &mut String, nth, block: u64| {
        writeln!(text, "  8,0    3  {nth:>7}  {nth:>5}.000000000   697  Q   R {} + 16 [cat]", block * 16)
            .unwrap();
    };
    read_lines(bencher, text_file("zipf.blkparse", line));
}

#[divan::bench(sample_count = 5)]
fn fio_iolog(bencher: Bencher<'_, '_>) {
    let line = |text: &mut String, nth, block: u64| {
        if nth == 0 {
            text.push_str("fio version 3 iolog\n");
        }
        writeln!(text, "{nth} /data/volume read {} 8192", block * 8192).unwrap();
    };
    read_lines(bencher, text_file("zipf.iolog", line));
}

#[divan::bench(sample_count = 5)]
fn strace(bencher: Bencher<'_, '_>) {
    let line = |text: &mut String, nth, block: u64| {
        if nth == 0 {
            text.push_str("7023  1795296018.879613 openat(AT_FDCWD, \"/data/volume\", O_RDONLY) = 3\n");
        }
        let data = r"\177ELF\2\1\1\3\0\0\0\0\0\0\0\0\3\0>\0\1\0\0\0\20t\2\0\0\0\0\0";
        let offset = block * 8192;
        writeln!(
            text,
            "7023  179529601{}.{:06} pread64(3, \"{data}\"..., 8192, {offset}) = 8192",
            9 + nth / 1_000_000,
            nth % 1_000_000
        )
        .unwrap();
    };
    read_lines(bencher, text_file("zipf.strace", line));
}

#[divan::bench(sample_count = 5)]
fn write_stored(bencher: Bencher<'_, '_>) {
    let path = directory().join("written.parquet");
    bencher.counter(ItemsCount::new(REFERENCES)).bench(|| convert(&mut zipf().open(1), &path).unwrap());
}

#[divan::bench(sample_count = 5)]
fn generate_zipf(bencher: Bencher<'_, '_>) {
    bencher.counter(ItemsCount::new(REFERENCES)).bench(|| blocks().sum::<u64>());
}

#[divan::bench(sample_count = 5)]
fn generate_synth(bencher: Bencher<'_, '_>) {
    bencher
        .counter(ItemsCount::new(100_000u64))
        .bench(|| Workload::Synth.open(1).map(|r| r.unwrap().offset).sum::<u64>());
}

#[divan::bench(sample_count = 5)]
fn summarise_zipf(bencher: Bencher<'_, '_>) {
    bencher
        .counter(ItemsCount::new(REFERENCES))
        .bench(|| info(&mut zipf().open(1), DEFAULT_BLOCK_BYTES).unwrap());
}
