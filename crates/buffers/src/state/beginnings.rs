//! Answers that have begun, and wait for who reads them ([`crate::begun`]).

use foretell_policy::FileId;

use super::State;
use crate::object::Fixed;
use crate::source::Begun;

/// Answers that wait at a time; beyond, the oldest one is given up. Each keeps a connection.
const MOST_BEGUN: usize = 64;

impl State {
    /// What will be read first of an object comes from an answer. Gives those that are given up for it.
    #[must_use]
    pub(crate) fn begin(
        &mut self,
        file: FileId,
        fixed: &Fixed,
        begun: Box<dyn Begun>,
    ) -> Vec<Box<dyn Begun>> {
        let Some(open) = self.object_mut(file).filter(|open| open.fixed.serial == fixed.serial) else {
            return vec![begun];
        };
        let mut given_up: Vec<Box<dyn Begun>> = open.begun.replace(begun).into_iter().collect();
        self.beginnings.push_back((file, fixed.serial));
        while self.beginnings.len() > MOST_BEGUN {
            let Some((file, serial)) = self.beginnings.pop_front() else { break };
            // Where it was read from, nothing is left but this.
            let open = self.object_mut(file).filter(|open| open.fixed.serial == serial);
            given_up.extend(open.and_then(|open| open.begun.take()));
        }
        given_up
    }
}
