//! Which rules hold here, and leaving files to rules that hold elsewhere.
//!
//! Two planes know nothing of each other. Whoever drives one asks the others which rules are older than its own and has
//! its session yield to them: of two that begin at the same moment exactly one is older, since all go by one clock.

use std::sync::Arc;

use crate::error::{Conflict, RuleError};
use crate::options::{Rule, SessionId};
use crate::plane::Plane;
use crate::rules::{Compiled, RuleSet};
use crate::sessions::Session;

impl Plane {
    /// Leaves files alone for which rules that hold elsewhere say something else than the session's own, as it does
    /// for those of the sessions that were in the plane before it. To be called before its processes read: files that
    /// are under control already stay so. A session that does not exist is ignored.
    ///
    /// # Errors
    /// When a rule does not parse.
    pub fn yield_to(&mut self, session: SessionId, rules: &[Rule]) -> Result<(), RuleError> {
        let others = Arc::new(Compiled::new(rules)?);
        if let Some(session) = self.steering.sessions.get_mut(session) {
            session.yield_to(&others);
        }
        Ok(())
    }

    /// When a session began, by the clock that all processes share (`CLOCK_MONOTONIC`), in nanoseconds; 0 for one that
    /// does not exist.
    #[must_use]
    pub fn began_ns(&self, session: SessionId) -> u64 {
        self.steering.sessions.get(session).map_or(0, |session| session.began_ns)
    }

    /// The rules of each manager of the sessions that had begun before `ns` of that clock.
    #[must_use]
    pub fn rules_before(&self, ns: u64) -> Vec<Vec<Rule>> {
        let before = |session: &&Session| session.began_ns < ns;
        let sessions = self.steering.sessions.iter().map(|(_, session)| session).filter(before);
        let rules = sessions.flat_map(|session| &session.managers).map(|manager| manager.rules.own());
        rules.filter(|rules| !rules.is_empty()).map(<[Rule]>::to_vec).collect()
    }

    /// The files that are managed already by rules of sessions that had begun before `ns` of that clock, and for which
    /// `rules` name another policy or priority.
    ///
    /// # Errors
    /// When a rule does not parse.
    pub fn conflicts(&self, rules: &[Rule], ns: u64) -> Result<Vec<Conflict>, RuleError> {
        Ok(self.steering.conflicts(&RuleSet::new(rules)?, ns))
    }
}
