//! The program's own copy of what it has set for its priority levels.
//!
//! Questions are answered from here, and a service that was restarted is told again from here. (The priorities
//! of files are kept with the files, [`crate::files`].)

use foretell_protocol::{Entry, Policy};

use crate::error::Error;

/// Priority levels with a policy of their own that a program may have: as many as the policy gives a manager.
pub(crate) const LEVELS: usize = 64;

/// Policies of priority levels, in the order in which they were first set.
#[derive(Debug, Default)]
pub(crate) struct Levels(Vec<(i32, Policy)>);

impl Levels {
    /// Sets the policy of a level.
    pub(crate) fn set(&mut self, priority: i32, policy: Policy) -> Result<(), Error> {
        match self.0.iter().position(|(level, _)| *level == priority) {
            Some(at) => self.0[at].1 = policy,
            None if self.0.len() == LEVELS => return Err(Error::Levels(LEVELS)),
            None => self.0.push((priority, policy)),
        }
        Ok(())
    }

    /// The policy of a level, LRU unless set.
    pub(crate) fn get(&self, priority: i32) -> Policy {
        self.0.iter().find(|(level, _)| *level == priority).map_or(Policy::default(), |(_, policy)| *policy)
    }

    /// How many have a policy of their own.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The directive that sets the level number `at`, in the order of [`Levels::set`].
    pub(crate) fn directive(&self, at: usize) -> Option<Entry> {
        let (priority, policy) = *self.0.get(at)?;
        Some(Entry::SetPolicy { priority, policy })
    }
}
