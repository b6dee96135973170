//! From what processes do to roles.
//!
//! A process number says nothing in the next run. A *role* does: who started the process, what it runs, and
//! which of its parent's children it is.
//!
//! A child's place is reserved when it is forked: the *ordinal* counts the forks of the parent's role, whatever
//! the children come to run. Its name is known later, when it executes a program, and children that were forked
//! together may do that in any order (`xargs -P4`), so that counting by name would number them by chance.
//! Counting forks makes roles the same as long as the parent forks in the same order; a parent that starts one
//! child more shifts the ordinals of those behind it, which whoever compares runs must expect.
//!
//! - A forked child has no role until somebody asks for it ([`Lineage::role`]) or it forks itself; then it has
//!   its parent's name and its reserved ordinal. Most children execute a program before that, and have its name.
//! - A forked child that executes its first program gets a role with that name and the ordinal that is reserved for it,
//!   whether somebody has asked before or not: what is asked must not change what the roles are called. (A child reads
//!   the head of its program before it is that program, unless nobody listens any more.)
//! - A process that executes another program after that gets a new role whose parent is the old one. This takes
//!   an ordinal of the old role, as a child would.
//! - What the job begins with, and a process that is not known but executes a program, has no parent; such
//!   roles are counted among themselves.
//!
//! There are at most [`limits::ROLES`] roles. The last place is for a role called `others`, which all processes
//! beyond share. At most [`PROCESSES`] are told apart at one time; further ones are `others`, too.

use foldhash::{HashMap, HashMapExt as _};

use crate::{Role, RoleId, limits};

/// Processes that live at one time and are told apart.
const PROCESSES: usize = 1 << 17;

/// The name of the role of all processes beyond a limit.
const OTHERS: &str = "others";

/// What the processes of a job were started as, by their numbers while they live.
#[derive(Debug)]
pub struct Lineage {
    processes: HashMap<u32, Process>,
    roles: Vec<State>,
    /// Roles without a parent.
    roots: u32,
    /// The first role that [`Lineage::take_new`] has not given.
    next_new: usize,
    others: Option<RoleId>,
    /// A process could not be kept: one that is not known may be one of ours.
    is_overfull: bool,
    role_limit: usize,
    process_limit: usize,
}

#[derive(Debug, Clone, Copy)]
enum Process {
    /// Forked, and has executed nothing yet. Its role, if somebody has asked for it.
    Forked { parent: RoleId, ordinal: u32, role: Option<RoleId> },
    /// Has executed something, or was there from the beginning.
    Known(RoleId),
}

#[derive(Debug)]
struct State {
    role: Role,
    /// Children that it has forked, and programs that it has executed.
    children: u32,
}

impl Default for Lineage {
    fn default() -> Lineage {
        Lineage::new()
    }
}

impl Lineage {
    /// No processes yet.
    #[must_use]
    pub fn new() -> Lineage {
        Lineage::with_limits(limits::ROLES, PROCESSES)
    }

    fn with_limits(role_limit: usize, process_limit: usize) -> Lineage {
        Lineage {
            processes: HashMap::new(),
            roles: Vec::new(),
            roots: 0,
            next_new: 0,
            others: None,
            is_overfull: false,
            role_limit,
            process_limit,
        }
    }

    /// A process that belongs to the job from the beginning, and runs `name`.
    pub fn begin(&mut self, pid: u32, name: &str) -> RoleId {
        self.processes.remove(&pid);
        let ordinal = self.roots;
        self.roots = self.roots.saturating_add(1);
        let role = self.add(None, name, ordinal);
        self.keep(pid, Process::Known(role));
        role
    }

    /// A process of the job has forked. A parent that is not known does not belong to the job, nor does its
    /// child.
    pub fn forked(&mut self, parent_pid: u32, child_pid: u32) {
        // Whoever had the number before is gone, whether that was told or not.
        self.processes.remove(&child_pid);
        let Some(parent) = self.role(parent_pid) else { return };
        let ordinal = self.next_child(parent);
        self.keep(child_pid, Process::Forked { parent, ordinal, role: None });
    }

    /// A process runs another program now. Gives its new role.
    pub fn executed(&mut self, pid: u32, name: &str) -> RoleId {
        let (parent, ordinal) = match self.processes.get(&pid) {
            None if self.is_overfull => return self.others(),
            None => return self.begin(pid, name),
            Some(&Process::Forked { parent, ordinal, .. }) => (parent, ordinal),
            Some(&Process::Known(old)) => (old, self.next_child(old)),
        };
        let role = self.add(Some(parent), name, ordinal);
        self.keep(pid, Process::Known(role));
        role
    }

