//! Memory that no step tells apart.
//!
//! Of a list of records each field of each place that allocates one is a location, and what walks such lists may write
//! any of them: hundreds of locations that the same steps write. What a slice needs for one of them it needs for all, so
//! what a step reads is told by one of each such class. Which steps write a location is summed up in a number of 128
//! bits, of a random part for each step.

use foldhash::{HashMap, HashMapExt as _};

use super::effects::Effect;
use crate::memory::{Loc, Memory, Object};

/// What is asked of a step and a location.
#[derive(Clone, Copy)]
enum Role {
    /// It may write to it.
    Writes,
    /// It surely overwrites all of it.
    Overwrites,
}

/// Says what is read by one location of each class. Those of objects that `is_apart` names, and of variables, which are
/// asked for by their names, stay as they are.
pub(super) fn unite(steps: &mut [Vec<Effect>], memory: &Memory, is_apart: impl Fn(&Object) -> bool) {
    let count = memory.locations();
    let mut overlapping: Vec<Option<Vec<Loc>>> = vec![None; count];
    let mut writers = Writers { sums: vec![0; count], last: vec![0; count] };
    let is_of_class = |l: Loc| matches!(memory.what(l), Object::Heap(_)) && !is_apart(memory.what(l));
    for (effect, number) in steps.iter().flatten().zip(1..) {
        for (written, _) in effect.writes.iter().filter(|(l, _)| is_of_class(*l)) {
            let others = overlapping[written.ix()].get_or_insert_with(|| {
                let all = memory.of_object(memory.object_of(*written));
                all.iter().copied().filter(|l| memory.overlap(*written, *l)).collect()
            });
            others.iter().for_each(|other| writers.add(*other, number, Role::Writes));
        }
        for (written, _) in effect.writes.iter().filter(|(l, surely)| *surely && is_of_class(*l)) {
            let all = memory.of_object(memory.object_of(*written)).iter();
            all.filter(|l| memory.covers(*written, **l))
                .for_each(|other| writers.add(*other, number, Role::Overwrites));
        }
    }
    let mut first: HashMap<u128, Loc> = HashMap::new();
    let mut stands: Vec<Loc> = memory.all_locations().collect();
    for location in memory.all_locations().filter(|l| is_of_class(*l)) {
        stands[location.ix()] = *first.entry(writers.sums[location.ix()]).or_insert(location);
    }
    let mut last = vec![0; count];
    let mut number = 0;
    let mut tell = |reads: &mut Vec<Loc>| {
        number += 1;
        reads.iter_mut().for_each(|read| *read = stands[read.ix()]);
        // In the order in which they stand, since chains of reasons follow it.
        reads.retain(|read| std::mem::replace(&mut last[read.ix()], number) != number);
    };
    for effect in steps.iter_mut().flatten() {
        tell(&mut effect.reads);
        effect.call.iter_mut().flat_map(|call| &mut call.argument_reads).for_each(&mut tell);
    }
}

/// The steps that write to each location, summed up.
struct Writers {
    sums: Vec<u128>,
    /// The step and role that were added last.
    last: Vec<u64>,
}

impl Writers {
    fn add(&mut self, location: Loc, step: u64, role: Role) {
        let one = 2 * step + role as u64;
        if std::mem::replace(&mut self.last[location.ix()], one) != one {
            let part = u128::from(mixed(2 * one)) << 64 | u128::from(mixed(2 * one + 1));
            self.sums[location.ix()] = self.sums[location.ix()].wrapping_add(part);
        }
    }
}

/// A number like a random one (SplitMix64; Steele, Lea and Flood 2014).
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::Id;

    #[test]
    fn what_the_same_steps_write_is_told_by_one() {
        let mut memory = Memory::default();
        let heap: Vec<Loc> = (0..4).map(|n| memory.whole(Object::Heap(Id(n)))).collect();
        let string = memory.whole(Object::ArgumentText);
        let writes = |locations: &[Loc]| Effect {
            writes: locations.iter().map(|l| (*l, false)).collect(),
            reads: vec![heap[3], string, heap[1], heap[0], heap[2], heap[0]],
            ..Effect::default()
        };
        let mut steps = vec![vec![writes(&heap[..2]), writes(&heap)], vec![writes(&heap[..3])]];
        let apart = heap[2];
        unite(&mut steps, &memory, |_| false);
        assert_eq!(steps[0][0].reads, [heap[3], string, heap[0], apart]);
        assert_eq!(steps[1][0].writes.len(), 3, "what is written is not touched");
        let mut steps = vec![vec![writes(&heap)]];
        unite(&mut steps, &memory, |object| *object == Object::Heap(Id(1)));
        assert_eq!(steps[0][0].reads, [heap[0], string, heap[1]]);
    }
}
