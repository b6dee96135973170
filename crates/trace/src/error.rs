//! What can be wrong with a trace: always where, what was expected, and what was found.

/// An error of a reader, a writer or a conversion. Its text is one line that says where (file and line,
/// or file and byte), what was expected and what was found instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A block number does not fit 32 bits.
    #[error("{file}: byte {offset} lies beyond block 4294967295 of {block_bytes} bytes; use larger blocks")]
    BlockTooFar {
        /// Name of the file that the reference is to.
        file: Box<str>,
        /// Last byte of the reference.
        offset: u64,
        /// Block size.
        block_bytes: u64,
    },
}
