//! Frames: what is written reads back the same however it was cut, and what is hostile is refused.

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use foretell_protocol::frame::{Arrival, ReceiveError};
use foretell_protocol::limits::{BODY_BYTES, DESCRIPTORS, HEADER_BYTES, TEXT_BYTES};
use foretell_protocol::message::Message;
use foretell_protocol::{
    ErrorCode, FrameError, Handle, MessageError, Outbox, PROTOCOL, Part, Parts, Reader, Reply, Request,
    Statistics, Welcome, socket,
};
use proptest::prelude::*;

fn handle() -> impl Strategy<Value = Handle> {
    any::<std::num::NonZeroU32>().prop_map(Handle)
}

fn part() -> impl Strategy<Value = Part> {
    (any::<bool>(), "\\PC{0,300}").prop_map(|(more, text)| Part { more, text })
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        (6u32..=16, any::<bool>()).prop_map(|(bits, ring)| Request::Hello {
            protocol: PROTOCOL,
            ring_entries: ring.then_some(1 << bits)
        }),
        (2u32.., any::<u32>()).prop_map(|(protocol, entries)| Request::Hello {
            protocol,
            ring_entries: (entries != 0).then_some(entries)
        }),
        (handle(), any::<u32>()).prop_map(|(handle, number)| Request::File { handle, number }),
        handle().prop_map(|handle| Request::Forget { handle }),
        Just(Request::Wake),
        Just(Request::Stats),
        part().prop_map(Request::Status),
        part().prop_map(Request::Run),
    ]
}

fn code() -> impl Strategy<Value = ErrorCode> {
    (0..ErrorCode::ALL.len()).prop_map(|at| ErrorCode::ALL[at])
}

fn reply() -> impl Strategy<Value = Reply> {
    let welcome = (1u32.., any::<[u32; 3]>(), any::<u64>());
    prop_oneof![
        welcome.prop_map(|(block_bytes, [protocol, files, levels], disclosed_blocks)| {
            Reply::Welcome(Welcome { protocol, block_bytes, files, levels, disclosed_blocks })
        }),
        (code(), proptest::option::of(handle()), "\\PC{0,100}")
            .prop_map(|(code, handle, text)| Reply::Error { code, handle, text }),
        any::<[u64; 4]>().prop_map(|[disclosed, owned, hits, revoked]| {
            Reply::Stats(Statistics { disclosed, owned, hits, revoked, ..Statistics::default() })
        }),
        part().prop_map(Reply::Status),
        part().prop_map(Reply::Run),
        (code(), "\\PC{0,100}").prop_map(|(code, text)| Reply::Ended { code, text }),
    ]
}

/// Feeds `bytes` in pieces of these sizes, taking the frames after each; `Null` descriptors come with the
/// first byte.
fn read_in_pieces<M: Message>(bytes: &[u8], sizes: &[usize]) -> Result<Vec<M>, FrameError> {
    let mut reader = Reader::new();
    let mut messages = Vec::new();
    let (mut rest, mut sizes) = (bytes, sizes.iter().cycle());
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
        rest = after;
        reader.feed(piece, Vec::new())?;
        while let Some(frame) = reader.next_frame::<M>()? {
            messages.push(frame.message);
        }
    }
    Ok(messages)
}

fn null() -> OwnedFd {
    std::fs::File::open("/dev/null").unwrap().into()
}

proptest! {
    #[test]
    fn replies_read_back_however_they_are_cut(
        replies in proptest::collection::vec(reply(), 1..8),
        sizes in proptest::collection::vec(1usize..200, 1..5),
    ) {
        let mut bytes = Vec::new();
        replies.iter().for_each(|reply| reply.encode(&mut bytes));
        prop_assert_eq!(read_in_pieces::<Reply>(&bytes, &sizes), Ok(replies));
    }

    #[test]
    fn a_request_reads_back_as_it_was_written(request in request()) {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        let kind = u16::from_le_bytes([bytes[4], bytes[5]]);
        prop_assert_eq!(Request::decode(kind, &bytes[HEADER_BYTES..]), Ok(request));
    }

    #[test]
    fn a_body_that_is_a_message_is_its_only_body(
        kind in prop_oneof![0u16..10, 0x8000u16..0x800a, any::<u16>()],
        body in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..200),
    ) {
        fn check<M: Message + std::fmt::Debug>(kind: u16, body: &[u8]) {
            if let Ok(message) = M::decode(kind, body) {
                let mut bytes = Vec::new();
                message.encode(&mut bytes);
                assert_eq!(&bytes[4..6], kind.to_le_bytes());
                assert_eq!(&bytes[HEADER_BYTES..], body);
            }
        }
        check::<Request>(kind, &body);
        check::<Reply>(kind, &body);
    }

    #[test]
    fn no_stream_of_bytes_is_too_much(
        bytes in proptest::collection::vec(prop_oneof![Just(0u8), 0u8..9, any::<u8>()], 0..2000),
        sizes in proptest::collection::vec(1usize..200, 1..5),
    ) {
        let _ = read_in_pieces::<Request>(&bytes, &sizes);
        let _ = read_in_pieces::<Reply>(&bytes, &sizes);
    }

    #[test]
    fn a_long_text_comes_together_from_its_parts(text in "\\PC{0,100}", times in 1usize..2000) {
        let text = text.repeat(times);
        let mut parts = Parts::default();
        let cut = Part::cut(&text);
        let (last, before) = cut.split_last().unwrap();
        for part in before {
            prop_assert_eq!(parts.add(part), Ok(None));
        }
        prop_assert_eq!(parts.add(last), Ok(Some(text)));
    }
}

