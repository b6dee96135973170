//! A store in memory that can be made to fail, and that notes what it is asked for.

#![allow(dead_code)] // Each test program uses a part of it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foretell_buffers::{Answer, Entry, Fault, Object, Options, Pool, Sink, Source, Stamp};

/// A page: small, so that few bytes have many parts.
pub(crate) const PART: u32 = 4096;

/// What goes wrong, each once in so many requests; 0 for never.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    pub(crate) fails: u64,
    pub(crate) short: u64,
    pub(crate) delayed: u64,
    /// No answer ever comes.
    pub(crate) silent: bool,
    /// To this one none comes.
    pub(crate) stuck: u64,
    /// Answers come once this is taken back.
    pub(crate) waits: bool,
    /// The first piece comes, and the rest once this is taken back.
    pub(crate) stalls: bool,
}

#[derive(Default)]
pub(crate) struct Shelf {
    /// Length and version by path.
    objects: Mutex<BTreeMap<String, (u64, u64)>>,
    faults: Mutex<Faults>,
    asked: Mutex<Vec<(String, Range<u64>)>>,
    chance: Mutex<u64>,
    /// Requests under way, and the most that there were.
    busy: Mutex<(usize, usize)>,
}

/// The byte of an object: another one in another version.
pub(crate) fn byte(path: &str, version: u64, at: u64) -> u8 {
    let name = path.bytes().fold(version, |sum, b| sum.wrapping_mul(31).wrapping_add(b.into()));
    (name.wrapping_add(at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

pub(crate) fn bytes(path: &str, version: u64, range: Range<u64>) -> Vec<u8> {
    range.map(|at| byte(path, version, at)).collect()
}

/// The version that a stamp of the shelf names.
pub(crate) fn version(stamp: &Stamp) -> u64 {
    stamp.etag.as_deref().unwrap().trim_matches('"').parse().unwrap()
}

impl Shelf {
    pub(crate) fn new() -> Arc<Shelf> {
        Arc::default()
    }

    pub(crate) fn put(&self, path: &str, length: u64) {
        let mut objects = self.objects.lock().unwrap();
        let version = objects.get(path).map_or(0, |(_, version)| version + 1);
        objects.insert(path.to_owned(), (length, version));
    }

    pub(crate) fn version(&self, path: &str) -> u64 {
        self.objects.lock().unwrap()[path].1
    }

    pub(crate) fn remove(&self, path: &str) {
        self.objects.lock().unwrap().remove(path);
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        *self.faults.lock().unwrap() = faults;
    }

    /// Ranges that were asked for.
    pub(crate) fn asked(&self) -> Vec<(String, Range<u64>)> {
        self.asked.lock().unwrap().clone()
    }

    /// The most requests at a time.
    pub(crate) fn busiest(&self) -> usize {
        self.busy.lock().unwrap().1
    }

    fn once_in(&self, times: u64) -> bool {
        let mut chance = self.chance.lock().unwrap();
        *chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        times > 0 && (*chance >> 33).is_multiple_of(times)
    }

    fn stamp(&self, path: &str) -> Result<Stamp, Fault> {
        let objects = self.objects.lock().unwrap();
        let (length, version) = objects.get(path).ok_or(Fault::NotFound)?;
        Ok(Stamp { length: *length, etag: Some(format!("\"{version}\"")), ..Stamp::default() })
    }
}

/// One request more, as long as it lives.
struct Busy<'a>(&'a Mutex<(usize, usize)>);

impl Busy<'_> {
    fn new(busy: &Mutex<(usize, usize)>) -> Busy<'_> {
        let mut now = busy.lock().unwrap();
        now.0 += 1;
        now.1 = now.1.max(now.0);
        Busy(busy)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.lock().unwrap().0 -= 1;
    }
}

impl Source for Shelf {
    fn head<'a>(&'a self, path: &'a str) -> Answer<'a, Stamp> {
        Box::pin(async move { self.stamp(path) })
    }

    fn get<'a>(
        &'a self,
        path: &'a str,
        stamp: &'a Stamp,
        range: Range<u64>,
        sink: &'a mut Sink<'_>,
    ) -> Answer<'a, ()> {
        Box::pin(async move {
            self.asked.lock().unwrap().push((path.to_owned(), range.clone()));
            let _busy = Busy::new(&self.busy);
            let faults = *self.faults.lock().unwrap();
            if faults.silent {
                std::future::pending::<()>().await;
            }
            while self.faults.lock().unwrap().waits {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            if self.once_in(faults.stuck) {
                std::future::pending::<()>().await;
            }
            if self.once_in(faults.delayed) {
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            let now = self.stamp(path)?;
            if now != *stamp {
                return Err(Fault::Changed);
            }
            // Of the version that was asked for, whatever is put meanwhile.
            let all = bytes(path, version(&now), range);
            let stops_at = match (self.once_in(faults.fails), self.once_in(faults.short)) {
                (false, false) => all.len(),
                _ => all.len() * 2 / 3,
            };
            let fails = stops_at < all.len() && self.once_in(2);
            // As it comes over a network: in pieces of any size.
            for piece in all[..stops_at].chunks(1500) {
                if !sink(piece) {
                    return Ok(());
                }
                tokio::task::yield_now().await;
                while self.faults.lock().unwrap().stalls {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            if fails { Err(Fault::Failed("connection reset".to_owned())) } else { Ok(()) }
        })
    }

    fn list<'a>(&'a self, path: &'a str, _: bool, most: usize) -> Answer<'a, Vec<Entry>> {
        Box::pin(async move {
            let paths: Vec<String> = self.objects.lock().unwrap().keys().cloned().collect();
            let here = paths.into_iter().filter(|p| p.starts_with(path));
            Ok(here.take(most + 1).map(|p| Entry { stamp: self.stamp(&p).ok(), path: p }).collect())
        })
    }
}

/// Options for so many parts.
pub(crate) fn options(parts: u32) -> Options {
    let mut options = Options::new(u64::from(parts) * u64::from(PART));
    options.part_bytes = PART;
    options.timeout = Duration::from_secs(20);
    options
}

pub(crate) fn open(pool: &Pool, shelf: &Arc<Shelf>, path: &str) -> Object {
    let source: Arc<dyn Source> = shelf.clone();
    pool.open_in("shelf", &source, path).unwrap()
}

pub(crate) fn read(object: &Object, offset: u64, length: u64) -> Result<Vec<u8>, foretell_buffers::Error> {
    let mut buffer = vec![0; length as usize];
    object.read_at(&mut buffer, offset)?;
    Ok(buffer)
}
