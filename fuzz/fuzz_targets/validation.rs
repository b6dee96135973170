//! A measured DiskSim validation trace: records come in the order of their lines with numbers in range, and
//! replaying them gives a demerit figure that is a number.

#![no_main]

use foretell_device::validation::{Record, Records, replay};
use foretell_device::{Device, Discipline, catalogue};
use foretell_fuzz::one_line;
use libfuzzer_sys::fuzz_target;

const DAY_NS: u64 = 86_400_000_000_000;

fuzz_target!(|bytes: &[u8]| {
    let mut line = 0;
    let mut records = Records::new(bytes);
    for record in records.by_ref() {
        match record {
            Ok(Record { line: at, sectors, service_ns, think_ns, .. }) => {
                assert!(at > line && sectors > 0 && service_ns <= DAY_NS && think_ns <= DAY_NS);
                line = at;
            }
            Err(e) => one_line(&e),
        }
    }
    assert!(records.next().is_none());

    let drive = catalogue::find("hp97560").expect("a built-in drive");
    match replay(&mut Device::new(&drive, Discipline::Fcfs), Records::new(bytes)) {
        Ok(comparison) => assert!(comparison.demerit_ns >= 0.0 && comparison.modelled_mean_ns > 0.0),
        Err(e) => one_line(&e),
    }
});
