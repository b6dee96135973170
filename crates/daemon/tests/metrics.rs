//! The metrics: what they say, read back by a strict parser, and how they are served.

#![allow(clippy::unwrap_used)] // a test's own helpers

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use foretelld::metrics::{
    CONNECTIONS, Detail, LABEL_BYTES, MetricsAddress, MetricsError, MetricsServer, REQUEST_BYTES, ROWS,
    exposition,
};
use foretelld::{Counters, FileStatus, ManagerStatus, ProcessStatus, Snapshot, Status, Work};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was exposed: the type of each metric, and each sample by its name and labels.
#[derive(Debug, Default)]
struct Exposed {
    types: BTreeMap<String, String>,
    helps: BTreeMap<String, String>,
    samples: BTreeMap<(String, BTreeMap<String, String>), f64>,
}

impl Exposed {
    /// The value of a sample with exactly these labels.
    fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let key = (name.to_owned(), labels);
        *self.samples.get(&key).unwrap_or_else(|| panic!("{key:?} is missing"))
    }

    fn samples_of(&self, name: &str) -> usize {
        self.samples.keys().filter(|(found, _)| found == name).count()
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !name.as_bytes()[0].is_ascii_digit()
}

/// The labels in braces, escapes undone; what follows the brace.
fn labels(mut text: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    loop {
        let (name, rest) = text.split_once("=\"").unwrap();
        assert!(is_name(name), "{name}");
        let (mut value, mut chars) = (String::new(), rest.char_indices());
        let end = loop {
            match chars.next().unwrap() {
                (at, '"') => break at,
                (_, '\\') => value.push(match chars.next().unwrap().1 {
                    'n' => '\n',
                    escaped @ ('\\' | '"') => escaped,
                    other => panic!("\\{other}"),
                }),
                (_, other) => value.push(other),
            }
        };
        assert_eq!(labels.insert(name.to_owned(), value), None, "a label twice");
        match rest[end + 1..].split_at(1) {
            (",", more) => text = more,
            ("}", after) => return (labels, after),
            other => panic!("{other:?}"),
        }
    }
}

/// Reads an exposition by the rules of OpenMetrics 1.0: HELP and TYPE before the samples of a metric, these
/// together and none twice, `_total` for counters alone, the unit at the end of the name, EOF at the end.
fn parse(text: &str) -> Exposed {
    let mut exposed = Exposed::default();
    let body = text.strip_suffix("# EOF\n").unwrap();
    let mut current = (String::new(), String::new());
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (kind, name, rest) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
            assert!(name.starts_with("foretell_") && is_name(name), "{name}");
            match kind {
                "HELP" => {
                    assert!(!rest.is_empty(), "{line}");
                    assert_eq!(exposed.helps.insert(name.into(), rest.into()), None, "{name} twice");
                }
                "TYPE" => {
                    assert!(exposed.helps.contains_key(name), "{name}");
                    assert!(["gauge", "counter"].contains(&rest), "{line}");
                    assert_eq!(exposed.types.insert(name.into(), rest.into()), None, "{name} twice");
                    current = (name.to_owned(), rest.to_owned());
                }
                "UNIT" => assert!(name == current.0 && name.ends_with(&format!("_{rest}")), "{line}"),
                other => panic!("{other}"),
            }
            continue;
        }
        let end = line.find(['{', ' ']).unwrap();
        let (name, rest) = line.split_at(end);
        let suffix = if current.1 == "counter" { "_total" } else { "" };
        assert_eq!(name, current.0.clone() + suffix, "a sample away from its metric");
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => labels(rest),
            None => (BTreeMap::new(), rest),
        };
        let value: f64 = rest.strip_prefix(' ').unwrap().parse().unwrap();
        let key = (name.to_owned(), labels);
        assert_eq!(exposed.samples.insert(key.clone(), value), None, "{key:?} twice");
    }
    exposed
}

fn counts(references: u64) -> Counters {
    Counters { references, hits: references / 2, ..Counters::default() }
}

fn process(pid: u32, name: &str, references: u64) -> ProcessStatus {
    let counts = counts(references);
    ProcessStatus { pid, name: name.into(), user: 7, session: 3, counts, ..ProcessStatus::default() }
}

