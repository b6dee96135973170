//! A service that answers every question with the same snapshot.

use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use foretell_protocol::frame::Arrival;
use foretell_protocol::message::Message;
use foretell_protocol::{PROTOCOL, Part, Reader, Reply, Request, Welcome};
use foretelld::Snapshot;
use rustix::event::{PollFd, PollFlags, poll};
use tempfile::TempDir;

/// A service of the test's own; gone when it is dropped.
pub(crate) struct Service {
    socket: PathBuf,
    directory: Option<TempDir>,
    stopped: Arc<AtomicBool>,
    clients: Arc<Mutex<Vec<UnixStream>>>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    pub(crate) fn start(snapshot: Snapshot) -> Service {
        Service::start_in(tempfile::tempdir().unwrap(), snapshot)
    }

    /// The same where another one was before.
    pub(crate) fn start_in(directory: TempDir, snapshot: Snapshot) -> Service {
        Service::open(directory, snapshot.to_json(usize::MAX))
    }

    /// One that gives this for a snapshot.
    pub(crate) fn start_saying(text: &str) -> Service {
        Service::open(tempfile::tempdir().unwrap(), text.to_owned())
    }

    fn open(directory: TempDir, answer: String) -> Service {
        let socket = directory.path().join("s.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let stopped = Arc::new(AtomicBool::new(false));
        let clients: Arc<Mutex<Vec<UnixStream>>> = Arc::default();
        let (seen, known) = (Arc::clone(&stopped), Arc::clone(&clients));
        let thread = std::thread::spawn(move || {
            let mut serving = Vec::new();
            for client in listener.incoming() {
                if seen.load(Ordering::SeqCst) {
                    break;
                }
                let client = client.unwrap();
                known.lock().unwrap().push(client.try_clone().unwrap());
                let answer = answer.clone();
                serving.push(std::thread::spawn(move || serve(&client, &answer)));
            }
            for client in serving {
                client.join().unwrap();
            }
        });
        Service { socket, directory: Some(directory), stopped, clients, thread: Some(thread) }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Ends it as if it had been killed; its directory, for the next one.
    pub(crate) fn stop(mut self) -> TempDir {
        self.end();
        self.directory.take().unwrap()
    }

    fn end(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.stopped.store(true, Ordering::SeqCst);
        // Lets the thread see it; then nobody can connect any more.
        let _ = UnixStream::connect(&self.socket);
        std::fs::remove_file(&self.socket).unwrap();
        for client in self.clients.lock().unwrap().drain(..) {
            let _ = client.shutdown(std::net::Shutdown::Both);
        }
        thread.join().unwrap();
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.end();
    }
}

/// Answers until the client has gone.
fn serve(client: &UnixStream, answer: &str) {
    let mut reader = Reader::new();
    loop {
        while let Some(frame) = reader.next_frame::<Request>().unwrap() {
            let replies = match frame.message {
                Request::Hello { .. } => vec![Reply::Welcome(Welcome {
                    protocol: PROTOCOL,
                    block_bytes: 8192,
                    files: 1,
                    levels: 1,
                    disclosed_blocks: 1,
                })],
                Request::Status(part) => {
                    assert!(!part.more);
                    Part::cut(answer).into_iter().map(Reply::Status).collect()
                }
                other => panic!("{other:?}"),
            };
            let mut bytes = Vec::new();
            replies.iter().for_each(|reply| reply.encode(&mut bytes));
            // A client that has gone in the meantime is as good as one that goes afterwards.
            let _ = std::io::Write::write_all(&mut &*client, &bytes);
        }
        poll(&mut [PollFd::new(client, PollFlags::IN)], None).unwrap();
        match reader.receive(client.as_fd()) {
            Ok(Arrival::Bytes | Arrival::Nothing) => {}
            Ok(Arrival::Closed) | Err(_) => return,
        }
    }
}
