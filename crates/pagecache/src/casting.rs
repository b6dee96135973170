//! Which process plays which part: from the roles of a recorded run to the lists of this one.
//!
//! A job that is started again has other process numbers and, if it does the same, the same roles
//! ([`foretell_recording::Lineage`]): the second `grep` that the shell starts is the second `grep` again. A process is
//! put on the list of its role when it first references something. A job that starts a program more than when it was
//! recorded has other numbers from there on: a role whose number was not recorded plays the next one of the same
//! name and parent. One without any is compared with all lists by what it reads
//! ([`foretell_policy::Input::ReaderAssigned`]).

use std::collections::{BTreeMap, HashMap};

use foretell_recording::{Lineage, Role, RoleId};

/// The roles of a recorded run and their lists, and the processes of this one.
#[derive(Debug)]
pub struct Casting {
    /// Recorded roles by what tells them apart: the recorded parent and the name, then which of the parent's children.
    recorded: HashMap<(Option<RoleId>, String), BTreeMap<u32, RoleId>>,
    /// The list of each recorded role.
    lists: Vec<Option<u32>>,
    lineage: Lineage,
    /// The recorded role of each role of this run.
    played: Vec<Option<RoleId>>,
}

impl Casting {
    /// The roles of a recording, and for each the number of its list, if it has one.
    #[must_use]
    pub fn new(roles: &[Role], lists: Vec<Option<u32>>) -> Casting {
        let mut recorded: HashMap<_, BTreeMap<u32, RoleId>> = HashMap::new();
        for (id, role) in (0..).map(RoleId).zip(roles) {
            recorded.entry((role.parent, role.name.clone())).or_default().insert(role.ordinal, id);
        }
        Casting { recorded, lists, lineage: Lineage::default(), played: Vec::new() }
    }

    /// The job's first process.
    pub(crate) fn begin(&mut self, pid: u32) {
        self.lineage.begin(pid, ROOT_NAME);
        self.follow();
    }

    pub(crate) fn forked(&mut self, parent: u32, child: u32) {
        self.lineage.forked(parent, child);
    }

    pub(crate) fn executed(&mut self, pid: u32, name: &str) {
        self.lineage.executed(pid, name);
        self.follow();
    }

    pub(crate) fn exited(&mut self, pid: u32) {
        self.lineage.exited(pid);
    }

    /// The list of a process's role.
    pub(crate) fn list(&mut self, pid: u32) -> Option<u32> {
        let role = self.lineage.role(pid)?;
        self.follow();
        let recorded = self.played.get(role.0 as usize).copied().flatten()?;
        self.lists.get(recorded.0 as usize).copied().flatten()
    }

    /// Finds the recorded role of each new one.
    fn follow(&mut self) {
        for (id, role) in self.lineage.take_new() {
            let parent = match role.parent {
                None => Some(None),
                // A role whose parent was not recorded was not either.
                Some(parent) => self.played.get(parent.0 as usize).copied().flatten().map(Some),
            };
            let siblings = parent.and_then(|parent| self.recorded.get(&(parent, role.name)));
            let recorded = siblings.and_then(|of| nearest(of, role.ordinal));
            let at = id.0 as usize;
            if self.played.len() <= at {
                self.played.resize(at + 1, None);
            }
            self.played[at] = recorded;
        }
    }
}

/// The role with an ordinal, or the nearest one; of two as near the earlier.
fn nearest(siblings: &BTreeMap<u32, RoleId>, ordinal: u32) -> Option<RoleId> {
    let before = siblings.range(..=ordinal).next_back();
    let after = siblings.range(ordinal..).next();
    [before, after].into_iter().flatten().min_by_key(|(of, _)| of.abs_diff(ordinal)).map(|(_, &role)| role)
}

/// The name of the job's first process before it executes anything: the same for every run.
pub(crate) const ROOT_NAME: &str = "job";

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell that starts `names` one after the other, as it is recorded.
    fn recorded(names: &[&str], first_pid: u32) -> Vec<Role> {
        let mut lineage = Lineage::default();
        lineage.begin(first_pid, ROOT_NAME);
        lineage.executed(first_pid, "sh");
        for (pid, name) in (first_pid + 1..).zip(names) {
            lineage.forked(first_pid, pid);
            lineage.executed(pid, name);
            lineage.exited(pid);
        }
        lineage.take_new().map(|(_, role)| role).collect()
    }

    #[test]
    fn processes_are_put_on_the_lists_of_their_roles() {
        let roles = recorded(&["grep", "sort", "grep"], 10);
        assert_eq!(roles.len(), 5);
        let mut casting = Casting::new(&roles, vec![None, None, Some(0), Some(1), Some(2)]);
        casting.begin(700);
        casting.executed(700, "sh");
        for (pid, name, list) in [(31, "grep", Some(0)), (90, "sort", Some(1)), (32, "grep", Some(2))] {
            casting.forked(700, pid);
            casting.executed(pid, name);
            assert_eq!(casting.list(pid), list, "{name}");
        }
        assert_eq!(casting.list(700), None, "the shell read nothing when it was recorded");
    }

    #[test]
    fn one_program_more_than_when_it_was_recorded_shifts_nobody_off_the_lists() {
        let roles = recorded(&["cat", "cat", "cat"], 10);
        let mut casting = Casting::new(&roles, vec![None, None, Some(0), Some(1), Some(2)]);
        casting.begin(1);
        casting.executed(1, "sh");
        for (pid, name, list) in
            [(2, "date", None), (3, "cat", Some(1)), (4, "cat", Some(2)), (5, "cat", Some(2))]
        {
            casting.forked(1, pid);
            casting.executed(pid, name);
            assert_eq!(casting.list(pid), list, "{name}");
        }
    }

    #[test]
    fn what_was_not_recorded_has_no_list() {
        let roles = recorded(&["grep"], 10);
        let mut casting = Casting::new(&roles, vec![None, None, Some(0)]);
        casting.begin(1);
        casting.executed(1, "sh");
        casting.forked(1, 2);
        casting.executed(2, "awk");
        assert_eq!(casting.list(2), None);
        casting.forked(2, 3);
        casting.executed(3, "grep");
        assert_eq!(casting.list(3), None, "another parent's");
        assert_eq!(casting.list(99), None, "no process of the job");
    }
}