#[test]
fn a_text_without_end_is_given_up() {
    let mut parts = Parts::default();
    let part = Part { more: true, text: "x".repeat(BODY_BYTES - 4) };
    let fed = (0..).find(|_| parts.add(&part).is_err()).unwrap();
    assert_eq!(fed, TEXT_BYTES / (BODY_BYTES - 4));
}

#[test]
fn what_is_no_frame_is_refused_in_one_line() {
    let frame = |length: u32, kind: u16, reserved: u16| {
        [&length.to_le_bytes()[..], &kind.to_le_bytes(), &reserved.to_le_bytes()].concat()
    };
    let hello = |entries: u32| {
        let mut bytes = frame(8, 1, 0);
        bytes.extend([PROTOCOL.to_le_bytes(), entries.to_le_bytes()].concat());
        bytes
    };
    let cases: [(Vec<u8>, FrameError); 8] = [
        (frame(BODY_BYTES as u32 + 1, 4, 0), FrameError::TooLong(BODY_BYTES as u32 + 1)),
        (frame(u32::MAX, 4, 0), FrameError::TooLong(u32::MAX)),
        (frame(0, 4, 1), FrameError::Reserved),
        (frame(0, 99, 0), MessageError::Kind(99).into()),
        (frame(0, 2, 0), MessageError::Length { kind: 2, found: 0 }.into()),
        ([frame(4, 2, 0), vec![0; 4]].concat(), MessageError::Field("handle").into()),
        (hello(100), MessageError::Field("ring_entries").into()),
        (hello(1 << 17), MessageError::Field("ring_entries").into()),
    ];
    for (bytes, error) in cases {
        let mut reader = Reader::new();
        reader.feed(&bytes, vec![null()]).unwrap();
        let found = reader.next_frame::<Request>().unwrap_err();
        assert_eq!(found, error);
        assert!(!found.to_string().contains('\n'));
    }
}

#[test]
fn descriptors_reach_the_frames_that_ask_for_them() {
    let (client, service) = UnixStream::pair().unwrap();
    let files: Vec<_> = (0..3).map(|_| tempfile()).collect();
    let mut bytes = Vec::new();
    for (at, _) in files.iter().enumerate() {
        let handle = Handle::new(at as u32 + 1).unwrap();
        Request::File { handle, number: 3 }.encode(&mut bytes);
        Request::Wake.encode(&mut bytes);
    }
    let fds: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    assert_eq!(socket::send(client.as_fd(), &bytes, &fds).unwrap(), bytes.len());
    let mut reader = Reader::new();
    assert_eq!(reader.receive(service.as_fd()).unwrap(), Arrival::Bytes);
    let mut seen = Vec::new();
    while let Some(frame) = reader.next_frame::<Request>().unwrap() {
        if let Request::File { handle, .. } = frame.message {
            let [descriptor] = <[OwnedFd; 1]>::try_from(frame.descriptors).unwrap();
            seen.push((handle.number() as usize, ino(&descriptor)));
        }
    }
    let sent: Vec<_> = files.iter().enumerate().map(|(at, file)| (at + 1, ino(file))).collect();
    assert_eq!(seen, sent);
    assert_eq!(reader.receive(service.as_fd()).unwrap(), Arrival::Nothing);
    drop(client);
    assert_eq!(reader.receive(service.as_fd()).unwrap(), Arrival::Closed);
}

#[test]
fn a_frame_without_its_descriptor_is_refused() {
    let mut bytes = Vec::new();
    Request::File { handle: Handle::new(1).unwrap(), number: 3 }.encode(&mut bytes);
    let mut reader = Reader::new();
    reader.feed(&bytes, Vec::new()).unwrap();
    assert_eq!(reader.next_frame::<Request>().unwrap_err(), FrameError::DescriptorMissing);
}

