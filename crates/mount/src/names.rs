//! What the kernel knows by number, and what is known of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foretell_buffers::Stamp;

/// Names that the kernel may know at a time; beyond, a further one is not found. (The kernel forgets what it has no memory
/// for.)
const MOST_NODES: usize = 1 << 20;
/// Names in the listings that are kept, all together: as many as one listing may have.
const MOST_LISTED: usize = 1 << 20;

/// The number of the directory that is mounted.
pub(crate) const ROOT: u64 = 1;

/// A file in one state, or a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    File(Stamp),
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// What the kernel has a number for.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) url: Arc<str>,
    /// The path below what is mounted, as programs see it.
    pub(crate) path: Arc<str>,
    pub(crate) kind: Kind,
    /// When the store said so.
    pub(crate) known: Instant,
    /// The state whose bytes the kernel may have in its page cache.
    pub(crate) cached: Option<Stamp>,
    lookups: u64,
}

struct Listing {
    entries: Arc<Vec<Entry>>,
    listed: Instant,
    used: u64,
}

/// The two tables.
pub(crate) struct Names {
    nodes: HashMap<u64, Node>,
    numbers: HashMap<Arc<str>, u64>,
    next: u64,
    listings: HashMap<Arc<str>, Listing>,
    listed: usize,
    uses: u64,
    most_nodes: usize,
    most_listed: usize,
}

impl Names {
    pub(crate) fn new(root: &str, now: Instant) -> Names {
        Names::with_limits(root, now, MOST_NODES, MOST_LISTED)
    }

    fn with_limits(root: &str, now: Instant, most_nodes: usize, most_listed: usize) -> Names {
        let mut names = Names {
            nodes: HashMap::new(),
            numbers: HashMap::new(),
            next: ROOT,
            listings: HashMap::new(),
            listed: 0,
            uses: 0,
            most_nodes,
            most_listed,
        };
        names.look_up(root, "", Kind::Directory, now);
        names
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Node> {
        self.nodes.get(&number)
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Node> {
        self.nodes.get_mut(&number)
    }

    /// The kernel looks a name up once more: its number, `None` if it knows too many.
    pub(crate) fn look_up(&mut self, url: &str, path: &str, kind: Kind, now: Instant) -> Option<u64> {
        if let Some(&number) = self.numbers.get(url)
            && let Some(node) = self.nodes.get_mut(&number)
        {
            // What is a directory now and was a file is another thing.
            if (node.kind == Kind::Directory) == (kind == Kind::Directory) {
                node.lookups += 1;
                (node.kind, node.known) = (kind, now);
                return Some(number);
            }
            self.numbers.remove(url);
        }
        if self.nodes.len() >= self.most_nodes {
            return None;
        }
        let (number, url): (u64, Arc<str>) = (self.next, url.into());
        self.next += 1;
        self.numbers.insert(url.clone(), number);
        self.nodes
            .insert(number, Node { url, path: path.into(), kind, known: now, cached: None, lookups: 1 });
        Some(number)
    }

    /// The kernel has forgotten so many lookups of a number.
    pub(crate) fn forget(&mut self, number: u64, lookups: u64) {
        let Some(node) = self.nodes.get_mut(&number).filter(|_| number != ROOT) else { return };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups == 0
            && let Some(node) = self.nodes.remove(&number)
            && self.numbers.get(&node.url) == Some(&number)
        {
            self.numbers.remove(&node.url);
        }
    }

    /// A listing that is not older than this, and when it was made.
    pub(crate) fn listing(&mut self, url: &str, believed: Duration) -> Option<(Arc<Vec<Entry>>, Instant)> {
        self.uses += 1;
        let listing = self.listings.get_mut(url).filter(|listing| listing.listed.elapsed() < believed)?;
        listing.used = self.uses;
        Some((listing.entries.clone(), listing.listed))
    }

    /// Keeps a listing, sorted by name, and forgets others for it.
    pub(crate) fn keep(&mut self, url: &str, entries: Arc<Vec<Entry>>, now: Instant) {
        self.remove(url);
        // An empty one counts, too.
        while self.listed + entries.len() + 1 > self.most_listed {
            let oldest = self.listings.iter().min_by_key(|(_, listing)| listing.used);
            let Some(oldest) = oldest.map(|(url, _)| url.clone()) else { break };
            self.remove(&oldest);
        }
        self.listed += entries.len() + 1;
        self.uses += 1;
        self.listings.insert(url.into(), Listing { entries, listed: now, used: self.uses });
    }

    fn remove(&mut self, url: &str) {
        if let Some(old) = self.listings.remove(url) {
            self.listed -= old.entries.len() + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn file(length: u64) -> Kind {
        Kind::File(Stamp { length, ..Stamp::default() })
    }

    #[test]
    fn a_number_is_kept_as_long_as_the_kernel_knows_it() {
        let now = Instant::now();
        let mut names = Names::new("s3://b", now);
        assert_eq!(&*names.get(ROOT).unwrap().url, "s3://b");
        let one = names.look_up("s3://b/a", "", file(1), now).unwrap();
        assert_eq!(names.look_up("s3://b/a", "", file(2), now), Some(one));
        assert_eq!(names.get(one).unwrap().kind, file(2));
        names.forget(one, 1);
        assert!(names.get(one).is_some());
        // It has become a directory: the old number stays what it was.
        let other = names.look_up("s3://b/a", "", Kind::Directory, now).unwrap();
        assert_ne!(one, other);
        names.forget(one, 1);
        assert!(names.get(one).is_none());
        assert_eq!(names.look_up("s3://b/a", "", Kind::Directory, now), Some(other));
        names.forget(ROOT, 100);
        assert!(names.get(ROOT).is_some());
    }

    #[test]
    fn no_more_names_are_known_than_may_be() {
        let now = Instant::now();
        let mut names = Names::with_limits("s3://b", now, 10, 10);
        for at in 1..10 {
            assert!(names.look_up(&at.to_string(), "", Kind::Directory, now).is_some());
        }
        assert_eq!(names.look_up("more", "", Kind::Directory, now), None);
        names.forget(2, 1);
        assert!(names.look_up("more", "", Kind::Directory, now).is_some());
    }

    #[test]
    fn listings_are_kept_for_so_many_names_and_so_long() {
        let now = Instant::now();
        let mut names = Names::with_limits("s3://b", now, 10, 10);
        let entry = Entry { name: "x".to_owned(), kind: Kind::Directory };
        let half = Arc::new(vec![entry; 4]);
        names.keep("one", half.clone(), now);
        names.keep("two", half.clone(), now);
        assert!(names.listing("one", DAY).is_some());
        names.keep("three", half, now);
        assert!(names.listing("two", DAY).is_none(), "it was used longest ago");
        assert!(names.listing("one", DAY).is_some() && names.listing("three", DAY).is_some());
        assert!(names.listing("one", Duration::ZERO).is_none());
    }
}
