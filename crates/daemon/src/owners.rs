//! Who has how much: sessions by process and by user, files by user.

use std::collections::BTreeMap;

use foretell_pagecache::SessionId;
use foretell_protocol::ErrorCode;

use crate::limits::{HALF_DESCRIPTORS_OF_USER, Limits};

/// A process that speaks for itself.
#[derive(Debug)]
pub(crate) struct Speaker {
    /// The plane's session, which all of its connections share.
    pub(crate) session: SessionId,
    /// Its connections, by number.
    pub(crate) connections: Vec<u64>,
}

/// What a user has.
#[derive(Debug, Default)]
struct Share {
    sessions: u32,
    files: u32,
    file_bytes: u64,
    /// Descriptors that wait for the rest of their frames.
    half: u32,
    ring_bytes: u64,
    /// Bytes of messages that are not complete, and of replies that are not taken.
    waiting_bytes: u64,
    /// Bytes of the names of its files.
    name_bytes: u64,
}

/// What a file that a connection names counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Weight {
    /// Its size when it was named, in bytes.
    pub(crate) bytes: u64,
    /// Bytes of its path.
    pub(crate) name_bytes: u64,
}

/// The books.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    pub(crate) speakers: BTreeMap<u32, Speaker>,
    users: BTreeMap<u32, Share>,
    sessions: u32,
}

impl Owners {
    /// Connections at present.
    pub(crate) fn sessions(&self) -> u32 {
        self.sessions
    }

