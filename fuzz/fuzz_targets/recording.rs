//! A recording: bytes that begin as one are taken for a file, all others for the events in one, which get a
//! frame and a sum that are right. What is understood is written and reads back the same, and can be cut into
//! lanes that lack nothing and compared with itself.

#![no_main]

use std::path::Path;

use foretell_fuzz::one_line;
use foretell_recording::{
    Event, FileNumber, Recording, RoleId, Writer, agreement, agreement_in_order, is_recording, lanes,
};
use libfuzzer_sys::fuzz_target;

/// Magic and version.
const BEGINNING: &[u8] = b"foretell-recording\0\x01\0";

/// Pages beyond which a comparison takes too long for a fuzzer.
const MAX_PAGES: u64 = 1 << 16;

fn packed(events: &[u8]) -> Vec<u8> {
    let mut file = BEGINNING.to_vec();
    file.extend_from_slice(&zstd::encode_all(events, 1).expect("memory"));
    let sum = file.iter().fold(0xcbf2_9ce4_8422_2325, |sum: u64, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    file.extend_from_slice(&sum.to_le_bytes());
    file
}

fn written(path: &Path, recording: &Recording) {
    let mut writer = Writer::create(path).expect("a new file");
    let Recording { roles, files, accesses, facts, summary } = recording;
    let roles = roles.iter().enumerate().map(|(n, role)| Event::Role(RoleId(n as u32), role.clone()));
    let files = files.iter().enumerate().map(|(n, file)| Event::File(FileNumber(n as u32), file.clone()));
    let accesses = accesses.iter().map(|access| Event::Access(*access));
    let facts = facts.iter().map(|fact| Event::Fact(*fact));
    for event in roles.chain(files).chain(accesses).chain(facts) {
        writer.write(&event).expect("what was read can be written");
    }
    writer.finish(*summary).expect("a new file");
}

fuzz_target!(|bytes: &[u8]| {
    let packed = if is_recording(bytes) { bytes.to_vec() } else { packed(bytes) };
    let recording = match Recording::read_from(Path::new("fuzz"), &packed[..]) {
        Ok(recording) => recording,
        Err(e) => return one_line(&e),
    };
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("again");
    written(&path, &recording);
    assert_eq!(Recording::read(&path).expect("just written"), recording);

    let lanes = lanes(&recording);
    assert_eq!(lanes.iter().map(|lane| lane.accesses.len()).sum::<usize>(), recording.accesses.len());
    let pages: u64 = recording.accesses.iter().map(|access| u64::from(access.pages)).sum();
    if pages <= MAX_PAGES {
        let same = agreement(&recording, &recording);
        let in_order = agreement_in_order(&recording, &recording);
        assert!(in_order <= same && same <= 1.0 + f64::EPSILON, "{in_order} {same}");
    }
});
