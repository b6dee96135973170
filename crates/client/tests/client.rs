//! What a program says is what a service hears.

// A helper of a test may fail like the test itself.
#![allow(clippy::unwrap_used)]

mod fake;

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::thread;

use fake::{BLOCK, Place, Said, inode, until_connected};
use foretell_client::{Client, Error, Fallback, Options, Policy, Statistics};
use foretell_protocol::limits::RING_ENTRIES;
use foretell_protocol::{Entry, ErrorCode, Handle, Range, Reply};

fn range(start: u64, end: u64) -> Range {
    Range::new(start, end - start).unwrap()
}

fn handle(number: u32) -> Handle {
    Handle::new(number).unwrap()
}

#[test]
fn the_first_disclosure_waits_for_nothing() {
    let place = Place::new();
    let service = place.listen();
    let client = place.client();
    let file = place.file("a", 1 << 20);
    // Nobody has answered yet, not even looked.
    assert!(client.is_connected());
    assert_eq!(client.disclose(&file, [8192..16384, 0..100]).unwrap(), 2);
    let mut session = service.accept();
    let file_said = Said::File(1, inode(&file));
    let disclosed = |start, end| Said::Entry(Entry::Disclose { file: handle(1), range: range(start, end) });
    assert_eq!(session.hear(), [file_said, disclosed(8192, 16384), disclosed(0, 100)]);
}

#[test]
fn a_service_of_somebody_else_is_told_nothing() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: a_service_of_somebody_else_is_told_nothing: needs root");
        return;
    }
    let place = Place::new();
    let service = place.listen();
    service.becomes_of(54_321);
    let client = place.client();
    let file = place.file("a", 1 << 20);
    assert_eq!(client.disclose(&file, [0..8192, 8192..16384]).unwrap(), 2, "as without a service");
    assert!(!client.is_connected());
    assert_eq!(service.overheard(), (0, 0));
}

#[test]
fn every_call_arrives_as_it_was_meant() {
    let place = Place::new();
    let service = place.listen();
    let client = place.client();
    let mut session = service.accept();
    let (a, b) = (place.file("a", 100_000), place.file("b", 0));
    client.set_priority(&a, -1).unwrap();
    client.set_policy(-1, Policy::Mru).unwrap();
    client.set_temporary_priority(&a, 0..8192, 7).unwrap();
    client.done_with(&b, 5..6).unwrap();
    assert_eq!(client.disclose_list([(&b, 1..2), (&a, 3..4)]).unwrap(), 2);
    assert_eq!(client.disclose_files([&b, &a]).unwrap(), 2);
    client.cancel();
    let (fa, fb) = (handle(1), handle(2));
    let expected = [
        Entry::SetPriority { file: fa, priority: -1 },
        Entry::SetPolicy { priority: -1, policy: Policy::Mru },
        Entry::SetTemporaryPriority { file: fa, range: range(0, 8192), priority: 7 },
        Entry::DoneWith { file: fb, range: range(5, 6) },
        Entry::Disclose { file: fb, range: range(1, 2) },
        Entry::Disclose { file: fa, range: range(3, 4) },
        Entry::DiscloseFile { file: fb },
        Entry::DiscloseFile { file: fa },
        Entry::Cancel,
    ];
    assert_eq!(session.entries(), expected);
    assert_eq!((session.inode(fa), session.inode(fb)), (inode(&a), inode(&b)));
    assert_eq!(client.stats().sent, 9);
}

#[test]
fn questions_are_answered_from_what_was_set() {
    let place = Place::new();
    let (client, a, b) = (place.client(), place.file("a", 1), place.file("b", 1));
    assert!(!client.is_connected());
    assert_eq!((client.priority(&a).unwrap(), client.policy(3)), (0, Policy::Lru));
    client.set_priority(&a, 5).unwrap();
    client.set_policy(3, Policy::Mru).unwrap();
    // Another descriptor of the same file.
    assert_eq!(client.priority(a.try_clone().unwrap()).unwrap(), 5);
    assert_eq!(
        (client.priority(&b).unwrap(), client.policy(3), client.policy(4)),
        (0, Policy::Mru, Policy::Lru)
    );
    client.set_policy(3, Policy::Lru).unwrap();
    assert_eq!(client.policy(3), Policy::Lru);
}

