//! Sessions, their managers, and the processes that belong to them.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fs;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use foretell_policy::{Counters, FileId, ManagerId, ProcessId};

use crate::casting::Casting;
use crate::error::SessionError;
use crate::options::{ManagerSpec, Rule, SessionId};
use crate::proc_text::{self, Credentials};
use crate::report::ProcessReport;
use crate::rules::{Compiled, RuleSet};

/// Sessions at a time.
pub(crate) const SESSIONS: usize = 8192;
/// Managers of one session.
pub(crate) const MANAGERS: usize = 64;
/// Bytes of a process name that the kernel keeps (`TASK_COMM_LEN` less the zero).
const NAME_BYTES: usize = 15;

/// Blocks of a disclosed chunk that the policy's list had no room for yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunk {
    /// Which list of the manager's.
    pub(crate) list: u32,
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
    /// Disclosed, and not in the policy's list yet.
    pub(crate) queue: VecDeque<Chunk>,
    /// Blocks that were taken into the policy's list.
    pub(crate) disclosed: u64,
    /// Its list was empty the last time the loop looked.
    pub(crate) list_was_empty: bool,
}

/// A file that a session named by a descriptor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holding {
    /// Number of the file's registration.
    pub(crate) serial: u32,
    /// How often it was named and not let go again.
    pub(crate) times: u32,
    /// The session's user owns the file, or has it open for writing: the kernel would say what is cached of it
    /// (mincore(2)).
    pub(crate) may_look: bool,
}

/// Who a session is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Origin {
    /// The process at the root.
    pub(crate) root: u32,
    /// The user that it is.
    pub(crate) user: u32,
    /// Whose limits and time count: the user, unless who makes the session says otherwise.
    pub(crate) account: u32,
    /// The session that its processes belonged to before and go back to.
    pub(crate) enclosing: Option<SessionId>,
    /// It names its files by descriptors, not by rules or paths.
    pub(crate) by_descriptors: bool,
}

/// A process tree under control.
#[derive(Debug)]
pub(crate) struct Session {
    /// Those of the specification, in its order; one more that takes the rest, where none of them does.
    pub(crate) managers: Vec<Manager>,
    /// Which of them takes the processes that no other one names.
    default: usize,
    pub(crate) origin: Origin,
    /// By `CLOCK_MONOTONIC`.
    pub(crate) began_ns: u64,
    /// The user that the process at its root runs as.
    owner: u32,
    /// It has named a file of which its user may not know what is cached.
    pub(crate) withheld: bool,
    /// Files named by descriptors.
    pub(crate) held: BTreeMap<FileId, Holding>,
    /// Its processes that are alive.
    pub(crate) members: BTreeSet<u32>,
    /// The counts of those that have left.
    pub(crate) past: Counters,
    /// What each of those did, if the session goes by rules and lists and will be asked for a report.
    pub(crate) ended: Vec<ProcessReport>,
    /// The sum of those for which there was no room.
    pub(crate) others_ended: Option<ProcessReport>,
    /// Which of its processes follows which list.
    pub(crate) casting: Option<Casting>,
}

impl Session {
    fn manager_of(&self, name: &[u8]) -> usize {
        let name = &name[..name.len().min(NAME_BYTES)];
        self.managers.iter().position(|m| m.names.iter().any(|n| n == name)).unwrap_or(self.default)
    }

