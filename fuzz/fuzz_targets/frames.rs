//! Frames between client and service, in both directions: what was understood is written as the same bytes
//! and reads back the same, however the stream was cut; an error is one line.
//!
//! The first byte of the input says how the rest is cut and where descriptors come along.

#![no_main]

use std::os::fd::OwnedFd;

use foretell_fuzz::one_line;
use foretell_protocol::limits::{BODY_BYTES, DESCRIPTORS, HEADER_BYTES, RECEIVE_BYTES};
use foretell_protocol::message::Message;
use foretell_protocol::{Reader, Reply, Request};
use libfuzzer_sys::fuzz_target;

fn read<M: Message + PartialEq + std::fmt::Debug>(bytes: &[u8], cut: usize, descriptors: usize) {
    let mut reader = Reader::new();
    let mut written = Vec::new();
    for piece in bytes.chunks(cut) {
        let files = (0..descriptors).map(|_| OwnedFd::from(std::io::pipe().expect("a pipe").0)).collect();
        if let Err(error) = reader.feed(piece, files) {
            return one_line(&error.to_string());
        }
        loop {
            match reader.next_frame::<M>() {
                Ok(None) => break,
                Ok(Some(frame)) => {
                    assert_eq!(frame.descriptors.len(), frame.message.descriptors());
                    assert!(frame.descriptors.len() <= DESCRIPTORS);
                    let start = written.len();
                    frame.message.encode(&mut written);
                    let again = &written[start..];
                    assert!(again.len() <= HEADER_BYTES + BODY_BYTES);
                    assert_eq!(again, &bytes[start..written.len()], "one sequence of bytes for a message");
                    let kind = u16::from_le_bytes([again[4], again[5]]);
                    assert_eq!(M::decode(kind, &again[HEADER_BYTES..]), Ok(frame.message));
                }
                Err(error) => return one_line(&error.to_string()),
            }
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&how, bytes)) = bytes.split_first() else { return };
    let cut = [1, 7, 100, RECEIVE_BYTES][usize::from(how % 4)];
    let descriptors = usize::from(how / 4 % 3);
    // Descriptors with every byte would be all that is looked at.
    let descriptors = if cut < 100 { 0 } else { descriptors };
    read::<Request>(bytes, cut, descriptors);
    read::<Reply>(bytes, cut, descriptors);
});