fn file(path: &str, references: u64) -> FileStatus {
    FileStatus { path: PathBuf::from(path), counts: counts(references), ..FileStatus::default() }
}

fn scene() -> Snapshot {
    let manager = ManagerStatus {
        session: 3,
        name: "sort".into(),
        user: 7,
        root_pid: 41,
        owned_blocks: 4000,
        overruled: 12,
        placeholders_used: 2,
        revoked: true,
        ..ManagerStatus::default()
    };
    Snapshot {
        version: "1.2.3".into(),
        uptime_s: 12.5,
        sessions_open: 2,
        sessions_opened: 9,
        cache: Status {
            budget_bytes: 64 << 20,
            block_bytes: 8192,
            used_blocks: 5000,
            counts: Counters { prefetches: 70, prefetches_late: 5, ..counts(1000) },
            device_read_bytes: 123_456_789,
            wait_s: 0.25,
            managers: vec![manager],
            processes: vec![process(41, "sort", 600), process(42, "say \"hi\"\\\nnow", 400)],
            works: vec![Work {
                name: "lists".into(),
                pieces: 7,
                total_s: 0.5,
                longest_s: 0.25,
                longest_cpu_s: 0.25,
                classes: [4, 2, 0, 0, 0, 0, 0, 0, 0],
            }],
            files: vec![file("/data/a", 10), file("/data/a", 5), file("/data/b", 1)],
            ..Status::default()
        },
        ..Snapshot::default()
    }
}

#[test]
fn the_sums_are_all_there() {
    let exposed = parse(&exposition(scene(), Detail::Sums));
    for (name, value) in [
        ("foretell_uptime_seconds", 12.5),
        ("foretell_budget_bytes", 67_108_864.0),
        ("foretell_block_bytes", 8192.0),
        ("foretell_cached_blocks", 5000.0),
        ("foretell_sessions", 2.0),
        ("foretell_sessions_opened_total", 9.0),
        ("foretell_references_total", 1000.0),
        ("foretell_hits_total", 500.0),
        ("foretell_prefetches_late_total", 5.0),
        ("foretell_device_read_bytes_total", 123_456_789.0),
        ("foretell_wait_seconds_total", 0.25),
    ] {
        assert_eq!(exposed.value(name, &[]), value, "{name}");
    }
    assert_eq!(exposed.value("foretell_build_info", &[("version", "1.2.3")]), 1.0);
    let work = [("work", "lists")];
    assert_eq!(exposed.value("foretell_loop_pieces_total", &work), 7.0);
    assert_eq!(exposed.value("foretell_loop_seconds_total", &work), 0.5);
    assert_eq!(exposed.value("foretell_loop_longest_seconds", &work), 0.25);
    for (us, within) in [("100", 4.0), ("500", 6.0), ("20000", 6.0)] {
        let labels = [("work", "lists"), ("us", us)];
        assert_eq!(exposed.value("foretell_loop_pieces_within_total", &labels), within, "one took longer");
    }
}

#[test]
fn sums_tell_nothing_of_anybody() {
    let text = exposition(scene(), Detail::Sums);
    for secret in ["sort", "/data", "pid", "user=", "session="] {
        assert!(!text.contains(secret), "{secret} in\n{text}");
    }
    let mut idle = Snapshot::default();
    idle.cache.works = scene().cache.works;
    let few = parse(&exposition(idle, Detail::Sums));
    assert_eq!(few.samples.len(), parse(&text).samples.len(), "even when nothing has happened");
}