    /// All of its rules leave to `others` the files for which those say something else.
    pub(crate) fn yield_to(&mut self, others: &Arc<Compiled>) {
        let with_rules = self.managers.iter_mut().filter(|manager| !manager.rules.is_empty());
        with_rules.for_each(|manager| manager.rules.yield_to(Arc::clone(others)));
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
    /// The user of the session.
    pub(crate) user: u32,
    pub(crate) name: String,
    /// It runs with other rights than the session's user has (set-user-ID, say): what it does is not told.
    pub(crate) foreign: bool,
    /// The list of its role has been looked for.
    pub(crate) cast: bool,
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    sessions: BTreeMap<SessionId, Session>,
    processes: HashMap<u32, Process>,
    /// Those that name files by rules and paths: few, even where sessions are many.
    by_path: BTreeSet<SessionId>,
    /// Managers that may have a list or a queue, so that the loop need not look at all others.
    pub(crate) listing: BTreeSet<(SessionId, usize)>,
    /// Chunks in the queues of each user's sessions, and in all.
    queued: BTreeMap<u32, usize>,
    queued_in_all: usize,
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

    /// All of its rules leave to `other` the files for which that says something else.
    pub(crate) fn yield_to(&mut self, other: &Arc<Compiled>) {
        let with_rules = self.managers.iter_mut().filter(|(_, rules, _)| !rules.is_empty());
        with_rules.for_each(|(_, rules, _)| rules.yield_to(Arc::clone(other)));
    }
}

impl Sessions {
    /// Adds a session whose managers the policy numbers `ids`, in their order.
    pub(crate) fn add(&mut self, prepared: Prepared, ids: &[ManagerId], origin: Origin) -> SessionId {
        self.last += 1;
        let managers = prepared.managers.into_iter().zip(ids);
        let managers = managers.map(|((name, rules, names), &id)| Manager {
            id,
            name,
            rules,
            names,
            queue: VecDeque::new(),
            disclosed: 0,
            list_was_empty: true,
        });
        let session = Session {
            managers: managers.collect(),
            default: prepared.default,
            owner: credentials(origin.root).map_or(origin.user, |credentials| credentials.users[0]),
            origin,
            began_ns: now_ns(),
            withheld: false,
            held: BTreeMap::new(),
            members: BTreeSet::new(),
            past: Counters::default(),
            ended: Vec::new(),
            others_ended: None,
            casting: None,
        };
        if !session.origin.by_descriptors {
            self.by_path.insert(SessionId(self.last));
        }
        self.sessions.insert(SessionId(self.last), session);
        SessionId(self.last)
    }

    /// Ends a session: it and its processes are known no more.
    pub(crate) fn remove(&mut self, session: SessionId) -> Option<(Session, Vec<(u32, Process)>)> {
        for at in 0..self.sessions.get(&session)?.managers.len() {
            self.empty_queue(session, at);
        }
        let ended = self.sessions.remove(&session)?;
        self.by_path.remove(&session);
        self.listing.retain(|(of, _)| *of != session);
        for other in self.sessions.values_mut().filter(|other| other.origin.enclosing == Some(session)) {
            other.origin.enclosing = ended.origin.enclosing;
        }
        let members = ended.members.iter();
        let processes = members.filter_map(|pid| Some((*pid, self.processes.remove(pid)?))).collect();
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

    pub(crate) fn get_mut(&mut self, session: SessionId) -> Option<&mut Session> {
        self.sessions.get_mut(&session)
    }

    /// All sessions, in the order in which they began.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.sessions.iter().map(|(id, session)| (*id, session))
    }

    /// The sessions that have begun after one.
    pub(crate) fn after(&self, after: Option<SessionId>) -> impl Iterator<Item = (SessionId, &Session)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.sessions.range((from, Bound::Unbounded)).map(|(id, session)| (*id, session))
    }

    /// Is a session this one, or nested in it?
    pub(crate) fn is_within(&self, session: SessionId, outer: SessionId) -> bool {
        let mut at = Some(session);
        while let Some(id) = at {
            if id == outer {
                return true;
            }
            at = self.sessions.get(&id).and_then(|session| session.origin.enclosing);
        }
        false
    }

    /// Could a rule or a list of this session, or of one that it is nested in, name what its processes read?
    pub(crate) fn by_path(&self, session: SessionId) -> bool {
        let mut at = Some(session);
        while let Some(id) = at {
            if self.by_path.contains(&id) {
                return true;
            }
            at = self.sessions.get(&id).and_then(|session| session.origin.enclosing);
        }
        false
    }

