//! When a stream sleeps.
//!
//! A score rises with every run that is found where it is expected and falls with every one that is found nowhere. One
//! that is found out of order counts by how unlikely that is by chance, so that chance alone drives the score down. At
//! zero the stream sleeps, and it wakes at a quarter.

/// The highest score; a new stream has it, too. It sleeps after 32 runs of nothing.
const FULL: i32 = 512;

/// Wakes at this score: four runs, net.
const AWAKE: i32 = 128;

/// What a run at its expected place is worth. By chance one in 10 is, in small files.
const EXPECTED: i32 = 32;

/// What each further reference of such a run is worth: with a block inserted in every other place, runs of 12 blocks
/// and 6 stray ones take turns.
const CONTINUED: i32 = 8;

/// What one takes that is nowhere.
const NOTHING: i32 = 16;

/// The score, and the state.
#[derive(Debug)]
pub(crate) struct Sleep {
    score: i32,
    asleep: bool,
    /// Runs begun since it fell asleep.
    begun: u32,
}

/// Of so many runs in a row a sleeping stream looks at the first [`LOOKS`]: together, since only runs that follow
/// each other are evidence.
const ROUND: u32 = 64;

/// See [`ROUND`].
const LOOKS: u32 = 8;

impl Default for Sleep {
    fn default() -> Sleep {
        Sleep { score: FULL, asleep: false, begun: 0 }
    }
}

impl Sleep {
    pub(crate) fn asleep(&self) -> bool {
        self.asleep
    }

    /// A run begins while the stream sleeps: is it looked at?
    pub(crate) fn stirs(&mut self) -> bool {
        let looks = self.begun % ROUND < LOOKS;
        self.begun = self.begun.wrapping_add(1);
        looks
    }

    /// A run was where it was expected.
    pub(crate) fn expected(&mut self) {
        self.add(EXPECTED);
    }

    /// One more reference of such a run was, too.
    pub(crate) fn continued(&mut self) {
        self.add(CONTINUED);
    }

    /// A run was nowhere.
    pub(crate) fn nothing(&mut self) {
        self.add(-NOTHING);
    }

    /// A run was out of order in the window, for which the chance is `by_chance` of 256.
    pub(crate) fn out_of_order(&mut self, by_chance: u32) {
        let chance = by_chance.clamp(1, 256) as i32;
        // Half of what would balance the runs that chance finds nowhere.
        self.add((NOTHING * (256 - chance) / chance / 2).min(EXPECTED));
    }

    /// A place was found that explains the last runs.
    pub(crate) fn wake(&mut self) {
        *self = Sleep::default();
    }

    fn add(&mut self, worth: i32) {
        self.score = (self.score + worth).clamp(0, FULL);
        if self.score == 0 {
            self.asleep = true;
        } else if self.score >= AWAKE {
            self.asleep = false;
        }
    }
}
