//! Whether what is asked for has to be read at all: a program that goes through what is cached needs no help.

/// What was asked for, after which it is seen.
const LOOKED_AT: u32 = 32;
/// If less than one in so many had to be read, nothing more is asked for until the program waits.
const ABSENT: u32 = 8;

/// Rests while all is cached.
#[derive(Debug, Default)]
pub(crate) struct Resting {
    /// What was looked at since it was seen last, and how much of that had to be read.
    looked: u32,
    absent: u32,
    is_resting: bool,
}

impl Resting {
    /// So much of what was asked for has been looked at, and so much of that was not cached.
    pub(crate) fn looked_at(&mut self, looked: u32, absent: u32) {
        (self.looked, self.absent) = (self.looked + looked, self.absent + absent);
        if self.looked >= LOOKED_AT {
            self.is_resting = self.absent * ABSENT < self.looked;
            (self.looked, self.absent) = (0, 0);
        }
    }

    /// The program waits: it came first to what seemed to be cached. Returns whether that was a rest that ends.
    pub(crate) fn end(&mut self) -> bool {
        std::mem::replace(&mut self.is_resting, false)
    }

    /// Whether nothing is to be asked for.
    pub(crate) fn is_resting(&self) -> bool {
        self.is_resting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rests_while_nearly_all_is_cached() {
        let mut resting = Resting::default();
        resting.looked_at(LOOKED_AT - 1, 0);
        assert!(!resting.is_resting());
        resting.looked_at(1, 3);
        assert!(resting.is_resting(), "three of 32");
        assert!(resting.end() && !resting.is_resting() && !resting.end());
        resting.looked_at(LOOKED_AT, 4);
        assert!(!resting.is_resting(), "four");
    }
}
