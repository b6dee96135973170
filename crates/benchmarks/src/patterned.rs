//! The program of the model's benchmarks: reads in a pattern, as the model's workloads are described.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use rustix::fs::{Advice, OFlags, fadvise};

use crate::random::Random;
use crate::reader::{Report, compute};

/// Alignment of direct reads: a page does everywhere.
const PAGE_BYTES: usize = 4096;
/// Most references that are fetched ahead: a thread each for direct reads.
const MOST_HORIZON: u64 = 256;

/// The order of the reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    Sequential,
    Strided,
    Random,
    Hinted,
}

/// What to read.
#[derive(Debug, Clone, Args)]
pub(crate) struct Patterned {
    /// A file for each stream.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[arg(long, value_enum)]
    order: Order,
    /// Bytes that each stream reads.
    #[arg(long)]
    bytes: u64,
    #[arg(long)]
    request: u64,
    /// Processor time used after each read, in microseconds.
    #[arg(long, default_value_t = 0)]
    think_us: u64,
    #[arg(long, default_value_t = 0)]
    stride: u64,
    /// References that are fetched ahead.
    #[arg(long, default_value_t = 0)]
    horizon: u64,
    /// Past the page cache.
    #[arg(long)]
    direct: bool,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Reads as told; each stream in a thread of its own, all at once.
pub(crate) fn run(told: &Patterned) -> Result<Report> {
    ensure!(told.request > 0 && told.bytes >= told.request, "--request: 1 to --bytes");
    ensure!(told.horizon <= MOST_HORIZON, "--horizon: at most {MOST_HORIZON}");
    let streams: Vec<Stream> = told
        .files
        .iter()
        .enumerate()
        .map(|(i, path)| Stream::open(told, path, told.seed + i as u64))
        .collect::<Result<_>>()?;
    let start = Barrier::new(streams.len() + 1);
    std::thread::scope(|scope| {
        let threads: Vec<_> = streams
            .iter()
            .map(|stream| {
                let start = &start;
                scope.spawn(move || {
                    let mut buffer = Buffer::new(told.request as usize);
                    start.wait();
                    stream.read(told, buffer.bytes())
                })
            })
            .collect();
        start.wait();
        let began = Instant::now();
        let mut reads = 0;
        for thread in threads {
            reads += thread.join().map_err(|_| anyhow!("a stream panicked"))??;
        }
        let elapsed_s = began.elapsed().as_secs_f64();
        Ok(Report { elapsed_s, reads, p50_us: 0.0, p99_us: 0.0, max_us: 0.0 })
    })
}

struct Stream {
    file: File,
    offsets: Vec<u64>,
}

impl Stream {
    fn open(told: &Patterned, path: &PathBuf, seed: u64) -> Result<Stream> {
        let flags = if told.direct { OFlags::DIRECT.bits().cast_signed() } else { 0 };
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = opened.with_context(|| format!("cannot open {}", path.display()))?;
        let size = file.metadata()?.len();
        let reads = told.bytes / told.request;
        let mut random = Random::new(seed);
        let offset = |i: u64| match told.order {
            Order::Sequential => i * told.request,
            Order::Strided => i * told.stride,
            Order::Random | Order::Hinted => random.below(size / told.request) * told.request,
        };
        let offsets: Vec<u64> = (0..reads).map(offset).collect();
        let end = offsets.iter().max().map_or(0, |last| last + told.request);
        ensure!(end <= size, "{} has {size} bytes and {end} are to be read", path.display());
        Ok(Stream { file, offsets })
    }

    fn read(&self, told: &Patterned, buffer: &mut [u8]) -> Result<u64> {
        match (told.order, told.direct) {
            (Order::Hinted, true) => return self.read_in_flight(told),
            (Order::Hinted, false) => {
                let ahead = told.horizon as usize;
                let fetch = |offset: u64| {
                    let length = std::num::NonZeroU64::new(told.request);
                    fadvise(&self.file, offset, length, Advice::WillNeed)
                };
                for &offset in self.offsets.iter().take(ahead) {
                    fetch(offset)?;
                }
                for (i, &offset) in self.offsets.iter().enumerate() {
                    self.file.read_exact_at(buffer, offset).context("cannot read")?;
                    if let Some(&next) = self.offsets.get(i + ahead) {
                        fetch(next)?;
                    }
                    compute(told.think_us);
                }
            }
            _ => {
                for &offset in &self.offsets {
                    self.file.read_exact_at(buffer, offset).context("cannot read")?;
                    compute(told.think_us);
                }
            }
        }
        Ok(self.offsets.len() as u64)
    }

    /// Direct reads with a horizon: a thread for each reference in flight, consumed in order.
    fn read_in_flight(&self, told: &Patterned) -> Result<u64> {
        let horizon = told.horizon.max(1) as usize;
        std::thread::scope(|scope| {
            let lanes: Vec<(SyncSender<()>, Receiver<Result<()>>)> = (0..horizon)
                .map(|lane| {
                    let (go, told_to_go) = sync_channel::<()>(1);
                    let (done, is_done) = sync_channel(1);
                    let offsets = self.offsets.iter().skip(lane).step_by(horizon);
                    scope.spawn(move || {
                        let mut buffer = Buffer::new(told.request as usize);
                        for &offset in offsets {
                            let read = self.file.read_exact_at(buffer.bytes(), offset);
                            // The consumer has ended with an error: so does this.
                            if done.send(read.context("cannot read")).is_err() || told_to_go.recv().is_err() {
                                return;
                            }
                        }
                    });
                    (go, is_done)
                })
                .collect();
            for i in 0..self.offsets.len() {
                let (go, is_done) = &lanes[i % horizon];
                is_done.recv().context("a reading thread has gone")??;
                // Its last answer needs no further word.
                let _ = go.send(());
                compute(told.think_us);
            }
            Ok(self.offsets.len() as u64)
        })
    }
}

/// Memory at a multiple of a page.
struct Buffer {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl Buffer {
    fn new(bytes: usize) -> Buffer {
        let memory = vec![1; bytes + PAGE_BYTES];
        let start = memory.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
        Buffer { memory, start, bytes }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}
