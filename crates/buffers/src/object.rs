//! What the pool's lock protects of open objects: their parts, and who has them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use foldhash::HashMap;
use foretell_policy::FileId;

use crate::error::Error;
use crate::flow::Ticket;
use crate::memory::Buffer;
use crate::options::MOST_OBJECTS;
use crate::part::Pending;
use crate::running::{Pieces, Running};
use crate::source::{Begun, Source, Stamp};
use crate::tier::Kept;

/// What does not change while an object is open.
pub(crate) struct Fixed {
    /// The number of its store.
    pub(crate) store: usize,
    pub(crate) url: Arc<str>,
    pub(crate) path: String,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) stamp: Stamp,
    /// Tells it from another object that gets the same number later; that number is in its lower bits ([`serial`]).
    pub(crate) serial: u64,
    /// Nobody has it open any more: requests for it may stop.
    pub(crate) closed: AtomicBool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Waits for a frame.
    Awaited,
    Demanded,
    Ahead,
    /// On the disk, and to be read from there.
    Kept,
    UnderWay,
    /// The same without a frame: its request is silent, and somebody needed the frame. What comes of it all the same is for those
    /// alone who wait for it.
    Frameless,
}

pub(crate) enum Part {
    Ready { buffer: Buffer, used: bool },
    Pending { pending: Arc<Pending>, stage: Stage, waited_for: bool },
}

pub(crate) struct Open {
    pub(crate) fixed: Arc<Fixed>,
    pub(crate) handles: usize,
    pub(crate) parts: HashMap<u32, Part>,
    /// What the disk has of it.
    pub(crate) kept: HashMap<u32, Kept>,
    /// The last part that was read last.
    pub(crate) read_to: u32,
    /// Why no more of it can be fetched.
    pub(crate) lost: Option<Error>,
    /// What came of it, added up, as long as that is to be compared.
    pub(crate) running: Option<Running>,
    /// Where its bytes come from first.
    pub(crate) begun: Option<Box<dyn Begun>>,
}

impl Open {
    /// What a part has that waits for a request without a frame. The engine is not told of a reference to it: it would give up
    /// something for what does not come.
    pub(crate) fn wait_without_frame(&mut self, part: u32) -> Option<Arc<Pending>> {
        match self.parts.get_mut(&part)? {
            Part::Pending { pending, stage: Stage::Frameless, waited_for } => {
                *waited_for = true;
                Some(pending.clone())
            }
            _ => None,
        }
    }
}

/// How the parts of a read are referenced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// It goes on where the last one ended: what comes behind it may be read ahead.
    InOrder,
    /// It begins anywhere, and says itself how far it goes. Its parts are referenced from the last one on, so that the
    /// planner does not take them for an object that is read in order and fetch what comes behind them.
    FromTheEnd,
}

/// Bits of an engine's number of a file in a serial number.
const FILE_BITS: u32 = MOST_OBJECTS.trailing_zeros();

/// The serial number of the object that was opened as the `opened`th, not 0.
pub(crate) fn serial(opened: u64, file: FileId) -> u64 {
    opened << FILE_BITS | u64::from(file.0)
}

/// The engine's number of an object.
pub(crate) fn file_of(serial: u64) -> FileId {
    FileId(serial as u32 & (MOST_OBJECTS - 1))
}

/// An object that is kept open without a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) store: usize,
    pub(crate) file: FileId,
}

/// What a reference to a part comes to.
pub(crate) enum Got {
    Ready(Buffer),
    Wait(Arc<Pending>),
}

/// Neighbouring parts of one object, to be fetched by one request.
pub(crate) struct Run {
    /// Tells it from others.
    pub(crate) number: u64,
    pub(crate) fixed: Arc<Fixed>,
    pub(crate) file: FileId,
    pub(crate) first: u32,
    pub(crate) parts: usize,
    /// Who waits for the parts that have not come yet, in order.
    pub(crate) pending: VecDeque<Arc<Pending>>,
    pub(crate) ticket: Ticket,
    /// To be told what comes.
    pub(crate) pieces: Option<Pieces>,
    /// Its answer, if that has begun; of a request that was not made for it no times are known.
    pub(crate) begun: Option<Box<dyn Begun>>,
    pub(crate) is_begun: bool,
}
