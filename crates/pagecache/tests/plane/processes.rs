//! Process trees, managers, sessions, conflicts, and the report about them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use foretell_pagecache::watch::{Gather, Totals};
use foretell_pagecache::{Counters, ManagerSpec, OpenError, Options, Plane, PoolPolicy, Rule, SessionSpec};
use foretell_recording::{Recording, Way};

use crate::program::Program;
use crate::stage::{BLOCK, Play, cached_blocks, file_at, options, rule_below, stage};

#[test]
fn what_the_program_starts_belongs_to_it() {
    let Some(stage) = stage("what_the_program_starts_belongs_to_it") else { return };
    let path = stage.file("a", 64);
    let mut play = Play::new(options(128), stage.rule(PoolPolicy::Lru));
    // The shell starts cat; both are descendants.
    play.run(&format!("child sh -c cat<{}|cat", path.display()));
    let report = play.report();
    assert_eq!(report.counts.references, 64);
    let cat = report.processes.iter().find(|process| process.counts.references > 0).unwrap();
    assert_eq!((cat.name.as_str(), cat.manager.as_str()), ("cat", "all"));
    assert_eq!(report.files[0].counts.references, 64);
    assert_eq!(report.files[0].path, path);
    assert_eq!(play.plane.live_processes(play.session), 1);
    let json = serde_json::to_value(&report).unwrap();
    let besides = [
        "elapsed_s",
        "wait_s",
        "daemon_cpu_s",
        "budget_bytes",
        "block_bytes",
        "lost_events",
        "device_read_bytes",
        "passed_bytes",
        "belady_fetches",
        "processes",
        "files",
    ];
    let expected: BTreeSet<&str> =
        besides.into_iter().chain(Counters::TABLE.iter().map(|counter| counter.name)).collect();
    let there = json.as_object().unwrap().keys().map(String::as_str);
    // Written only where they say something.
    let there = there.filter(|key| !["belady_missing", "left_out"].contains(key));
    assert_eq!(there.collect::<BTreeSet<_>>(), expected);
}

#[test]
fn processes_have_the_manager_that_names_them() {
    let Some(stage) = stage("processes_have_the_manager_that_names_them") else { return };
    let path = stage.file("a", 64);
    let mut plane = Plane::open(options(32)).unwrap();
    let mut program = Program::start();
    let manager = |name: &str, process_names: &[&str], policy| ManagerSpec {
        name: name.to_owned(),
        rules: stage.rule(policy),
        process_names: process_names.iter().map(|&name| name.to_owned()).collect(),
    };
    let managers = vec![manager("rest", &[], PoolPolicy::Mru), manager("cats", &["cat"], PoolPolicy::Mru)];
    plane.add_session(SessionSpec::new(program.pid(), managers)).unwrap();
    program.tell(&format!("child cat {}", path.display()));
    while plane.step(&[program.answers()], Duration::from_millis(10)).unwrap().is_empty() {}
    let report = plane.finish();
    let cat = report.processes.iter().find(|process| process.counts.references > 0).unwrap();
    assert_eq!((cat.name.as_str(), cat.manager.as_str()), ("cat", "cats"));
}

#[test]
fn a_run_is_recorded_while_it_is_steered() {
    let Some(stage) = stage("a_run_is_recorded_while_it_is_steered") else { return };
    let path = stage.file("a", 8);
    let other = stage.file("b", 8);
    let recording = stage.directory.join("recording");
    // No rule matches the other file.
    let rule = Rule { glob: path.display().to_string(), policy: PoolPolicy::Lru, priority: 0 };
    let mut play = Play::new(options(32), vec![rule]);
    let gather = Gather::create(&recording, play.program.pid()).unwrap();
    play.plane.listen(Some(gather));
    play.run(&format!("open g {}", other.display()));
    play.run(&format!("read g 0 {BLOCK}"));
    play.run(&format!("open f {}", path.display()));
    play.run(&format!("pass f {BLOCK} 1"));
    play.run(&format!("read f {} {BLOCK}", 5 * BLOCK));
    let Play { mut plane, program, .. } = play;
    plane.listen(None).unwrap().finish(Totals::default()).unwrap();
    drop(program);
    let Recording { files, accesses, .. } = Recording::read(&recording).unwrap();
    let read: Vec<_> = accesses
        .iter()
        .filter(|access| access.way == Way::Read)
        .map(|access| (files[access.file.0 as usize].path.as_path(), access.first_page, access.pages))
        .filter(|(file, ..)| file.starts_with(&stage.directory))
        .collect();
    assert_eq!(read, [(other.as_path(), 0, 2), (&path, 0, 16), (&path, 10, 2)]);
}

