//! A device file: what passes the check can be simulated, and every request takes its time and ends.

#![no_main]

use foretell_device::{Class, Device, DeviceEvent, DeviceParameters, Discipline, Model, Request};
use foretell_fuzz::one_line;
use libfuzzer_sys::fuzz_target;

/// The seek curve is looked at cylinder by cylinder: more of them only take longer.
const MAX_CYLINDERS: u32 = 20_000;

fuzz_target!(|text: &str| {
    let parameters = match DeviceParameters::parse(text) {
        Ok(parameters) => parameters,
        Err(e) => return one_line(&e),
    };
    assert_eq!(parameters.check(), Ok(()));
    if matches!(&parameters.model, Model::Disk(disk) if disk.geometry.cylinders > MAX_CYLINDERS) {
        return;
    }
    let sectors = parameters.capacity_sectors();
    let mut device = Device::new(&parameters, Discipline::Cscan);
    let mut waiting = 0;
    for id in 0..16 {
        let sector = sectors / 16 * (id * 7 % 16);
        let length = u32::try_from(sectors - sector).unwrap_or(u32::MAX).min(64);
        let class = if id % 5 == 0 { Class::Prefetch } else { Class::Demand };
        let request = Request { id, sector, sectors: length, write: id % 3 == 0, class };
        waiting += u32::from(length > 0);
        assert_eq!(device.submit(0, request).is_ok(), length > 0);
    }
    let mut now_ns = 0;
    while let Some(next_ns) = device.next_event_ns() {
        assert!(next_ns >= now_ns);
        now_ns = next_ns;
        device.advance(now_ns);
        while let Some(event) = device.poll() {
            if let DeviceEvent::Completed(done) = event {
                assert!(done.arrived_ns <= done.started_ns && done.started_ns <= done.finished_ns);
                assert!(done.finished_ns <= now_ns);
                waiting -= 1;
            }
        }
    }
    assert_eq!(waiting, 0);
});
