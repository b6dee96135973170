//! Ways to go through the directories of a tree, and what is to come on each.

use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use crate::listing::By;

/// Directories that a way knows to be still to come, at most.
const QUEUED: usize = 1 << 13;
/// Among so many the next one is looked for.
pub(crate) const WINDOW: usize = 256;
/// Directories that were passed by and may come yet, as threads share a tree. Of more the program was in them and was not seen.
pub(crate) const LATE: usize = 16;
/// What it counts that one of those comes.
const LATE_FITS: f64 = 0.5;
/// How much one directory counts in a score.
const WEIGHT: f64 = 0.2;

/// A directory that may come.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) path: Arc<Path>,
    /// A hash of the path: if two have the same, one is not looked at ahead.
    pub(crate) id: u64,
    pub(crate) inode: u64,
    /// The ids of the directory above, and of the one above that.
    pub(crate) above: [u64; 2],
}

/// In which sequence the directories of a tree come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Traversal {
    /// What is in a directory comes before what is beside it: `find`, `du`, most programs.
    Depth,
    /// All directories in one come, then those in the first of them: programs that look into each before they go on.
    Siblings,
    /// What is beside a directory comes first, also elsewhere: programs with a queue.
    Breadth,
}

/// A way to go through a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    traversal: Traversal,
    by: By,
}

impl Way {
    /// All of them. The first one wins where several fit.
    pub(crate) fn all() -> impl Iterator<Item = Way> {
        let traversals = [Traversal::Depth, Traversal::Siblings, Traversal::Breadth];
        let orders = [By::Listing, By::Name, By::Inode, By::Reverse, By::ReversedName];
        traversals.into_iter().flat_map(move |traversal| orders.map(|by| Way { traversal, by }))
    }

    /// The directories in one, as they come.
    fn sorted(self, listed: &[Rc<Node>]) -> Vec<Rc<Node>> {
        let mut nodes = listed.to_vec();
        match self.by {
            By::Listing => {}
            By::Reverse => nodes.reverse(),
            By::Inode => nodes.sort_by_key(|node| node.inode),
            By::Name | By::Number => nodes.sort_by(|a, b| a.path.file_name().cmp(&b.path.file_name())),
            By::ReversedName => nodes.sort_by(|a, b| b.path.file_name().cmp(&a.path.file_name())),
        }
        nodes
    }

    /// The program comes, or will have come, to a directory that lies in the one of this id. Then these in it are to come.
    pub(crate) fn descend(self, coming: &mut VecDeque<Rc<Node>>, above: u64, listed: &[Rc<Node>]) {
        if listed.is_empty() {
            return;
        }
        let listed = self.sorted(listed);
        match self.traversal {
            Traversal::Depth => listed.into_iter().rev().for_each(|node| coming.push_front(node)),
            Traversal::Breadth => coming.extend(listed),
            // Behind those that are beside it, and what is in these.
            Traversal::Siblings => {
                let beside = coming.iter().take_while(|node| node.above.contains(&above)).count();
                let behind = coming.split_off(beside);
                coming.extend(listed);
                coming.extend(behind);
            }
        }
    }
}

/// One way, what is to come on it, and how well it fits.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) way: Way,
    pub(crate) coming: VecDeque<Rc<Node>>,
    /// What was passed by lately.
    late: VecDeque<Rc<Node>>,
    /// How near to the front of this queue the last directories were: 1, all were the first; 0.2, anywhere.
    pub(crate) score: f64,
}

impl Queue {
    pub(crate) fn new(way: Way) -> Queue {
        Queue { way, coming: VecDeque::new(), late: VecDeque::new(), score: 0.0 }
    }

    /// Whether a directory may come soon.
    pub(crate) fn has_near(&self, id: u64) -> bool {
        self.coming.iter().take(WINDOW).chain(&self.late).any(|node| node.id == id)
    }

    /// Whether a directory was passed by and may come yet.
    pub(crate) fn is_late(&self, id: u64) -> bool {
        self.late.iter().any(|node| node.id == id)
    }

    /// Nothing is to come.
    pub(crate) fn clear(&mut self) {
        self.coming.clear();
        self.late.clear();
    }

    /// A directory is come to. With `scored`, how near it was to the front counts.
    pub(crate) fn came(&mut self, id: u64, scored: bool, entered: impl Fn(u64) -> bool) {
        while self.coming.front().is_some_and(|node| node.id != id && entered(node.id)) {
            self.coming.pop_front();
        }
        let among = self.coming.len().min(WINDOW);
        // What it tells, as a share of what the very first one tells: not all are seen, and threads that share a tree come a
        // little out of order.
        let bits = |number: usize| (number as f64 + 1.0).log2();
        let is_it = |node: &Rc<Node>| node.id == id;
        let fits = if let Some(at) = self.late.iter().position(is_it) {
            self.late.remove(at);
            LATE_FITS
        } else if let Some(at) = self.coming.iter().take(among).position(is_it) {
            if at <= LATE {
                self.late.extend(self.coming.drain(..at));
                let too_many = self.late.len().saturating_sub(LATE);
                self.late.drain(..too_many);
                self.coming.pop_front();
            } else {
                self.coming.remove(at);
            }
            1.0 - bits(at) / bits(among)
        } else {
            0.0
        };
        if scored {
            self.score += WEIGHT * (fits - self.score);
        }
    }

