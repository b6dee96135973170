//! The service as the systemd unit starts it: as a user of its own with a few capabilities. It must do for
//! every client all that it does as root, also for files of root's that its own user may not read.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use foretell_protocol::{Entry, Policy};
use foretelld::Limits;

use crate::client::{Client, range};
use crate::stage::{BLOCK, read_blocks, stage};

/// What the unit gives, as setpriv(1) wants it.
fn capabilities() -> String {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/foretelld.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let values = |key: &str| -> Vec<String> {
        let line = unit.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.split(' ').map(|name| name.strip_prefix("CAP_").unwrap().to_lowercase()).collect()
    };
    let ambient = values("AmbientCapabilities=");
    assert_eq!(ambient, values("CapabilityBoundingSet="));
    ambient.iter().map(|name| format!(",+{name}")).collect()
}

#[test]
fn the_capabilities_of_the_unit_suffice() {
    let test = "the_capabilities_of_the_unit_suffice";
    let Some(stage) = stage(test) else { return };
    if std::process::Command::new("setpriv").arg("--version").output().is_err() {
        println!("skipped: {test}: there is no setpriv");
        return;
    }
    let (path, other) = (stage.file("a", 64), stage.file("b", 256));
    for path in [&path, &other] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    // Some of it is cached beforehand, which the service must find out about.
    read_blocks(&path, 0..4);
    let service = stage.service_as_nobody(128, Limits::default(), &capabilities());
    let mut client = Client::connect(&service.socket);
    let file = client.name_path(1, &path);
    client.push(Entry::DiscloseFile { file });
    let statistics = client.until("what is missing is fetched", |s| s.prefetches >= 60);
    assert_eq!((statistics.prefetches, statistics.disclosed), (60, 64), "four blocks were there");
    read_blocks(&path, 0..64);
    client.until("it is read", |s| s.references >= 64);
    client.push(Entry::DoneWith { file, range: range(0, 64 * BLOCK) });
    client.until("it has gone", |s| s.owned == 0);
    let files = service.until("nothing of it is cached", |s| s.cache.files[0].cached_bytes == 0);
    assert_eq!(files.cache.files[0].path, path);

    let scanned = client.name_path(2, &other);
    client.push(Entry::SetPolicy { priority: 1, policy: Policy::Mru });
    client.push(Entry::SetPriority { file: scanned, priority: 1 });
    client.statistics();
    for _ in 0..2 {
        read_blocks(&other, 0..256);
    }
    let statistics = client.until("it is read twice", |s| s.references >= 64 + 512);
    assert!(statistics.hits > 64, "{statistics:?}");
    assert_eq!(service.snapshot().cache.counts.evictions_refused, 0);
    service.end();
}