#[test]
fn where_another_rule_holds_a_later_session_leaves_files_alone() {
    let Some(stage) = stage("where_another_rule_holds_a_later_session_leaves_files_alone") else { return };
    let path = stage.file("a", 8);
    let elsewhere = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let elsewhere = std::fs::canonicalize(elsewhere.path()).unwrap();
    let mut play = Play::new(options(32), stage.rule(PoolPolicy::Lru));
    play.run(&format!("open f {}", path.display()));
    play.run(&format!("read f 0 {BLOCK}"));
    assert_eq!(play.plane.conflicts(&stage.rule(PoolPolicy::Lru), u64::MAX).unwrap(), []);
    let conflicts = play.plane.conflicts(&stage.rule(PoolPolicy::Mru), u64::MAX).unwrap();
    assert_eq!(conflicts.len(), 1);
    let began_ns = play.plane.began_ns(play.session);
    assert_eq!(
        play.plane.conflicts(&stage.rule(PoolPolicy::Mru), began_ns).unwrap(),
        [],
        "it was not there then"
    );
    assert_eq!(
        conflicts[0].to_string(),
        format!(
            "{} is managed already as lru, priority 0; rule '{}/**' asks for mru, priority 0",
            path.display(),
            stage.directory.display()
        )
    );
    let other = file_at(elsewhere.join("b"), 8);
    let mut second = Program::start();
    let rules =
        [rule_below(&stage.directory, PoolPolicy::Mru), rule_below(&elsewhere, PoolPolicy::Mru)].concat();
    let manager = ManagerSpec { name: "b".to_owned(), rules: rules.clone(), process_names: Vec::new() };
    let session = play.plane.add_session(SessionSpec::new(second.pid(), vec![manager])).unwrap();
    let left_out = read_both(&mut play.plane, &mut second, &path, &other);
    assert_eq!(left_out, [(path.clone(), true)]);
    let by_file: Vec<_> =
        play.plane.report().files.into_iter().map(|f| (f.path, f.counts.references)).collect();
    assert_eq!(by_file, [(path.clone(), 2), (other.clone(), 1)], "{session:?}");

    // The same where they have planes of their own: the file is none of the second one's.
    drop(play);
    let mut plane = Plane::open(options(32)).unwrap();
    let mut third = Program::start();
    let manager = ManagerSpec { name: "c".to_owned(), rules: rules.clone(), process_names: Vec::new() };
    let before = plane.add_session(SessionSpec::new(third.pid(), vec![manager])).unwrap();
    plane.yield_to(before, &stage.rule(PoolPolicy::Lru)).unwrap();
    let began_ns = plane.began_ns(before);
    assert!(plane.rules_before(began_ns).is_empty(), "its own are not older than itself");
    assert_eq!(plane.rules_before(began_ns + 1), [rules]);
    assert_eq!(read_both(&mut plane, &mut third, &path, &other), [(path, true)]);
    let files = plane.report().files;
    assert_eq!(files.iter().map(|file| &file.path).collect::<Vec<_>>(), [&other]);
}

