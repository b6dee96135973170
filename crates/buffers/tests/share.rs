//! A pool that other processes read, too: here its guests are of the same process, which they do not know.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{PART, bytes, options};
use foretell_buffers::{Error, Guest, Object, Pool, Remote};

const P: u64 = PART as u64;
const TIMEOUT: Duration = Duration::from_secs(20);

fn attach(pool: &Pool) -> Guest {
    Guest::attach(&pool.share().unwrap(), TIMEOUT, None).unwrap()
}

fn read(guest: &Guest, object: &Object, offset: u64, length: u64) -> Result<Vec<u8>, Error> {
    let mut buffer = vec![0; length as usize];
    guest.read_at(&remote(object), &mut buffer, offset)?;
    Ok(buffer)
}

fn remote(object: &Object) -> Remote {
    Remote::new(object.url(), object.stamp().clone()).unwrap()
}

fn folder_of(files: &[(&str, u64)]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    for (name, length) in files {
        std::fs::write(folder.path().join(name), bytes(name, 0, 0..*length)).unwrap();
    }
    let url = format!("file://{}", folder.path().display());
    (folder, url)
}

#[test]
fn what_one_process_has_fetched_the_others_read() {
    let (_folder, url) = folder_of(&[("a", 100 * P + 7), ("b", 0)]);
    let pool = Pool::new(options(200)).unwrap();
    let a = pool.open(&format!("{url}/a")).unwrap();
    let guests = [attach(&pool), attach(&pool)];
    std::thread::scope(|scope| {
        for guest in &guests {
            for _ in 0..3 {
                scope.spawn(|| {
                    for at in (0..100).rev() {
                        let (start, length) = (at * P + 3, P + 4);
                        assert_eq!(
                            read(guest, &a, start, length).unwrap(),
                            bytes("a", 0, start..start + length)
                        );
                    }
                    // By several frames, and one that is empty.
                    assert_eq!(read(guest, &a, 0, a.length()).unwrap(), bytes("a", 0, 0..a.length()));
                    assert!(read(guest, &a, 5, 0).unwrap().is_empty());
                });
            }
        }
    });
    let counts = guests[0].statistics().unwrap();
    assert_eq!(counts, pool.statistics().unwrap());
    assert_eq!((counts.fetched_bytes, counts.best_fetches), (a.length(), None));
    // What is mapped takes no message, once the host has said which object it is.
    let (known, mut some) = (remote(&a), [0; 10]);
    assert!(!guests[0].read_now(&known, &mut some, 5).unwrap());
    guests[0].read_at(&known, &mut some, 5).unwrap();
    assert!(guests[0].read_now(&known, &mut some, P).unwrap());
    assert_eq!(some[..], bytes("a", 0, P..P + 10));
    // States and listings are the host's.
    let (one, no) = (format!("{url}/b"), format!("{url}/no"));
    let opened = guests[1].open_all(&[&one, &no, "ftp://x/y"], false).unwrap();
    assert_eq!(opened[0].as_ref().unwrap().length, 0);
    assert_eq!(opened[1].clone().unwrap_err(), Error::NotFound { url: no });
    assert!(matches!(opened[2], Err(Error::UnknownScheme { .. })));
    let mut listed = guests[0].list(&url, false).unwrap();
    listed.sort_by(|one, other| one.path.cmp(&other.path));
    assert_eq!(listed.len(), 2);
    assert_eq!(listed[0].stamp.as_ref(), Some(a.stamp()));
    assert!(guests.iter().all(|guest| !guest.is_lost()));
}

