//! A client whose service says whatever it likes and scribbles over the ring: every call of the program still
//! succeeds, at once.

#![no_main]

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::OnceLock;

use foretell_client::{Client, Fallback, Options, Policy};
use foretell_protocol::{Reader, Request};
use libfuzzer_sys::fuzz_target;

/// Where the client connects to, and a file.
struct Place {
    listener: UnixListener,
    options: Options,
    file: File,
}

fn place() -> &'static Place {
    static PLACE: OnceLock<(Place, tempfile::TempDir)> = OnceLock::new();
    let made = PLACE.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("socket");
        let listener = UnixListener::bind(&socket).expect("a socket");
        listener.set_nonblocking(true).expect("a socket");
        let path = dir.path().join("file");
        std::fs::write(&path, [0; 100]).expect("a file");
        let options = Options { socket, fallback: Fallback::Nothing };
        (Place { listener, options, file: File::open(path).expect("a file") }, dir)
    });
    &made.0
}

fuzz_target!(|bytes: &[u8]| {
    let Place { listener, options, file } = place();
    let client = Client::with_options(options.clone());
    let (mut socket, _) = listener.accept().expect("a client");
    let mut reader = Reader::new();
    reader.receive(socket.as_fd()).expect("a greeting");
    let hello = reader.next_frame::<Request>().expect("a frame").expect("a greeting");
    let memory = &hello.descriptors[0];
    for piece in bytes.split(|&byte| byte == 0xee) {
        match piece.split_first_chunk::<3>() {
            // Into the header or the first entries of the ring.
            Some(([0, low, high], words)) => {
                let at = u64::from(u16::from_le_bytes([*low, *high]) & 0x1fff);
                rustix::io::pwrite(memory, &words[..words.len().min(256)], at).expect("memory");
            }
            _ => drop(socket.write_all(piece)),
        }
        client.set_priority(file, -1).expect("a file");
        client.set_policy(-1, Policy::Mru).expect("a level");
        client.disclose_range(file, 0..100).expect("a range");
        client.done_with(file, 0..100).expect("a range");
        client.disclose_files([file]).expect("a file");
        client.cancel();
        client.is_connected();
        assert_eq!(client.priority(file).expect("a file"), -1);
        client.stats();
    }
    drop(socket);
    // It hears of the end behind what was said before; and on a busy machine it has come back meanwhile.
    while bytes.len() <= 65536 && client.is_connected() {
        listener.accept().expect("a connection that the client believes to have");
    }
    client.disclose_range(file, 0..100).expect("a range");
    drop(client);
    // What is left of this client is not the next one.
    while listener.accept().is_ok() {}
});
