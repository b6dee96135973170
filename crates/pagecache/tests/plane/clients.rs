//! Programs that control themselves: files by descriptors, directives, disclosures, nested sessions.

use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use foretell_pagecache::{
    ByteRange, ControlError, HeldFile, HoldError, ManagerSpec, Options, Plane, PoolPolicy, Prefetch,
    QueueLimits, Rest, SessionError, SessionId, SessionSpec,
};

use crate::program::Program;
use crate::stage::{BLOCK, cached_blocks, options, stage, undisturbed};

/// A plane with one program that speaks for itself.
struct Client {
    plane: Plane,
    program: Program,
    session: SessionId,
}

fn open(path: &Path) -> OwnedFd {
    File::open(path).unwrap().into()
}

fn blocks(first: u64, count: u64) -> ByteRange {
    ByteRange { offset: first * BLOCK, length: count * BLOCK }
}

impl Client {
    fn new(options: Options) -> Client {
        let mut plane = Plane::open(options).unwrap();
        let program = Program::start();
        let session = plane.add_client(program.pid(), 7, 7).unwrap();
        Client { plane, program, session }
    }

    fn hold(&mut self, path: &Path) -> HeldFile {
        self.plane.hold_file(self.session, open(path), None).unwrap()
    }

    fn finish(&mut self, mut rest: Option<Rest>) {
        while let Some(left) = rest {
            rest = self.plane.go_on(self.session, left).unwrap();
        }
    }

    fn run(&mut self, line: &str) {
        self.program.tell(line);
        while self.plane.step(&[self.program.answers()], Duration::from_millis(10)).unwrap().is_empty() {}
        assert_eq!(self.program.answer(), "done");
        self.settle();
    }

    /// Steers until something is so; half a minute at most.
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Client) -> bool) {
        let start = Instant::now();
        while !is_so(self) {
            assert!(start.elapsed() < Duration::from_secs(180), "never: {what}");
            self.plane.step(&[], Duration::from_millis(10)).unwrap();
        }
    }

    fn settle(&mut self) {
        for _ in 0..20 {
            self.plane.step(&[], Duration::from_millis(2)).unwrap();
        }
    }
}

#[test]
fn a_cyclic_scan_under_mru_keeps_what_the_budget_holds() {
    let Some(stage) = stage("a_cyclic_scan_under_mru_keeps_what_the_budget_holds") else { return };
    let path = stage.file("a", 128);
    let report = undisturbed(|| {
        crate::stage::chill(&path);
        let mut client = Client::new(options(64));
        let file = client.hold(&path);
        client.plane.set_policy(client.session, 0, PoolPolicy::Mru).unwrap();
        assert_eq!(client.plane.policy(client.session, 0), Ok(PoolPolicy::Mru));
        assert_eq!(client.plane.priority(client.session, file), Ok(0));
        client.run(&format!("open f {} random", path.display()));
        client.run(&format!("pass f {BLOCK} 3"));
        Some(client.plane.report()).filter(|report| report.counts.foreign_evictions == 0)
    });
    assert_eq!(report.counts.references, 3 * 128);
    // MRU: 128 misses at first, then about 64 and a few a pass; LRU would miss all 384.
    assert!(report.counts.demand_fetches < 300, "{}", report.counts.demand_fetches);
}

#[test]
fn files_that_were_not_named_are_none_of_ours() {
    let Some(stage) = stage("files_that_were_not_named_are_none_of_ours") else { return };
    let (named, other) = (stage.file("named", 16), stage.file("other", 16));
    // Whoever shares the machine may drop what is cached of all files.
    let (status, counts, pid) = undisturbed(|| {
        [&named, &other].into_iter().for_each(|path| crate::stage::chill(path));
        let mut client = Client::new(options(32));
        client.hold(&named);
        for path in [&named, &other] {
            client.run(&format!("open f {}", path.display()));
            client.run(&format!("pass f {BLOCK} 1"));
        }
        let (status, counts) = (client.plane.status(), client.plane.session_counts(client.session));
        Some((status, counts, client.program.pid())).filter(|_| counts.foreign_evictions == 0)
    });
    assert_eq!(status.files.len(), 1);
    assert_eq!((status.files[0].path.as_path(), status.files[0].counts.references), (named.as_path(), 16));
    assert_eq!(status.files[0].sessions, [1]);
    assert_eq!(status.files[0].user, Some(7));
    assert_eq!((status.processes.len(), status.processes[0].counts.references), (1, 16));
    let manager = &status.managers[0];
    assert_eq!((manager.user, manager.root_pid), (7, pid));
    assert!(manager.owned_blocks > 0, "{status:?}");
    let json = serde_json::to_string(&status).unwrap();
    assert_eq!(serde_json::from_str::<foretell_pagecache::Status>(&json).unwrap(), status);
    assert_eq!(counts.references, 16);
}

