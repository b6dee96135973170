//! What the doctor finds where everything works, and where nothing is permitted.
#![allow(clippy::unwrap_used)]

use foretell_pagecache::doctor::{Mechanism, examine, missing_for_run};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

fn find<'a>(mechanisms: &'a [Mechanism], name: &str) -> &'a Mechanism {
    mechanisms.iter().find(|mechanism| mechanism.name.contains(name)).unwrap()
}

/// Runs `work` in a thread that has no capability.
fn unprivileged<T: Send + 'static>(work: fn() -> T) -> T {
    std::thread::spawn(move || {
        let none = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
            .unwrap();
        work()
    })
    .join()
    .unwrap()
}

#[test]
fn what_fails_is_explained() {
    for mechanism in examine().iter().chain(&unprivileged(examine)) {
        assert!(!mechanism.detail.is_empty() && !mechanism.detail.contains('\n'), "{mechanism:?}");
        assert!(mechanism.works || !mechanism.used, "{mechanism:?}");
        assert!(!mechanism.works || mechanism.remedy.is_none(), "{mechanism:?}");
    }
}

#[test]
fn nothing_is_missing_if_and_only_if_reads_are_seen() {
    let mechanisms = examine();
    let round_trip = find(&mechanisms, "ring buffer");
    assert_eq!(missing_for_run().is_none(), round_trip.works);
    if !round_trip.works {
        println!("skipped: nothing_is_missing_if_and_only_if_reads_are_seen: {}", round_trip.detail);
        return;
    }
    // The parts without which a read could not have been seen.
    for name in ["privileges", "process numbers", "BTF", "mm_filemap_add_to_page_cache", "sched_process_fork"]
    {
        assert!(find(&mechanisms, name).works, "{:?}", find(&mechanisms, name));
    }
}

#[test]
fn without_privileges_it_names_them() {
    let missing = unprivileged(missing_for_run).unwrap();
    assert!(missing.contains("CAP_BPF and CAP_PERFMON"), "{missing}");
    assert!(!missing.contains('\n'), "{missing}");
    let mechanisms = unprivileged(examine);
    for name in ["privileges", "ring buffer", "mm_filemap_get_pages"] {
        let mechanism = find(&mechanisms, name);
        assert!(!mechanism.works && mechanism.remedy.as_ref().unwrap().contains("root"), "{mechanism:?}");
    }
    // What needs no privilege works all the same.
    assert!(find(&mechanisms, "cachestat").works || !find(&examine(), "cachestat").works);
}