#[test]
fn rows_carry_their_labels_escaped_and_no_series_twice() {
    let exposed = parse(&exposition(scene(), Detail::Rows));
    let sort = [("pid", "41"), ("process", "sort"), ("user", "7"), ("session", "3")];
    assert_eq!(exposed.value("foretell_process_references_total", &sort), 600.0);
    let odd = [("pid", "42"), ("process", "say \"hi\"\\\nnow"), ("user", "7"), ("session", "3")];
    assert_eq!(exposed.value("foretell_process_hits_total", &odd), 200.0);
    let manager = [("manager", "sort"), ("pid", "41"), ("user", "7"), ("session", "3"), ("index", "0")];
    assert_eq!(exposed.value("foretell_manager_owned_blocks", &manager), 4000.0);
    assert_eq!(exposed.value("foretell_manager_revoked", &manager), 1.0);
    assert_eq!(exposed.value("foretell_manager_placeholders_used_total", &manager), 2.0);
    // A file that was made anew under its name: the sum of both.
    assert_eq!(exposed.value("foretell_file_references_total", &[("file", "/data/a")]), 15.0);
    assert_eq!(exposed.value("foretell_rows_omitted", &[("kind", "file")]), 0.0);
    // The sums are the same as without rows, and metrics of their own.
    assert_eq!(exposed.value("foretell_references_total", &[]), 1000.0);
    assert_eq!(exposed.samples_of("foretell_references_total"), 1);
}

#[test]
fn series_are_bounded() {
    let mut snapshot = scene();
    let cache = &mut snapshot.cache;
    cache.processes = (0..1000).map(|n| process(n, "p", u64::from(n * 7 % 1000))).collect();
    cache.managers = (0..1000).map(|n| ManagerStatus { session: n, ..ManagerStatus::default() }).collect();
    let long = "x".repeat(4000);
    cache.files = (0..1000).map(|n| file(&format!("/{long}/{n}"), u64::from(n == 77))).collect();
    let text = exposition(snapshot, Detail::Rows);
    let exposed = parse(&text);
    assert!(exposed.samples.len() < 5000, "{}", exposed.samples.len());
    assert!(text.len() < 2 << 20, "{}", text.len());
    assert_eq!(exposed.samples_of("foretell_process_references_total"), ROWS);
    for kind in ["process", "manager", "file"] {
        assert_eq!(exposed.value("foretell_rows_omitted", &[("kind", kind)]), (1000 - ROWS) as f64);
    }
    // Those with the most references are kept: 1000 of different numbers, and the one file that was read.
    let kept: BTreeSet<u64> = exposed
        .samples
        .iter()
        .filter(|((n, _), _)| n == "foretell_process_references_total")
        .map(|(_, value)| *value as u64)
        .collect();
    assert_eq!(kept, (1000 - ROWS as u64..1000).collect());
    let name = &exposed.samples.keys().find(|(n, _)| n == "foretell_file_size_bytes").unwrap().1["file"];
    assert!(name.len() <= LABEL_BYTES && name.starts_with("...xxx"), "{name}");
    assert!(text.contains("xx/77\""));
}

/// Sends a request and reads all of the answer.
fn exchange(mut stream: impl Read + Write, request: &str) -> (String, String) {
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}", body.len())) || body.is_empty(), "{head}");
    assert!(head.contains("Connection: close"), "{head}");
    (head.to_owned(), body.to_owned())
}

fn port_of(server: &MetricsServer) -> SocketAddr {
    let MetricsAddress::Loopback(address) = server.address() else { panic!("{:?}", server.address()) };
    *address
}