    /// Could any session's?
    pub(crate) fn any_by_path(&self) -> bool {
        !self.by_path.is_empty()
    }

    /// Appends a chunk to the queue of a manager.
    pub(crate) fn queue(&mut self, session: SessionId, at: usize, chunk: Chunk) {
        let Some(target) = self.sessions.get_mut(&session) else { return };
        let Some(manager) = target.managers.get_mut(at) else { return };
        manager.queue.push_back(chunk);
        *self.queued.entry(target.origin.account).or_default() += 1;
        self.queued_in_all += 1;
        self.listing.insert((session, at));
    }

    /// Takes the first chunk of a manager's queue off.
    pub(crate) fn unqueue(&mut self, session: SessionId, at: usize) {
        let Some(target) = self.sessions.get_mut(&session) else { return };
        let Some(manager) = target.managers.get_mut(at) else { return };
        if manager.queue.pop_front().is_none() {
            return;
        }
        // What is counted is what waits: the room of what has waited is given back, or a session would keep all that it
        // ever had.
        if manager.queue.len() < manager.queue.capacity() / 4 {
            let left = manager.queue.len();
            manager.queue.shrink_to(left * 2);
        }
        self.unqueued(session, 1);
    }

    /// Empties a manager's queue; says how much was in it.
    pub(crate) fn empty_queue(&mut self, session: SessionId, at: usize) -> usize {
        let manager = self.manager_mut(session, at);
        let chunks = manager.map_or(0, |manager| std::mem::take(&mut manager.queue).len());
        self.unqueued(session, chunks);
        chunks
    }

    fn unqueued(&mut self, session: SessionId, chunks: usize) {
        let Some(user) = self.sessions.get(&session).map(|session| session.origin.account) else { return };
        self.queued_in_all -= chunks;
        if let Some(queued) = self.queued.get_mut(&user) {
            *queued -= chunks;
            if *queued == 0 {
                self.queued.remove(&user);
            }
        }
    }

