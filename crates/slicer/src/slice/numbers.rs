//! Numbers of calls that a unit keeps in whichever program it is: of its path and the place in it.
//!
//! So a unit whose slice is the same in two programs is the same text in both, and is compiled once; and a call that is
//! added to one unit leaves the texts of the others as they were.

use std::collections::BTreeSet;

use crate::ast::Id;
use crate::ast::program::Program;
use crate::store;

/// A number from 1 to `most` for each of these calls, no two the same; beyond `most` where there are more. In a program of
/// one unit they are counted.
pub(crate) fn of_calls(program: &Program, calls: &[Id], most: u32) -> Vec<u32> {
    let all = calls.len() as u32;
    if program.units.len() == 1 || all > most {
        return (1..=all).collect();
    }
    let mut taken = BTreeSet::new();
    let number = |call: &Id| {
        let node = &program.tree[*call];
        let path = program.sources.given_path(program.units[usize::from(node.unit)].1);
        let mut number = (store::key((path, node.begin.offset)) % u128::from(most)) as u32 + 1;
        while !taken.insert(number) {
            number = number % most + 1;
        }
        number
    };
    calls.iter().map(number).collect()
}