/// Reads a block of each of two files; what was left out then, and whether that is said to be for another's rule.
fn read_both(plane: &mut Plane, program: &mut Program, a: &Path, b: &Path) -> Vec<(PathBuf, bool)> {
    for line in [
        format!("open a {}", a.display()),
        format!("read a 0 {BLOCK}"),
        format!("open b {}", b.display()),
        format!("read b 0 {BLOCK}"),
    ] {
        program.tell(&line);
        while plane.step(&[program.answers()], Duration::from_millis(10)).unwrap().is_empty() {}
        assert_eq!(program.answer(), "done");
    }
    (0..20).for_each(|_| drop(plane.step(&[], Duration::from_millis(2)).unwrap()));
    let left_out = plane.report().left_out;
    left_out.into_iter().map(|left| (left.path, left.what.contains("another policy"))).collect()
}

#[test]
fn a_session_that_has_ended_leaves_its_program_to_the_kernel() {
    let Some(stage) = stage("a_session_that_has_ended_leaves_its_program_to_the_kernel") else { return };
    let path = stage.file("a", 256);
    let mut play = Play::new(options(32), stage.rule(PoolPolicy::Lru));
    play.run(&format!("open f {}", path.display()));
    play.run(&format!("shuffled f {BLOCK} 1 0"));
    play.plane.end_session(play.session);
    play.run(&format!("pass f {BLOCK} 1"));
    assert_eq!(cached_blocks(&path).len(), 256);
    let report = play.report();
    // Of a few reads of what is still being fetched the kernel tells nothing (`mm/filemap.c`, `filemap_get_pages`).
    let references = report.counts.references;
    assert!((253..=256).contains(&references), "{report:?}");
    assert_eq!(report.processes.len(), 1);
    assert_eq!((report.files.len(), report.files[0].counts.references), (1, references));
    // And it can be taken under control again.
    let manager =
        ManagerSpec { name: "b".to_owned(), rules: stage.rule(PoolPolicy::Lru), process_names: Vec::new() };
    let spec = SessionSpec::new(play.program.pid(), vec![manager]);
    play.plane.add_session(spec).unwrap();
    play.run(&format!("shuffled f {BLOCK} 1 0"));
    play.until("it is within the budget", |_| cached_blocks(&path).len() <= 32 + 64);
}

#[test]
fn sessions_that_cannot_be_are_refused() {
    let Some(stage) = stage("sessions_that_cannot_be_are_refused") else { return };
    let mut play = Play::new(options(32), stage.rule(PoolPolicy::Lru));
    let mut add = |root_pid, glob: &str| {
        let rules = vec![Rule { glob: glob.to_owned(), policy: PoolPolicy::Lru, priority: 0 }];
        let manager = ManagerSpec { name: "m".to_owned(), rules, process_names: Vec::new() };
        play.plane.add_session(SessionSpec::new(root_pid, vec![manager])).unwrap_err().to_string()
    };
    let own = play.program.pid();
    assert_eq!(add(own, "/x"), format!("process {own} is under control already, in session 1"));
    assert_eq!(add(4_194_304, "/x"), "process 4194304 does not exist");
    assert!(add(std::process::id(), "/[").starts_with("manager 'm': pattern '/[': "));
}

#[test]
fn options_out_of_range_are_refused() {
    let refused = |options: Options| Plane::open(options).unwrap_err();
    let good = || Options::new(1 << 20);
    assert_eq!(
        refused(Options { budget_bytes: 1000, ..good() }).to_string(),
        "a budget of 1000 bytes is smaller than one batch; give at least 131072 bytes"
    );
    assert!(matches!(refused(Options { budget_bytes: 1 << 60, ..good() }), OpenError::BudgetTooLarge { .. }));
    assert!(matches!(refused(Options { block_bytes: 5000, ..good() }), OpenError::BlockSize { .. }));
    assert!(matches!(refused(Options { batch: 0, ..good() }), OpenError::OutOfRange { option: "batch", .. }));
    assert!(matches!(refused(Options { realtime_share: f64::NAN, ..good() }), OpenError::OutOfRange { .. }));
}