    /// One more connection of a user's.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub(crate) fn enter(&mut self, user: u32, limits: &Limits) -> Result<(), (ErrorCode, String)> {
        if self.sessions >= limits.sessions {
            let text = format!("no more than {} sessions at a time; try again later", limits.sessions);
            return Err((ErrorCode::Sessions, text));
        }
        let share = self.users.entry(user).or_default();
        if user != 0 && share.sessions >= limits.sessions_of_user {
            let text =
                format!("user {user} has {} sessions; end some before more begin", limits.sessions_of_user);
            return Err((ErrorCode::SessionsOfUser, text));
        }
        share.sessions += 1;
        self.sessions += 1;
        Ok(())
    }

    /// The connection is gone.
    pub(crate) fn leave(&mut self, user: u32) {
        self.sessions -= 1;
        self.change(user, |share| share.sessions -= 1);
    }

    /// One more file that a connection with `own` files names.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub(crate) fn name_file(
        &mut self,
        user: u32,
        own: usize,
        weight: Weight,
        limits: &Limits,
    ) -> Result<(), (ErrorCode, String)> {
        let Weight { bytes, name_bytes } = weight;
        let share = self.users.entry(user).or_default();
        let refused = if own >= limits.files as usize {
            Some(format!("a session names no more than {} files at a time; forget some", limits.files))
        } else if user != 0 && share.files >= limits.files_of_user {
            Some(format!("user {user} names {} files; forget some", limits.files_of_user))
        } else if user != 0 && share.file_bytes.saturating_add(bytes) > limits.file_bytes_of_user {
            let most = limits.file_bytes_of_user;
            Some(format!(
                "the files that user {user} names have more than {most} bytes together; forget some"
            ))
        } else if user != 0 && share.name_bytes + name_bytes > limits.name_bytes_of_user {
            let most = limits.name_bytes_of_user;
            Some(format!(
                "the paths of the files that user {user} names have more than {most} bytes together; forget some"
            ))
        } else {
            None
        };
        if let Some(text) = refused {
            return Err((ErrorCode::Files, text));
        }
        share.files += 1;
        share.file_bytes = share.file_bytes.saturating_add(bytes);
        share.name_bytes += name_bytes;
        Ok(())
    }

    /// A file is named no more.
    pub(crate) fn forget_file(&mut self, user: u32, weight: Weight) {
        self.change(user, |share| {
            share.files -= 1;
            share.file_bytes -= weight.bytes;
            share.name_bytes -= weight.name_bytes;
        });
    }

    /// The buffers of a connection: so many bytes, where so many were counted before.
    ///
    /// # Errors
    /// Why not so many. Nothing is counted then.
    pub(crate) fn count_waiting(
        &mut self,
        user: u32,
        (before, now): (u64, u64),
        limits: &Limits,
    ) -> Result<(), (ErrorCode, String)> {
        let share = self.users.entry(user).or_default();
        let all = share.waiting_bytes - before + now;
        if user != 0 && all > limits.buffer_bytes_of_user && now > before {
            let most = limits.buffer_bytes_of_user;
            let text =
                format!("more than {most} bytes to and from user {user} wait to be taken or completed");
            return Err((ErrorCode::SlowClient, text));
        }
        share.waiting_bytes = all;
        Ok(())
    }

    /// One more ring of a user's.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub(crate) fn add_ring(
        &mut self,
        user: u32,
        bytes: u64,
        limits: &Limits,
    ) -> Result<(), (ErrorCode, String)> {
        let share = self.users.entry(user).or_default();
        if user != 0 && share.ring_bytes.saturating_add(bytes) > limits.ring_bytes_of_user {
            let most = limits.ring_bytes_of_user;
            let text =
                format!("the rings of user {user} have more than {most} bytes together; end some sessions");
            return Err((ErrorCode::RingRefused, text));
        }
        share.ring_bytes += bytes;
        Ok(())
    }

    /// A ring is gone.
    pub(crate) fn remove_ring(&mut self, user: u32, bytes: u64) {
        self.change(user, |share| share.ring_bytes -= bytes);
    }

    /// The descriptors of a connection that wait for the rest of their frames: so many, where so many were
    /// counted before.
    ///
    /// # Errors
    /// Why not so many. Nothing is counted then.
    pub(crate) fn count_half(&mut self, user: u32, before: u32, now: u32) -> Result<(), (ErrorCode, String)> {
        let share = self.users.entry(user).or_default();
        let all = share.half - before + now;
        if user != 0 && all > HALF_DESCRIPTORS_OF_USER && now > before {
            let most = HALF_DESCRIPTORS_OF_USER;
            let text =
                format!("more than {most} descriptors of user {user} wait for the rest of their messages");
            return Err((ErrorCode::Malformed, text));
        }
        share.half = all;
        Ok(())
    }

    fn change(&mut self, user: u32, change: impl FnOnce(&mut Share)) {
        if let Some(share) = self.users.get_mut(&user) {
            change(share);
            if share.sessions == 0 && share.files == 0 {
                self.users.remove(&user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code<T>(result: Result<T, (ErrorCode, String)>) -> Option<ErrorCode> {
        result.err().map(|(code, _)| code)
    }

    #[test]
    fn sessions_are_limited_in_all_and_by_user_except_for_root() {
        let limits = Limits { sessions: 4, sessions_of_user: 1, ..Limits::default() };
        let mut owners = Owners::default();
        assert_eq!(code(owners.enter(7, &limits)), None);
        assert_eq!(code(owners.enter(7, &limits)), Some(ErrorCode::SessionsOfUser));
        assert_eq!((0..3).find_map(|_| code(owners.enter(0, &limits))), None);
        assert_eq!(code(owners.enter(8, &limits)), Some(ErrorCode::Sessions));
        owners.leave(7);
        assert_eq!(code(owners.enter(7, &limits)), None);
    }

    #[test]
    fn rings_are_limited_by_user() {
        let limits = Limits { ring_bytes_of_user: 100, ..Limits::default() };
        let mut owners = Owners::default();
        owners.enter(7, &limits).unwrap();
        assert_eq!(code(owners.add_ring(7, 100, &limits)), None);
        assert_eq!(code(owners.add_ring(7, 1, &limits)), Some(ErrorCode::RingRefused));
        assert_eq!(code(owners.add_ring(8, 100, &limits)), None, "another user");
        assert_eq!(code(owners.add_ring(0, 1 << 40, &limits)), None, "root");
        owners.remove_ring(7, 100);
        assert_eq!(code(owners.add_ring(7, 1, &limits)), None);
    }

    #[test]
    fn descriptors_of_half_messages_are_limited_by_user() {
        let mut owners = Owners::default();
        owners.enter(7, &Limits::default()).unwrap();
        assert_eq!(code(owners.count_half(7, 0, HALF_DESCRIPTORS_OF_USER - 1)), None);
        assert_eq!(code(owners.count_half(7, 0, 2)), Some(ErrorCode::Malformed));
        assert_eq!(code(owners.count_half(7, 0, 1)), None);
        assert_eq!(code(owners.count_half(8, 0, 64)), None, "another user");
        assert_eq!(code(owners.count_half(7, 1, 0)), None);
        assert_eq!(code(owners.count_half(7, 0, 1)), None);
        assert_eq!(code(owners.count_half(0, 0, 1 << 20)), None, "root");
    }

    #[test]
    fn files_are_limited_by_session_by_number_and_by_bytes() {
        let limits = Limits { files: 2, files_of_user: 3, file_bytes_of_user: 100, ..Limits::default() };
        let mut owners = Owners::default();
        let of = |bytes| Weight { bytes, name_bytes: 0 };
        assert_eq!(code(owners.name_file(7, 2, of(1), &limits)), Some(ErrorCode::Files));
        assert_eq!(code(owners.name_file(7, 0, of(101), &limits)), Some(ErrorCode::Files));
        assert_eq!((0..3).find_map(|_| code(owners.name_file(7, 0, of(30), &limits))), None);
        assert_eq!(code(owners.name_file(7, 0, of(0), &limits)), Some(ErrorCode::Files), "four of the user");
        (0..3).for_each(|_| owners.forget_file(7, of(30)));
        assert_eq!(code(owners.name_file(7, 0, of(100), &limits)), None);
        assert_eq!((0..9).find_map(|_| code(owners.name_file(0, 1, of(1 << 60), &limits))), None, "root");
    }

    #[test]
    fn the_names_of_a_users_files_are_limited_in_bytes() {
        let limits = Limits { name_bytes_of_user: 100, ..Limits::default() };
        let mut owners = Owners::default();
        let of = |name_bytes| Weight { bytes: 1, name_bytes };
        assert_eq!(code(owners.name_file(7, 0, of(60), &limits)), None);
        assert_eq!(code(owners.name_file(7, 0, of(41), &limits)), Some(ErrorCode::Files));
        assert_eq!(code(owners.name_file(8, 0, of(100), &limits)), None, "another user");
        owners.forget_file(7, of(60));
        assert_eq!(code(owners.name_file(7, 0, of(100), &limits)), None);
        assert_eq!(code(owners.name_file(0, 0, of(4096), &limits)), None, "root");
    }

    #[test]
    fn the_buffers_of_a_users_connections_are_limited_in_bytes() {
        let limits = Limits { buffer_bytes_of_user: 100, ..Limits::default() };
        let mut owners = Owners::default();
        owners.enter(7, &limits).unwrap();
        assert_eq!(code(owners.count_waiting(7, (0, 60), &limits)), None);
        assert_eq!(code(owners.count_waiting(7, (0, 41), &limits)), Some(ErrorCode::SlowClient));
        assert_eq!(code(owners.count_waiting(8, (0, 100), &limits)), None, "another user");
        assert_eq!(code(owners.count_waiting(7, (60, 0), &limits)), None);
        assert_eq!(code(owners.count_waiting(7, (0, 100), &limits)), None);
        assert_eq!(code(owners.count_waiting(0, (0, 1 << 30), &limits)), None, "root");
    }
}
