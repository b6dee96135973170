//! Chains of roles that ran one after the other.
//!
//! A shell that starts eight programs in turn is nine roles, but one sequence of references. Programs that run
//! at the same time are several. A *lane* is a chain of roles that do not overlap in time, so that one list of
//! what comes next runs across them.
//!
//! The time of a role goes from its first access to its last one, or to its recorded end if that is later. Roles
//! are assigned in the order of their first accesses. A role follows, of the lanes whose last role has ended:
//!
//! 1. one whose last role has the same parent, or is its ancestor or descendant;
//! 2. else any of them;
//! 3. else it begins a lane; the lane number [`LANES`] takes all further ones, overlapping or not.
//!
//! Among several, one whose last role runs the same program is taken, among those the one that ended last, then the
//! lower number. (The two ends of a pipe start and end together: without it the list of the one goes on with what the
//! other one reads.)
//!
//! A parent that reads now and then between its children (a shell its script) overlaps all of them. It is not
//! what the device is busy with: a role is *light* if its descendants made at least [`LIGHT`] times as many
//! accesses as itself. It gets no place in time but joins the lane of the descendant that is not light and began
//! first. Roles without accesses are in no lane.

use crate::{Access, Fact, Recording, RoleId};

/// Lanes at most.
pub const LANES: usize = 64;

/// A role whose descendants made so many times its own accesses is light. A shell reads a script and its
/// libraries once, its programs as much each.
const LIGHT: u64 = 4;

/// A chain of roles that ran one after the other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lane {
    /// The roles in the order of their first accesses.
    pub roles: Vec<RoleId>,
    /// What they accessed, as indices into [`Recording::accesses`], in the order of time.
    pub accesses: Vec<u32>,
}

/// What is known of a role.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) first_ns: u64,
    pub(crate) end_ns: u64,
    accesses: u64,
}

/// The last role of a lane that is being made.
#[derive(Debug, Clone, Copy)]
struct Tail {
    role: usize,
    end_ns: u64,
}

/// The lanes of a recording, in the order of their first accesses. The result depends on nothing else.
#[must_use]
pub fn lanes(recording: &Recording) -> Vec<Lane> {
    lanes_of(recording, |_| true)
}

/// The same of those accesses that `counts` says: roles that only made others are in no lane.
#[must_use]
pub fn lanes_of(recording: &Recording, counts: impl Fn(&Access) -> bool) -> Vec<Lane> {
    let spans = spans(recording, &counts);
    let tree = Tree::new(recording, &spans);
    let mut order: Vec<usize> = (0..spans.len()).filter(|&role| spans[role].accesses > 0).collect();
    order.sort_by_key(|&role| (spans[role].first_ns, role));

    let mut lane_of: Vec<Option<usize>> = vec![None; spans.len()];
    let mut tails: Vec<Tail> = Vec::new();
    for &role in order.iter().filter(|&&role| !tree.is_light(role, &spans)) {
        let same = |other: usize| recording.roles[other].name == recording.roles[role].name;
        let lane = place(role, &spans[role], &tails, &tree, same);
        let tail = Tail { role, end_ns: spans[role].end_ns };
        match tails.get_mut(lane) {
            // In the last lane several may overlap.
            Some(last) if last.end_ns > tail.end_ns => {}
            Some(last) => *last = tail,
            None => tails.push(tail),
        }
        lane_of[role] = Some(lane);
    }
    // Each light role has a descendant that is not: the deepest of those with accesses.
    let mut first_heavy: Vec<Option<usize>> = vec![None; spans.len()];
    for role in (0..spans.len()).rev() {
        if lane_of[role].is_some() {
            first_heavy[role] = earlier(first_heavy[role], Some(role), &spans);
        }
        if let Some(parent) = tree.parent[role] {
            first_heavy[parent] = earlier(first_heavy[parent], first_heavy[role], &spans);
        }
    }
    for &role in &order {
        lane_of[role] = lane_of[role].or_else(|| lane_of[first_heavy[role]?]);
    }

    let mut lanes = vec![Lane::default(); tails.len()];
    for &role in &order {
        if let Some(lane) = lane_of[role] {
            lanes[lane].roles.push(RoleId(role as u32));
        }
    }
    let counted = |&index: &u32| counts(&recording.accesses[index as usize]);
    let mut by_time: Vec<u32> = (0..recording.accesses.len() as u32).filter(counted).collect();
    let at_ns = |&index: &u32| recording.accesses[index as usize].at_ns;
    if !by_time.is_sorted_by_key(at_ns) {
        by_time.sort_by_key(at_ns);
    }
    for index in by_time {
        let role = recording.accesses[index as usize].role.0 as usize;
        if let Some(lane) = lane_of.get(role).copied().flatten() {
            lanes[lane].accesses.push(index);
        }
    }
    lanes.sort_by_key(|lane| lane.accesses.first().map(|&index| (at_ns(&index), index)));
    lanes
}

