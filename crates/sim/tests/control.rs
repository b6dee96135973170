//! Rules and lists: what is simulated is what a run would do.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use foretell_device::DeviceParameters;
use foretell_policy::{Block, FileId, PoolPolicy, Prefetch};
use foretell_sim::{Cell, Control, Input, InputReference, PolicyName, Survey, replace_only, simulate};
use foretell_testkit::{fetches, seeded};
use proptest::prelude::*;

const FILES: u32 = 3;
const FILE_BLOCKS: u32 = 12;

/// References (file, block) of some processes, a ms between them.
fn input(processes: &[Vec<(u32, u32)>]) -> Input {
    let process = |references: &Vec<(u32, u32)>| -> Vec<InputReference> {
        references
            .iter()
            .map(|&(file, block)| InputReference { file, block, compute_ns: 1_000_000 })
            .collect()
    };
    let mut input = Input::default();
    input.processes = processes.iter().map(process).collect();
    input.survey = Survey {
        file_blocks: vec![FILE_BLOCKS; FILES as usize],
        references: processes.iter().map(|p| p.len() as u64).sum(),
        processes: processes.len(),
        ..Survey::default()
    };
    input
}

fn cell(policy: PolicyName, cache_blocks: u32, control: Control) -> Cell {
    let device = DeviceParameters::uniform(5.0, 1 << 40);
    Cell { control: Some(Arc::new(control)), ..Cell::new(policy, 1, "uniform", device, cache_blocks) }
}

fn references() -> impl Strategy<Value = Vec<(u32, u32)>> {
    prop::collection::vec((0..FILES, 0..FILE_BLOCKS), 1..200)
}

proptest! {
    #![proptest_config(seeded(300))]

    /// With a device and without one the same blocks are fetched, whatever the rules say of which file.
    #[test]
    fn counting_is_the_simulation_without_time(
        references in references(),
        cache_blocks in 1u32..30,
        files in prop::collection::vec(prop::option::of(-1i32..2), FILES as usize),
        mru in any::<[bool; 3]>(),
    ) {
        let levels = (-1..2).zip(mru).map(|(level, mru)| (level, if mru { PoolPolicy::Mru } else { PoolPolicy::Lru }));
        let control = Control { files, levels: levels.collect(), list: None };
        let input = input(&[references]);
        let cell = cell(PolicyName::Demand(PoolPolicy::Lru), cache_blocks, control);
        let run = simulate(&cell, &input).unwrap();
        prop_assert_eq!(run.fetches, replace_only(&cell, &input).unwrap().fetches);
    }

    /// One rule for all files is the policy of that name, and files without a rule are under LRU.
    #[test]
    fn one_rule_for_all_is_that_policy(references in references(), cache_blocks in 1u32..30) {
        let dense: Vec<u32> = references.iter().map(|&(file, block)| file * FILE_BLOCKS + block).collect();
        let input = input(&[references]);
        let counted = |files: Vec<Option<i32>>| {
            let control = Control { files, levels: vec![(0, PoolPolicy::Mru)], list: None };
            replace_only(&cell(PolicyName::Demand(PoolPolicy::Lru), cache_blocks, control), &input).unwrap().fetches
        };
        prop_assert_eq!(counted(vec![Some(0); 3]), fetches::mru(&dense, cache_blocks as usize));
        prop_assert_eq!(counted(vec![None; 3]), fetches::lru(&dense, cache_blocks as usize));
    }

    /// The trace's own order as a list is the same as disclosing it.
    #[test]
    fn a_list_in_the_traces_order_is_complete_hints(references in references(), cache_blocks in 4u32..30) {
        let list = references.iter().map(|&(file, block)| Block::new(FileId(file), block)).collect();
        let input = input(&[references]);
        for policy in [PolicyName::Planner(Prefetch::Forestall), PolicyName::Planner(Prefetch::Aggressive), PolicyName::Optimal] {
            let files = vec![Some(0); 3];
            let own = Control { files: files.clone(), ..Control::default() };
            let own = simulate(&cell(policy, cache_blocks, own), &input).unwrap();
            let given = Control { files, list: Some(Vec::clone(&list)), ..Control::default() };
            let given = simulate(&cell(policy, cache_blocks, given), &input).unwrap();
            prop_assert_eq!((own.elapsed_ns, own.fetches), (given.elapsed_ns, given.fetches), "{}", policy);
        }
    }

    /// Several processes under one list, some files left to the kernel: every run ends and adds up.
    #[test]
    fn processes_share_a_list(
        processes in prop::collection::vec(references(), 1..4),
        cache_blocks in 1u32..30,
        files in prop::collection::vec(prop::option::of(0i32..2), FILES as usize),
        list in references(),
    ) {
        let list = list.into_iter().map(|(file, block)| Block::new(FileId(file), block)).collect();
        let input = input(&processes);
        for policy in PolicyName::all() {
            let control = Control { files: files.clone(), levels: Vec::new(), list: Some(Vec::clone(&list)) };
            let outcome = simulate(&cell(policy, cache_blocks, control), &input).unwrap();
            prop_assert_eq!(outcome.elapsed_ns, outcome.compute_ns + outcome.driver_ns + outcome.stall_ns);
            prop_assert_eq!(outcome.references, input.references());
        }
    }
}

/// What is left to the kernel is not taken along by the manager's rules: a scan of a file under MRU leaves the blocks
/// of another file alone as LRU would.
#[test]
fn files_without_a_rule_are_left_to_the_kernel() {
    let scan: Vec<(u32, u32)> = (0..6).flat_map(|_| (0..12).map(|block| (0, block))).collect();
    let mixed: Vec<(u32, u32)> =
        scan.chunks(4).flat_map(|c| c.iter().copied().chain([(1, 0), (1, 1)])).collect();
    let input = input(&[mixed]);
    let fetches = |files: Vec<Option<i32>>| {
        let control = Control { files, levels: vec![(0, PoolPolicy::Mru)], list: None };
        replace_only(&cell(PolicyName::Demand(PoolPolicy::Lru), 8, control), &input).unwrap().fetches
    };
    let (all_lru, scan_mru) = (fetches(vec![None; 3]), fetches(vec![Some(0), None, None]));
    assert!(scan_mru < all_lru, "{scan_mru} {all_lru}");
}
