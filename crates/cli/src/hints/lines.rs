//! A stream of text, gzip or zstd, cut into numbered lines in bounded memory.
//!
//! The kind is told by the first bytes. They are read one by one and only as long as they may still be a
//! magic number, so the first line of a FIFO is never held back waiting for a fourth byte.

use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use flate2::read::MultiGzDecoder;

/// The longest line. A path is at most 4095 bytes, four times that with every byte escaped, and two numbers.
pub const MAX_LINE_BYTES: usize = 32 << 10;

/// The first bytes of gzip data (RFC 1952, section 2.3.1).
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
/// The first bytes of a zstd frame (RFC 8878, section 3.1.1, little-endian 0xFD2FB528).
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The most memory that a zstd stream may ask for, as a power of two: 128 MiB, what its own command allows.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
/// What a packed list may unpack to: so many bytes, whatever it has ...
const UNPACKED_BYTES: u64 = 64 << 20;
/// ... so many more for each of its own; lists of real programs stay below 50 ...
const UNPACKED_RATIO: u64 = 256;
/// ... and no more than this: some hundred million hints.
const UNPACKED_BYTES_MOST: u64 = 16 << 30;
/// Bytes read at a time.
const BUFFER_BYTES: usize = 128 << 10;

/// How a stream is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    Plain,
    /// One or more gzip members.
    Gzip,
    /// One or more zstd frames.
    Zstd,
}

/// Unpacks a stream according to its first bytes.
pub fn unpack<R: Read + Send + 'static>(mut raw: R) -> io::Result<(Packing, Box<dyn Read + Send>)> {
    let mut head = Vec::with_capacity(ZSTD_MAGIC.len());
    let packing = loop {
        let mut byte = [0];
        match raw.read(&mut byte) {
            Ok(0) => break Packing::Plain,
            Ok(_) => head.push(byte[0]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        }
        if head == GZIP_MAGIC {
            break Packing::Gzip;
        } else if head == ZSTD_MAGIC {
            break Packing::Zstd;
        } else if !GZIP_MAGIC.starts_with(&head) && !ZSTD_MAGIC.starts_with(&head) {
            break Packing::Plain;
        }
    };
    let packed_bytes = Arc::new(AtomicU64::new(0));
    let whole = Counted { stream: Cursor::new(head).chain(raw), bytes: Arc::clone(&packed_bytes) };
    let limited = |stream| Limited { stream, bytes: 0, packed_bytes };
    let stream: Box<dyn Read + Send> = match packing {
        Packing::Plain => Box::new(whole),
        Packing::Gzip => {
            let whole = BufReader::with_capacity(BUFFER_BYTES, whole);
            Box::new(limited(Box::new(MultiGzDecoder::new(whole)) as Box<dyn Read + Send>))
        }
        Packing::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::new(whole)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            Box::new(limited(Box::new(decoder)))
        }
    };
    Ok((packing, stream))
}

/// Counts what was read.
struct Counted<R> {
    stream: R,
    bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(to)?;
        self.bytes.fetch_add(read as u64, Relaxed);
        Ok(read)
    }
}

/// What comes out of a decompressor, as long as it is in proportion to what went in.
struct Limited {
    stream: Box<dyn Read + Send>,
    bytes: u64,
    packed_bytes: Arc<AtomicU64>,
}

impl Read for Limited {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(to)?;
        self.bytes += read as u64;
        let packed = self.packed_bytes.load(Relaxed);
        if self.bytes > unpacked_limit(packed) {
            let what = format!("{packed} packed bytes unpack to more than {} bytes", unpacked_limit(packed));
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(read)
    }
}

/// Bytes that a stream may unpack to after so many packed ones.
fn unpacked_limit(packed_bytes: u64) -> u64 {
    UNPACKED_BYTES.saturating_add(packed_bytes.saturating_mul(UNPACKED_RATIO)).min(UNPACKED_BYTES_MOST)
}

