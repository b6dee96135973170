//! Objects that stay open after programs have closed their files: a pool forgets what nobody has open.

use std::collections::HashMap;
use std::sync::Arc;

use foretell_buffers::Object;

/// Objects that are kept open; beyond, the half that was used longest ago is closed. About 64 MiB of bookkeeping.
const MOST_KEPT: usize = 1 << 17;

/// Objects by their URLs, and when each was used.
pub(crate) struct Kept {
    objects: HashMap<Arc<str>, (Object, u64)>,
    uses: u64,
    most: usize,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept { objects: HashMap::new(), uses: 0, most: MOST_KEPT }
    }
}

impl Kept {
    /// Keeps an object, in place of an earlier state of it. Gives those that are to be closed, which takes the pool's lock.
    #[must_use]
    pub(crate) fn keep(&mut self, url: &Arc<str>, object: Object) -> Vec<Object> {
        self.uses += 1;
        let mut closed = Vec::new();
        if self.objects.len() >= self.most && !self.objects.contains_key(url) {
            let mut uses: Vec<u64> = self.objects.values().map(|(_, used)| *used).collect();
            let (_, middle, _) = uses.select_nth_unstable(self.most / 2);
            let middle = *middle;
            let old = self.objects.extract_if(|_, (_, used)| *used < middle);
            closed.extend(old.map(|(_, (object, _))| object));
        }
        closed.extend(self.objects.insert(url.clone(), (object, self.uses)).map(|(object, _)| object));
        closed
    }
}

#[cfg(test)]
mod tests {
    use foretell_buffers::{Options, Pool};

    use super::*;

    #[test]
    fn of_too_many_the_half_that_was_used_longest_ago_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let pool = Pool::new(Options::new(1 << 20)).unwrap();
        let mut kept = Kept { most: 4, ..Kept::default() };
        let mut keep = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, name).unwrap();
            let url: Arc<str> = format!("file://{}", path.display()).into();
            kept.keep(&url, pool.open(&url).unwrap())
                .iter()
                .map(|one| one.url().to_owned())
                .collect::<Vec<_>>()
        };
        for name in ["a", "b", "c", "d"] {
            assert!(keep(name).is_empty());
        }
        assert_eq!(keep("a").len(), 1, "the same one once more");
        let mut closed = keep("e");
        closed.sort();
        let names: Vec<&str> = closed.iter().filter_map(|url| url.rsplit('/').next()).collect();
        assert_eq!(names, ["b", "c"]);
        assert_eq!(pool.statistics().unwrap().objects, 3);
    }
}
