//! The files that rules match before the program starts, and what there is to say of them.
//!
//! A rule that matches nothing is most likely mistyped. And a budget is for what does not fit into memory: where all that
//! the rules match does fit, the kernel alone would read it once, and keep it; a smaller budget has it read again and again.

use std::path::{Path, PathBuf};

use foretell_learn::memory::{Whose, free_bytes_of};

use crate::config::Effective;
use crate::rule::Rule;
use crate::scan::{self, Allowance, Verdict};
use crate::size::human_bytes;
use crate::terminal::warn;

/// Files of a rule that are put under control before the program starts. Of further ones, what is read
/// before they are recognised goes unseen: some hundred microseconds.
const EXPECTED_FILES: usize = 256;
/// Files that take less than this are read again in a moment, whatever the budget.
const LEAST_BYTES: u64 = 16 << 20;
/// They may fill the free memory divided by this for it to be certain that they fit: the job takes some as well.
const CERTAIN_SHARE: u64 = 2;

/// The first files that each rule matches; warns of rules that match none, and, unless all is to be `quiet`, of a budget that
/// is of no use in the memory of the job.
pub(crate) fn files(
    effective: &Effective,
    quiet: bool,
    memory: Whose<'_>,
    allowance: &mut Allowance,
) -> Vec<PathBuf> {
    let (mut expected, mut are_all) = (Vec::new(), true);
    for rule in effective.controlled.iter().flat_map(|c| &c.rules) {
        match scan::matching(rule, EXPECTED_FILES, allowance) {
            Verdict::Found(found) => {
                are_all &= found.are_all;
                expected.extend(found.files);
            }
            Verdict::Nothing => warn_of_nothing(rule),
            Verdict::Unknown => are_all = false,
        }
    }
    if are_all
        && !quiet
        && let Some(free_bytes) = free_bytes_of(memory)
        && let Some(warning) = needless_budget(effective.budget_bytes, &expected, free_bytes)
    {
        warn(&warning);
    }
    expected
}

fn warn_of_nothing(rule: &Rule) {
    let advice = if Path::new(&rule.glob).is_dir() {
        format!("; it is a directory: '{}/**' matches the files in it", rule.glob)
    } else {
        String::new()
    };
    warn(&format!("rule '{rule}' matches no file at present{advice}"));
}

/// What to say of a budget when these are all files that it is for, and so much memory is free.
fn needless_budget(budget_bytes: u64, files: &[PathBuf], free_bytes: u64) -> Option<String> {
    let sizes = files.iter().filter_map(|path| std::fs::metadata(path).ok()).map(|file| file.len());
    needless(budget_bytes, sizes.sum(), free_bytes)
}

fn needless(budget_bytes: u64, files_bytes: u64, free_bytes: u64) -> Option<String> {
    let fits = files_bytes <= free_bytes / CERTAIN_SHARE;
    (files_bytes > budget_bytes && files_bytes >= LEAST_BYTES && fits).then(|| {
        let [free, files, budget] = [free_bytes, files_bytes, budget_bytes].map(human_bytes);
        format!(
            "{free} of memory are free, and all that the rules match takes {files}: a budget of {budget} makes reading it \
             again slower"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_budget_below_what_would_fit_is_named() {
        let said = needless(64 * MIB, 160 * MIB, 16 << 30).unwrap();
        assert!(said.contains("16.0 GiB") && said.contains("160 MiB") && said.contains("64.0 MiB"), "{said}");
        assert_eq!(needless(160 * MIB, 160 * MIB, 16 << 30), None, "the budget has room for all");
        assert_eq!(needless(64 * MIB, 160 * MIB, 300 * MIB), None, "it may not fit");
        assert_eq!(needless(MIB, LEAST_BYTES - 1, 16 << 30), None, "too little to matter");
    }

    #[test]
    fn files_that_are_gone_count_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let there = directory.path().join("there");
        std::fs::File::create(&there).unwrap().set_len(32 * MIB).unwrap();
        let files = [there, directory.path().join("gone")];
        assert!(needless_budget(8 * MIB, &files, 1 << 30).unwrap().contains("32.0 MiB"));
    }
}
