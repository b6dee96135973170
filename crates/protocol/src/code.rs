//! Why the service refuses something.

/// The reason of an [`crate::Reply::Error`] or an [`crate::Reply::Ended`]. The comments say what the client
/// may do about it; after a code marked *(ends the session)* the service closes the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u16)]
pub enum ErrorCode {
    /// A frame that no client of this protocol sends. *(ends the session)*
    Malformed = 1,
    /// The service speaks another version; connecting again is of no use. *(ends the session)*
    Version = 2,
    /// A message out of turn: before the greeting, a second greeting, or a reply sent to the service.
    /// *(ends the session)*
    OutOfTurn = 3,
    /// The ring is no sealed memory of a permitted size. *(ends the session)*
    RingRefused = 4,
    /// The ring's positions contradict each other. *(ends the session)*
    RingCorrupt = 5,
    /// An entry of the ring means nothing; it was passed over.
    BadEntry = 6,
    /// The service has as many sessions as it may. *(ends the session)*
    Sessions = 16,
    /// This user has as many sessions as one may. *(ends the session)*
    SessionsOfUser = 17,
    /// This process has as many sessions as one may. *(ends the session)*
    SessionsOfProcess = 18,
    /// The session has as many files as it may: [`crate::Request::Forget`] one.
    Files = 19,
    /// The session has as many priority levels as it may; the directive has no effect.
    Levels = 20,
    /// The session has disclosed as much as it may; the entry has no effect.
    Disclosed = 21,
    /// All sessions together have disclosed as much as they may; the entry has no effect.
    DisclosedInAll = 22,
    /// More messages a second than one may send. *(ends the session)*
    Rate = 23,
    /// As many `Run` sessions as there may be.
    Runs = 24,
    /// The client does not take the replies that it asked for. *(ends the session)*
    SlowClient = 25,
    /// The descriptor is of something else than a regular file.
    NotAFile = 32,
    /// The descriptor was not opened for reading: no proof that the client may read the file.
    NotReadable = 33,
    /// The handle is in use for another file.
    HandleInUse = 34,
    /// An entry names a handle that no file was sent for; it was passed over.
    UnknownHandle = 35,
    /// The file's pages cannot be steered: on no disk, or the page cache is not used.
    NotSteerable = 36,
    /// The service cannot take this file at present.
    FileRefused = 37,
    /// Not permitted to this user.
    NotPermitted = 48,
    /// What `Status` or `Run` asks for is not understood.
    BadSpecification = 49,
    /// The process to be run under control is gone, is another user's, or is under control already.
    Process = 50,
    /// The service is being stopped. *(ends the session)*
    Stopping = 64,
    /// The processes of the session have ended. *(ends the session)*
    Finished = 65,
    /// The service failed at something that is not the client's fault.
    Internal = 66,
}

impl ErrorCode {
    /// Every code, in ascending order.
    pub const ALL: &[ErrorCode] = &[
        ErrorCode::Malformed,
        ErrorCode::Version,
        ErrorCode::OutOfTurn,
        ErrorCode::RingRefused,
        ErrorCode::RingCorrupt,
        ErrorCode::BadEntry,
        ErrorCode::Sessions,
        ErrorCode::SessionsOfUser,
        ErrorCode::SessionsOfProcess,
        ErrorCode::Files,
        ErrorCode::Levels,
        ErrorCode::Disclosed,
        ErrorCode::DisclosedInAll,
        ErrorCode::Rate,
        ErrorCode::Runs,
        ErrorCode::SlowClient,
        ErrorCode::NotAFile,
        ErrorCode::NotReadable,
        ErrorCode::HandleInUse,
        ErrorCode::UnknownHandle,
        ErrorCode::NotSteerable,
        ErrorCode::FileRefused,
        ErrorCode::NotPermitted,
        ErrorCode::BadSpecification,
        ErrorCode::Process,
        ErrorCode::Stopping,
        ErrorCode::Finished,
        ErrorCode::Internal,
    ];

    /// The code with this number.
    #[must_use]
    pub fn from_number(number: u16) -> Option<ErrorCode> {
        ErrorCode::ALL.iter().copied().find(|code| code.number() == number)
    }

    /// The number of the code on the wire.
    #[must_use]
    pub fn number(self) -> u16 {
        self as u16
    }

    /// Whether the service closes the connection after saying so.
    #[must_use]
    pub fn ends_the_session(self) -> bool {
        use ErrorCode as E;
        matches!(
            self,
            E::Malformed
                | E::Version
                | E::OutOfTurn
                | E::RingRefused
                | E::RingCorrupt
                | E::Sessions
                | E::SessionsOfUser
                | E::SessionsOfProcess
                | E::Rate
                | E::SlowClient
                | E::Stopping
                | E::Finished
        )
    }
}
