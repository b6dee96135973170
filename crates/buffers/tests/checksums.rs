//! Stores that send checksums, and bytes that do not have them.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/server.rs"]
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{PART, bytes, options, read};
use foretell_buffers::{Error, Object, Options, Pool};
use server::{Asked, Reply, Server};

const P: u64 = PART as u64;
const LENGTH: u64 = 6 * P + 5;
const ETAG: (&str, &str) = ("ETag", "\"1\"");
const DATE: (&str, &str) = ("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT");

fn content() -> Vec<u8> {
    bytes("a", 0, 0..LENGTH)
}

/// CRC-32C, bit by bit, in base64.
fn crc32c(bytes: &[u8]) -> String {
    let crc = bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 },
        )
    });
    let alphabet: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '/']).collect();
    let bits = u64::from(!crc) << 4;
    let digits = (0..6).rev().map(|at| alphabet[(bits >> (6 * at) & 63) as usize]);
    digits.chain(['=', '=']).collect()
}

/// A pool with an eighth of so many parts in one request.
fn pool(server: &Server, parts: u32) -> Pool {
    Pool::new(options_of(server, parts)).unwrap()
}

/// The same, that gives nothing before it was compared.
fn strict(server: &Server, parts: u32) -> Pool {
    let mut options = options_of(server, parts);
    options.strict = true;
    Pool::new(options).unwrap()
}

fn options_of(server: &Server, parts: u32) -> Options {
    let mut options = options(parts);
    let given = [
        ("endpoint", format!("http://{}", server.address)),
        ("allow_http", "true".to_owned()),
        ("access_key_id", "someone".to_owned()),
        ("secret_access_key", "hush".to_owned()),
        ("region", "eu-west-1".to_owned()),
    ];
    options.store = given.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    options
}

