//! What a frame says.
//!
//! A body has a fixed layout for its kind: little-endian numbers, and at most one text, which is last and
//! takes the rest. Reading is strict: what is too short, too long, reserved and not zero, or not UTF-8 is an
//! error, so that for each message there is exactly one sequence of bytes, and for each sequence of bytes at
//! most one message.

use std::num::NonZeroU32;

use crate::code::ErrorCode;
use crate::limits::{
    BODY_BYTES, HEADER_BYTES, REASON_BYTES, RING_ENTRIES_LEAST, RING_ENTRIES_MOST, TEXT_BYTES,
};
use crate::statistics::{Statistics, WORDS};

/// How a client names a file that it has sent the descriptor of: a number of its own choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub NonZeroU32);

impl Handle {
    /// The handle with this number; 0 is none.
    #[must_use]
    pub fn new(number: u32) -> Option<Handle> {
        NonZeroU32::new(number).map(Handle)
    }

    /// The number, never 0.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0.get()
    }
}

/// A text, or a piece of one that is too long for a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// More of the same text follows in the next frame of the same kind.
    pub more: bool,
    /// JSON, when put together.
    pub text: String,
}

impl Part {
    /// Bytes of text in one part at most.
    const BYTES: usize = BODY_BYTES - 4;

    /// A text, cut into as many parts as it needs.
    #[must_use]
    pub fn cut(text: &str) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut rest = text;
        loop {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(Part::BYTES));
            parts.push(Part { more: !after.is_empty(), text: piece.to_owned() });
            rest = after;
            if rest.is_empty() {
                return parts;
            }
        }
    }
}

/// Puts the parts of a text together.
#[derive(Debug, Default)]
pub struct Parts {
    text: String,
}

impl Parts {
    /// Adds a part; the whole text when it was the last.
    ///
    /// # Errors
    /// When the text is longer than [`TEXT_BYTES`].
    pub fn add(&mut self, part: &Part) -> Result<Option<String>, MessageError> {
        if self.text.len() + part.text.len() > TEXT_BYTES {
            self.text = String::new();
            return Err(MessageError::TextTooLong);
        }
        self.text.push_str(&part.text);
        Ok((!part.more).then(|| std::mem::take(&mut self.text)))
    }
}

/// From a client to the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// The greeting, always first. It carries one descriptor when the client has a ring: the ring's memory
    /// ([`crate::Producer::create`]). Answered by [`Reply::Welcome`].
    Hello {
        /// [`crate::PROTOCOL`].
        protocol: u32,
        /// Entries of the ring; `None` for a client without one (the command), whose greeting carries no
        /// descriptor.
        ring_entries: Option<u32>,
    },
    /// From now on `handle` names the file whose descriptor comes along: the proof that the client may read
    /// it. Answered only by an error.
    File {
        /// Not in use for another file.
        handle: Handle,
        /// What the client itself calls the descriptor. Under it the service looks for the client's open file,
        /// should it need it later; a number that means another file by then does no harm.
        number: u32,
    },
    /// The handle will not be used any more: the service closes the file and forgets the file's priority.
    /// Entries already in the ring that name it may be passed over.
    Forget {
        /// Ignored when it names nothing.
        handle: Handle,
    },
    /// There are entries in the ring that a sleeping service does not know of. No answer.
    Wake,
    /// Answered by [`Reply::Stats`], once all that was in the ring when the request was read has been taken.
    Stats,
    /// Answered by [`Reply::Status`]. The text says which processes, see `docs/protocol.md`.
    Status(Part),
    /// Takes a process tree under control by rules. Its last part carries one descriptor: a pidfd of the
    /// root of the tree. Answered by [`Reply::Run`].
    Run(Part),
}

/// What the service tells a client that it has let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    /// [`crate::PROTOCOL`].
    pub protocol: u32,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Files that the session may have at a time.
    pub files: u32,
    /// Priority levels that it may have.
    pub levels: u32,
    /// Blocks that it may have disclosed and not yet referenced.
    pub disclosed_blocks: u64,
}

/// From the service to a client. No reply carries a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The greeting was accepted.
    Welcome(Welcome),
    /// Something was refused.
    Error {
        /// Why.
        code: ErrorCode,
        /// For which file, when it was about one.
        handle: Option<Handle>,
        /// One line for a person.
        text: String,
    },
    /// The answer to [`Request::Stats`].
    Stats(Statistics),
    /// The answer to [`Request::Status`].
    Status(Part),
    /// The answer to [`Request::Run`], and later the run's report when its processes have ended.
    Run(Part),
    /// The service ends the session and closes the connection.
    Ended {
        /// Why.
        code: ErrorCode,
        /// One line for a person.
        text: String,
    },
}

