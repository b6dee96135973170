//! The files that are read.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};

use crate::random::Random;
use crate::reader::BLOCK_BYTES;

/// Writes a file of `blocks` blocks, none like another, and leaves nothing of it in memory.
pub(crate) fn make(path: &Path, blocks: u64) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut random = Random::new(blocks);
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        for _ in 0..blocks * BLOCK_BYTES / 8 {
            file.write_all(&random.next().to_le_bytes())?;
        }
        file.into_inner()?.sync_all()
    };
    write().with_context(|| format!("cannot write {}", path.display()))?;
    crate::cold::evict(path)
}

/// Writes a list of single blocks of a file, as `foretell run --hints` and the reader take it.
pub(crate) fn make_list(path: &Path, file: &Path, blocks: &[u64]) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut list = BufWriter::new(File::create(path)?);
        for block in blocks {
            writeln!(list, "{} {} {BLOCK_BYTES}", file.display(), block * BLOCK_BYTES)?;
        }
        list.into_inner()?.sync_all()
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}
