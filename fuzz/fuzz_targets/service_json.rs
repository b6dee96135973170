//! What is said to the service as JSON, and what it says: requests for a run and for the state, replies, snapshots. What
//! is understood is written and read back the same; who looks at a snapshot sees nobody else's rows.

#![no_main]

use foretelld::{RunReply, RunRequest, Snapshot, StatusRequest};
use libfuzzer_sys::fuzz_target;

/// Bytes of a snapshot without rows, at most, its version excepted.
const NO_ROWS_BYTES: usize = 4096;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = serde_json::from_slice::<RunRequest>(bytes) {
        let written = serde_json::to_string(&request).expect("a request is JSON");
        assert_eq!(serde_json::from_str::<RunRequest>(&written).expect(&written), request);
    }
    if let Ok(request) = serde_json::from_slice::<StatusRequest>(bytes) {
        let written = serde_json::to_string(&request).expect("a request is JSON");
        assert_eq!(serde_json::from_str::<StatusRequest>(&written).expect(&written), request);
    }
    // Not compared: decimal fractions may change in their last digit.
    if let Ok(reply) = serde_json::from_slice::<RunReply>(bytes) {
        let written = serde_json::to_string(&reply).expect("a reply is JSON");
        serde_json::from_str::<RunReply>(&written).expect(&written);
    }
    if let Ok(snapshot) = serde_json::from_slice::<Snapshot>(bytes) {
        let most = NO_ROWS_BYTES + 6 * snapshot.version.len();
        assert!(snapshot.clone().to_json(most).len() <= most);
        let seen = snapshot.visible_to(7);
        assert!(seen.sessions.iter().all(|session| session.user == 7));
        assert!(seen.cache.managers.iter().all(|manager| manager.user == 7));
        assert!(seen.cache.processes.iter().all(|process| process.user == 7 && !process.foreign));
        let written = seen.to_json(usize::MAX);
        serde_json::from_str::<Snapshot>(&written).expect(&written);
    }
});
