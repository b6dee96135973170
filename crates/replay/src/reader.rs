//! Reading a log, record by record.

use std::io::{BufReader, Read};

use foretell_policy::{Config, Nanos};

use crate::decode::Bytes;
use crate::encode::{Before, FLAG, KIND, kind};
use crate::error::LogError;
use crate::input::OwnedInput;
use crate::{MAGIC, OLDEST_VERSION, VERSION, WINDOW_LOG, config};

/// What stands before the inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// The version of the program that wrote the log.
    pub program_version: String,
    /// The configuration of the engine at its beginning.
    pub config: Config,
}

/// One record of a log.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// The engine was told something.
    Input {
        /// When.
        now: Nanos,
        /// What.
        input: OwnedInput,
    },
    /// Actions were taken from the engine.
    Actions {
        /// How many, since the last input.
        actions: u64,
        /// 16 bits of the running sum after them.
        short_sum: u16,
    },
    /// What there has been so far.
    Check {
        /// Inputs.
        inputs: u64,
        /// Actions.
        actions: u64,
        /// The sum over all actions.
        sum: u64,
    },
    /// The end.
    End {
        /// Inputs.
        inputs: u64,
        /// Actions.
        actions: u64,
        /// The sum over all actions.
        sum: u64,
        /// The log reached its limit: the run went on without it.
        cut_at_limit: bool,
    },
}

type Stream<R> = zstd::stream::read::Decoder<'static, BufReader<R>>;

/// A log that is being read. It holds one record at a time; none is larger than [`crate::MAX_DISCLOSED`] blocks or
/// [`crate::MAX_EXTENTS`] extents.
pub struct Reader<R: Read> {
    header: Header,
    bytes: Bytes<Stream<R>>,
    before: Before,
    ended: bool,
}

impl<R: Read> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("header", &self.header).finish_non_exhaustive()
    }
}

impl<R: Read> Reader<R> {
    /// Reads what stands before the inputs.
    ///
    /// # Errors
    /// No log, one of another version, or one that ends or is damaged before its first input.
    pub fn new(mut source: R) -> Result<Reader<R>, LogError> {
        let mut first = Vec::with_capacity(MAGIC.len() + 2);
        source.by_ref().take(MAGIC.len() as u64 + 2).read_to_end(&mut first).map_err(LogError::Io)?;
        let (magic, version) = first.split_at(first.len().min(MAGIC.len()));
        if magic.is_empty() || !MAGIC.starts_with(magic) {
            return Err(LogError::NotALog);
        }
        let &[low, high] = version else { return Err(LogError::CutShort { inputs: 0 }) };
        let found = u16::from_le_bytes([low, high]);
        if !(OLDEST_VERSION..=VERSION).contains(&found) {
            return Err(LogError::OtherVersion { found });
        }
        let mut stream = zstd::stream::read::Decoder::new(source).map_err(LogError::Io)?;
        stream.window_log_max(WINDOW_LOG).map_err(LogError::Io)?;
        let mut bytes = Bytes::new(stream);
        let program_version = bytes.name()?;
        let config = config::read(&mut bytes, found)?;
        Ok(Reader {
            header: Header { program_version, config },
            bytes,
            before: Before::default(),
            ended: false,
        })
    }

    /// What stands before the inputs.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Inputs read so far.
    #[must_use]
    pub fn inputs(&self) -> u64 {
        self.bytes.inputs
    }

    /// The next record; `None` after [`Record::End`].
    ///
    /// # Errors
    /// The log ends without its end, or says what no log says. Nothing can be read after that.
    pub fn next_record(&mut self) -> Result<Option<Record>, LogError> {
        if self.ended {
            return Ok(None);
        }
        let record = self.record();
        self.ended =
            !matches!(record, Ok(Record::Input { .. } | Record::Actions { .. } | Record::Check { .. }));
        record.map(Some)
    }

    fn record(&mut self) -> Result<Record, LogError> {
        let first = self.bytes.byte()?;
        match first & KIND {
            kind::ACTIONS => {
                let actions = match first >> 5 {
                    0 => self.bytes.number()?,
                    few => few.into(),
                };
                let short_sum = u16::from_le_bytes(self.bytes.array()?);
                Ok(Record::Actions { actions, short_sum })
            }
            kind::CHECK => {
                let (inputs, actions, sum) = self.totals()?;
                Ok(Record::Check { inputs, actions, sum })
            }
            kind::END => {
                let (inputs, actions, sum) = self.totals()?;
                if self.bytes.next()?.is_some() {
                    return Err(self.bytes.impossible("something follows the end"));
                }
                Ok(Record::End { inputs, actions, sum, cut_at_limit: first & FLAG != 0 })
            }
            _ => {
                let (now, input) = self.bytes.input(first, &mut self.before)?;
                self.bytes.inputs += 1;
                Ok(Record::Input { now, input })
            }
        }
    }

    fn totals(&mut self) -> Result<(u64, u64, u64), LogError> {
        let (inputs, actions) = (self.bytes.number()?, self.bytes.number()?);
        let sum = u64::from_le_bytes(self.bytes.array()?);
        if inputs != self.bytes.inputs {
            return Err(self.bytes.impossible("another number of inputs than there were"));
        }
        Ok((inputs, actions, sum))
    }
}