fn tcp(server: &MetricsServer) -> TcpStream {
    let stream = TcpStream::connect(port_of(server)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn unix(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn on_loopback(snapshot: impl FnMut() -> Option<Snapshot> + Send + 'static) -> MetricsServer {
    MetricsServer::start(&"127.0.0.1:0".parse().unwrap(), snapshot).unwrap()
}

const GET: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[test]
fn a_loopback_address_gives_the_sums() {
    let server = on_loopback(|| Some(scene()));
    let (head, body) = exchange(tcp(&server), GET);
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"), "{head}");
    assert_eq!(body, exposition(scene(), Detail::Sums));
    let (head, body) = exchange(tcp(&server), &GET.replace("GET", "HEAD"));
    assert!(head.starts_with("HTTP/1.1 200") && body.is_empty());
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
        ("hello\r\n\r\n", "400"),
    ] {
        assert!(exchange(tcp(&server), request).0.starts_with(&format!("HTTP/1.1 {status}")), "{request}");
    }
}

#[test]
fn a_socket_gives_everything_to_its_owner_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("metrics");
    let at = MetricsAddress::Socket(path.clone());
    // One that was left behind by a service that was killed is replaced.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = MetricsServer::start(&at, || Some(scene())).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let (_, body) = exchange(unix(&path), GET);
    assert_eq!(body, exposition(scene(), Detail::Rows));
    let second = MetricsServer::start(&at, || None).unwrap_err();
    assert!(matches!(second, MetricsError::InUse(_)), "{second}");
    drop(server);
    assert!(!path.exists());
    std::fs::write(&path, "precious").unwrap();
    let refused = MetricsServer::start(&at, || None).unwrap_err();
    assert_eq!(
        refused.to_string(),
        format!("{} is in use; give another place for the metrics", path.display())
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[test]
fn the_service_is_asked_once_however_many_ask() {
    let asked = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&asked);
    let server = on_loopback(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        Some(scene())
    });
    let start = std::time::Instant::now();
    for _ in 0..200 {
        exchange(tcp(&server), GET);
    }
    // Once a second at most, whatever the machine was doing meanwhile.
    let seconds = start.elapsed().as_secs() as u32;
    assert!(asked.load(Ordering::Relaxed) <= 1 + seconds, "{asked:?} in {seconds} s");
}

#[test]
fn a_service_that_does_not_answer_is_said_to() {
    let server = on_loopback(|| None);
    assert!(exchange(tcp(&server), GET).0.starts_with("HTTP/1.1 503"));
}

#[test]
fn silent_connections_do_not_keep_others_out() {
    let server = on_loopback(|| Some(scene()));
    let silent: Vec<TcpStream> = (0..CONNECTIONS * 3).map(|_| tcp(&server)).collect();
    let half: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|_| {
            let mut stream = tcp(&server);
            stream.write_all(b"GET /metr").unwrap();
            stream
        })
        .collect();
    assert!(exchange(tcp(&server), GET).0.starts_with("HTTP/1.1 200"));
    drop((silent, half));
    assert!(exchange(tcp(&server), GET).0.starts_with("HTTP/1.1 200"));
}

#[test]
fn a_request_without_end_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("metrics");
    let _server = MetricsServer::start(&MetricsAddress::Socket(path.clone()), || Some(scene())).unwrap();
    let endless = format!("GET /metrics HTTP/1.1\r\nX: {}", "y".repeat(REQUEST_BYTES));
    assert!(exchange(unix(&path), &endless).0.starts_with("HTTP/1.1 431"));
}

/// The same as the fuzz target `metrics`, with requests that were changed at random.
#[test]
fn what_is_no_request_is_answered_or_hung_up_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("m");
    let _server = MetricsServer::start(&MetricsAddress::Socket(path.clone()), || None).unwrap();
    let mut state = 1_u64;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    };
    for _ in 0..500 {
        let mut request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".to_vec();
        for _ in 0..below(4) {
            let at = below(request.len());
            request[at] = below(256) as u8;
        }
        request.truncate(1 + below(2 * request.len()));
        let mut scraper = unix(&path);
        // It may have hung up before all was said.
        let _ = scraper.write_all(&request);
        let _ = scraper.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = scraper.read_to_end(&mut answer);
        let is_answer = answer.starts_with(b"HTTP/1.1 ") && answer.len() <= 1024;
        assert!(answer.is_empty() || is_answer, "{:?}: {:?}", request.escape_ascii(), answer.escape_ascii());
    }
}

#[test]
fn a_scraper_that_does_not_read_keeps_nobody_waiting() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("metrics");
    let mut snapshot = scene();
    snapshot.cache.processes = (0..ROWS as u32).map(|n| process(n, "p", 1)).collect();
    let whole = exposition(snapshot.clone(), Detail::Rows);
    let _server =
        MetricsServer::start(&MetricsAddress::Socket(path.clone()), move || Some(snapshot.clone())).unwrap();
    let mut lazy: Vec<UnixStream> = (0..4).map(|_| unix(&path)).collect();
    for stream in &mut lazy {
        stream.write_all(GET.as_bytes()).unwrap();
    }
    assert_eq!(exchange(unix(&path), GET).1, whole);
}