#[test]
fn what_the_host_disclosed_a_guest_finds_and_what_a_guest_disclosed_ends_with_it() {
    let (_folder, url) = folder_of(&[("a", 400 * P)]);
    let pool = Pool::new(options(100)).unwrap();
    let a = pool.open(&format!("{url}/a")).unwrap();
    let guest = attach(&pool);
    let order: Vec<u64> = (0..100).map(|at| at * 37 % 400 * P).collect();
    let mine: Vec<_> = order.iter().map(|&at| (&a, at, P)).collect();
    assert_eq!(pool.disclose(&mine).unwrap(), 100);
    for &at in &order {
        assert_eq!(read(&guest, &a, at, P).unwrap(), bytes("a", 0, at..at + P));
    }
    let counts = pool.statistics().unwrap();
    assert!(counts.demand_fetches < 5 && counts.disclosed_ahead == 0, "{counts:?}");

    let one = remote(&a);
    // A list of its own beside the host's, and withdrawn without it.
    assert_eq!(pool.disclose(&mine).unwrap(), 100);
    let order: Vec<u64> = (0..3000).map(|at| at * 41 % 400 * P).collect();
    let its: Vec<_> = order.iter().map(|&at| (&one, at, P)).collect();
    assert_eq!(guest.disclose(&its).unwrap(), 3000);
    for &at in &order[..100] {
        assert_eq!(read(&guest, &a, at, P).unwrap(), bytes("a", 0, at..at + P));
    }
    let fetched = pool.statistics().unwrap();
    assert!(fetched.demand_fetches < counts.demand_fetches + 10, "{fetched:?}");
    assert!(fetched.disclosed_ahead <= 100);
    guest.cancel().unwrap();
    assert!(matches!(guest.disclose(&[(&one, 400 * P, 1)]), Err(Error::PastEnd { .. })));
    assert_eq!(guest.disclose(&its).unwrap(), 3000);
    drop(guest);
    assert_eq!(read(&attach(&pool), &a, 0, P).unwrap(), bytes("a", 0, 0..P));
}

#[test]
fn errors_are_those_of_the_host() {
    let (folder, url) = folder_of(&[("a", 100 * P)]);
    let pool = Pool::new(options(4)).unwrap();
    let guest = attach(&pool);
    let url = format!("{url}/a");
    let stamp = guest.open_all(&[&url], false).unwrap().remove(0).unwrap();
    let object = Remote::new(&url, stamp).unwrap();
    let mut buffer = vec![0; PART as usize];
    guest.read_at(&object, &mut buffer, 0).unwrap();
    let error = guest.read_at(&object, &mut buffer, 100 * P - 1).unwrap_err();
    let said = format!("{url}: 4096 bytes from {} on reach behind its end, it has {}", 100 * P - 1, 100 * P);
    assert_eq!(error.to_string(), said);
    assert!(matches!(guest.read_at(&object, &mut buffer, u64::MAX), Err(Error::PastEnd { .. })));
    std::fs::write(folder.path().join("new"), vec![1; 99 * PART as usize]).unwrap();
    std::fs::rename(folder.path().join("new"), folder.path().join("a")).unwrap();
    let changed = guest.read_at(&object, &mut buffer, 50 * P).unwrap_err();
    assert_eq!(changed, Error::Changed { url: url.clone() });
    // What is known is not what it is now, once somebody has found out.
    let now = guest.open_all(&[&url], true).unwrap().remove(0).unwrap();
    assert_eq!(now.length, 99 * P);
    std::fs::write(folder.path().join("a"), "").unwrap();
    assert_eq!(guest.open_all(&[&url], true).unwrap().remove(0).unwrap(), now);
    assert_eq!(guest.open_all(&[&url], false).unwrap().remove(0).unwrap().length, 0);
    let long = format!("file:///{}", "x".repeat(5000));
    assert!(matches!(guest.open_all(&[&long], false), Err(Error::NotAUrl { .. })));
    assert!(!guest.is_lost());
}

#[test]
fn guests_of_a_pool_that_is_gone_are_told_so() {
    let (_folder, url) = folder_of(&[("a", P)]);
    let pool = Pool::new(options(4)).unwrap();
    let a = pool.open(&format!("{url}/a")).unwrap();
    let address = pool.share().unwrap();
    assert_eq!(pool.share().unwrap(), address);
    let guest = attach(&pool);
    assert_eq!(guest.address(), Some(address.clone()));
    read(&guest, &a, 0, P).unwrap();
    let object = remote(&a);
    drop((a, pool));
    let began = Instant::now();
    // What it had fetched is still in memory.
    let error = guest.read_at(&object, &mut [0; 10], 0).unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(
        error.to_string().starts_with("the shared pool: the process that has it does not answer ("),
        "{error}"
    );
    assert!(guest.is_lost());
    assert!(matches!(Guest::attach(&address, TIMEOUT, None), Err(Error::Host { .. })));
    let error = Guest::attach("somewhere", TIMEOUT, None).unwrap_err();
    assert_eq!(error.to_string(), "the shared pool: its address is none");
}

