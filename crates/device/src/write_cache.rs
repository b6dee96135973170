//! What a disk has been given to write and has not written yet.
//!
//! A drive with *immediate reporting* calls a write done when its bytes are in the cache (Ruemmler and Wilkes
//! 1994, "An Introduction to Disk Drive Modeling", section on the data cache; DiskSim's "fast write"). Its
//! parameters are DiskSim's:
//!
//! - *size*: bytes that may be in the cache at a time ([`crate::DiskCache::write_fence_bytes`]). A write that
//!   is larger is done when it is on the platters.
//! - *segments*: how many writes that do not follow each other ([`crate::DiskCache::write_segments`]). A
//!   write that begins where the last one ends is put behind it and takes no segment of its own.
//! - *destaging*: at once when the heads are free, in the order of arrival. A read goes before what waits,
//!   but not before what is being written, and what waits for longest is written as soon as no read keeps the
//!   heads. A write that finds no room waits until enough of those before it are on the platters.
//!
//! A read of sectors that are all in one waiting write is served from the cache. Parts that were written
//! twice are written twice: the later write does not replace the earlier one.
//!
//! Limit: writes that follow each other and wait are one entry, so there are at most two entries a segment
//! that wait or are being written, and one more for each write that had to make room: never more than the
//! cache has sectors.

use std::collections::VecDeque;

/// A write in the cache: sectors `first..end`.
#[derive(Debug, Clone, Copy)]
struct Entry {
    first: u64,
    end: u64,
    /// When it is on the platters; `None` while the heads have not set out for it.
    done_ns: Option<u64>,
    /// It begins where the one before it ends.
    continues: bool,
}

/// Whether a write may come into the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// From this instant on.
    At(u64),
    /// When another one that waits has been sent to the platters.
    WhenWritten,
    /// It is too large, or there is no cache, and nothing waits any more.
    Never,
}

/// The writes in the cache, in the order of their arrival: first those that the heads have set out for.
#[derive(Debug, Clone)]
pub(crate) struct WriteCache {
    sectors: u64,
    segments: u32,
    entries: VecDeque<Entry>,
}

impl WriteCache {
    pub(crate) fn new(sectors: u64, segments: u32) -> WriteCache {
        WriteCache { sectors, segments, entries: VecDeque::new() }
    }

    /// Forgets what is on the platters at `now_ns`.
    pub(crate) fn retire(&mut self, now_ns: u64) {
        while self.entries.front().and_then(|e| e.done_ns).is_some_and(|done_ns| done_ns <= now_ns) {
            self.entries.pop_front();
            if let Some(first) = self.entries.front_mut() {
                first.continues = false;
            }
        }
    }

    /// May `first..end` come in at `now_ns`? If only what is being written already stands in its way, it is
    /// told when that is done.
    pub(crate) fn admit(&mut self, now_ns: u64, first: u64, end: u64) -> Admission {
        if end - first > self.sectors || self.segments == 0 {
            return if self.waits() { Admission::WhenWritten } else { Admission::Never };
        }
        let mut from_ns = now_ns;
        // Those that must be gone before it, the oldest first.
        for gone in 0..=self.entries.len() {
            let kept = self.entries.iter().skip(gone);
            let used: u64 = kept.clone().map(|e| e.end - e.first).sum();
            let segments = kept.clone().enumerate().filter(|(i, e)| *i == 0 || !e.continues).count();
            let behind = gone < self.entries.len() && self.entries.back().is_some_and(|e| e.end == first);
            let room = used + (end - first) <= self.sectors;
            if room && (segments < self.segments as usize || behind) {
                return Admission::At(from_ns);
            }
            match self.entries.get(gone).and_then(|e| e.done_ns) {
                Some(done_ns) => from_ns = from_ns.max(done_ns),
                None => break,
            }
        }
        Admission::WhenWritten
    }

