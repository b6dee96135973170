//! Process trees, managers, sessions, conflicts, and the report about them.

use std::time::Duration;

use foretell_pagecache::{
    ManagerSpec, OpenError, Options, Plane, PoolPolicy, Rule, SessionError, SessionSpec,
};

use crate::program::Program;
use crate::stage::{BLOCK, Play, cached_blocks, options, stage};

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
    for key in [
        "elapsed_s",
        "wait_s",
        "daemon_cpu_s",
        "budget_bytes",
        "block_bytes",
        "references",
        "hits",
        "demand_fetches",
        "prefetches",
        "prefetches_useful",
        "prefetches_late",
        "prefetches_wasted",
        "evictions",
        "evictions_refused",
        "foreign_evictions",
        "lost_events",
        "device_read_bytes",
        "belady_fetches",
        "processes",
        "files",
    ] {
        assert!(json.get(key).is_some(), "{key}");
    }
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
    let (report, recorded) = plane.finish();
    recorded.unwrap();
    let cat = report.processes.iter().find(|process| process.counts.references > 0).unwrap();
    assert_eq!((cat.name.as_str(), cat.manager.as_str()), ("cat", "cats"));
}

#[test]
fn the_record_of_a_run_is_a_block_list() {
    let Some(stage) = stage("the_record_of_a_run_is_a_block_list") else { return };
    let path = stage.file("a", 8);
    let record = stage.directory.join("record");
    let wanted = Options { record: Some(record.clone()), ..options(32) };
    let mut play = Play::new(wanted, stage.rule(PoolPolicy::Lru));
    play.run(&format!("open f {}", path.display()));
    play.run(&format!("pass f {BLOCK} 1"));
    play.run(&format!("read f {} {BLOCK}", 5 * BLOCK));
    let Play { plane, program, .. } = play;
    plane.finish().1.unwrap();
    drop(program);
    let name = path.display();
    let expected = format!("{name} 0 {}\n{name} {} {BLOCK}\n", 8 * BLOCK, 5 * BLOCK);
    assert_eq!(std::fs::read_to_string(record).unwrap(), expected);
}

#[test]
fn another_policy_for_a_managed_file_is_a_conflict() {
    let Some(stage) = stage("another_policy_for_a_managed_file_is_a_conflict") else { return };
    let path = stage.file("a", 8);
    let mut play = Play::new(options(32), stage.rule(PoolPolicy::Lru));
    play.run(&format!("open f {}", path.display()));
    play.run(&format!("read f 0 {BLOCK}"));
    assert_eq!(play.plane.conflicts(&stage.rule(PoolPolicy::Lru)).unwrap(), []);
    let conflicts = play.plane.conflicts(&stage.rule(PoolPolicy::Mru)).unwrap();
    assert_eq!(conflicts.len(), 1);
    assert_eq!(
        conflicts[0].to_string(),
        format!(
            "{} is managed already as lru, priority 0; rule '{}/**' asks for mru, priority 0",
            path.display(),
            stage.directory.display()
        )
    );
    let second = Program::start();
    let manager =
        ManagerSpec { name: "b".to_owned(), rules: stage.rule(PoolPolicy::Mru), process_names: Vec::new() };
    let spec = SessionSpec::new(second.pid(), vec![manager]);
    assert!(matches!(play.plane.add_session(spec), Err(SessionError::Conflict(_))));
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
    assert_eq!(report.counts.references, 256);
    assert_eq!(report.processes.len(), 1);
    assert_eq!((report.files.len(), report.files[0].counts.references), (1, 256));
    // And it can be taken under control again.
    let manager =
        ManagerSpec { name: "b".to_owned(), rules: stage.rule(PoolPolicy::Lru), process_names: Vec::new() };
    let spec = SessionSpec::new(play.program.pid(), vec![manager]);
    play.plane.add_session(spec).unwrap();
    play.run(&format!("shuffled f {BLOCK} 1 0"));
    let cached = cached_blocks(&path).len();
    assert!(cached <= 32 + 64, "{cached}");
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
    let nowhere = Options { record: Some("/nonexistent/record".into()), ..good() };
    assert!(matches!(refused(nowhere), OpenError::Record { .. }));
}