    /// The role of a process, made now if it has none yet; `None` if the process does not belong to the job.
    pub fn role(&mut self, pid: u32) -> Option<RoleId> {
        match self.processes.get(&pid) {
            None if self.is_overfull => Some(self.others()),
            None => None,
            Some(&Process::Known(role) | &Process::Forked { role: Some(role), .. }) => Some(role),
            Some(&Process::Forked { parent, ordinal, role: None }) => {
                let name = self.roles[parent.0 as usize].role.name.clone();
                let role = self.add(Some(parent), &name, ordinal);
                self.keep(pid, Process::Forked { parent, ordinal, role: Some(role) });
                Some(role)
            }
        }
    }

    /// A process is gone. Gives its role, if it had one of its own, which ends with it.
    pub fn exited(&mut self, pid: u32) -> Option<RoleId> {
        match self.processes.remove(&pid) {
            Some(Process::Known(role) | Process::Forked { role: Some(role), .. })
                if self.others != Some(role) =>
            {
                Some(role)
            }
            _ => None,
        }
    }

    /// The processes that live and are told apart, in no order.
    pub fn processes(&self) -> impl Iterator<Item = u32> + '_ {
        self.processes.keys().copied()
    }

    /// Whether a process was never told of.
    #[must_use]
    pub fn is_stranger(&self, pid: u32) -> bool {
        !self.is_overfull && !self.knows(pid)
    }

    /// Whether a process belongs to the job and is told apart.
    #[must_use]
    pub fn knows(&self, pid: u32) -> bool {
        self.processes.contains_key(&pid)
    }

    /// The roles made since the last call, for the writer.
    pub fn take_new(&mut self) -> impl Iterator<Item = (RoleId, Role)> + '_ {
        let first = std::mem::replace(&mut self.next_new, self.roles.len());
        (first..self.roles.len()).map(|n| (RoleId(n as u32), self.roles[n].role.clone()))
    }

    /// A new role, or the last one of all.
    fn add(&mut self, parent: Option<RoleId>, name: &str, ordinal: u32) -> RoleId {
        // The last place is for the others, until they have one.
        let reserved = usize::from(self.others.is_none());
        if self.roles.len() + reserved >= self.role_limit {
            return self.others();
        }
        let role = Role { parent, name: short(name), ordinal };
        self.roles.push(State { role, children: 0 });
        RoleId(self.roles.len() as u32 - 1)
    }

    /// The role that everybody beyond a limit shares.
    fn others(&mut self) -> RoleId {
        let (roles, roots) = (&mut self.roles, &mut self.roots);
        *self.others.get_or_insert_with(|| {
            let role = Role { parent: None, name: OTHERS.to_owned(), ordinal: *roots };
            *roots = roots.saturating_add(1);
            roles.push(State { role, children: 0 });
            RoleId(roles.len() as u32 - 1)
        })
    }

    /// The ordinal of the next child of a role.
    fn next_child(&mut self, parent: RoleId) -> u32 {
        let children = &mut self.roles[parent.0 as usize].children;
        let ordinal = *children;
        *children = children.saturating_add(1);
        ordinal
    }

    fn keep(&mut self, pid: u32, process: Process) {
        if self.processes.len() < self.process_limit || self.processes.contains_key(&pid) {
            self.processes.insert(pid, process);
        } else {
            self.is_overfull = true;
        }
    }
}

