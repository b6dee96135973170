//! References of a test's own, as a trace.

use foretell_sim::Input;
use foretell_trace::{DEFAULT_BLOCK_BYTES, Reference, TraceError, TraceMeta, TraceReader};

struct Given {
    references: std::vec::IntoIter<Reference>,
    meta: TraceMeta,
}

impl Iterator for Given {
    type Item = Result<Reference, TraceError>;
    fn next(&mut self) -> Option<Self::Item> {
        self.references.next().map(Ok)
    }
}

impl TraceReader for Given {
    fn meta(&self) -> &TraceMeta {
        &self.meta
    }
}

/// Reads of one block each: process, file, block, and the compute time before it in ns.
pub(crate) fn input(reads: impl IntoIterator<Item = (u32, u32, u64, u64)>) -> Input {
    let reads = reads.into_iter().map(|(process, file, block, compute_ns)| Reference {
        process,
        file,
        offset: block * 8192,
        bytes: 8192,
        compute_ns,
        timestamp_ns: None,
        write: false,
    });
    let references = reads.collect::<Vec<_>>().into_iter();
    Input::read(Given { references, meta: TraceMeta::default() }, DEFAULT_BLOCK_BYTES).unwrap()
}