/// A frame that is none of this protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// No message has this number.
    #[error("a frame of kind {0:#06x}, which does not exist")]
    Kind(u16),
    /// The body is shorter or longer than its kind has it.
    #[error("a body of {found} bytes for a frame of kind {kind:#06x}")]
    Length {
        /// The kind.
        kind: u16,
        /// Bytes of the body.
        found: usize,
    },
    /// A field has a value that it cannot have.
    #[error("the field '{0}' has a value that means nothing")]
    Field(&'static str),
    /// A text is not UTF-8.
    #[error("a text that is not UTF-8")]
    Text,
    /// A text in parts is longer than it may be.
    #[error("a text of more than {TEXT_BYTES} bytes")]
    TextTooLong,
}

/// What travels in one direction.
pub trait Message: Sized {
    /// Appends the frame, header and body.
    fn encode(&self, to: &mut Vec<u8>);

    /// Reads a body.
    ///
    /// # Errors
    /// When it is none.
    fn decode(kind: u16, body: &[u8]) -> Result<Self, MessageError>;

    /// How many descriptors come with this message.
    fn descriptors(&self) -> usize;
}

mod kind {
    pub(super) const HELLO: u16 = 1;
    pub(super) const FILE: u16 = 2;
    pub(super) const FORGET: u16 = 3;
    pub(super) const WAKE: u16 = 4;
    pub(super) const STATS: u16 = 5;
    pub(super) const STATUS: u16 = 6;
    pub(super) const RUN: u16 = 7;
    /// Added to the kind of what goes to the client.
    pub(super) const REPLY: u16 = 0x8000;
    pub(super) const WELCOME: u16 = REPLY | 1;
    pub(super) const ERROR: u16 = REPLY | 2;
    pub(super) const STATS_REPLY: u16 = REPLY | 5;
    pub(super) const STATUS_REPLY: u16 = REPLY | 6;
    pub(super) const RUN_REPLY: u16 = REPLY | 7;
    pub(super) const ENDED: u16 = REPLY | 8;
}

/// Appends a frame whose body `write` appends.
fn frame(to: &mut Vec<u8>, kind: u16, write: impl FnOnce(&mut Vec<u8>)) {
    let start = to.len();
    to.extend_from_slice(&[0; HEADER_BYTES]);
    write(to);
    let body = to.len() - start - HEADER_BYTES;
    debug_assert!(body <= BODY_BYTES);
    to[start..start + 4].copy_from_slice(&(body as u32).to_le_bytes());
    to[start + 4..start + 6].copy_from_slice(&kind.to_le_bytes());
}

fn put_u32(to: &mut Vec<u8>, value: u32) {
    to.extend_from_slice(&value.to_le_bytes());
}

fn put_u64(to: &mut Vec<u8>, value: u64) {
    to.extend_from_slice(&value.to_le_bytes());
}

fn put_part(to: &mut Vec<u8>, part: &Part) {
    put_u32(to, u32::from(part.more));
    // Whoever made a part that is longer than `Part::cut` makes them loses the rest.
    to.extend_from_slice(&part.text.as_bytes()[..part.text.floor_char_boundary(Part::BYTES)]);
}

fn put_reason(to: &mut Vec<u8>, code: ErrorCode, handle: Option<Handle>, text: &str) {
    put_u32(to, u32::from(code.number()));
    put_u32(to, handle.map_or(0, Handle::number));
    to.extend_from_slice(&text.as_bytes()[..text.floor_char_boundary(REASON_BYTES)]);
}

/// The numbers of a body, taken from its front.
struct Body<'a> {
    kind: u16,
    whole: usize,
    rest: &'a [u8],
}

impl<'a> Body<'a> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], MessageError> {
        let Some((bytes, rest)) = self.rest.split_first_chunk() else { return Err(self.wrong_length()) };
        self.rest = rest;
        Ok(*bytes)
    }

    fn u32(&mut self) -> Result<u32, MessageError> {
        Ok(u32::from_le_bytes(self.bytes()?))
    }

    fn u64(&mut self) -> Result<u64, MessageError> {
        Ok(u64::from_le_bytes(self.bytes()?))
    }

    fn handle(&mut self) -> Result<Handle, MessageError> {
        Handle::new(self.u32()?).ok_or(MessageError::Field("handle"))
    }

    fn code(&mut self) -> Result<ErrorCode, MessageError> {
        let number = u16::try_from(self.u32()?).map_err(|_| MessageError::Field("code"))?;
        ErrorCode::from_number(number).ok_or(MessageError::Field("code"))
    }

    fn text(&mut self, most: usize) -> Result<String, MessageError> {
        let bytes = std::mem::take(&mut self.rest);
        if bytes.len() > most {
            return Err(self.wrong_length());
        }
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| MessageError::Text)
    }

    fn part(&mut self) -> Result<Part, MessageError> {
        let more = match self.u32()? {
            0 => false,
            1 => true,
            _ => return Err(MessageError::Field("more")),
        };
        Ok(Part { more, text: self.text(Part::BYTES)? })
    }

    fn end<T>(self, value: T) -> Result<T, MessageError> {
        if self.rest.is_empty() { Ok(value) } else { Err(self.wrong_length()) }
    }

    fn wrong_length(&self) -> MessageError {
        MessageError::Length { kind: self.kind, found: self.whole }
    }
}

