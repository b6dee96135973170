//! Lanes between which it is left to chance who goes on.
//!
//! `xargs -P4` and `make -j4` start the next program when any of four has ended. Which of them that is differs each time, so
//! that a lane of one run mixes up what two lanes of the next one do: the list of a lane would name what another reader reads,
//! and two readers would be on one list. Such lanes are *joined*: one list in the order of time, for all their readers.
//!
//! A role takes its turn by chance, before or behind another lane's, if that lane has a role of the same program, which runs
//! already when the one before it ends and runs still when it begins, and which hangs no further from it in the tree of
//! processes than the one before it does. (Two loops beside each other, each in a shell of its own, go on by themselves.) Nor may the
//! one before it and that one be nearer related than each is to it: somebody started both of them, and somebody else has waited for
//! that and goes on now (a shell that runs `xargs -P4` twice). All lanes
//! between which turns are taken by chance are joined, if there are two such turns: one may be a program that is started beside
//! others.
//!
//! ```text
//!  lane 0   a ------| e ------|          e begins when a ends; had b ended first, it would be on lane 1
//!  lane 1   b --------| f -------|
//! ```

use std::collections::HashMap;

use crate::lanes::{Lane, Span, Tree, lanes_of, spans};
use crate::{Access, Recording};

/// Turns by chance that join lanes.
const ENOUGH: u32 = 2;

/// From the start of a program to its first read: what ran when it was started may have ended by then. 1 to 5 ms on a busy
/// machine.
const STARTING_NS: u64 = 5_000_000;

/// The lanes of those accesses of a recording that `counts` says, without those of which it is left to chance who goes on:
/// these are one, in the order of time. In the order of their first accesses.
#[must_use]
pub fn joined_lanes_of(recording: &Recording, counts: impl Fn(&Access) -> bool) -> Vec<Lane> {
    let spans = spans(recording, &counts);
    let tree = Tree::new(recording, &spans);
    let lanes = lanes_of(recording, counts);
    let group_of = Turns { recording, spans: &spans, tree: &tree }.groups(&lanes);
    let mut joined: Vec<Lane> = Vec::new();
    let mut place_of = HashMap::new();
    for (lane, group) in lanes.into_iter().zip(group_of) {
        let place = *place_of.entry(group).or_insert(joined.len());
        match joined.get_mut(place) {
            Some(first) => {
                first.roles.extend(lane.roles);
                first.accesses.extend(lane.accesses);
            }
            None => joined.push(lane),
        }
    }
    for lane in &mut joined {
        lane.roles.sort_by_key(|role| (spans[role.0 as usize].first_ns, *role));
        lane.accesses.sort_by_key(|&index| (recording.accesses[index as usize].at_ns, index));
    }
    joined
}

struct Turns<'a> {
    recording: &'a Recording,
    spans: &'a [Span],
    tree: &'a Tree,
}

