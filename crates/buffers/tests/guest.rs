//! What a guest makes of a host that says anything: an error in time, or an answer, and never more memory than a frame has.

#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use foretell_buffers::{Error, Guest, Remote, Stamp};
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

const TIMEOUT: Duration = Duration::from_secs(1);
/// The answer that a greeting has: one byte, that all is well.
const WELCOME: [u8; 5] = [1, 0, 0, 0, 1];

/// An answer to one request.
#[derive(Debug, Clone)]
enum Said {
    /// Bytes as they are.
    Raw(Vec<u8>),
    /// A frame with a true length, so that what is in it is looked at.
    Frame(Vec<u8>),
    /// A frame that says that all is well, and numbers.
    Numbers(Vec<u64>),
}

impl Said {
    fn bytes(&self) -> Vec<u8> {
        let frame = |content: &[u8]| [&(content.len() as u32).to_le_bytes()[..], content].concat();
        match self {
            Said::Raw(bytes) => bytes.clone(),
            Said::Frame(content) => frame(content),
            Said::Numbers(numbers) => {
                let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
                frame(&[1].into_iter().chain(numbers).collect::<Vec<u8>>())
            }
        }
    }
}

fn said() -> impl Strategy<Value = Said> {
    // Sizes of a memory among them, and what is none.
    let number = prop_oneof![0..70_u64, Just(4096), Just(64), any::<u64>()];
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Said::Raw),
        (0..3_u8, prop::collection::vec(any::<u8>(), 0..60))
            .prop_map(|(first, rest)| Said::Frame([vec![first], rest].concat())),
        prop::collection::vec(number, 0..6).prop_map(Said::Numbers),
    ]
}

/// A memory file of one's own, sealed as a pool's.
fn memory(bytes: u64) -> OwnedFd {
    let file = rustix::fs::memfd_create(c"test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&file, bytes).unwrap();
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).unwrap();
    file
}

/// Reads one request, and whether there was one.
fn asked(stream: &mut UnixStream) -> bool {
    let mut length = [0; 4];
    if stream.read_exact(&mut length).is_err() {
        return false;
    }
    let mut rest = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut rest).is_ok()
}

/// One connection: a welcome, and at the first request all that it has to say, with descriptors. Then it hangs up, so that
/// a guest that wants more is not kept waiting.
fn host(mut stream: UnixStream, answers: &[Said], files: &[OwnedFd; 3]) -> Option<()> {
    asked(&mut stream).then_some(())?;
    stream.write_all(&WELCOME).ok()?;
    asked(&mut stream).then_some(())?;
    for answer in answers {
        stream.write_all(&answer.bytes()).ok()?;
        let files = files.each_ref().map(AsFd::as_fd);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&files));
        let one = [std::io::IoSlice::new(&[0])];
        rustix::net::sendmsg(&stream, &one, &mut control, SendFlags::NOSIGNAL).ok()?;
    }
    Some(())
}

/// Whatever a guest may be asked for.
fn calls(guest: &Guest) {
    let one = Remote::new("s3://a/b", Stamp { length: 100, ..Stamp::default() }).unwrap();
    let told = |error: Error| assert!(!error.to_string().contains('\n'), "{error}");
    let mut buffer = [0; 50];
    for _ in 0..2 {
        guest.read_at(&one, &mut buffer, 10).unwrap_or_else(told);
    }
    let _ = guest.list("s3://a", true).map_err(told);
    let _ = guest.open_all(&["s3://a/b"], false).map_err(told);
    let taken = guest.disclose(&[(&one, 0, 10)]).map_err(told);
    assert!(taken.is_err() || taken.is_ok_and(|taken| taken <= 1));
    let _ = guest.statistics().map_err(told);
    let _ = guest.cancel().map_err(told);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn a_host_that_says_anything_gets_a_guest_that_says_so(
        lines in prop::collection::vec(prop::collection::vec(said(), 0..4), 2..12),
        bytes in prop::collection::vec(prop_oneof![0..8192_u64, Just(16 << 10)], 3),
    ) {
        static HOSTS: AtomicU64 = AtomicU64::new(0);
        let name = format!("{:016x}{:016x}", std::process::id(), HOSTS.fetch_add(1, Ordering::Relaxed));
        let address = SocketAddr::from_abstract_name(format!("foretell-buffers-{name}")).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let files = [memory(bytes[0]), memory(bytes[1]), memory(bytes[2])];
        let (lines, files) = (&lines, &files);
        std::thread::scope(|scope| {
            // With the last of what it has to say its socket is gone, and whoever connects is refused.
            scope.spawn(move || {
                for (line, stream) in lines.iter().zip(listener.incoming().flatten()) {
                    scope.spawn(move || host(stream, line, files));
                }
            });
            if let Ok(guest) = Guest::attach(&format!("{name}-{}", "0".repeat(32)), TIMEOUT, None) {
                calls(&guest);
            }
            // Those that it still waits for.
            for _ in lines {
                let _ = UnixStream::connect_addr(&address);
            }
        });
    }
}
