//! What can go wrong, in words for the person who started the device.

use serde::{Deserialize, Serialize};

/// A reason why a slow device could not be started, found or removed.
///
/// It can be serialised because most of the work happens in a helper process, which hands its error
/// back to the one that asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Error {
    /// An option has a value that no device can have.
    #[error("{option} is {value}; it must be {expected}")]
    BadOption {
        /// The option, as the command spells it (`--mb-s`).
        option: String,
        /// The value that was given.
        value: String,
        /// What would be accepted.
        expected: String,
    },
    /// Something that the device needs is missing on this machine.
    #[error("{what} is missing: {remedy}")]
    Missing {
        /// What is missing.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// A device with this name is up.
    #[error(
        "a slow device named `{name}` is up already at {mount_point}; remove it first or choose another name"
    )]
    NameTaken {
        /// The name of both devices.
        name: String,
        /// Where the one that is up is mounted.
        mount_point: String,
    },
    /// No device with this name is up.
    #[error("no slow device named `{name}` is up{}", list_known(.known))]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The names that are up.
        known: Vec<String>,
    },
    /// A program uses files on the device, so that it cannot be unmounted.
    #[error("{mount_point} is in use by a program; end it first, or remove the device by force")]
    Busy {
        /// Where the device is mounted.
        mount_point: String,
    },
    /// The system refused a step.
    #[error("cannot {action}: {reason}")]
    System {
        /// The step, as "mount /dev/loop3 at /mnt".
        action: String,
        /// The system's reason.
        reason: String,
    },
}

impl Error {
    /// An [`Error::System`] from a step and the system's reason.
    pub(crate) fn system(action: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self::System { action: action.into(), reason: reason.to_string() }
    }
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

fn list_known(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!("; up are: {}", known.join(", ")) }
}