/// The lane that a role goes to; one more than there are begins a new one.
fn place(role: usize, span: &Span, tails: &[Tail], tree: &Tree, same: impl Fn(usize) -> bool) -> usize {
    let ended = tails.iter().enumerate().filter(|(_, tail)| tail.end_ns <= span.first_ns);
    let best = ended.max_by_key(|(lane, tail)| {
        (tree.are_related(tail.role, role), same(tail.role), tail.end_ns, std::cmp::Reverse(*lane))
    });
    match best {
        Some((lane, _)) => lane,
        None => tails.len().min(LANES - 1),
    }
}

/// The role of two that began first.
fn earlier(one: Option<usize>, other: Option<usize>, spans: &[Span]) -> Option<usize> {
    [one, other].into_iter().flatten().min_by_key(|&role| (spans[role].first_ns, role))
}

pub(crate) fn spans(recording: &Recording, counts: impl Fn(&Access) -> bool) -> Vec<Span> {
    let mut spans = vec![Span { first_ns: u64::MAX, end_ns: 0, accesses: 0 }; recording.roles.len()];
    for &Access { role, at_ns, .. } in recording.accesses.iter().filter(|&access| counts(access)) {
        if let Some(span) = spans.get_mut(role.0 as usize) {
            span.first_ns = span.first_ns.min(at_ns);
            span.end_ns = span.end_ns.max(at_ns);
            span.accesses += 1;
        }
    }
    for fact in &recording.facts {
        if let Fact::Ended { role, at_ns } = *fact
            && let Some(span) = spans.get_mut(role.0 as usize)
        {
            span.end_ns = span.end_ns.max(at_ns);
        }
    }
    spans
}

/// Who descends from whom. A parent has a lower number than its children, so that one pass upwards or
/// downwards visits each role behind or before its children.
pub(crate) struct Tree {
    parent: Vec<Option<usize>>,
    /// Accesses of a role's descendants, without its own.
    below: Vec<u64>,
    /// Place in the order in which a walk through the tree meets roles: descendants are a range.
    from: Vec<usize>,
    /// The end of that range.
    to: Vec<usize>,
}

impl Tree {
    pub(crate) fn new(recording: &Recording, spans: &[Span]) -> Tree {
        let roles = recording.roles.len();
        let parent: Vec<Option<usize>> = (0..roles)
            .map(|n| recording.roles[n].parent.map(|p| p.0 as usize).filter(|&parent| parent < n))
            .collect();
        let mut below = vec![0; roles];
        let mut size = vec![1; roles];
        for role in (0..roles).rev() {
            if let Some(parent) = parent[role] {
                below[parent] += below[role] + spans[role].accesses;
                size[parent] += size[role];
            }
        }
        let mut from = vec![0; roles];
        let mut next_child = vec![0; roles];
        let mut next_root = 0;
        for role in 0..roles {
            let next = match parent[role] {
                Some(parent) => &mut next_child[parent],
                None => &mut next_root,
            };
            from[role] = *next;
            *next += size[role];
            next_child[role] = from[role] + 1;
        }
        let to = (0..roles).map(|role| from[role] + size[role]).collect();
        Tree { parent, below, from, to }
    }

