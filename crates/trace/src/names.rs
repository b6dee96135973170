//! Names that a reader meets on its way, numbered in the order in which they appear.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use crate::limits::{LimitReached, Limits};
use crate::reference::{FileEntry, TraceMeta};

/// The description of a trace that is being read, and the way back from names to numbers.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) meta: TraceMeta,
    files: HashMap<Box<[u8]>, u32>,
    processes: HashMap<Box<[u8]>, u32>,
    name_bytes: u64,
    limits: Limits,
}

impl Names {
    pub(crate) fn new(meta: TraceMeta, limits: Limits) -> Names {
        Names { meta, files: HashMap::new(), processes: HashMap::new(), name_bytes: 0, limits }
    }

    /// The number of the file called `name`, a new one if it is new.
    pub(crate) fn file(&mut self, name: &[u8]) -> Result<u32, LimitReached> {
        if let Some(&number) = self.files.get(name) {
            return Ok(number);
        }
        let number = next_number(self.meta.files.len(), self.limits.files, "files")?;
        self.count(name)?;
        self.files.insert(name.into(), number);
        self.meta.files.push(FileEntry { name: String::from_utf8_lossy(name).into_owned(), bytes: None });
        Ok(number)
    }

    /// The number of the process called `name`, a new one if it is new.
    pub(crate) fn process(&mut self, name: &[u8]) -> Result<u32, LimitReached> {
        if let Some(&number) = self.processes.get(name) {
            return Ok(number);
        }
        let number = next_number(self.meta.processes.len(), self.limits.processes, "processes")?;
        self.count(name)?;
        self.processes.insert(name.into(), number);
        self.meta.processes.push(String::from_utf8_lossy(name).into_owned());
        Ok(number)
    }

    fn count(&mut self, name: &[u8]) -> Result<(), LimitReached> {
        self.name_bytes += name.len() as u64;
        if self.name_bytes > self.limits.name_bytes {
            return Err(LimitReached { limit: self.limits.name_bytes, what: "bytes of names" });
        }
        Ok(())
    }
}

fn next_number(len: usize, limit: u32, what: &'static str) -> Result<u32, LimitReached> {
    match u32::try_from(len) {
        Ok(number) if number < limit => Ok(number),
        _ => Err(LimitReached { limit: u64::from(limit), what }),
    }
}

/// Objects with 64-bit identifiers, numbered in the order in which they appear.
#[derive(Debug)]
pub(crate) struct Objects {
    numbers: HashMap<u64, u32, MixBits>,
    limit: u32,
}

impl Objects {
    pub(crate) fn new(limits: &Limits) -> Objects {
        Objects { numbers: HashMap::with_hasher(MixBits), limit: limits.objects }
    }

    pub(crate) fn number(&mut self, object: u64) -> Result<u32, LimitReached> {
        let next = self.numbers.len();
        match self.numbers.entry(object) {
            std::collections::hash_map::Entry::Occupied(number) => Ok(*number.get()),
            std::collections::hash_map::Entry::Vacant(free) => {
                Ok(*free.insert(next_number(next, self.limit, "objects")?))
            }
        }
    }
}

/// Hashes one 64-bit number by mixing its bits (the finaliser of SplitMix64): identifiers in traces are
/// often hashes already, and reading a trace must not be dominated by hashing them again.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MixBits;

impl BuildHasher for MixBits {
    type Hasher = MixedBits;

    fn build_hasher(&self) -> MixedBits {
        MixedBits(0)
    }
}

/// The hasher of [`MixBits`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct MixedBits(u64);

impl Hasher for MixedBits {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        let mut bits = self.0.rotate_left(5) ^ number;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        self.0 = bits ^ (bits >> 31);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbered_in_order_and_limited() {
        let limits = Limits { files: 2, ..Limits::default() };
        let mut names = Names::new(TraceMeta::default(), limits);
        assert_eq!((names.file(b"a"), names.file(b"b"), names.file(b"a")), (Ok(0), Ok(1), Ok(0)));
        assert_eq!(names.file(b"c"), Err(LimitReached { limit: 2, what: "files" }));
        let mut names = Names::new(TraceMeta::default(), Limits { name_bytes: 3, ..limits });
        assert_eq!(names.process(b"abc"), Ok(0));
        assert!(names.process(b"d").is_err());
    }

    #[test]
    fn objects_are_numbered_in_order_and_limited() {
        let mut objects = Objects::new(&Limits { objects: 2, ..Limits::default() });
        assert_eq!((objects.number(9), objects.number(7), objects.number(9)), (Ok(0), Ok(1), Ok(0)));
        assert_eq!(objects.number(8), Err(LimitReached { limit: 2, what: "objects" }));
    }
}
