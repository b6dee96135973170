//! Translations that passed a limit are remembered: the next build of the same program would spend the same seconds to come to the
//! same end. Another text, limit, table or release of the translator is tried again.

use std::fs;

use super::headers::cache;
use super::limits::Limits;
use crate::Input;
use crate::store::{self, Store};

/// Most bytes of what is remembered: a line for each program.
const MOST_BYTES: u64 = 1 << 20;

/// The place of one program.
#[derive(Debug)]
pub(super) struct GivenUp {
    store: Store,
    key: u128,
}

impl GivenUp {
    /// `None` if a part of the program is read as its source is, of which not all that counts is known here.
    pub(super) fn of(inputs: &[Input], limits: Limits, models: &[String]) -> Option<Self> {
        let folder = cache(|name| std::env::var_os(name), "given_up")?;
        let text = |input: &Input| {
            input.preprocessed.as_ref()?;
            Some((fs::read(&input.path).ok()?, input.flags.clone()))
        };
        let texts = inputs.iter().map(text).collect::<Option<Vec<_>>>()?;
        let translator = std::env::current_exe().ok().map(|path| store::stamp(path.as_os_str()));
        let key = store::key(("given up", texts, limits.processor_s, limits.memory_mib, models, translator));
        Some(Self { store: Store::new(folder, MOST_BYTES), key })
    }

    /// Why it was given up, if it was.
    pub(super) fn why(&self) -> Option<String> {
        String::from_utf8(self.store.get(self.key)?).ok()
    }

    pub(super) fn remember(&self, why: &str) {
        self.store.put(self.key, why.as_bytes());
        self.store.trim();
    }
}
