//! Evictions of what processes have mapped, which may take long: whoever has mapped a file has a say in that.
//!
//! To page out what a process has mapped its mappings are read ([`crate::mappings`]) and its memory is gone through. Both
//! wait for a lock of that process's, which it can hold for long: while it forks with much memory, say. So they are done
//! by user ([`crate::by_user`]). What users have mapped together has a lane of its own: it may be as slow as the slowest
//! of them.

use crate::by_user::Shape;
use crate::steering::Steering;

/// The threads that do them.
pub(crate) const MAPPED: Shape = Shape {
    name: "foretell-mapped",
    threads: 16,
    spare: 1,
    stack_bytes: 1 << 20,
    lane_jobs: 1 << 14,
    all_jobs: 1 << 16,
};
/// The lane of what several users have mapped: -1, which is nobody's number (setreuid(2)).
const SHARED: u32 = u32::MAX;

impl Steering {
    /// The lane of what these processes have mapped: that of the one whose limits count for all of them.
    pub(crate) fn lane_of(&self, pids: &[u32]) -> u32 {
        let sessions = pids.iter().filter_map(|pid| self.sessions.process(*pid));
        let mut accounts =
            sessions.filter_map(|process| Some(self.sessions.get(process.session)?.origin.account));
        let Some(first) = accounts.next() else { return SHARED };
        if accounts.all(|account| account == first) { first } else { SHARED }
    }
}
