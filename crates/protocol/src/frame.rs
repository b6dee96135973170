//! A stream of bytes and descriptors, cut into frames.
//!
//! A frame is a header of 8 bytes (length of the body, kind, a reserved zero) and the body. Descriptors
//! travel beside the bytes. The kernel hands them over with the first byte of the `sendmsg` that carried
//! them, so a [`Reader`] keeps them in the order of their arrival until a frame whose kind has descriptors
//! takes its number of them. Several frames may share one `sendmsg`. A descriptor that no frame of the bytes
//! received so far can claim is an error. Those of a frame that is never completed the service puts an end to: see
//! [`Reader::waiting_descriptors`].

use std::collections::VecDeque;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use crate::limits::{BODY_BYTES, DESCRIPTORS, HEADER_BYTES, RECEIVE_BYTES};
use crate::message::{Message, MessageError};
use crate::socket::{self, Received};

/// A message and what came along.
#[derive(Debug)]
pub struct Frame<M, D = OwnedFd> {
    /// The message.
    pub message: M,
    /// As many as [`Message::descriptors`] says.
    pub descriptors: Vec<D>,
}

/// What came is no frame of this protocol. Whoever sent it is not to be listened to any longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A body longer than any.
    #[error("a frame of {0} bytes; the longest has {BODY_BYTES}")]
    TooLong(u32),
    /// The reserved field of the header is not zero.
    #[error("the reserved field of a frame is not zero")]
    Reserved,
    /// The body means nothing.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A frame whose descriptor did not come along.
    #[error("a frame came without its descriptor")]
    DescriptorMissing,
    /// A descriptor that no frame asks for.
    #[error("a descriptor came along that no frame asks for")]
    DescriptorStray,
    /// More descriptors at a time than may wait.
    #[error("more than {DESCRIPTORS} descriptors at a time")]
    TooManyDescriptors,
}

/// What a [`Reader::receive`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// Bytes: see whether they make a frame ([`Reader::next_frame`]).
    Bytes,
    /// Nothing at present.
    Nothing,
    /// The other side has closed.
    Closed,
}

/// Puts frames together from what arrives in pieces. Holds at most one frame and a piece of
/// [`RECEIVE_BYTES`] when [`Reader::next_frame`] is called until there are none left before more is received.
///
/// `D` is what a descriptor is made into as soon as it is there: to close one may wait for whoever sent it, so who
/// must not wait gives it a type that is closed elsewhere.
#[derive(Debug)]
pub struct Reader<D = OwnedFd> {
    buffer: Vec<u8>,
    /// Bytes of the buffer that were taken.
    taken: usize,
    descriptors: VecDeque<D>,
}

impl Reader {
    /// One with nothing in it.
    #[must_use]
    pub fn new() -> Reader {
        Reader::default()
    }

    /// Receives once, without waiting.
    ///
    /// # Errors
    /// The socket's, or [`FrameError::TooManyDescriptors`].
    pub fn receive(&mut self, from: BorrowedFd<'_>) -> Result<Arrival, ReceiveError> {
        self.receive_as(from, |descriptor| descriptor)
    }
}

impl<D> Default for Reader<D> {
    fn default() -> Reader<D> {
        Reader { buffer: Vec::new(), taken: 0, descriptors: VecDeque::new() }
    }
}

impl<D> Reader<D> {
    /// Receives once, without waiting, and makes each descriptor into what `make` says.
    ///
    /// # Errors
    /// The socket's, or [`FrameError::TooManyDescriptors`].
    pub fn receive_as(
        &mut self,
        from: BorrowedFd<'_>,
        make: impl FnMut(OwnedFd) -> D,
    ) -> Result<Arrival, ReceiveError> {
        let mut bytes = [0; RECEIVE_BYTES];
        match socket::receive(from, &mut bytes)? {
            Received::Nothing => Ok(Arrival::Nothing),
            Received::Closed => Ok(Arrival::Closed),
            Received::Some { length, descriptors, cut } => {
                let descriptors = descriptors.into_iter().map(make).collect();
                if cut {
                    return Err(FrameError::TooManyDescriptors.into());
                }
                self.feed(&bytes[..length], descriptors)?;
                Ok(Arrival::Bytes)
            }
        }
    }