    pub(crate) fn is_light(&self, role: usize, spans: &[Span]) -> bool {
        self.below[role] >= LIGHT * spans[role].accesses
    }

    /// The lowest role from which both descend, or one of them if the other one descends from it.
    pub(crate) fn common_ancestor(&self, mut one: usize, mut other: usize) -> Option<usize> {
        while one != other {
            let upper = if one > other { &mut one } else { &mut other };
            *upper = self.parent[*upper]?;
        }
        Some(one)
    }

    fn are_related(&self, one: usize, other: usize) -> bool {
        let descends = |a: usize, b: usize| (self.from[a]..self.to[a]).contains(&self.from[b]);
        self.parent[one].is_some() && self.parent[one] == self.parent[other]
            || descends(one, other)
            || descends(other, one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileNumber, FileRecord, Role};

    /// A job whose roles are given by their parent, and accesses by their role and time.
    fn recording(parents: &[Option<u32>], accesses: &[(u32, u64)], ends: &[(u32, u64)]) -> Recording {
        let role = |parent: &Option<u32>| Role { parent: parent.map(RoleId), name: "p".into(), ordinal: 0 };
        let access =
            |&(role, at_ns): &(u32, u64)| Access { at_ns, ..Access::read(RoleId(role), FileNumber(0), 0, 1) };
        Recording {
            roles: parents.iter().map(role).collect(),
            files: vec![FileRecord { path: "/f".into(), dev: 0, ino: 1, size: 1, mtime_ns: 0 }],
            accesses: accesses.iter().map(access).collect(),
            facts: ends.iter().map(|&(role, at_ns)| Fact::Ended { role: RoleId(role), at_ns }).collect(),
            ..Recording::default()
        }
    }

    fn roles(lane: &Lane) -> Vec<u32> {
        lane.roles.iter().map(|role| role.0).collect()
    }

    #[test]
    fn a_shell_with_eight_children_in_turn_is_one_lane() {
        let mut parents = vec![None];
        let (mut accesses, mut ends) = (Vec::new(), Vec::new());
        for child in 0..8u32 {
            parents.push(Some(0));
            let start_ns = u64::from(child) * 1000;
            // The shell reads the next line of its script before each of them.
            accesses.push((0, start_ns));
            accesses.extend((1..=100).map(|n| (child + 1, start_ns + n)));
            ends.push((child + 1, start_ns + 500));
        }
        ends.push((0, 8000));
        let recording = recording(&parents, &accesses, &ends);
        let lanes = lanes(&recording);
        assert_eq!(lanes.len(), 1);
        assert_eq!(roles(&lanes[0]), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(lanes[0].accesses, (0..accesses.len() as u32).collect::<Vec<_>>());
    }

    #[test]
    fn four_at_a_time_are_four_lanes() {
        let mut parents = vec![None];
        let mut accesses = vec![(0, 0)];
        let mut ends = vec![(0, 1_000_000)];
        // Each place is taken by the next child when its last one has ended; children differ in length.
        let mut free_ns = [1u64; 4];
        for child in 1..=40u32 {
            parents.push(Some(0));
            let place = (0..4).min_by_key(|&place| free_ns[place]).unwrap();
            let length_ns = 1000 + u64::from(child * 37 % 11) * 10;
            accesses.extend((0..20).map(|n| (child, free_ns[place] + n * length_ns / 20)));
            free_ns[place] += length_ns;
            ends.push((child, free_ns[place]));
            free_ns[place] += 1;
        }
        let recording = recording(&parents, &accesses, &ends);
        let lanes = lanes(&recording);
        assert_eq!(lanes.len(), 4);
        let mut counts: Vec<usize> = lanes.iter().map(|lane| lane.roles.len()).collect();
        // The parent's one access is in the first child's lane.
        assert_eq!(lanes[0].roles[..2], [RoleId(0), RoleId(1)]);
        counts[0] -= 1;
        assert_eq!(counts.iter().sum::<usize>(), 40);
        assert!(counts.iter().all(|count| (9..=11).contains(count)), "{counts:?}");
        for lane in &lanes {
            assert!(lane.accesses.is_sorted_by_key(|&n| recording.accesses[n as usize].at_ns));
        }
        assert_eq!(lanes.iter().map(|lane| lane.accesses.len()).sum::<usize>(), accesses.len());
        assert_eq!(super::lanes(&recording), lanes);
    }

    #[test]
    fn a_parent_that_reads_as_much_as_its_children_has_its_own_lane() {
        let mut accesses: Vec<(u32, u64)> = (0..100).map(|n| (0, n * 10)).collect();
        accesses.extend((0..50).map(|n| (1, n * 10 + 5)));
        accesses.extend((50..100).map(|n| (2, n * 10 + 5)));
        let lanes = lanes(&recording(&[None, Some(0), Some(0)], &accesses, &[]));
        assert_eq!(lanes.iter().map(roles).collect::<Vec<_>>(), [vec![0], vec![1, 2]]);
    }

    #[test]
    fn relatives_are_preferred_to_who_ended_last() {
        // Two subshells (1, 2) with children of their own: 3 and 5 of the first, 4 of the second.
        let parents = [None, Some(0), Some(0), Some(1), Some(2), Some(1)];
        let accesses = [(3, 0), (4, 1), (3, 10), (4, 20), (5, 30), (5, 40)];
        let lanes = lanes(&recording(&parents, &accesses, &[]));
        assert_eq!(lanes.iter().map(roles).collect::<Vec<_>>(), [vec![3, 5], vec![4]]);
    }

    #[test]
    fn both_ends_of_a_pipe_have_lists_of_their_own() {
        // A shell starts `grep | tail` three times; tail ends after grep, and reads its libraries only.
        let mut parents = vec![None];
        let mut accesses = Vec::new();
        for turn in 0..3_u32 {
            parents.extend([Some(0), Some(0)]);
            let (grep, tail, at_ns) = (1 + 2 * turn, 2 + 2 * turn, u64::from(turn) * 100);
            accesses.extend([(grep, at_ns), (tail, at_ns + 1), (grep, at_ns + 50), (tail, at_ns + 51)]);
        }
        let mut recording = recording(&parents, &accesses, &[]);
        for (at, role) in recording.roles.iter_mut().enumerate().skip(1) {
            role.name = if at % 2 == 1 { "grep" } else { "tail" }.into();
        }
        let of_grep = |access: &Access| access.role.0 % 2 == 1;
        assert_eq!(lanes(&recording).iter().map(roles).collect::<Vec<_>>(), [vec![1, 3, 5], vec![2, 4, 6]]);
        let counted = lanes_of(&recording, of_grep);
        assert_eq!(counted.iter().map(roles).collect::<Vec<_>>(), [vec![1, 3, 5]]);
        assert_eq!(counted[0].accesses, [0, 2, 4, 6, 8, 10]);
    }

    #[test]
    fn beyond_the_limit_the_last_lane_takes_all() {
        let roles = LANES as u32 + 10;
        let parents = vec![None; roles as usize];
        let mut accesses: Vec<(u32, u64)> = (0..roles).map(|role| (role, u64::from(role))).collect();
        accesses.extend((0..roles).map(|role| (role, 1000)));
        let lanes = lanes(&recording(&parents, &accesses, &[]));
        assert_eq!(lanes.len(), LANES);
        assert_eq!(lanes[LANES - 1].roles.len(), 11);
        assert_eq!(lanes.iter().map(|lane| lane.accesses.len()).sum::<usize>(), accesses.len());
    }

    #[test]
    fn nothing_has_no_lanes() {
        assert_eq!(lanes(&Recording::default()), []);
        assert_eq!(lanes(&recording(&[None, Some(0)], &[], &[(0, 5)])), []);
    }
}
