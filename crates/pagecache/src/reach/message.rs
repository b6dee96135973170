//! What goes between a process and its broker: a packet each way, on a socket that nobody else has.
//!
//! ```text
//!  number    u64   of the question; its answer has the same
//!  kind      u64   what is asked; in an answer 0, or the error number
//!  words     u64   how many follow
//!  …         u64   each
//!  text            the rest
//! ```
//!
//! Numbers are in the machine's byte order, as both sides are one program. Descriptors go beside it (`SCM_RIGHTS`).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

use super::link::Links;

/// Bytes of a packet: the links of a process that has as many descriptors open as are looked at, and some.
pub(super) const PACKET_BYTES: usize = 160 << 10;
/// Descriptors that go with a packet.
pub(super) const DESCRIPTORS: usize = 64;

/// A packet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Message {
    pub(super) number: u64,
    pub(super) kind: u64,
    pub(super) words: Vec<u64>,
    pub(super) text: Vec<u8>,
}

const WORD: usize = size_of::<u64>();

impl Message {
    pub(super) fn encode(&self) -> Vec<u8> {
        let head = [self.number, self.kind, self.words.len() as u64];
        let words = head.iter().chain(&self.words).flat_map(|word| word.to_ne_bytes());
        words.chain(self.text.iter().copied()).collect()
    }

    /// `None` for what is none.
    pub(super) fn parse(packet: &[u8]) -> Option<Message> {
        let word =
            |at: usize| Some(u64::from_ne_bytes(packet.get(at * WORD..(at + 1) * WORD)?.try_into().ok()?));
        let (number, kind) = (word(0)?, word(1)?);
        let count = usize::try_from(word(2)?).ok().filter(|count| *count <= packet.len() / WORD)?;
        let words = (3..3 + count).map(word).collect::<Option<Vec<u64>>>()?;
        Some(Message { number, kind, words, text: packet.get((3 + count) * WORD..)?.to_vec() })
    }
}

/// Sends a packet; does not wait for room, of which there is enough for one.
pub(super) fn send(to: BorrowedFd<'_>, message: &Message, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let packet = message.encode();
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    loop {
        match rustix::net::sendmsg(to, &[IoSlice::new(&packet)], &mut control, flags) {
            Err(Errno::INTR) => {}
            sent => return Ok(sent.map(drop)?),
        }
    }
}

/// Receives a packet, and waits for it unless the flags say otherwise.
///
/// # Errors
/// [`io::ErrorKind::UnexpectedEof`] when the other side has ended.
pub(super) fn receive(
    from: BorrowedFd<'_>,
    packet: &mut [u8],
    flags: RecvFlags,
) -> io::Result<(Message, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match rustix::net::recvmsg(from, &mut [IoSliceMut::new(packet)], &mut control, flags) {
            Err(Errno::INTR) => {}
            received => break received?,
        }
    };
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            descriptors.extend(received);
        }
    }
    if received.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let message = Message::parse(packet.get(..received.bytes).unwrap_or_default());
    Ok((message.ok_or(io::ErrorKind::InvalidData)?, descriptors))
}

/// What can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Question {
    Look = 1,
    Links,
    LookAtLinks,
    OpenAgain,
    OpenByNumber,
    Advise,
    PageOut,
    Vouch,
}

impl Question {
    const ALL: [Question; 8] = [
        Question::Look,
        Question::Links,
        Question::LookAtLinks,
        Question::OpenAgain,
        Question::OpenByNumber,
        Question::Advise,
        Question::PageOut,
        Question::Vouch,
    ];

    pub(super) fn of(kind: u64) -> Option<Question> {
        Question::ALL.into_iter().find(|question| *question as u64 == kind)
    }
}

/// Links that are asked about at a time: each may have a descriptor in the answer.
pub(super) const LINKS_AT_A_TIME: usize = DESCRIPTORS;

/// Links of a process that are told.
pub(super) const MOST_LINKS: usize = 8192;

/// How a kind of links is called.
pub(super) const fn number_of(links: Links) -> u64 {
    match links {
        Links::Open => 0,
        Links::Mapped => 1,
    }
}

/// What an answer says of a link: it leads somewhere, to a file, and a descriptor of that comes with the answer.
pub(super) const LINK: u64 = 1;

pub(super) const LINK_IS_FILE: u64 = 2;

pub(super) const LINK_IS_HERE: u64 = 4;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_comes_is_read_as_it_is_or_not_at_all(packet in prop::collection::vec(any::<u8>(), 0..120), count in 0..14_u64) {
            // Mostly with a count of words that there may be.
            for packet in [packet.clone(), [&packet[..packet.len().min(16)], &count.to_ne_bytes(), &packet].concat()] {
                if let Some(message) = Message::parse(&packet) {
                    prop_assert_eq!(message.encode(), packet);
                }
            }
        }
    }

    #[test]
    fn a_message_reads_back_and_what_is_cut_short_is_none() {
        let message = Message { number: 7, kind: 3, words: vec![1, u64::MAX], text: b"/x y\xff".to_vec() };
        let packet = message.encode();
        assert_eq!(Message::parse(&packet), Some(message));
        for length in 0..5 * WORD {
            assert_eq!(Message::parse(&packet[..length]), None, "{length}");
        }
        let mut many = packet;
        many[2 * WORD..3 * WORD].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(Message::parse(&many), None);
    }
}
