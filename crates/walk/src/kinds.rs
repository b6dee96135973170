//! What is known of all sequences, or of all steps: how far they go, and whether it pays to read ahead of them.

/// Pages of a sequence that is believed: a MiB. What ends before is read quickest by the kernel.
pub(crate) const SEQUENCE_PAGES: u32 = 256;
/// Pages of a sequence that tell nothing of what is waited for others: the kernel begins with 16 KiB and doubles what it reads ahead.
const FIRST_PAGES: u32 = 64;
/// Lengths that are told apart, each twice the one before. The last one stands for all that are longer.
pub(crate) const LEVELS: usize = 16;
/// One stream in so many may end at a length, and others are read ahead of there.
const ENDS: u32 = 8;
/// Counts of lengths are halved at this number, so that what was long ago counts less.
const MOST: u32 = 1 << 10;
/// Pages of sequences until it is tried whether it pays to read ahead of them: 4 MiB; each time four times as many, up to 256 MiB.
const ENOUGH_USED: u64 = 1024;
const MOST_HELPED: u64 = 1 << 16;
/// Pages that tell what they wait by themselves: 2 MiB, after one in which the kernel comes to speed.
const ALONE_PAGES: u64 = 512;

/// What is known of all sequences, or of all steps.
#[derive(Debug, Default)]
pub(crate) struct Kind {
    /// How many came as far as twice a length that they had reached,
    went_on: [u32; LEVELS],
    /// and how many ended before.
    ended: [u32; LEVELS],
    /// Pages of sequences since something was asked for, or steps that had been asked for, to which the program came,
    pub(crate) used: u64,
    /// and what was waited for these all the same, nanoseconds.
    pub(crate) still_waited_ns: u64,
    /// Others that tell what it would have waited for these: pages of sequences before anything was asked for, but for the
    /// first ones, and only steps that waited, as what lies around the first ones may be cached.
    pub(crate) telling: u64,
    /// What was waited for them, nanoseconds.
    pub(crate) waited_ns: u64,
    /// Of sequences: whether it pays.
    trial: Trial,
    /// What had been saved before the last trial, nanoseconds.
    pub(crate) saved_before_ns: u64,
    /// What sequences waited all the same while they were read ahead of, or after that was found not to pay, nanoseconds.
    pub(crate) at_full_rate_ns: u64,
}

/// Whether it pays to read ahead of sequences is tried: what they wait with what is asked for, and then by themselves. An arm that
/// goes back and forth between the program's reads and ours takes twice as long, and a program may be quicker than we are.
#[derive(Debug)]
enum Trial {
    /// They are read ahead of for so many pages.
    Helped { pages: u64 },
    /// After so many they are not, and have come so far.
    Alone { after: u64, pages: u64 },
    /// It does not pay.
    Over,
}

impl Default for Trial {
    fn default() -> Trial {
        Trial::Helped { pages: ENOUGH_USED }
    }
}

impl Kind {
    pub(crate) fn count(&mut self, level: usize, has_ended: bool) {
        *(if has_ended { &mut self.ended[level] } else { &mut self.went_on[level] }) += 1;
        if self.went_on[level] + self.ended[level] >= MOST {
            self.went_on[level] /= 2;
            self.ended[level] /= 2;
        }
    }

    /// Whether one that is so long is likely to go on. One that ended is forgiven.
    pub(crate) fn is_likely(&self, level: usize) -> bool {
        (ENDS - 1) * self.ended[level].saturating_sub(1) <= self.went_on[level]
    }

    /// Whether sequences are read ahead of at present.
    pub(crate) fn is_asked_for(&self) -> bool {
        matches!(self.trial, Trial::Helped { .. })
    }

    /// A sequence of so many pages has come so many further: since something was asked for, or even to what was asked for.
    pub(crate) fn goes_on(
        &mut self,
        (is_helped, was_asked): (bool, bool),
        length: u32,
        pages: u64,
        waited_ns: u64,
    ) {
        if was_asked || matches!(self.trial, Trial::Over) {
            self.at_full_rate_ns = self.at_full_rate_ns.saturating_add(waited_ns);
        }
        match self.trial {
            Trial::Helped { pages: enough } if is_helped => {
                (self.used, self.still_waited_ns) = (self.used + pages, self.still_waited_ns + waited_ns);
                if self.used >= enough {
                    self.trial = Trial::Alone { after: enough, pages: 0 };
                    (self.telling, self.waited_ns) = (0, 0);
                }
            }
            Trial::Helped { .. } if length >= FIRST_PAGES => {
                (self.telling, self.waited_ns) = (self.telling + pages, self.waited_ns + waited_ns);
            }
            Trial::Alone { after, pages: passed } if !was_asked && length >= SEQUENCE_PAGES => {
                self.trial = Trial::Alone { after, pages: passed + pages };
                if passed >= SEQUENCE_PAGES.into() {
                    (self.telling, self.waited_ns) = (self.telling + pages, self.waited_ns + waited_ns);
                    self.judge(after);
                }
            }
            Trial::Helped { .. } | Trial::Alone { .. } | Trial::Over => {}
        }
    }

    /// Whether it has paid to read ahead of so many pages, once it is known what they wait by themselves.
    fn judge(&mut self, after: u64) {
        if self.telling < ALONE_PAGES {
            return;
        }
        if self.waited_ns == 0 {
            // It was cached, and tells nothing.
            self.telling = 0;
            return;
        }
        let still = u128::from(self.still_waited_ns) * u128::from(self.telling);
        let pays = 10 * still <= 9 * u128::from(self.waited_ns) * u128::from(self.used);
        self.saved_before_ns += self.would_have_waited_ns().saturating_sub(self.still_waited_ns);
        (self.used, self.still_waited_ns) = (0, 0);
        self.trial = if pays { Trial::Helped { pages: (4 * after).min(MOST_HELPED) } } else { Trial::Over };
    }

    /// What would have been waited for what was used since the last trial, nanoseconds.
    pub(crate) fn would_have_waited_ns(&self) -> u64 {
        let all_ns = u128::from(self.waited_ns) * u128::from(self.used);
        u64::try_from(all_ns.checked_div(self.telling.into()).unwrap_or(0)).unwrap_or(u64::MAX)
    }
}