#[test]
fn a_descriptor_without_its_frame_is_refused() {
    let mut bytes = Vec::new();
    Request::Wake.encode(&mut bytes);
    let mut reader = Reader::new();
    reader.feed(&bytes, vec![null()]).unwrap();
    assert!(matches!(reader.next_frame::<Request>(), Ok(Some(_))));
    assert_eq!(reader.next_frame::<Request>().unwrap_err(), FrameError::DescriptorStray);
}

#[test]
fn more_descriptors_than_may_wait_are_refused() {
    let mut reader = Reader::new();
    let descriptors = (0..=DESCRIPTORS).map(|_| null()).collect();
    assert_eq!(reader.feed(&[0], descriptors), Err(FrameError::TooManyDescriptors));
}

/// The kernel drops what does not fit into the receiver's buffer.
#[test]
fn more_descriptors_than_are_received_at_a_time_are_refused() {
    let (client, service) = UnixStream::pair().unwrap();
    let file = null();
    let fds = vec![file.as_fd(); DESCRIPTORS + 1];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS + 1))];
    let mut control = rustix::net::SendAncillaryBuffer::new(&mut space);
    assert!(control.push(rustix::net::SendAncillaryMessage::ScmRights(&fds)));
    let bytes = [std::io::IoSlice::new(b"x")];
    rustix::net::sendmsg(&client, &bytes, &mut control, rustix::net::SendFlags::empty()).unwrap();
    let error = Reader::new().receive(service.as_fd()).unwrap_err();
    assert!(matches!(error, ReceiveError::Frame(FrameError::TooManyDescriptors)), "{error}");
}

#[test]
fn an_outbox_sends_what_is_taken_and_keeps_the_rest() {
    let (mut client, service) = UnixStream::pair().unwrap();
    let mut outbox = Outbox::new(8 << 20);
    let text = "x".repeat(60_000);
    let mut pushed = 0;
    while outbox.push(&Reply::Status(Part { more: false, text: text.clone() })).is_ok() {
        pushed += 1;
    }
    assert!(!outbox.flush(service.as_fd()).unwrap(), "a socket holds less than that");
    let mut reader = Reader::new();
    let mut seen = 0;
    client.set_nonblocking(true).unwrap();
    loop {
        let done = outbox.flush(service.as_fd()).unwrap();
        while reader.receive(client.as_fd()).unwrap() == Arrival::Bytes {
            while let Some(frame) = reader.next_frame::<Reply>().unwrap() {
                assert!(matches!(frame.message, Reply::Status(part) if part.text == text));
                seen += 1;
            }
        }
        if done {
            break;
        }
    }
    assert_eq!(seen, pushed);
    assert!(outbox.is_empty());
    // Nobody there any more: an error, no signal.
    client.write_all(b"").unwrap();
    drop(client);
    outbox.push(&Reply::Stats(Statistics::default())).unwrap();
    assert!(outbox.flush(service.as_fd()).is_err());
}

#[test]
fn every_code_has_a_number_of_its_own() {
    for (at, code) in ErrorCode::ALL.iter().enumerate() {
        assert_eq!(ErrorCode::from_number(code.number()), Some(*code));
        assert!(ErrorCode::ALL[..at].iter().all(|before| before.number() < code.number()));
    }
    assert_eq!(ErrorCode::from_number(0), None);
}

#[test]
fn nobody_listens_where_there_is_no_socket() {
    assert!(socket::connect(std::path::Path::new("/nonexistent/foretelld.sock")).is_err());
}

/// A file in memory, with an inode of its own.
fn tempfile() -> OwnedFd {
    rustix::fs::memfd_create(c"file", rustix::fs::MemfdFlags::CLOEXEC).unwrap()
}

fn ino(file: &OwnedFd) -> u64 {
    rustix::fs::fstat(file).unwrap().st_ino
}

/// Reads everything at once, to see that a stream ends where its last frame does.
#[test]
fn the_bytes_of_the_documentation_are_those_on_the_wire() {
    let (mut client, service) = UnixStream::pair().unwrap();
    let mut outbox = Outbox::new(1024);
    outbox.push(&Request::Hello { protocol: 1, ring_entries: None }).unwrap();
    outbox.push(&Request::Forget { handle: Handle::new(0x0102).unwrap() }).unwrap();
    outbox.push(&Request::Wake).unwrap();
    assert!(outbox.flush(service.as_fd()).unwrap());
    drop(service);
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    let expected = [
        [8, 0, 0, 0, 1, 0, 0, 0].as_slice(),
        &[1, 0, 0, 0, 0, 0, 0, 0],
        &[4, 0, 0, 0, 3, 0, 0, 0],
        &[2, 1, 0, 0],
        &[0, 0, 0, 0, 4, 0, 0, 0],
    ];
    assert_eq!(bytes, expected.concat());
}
