//! Directives: what programs say of objects and priorities, told to the engine of the memory and to that of the disk.

use foretell_policy::{Input, PoolPolicy};

use crate::directive::{Directive, parts_ended};
use crate::error::Error;
use crate::pool::{Object, Pool};
use crate::who::Who;

impl Pool {
    /// Says which part of a priority's is replaced first. Of a pool in which nothing is said all have priority 0, and
    /// [`crate::Options::policy`].
    ///
    /// # Errors
    /// [`Error::Forked`], and when there are too many priorities.
    pub fn set_policy(&self, priority: i32, policy: PoolPolicy) -> Result<(), Error> {
        self.set_policy_as(priority, policy, None)
    }

    pub(crate) fn set_policy_as(
        &self,
        priority: i32,
        policy: PoolPolicy,
        who: Option<Who>,
    ) -> Result<(), Error> {
        let shared = self.shared();
        shared.is_ours()?;
        let mut state = shared.state();
        let told = state.direct(shared.now(), who, |manager| Input::Policy { manager, priority, policy });
        shared.pump(&mut state);
        told
    }
}

impl Object {
    /// Says something of the object.
    ///
    /// # Errors
    /// [`Error::Forked`], [`Error::PastEnd`] of a range that the object does not have, and when there are too many priorities.
    pub fn direct(&self, directive: Directive) -> Result<(), Error> {
        self.direct_as(directive, None)
    }

    pub(crate) fn direct_as(&self, directive: Directive, who: Option<Who>) -> Result<(), Error> {
        let shared = self.shared();
        shared.is_ours()?;
        let (file, part_bytes) = (self.file(), u64::from(shared.options.part_bytes));
        let parts = match directive.range() {
            None => 0..=0,
            Some((offset, length)) => {
                self.check(offset, length)?;
                match parts_ended(offset, length, self.length(), part_bytes) {
                    Some(parts) => parts,
                    None => return Ok(()),
                }
            }
        };
        let (first, last) = parts.into_inner();
        let mut state = shared.state();
        let told = state.direct(shared.now(), who, |manager| match directive {
            Directive::Priority(priority) => Input::Priority { manager, file, priority },
            Directive::TemporaryPriority { priority, .. } => {
                Input::TemporaryPriority { manager, file, first, last, priority }
            }
            Directive::DoneWith { .. } => Input::Flushed { manager, file, first, last },
        });
        shared.pump(&mut state);
        told
    }
}
