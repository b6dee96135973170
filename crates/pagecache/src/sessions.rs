//! Sessions, their managers, and the processes that belong to them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use foretell_policy::{FileId, ManagerId, ProcessId};

use crate::error::SessionError;
use crate::options::{ManagerSpec, Rule, SessionId};
use crate::rules::RuleSet;

/// Sessions at a time.
pub(crate) const SESSIONS: usize = 256;
/// Managers of one session.
pub(crate) const MANAGERS: usize = 64;
/// Bytes of a process name that the kernel keeps (`TASK_COMM_LEN` less the zero).
const NAME_BYTES: usize = 15;

/// Blocks of a chunk that the policy's list had no room for yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Remainder {
    pub(crate) file: FileId,
    pub(crate) next: u32,
    /// The block after the last.
    pub(crate) end: u32,
}

/// A manager of a session.
#[derive(Debug)]
pub(crate) struct Manager {
    pub(crate) id: ManagerId,
    pub(crate) name: String,
    pub(crate) rules: RuleSet,
    /// Names of its processes, as long as the kernel keeps them.
    names: Vec<Vec<u8>>,
    pub(crate) remainder: Option<Remainder>,
    /// Its list was empty the last time the loop looked.
    pub(crate) list_was_empty: bool,
}

/// A process tree under control.
#[derive(Debug)]
pub(crate) struct Session {
    /// Those of the specification, in its order; one more that takes the rest, where none of them does.
    pub(crate) managers: Vec<Manager>,
    /// Which of them takes the processes that no other one names.
    default: usize,
}

impl Session {
    fn manager_of(&self, name: &[u8]) -> usize {
        let name = &name[..name.len().min(NAME_BYTES)];
        self.managers.iter().position(|m| m.names.iter().any(|n| n == name)).unwrap_or(self.default)
    }
}

/// A process that is alive.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) session: SessionId,
    /// Position in the session's managers.
    pub(crate) manager: usize,
    pub(crate) manager_id: ManagerId,
    pub(crate) id: ProcessId,
    pub(crate) name: String,
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    sessions: BTreeMap<SessionId, Session>,
    processes: HashMap<u32, Process>,
    last: u32,
}

/// The managers of a session that does not exist yet, checked.
#[derive(Debug)]
pub(crate) struct Prepared {
    managers: Vec<(String, RuleSet, Vec<Vec<u8>>)>,
    default: usize,
}

impl Prepared {
    /// Checks a specification.
    ///
    /// # Errors
    /// See [`SessionError`].
    pub(crate) fn new(specs: &[ManagerSpec]) -> Result<Prepared, SessionError> {
        if specs.len() > MANAGERS {
            return Err(SessionError::TooMany { what: "managers of one session", limit: MANAGERS as u32 });
        }
        let mut managers = Vec::new();
        let mut default: Option<usize> = None;
        for (at, spec) in specs.iter().enumerate() {
            let rules = RuleSet::new(&spec.rules)
                .map_err(|source| SessionError::Rules { manager: spec.name.clone(), source })?;
            if spec.process_names.is_empty()
                && let Some(first) = default.replace(at)
            {
                let (first, second) = (specs[first].name.clone(), spec.name.clone());
                return Err(SessionError::TwoDefaults { first, second });
            }
            let cut = |name: &String| name.as_bytes()[..name.len().min(NAME_BYTES)].to_vec();
            managers.push((spec.name.clone(), rules, spec.process_names.iter().map(cut).collect()));
        }
        let default = match default {
            Some(default) => default,
            None => {
                let none = RuleSet::new(&[])
                    .map_err(|source| SessionError::Rules { manager: String::new(), source })?;
                managers.push(("others".to_owned(), none, Vec::new()));
                managers.len() - 1
            }
        };
        Ok(Prepared { managers, default })
    }

    pub(crate) fn rule_sets(&self) -> impl Iterator<Item = &RuleSet> {
        self.managers.iter().map(|(_, rules, _)| rules)
    }
}

impl Sessions {
    /// Adds a session whose managers the policy numbers `ids`, in their order.
    pub(crate) fn add(&mut self, prepared: Prepared, ids: &[ManagerId]) -> SessionId {
        self.last += 1;
        let managers = prepared.managers.into_iter().zip(ids);
        let managers = managers.map(|((name, rules, names), &id)| Manager {
            id,
            name,
            rules,
            names,
            remainder: None,
            list_was_empty: true,
        });
        let session = Session { managers: managers.collect(), default: prepared.default };
        self.sessions.insert(SessionId(self.last), session);
        SessionId(self.last)
    }

