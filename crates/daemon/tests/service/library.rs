//! Programs that use the client library: what they say has its effect, also on a service that was restarted.

use std::fs::File;
use std::time::{Duration, Instant};

use foretell_client::{Client, Fallback, Options, Policy, Stats};

use crate::stage::{BLOCK, Stage, read_blocks, stage};

fn client(stage: &Stage) -> Client {
    Client::with_options(Options { socket: stage.socket(), fallback: Fallback::Nothing })
}

/// Looks until something is so.
fn until(client: &Client, what: &str, is_so: impl Fn(&Stats) -> bool) -> Stats {
    let start = Instant::now();
    loop {
        let stats = client.stats();
        if is_so(&stats) {
            return stats;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "never: {what}: {stats:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_the_library_discloses_is_fetched() {
    let Some(stage) = stage("what_the_library_discloses_is_fetched") else { return };
    let (first, second) = (stage.file("a", 32), stage.file("b", 64));
    let service = stage.service(128);
    let client = client(&stage);
    // At once, as the first thing said.
    let files = [&first, &second].map(|path| File::open(path).unwrap());
    assert_eq!(client.disclose_list([(&files[1], 0..8 * BLOCK), (&files[0], 0..32 * BLOCK)]).unwrap(), 2);
    assert_eq!(client.disclose_files([&files[1]]).unwrap(), 1);
    let stats = until(&client, "all is fetched", |stats| stats.statistics.prefetches == 96);
    assert_eq!((stats.sent, stats.dropped, stats.statistics.disclosed), (3, 0, 104));
    read_blocks(&second, 0..8);
    read_blocks(&first, 0..32);
    read_blocks(&second, 0..64);
    let stats = until(&client, "all is read", |stats| stats.statistics.references == 104);
    assert_eq!((stats.statistics.disclosed_ahead, stats.statistics.demand_fetches), (0, 0));
    service.end();
}

#[test]
fn a_service_that_was_killed_and_restarted_is_told_again() {
    let Some(stage) = stage("a_service_that_was_killed_and_restarted_is_told_again") else { return };
    let (path, later) = (stage.file("a", 128), stage.file("b", 32));
    let service = stage.service(64);
    let client = client(&stage);
    let (file, other) = (File::open(&path).unwrap(), File::open(&later).unwrap());
    client.set_policy(3, Policy::Mru).unwrap();
    client.set_priority(&file, 3).unwrap();
    client.disclose_files([&other]).unwrap();
    until(&client, "all is taken", |stats| stats.statistics.disclosed == 32);
    service.kill();
    // Nobody there: nothing is held up, nothing fails.
    until(&client, "it is noticed", |stats| !stats.connected);
    client.done_with(&file, 0..BLOCK).unwrap();
    assert_eq!(client.priority(&file).unwrap(), 3);
    let service = stage.service(64);
    let stats = until(&client, "all is told again", |stats| stats.statistics.disclosed == 32);
    assert_eq!(stats.statistics.entries_refused, 0);
    client.cancel();
    for _ in 0..3 {
        read_blocks(&path, 0..128);
    }
    let stats = until(&client, "all is read", |stats| stats.statistics.references >= 3 * 128);
    // LRU would find nothing of a cycle that is longer than the cache.
    assert!(stats.statistics.hits > 60, "{stats:?}");
    service.end();
}
