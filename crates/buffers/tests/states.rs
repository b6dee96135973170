//! Servers that say of which state their objects are in other words, or not at all.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "common/server.rs"]
mod server;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{PART, bytes, options, read};
use foretell_buffers::{Error, Pool};
use server::{Asked, Reply, Server};

const P: u64 = PART as u64;
const LENGTH: u64 = 20 * P + 5;
const DATE: (&str, &str) = ("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT");

/// A server of one object, whose state the test counts up.
fn serving(answers: impl Fn(&Asked, u64) -> Reply + Send + Sync + 'static) -> (Server, Arc<AtomicU64>) {
    let state = Arc::<AtomicU64>::default();
    let its = state.clone();
    (Server::start(move |asked| answers(asked, its.load(Ordering::Relaxed))), state)
}

fn content(state: u64) -> Vec<u8> {
    bytes("a", state, 0..LENGTH)
}

/// Each part of what was opened before a change is of that state or an error that says so.
fn changes_in_the_middle(pool: &Pool, server: &Server, url: &str, state: &AtomicU64) {
    let before = state.load(Ordering::Relaxed);
    let object = pool.open(url).unwrap();
    assert!(read(&object, 0, 2 * P).unwrap() == bytes("a", before, 0..2 * P));
    state.fetch_add(1, Ordering::Relaxed);
    for part in [19, 11, 3] {
        match read(&object, part * P, P) {
            Ok(read) => assert!(read == bytes("a", before, part * P..(part + 1) * P), "a mix"),
            Err(error) => assert!(matches!(error, Error::Changed { .. }), "{error}"),
        }
    }
    assert!(matches!(read(&object, 15 * P, P), Err(Error::Changed { .. })), "{:?}", server.asked().len());
    drop(object);
    let again = pool.open(url).unwrap();
    assert!(read(&again, 0, LENGTH).unwrap() == content(before + 1));
}

#[test]
fn an_object_whose_server_says_nothing_of_its_state_is_known_by_its_content() {
    let (server, state) = serving(|asked, state| Reply::of(asked, &content(state), &[]));
    let pool = Pool::new(options(16)).unwrap();
    let object = pool.open(&server.url("a")).unwrap();
    assert!(read(&object, 0, LENGTH).unwrap() == content(0));
    drop(object);
    changes_in_the_middle(&pool, &server, &server.url("a"), &state);
    // All of it came each time: only so can it be told from another one.
    assert!(server.asked().iter().all(|asked| asked.range().is_none()));
}

#[test]
fn such_an_object_that_is_too_long_is_an_error_in_one_line() {
    let server = Server::start(|asked| {
        let body = if asked.method == "HEAD" { vec![0; (8 << 20) + 1] } else { Vec::new() };
        Reply { status: 200, body, ..Reply::default() }
    });
    let url = server.url("a");
    let said = Pool::new(options(16)).unwrap().open(&url).unwrap_err().to_string();
    let why = "its server gives neither ETag nor Last-Modified, and it is longer than 8 MiB";
    assert_eq!(said, format!("{url}: the store failed: {why}"));
}

#[test]
fn answers_that_no_longer_say_which_state_they_are_of_are_errors() {
    let (server, _) = serving(|asked, _| {
        let headers: &[_] = if asked.method == "HEAD" { &[DATE, ("ETag", "\"1\"")] } else { &[] };
        Reply::of(asked, &content(0), headers)
    });
    let pool = Pool::new(options(16)).unwrap();
    let object = pool.open(&server.url("a")).unwrap();
    let said = read(&object, 0, P).unwrap_err().to_string();
    assert!(said.contains("its answer has neither ETag nor Last-Modified"), "{said}");
}

#[test]
fn weak_etags_change_with_the_date_and_grow_strong() {
    let (server, state) = serving(|asked, state| {
        let date = format!("Mon, 01 Jan 2024 00:00:{state:02} GMT");
        Reply::of(asked, &content(state), &[("ETag", "W/\"same\""), ("Last-Modified", &date)])
    });
    let pool = Pool::new(options(16)).unwrap();
    changes_in_the_middle(&pool, &server, &server.url("a"), &state);
    // As of Apache: weak in the second of the change, strong later.
    let (server, state) = serving(|asked, state| {
        let tag = if state == 0 { "W/\"x\"" } else { "\"x\"" };
        Reply::of(asked, &content(0), &[("ETag", tag), DATE])
    });
    let object = pool.open(&server.url("a")).unwrap();
    assert!(read(&object, 0, P).unwrap() == bytes("a", 0, 0..P));
    state.store(1, Ordering::Relaxed);
    assert!(read(&object, 0, LENGTH).unwrap() == content(0));
}

/// A container of Azure's with one blob: in listings its ETag has no quotes.
fn azure() -> (Server, Arc<AtomicU64>, Pool) {
    let (server, state) = serving(|asked, state| {
        let tag = format!("0x8D93C7D4629C22{state}");
        if asked.target.contains("comp=list") {
            let properties = format!(
                "<Last-Modified>Mon, 01 Jan 2024 00:00:00 GMT</Last-Modified><Etag>{tag}</Etag>\
                 <Content-Length>{LENGTH}</Content-Length><Content-Type>text/plain</Content-Type>"
            );
            let blob = format!("<Blob><Name>a</Name><Properties>{properties}</Properties></Blob>");
            let body = format!("<EnumerationResults><Blobs>{blob}</Blobs></EnumerationResults>").into_bytes();
            return Reply { status: 200, body, ..Reply::default() };
        }
        let tag = format!("\"{tag}\"");
        if asked.header("if-match").is_some_and(|wanted| wanted != tag) {
            return Reply { status: 412, ..Reply::default() };
        }
        Reply::of(asked, &content(state), &[("ETag", &tag), DATE])
    });
    let mut options = options(16);
    let given = [
        ("endpoint", format!("http://{}/account", server.address)),
        ("allow_http", "true".to_owned()),
        ("account_name", "account".to_owned()),
        ("skip_signature", "true".to_owned()),
    ];
    options.store = given.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    (server, state, Pool::new(options).unwrap())
}

#[test]
fn what_azure_lists_is_what_it_answers_with() {
    let (server, state, pool) = azure();
    let listed = pool.list("az://box/", false).unwrap().remove(0).stamp.unwrap();
    let opened = pool.open("az://box/a").unwrap();
    assert_eq!(listed.etag, opened.stamp().etag);
    drop(opened);
    let object = pool.open_listed("az://box/a", listed).unwrap();
    assert!(read(&object, 0, LENGTH).unwrap() == content(0));
    drop(object);
    changes_in_the_middle(&pool, &server, "az://box/a", &state);
    let conditions = server.asked().into_iter().filter_map(|asked| asked.headers.get("if-match").cloned());
    assert!(conditions.into_iter().all(|tag| tag.starts_with("\"0x")));
}