    /// Takes in a write that was admitted; `done_ns` if the heads have set out for it.
    pub(crate) fn add(&mut self, first: u64, end: u64, done_ns: Option<u64>) {
        if let Some(last) = self.entries.back_mut()
            && last.end == first
            && last.done_ns.is_none()
            && done_ns.is_none()
        {
            last.end = end;
            return;
        }
        let continues = self.entries.back().is_some_and(|e| e.end == first);
        self.entries.push_back(Entry { first, end, done_ns, continues });
    }

    /// Does anything wait that the heads have not set out for?
    pub(crate) fn waits(&self) -> bool {
        self.entries.back().is_some_and(|e| e.done_ns.is_none())
    }

    /// What waits longest.
    pub(crate) fn next(&self) -> Option<(u64, u64)> {
        self.entries.iter().find(|e| e.done_ns.is_none()).map(|e| (e.first, e.end))
    }

    /// The heads have set out for what waits longest, and will be done at `done_ns`.
    pub(crate) fn begun(&mut self, done_ns: u64) {
        if let Some(entry) = self.entries.iter_mut().find(|e| e.done_ns.is_none()) {
            entry.done_ns = Some(done_ns);
        }
    }

    /// Are all of `first..end` in one write, of which nothing has been overwritten since?
    pub(crate) fn holds(&self, first: u64, end: u64) -> bool {
        // The newest one that has any of it decides.
        let newest = self.entries.iter().rev().find(|e| e.first < end && first < e.end);
        newest.is_some_and(|e| e.first <= first && end <= e.end)
    }

    /// Is some of `first..end` in a write that the heads have not set out for?
    pub(crate) fn overlaps_waiting(&self, first: u64, end: u64) -> bool {
        self.entries.iter().any(|e| e.done_ns.is_none() && e.first < end && first < e.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_holds_what_follows() {
        let mut cache = WriteCache::new(100, 1);
        assert_eq!(cache.admit(5, 0, 40), Admission::At(5));
        cache.add(0, 40, Some(90));
        // Another place needs another segment: when the first is written.
        assert_eq!(cache.admit(6, 200, 210), Admission::At(90));
        // What follows does not, as long as there is room.
        assert_eq!(cache.admit(6, 40, 100), Admission::At(6));
        assert_eq!(cache.admit(6, 40, 101), Admission::At(90));
        cache.add(40, 100, None);
        assert_eq!(cache.next(), Some((40, 100)));
        // Now there is no room before that is written, too.
        assert_eq!(cache.admit(7, 100, 150), Admission::WhenWritten);
        cache.begun(120);
        assert_eq!(cache.admit(7, 100, 150), Admission::At(120));
        cache.retire(90);
        assert_eq!(cache.admit(95, 100, 140), Admission::At(95));
        cache.retire(120);
        assert!(!cache.waits() && cache.entries.is_empty());
    }

    #[test]
    fn what_does_not_fit_is_never_admitted() {
        let mut cache = WriteCache::new(10, 4);
        assert_eq!(cache.admit(0, 0, 11), Admission::Never);
        cache.add(50, 60, None);
        // Writes stay in order.
        assert_eq!(cache.admit(0, 0, 11), Admission::WhenWritten);
        assert_eq!(WriteCache::new(0, 1).admit(0, 0, 1), Admission::Never);
        assert_eq!(WriteCache::new(10, 0).admit(0, 0, 1), Admission::Never);
    }

    #[test]
    fn reads_see_the_newest_write() {
        let mut cache = WriteCache::new(100, 4);
        cache.add(0, 40, Some(90));
        cache.add(20, 25, None);
        cache.add(25, 30, None);
        assert_eq!(cache.entries.len(), 2);
        assert!(cache.holds(0, 20) && cache.holds(20, 30) && cache.holds(30, 40));
        assert!(!cache.holds(10, 25) && !cache.holds(35, 45) && !cache.holds(60, 61));
        assert!(cache.overlaps_waiting(10, 25) && !cache.overlaps_waiting(0, 20));
    }
}