/// The next line of a stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A line, without its newline.
    Whole(&'a [u8]),
    /// The stream ended (so far) inside this line: it has no newline.
    Unended(&'a [u8]),
    /// Longer than [`MAX_LINE_BYTES`]; skipped to its end.
    TooLong,
}

/// Cuts a stream into lines and counts them.
pub struct Lines<R> {
    stream: BufReader<R>,
    line: Vec<u8>,
    number: u64,
    unended: bool,
}

impl<R: Read> Lines<R> {
    /// Lines of `stream`.
    pub fn new(stream: R) -> Lines<R> {
        Lines {
            stream: BufReader::with_capacity(BUFFER_BYTES, stream),
            line: Vec::new(),
            number: 0,
            unended: false,
        }
    }

    /// Number of the last line given, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Is a whole line buffered, so that the next one comes without waiting for the writer?
    pub fn has_whole_line(&self) -> bool {
        self.stream.buffer().contains(&b'\n')
    }

    /// The next line; `None` at the end of the stream. A stream that grows may be asked again: the rest of
    /// a line that was [`Line::Unended`] then comes together with its beginning, under the same number.
    pub fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut too_long = false;
        let kept = if self.unended { self.line.len() } else { 0 };
        self.line.truncate(kept);
        loop {
            let room = (MAX_LINE_BYTES + 1).saturating_sub(self.line.len()) as u64;
            let read = (&mut self.stream).take(room).read_until(b'\n', &mut self.line)?;
            let ended = self.line.last() == Some(&b'\n');
            if !ended && self.line.len() > MAX_LINE_BYTES {
                too_long = true;
                self.line.clear();
                continue;
            }
            if read == 0 && !too_long && self.line.len() == kept {
                // Nothing new: what was unended stays so.
                return Ok(None);
            }
            self.number += u64::from(!self.unended);
            self.unended = !ended && !too_long;
            return Ok(Some(match (too_long, ended) {
                (true, _) => Line::TooLong,
                (false, true) => Line::Whole(&self.line[..self.line.len() - 1]),
                (false, false) => Line::Unended(&self.line),
            }));
        }
    }

    /// Takes an unended line as finished: whatever the stream grows by begins a new one.
    pub fn end_line(&mut self) {
        self.unended = false;
        self.line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn all(stream: impl Read) -> Vec<String> {
        let mut lines = Lines::new(stream);
        let mut out = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            out.push(match line {
                Line::Whole(text) => String::from_utf8_lossy(text).into_owned(),
                Line::Unended(text) => format!("{}…", String::from_utf8_lossy(text)),
                Line::TooLong => "(too long)".into(),
            });
        }
        out
    }

    #[test]
    fn plain_gzip_and_zstd_are_told_by_their_first_bytes() {
        let text = b"a\nb 0 1\n".to_vec();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let gzip = gzip.finish().unwrap();
        let twice = [gzip.clone(), gzip].concat();
        let zstd = zstd::encode_all(&text[..], 1).unwrap();
        for (raw, packing, times) in
            [(text, Packing::Plain, 1), (twice, Packing::Gzip, 2), (zstd, Packing::Zstd, 1)]
        {
            let (found, stream) = unpack(Cursor::new(raw)).unwrap();
            assert_eq!(found, packing);
            assert_eq!(all(stream), ["a", "b 0 1"].repeat(times));
        }
    }

    #[test]
    fn a_list_that_unpacks_out_of_proportion_is_refused() {
        let blanks = |bytes: u64| io::repeat(b'\n').take(bytes);
        // Packed to next to nothing: as much as may come of that, and as much again.
        for (bytes, fits) in [(UNPACKED_BYTES, true), (2 * UNPACKED_BYTES, false)] {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
            io::copy(&mut blanks(bytes), &mut gzip).unwrap();
            let gzip = gzip.finish().unwrap();
            let zstd = zstd::encode_all(blanks(bytes), 1).unwrap();
            for packed in [gzip, zstd] {
                let (_, mut stream) = unpack(Cursor::new(packed)).unwrap();
                let found = io::copy(&mut stream, &mut io::sink());
                assert_eq!(found.is_ok(), fits, "{bytes}: {found:?}");
            }
        }
        assert_eq!(unpacked_limit(u64::MAX), UNPACKED_BYTES_MOST);
        assert_eq!(unpacked_limit(1), UNPACKED_BYTES + UNPACKED_RATIO);
    }

    #[test]
    fn what_only_begins_like_a_magic_number_is_text() {
        for text in ["", "(", "(x\n", "\u{1f}\n"] {
            let (packing, mut stream) = unpack(Cursor::new(text.to_owned())).unwrap();
            let mut back = String::new();
            stream.read_to_string(&mut back).unwrap();
            assert_eq!((packing, back.as_str()), (Packing::Plain, text));
        }
    }

    #[test]
    fn long_lines_are_skipped_and_counted() {
        let long = "x".repeat(MAX_LINE_BYTES + 1);
        let text = format!("{}\n{long}\n{long}{long}\nb", "y".repeat(MAX_LINE_BYTES));
        assert_eq!(all(text.as_bytes())[1..], ["(too long)", "(too long)", "b…"]);
    }

    /// A stream that says "end" after each of its pieces.
    struct Growing(std::collections::VecDeque<&'static [u8]>);

    impl Read for Growing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let piece = self.0.pop_front().unwrap_or(b"");
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    #[test]
    fn an_unended_line_is_joined_with_its_rest() {
        let mut lines = Lines::new(Growing([&b"one\ntw"[..], b"", b"", b"o\n", b""].into()));
        assert_eq!(lines.next_line().unwrap(), Some(Line::Whole(b"one")));
        assert_eq!(lines.next_line().unwrap(), Some(Line::Unended(b"tw")));
        assert_eq!(lines.next_line().unwrap(), None);
        assert_eq!(lines.next_line().unwrap(), Some(Line::Whole(b"two")));
        assert_eq!(lines.number(), 2);
        assert_eq!(lines.next_line().unwrap(), None);
    }
}