    /// Chunks in all queues, and in those of one user's sessions.
    pub(crate) fn queued(&self, user: u32) -> (usize, usize) {
        (self.queued_in_all, self.queued.get(&user).copied().unwrap_or(0))
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

    pub(crate) fn process_mut(&mut self, pid: u32) -> Option<&mut Process> {
        self.processes.get_mut(&pid)
    }

    /// Has a process other rights than the user of a session? One that has ended is taken to have them.
    pub(crate) fn is_foreign(&self, session: SessionId, pid: u32) -> bool {
        match self.get(session).map(|session| session.owner) {
            // Root's programs have no more.
            None | Some(0) => false,
            Some(owner) => credentials(pid).is_none_or(|credentials| credentials.are_foreign(owner)),
        }
    }

    pub(crate) fn live_processes(&self, session: SessionId) -> usize {
        self.get(session).map_or(0, |session| session.members.len())
    }

    /// The manager that a process of this name belongs to.
    pub(crate) fn manager_of(&self, session: SessionId, name: &[u8]) -> Option<(usize, ManagerId)> {
        let session = self.sessions.get(&session)?;
        let at = session.manager_of(name);
        Some((at, session.managers[at].id))
    }

    pub(crate) fn insert_process(&mut self, pid: u32, process: Process) -> Option<Process> {
        if let Some(session) = self.sessions.get_mut(&process.session) {
            session.members.insert(pid);
        }
        self.processes.insert(pid, process)
    }

    pub(crate) fn remove_process(&mut self, pid: u32) -> Option<Process> {
        let process = self.processes.remove(&pid)?;
        if let Some(session) = self.sessions.get_mut(&process.session) {
            session.members.remove(&pid);
        }
        Some(process)
    }

    /// A process has become another program of the same manager.
    pub(crate) fn rename_process(&mut self, pid: u32, name: String, foreign: bool) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.name = name;
            // What it did before cannot be told apart any more.
            process.foreign |= foreign;
            process.cast = false;
        }
    }

    pub(crate) fn processes_of(&self, session: SessionId) -> impl Iterator<Item = &Process> {
        let members = self.get(session).into_iter().flat_map(|session| &session.members);
        members.filter_map(|pid| self.processes.get(pid))
    }

    pub(crate) fn processes(&self) -> Vec<(u32, &Process)> {
        let mut all: Vec<(u32, &Process)> = self.processes.iter().map(|(pid, p)| (*pid, p)).collect();
        all.sort_unstable_by_key(|(_, process)| process.id);
        all
    }

    /// The sessions that have a rule for a path.
    pub(crate) fn with_rule_for(&self, path: &Path) -> Vec<SessionId> {
        let has_rule = |id: &&SessionId| {
            let session = self.sessions.get(*id);
            session.is_some_and(|of| of.managers.iter().any(|manager| manager.rules.find(path).is_some()))
        };
        self.by_path.iter().filter(has_rule).copied().collect()
    }

    /// The sessions that have a rule for a path and leave it to another's.
    pub(crate) fn yielding(&self, path: &Path) -> Vec<SessionId> {
        let yields = |id: &&SessionId| {
            let session = self.sessions.get(*id);
            session.is_some_and(|of| of.managers.iter().any(|manager| manager.rules.yields(path)))
        };
        self.by_path.iter().filter(yields).copied().collect()
    }

    /// The rules of all managers that have some.
    pub(crate) fn all_rules(&self) -> Vec<Arc<Compiled>> {
        let sessions = self.by_path.iter().filter_map(|id| self.sessions.get(id));
        let rules = sessions.flat_map(|session| &session.managers).map(|manager| &manager.rules);
        rules.filter(|rules| !rules.is_empty()).map(RuleSet::compiled).collect()
    }

    /// The first rule of any manager that matches a path.
    pub(crate) fn rule_for(&self, path: &Path) -> Option<&Rule> {
        self.rule_before(path, u64::MAX)
    }

    /// The same of the sessions that had begun before `ns`.
    pub(crate) fn rule_before(&self, path: &Path, ns: u64) -> Option<&Rule> {
        let sessions = self.by_path.iter().filter_map(|id| self.sessions.get(id));
        let sessions = sessions.filter(|session| session.began_ns < ns);
        sessions.flat_map(|session| &session.managers).find_map(|manager| manager.rules.find(path))
    }
}

