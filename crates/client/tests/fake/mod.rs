//! A service for tests that does nothing by itself: it takes in what has arrived when the test says so.
//! Without threads or clocks the tests are the same each time.

// Each test program uses another part of it.
#![allow(dead_code)]

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use foretell_client::{Client, Fallback, Options};
use foretell_protocol::frame::Arrival;
use foretell_protocol::socket::Received;
use foretell_protocol::{
    Consumer, Entry, ErrorCode, Handle, Outbox, PROTOCOL, Reader, Reply, Request, Statistics, Welcome,
};
use tempfile::TempDir;

/// Bytes of a block of this service.
pub(crate) const BLOCK: u64 = 8192;

/// A place to listen at that vanishes with the test.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn options(&self) -> Options {
        Options { socket: self.socket(), fallback: Fallback::Nothing }
    }

    pub(crate) fn client(&self) -> Client {
        Client::with_options(self.options())
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    /// A file of so many bytes, by its name.
    pub(crate) fn file(&self, name: &str, bytes: u64) -> std::fs::File {
        let path = self.dir.path().join(name);
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(bytes).unwrap();
        std::fs::File::open(path).unwrap()
    }

    pub(crate) fn listen(&self) -> Service {
        let _ = std::fs::remove_file(self.socket());
        Service { listener: UnixListener::bind(self.socket()).unwrap(), files_limit: 4096 }
    }
}

/// A service that listens.
pub(crate) struct Service {
    listener: UnixListener,
    pub(crate) files_limit: u32,
}

impl Service {
    /// Lets in the client that has connected, and greets it.
    pub(crate) fn accept(&self) -> Session {
        let (socket, _) = self.listener.accept().unwrap();
        let mut reader = Reader::new();
        assert_eq!(reader.receive(socket.as_fd()).unwrap(), Arrival::Bytes);
        let frame = reader.next_frame::<Request>().unwrap().expect("no greeting");
        let Request::Hello { protocol: PROTOCOL, ring_entries: Some(entries) } = frame.message else {
            panic!("no greeting: {:?}", frame.message);
        };
        let consumer = Consumer::open(&frame.descriptors[0], entries).unwrap();
        let socket = OwnedFd::from(socket);
        let files = Vec::new();
        let mut session = Session { socket, reader, consumer, files };
        session.reply(&Reply::Welcome(Welcome {
            protocol: PROTOCOL,
            block_bytes: BLOCK as u32,
            files: self.files_limit,
            levels: 64,
            disclosed_blocks: 1 << 22,
        }));
        session
    }

    /// From now on it is another user who listens: the kernel notes who called listen(2) last. Needs root.
    pub(crate) fn becomes_of(&self, user: u32) {
        std::thread::scope(|scope| {
            let listen = || {
                let user = rustix::fs::Uid::from_raw(user);
                rustix::thread::set_thread_res_uid(user, user, user).unwrap();
                rustix::net::listen(&self.listener, 16).unwrap();
            };
            scope.spawn(listen).join().unwrap();
        });
    }

    /// What whoever has connected has sent: bytes and descriptors. It has closed.
    pub(crate) fn overheard(&self) -> (usize, usize) {
        let (socket, _) = self.listener.accept().unwrap();
        let (mut bytes, mut descriptors) = (0, 0);
        loop {
            match foretell_protocol::socket::receive(socket.as_fd(), &mut [0; 4096]).unwrap() {
                Received::Some { length, descriptors: sent, .. } => {
                    bytes += length;
                    descriptors += sent.len();
                }
                Received::Closed => return (bytes, descriptors),
                Received::Nothing => panic!("it is still connected"),
            }
        }
    }

    /// Nobody has connected since the last time.
    pub(crate) fn nobody_came(&self) -> bool {
        self.listener.set_nonblocking(true).unwrap();
        let nobody = self.listener.accept().is_err();
        self.listener.set_nonblocking(false).unwrap();
        nobody
    }
}

/// What a client said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// A file, by its inode.
    File(u32, u64),
    Forget(u32),
    Wake,
    Entry(Entry),
}

/// One connection.
pub(crate) struct Session {
    socket: OwnedFd,
    reader: Reader,
    pub(crate) consumer: Consumer,
    files: Vec<(u32, OwnedFd)>,
}

impl Session {
    /// Everything that has arrived, in the order in which a service takes it in.
    pub(crate) fn hear(&mut self) -> Vec<Said> {
        let tail = self.consumer.tail().unwrap();
        let mut said = self.hear_socket();
        while let Some(entry) = self.consumer.take(tail) {
            said.push(Said::Entry(entry.unwrap()));
        }
        self.consumer.release();
        said
    }

    /// What has arrived on the socket alone.
    pub(crate) fn hear_socket(&mut self) -> Vec<Said> {
        let mut said = Vec::new();
        loop {
            while let Some(frame) = self.reader.next_frame::<Request>().unwrap() {
                said.push(match frame.message {
                    Request::File { handle, .. } => {
                        let file = frame.descriptors.into_iter().next().unwrap();
                        let inode = rustix::fs::fstat(&file).unwrap().st_ino;
                        self.files.push((handle.number(), file));
                        Said::File(handle.number(), inode)
                    }
                    Request::Forget { handle } => {
                        self.files.retain(|(number, _)| *number != handle.number());
                        Said::Forget(handle.number())
                    }
                    Request::Wake => Said::Wake,
                    other => panic!("not for a program to ask: {other:?}"),
                });
            }
            match self.reader.receive(self.socket.as_fd()).unwrap() {
                Arrival::Bytes => {}
                Arrival::Nothing | Arrival::Closed => return said,
            }
        }
    }

    /// The entries alone, with their files' inodes in place of the handles.
    pub(crate) fn entries(&mut self) -> Vec<Entry> {
        let said = self.hear();
        said.into_iter()
            .filter_map(|said| if let Said::Entry(entry) = said { Some(entry) } else { None })
            .collect()
    }

    /// The inode of a file by its handle.
    pub(crate) fn inode(&self, handle: Handle) -> u64 {
        let (_, file) =
            self.files.iter().find(|(number, _)| *number == handle.number()).expect("unknown file");
        rustix::fs::fstat(file).unwrap().st_ino
    }

    pub(crate) fn files(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn reply(&mut self, reply: &Reply) {
        let mut outbox = Outbox::new(1 << 20);
        outbox.push(reply).unwrap();
        // A client that has ended already hears nothing more.
        let _ = outbox.flush(self.socket.as_fd());
    }

    pub(crate) fn refuse(&mut self, handle: u32, code: ErrorCode) {
        self.reply(&Reply::Error { code, handle: Handle::new(handle), text: "no".to_owned() });
    }

    pub(crate) fn publish(&mut self, statistics: &Statistics) {
        self.consumer.publish(statistics);
    }

    pub(crate) fn has_closed(&mut self) -> bool {
        loop {
            match self.reader.receive(self.socket.as_fd()) {
                Ok(Arrival::Bytes) => while let Ok(Some(_)) = self.reader.next_frame::<Request>() {},
                Ok(Arrival::Nothing) => return false,
                Ok(Arrival::Closed) | Err(_) => return true,
            }
        }
    }
}

pub(crate) fn inode(file: &std::fs::File) -> u64 {
    rustix::fs::fstat(file).unwrap().st_ino
}

/// Calls until the client is connected again: it waits a moment between two attempts.
pub(crate) fn until_connected(client: &Client) {
    while !client.is_connected() {
        std::thread::yield_now();
    }
}