#[test]
fn without_a_service_every_call_succeeds() {
    let place = Place::new();
    let (client, file) = (place.client(), place.file("a", 100));
    client.set_priority(&file, 1).unwrap();
    client.set_temporary_priority(&file, 0..50, 1).unwrap();
    client.done_with(&file, 0..50).unwrap();
    assert_eq!(client.disclose(&file, (0..1000).map(|at| at..at + 1)).unwrap(), 1000);
    assert_eq!(client.disclose_files([&file]).unwrap(), 1);
    client.cancel();
    let stats = client.stats();
    assert_eq!((stats.connected, stats.sent, stats.dropped), (false, 0, 0));
    assert_eq!(stats.statistics, Statistics::default());
}

/// The same whether there is a service or not.
#[test]
fn mistakes_are_reported() {
    let place = Place::new();
    let with_service = Place::new();
    let _service = with_service.listen();
    for client in [place.client(), with_service.client()] {
        let file = place.file("a", 100);
        let directory = File::open("/").unwrap();
        let (_reader, pipe) = std::io::pipe().unwrap();
        let written = File::create(place.socket().with_file_name("written")).unwrap();
        for wrong in [directory.as_fd(), pipe.as_fd()] {
            assert!(matches!(client.set_priority(wrong, 1), Err(Error::NotAFile)));
            assert!(matches!(client.disclose_files([wrong]), Err(Error::NotAFile)));
            assert!(matches!(client.done_with(wrong, 0..1), Err(Error::NotAFile)));
            assert!(matches!(client.priority(wrong), Err(Error::NotAFile)));
        }
        assert!(matches!(client.set_priority(&written, 1), Err(Error::NotReadable)));
        let (start, end) = (2, 1);
        assert!(matches!(client.disclose(&file, [0..1, start..end]), Err(Error::Range { start: 2, end: 1 })));
        assert!(matches!(client.done_with(&file, 0..u64::MAX), Err(Error::Range { .. })));
        // An empty range is nothing, and no mistake.
        assert!(client.disclose_range(&file, 5..5).unwrap());
        let mut levels = 0..;
        let error = levels.find_map(|level| client.set_policy(level, Policy::Mru).err()).unwrap();
        assert_eq!((levels.start, error.to_string().lines().count()), (65, 1));
        assert!(matches!(error, Error::Levels(64)));
        client.set_policy(0, Policy::Lru).unwrap();
    }
}