impl Turns<'_> {
    /// The group of each lane: the number of one of its lanes.
    fn groups(&self, lanes: &[Lane]) -> Vec<usize> {
        // A role that reads now and then beside its descendants takes no turn.
        let heavy = |lane: &Lane| -> Vec<usize> {
            let roles = lane.roles.iter().map(|role| role.0 as usize);
            roles.filter(|&role| !self.tree.is_light(role, self.spans)).collect()
        };
        let chains: Vec<Vec<usize>> = lanes.iter().map(heavy).collect();
        let mut group_of: Vec<usize> = (0..lanes.len()).collect();
        let mut turns = vec![0; lanes.len()];
        for (one, chain) in chains.iter().enumerate() {
            for (before, role) in chain.iter().zip(chain.iter().skip(1)) {
                let mut by_chance = false;
                for (other, beside) in chains.iter().enumerate().filter(|(other, _)| *other != one) {
                    // One lane is enough where all are joined already.
                    let is_known = by_chance && group_of[one] == group_of[other];
                    if !is_known && self.is_by_chance(*before, *role, beside) {
                        by_chance = true;
                        let (kept, gone) = (group_of[one], group_of[other]);
                        group_of.iter_mut().filter(|group| **group == gone).for_each(|group| *group = kept);
                    }
                }
                turns[one] += u32::from(by_chance);
            }
        }
        let taken = |group: usize| -> u32 {
            turns.iter().zip(&group_of).filter(|(_, of)| **of == group).map(|(turns, _)| turns).sum()
        };
        let are_few: Vec<bool> = group_of.iter().map(|&group| taken(group) < ENOUGH).collect();
        for (lane, _) in are_few.iter().enumerate().filter(|(_, are_few)| **are_few) {
            group_of[lane] = lane;
        }
        group_of
    }

    /// Might this role as well have followed one of another lane's?
    fn is_by_chance(&self, before: usize, role: usize, beside: &[usize]) -> bool {
        let began = beside.partition_point(|&of| self.spans[of].first_ns < self.spans[before].end_ns);
        let Some(&running) = began.checked_sub(1).and_then(|at| beside.get(at)) else { return false };
        let names = &self.recording.roles;
        let parting = self.tree.common_ancestor(running, role);
        self.spans[running].end_ns.saturating_add(STARTING_NS) > self.spans[role].first_ns
            && names[running].name == names[role].name
            && self.tree.common_ancestor(before, role) <= parting
            && self.tree.common_ancestor(before, running) <= parting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fact, FileNumber, FileRecord, Role, RoleId};

    /// A job whose roles are given by parent, program and the time from and to which they read.
    fn recording(roles: &[(Option<u32>, &str, u64, u64)]) -> Recording {
        let access = |(role, at_ns)| Access { at_ns, ..Access::read(RoleId(role), FileNumber(role), 0, 1) };
        let (mut accesses, mut facts) = (Vec::new(), Vec::new());
        // Times are in units of 10 ms, and a role reads every 10 ms.
        for (role, &(_, _, from, to)) in (0..).zip(roles).filter(|(_, (_, _, from, to))| to > from) {
            accesses.extend((from..to).map(|at| access((role, at * 10_000_000))));
            facts.push(Fact::Ended { role: RoleId(role), at_ns: to * 10_000_000 });
        }
        let role = |&(parent, name, ..): &(Option<u32>, &str, u64, u64)| Role {
            parent: parent.map(RoleId),
            name: name.into(),
            ordinal: 0,
        };
        let file = FileRecord { path: "/f".into(), dev: 0, ino: 1, size: 1, mtime_ns: 0 };
        Recording {
            files: vec![file; roles.len()],
            roles: roles.iter().map(role).collect(),
            accesses,
            facts,
            ..Recording::default()
        }
    }

    fn roles(recording: &Recording) -> Vec<Vec<u32>> {
        let joined = joined_lanes_of(recording, |_| true);
        let at_ns = |&index: &u32| recording.accesses[index as usize].at_ns;
        assert!(joined.iter().all(|lane| lane.accesses.is_sorted_by_key(at_ns)));
        assert_eq!(joined.iter().map(|lane| lane.accesses.len()).sum::<usize>(), recording.accesses.len());
        joined.iter().map(|lane| lane.roles.iter().map(|role| role.0).collect()).collect()
    }

    #[test]
    fn two_at_a_time_are_one_list() {
        let cat = |from, to| (Some(0), "cat", from, to);
        let job = [(None, "xargs", 0, 0), cat(0, 10), cat(0, 15), cat(11, 20), cat(16, 30), cat(21, 40)];
        assert_eq!(roles(&recording(&job)), [[1, 2, 3, 4, 5]]);
    }

    #[test]
    fn a_program_takes_its_time_to_start() {
        let cat = |from, to| (Some(0), "cat", from, to);
        let mut job = recording(&[(None, "xargs", 0, 0), cat(0, 10), cat(0, 10), cat(10, 20), cat(10, 20)]);
        let ended = |job: &mut Recording, ms: u64| {
            for fact in job.facts.iter_mut().take(2) {
                if let Fact::Ended { at_ns, role } = fact {
                    *at_ns = 100_000_000 - ms * 1_000_000 - u64::from(role.0);
                }
            }
        };
        ended(&mut job, 2);
        assert_eq!(roles(&job), [[1, 2, 3, 4]]);
        ended(&mut job, 8);
        assert_eq!(roles(&job).len(), 2, "both had ended before the next ones were started");
    }

    #[test]
    fn compilers_that_make_starts_by_shells_are_one_list() {
        let mut job = vec![(None, "make", 0, 0)];
        for (from, to) in [(0, 10), (0, 15), (11, 20), (16, 30), (21, 40)] {
            job.push((Some(0), "sh", 0, 0));
            job.push((Some(job.len() as u32 - 1), "cc1", from, to));
        }
        assert_eq!(roles(&recording(&job)), [[2, 4, 6, 8, 10]]);
    }

    #[test]
    fn loops_beside_each_other_keep_their_lists() {
        let mut job = vec![(None, "sh", 0, 0), (Some(0), "sh", 0, 0), (Some(0), "sh", 0, 0)];
        for turn in 0..5_u64 {
            job.push((Some(1), "cat", 10 * turn, 10 * turn + 9));
            job.push((Some(2), "cat", 10 * turn + 5, 10 * turn + 14));
        }
        assert_eq!(roles(&recording(&job)), [[3, 5, 7, 9, 11], [4, 6, 8, 10, 12]]);
    }

    #[test]
    fn what_all_have_waited_for_follows_nobody_by_chance() {
        let cat = |from, to| (Some(0), "cat", from, to);
        let job =
            [(None, "sh", 0, 0), cat(0, 10), cat(0, 15), cat(20, 30), cat(20, 35), cat(40, 50), cat(40, 55)];
        assert_eq!(roles(&recording(&job)).len(), 2);
    }

    #[test]
    fn who_starts_several_anew_has_waited_for_all_of_them() {
        let mut job = vec![(None, "sh", 0, 0), (Some(0), "xargs", 0, 0)];
        job.extend([(Some(1), "cat", 0, 10), (Some(1), "cat", 0, 10), (Some(0), "xargs", 0, 0)]);
        job.extend([(Some(4), "cat", 10, 20), (Some(4), "cat", 10, 20), (Some(0), "xargs", 0, 0)]);
        job.extend([(Some(7), "cat", 20, 30), (Some(7), "cat", 20, 30)]);
        assert_eq!(roles(&recording(&job)), [vec![2, 5, 8], vec![3, 6, 9]]);
    }

    #[test]
    fn one_program_that_follows_another_one_beside_a_third_keeps_its_list() {
        let grep = |from, to| (Some(0), "grep", from, to);
        let job = [(None, "sh", 0, 0), grep(0, 50), grep(0, 10), grep(11, 40)];
        assert_eq!(roles(&recording(&job)), [vec![1], vec![2, 3]]);
    }

    #[test]
    fn another_program_in_the_background_keeps_its_list() {
        let job = [
            (None, "sh", 0, 0),
            (Some(0), "sort", 0, 100),
            (Some(0), "cat", 0, 10),
            (Some(0), "cat", 11, 20),
            (Some(0), "cat", 21, 30),
        ];
        assert_eq!(roles(&recording(&job)), [vec![1], vec![2, 3, 4]]);
    }
}
