//! A shared pool's book of guests: where they connect to, who they are, and what is held open for them.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use foretell_door::Porter;

use crate::object::Held;
use crate::who::Who;

/// Where a pool is shared, in words: what guests need to know of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    name: [u8; 16],
    pub(crate) secret: [u8; 16],
}

impl Address {
    pub(crate) fn new() -> io::Result<Address> {
        let mut random = [0; 32];
        let (mut rest, flags) = (&mut random[..], rustix::rand::GetRandomFlags::empty());
        while !rest.is_empty() {
            let count = rustix::rand::getrandom(&mut *rest, flags)?;
            rest = &mut rest[count..];
        }
        let (mut name, mut secret) = ([0; 16], [0; 16]);
        name.copy_from_slice(&random[..16]);
        secret.copy_from_slice(&random[16..]);
        Ok(Address { name, secret })
    }

    /// Of the socket, which no file stands for.
    pub(crate) fn name(&self) -> String {
        format!("foretell-buffers-{}", hexadecimal(&self.name))
    }

    pub(crate) fn parse(text: &str) -> Option<Address> {
        let (name, secret) = text.split_once('-')?;
        Some(Address { name: bytes(name)?, secret: bytes(secret)? })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", hexadecimal(&self.name), hexadecimal(&self.secret))
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(text: &str) -> Option<[u8; 16]> {
    let digits = text.len() == 32 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    Some(u128::from_str_radix(text, 16).ok().filter(|_| digits)?.to_be_bytes())
}

/// A guest, as long as it has connections.
#[derive(Default)]
pub(crate) struct Guest {
    pub(crate) connections: usize,
    /// The first of its lanes in the pool's memory. They are its own as long as the connection that asked for them.
    pub(crate) lanes: Option<u32>,
    /// Whose references its reads are, once it has disclosed something.
    pub(crate) who: Option<Who>,
}

#[derive(Default)]
pub(crate) struct Guests {
    pub(crate) begun: u64,
    /// To be shut down with the pool.
    pub(crate) streams: HashMap<u64, UnixStream>,
    pub(crate) by_number: HashMap<u64, Guest>,
    /// Open objects by store and URL, and when each was used.
    pub(crate) held: HashMap<(usize, String), (Held, u64)>,
    pub(crate) uses: u64,
}

/// What a shared pool has beside the others.
pub(crate) struct Host {
    pub(crate) address: Address,
    guests: Mutex<Guests>,
    /// Rung by guests that have left references.
    pub(crate) bell: UnixDatagram,
    /// Lets guests in until this ends.
    porter: OnceLock<Porter>,
}

impl Host {
    pub(crate) fn new(address: Address, bell: UnixDatagram) -> Host {
        Host { address, guests: Mutex::default(), bell, porter: OnceLock::new() }
    }

    /// Has it let guests in.
    pub(crate) fn keep(&self, porter: Porter) {
        // There is none before.
        let _ = self.porter.set(porter);
    }

    pub(crate) fn guests(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Their threads wait for requests.
        for stream in self.guests().streams.values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
