//! Sizes of simulated caches: blocks, bytes, or a share of the distinct blocks of the trace.

use std::fmt;

use anyhow::{Result, anyhow, ensure};

use crate::size::Size;

/// A size as it was given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CacheSize {
    /// `1280`: so many blocks.
    Blocks(u32),
    /// `256M`: so many bytes.
    Bytes(u64),
    /// `25%`: a share of the distinct blocks of the trace, in per cent.
    Percent(f64),
}

impl CacheSize {
    /// Reads a list of sizes, separated by commas.
    ///
    /// # Errors
    /// One of them is no size, or no blocks.
    pub fn all(text: &str) -> Result<Vec<CacheSize>> {
        text.split(',').map(|one| CacheSize::parse(one.trim())).collect()
    }

    fn parse(text: &str) -> Result<CacheSize> {
        ensure!(text != "0", "--cache 0: a cache needs at least 1 block");
        if let Ok(blocks) = text.parse() {
            return Ok(CacheSize::Blocks(blocks));
        }
        match Size::parse(text) {
            Ok(Size::Bytes(bytes)) => Ok(CacheSize::Bytes(bytes)),
            Ok(Size::Percent(percent)) => Ok(CacheSize::Percent(percent)),
            Err(_) => Err(anyhow!(
                "--cache: '{text}' is no size; give blocks as in 1280, bytes as in 256M, or a share of the \
                 trace's distinct blocks as in 25%"
            )),
        }
    }

    /// Does it depend on the trace?
    #[must_use]
    pub fn needs_distinct(self) -> bool {
        matches!(self, CacheSize::Percent(_))
    }

    /// In blocks, at least one. `distinct_blocks` are those of the trace.
    ///
    /// # Errors
    /// It is less than a block, or more than can be counted.
    pub fn blocks(self, block_bytes: u32, distinct_blocks: u64) -> Result<u32> {
        let blocks = match self {
            CacheSize::Blocks(blocks) => return Ok(blocks),
            CacheSize::Bytes(bytes) => {
                let blocks = bytes / u64::from(block_bytes);
                ensure!(blocks > 0, "--cache {self}: less than a block of {block_bytes} bytes");
                blocks
            }
            CacheSize::Percent(percent) => ((distinct_blocks as f64 * percent / 100.0).round() as u64).max(1),
        };
        u32::try_from(blocks).map_err(|_| anyhow!("--cache {self}: more than {} blocks", u32::MAX))
    }
}

impl fmt::Display for CacheSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            CacheSize::Blocks(blocks) => write!(f, "{blocks}"),
            CacheSize::Bytes(bytes) => Size::Bytes(bytes).fmt(f),
            CacheSize::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_bytes_and_shares() {
        let sizes = CacheSize::all("1280, 256M,25%").unwrap();
        let blocks: Vec<u32> = sizes.iter().map(|s| s.blocks(8192, 1000).unwrap()).collect();
        assert_eq!(blocks, [1280, 32_768, 250]);
        assert_eq!(CacheSize::Percent(0.01).blocks(8192, 10).unwrap(), 1);
        assert_eq!(sizes.iter().map(ToString::to_string).collect::<Vec<_>>(), ["1280", "256M", "25%"]);
    }

    #[test]
    fn what_is_no_size() {
        for (text, says) in [
            ("0", "at least 1 block"),
            ("", "is no size"),
            ("-1", "is no size"),
            ("101%", "is no size"),
            ("1280,x", "'x' is no size"),
        ] {
            let error = CacheSize::all(text).unwrap_err().to_string();
            assert!(error.starts_with("--cache") && error.contains(says), "{error}");
        }
        assert!(CacheSize::Bytes(4096).blocks(8192, 1).is_err());
        assert!(CacheSize::Bytes(u64::MAX).blocks(512, 1).is_err());
    }
}
