//! Published numbers, run again.
