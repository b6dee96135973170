//! `foretell model calibrate` as a user sees it: on a file, on an object behind a server of the test's own,
//! and on what cannot be calibrated.

#![allow(clippy::unwrap_used)] // a test's own helpers

mod harness;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

use harness::foretell;

/// A file that was written, on a disk and not in the temporary directory, which may be memory.
fn file(directory: &Path, mib: usize) -> String {
    let path = directory.join("data");
    let block: Vec<u8> = (0..1 << 20).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut file = fs::File::create(&path).unwrap();
    for _ in 0..mib {
        file.write_all(&block).unwrap();
    }
    file.sync_all().unwrap();
    path.to_str().unwrap().to_owned()
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[test]
fn a_file_becomes_a_device_file_that_model_and_simulator_take() {
    let directory = directory();
    let data = file(directory.path(), 24);
    let output = directory.path().join("mine.toml");
    let output = output.to_str().unwrap();
    let ended = foretell(["model", "calibrate", &data, "--output", output, "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let found: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(found["read_bytes"].as_f64().unwrap() < 2.0 * 1024.0 * 1024.0 * 1024.0);
    assert!(found["alone"].as_array().unwrap().len() >= 4, "{found}");
    let workload = "sequential,bytes=8M";
    let predicted = foretell(["model", "predict", "--device", output, "--workload", workload, "--json"]);
    assert_eq!(predicted.code, Some(0), "{}", predicted.stderr);
    let predicted: serde_json::Value = serde_json::from_str(&predicted.stdout).unwrap();
    assert!(predicted["time_ms"].as_f64().unwrap() > 0.0);
    let simulated =
        foretell(["sim", "--workload", "synth", "--device", output, "--policy", "demand-lru", "--json"]);
    assert_eq!(simulated.code, Some(0), "{}", simulated.stderr);
    // The file alone is left, and what was asked for.
    let mut names: Vec<_> = fs::read_dir(directory.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["data", "mine.toml"]);
}

fn refused<const N: usize>(arguments: [&str; N], says: &str) {
    let ended = foretell([&["model", "calibrate"], &arguments[..]].concat());
    assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{arguments:?}: {}", ended.stderr);
    assert!(ended.stderr.starts_with("foretell: ") && ended.stderr.contains(says), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
}

#[test]
fn what_cannot_be_calibrated_is_refused_in_one_line() {
    let directory = directory();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let output = path("out.toml");
    let data = file(directory.path(), 1);
    refused([&data, "-o", &output], "has 1048576 bytes, and 16777216 are the least");
    refused([&path("absent"), "-o", &output], "there is no such file");
    refused([&path(""), "-o", &output], "is a directory; name an existing file");
    refused(["/dev/zero", "-o", &output], "is a character device");
    fs::File::create(path("holes")).unwrap().set_len(64 << 20).unwrap();
    refused([&path("holes"), "-o", &output], "has holes");
    refused([&data, "-o", &path("out")], "device files end in .toml");
    refused([&data, "-o", "/no/such/directory/out.toml"], "there is no directory /no/such/directory");
    refused([&data, "--scratch", "-o", &output], "is no directory; --scratch writes its file into one");
    refused([&data, "--rate", "1M", "-o", &output], "--rate: is for objects");
    assert!(!Path::new(&output).exists());
}

/// Answers of a server.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    Ranges,
    Whole,
    Forbidden,
    Silence,
}

/// A server of one object of 4 MiB that waits before each answer; it ends with the test's process.
fn server(answer: Answer, latency: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream, answer, latency));
        }
    });
    format!("http://{address}/bucket/object?signature=secret")
}

const OBJECT_BYTES: u64 = 4 << 20;

fn serve(stream: TcpStream, answer: Answer, latency: Duration) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    let mut stream = stream;
    loop {
        let mut range = None;
        loop {
            let line = lines.next()?.ok()?;
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
                let (first, last) = value.split_once('-')?;
                range = Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()?));
            }
            if line.is_empty() {
                break;
            }
        }
        std::thread::sleep(latency);
        let (first, last) = range?;
        let head = match answer {
            Answer::Ranges => format!(
                "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes {first}-{last}/{OBJECT_BYTES}\r\n\r\n",
                last + 1 - first
            ),
            Answer::Whole => format!("HTTP/1.1 200 OK\r\nContent-Length: {OBJECT_BYTES}\r\n\r\n"),
            Answer::Forbidden => "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n".to_owned(),
            Answer::Silence => return None,
        };
        stream.write_all(head.as_bytes()).ok()?;
        if answer == Answer::Ranges {
            stream.write_all(&vec![7; (last + 1 - first) as usize]).ok()?;
        }
    }
}

#[test]
fn an_object_becomes_a_device_file() {
    let directory = directory();
    let output = directory.path().join("store.toml");
    let output = output.to_str().unwrap();
    let url = server(Answer::Ranges, Duration::from_millis(5));
    let ended = foretell(["model", "calibrate", &url, "-o", output, "--rate", "1M", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let found: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    // No answer comes before the server's wait is over.
    assert!(found["first_byte_ms"]["value"].as_f64().unwrap() >= 5.0, "{found}");
    assert!(found["connections_for_rate"].as_u64().unwrap() >= 1, "{found}");
    assert!(!ended.stdout.contains("secret") && !fs::read_to_string(output).unwrap().contains("secret"));
    let workload = "random,bytes=1M,request=64K";
    let predicted = foretell(["model", "predict", "--device", output, "--workload", workload]);
    assert_eq!(predicted.code, Some(0), "{}", predicted.stderr);
}

#[test]
fn objects_that_cannot_be_read_in_parts_are_refused() {
    let directory = directory();
    let output = directory.path().join("out.toml");
    let output = output.to_str().unwrap();
    let at = |answer| server(answer, Duration::ZERO);
    refused([&at(Answer::Whole), "-o", output], "it must support range requests");
    refused([&at(Answer::Forbidden), "-o", output], "answers 403 Forbidden");
    refused([&at(Answer::Silence), "-o", output], "does not answer");
    // Bound and closed again: nobody listens there.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    refused([&format!("http://{closed}/object"), "-o", output], "does not answer");
    refused(["http://", "-o", output], "http://: names no host");
}