    /// These come after all else.
    pub(crate) fn append(&mut self, listed: &[Rc<Node>]) {
        self.coming.extend(self.way.sorted(listed));
        self.coming.truncate(QUEUED);
    }

    /// The program has come to a directory that lies in the one of this id, and these are in it.
    pub(crate) fn descend(&mut self, above: u64, listed: &[Rc<Node>]) {
        self.way.descend(&mut self.coming, above, listed);
        self.coming.truncate(QUEUED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, id: u64, inode: u64, above: [u64; 2]) -> Rc<Node> {
        Rc::new(Node { path: Path::new(name).into(), id, inode, above })
    }

    #[test]
    fn each_way_has_its_sequence() {
        // /t has b and a, b has d and c, a has e.
        let top = [node("/t/b", 1, 5, [9, 0]), node("/t/a", 2, 4, [9, 0])];
        let in_b = [node("/t/b/d", 3, 7, [1, 9]), node("/t/b/c", 4, 8, [1, 9])];
        let in_a = [node("/t/a/e", 5, 6, [2, 9])];
        let sequence = |way: Way| {
            let (mut coming, mut ids) = (VecDeque::new(), Vec::new());
            way.descend(&mut coming, 0, &top);
            while let Some(next) = coming.pop_front() {
                ids.push(next.id);
                match next.id {
                    1 => way.descend(&mut coming, 9, &in_b),
                    2 => way.descend(&mut coming, 9, &in_a),
                    _ => {}
                }
            }
            ids
        };
        let of = |traversal| move |by| sequence(Way { traversal, by });
        let orders = [By::Listing, By::Name, By::Inode, By::Reverse, By::ReversedName];
        assert_eq!(
            orders.map(of(Traversal::Depth)),
            [[1, 3, 4, 2, 5], [2, 5, 1, 4, 3], [2, 5, 1, 3, 4], [2, 5, 1, 4, 3], [1, 3, 4, 2, 5]]
        );
        assert_eq!(of(Traversal::Siblings)(By::Listing), [1, 2, 3, 4, 5]);
        assert_eq!(of(Traversal::Breadth)(By::Name), [2, 1, 5, 4, 3]);
        assert_eq!(Way::all().count(), 15);
    }

    #[test]
    fn what_is_beside_a_directory_comes_before_what_is_in_it_or_after() {
        // x and y are in the top, x has p with q in it, y has r.
        let [x, y] = [node("x", 1, 0, [9, 0]), node("y", 2, 0, [9, 0])];
        let (p, q, r) = (node("p", 3, 0, [1, 9]), node("q", 4, 0, [3, 1]), node("r", 5, 0, [2, 9]));
        for (traversal, expected) in [
            (Traversal::Siblings, [1, 2, 3, 4, 5]),
            (Traversal::Breadth, [1, 2, 3, 5, 4]),
            (Traversal::Depth, [1, 3, 4, 2, 5]),
        ] {
            let way = Way { traversal, by: By::Listing };
            let (mut coming, mut ids) = (VecDeque::from([Rc::clone(&x), Rc::clone(&y)]), Vec::new());
            while let Some(next) = coming.pop_front() {
                ids.push(next.id);
                match next.id {
                    1 => way.descend(&mut coming, 9, std::slice::from_ref(&p)),
                    2 => way.descend(&mut coming, 9, std::slice::from_ref(&r)),
                    3 => way.descend(&mut coming, 1, std::slice::from_ref(&q)),
                    _ => {}
                }
            }
            assert_eq!(ids, expected, "{traversal:?}");
        }
    }

    #[test]
    fn a_queue_is_scored_by_what_comes_first_and_has_a_limit() {
        let mut queue = Queue::new(Way::all().next().unwrap());
        let nodes: Vec<_> = (1..=2 * QUEUED as u64).map(|id| node("n", id, id, [0, 0])).collect();
        queue.descend(0, &nodes);
        assert_eq!(queue.coming.len(), QUEUED);
        queue.came(1, true, |_| false);
        assert_eq!(queue.score, WEIGHT);
        queue.came(4, false, |_| false);
        assert_eq!((queue.score, queue.coming.len()), (WEIGHT, QUEUED - 4));
        assert!(queue.is_late(2) && queue.is_late(3) && !queue.is_late(4));
        queue.came(5, true, |id| id < 4);
        assert_eq!((queue.score, queue.coming.len()), (WEIGHT + WEIGHT * (1.0 - WEIGHT), QUEUED - 5));
        let (before, middle) = (queue.score, 5 + WINDOW as u64 / 2);
        queue.came(middle, true, |_| false);
        assert!((0.1..0.2).contains(&(queue.score / WEIGHT - before / WEIGHT + before)), "it tells a little");
        queue.came(u64::MAX, true, |_| false);
        assert!(queue.score < before && queue.has_near(6) && !queue.has_near(7 + WINDOW as u64));
    }
}