    /// Ends a session: it and its processes are known no more.
    pub(crate) fn remove(&mut self, session: SessionId) -> Option<(Session, Vec<(u32, Process)>)> {
        let ended = self.sessions.remove(&session)?;
        let mut processes: Vec<(u32, Process)> =
            self.processes.extract_if(|_, process| process.session == session).collect();
        processes.sort_unstable_by_key(|(pid, _)| *pid);
        Some((ended, processes))
    }

    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(crate) fn ids(&self) -> Vec<SessionId> {
        self.sessions.keys().copied().collect()
    }

    pub(crate) fn get(&self, session: SessionId) -> Option<&Session> {
        self.sessions.get(&session)
    }

    pub(crate) fn managers(&self) -> impl Iterator<Item = &Manager> {
        self.sessions.values().flat_map(|session| &session.managers)
    }

    pub(crate) fn managers_mut(&mut self) -> impl Iterator<Item = &mut Manager> {
        self.sessions.values_mut().flat_map(|session| &mut session.managers)
    }

    pub(crate) fn manager(&self, session: SessionId, at: usize) -> Option<&Manager> {
        self.sessions.get(&session)?.managers.get(at)
    }

    pub(crate) fn manager_mut(&mut self, session: SessionId, at: usize) -> Option<&mut Manager> {
        self.sessions.get_mut(&session)?.managers.get_mut(at)
    }

    pub(crate) fn process(&self, pid: u32) -> Option<&Process> {
        self.processes.get(&pid)
    }

    pub(crate) fn live_processes(&self, session: SessionId) -> usize {
        self.processes.values().filter(|process| process.session == session).count()
    }

    /// The manager that a process of this name belongs to.
    pub(crate) fn manager_of(&self, session: SessionId, name: &[u8]) -> Option<(usize, ManagerId)> {
        let session = self.sessions.get(&session)?;
        let at = session.manager_of(name);
        Some((at, session.managers[at].id))
    }

    pub(crate) fn insert_process(&mut self, pid: u32, process: Process) -> Option<Process> {
        self.processes.insert(pid, process)
    }

    pub(crate) fn remove_process(&mut self, pid: u32) -> Option<Process> {
        self.processes.remove(&pid)
    }

    pub(crate) fn rename_process(&mut self, pid: u32, name: String) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.name = name;
        }
    }

    pub(crate) fn processes(&self) -> Vec<(u32, &Process)> {
        let mut all: Vec<(u32, &Process)> = self.processes.iter().map(|(pid, p)| (*pid, p)).collect();
        all.sort_unstable_by_key(|(_, process)| process.id);
        all
    }

    /// The first rule of any manager that matches a path.
    pub(crate) fn rule_for(&self, path: &Path) -> Option<&Rule> {
        self.managers().find_map(|manager| manager.rules.find(path))
    }
}

/// The living descendants of a process and itself, parents first.
pub(crate) fn tree(root: u32) -> Vec<u32> {
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(&pid) = tree.get(next) {
        next += 1;
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.filter_map(Result::ok) {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            tree.extend(children.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    tree
}

/// The name of a process, `None` when there is none.
pub(crate) fn name_of(pid: u32) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, processes: &[&str]) -> ManagerSpec {
        let process_names = processes.iter().map(|name| (*name).to_owned()).collect();
        ManagerSpec { name: name.to_owned(), process_names, ..ManagerSpec::default() }
    }

    fn session(specs: &[ManagerSpec]) -> (Sessions, SessionId) {
        let prepared = Prepared::new(specs).unwrap();
        let ids: Vec<ManagerId> = (0..prepared.rule_sets().count() as u32).map(ManagerId).collect();
        let mut sessions = Sessions::default();
        let id = sessions.add(prepared, &ids);
        (sessions, id)
    }

    #[test]
    fn processes_go_to_the_manager_that_names_them_or_to_the_one_that_names_none() {
        let (sessions, id) =
            session(&[spec("all", &[]), spec("tools", &["grep", "a-very-long-name-of-a-tool"])]);
        let manager = |name: &str| sessions.manager_of(id, name.as_bytes()).map(|(at, _)| at);
        assert_eq!(manager("grep"), Some(1));
        assert_eq!(manager("a-very-long-nam"), Some(1), "as the kernel cuts it");
        assert_eq!(manager("sh"), Some(0));
    }

    #[test]
    fn where_no_manager_takes_the_rest_one_without_rules_does() {
        let (sessions, id) = session(&[spec("tools", &["grep"])]);
        assert_eq!(sessions.manager_of(id, b"sh").map(|(at, _)| at), Some(1));
        assert_eq!(sessions.manager(id, 1).map(|m| m.name.as_str()), Some("others"));
    }

    #[test]
    fn only_one_manager_may_take_the_rest() {
        let error = Prepared::new(&[spec("a", &[]), spec("b", &[])]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "managers 'a' and 'b' both name no process; only one may take all the others"
        );
    }

    #[test]
    fn the_tree_of_a_process_holds_its_children() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let tree = tree(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(tree[0], std::process::id());
        assert!(tree.contains(&child.id()));
    }
}