#[test]
fn a_guest_that_does_not_wait_leaves_the_next_call_a_clean_answer() {
    let pool = Pool::new(options(4)).unwrap();
    // Nobody answers there.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/a", silent.local_addr().unwrap());
    // Only while nobody answers: on a busy machine any call may take long enough to be asked.
    static WAITS: AtomicBool = AtomicBool::new(true);
    let guest =
        Guest::attach(&pool.share().unwrap(), TIMEOUT, Some(|| WAITS.load(Ordering::Relaxed))).unwrap();
    WAITS.store(false, Ordering::Relaxed);
    assert_eq!(guest.open_all(&[&url], false).unwrap_err(), Error::Interrupted);
    WAITS.store(true, Ordering::Relaxed);
    assert!(!guest.is_lost());
    assert_eq!(guest.statistics().unwrap().objects, 0);
}

fn connect(address: &str) -> (UnixStream, Vec<u8>) {
    let (name, secret) = address.split_once('-').unwrap();
    let socket = SocketAddr::from_abstract_name(format!("foretell-buffers-{name}")).unwrap();
    let secret = (0..16).map(|at| u8::from_str_radix(&secret[2 * at..2 * at + 2], 16).unwrap());
    (UnixStream::connect_addr(&socket).unwrap(), secret.collect())
}