/// The living descendants of a process and itself, parents first, as far as `most_threads` threads know of children, so that nobody has to wait for one with many.
pub(crate) fn tree_within(root: u32, most_threads: usize) -> Vec<u32> {
    let mut tree = vec![root];
    let (mut next, mut asked) = (0, 0);
    while let Some(&pid) = tree.get(next) {
        next += 1;
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.filter_map(Result::ok) {
            if asked == most_threads {
                return tree;
            }
            asked += 1;
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            tree.extend(children.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
    }
    tree
}

/// The same without ourselves and what we have started, whose reads are nobody's references: a job may have started us.
pub(crate) fn tree_without_us(root: u32, most_threads: usize) -> Vec<u32> {
    let mut tree = tree_within(root, most_threads);
    if tree.contains(&std::process::id()) {
        let ours = tree_within(std::process::id(), most_threads);
        tree.retain(|pid| !ours.contains(pid));
    }
    tree
}

/// The effective user of a process; root when there is no such process any more.
pub(crate) fn user_of(pid: u32) -> u32 {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(format!("/proc/{pid}")).map_or(0, |metadata| metadata.uid())
}

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned().saturating_mul(1_000_000_000).saturating_add(now.tv_nsec.cast_unsigned())
}

fn credentials(pid: u32) -> Option<Credentials> {
    Credentials::read(&fs::read(format!("/proc/{pid}/status")).ok()?)
}

/// The name of a process.
pub(crate) fn name_of(pid: u32) -> io::Result<String> {
    Ok(proc_text::name(&fs::read(format!("/proc/{pid}/comm"))?))
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
        let id = sessions.add(
            prepared,
            &ids,
            Origin { root: 1, user: 0, account: 0, enclosing: None, by_descriptors: false },
        );
        (sessions, id)
    }

    #[test]
    fn a_program_whose_name_is_no_text_is_known_as_others_are() {
        use std::os::unix::ffi::OsStringExt;
        let own = credentials(std::process::id()).unwrap();
        assert_eq!(own.users[1], rustix::process::geteuid().as_raw());
        assert_eq!(credentials(u32::MAX), None);
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let program = directory.path().join(std::ffi::OsString::from_vec(b"\xff\xfe(".to_vec()));
        foretell_testkit::programs::copy("/bin/sleep", &program);
        let mut child = std::process::Command::new(&program).arg("60").spawn().unwrap();
        // It is let go of a moment before it has its new name.
        let before = crate::proc_text::name(&fs::read("/proc/thread-self/comm").unwrap());
        let began = std::time::Instant::now();
        while name_of(child.id()).as_ref().ok() == Some(&before) && began.elapsed().as_secs() < 30 {
            std::thread::yield_now();
        }
        let (name, rights) = (name_of(child.id()), credentials(child.id()));
        let alive = crate::observe::is_alive(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((name.as_deref().ok(), rights, alive), (Some("\u{fffd}\u{fffd}("), Some(own), true));
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
        let tree = tree_within(std::process::id(), usize::MAX);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(tree[0], std::process::id());
        assert!(tree.contains(&child.id()));
        assert_eq!(tree_within(std::process::id(), 0), [std::process::id()]);
        assert_eq!(tree_without_us(std::process::id(), usize::MAX), []);
    }

    #[test]
    fn queues_are_counted_by_user() {
        let (mut sessions, first) = session(&[spec("a", &[])]);
        let prepared = Prepared::new(&[spec("b", &[])]).unwrap();
        let origin = Origin { root: 2, user: 7, account: 7, enclosing: Some(first), by_descriptors: true };
        let second = sessions.add(prepared, &[ManagerId(9)], origin);
        let chunk = Chunk { list: 0, file: FileId(0), next: 0, end: 1 };
        (0..3).for_each(|_| sessions.queue(first, 0, chunk));
        sessions.queue(second, 0, chunk);
        assert_eq!((sessions.queued(0), sessions.queued(7)), ((4, 3), (4, 1)));
        sessions.unqueue(first, 0);
        assert_eq!(sessions.empty_queue(second, 0), 1);
        assert_eq!((sessions.queued(0), sessions.queued(7)), ((2, 2), (2, 0)));
        sessions.remove(first);
        assert_eq!(sessions.queued(0), (0, 0));
        assert!(sessions.listing.iter().all(|(session, _)| *session == second));
    }

    #[test]
    fn the_room_of_what_has_waited_is_given_back() {
        let (mut sessions, id) = session(&[spec("a", &[])]);
        let chunk = Chunk { list: 0, file: FileId(0), next: 0, end: 1 };
        let room = |sessions: &Sessions| sessions.manager(id, 0).unwrap().queue.capacity();
        (0..10_000).for_each(|_| sessions.queue(id, 0, chunk));
        for left in (0..10_000).rev() {
            sessions.unqueue(id, 0);
            assert!(room(&sessions) <= 4 * left + 4, "{left}: {}", room(&sessions));
        }
    }

    #[test]
    fn when_the_enclosing_session_ends_the_one_around_it_takes_its_place() {
        let (mut sessions, outer) = session(&[spec("a", &[])]);
        let mut nest = |enclosing| {
            let prepared = Prepared::new(&[spec("b", &[])]).unwrap();
            sessions.add(
                prepared,
                &[ManagerId(9)],
                Origin { root: 2, user: 0, account: 0, enclosing: Some(enclosing), by_descriptors: true },
            )
        };
        let middle = nest(outer);
        let inner = nest(middle);
        sessions.remove(middle);
        assert_eq!(sessions.get(inner).map(|s| s.origin.enclosing), Some(Some(outer)));
    }
}
