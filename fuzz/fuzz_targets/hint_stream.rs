//! A stream of hints, plain or packed: lines stay within their limit, are counted one by one, and do not
//! depend on the pieces in which the stream comes.

#![no_main]

use std::io::{Cursor, Read, Result};

use foretell::hints::lines::{Line, Lines, MAX_LINE_BYTES, Packing, unpack};
use libfuzzer_sys::fuzz_target;

/// A few bytes of zstd unpack to hundreds of MiB; more than this of them teaches nothing.
const UNPACKED_BYTES: u64 = 1 << 20;

/// A stream that comes in pieces.
struct Pieces<R>(R, usize);

impl<R: Read> Read for Pieces<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let most = self.1.min(buffer.len());
        self.0.read(&mut buffer[..most])
    }
}

/// What is in the stream, line by line, `None` for a line that is too long; and whether it ended well.
fn read(bytes: &[u8], piece_bytes: usize) -> Option<(Packing, Vec<Option<Vec<u8>>>, bool)> {
    let (packing, stream) = unpack(Pieces(Cursor::new(bytes.to_vec()), piece_bytes)).ok()?;
    let mut lines = Lines::new(stream.take(UNPACKED_BYTES));
    let mut read = Vec::new();
    let ended_well = loop {
        match lines.next_line() {
            Ok(None) => break true,
            Err(_) => break false,
            Ok(Some(Line::TooLong)) => read.push(None),
            Ok(Some(Line::Whole(line) | Line::Unended(line))) => {
                assert!(line.len() <= MAX_LINE_BYTES && !line.contains(&b'\n'));
                read.push(Some(line.to_vec()));
            }
        }
        assert_eq!(lines.number(), read.len() as u64);
    };
    Some((packing, read, ended_well))
}

fuzz_target!(|bytes: &[u8]| {
    let (whole, in_pieces) = (read(bytes, usize::MAX), read(bytes, 1));
    let (Some((packing, lines, ended_well)), Some(in_pieces)) = (&whole, &in_pieces) else {
        return assert_eq!(whole, in_pieces);
    };
    assert_eq!((packing, ended_well), (&in_pieces.0, &in_pieces.2));
    // A packed stream that is damaged may say so sooner or later.
    let common = if *ended_well { usize::MAX } else { lines.len().min(in_pieces.1.len()) };
    assert!(lines.iter().take(common).eq(in_pieces.1.iter().take(common)));
    if *packing != Packing::Plain {
        return;
    }
    assert!(ended_well);
    if let Some(lines) = lines.iter().cloned().collect::<Option<Vec<_>>>() {
        assert_eq!(lines.join(&b'\n'), bytes.strip_suffix(b"\n").unwrap_or(bytes));
    }
});