#[test]
fn what_is_disclosed_is_fetched_and_what_is_done_with_goes() {
    let Some(stage) = stage("what_is_disclosed_is_fetched_and_what_is_done_with_goes") else { return };
    let path = stage.file("a", 64);
    let mut client = Client::new(options(128));
    let file = client.hold(&path);
    client.plane.disclose_held(client.session, file, Some(blocks(8, 4))).unwrap();
    client.plane.disclose_held(client.session, file, Some(ByteRange { offset: 0, length: 1 })).unwrap();
    client.settle();
    client.until("all is fetched", |client| client.plane.status().counts.prefetches == 5);
    client.settle();
    assert_eq!(cached_blocks(&path), [0, 8, 9, 10, 11]);
    client.run(&format!("open f {} random", path.display()));
    client.run(&format!("read f {} {}", 8 * BLOCK, 4 * BLOCK));
    // Block 8 ends behind the range, 11 is the last whose last byte lies in it.
    let range = ByteRange { offset: 9 * BLOCK, length: 3 * BLOCK + 10 };
    let rest = client.plane.done_with(client.session, file, range).unwrap();
    client.finish(rest);
    client.until("the rest is dropped", |_| cached_blocks(&path) == [0, 8]);
    assert_eq!(client.plane.managers(client.session)[0].owned_blocks, 2);
}

#[test]
fn a_withdrawn_list_is_not_fetched_any_more() {
    let Some(stage) = stage("a_withdrawn_list_is_not_fetched_any_more") else { return };
    let path = stage.file("a", 64);
    let mut client = Client::new(Options { prefetch: Prefetch::None, ..options(32) });
    let file = client.hold(&path);
    for _ in 0..3 {
        client.plane.disclose_held(client.session, file, None).unwrap();
    }
    client.settle();
    assert_eq!(client.plane.managers(client.session)[0].disclosed_ahead, 3 * 64);
    client.plane.cancel(client.session).unwrap();
    assert_eq!(client.plane.managers(client.session)[0].disclosed_ahead, 0);
}

#[test]
fn priorities_decide_who_goes_first() {
    let Some(stage) = stage("priorities_decide_who_goes_first") else { return };
    let (hot, cold) = (stage.file("hot", 16), stage.file("cold", 96));
    let cached = undisturbed(|| {
        [&hot, &cold].into_iter().for_each(|path| crate::stage::chill(path));
        let mut client = Client::new(options(48));
        let [of_hot, of_cold] = [&hot, &cold].map(|path| client.hold(path));
        client.plane.set_priority(client.session, of_hot, 1).unwrap();
        assert_eq!(client.plane.priority(client.session, of_hot), Ok(1));
        for (name, path) in [("h", &hot), ("c", &cold)] {
            client.run(&format!("open {name} {} random", path.display()));
            client.run(&format!("pass {name} {BLOCK} 1"));
        }
        // The hot blocks would have gone long ago.
        let kept = cached_blocks(&hot).len();
        // A temporary priority below all others makes them the first to go.
        let rest = client.plane.set_temporary_priority(client.session, of_hot, blocks(0, 8), -1).unwrap();
        client.finish(rest);
        client.plane.release_file(client.session, of_cold);
        let _ = client.plane.hold_file(client.session, open(&cold), None).unwrap();
        client.run(&format!("pass c {BLOCK} 1"));
        let report = client.plane.report();
        (report.counts.foreign_evictions == 0).then(|| (kept, cached_blocks(&hot)))
    });
    assert_eq!(cached, (16, (8..16).collect()));
}