/// Whether a ring may have this many entries: a power of two within the limits.
#[must_use]
pub fn is_ring_size(entries: u32) -> bool {
    entries.is_power_of_two() && (RING_ENTRIES_LEAST..=RING_ENTRIES_MOST).contains(&entries)
}

impl Message for Request {
    fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Request::Hello { protocol, ring_entries } => frame(to, kind::HELLO, |body| {
                put_u32(body, *protocol);
                put_u32(body, ring_entries.unwrap_or(0));
            }),
            Request::File { handle, number } => frame(to, kind::FILE, |body| {
                put_u32(body, handle.number());
                put_u32(body, *number);
            }),
            Request::Forget { handle } => frame(to, kind::FORGET, |body| put_u32(body, handle.number())),
            Request::Wake => frame(to, kind::WAKE, |_| {}),
            Request::Stats => frame(to, kind::STATS, |_| {}),
            Request::Status(part) => frame(to, kind::STATUS, |body| put_part(body, part)),
            Request::Run(part) => frame(to, kind::RUN, |body| put_part(body, part)),
        }
    }

    fn decode(kind: u16, bytes: &[u8]) -> Result<Request, MessageError> {
        let mut body = Body { kind, whole: bytes.len(), rest: bytes };
        let request = match kind {
            kind::HELLO => {
                let protocol = body.u32()?;
                let ring_entries = match body.u32()? {
                    0 => None,
                    // Another version may have other sizes: it is to be told about the version.
                    entries if protocol != crate::PROTOCOL || is_ring_size(entries) => Some(entries),
                    _ => return Err(MessageError::Field("ring_entries")),
                };
                Request::Hello { protocol, ring_entries }
            }
            kind::FILE => Request::File { handle: body.handle()?, number: body.u32()? },
            kind::FORGET => Request::Forget { handle: body.handle()? },
            kind::WAKE => Request::Wake,
            kind::STATS => Request::Stats,
            kind::STATUS => Request::Status(body.part()?),
            kind::RUN => Request::Run(body.part()?),
            other => return Err(MessageError::Kind(other)),
        };
        body.end(request)
    }

    fn descriptors(&self) -> usize {
        match self {
            Request::Hello { ring_entries, .. } => usize::from(ring_entries.is_some()),
            Request::File { .. } => 1,
            Request::Run(part) => usize::from(!part.more),
            Request::Forget { .. } | Request::Wake | Request::Stats | Request::Status(_) => 0,
        }
    }
}

impl Message for Reply {
    fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Reply::Welcome(welcome) => frame(to, kind::WELCOME, |body| {
                let Welcome { protocol, block_bytes, files, levels, disclosed_blocks } = *welcome;
                [protocol, block_bytes, files, levels].iter().for_each(|number| put_u32(body, *number));
                put_u64(body, disclosed_blocks);
            }),
            Reply::Error { code, handle, text } => {
                frame(to, kind::ERROR, |body| put_reason(body, *code, *handle, text));
            }
            Reply::Stats(statistics) => frame(to, kind::STATS_REPLY, |body| {
                statistics.to_words().iter().for_each(|word| put_u64(body, *word));
            }),
            Reply::Status(part) => frame(to, kind::STATUS_REPLY, |body| put_part(body, part)),
            Reply::Run(part) => frame(to, kind::RUN_REPLY, |body| put_part(body, part)),
            Reply::Ended { code, text } => {
                frame(to, kind::ENDED, |body| put_reason(body, *code, None, text));
            }
        }
    }

    fn decode(kind: u16, bytes: &[u8]) -> Result<Reply, MessageError> {
        let mut body = Body { kind, whole: bytes.len(), rest: bytes };
        let reply = match kind {
            kind::WELCOME => {
                let (protocol, block_bytes) = (body.u32()?, body.u32()?);
                let (files, levels) = (body.u32()?, body.u32()?);
                if block_bytes == 0 {
                    return Err(MessageError::Field("block_bytes"));
                }
                let disclosed_blocks = body.u64()?;
                Reply::Welcome(Welcome { protocol, block_bytes, files, levels, disclosed_blocks })
            }
            kind::ERROR => {
                let code = body.code()?;
                let handle = Handle::new(body.u32()?);
                Reply::Error { code, handle, text: body.text(REASON_BYTES)? }
            }
            kind::STATS_REPLY => {
                let mut words = [0; WORDS];
                for word in &mut words {
                    *word = body.u64()?;
                }
                Reply::Stats(Statistics::from_words(words))
            }
            kind::STATUS_REPLY => Reply::Status(body.part()?),
            kind::RUN_REPLY => Reply::Run(body.part()?),
            kind::ENDED => {
                let code = body.code()?;
                if body.u32()? != 0 {
                    return Err(MessageError::Field("reserved"));
                }
                Reply::Ended { code, text: body.text(REASON_BYTES)? }
            }
            other => return Err(MessageError::Kind(other)),
        };
        body.end(reply)
    }

    fn descriptors(&self) -> usize {
        0
    }
}
