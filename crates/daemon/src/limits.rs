//! How much of everything the service lets its clients have.
//!
//! The table of `docs/limits.md` is this file in words. Root is exempt from what counts by user. What
//! happens at a limit never hurts anybody but the client that reaches it.

use std::time::Duration;

use foretell_door::Room;
use foretell_pagecache::QueueLimits;
use serde::{Deserialize, Serialize};

/// The limits of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Limits {
    /// Connections in all; fewer where the service may not open enough descriptors.
    pub sessions: u32,
    /// Connections of one user.
    pub sessions_of_user: u32,
    /// Connections of one process: several libraries in it may each have one.
    pub sessions_of_process: u32,
    /// Files that one connection may name at a time.
    pub files: u32,
    /// Files that the connections of one user may name at a time.
    pub files_of_user: u32,
    /// Bytes of the files that the connections of one user may name at a time: tables grow with the size of
    /// a file, which in a hole costs its owner nothing.
    pub file_bytes_of_user: u64,
    /// Bytes of the rings of one user: what nobody has written is memory of ours when it is read.
    pub ring_bytes_of_user: u64,
    /// Disclosed ranges that may wait for room in the policy's lists.
    pub queues: QueueLimits,
    /// Blocks of one list that lie ahead, and of all lists.
    pub list_blocks: u32,
    /// See there.
    pub list_blocks_in_all: u32,
    /// Blocks that lie ahead in the lists of one user: who does not read what was disclosed leaves room for others.
    pub list_blocks_of_user: u32,
    /// Messages a second of one connection, on average.
    pub messages_per_s: u32,
    /// Messages that it may send at once after a pause.
    pub messages_burst: u32,
    /// Programs under rules at a time.
    pub runs: u32,
    /// Time in which a connection must have greeted, in milliseconds.
    pub greeting_ms: u32,
    /// Bytes of replies that wait for a client of another user than root to take them.
    pub outbox_bytes: usize,
    /// Bytes of such replies, and of messages that are not complete, of all connections of one user.
    pub buffer_bytes_of_user: u64,
    /// Bytes of the names (paths) of the files that the connections of one user name.
    pub name_bytes_of_user: u64,
}

impl Limits {
    /// Time in which a connection must have greeted.
    pub(crate) fn greeting(&self) -> Duration {
        Duration::from_millis(self.greeting_ms.into())
    }

    /// What is wrong with them, in one line: less than what clients send unasked would end their sessions.
    ///
    /// # Errors
    /// That line.
    pub fn check(&self) -> Result<(), String> {
        let least = [
            ("messages-per-s", self.messages_per_s, foretell_protocol::limits::MESSAGES_PER_S),
            ("messages-burst", self.messages_burst, foretell_protocol::limits::MESSAGES_BURST),
        ];
        match least.into_iter().find(|(_, value, least)| value < least) {
            Some((key, value, least)) => Err(format!(
                "{key} is {value}; it must be at least {least}, which programs send by themselves"
            )),
            None => Ok(()),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            sessions: 4096,
            sessions_of_user: 1024,
            sessions_of_process: 4,
            files: 4096,
            files_of_user: 32_768,
            file_bytes_of_user: 64 << 40,
            // 1,024 rings of the usual size.
            ring_bytes_of_user: 264 << 20,
            queues: QueueLimits::default(),
            list_blocks: 1 << 18,
            list_blocks_in_all: 1 << 22,
            list_blocks_of_user: 1 << 20,
            messages_per_s: 4096,
            messages_burst: 16_384,
            runs: 64,
            greeting_ms: 10_000,
            outbox_bytes: 512 << 10,
            buffer_bytes_of_user: 16 << 20,
            // 512 bytes for each of the files that one user may name.
            name_bytes_of_user: 16 << 20,
        }
    }
}

/// Bytes of replies that wait for root: a snapshot of everything and then some.
pub(crate) const OUTBOX_BYTES_OF_ROOT: usize = 5 << 20;
/// Bytes of a snapshot for root, below [`foretell_protocol::limits::TEXT_BYTES`].
pub(crate) const STATUS_BYTES_OF_ROOT: usize = 4 << 20;
/// Bytes of the text of a status request.
pub(crate) const STATUS_REQUEST_BYTES: usize = 1024;
/// Files, and processes, of which one snapshot tells at most: those with the most references.
pub(crate) const STATUS_ROWS: usize = 4096;
/// Bytes of the shortest row of a file or process in a snapshot: more rows than fit are not made.
pub(crate) const FILE_ROW_BYTES: usize = 256;
/// Messages that one status request counts as: it goes through all tables.
pub(crate) const STATUS_COST: u32 = 512;
/// Time for snapshots that the metrics ask for, and for showing clients how they fare, in a round.
pub(crate) const SHOWING: Duration = Duration::from_micros(500);
/// Time in which a message that came with descriptors must be complete. A client writes it with one call.
pub(crate) const HALF_MESSAGE: Duration = Duration::from_secs(1);
/// Descriptors of one user's that may wait for the rest of their messages: four times what one message carries.
pub(crate) const HALF_DESCRIPTORS_OF_USER: u32 = 4 * foretell_protocol::limits::DESCRIPTORS as u32;
/// How long it may take to close a descriptor that a client has sent. Then its user has to go.
pub(crate) const CLOSING: Duration = Duration::from_secs(1);
/// Connections that wait for the loop; beyond, the oldest of whoever has most is closed.
pub(crate) const LOBBY: Room = Room { most: 1024, most_of_user: 256 };
/// The same of a private host, which has few descriptors.
pub(crate) const LOBBY_OF_RUN: Room = Room { most: 256, most_of_user: 128 };
/// Time for letting in between two rounds of the plane's loop: some tens of connections.
pub(crate) const ACCEPTING: Duration = Duration::from_micros(500);
/// Messages of one connection taken between two rounds.
pub(crate) const MESSAGES_A_ROUND: u32 = 32;
/// Entries of one ring taken between two rounds.
pub(crate) const ENTRIES_A_ROUND: u32 = 256;
/// Levels of one manager: [`foretell_pagecache`]'s, told in the welcome.
pub(crate) const LEVELS: u32 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_may_be_ended_for_what_it_sends_by_itself() {
        assert_eq!(Limits::default().check(), Ok(()));
        let least = foretell_protocol::limits::MESSAGES_BURST;
        assert_eq!(Limits { messages_burst: least, ..Limits::default() }.check(), Ok(()));
        let said = Limits { messages_burst: least - 1, ..Limits::default() }.check().unwrap_err();
        assert_eq!(
            said,
            "messages-burst is 8191; it must be at least 8192, which programs send by themselves"
        );
    }
}
