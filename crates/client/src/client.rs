//! The interface for programs.

use std::ops::Range;
use std::os::fd::AsFd;

use foretell_protocol::Policy;

use crate::call::{BATCH, Chunk};
use crate::error::Error;
use crate::fallback::ReadAhead;
use crate::file_list::FileList;
use crate::options::Options;
use crate::slot::Slot;
use crate::stats::Stats;

/// A program's side of the service.
///
/// Calls take microseconds at most and usually less than a tenth of one; none waits for the service, see the
/// crate's documentation. Files are named by anything that has a descriptor; the library keeps the number of
/// the descriptor, not the descriptor, and asks the kernel what file it means.
#[derive(Debug)]
pub struct Client {
    slot: Slot,
}

impl Default for Client {
    fn default() -> Client {
        Client::new()
    }
}

impl Client {
    /// A client set up by the environment ([`Options::from_environment`]) that connects at its first call.
    #[must_use]
    pub const fn new() -> Client {
        Client { slot: Slot::new() }
    }

    /// The same, connecting at once if a service is there.
    #[must_use]
    pub fn connect() -> Client {
        let client = Client::new();
        client.is_connected();
        client
    }

    /// A client set up by hand, connecting at once if a service is there.
    #[must_use]
    pub fn with_options(options: Options) -> Client {
        let client = Client { slot: Slot::with_options(options) };
        client.is_connected();
        client
    }

    /// Is there a connection to a service at present? Tries to connect if it is time for it.
    pub fn is_connected(&self) -> bool {
        self.slot.call(|call| call.is_connected())
    }

    /// Sets the long-term priority of a file's blocks, 0 unless set. Among this program's blocks those of
    /// lower priority are replaced first.
    ///
    /// # Errors
    /// When it is no file open for reading, or there are too many files or levels.
    pub fn set_priority(&self, file: impl AsFd, priority: i32) -> Result<(), Error> {
        self.slot.call(|call| call.set_priority(file.as_fd(), priority))
    }

    /// The long-term priority of a file as this program has set it.
    ///
    /// # Errors
    /// When it is no file open for reading.
    pub fn priority(&self, file: impl AsFd) -> Result<i32, Error> {
        self.slot.call(|call| call.priority(file.as_fd()))
    }

    /// Sets which block of a priority level is replaced first; LRU unless set.
    ///
    /// # Errors
    /// When there are too many levels.
    pub fn set_policy(&self, priority: i32, policy: Policy) -> Result<(), Error> {
        self.slot.call(|call| call.set_policy(priority, policy))
    }

    /// The policy of a priority level as this program has set it.
    #[must_use]
    pub fn policy(&self, priority: i32) -> Policy {
        self.slot.call(|call| call.policy(priority))
    }

    /// Gives those blocks of a range of bytes that are cached now another priority, until each is referenced
    /// or replaced. A block belongs to the range when the range holds the block's last byte.
    ///
    /// # Errors
    /// When it is no file open for reading, or no range.
    pub fn set_temporary_priority(
        &self,
        file: impl AsFd,
        range: Range<u64>,
        priority: i32,
    ) -> Result<(), Error> {
        self.slot.call(|call| call.set_temporary_priority(file.as_fd(), range, priority))
    }

    /// Discloses that these ranges of bytes will be read, in this order, after all that was disclosed before.
    ///
    /// Returns how many ranges were taken: all of them, unless the service does not keep up. The first that
    /// found no room is dropped, those after it are not looked at; a long list may be continued there later.
    ///
    /// # Errors
    /// When it is no file open for reading, or at the first that is no range; those before it were taken.
    pub fn disclose(
        &self,
        file: impl AsFd,
        ranges: impl IntoIterator<Item = Range<u64>>,
    ) -> Result<usize, Error> {
        let file = file.as_fd();
        self.disclose_chunks(ranges.into_iter().map(|range| (file, Some(range))))
    }

    /// The same for one range. Returns whether it was taken.
    ///
    /// # Errors
    /// When it is no file open for reading, or no range.
    pub fn disclose_range(&self, file: impl AsFd, range: Range<u64>) -> Result<bool, Error> {
        let batch = [(file, Some(range))];
        let (taken, result) = self.slot.call(|call| call.disclose(&batch, &mut ReadAhead::new()));
        result.map(|()| taken == 1)
    }

    /// The same for ranges of different files.
    ///
    /// # Errors
    /// At the first that is no file open for reading, or no range; those before it were taken.
    pub fn disclose_list<F: AsFd>(
        &self,
        chunks: impl IntoIterator<Item = (F, Range<u64>)>,
    ) -> Result<usize, Error> {
        self.disclose_chunks(chunks.into_iter().map(|(file, range)| (file, Some(range))))
    }

    /// Discloses that these files will be read, each from beginning to end, in this order. Returns how many
    /// were taken.
    ///
    /// # Errors
    /// At the first that is no file open for reading; those before it were taken.
    pub fn disclose_files<F: AsFd>(&self, files: impl IntoIterator<Item = F>) -> Result<usize, Error> {
        self.disclose_chunks(files.into_iter().map(|file| (file, None)))
    }

    /// A batch at a time, each gathered before the lock is taken: what the caller iterates over may call us.
    fn disclose_chunks<F: AsFd>(&self, mut chunks: impl Iterator<Item = Chunk<F>>) -> Result<usize, Error> {
        let mut batch = Vec::with_capacity(chunks.size_hint().0.clamp(1, BATCH));
        let mut ahead = ReadAhead::new();
        let mut taken = 0;
        loop {
            batch.clear();
            batch.extend(chunks.by_ref().take(BATCH));
            let (some, result) = self.slot.call(|call| call.disclose(&batch, &mut ahead));
            taken += some;
            result?;
            if some < batch.len() || batch.len() < BATCH {
                return Ok(taken);
            }
        }
    }

    /// Says that a range of bytes will not be read again: its blocks are the first to be replaced. A block
    /// belongs to the range when the range holds the block's last byte, so that a program may give up what it
    /// has read in pieces of any size.
    ///
    /// # Errors
    /// When it is no file open for reading, or no range.
    pub fn done_with(&self, file: impl AsFd, range: Range<u64>) -> Result<(), Error> {
        self.slot.call(|call| call.done_with(file.as_fd(), range))
    }

    /// Withdraws what was disclosed and has not been read yet.
    pub fn cancel(&self) {
        self.slot.call(|call| call.cancel());
    }

    /// Begins a list of files: those that are opened from now on, and are still open when the list ends, will
    /// be read from beginning to end in the order of their opening.
    ///
    /// ```no_run
    /// # use foretell_client::Client;
    /// # use std::fs::File;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect();
    /// let list = client.file_list();
    /// let files = [File::open("a")?, File::open("b")?];
    /// list.end();
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the list is disclosed when it ends"]
    pub fn file_list(&self) -> FileList<'_> {
        FileList::start(self)
    }

    /// How this client fares.
    pub fn stats(&self) -> Stats {
        self.slot.call(|call| call.stats())
    }
}
