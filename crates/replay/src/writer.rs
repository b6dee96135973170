//! Writing a log, as a tap of an engine.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use foretell_policy::{Action, Config, Input, Nanos, Tap};

use crate::encode::{self, Before, FLAG, kind};
use crate::error::LogError;
use crate::sum::Sum;
use crate::{CHECK_INPUTS, MAGIC, VERSION, config};

/// Bytes of a log before compression at most, unless said otherwise: 1 GiB, 200 to 300 million accesses.
pub const DEFAULT_LIMIT_BYTES: u64 = 1 << 30;

/// The compressor's level: its fastest; the records are small already.
const LEVEL: i32 = 1;

/// Bytes that are handed to the compressor at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Inputs in the log.
    pub inputs: u64,
    /// Actions that the engine gave to them.
    pub actions: u64,
    /// The sum over those actions.
    pub sum: u64,
    /// Bytes before compression.
    pub bytes: u64,
    /// The log reached its limit: the run went on without it.
    pub cut_at_limit: bool,
}

/// A log that is being written to any place.
pub struct Log<W: Write> {
    stream: zstd::stream::write::Encoder<'static, W>,
    /// Not yet handed to the compressor.
    buffer: Vec<u8>,
    /// Bytes before the buffer.
    handed_over: u64,
    limit_bytes: u64,
    before: Before,
    inputs: u64,
    /// Actions since the last record.
    pending: u64,
    sum: Sum,
    cut: bool,
}

impl<W: Write> std::fmt::Debug for Log<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("inputs", &self.inputs).field("sum", &self.sum).finish_non_exhaustive()
    }
}

impl<W: Write> Log<W> {
    /// Begins a log of an engine with this configuration, which has been told nothing yet.
    ///
    /// # Errors
    /// What writing meets.
    pub fn new(
        mut target: W,
        config: &Config,
        program_version: &str,
        limit_bytes: u64,
    ) -> Result<Log<W>, LogError> {
        target.write_all(&MAGIC).map_err(LogError::Io)?;
        target.write_all(&VERSION.to_le_bytes()).map_err(LogError::Io)?;
        let mut stream = zstd::stream::write::Encoder::new(target, LEVEL).map_err(LogError::Io)?;
        stream.include_checksum(true).map_err(LogError::Io)?;
        let mut buffer = Vec::with_capacity(BUFFER_BYTES + 1024);
        encode::name(&mut buffer, program_version);
        config::write(&mut buffer, config);
        let (before, sum) = (Before::default(), Sum::default());
        Ok(Log {
            stream,
            buffer,
            handed_over: 0,
            limit_bytes,
            before,
            inputs: 0,
            pending: 0,
            sum,
            cut: false,
        })
    }

    /// An input came in.
    ///
    /// # Errors
    /// What writing meets.
    pub fn input(&mut self, now: Nanos, input: &Input<'_>) -> Result<(), LogError> {
        if self.cut {
            return Ok(());
        }
        let before = self.before;
        self.write_pending();
        let after_actions = self.buffer.len();
        if encode::fits(input) {
            encode::input(&mut self.buffer, &mut self.before, now, input);
        }
        if self.buffer.len() == after_actions
            || self.handed_over + self.buffer.len() as u64 > self.limit_bytes
        {
            // The actions before it are what the log's own inputs led to.
            self.buffer.truncate(after_actions);
            self.before = before;
            self.cut = true;
            return Ok(());
        }
        self.inputs += 1;
        if self.inputs.is_multiple_of(CHECK_INPUTS) {
            // The actions that it leads to belong to the next stretch.
            encode::totals(&mut self.buffer, kind::CHECK, self.inputs, &self.sum);
            self.hand_over()?;
            // Whoever finds the log of a run that was killed can read it up to here.
            self.stream.flush().map_err(LogError::Io)?;
        } else if self.buffer.len() >= BUFFER_BYTES {
            self.hand_over()?;
        }
        Ok(())
    }

    /// An action went out.
    pub fn action(&mut self, action: &Action) {
        if !self.cut {
            self.sum.add(action);
            self.pending += 1;
        }
    }

    /// Ends the log.
    ///
    /// # Errors
    /// What writing meets.
    pub fn finish(mut self) -> Result<(W, Written), LogError> {
        self.write_pending();
        let first = kind::END | if self.cut { FLAG } else { 0 };
        encode::totals(&mut self.buffer, first, self.inputs, &self.sum);
        self.hand_over()?;
        let written = Written {
            inputs: self.inputs,
            actions: self.sum.actions(),
            sum: self.sum.value(),
            bytes: self.handed_over,
            cut_at_limit: self.cut,
        };
        let target = self.stream.finish().map_err(LogError::Io)?;
        Ok((target, written))
    }

    fn write_pending(&mut self) {
        if self.pending > 0 {
            encode::actions(&mut self.buffer, self.pending, &self.sum);
            self.pending = 0;
        }
    }

    fn hand_over(&mut self) -> Result<(), LogError> {
        self.stream.write_all(&self.buffer).map_err(LogError::Io)?;
        self.handed_over += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// A log in a file, behind a handle that can be copied: one is the engine's tap, another one finishes the log.
///
/// It is written as `NAME.partial` and gets its name when it is finished: what a run that is killed leaves can be
/// read up to the last [`CHECK_INPUTS`] inputs. An error of the file never disturbs the run; [`Writer::finish`]
/// says it.
#[derive(Debug, Clone)]
pub struct Writer {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    log: Option<Log<BufWriter<File>>>,
    failed: Option<LogError>,
    partial: PathBuf,
    path: PathBuf,
}

impl Writer {
    /// Begins a log of an engine with this configuration, which has been told nothing yet. A partial log of the same
    /// name is replaced.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn create(
        path: &Path,
        config: &Config,
        program_version: &str,
        limit_bytes: u64,
    ) -> Result<Writer, LogError> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        match fs::remove_file(&partial) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(LogError::Io(e)),
            _ => {}
        }
        // Never through a link that somebody has put there.
        let file = File::create_new(&partial).map_err(LogError::Io)?;
        let log = Log::new(BufWriter::new(file), config, program_version, limit_bytes)?;
        let shared = Shared { log: Some(log), failed: None, partial, path: path.to_owned() };
        Ok(Writer { shared: Arc::new(Mutex::new(shared)) })
    }

    /// Ends the log and gives it its name.
    ///
    /// # Errors
    /// What writing has met, now or before; a log that was finished already.
    pub fn finish(&self) -> Result<Written, LogError> {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failed) = shared.failed.take() {
            return Err(failed);
        }
        let (target, written) = shared.log.take().ok_or(LogError::Closed)?.finish()?;
        let file = target.into_inner().map_err(|e| LogError::Io(e.into_error()))?;
        file.sync_all().map_err(LogError::Io)?;
        fs::rename(&shared.partial, &shared.path).map_err(LogError::Io)?;
        Ok(written)
    }
}

impl Tap for Writer {
    fn input(&mut self, now: Nanos, input: &Input<'_>) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = &mut shared.log
            && let Err(e) = log.input(now, input)
        {
            shared.log = None;
            shared.failed = Some(e);
        }
    }

    fn action(&mut self, action: &Action) {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(log) = &mut shared.log {
            log.action(action);
        }
    }
}