/// As when a program opens one small file after the other.
#[test]
fn a_number_that_means_another_file_is_noticed_at_once() {
    let place = Place::new();
    let service = place.listen();
    let client = place.client();
    let mut session = service.accept();
    // Replacing what a number means, as close and open do, without other threads in between.
    let file = place.file("0", 1);
    let (mut inodes, mut kept) = (Vec::new(), Vec::new());
    for name in 0..100 {
        let next = place.file(&name.to_string(), 1);
        inodes.push(inode(&next));
        let mut number = file.try_clone().unwrap().into();
        rustix::io::dup3(&next, &mut number, rustix::io::DupFlags::CLOEXEC).unwrap();
        client.disclose_range(&number, 0..1).unwrap();
        kept.push(next);
    }
    let seen: Vec<u64> = session
        .entries()
        .into_iter()
        .map(|entry| match entry {
            Entry::Disclose { file, .. } => session.inode(file),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(seen, inodes);
}

#[test]
fn hints_that_find_no_room_are_dropped_and_counted() {
    let place = Place::new();
    let service = place.listen();
    let client = place.client();
    let mut session = service.accept();
    let file = place.file("a", 1);
    let many = 2 * u64::from(RING_ENTRIES);
    let taken = client.disclose(&file, (0..many).map(|at| at..at + 1)).unwrap();
    assert_eq!(taken, RING_ENTRIES as usize - 64);
    assert_eq!((client.stats().dropped, session.consumer.dropped()), (1, 1));
    client.done_with(&file, 0..1).unwrap();
    assert_eq!(client.stats().dropped, 2);
    assert_eq!(session.entries().len(), taken);
    // It goes on where it stopped.
    assert_eq!(client.disclose(&file, (taken as u64..many).map(|at| at..at + 1)).unwrap(), taken);
}

#[test]
fn directives_that_find_no_room_are_told_again() {
    let place = Place::new();
    let service = place.listen();
    let client = place.client();
    let mut session = service.accept();
    let files: Vec<File> = (0..100).map(|at| place.file(&at.to_string(), 1)).collect();
    let many = 2 * u64::from(RING_ENTRIES);
    let hints = client.disclose(&files[0], (0..many).map(|at| at..at + 1)).unwrap();
    for (at, file) in files.iter().enumerate() {
        client.set_priority(file, at as i32 + 1).unwrap();
    }
    client.set_policy(5, Policy::Mru).unwrap();
    client.cancel();
    assert_eq!(session.entries().len(), hints + 64, "the slots that hints left free");
    assert_eq!(client.priority(&files[99]).unwrap(), 100);
    // The next call, whatever it is, tells what had no room.
    client.disclose_range(&files[0], 0..1).unwrap();
    let told = session.entries();
    let position = |wanted: &Entry| told.iter().position(|entry| entry == wanted);
    for (at, file) in files.iter().enumerate() {
        let found = told.iter().any(|entry| match entry {
            Entry::SetPriority { file: named, priority } => {
                session.inode(*named) == inode(file) && *priority == at as i32 + 1
            }
            _ => false,
        });
        assert!(found, "the priority of file {at}");
    }
    assert!(position(&Entry::SetPolicy { priority: 5, policy: Policy::Mru }).is_some());
    let cancelled = position(&Entry::Cancel).unwrap();
    let disclosed = position(&Entry::Disclose { file: handle(1), range: range(0, 1) }).unwrap();
    assert!(cancelled < disclosed, "a withdrawal must not withdraw what came after it");
}

#[test]
fn a_sleeping_service_is_woken() {
    let place = Place::new();
    let service = place.listen();
    let client = place.client();
    let mut session = service.accept();
    let file = place.file("a", 1);
    client.disclose_range(&file, 0..1).unwrap();
    assert!(!session.hear().contains(&Said::Wake));
    assert!(session.consumer.sleep());
    client.disclose_range(&file, 0..1).unwrap();
    client.disclose_range(&file, 0..1).unwrap();
    assert_eq!(session.hear().iter().filter(|said| **said == Said::Wake).count(), 1);
}

#[test]
fn a_service_that_comes_later_is_told_the_directives() {
    let place = Place::new();
    let (client, file) = (place.client(), place.file("a", 1));
    client.set_priority(&file, 3).unwrap();
    client.set_policy(3, Policy::Mru).unwrap();
    // Nobody knows what has been read of it when there is somebody to be told.
    client.disclose_range(&file, 0..1).unwrap();
    let service = place.listen();
    until_connected(&client);
    let mut session = service.accept();
    let expected = [
        Said::File(1, inode(&file)),
        Said::Entry(Entry::SetPolicy { priority: 3, policy: Policy::Mru }),
        Said::Entry(Entry::SetPriority { file: handle(1), priority: 3 }),
    ];
    assert_eq!(session.hear(), expected);
}

#[test]
fn a_service_that_was_restarted_is_told_what_is_undone() {
    let place = Place::new();
    let service = place.listen();
    let client = place.client();
    let mut session = service.accept();
    let file = place.file("a", 100 * BLOCK);
    let closed = place.file("closed", 100 * BLOCK);
    let blocks = |first: u64, last: u64| first * BLOCK..last * BLOCK;
    client.set_priority(&file, 9).unwrap();
    client.disclose_range(&file, blocks(0, 50)).unwrap();
    client.cancel();
    client.disclose(&file, [blocks(0, 10), blocks(10, 20), blocks(20, 30)]).unwrap();
    client.disclose_range(&closed, blocks(0, 1)).unwrap();
    client.done_with(&file, blocks(0, 1)).unwrap();
    session.hear();
    // The program has read 15 of the 31 blocks; then the service is killed.
    session.publish(&Statistics { disclosed: 81, disclosed_ahead: 16, ..Statistics::default() });
    client.disclose_range(&file, blocks(30, 40)).unwrap();
    assert!(client.is_connected());
    drop((session, service));
    assert!(!client.is_connected());
    drop(closed);
    client.disclose_files([&file]).unwrap();
    let service = place.listen();
    until_connected(&client);
    let mut session = service.accept();
    let disclosed =
        |first, last| Entry::Disclose { file: handle(1), range: range(first * BLOCK, last * BLOCK) };
    let expected = [
        Entry::SetPriority { file: handle(1), priority: 9 },
        disclosed(10, 20),
        disclosed(20, 30),
        disclosed(30, 40),
        Entry::DiscloseFile { file: handle(1) },
    ];
    assert_eq!(session.entries(), expected);
    assert_eq!(session.files(), 1);
}

#[test]
fn what_was_withdrawn_is_not_told_to_a_new_service() {
    let place = Place::new();
    let service = place.listen();
    let (client, file) = (place.client(), place.file("a", 100));
    client.disclose_range(&file, 0..10).unwrap();
    drop((service.accept(), service));
    assert!(!client.is_connected());
    client.cancel();
    let service = place.listen();
    until_connected(&client);
    assert_eq!(service.accept().hear(), []);
}

#[test]
fn a_service_that_ends_the_session_is_left() {
    // One that is full, and one that speaks another version.
    for code in [ErrorCode::Sessions, ErrorCode::Version] {
        let place = Place::new();
        let service = place.listen();
        let client = place.client();
        let mut session = service.accept();
        session.reply(&Reply::Ended { code, text: "not with you".to_owned() });
        assert!(!client.is_connected());
        assert!(session.has_closed());
        assert_eq!(
            client.disclose(place.file("a", 100), [0..50, 60..70]).unwrap(),
            2,
            "as without a service"
        );
        assert!(service.nobody_came(), "not at once");
    }
}

#[test]
fn a_service_that_talks_nonsense_is_left() {
    let place = Place::new();
    let listener = std::os::unix::net::UnixListener::bind(place.socket()).unwrap();
    let client = place.client();
    let (mut socket, _) = listener.accept().unwrap();
    assert!(client.is_connected());
    socket.write_all(&[0xff; 100]).unwrap();
    assert!(!client.is_connected());
}

#[test]
fn a_file_that_the_service_refuses_is_not_mentioned_again() {
    let place = Place::new();
    let service = place.listen();
    let client = place.client();
    let mut session = service.accept();
    let (a, b) = (place.file("a", 1), place.file("b", 1));
    client.disclose_files([&a, &b]).unwrap();
    session.hear();
    session.refuse(1, ErrorCode::NotSteerable);
    assert!(client.is_connected());
    assert_eq!(client.disclose_files([&a, &b]).unwrap(), 2);
    client.set_priority(&a, 1).unwrap();
    assert_eq!(session.hear(), [Said::Entry(Entry::DiscloseFile { file: handle(2) })]);
    assert_eq!((client.priority(&a).unwrap(), client.stats().dropped), (1, 0));
}

#[test]
fn files_make_room_for_others_once_nothing_hangs_on_them() {
    let place = Place::new();
    let mut service = place.listen();
    service.files_limit = 3;
    let client = place.client();
    let mut session = service.accept();
    assert!(client.is_connected());
    let files: Vec<File> = (0..5).map(|at| place.file(&at.to_string(), 1)).collect();
    client.set_priority(&files[0], 1).unwrap();
    assert_eq!(client.disclose_files(&files[1..3]).unwrap(), 2);
    // What is in the ring is yet to be read, so that nobody can go.
    assert_eq!(client.disclose_files([&files[3]]).unwrap(), 0);
    session.hear();
    assert_eq!(client.disclose_files([&files[3]]).unwrap(), 1);
    let said = session.hear();
    let [Said::Forget(gone), Said::File(4, _), Said::Entry(_)] = said[..] else { panic!("{said:?}") };
    assert!(gone == 2 || gone == 3, "the file with a priority stays");
    for file in [&files[4], &files[1], &files[2], &files[3]] {
        assert_eq!(client.disclose_files([file]).unwrap(), 1);
        session.hear();
        assert!(session.files() <= 3);
    }
}

#[test]
fn many_files_are_told_in_few_messages() {
    let place = Place::new();
    let service = place.listen();
    let client = place.client();
    let files: Vec<File> = (0..600).map(|at| place.file(&at.to_string(), 1)).collect();
    // More than a socket holds messages.
    assert_eq!(client.disclose_files(&files).unwrap(), 600);
    let mut session = service.accept();
    let entries = session.entries();
    let seen: Vec<u64> = entries
        .iter()
        .map(|entry| match entry {
            Entry::DiscloseFile { file } => session.inode(*file),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(seen, files.iter().map(inode).collect::<Vec<_>>());
}

/// A service that takes nothing in holds nobody up.
#[test]
fn a_full_socket_drops_hints() {
    let place = Place::new();
    let service = place.listen();
    let client = place.client();
    let files: Vec<File> = (0..800).map(|at| place.file(&at.to_string(), 1)).collect();
    let taken = files.iter().map(|file| client.disclose_files([file]).unwrap()).sum::<usize>();
    assert!(taken < 800, "the socket holds them all");
    assert_eq!(client.stats().dropped, 800 - taken as u64);
    let mut session = service.accept();
    assert_eq!(session.entries().len(), taken);
    assert_eq!(session.files(), taken);
    assert_eq!(client.disclose_files([&files[799]]).unwrap(), 1, "there is room again");
    assert_eq!(session.files(), taken);
    session.hear();
    assert_eq!(session.files(), taken + 1);
}

#[test]
fn all_threads_are_heard() {
    const THREADS: u64 = 4;
    const EACH: u64 = 20_000;
    let place = Place::new();
    let service = place.listen();
    let client = place.client();
    let mut session = service.accept();
    let files: Vec<File> = (0..THREADS).map(|at| place.file(&at.to_string(), 1)).collect();
    let mut heard = vec![Vec::new(); THREADS as usize];
    thread::scope(|scope| {
        let workers: Vec<_> = files
            .iter()
            .map(|file| {
                let client = &client;
                scope.spawn(move || {
                    for at in 0..EACH {
                        while !client.disclose_range(file, at..at + 1).unwrap() {
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        loop {
            let finished = workers.iter().all(|worker| worker.is_finished());
            for entry in session.entries() {
                let Entry::Disclose { file, range } = entry else { panic!("{entry:?}") };
                let inode = session.inode(file);
                let thread = files.iter().position(|file| fake::inode(file) == inode).unwrap();
                heard[thread].push(range.start());
            }
            if finished {
                break;
            }
        }
    });
    for each in heard {
        assert_eq!(each, (0..EACH).collect::<Vec<_>>(), "each thread's in its order");
    }
}

#[test]
fn an_iterator_may_call_the_client() {
    let place = Place::new();
    let service = place.listen();
    let (client, file) = (place.client(), place.file("a", 1));
    let mut session = service.accept();
    let ranges = (0..100).map(|at| {
        client.done_with(&file, at..at + 1).unwrap();
        at..at + 1
    });
    assert_eq!(client.disclose(&file, ranges).unwrap(), 100);
    assert_eq!(session.entries().len(), 200);
}

#[test]
fn a_client_can_be_a_static() {
    static CLIENT: Client = Client::new();
    assert_eq!(CLIENT.policy(1), Policy::Lru);
}

#[test]
fn a_list_of_files_is_what_was_opened_and_is_still_open() {
    // Other tests of this program open files at any moment: the list is compared by name.
    let place = Place::new();
    let service = place.listen();
    let client = place.client();
    let mut session = service.accept();
    let before = place.file("before", 1);
    let list = client.file_list();
    let mut opened: Vec<File> = ["c", "a", "b"].iter().map(|name| place.file(name, 1)).collect();
    let closed = place.file("closed", 1);
    let gone = inode(&closed);
    drop(closed);
    let _written = File::create(place.socket().with_file_name("written")).unwrap();
    assert!(list.end() >= 3);
    let entries = session.entries();
    let disclosed: Vec<u64> = entries
        .iter()
        .map(|entry| match entry {
            Entry::DiscloseFile { file } => session.inode(*file),
            other => panic!("{other:?}"),
        })
        .collect();
    opened.sort_by_key(|file| file.as_raw_fd());
    let ours: Vec<u64> = opened.iter().map(inode).collect();
    let found: Vec<u64> = disclosed.iter().copied().filter(|inode| ours.contains(inode)).collect();
    assert_eq!(found, ours, "in the order of their numbers");
    assert!(!disclosed.contains(&inode(&before)) && !disclosed.contains(&gone));
}

#[test]
fn the_fallback_reads_ahead_and_drops() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("file");
    let mut file = File::create(&path).unwrap();
    file.write_all(&vec![1; 64 << 10]).unwrap();
    file.sync_all().unwrap();
    let file = File::open(&path).unwrap();
    let options = Options { socket: dir.path().join("socket"), fallback: Fallback::Fadvise };
    let client = Client::with_options(options);
    let is_cached = || {
        let mut byte = [0];
        let into = &mut [std::io::IoSliceMut::new(&mut byte)];
        rustix::io::preadv2(&file, into, 32 << 10, rustix::io::ReadWriteFlags::NOWAIT).is_ok()
    };
    client.done_with(&file, 0..64 << 10).unwrap();
    assert!(!is_cached());
    assert!(client.disclose_range(&file, 0..64 << 10).unwrap());
    while !is_cached() {
        thread::yield_now();
    }
    client.done_with(&file, 0..64 << 10).unwrap();
    assert!(!is_cached());
}