#[test]
fn a_descriptor_must_prove_that_the_file_may_be_read() {
    let Some(stage) = stage("a_descriptor_must_prove_that_the_file_may_be_read") else { return };
    let path = stage.file("a", 4);
    let mut client = Client::new(options(32));
    let mut refused = |descriptor: OwnedFd| {
        client.plane.hold_file(client.session, descriptor, None).unwrap_err().to_string()
    };
    let not_a_file = "the descriptor is not of a regular file; give one that is";
    assert_eq!(refused(File::open(&stage.directory).unwrap().into()), not_a_file);
    assert_eq!(refused(File::open("/dev/null").unwrap().into()), not_a_file);
    assert_eq!(refused(std::io::pipe().unwrap().0.into()), not_a_file);
    assert_eq!(refused(std::os::unix::net::UnixStream::pair().unwrap().0.into()), not_a_file);
    let not_readable =
        "the descriptor was not opened for reading, which would prove that the file may be read";
    assert_eq!(refused(OpenOptions::new().append(true).open(&path).unwrap().into()), not_readable);
    let as_path = rustix::fs::open(&path, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
    assert_eq!(refused(as_path), not_readable);
    assert!(refused(File::open("/proc/self/stat").unwrap().into()).contains("on no disk"));
    assert!(refused(tempfile::tempfile_in("/dev/shm").unwrap().into()).contains("on no disk"));
    client.hold(&path);
    let gone = client.session;
    client.plane.end_session(gone);
    assert!(matches!(client.plane.hold_file(gone, open(&path), None), Err(HoldError::NoSession { .. })));
    assert_eq!(
        client.plane.set_policy(gone, 0, PoolPolicy::Mru),
        Err(ControlError::NoSession { session: gone })
    );
}

#[test]
fn a_file_that_was_let_go_of_is_not_known_any_more() {
    let Some(stage) = stage("a_file_that_was_let_go_of_is_not_known_any_more") else { return };
    let path = stage.file("a", 4);
    let mut client = Client::new(options(32));
    let first = client.hold(&path);
    let again = client.hold(&path);
    assert_eq!(first, again, "one file, named twice");
    client.plane.release_file(client.session, first);
    client.plane.set_priority(client.session, again, 3).unwrap();
    client.plane.disclose_held(client.session, again, None).unwrap();
    client.plane.release_file(client.session, again);
    client.plane.release_file(client.session, again);
    assert_eq!(client.plane.set_priority(client.session, first, 1), Err(ControlError::NoFile));
    client.settle();
    assert_eq!(client.plane.status().files, []);
    assert_eq!(client.plane.managers(client.session)[0].queued, 0);
    let anew = client.hold(&path);
    assert_ne!(anew, first);
    assert_eq!(client.plane.priority(client.session, anew), Ok(0), "the old priority is forgotten");
}

#[test]
fn of_many_files_that_are_let_go_of_at_once_each_is_forgotten_by_and_by() {
    const FILES: usize = 48;
    let Some(stage) = stage("of_many_files_that_are_let_go_of_at_once_each_is_forgotten_by_and_by") else {
        return;
    };
    let paths: Vec<_> = (0..FILES).map(|at| stage.file(&at.to_string(), 1)).collect();
    let mut client = Client::new(options(32));
    let files: Vec<_> = paths.iter().map(|path| client.hold(path)).collect();
    client.plane.release_files(client.session, files.iter().copied());
    assert!(files.iter().all(|file| client.plane.file_size(client.session, *file).is_err()));
    assert_eq!(client.plane.status().files.len(), FILES, "who lets go of them does not wait for that");
    client.until("none is known", |client| client.plane.status().files.is_empty());
}

#[test]
fn a_deleted_file_is_followed_and_its_successor_is_another_file() {
    let Some(stage) = stage("a_deleted_file_is_followed_and_its_successor_is_another_file") else { return };
    let path = stage.file("a", 16);
    let mut client = Client::new(options(64));
    client.run(&format!("open f {} random", path.display()));
    let file = client.hold(&path);
    std::fs::remove_file(&path).unwrap();
    stage.file("a", 8);
    // Several rounds of looking at what became of files.
    for _ in 0..4 {
        client.plane.step(&[], Duration::from_millis(110)).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    client.plane.disclose_held(client.session, file, None).unwrap();
    client.until("all is fetched", |client| client.plane.status().counts.prefetches == 16);
    client.run("pass f 8192 1");
    let status = client.plane.status();
    assert_eq!((status.files.len(), status.files[0].counts.references), (1, 16));
    assert_eq!(cached_blocks(&path), [0; 0], "the successor was not touched");
    client.run("close f");
    client.until("its pages are gone", |client| client.plane.status().files[0].cached_bytes == 0);
}

#[test]
fn disclosures_beyond_the_limits_are_refused() {
    let Some(stage) = stage("disclosures_beyond_the_limits_are_refused") else { return };
    let path = stage.file("a", 16);
    let queue_limits = QueueLimits { session: 3, user: 4, all: 6 };
    let limits = Options {
        prefetch: Prefetch::None,
        list_blocks: 4,
        list_blocks_in_all: 6,
        queue_limits,
        ..options(32)
    };
    let mut client = Client::new(limits);
    let file = client.hold(&path);
    let Client { plane, session, .. } = &mut client;
    let mut disclose = |session, file| plane.disclose_held(session, file, Some(blocks(0, 2)));
    assert_eq!([(); 4].map(|()| disclose(*session, file).is_ok()), [true, true, true, false]);
    assert_eq!(disclose(*session, file), Err(ControlError::Queue { limit: 3 }));
    // Four blocks, two chunks, go into the list.
    client.settle();
    let manager = &client.plane.managers(client.session)[0];
    assert_eq!((manager.disclosed_ahead, manager.queued), (4, 1));
    // The user has room for three more chunks.
    let others = [7, 8, 0].map(|user| {
        let program = Program::start();
        let session = client.plane.add_client(program.pid(), user, user).unwrap();
        let file = client.plane.hold_file(session, open(&path), None).unwrap();
        (program, session, file)
    });
    let plane = &mut client.plane;
    let mut disclose = |at: usize| plane.disclose_held(others[at].1, others[at].2, Some(blocks(0, 2)));
    assert_eq!([(); 3].map(|()| disclose(0).is_ok()), [true; 3]);
    assert_eq!(disclose(0), Err(ControlError::Queue { limit: 3 }));
    assert_eq!([disclose(1).is_ok(), disclose(2).is_ok()], [true; 2]);
    assert_eq!(disclose(1), Err(ControlError::QueueInAll { limit: 6 }), "1 + 3 + 2 wait");
    // Two blocks more fit into all lists.
    client.settle();
    let ahead: u64 = client.plane.status().managers.iter().map(|manager| manager.disclosed_ahead).sum();
    assert_eq!(ahead, 6);
}

#[test]
fn one_user_cannot_fill_all_lists() {
    let Some(stage) = stage("one_user_cannot_fill_all_lists") else { return };
    let path = stage.file("a", 16);
    let limits = Options {
        prefetch: Prefetch::None,
        list_blocks: 4,
        list_blocks_in_all: 12,
        list_blocks_of_user: 6,
        ..options(32)
    };
    let mut client = Client::new(limits);
    let users = [7, 7, 7, 8].map(|user| {
        let program = Program::start();
        let session = client.plane.add_client(program.pid(), user, user).unwrap();
        let file = client.plane.hold_file(session, open(&path), None).unwrap();
        client.plane.disclose_held(session, file, Some(blocks(0, 5))).unwrap();
        client.settle();
        (program, session)
    });
    client.settle();
    let ahead = users.each_ref().map(|(_, session)| client.plane.managers(*session)[0].disclosed_ahead);
    assert_eq!(ahead, [4, 2, 0, 4], "six of the one, four of a list of the other");
    let (plane, first) = (&mut client.plane, users[0].1);
    plane.cancel(first).unwrap();
    client.settle();
    let ahead = users.each_ref().map(|(_, session)| client.plane.managers(*session)[0].disclosed_ahead);
    assert_eq!(ahead.iter().take(3).sum::<u64>(), 6, "room that is given up is used: {ahead:?}");
}

#[test]
fn a_process_that_speaks_for_itself_leaves_the_session_of_its_parent() {
    let Some(stage) = stage("a_process_that_speaks_for_itself_leaves_the_session_of_its_parent") else {
        return;
    };
    let path = stage.file("a", 8);
    let mut plane = Plane::open(options(32)).unwrap();
    let shell = std::process::Command::new("sh")
        .args(["-c", "sleep 600 & echo $!; wait"])
        .stdout(std::process::Stdio::piped())
        .spawn();
    let mut shell = shell.unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(shell.stdout.take().unwrap()), &mut line)
        .unwrap();
    let child: u32 = line.trim().parse().unwrap();
    let manager =
        ManagerSpec { name: "all".to_owned(), rules: stage.rule(PoolPolicy::Lru), process_names: vec![] };
    let outer = plane.add_session(SessionSpec::new(shell.id(), vec![manager])).unwrap();
    assert_eq!(plane.live_processes(outer), 2);
    let inner = plane.add_client(child, 0, 0).unwrap();
    assert_eq!((plane.live_processes(outer), plane.live_processes(inner)), (1, 1));
    assert!(
        matches!(plane.add_client(child, 0, 0), Err(SessionError::AlreadyManaged { session, .. }) if session == inner)
    );
    plane.hold_file(inner, open(&path), None).unwrap();
    plane.end_session(inner);
    assert_eq!(plane.live_processes(outer), 2, "it goes back");
    let inner = plane.add_client(child, 0, 0).unwrap();
    plane.end_session(outer);
    assert_eq!(plane.live_processes(inner), 1, "and stays when the outer one ends");
    plane.end_session(inner);
    assert_eq!(plane.status().processes, []);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(child as i32).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    shell.kill().unwrap();
    shell.wait().unwrap();
}

#[test]
fn what_a_client_has_started_before_is_its_own_unless_it_speaks_for_itself() {
    let test = "what_a_client_has_started_before_is_its_own_unless_it_speaks_for_itself";
    if stage(test).is_none() {
        return;
    }
    let mut plane = Plane::open(options(32)).unwrap();
    // A shell, a shell that it has started, and what that has started.
    let shell = std::process::Command::new("sh")
        .args(["-c", "sh -c 'sleep 600 & echo $$ $!; wait' & wait"])
        .stdout(std::process::Stdio::piped())
        .spawn();
    let mut shell = shell.unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(shell.stdout.take().unwrap()), &mut line)
        .unwrap();
    let (middle, leaf) = line.trim().split_once(' ').unwrap();
    let (middle, leaf): (u32, u32) = (middle.parse().unwrap(), leaf.parse().unwrap());

    let client = plane.add_client(middle, 0, 0).unwrap();
    assert_eq!(plane.live_processes(client), 2);
    plane.end_session(client);
    assert_eq!(plane.status().processes, []);

    let own = plane.add_client(leaf, 0, 0).unwrap();
    let client = plane.add_client(middle, 0, 0).unwrap();
    assert_eq!((plane.live_processes(client), plane.live_processes(own)), (1, 1));
    plane.end_session(own);
    plane.end_session(client);

    let manager = ManagerSpec { name: "all".to_owned(), ..ManagerSpec::default() };
    let run = plane.add_session(SessionSpec::new(shell.id(), vec![manager])).unwrap();
    assert_eq!(plane.live_processes(run), 3);
    let client = plane.add_client(middle, 0, 0).unwrap();
    assert_eq!((plane.live_processes(run), plane.live_processes(client)), (1, 2));
    plane.end_session(client);
    assert_eq!(plane.live_processes(run), 3, "they go back");

    // In this order: without the leaf the middle one may have ended by itself.
    for pid in [middle, leaf] {
        let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    shell.wait().unwrap();
}

#[test]
fn thousands_of_sessions_come_and_go() {
    let Some(stage) = stage("thousands_of_sessions_come_and_go") else { return };
    let path = stage.file("a", 8);
    let mut client = Client::new(options(32));
    let child = std::process::Command::new("sleep").arg("600").spawn();
    let mut child = child.unwrap();
    for _ in 0..3000 {
        let session = client.plane.add_client(child.id(), 9, 9).unwrap();
        let file = client.plane.hold_file(session, open(&path), None).unwrap();
        client.plane.set_priority(session, file, -1).unwrap();
        client.plane.end_session(session);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let status = client.plane.status();
    assert_eq!((status.managers.len(), status.files.len()), (1, 0));
}
