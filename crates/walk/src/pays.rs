//! Whether it pays to ask for directories: not on a disk with an arm, which reads nothing sooner for being asked for more, and
//! lets the program wait the longer.

/// Directories after which it is judged,
const JUDGED: u64 = 32;
/// and what of the waits without us may be left.
const LEFT: f64 = 0.9;
/// Directories for which nothing is asked if it does not pay; each time in a row four times as many, up to the longest.
const PAUSE: u64 = 512;
const LONGEST_PAUSE: u64 = 1 << 14;

/// Directories that came, and what was waited for them.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    directories: u64,
    waited_ns: u64,
}

impl Taken {
    fn mean_ns(self) -> f64 {
        self.waited_ns as f64 / self.directories.max(1) as f64
    }
}

/// What directories take with and without us.
#[derive(Debug)]
pub(crate) struct Pays {
    /// What came while nothing was asked for.
    alone: Taken,
    /// What came since it was judged, while something was.
    helped: Taken,
    pause: u64,
    paused_until: u64,
}

impl Default for Pays {
    fn default() -> Pays {
        Pays { alone: Taken::default(), helped: Taken::default(), pause: PAUSE, paused_until: 0 }
    }
}

impl Pays {
    /// Whether nothing is to be asked for, by the clock of directories.
    pub(crate) fn is_paused(&self, clock: u64) -> bool {
        clock < self.paused_until
    }

    /// A directory has come; `is_asked`, some are asked for.
    pub(crate) fn came(&mut self, is_asked: bool, clock: u64) {
        self.of(is_asked, clock).directories += 1;
    }

    /// The program has waited.
    pub(crate) fn waited(&mut self, waited_ns: u64, is_asked: bool, clock: u64) {
        let taken = self.of(is_asked, clock);
        taken.waited_ns = taken.waited_ns.saturating_add(waited_ns);
        if self.helped.directories < JUDGED {
            return;
        }
        if self.helped.mean_ns() > LEFT * self.alone.mean_ns() {
            self.paused_until = clock + self.pause;
            self.pause = (4 * self.pause).min(LONGEST_PAUSE);
            self.alone = Taken::default();
        } else {
            self.pause = PAUSE;
        }
        self.helped = Taken::default();
    }

    fn of(&mut self, is_asked: bool, clock: u64) -> &mut Taken {
        if is_asked && !self.is_paused(clock) { &mut self.helped } else { &mut self.alone }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_pays_if_less_is_waited_than_alone() {
        let mut pays = Pays::default();
        let mut clock = 0;
        let mut go = |pays: &mut Pays, directories: u64, waited_ns, is_asked| {
            for _ in 0..directories {
                clock += 1;
                pays.came(is_asked, clock);
                pays.waited(waited_ns, is_asked, clock);
            }
            pays.is_paused(clock)
        };
        go(&mut pays, 8, 100, false);
        assert!(!go(&mut pays, 10 * JUDGED, 85, true));
        assert!(go(&mut pays, JUDGED, 95, true));
        assert!(go(&mut pays, PAUSE - 1, 95, true) && !go(&mut pays, 1, 95, true));
        assert!(!go(&mut pays, JUDGED - 2, 95, true) && go(&mut pays, 1, 95, true));
        assert!(go(&mut pays, 4 * PAUSE - 1, 95, true) && !go(&mut pays, 1, 95, true), "four times as long");
    }
}