/// Fails at once, also where a pool has tried it before.
fn damaged(object: &Object, offset: u64, length: u64) -> String {
    match read(object, offset, length) {
        Err(Error::Damaged { url, why }) => {
            assert_eq!(url, object.url());
            why
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("wrong bytes were served"),
    }
}

/// The content with a bit of the third part turned over.
fn turned() -> Vec<u8> {
    let mut content = content();
    content[2 * PART as usize + 7] ^= 16;
    content
}

#[test]
fn amazon_is_asked_for_checksums_by_a_signed_header_and_a_wrong_bit_is_an_error() {
    let checksum = crc32c(&content());
    let server = Server::start(move |asked| {
        if asked.target.contains("list-type") {
            let body = b"<ListBucketResult><Name>b</Name><IsTruncated>false</IsTruncated></ListBucketResult>";
            return Reply { status: 200, body: body.to_vec(), ..Reply::default() };
        }
        let content = if asked.target.ends_with("right") { content() } else { turned() };
        // As Amazon does.
        let asks = asked.header("x-amz-checksum-mode") == Some("ENABLED") && asked.range().is_none();
        let headers =
            [ETAG, DATE, ("x-amz-checksum-crc32c", &checksum), ("x-amz-checksum-type", "FULL_OBJECT")];
        Reply::of(asked, &content, if asks { &headers } else { &headers[..2] })
    });
    let pool = strict(&server, 64);
    let right = pool.open("s3://b/right").unwrap();
    assert!(read(&right, 0, LENGTH).unwrap() == content());
    let wrong = pool.open("s3://b/wrong").unwrap();
    let why = damaged(&wrong, 0, LENGTH);
    assert!(why.starts_with(&format!("bytes 0 to {} came with the CRC-32C ", LENGTH - 1)), "{why}");
    // Not a byte of it is served, also none before the wrong one.
    damaged(&wrong, 0, LENGTH);
    assert_eq!(pool.statistics().unwrap().fetched_bytes, LENGTH);
    pool.list("s3://b/", false).unwrap();
    for asked in server.asked() {
        let signed = asked.header("authorization").unwrap().contains("x-amz-checksum-mode");
        let (is_sent, is_list) =
            (asked.header("x-amz-checksum-mode").is_some(), asked.target.contains("list-type"));
        // What is not signed Amazon refuses.
        assert_eq!((signed, is_sent), (!is_list, !is_list), "{asked:?}");
    }
}

#[test]
fn a_range_that_is_one_part_of_an_upload_is_held_to_its_checksum() {
    let server = Server::start(move |asked| {
        let (right, turned) = (content(), turned());
        // As Amazon has it for an upload whose parts are what is asked for here.
        let checksum = match asked.range() {
            None => format!("{}-4", crc32c(b"of the others")),
            Some(range) => crc32c(&right[range.start..range.end.min(right.len())]),
        };
        let headers =
            [ETAG, DATE, ("x-amz-checksum-type", "COMPOSITE"), ("x-amz-checksum-crc32c", &*checksum)];
        Reply::of(asked, if asked.target.ends_with("right") { &right } else { &turned }, &headers)
    });
    // Two parts a request.
    let small = strict(&server, 16);
    let right = small.open("s3://b/right").unwrap();
    assert!(read(&right, 0, LENGTH).unwrap() == content());
    let wrong = small.open("s3://b/wrong").unwrap();
    for offset in [2 * P, 0] {
        let why = damaged(&wrong, offset, LENGTH - offset);
        assert!(why.contains(" came with the CRC-32C "), "{why}");
    }
    assert!(read(&wrong, 4 * P, LENGTH - 4 * P).unwrap() == bytes("a", 0, 4 * P..LENGTH));
    // The checksum of an upload's checksums is of no bytes: there is nothing to hold all of it to.
    let whole = pool(&server, 64).open("s3://b/right").unwrap();
    assert!(read(&whole, 0, LENGTH).unwrap() == content());
}

#[test]
fn a_server_that_sends_checksums_of_whole_objects_with_ranges_is_read_all_the_same() {
    let checksum = crc32c(&content());
    let server = Server::start(move |asked| {
        Reply::of(asked, &content(), &[ETAG, DATE, ("x-amz-checksum-crc32c", &checksum)])
    });
    let pool = pool(&server, 64);
    let object = pool.open("s3://b/a").unwrap();
    for part in 0..5 {
        assert!(read(&object, part * P, P).unwrap() == bytes("a", 0, part * P..(part + 1) * P));
    }
    // That was found out once, or by two requests beside each other, and not by each.
    let heads = server.asked().into_iter().filter(|asked| asked.method == "HEAD").count();
    assert!((2..=3).contains(&heads), "{heads}");
}

fn served_over_http(header: &'static str, value: String) -> (Server, Pool) {
    let server = Server::start(move |asked: &Asked| {
        let content = if asked.target.ends_with("right") { content() } else { turned() };
        Reply::of(asked, &content, &[ETAG, DATE, (header, &value)])
    });
    (server, Pool::new(options(64)).unwrap())
}

#[test]
fn googles_and_other_servers_checksums_hold_for_whole_objects() {
    let google = format!("crc32c={}", crc32c(&content()));
    for (header, value) in [("x-goog-hash", google), ("Content-MD5", MD5.to_owned())] {
        let (server, pool) = served_over_http(header, value);
        let [right, wrong] = ["right", "wrong"].map(|name| pool.open(&server.url(name)).unwrap());
        assert!(read(&right, 0, LENGTH).unwrap() == content());
        assert!(damaged(&wrong, 0, LENGTH).contains("and are stored with"));
        // Of a range they say nothing, and whoever opens it again may have what is right of it.
        drop(wrong);
        let again = pool.open(&server.url("wrong")).unwrap();
        assert!(read(&again, 4 * P, P).unwrap() == bytes("a", 0, 4 * P..5 * P));
    }
}

/// Of the content, as `md5sum` has it, in base64.
const MD5: &str = "Ic7xNi22wRudnrP64a8GyQ==";

/// A server like Amazon, whose answers stop after so many bytes until they may go on.
fn stopping_at(at: usize) -> (Server, Arc<AtomicBool>) {
    let goes_on = Arc::<AtomicBool>::default();
    let (checksum, waits) = (crc32c(&content()), goes_on.clone());
    let server = Server::start(move |asked| {
        let content = if asked.target.ends_with("right") { content() } else { turned() };
        let sum = ("x-amz-checksum-crc32c", &*checksum);
        let headers = [ETAG, DATE, sum];
        let headers = if asked.range().is_some() { &headers[..2] } else { &headers };
        Reply { waits: Some((at, waits.clone())), ..Reply::of(asked, &content, headers) }
    });
    (server, goes_on)
}

#[test]
fn what_has_come_is_read_before_the_rest_and_a_wrong_bit_is_an_error_where_it_goes_on() {
    let (server, goes_on) = stopping_at(5 * PART as usize);
    let pool = pool(&server, 64);
    let [right, wrong] = ["right", "wrong"].map(|name| pool.open(&format!("s3://b/{name}")).unwrap());
    let whole = |object: &Object| pool.disclose(&[(object, 0, LENGTH)]).unwrap();
    // The third part has the wrong bit, and the last one has not come.
    for object in [&right, &wrong] {
        whole(object);
        assert!(read(object, 0, 2 * P).unwrap() == bytes("a", 0, 0..2 * P));
    }
    goes_on.store(true, Ordering::Relaxed);
    assert!(read(&right, 2 * P, LENGTH - 2 * P).unwrap() == bytes("a", 0, 2 * P..LENGTH));
    damaged(&wrong, 2 * P, LENGTH - 2 * P);
    // Nothing is left of it, neither what was read before, and it is not asked for again.
    let asked = server.asked().len();
    damaged(&wrong, 0, P);
    damaged(&wrong, 5 * P, 1);
    assert_eq!(server.asked().len(), asked);
    // The request that brought it may hold its last part for a moment yet.
    let start = Instant::now();
    while pool.statistics().unwrap().memory_bytes != LENGTH {
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", pool.statistics());
        std::thread::sleep(Duration::from_millis(1));
    }
    // Opened again, it is.
    drop(wrong);
    let again = pool.open("s3://b/wrong").unwrap();
    assert!(read(&again, 4 * P, P).unwrap() == bytes("a", 0, 4 * P..5 * P));
}

#[test]
fn an_object_of_several_requests_is_held_to_its_checksum_by_the_last_of_them() {
    let (server, goes_on) = stopping_at(0);
    goes_on.store(true, Ordering::Relaxed);
    // Two parts a request.
    let pool = pool(&server, 16);
    for order in [[0, 1, 2, 3, 4, 5, 6], [6, 0, 3, 2, 5, 1, 4]] {
        let [right, wrong] = ["right", "wrong"].map(|name| pool.open(&format!("s3://b/{name}")).unwrap());
        let last = *order.last().unwrap();
        for (at, part) in order.into_iter().map(|part| (part * P, part)) {
            let length = P.min(LENGTH - at);
            assert!(read(&right, at, length).unwrap() == bytes("a", 0, at..at + length));
            if part != last {
                // What is read ahead may bring the rest, and with it the error.
                let _ = read(&wrong, at, length);
            }
        }
        let why = damaged(&wrong, last * P, 1);
        assert!(why.starts_with(&format!("bytes 0 to {} came with the CRC-32C ", LENGTH - 1)), "{why}");
        damaged(&wrong, order[0] * P, 1);
    }
    // All at once, too.
    let wrong = pool.open("s3://b/wrong").unwrap();
    damaged(&wrong, 0, LENGTH);
}
