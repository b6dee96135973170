//! Bytes as records. No allocation is larger than the limits of this crate, whatever the bytes say.

use std::io::Read;

use foretell_numbers::{NumberError, Numbers, unfold};
use foretell_policy::{
    Block, DiskId, Extent, FileId, Input, Layout, ManagerId, Nanos, PoolPolicy, ProcessId,
};

use crate::encode::{ARM, Before, EXTENTS, FLAG, SAME_FILE, SAME_PROCESS, STRIPED, UNKNOWN, kind};
use crate::error::LogError;
use crate::input::OwnedInput;
use crate::{MAX_DISCLOSED, MAX_EXTENTS, MAX_NAME_BYTES};

/// Bytes that are read at a time.
const BUFFER_BYTES: usize = 16 << 10;

/// Elements of a table that are allocated before the first of them has been read.
const TRUSTED_LENGTH: usize = 4096;

/// The uncompressed stream.
pub(crate) struct Bytes<R> {
    numbers: Numbers<R>,
    /// Inputs read whole, for the errors.
    pub(crate) inputs: u64,
}

impl<R: Read> Bytes<R> {
    pub(crate) fn new(inner: R) -> Bytes<R> {
        // A log may have any length: it is read an input at a time.
        Bytes { numbers: Numbers::new(inner, BUFFER_BYTES, u64::MAX), inputs: 0 }
    }

    /// An error at the byte read last.
    pub(crate) fn impossible(&self, what: &'static str) -> LogError {
        LogError::Impossible { byte: self.numbers.last_byte(), what }
    }

    /// What is read, or what is wrong with a log of which that cannot be read.
    fn read<T>(
        &mut self,
        read: impl FnOnce(&mut Numbers<R>) -> Result<T, NumberError>,
    ) -> Result<T, LogError> {
        read(&mut self.numbers).map_err(|error| match error {
            NumberError::Io(error) => LogError::Io(error),
            NumberError::Damaged { byte, what } => LogError::Impossible { byte, what },
            _ => LogError::CutShort { inputs: self.inputs },
        })
    }

