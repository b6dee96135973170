//! What is known of objects that nobody has open.

use super::State;
use crate::source::{Entry, Stamp};

impl State {
    /// The state in which an object is open, or else that which a listing told.
    pub(crate) fn known(&self, store: usize, path: &str) -> Option<Stamp> {
        let name = (store, path.to_owned());
        let Some(file) = self.by_name.get(&name) else { return self.listed.get(&name).cloned() };
        let open = self.objects.get(file.0 as usize)?.as_ref()?;
        open.lost.is_none().then(|| open.fixed.stamp.clone())
    }

    /// What a listing tells.
    pub(crate) fn list(&mut self, store: usize, entries: &[Entry]) {
        for Entry { path, stamp } in entries {
            if let Some(stamp) = stamp {
                self.listed.add((store, path.clone()), stamp.clone());
            }
        }
    }
}