    /// Descriptors that wait for the rest of their frames.
    #[must_use]
    pub fn waiting_descriptors(&self) -> usize {
        self.descriptors.len()
    }

    /// Bytes that wait for the rest of their frame, or to be taken.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        self.buffer.len() - self.taken
    }

    /// Takes in what was received by other means.
    ///
    /// # Errors
    /// When more descriptors wait than may.
    pub fn feed(&mut self, bytes: &[u8], descriptors: Vec<D>) -> Result<(), FrameError> {
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.extend_from_slice(bytes);
        self.descriptors.extend(descriptors);
        if self.descriptors.len() > DESCRIPTORS { Err(FrameError::TooManyDescriptors) } else { Ok(()) }
    }

    /// The next frame, if all of it has arrived.
    ///
    /// # Errors
    /// When there is none to be made of what has arrived.
    pub fn next_frame<M: Message>(&mut self) -> Result<Option<Frame<M, D>>, FrameError> {
        let waiting = &self.buffer[self.taken..];
        let Some((header, rest)) = waiting.split_first_chunk::<HEADER_BYTES>() else {
            return self.unfinished();
        };
        let [l0, l1, l2, l3, k0, k1, r0, r1] = *header;
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        if length as usize > BODY_BYTES {
            return Err(FrameError::TooLong(length));
        }
        if [r0, r1] != [0, 0] {
            return Err(FrameError::Reserved);
        }
        let Some(body) = rest.get(..length as usize) else { return self.unfinished() };
        let message = M::decode(u16::from_le_bytes([k0, k1]), body)?;
        self.taken += HEADER_BYTES + length as usize;
        if self.descriptors.len() < message.descriptors() {
            return Err(FrameError::DescriptorMissing);
        }
        let descriptors = self.descriptors.drain(..message.descriptors()).collect();
        Ok(Some(Frame { message, descriptors }))
    }

    /// No frame at present. Descriptors came with the first byte of something that is still to be completed,
    /// or nobody will claim them.
    fn unfinished<M>(&mut self) -> Result<Option<Frame<M, D>>, FrameError> {
        if self.taken == self.buffer.len() {
            if !self.descriptors.is_empty() {
                return Err(FrameError::DescriptorStray);
            }
            // A long frame leaves nothing behind.
            self.taken = 0;
            self.buffer.clear();
            self.buffer.shrink_to(RECEIVE_BYTES);
        }
        Ok(None)
    }
}

/// Receiving failed.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The socket's error.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// What was received is not to be taken.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// What is still to be sent, for a side whose other side takes its time.
#[derive(Debug)]
pub struct Outbox {
    bytes: VecDeque<u8>,
    most: usize,
}

/// More is waiting to be sent than may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("more than {0} bytes wait to be taken by the other side")]
pub struct OutboxFull(
    /// The limit in bytes.
    pub usize,
);

impl Outbox {
    /// One that holds at most this many bytes.
    #[must_use]
    pub fn new(most: usize) -> Outbox {
        Outbox { bytes: VecDeque::new(), most }
    }

    /// Is there nothing to be sent?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes to be sent.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a message. Nothing of it is added when it does not fit.
    ///
    /// # Errors
    /// When too much waits already.
    pub fn push<M: Message>(&mut self, message: &M) -> Result<(), OutboxFull> {
        let mut frame = Vec::new();
        message.encode(&mut frame);
        self.push_bytes(&frame)
    }

    /// Adds bytes of a frame, such as the rest of one that was sent in part.
    ///
    /// # Errors
    /// When too much waits already.
    pub fn push_bytes(&mut self, bytes: &[u8]) -> Result<(), OutboxFull> {
        if self.bytes.len() + bytes.len() > self.most {
            return Err(OutboxFull(self.most));
        }
        self.bytes.extend(bytes);
        Ok(())
    }

    /// Sends what the other side takes without waiting. Returns whether nothing is left.
    ///
    /// # Errors
    /// The socket's: the connection is over.
    pub fn flush(&mut self, to: BorrowedFd<'_>) -> io::Result<bool> {
        while !self.bytes.is_empty() {
            let sent = socket::send(to, self.bytes.as_slices().0, &[])?;
            if sent == 0 {
                return Ok(false);
            }
            self.bytes.drain(..sent);
        }
        self.bytes.shrink_to(RECEIVE_BYTES);
        Ok(true)
    }
}
