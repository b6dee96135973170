//! What scrapers say to the metrics server, over its socket: it answers with one whole answer, or hangs up, and goes on.

#![no_main]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

use foretelld::metrics::{MetricsAddress, MetricsServer};
use libfuzzer_sys::fuzz_target;

/// Bytes of an answer without a service behind it, at most.
const ANSWER_BYTES: usize = 1024;

/// One server for all inputs: what one leaves behind is what the next one meets.
fn server() -> &'static (MetricsServer, tempfile::TempDir) {
    static SERVER: OnceLock<(MetricsServer, tempfile::TempDir)> = OnceLock::new();
    SERVER.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let at = MetricsAddress::Socket(directory.path().join("m"));
        (MetricsServer::start(&at, || None).expect("a server"), directory)
    })
}

fuzz_target!(|bytes: &[u8]| {
    let (_, directory) = server();
    let mut scraper = UnixStream::connect(directory.path().join("m")).expect("it lets everybody in");
    // It may have hung up before all was said.
    let _ = scraper.write_all(bytes);
    let _ = scraper.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = scraper.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 "), "{answer:?}");
    assert!(answer.len() <= ANSWER_BYTES, "{} bytes", answer.len());
});
