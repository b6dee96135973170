//! The service as the systemd unit starts it: as a user of its own with a few capabilities. It must do for
//! every client all that it does as root, also for files of root's that its own user may not read.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use foretell_protocol::{Entry, Policy};
use foretelld::Limits;

use crate::client::{Client, range};
use crate::stage::{BLOCK, NO_BROKER, Stage, read_blocks, stage};

/// The unit.
fn unit() -> String {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/foretelld.service");
    std::fs::read_to_string(unit).unwrap()
}

/// What the unit gives but for some, as setpriv(1) wants it.
fn capabilities_but(left_out: &[&str]) -> String {
    let unit = unit();
    let values = |key: &str| -> Vec<String> {
        let line = unit.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.split(' ').map(|name| name.strip_prefix("CAP_").unwrap().to_lowercase()).collect()
    };
    let ambient = values("AmbientCapabilities=");
    assert_eq!(ambient, values("CapabilityBoundingSet="));
    assert!(left_out.iter().all(|name| ambient.iter().any(|given| given == name)), "{ambient:?}");
    let given = ambient.iter().filter(|name| !left_out.contains(&name.as_str()));
    given.map(|name| format!(",+{name}")).collect()
}

/// Names the system calls that a service keeps beforehand, separated by blanks.
const CALLS: &str = "FORETELLD_TEST_CALLS";

/// The system calls that the unit leaves, as this systemd understands it; `None` where there is none to be asked.
fn calls_of_unit() -> Option<BTreeSet<String>> {
    let unit = unit();
    let mut calls = BTreeSet::new();
    for words in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let (names, taken) = match words.strip_prefix('~') {
            Some(names) => (names, true),
            None => (words, false),
        };
        for call in expanded(names.split(' ').map(str::to_owned).collect())? {
            if taken {
                calls.remove(&call)
            } else {
                calls.insert(call)
            };
        }
    }
    Some(calls)
}

/// Names of calls, with those that are in the sets among them (`@system-service`).
fn expanded(mut names: Vec<String>) -> Option<BTreeSet<String>> {
    let mut calls = BTreeSet::new();
    while let Some(name) = names.pop() {
        if !name.starts_with('@') {
            calls.insert(name);
            continue;
        }
        let mut analyze = Command::new("systemd-analyze");
        let output = analyze.args(["--no-pager", "syscall-filter", &name]).output().ok()?;
        let told = String::from_utf8(output.stdout).unwrap();
        // The name, then what is in it: each on a line of its own, indented, as are notes.
        let inside = told.lines().filter_map(|line| line.strip_prefix("    "));
        names.extend(inside.filter(|line| !line.starts_with('#')).map(str::to_owned));
    }
    Some(calls)
}

/// In the service's process: gives up all calls but those that [`CALLS`] names, as systemd does for the unit.
pub(crate) fn keep_calls() {
    let Ok(names) = std::env::var(CALLS) else { return };
    let compiled = |names: &[&str]| {
        let calls: Vec<_> = names.iter().map(|name| serde_json::json!({ "syscall": name })).collect();
        let filter = serde_json::json!({ "all": {
            "mismatch_action": { "errno": ENOSYS }, "match_action": "allow", "filter": calls,
        }});
        let arch = std::env::consts::ARCH.try_into().unwrap();
        seccompiler::compile_from_json(filter.to_string().as_bytes(), arch)
    };
    // The sets are those of all machines.
    let here: Vec<&str> = names.split(' ').filter(|name| compiled(&[name]).is_ok()).collect();
    seccompiler::apply_filter_all_threads(&compiled(&here).unwrap()["all"]).unwrap();
}

/// What the unit answers to a call that it does not leave.
const ENOSYS: i32 = 38;

