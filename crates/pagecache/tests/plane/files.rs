//! Files that are renamed, cut, deleted or replaced while under control.

use std::fs;

use foretell_pagecache::{HintChunk, PoolPolicy};

use crate::stage::{BLOCK, Play, cached_blocks, options, stage};

#[test]
fn a_renamed_file_stays_under_control() {
    let Some(stage) = stage("a_renamed_file_stays_under_control") else { return };
    let (path, new) = (stage.file("a", 256), stage.directory.join("b"));
    let mut play = Play::new(options(32), stage.rule(PoolPolicy::Lru));
    play.run(&format!("open f {}", path.display()));
    play.run(&format!("read f 0 {BLOCK}"));
    fs::rename(&path, &new).unwrap();
    play.run(&format!("shuffled f {BLOCK} 1 0"));
    play.until("what was decided is done", |_| cached_blocks(&new).len() == 32);
    play.until("the new name is known", |play| play.report().files[0].path == new);
    assert_eq!(play.report().files.len(), 1);
}

#[test]
fn what_is_cut_off_is_gone_and_what_is_listed_of_it_is_passed_over() {
    let Some(stage) = stage("what_is_cut_off_is_gone_and_what_is_listed_of_it_is_passed_over") else {
        return;
    };
    let path = stage.file("a", 64);
    let mut play = Play::new(options(128), stage.rule(PoolPolicy::Lru));
    play.run(&format!("open f {} rw", path.display()));
    play.run(&format!("shuffled f {BLOCK} 1 0"));
    play.run(&format!("truncate f {}", 16 * BLOCK));
    let gone = play.report().counts.foreign_evictions;
    assert_eq!(gone, 48);
    // Blocks beyond the end that were disclosed before it moved.
    let hint = HintChunk { path: path.clone(), offset: 0, length: None };
    play.plane.disclose(play.session, 0, &[hint]).unwrap();
    play.run(&format!("truncate f {}", 4 * BLOCK));
    play.run(&format!("pass f {BLOCK} 1"));
    assert_eq!(cached_blocks(&path), [0, 1, 2, 3]);
}

#[test]
fn the_space_of_a_deleted_file_is_freed_when_its_users_close_it() {
    let Some(stage) = stage("the_space_of_a_deleted_file_is_freed_when_its_users_close_it") else { return };
    let path = stage.file("a", 64);
    let mut play = Play::new(options(128), stage.rule(PoolPolicy::Lru));
    play.run(&format!("open f {}", path.display()));
    play.run(&format!("shuffled f {BLOCK} 1 0"));
    fs::remove_file(&path).unwrap();
    let holds = || {
        let links = fs::read_dir("/proc/self/fd").unwrap();
        let mut targets = links.filter_map(|link| fs::read_link(link.unwrap().path()).ok());
        targets.any(|target| target.to_string_lossy().starts_with(path.to_str().unwrap()))
    };
    play.until("our descriptor is closed", |_| !holds());
    play.run("close f");
    // Its pages go with it, and then it is forgotten.
    play.until("the file is gone", |play| play.report().counts.foreign_evictions == 64);
}

/// A deleted file that is still being read stays within the budget.
#[test]
fn a_deleted_file_that_is_open_is_still_managed() {
    let Some(stage) = stage("a_deleted_file_that_is_open_is_still_managed") else { return };
    let path = stage.file("a", 256);
    let mut play = Play::new(options(32), stage.rule(PoolPolicy::Lru));
    play.run(&format!("open f {} random", path.display()));
    play.run(&format!("read f 0 {BLOCK}"));
    fs::remove_file(&path).unwrap();
    (0..100).for_each(|_| play.settle());
    play.run(&format!("shuffled f {BLOCK} 1 0"));
    let counts = play.report().counts;
    assert!(counts.demand_fetches >= 256, "{counts:?}");
    assert_eq!(
        counts.evictions - counts.evictions_refused,
        counts.demand_fetches - 32 - counts.foreign_evictions,
        "{counts:?}"
    );
}

#[test]
fn a_replaced_file_is_a_new_one_under_the_same_rules() {
    let Some(stage) = stage("a_replaced_file_is_a_new_one_under_the_same_rules") else { return };
    let (path, new) = (stage.file("a", 64), stage.file("b.new", 128));
    let mut play = Play::new(options(32), stage.rule(PoolPolicy::Lru));
    play.run(&format!("open f {} random", path.display()));
    play.run(&format!("shuffled f {BLOCK} 1 0"));
    fs::rename(&new, &path).unwrap();
    play.run(&format!("open f {} random", path.display()));
    play.run(&format!("shuffled f {BLOCK} 2 0"));
    assert_eq!(cached_blocks(&path).len(), 32);
    let report = play.report();
    assert_eq!(report.counts.references, 64 + 128);
    assert_eq!(report.counts.demand_fetches, 64 + 128);
}

#[test]
fn what_was_cached_before_is_under_control_from_the_first_read_on() {
    let Some(stage) = stage("what_was_cached_before_is_under_control_from_the_first_read_on") else { return };
    let path = stage.file("a", 256);
    // Read by nobody under control: in large folios, too.
    fs::read(&path).unwrap();
    assert_eq!(cached_blocks(&path).len(), 256);
    let mut play = Play::new(options(32), stage.rule(PoolPolicy::Lru));
    play.run(&format!("open f {}", path.display()));
    play.run(&format!("read f 0 {BLOCK}"));
    play.run(&format!("shuffled f {BLOCK} 1 0"));
    play.run(&format!("shuffled f {BLOCK} 2 0"));
    let cached = cached_blocks(&path).len();
    assert!(cached <= 32 + 64, "{cached} {:?}", play.report().counts);
}

#[test]
fn files_that_no_rule_names_are_left_alone() {
    let Some(stage) = stage("files_that_no_rule_names_are_left_alone") else { return };
    let path = stage.file("a", 256);
    let mut play = Play::new(options(32), Vec::new());
    play.run(&format!("open f {}", path.display()));
    play.run(&format!("pass f {BLOCK} 2"));
    let report = play.report();
    assert_eq!((report.counts.references, report.files.len()), (0, 0));
    assert_eq!(cached_blocks(&path).len(), 256);
}
