//! Where the bytes come from: what the pool needs of a store.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::checksum::Checksum;
use crate::error::Error;
use crate::first::First;

/// What tells one state of an object from another one. Taken when the object is opened, and held against every answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stamp {
    /// Its length in bytes.
    pub length: u64,
    /// Its ETag, where the store gives one.
    pub etag: Option<String>,
    /// Its version, where the store keeps versions.
    pub version: Option<String>,
    /// When it was modified last.
    pub modified: Option<SystemTime>,
    /// The checksum of all of it, where the store gave one when it was asked for this object alone. Says nothing of whether two
    /// states are the same.
    pub checksum: Option<Checksum>,
}

impl Stamp {
    /// Is this the same state of an object? By the strongest thing that both stamps have; by nothing in common, no. Dates are
    /// compared in whole seconds: listings may be more exact than the headers of an answer are.
    ///
    /// A weak ETag (RFC 9110, 8.8.1) may stay when bytes change. Servers make one of a date that is too new, and later a strong one
    /// with the same text. So where either is weak the dates have a say, too.
    #[must_use]
    pub fn is_same(&self, other: &Stamp) -> bool {
        if self.length != other.length {
            return false;
        }
        let dates = seconds(self.modified).zip(seconds(other.modified)).map(|(one, other)| one == other);
        match (&self.etag, &other.etag, &self.version, &other.version) {
            (Some(one), Some(other), _, _) => match (one.strip_prefix("W/"), other.strip_prefix("W/")) {
                (None, None) => one == other,
                (a, b) => a.unwrap_or(one) == b.unwrap_or(other) && dates.unwrap_or(true),
            },
            (_, _, Some(one), Some(other)) => one == other,
            _ => dates.unwrap_or(false),
        }
    }

    /// Does it say of which state it is?
    pub(crate) fn says_something(&self) -> bool {
        self.etag.is_some() || self.version.is_some() || self.modified.is_some()
    }
}

fn seconds(modified: Option<SystemTime>) -> Option<u64> {
    modified.map(|at| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

/// What lies under a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The path in the store, without a slash at its beginning or end.
    pub path: String,
    /// The state of the object; `None` for what only other paths have in common.
    pub stamp: Option<Stamp>,
}

/// Why a source does not do what it was asked for. The pool says of which object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// There is no such object.
    NotFound,
    /// The object is not the one of the stamp.
    Changed,
    /// The store refuses.
    Denied(String),
    /// Nothing was answered for so long.
    Late(Duration),
    /// What came is not what was stored.
    Damaged(String),
    /// What is there is no object, and never will be one as it is.
    Unfit(String),
    /// Something else, in the words of the store.
    Failed(String),
}

impl Fault {
    pub(crate) fn of(self, url: &str) -> Error {
        let url = url.to_owned();
        match self {
            Fault::NotFound => Error::NotFound { url },
            Fault::Changed => Error::Changed { url },
            Fault::Denied(why) => Error::Denied { url, why },
            Fault::Late(after) => Error::TimedOut { url, after },
            Fault::Damaged(why) => Error::Damaged { url, why },
            Fault::Unfit(why) | Fault::Failed(why) => Error::Failed { url, why },
        }
    }
}

/// An answer that takes time.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send + 'a>>;

/// Takes the bytes of an answer in order; `false` when no more are wanted. Who keeps them back until they are all there shows it
/// none when the first ones have come.
pub type Sink<'a> = dyn FnMut(&[u8]) -> bool + Send + 'a;

/// An answer that has begun: the state of an object, and bytes of it that stay on their way until they are shown.
pub trait Begun: Send {
    /// The state that it is of.
    fn stamp(&self) -> &Stamp;

    /// Is it no longer to be kept for who has not read it?
    fn is_old(&self) -> bool;

    /// How many bytes it has from `start` on; 0 where it is better to ask for them.
    fn has_from(&self, start: u64) -> u64;

    /// Shows a range that it has.
    fn show<'a>(self: Box<Self>, range: std::ops::Range<u64>, sink: &'a mut Sink<'_>) -> Answer<'a, ()>;
}

/// A store of objects. It retries by itself what is worth it; the pool does not.
pub trait Source: Send + Sync + 'static {
    /// The state of an object.
    fn head<'a>(&'a self, path: &'a str) -> Answer<'a, Stamp>;

    /// The state of an object, with an answer begun that has what will be read first. `None` where that cannot be had by one request
    /// that is worth it; [`Source::head`] is asked then.
    fn begin<'a>(&'a self, _path: &'a str, _first: &'a First) -> Answer<'a, Option<Box<dyn Begun>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Bytes `range` of the object in the state of `stamp`, or [`Fault::Changed`]: never bytes of another state.
    fn get<'a>(
        &'a self,
        path: &'a str,
        stamp: &'a Stamp,
        range: std::ops::Range<u64>,
        sink: &'a mut Sink<'_>,
    ) -> Answer<'a, ()>;

    /// What lies directly under a path (`deep`: at any depth, objects only), `most` entries at most and one more if there
    /// are more.
    fn list<'a>(&'a self, path: &'a str, deep: bool, most: usize) -> Answer<'a, Vec<Entry>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_compared_by_the_strongest_thing_that_both_have() {
        let at = |ms| Some(UNIX_EPOCH + Duration::from_millis(ms));
        let of = |etag: Option<&str>, modified| Stamp {
            length: 5,
            etag: etag.map(str::to_owned),
            modified,
            ..Stamp::default()
        };
        assert!(of(Some("x"), at(1)).is_same(&of(Some("x"), at(5000))));
        assert!(!of(Some("x"), at(1)).is_same(&of(Some("y"), at(1))));
        assert!(of(None, at(7015)).is_same(&of(Some("y"), at(7000))));
        assert!(!of(None, at(7015)).is_same(&of(Some("y"), at(8000))));
        assert!(!Stamp { length: 6, ..of(Some("x"), at(1)) }.is_same(&of(Some("x"), at(1))));
        assert!(!of(None, None).is_same(&of(None, None)), "nothing says so");
        assert!(!of(Some("x"), None).is_same(&of(None, at(1))));
    }

    #[test]
    fn weak_etags_are_believed_together_with_the_dates() {
        let of = |etag: &str, seconds: Option<u64>| Stamp {
            etag: Some(etag.to_owned()),
            modified: seconds.map(|at| UNIX_EPOCH + Duration::from_secs(at)),
            ..Stamp::default()
        };
        // As Apache has it in the second of a change, and later.
        assert!(of("W/\"x\"", Some(7)).is_same(&of("\"x\"", Some(7))));
        assert!(!of("W/\"x\"", Some(7)).is_same(&of("\"x\"", Some(8))));
        assert!(!of("W/\"x\"", Some(7)).is_same(&of("W/\"x\"", Some(8))));
        assert!(!of("W/\"x\"", Some(7)).is_same(&of("W/\"y\"", Some(7))));
        assert!(of("W/\"x\"", None).is_same(&of("W/\"x\"", Some(8))));
        // What is strong needs no date.
        assert!(of("\"x\"", Some(7)).is_same(&of("\"x\"", Some(8))));
    }
}