#[test]
fn the_calls_of_the_unit_suffice() {
    let test = "the_calls_of_the_unit_suffice";
    assert!(unit().lines().any(|line| line == "SystemCallErrorNumber=ENOSYS"));
    let Some(calls) = calls_of_unit() else {
        println!("skipped: {test}: there is no systemd-analyze");
        return;
    };
    assert!(calls.len() > 100 && !calls.contains("keyctl"), "{calls:?}");
    let Some(stage) = stage_with_setpriv(test) else { return };
    let path = stage.file("a", 64);
    let calls: Vec<String> = calls.into_iter().collect();
    let set = |command: &mut Command| {
        command.env(CALLS, calls.join(" "));
    };
    let service = stage.service_as_nobody_with(128, Limits::default(), &capabilities_but(&[]), set);
    let mut client = Client::connect(&service.socket);
    let file = client.name_path(1, &path);
    client.push(Entry::DiscloseFile { file });
    client.until("what is missing is fetched", |s| s.prefetches >= 64);
    service.end();
}

#[test]
fn the_unit_gives_what_the_service_keeps() {
    let kept = foretelld::NEEDED_CAPABILITIES.join(" ");
    assert!(unit().lines().any(|line| line == format!("CapabilityBoundingSet={kept}")), "{kept}");
}

#[test]
fn started_by_root_it_keeps_what_it_needs_and_no_thread_has_more() {
    let Some(stage) = stage("started_by_root_it_keeps_what_it_needs_and_no_thread_has_more") else { return };
    let service = stage.service(64);
    // BPF, PERFMON, SYS_NICE, FOWNER (`include/uapi/linux/capability.h`).
    let needed = 1_u64 << 39 | 1 << 38 | 1 << 23 | 1 << 3;
    let threads = service.proc_status();
    assert!(threads.len() > 2);
    for status in threads {
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":"));
            line.unwrap_or_else(|| panic!("{name}: {status}")).trim().to_owned()
        };
        let capabilities = |name: &str| u64::from_str_radix(&field(name), 16).unwrap();
        // The first thread is that of the tests' harness, which has started the one that serves.
        if field("Pid") != field("Tgid") {
            for set in ["CapEff", "CapPrm", "CapBnd"] {
                assert_eq!(capabilities(set) & !needed, 0, "{set}: {status}");
            }
            assert_eq!((capabilities("CapInh"), capabilities("CapAmb")), (0, 0));
        }
        // A filter (`SECCOMP_MODE_FILTER`).
        assert_eq!((field("NoNewPrivs"), field("Seccomp")), ("1".to_owned(), "2".to_owned()), "{status}");
    }
    // What opens files and looks at programs: SYS_NICE, SYS_PTRACE, FOWNER, DAC_READ_SEARCH, and no file of the service's.
    let broker = service.helper("foretell-broker");
    let status = std::fs::read_to_string(format!("/proc/{broker}/status")).unwrap();
    for line in ["CapEff:\t000000000088000c", "CapPrm:\t000000000088000c", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.lines().any(|found| found == line), "{line}: {status}");
    }
    let open = std::fs::read_dir(format!("/proc/{broker}/fd")).unwrap();
    let open = open.map(|link| std::fs::read_link(link.unwrap().path()).unwrap());
    assert!(open.into_iter().all(|to| to.to_string_lossy().starts_with("socket:")));
    // What restores readahead needs one thing only.
    let guard =
        std::fs::read_to_string(format!("/proc/{}/status", service.helper("foretell-guard"))).unwrap();
    for line in ["CapEff:\t0000000000080000", "CapPrm:\t0000000000080000", "NoNewPrivs:\t1"] {
        assert!(guard.lines().any(|found| found == line), "{line}: {guard}");
    }
    service.end();
}

#[test]
fn without_its_broker_the_service_ends_and_the_next_one_serves() {
    let Some(stage) = stage("without_its_broker_the_service_ends_and_the_next_one_serves") else { return };
    let path = stage.file("a", 64);
    let service = stage.service(128);
    let broker = rustix::process::Pid::from_raw(service.helper("foretell-broker").cast_signed());
    rustix::process::kill_process(broker.unwrap(), rustix::process::Signal::KILL).unwrap();
    assert_eq!(service.ended().code(), Some(NO_BROKER));
    let service = stage.service(128);
    let mut client = Client::connect(&service.socket);
    let file = client.name_path(1, &path);
    client.push(Entry::DiscloseFile { file });
    client.until("what is missing is fetched", |s| s.prefetches >= 64);
    service.end();
}