/// As much of a command name as is kept.
fn short(name: &str) -> String {
    name[..name.floor_char_boundary(limits::NAME_BYTES)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(lineage: &mut Lineage) -> Vec<(Option<u32>, String, u32)> {
        lineage.take_new().map(|(_, role)| (role.parent.map(|p| p.0), role.name, role.ordinal)).collect()
    }

    #[test]
    fn children_executed_in_any_order_have_the_order_of_their_forks() {
        let mut runs = Vec::new();
        for (base, order) in [(100, [0, 1, 2, 3]), (7000, [2, 0, 3, 1])] {
            let mut lineage = Lineage::new();
            lineage.begin(base, "xargs");
            for child in 0..4 {
                lineage.forked(base, base + 1 + child);
            }
            for child in order {
                lineage.executed(base + 1 + child, "gzip");
            }
            let mut roles = roles(&mut lineage);
            roles.sort();
            runs.push(roles);
        }
        assert_eq!(runs[0], runs[1]);
        let gzip = |n| (Some(0), "gzip".to_owned(), n);
        assert_eq!(runs[0], [(None, "xargs".to_owned(), 0), gzip(0), gzip(1), gzip(2), gzip(3)]);
    }

    #[test]
    fn a_child_that_executes_nothing_has_its_parents_name_at_its_first_use() {
        let mut lineage = Lineage::new();
        lineage.begin(1, "bash");
        lineage.forked(1, 2);
        lineage.forked(1, 3);
        lineage.forked(1, 4);
        assert_eq!(lineage.exited(2), None);
        assert_eq!(lineage.role(4), Some(RoleId(1)));
        // A child that forks is used: its own children need a parent.
        lineage.forked(3, 5);
        assert_eq!(lineage.executed(5, "cat"), RoleId(3));
        let bash = |n| (Some(0), "bash".to_owned(), n);
        assert_eq!(
            roles(&mut lineage),
            [(None, "bash".to_owned(), 0), bash(2), bash(1), (Some(2), "cat".to_owned(), 0)]
        );
        assert_eq!(roles(&mut lineage), []);
        assert_eq!(lineage.exited(4), Some(RoleId(1)));
        assert_eq!(lineage.role(4), None);
    }

    #[test]
    fn a_child_has_the_same_role_whether_it_was_asked_about_before_it_executed_or_not() {
        let named = |asked: bool| {
            let mut lineage = Lineage::new();
            lineage.begin(1, "xargs");
            for child in [2, 3] {
                lineage.forked(1, child);
                if asked {
                    lineage.role(child);
                }
                lineage.executed(child, "cat");
                lineage.exited(child);
            }
            let mut cats = roles(&mut lineage);
            cats.retain(|(_, name, _)| name == "cat");
            cats
        };
        assert_eq!(named(true), named(false));
        assert_eq!(named(true), [(Some(0), "cat".to_owned(), 0), (Some(0), "cat".to_owned(), 1)]);
    }

    #[test]
    fn a_program_that_executes_another_is_its_parent() {
        let mut lineage = Lineage::new();
        lineage.begin(1, "sh");
        lineage.forked(1, 2);
        lineage.executed(2, "env");
        lineage.executed(2, "python3");
        lineage.executed(1, "a-name-of-more-than-15-bytes");
        let expected =
            [(None, "sh", 0), (Some(0), "env", 0), (Some(1), "python3", 0), (Some(0), "a-name-of-more-", 1)];
        assert_eq!(roles(&mut lineage), expected.map(|(parent, name, n)| (parent, name.to_owned(), n)));
        assert_eq!(short("fünfzehn bytes\u{fc}"), "fünfzehn bytes");
    }

    #[test]
    fn processes_that_are_not_ours_have_no_role() {
        let mut lineage = Lineage::new();
        lineage.begin(1, "make");
        lineage.forked(77, 78);
        assert_eq!((lineage.role(77), lineage.role(78)), (None, None));
        // A number that is used again is another process.
        lineage.forked(1, 2);
        lineage.executed(2, "cc1");
        lineage.forked(77, 2);
        assert_eq!(lineage.role(2), None);
        // A fork that was lost: better a role of its own than none.
        assert_eq!(lineage.executed(9, "ld"), RoleId(2));
        assert_eq!(roles(&mut lineage)[2], (None, "ld".to_owned(), 1));
    }

    #[test]
    fn beyond_the_limits_everybody_is_others() {
        let mut lineage = Lineage::with_limits(3, 100);
        lineage.begin(1, "sh");
        for pid in 2..10 {
            lineage.forked(1, pid);
            assert_eq!(lineage.executed(pid, "true"), RoleId((pid - 1).min(2)));
        }
        lineage.forked(9, 10);
        assert_eq!((lineage.role(10), lineage.exited(9)), (Some(RoleId(2)), None));
        let names: Vec<String> = lineage.take_new().map(|(_, role)| role.name).collect();
        assert_eq!(names, ["sh", "true", "others"]);

        let mut lineage = Lineage::with_limits(100, 2);
        lineage.begin(1, "sh");
        lineage.forked(1, 2);
        lineage.forked(1, 3);
        assert_eq!(lineage.executed(3, "cat"), RoleId(1));
        assert_eq!(lineage.executed(2, "dog"), RoleId(2));
        assert_eq!(lineage.role(3), Some(RoleId(1)));
        let names: Vec<String> = lineage.take_new().map(|(_, role)| role.name).collect();
        assert_eq!(names, ["sh", "others", "dog"]);
    }
}