    /// The next byte; `None` at the end of the stream.
    pub(crate) fn next(&mut self) -> Result<Option<u8>, LogError> {
        self.read(Numbers::next_byte)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, LogError> {
        self.read(Numbers::byte)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], LogError> {
        self.read(Numbers::array)
    }

    pub(crate) fn number(&mut self) -> Result<u64, LogError> {
        self.read(Numbers::number)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, LogError> {
        self.read(Numbers::u32)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, LogError> {
        self.read(Numbers::u16)
    }

    pub(crate) fn f64(&mut self) -> Result<f64, LogError> {
        Ok(f64::from_bits(u64::from_le_bytes(self.array()?)))
    }

    fn of_disk(&mut self) -> Result<Input<'static>, LogError> {
        let number = self.u32()?;
        let disk = |number| {
            u16::try_from(number).map(DiskId).map_err(|_| self.impossible("a disk that does not exist"))
        };
        Ok(match number.checked_sub(ARM) {
            None => Input::DiskBatch { disk: disk(number)?, batch: self.u32()? },
            Some(number) => Input::DiskArm { disk: disk(number)?, reach_blocks: self.u32()? },
        })
    }

    /// What follows `from`: the number that a difference leads to.
    fn from(&mut self, from: u64) -> Result<u64, LogError> {
        self.read(|numbers| numbers.after(from))
    }

    fn u32_from(&mut self, from: u32) -> Result<u32, LogError> {
        self.read(|numbers| numbers.u32_after(from))
    }

    fn i32(&mut self) -> Result<i32, LogError> {
        self.read(Numbers::i32)
    }

    pub(crate) fn one_of<T: Copy>(&mut self, table: &[T]) -> Result<T, LogError> {
        let at = self.number()?;
        let found = usize::try_from(at).ok().and_then(|at| table.get(at)).copied();
        found.ok_or_else(|| self.impossible("a choice that does not exist"))
    }

    pub(crate) fn name(&mut self) -> Result<String, LogError> {
        let length = self.length(MAX_NAME_BYTES, "a name that is too long")?;
        let mut name = Vec::with_capacity(length);
        for _ in 0..length {
            name.push(self.byte()?);
        }
        String::from_utf8(name).map_err(|_| self.impossible("a name that is no text"))
    }

    fn length(&mut self, most: usize, what: &'static str) -> Result<usize, LogError> {
        let length = self.number()?;
        let length = usize::try_from(length).ok().filter(|&length| length <= most);
        length.ok_or_else(|| self.impossible(what))
    }

    fn process(&mut self, first: u8, before: &mut Before) -> Result<ProcessId, LogError> {
        if first & SAME_PROCESS == 0 {
            before.process = ProcessId(self.u32()?);
        }
        Ok(before.process)
    }

    fn block(&mut self, first: u8, before: &mut Before) -> Result<Block, LogError> {
        if first & SAME_FILE == 0 {
            before.block.file = FileId(self.u32()?);
        }
        before.block.index = self.u32_from(before.block.index)?;
        Ok(before.block)
    }

    fn file(&mut self) -> Result<FileId, LogError> {
        self.u32().map(FileId)
    }

    fn manager(&mut self) -> Result<ManagerId, LogError> {
        self.u32().map(ManagerId)
    }

    /// The input whose first byte has been read, and when it came.
    pub(crate) fn input(&mut self, first: u8, before: &mut Before) -> Result<(Nanos, OwnedInput), LogError> {
        let flag = first & FLAG != 0;
        before.now = Nanos(self.from(before.now.0)?);
        let input = match first & crate::encode::KIND {
            kind::ACCESSED => {
                let process = self.process(first, before)?;
                Input::Accessed { process, block: self.block(first, before)?, stalled: flag }
            }
            kind::LOADED => {
                let by = if flag { Some(self.process(first, before)?) } else { None };
                Input::Loaded { block: self.block(first, before)?, by }
            }
            kind::FETCH_FAILED => Input::FetchFailed { block: self.block(first, before)? },
            kind::GONE => Input::Gone { block: self.block(first, before)? },
            kind::TAKEN_ALONG => Input::TakenAlong { block: self.block(first, before)? },
            kind::EVICT_REFUSED => Input::EvictRefused { block: self.block(first, before)? },
            kind::PROCESS_EXITED => Input::ProcessExited { process: self.process(first, before)? },
            kind::SERVED => Input::Served { disk: DiskId(self.u16()?), access: Nanos(self.number()?) },
            kind::OF_DISK => self.of_disk()?,
            kind::COMPUTED => {
                Input::Computed { process: self.process(first, before)?, compute: Nanos(self.number()?) }
            }
            kind::TIME_PASSED => Input::TimePassed,
            kind::FILE_ADDED => {
                let layout = self.layout()?;
                return Ok((before.now, OwnedInput::FileAdded { layout }));
            }
            kind::FILE_LENGTH => Input::FileLength { file: self.file()?, length_blocks: self.u32()? },
            kind::FILE_REMOVED => Input::FileRemoved { file: self.file()? },
            kind::FETCHES_ALLOWED => Input::FetchesAllowed { file: self.file()? },
            kind::MANAGER_ADDED => Input::ManagerAdded { persistent: flag },
            kind::MANAGER_REMOVED => Input::ManagerRemoved { manager: self.manager()? },
            kind::PROCESS_ADDED => Input::ProcessAdded { manager: self.manager()? },
            kind::CACHE_SIZE => Input::CacheSize { cache_blocks: self.u32()? },
            kind::MEMORY_RELEASED => Input::MemoryReleased,
            kind::DISCLOSED => {
                let (manager, list) = (self.manager()?, self.u32()?);
                let blocks = self.disclosed()?;
                return Ok((before.now, OwnedInput::Disclosed { manager, list, blocks }));
            }
            kind::READER_ASSIGNED => {
                Input::ReaderAssigned { process: self.process(first, before)?, list: self.u32()? }
            }
            kind::ONE_PROCESS => {
                Input::OneProcess { process: self.process(first, before)?, first: ProcessId(self.u32()?) }
            }
            kind::CANCELLED if flag => {
                Input::ListsOpen { manager: self.manager()?, open: self.one_of(&[false, true])? }
            }
            kind::CANCELLED => Input::Cancelled { manager: self.manager()? },
            kind::PRIORITY => {
                Input::Priority { manager: self.manager()?, file: self.file()?, priority: self.i32()? }
            }
            kind::POLICY => {
                let (manager, policy) = (self.manager()?, self.u32()?);
                let policy = u8::try_from(policy).ok().and_then(PoolPolicy::from_number);
                let policy = policy.ok_or_else(|| self.impossible("a policy that does not exist"))?;
                Input::Policy { manager, priority: self.i32()?, policy }
            }
            kind::TEMPORARY_PRIORITY => Input::TemporaryPriority {
                manager: self.manager()?,
                file: self.file()?,
                first: self.u32()?,
                last: self.u32()?,
                priority: self.i32()?,
            },
            kind::FLUSHED => Input::Flushed {
                manager: self.manager()?,
                file: self.file()?,
                first: self.u32()?,
                last: self.u32()?,
            },
            kind::SCHEDULED => {
                let (manager, batch) = (self.manager()?, self.u32()?);
                Input::Scheduled { manager, fetch_references: self.f64()?, batch }
            }
            _ => return Err(self.impossible("an input that does not exist")),
        };
        Ok((before.now, OwnedInput::Plain(input)))
    }

    fn layout(&mut self) -> Result<Layout, LogError> {
        Ok(match self.number()? {
            UNKNOWN => Layout::Unknown,
            EXTENTS => {
                let length = self.length(MAX_EXTENTS, "more extents than a log holds")?;
                let mut extents = Vec::with_capacity(length.min(TRUSTED_LENGTH));
                let (mut block, mut address) = (0, 0);
                for _ in 0..length {
                    block = self.u32_from(block)?;
                    let blocks = self.u32()?;
                    address = self.from(address)?;
                    let (stride, disk) = (self.number()?, DiskId(self.u16()?));
                    extents.push(Extent { first_block: block, blocks, address, stride, disk });
                }
                Layout::Extents(extents)
            }
            STRIPED => Layout::Striped { disks: self.u16()?, unit: self.u32()?, base: self.number()? },
            _ => return Err(self.impossible("a layout that does not exist")),
        })
    }

    fn disclosed(&mut self) -> Result<Vec<Block>, LogError> {
        let length = self.length(MAX_DISCLOSED, "a longer list than a log holds")?;
        let mut blocks = Vec::with_capacity(length.min(TRUSTED_LENGTH));
        let mut before = Before::default().block;
        for _ in 0..length {
            let head = self.number()?;
            let index = i64::from(before.index).wrapping_add(unfold(head >> 1));
            before.index =
                u32::try_from(index).map_err(|_| self.impossible("a number of more than 32 bits"))?;
            if head & 1 == 1 {
                before.file = self.file()?;
            }
            blocks.push(before);
        }
        Ok(blocks)
    }
}