/// The stage, if it can be had and there is setpriv(1).
fn stage_with_setpriv(test: &str) -> Option<Stage> {
    let stage = stage(test)?;
    if Command::new("setpriv").arg("--version").output().is_err() {
        println!("skipped: {test}: there is no setpriv");
        return None;
    }
    Some(stage)
}

#[test]
fn systemd_understands_the_unit() {
    let test = "systemd_understands_the_unit";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foretelld.service");
    // The program need not be installed.
    std::fs::write(&path, unit().replace("ExecStart=/usr/bin/foretelld", "ExecStart=/bin/true")).unwrap();
    let mut verify = Command::new("systemd-analyze");
    let Ok(output) = verify.args(["verify", "--man=no"]).arg(&path).output() else {
        println!("skipped: {test}: there is no systemd-analyze");
        return;
    };
    let told = String::from_utf8(output.stderr).unwrap();
    // It succeeds also when it knows a key not, and says so.
    let about_it: Vec<&str> = told.lines().filter(|line| line.contains("foretelld")).collect();
    assert!(output.status.success() && about_it.is_empty(), "{told}");
}

#[test]
fn the_unit_is_as_closed_as_it_is_said_to_be() {
    let test = "the_unit_is_as_closed_as_it_is_said_to_be";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("foretelld.service");
    std::fs::write(&path, unit().replace("ExecStart=/usr/bin/foretelld", "ExecStart=/bin/true")).unwrap();
    // Ten times the level, which systemd gives from 0 (closed) to 10.
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=true", "--threshold=20", "--no-pager"]).arg(&path);
    let Ok(output) = security.output() else {
        println!("skipped: {test}: there is no systemd-analyze");
        return;
    };
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let why = String::from_utf8_lossy(&output.stderr).into_owned();
    if why.contains("unrecognized option") {
        println!("skipped: {test}: this systemd-analyze cannot look at a file (systemd 250 can)");
        return;
    }
    assert!(output.status.success(), "{told}{why}");
    let unit = unit();
    for line in [
        "SystemCallArchitectures=native",
        "ProtectClock=yes",
        "ProtectHostname=yes",
        "ProtectKernelLogs=yes",
        "ProtectKernelTunables=yes",
        "PrivateMounts=yes",
        "UMask=0077",
        "LimitCORE=0",
        "IPAddressDeny=any",
    ] {
        assert!(unit.lines().any(|found| found == line), "{line}");
    }
    for key in ["SystemCallFilter=", "MemoryMax=", "TasksMax="] {
        assert!(unit.lines().any(|found| found.starts_with(key)), "{key}");
    }
}

#[test]
fn without_a_capability_to_observe_it_does_not_begin_and_says_which() {
    let test = "without_a_capability_to_observe_it_does_not_begin_and_says_which";
    let Some(stage) = stage_with_setpriv(test) else { return };
    for name in ["bpf", "perfmon"] {
        let told = stage.refusal_as_nobody(&capabilities_but(&[name]));
        assert!(told.contains(&format!("CAP_{}", name.to_uppercase())), "{told}");
    }
}

/// `mincore(2)` answers "everything" to those who may not ask, so what is missing is not fetched.
#[test]
fn without_fowner_everything_seems_to_be_cached() {
    let test = "without_fowner_everything_seems_to_be_cached";
    let Some(stage) = stage_with_setpriv(test) else { return };
    let path = stage.file("a", 64);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    read_blocks(&path, 0..4);
    let service = stage.service_as_nobody(128, Limits::default(), &capabilities_but(&["fowner"]));
    let mut client = Client::connect(&service.socket);
    let file = client.name_path(1, &path);
    client.push(Entry::DiscloseFile { file });
    let statistics = client.until("it is disclosed", |s| s.disclosed >= 64);
    assert_eq!(statistics.prefetches, 0, "{statistics:?}");
    service.end();
}

#[test]
fn the_capabilities_of_the_unit_suffice() {
    let Some(stage) = stage_with_setpriv("the_capabilities_of_the_unit_suffice") else { return };
    let (path, other) = (stage.file("a", 64), stage.file("b", 256));
    for path in [&path, &other] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    // Some of it is cached beforehand, which the service must find out about.
    read_blocks(&path, 0..4);
    let service = stage.service_as_nobody(128, Limits::default(), &capabilities_but(&[]));
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