fn said(stream: &mut UnixStream, version: u64, secret: &[u8]) -> String {
    let mut frame = b"foretell".to_vec();
    frame.extend(version.to_le_bytes());
    frame.extend(secret);
    frame.extend(7_u64.to_le_bytes());
    // Nothing that its stores are spoken to with.
    frame.push(0);
    stream.write_all(&(frame.len() as u32).to_le_bytes()).unwrap();
    stream.write_all(&frame).unwrap();
    let mut answer = Vec::new();
    let _ = stream.set_read_timeout(Some(Duration::from_millis(300)));
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn who_is_of_another_version_is_told_so_and_who_does_not_know_the_secret_nothing() {
    let pool = Pool::new(options(4)).unwrap();
    let address = pool.share().unwrap();
    let (mut stream, secret) = connect(&address);
    let answer = said(&mut stream, 1, &secret);
    assert!(answer.contains("the pool's process speaks version 6 of this, and not 1"), "{answer:?}");
    let (mut stream, _) = connect(&address);
    assert_eq!(said(&mut stream, 6, &[0; 16]), "");
    let (mut stream, secret) = connect(&address);
    assert_eq!(said(&mut stream, 6, &secret), "\u{1}\0\0\0\u{1}");
    // And who sends something else harms nobody.
    stream.write_all(&[255; 100]).unwrap();
    let (mut stream, _) = connect(&address);
    stream.write_all(&[3, 0, 0, 0, 1, 2, 3]).unwrap();
    assert_eq!(attach(&pool).statistics().unwrap().objects, 0);
}

#[test]
fn what_is_there_guests_read_without_asking() {
    let (_folder, url) = folder_of(&[("a", 40 * P + 9)]);
    let pool = Pool::new(options(60)).unwrap();
    let a = pool.open(&format!("{url}/a")).unwrap();
    let (guest, one) = (attach(&pool), remote(&a));
    let mut buffer = vec![0; a.length() as usize];
    guest.read_at(&one, &mut buffer, 0).unwrap();
    let before = pool.statistics().unwrap();
    std::thread::scope(|scope| {
        for seed in 0..3_u64 {
            let (guest, one) = (&guest, &one);
            scope.spawn(move || {
                for step in 0..500 {
                    let (at, length) = ((seed * 7 + step * 13) % (38 * P), 1 + step * 31 % (2 * P));
                    let mut buffer = vec![0; length as usize];
                    guest.read_at(one, &mut buffer, at).unwrap();
                    assert_eq!(buffer, bytes("a", 0, at..at + length));
                }
            });
        }
    });
    // They count as any other.
    let counts = pool.statistics().unwrap();
    assert_eq!(counts.fetched_bytes, before.fetched_bytes);
    assert_eq!(counts.hits - before.hits, counts.references - before.references);
    assert!(counts.hits - before.hits >= 1500, "{counts:?}");
    // Ends are those of the object, there and here.
    assert!(matches!(guest.read_at(&one, &mut [0; 2], a.length() - 1), Err(Error::PastEnd { .. })));
    guest.read_at(&one, &mut [], a.length()).unwrap();
    // The memory is given back with the pool, and nobody takes what it is then for bytes.
    drop((a, pool));
    let mut some = vec![0; 3 * P as usize];
    if guest.read_at(&one, &mut some, 5).is_ok() {
        assert_eq!(some, bytes("a", 0, 5..5 + 3 * P));
    }
}

#[test]
fn bytes_are_right_while_parts_come_and_go_under_all_who_read() {
    let (_folder, url) = folder_of(&[("a", 64 * P), ("b", 64 * P)]);
    let pool = Pool::new(options(24)).unwrap();
    let objects = ["a", "b"].map(|name| pool.open(&format!("{url}/{name}")).unwrap());
    let guests = [attach(&pool), attach(&pool)];
    std::thread::scope(|scope| {
        for seed in 0..6_u64 {
            let (objects, guests) = (&objects, &guests);
            scope.spawn(move || {
                let remotes = objects.each_ref().map(remote);
                let mut chance = seed;
                let mut next = |most: u64| {
                    chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (chance >> 33) % most
                };
                for _ in 0..400 {
                    let which = next(2) as usize;
                    let name = ["a", "b"][which];
                    // Near to each other, so that many are there.
                    let (at, length) = (next(30) * P + next(P), 1 + next(2 * P));
                    let mut buffer = vec![0; length as usize];
                    match guests.get(seed as usize % 3) {
                        Some(guest) => guest.read_at(&remotes[which], &mut buffer, at).unwrap(),
                        None => objects[which].read_at(&mut buffer, at).unwrap(),
                    }
                    assert_eq!(buffer, bytes(name, 0, at..at + length));
                    let part = next(32);
                    if let (0, Ok(view)) = (next(4), objects[which].view(part as u32)) {
                        assert_eq!(view[..], bytes(name, 0, part * P..(part + 1) * P));
                    }
                }
            });
        }
    });
    let counts = pool.statistics().unwrap();
    assert!(counts.hits > 0 && counts.evictions > 0, "{counts:?}");
    // Six readers of three parts, a view each, what is on its way; and the budget.
    assert!(counts.memory_peak_bytes <= (24 + 6 * 4 + 12) * P, "{counts:?}");
    drop(objects);
    drop(guests);
}

/// What the next test runs, as other processes: reads until it is killed.
#[test]
fn a_guest_of_the_next_test() {
    let (Ok(address), Ok(url)) = (std::env::var("FORETELL_TEST_POOL"), std::env::var("FORETELL_TEST_URL"))
    else {
        return;
    };
    let guest = Guest::attach(&address, TIMEOUT, None).unwrap();
    let stamp = guest.open_all(&[&url], true).unwrap().remove(0).unwrap();
    let one = Remote::new(&url, stamp).unwrap();
    for step in 0_u64.. {
        let at = step * 7 % 40 * P;
        let mut buffer = vec![0; P as usize];
        guest.read_at(&one, &mut buffer, at).unwrap();
        assert_eq!(buffer, bytes("a", 0, at..at + P));
        if step == 200 {
            println!("reads");
        }
    }
}

#[test]
fn guests_that_are_killed_while_they_read_leave_nothing_behind() {
    let (_folder, url) = folder_of(&[("a", 64 * P)]);
    let url = format!("{url}/a");
    let pool = Pool::new(options(30)).unwrap();
    let a = pool.open(&url).unwrap();
    let address = pool.share().unwrap();
    for round in 0..3 {
        let mut guests: Vec<std::process::Child> = (0..3)
            .map(|_| {
                Command::new(std::env::current_exe().unwrap())
                    .args(["--exact", "a_guest_of_the_next_test", "--nocapture"])
                    .env("FORETELL_TEST_POOL", &address)
                    .env("FORETELL_TEST_URL", &url)
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for guest in &mut guests {
            let lines = BufReader::new(guest.stdout.take().unwrap()).lines();
            assert!(lines.map_while(Result::ok).any(|line| line.contains("reads")));
        }
        for mut guest in guests {
            guest.kill().unwrap();
            guest.wait().unwrap();
        }
        for at in 0..64 {
            let at = (at * 11 + round) % 64 * P;
            let mut buffer = vec![0; P as usize];
            a.read_at(&mut buffer, at).unwrap();
            assert_eq!(buffer, bytes("a", 0, at..at + P));
        }
    }
    let counts = pool.statistics().unwrap();
    assert!(counts.memory_peak_bytes <= (30 + 4 + 12) * P, "{counts:?}");
    drop(a);
    // What guests had open is closed when others take its place, or with the pool.
    assert!(pool.statistics().unwrap().memory_bytes <= 30 * P);
}
