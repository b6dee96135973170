//! Bytes of a trace: opened, decompressed if their magic says so, and cut into lines of bounded length.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::Path;

use crate::error::TraceError;

/// Enough that the system call per buffer does not count.
const BUFFER_BYTES: usize = 256 << 10;
/// How much of the beginning is looked at to tell the format.
const BEGINNING_BYTES: usize = 16 << 10;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// An open trace, decompressed.
pub(crate) struct Input {
    /// Its name, for messages.
    pub(crate) path: Box<str>,
    /// The first bytes, which `bytes` will give again.
    pub(crate) beginning: Vec<u8>,
    /// All bytes.
    pub(crate) bytes: Box<dyn BufRead + Send>,
    /// How many there are, if that is known without reading them.
    pub(crate) len: Option<u64>,
}

impl Input {
    /// Opens `path`. Only a part at the beginning is read.
    pub(crate) fn open(path: &Path) -> Result<Input, TraceError> {
        let name: Box<str> = path.to_string_lossy().into();
        let io_error = |source| TraceError::Io { path: name.clone(), source };
        let mut file = File::open(path).map_err(io_error)?;
        let metadata = file.metadata().map_err(io_error)?;
        if metadata.is_dir() {
            return Err(io_error(ErrorKind::IsADirectory.into()));
        }
        let magic = read_up_to(&mut file, 4).map_err(io_error)?;
        let gzip = magic.starts_with(&GZIP);
        let zstd = magic.starts_with(&ZSTD);
        let len = (metadata.is_file() && !gzip && !zstd).then_some(metadata.len());
        let raw = Cursor::new(magic).chain(file);
        let mut bytes: Box<dyn Read + Send> = if gzip {
            Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, raw)))
        } else if zstd {
            Box::new(zstd::stream::read::Decoder::new(raw).map_err(io_error)?)
        } else {
            Box::new(raw)
        };
        let beginning = read_up_to(&mut bytes, BEGINNING_BYTES)
            .map_err(|source| read_error(&name, "its first bytes", source))?;
        let bytes = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(beginning.clone()).chain(bytes));
        Ok(Input { path: name, beginning, bytes: Box::new(bytes), len })
    }
}

/// Up to `limit` bytes, fewer only at the end.
fn read_up_to(from: &mut (impl Read + ?Sized), limit: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(limit);
    from.take(limit as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The error of a read; the end of the file inside a compressed stream means that it was cut off.
pub(crate) fn read_error(path: &str, within: &str, source: io::Error) -> TraceError {
    match source.kind() {
        ErrorKind::UnexpectedEof => TraceError::Truncated {
            path: path.into(),
            within: format!("the compressed data, after {within}").into(),
        },
        _ => TraceError::Io { path: path.into(), source },
    }
}

/// Lines, one at a time.
pub(crate) struct Lines {
    pub(crate) path: Box<str>,
    bytes: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    /// Number of the last line given, from 1.
    pub(crate) number: u64,
    /// The last line given ended with a line feed.
    pub(crate) ended: bool,
    limit: u64,
}

impl Lines {
    pub(crate) fn new(input: Input, line_bytes: u32) -> Lines {
        Lines {
            path: input.path,
            bytes: input.bytes,
            line: Vec::new(),
            number: 0,
            ended: true,
            limit: u64::from(line_bytes),
        }
    }

    /// The next line without its end, or `None` at the end of the trace.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, TraceError> {
        self.line.clear();
        let read = (&mut self.bytes).take(self.limit + 1).read_until(b'\n', &mut self.line);
        if let Err(source) = read {
            return Err(read_error(&self.path, &format!("line {}", self.number), source));
        }
        if self.line.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        self.ended = self.line.last() == Some(&b'\n');
        if self.ended {
            self.line.pop();
        } else if self.line.len() as u64 > self.limit {
            return Err(TraceError::Limit {
                path: format!("{}:{}", self.path, self.number).into(),
                limit: self.limit,
                what: "bytes in a line",
            });
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Ok(Some(&self.line))
    }

    /// The last line given.
    pub(crate) fn current(&self) -> &[u8] {
        &self.line
    }
}
