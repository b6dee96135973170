//! Status reports as far as they are made.

use std::collections::BTreeMap;

use foretell_pagecache::{Scope, Survey};

use crate::limits::{FILE_ROW_BYTES, STATUS_ROWS};
use crate::snapshot::{SessionStatus, Writing};

/// A snapshot as far as it is made.
#[derive(Debug)]
pub(crate) struct Making {
    pub(crate) user: Option<u32>,
    pub(crate) sessions: Sessions,
    pub(crate) survey: Survey,
}

/// The rows of the sessions so far.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    /// The connection that was looked at last; none before the first.
    pub(crate) after: Option<u64>,
    /// All were looked at.
    pub(crate) are_known: bool,
    pub(crate) rows: Vec<SessionStatus>,
    /// Where the row of a session is: several connections have one.
    pub(crate) places: BTreeMap<u32, usize>,
    pub(crate) withheld: Vec<u32>,
}

impl Making {
    /// Of everything, or of what one user may ask for.
    pub(crate) fn new(scope: Scope) -> Making {
        Making { user: scope.user, sessions: Sessions::default(), survey: Survey::new(scope) }
    }
}

/// A report as far as it is made, for a connection.
#[derive(Debug)]
pub(crate) struct Telling {
    pub(crate) viewer: u32,
    /// The rows of this user are asked for.
    pub(crate) user: Option<u32>,
    pub(crate) most_bytes: usize,
    pub(crate) stage: Stage,
}

#[derive(Debug)]
pub(crate) enum Stage {
    Making(Box<Making>),
    Writing(Box<Writing>),
    Written,
}

impl Telling {
    /// For a viewer, who sees all that root does if it is 0; of the rows of one user, if that is asked for.
    pub(crate) fn new(viewer: u32, user: Option<u32>, most_bytes: usize) -> Telling {
        let of = if viewer == 0 { user } else { Some(viewer) };
        let scope = Scope { user: of, rows: STATUS_ROWS.min(most_bytes / FILE_ROW_BYTES) };
        Telling { viewer, user, most_bytes, stage: Stage::Making(Box::new(Making::new(scope))) }
    }
}
